//! Uniform integers, by rejection (Lemire 2019).

use std::num::NonZeroU64;

use crate::random::Randomness;

/// The uniform distribution on the integers below a bound.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    bound: u64,
    /// Products with a low word below this would bias the result, and are rejected.
    reject_below: u64,
}

impl Below {
    /// The uniform distribution on `0..bound`.
    pub const fn new(bound: NonZeroU64) -> Self {
        let bound = bound.get();
        // 2^64 mod bound: rejecting this many words leaves equally many for each result.
        Self { bound, reject_below: bound.wrapping_neg() % bound }
    }

    /// The exclusive upper bound.
    pub const fn bound(&self) -> u64 {
        self.bound
    }

    /// Draws an integer: each of `0..bound` with probability exactly `1/bound`.
    #[inline]
    pub fn sample(&self, random: &mut impl Randomness) -> u64 {
        loop {
            let product = u128::from(random.next_word()) * u128::from(self.bound);
            #[allow(clippy::cast_possible_truncation)] // the low word, on purpose
            let low = product as u64;
            if low >= self.reject_below {
                #[allow(clippy::cast_possible_truncation)] // the high word of a 128-bit product
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn rejects_exactly_the_words_below_the_limit() {
        let drawn = SeededRandom::new(7).next_word();
        let bound = 1_000_003;
        let product = u128::from(drawn) * u128::from(bound);
        #[allow(clippy::cast_possible_truncation)] // splitting into words
        let (low, high) = (product as u64, (product >> 64) as u64);
        let sample = |reject_below| Below { bound, reject_below }.sample(&mut SeededRandom::new(7));
        assert_eq!((sample(low - 1), sample(low)), (high, high));
        assert_ne!(sample(low + 1), high);
    }
}
