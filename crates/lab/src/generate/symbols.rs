//! [`Chain`]: sequences of symbols from Markov chains.

use tidegate_kernel::SeededRandom;

use super::numbers::uniform;
use super::{GenerateError, MAX_LENGTH};
use crate::stream::{Space, SymbolStream};

/// A Markov chain of order 1 over symbols on a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chain<const SYMBOLS: usize> {
    /// The name of the data set.
    pub name: &'static str,
    /// How likely each symbol is the first.
    pub initial: [f64; SYMBOLS],
    /// How likely each symbol (column) follows each (row).
    pub transitions: [[f64; SYMBOLS]; SYMBOLS],
}

impl Chain<2> {
    /// The first case of the sequence-privacy paper's figure 5: `Pr(X_1 = 1) = 0.5` and `q_00 = q_11 = 0.5`. That is a fair
    /// coin, whose tosses have nothing to do with one another.
    pub const EVEN: Self = Self { name: "markov_50", initial: [0.5, 0.5], transitions: [[0.5, 0.5], [0.5, 0.5]] };
    /// The second case: `Pr(X_1 = 1) = 0.9` and `q_00 = q_11 = 0.9`.
    pub const STICKY: Self = Self { name: "markov_90", initial: [0.1, 0.9], transitions: [[0.9, 0.1], [0.1, 0.9]] };
}

impl<const SYMBOLS: usize> Chain<SYMBOLS> {
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
        let sums_to_one = |row: &[f64; SYMBOLS]| {
            row.iter().all(|share| *share >= 0.0) && (row.iter().sum::<f64>() - 1.0).abs() < 1e-9
        };
        if !(sums_to_one(&self.initial) && self.transitions.iter().all(sums_to_one)) {
            return Err(GenerateError::Chain { name: self.name });
        }
        let mut sequence = || {
            let mut row = &self.initial;
            let mut symbols = Vec::with_capacity(length);
            for _ in 0..length {
                let symbol = draw(row, random);
                row = &self.transitions[symbol];
                symbols.push(u32::try_from(symbol).unwrap_or(u32::MAX));
            }
            symbols
        };
        let sequences = (0..users).map(|_| sequence()).collect();
        let symbols = u32::try_from(SYMBOLS).unwrap_or(u32::MAX);
        Ok(SymbolStream::new(self.name, Space::Line { symbols }, sequences)?)
    }
}

/// A symbol, each as likely as the shares say.
fn draw(shares: &[f64], random: &mut SeededRandom) -> usize {
    let mut left = uniform(random);
    let found = shares.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    // Where rounding leaves a little over, it is the last that can occur.
    found.or_else(|| shares.iter().rposition(|share| *share > 0.0)).unwrap_or_default()
}
