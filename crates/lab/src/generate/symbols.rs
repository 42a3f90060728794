//! [`Chain`]: sequences of symbols from Markov chains.

use std::borrow::Cow;

use tidegate_kernel::SeededRandom;

use super::{GenerateError, MAX_LENGTH};
use crate::draw::unit;
use crate::stream::{Space, SymbolStream};

/// A Markov chain of order 1 over symbols on a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    name: Cow<'static, str>,
    /// Distribution of the first symbol.
    initial: Cow<'static, [f64]>,
    /// Transition matrix, row after row.
    transitions: Cow<'static, [f64]>,
}

/// Greatest number of symbols of a [`Chain`], whose matrix is held in memory.
pub const MAX_SYMBOLS: usize = 2_000;

impl Chain {
    /// The first case of the sequence-privacy paper's figure 5: `Pr(X_1 = 1) = 0.5` and `q_00 = q_11 = 0.5`. That is a
    /// fair coin, whose tosses have nothing to do with one another.
    pub const EVEN: Self = Self::constant("markov_50", &[0.5, 0.5], &[0.5, 0.5, 0.5, 0.5]);
    /// The second case: `Pr(X_1 = 1) = 0.9` and `q_00 = q_11 = 0.9`.
    pub const STICKY: Self = Self::constant("markov_90", &[0.1, 0.9], &[0.9, 0.1, 0.1, 0.9]);

    const fn constant(name: &'static str, initial: &'static [f64], transitions: &'static [f64]) -> Self {
        Self { name: Cow::Borrowed(name), initial: Cow::Borrowed(initial), transitions: Cow::Borrowed(transitions) }
    }

    /// Returns the distribution of the first symbol.
    pub fn initial(&self) -> &[f64] {
        &self.initial
    }

    /// Returns the transition matrix, row after row.
    pub fn transitions(&self) -> &[f64] {
        &self.transitions
    }

    /// Creates a chain from the distribution of the first symbol and the transition matrix.
    ///
    /// # Errors
    /// [`GenerateError::Symbols`] for fewer than two symbols or more than [`MAX_SYMBOLS`], [`GenerateError::Chain`]
    /// where there is not a row of as many probabilities for each, or a row does not sum to one.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        initial: Vec<f64>,
        transitions: &[Vec<f64>],
    ) -> Result<Self, GenerateError> {
        let (name, symbols) = (name.into(), initial.len());
        if !(2..=MAX_SYMBOLS).contains(&symbols) {
            return Err(GenerateError::Symbols { given: symbols });
        }
        let sums_to_one = |row: &Vec<f64>| {
            row.len() == symbols
                && row.iter().all(|share| *share >= 0.0)
                && (row.iter().sum::<f64>() - 1.0).abs() < 1e-9
        };
        if !(transitions.len() == symbols && sums_to_one(&initial) && transitions.iter().all(sums_to_one)) {
            return Err(GenerateError::Chain { name: name.into_owned() });
        }
        Ok(Self { name, initial: initial.into(), transitions: transitions.concat().into() })
    }

    /// A chain that stays with a probability, and otherwise goes to any other symbol; each is as likely the first. Its
    /// name is `markov:SYMBOLS:STAY`, by which [`datasets::load`](crate::datasets::load) finds it as well.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::Chain;
    ///
    /// let stream = Chain::staying(10, 0.7)?.generate(1, 10_000, &mut SeededRandom::new(1))?;
    /// let stays = stream.sequences()[0].windows(2).filter(|pair| pair[0] == pair[1]).count();
    /// assert!((6_700..7_300).contains(&stays));
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn staying(symbols: usize, stay: f64) -> Result<Self, GenerateError> {
        let name = format!("markov:{symbols}:{stay}");
        if !(2..=MAX_SYMBOLS).contains(&symbols) {
            return Err(GenerateError::Symbols { given: symbols });
        }
        if !(0.0..=1.0).contains(&stay) {
            return Err(GenerateError::Chain { name });
        }
        #[allow(clippy::cast_precision_loss)] // at most MAX_SYMBOLS
        let (uniform, leave) = (1.0 / symbols as f64, (1.0 - stay) / (symbols - 1) as f64);
        let row = |from: usize| (0..symbols).map(|to| if to == from { stay } else { leave }).collect();
        let transitions: Vec<Vec<f64>> = (0..symbols).map(row).collect();
        Self::new(name, vec![uniform; symbols], &transitions)
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of symbols.
    pub fn symbols(&self) -> usize {
        self.initial.len()
    }

    /// So many sequences, each of so many symbols.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::Chain;
    ///
    /// let stream = Chain::STICKY.generate(1, 10_000, &mut SeededRandom::new(1))?;
    /// let stays = stream.sequences()[0].windows(2).filter(|pair| pair[0] == pair[1]).count();
    /// assert!((8_800..9_200).contains(&stays));
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn generate(
        &self,
        users: usize,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<SymbolStream, GenerateError> {
        if !(1..=MAX_LENGTH).contains(&users.saturating_mul(length)) {
            return Err(GenerateError::Length { given: users.saturating_mul(length) });
        }
        let symbols = self.symbols();
        let mut sequence = || {
            let mut row = &self.initial[..];
            let mut sequence = Vec::with_capacity(length);
            for _ in 0..length {
                let symbol = draw(row, random);
                row = &self.transitions[symbol * symbols..(symbol + 1) * symbols];
                sequence.push(u32::try_from(symbol).unwrap_or(u32::MAX));
            }
            sequence
        };
        let sequences = (0..users).map(|_| sequence()).collect();
        let symbols = u32::try_from(symbols).unwrap_or(u32::MAX);
        Ok(SymbolStream::new(self.name.as_ref(), Space::Line { symbols }, sequences)?)
    }
}

/// Draws a symbol from a distribution.
fn draw(shares: &[f64], random: &mut SeededRandom) -> usize {
    let mut left = unit(random);
    let found = shares.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    // Where rounding leaves a little over, it is the last that can occur.
    found.or_else(|| shares.iter().rposition(|share| *share > 0.0)).unwrap_or_default()
}
