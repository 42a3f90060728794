//! Histograms of a curator's counts as `track` publishes them: how often, and what it spends in between.

use std::num::NonZeroU64;

use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::personal_track::PersonalTrack;
use tidegate::central::{Central, CentralKind, CentralSettings, PersonalSettings};
use tidegate::kernel::primitives::ClassHistograms;
use tidegate::kernel::{Epsilon, Sealed, SeededRandom};
use tidegate::release::Freshness;

use crate::central::{counts_of, fullest_window, spent_at};

#[test]
fn tracked_histogram_never_exceeds_a_window() {
    // With a thousand times as many users, it is watched between publications.
    for (window, users) in [1_u64, 3, 7, 20].into_iter().flat_map(|window| [(window, 1), (window, 1_000)]) {
        let settings = CentralSettings::new("1".parse().unwrap(), NonZeroU64::new(window).unwrap(), 3);
        let mut mechanism = Central::new(CentralKind::Track, settings).unwrap();
        let mut random = SeededRandom::new(17);
        let mut spends = Vec::new();
        for timestamp in 0..600_u64 {
            // It stands still, moves, stands still again, and jumps now and then.
            let level = match timestamp {
                100..200 => timestamp * 7919 % 5_000,
                400.. => 1_000 + 3_000 * (timestamp / 37 % 2),
                _ => 1_000,
            };
            let counts = vec![level * users, 500 * users, 0];
            let releases =
                mechanism.push(&Sealed::at(mechanism.ledger().account(), timestamp, counts), &mut random).unwrap();
            assert!(counts_of(&releases[0]).counts.iter().all(|count| count.is_finite() && *count >= 0.0));
            assert!(counts_of(&releases[0]).variances.iter().all(|variance| variance.is_finite() && *variance >= 0.0));
            spends.push(spent_at(mechanism.ledger(), timestamp));
            assert_eq!(releases[0].spent.most().map_or(0, Epsilon::units), *spends.last().unwrap());
        }
        let fullest = fullest_window(&spends, window);
        assert!(fullest <= 1_000_000_000 && fullest > 900_000_000, "w={window}: {fullest}");
    }
}

/// How often counts were told afresh before a timestamp, and the mean squared error from then on, of counts that are
/// functions of time.
fn tracked_from(kind: CentralKind, window: u64, from: u64, truth: impl Fn(u64) -> [u64; 2]) -> (u64, f64) {
    let settings = CentralSettings::new("2".parse().unwrap(), NonZeroU64::new(window).unwrap(), 2);
    let mut mechanism = Central::new(kind, settings).unwrap();
    let mut random = SeededRandom::new(26);
    let (mut told, mut error, until) = (0, 0.0, from + 60);
    for timestamp in 0..until {
        let release = mechanism
            .push(&Sealed::at(mechanism.ledger().account(), timestamp, truth(timestamp).to_vec()), &mut random)
            .unwrap()
            .remove(0);
        if timestamp < from {
            told += u64::from(release.freshness == Freshness::Fresh);
        } else {
            let counts = counts_of(&release).counts.iter().zip(truth(timestamp));
            error += counts.map(|(count, truth)| (count - truth as f64).powi(2)).sum::<f64>();
        }
    }
    (told, error / 2.0 / (until - from) as f64)
}

#[test]
fn a_jump_between_publications_is_seen_at_once() {
    let jumps = |timestamp: u64| if timestamp < 200 { [140_000, 60_000] } else { [120_000, 80_000] };
    let (told, error) = tracked_from(CentralKind::Track, 20, 200, jumps);
    let (_, uniform) = tracked_from(CentralKind::Uniform, 20, 200, jumps);
    // To miss it for a single timestamp costs 20,000² / 60, thousands of times as much as all the noise.
    assert!(told < 100 && error < 20.0 * uniform, "{told} times; {error}, {uniform}");
}

/// The mean squared errors of `track` and of `uniform` from a timestamp on, of counts that are functions of time, over
/// a window of 20 with an epsilon of one half; and how often `track` told counts afresh before.
fn errors_from(from: u64, truth: impl Fn(u64) -> Vec<u64>) -> (f64, f64, usize) {
    let error = |kind: CentralKind| {
        let domain = u32::try_from(truth(0).len()).unwrap();
        let settings = CentralSettings::new("0.5".parse().unwrap(), NonZeroU64::new(20).unwrap(), domain);
        let mut mechanism = Central::new(kind, settings).unwrap();
        let mut random = SeededRandom::new(29);
        let (mut squares, mut told) = (0.0, 0);
        for timestamp in 0..from + 60 {
            let counts = truth(timestamp);
            let release = mechanism
                .push(&Sealed::at(mechanism.ledger().account(), timestamp, counts.clone()), &mut random)
                .unwrap()
                .remove(0);
            if timestamp < from {
                told += usize::from(release.freshness == Freshness::Fresh);
            } else {
                let released = counts_of(&release).counts.iter().zip(&counts);
                squares += released.map(|(released, count)| (released - *count as f64).powi(2)).sum::<f64>();
            }
        }
        (squares, told)
    };
    let ((track, told), (uniform, _)) = (error(CentralKind::Track), error(CentralKind::Uniform));
    (track, uniform, told)
}

#[test]
fn a_jump_of_many_counts_by_little_each_is_seen() {
    // Each moves by 300, which is less than three times the deviation of the noise of an even part of the budget.
    let (track, uniform, told) = errors_from(200, |timestamp| {
        let moved = |count: u64| if timestamp < 203 { 2_000 } else { 1_700 + 600 * (count % 2) };
        (0..100).map(moved).collect()
    });
    // To miss it for three timestamps would cost 3 · 300² for each count, where noise costs 60 · 3,200.
    assert!(told < 120 && track < uniform, "{told} times; {track}, {uniform}");
}

#[test]
fn jump_and_return_are_both_detected() {
    // Spikes of a single timestamp, of which two are in the same window now and then: to miss one costs 30,000², where
    // noise costs 60 · 3,200.
    let spike = |timestamp: u64| [50, 87, 140, 199, 205, 214, 230, 241].contains(&timestamp);
    let (track, uniform, _) =
        errors_from(190, |timestamp| if spike(timestamp) { vec![90_000, 60_000] } else { vec![120_000, 30_000] });
    assert!(track < uniform, "{track}, {uniform}");
}

#[test]
fn rarely_jumping_stream_is_published_rarely() {
    // Twenty counts, all others after every 21 timestamps. To miss one of the jumps for a timestamp costs as much as
    // fifty timestamps of the noise of an even part of the budget.
    let (track, uniform, told) = errors_from(400, |timestamp| {
        (0..20).map(|count| 500 + (count * 7919 + timestamp / 21 * 104_729) % 1_000).collect()
    });
    assert!(told < 200 && track < 0.25 * uniform, "{told} times; {track}, {uniform}");
}

#[test]
fn window_periodic_stream_is_not_constant() {
    // After some time, one day of a week, whichever it is, differs from the others: published once a week on that day,
    // it would stand still.
    for day in 0..7 {
        let week = |timestamp: u64| {
            if timestamp < 100 || timestamp % 7 == day { [140_000, 60_000] } else { [130_000, 70_000] }
        };
        let (_, error) = tracked_from(CentralKind::Track, 7, 100, week);
        let (_, uniform) = tracked_from(CentralKind::Uniform, 7, 100, week);
        assert!(error < uniform, "{day}: {error}, {uniform}");
    }
}

#[test]
fn noise_is_not_taken_for_jumps() {
    // Of 300 counts, some are always off by several standard deviations.
    let settings = CentralSettings::new("1".parse().unwrap(), NonZeroU64::new(20).unwrap(), 300);
    let mut mechanism = Central::new(CentralKind::Track, settings).unwrap();
    let mut random = SeededRandom::new(27);
    let counts: Vec<u64> = (1..=300).map(|rank| 100_000 / rank).collect();
    let mut told = 0;
    for timestamp in 0..400_u64 {
        let release = mechanism
            .push(&Sealed::at(mechanism.ledger().account(), timestamp, counts.clone()), &mut random)
            .unwrap()
            .remove(0);
        told += u64::from(timestamp >= 100 && release.freshness == Freshness::Fresh);
    }
    assert!((10..=60).contains(&told), "{told} times in 15 windows");
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

#[test]
fn nothing_is_foretold_for_longer_than_it_has_been_seen() {
    let window = NonZeroU64::new(50).unwrap();
    for seed in 0..5 {
        let mut mechanism =
            Central::new(CentralKind::Track, CentralSettings::new("0.5".parse().unwrap(), window, 20)).unwrap();
        let (mut random, mut told) = (SeededRandom::new(seed), Vec::new());
        for timestamp in 0..400 {
            let released = mechanism
                .push(&Sealed::at(mechanism.ledger().account(), timestamp, vec![100; 20]), &mut random)
                .unwrap();
            told.extend(released.iter().filter(|release| release.freshness == Freshness::Fresh).map(|_| timestamp));
        }
        let gaps: Vec<(u64, u64)> = told.windows(2).map(|pair| (pair[0], pair[1] - pair[0])).collect();
        assert!(gaps.iter().all(|(since, gap)| *gap <= (*since).max(1)), "{gaps:?}");
        // In the end it is told rarely all the same.
        assert!(gaps.iter().any(|(_, gap)| *gap >= 10), "{gaps:?}");
    }
}

#[test]
fn constant_histogram_is_published_rarely_restless_often() {
    let publications = |restless: bool| {
        let settings = CentralSettings::new("1".parse().unwrap(), NonZeroU64::new(20).unwrap(), 10);
        let mut mechanism = Central::new(CentralKind::Track, settings).unwrap();
        let mut random = SeededRandom::new(18);
        let mut published = 0;
        for timestamp in 0..300_u64 {
            let moved = if restless { ((timestamp * 2_654_435_761) >> 7) % 2_000 } else { 0 };
            let counts = (0..10).map(|value| 1_000 + 100 * value + moved).collect();
            let release = mechanism
                .push(&Sealed::at(mechanism.ledger().account(), timestamp, counts), &mut random)
                .unwrap()
                .remove(0);
            published += u64::from(release.freshness == Freshness::Fresh);
        }
        published
    };
    assert!(publications(false) < 120, "{}", publications(false));
    assert!(publications(true) > 250, "{}", publications(true));
}

/// On how many of the timestamps at which no counts are told something is spent all the same, and how many of them
/// there are, in each of these ranges of time. There are 64 counts of 8,000 users, who wander slowly, with an epsilon
/// of one half and a window of ten; from a timestamp on, half of them have other values.
fn watched(ranges: &[std::ops::Range<u64>], jumps_at: u64, seed: u64) -> Vec<(u64, u64)> {
    let settings = CentralSettings::new("0.5".parse().unwrap(), NonZeroU64::new(10).unwrap(), 64);
    let (mut mechanism, mut random) = (Central::new(CentralKind::Track, settings).unwrap(), SeededRandom::new(seed));
    let (mut watched, mut spends) = (vec![(0, 0); ranges.len()], Vec::new());
    for timestamp in 0..ranges.last().unwrap().end {
        let turned = std::f64::consts::TAU * timestamp as f64 / 288.0;
        let (column, row) = (3.5 + 2.0 * turned.sin(), 3.5 + 2.0 * turned.cos());
        let near = |place: u32| {
            let (across, down) = (f64::from(place % 8) - column, f64::from(place / 8) - row);
            0.2 + (-(across * across + down * down) / 6.0).exp()
        };
        let total: f64 = (0..64).map(near).sum();
        let place = |place: u32| if timestamp < jumps_at { place } else { (place + 32) % 64 };
        let counts = (0..64).map(|value| (8_000.0 * near(place(value)) / total).round() as u64).collect();
        let release = mechanism
            .push(&Sealed::at(mechanism.ledger().account(), timestamp, counts), &mut random)
            .unwrap()
            .remove(0);
        let within = watched.iter_mut().zip(ranges).filter(|(_, range)| range.contains(&timestamp));
        for ((times, of), _) in within.filter(|_| release.freshness != Freshness::Fresh) {
            (*times, *of) = (*times + u64::from(release.spent.most().is_some()), *of + 1);
        }
        spends.push(spent_at(mechanism.ledger(), timestamp));
    }
    let fullest = fullest_window(&spends, 10);
    assert!(fullest <= 500_000_000 && fullest > 450_000_000, "{fullest}");
    watched
}

#[test]
fn skips_detection_when_it_costs_more_than_it_saves() {
    for seed in 0..4 {
        let [(quiet, not_told), (jumped, not_told_then)] = watched(&[300..600, 700..800], 600, seed)[..] else {
            panic!("two ranges")
        };
        assert!(not_told > 60 && quiet < not_told / 10, "{seed}: {quiet} of {not_told}");
        assert!(not_told_then > 20 && jumped == not_told_then, "{seed}: {jumped} of {not_told_then}");
    }
}
