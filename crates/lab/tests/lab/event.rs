use std::num::NonZeroU64;

use tidegate::event::EventKind;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Grid, SeededRandom};
use tidegate_lab::NumberStream;
use tidegate_lab::event::SUBJECTS;
use tidegate_lab::experiment::{NumberOutcome, RunError, Settings};
use tidegate_lab::metrics::{Metric, compare_numbers};
use tidegate_lab::subjects::by_name;

fn waves(length: u32) -> NumberStream {
    let wave = |t: u32| (200.0 + 100.0 * (f64::from(t) / 9.0).sin()).round();
    NumberStream::new("waves", Grid::new(0.0, 612.0, 1.0).unwrap(), (0..length).map(wave).collect()).unwrap()
}

fn settings(delay: u64) -> Settings {
    Settings { delay, ..Settings::new("0.5".parse().unwrap(), NonZeroU64::MIN) }
}

fn run(name: &str, stream: &NumberStream, settings: &Settings, seed: u64) -> Result<NumberOutcome, RunError> {
    by_name(name).unwrap().on_numbers().unwrap().run(stream, settings, &mut SeededRandom::new(seed))
}

fn mae(name: &str, stream: &NumberStream, settings: &Settings) -> f64 {
    compare_numbers(stream, &run(name, stream, settings, 7).unwrap().values).unwrap()[&Metric::Mae]
}

#[test]
fn every_event_level_mechanism_has_a_subject_of_its_name() {
    for kind in EventKind::ALL {
        assert!(by_name(kind.name()).unwrap().on_numbers().is_some(), "{kind}");
    }
}

#[test]
fn every_variant_releases_one_number_a_timestamp_and_no_two_are_the_same() {
    let stream = waves(150);
    for delay in [0, 10] {
        let settings = Settings { within_domain: true, ..settings(delay) };
        let mut outcomes: Vec<(&str, NumberOutcome)> = Vec::new();
        for subject in SUBJECTS {
            let name = subject.name();
            let outcome = run(name, &stream, &settings, 7).unwrap();
            assert_eq!(outcome.values.len(), 150, "{name}");
            assert!(outcome.values.iter().all(|value| (0.0..=612.0).contains(value)), "{name}");
            assert_eq!(run(name, &stream, &settings, 7).unwrap(), outcome, "{name}");
            outcomes.push((name, outcome));
        }
        for (index, (name, outcome)) in outcomes.iter().enumerate().filter(|_| delay > 0) {
            for (other, same) in &outcomes[..index] {
                // Within the domain, there is nothing left to clamp.
                let expected = name.trim_start_matches("clamped") == other.trim_start_matches("laplace");
                assert_eq!(outcome == same, expected, "{name} and {other}");
            }
        }
    }
}

#[test]
fn clamped_is_laplace_within_the_domain() {
    let stream = waves(50);
    let within = Settings { within_domain: true, ..settings(0) };
    assert_eq!(run("clamped", &stream, &settings(0), 1).unwrap(), run("laplace", &stream, &within, 1).unwrap());
    let noisy = run("laplace", &stream, &settings(0), 1).unwrap();
    assert!(noisy.values.iter().any(|value| !(0.0..=612.0).contains(value)));
}

#[test]
fn settings_reach_the_mechanism() {
    let stream = waves(2000);
    // Noise has a mean distance of 2 * 612, and of 2 for a contributor; a tenth off would be 4.5 standard errors and more.
    let close = |given: f64, expected: f64| assert!((given / expected - 1.0).abs() < 0.1, "{given} is not {expected}");
    close(mae("laplace", &stream, &settings(0)), 1224.0);
    let contribution = Settings { protects: Protects::Contribution(NonZeroU64::MIN), ..settings(0) };
    close(mae("laplace", &stream, &contribution), 1.0 / 0.5_f64.sinh());
    assert!(mae("discontin", &stream, &settings(100)) < mae("discontin", &stream, &settings(5)) / 2.0);
    assert!(mae("laplace_truncated", &stream, &settings(10)) < mae("laplace", &stream, &settings(10)) * 0.9);
}

#[test]
fn what_a_mechanism_cannot_do_is_unsupported() {
    let stream = waves(5);
    let contribution = Settings { protects: Protects::Contribution(NonZeroU64::MIN), ..settings(0) };
    let unsupported = |name: &str, settings: &Settings| match run(name, &stream, settings, 1) {
        Err(RunError::Unsupported(why)) => why.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(unsupported("laplace_truncated", &contribution).contains("truncation"));
    assert!(!unsupported("contin", &settings(1 << 32)).is_empty());
}
