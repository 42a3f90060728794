//! [`SymbolStream`]: a data set for the sequence family.

use std::num::NonZeroU64;
use std::sync::Arc;

use tidegate_kernel::SeededRandom;
use tidegate_kernel::noise::Below;

use super::StreamError;

/// The symbols `0, 1, ..` and how far they are from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Symbols in a row: their distance is the difference of their numbers.
    Line {
        /// How many.
        symbols: u32,
    },
    /// Cells of a grid, numbered by rows: their distance is that of their centres, in cells (Euclidean).
    Grid {
        /// How many cells a row has.
        columns: u16,
        /// How many rows.
        rows: u16,
    },
}

impl Space {
    /// The number of symbols.
    pub fn symbols(self) -> u32 {
        match self {
            Self::Line { symbols } => symbols,
            Self::Grid { columns, rows } => u32::from(columns) * u32::from(rows),
        }
    }

    /// Where a symbol is: its column and its row; on a line, the row is 0.
    pub fn place(self, symbol: u32) -> (u32, u32) {
        match self {
            Self::Line { .. } => (symbol, 0),
            Self::Grid { columns, .. } => (symbol % u32::from(columns).max(1), symbol / u32::from(columns).max(1)),
        }
    }

    /// How far two symbols are apart.
    ///
    /// ```
    /// use tidegate_lab::stream::Space;
    ///
    /// assert_eq!(Space::Line { symbols: 10 }.distance(2, 7), 5.0);
    /// assert_eq!(Space::Grid { columns: 10, rows: 10 }.distance(11, 44), (9.0_f64 + 9.0).sqrt());
    /// ```
    pub fn distance(self, one: u32, other: u32) -> f64 {
        let ((column, row), (other_column, other_row)) = (self.place(one), self.place(other));
        let across = f64::from(column.abs_diff(other_column));
        if row == other_row { across } else { across.hypot(f64::from(row.abs_diff(other_row))) }
    }

    /// The symbol in the middle: of an even number, the one before it.
    pub fn middle(self) -> u32 {
        match self {
            Self::Line { symbols } => symbols.saturating_sub(1) / 2,
            Self::Grid { columns, rows } => {
                let before_half = |number: u16| u32::from(number.saturating_sub(1) / 2);
                before_half(rows) * u32::from(columns) + before_half(columns)
            }
        }
    }
}

/// A sequence of symbols for each of some users.
///
/// ```
/// use tidegate_lab::SymbolStream;
/// use tidegate_lab::stream::Space;
///
/// let clicks = SymbolStream::new("clicks", Space::Line { symbols: 3 }, vec![vec![0, 2, 1], vec![1]])?;
/// assert_eq!((clicks.domain(), clicks.sequences().len()), (3, 2));
/// # Ok::<(), tidegate_lab::stream::StreamError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolStream {
    name: String,
    space: Space,
    sequences: Arc<Vec<Vec<u32>>>,
    corpus: Arc<Vec<Vec<u32>>>,
    stand_in: Option<String>,
}

impl SymbolStream {
    /// A sequence for each user; at least one user, and one symbol each.
    pub fn new(name: impl Into<String>, space: Space, sequences: Vec<Vec<u32>>) -> Result<Self, StreamError> {
        let domain = space.symbols();
        if domain < 2 {
            return Err(StreamError::Domain { given: domain as usize });
        }
        if sequences.is_empty() {
            return Err(StreamError::Empty);
        }
        for (user, sequence) in sequences.iter().enumerate() {
            if sequence.is_empty() {
                return Err(StreamError::NoSymbols { user });
            }
            if let Some(timestamp) = sequence.iter().position(|symbol| *symbol >= domain) {
                return Err(StreamError::Symbol { user, timestamp, domain });
            }
        }
        let sequences = Arc::new(sequences);
        Ok(Self { name: name.into(), space, corpus: Arc::clone(&sequences), sequences, stand_in: None })
    }

    /// Marks the stream as standing in for another one, and says how it differs.
    #[must_use]
    pub fn standing_in_for(self, what: impl Into<String>) -> Self {
        Self { stand_in: Some(what.into()), ..self }
    }

    /// At most so many symbols of each user, the first; an error where nobody has as many, or none were asked for. The
    /// [`corpus`](Self::corpus) stays whole.
    pub fn shortened(mut self, length: usize) -> Result<Self, StreamError> {
        let available = self.sequences.iter().map(Vec::len).max().unwrap_or_default();
        if !(1..=available).contains(&length) {
            return Err(StreamError::Length { name: self.name, given: length, available });
        }
        Arc::make_mut(&mut self.sequences).iter_mut().for_each(|sequence| sequence.truncate(length));
        Ok(self)
    }

    /// So many of the users, chosen at random and kept in their order; an error where there are fewer, or none were
    /// asked for. The [`corpus`](Self::corpus) stays whole.
    pub fn with_population(mut self, population: u64, random: &mut SeededRandom) -> Result<Self, StreamError> {
        let available = self.sequences.len();
        let users = match usize::try_from(population) {
            Ok(users) if (1..=available).contains(&users) => users,
            _ => return Err(StreamError::Users { name: self.name, given: population, available }),
        };
        let mut order: Vec<usize> = (0..available).collect();
        for place in 0..users {
            let left = NonZeroU64::new((available - place) as u64).unwrap_or(NonZeroU64::MIN);
            #[allow(clippy::cast_possible_truncation)] // less than `available`, a usize
            let chosen = place + Below::new(left).sample(random) as usize;
            order.swap(place, chosen);
        }
        let mut chosen = order[..users].to_vec();
        chosen.sort_unstable();
        self.sequences = Arc::new(chosen.into_iter().map(|user| self.sequences[user].clone()).collect());
        Ok(self)
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The symbols, and how far they are from one another.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// The number of symbols, at least two.
    pub fn domain(&self) -> u32 {
        self.space.symbols()
    }

    /// The sequences to release, one a user; none is empty.
    pub fn sequences(&self) -> &[Vec<u32>] {
        &self.sequences
    }

    /// What a model may be learned from: all sequences of the data set, also where only some users or the first symbols
    /// of each are to be released.
    pub fn corpus(&self) -> &[Vec<u32>] {
        &self.corpus
    }

    /// What this stream stands in for and how it differs, where it is not the data that its name promises.
    pub fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }
}
