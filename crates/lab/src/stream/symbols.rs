//! [`SymbolStream`]: a data set for the sequence family.

use std::num::NonZeroU64;
use std::sync::Arc;

use tidegate_kernel::SeededRandom;
use tidegate_kernel::noise::Below;

use super::DataStreamError;

/// A set of symbols `0, 1, ..` with a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Symbols on a line; the distance is the difference of their numbers.
    Line {
        /// Number of symbols.
        symbols: u32,
    },
    /// Cells of a grid, numbered by rows; the distance is Euclidean, in cells.
    Grid {
        /// Number of columns.
        columns: u16,
        /// Number of rows.
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

    /// Returns the column and the row of a symbol; on a line, the row is 0.
    pub fn place(self, symbol: u32) -> (u32, u32) {
        match self {
            Self::Line { .. } => (symbol, 0),
            Self::Grid { columns, .. } => (symbol % u32::from(columns).max(1), symbol / u32::from(columns).max(1)),
        }
    }

    /// Returns the distance of two symbols.
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

    /// Returns the symbol in the middle; of an even number, the one before it.
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

/// A sequence of symbols for each user.
///
/// ```
/// use tidegate_lab::SymbolStream;
/// use tidegate_lab::stream::Space;
///
/// let clicks = SymbolStream::new("clicks", Space::Line { symbols: 3 }, vec![vec![0, 2, 1], vec![1]])?;
/// assert_eq!((clicks.domain(), clicks.sequences().len()), (3, 2));
/// # Ok::<(), tidegate_lab::stream::DataStreamError>(())
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
    /// Creates a stream of at least one user, with at least one symbol each.
    pub fn new(name: impl Into<String>, space: Space, sequences: Vec<Vec<u32>>) -> Result<Self, DataStreamError> {
        let domain = space.symbols();
        if domain < 2 {
            return Err(DataStreamError::Domain { given: domain as usize });
        }
        if sequences.is_empty() {
            return Err(DataStreamError::Empty);
        }
        for (user, sequence) in sequences.iter().enumerate() {
            if sequence.is_empty() {
                return Err(DataStreamError::NoSymbols { user });
            }
            if let Some(timestamp) = sequence.iter().position(|symbol| *symbol >= domain) {
                return Err(DataStreamError::Symbol { user, timestamp, domain });
            }
        }
        let sequences = Arc::new(sequences);
        Ok(Self { name: name.into(), space, corpus: Arc::clone(&sequences), sequences, stand_in: None })
    }

    /// Marks the stream as a substitute; the text describes the original and the difference.
    #[must_use]
    pub fn standing_in_for(self, what: impl Into<String>) -> Self {
        Self { stand_in: Some(what.into()), ..self }
    }

    /// Keeps the first `length` symbols of each user; an error if nobody has as many, or if it is zero.
    ///
    /// The [`corpus`](Self::corpus) stays whole.
    pub fn shortened(mut self, length: usize) -> Result<Self, DataStreamError> {
        let available = self.sequences.iter().map(Vec::len).max().unwrap_or_default();
        if !(1..=available).contains(&length) {
            return Err(DataStreamError::Length { name: self.name, given: length, available });
        }
        Arc::make_mut(&mut self.sequences).iter_mut().for_each(|sequence| sequence.truncate(length));
        Ok(self)
    }

    /// Samples users, and keeps their order; an error if there are too few, or if the sample is empty.
    ///
    /// The [`corpus`](Self::corpus) stays whole.
    pub fn with_population(mut self, population: u64, random: &mut SeededRandom) -> Result<Self, DataStreamError> {
        let available = self.sequences.len();
        let users = match usize::try_from(population) {
            Ok(users) if (1..=available).contains(&users) => users,
            _ => return Err(DataStreamError::Users { name: self.name, given: population, available }),
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

    /// Returns the name of the data set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the symbols with their distance.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// Returns the number of symbols, at least two.
    pub fn domain(&self) -> u32 {
        self.space.symbols()
    }

    /// Returns the sequences to release, one a user; none is empty.
    pub fn sequences(&self) -> &[Vec<u32>] {
        &self.sequences
    }

    /// Returns all sequences of the data set, from which a model may be learned.
    pub fn corpus(&self) -> &[Vec<u32>] {
        &self.corpus
    }

    /// Describes the original and the difference, if the data are a substitute.
    pub fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }
}
