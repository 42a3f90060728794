use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::local::LocalKind;
use tidegate::sequence::effort::Effort;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Grid, Randomness, SeededRandom};
use tidegate_lab::experiment::{
    CURVE_STEPS, CountOutcome, Finding, OnCounts, Plan, RequirementClass, RunError, Setting, Subject, Trial,
    TrialError, TrialSettings, run,
};
use tidegate_lab::generate::{Chain, Flow, NumberProcess};
use tidegate_lab::local::LocalSubject;
use tidegate_lab::metrics::{Metric, area};
use tidegate_lab::sequence::SymbolDistance;
use tidegate_lab::stream::{Space, StreamKind};
use tidegate_lab::subjects::{self, Constant};
use tidegate_lab::{CountStream, DataStream, NumberStream, SymbolStream};

use crate::support::{assert_close, stream};

/// Adds noise of standard deviation `1 / epsilon` to each true frequency.
struct Noisy;

impl Subject for Noisy {
    fn name(&self) -> &'static str {
        "noisy"
    }

    fn summary(&self) -> String {
        "the truth and normal noise".to_owned()
    }

    fn uses(&self) -> &'static [Setting] {
        &[]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for Noisy {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let deviation = 1.0 / settings.epsilon.to_string().parse::<f64>().unwrap();
        let mut noisy = |frequency: f64| frequency + deviation * standard_normal(random);
        let row = |timestamp| stream.frequencies(timestamp).into_iter().map(&mut noisy).collect();
        let frequencies = (0..stream.length()).map(row).collect();
        Ok(CountOutcome {
            frequencies,
            of_counts: false,
            variances: Vec::new(),
            trees: Vec::new(),
            reports: stream.population(0),
            bytes: 0,
        })
    }
}

/// Fails in about one run of eight.
struct Brittle;

impl Subject for Brittle {
    fn name(&self) -> &'static str {
        "brittle"
    }

    fn summary(&self) -> String {
        "fails now and then".to_owned()
    }

    fn uses(&self) -> &'static [Setting] {
        &[]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for Brittle {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let word = random.next_word();
        match word % 8 {
            0 => Err(RunError::failed(format!("drew {word}"))),
            _ => Noisy.run(stream, settings, random),
        }
    }
}

/// Releases one timestamp too few.
struct Short;

impl Subject for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    fn summary(&self) -> String {
        "forgets the last timestamp".to_owned()
    }

    fn uses(&self) -> &'static [Setting] {
        &[]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(self)
    }
}

impl OnCounts for Short {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let mut outcome = Noisy.run(stream, settings, random)?;
        outcome.frequencies.pop();
        Ok(outcome)
    }
}

fn settings(epsilon: &str) -> TrialSettings {
    TrialSettings::new(epsilon.parse().unwrap(), NonZeroU64::new(20).unwrap())
}

fn try_out(trials: &[Trial<'_>], repeats: u64, threads: usize) -> Result<Vec<Finding>, TrialError> {
    let (repeats, threads) = (NonZeroU64::new(repeats).unwrap(), NonZeroUsize::new(threads).unwrap());
    let plan = Plan { repeats, seed: 5, threads, queries: false };
    let runs = AtomicUsize::new(0);
    let findings = run(&stream(&[&[3, 1], &[1, 3], &[2, 2]]).into(), trials, &plan, &|| {
        runs.fetch_add(1, Ordering::Relaxed);
    });
    if findings.is_ok() {
        assert_eq!(runs.into_inner(), trials.len() * repeats.get() as usize);
    }
    findings
}

#[test]
fn findings_do_not_depend_on_the_number_of_threads() {
    let trials = ["0.5", "1", "2"].map(|epsilon| Trial { subject: &Noisy, settings: settings(epsilon) });
    let without_time = |threads| -> Vec<_> {
        let findings = try_out(&trials, 20, threads).unwrap();
        findings.into_iter().map(|finding| (finding.mechanism, finding.settings, finding.metrics)).collect()
    };
    let one = without_time(1);
    assert_eq!(one.len(), 3);
    for threads in [2, 3, 8, 1_000] {
        assert_eq!(without_time(threads), one);
    }
}

/// A stream of each kind, on which mechanisms differ.
fn one_of_each_kind_to_try() -> [DataStream; 3] {
    let random = &mut SeededRandom::new(6);
    let counts = Flow::TRAFFIC.generate(2_000, 25, random).unwrap();
    let numbers = NumberProcess::SEASONAL.generate(NumberProcess::domain().unwrap(), 40, random).unwrap();
    let symbols = Chain::staying(4, 0.7).unwrap().generate(3, 31, random).unwrap();
    [counts.into(), numbers.into(), symbols.into()]
}

#[test]
fn no_mechanism_of_any_family_depends_on_the_number_of_threads() {
    for stream in one_of_each_kind_to_try() {
        let subjects = subjects::that_take(stream.kind());
        let trials: Vec<_> = subjects.map(|subject| Trial { subject, settings: settings("1") }).collect();
        let without_time = |threads| -> Vec<_> {
            let (repeats, threads) = (NonZeroU64::new(3).unwrap(), NonZeroUsize::new(threads).unwrap());
            let queries = stream.kind() == StreamKind::Counts;
            let findings = run(&stream, &trials, &Plan { repeats, seed: 7, threads, queries }, &|| {}).unwrap();
            findings
                .into_iter()
                .map(|finding| Finding { time: std::time::Duration::ZERO, processor_times: Vec::new(), ..finding })
                .collect()
        };
        assert!(trials.len() > 5);
        assert_eq!(without_time(1), without_time(5), "{stream}");
    }
}

#[test]
fn findings_have_the_curves_whose_areas_they_state() {
    let [counts, numbers, _] = one_of_each_kind_to_try();
    let of = |stream: &DataStream, queries: bool| {
        let plan = Plan { repeats: NonZeroU64::new(5).unwrap(), seed: 8, threads: NonZeroUsize::MIN, queries };
        let subject = subjects::by_name(if queries { "lpu" } else { "constant" }).unwrap();
        run(stream, &[Trial { subject, settings: settings("2") }], &plan, &|| {}).unwrap().remove(0)
    };
    let finding = of(&counts, true);
    for (metric, curve) in [(Metric::Auc, &finding.roc), (Metric::MonitorAuc, &finding.monitor_roc)] {
        let stated = finding.metrics.iter().find(|(other, _)| *other == metric).unwrap().1.mean;
        assert_eq!(curve.len(), CURVE_STEPS + 2);
        // Between two points the curves may have a step.
        assert!((area(curve) - stated).abs() < 0.5 / CURVE_STEPS as f64 + 1e-9, "{metric}: {stated} {}", area(curve));
    }
    let finding = of(&counts, false);
    assert!(!finding.roc.is_empty() && finding.monitor_roc.is_empty());
    assert!(of(&numbers, false).roc.is_empty());
}

/// What a subject makes of a stream, as text.
fn outcome(stream: &DataStream, subject: &dyn Subject, settings: &TrialSettings) -> Result<String, String> {
    let random = &mut SeededRandom::new(9);
    let error = |error: RunError| Err(error.to_string());
    match stream {
        DataStream::Counts(stream) => {
            let run = subject.on_counts().unwrap().run(stream, settings, random);
            run.map_or_else(error, |outcome| Ok(format!("{outcome:?}")))
        }
        DataStream::Numbers(stream) => {
            let run = subject.on_numbers().unwrap().run(stream, settings, random);
            run.map_or_else(error, |outcome| Ok(format!("{outcome:?}")))
        }
        DataStream::Symbols(stream) => {
            let run = subject.on_symbols().unwrap().run(stream, settings, random);
            run.map_or_else(error, |outcome| Ok(format!("{outcome:?}")))
        }
    }
}

#[test]
fn a_subject_uses_exactly_the_settings_that_change_what_it_does() {
    // What a mechanism happens to do the same at one budget, it does otherwise at another.
    let befores = ["0.6", "3"].map(|epsilon| TrialSettings {
        distance: SymbolDistance::Absolute,
        ..TrialSettings::new(epsilon.parse().unwrap(), NonZeroU64::new(10).unwrap())
    });
    let class = |epsilon: &str, window| RequirementClass {
        epsilon: epsilon.parse().unwrap(),
        window: NonZeroU64::new(window).unwrap(),
        weight: NonZeroU64::MIN,
    };
    let changed = |before: &TrialSettings, setting: Setting| match setting {
        Setting::Window => TrialSettings { window: NonZeroU64::new(5).unwrap(), ..before.clone() },
        Setting::Delay => TrialSettings { delay: 7, ..before.clone() },
        Setting::Oracle => TrialSettings { oracle: Some(OracleKind::Sue), ..before.clone() },
        Setting::Classes => TrialSettings { classes: vec![class("0.2", 4), class("2", 9)], ..before.clone() },
        Setting::Contribution => {
            TrialSettings { protects: Protects::Contribution(NonZeroU64::new(3).unwrap()), ..before.clone() }
        }
        Setting::WithinDomain => TrialSettings { within_domain: true, ..before.clone() },
        Setting::Batch => TrialSettings { batch: NonZeroUsize::new(3).unwrap(), ..before.clone() },
        Setting::Order => TrialSettings { order: 2, ..before.clone() },
        Setting::Distance => TrialSettings { distance: SymbolDistance::Hamming, ..before.clone() },
        // A programme, or, where the library was built without a solver, an error.
        Setting::Effort => TrialSettings { effort: Effort::Thorough, ..before.clone() },
    };
    let mut matter: BTreeMap<&str, BTreeSet<Setting>> = BTreeMap::new();
    for stream in one_of_each_kind_to_try() {
        for subject in subjects::that_take(stream.kind()) {
            let as_before = befores.each_ref().map(|before| outcome(&stream, subject, before));
            let matters = |setting: &Setting| {
                befores.iter().zip(&as_before).any(|(before, as_before)| {
                    let now = outcome(&stream, subject, &changed(before, *setting));
                    // To refuse contributions is not to use them.
                    now != *as_before && !(*setting == Setting::Contribution && now.is_err())
                })
            };
            matter.entry(subject.name()).or_default().extend(Setting::ALL.into_iter().filter(matters));
        }
    }
    let uses = |subject: &dyn Subject| subject.uses().iter().copied().collect::<BTreeSet<_>>();
    let wrong: Vec<_> = subjects::all()
        .filter(|subject| matter[subject.name()] != uses(*subject))
        .map(|subject| (subject.name(), &matter[subject.name()], subject.uses()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn repeats_differ_and_a_trial_does_not_depend_on_its_neighbours() {
    let noisy = Trial { subject: &Noisy, settings: settings("1") };
    let constant = Trial { subject: &Constant, settings: settings("1") };
    let alone = try_out(std::slice::from_ref(&noisy), 5, 1).unwrap();
    let together = try_out(&[constant, noisy], 5, 2).unwrap();
    assert_eq!(alone[0].metrics, together[1].metrics);
    let (metric, mse) = alone[0].metrics[0];
    assert_eq!(metric, Metric::Mse);
    assert!(mse.standard_error.unwrap() > 0.0);
}

#[test]
fn the_constant_baseline_errs_by_the_distance_from_uniform() {
    let findings = try_out(&[Trial { subject: &Constant, settings: settings("1") }], 3, 2).unwrap();
    let metrics: Vec<(Metric, f64)> =
        findings[0].metrics.iter().map(|(metric, summary)| (*metric, summary.mean)).collect();
    assert_eq!(metrics.iter().map(|(metric, _)| *metric).collect::<Vec<_>>(), Metric::ALL[..7]);
    assert_close(metrics[0].1, (0.0625 + 0.0625) / 3.0);
    assert_close(metrics[1].1, (0.25 + 0.25) / 3.0);
    assert_close(metrics[3].1, (1.0 + 1.0) / 3.0);
    assert_eq!((metrics[5].1, metrics[6].1), (0.0, 0.5));
    assert!(findings[0].metrics.iter().all(|(_, summary)| summary.standard_error == Some(0.0)));
}

#[test]
fn the_first_error_is_reported_whatever_the_number_of_threads() {
    let trials = ["1", "2"].map(|epsilon| Trial { subject: &Brittle, settings: settings(epsilon) });
    let message = |threads| try_out(&trials, 50, threads).unwrap_err().to_string();
    let one = message(1);
    assert!(
        one.starts_with("brittle at epsilon 1 and window 20, repeat ") && one.contains("it failed: drew "),
        "{one}"
    );
    for threads in [2, 7, 64] {
        assert_eq!(message(threads), one);
    }
}

#[test]
fn releases_that_do_not_fit_the_stream_are_an_error() {
    let error = try_out(&[Trial { subject: &Short, settings: settings("1") }], 1, 1).unwrap_err();
    let expected = "short at epsilon 1 and window 20, repeat 0: its releases do not fit the stream: \
                    2 timestamps were released, but the stream has 3";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn subjects_are_found_by_name() {
    assert_eq!(subjects::by_name("constant").map(|subject| subject.name()), Ok("constant"));
    let error = subjects::by_name("konstant").map(|subject| subject.name()).unwrap_err();
    assert_eq!(error.nearest, Some("constant"));
}

fn one_of_each_kind() -> [DataStream; 3] {
    let numbers = NumberStream::new("numbers", Grid::new(0.0, 10.0, 1.0).unwrap(), vec![4.0, 8.0]).unwrap();
    let symbols = SymbolStream::new("symbols", Space::Line { symbols: 5 }, vec![vec![2, 4], vec![0]]).unwrap();
    [stream(&[&[3, 1]]).into(), numbers.into(), symbols.into()]
}

fn try_on(stream: &DataStream, subject: &dyn Subject) -> Result<Vec<(Metric, f64)>, RunError> {
    let (repeats, threads) = (NonZeroU64::new(2).unwrap(), NonZeroUsize::MIN);
    let trial = Trial { subject, settings: settings("1") };
    let findings = run(stream, &[trial], &Plan { repeats, seed: 5, threads, queries: false }, &|| {});
    let findings = findings.map_err(|error| error.source)?;
    Ok(findings[0].metrics.iter().map(|(metric, summary)| (*metric, summary.mean)).collect())
}

#[test]
fn the_constant_baseline_is_the_middle_of_any_domain() {
    let [_, numbers, symbols] = one_of_each_kind();
    let metrics = try_on(&numbers, &Constant).unwrap();
    let relative = (1.0 / 4.0 + 3.0 / 8.0) / 2.0;
    assert_eq!(metrics, [(Metric::Mse, 5.0), (Metric::Mae, 2.0), (Metric::Mre, relative)]);
    // The symbol in the middle is 2: right, off by two; and off by two for the other user.
    let metrics = try_on(&symbols, &Constant).unwrap();
    assert_eq!(metrics[..3], [(Metric::Mse, 3.0), (Metric::Mae, 1.5), (Metric::ErrorRate, 0.75)]);
    assert_eq!(metrics[3].0, Metric::HistogramDistance);
    assert_close(metrics[3].1, 2.0 / 3.0);
}

#[test]
fn a_mechanism_refuses_streams_of_another_kind_and_says_what_takes_them() {
    for stream in one_of_each_kind() {
        let lpa = LocalSubject(LocalKind::Lpa);
        let fits = subjects::check_fit(&lpa, &stream);
        if stream.kind() == StreamKind::Counts {
            assert!(fits.is_ok() && try_on(&stream, &Constant).is_ok());
            continue;
        }
        let (name, misfit) = (stream.name(), fits.unwrap_err());
        let message = misfit.to_string();
        let expected =
            format!("lpa takes streams of counts, but {name} is a stream of {name}; mechanisms that take it: ");
        assert!(message.starts_with(&expected) && message.contains("constant"), "{message}");
        assert!(!message[expected.len()..].contains("lpa"), "{message}");
        assert!(matches!(try_on(&stream, &lpa), Err(RunError::Misfit(given)) if given == misfit));
    }
}

#[test]
fn every_subject_takes_a_kind_and_every_kind_has_a_baseline() {
    for subject in subjects::all() {
        assert!(StreamKind::ALL.into_iter().any(|kind| subject.takes(kind)), "{}", subject.name());
    }
    let mut names: Vec<_> = subjects::all().map(Subject::name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "two of the same name: {names:?}");
    for kind in StreamKind::ALL {
        assert!(subjects::that_take(kind).any(|subject| subject.name() == "constant"));
    }
}
