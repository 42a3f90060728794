//! [`Series`]: several streams of one table.

use std::collections::BTreeMap;

use tidegate::kernel::{Epsilon, SeededRandom, VaultKey};
use tidegate::release::{Release, Spent};
use tidegate::series::{ReleasedBySeries, Series};
use tidegate::spec::{SpecError, StreamSpec};
use tidegate::stream::StreamError;

const CENTRAL: &str = r#"
    mechanism = "central.ba"
    epsilon = 1.0
    window = 4
    domain = ["x", "y"]
    series_names = ["north", "south"]
    across_series = 2
"#;

fn spec(toml: &str) -> StreamSpec {
    toml::from_str(toml).unwrap()
}

fn series(toml: &str) -> Series {
    Series::new(spec(toml)).unwrap()
}

/// Releases with the number of their series.
fn drained(out: &mut ReleasedBySeries) -> Vec<(usize, Release)> {
    let mut releases = Vec::new();
    out.drain(|number, released| releases.extend(released.releases.drain(..).map(|release| (number, release))));
    releases
}

/// Releases of timestamps in which two users are in both series.
fn run(series: &mut Series, timestamps: std::ops::Range<u64>) -> Vec<(usize, Release)> {
    let (random, mut out) = (&mut SeededRandom::new(3), ReleasedBySeries::default());
    let mut releases = Vec::new();
    for timestamp in timestamps {
        for number in 0..series.streams().len() {
            if series.spec().values().unwrap().is_none() {
                let entry = series.streams()[number].reading(timestamp, "7").unwrap();
                series.push_into(number, entry, random, &mut out).unwrap();
            } else {
                for (user, value) in [("ann", timestamp / 5 % 2), ("bob", 1)] {
                    series.push_value(number, (timestamp, user, value as u32), random, &mut out).unwrap();
                }
            }
        }
        releases.extend(drained(&mut out));
    }
    series.finish(random, &mut out).unwrap();
    releases.extend(drained(&mut out));
    releases
}

/// The most that one person spends within a window, over all series.
fn most_spent(releases: &[(usize, Release)], window: u64) -> u64 {
    let mut spends: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, release) in releases {
        let units = match &release.spent {
            Spent::Nothing => 0,
            Spent::Everyone(epsilon) => epsilon.units(),
            other => panic!("{other:?}"),
        };
        *spends.entry(release.timestamp).or_default() += units;
    }
    spends.keys().map(|first| spends.range(first..&(first + window)).map(|(_, units)| units).sum()).max().unwrap()
}

#[test]
fn one_person_in_two_series_spends_at_most_the_stated_epsilon() {
    for (toml, window, exact) in [
        ("mechanism = \"central.uniform\"\nepsilon = 1.0\nwindow = 4\ndomain = 2", 4, true),
        ("mechanism = \"central.ba\"\nepsilon = 1.0\nwindow = 4\ndomain = 2", 4, false),
        ("mechanism = \"local.lbu\"\nepsilon = 1.0\nwindow = 4\ndomain = 2\npopulation = 2", 4, true),
        (
            "mechanism = \"scalar.laplace\"\nepsilon = 1.0\ndomain = { low = 0, high = 9 }\nprotects = \"reading\"",
            1,
            true,
        ),
    ] {
        let toml = format!("{toml}\nseries_names = [\"north\", \"south\"]\nacross_series = 2\n");
        let mut both = series(&toml);
        let spent = most_spent(&run(&mut both, 0..24), window);
        let stated = Epsilon::budget(1.0).unwrap().units();
        assert!(if exact { spent == stated } else { spent <= stated && spent > stated / 2 }, "{spent}: {toml}");
        let budgets: u64 = both.streams().iter().map(|stream| stream.budgets(24)[0].epsilon.units()).sum();
        assert_eq!(budgets, stated, "each series has half");
        let alone = series(&toml.replace("across_series = 2", "across_series = 1"));
        assert_eq!(alone.streams()[0].budgets(0)[0].epsilon.units(), stated, "nobody is in both");
    }
}

#[test]
fn every_epsilon_of_a_spec_is_divided() {
    let divided = |toml: &str| {
        let toml = format!("series_names = [\"a\", \"b\", \"c\"]\nacross_series = 3\n{toml}");
        let budgets = series(&toml).streams()[2].budgets(0);
        budgets.iter().map(|budget| budget.epsilon.to_string()).collect::<Vec<_>>().join(" ")
    };
    let classes = "[[classes]]\nname = \"a\"\nepsilon = 0.3\nwindow = 2\n[[classes]]\nname = \"b\"\nepsilon = 1.0\n\
                   window = 3";
    assert_eq!(divided(&format!("mechanism = \"central.pba\"\ndomain = 2\n{classes}")), "0.1 0.333333333");
    assert_eq!(divided(&format!("mechanism = \"local.plbu\"\ndomain = 2\n{classes}")), "0.1 0.333333333");
    assert_eq!(divided("mechanism = \"sequence.rr\"\nepsilon = 0.6\ndomain = 2"), "0.2");
    let small = "mechanism = \"central.ba\"\nepsilon = 0.000000001\nwindow = 1\ndomain = 2\nseries_names = \
                 [\"a\", \"b\"]\nacross_series = \"all\"";
    assert!(Series::new(spec(small)).unwrap_err().to_string().contains("is too small an epsilon"));
}

#[test]
fn sequence_information_privacy_is_not_added_up() {
    let model = "[model]\nprior = [0.5, 0.5]\ntransitions = [[0.9, 0.1], [0.1, 0.9]]";
    let of = |keys: &str| {
        let toml = format!(
            "mechanism = \"sequence.crr\"\nepsilon = 1.0\ndomain = 2\nseries_names = [\"a\", \"b\"]\n{keys}\n{model}"
        );
        Series::new(spec(&toml)).map(drop)
    };
    let refused = of("across_series = 2").unwrap_err();
    assert!(matches!(&refused, SpecError::Input { key: "across_series", problem } if problem.contains("guarantee")));
    assert!(of("across_series = 1\nguarantee = \"local\"").is_err());
    assert_eq!(of("across_series = 2\nguarantee = \"local\""), Ok(()));
}

#[test]
fn a_user_in_more_series_than_declared_is_refused() {
    let mut series = series(&CENTRAL.replace("across_series = 2", "across_series = 1"));
    let (random, out) = (&mut SeededRandom::new(1), &mut ReleasedBySeries::default());
    series.push_value(0, (0, "ann", 0), random, out).unwrap();
    series.push_value(1, (0, "bob", 0), random, out).unwrap();
    for timestamp in 0..4 {
        match series.push_value(1, (timestamp, "ann", 0), random, out).unwrap_err() {
            StreamError::Entry { field, expected } => {
                assert_eq!(field, "user");
                assert!(
                    expected.starts_with("a user who is in at most 1 series within any 4 timestamps"),
                    "{expected}"
                );
            }
            other => panic!("{other}"),
        }
    }
    series.push_value(1, (4, "ann", 0), random, out).unwrap();
    assert!(series.push_value(0, (5, "ann", 0), random, out).is_err(), "now the other one is taken");
}

#[test]
fn a_series_without_entries_is_released_too() {
    let mut series = series(CENTRAL);
    let (random, mut out) = (&mut SeededRandom::new(1), ReleasedBySeries::default());
    for timestamp in [0, 1, 3] {
        series.push_value(1, (timestamp, "ann", 0), random, &mut out).unwrap();
    }
    series.finish(random, &mut out).unwrap();
    let order: Vec<(u64, usize)> =
        drained(&mut out).into_iter().map(|(number, release)| (release.timestamp, number)).collect();
    assert_eq!(order, [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0), (3, 1)]);
    assert!(series.push_value(0, (3, "bob", 0), random, &mut out).is_err(), "timestamp 3 is over in all series");
}

#[test]
fn a_saved_state_goes_on_with_the_budgets_of_all_series() {
    let limited = CENTRAL.replace("across_series = 2", "across_series = 1");
    let (random, out) = (&mut SeededRandom::new(1), &mut ReleasedBySeries::default());
    let mut first = series(&limited);
    for timestamp in 0..3 {
        first.push_value(0, (timestamp, "ann", 0), random, out).unwrap();
    }
    first.finish(random, out).unwrap();
    let saved = first.save(None).unwrap();
    let spent = |series: &Series| -> Vec<_> { series.streams().iter().map(|stream| stream.budgets(3)).collect() };
    let mut second = Series::load(spec(&limited), &saved, None).unwrap();
    assert_eq!(spent(&second), spent(&first));
    assert!(spent(&second).iter().all(|budgets| budgets[0].spent.is_some()));
    assert!(second.push_value(1, (3, "ann", 0), random, out).is_err(), "the first run saw her in the other series");
    let names: Vec<_> = Series::balance(spec(&limited), &saved, None).unwrap();
    assert_eq!(names.iter().map(|(name, _)| name.as_deref().unwrap()).collect::<Vec<_>>(), ["north", "south"]);
    // A series that is declared later begins with a whole budget; the numbers of the others may change.
    let more = limited.replace("[\"north\", ", "[\"east\", \"north\", ");
    let third = Series::load(spec(&more), &saved, None).unwrap();
    assert_eq!(third.streams()[0].budgets(3)[0].spent, None);
    assert_eq!(spent(&third)[1..], spent(&first));
    let fewer = limited.replace("[\"north\", ", "[\"east\", ");
    assert!(Series::load(spec(&fewer), &saved, None).unwrap_err().to_string().contains("lacks \"north\""));
}

#[test]
fn readings_of_all_series_are_saved_under_one_key() {
    let toml = "mechanism = \"scalar.contin\"\nepsilon = 1.0\ndelay = 3\ndomain = { low = 0, high = 9 }\n\
                protects = \"reading\"\nseries_names = [\"a\", \"b\"]\nacross_series = 1";
    let (random, mut out) = (&mut SeededRandom::new(1), ReleasedBySeries::default());
    let mut first = series(toml);
    for number in 0..2 {
        let reading = first.streams()[number].reading(0, "5").unwrap();
        first.push_into(number, reading, random, &mut out).unwrap();
    }
    assert_eq!((drained(&mut out).len(), first.waiting()), (0, 2));
    let key = VaultKey::new().unwrap();
    let saved = first.save(Some(&key)).unwrap();
    let mut second = Series::load(spec(toml), &saved, Some(&key)).unwrap();
    second.finish(random, &mut out).unwrap();
    let series: Vec<usize> = drained(&mut out).into_iter().map(|(number, _)| number).collect();
    assert_eq!(series, [0, 1]);
}

#[test]
fn a_state_goes_on_with_other_columns_and_more_series() {
    let of = |toml: &str| spec(toml).of_state().unwrap();
    let earlier = of(CENTRAL);
    assert!(of(&format!("{CENTRAL}\nseries = \"place\"")).continues(&earlier));
    assert!(of(&CENTRAL.replace("\"south\"]", "\"south\", \"west\"]")).continues(&earlier));
    assert!(!of(&CENTRAL.replace(", \"south\"]", ", \"west\"]")).continues(&earlier));
    assert!(!of(&CENTRAL.replace("across_series = 2", "across_series = 1")).continues(&earlier));
    let all = CENTRAL.replace("across_series = 2", "across_series = \"all\"");
    assert!(of(&all).continues(&earlier), "both are two");
    assert!(!of(&all.replace("\"south\"]", "\"south\", \"west\"]")).continues(&earlier), "now each gets a third");
}

#[test]
fn series_that_are_not_declared_as_they_should_be_are_refused() {
    let many: Vec<String> = (0..1_001).map(|number| format!("\"{number}\"")).collect();
    for (from, to, key, why) in [
        ("across_series = 2", "", "series_names", "say in how many series one person can be"),
        ("[\"north\", \"south\"]", "[]", "series_names", "1 to 1000 names"),
        ("[\"north\", \"south\"]", &format!("[{}]", many.join(", ")), "series_names", "1001 were given"),
        ("\"south\"", "\"north\"", "series_names", "is there twice"),
        ("\"south\"", "\" south\"", "series_names", "name 2 is empty"),
        ("series_names = [\"north\", \"south\"]", "series = \"place\"", "series", "names are public"),
        ("series_names = [\"north\", \"south\"]", "", "across_series", "goes with series_names"),
    ] {
        let toml = CENTRAL.replace(from, to);
        match Series::new(spec(&toml)).unwrap_err() {
            SpecError::Input { key: about, problem } => {
                assert_eq!(about, key, "{problem}");
                assert!(problem.contains(why), "{problem}");
            }
            other => panic!("{other}"),
        }
    }
    for across in ["0", "-1", "\"some\"", "1.5"] {
        let toml = CENTRAL.replace("across_series = 2", &format!("across_series = {across}"));
        let error = toml::from_str::<StreamSpec>(&toml).unwrap_err().to_string();
        assert!(error.contains("a whole number from 1 on, or \"all\""), "{error}");
    }
    assert!(tidegate::stream::Stream::new(spec(CENTRAL)).is_err(), "a stream is a single one");
}

/// Series with noise beyond their counts: only post-processing makes all counts of a timestamp non-negative.
#[test]
fn releases_of_series_are_post_processed() {
    let of = |repair: &str| {
        let mut series =
            series(&CENTRAL.replace("central.ba", "uniform").replace("epsilon", &format!("{repair}epsilon")));
        let releases = run(&mut series, 0..20);
        let negative = |release: &Release| release.statistic.leaves().0.iter().any(|count| *count < 0.0);
        (releases.len(), releases.iter().filter(|(_, release)| negative(release)).count())
    };
    let (plain, negative) = of("repair = \"none\"\n    ");
    assert!(plain == 40 && negative > 10, "{plain} {negative}");
    assert_eq!(of("repair = \"norm_sub\"\n    "), (40, 0));
}

#[test]
fn sequences_of_series_are_charged_for_all_of_them() {
    let refused = |toml: &str| match Series::new(spec(toml)) {
        Err(SpecError::Input { key, problem }) => format!("{key}: {problem}"),
        other => panic!("{other:?}"),
    };
    let rr = "mechanism = \"sequence.rr\"\nepsilon = 1.0\ndomain = [\"x\", \"y\"]\nseries_names = [\"a\", \"b\"]\n";
    assert!(refused(&format!("{rr}across_series = 1")).contains("say across_series = \"all\""));
    assert!(Series::new(spec(&format!("{rr}across_series = \"all\""))).is_ok());
}

#[test]
fn with_classes_no_series_is_added_to_a_state() {
    let text = r#"
        mechanism = "central.pba"
        domain = ["x", "y"]
        series_names = ["a"]
        across_series = 1
        [[classes]]
        name = "careful"
        epsilon = 0.2
        window = 6
        [[classes]]
        name = "relaxed"
        epsilon = 4.0
        window = 3
    "#;
    let key = VaultKey::from_bytes([1; 32]);
    let saved = series(text).save(Some(&key)).unwrap();
    assert!(Series::load(spec(text), &saved, Some(&key)).is_ok());
    let more = spec(&text.replace("[\"a\"]", "[\"a\", \"b\"]"));
    let error = Series::load(more, &saved, Some(&key)).unwrap_err().to_string();
    assert!(error.contains("no series is added to a state"), "{error}");
}
