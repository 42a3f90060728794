//! Accuracy of the scalar mechanism `track`.

use std::num::NonZeroU64;

use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{Grid, SeededRandom};
use tidegate::release::Release;
use tidegate::scalar::{Scalar, ScalarKind, ScalarSettings};

use crate::support::unit;

fn mean_error(kind: ScalarKind, delay: u32, epsilon: &str) -> f64 {
    mean_error_of(kind, delay, epsilon, Protects::Reading).0
}

/// The mean absolute error, and how often the truth lies within 1.96 stated deviations.
fn mean_error_of(kind: ScalarKind, delay: u32, epsilon: &str, protects: Protects) -> (f64, f64) {
    let grid = Grid::new(0.0, 1_000.0, 1.0).unwrap();
    let settings = ScalarSettings { protects, ..ScalarSettings::new(epsilon.parse().unwrap(), grid, delay) };
    let mut mechanism = Scalar::new(kind, settings).unwrap();
    let mut random = SeededRandom::new(16);
    let (mut truth, mut level, mut released) = (Vec::new(), 300.0_f64, Vec::new());
    for timestamp in 0..500 {
        level = (level + 10.0 * (unit(&mut random) - 0.5)).clamp(0.0, 1_000.0);
        truth.push(level);
        released.extend(mechanism.push(mechanism.seal(timestamp, level).unwrap(), &mut random).unwrap());
    }
    released.extend(mechanism.finish(&mut random).unwrap());
    let errors = released.iter().zip(&truth).map(|(release, truth)| {
        let number = release.statistic.number().unwrap();
        let error = (number.value - truth).abs();
        (error, f64::from(u8::from(error <= 1.96 * number.variance.sqrt())))
    });
    let (errors, covered) = errors.fold((0.0, 0.0), |(sum, all), (error, covered)| (sum + error, all + covered));
    (errors / 500.0, covered / 500.0)
}

#[test]
fn tracked_counts_beat_their_noise() {
    let protects = Protects::Contribution(NonZeroU64::new(3).unwrap());
    for epsilon in ["0.1", "1"] {
        let (tracked, _) = mean_error_of(ScalarKind::Track, 0, epsilon, protects);
        let (noisy, _) = mean_error_of(ScalarKind::Laplace, 0, epsilon, protects);
        assert!(tracked < 0.95 * noisy, "{epsilon}: {tracked} {noisy}");
    }
    // Noise that is not small beside the domain would be worse than questions.
    let large = Protects::Contribution(NonZeroU64::new(300).unwrap());
    let (tracked, _) = mean_error_of(ScalarKind::Track, 0, "1", large);
    assert!(tracked < 0.3 * mean_error_of(ScalarKind::Laplace, 0, "1", large).0, "{tracked}");
}

#[test]
fn small_epsilon_finds_levels_and_hardly_loses() {
    // A level far from the middle, and readings anywhere, of which nothing can be foretold. Bounds as below.
    let error = |truth: &dyn Fn(&mut SeededRandom) -> f64| {
        let settings = ScalarSettings::new("0.1".parse().unwrap(), Grid::new(0.0, 1_000.0, 1.0).unwrap(), 0);
        let mut mechanism = Scalar::new(ScalarKind::Track, settings).unwrap();
        let (mut random, mut tracked, mut constant) = (SeededRandom::new(18), 0.0, 0.0);
        for timestamp in 0..1_500 {
            let reading = truth(&mut random);
            let released = mechanism.push(mechanism.seal(timestamp, reading).unwrap(), &mut random).unwrap();
            tracked += (released[0].statistic.number().unwrap().value - reading).abs();
            constant += (500.0 - reading).abs();
        }
        tracked / constant
    };
    for level in [50.0, 250.0, 800.0] {
        let part = error(&|_| level);
        assert!(part < 0.85, "{level}: {part}");
    }
    let part = error(&|random| 1_000.0 * unit(random));
    assert!(part < 1.25, "{part}");
}

/// Streams of many kinds, each with the most that its error may be at each epsilon, as a part of that of a constant.
/// What stays in the middle of the domain is not among them: there a constant cannot be beaten. Each bound lies at
/// least 5.5 standard deviations above the mean, both found from 30 such runs with other seeds: a false alarm of any
/// has a probability below 1e-5.
#[test]
fn tracking_rarely_loses_to_a_constant() {
    type Course = fn(f64, &mut SeededRandom) -> f64;
    fn around(level: f64, random: &mut SeededRandom) -> f64 {
        level + 0.1 * (unit(random) + unit(random) - 1.0)
    }
    let streams: [(&str, Course, [f64; 3]); 8] = [
        ("low", |_, random| around(0.1, random), [0.55, 0.22, 0.2]),
        ("a third", |_, random| around(0.3, random), [1.05, 0.42, 0.33]),
        ("high", |_, random| around(0.85, random), [0.7, 0.22, 0.25]),
        ("a step", |time, random| around(if time < 0.5 { 0.2 } else { 0.8 }, random), [1.3, 1.15, 0.42]),
        ("a wave", |time, random| around(0.5 + 0.35 * (9.0 * time).sin(), random), [1.7, 1.1, 0.52]),
        ("spikes", |_, random| if unit(random) < 0.03 { unit(random) } else { 0.0 }, [0.6, 0.16, 0.12]),
        ("mostly small", |_, random| (-0.05 * unit(random).ln()).min(1.0), [0.66, 0.2, 0.18]),
        ("anywhere", |_, random| unit(random), [1.28, 1.07, 1.03]),
    ];
    for (name, course, most) in streams {
        for (epsilon, most) in ["0.1", "0.5", "1"].into_iter().zip(most) {
            let (mut tracked, mut constant) = (0.0, 0.0);
            for seed in 21..25 {
                let settings = ScalarSettings::new(epsilon.parse().unwrap(), Grid::new(0.0, 1_000.0, 1.0).unwrap(), 0);
                let mut mechanism = Scalar::new(ScalarKind::Track, settings).unwrap();
                let mut random = SeededRandom::new(seed);
                for timestamp in 0..600_u32 {
                    let reading = 1_000.0 * course(f64::from(timestamp) / 600.0, &mut random).clamp(0.0, 1.0);
                    let sealed = mechanism.seal(timestamp.into(), reading).unwrap();
                    let released = mechanism.push(sealed, &mut random).unwrap();
                    tracked += (released[0].statistic.number().unwrap().value - reading).abs();
                    constant += (500.0 - reading).abs();
                }
            }
            assert!(tracked < most * constant, "{name} at {epsilon}: {}", tracked / constant);
        }
    }
}

#[test]
fn tracking_beats_noise_and_delay_lowers_error() {
    let tracked = mean_error(ScalarKind::Track, 0, "1");
    assert!(tracked < 0.4 * mean_error(ScalarKind::Constant, 0, "1"), "{tracked}");
    assert!(tracked < 0.1 * mean_error(ScalarKind::Laplace, 0, "1"), "{tracked}");
    assert!(mean_error(ScalarKind::Track, 20, "1") < tracked);
    // Where answers are almost surely true.
    assert!(mean_error(ScalarKind::Track, 0, "100") < 10.0);
}

/// Readings at both ends of the domain, of which the middle says nothing. Over 20 other seeds the ratio was 1.12 at
/// most; the bar is what the mechanism promises.
#[test]
fn two_ends_cost_little_more_than_clamped_noise() {
    for (epsilon, width) in [("0.1", 10.0), ("1", 1_000.0), ("4", 10.0), ("4", 1_000.0)] {
        let error = |kind: ScalarKind| {
            let settings = ScalarSettings::new(epsilon.parse().unwrap(), Grid::new(0.0, width, 1.0).unwrap(), 0);
            (31..41).map(|seed| squared_error(kind, settings, seed, |random| width * unit(random).round())).sum::<f64>()
        };
        let (tracked, clamped) = (error(ScalarKind::Track), error(ScalarKind::Clamped));
        assert!(tracked < 1.25 * clamped, "{epsilon} {width}: {}", tracked / clamped);
    }
}

/// Sum of the squared errors over 500 readings, without delay.
fn squared_error(
    kind: ScalarKind,
    settings: ScalarSettings,
    seed: u64,
    reading: impl Fn(&mut SeededRandom) -> f64,
) -> f64 {
    let mut mechanism = Scalar::new(kind, settings).unwrap();
    let mut random = SeededRandom::new(seed);
    let mut error = |timestamp: u64| {
        let truth = reading(&mut random);
        let released = mechanism.push(mechanism.seal(timestamp, truth).unwrap(), &mut random).unwrap();
        (released[0].statistic.number().unwrap().value - truth).powi(2)
    };
    (0..500).map(&mut error).sum()
}

/// The envelope: a release is never farther than ten noise scales from its noisy reading, which `clamped` publishes
/// with the same randomness.
#[test]
fn a_tracked_count_stays_near_its_noisy_reading() {
    let grid = Grid::new(0.0, 1e6, 1.0).unwrap();
    let protects = Protects::Contribution(NonZeroU64::MIN);
    for delay in [0, 10] {
        let settings = ScalarSettings { protects, ..ScalarSettings::new("0.5".parse().unwrap(), grid, delay) };
        let run = |kind: ScalarKind| {
            let mut mechanism = Scalar::new(kind, settings).unwrap();
            let (mut random, mut released) = (SeededRandom::new(9), Vec::new());
            for timestamp in 0..2_000_u64 {
                // Quiet, then anywhere.
                let reading = if timestamp < 1_000 { 500.0 } else { (timestamp * 7_919 % 1_000_000) as f64 };
                released.extend(mechanism.push(mechanism.seal(timestamp, reading).unwrap(), &mut random).unwrap());
            }
            released.extend(mechanism.finish(&mut random).unwrap());
            released
        };
        let (tracked, noisy) = (run(ScalarKind::Track), run(ScalarKind::Clamped));
        assert_eq!(tracked.len(), noisy.len());
        let mut moved = 0;
        for (tracked, noisy) in tracked.iter().zip(&noisy) {
            let [tracked, noisy] = [tracked, noisy].map(|release| release.statistic.number().unwrap().value);
            // The scale is 2; rounding adds a half.
            assert!((tracked - noisy).abs() <= 20.5, "{tracked} {noisy}");
            moved += u32::from((tracked - noisy).abs() > 0.5);
        }
        assert!(moved > 300, "nothing was filtered: {moved}");
    }
}

/// White noise of about the size of the mechanism's own: it takes long to tell which of both a reading shows. How often
/// the truth lies within 1.96 stated deviations, over 24 runs of 240 timestamps for each size and delay. A run's share
/// has a deviation of at most 0.06, so their mean one of 0.012.
#[test]
fn intervals_hold_where_readings_scatter_like_the_noise() {
    let protects = Protects::Contribution(NonZeroU64::MIN);
    let grid = Grid::new(0.0, 1_000.0, 1.0).unwrap();
    for delay in [0, 10, 100] {
        for deviation in [7.5, 10.0, 15.0] {
            let settings = ScalarSettings { protects, ..ScalarSettings::new("0.1".parse().unwrap(), grid, delay) };
            let mut covered = 0_u32;
            for seed in 100..124 {
                let mut mechanism = Scalar::new(ScalarKind::Track, settings).unwrap();
                let mut random = SeededRandom::new(seed);
                let (mut truth, mut released) = (Vec::new(), Vec::new());
                for timestamp in 0..240 {
                    // Twelve uniform numbers add up to one that is nearly normal.
                    let normal = (0..12).map(|_| unit(&mut random)).sum::<f64>() - 6.0;
                    truth.push((500.0 + deviation * normal).round());
                    let sealed = mechanism.seal(timestamp, truth[truth.len() - 1]).unwrap();
                    released.extend(mechanism.push(sealed, &mut random).unwrap());
                }
                released.extend(mechanism.finish(&mut random).unwrap());
                covered += released.iter().zip(&truth).map(|pair| u32::from(holds(pair))).sum::<u32>();
            }
            let share = f64::from(covered) / f64::from(24 * 240);
            assert!(share >= 0.9, "delay {delay}, deviation {deviation}: {share}");
        }
    }
}

/// Bits hardly tell how far readings scatter around a level: here by a pattern whose period nobody named, a twelfth of
/// the domain in deviation. Over 12 runs of 600 timestamps, as above.
#[test]
fn intervals_of_bits_hold_where_readings_scatter() {
    let grid = Grid::new(0.0, 600.0, 1.0).unwrap();
    for delay in [0, 10] {
        let settings = ScalarSettings::new("4".parse().unwrap(), grid, delay);
        let mut covered = 0_u32;
        for seed in 100..112 {
            let mut mechanism = Scalar::new(ScalarKind::Track, settings).unwrap();
            let mut random = SeededRandom::new(seed);
            let (mut truth, mut released) = (Vec::new(), Vec::new());
            for timestamp in 0..600_u32 {
                let of_year = f64::from((timestamp * 7) % 12) - 5.5;
                truth.push((200.0 + 0.15 * f64::from(timestamp) + 14.0 * of_year).round());
                let sealed = mechanism.seal(timestamp.into(), truth[truth.len() - 1]).unwrap();
                released.extend(mechanism.push(sealed, &mut random).unwrap());
            }
            released.extend(mechanism.finish(&mut random).unwrap());
            covered += released.iter().zip(&truth).map(|pair| u32::from(holds(pair))).sum::<u32>();
        }
        let share = f64::from(covered) / f64::from(12 * 600);
        assert!(share >= 0.9, "delay {delay}: {share}");
    }
}

/// Whether the truth lies within 1.96 stated deviations.
fn holds((release, truth): (&Release, &f64)) -> bool {
    let number = release.statistic.number().unwrap();
    (number.value - truth).abs() <= 1.96 * number.variance.sqrt()
}
