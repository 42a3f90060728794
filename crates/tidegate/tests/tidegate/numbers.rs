//! Means of users' numbers: the seven mechanisms of LDP-IDS, specs and queries.

use std::num::NonZeroU64;

use tidegate::kernel::oracle::{Estimate, OracleKind};
use tidegate::kernel::simulation::{estimate_of, multinomial};
use tidegate::kernel::{Grid, Question, Randomness, SeededRandom, View};
use tidegate::local::{Local, LocalError, LocalKind, LocalSettings, Step};
use tidegate::query::{History, Query, QueryError, Unit};
use tidegate::release::why::Measure;
use tidegate::release::{Freshness, Release};
use tidegate::spec::{Reply, StreamSpec};
use tidegate::stream::Stream;

use crate::support::{Asked, bytes, copy_of, hex};

const KINDS: [LocalKind; 7] =
    [LocalKind::Lbu, LocalKind::Lsp, LocalKind::Lbd, LocalKind::Lba, LocalKind::Lpu, LocalKind::Lpd, LocalKind::Lpa];

/// Temperatures from -10 to 40, to half a degree.
fn grid() -> Grid {
    Grid::exact("-10".parse().unwrap(), "40".parse().unwrap(), "0.5".parse().unwrap()).unwrap()
}

fn settings(window: u64, users: u64) -> LocalSettings {
    let number = |number| NonZeroU64::new(number).unwrap();
    LocalSettings::of_numbers("1".parse().unwrap(), number(window), grid(), number(users))
}

/// What users answer whose numbers are drawn around a mean: 15 degrees to either side, or none.
fn estimate(question: &Question, users: u64, mean: f64, random: &mut SeededRandom) -> Option<Estimate> {
    let mut weights = vec![0.0; question.domain as usize];
    for away in [-15.0, 0.0, 15.0] {
        weights[grid().steps(mean + away).unwrap() as usize] += 1.0;
    }
    let asked = (users as f64 * question.cohort.share()).round() as u64;
    let counts = multinomial(asked, &weights, random).unwrap();
    Some(estimate_of(&question.oracle().unwrap(), &counts, random).unwrap())
}

fn run(mechanism: &mut Local, timestamp: u64, mean: f64, asked: &mut Asked, random: &mut SeededRandom) -> Release {
    let users = mechanism.settings().population.get();
    let mut step = mechanism.open(timestamp).unwrap();
    loop {
        match step {
            Step::Done(release) => return release,
            Step::Ask(questions) => {
                for question in &questions {
                    assert_eq!((&question.view, question.oracle), (&View::Mean, OracleKind::Piecewise));
                    assert_eq!((question.domain, question.estimates()), (101, 1));
                    asked.note(question);
                }
                let answers: Vec<_> =
                    questions.iter().map(|question| estimate(question, users, mean, random)).collect();
                step = mechanism.answer(&questions, &answers).unwrap();
            }
        }
    }
}

#[test]
fn no_window_is_exceeded_and_releases_are_numbers() {
    for kind in KINDS {
        for window in [1, 2, 5] {
            let mut mechanism = Local::new(kind, settings(window, 100_000)).unwrap();
            let (mut asked, mut random) = (Asked::default(), SeededRandom::new(window));
            for timestamp in (0..60).filter(|timestamp| timestamp % 11 != 3) {
                let mean = if random.next_word() % 4 == 0 { 5.0 } else { 25.0 };
                let release = run(&mut mechanism, timestamp, mean, &mut asked, &mut random);
                let number = release.statistic.number().unwrap();
                assert!(number.value.is_finite() && number.variance > 0.0, "{kind}: {number:?}");
                assert_eq!(mechanism.kind(), kind);
            }
            asked.check(mechanism.settings());
        }
    }
}

#[test]
fn fresh_releases_are_unbiased_with_the_stated_variance() {
    // 400 first releases of a mechanism that always publishes, or sees at once that the middle is wrong. The mean of
    // squared standardised errors has a standard deviation of 0.07: all seeds but one in a million are within 0.35.
    for kind in KINDS {
        let mut random = SeededRandom::with_stream(31, kind as u64);
        let (mut squares, mut errors, mut fresh) = (0.0, 0.0, 0.0);
        for _ in 0..400 {
            let mut mechanism = Local::new(kind, settings(2, 20_000)).unwrap();
            let release = run(&mut mechanism, 0, 25.0, &mut Asked::default(), &mut random);
            if release.freshness == Freshness::Fresh {
                let number = release.statistic.number().unwrap();
                squares += (number.value - 25.0).powi(2) / number.variance;
                errors += (number.value - 25.0) / number.variance.sqrt();
                fresh += 1.0;
            }
        }
        assert!(fresh > 390.0, "{kind}: {fresh}");
        assert!((squares / fresh - 1.0_f64).abs() < 0.35, "{kind}: {}", squares / fresh);
        assert!((errors / fresh).abs() < 5.0 / 20.0, "{kind}: {}", errors / fresh);
    }
}

#[test]
fn dissimilarities_are_unbiased() {
    const RUNS: u32 = 20_000;
    // The first release is compared with the middle of the range, 15 degrees.
    for (kind, mean) in [(LocalKind::Lba, 15.0), (LocalKind::Lpd, 15.0), (LocalKind::Lbd, 20.0), (LocalKind::Lpa, 20.0)]
    {
        let mut random = SeededRandom::with_stream(32, kind as u64);
        let (mut sum, mut squares, mut noise) = (0.0, 0.0, 0.0);
        for _ in 0..RUNS {
            let mut mechanism = Local::new(kind, settings(2, 2_000)).unwrap();
            let Step::Ask(questions) = mechanism.open(0).unwrap() else { unreachable!() };
            let answer = estimate(&questions[0], 2_000, mean, &mut random);
            noise = answer.as_ref().unwrap().variance().constant * 50.0 * 50.0;
            let step = mechanism.answer(&questions, &[answer]).unwrap();
            let why = match step {
                Step::Done(release) => release.why,
                Step::Ask(more) => {
                    let Step::Done(release) = mechanism.answer(&more, &vec![None; more.len()]).unwrap() else {
                        unreachable!()
                    };
                    release.why
                }
            };
            let why = why.unwrap();
            assert_eq!(why.measure, Some(Measure::SquaredMean));
            sum += why.dissimilarity.unwrap() / f64::from(RUNS);
            squares += why.dissimilarity.unwrap().powi(2) / f64::from(RUNS);
        }
        let deviation = ((squares - sum * sum) / f64::from(RUNS)).sqrt();
        let expected = (mean - 15.0) * (mean - 15.0);
        assert!((sum - expected).abs() < 5.0 * deviation, "{kind}: {sum} {expected} {deviation}");
        // A tenth of the noise less is subtracted, and the test fails; where the distance is not zero, it adds noise.
        let wrong = sum + 0.1 * noise;
        assert!(expected > 0.0 || wrong > 5.0 * deviation, "{kind}: {wrong} {deviation}");
    }
}

#[test]
fn a_stream_that_stands_still_is_repeated_and_a_jump_is_seen() {
    for kind in [LocalKind::Lbd, LocalKind::Lba, LocalKind::Lpd, LocalKind::Lpa] {
        let mut mechanism = Local::new(kind, settings(10, 1_000_000)).unwrap();
        let (mut asked, mut random) = (Asked::default(), SeededRandom::new(33));
        let (mut fresh, mut late) = (0, 0.0);
        for timestamp in 0..100 {
            let mean = if timestamp < 60 { 10.0 } else { 24.0 };
            let release = run(&mut mechanism, timestamp, mean, &mut asked, &mut random);
            fresh += u32::from(timestamp < 60 && release.freshness == Freshness::Fresh);
            late = release.statistic.number().unwrap().value;
        }
        assert!(fresh < 30, "{kind}: {fresh} of 60 were published");
        assert!((late - 24.0_f64).abs() < 3.0, "{kind}: {late}");
    }
}

#[test]
fn saved_state_continues_identically_at_any_step() {
    for kind in KINDS {
        let drive = |interrupted: bool| {
            let mut mechanism = Local::new(kind, LocalSettings { reuse: true, ..settings(3, 50_000) }).unwrap();
            let mut random = SeededRandom::new(34);
            let mut releases = Vec::new();
            for timestamp in 0..20 {
                let mut step = mechanism.open(timestamp).unwrap();
                while let Step::Ask(questions) = step {
                    if interrupted {
                        mechanism = copy_of(&mechanism);
                        mechanism = serde_json::from_str(&serde_json::to_string(&mechanism).unwrap()).unwrap();
                    }
                    let mean = if timestamp % 5 == 0 { 20.0 } else { 5.0 };
                    let answer = |question| estimate(question, 50_000, mean, &mut random);
                    let answers: Vec<_> = questions.iter().map(answer).collect();
                    step = mechanism.answer(&questions, &answers).unwrap();
                }
                let Step::Done(release) = step else { unreachable!() };
                releases.push(release);
            }
            releases
        };
        assert_eq!(drive(false), drive(true), "{kind}");
    }
}

fn used(kind: LocalKind) -> Local {
    let mut mechanism = Local::new(kind, settings(3, 100_000)).unwrap();
    let (mut asked, mut random) = (Asked::default(), SeededRandom::new(35));
    for timestamp in 0..5 {
        run(&mut mechanism, timestamp, if timestamp % 2 == 0 { 5.0 } else { 25.0 }, &mut asked, &mut random);
    }
    mechanism
}

#[test]
fn saved_mechanisms_of_version_1_still_load() {
    let golden: Vec<String> = serde_json::from_str(include_str!("../golden/local_numbers_v1.json")).unwrap();
    let now: Vec<String> = KINDS.map(|kind| hex(&postcard::to_allocvec(&used(kind)).unwrap())).into();
    let load = |hex: &String| postcard::from_bytes::<Local>(&bytes(hex)).unwrap();
    let loaded: Vec<LocalKind> = golden.iter().map(|hex| load(hex).kind()).collect();
    assert_eq!(loaded, KINDS, "{}", serde_json::to_string_pretty(&now).unwrap());
    for hex in &golden {
        let mut mechanism = load(hex);
        assert_eq!(mechanism.settings().numbers, Some(grid()));
        assert_eq!(mechanism.open(4).unwrap_err(), LocalError::Time { given: 4, last: 4 });
        assert!(mechanism.open(5).is_ok());
    }
}

#[test]
fn states_that_do_not_fit_together_are_not_loaded() {
    let json = serde_json::to_value(used(LocalKind::Lpa)).unwrap();
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = json.clone();
        change(&mut changed);
        assert_ne!(changed, json);
        serde_json::from_value::<Local>(changed).map(drop).unwrap_err().to_string()
    };
    assert!(refused(&|state| state["settings"]["domain"] = 100.into()).contains("does not fit"));
    assert!(refused(&|state| state["settings"]["window"] = 7.into()).contains("does not fit"));
    assert!(refused(&|state| state["settings"]["oracle"] = "grr".into()).contains("does not fit"));
    assert!(refused(&|state| state["machine"]["numbers"]["grid"]["high"] = 41.into()).contains("does not fit"));
    let (grid, machine) = (&json["machine"]["numbers"]["grid"], &json["machine"]);
    let nested = serde_json::json!({ "numbers": { "grid": grid, "machine": machine } });
    assert!(refused(&|state| state["machine"] = nested.clone()).contains("does not fit"));
    // The state of a stream of values is none of one of numbers.
    let plain = json["machine"]["numbers"]["machine"].clone();
    assert!(refused(&|state| state["machine"] = plain.clone()).contains("does not fit"));
}

#[test]
fn other_mechanisms_and_other_oracles_are_refused() {
    for kind in LocalKind::ALL.into_iter().filter(|kind| !KINDS.contains(kind)).chain([LocalKind::Plbu]) {
        let error = Local::new(kind, settings(5, 1_000)).map(drop).unwrap_err();
        assert_eq!(error, LocalError::Numbers { mechanism: kind.name() });
    }
    let chosen = LocalSettings { oracle: Some(OracleKind::Grr), ..settings(5, 1_000) };
    assert_eq!(Local::new(LocalKind::Lpa, chosen).map(drop), Err(LocalError::Oracle { given: OracleKind::Grr }));
    let values = LocalSettings { oracle: Some(OracleKind::Piecewise), numbers: None, ..settings(5, 1_000) };
    assert!(matches!(Local::new(LocalKind::Lpa, values), Err(LocalError::Oracle { .. })));
    let misfit = LocalSettings { domain: 7, ..settings(5, 1_000) };
    assert!(matches!(Local::new(LocalKind::Lpa, misfit), Err(LocalError::Domain { given: 7 })));

    let mut mechanism = Local::new(LocalKind::Lpu, settings(5, 1_000)).unwrap();
    let Step::Ask(questions) = mechanism.open(0).unwrap() else { unreachable!() };
    let values = Question { view: View::Values, oracle: OracleKind::Grr, ..questions[0].clone() };
    let wrong = estimate(&values, 1_000, 15.0, &mut SeededRandom::new(1));
    let error = mechanism.answer(&questions, &[wrong]).unwrap_err().to_string();
    assert_eq!(error, "an estimate of 101 values does not answer what was asked: the question was about a mean");
}

#[test]
fn a_mean_that_nobody_answers_is_repeated_with_an_unknown_error() {
    for kind in KINDS {
        let mut mechanism = Local::new(kind, settings(1, 10_000)).unwrap();
        let mut silent = |timestamp| {
            let mut step = mechanism.open(timestamp).unwrap();
            while let Step::Ask(questions) = step {
                step = mechanism.answer(&questions, &vec![None; questions.len()]).unwrap();
            }
            let Step::Done(release) = step else { unreachable!() };
            release.statistic.number().unwrap()
        };
        // Before anything is known, the middle of the range.
        assert_eq!(silent(0).value.to_bits(), 15.0_f64.to_bits(), "{kind}");
        assert!(silent(1).variance.is_infinite(), "{kind}");
    }
}

fn spec(more: &str) -> Result<StreamSpec, String> {
    let json = format!(
        r#"{{"family": "local", "mechanism": "lpu", "epsilon": 2, "window": 2, "population": 3000,
            "domain": {{ "low": -10, "high": 40, "resolution": 0.5 }}{more}}}"#
    );
    serde_json::from_str(&json).map_err(|error| error.to_string())
}

fn problem(more: &str) -> String {
    match spec(more) {
        Ok(spec) => Stream::new(spec).map(drop).unwrap_err().to_string(),
        Err(error) => error,
    }
}

#[test]
fn numbers_are_rounded_to_the_grid_and_moved_into_the_range() {
    let values = spec("").unwrap().values().unwrap().unwrap();
    assert_eq!((values.count(), values.grid()), (101, Some(&grid())));
    for (text, value, name) in
        [("-10", 0, "-10"), ("-9.8", 0, "-10"), (" 21.34 ", 63, "21.5"), ("1e2", 100, "40"), ("-273.15", 0, "-10")]
    {
        let found = values.find(text).unwrap();
        assert_eq!((found, values.name(found).as_ref()), (value, name), "{text}");
    }
    for text in ["", "warm", "NaN", "1,5"] {
        assert_eq!(values.find(text), None, "{text}");
    }
}

#[test]
fn specs_of_numbers_name_what_does_not_fit() {
    assert!(spec("").is_ok());
    assert_eq!(problem(r#", "repair": "norm_sub""#), "a mean has no use for it");
    assert!(problem(r#", "oracle": "oue""#).starts_with("oue does not fit the domain"));
    assert!(problem(r#", "queries": [{"name": "a", "value": 3}]"#).contains("asked for its mean"));
    assert!(problem(r#", "queries": [{"name": "a", "top": 3}]"#).contains("numbers have none"));
    let changed = |from: &str, to: &str| {
        let json = serde_json::to_string(&spec("").unwrap()).unwrap();
        assert!(json.contains(from), "{json}");
        let spec = serde_json::from_str::<StreamSpec>(&json.replace(from, to)).map_err(|error| error.to_string());
        spec.and_then(|spec| Stream::new(spec).map(drop).map_err(|error| error.to_string())).unwrap_err()
    };
    assert_eq!(
        changed(r#""lpu""#, r#""mtsp""#),
        "mtsp releases no mean of numbers; lbu, lsp, lbd, lba, lpu, lpd and lpa do"
    );
    assert!(changed(r#""resolution":0.5"#, r#""resolution":0.000001"#).contains("give a larger resolution"));
    assert!(changed(r#""resolution":0.5"#, r#""missing":0"#).contains("delete missing"));
    assert!(changed(r#""high":40.0"#, r#""high":-40"#).contains("ascending order"));
    let central = r#"{"mechanism": "ba", "epsilon": 1, "window": 2, "domain": {"low": 0, "high": 9}}"#;
    let spec: StreamSpec = serde_json::from_str(central).unwrap();
    assert!(Stream::new(spec).map(drop).unwrap_err().to_string().contains("is for local streams"));
    let unit = r#"{"mechanism": "lpu", "epsilon": 1, "window": 2, "population": 9, "domain": ["a", "b"],
        "queries": [{"name": "a", "value": "a", "unit": "mean"}]}"#;
    let spec: StreamSpec = serde_json::from_str(unit).unwrap();
    assert!(Stream::new(spec).map(drop).unwrap_err().to_string().contains("is for streams of numbers"));
}

#[test]
fn a_stream_of_numbers_releases_means_and_answers_queries() {
    let queries = r#", "queries": [{"name": "now"}, {"name": "lately", "delta": 4, "confidence": 0.99}],
        "monitors": [{"name": "warm", "direction": "above", "start": 20, "end": 15}]"#;
    let mut stream = Stream::new(spec(queries).unwrap()).unwrap();
    let mut random = SeededRandom::new(36);
    let (mut releases, mut answers, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut queries = stream.spec().standing_queries().unwrap().unwrap();
    for timestamp in 0..=8 {
        let mean = if timestamp < 4 { 5.0 } else { 30.0 };
        for user in 0..if timestamp == 8 { 1 } else { 3_000 } {
            let number = mean + f64::from(user % 21) - 10.0;
            let entry = stream.value(timestamp, &user.to_string(), &number.to_string()).unwrap();
            let released = stream.push(entry, &mut random).unwrap();
            releases.extend(released.releases);
        }
    }
    assert_eq!(releases.len(), 8);
    for release in &releases {
        let truth = if release.timestamp < 4 { 5.0 } else { 30.0 };
        let number = release.statistic.number().unwrap();
        assert!((number.value - truth).abs() < 5.0 * number.variance.sqrt(), "{release:?}");
        assert!(number.variance.sqrt() < 2.0, "{release:?}");
        for said in queries.push(release, Some(3_000)).unwrap() {
            match said.reply {
                Reply::Answer { answer, interval, .. } => answers.push((said.name.to_owned(), answer, interval)),
                Reply::Event(event) => events.push(event.timestamp),
                Reply::Top { .. } => unreachable!(),
            }
        }
    }
    assert_eq!(events, [4]);
    let lately: Vec<_> = answers.iter().filter(|(name, ..)| name == "lately").collect();
    assert_eq!((answers.len(), lately.len()), (8 + 5, 5));
    for (_, answer, interval) in &lately {
        let warm = answer.last.saturating_sub(3) as f64;
        let truth = 5.0 + 25.0 * warm.min(4.0) / 4.0;
        assert_eq!(answer.unit, Unit::Mean);
        assert!(interval.unwrap().contains(truth), "{answer:?} {truth}");
        // Four independent releases: half the deviation of one.
        assert!(answer.variance.sqrt() < 1.0, "{answer:?}");
    }
    let mut history = History::new(stream.spec().window(), 10).unwrap();
    history.push(releases[0].clone(), None).unwrap();
    assert!(matches!(history.answer(&Query::counting(0, 1)), Err(QueryError::OtherUnit { .. })));
    assert!(history.answer(&Query::mean(1)).is_ok());
}
