//! [`Dice`]: chance, from a seed.

use tidegate_kernel::{Randomness, SeededRandom};

#[derive(Debug)]
pub(super) struct Dice(SeededRandom);

impl Dice {
    /// Independent dice for each `which`.
    pub(super) fn new(seed: u64, which: u64) -> Self {
        Self(SeededRandom::with_stream(seed, which))
    }

    /// A number below a limit, which is not zero.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_word() % limit
    }

    /// A number below a limit, for lists.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// One of the two ends, or between them.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(super) fn chance(&mut self, of: u64, all: u64) -> bool {
        self.below(all) < of
    }
}
