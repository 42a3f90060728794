//! Histograms of a curator's counts as `track` publishes them: what it spends, and what it can miss.

use std::num::NonZeroU64;

use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::personal_track::PersonalTrack;
use tidegate::central::{Central, CentralKind, CentralSettings, PersonalSettings};
use tidegate::kernel::primitives::ClassHistograms;
use tidegate::kernel::{Epsilon, Sealed, SeededRandom};
use tidegate::release::Counts;

use crate::central::{counts_of, fullest_window, spent_at};

/// Releases of counts that are functions of time, and the spend of each timestamp, in units.
fn run(
    kind: CentralKind,
    (epsilon, window): (&str, u64),
    (length, seed): (u64, u64),
    truth: impl Fn(u64) -> Vec<u64>,
) -> Vec<(Counts, u64)> {
    let domain = u32::try_from(truth(0).len()).unwrap();
    let settings = CentralSettings::new(epsilon.parse().unwrap(), NonZeroU64::new(window).unwrap(), domain);
    let (mut mechanism, mut random) = (Central::new(kind, settings).unwrap(), SeededRandom::new(seed));
    let push = |timestamp: u64| {
        let sealed = Sealed::at(mechanism.ledger().account(), timestamp, truth(timestamp));
        let release = mechanism.push(&sealed, &mut random).unwrap().remove(0);
        let spent = spent_at(mechanism.ledger(), timestamp);
        assert_eq!(release.spent.most().map_or(0, Epsilon::units), spent);
        (counts_of(&release).clone(), spent)
    };
    (0..length).map(push).collect()
}

/// Mean squared error of a count from a timestamp on.
fn error_from(from: usize, runs: &[(Counts, u64)], truth: impl Fn(u64) -> Vec<u64>) -> f64 {
    let of_row = |(timestamp, (released, _)): (usize, &(Counts, u64))| {
        let truth = truth(timestamp as u64);
        let squares = released.counts.iter().zip(&truth).map(|(count, truth)| (count - *truth as f64).powi(2));
        squares.sum::<f64>() / truth.len() as f64
    };
    runs.iter().enumerate().skip(from).map(of_row).sum::<f64>() / (runs.len() - from) as f64
}

/// Errors of `track` and of `uniform` from a timestamp on, for an epsilon of one half and a window of 20.
fn errors_from(from: u64, truth: impl Fn(u64) -> Vec<u64>) -> (f64, f64) {
    let error = |kind| error_from(from as usize, &run(kind, ("0.5", 20), (from + 60, 29), &truth), &truth);
    (error(CentralKind::Track), error(CentralKind::Uniform))
}

#[test]
fn tracked_histogram_never_exceeds_a_window() {
    for (window, users) in [1_u64, 3, 7, 20].into_iter().flat_map(|window| [(window, 1), (window, 1_000)]) {
        let releases = run(CentralKind::Track, ("1", window), (600, 17), |timestamp| {
            // It stands still, moves, stands still again, and jumps now and then.
            let level = match timestamp {
                100..200 => timestamp * 7919 % 5_000,
                400.. => 1_000 + 3_000 * (timestamp / 37 % 2),
                _ => 1_000,
            };
            vec![level * users, 500 * users, 0]
        });
        for (Counts { counts, variances }, _) in &releases {
            assert!(counts.iter().chain(variances).all(|number| number.is_finite() && *number >= 0.0));
        }
        let spends: Vec<u64> = releases.iter().map(|(_, spent)| *spent).collect();
        let fullest = fullest_window(&spends, window);
        assert!(fullest <= 1_000_000_000 && fullest > 900_000_000, "w={window}: {fullest}");
    }
}

#[test]
fn every_timestamp_is_watched() {
    // An even share is 50,000,000 units; watching takes three tenths of it, whatever the stream does.
    for restless in [false, true] {
        let truth = |timestamp: u64| vec![1_000 + u64::from(restless) * (timestamp * 7919 % 5_000), 40];
        let releases = run(CentralKind::Track, ("1", 20), (400, 3), truth);
        assert!(releases.iter().all(|(_, spent)| *spent >= 15_000_000), "{restless}");
    }
}

/// A number without a pattern in time.
const fn scrambled(timestamp: u64) -> u64 {
    let mixed = (timestamp + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

#[test]
fn a_constant_is_published_rarely_and_exactly_a_restless_stream_evenly() {
    let largest = |restless: u64| {
        let truth = |timestamp: u64| vec![1_000 + restless * (scrambled(timestamp) % 100_000), 40];
        let releases = run(CentralKind::Track, ("1", 20), (300, 18), truth);
        releases.iter().skip(200).map(|(_, spent)| *spent).max().unwrap()
    };
    assert!(largest(0) > 100_000_000, "{}", largest(0));
    assert!((45_000_000..=50_000_000).contains(&largest(1)), "{}", largest(1));
}

#[test]
fn a_release_stays_near_what_was_published() {
    // Jumps of 10 to 1e9 noise scales, up and down, after quiet time. Noise of 30 scales of a watching histogram has a
    // probability of exp(-30) a count, and the envelope allows ten more.
    for (jump, seed) in (0..9).map(|power| 400 * 10_u64.pow(power)).zip(0..) {
        let truth = |timestamp: u64| vec![1_000 + jump * (timestamp / 80 % 2), 500, 10];
        let scale = 20.0 / 0.5 / 0.3;
        for (timestamp, (released, _)) in (0..).zip(run(CentralKind::Track, ("0.5", 20), (400, seed), truth)) {
            for (count, truth) in released.counts.iter().zip(truth(timestamp)) {
                assert!((count - truth as f64).abs() < 40.0 * scale, "{jump} at {timestamp}: {count}, {truth}");
            }
        }
    }
}

#[test]
fn large_populations_are_told_as_plainly_as_by_uniform() {
    // A sine curve of a million users and more, which once broke the filter.
    for users in [1_000_000_u64, 1_000_000_000, 1_000_000_000_000] {
        let truth = |timestamp: u64| {
            let ones = users as f64 * (0.05 * (0.01 * timestamp as f64).sin() + 0.075);
            vec![users - ones as u64, ones as u64]
        };
        let error = |kind| error_from(0, &run(kind, ("1", 10), (300, 5), truth), truth);
        let (track, uniform) = (error(CentralKind::Track), error(CentralKind::Uniform));
        assert!(track < 1.25 * uniform, "{users}: {track}, {uniform}");
    }
}

#[test]
fn a_queue_that_fills_for_six_timestamps_is_told() {
    let filled = |timestamp: u64| (120..126).contains(&timestamp);
    let truth = |timestamp: u64| vec![1 + timestamp * 7 % 4 + 500 * u64::from(filled(timestamp)), 2];
    for seed in 0..8 {
        let releases = run(CentralKind::Track, ("1", 24), (160, seed), truth);
        let told = releases.iter().zip(0..).filter(|((released, _), at)| filled(*at) && released.counts[0] > 250.0);
        let told = told.count();
        assert!(told >= 3, "{seed}: {told}");
        assert!(releases[112].0.counts[0] < 60.0 && releases[150].0.counts[0] < 120.0, "{seed}");
    }
}

#[test]
fn growth_is_followed() {
    // From 40 users to 1,040, within ten timestamps.
    let truth = |timestamp: u64| vec![40 + 100 * timestamp.saturating_sub(200).min(10), 3];
    let error = |kind| error_from(0, &run(kind, ("0.5", 20), (300, 29), truth), truth);
    let (track, uniform) = (error(CentralKind::Track), error(CentralKind::Uniform));
    assert!(track < 2.0 * uniform, "{track}, {uniform}");
}

#[test]
fn jump_and_return_are_both_detected() {
    // Spikes of a single timestamp: to miss one costs 30,000², where noise costs 60 · 3,200.
    let spike = |timestamp: u64| [50, 87, 140, 199, 205, 214, 230, 241].contains(&timestamp);
    let truth = |timestamp: u64| if spike(timestamp) { vec![90_000, 60_000] } else { vec![120_000, 30_000] };
    let (track, uniform) = errors_from(190, truth);
    assert!(track < 1.5 * uniform, "{track}, {uniform}");
}

#[test]
fn rarely_jumping_stream_is_told_better_than_evenly() {
    // Twenty counts, all others after every 21 timestamps.
    let truth = |timestamp: u64| {
        (0..20).map(|count| 500 + (count * 7919 + timestamp / 21 * 104_729) % 1_000).collect::<Vec<u64>>()
    };
    let (track, uniform) = errors_from(400, truth);
    assert!(track < 0.95 * uniform, "{track}, {uniform}");
}

#[test]
fn window_periodic_stream_is_not_constant() {
    // After some time, one day of a week, whichever it is, differs from the others: published once a week on that day,
    // it would stand still.
    for day in 0..7 {
        let truth = |timestamp: u64| {
            if timestamp < 100 || timestamp % 7 == day { vec![140_000, 60_000] } else { vec![130_000, 70_000] }
        };
        let error = |kind| error_from(100, &run(kind, ("2", 7), (160, 26), truth), truth);
        let (track, uniform) = (error(CentralKind::Track), error(CentralKind::Uniform));
        assert!(track < 1.1 * uniform, "{day}: {track}, {uniform}");
    }
}

#[test]
fn noise_is_not_taken_for_jumps() {
    // Of 300 counts, some are always off by several standard deviations.
    let truth = |_| (1..=300).map(|rank| 100_000 / rank).collect::<Vec<u64>>();
    let error = |kind| error_from(100, &run(kind, ("1", 20), (300, 27), truth), truth);
    let (track, uniform) = (error(CentralKind::Track), error(CentralKind::Uniform));
    assert!(track < 0.05 * uniform, "{track}, {uniform}");
}

#[test]
fn rich_class_does_not_pay_for_poor_class() {
    let requirement = |epsilon: &str, window| Requirement {
        epsilon: epsilon.parse().unwrap(),
        window: NonZeroU64::new(window).unwrap(),
    };
    // Ten users whose budget is whole again at every timestamp, and a hundred thousand others.
    let classes = Classes::numbered(&[requirement("1", 1), requirement("1", 40)]).unwrap();
    let mut mechanism = PersonalTrack::new(classes, PersonalSettings::new(2)).unwrap();
    let mut random = SeededRandom::new(28);
    for timestamp in 0..700_u64 {
        let jumped = if timestamp < 600 { 0 } else { 20_000 };
        let counts = vec![7, 3, 70_000 - jumped, 30_000 + jumped];
        let sealed = ClassHistograms::seal(mechanism.ledgers().account(), timestamp, &[0, 1], counts).unwrap();
        let release = mechanism.push(&sealed, &[10, 100_000], &mut random).unwrap().remove(0);
        // Ten users tell where the others are to within some ten thousand.
        let off = (counts_of(&release).counts[0] - 70_007.0 + jumped as f64).abs();
        assert!(timestamp < 40 || off < 5_000.0, "{off} at {timestamp}");
    }
}
