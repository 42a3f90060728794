//! Properties of every mechanism over whole streams: order, delay, spends and memory.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::prelude::*;
use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{SeededRandom, VaultKey};
use tidegate::release::{Freshness, Number};
use tidegate::scalar::{Publication, Scalar, ScalarKind, ScalarSettings, Truncation};

use super::{forms, number, reloaded, settings, stream};
use crate::support::repeatable;

proptest! {
    #![proptest_config(repeatable(400))]

    #[test]
    fn releases_every_value_once_in_order_within_delay(
        form in 0_usize..18,
        seed in 0_u64..1_000_000,
        length in 0_usize..120,
        gaps in 0_u64..4,
        delay in 0_u32..25,
        truncation in prop::option::of((1_u32..4, 1_u8..=99)),
        amount in prop::sample::select(vec!["0.1", "1", "8"]),
    ) {
        let (kind, publication, smoother) = forms()[form];
        let truncation = truncation
            .map(|(every, percent)| Truncation { every: NonZeroU32::new(every).unwrap(), percent });
        let settings = ScalarSettings { publication, smoother, truncation, ..settings(amount, delay) };
        let mut mechanism = Scalar::new(kind, settings).unwrap();
        let mut random = SeededRandom::new(seed);
        let (mut released, mut pushed) = (Vec::new(), Vec::new());
        for (timestamp, reading) in stream(seed, length, gaps) {
            let sealed = mechanism.seal(timestamp, reading).unwrap();
            let releases = mechanism.push(sealed, &mut random).unwrap();
            pushed.push(timestamp);
            released.extend(releases.iter().map(|release| release.timestamp));
            for release in &releases {
                let Number { value, variance } = number(release);
                prop_assert!(value.is_finite() && variance >= 0.0 && variance.is_finite());
            }
            // Whoever waits longer than the delay was released too late; whoever was not pushed cannot be released.
            let overdue = pushed.iter().filter(|earlier| timestamp - **earlier >= u64::from(delay));
            prop_assert!(overdue.eq(released.iter().filter(|earlier| timestamp - **earlier >= u64::from(delay))));
            prop_assert_eq!(&released[..], &pushed[..released.len()]);
            prop_assert_eq!(mechanism.waiting(), pushed.len() - released.len());
        }
        released.extend(mechanism.finish(&mut random).unwrap().iter().map(|release| release.timestamp));
        prop_assert_eq!(released, pushed);
        prop_assert_eq!(mechanism.waiting(), 0);
    }

    #[test]
    fn saving_and_loading_at_any_point_changes_nothing(
        form in 0_usize..18,
        seed in 0_u64..1_000_000,
        delay in 0_u32..12,
        truncated in any::<bool>(),
        as_json in any::<bool>(),
    ) {
        let (kind, publication, smoother) = forms()[form];
        let truncation = truncated.then_some(Truncation { every: NonZeroU32::new(2).unwrap(), percent: 40 });
        let settings = ScalarSettings { publication, smoother, truncation, ..settings("4", delay) };
        let key = VaultKey::from_bytes([9; 32]);
        let run = |saves: bool| {
            let mut mechanism = Scalar::new(kind, settings).unwrap();
            let mut random = SeededRandom::new(seed);
            let mut released = Vec::new();
            for (timestamp, reading) in stream(seed, 40, 1) {
                if saves {
                    mechanism = reloaded(&mechanism, &key, as_json);
                }
                released.extend(mechanism.push(mechanism.seal(timestamp, reading).unwrap(), &mut random).unwrap());
            }
            released.extend(reloaded(&mechanism, &key, as_json).finish(&mut random).unwrap());
            (released, mechanism.bound())
        };
        prop_assert_eq!(run(true), run(false));
    }
}

#[test]
fn every_timestamp_spends_exactly_epsilon_and_the_constant_nothing() {
    for (kind, publication, smoother) in forms() {
        let contribution = Protects::Contribution(NonZeroU64::MIN);
        for (truncation, protects) in
            [(None, Protects::Reading), (None, contribution), (Some(Truncation::default()), Protects::Reading)]
        {
            let settings = ScalarSettings { publication, smoother, truncation, protects, ..settings("0.7", 6) };
            let mut mechanism = Scalar::new(kind, settings).unwrap();
            let mut random = SeededRandom::new(1);
            for (timestamp, reading) in stream(3, 60, 0) {
                let releases = mechanism.push(mechanism.seal(timestamp, reading).unwrap(), &mut random).unwrap();
                let spent: Vec<_> = mechanism.ledger().spends().collect();
                if kind == ScalarKind::Constant {
                    assert!(spent.is_empty());
                    assert!(releases.iter().all(|release| release.spent.most().is_none() && release.reports == 0));
                } else {
                    assert_eq!(spent, [(timestamp, settings.epsilon)], "{kind}");
                    assert!(releases.iter().all(|release| release.spent.most() == Some(settings.epsilon)));
                    assert!(releases.iter().all(|release| release.freshness == Freshness::Fresh));
                }
            }
        }
    }
}

/// How many words of eight bytes a locked part of a state has.
fn locked_words(state: &serde_json::Value, place: &str) -> usize {
    const TAG: usize = 16;
    (state.pointer(place).unwrap()["bytes"].as_array().unwrap().len() - TAG) / 8
}

#[test]
fn held_readings_reach_but_never_exceed_their_cap() {
    const HEADER: usize = 11;
    const LONGEST_GROUP: u64 = 1_000;
    const DELAY: u64 = 20;
    let key = VaultKey::from_bytes([9; 32]);
    for ((kind, publication, smoother), seed) in forms().into_iter().flat_map(|form| [(form, 2), (form, 3), (form, 4)])
    {
        // All readings alike and a wide threshold, so that groups never end by themselves.
        let settings = ScalarSettings { publication, smoother, threshold: Some(1e9), ..settings("8", 20) };
        let mut mechanism = Scalar::new(kind, settings).unwrap();
        let (mut random, mut most) = (SeededRandom::new(seed), 0);
        for timestamp in 0..2_100 {
            mechanism.push(mechanism.seal(timestamp, 40.0).unwrap(), &mut random).unwrap();
            most = most.max(mechanism.waiting() as u64);
            if timestamp % 200 > 1 && timestamp % 200 < 198 {
                continue;
            }
            let state = serde_json::to_value(mechanism.save(&key).unwrap()).unwrap();
            match kind {
                ScalarKind::Pegasus | ScalarKind::PegasusDelay => {
                    let members = locked_words(&state, "/machine/group/group") - HEADER;
                    assert_eq!(members as u64, (timestamp + 1) % LONGEST_GROUP, "{kind}");
                }
                ScalarKind::Comporder => {
                    let members = (locked_words(&state, "/machine/window/window") - 2) / 3;
                    assert!(members as u64 == DELAY + 1 || timestamp < 2, "{kind}: {members}");
                }
                ScalarKind::Track => {
                    let waiting = state.pointer("/machine/track/state/waiting").unwrap().as_array().unwrap().len();
                    assert_eq!(waiting, mechanism.waiting());
                }
                _ if state.pointer("/machine/batch").is_some() => {
                    let members = locked_words(&state, "/machine/batch/held") / 3;
                    assert_eq!(members as u64, (timestamp + 1) % (DELAY + 1), "{kind}");
                }
                _ => assert_eq!(state["machine"], "nothing", "{kind}"),
            }
        }
        // The last one of a batch is released as it comes; so is one that has waited as long as the delay.
        let holds =
            matches!(kind, ScalarKind::PegasusDelay | ScalarKind::Contin | ScalarKind::Discontin | ScalarKind::Track)
                || matches!(publication, Some(Publication::Sums | Publication::ClippedSums));
        assert_eq!(most, if holds { DELAY } else { 0 }, "{kind}");
    }
}

#[test]
fn a_sample_is_no_larger_than_a_batch() {
    let key = VaultKey::from_bytes([9; 32]);
    for kind in [ScalarKind::Laplace, ScalarKind::Pegasus, ScalarKind::Comporder, ScalarKind::Bucorder] {
        let truncation = Some(Truncation { every: NonZeroU32::MIN, percent: 99 });
        let mut mechanism = Scalar::new(kind, ScalarSettings { truncation, ..settings("8", 20) }).unwrap();
        let (mut random, mut most) = (SeededRandom::new(2), 0);
        for timestamp in 0..420 {
            mechanism.push(mechanism.seal(timestamp, 40.0).unwrap(), &mut random).unwrap();
            let state = serde_json::to_value(mechanism.save(&key).unwrap()).unwrap();
            most = most.max(locked_words(&state, "/sample") / 3);
        }
        // Of twenty batches, one has all its readings sampled but with a probability of 10^-14.
        assert_eq!(most, 21, "{kind}");
    }
}
