use tidegate_kernel::primitives::{Comparisons, PrimitiveError, noisy_comparison};
use tidegate_kernel::{Epsilon, Ledger, ResponseError, SeededRandom, UnlockError, VaultKey, Window};

use super::DRAWS;
use crate::support::{assert_fits, assert_rejects, epsilon, nonzero, permit, permit_at, sealed_at, tally};

#[test]
fn the_accuracy_does_not_depend_on_the_gap() {
    let amount = epsilon("1");
    let right = |epsilon: f64| 1.0 / (1.0 + (-epsilon).exp());
    for (index, (left, other, truth)) in
        [(0, 1, true), (1, 0, false), (5, 5, false), (i64::MIN, i64::MAX, true)].into_iter().enumerate()
    {
        let (left, other) = (sealed_at(0, left), sealed_at(0, other));
        let mut random = SeededRandom::new(130 + index as u64);
        let drawn = tally(DRAWS / 2, 2, || {
            let answer = noisy_comparison((permit(amount), &left), (permit(amount), &other), &mut random).unwrap();
            usize::from(answer.into_value() == truth)
        });
        assert_fits(&drawn, &[1.0 - right(1.0), right(1.0)]);
        assert_rejects(&drawn, &[1.0 - right(1.1), right(1.1)]);
        assert_rejects(&drawn, &[1.0 - right(0.9), right(0.9)]);
    }
}

#[test]
fn both_readings_pay_the_same() {
    let random = &mut SeededRandom::new(1);
    let reading = sealed_at(0, 1);
    let result = noisy_comparison((permit(epsilon("1")), &reading), (permit(epsilon("2")), &reading), random);
    assert_eq!(result, Err(PrimitiveError::UnequalPermits { first: epsilon("1"), other: epsilon("2") }));
    let result = noisy_comparison((permit(Epsilon::MAX), &reading), (permit(Epsilon::MAX), &reading), random);
    assert_eq!(result, Err(PrimitiveError::Response(ResponseError::Epsilon { given: Epsilon::MAX })));
}

#[test]
fn comparisons_share_epsilon_equally() {
    let (whole, right) = (epsilon("3"), |epsilon: f64| 1.0 / (1.0 + (-epsilon).exp()));
    let mut random = SeededRandom::new(330);
    let readings = [sealed_at(0, 7), sealed_at(1, 9)];
    let drawn = tally(DRAWS / 2, 2, || {
        let mut comparisons = Comparisons::new(whole, nonzero(3)).unwrap();
        for reading in &readings {
            comparisons.admit(permit_at(reading.timestamp(), whole), reading).unwrap();
        }
        usize::from(comparisons.compare(0, 1, &mut random).unwrap().into_value())
    });
    assert_fits(&drawn, &[1.0 - right(1.0), right(1.0)]);
    assert_rejects(&drawn, &[1.0 - right(1.1), right(1.1)]);
    assert_rejects(&drawn, &[1.0 - right(0.9), right(0.9)]);
}

#[test]
fn a_reading_is_compared_only_as_often_as_paid() {
    let (one, random) = (epsilon("1"), &mut SeededRandom::new(1));
    let mut comparisons = Comparisons::new(one, nonzero(3)).unwrap();
    assert_eq!(comparisons.each(), epsilon("0.333333333"));
    for timestamp in 0..4 {
        comparisons.admit(permit_at(timestamp, one), &sealed_at(timestamp, 5)).unwrap();
    }
    for other in 1..4 {
        assert_eq!(comparisons.compare(0, other, random).unwrap().epsilon(), comparisons.each());
    }
    assert_eq!(comparisons.compare(0, 1, random), Err(PrimitiveError::UsedUp { timestamp: 0 }));
    assert_eq!(comparisons.compare(1, 0, random), Err(PrimitiveError::UsedUp { timestamp: 0 }));
    assert_eq!(comparisons.members().collect::<Vec<_>>(), [(0, 0), (1, 2), (2, 2), (3, 2)]);
    comparisons.forget_before(2);
    assert_eq!(comparisons.members().collect::<Vec<_>>(), [(2, 2), (3, 2)]);
    assert_eq!(comparisons.compare(0, 2, random), Err(PrimitiveError::NoSuchMember { index: 2, members: 2 }));
    assert_eq!(comparisons.admit(permit_at(3, one), &sealed_at(3, 5)), Err(late(3, 3)));
    let wrong = PrimitiveError::Timestamp { permit: 4, data: 5 };
    assert_eq!(comparisons.admit(permit_at(4, one), &sealed_at(5, 5)), Err(wrong));
    let less = PrimitiveError::UnequalPermits { first: one, other: epsilon("0.1") };
    assert_eq!(comparisons.admit(permit_at(4, epsilon("0.1")), &sealed_at(4, 5)), Err(less));
    let none = Comparisons::new(Epsilon::MIN, nonzero(2)).unwrap_err();
    assert_eq!(none, PrimitiveError::TooSmallToDivide { given: Epsilon::MIN, times: 2 });
}

fn late(timestamp: u64, latest: u64) -> PrimitiveError {
    PrimitiveError::OutOfOrder { timestamp, latest }
}

#[test]
fn comparisons_survive_locking() {
    let (one, key) = (epsilon("1"), VaultKey::from_bytes([1; 32]));
    let new = || Comparisons::new(one, nonzero(4)).unwrap();
    let run = |saves: bool| {
        let (mut comparisons, mut random, mut answers) = (new(), SeededRandom::new(4), Vec::new());
        for timestamp in 0..30 {
            comparisons.forget_before(u64::saturating_sub(timestamp, 2));
            comparisons.admit(permit_at(timestamp, one), &sealed_at(timestamp, timestamp as i64 % 3)).unwrap();
            let latest = comparisons.members().len() - 1;
            for earlier in 0..latest {
                answers.push(*comparisons.compare(earlier, latest, &mut random).unwrap().value());
            }
            if saves {
                let ledger = Ledger::fully_spent(one, Window::EVENT, timestamp);
                let vault = key.vault(&ledger, "");
                let locked = comparisons.lock(&vault).unwrap();
                comparisons = new();
                comparisons.unlock(&locked, &vault).unwrap();
            }
        }
        (answers, comparisons.members().collect::<Vec<_>>())
    };
    assert_eq!(run(true), run(false));
    let ledger = Ledger::new(one, Window::EVENT);
    let vault = key.vault(&ledger, "");
    let locked = new().lock(&vault).unwrap();
    let mut other = Comparisons::new(one, nonzero(5)).unwrap();
    assert_eq!(other.unlock(&locked, &vault), Err(UnlockError::Content));
}
