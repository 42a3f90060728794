use tidegate_kernel::primitives::{Bound, PrimitiveError, Protects, bound_noise, noisy_bound};
use tidegate_kernel::{Epsilon, Permit, Sealed, SeededRandom};

use super::max::winners;
use super::{DRAWS, ROUNDING};
use crate::support::{
    all_vectors, assert_fits, assert_rejects, class_permit, epsilon, loss, nonzero, permit, permit_at, sealed_at, tally,
};

const CANDIDATES: [Bound; 3] = [Bound { at: 2, cost: 0 }, Bound { at: 4, cost: 1 }, Bound { at: 6, cost: 3 }];

fn group(readings: &[i64]) -> Vec<Sealed<i64>> {
    readings.iter().zip(0..).map(|(reading, timestamp)| sealed_at(timestamp, *reading)).collect()
}

fn members(readings: &[Sealed<i64>], amount: Epsilon) -> impl Iterator<Item = (Permit, &Sealed<i64>)> {
    readings.iter().map(move |reading| (permit_at(reading.timestamp(), amount), reading))
}

fn scores(readings: &[i64]) -> Vec<i64> {
    let cut_off = |bound: i64| readings.iter().map(|reading| (reading.clamp(&0, &6) - bound).max(0)).sum::<i64>();
    CANDIDATES.iter().map(|candidate| -cut_off(candidate.at) - candidate.cost).collect()
}

#[test]
fn each_bound_wins_with_its_probability() {
    let amount = epsilon("0.8");
    let readings = [5, 1, 99, 3];
    let sealed = group(&readings);
    let mut random = SeededRandom::new(180);
    let drawn = tally(DRAWS, 3, || {
        let chosen = noisy_bound(members(&sealed, amount), &CANDIDATES, 0..=6, Protects::Reading, &mut random);
        chosen.unwrap().into_value()
    });
    // Clamping leaves nothing above 6, so at most 4 is clipped from a reading.
    let scale = 4.0 / 0.8;
    assert_eq!(bound_noise(&CANDIDATES, &(0..=6), Protects::Reading, amount).unwrap().as_f64(), scale);
    assert_fits(&drawn, &winners(&scores(&readings), scale));
    assert_rejects(&drawn, &winners(&scores(&readings), 1.1 * scale));
    assert_rejects(&drawn, &winners(&scores(&readings), 0.9 * scale));
}

#[test]
fn the_loss_is_the_sum_of_changed_permits() {
    let amount = 0.7;
    let points: Vec<i64> = (0..=6).collect();
    for (most, sensitivity) in [(6, 4.0), (1, 1.0)] {
        let scale = sensitivity / amount;
        let mut worst = [0.0_f64; 3];
        for before in all_vectors(&points, 2) {
            for after in all_vectors(&points, 2) {
                if before.iter().zip(&after).all(|(before, after)| before.abs_diff(*after) <= most) {
                    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
                    let attained = loss(&winners(&scores(&before), scale), &winners(&scores(&after), scale));
                    worst[changed] = worst[changed].max(attained);
                }
            }
        }
        assert!(worst[1] <= amount + ROUNDING && worst[1] > 0.5 * amount, "{worst:?}");
        assert!(worst[2] <= 2.0 * amount + ROUNDING && worst[2] > worst[1], "{worst:?}");
    }
}

#[test]
fn each_reading_pays_for_itself() {
    let random = &mut SeededRandom::new(1);
    let readings = group(&[1, 2]);
    let mut choose = |permits: [Permit; 2], candidates: &[Bound]| {
        let members = permits.into_iter().zip(&readings);
        noisy_bound(members, candidates, 0..=6, Protects::Contribution(nonzero(1)), random)
            .map(|chosen| *chosen.value())
    };
    let one = epsilon("1");
    assert!(choose([permit(one), permit_at(1, one)], &CANDIDATES).is_ok());
    let wrong = PrimitiveError::Timestamp { permit: 0, data: 1 };
    assert_eq!(choose([permit(one), permit(one)], &CANDIDATES), Err(wrong));
    let wrong = PrimitiveError::ClassPermit { class: 3 };
    assert_eq!(choose([class_permit(3, one), permit_at(1, one)], &CANDIDATES), Err(wrong));
    let wrong = PrimitiveError::UnequalPermits { first: one, other: epsilon("2") };
    assert_eq!(choose([permit(one), permit_at(1, epsilon("2"))], &CANDIDATES), Err(wrong));
    let none = choose([permit(one), permit_at(1, one)], &[]);
    assert_eq!(none, Err(PrimitiveError::Nothing { expected: "candidate" }));
    let nothing = noisy_bound([], &CANDIDATES, 0..=6, Protects::Reading, random);
    assert_eq!(nothing, Err(PrimitiveError::Nothing { expected: "reading" }));
}

#[test]
fn bounds_beyond_the_range_clip_nothing() {
    let noise = |at: i64| {
        let candidates = [Bound { at, cost: 0 }];
        bound_noise(&candidates, &(0..=6), Protects::Reading, epsilon("1")).unwrap().as_f64()
    };
    assert_eq!((noise(6), noise(i64::MAX), noise(i64::MIN), noise(-1), noise(1)), (1.0, 1.0, 6.0, 6.0, 5.0));
    let one_point = bound_noise(&CANDIDATES, &(6..=6), Protects::Reading, epsilon("1"));
    assert_eq!(one_point, Err(PrimitiveError::Range { low: 6, high: 6 }));
}
