//! Where randomness comes from: the operating system for real runs, a seed for tests and simulations.

use std::fmt;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Where the randomness of a release came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Unpredictable: from the operating system. The privacy guarantee holds.
    System,
    /// Repeatable by whoever knows the seed: **not private**, whatever the epsilon.
    Seeded,
}

impl Provenance {
    /// Whether the privacy guarantee holds.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::System)
    }
}

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no randomness: {0}")]
pub struct NoEntropy(#[from] getrandom::Error);

mod closed {
    pub trait Closed {
        /// The next few words, at most [`FEW`](super::FEW), little-endian and without a copy. Words may be left out before them, so
        /// that they lie side by side.
        fn next_few(&mut self, count: usize) -> &[[u8; 8]];
    }
}

/// What [`next_few`](closed::Closed::next_few) can give at once.
pub(crate) const FEW: usize = 16;

/// A source of uniform random words: [`SystemRandom`] or [`SeededRandom`], and nothing else.
///
/// The trait cannot be implemented outside the kernel, so no caller can slip in a generator of its own.
pub trait Randomness: closed::Closed {
    /// 64 independent, uniform random bits.
    fn next_word(&mut self) -> u64;

    /// Fills `words` with independent, uniform random bits.
    fn fill_words(&mut self, words: &mut [u64]) {
        for word in words {
            *word = self.next_word();
        }
    }

    /// Whether what is drawn is unpredictable or comes from a seed.
    fn provenance(&self) -> Provenance;
}

const WORDS: usize = 64;

/// Words drawn ahead from a generator, in its own order: one at a time, each would cost a call.
struct Words {
    generator: ChaCha20Rng,
    drawn: Zeroizing<[u8; 8 * WORDS]>,
    used: usize,
}

impl Words {
    fn new(generator: ChaCha20Rng) -> Self {
        Self { generator, drawn: Zeroizing::new([0; 8 * WORDS]), used: WORDS }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        if self.used >= WORDS {
            self.refill();
        }
        let word = u64::from_le_bytes(self.drawn.as_chunks().0[self.used]);
        self.used += 1;
        word
    }

    #[inline]
    fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
        if WORDS - self.used < count {
            self.refill();
        }
        let start = self.used;
        self.used += count;
        &self.drawn.as_chunks().0[start..start + count]
    }

    #[inline(never)]
    fn refill(&mut self) {
        self.generator.fill_bytes(self.drawn.as_mut_slice());
        self.used = 0;
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChaCha20 {..}")
    }
}

/// ChaCha20 keyed by the operating system: the generator for everything that is published.
///
/// Its state is wiped when it is dropped. It must not be carried across `fork`.
#[derive(Debug)]
pub struct SystemRandom(Words);

impl SystemRandom {
    /// A generator with a fresh key from the operating system.
    pub fn new() -> Result<Self, NoEntropy> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut_slice())?;
        Ok(Self(Words::new(ChaCha20Rng::from_seed(*key))))
    }
}

/// ChaCha20 with a known seed, for tests and simulations. What it randomises is **not private**, and says so by its
/// [`Provenance`].
#[derive(Debug)]
pub struct SeededRandom(Words);

impl SeededRandom {
    /// A generator that repeats itself for the same seed.
    pub fn new(seed: u64) -> Self {
        Self::with_stream(seed, 0)
    }

    /// One of 2⁶⁴ independent generators for the same seed: a stream for each repetition or thread makes a run
    /// repeatable whatever the order in which they are executed.
    pub fn with_stream(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha20Rng::from_seed(key);
        generator.set_stream(stream);
        Self(Words::new(generator))
    }

    /// The generator underneath, for samplers that only simulations may use.
    #[cfg(feature = "simulation")]
    pub(crate) fn generator(&mut self) -> &mut ChaCha20Rng {
        &mut self.0.generator
    }
}

impl closed::Closed for SystemRandom {
    #[inline]
    fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
        self.0.next_few(count)
    }
}
impl closed::Closed for SeededRandom {
    #[inline]
    fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
        self.0.next_few(count)
    }
}

impl Randomness for SystemRandom {
    #[inline]
    fn next_word(&mut self) -> u64 {
        self.0.next()
    }

    fn provenance(&self) -> Provenance {
        Provenance::System
    }
}

impl Randomness for SeededRandom {
    #[inline]
    fn next_word(&mut self) -> u64 {
        self.0.next()
    }

    fn provenance(&self) -> Provenance {
        Provenance::Seeded
    }
}

#[cfg(test)]
mod tests {
    use super::closed::Closed;
    use super::*;

    #[test]
    fn few_words_are_the_next_that_lie_side_by_side() {
        let mut expected = [0; 2 * WORDS];
        SeededRandom::new(1).fill_words(&mut expected);
        // Those that do not fit into what was drawn ahead are taken from the next draw.
        for used in [0, 1, WORDS - FEW - 1, WORDS - FEW, WORDS - FEW + 1, WORDS - 1, WORDS] {
            let mut random = SeededRandom::new(1);
            let start = if WORDS - used < FEW { WORDS } else { used };
            random.fill_words(&mut vec![0; used]);
            let few: Vec<u64> = random.next_few(FEW).iter().map(|word| u64::from_le_bytes(*word)).collect();
            assert_eq!(few, expected[start..start + FEW], "{used}");
            assert_eq!(random.next_word(), expected[start + FEW], "{used}");
        }
    }
}
