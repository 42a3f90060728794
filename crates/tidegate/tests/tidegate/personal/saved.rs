//! Rejected settings, saved state and memory.

use tidegate::central::classes::Classes;
use tidegate::central::{CentralError, Estimator, Personal, PersonalKind, PersonalSettings};
use tidegate::kernel::SeededRandom;
use tidegate::kernel::primitives::seal_class_histograms;

use super::{classes, load, push, save, seal, settings};
use crate::support::bytes;

#[test]
fn bad_settings_and_calls_are_refused_with_what_is_allowed() {
    let declared = classes(&[("1", 4), ("2", 2)]);
    let new =
        |domain, declared: &Classes| Personal::new(PersonalKind::Pbd, declared.clone(), PersonalSettings::new(domain));
    assert_eq!(new(0, &declared).unwrap_err(), CentralError::Domain { given: 0 });
    assert_eq!(new(1 << 24, &declared).unwrap_err(), CentralError::Domain { given: 1 << 24 });
    assert!(matches!(new(2, &classes(&[("0.000000001", 1)])).unwrap_err(), CentralError::Epsilon { window: 1, .. }));

    let random = &mut SeededRandom::new(17);
    let mut mechanism = new(3, &declared).unwrap();
    let before = save(&mechanism);
    let wide = seal(&mechanism, 0, 2, vec![1; 4]);
    assert_eq!(mechanism.push(&wide, &[1, 1], random), Err(CentralError::Cells { given: 2, expected: 3 }));
    let one = seal(&mechanism, 0, 1, vec![1; 3]);
    assert_eq!(mechanism.push(&one, &[1], random), Err(CentralError::Classes { given: 1, expected: 2 }));
    let others = seal_class_histograms(mechanism.ledgers().account(), 0, [], &[1, 2], 3).unwrap();
    assert_eq!(mechanism.push(&others, &[1, 1], random), Err(CentralError::Classes { given: 2, expected: 2 }));
    let good = seal(&mechanism, 4, 2, vec![1; 6]);
    let short = mechanism.push(&good, &[1], random).unwrap_err();
    assert_eq!(short.to_string(), "1 numbers of members were given for 2 classes");
    assert_eq!(save(&mechanism), before);
    // Nobody is registered: nothing is published, and nothing is spent.
    assert!(mechanism.push(&seal(&mechanism, 3, 2, vec![0; 6]), &[0, 0], random).unwrap()[0].spent.most().is_none());
    assert!(mechanism.push(&good, &[3, 3], random).is_ok());
    assert_eq!(mechanism.push(&good, &[3, 3], random), Err(CentralError::Time { given: 4, last: 4 }));
}

pub fn used(kind: PersonalKind, estimator: Estimator) -> Personal {
    let declared = classes(&[("0.5", 3), ("1", 2)]);
    let mut mechanism = Personal::new(kind, declared, settings(2, estimator)).unwrap();
    let mut random = SeededRandom::new(18);
    for timestamp in 0..5 {
        let count = if timestamp % 2 == 0 { 100 } else { 900 };
        push(&mut mechanism, timestamp, &[1_000, 500], vec![count, 1_000 - count, 200, 300], &mut random);
    }
    mechanism
}

pub const VARIANTS: [(PersonalKind, Estimator); 4] = [
    (PersonalKind::Pbd, Estimator::Sampling),
    (PersonalKind::Pbd, Estimator::Stratified),
    (PersonalKind::Pba, Estimator::Sampling),
    (PersonalKind::Pba, Estimator::Stratified),
];

#[test]
fn saved_mechanisms_of_version_1_still_load() {
    let golden: Vec<String> = serde_json::from_str(include_str!("../../golden/personal_v1.json")).unwrap();
    assert_eq!(golden.len(), VARIANTS.len());
    for (text, (kind, estimator)) in golden.iter().zip(VARIANTS) {
        let mut mechanism = load(&bytes(text));
        let now = save(&mechanism);
        assert_eq!(save(&load(&now)), now, "{kind}");
        assert_eq!((mechanism.kind(), mechanism.settings().estimator), (kind, estimator));
        push(&mut mechanism, 5, &[1_000, 500], vec![500, 500, 200, 300], &mut SeededRandom::new(19));
    }
}

#[test]
fn states_that_do_not_fit_together_are_not_loaded() {
    for (kind, estimator) in VARIANTS {
        let json = serde_json::to_value(used(kind, estimator)).unwrap();
        let refused = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut changed = json.clone();
            change(&mut changed);
            assert_ne!(changed, json);
            serde_json::from_value::<Personal>(changed).map(drop).unwrap_err().to_string()
        };
        assert!(serde_json::from_value::<Personal>(json.clone()).is_ok());
        assert!(refused(&|state| state["version"] = 9.into()).contains("version 9"));
        assert!(refused(&|state| state["settings"]["domain"] = 4.into()).contains("does not fit"));
        assert!(refused(&|state| state["classes"][0]["requirement"]["window"] = 7.into()).contains("does not fit"));
        assert!(refused(&|state| state["classes"][1]["requirement"]["epsilon"] = "3".into()).contains("does not fit"));
        assert!(refused(&|state| state["classes"][1]["name"] = "0".into()).contains("two classes"));
        assert!(
            refused(&|state| state["kind"] = if kind == PersonalKind::Pba { "pbd" } else { "pba" }.into())
                .contains("fit")
        );
        let other = if estimator == Estimator::Sampling { "stratified" } else { "sampling" };
        assert!(refused(&|state| state["settings"]["estimator"] = other.into()).contains("does not fit"));
        assert!(refused(&|state| state["more"] = 1.into()).contains("more"));
    }
}

#[test]
fn memory_does_not_grow_with_time() {
    for (kind, estimator) in VARIANTS {
        let mut mechanism = Personal::new(kind, classes(&[("0.5", 3), ("1", 2)]), settings(2, estimator)).unwrap();
        let (mut random, mut largest_early) = (SeededRandom::new(20), 0);
        for timestamp in 0..1_500 {
            let count = if timestamp % 7 == 0 { 800 } else { 200 };
            push(&mut mechanism, timestamp, &[1_000, 500], vec![count, 1_000 - count, 200, 300], &mut random);
            let size = save(&mechanism).len();
            if timestamp < 500 {
                largest_early = largest_early.max(size);
            } else {
                assert!(size <= largest_early + 64, "{kind}: {size} bytes at {timestamp}, {largest_early} before");
            }
        }
    }
}
