//! The release filter, and its saved form.

use std::num::NonZeroU64;

use tidegate::central::personal_track::PersonalTrack;
use tidegate::central::{Central, CentralKind, CentralSettings, PersonalSettings};
use tidegate::estimate::release_filter::ReleaseFilter;
use tidegate::kernel::primitives::ClassHistograms;
use tidegate::kernel::{Sealed, SeededRandom};
use tidegate::release::{Counts, Freshness, Number, Release, Spent};

use super::class_track::classes;
use crate::central::counts_of;
use crate::support::{bytes, copy_of, hex};

#[test]
fn filter_improves_releases_of_any_mechanism() {
    for restless in [false, true] {
        let settings = CentralSettings::new("1".parse().unwrap(), NonZeroU64::new(10).unwrap(), 4);
        let mut mechanism = Central::new(CentralKind::Uniform, settings).unwrap();
        let (mut filter, mut random) = (ReleaseFilter::new(), SeededRandom::new(19));
        let (mut before, mut after) = (0.0, 0.0);
        for timestamp in 0..300_u64 {
            let moved = if restless { timestamp * 7919 % 5_000 } else { 0 };
            let truth = vec![1_000 + moved, 500, 20, 0];
            let release = mechanism
                .push(&Sealed::at(mechanism.ledger().account(), timestamp, truth.clone()), &mut random)
                .unwrap()
                .remove(0);
            let smoothed = filter.push(release.clone());
            let error = |release: &Release| -> f64 {
                counts_of(release).counts.iter().zip(&truth).map(|(count, truth)| (count - *truth as f64).powi(2)).sum()
            };
            before += error(&release);
            after += error(&smoothed);
        }
        let bound = if restless { 1.0 } else { 0.2 };
        assert!(after < bound * before, "{restless}: {after} {before}");
    }
}

#[test]
fn unfilterable_releases_pass_unchanged() {
    let release = |timestamp, statistic, freshness| Release {
        timestamp,
        statistic,
        freshness,
        spent: Spent::Nothing,
        reports: 0,
        seeded: false,
        why: None,
    };
    let number = |value, variance| Number { value, variance }.into();
    let mut filter = ReleaseFilter::new();
    for unchanged in [
        release(0, number(3.0, 1.0), Freshness::Nullified),
        release(1, number(3.0, f64::INFINITY), Freshness::Fresh),
        release(2, number(3.0, 0.0), Freshness::Fresh),
    ] {
        assert_eq!(filter.push(unchanged.clone()), unchanged);
    }
    let _first = filter.push(release(5, number(3.0, 1.0), Freshness::Fresh));
    // Another domain, and an earlier timestamp.
    let other = Counts { counts: vec![1.0; 2], variances: vec![1.0; 2] }.into();
    for unchanged in [release(6, other, Freshness::Fresh), release(4, number(3.0, 1.0), Freshness::Fresh)] {
        assert_eq!(filter.push(unchanged.clone()), unchanged);
    }
}

#[test]
fn extreme_variances_filter_to_finite_numbers() {
    for exponent in [-300, -200, -100, 0, 100, 150, 200, 300] {
        let (variance, mut filter) = (10_f64.powi(exponent), ReleaseFilter::new());
        for timestamp in 0..6_u64 {
            let counts = vec![1_000.0 + timestamp as f64, 20.0, 0.0];
            let statistic = Counts { counts, variances: vec![variance; 3] }.into();
            let release = Release {
                timestamp,
                statistic,
                freshness: Freshness::Fresh,
                spent: Spent::Nothing,
                reports: 0,
                seeded: false,
                why: None,
            };
            let smoothed = filter.push(release);
            let (counts, variances) = smoothed.statistic.leaves();
            let fine = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
            assert!(fine(counts) && fine(variances), "{exponent}: {counts:?}, {variances:?}");
        }
    }
}

fn used_filters() -> [ReleaseFilter; 2] {
    let mut filters = [ReleaseFilter::new(), ReleaseFilter::new()];
    for timestamp in 0..5 {
        let number = Number { value: 3.0 + timestamp as f64, variance: 1.0 }.into();
        let counts = Counts { counts: vec![1.0, 5.0 - timestamp as f64, 2.0], variances: vec![2.0; 3] }.into();
        for (filter, statistic) in filters.iter_mut().zip([number, counts]) {
            let freshness = if timestamp == 3 { Freshness::Nullified } else { Freshness::Fresh };
            let _smoothed = filter.push(Release {
                timestamp,
                statistic,
                freshness,
                spent: Spent::Nothing,
                reports: 0,
                seeded: false,
                why: None,
            });
        }
    }
    filters
}

#[test]
fn saved_filter_continues_and_invalid_one_is_rejected() {
    let [number, counts] = used_filters();
    for filter in [ReleaseFilter::new(), number, counts.clone()] {
        let loaded: ReleaseFilter = postcard::from_bytes(&postcard::to_allocvec(&filter).unwrap()).unwrap();
        assert_eq!(loaded, filter);
        let loaded: ReleaseFilter = serde_json::from_str(&serde_json::to_string(&filter).unwrap()).unwrap();
        assert_eq!(loaded, filter);
    }
    let json = serde_json::to_value(counts).unwrap();
    let loads = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = json.clone();
        change(&mut changed);
        serde_json::from_value::<ReleaseFilter>(changed).is_ok()
    };
    assert!(loads(&|_| ()));
    assert!(!loads(&|state| state["version"] = 9.into()));
    assert!(!loads(&|state| state["more"] = 1.into()));
    assert!(!loads(&|state| state["estimator"]["bank"]["unit"] = 0.0.into()));
    assert!(!loads(&|state| state["estimator"]["bank"]["numbers"] = serde_json::json!([])));
    assert!(!loads(&|state| state["estimator"]["seasons"] = serde_json::json!([])));
    assert!(!loads(&|state| state["estimator"]["observed"] = serde_json::json!([1.0])));
}

/// A golden file is never edited; a new version gets a new one.
#[test]
fn golden_filters_and_tracked_classes_load() {
    let now: Vec<String> = used_filters().iter().map(|filter| hex(&postcard::to_allocvec(filter).unwrap())).collect();
    for (golden, now) in include_str!("../../golden/release_filter_v7.txt").lines().zip(&now) {
        let loaded: ReleaseFilter = postcard::from_bytes(&bytes(golden)).unwrap();
        assert_eq!(hex(&postcard::to_allocvec(&loaded).unwrap()), golden, "today's form is {now}");
    }
    let mut mechanism = PersonalTrack::new(classes(), PersonalSettings::new(3)).unwrap();
    let mut random = SeededRandom::new(25);
    for timestamp in 0..5_u64 {
        let sealed = ClassHistograms::seal(
            mechanism.ledgers().account(),
            timestamp,
            &[0, 1],
            vec![9, 5, 0, 6, 7 * timestamp, 9],
        )
        .unwrap();
        let _released = mechanism.push(&sealed, &[60, 60], &mut random).unwrap();
    }
    assert_eq!(
        hex(&postcard::to_allocvec(&copy_of(&mechanism)).unwrap()),
        hex(&postcard::to_allocvec(&mechanism).unwrap())
    );
    let golden = include_str!("../../golden/personal_track_v10.txt").trim();
    let mut loaded: PersonalTrack = postcard::from_bytes(&bytes(golden)).unwrap();
    let sealed = ClassHistograms::seal(loaded.ledgers().account(), 5, &[0, 1], vec![1; 6]).unwrap();
    assert!(loaded.push(&sealed, &[60, 60], &mut random).is_ok());
}
