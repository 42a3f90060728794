//! Data sets, of three kinds: a family of mechanisms takes streams of one kind.
//!
//! | kind | what it holds | for the families |
//! | --- | --- | --- |
//! | [`CountStream`] | how many users hold each value of a domain, at each timestamp | local, central |
//! | [`NumberStream`] | one number at each timestamp | event |
//! | [`SymbolStream`] | a sequence of symbols for each of some users | sequence |

mod counts;
mod numbers;
mod symbols;

use std::fmt;

pub use counts::as_float;
pub use counts::{CountStream, MAX_POPULATION};
pub use numbers::NumberStream;
pub use symbols::{Space, SymbolStream};
use tidegate_kernel::SeededRandom;

/// What a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// How many users hold each value: [`CountStream`].
    Counts,
    /// One number at each timestamp: [`NumberStream`].
    Numbers,
    /// Sequences of symbols: [`SymbolStream`].
    Symbols,
}

impl StreamKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 3] = [Self::Counts, Self::Numbers, Self::Symbols];

    /// The name that tables and JSON use.
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
pub enum Stream {
    /// How many users hold each value.
    Counts(CountStream),
    /// One number at each timestamp.
    Numbers(NumberStream),
    /// Sequences of symbols.
    Symbols(SymbolStream),
}

impl Stream {
    /// What it holds.
    pub const fn kind(&self) -> StreamKind {
        match self {
            Self::Counts(_) => StreamKind::Counts,
            Self::Numbers(_) => StreamKind::Numbers,
            Self::Symbols(_) => StreamKind::Symbols,
        }
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        match self {
            Self::Counts(stream) => stream.name(),
            Self::Numbers(stream) => stream.name(),
            Self::Symbols(stream) => stream.name(),
        }
    }

    /// What it stands in for and how it differs, where it is not the data that its name promises.
    pub fn stand_in(&self) -> Option<&str> {
        match self {
            Self::Counts(stream) => stream.stand_in(),
            Self::Numbers(stream) => stream.stand_in(),
            Self::Symbols(stream) => stream.stand_in(),
        }
    }

    /// The first timestamps only; an error where there are fewer, or none were asked for.
    pub fn shortened(self, length: usize) -> Result<Self, StreamError> {
        match self {
            Self::Counts(stream) => stream.shortened(length).map(Self::Counts),
            Self::Numbers(stream) => stream.shortened(length).map(Self::Numbers),
            Self::Symbols(stream) => stream.shortened(length).map(Self::Symbols),
        }
    }

    /// With so many users: counts keep their frequencies ([`CountStream::with_population`]), of sequences so many are
    /// chosen ([`SymbolStream::with_population`]). Numbers have no users, so it is an error there.
    pub fn with_population(self, population: u64, random: &mut SeededRandom) -> Result<Self, StreamError> {
        match self {
            Self::Counts(stream) => stream.with_population(population).map(Self::Counts),
            Self::Numbers(stream) => Err(StreamError::NoUsers { name: stream.name().to_owned() }),
            Self::Symbols(stream) => stream.with_population(population, random).map(Self::Symbols),
        }
    }
}

impl From<CountStream> for Stream {
    fn from(stream: CountStream) -> Self {
        Self::Counts(stream)
    }
}

impl From<NumberStream> for Stream {
    fn from(stream: NumberStream) -> Self {
        Self::Numbers(stream)
    }
}

impl From<SymbolStream> for Stream {
    fn from(stream: SymbolStream) -> Self {
        Self::Symbols(stream)
    }
}

/// Says in one line what there is, for people.
impl fmt::Display for Stream {
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

/// Why data are not a stream, or cannot be made one as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Fewer than two values.
    #[error("a domain needs at least two values, but {given} were given")]
    Domain {
        /// How many were given.
        given: usize,
    },
    /// Two values of the same name.
    #[error("the value {label:?} occurs twice in the domain")]
    SameLabel {
        /// The name.
        label: String,
    },
    /// No timestamps at all.
    #[error("the stream has no timestamps")]
    Empty,
    /// Not a count for each value.
    #[error("timestamp {timestamp} has {given} counts, but the domain has {expected} values")]
    Width {
        /// The timestamp.
        timestamp: usize,
        /// How many counts it has.
        given: usize,
        /// The size of the domain.
        expected: usize,
    },
    /// Nobody, or more users than can be counted.
    #[error("timestamp {timestamp} must have between 1 and {MAX_POPULATION} users")]
    Population {
        /// The timestamp.
        timestamp: usize,
    },
    /// More timestamps were asked for than there are.
    #[error("{given} timestamps were asked for, but {name} has {available}, and at least 1 is needed")]
    Length {
        /// The stream.
        name: String,
        /// How many were asked for.
        given: usize,
        /// How many there are.
        available: usize,
    },
    /// A number that is NaN, infinite or outside the domain.
    #[error("timestamp {timestamp} does not have a number within {low}..{high}")]
    OutsideDomain {
        /// The timestamp.
        timestamp: usize,
        /// The lower end of the domain.
        low: f64,
        /// The upper end of the domain.
        high: f64,
    },
    /// A symbol that the domain does not have.
    #[error("user {user} has, at timestamp {timestamp}, none of the {domain} symbols")]
    Symbol {
        /// Which sequence, from zero.
        user: usize,
        /// Where in it, from zero.
        timestamp: usize,
        /// The size of the domain.
        domain: u32,
    },
    /// A user without a single symbol.
    #[error("user {user} has no symbols")]
    NoSymbols {
        /// Which sequence, from zero.
        user: usize,
    },
    /// More users were asked for than there are.
    #[error("{given} users were asked for, but {name} has {available}, and at least 1 is needed")]
    Users {
        /// The stream.
        name: String,
        /// How many were asked for.
        given: u64,
        /// How many there are.
        available: usize,
    },
    /// A population was asked of a stream that counts nobody.
    #[error("{name} is a stream of numbers, which has no users: a population cannot be chosen")]
    NoUsers {
        /// The stream.
        name: String,
    },
}
