//! Exact Bernoulli samplers.

use std::num::NonZeroU64;

use crate::noise::Below;
use crate::random::Randomness;

/// Draws `true` with probability exactly `min(1, numerator / denominator)`.
pub fn bernoulli(numerator: u64, denominator: NonZeroU64, random: &mut impl Randomness) -> bool {
    Below::new(denominator).sample(random) < numerator
}

/// Draws `true` with probability exactly `exp(-numerator / denominator)`.
pub fn bernoulli_exp(numerator: u64, denominator: NonZeroU64, random: &mut impl Randomness) -> bool {
    let (whole, rest) = (numerator / denominator, numerator % denominator);
    (0..whole).all(|_| bernoulli_exp_one(random)) && bernoulli_exp_fraction(rest, &Below::new(denominator), random)
}

/// Draws `true` with probability exactly `exp(-numerator / below.bound())`, for a fraction of at most one.
///
/// Algorithm 1 of Canonne, Kamath and Steinke (2020). Flip coins of probability x, x/2, x/3, ... until one fails: the
/// number of successes is even with probability `1 - x + x²/2! - ... = exp(-x)`.
#[inline]
pub(super) fn bernoulli_exp_fraction(numerator: u64, below: &Below, random: &mut impl Randomness) -> bool {
    let mut successes = 0;
    while below.sample(random) < numerator && one_in(successes + 1, random) {
        successes += 1;
    }
    successes % 2 == 0
}

/// Draws `true` with probability exactly 1/e.
#[inline]
pub(super) fn bernoulli_exp_one(random: &mut impl Randomness) -> bool {
    let mut successes = 1;
    while one_in(successes + 1, random) {
        successes += 1;
    }
    successes % 2 == 0
}

/// Draws `true` with probability exactly `1/count`.
#[inline]
fn one_in(count: u64, random: &mut impl Randomness) -> bool {
    match NonZeroU64::new(count) {
        Some(count) if count > NonZeroU64::MIN => Below::new(count).sample(random) == 0,
        _ => true,
    }
}
