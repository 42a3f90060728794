use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Randomness, SeededRandom};
use tidegate_lab::CountStream;
use tidegate_lab::experiment::{Finding, Outcome, Plan, RunError, Settings, Subject, Trial, TrialError, run};
use tidegate_lab::metrics::Metric;
use tidegate_lab::subjects::{self, Constant};

use crate::support::{assert_close, stream};

/// Adds noise of standard deviation `1 / epsilon` to each true frequency.
struct Noisy;

impl Subject for Noisy {
    fn name(&self) -> &'static str {
        "noisy"
    }

    fn summary(&self) -> &'static str {
        "the truth and normal noise"
    }

    fn run(&self, stream: &CountStream, settings: &Settings, random: &mut SeededRandom) -> Result<Outcome, RunError> {
        let deviation = 1.0 / settings.epsilon.to_string().parse::<f64>().unwrap();
        let mut noisy = |frequency: f64| frequency + deviation * standard_normal(random);
        let row = |timestamp| stream.frequencies(timestamp).into_iter().map(&mut noisy).collect();
        let frequencies = (0..stream.length()).map(row).collect();
        Ok(Outcome { frequencies, trees: Vec::new(), reports: stream.population(0) })
    }
}

/// Fails in about one run of eight.
struct Brittle;

impl Subject for Brittle {
    fn name(&self) -> &'static str {
        "brittle"
    }

    fn summary(&self) -> &'static str {
        "fails now and then"
    }

    fn run(&self, stream: &CountStream, settings: &Settings, random: &mut SeededRandom) -> Result<Outcome, RunError> {
        let word = random.next_word();
        match word % 8 {
            0 => Err(RunError::Failed(format!("drew {word}").into())),
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

    fn summary(&self) -> &'static str {
        "forgets the last timestamp"
    }

    fn run(&self, stream: &CountStream, settings: &Settings, random: &mut SeededRandom) -> Result<Outcome, RunError> {
        let mut outcome = Noisy.run(stream, settings, random)?;
        outcome.frequencies.pop();
        Ok(outcome)
    }
}

fn settings(epsilon: &str) -> Settings {
    let window = NonZeroU64::new(20).unwrap();
    Settings { epsilon: epsilon.parse().unwrap(), window, delay: 0, oracle: None }
}

fn try_out(trials: &[Trial<'_>], repeats: u64, threads: usize) -> Result<Vec<Finding>, TrialError> {
    let (repeats, threads) = (NonZeroU64::new(repeats).unwrap(), NonZeroUsize::new(threads).unwrap());
    let plan = Plan { repeats, seed: 5, threads, queries: false };
    let runs = AtomicUsize::new(0);
    let findings = run(&stream(&[&[3, 1], &[1, 3], &[2, 2]]), trials, &plan, &|| {
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

#[test]
fn repeats_differ_and_a_trial_does_not_depend_on_its_neighbours() {
    let noisy = Trial { subject: &Noisy, settings: settings("1") };
    let constant = Trial { subject: &Constant, settings: settings("1") };
    let alone = try_out(&[noisy], 5, 1).unwrap();
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
