//! Sources of randomness: the operating system for real runs, a seed for tests and simulations.

use std::fmt;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::epsilon::Epsilon;
#[cfg(feature = "simulation")]
use crate::simulation::Recorder;
use crate::step::StepLikelihood;

/// Where the randomness of a release came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Unpredictable: from the operating system. The privacy guarantee holds.
    System,
    /// Repeatable by anyone who knows the seed: **not private** at any epsilon.
    Seeded,
}

impl Provenance {
    /// Whether the privacy guarantee holds.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::System)
    }
}

/// The operating system provided no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provided no randomness: {0}")]
pub struct NoEntropy(#[from] getrandom::Error);

mod closed {
    use super::Randomness;
    use crate::epsilon::Epsilon;
    use crate::step::StepLikelihood;

    pub trait Closed {
        /// Mixes new entropy of the operating system into a generator keyed by it.
        fn renew(&mut self) -> Result<(), super::NoEntropy>;

        /// The next few words, at most [`FEW`](super::FEW), little-endian and without a copy. Words may be skipped to
        /// keep them contiguous.
        fn next_few(&mut self, count: usize) -> &[[u8; 8]];

        /// Publishes the value of a randomised step. Only a [`SeededRandom`](super::SeededRandom) can choose the value,
        /// and only with the feature `simulation`.
        #[inline]
        fn publish<L: StepLikelihood>(&mut self, mut law: L) -> L::Output
        where
            Self: Randomness + Sized,
        {
            law.draw(self)
        }

        /// Records the cost of the steps since the last call.
        #[inline]
        fn note_spend(&mut self, _: Epsilon) {}
    }
}

pub(crate) use closed::Closed;

/// Maximum words of one [`next_few`](closed::Closed::next_few).
pub(crate) const FEW: usize = 16;

/// A source of uniform random words: [`SystemRandom`] or [`SeededRandom`], by itself or [fresh](FreshRandom).
///
/// The trait is sealed: no caller can supply another generator.
pub trait Randomness: Closed {
    /// 64 independent, uniform random bits.
    fn next_word(&mut self) -> u64;

    /// Fills `words` with independent, uniform random bits.
    fn fill_words(&mut self, words: &mut [u64]) {
        for word in words {
            *word = self.next_word();
        }
    }

    /// Whether the words are unpredictable or come from a seed.
    fn provenance(&self) -> Provenance;
}

const WORDS: usize = 64;

/// A buffer of words drawn ahead from a generator, in order.
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

    /// Re-keys the generator with the given entropy and its own next output. Drops the buffer.
    fn renew(&mut self, entropy: &[u8; 32]) {
        let mut key = Zeroizing::new([0; 32]);
        self.generator.fill_bytes(key.as_mut_slice());
        key.iter_mut().zip(entropy).for_each(|(key, entropy)| *key ^= entropy);
        self.generator = ChaCha20Rng::from_seed(*key);
        self.used = WORDS;
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

/// ChaCha20 keyed by the operating system: the generator for all published values.
///
/// Each primitive and each report starts with [fresh](FreshRandom) entropy. So two copies of a generator, as after
/// `fork` or in a restored virtual machine, draw independent noise. Direct draws, by [`Randomness::next_word`] or a
/// sampler, lack that protection. The state is zeroised on drop.
#[derive(Debug)]
pub struct SystemRandom(Words);

impl SystemRandom {
    /// Creates a generator with a new key from the operating system.
    pub fn new() -> Result<Self, NoEntropy> {
        Ok(Self(Words::new(ChaCha20Rng::from_seed(*entropy()?))))
    }
}

fn entropy() -> Result<Zeroizing<[u8; 32]>, NoEntropy> {
    let mut entropy = Zeroizing::new([0; 32]);
    getrandom::fill(entropy.as_mut_slice())?;
    Ok(entropy)
}

/// A generator with freshly mixed entropy of the operating system.
///
/// Every function that draws a [`Noised`](crate::primitives::Noised) value or a [`Report`](crate::oracle::Report)
/// creates one. So two copies of a [`SystemRandom`] diverge at the next release. Copies appear when a snapshot of a
/// running machine is restored; equal noise on different data would reveal their exact difference. A [`SeededRandom`]
/// is not changed.
///
/// A caller that releases a batch can create one `FreshRandom` for all of it and pass it as the [`Randomness`]. Create
/// one for each batch, and drop it before blocking.
///
/// ```
/// use tidegate_kernel::oracle::{Oracle, OracleKind};
/// use tidegate_kernel::{FreshRandom, Ledger, SystemRandom, Window};
///
/// let oracle = Oracle::new(OracleKind::Grr, 4, "1".parse()?)?;
/// let mut random = SystemRandom::new()?;
/// let batch = &mut FreshRandom::new(&mut random)?;
/// for value in [0, 3, 2] {
///     let mut ledger = Ledger::new("1".parse()?, Window::EVENT); // of the user
///     let report = oracle.perturb(ledger.spend(0, oracle.epsilon())?, value, batch)?;
///     assert!(report.provenance().is_private());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FreshRandom<'a, R>(&'a mut R);

impl<'a, R: Randomness> FreshRandom<'a, R> {
    /// Mixes 32 new bytes into the generator's key and drops the buffered words.
    ///
    /// # Errors
    /// [`NoEntropy`] if the operating system provides none. Publish nothing then.
    #[inline]
    pub fn new(random: &'a mut R) -> Result<Self, NoEntropy> {
        random.renew()?;
        Ok(Self(random))
    }
}

/// ChaCha20 with a known seed, for tests and simulations. Its output is **not private**, and its [`Provenance`] says
/// so.
#[derive(Debug)]
pub struct SeededRandom {
    words: Words,
    #[cfg(feature = "simulation")]
    pub(crate) recorder: Option<Box<Recorder>>,
}

impl SeededRandom {
    /// Creates a generator; equal seeds give equal words.
    pub fn new(seed: u64) -> Self {
        Self::with_stream(seed, 0)
    }

    /// Creates one of 2⁶⁴ independent generators for a seed. With one stream per repetition or thread, a run is
    /// repeatable in any order of execution.
    pub fn with_stream(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha20Rng::from_seed(key);
        generator.set_stream(stream);
        Self {
            words: Words::new(generator),
            #[cfg(feature = "simulation")]
            recorder: None,
        }
    }

    /// The underlying generator, for simulation samplers.
    #[cfg(feature = "simulation")]
    pub(crate) fn generator(&mut self) -> &mut ChaCha20Rng {
        &mut self.words.generator
    }

    /// The number of words drawn.
    #[cfg(feature = "simulation")]
    pub(crate) fn drawn(&self) -> u128 {
        // The generator counts 32-bit words.
        (self.words.generator.get_word_pos() / 2 + self.words.used as u128).saturating_sub(WORDS as u128)
    }

    /// Runs `draw` on the words of another generator.
    #[cfg(feature = "simulation")]
    pub(crate) fn on_words_of<T>(&mut self, other: &mut Self, draw: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut self.words, &mut other.words);
        let drawn = draw(self);
        std::mem::swap(&mut self.words, &mut other.words);
        drawn
    }
}

impl Closed for SystemRandom {
    fn renew(&mut self) -> Result<(), NoEntropy> {
        self.0.renew(&*entropy()?);
        Ok(())
    }

    #[inline]
    fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
        self.0.next_few(count)
    }
}
impl Closed for SeededRandom {
    #[inline]
    fn renew(&mut self) -> Result<(), NoEntropy> {
        Ok(())
    }

    #[inline]
    fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
        self.words.next_few(count)
    }

    #[cfg(feature = "simulation")]
    #[inline]
    fn publish<L: StepLikelihood>(&mut self, mut law: L) -> L::Output {
        // Nested steps are part of the outer step, so they find no recorder.
        match self.recorder.take() {
            None => law.draw(self),
            Some(mut recorder) => {
                let output = recorder.publish(&mut law, self);
                self.recorder = Some(recorder);
                output
            }
        }
    }

    #[cfg(feature = "simulation")]
    #[inline]
    fn note_spend(&mut self, epsilon: Epsilon) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note_spend(epsilon);
        }
    }
}

impl<R: Randomness> Closed for FreshRandom<'_, R> {
    #[inline]
    fn renew(&mut self) -> Result<(), NoEntropy> {
        Ok(())
    }

    #[inline]
    fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
        self.0.next_few(count)
    }

    #[inline]
    fn publish<L: StepLikelihood>(&mut self, law: L) -> L::Output {
        self.0.publish(law)
    }

    #[inline]
    fn note_spend(&mut self, epsilon: Epsilon) {
        self.0.note_spend(epsilon);
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
        self.words.next()
    }

    fn provenance(&self) -> Provenance {
        Provenance::Seeded
    }
}

impl<R: Randomness> Randomness for FreshRandom<'_, R> {
    #[inline]
    fn next_word(&mut self) -> u64 {
        self.0.next_word()
    }

    #[inline]
    fn fill_words(&mut self, words: &mut [u64]) {
        self.0.fill_words(words);
    }

    fn provenance(&self) -> Provenance {
        self.0.provenance()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::oracle::{Oracle, OracleError, OracleKind};
    use crate::primitives::{AboveThreshold, Neighbours, PrimitiveError, noisy_histogram, seal_histogram};
    use crate::{Epsilon, Ledger, Permit, Window};

    #[test]
    fn few_words_are_the_next_contiguous_ones() {
        let mut expected = [0; 2 * WORDS];
        SeededRandom::new(1).fill_words(&mut expected);
        // Words beyond the buffer come from the next draw.
        for used in [0, 1, WORDS - FEW - 1, WORDS - FEW, WORDS - FEW + 1, WORDS - 1, WORDS] {
            let mut random = SeededRandom::new(1);
            let start = if WORDS - used < FEW { WORDS } else { used };
            random.fill_words(&mut vec![0; used]);
            let few: Vec<u64> = random.next_few(FEW).iter().map(|word| u64::from_le_bytes(*word)).collect();
            assert_eq!(few, expected[start..start + FEW], "{used}");
            assert_eq!(random.next_word(), expected[start + FEW], "{used}");
        }
    }

    #[test]
    fn few_words_of_the_system_are_new_each_time() -> Result<(), NoEntropy> {
        // 128 random bytes are equal with probability 2^-1024.
        let (mut random, mut other) = (SystemRandom::new()?, SystemRandom::new()?);
        let first = random.next_few(FEW).to_vec();
        assert_eq!(first.len(), FEW);
        assert_ne!(first, random.next_few(FEW));
        assert_ne!(first, other.next_few(FEW));
        Ok(())
    }

    /// A generator restored from a snapshot in the middle of a run.
    fn restored() -> SystemRandom {
        let mut random = SystemRandom(Words::new(ChaCha20Rng::from_seed([7; 32])));
        random.0.next_few(5);
        random
    }

    fn one() -> Epsilon {
        "1".parse().unwrap()
    }

    fn permit() -> Permit {
        Ledger::new(one(), Window::EVENT).spend(0, one()).unwrap()
    }

    fn histogram(random: &mut impl Randomness) -> Result<(), PrimitiveError> {
        let mut ledger = Ledger::new(one(), Window::EVENT);
        let counts = seal_histogram(ledger.account(), 0, [2, 0, 2], 3).unwrap();
        let permit = ledger.spend(0, one()).unwrap();
        noisy_histogram(permit, &counts, Neighbours::AddRemove, NonZeroU64::MIN, random).map(drop)
    }

    /// Whether two restored copies draw different words from the next use on. The false-alarm probability is 2^-64.
    fn diverges(mut uses: impl FnMut(&mut SystemRandom)) -> bool {
        let (mut first, mut second) = (restored(), restored());
        uses(&mut first);
        uses(&mut second);
        first.next_word() != second.next_word()
    }

    #[test]
    fn restored_copies_diverge_at_the_next_release() {
        assert!(!diverges(|_| {}), "they are copies");
        let draws_a_word = |random: &mut SystemRandom| {
            random.next_word();
        };
        assert!(!diverges(draws_a_word), "and remain so while nothing is released");
        assert!(diverges(|random| histogram(random).unwrap()));
        assert!(diverges(|random| drop(AboveThreshold::open(permit(), 3, 1, random).unwrap())));
        for kind in OracleKind::ALL {
            let oracle = Oracle::new(kind, 8, one()).unwrap();
            assert!(diverges(|random| drop(oracle.perturb(permit(), 2, random).unwrap())), "{kind}");
        }
    }

    #[test]
    fn restored_copies_share_no_word_drawn_ahead() {
        let (mut first, mut second) = (restored(), restored());
        let (mut first, mut second) = (FreshRandom::new(&mut first).unwrap(), FreshRandom::new(&mut second).unwrap());
        assert!((0..4 * WORDS).all(|_| first.next_word() != second.next_word()));
    }

    #[test]
    fn one_batch_takes_entropy_once() {
        let mut random = restored();
        let batch = &mut FreshRandom::new(&mut random).unwrap();
        let ahead = batch.0.0.next_few(2)[1];
        batch.0.0.used -= 1;
        assert_eq!(FreshRandom::new(batch).unwrap().next_word(), u64::from_le_bytes(ahead));
    }

    #[test]
    fn seeded_words_stay_the_same_when_fresh() {
        let (mut plain, mut fresh) = (SeededRandom::new(3), SeededRandom::new(3));
        for _ in 0..3 * WORDS {
            assert_eq!(FreshRandom::new(&mut fresh).unwrap().next_word(), plain.next_word());
        }
        assert_eq!(FreshRandom::new(&mut fresh).unwrap().provenance(), Provenance::Seeded);
    }

    /// A generator of a system without entropy.
    struct Exhausted(SystemRandom);

    impl Closed for Exhausted {
        fn renew(&mut self) -> Result<(), NoEntropy> {
            Err(NoEntropy(getrandom::Error::UNSUPPORTED))
        }

        fn next_few(&mut self, count: usize) -> &[[u8; 8]] {
            self.0.next_few(count)
        }
    }

    impl Randomness for Exhausted {
        fn next_word(&mut self) -> u64 {
            self.0.next_word()
        }

        fn provenance(&self) -> Provenance {
            Provenance::System
        }
    }

    #[test]
    fn publishes_nothing_without_new_entropy() {
        let random = &mut Exhausted(restored());
        let missing = NoEntropy(getrandom::Error::UNSUPPORTED);
        assert_eq!(histogram(random), Err(PrimitiveError::Entropy(missing)));
        let opened = AboveThreshold::open(permit(), 3, 1, random);
        assert_eq!(opened.unwrap_err(), PrimitiveError::Entropy(missing));
        let oracle = Oracle::new(OracleKind::Grr, 8, one()).unwrap();
        let mut report = vec![0xAA; oracle.report_length()];
        let refused = oracle.perturb_into(permit(), 2, random, &mut report);
        assert_eq!(refused, Err(OracleError::Entropy(missing)));
        assert!(report.iter().all(|byte| *byte == 0xAA));
        assert_eq!(random.next_word(), restored().next_word(), "nothing was drawn");
    }
}
