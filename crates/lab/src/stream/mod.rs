//! Data sets of three kinds; each family of mechanisms takes one kind.
//!
//! | kind | content | families |
//! | --- | --- | --- |
//! | [`CountStream`] | the number of users with each value, at each timestamp | local, central |
//! | [`NumberStream`] | one number at each timestamp | scalar |
//! | [`SymbolStream`] | a sequence of symbols for each user | sequence |

mod counts;
mod numbers;
mod symbols;

use std::fmt;

pub use counts::as_float;
pub use counts::{CountStream, MAX_POPULATION};
pub use numbers::NumberStream;
use serde::Deserialize;
pub use symbols::{Space, SymbolStream};
use tidegate_kernel::SeededRandom;

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamKind {
    /// Numbers of users with each value: [`CountStream`].
    Counts,
    /// One number at each timestamp: [`NumberStream`].
    Numbers,
    /// Sequences of symbols: [`SymbolStream`].
    Symbols,
}

impl StreamKind {
    /// All kinds, in the order of lists.
    pub const ALL: [Self; 3] = [Self::Counts, Self::Numbers, Self::Symbols];

    /// Returns the name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Numbers => "numbers",
            Self::Symbols => "symbols",
        }
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A data set of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum DataStream {
    /// Numbers of users with each value.
    Counts(CountStream),
    /// One number at each timestamp.
    Numbers(NumberStream),
    /// Sequences of symbols.
    Symbols(SymbolStream),
}

impl DataStream {
    /// Returns the kind.
    pub const fn kind(&self) -> StreamKind {
        match self {
            Self::Counts(_) => StreamKind::Counts,
            Self::Numbers(_) => StreamKind::Numbers,
            Self::Symbols(_) => StreamKind::Symbols,
        }
    }

    /// Returns the name of the data set.
    pub fn name(&self) -> &str {
        match self {
            Self::Counts(stream) => stream.name(),
            Self::Numbers(stream) => stream.name(),
            Self::Symbols(stream) => stream.name(),
        }
    }

    /// Describes the original and the difference, if the data are a substitute.
    pub fn stand_in(&self) -> Option<&str> {
        match self {
            Self::Counts(stream) => stream.stand_in(),
            Self::Numbers(stream) => stream.stand_in(),
            Self::Symbols(stream) => stream.stand_in(),
        }
    }

    /// Keeps the first `length` timestamps; an error if there are fewer, or if it is zero.
    pub fn shortened(self, length: usize) -> Result<Self, DataStreamError> {
        match self {
            Self::Counts(stream) => stream.shortened(length).map(Self::Counts),
            Self::Numbers(stream) => stream.shortened(length).map(Self::Numbers),
            Self::Symbols(stream) => stream.shortened(length).map(Self::Symbols),
        }
    }

    /// Changes the number of users; an error for numbers, which have none.
    ///
    /// Counts keep their frequencies ([`CountStream::with_population`]); sequences are sampled
    /// ([`SymbolStream::with_population`]).
    pub fn with_population(self, population: u64, random: &mut SeededRandom) -> Result<Self, DataStreamError> {
        match self {
            Self::Counts(stream) => stream.with_population(population).map(Self::Counts),
            Self::Numbers(stream) => Err(DataStreamError::NoUsers { name: stream.name().to_owned() }),
            Self::Symbols(stream) => stream.with_population(population, random).map(Self::Symbols),
        }
    }
}

impl From<CountStream> for DataStream {
    fn from(stream: CountStream) -> Self {
        Self::Counts(stream)
    }
}

impl From<NumberStream> for DataStream {
    fn from(stream: NumberStream) -> Self {
        Self::Numbers(stream)
    }
}

impl From<SymbolStream> for DataStream {
    fn from(stream: SymbolStream) -> Self {
        Self::Symbols(stream)
    }
}

/// Describes the stream in one line.
impl fmt::Display for DataStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |numbers: &mut dyn Iterator<Item = u64>| {
            let (least, most) = numbers.fold((u64::MAX, 0), |(low, high), next| (low.min(next), high.max(next)));
            if least == most { least.to_string() } else { format!("{least} to {most}") }
        };
        match self {
            Self::Counts(stream) => {
                let (name, length, domain) = (stream.name(), stream.length(), stream.domain());
                let users = span(&mut (0..length).map(|timestamp| stream.population(timestamp)));
                write!(formatter, "{name}: {length} timestamps, {domain} values, {users} users")
            }
            Self::Numbers(stream) => {
                let (name, length, grid) = (stream.name(), stream.values().len(), stream.grid());
                let (low, high, step) = (grid.low(), grid.high(), grid.step());
                write!(formatter, "{name}: {length} timestamps, a number within {low}..{high} in steps of {step}")
            }
            Self::Symbols(stream) => {
                let (name, domain, users) = (stream.name(), stream.domain(), stream.sequences().len());
                let lengths = span(&mut stream.sequences().iter().map(|sequence| sequence.len() as u64));
                let users = if users == 1 { "1 user".to_owned() } else { format!("{users} users") };
                write!(formatter, "{name}: {users} with {lengths} timestamps, {domain} symbols")
            }
        }
    }
}

/// Data that are not a stream, or a stream that cannot be cut or scaled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DataStreamError {
    /// Fewer than two values.
    #[error("a domain needs at least two values, but {given} were given")]
    Domain { given: usize },
    /// No values at all.
    #[error("a domain needs at least one value")]
    NoValues,
    /// Two values of the same name.
    #[error("the value {label:?} occurs twice in the domain")]
    SameLabel { label: String },
    /// No timestamps at all.
    #[error("the stream has no timestamps")]
    Empty,
    /// Not a count for each value.
    #[error("timestamp {timestamp} has {given} counts, but the domain has {expected} values")]
    Width { timestamp: usize, given: usize, expected: usize },
    /// Nobody, or more users than can be counted.
    #[error("timestamp {timestamp} must have between 1 and {MAX_POPULATION} users")]
    Population { timestamp: usize },
    /// More timestamps were asked for than there are.
    #[error("{given} timestamps were asked for, but {name} has {available}, and at least 1 is needed")]
    Length { name: String, given: usize, available: usize },
    /// A number that is NaN, infinite or outside the domain.
    #[error("timestamp {timestamp} does not have a number within {low}..{high}")]
    OutsideDomain { timestamp: usize, low: f64, high: f64 },
    /// A symbol that the domain does not have.
    #[error("user {user} has, at timestamp {timestamp}, none of the {domain} symbols")]
    Symbol { user: usize, timestamp: usize, domain: u32 },
    /// A user without a single symbol.
    #[error("user {user} has no symbols")]
    NoSymbols { user: usize },
    /// More users were asked for than there are.
    #[error("{given} users were asked for, but {name} has {available}, and at least 1 is needed")]
    Users { name: String, given: u64, available: usize },
    /// A population was asked of a stream that counts nobody.
    #[error("{name} is a stream of numbers, which has no users: a population cannot be chosen")]
    NoUsers { name: String },
}
