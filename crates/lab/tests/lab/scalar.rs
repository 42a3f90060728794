use std::num::{NonZeroU32, NonZeroU64};

use tidegate::scalar::{ScalarKind, Truncation};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Grid, SeededRandom};
use tidegate_lab::NumberStream;
use tidegate_lab::experiment::{NumberOutcome, RunError, Subject, TrialSettings};
use tidegate_lab::metrics::{Metric, compare_numbers};
use tidegate_lab::scalar::published::{Published, THRESHOLD, buckets};
use tidegate_lab::scalar::subjects;
use tidegate_lab::subjects::by_name;

fn waves(length: u32) -> NumberStream {
    let wave = |t: u32| (200.0 + 100.0 * (f64::from(t) / 9.0).sin()).round();
    NumberStream::new("waves", Grid::new(0.0, 612.0, 1.0).unwrap(), (0..length).map(wave).collect()).unwrap()
}

fn settings(delay: u64) -> TrialSettings {
    TrialSettings { delay, ..TrialSettings::new("0.5".parse().unwrap(), NonZeroU64::MIN) }
}

fn run(name: &str, stream: &NumberStream, settings: &TrialSettings, seed: u64) -> Result<NumberOutcome, RunError> {
    by_name(name).unwrap().on_numbers().unwrap().run(stream, settings, &mut SeededRandom::new(seed))
}

fn mae(name: &str, stream: &NumberStream, settings: &TrialSettings) -> f64 {
    compare_numbers(stream, &run(name, stream, settings, 7).unwrap().values).unwrap()[&Metric::Mae]
}

#[test]
fn every_event_level_mechanism_has_a_subject_of_its_name() {
    for kind in ScalarKind::ALL {
        assert!(by_name(kind.mechanism().name()).unwrap().on_numbers().is_some(), "{kind}");
    }
}

#[test]
fn every_variant_releases_one_number_a_timestamp_and_no_two_are_the_same() {
    let stream = waves(150);
    for delay in [0, 10] {
        let settings = TrialSettings { within_domain: true, ..settings(delay) };
        let mut outcomes: Vec<(&str, NumberOutcome)> = Vec::new();
        for subject in subjects() {
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
    let within = TrialSettings { within_domain: true, ..settings(0) };
    assert_eq!(run("clamped", &stream, &settings(0), 1).unwrap(), run("laplace", &stream, &within, 1).unwrap());
    let noisy = run("laplace", &stream, &settings(0), 1).unwrap();
    assert!(noisy.values.iter().any(|value| !(0.0..=612.0).contains(value)));
}

#[test]
fn settings_reach_the_mechanism() {
    let stream = waves(2000);
    // Noise has a mean distance of 2 * 612, and of 2 for a contributor; a tenth off would be 4.5 standard errors and
    // more.
    let close = |given: f64, expected: f64| assert!((given / expected - 1.0).abs() < 0.1, "{given} is not {expected}");
    close(mae("laplace", &stream, &settings(0)), 1224.0);
    let contribution = TrialSettings { protects: Protects::Contribution(NonZeroU64::MIN), ..settings(0) };
    close(mae("laplace", &stream, &contribution), 1.0 / 0.5_f64.sinh());
    assert!(mae("discontin", &stream, &settings(100)) < mae("discontin", &stream, &settings(5)) / 2.0);
    assert!(mae("laplace_truncated", &stream, &settings(10)) < mae("laplace", &stream, &settings(10)) * 0.9);
}

#[test]
fn threshold_buckets_and_truncation_reach_the_mechanisms_that_have_them() {
    let stream = waves(300);
    let told = [
        TrialSettings { threshold: Some(1e6), ..settings(10) },
        TrialSettings { buckets: Some(3), ..settings(10) },
        TrialSettings { truncation: Some(Truncation { every: NonZeroU32::MIN, percent: 50 }), ..settings(10) },
    ];
    let heard = |name: &str| {
        told.each_ref()
            .map(|told| run(name, &stream, told, 3).unwrap() != run(name, &stream, &settings(10), 3).unwrap())
    };
    for (name, expected) in [
        ("laplace", [false; 3]),
        ("contin", [true, false, false]),
        ("discontin_points", [true, false, false]),
        ("pegasus", [true, false, false]),
        ("bucorder_sums", [false, true, false]),
        ("laplace_truncated", [false, false, true]),
        ("paper_contin_not_private", [true, false, false]),
        ("paper_discontin", [true, false, false]),
        ("paper_bucorder", [false, true, false]),
        ("paper_bucorder_not_private", [false, true, false]),
        ("paper_comporder", [false; 3]),
    ] {
        assert_eq!(heard(name), expected, "{name}");
    }
    let bad = TrialSettings { threshold: Some(f64::NAN), ..settings(10) };
    assert!(matches!(run("contin", &stream, &bad, 1), Err(RunError::Unsupported(_))));
}

#[test]
fn with_a_huge_epsilon_what_was_published_releases_the_readings_or_the_means_of_groups() {
    let stream = waves(64);
    let exact = |delay| TrialSettings { delay, ..TrialSettings::new("1000".parse().unwrap(), NonZeroU64::MIN) };
    // Noise of a scale of less than one in what is published, and of a few in the tests of groups.
    let off = |published: Published, settings: &TrialSettings| {
        let released = run(published.name(), &stream, settings, 5).unwrap().values;
        let distances = released.iter().zip(stream.values()).map(|(given, truth)| (given - truth).abs());
        distances.fold(0.0, f64::max)
    };
    let apart = TrialSettings { threshold: Some(0.0), ..exact(8) };
    for published in [Published::Pegasus, Published::PegasusDelay, Published::Contin, Published::ContinPoints] {
        assert!(off(published, &apart) < 40.0, "{published:?}");
    }
    let together = TrialSettings { threshold: Some(1e9), ..exact(8) };
    for published in [Published::Contin, Published::Discontin, Published::DiscontinPoints, Published::ContinPoints] {
        let released = run(published.name(), &stream, &together, 5).unwrap().values;
        for (released, batch) in released.chunks(8).zip(stream.values().chunks(8)) {
            let mean = batch.iter().sum::<f64>() / 8.0;
            assert!(released.iter().all(|value| *value == released[0]), "{published:?}");
            assert!((released[0] - mean).abs() < 10.0, "{published:?}: {} and {mean}", released[0]);
        }
    }
    // Seven buckets of some 87, within which all members get one number.
    let width = 612.0 / f64::from(buckets(612.0));
    assert!(off(Published::Bucorder, &exact(8)) < width);
    assert!(off(Published::Comporder, &exact(8)) < 250.0);
    assert_eq!(
        off(Published::Contin, &exact(8)),
        off(Published::Contin, &TrialSettings { threshold: Some(THRESHOLD), ..exact(8) })
    );
}

/// 2,000 readings of noise with a mean distance of 1.25 * 1224: a tenth off would be 4.5 standard errors.
#[test]
fn what_was_published_has_the_noise_that_was_published() {
    let stream = waves(2000);
    let alone = TrialSettings { threshold: Some(0.0), ..settings(1) };
    let error = mae("paper_discontin", &stream, &alone);
    assert!((error / (1.25 * 1224.0) - 1.0).abs() < 0.1, "{error}");
}

/// Without a delay nothing is compared: noise of three quarters of epsilon, with a mean distance of 4/3 * 1224. A tenth
/// off would be 4.5 standard errors.
#[test]
fn comporder_as_published_compares_with_a_quarter_of_epsilon() {
    let error = mae("paper_comporder", &waves(2000), &settings(0));
    assert!((error / (4.0 / 3.0 * 1224.0) - 1.0).abs() < 0.1, "{error}");
}

/// As published, only bounds that contradict each other change what is released, to the middle of the two: then it is
/// made of earlier releases, and less noise gets in. The library ignores such bounds.
#[test]
fn comporder_as_published_averages_bounds_that_contradict_each_other() {
    let stream = waves(2000);
    let released = run("paper_comporder", &stream, &settings(10), 7).unwrap().values;
    let middles = (10..2000).filter(|at| {
        let earlier = &released[at - 10..*at];
        let with_start = || earlier.iter().copied().chain([0.0, 1e9]);
        with_start().any(|low| with_start().any(|high| released[*at] == f64::midpoint(low, high)))
    });
    let middles = middles.count();
    assert!((1000..2000).contains(&middles), "{middles} of 1,990");
    assert!(mae("paper_comporder", &stream, &settings(10)) < mae("comporder", &stream, &settings(10)));
}

/// A released number lies in the bucket of its label. Readings stand in the middle of the lower of two buckets, so that
/// with the upper label, noise leads above 306 with a probability of 0.455. With an eighth of a unit of epsilon for
/// labels, a reading keeps its own with a probability of 0.531; where a false one is drawn from both, 0.766 are in
/// their own. Of 2,000 readings either is known with a standard error of 0.025.
#[test]
fn bucorder_as_published_draws_a_false_bucket_from_the_others() {
    let stream = NumberStream::new("low", Grid::new(0.0, 612.0, 1.0).unwrap(), vec![153.0; 2_000]).unwrap();
    let two = TrialSettings { buckets: Some(2), ..settings(1) };
    let kept = |name: &str| {
        let released = run(name, &stream, &two, 11).unwrap().values;
        let above = released.iter().filter(|given| **given > 306.0).count();
        1.0 - above as f64 / 2_000.0 / (0.5 * (-0.375_f64 * 153.0 / 612.0).exp())
    };
    let (others, all) = (kept("paper_bucorder"), kept("paper_bucorder_not_private"));
    assert!((others - 0.531).abs() < 0.1 && (all - 0.766).abs() < 0.1, "{others} and {all}");
}

/// Publication has four fifths of epsilon. Readings that stand apart each close the group before them, and have noise
/// of that scale alone: a tenth is 4.5 standard errors. Readings that are alike have medians of groups, and less noise.
#[test]
fn adapub_publishes_with_four_fifths_of_epsilon_and_smooths_groups() {
    let settings = TrialSettings::new("1000".parse().unwrap(), NonZeroU64::MIN);
    let stream = |value: &dyn Fn(u32) -> f64| {
        NumberStream::new("made", Grid::new(0.0, 612.0, 1.0).unwrap(), (0..2_000).map(value).collect()).unwrap()
    };
    let error = |stream: &NumberStream| mae("paper_adapub_not_private", stream, &settings);
    let apart = error(&stream(&|at| if at % 2 == 0 { 50.0 } else { 550.0 }));
    let alike = error(&stream(&|_| 300.0));
    assert!((apart / (612.0 / 800.0) - 1.0).abs() < 0.1, "{apart}");
    assert!(alike < apart, "{alike} and {apart}");
}
