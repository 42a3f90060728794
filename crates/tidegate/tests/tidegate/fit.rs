//! Models learned privately.

use std::num::NonZeroU64;

use tidegate::kernel::SeededRandom;
use tidegate::sequence::fit::{FitError, PrivateFit, fit};
use tidegate::sequence::model::{Model, Order};

use crate::support::unit;

fn settings(epsilon: &str, contribution: u64, order: Order) -> PrivateFit {
    let contribution = NonZeroU64::new(contribution).unwrap();
    PrivateFit { epsilon: epsilon.parse().unwrap(), contribution, order, pseudo_count: 1.0 }
}

/// Chains that stay with probability 0.8 and otherwise go on to the next of three symbols.
fn users(count: usize) -> Vec<Vec<u32>> {
    let mut random = SeededRandom::new(17);
    let mut next = |symbol: u32| if unit(&mut random) < 0.8 { symbol } else { (symbol + 1) % 3 };
    let sequence = |user: usize| {
        let mut sequence = vec![(user % 3) as u32];
        (0..20).for_each(|_| sequence.push(next(sequence[sequence.len() - 1])));
        sequence
    };
    (0..count).map(sequence).collect()
}

fn learned(users: &[Vec<u32>], settings: &PrivateFit, seed: u64) -> Model {
    fit(3, users.iter().map(Vec::as_slice), settings, &mut SeededRandom::new(seed)).unwrap()
}

/// With 3,000 users the noise of the counts is a hundredth of them, so the seed does not matter.
#[test]
fn many_users_give_their_transitions_at_both_orders() {
    let users = users(3_000);
    for order in [Order::One, Order::Two] {
        let model = learned(&users, &settings("1", 20, order), 1);
        assert_eq!(model.order(), order);
        for symbol in 0..3 {
            let before = (order == Order::Two).then_some(symbol);
            assert!((model.transition(before, symbol, symbol) - 0.8).abs() < 0.05, "{order:?} {symbol}");
            let sum: f64 = (0..3).map(|next| model.transition(before, symbol, next)).sum();
            assert!((sum - 1.0).abs() < 1e-9);
        }
    }
}

/// A user with any number of symbols counts with the first transitions only.
#[test]
fn a_user_counts_with_the_first_transitions_only() {
    let users = users(50);
    let longer: Vec<Vec<u32>> = users.iter().map(|user| [&user[..6], &[2; 500][..]].concat()).collect();
    let cut: Vec<Vec<u32>> = users.iter().map(|user| user[..6].to_vec()).collect();
    let settings = settings("1", 5, Order::One);
    assert_eq!(learned(&longer, &settings, 3), learned(&cut, &settings, 3));
}

/// Noise grows with the contribution, which the guarantee needs: the same seed scales it. A model of nobody has noise
/// only; its rows are mostly background.
#[test]
fn nobody_gives_a_model_near_the_background() {
    let model = learned(&[], &settings("1", 20, Order::One), 5);
    assert!(model.prior().iter().all(|weight| *weight > 0.05));
    let other = learned(&[], &settings("1", 20, Order::One), 6);
    assert_ne!(model, other);
}

#[test]
fn refuses_more_transitions_than_can_be_counted() {
    let refused = fit(5_000, [], &settings("1", 5, Order::One), &mut SeededRandom::new(1)).unwrap_err();
    assert!(matches!(refused, FitError::TooManyCells { domain: 5_000, cells: 25_000_000 }), "{refused}");
    let bad = PrivateFit { pseudo_count: f64::NAN, ..settings("1", 5, Order::One) };
    assert!(fit(2, [], &bad, &mut SeededRandom::new(1)).is_err());
}
