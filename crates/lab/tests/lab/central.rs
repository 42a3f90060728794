//! Central mechanisms in the laboratory: how users are divided into classes, that all mechanisms run, and what
//! absorption looks like that forgets what it has spent.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_kernel::primitives::{Neighbours, noisy_distance, noisy_histogram};
use tidegate_kernel::{Epsilon, Ledger, Sealed, SeededRandom, Window};
use tidegate_lab::CountStream;
use tidegate_lab::central::{Members, requirements, strictest, subjects};
use tidegate_lab::experiment::{Plan, RequirementClass, Subject, Trial, TrialSettings, run};
use tidegate_lab::generate::Process;
use tidegate_lab::metrics::{Metric, Truth};
use tidegate_lab::subjects::by_name;

use crate::chi_square::{assert_fits, assert_rejects};
use crate::real_data::real;
use crate::support::{counts, stream};

fn nonzero(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

fn settings(epsilon: &str, window: u64) -> TrialSettings {
    TrialSettings::new(epsilon.parse().unwrap(), nonzero(window))
}

fn class(epsilon: &str, window: u64, weight: u64) -> RequirementClass {
    RequirementClass { epsilon: epsilon.parse().unwrap(), window: nonzero(window), weight: nonzero(weight) }
}

#[test]
fn users_choose_among_the_papers_levels_unless_told() {
    let pairs = |epsilon, window| -> Vec<(String, u64)> {
        let classes = requirements(&settings(epsilon, window));
        assert!(classes.iter().all(|class| class.weight.get() == 1));
        classes.iter().map(|class| (class.epsilon.to_string(), class.window.get())).collect()
    };
    let pair = |epsilon: &str, window| (epsilon.to_owned(), window);
    assert_eq!(pairs("1", 40), [pair("1", 40)]);
    assert_eq!(pairs("0.8", 80), [pair("0.8", 80), pair("0.8", 40), pair("1", 80), pair("1", 40)]);
    assert_eq!(pairs("0.2", 200).len(), 25);
    // What is not one of the levels is chosen too, and nothing stricter.
    assert_eq!(pairs("0.9", 50), [pair("0.9", 50), pair("0.9", 40), pair("1", 50), pair("1", 40)]);
    assert_eq!(pairs("3", 10), [pair("3", 10)]);

    let told = TrialSettings { classes: vec![class("2", 5, 1), class("0.5", 3, 7)], ..settings("1", 20) };
    assert_eq!(requirements(&told), told.classes);
    let strict = strictest(&told);
    assert_eq!((strict.epsilon.to_string().as_str(), strict.window.get()), ("0.5", 5));
    let strict = strictest(&settings("1", 20));
    assert_eq!((strict.epsilon.to_string().as_str(), strict.window.get()), ("1", 20));
}

#[test]
fn the_histograms_of_the_classes_add_up_to_that_of_all() {
    let mut random = SeededRandom::new(1);
    let of_class = [700, 0, 1, 3_000, 299];
    let members = Members::new(of_class.to_vec());
    for counts in [vec![4_000, 0, 0], vec![1_000, 0, 3_000], vec![10, 20, 3], vec![0, 0, 0], vec![0, 1, 0]] {
        for _ in 0..50 {
            let split = members.split(&counts, &mut random).unwrap();
            assert_eq!(split.len(), 15);
            for (value, count) in counts.iter().enumerate() {
                assert_eq!(split.iter().skip(value).step_by(3).sum::<u64>(), *count);
            }
            let present: Vec<u64> = split.chunks(3).map(|class| class.iter().sum()).collect();
            assert!(present.iter().zip(of_class).all(|(present, members)| *present <= members));
            if counts.iter().sum::<u64>() == 4_000 {
                assert_eq!(present, of_class);
            }
        }
    }
    assert!(members.split(&[4_001, 0, 0], &mut random).is_err());
}

/// All ways to give the users in `rest` what is left: `left[v]` times the value `v`, the last being absence.
fn deal(rest: &[usize], left: &mut Vec<u64>, dealt: &mut Vec<u64>, domain: usize, ways: &mut BTreeMap<Vec<u64>, u64>) {
    let Some((class, rest)) = rest.split_first() else {
        *ways.entry(dealt.clone()).or_default() += 1;
        return;
    };
    for value in 0..=domain {
        if left[value] == 0 {
            continue;
        }
        left[value] -= 1;
        if value < domain {
            dealt[class * domain + value] += 1;
        }
        deal(rest, left, dealt, domain, ways);
        left[value] += 1;
        if value < domain {
            dealt[class * domain + value] -= 1;
        }
    }
}

#[test]
fn values_are_dealt_out_to_the_members_of_all_classes_with_equal_chances() {
    // Seven users in three classes; two hold the first value, two the second, one the third, and two are away. The
    // whole distribution is compared with all 630 ways to deal that out; a false alarm has probability 1e-6.
    // Companions: a class with one more or one member less.
    let (domain, counts) = (3, [2, 2, 1]);
    let ways_of = |classes: &[usize]| {
        let mut ways = BTreeMap::new();
        deal(classes, &mut vec![2, 2, 1, 2], &mut vec![0; 9], domain, &mut ways);
        ways
    };
    let ways = ways_of(&[0, 0, 0, 1, 1, 1, 2]);
    let wrong = ways_of(&[0, 0, 0, 1, 1, 2, 2]);
    let cells: Vec<&Vec<u64>> = ways.keys().chain(wrong.keys().filter(|key| !ways.contains_key(*key))).collect();
    let members = Members::new(vec![3, 3, 1]);
    let mut random = SeededRandom::new(2);
    let mut observed = vec![0; cells.len()];
    for _ in 0..100_000 {
        let split = members.split(&counts, &mut random).unwrap();
        observed[cells.iter().position(|cell| **cell == split).expect("a way to deal it out")] += 1;
    }
    let weights = |ways: &BTreeMap<Vec<u64>, u64>| -> Vec<f64> {
        cells.iter().map(|cell| ways.get(*cell).map_or(0.0, |ways| *ways as f64)).collect()
    };
    assert_eq!(weights(&ways).iter().sum::<f64>(), 630.0);
    let (with_members, last) = observed.split_at(ways.len());
    assert!(last.iter().all(|count| *count == 0));
    assert_fits(with_members, &weights(&ways)[..ways.len()]);
    // The mixture of nine parts of the right distribution and one of another is still told apart.
    let tilted: Vec<f64> = weights(&ways)[..ways.len()]
        .iter()
        .zip(&weights(&wrong)[..ways.len()])
        .map(|(right, wrong)| 0.8 * right + 0.2 * wrong)
        .collect();
    assert_rejects(with_members, &tilted);
}

#[test]
fn users_are_in_a_class_by_its_weight() {
    let stream = stream(&[&[400, 100], &[300, 700]]);
    let classes = [class("1", 5, 1), class("1", 4, 2), class("2", 5, 7)];
    let mut random = SeededRandom::new(3);
    let mut observed = vec![0; 3];
    for _ in 0..100 {
        let members = Members::draw(&stream, &classes, &mut random).unwrap();
        // As many as the stream ever has.
        assert_eq!(members.of_class().iter().sum::<u64>(), 1_000);
        observed.iter_mut().zip(members.of_class()).for_each(|(observed, members)| *observed += members);
    }
    assert_fits(&observed, &[1.0, 2.0, 7.0]);
    assert_rejects(&observed, &[1.1, 2.0, 6.9]);
}

/// Mean errors of a subject on a stream.
fn measure(
    subject: &dyn Subject,
    stream: &CountStream,
    settings: &TrialSettings,
    repeats: u64,
) -> BTreeMap<Metric, f64> {
    let plan = Plan { repeats: nonzero(repeats), seed: 4, threads: NonZeroUsize::MIN, queries: false };
    let trials = [Trial { subject, settings: settings.clone() }];
    let findings = run(&stream.clone().into(), &trials, &plan, &|| {}).unwrap();
    findings[0].metrics.iter().map(|(metric, summary)| (*metric, summary.mean)).collect()
}

#[test]
fn every_central_mechanism_runs_on_users_who_come_and_go() {
    let rows: Vec<Vec<u64>> = (0..60).map(|t| vec![40 + t % 7, 3 * t, 0, 500 - t * t / 9]).collect();
    let stream = stream(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let told = TrialSettings { classes: vec![class("4", 5, 1), class("9", 3, 3)], ..settings("1", 20) };
    for subject in subjects() {
        assert_eq!(by_name(subject.name()).unwrap().name(), subject.name());
        for settings in [settings("0.6", 120), told.clone()] {
            let metrics = measure(subject, &stream, &settings, 2);
            assert!(metrics[&Metric::Amre] > 0.0, "{}: {metrics:?}", subject.name());
            let reports = if subject.name() == "plbu" { 1.0 } else { 0.0 };
            assert_eq!(metrics[&Metric::Cfpu], reports, "{}", subject.name());
        }
    }
}

#[test]
fn errors_of_counts_are_those_predicted() {
    // Counts of one to a thousand, of users that come and go: what is measured does not depend on how many there are.
    let rows: Vec<Vec<u64>> = (0..200).map(|t| vec![1 + t * t % 1_000; 20]).collect();
    let changing = stream(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    // 2 (w / epsilon)²; 40,000 squares of Laplace noise have a relative deviation of about 1.1 %.
    let amre = measure(by_name("uniform").unwrap(), &changing, &settings("2", 10), 10)[&Metric::Amre];
    assert!((amre / 50.0 - 1.0).abs() < 0.06, "{amre}");
    // The strictest class decides.
    let told = TrialSettings { classes: vec![class("2", 3, 1), class("5", 10, 1)], ..settings("7", 1) };
    assert_eq!(measure(by_name("uniform").unwrap(), &changing, &told, 10)[&Metric::Amre], amre);
    // A single class makes plbu what lbu is, with a squared error of 4e^x / (n (e^x-1)²) a frequency at epsilon x.
    let constant = stream(&[&[500; 20][..]; 60]);
    let one = TrialSettings { classes: vec![class("10", 10, 1)], ..settings("10", 10) };
    let [personal, local] =
        ["plbu", "lbu"].map(|name| measure(by_name(name).unwrap(), &constant, &one, 10)[&Metric::Mse]);
    assert!((personal / local - 1.0).abs() < 0.1, "{personal} {local}");
}

/// Budget absorption straight on the kernel, with a ledger that refuses nothing: what keeps it within its budget is
/// only that it remembers what it has published.
struct Absorbing {
    remembers: bool,
}

impl Absorbing {
    /// The counts of each timestamp, and what it spent.
    fn run(
        &self,
        stream: &CountStream,
        epsilon: Epsilon,
        window: u64,
        random: &mut SeededRandom,
    ) -> (Vec<Vec<f64>>, Vec<u64>) {
        let share = epsilon.divided_by(2 * window).unwrap();
        let mut ledger = Ledger::new(Epsilon::MAX, Window::EVENT);
        let (mut last, mut published): (Vec<i64>, Option<(u64, u64)>) = (Vec::new(), None);
        let (mut releases, mut spends) = (Vec::new(), Vec::new());
        for (timestamp, counts) in (0..).zip(stream.counts()) {
            let sealed = Sealed::at(ledger.account(), timestamp, counts.clone());
            let (mut spent, mut distance) = (0, f64::INFINITY);
            if timestamp > 0 {
                let permit = ledger.spend(timestamp, share).unwrap();
                spent += share.units();
                let (neighbours, once) = (Neighbours::AddRemove, nonzero(1));
                let noisy = noisy_distance(permit, &sealed, &last, neighbours, once, random).unwrap();
                distance = noisy.into_value() as f64 / counts.len() as f64;
            }
            let saved = published.map_or(timestamp + 2, |(at, shares)| (timestamp - at + 1).saturating_sub(shares));
            let shares = saved.min(window);
            if shares > 0 {
                let amount = Epsilon::from_units(shares * share.units()).unwrap();
                if distance > 1.0 / amount.as_f64() {
                    let permit = ledger.spend(timestamp, amount).unwrap();
                    spent += amount.units();
                    let noisy = noisy_histogram(permit, &sealed, Neighbours::AddRemove, nonzero(1), random).unwrap();
                    last = noisy.into_value();
                    if self.remembers {
                        published = Some((timestamp, shares));
                    }
                }
            }
            releases.push(last.iter().map(|count| *count as f64).collect());
            spends.push(spent);
        }
        (releases, spends)
    }

    /// The squared error of a count, and the largest sum of a window, in budgets; means over some runs.
    fn measure(&self, stream: &CountStream, epsilon: &str, window: u64) -> (f64, f64) {
        let epsilon: Epsilon = epsilon.parse().unwrap();
        let truth = Truth::of(stream);
        let (mut error, mut fullest, runs) = (0.0, 0.0, 10);
        for seed in 0..runs {
            let (mut releases, spends) = self.run(stream, epsilon, window, &mut SeededRandom::new(seed));
            for (timestamp, row) in releases.iter_mut().enumerate() {
                row.iter_mut().for_each(|count| *count /= stream.population(timestamp) as f64);
            }
            error += truth.compare(&releases).unwrap().amre() / runs as f64;
            let most = spends.windows(window as usize).map(|window| window.iter().sum::<u64>()).max().unwrap();
            fullest += most as f64 / epsilon.units() as f64 / runs as f64;
        }
        (error, fullest)
    }
}

/// What a comparison of errors alone would not have told: the forgetful mechanism looks far better, and is not private.
#[test]
fn absorption_that_forgets_its_last_publication_looks_far_more_accurate_and_overspends_its_window() {
    let generated = [Process::LNS, Process::SIN, Process::LOG]
        .map(|process| process.generate(200_000, 800, &mut SeededRandom::new(5)).unwrap());
    for stream in generated.into_iter().chain(real("tdrive_counts").map(counts)) {
        for (epsilon, window) in [("0.6", 120), ("1", 50)] {
            let (honest, within) = Absorbing { remembers: true }.measure(&stream, epsilon, window);
            let (forgetful, beyond) = Absorbing { remembers: false }.measure(&stream, epsilon, window);
            let name = stream.name();
            println!(
                "{name} epsilon={epsilon} w={window}: error {honest:.0} and {forgetful:.0}, {:.1} times; \
                 fullest window {within:.3} and {beyond:.2} budgets",
                honest / forgetful
            );
            assert!(within <= 1.0 + 1e-9, "{name}: {within}");
            // The same algorithm as the library's, which has a ledger as well.
            let library = measure(by_name("ba").unwrap(), &stream, &settings(epsilon, window), 10)[&Metric::Amre];
            assert!((library / honest - 1.0).abs() < 0.2, "{name}: {library} {honest}");
            assert!(honest > 5.0 * forgetful && beyond > 10.0, "{name}: {honest} {forgetful} {beyond}");
        }
    }
}
