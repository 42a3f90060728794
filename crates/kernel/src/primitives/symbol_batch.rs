//! Batches of symbols, sealed as one.

use std::fmt;

use zeroize::Zeroizing;

use super::SymbolSequence;
use crate::account::Account;
use crate::sealed::Sealed;

/// Errors of a [`SymbolBatch`]. Messages contain no symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum BatchError {
    /// No parts, an empty part, or a part with more sequences than a channel has symbols.
    #[error(
        "part {part} of the batch, {length} symbols from a domain of {domain}, does not have 1..={} sequences",
        crate::MAX_DOMAIN
    )]
    Part { part: usize, length: u32, domain: u32 },
    /// A symbol outside the domain.
    #[error("the symbol is outside the domain 0..{domain}")]
    Symbol { domain: u32 },
    /// The batch is full.
    #[error("the batch has all its {length} symbols")]
    Full { length: usize },
    /// The batch is not full.
    #[error("the batch has {given} of its {length} symbols")]
    Incomplete { given: usize, length: usize },
}

/// Collects the symbols of a batch and seals them as one symbol for a [`SymbolChannel`](super::SymbolChannel): the
/// sequence `x_1 .. x_w` over `d` symbols is the symbol `x_1 d^(w-1) + .. + x_w` of a domain of `d^w`. A batch may have
/// several parts, each sealed separately.
///
/// A batch is the data of one timestamp: the ledger counts batches, and a permit protects any change of the whole
/// batch. The collected symbols are as secret as sealed ones: no getter, no `Debug` output, no serialisation, and
/// zeroised on drop.
///
/// ```
/// use tidegate_kernel::primitives::SymbolBatch;
/// use tidegate_kernel::{Ledger, Window};
///
/// let ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let mut batch = SymbolBatch::new(10, &[2])?;
/// batch.push(4)?;
/// assert!(!batch.is_full());
/// batch.push(7)?;
/// let sealed = batch.seal(ledger.account(), 0)?; // one part, the symbol 47 of 100
/// assert_eq!(sealed.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SymbolBatch {
    domain: u32,
    parts: Vec<u32>,
    length: usize,
    symbols: Zeroizing<Vec<u32>>,
}

impl SymbolBatch {
    /// Creates an empty batch of parts with these lengths.
    ///
    /// # Errors
    /// [`BatchError::Part`] if there is no part, or a part is empty or has more than [`MAX_DOMAIN`](crate::MAX_DOMAIN)
    /// sequences.
    pub fn new(domain: u32, parts: &[u32]) -> Result<Self, BatchError> {
        check_numbers(domain, parts)?;
        Self::wide(domain, parts)
    }

    /// Creates an empty batch of parts with these lengths, whose sequences may be too many to number. It is sealed by
    /// [`SymbolBatch::seal_sequences`].
    ///
    /// # Errors
    /// [`BatchError::Part`] if there is no part, a part is empty, or the domain is outside
    /// 1..=[`MAX_DOMAIN`](crate::MAX_DOMAIN).
    pub fn wide(domain: u32, parts: &[u32]) -> Result<Self, BatchError> {
        if parts.is_empty() || !(1..=crate::MAX_DOMAIN).contains(&domain) {
            return Err(BatchError::Part { part: 0, length: parts.first().copied().unwrap_or(0), domain });
        }
        let mut length = 0_usize;
        for (part, &symbols) in parts.iter().enumerate() {
            if symbols == 0 {
                return Err(BatchError::Part { part, length: symbols, domain });
            }
            length += symbols as usize;
        }
        // Reserved at once, so that growing the list leaves no copy of a symbol behind.
        Ok(Self { domain, parts: parts.to_vec(), length, symbols: Zeroizing::new(Vec::with_capacity(length)) })
    }

    /// Appends a symbol.
    ///
    /// # Errors
    /// [`BatchError::Symbol`] and [`BatchError::Full`]; the batch is unchanged.
    pub fn push(&mut self, symbol: u32) -> Result<(), BatchError> {
        if symbol >= self.domain {
            return Err(BatchError::Symbol { domain: self.domain });
        }
        if self.is_full() {
            return Err(BatchError::Full { length: self.length });
        }
        self.symbols.push(symbol);
        Ok(())
    }

    /// Whether the batch has this domain and parts of these lengths.
    pub fn fits(&self, domain: u32, parts: impl IntoIterator<Item = u32>) -> bool {
        self.domain == domain && self.parts.iter().copied().eq(parts)
    }

    /// Whether the batch is full.
    pub fn is_full(&self) -> bool {
        self.symbols.len() == self.length
    }

    /// The number of missing symbols.
    pub fn missing(&self) -> usize {
        self.length - self.symbols.len()
    }

    /// Seals each part as one symbol of `timestamp` for an account.
    ///
    /// # Errors
    /// [`BatchError::Incomplete`], and [`BatchError::Part`] for a [wide](Self::wide) batch with too many sequences; the
    /// symbols are then lost.
    pub fn seal(self, account: Account, timestamp: u64) -> Result<Vec<Sealed<u32>>, BatchError> {
        check_numbers(self.domain, &self.parts)?;
        self.check_full()?;
        let mut symbols = self.symbols.iter();
        let number = |length: u32| symbols.by_ref().take(length as usize).fold(0, |number, x| number * self.domain + x);
        Ok(self.parts.iter().copied().map(number).map(|number| Sealed::at(account, timestamp, number)).collect())
    }

    /// Seals each part as a sequence of `timestamp` for an account, for [`SequenceClasses`](super::SequenceClasses).
    ///
    /// # Errors
    /// [`BatchError::Incomplete`]; the symbols are then lost.
    pub fn seal_sequences(self, account: Account, timestamp: u64) -> Result<Vec<Sealed<SymbolSequence>>, BatchError> {
        self.check_full()?;
        let mut symbols = self.symbols.as_slice();
        let mut sealed = Vec::with_capacity(self.parts.len());
        for &length in &self.parts {
            let (part, later) = symbols.split_at(length as usize);
            sealed.push(Sealed::at(account, timestamp, SymbolSequence::new(self.domain, part.to_vec())));
            symbols = later;
        }
        Ok(sealed)
    }

    fn check_full(&self) -> Result<(), BatchError> {
        if self.is_full() {
            return Ok(());
        }
        Err(BatchError::Incomplete { given: self.symbols.len(), length: self.length })
    }
}

/// Rejects parts with no sequence, or more than can be numbered.
fn check_numbers(domain: u32, parts: &[u32]) -> Result<(), BatchError> {
    for (part, &length) in parts.iter().enumerate() {
        let sequences = domain.checked_pow(length).filter(|_| domain > 0 && length > 0);
        if sequences.is_none_or(|sequences| sequences > crate::MAX_DOMAIN) {
            return Err(BatchError::Part { part, length, domain });
        }
    }
    Ok(())
}

impl fmt::Debug for SymbolBatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SymbolBatch(..)")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Account, BatchError, SymbolBatch};

    #[test]
    fn each_part_is_a_number_in_the_domains_base() {
        let mut batch = SymbolBatch::new(5, &[2, 1]).unwrap();
        for symbol in [3, 4, 2] {
            assert!(!batch.is_full());
            batch.push(symbol).unwrap();
        }
        let sealed = batch.seal(Account::new(), 9).unwrap();
        assert_eq!(
            sealed.iter().map(|part| (part.timestamp(), *part.content())).collect::<Vec<_>>(),
            [(9, 19), (9, 2)]
        );
    }

    #[test]
    fn errors_never_contain_the_symbol() {
        for parts in [&[][..], &[2, 0], &[25]] {
            assert!(matches!(SymbolBatch::new(2, parts), Err(BatchError::Part { .. })), "{parts:?}");
        }
        assert!(SymbolBatch::new(0, &[1]).is_err());
        SymbolBatch::new(2, &[24]).unwrap();
        let mut batch = SymbolBatch::new(5, &[1, 1]).unwrap();
        assert_eq!(batch.push(5), Err(BatchError::Symbol { domain: 5 }));
        batch.push(4).unwrap();
        assert_eq!((batch.missing(), format!("{batch:?}")), (1, "SymbolBatch(..)".to_owned()));
        batch.push(4).unwrap();
        assert_eq!(batch.missing(), 0);
        assert!(batch.fits(5, [1, 1]));
        assert!(!batch.fits(4, [1, 1]) && !batch.fits(5, [2]) && !batch.fits(5, [1, 1, 1]));
        assert_eq!(batch.push(0), Err(BatchError::Full { length: 2 }));
        let empty = SymbolBatch::new(5, &[1]).unwrap().seal(Account::new(), 0).map(|_| ());
        assert_eq!(empty, Err(BatchError::Incomplete { given: 0, length: 1 }));
    }
}
