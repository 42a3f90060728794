//! Public classes of sequences, for batches of symbols with too many sequences to number.

use std::fmt;

use zeroize::Zeroize;

use crate::sealed::Sealed;

/// Errors of [`SequenceClasses`]. All fields are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum ClassesError {
    /// No symbols, or too many.
    #[error("classes of sequences over {given} symbols are outside 1..={}", crate::MAX_DOMAIN)]
    Domain { given: usize },
    /// A table that is no list of sequences of this length.
    #[error("{given} symbols are no list of sequences of {length}")]
    Table { given: usize, length: usize },
    /// A symbol of the table outside the domain.
    #[error("sequence {sequence} of the table has a symbol outside the domain 0..{domain}")]
    Symbol { sequence: usize, domain: u32 },
    /// A table that is not in strictly ascending order.
    #[error("sequence {sequence} of the table is not after the one before")]
    Order { sequence: usize },
    /// A place outside the sequence.
    #[error("place {given} is outside a sequence of {length} symbols")]
    Place { given: usize, length: usize },
    /// Too many classes for a channel.
    #[error("{given} classes are more than {}", crate::MAX_DOMAIN)]
    TooMany { given: u64 },
    /// A sealed sequence of another length or domain.
    #[error("a sequence of {given} symbols from a domain of {given_domain}; the classes are of {length} from {domain}")]
    Sequence { given: usize, given_domain: u32, length: usize, domain: u32 },
}

/// Raw symbols of a batch, or of a part of one. Only [`SequenceClasses::classify`] reads them.
pub struct SymbolSequence {
    domain: u32,
    symbols: Vec<u32>,
}

impl SymbolSequence {
    /// Symbols, each below `domain`.
    pub(super) const fn new(domain: u32, symbols: Vec<u32>) -> Self {
        Self { domain, symbols }
    }
}

impl fmt::Debug for SymbolSequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SymbolSequence(..)")
    }
}

impl Zeroize for SymbolSequence {
    fn zeroize(&mut self) {
        self.symbols.zeroize();
    }
}

/// A public partition of all sequences of `w` symbols: those of a table have a class each; any other sequence has the
/// class of its symbol at one place.
///
/// The number of classes does not depend on the number of sequences, which may be astronomical. Every sequence has
/// exactly one class, so a [`SymbolChannel`](super::SymbolChannel) over classes answers every batch that a user may
/// have, and protects any change of it ([proof](crate::proofs::sequence_classes)).
///
/// ```
/// use tidegate_kernel::primitives::{SequenceClasses, SymbolBatch};
/// use tidegate_kernel::{Ledger, Window};
///
/// // Of the pairs over 0..1000, (7, 8) has class 0. Others: class 1 if they end with 0, else class 2.
/// let mut rest = vec![1; 1000];
/// rest[0] = 0;
/// let classes = SequenceClasses::new(2, &[7, 8], 1, rest)?;
/// assert_eq!(classes.count(), 3);
/// assert_eq!([[7, 8], [7, 0], [8, 7]].map(|pair| classes.class_of(&pair)), [Some(0), Some(1), Some(2)]);
///
/// let ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let mut batch = SymbolBatch::wide(1000, &[2])?;
/// batch.push(7)?;
/// batch.push(8)?;
/// let sealed = batch.seal_sequences(ledger.account(), 0)?;
/// let class = classes.classify(&sealed[0])?; // sealed, for a channel over three symbols
/// assert_eq!(class.timestamp(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceClasses {
    length: usize,
    /// Sequences one after the other, ascending.
    table: Vec<u32>,
    place: usize,
    /// For each symbol at `place`, the class beyond those of the table.
    rest: Vec<u32>,
    count: u32,
}

impl SequenceClasses {
    /// Creates classes of sequences of `length` symbols over the domain `0..rest.len()`. `table` holds sequences one
    /// after the other, in strictly ascending order; the number of each is its class. A sequence that is not there has
    /// the class `rest[x]` beyond those of the table, for its symbol `x` at `place`.
    ///
    /// # Errors
    /// A table or a place that does not fit, or more than [`MAX_DOMAIN`](crate::MAX_DOMAIN) symbols or classes.
    pub fn new(length: usize, table: &[u32], place: usize, rest: Vec<u32>) -> Result<Self, ClassesError> {
        let domain = match u32::try_from(rest.len()) {
            Ok(domain) if (1..=crate::MAX_DOMAIN).contains(&domain) => domain,
            _ => return Err(ClassesError::Domain { given: rest.len() }),
        };
        if place >= length {
            return Err(ClassesError::Place { given: place, length });
        }
        if !table.len().is_multiple_of(length) {
            return Err(ClassesError::Table { given: table.len(), length });
        }
        let mut before: Option<&[u32]> = None;
        for (sequence, symbols) in table.chunks_exact(length).enumerate() {
            if symbols.iter().any(|symbol| *symbol >= domain) {
                return Err(ClassesError::Symbol { sequence, domain });
            }
            if before.is_some_and(|before| before >= symbols) {
                return Err(ClassesError::Order { sequence });
            }
            before = Some(symbols);
        }
        let beyond = rest.iter().copied().max().map_or(0, u64::from) + 1;
        let given = (table.len() / length) as u64 + beyond;
        let count = u32::try_from(given).ok().filter(|count| *count <= crate::MAX_DOMAIN);
        let count = count.ok_or(ClassesError::TooMany { given })?;
        Ok(Self { length, table: table.to_vec(), place, rest, count })
    }

    /// The number of classes.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The number of sequences with a class of their own.
    pub const fn listed(&self) -> usize {
        self.table.len() / self.length
    }

    /// The symbols of the table's sequences, one after the other.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// The place whose symbol decides about sequences outside the table.
    pub const fn place(&self) -> usize {
        self.place
    }

    /// For each symbol, the class beyond those of the table.
    pub fn rest(&self) -> &[u32] {
        &self.rest
    }

    /// The number of symbols.
    fn domain(&self) -> u32 {
        u32::try_from(self.rest.len()).unwrap_or(u32::MAX)
    }

    /// The class of a public sequence; `None` if its length or a symbol does not fit.
    pub fn class_of(&self, sequence: &[u32]) -> Option<u32> {
        let fits = sequence.len() == self.length && sequence.iter().all(|symbol| *symbol < self.domain());
        fits.then(|| self.find(sequence))
    }

    /// The class of a sequence of this length and domain.
    fn find(&self, sequence: &[u32]) -> u32 {
        let (mut low, mut high) = (0, self.listed());
        while low < high {
            let middle = low.midpoint(high);
            if self.table[middle * self.length..(middle + 1) * self.length] < *sequence {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let class = if self.table.get(low * self.length..(low + 1) * self.length) == Some(sequence) {
            low
        } else {
            self.listed() + self.rest[sequence[self.place] as usize] as usize
        };
        // Less than `count`, which fits.
        u32::try_from(class).unwrap_or(u32::MAX)
    }

    /// The class of a sealed sequence, sealed for the same account and timestamp.
    ///
    /// # Errors
    /// [`ClassesError::Sequence`] for a sequence of another length or domain, both of which are public.
    pub fn classify(&self, sequence: &Sealed<SymbolSequence>) -> Result<Sealed<u32>, ClassesError> {
        let SymbolSequence { domain, symbols } = sequence.content();
        if symbols.len() != self.length || *domain != self.domain() {
            let (given, given_domain, length) = (symbols.len(), *domain, self.length);
            return Err(ClassesError::Sequence { given, given_domain, length, domain: self.domain() });
        }
        Ok(Sealed::at(sequence.account(), sequence.timestamp(), self.find(symbols)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ClassesError, SequenceClasses};
    use crate::account::Account;
    use crate::primitives::{BatchError, SymbolBatch};

    #[test]
    fn every_sequence_has_exactly_one_class() {
        let (domain, length) = (4_u32, 3);
        let table = [0, 1, 2, 1, 1, 1, 3, 0, 0, 3, 3, 3];
        for place in 0..length {
            let classes = SequenceClasses::new(length, &table, place, vec![1, 0, 2, 1]).unwrap();
            assert_eq!((classes.count(), classes.listed()), (7, 4));
            let mut sizes = vec![0; 7];
            for number in 0..domain.pow(3) {
                let sequence = [number / 16, number / 4 % 4, number % 4];
                let expected = match table.chunks(3).position(|listed| listed == sequence) {
                    Some(listed) => listed,
                    None => 4 + [1, 0, 2, 1][sequence[place] as usize],
                };
                assert_eq!(classes.class_of(&sequence), u32::try_from(expected).ok());
                sizes[expected] += 1;
                let mut batch = SymbolBatch::wide(domain, &[3]).unwrap();
                sequence.iter().for_each(|symbol| batch.push(*symbol).unwrap());
                let account = Account::new();
                let sealed = classes.classify(&batch.seal_sequences(account, 5).unwrap()[0]).unwrap();
                assert_eq!((sealed.account(), sealed.timestamp(), *sealed.content() as usize), (account, 5, expected));
            }
            assert_eq!(sizes.iter().sum::<u32>(), 64);
            assert!(sizes.iter().all(|size| *size > 0), "{sizes:?}");
        }
        let none = SequenceClasses::new(2, &[], 0, vec![0; 5]).unwrap();
        assert_eq!((none.count(), none.class_of(&[4, 4])), (1, Some(0)));
        assert_eq!((none.class_of(&[4]), none.class_of(&[4, 5])), (None, None));
    }

    #[test]
    fn rejects_tables_that_are_no_partition() {
        let refused = |length, table: &[u32], place, rest: &[u32]| {
            SequenceClasses::new(length, table, place, rest.to_vec()).unwrap_err()
        };
        assert_eq!(refused(2, &[], 0, &[]), ClassesError::Domain { given: 0 });
        assert_eq!(refused(0, &[], 0, &[0]), ClassesError::Place { given: 0, length: 0 });
        assert_eq!(refused(2, &[], 2, &[0]), ClassesError::Place { given: 2, length: 2 });
        assert_eq!(refused(2, &[0, 1, 1], 0, &[0, 0]), ClassesError::Table { given: 3, length: 2 });
        assert_eq!(refused(2, &[0, 2], 0, &[0, 0]), ClassesError::Symbol { sequence: 0, domain: 2 });
        assert_eq!(refused(2, &[0, 1, 0, 1], 0, &[0, 0]), ClassesError::Order { sequence: 1 });
        assert_eq!(refused(2, &[1, 0, 0, 1], 0, &[0, 0]), ClassesError::Order { sequence: 1 });
        assert_eq!(refused(1, &[0], 0, &[crate::MAX_DOMAIN - 1]), ClassesError::TooMany { given: 16_777_217 });
        assert_eq!(refused(1, &[], 0, &[u32::MAX]), ClassesError::TooMany { given: 1 << 32 });
        SequenceClasses::new(1, &[], 0, vec![crate::MAX_DOMAIN - 1]).unwrap();
    }

    #[test]
    fn rejects_a_sequence_of_another_shape() {
        let classes = SequenceClasses::new(2, &[0, 1], 0, vec![0; 3]).unwrap();
        for (domain, length) in [(3, 1), (3, 3), (4, 2)] {
            let mut batch = SymbolBatch::wide(domain, &[length]).unwrap();
            (0..length).for_each(|_| batch.push(0).unwrap());
            let sealed = batch.seal_sequences(Account::new(), 0).unwrap();
            assert!(matches!(classes.classify(&sealed[0]), Err(ClassesError::Sequence { .. })));
            assert_eq!(format!("{:?}", sealed[0]), "Sealed(..)");
        }
    }

    #[test]
    fn wide_batches_are_not_numbered() {
        let wide = || {
            let mut batch = SymbolBatch::wide(70_000, &[1, 2]).unwrap();
            [1, 2, 69_999].into_iter().for_each(|symbol| batch.push(symbol).unwrap());
            batch
        };
        let numbered = wide().seal(Account::new(), 0).map(drop);
        assert_eq!(numbered, Err(BatchError::Part { part: 1, length: 2, domain: 70_000 }));
        assert_eq!(wide().seal_sequences(Account::new(), 0).unwrap().len(), 2);
        assert!(matches!(SymbolBatch::wide(0, &[1]), Err(BatchError::Part { .. })));
        assert!(matches!(SymbolBatch::wide(2, &[]), Err(BatchError::Part { .. })));
        assert!(matches!(SymbolBatch::wide(2, &[1, 0]), Err(BatchError::Part { .. })));
        assert!(matches!(SymbolBatch::wide(crate::MAX_DOMAIN + 1, &[1]), Err(BatchError::Part { .. })));
    }
}
