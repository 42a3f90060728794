//! [`Dice`]: seeded random choices.

use tidegate_kernel::{Randomness, SeededRandom};

#[derive(Debug)]
pub(crate) struct Dice(SeededRandom);

impl Dice {
    /// Creates dice that are independent for each `which`.
    pub(crate) fn new(seed: u64, which: u64) -> Self {
        Self(SeededRandom::with_stream(seed, which))
    }

    /// Draws a number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_word() % limit
    }

    /// Draws an index below a limit.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// Draws a number between two ends, inclusive.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn chance(&mut self, of: u64, all: u64) -> bool {
        self.below(all) < of
    }
}
