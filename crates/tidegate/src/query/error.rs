//! [`QueryError`]: rejected queries, releases and rules.

use crate::post_processing::Unsound;

use super::domain::Domain;
use super::monitor::Direction;

/// Error of a query, or of a rejected release or rule.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    #[error("value {value} is not in the domain, whose values are 0 to {}", .domain - 1)]
    UnknownValue { value: u32, domain: u32 },
    #[error("the range from {first} to {last} is reversed; its first value is at most its last")]
    ReversedRange { first: u32, last: u32 },
    #[error("a period of zero timestamps has no sum; delta is at least 1")]
    ZeroDelta,
    #[error("a shift of zero compares a period with itself; the shift is at least 1")]
    ZeroShift,
    #[error("{asked} timestamps until timestamp {until} were asked for, but only {kept} of them are kept")]
    BeyondKept { asked: u64, kept: u64, until: u64 },
    #[error("nothing was released yet")]
    NothingReleased,
    #[error("there is no release of timestamp {timestamp}; those kept lie between {first} and {last}")]
    UnknownTimestamp { timestamp: u64, first: u64, last: u64 },
    #[error("the {asked} timestamps until timestamp {until} have a gap: not all of them were released")]
    Gap { asked: u64, until: u64 },
    #[error(
        "the number of users at timestamp {timestamp} is not known; ask for frequencies, or record it with the release"
    )]
    UnknownPopulation { timestamp: u64 },
    #[error("the top {k} of {domain} values were asked for; ask for 1 to {domain}")]
    BadTop { k: usize, domain: u32 },
    #[error("a confidence of {given} was given; it lies above 0 and below 1")]
    BadConfidence { given: f64 },
    #[error("a threshold of {given} was given; it is a finite number")]
    BadThreshold { given: f64 },
    #[error(
        "an event that starts {direction} {start} cannot end already at {end}; the end lies {} or at the start",
        .direction.opposite()
    )]
    CrossedThresholds { direction: Direction, start: f64, end: f64 },
    #[error("the release of timestamp {timestamp} does not come after timestamp {latest}, the latest so far")]
    OutOfOrder { timestamp: u64, latest: u64 },
    #[error("a {given} was given, but the stream is one of releases of a {expected}")]
    OtherDomain { given: Domain, expected: Domain },
    #[error("the release of timestamp {timestamp} is refused: {reason}")]
    BadRelease { timestamp: u64, reason: Unsound },
    #[error("the release of timestamp {timestamp} is a symbol; queries are about frequencies of values, or means")]
    NotFrequencies { timestamp: u64 },
    #[error("releases are of a {domain}: the unit mean is for means of numbers, and frequencies and counts for values")]
    OtherUnit { domain: Domain },
    #[error("a domain of {given} values is too large; it has at most {}", u32::MAX)]
    DomainTooLarge { given: usize },
    #[error("a history of capacity zero keeps nothing; the capacity is at least 1")]
    ZeroCapacity,
    #[error("the saved state has version {found}; this version of the library reads version {known}")]
    UnknownVersion { found: u16, known: u16 },
    #[error("the saved state holds {found} timestamps; it can hold at most {allowed}")]
    Overfull { found: usize, allowed: u64 },
}
