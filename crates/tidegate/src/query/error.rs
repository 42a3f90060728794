//! What a question or a release can be refused for.

use crate::post_processing::Unsound;

use super::domain::Domain;
use super::monitor::Direction;

/// Why a question was not answered, or a release or a rule not accepted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A value that the domain does not have.
    #[error("value {value} is not in the domain, whose values are 0 to {}", .domain - 1)]
    UnknownValue {
        /// The value that was given.
        value: u32,
        /// How many values the domain has.
        domain: u32,
    },
    /// A range whose end lies before its beginning.
    #[error("the range from {first} to {last} is reversed; its first value is at most its last")]
    ReversedRange {
        /// The first value that was given.
        first: u32,
        /// The last value that was given.
        last: u32,
    },
    /// A period without timestamps.
    #[error("a period of zero timestamps has no sum; delta is at least 1")]
    ZeroDelta,
    /// A change between a period and itself.
    #[error("a shift of zero compares a period with itself; the shift is at least 1")]
    ZeroShift,
    /// More of the past was asked for than is kept.
    #[error("{asked} timestamps until timestamp {until} were asked for, but only {kept} of them are kept")]
    BeyondKept {
        /// How many timestamps were asked for.
        asked: u64,
        /// How many of those are kept.
        kept: u64,
        /// The last timestamp that was asked for.
        until: u64,
    },
    /// Nothing was released yet.
    #[error("nothing was released yet")]
    NothingReleased,
    /// A timestamp that is not kept.
    #[error("there is no release of timestamp {timestamp}; those kept lie between {first} and {last}")]
    UnknownTimestamp {
        /// The timestamp that was given.
        timestamp: u64,
        /// The earliest timestamp that is kept.
        first: u64,
        /// The latest timestamp that is kept.
        last: u64,
    },
    /// Some timestamp of the period was never released.
    #[error("the {asked} timestamps until timestamp {until} have a gap: not all of them were released")]
    Gap {
        /// How many timestamps were asked for.
        asked: u64,
        /// The last timestamp that was asked for.
        until: u64,
    },
    /// Counts were asked for where the number of users is not known.
    #[error(
        "the number of users at timestamp {timestamp} is not known; ask for frequencies, or record it with the release"
    )]
    UnknownPopulation {
        /// The timestamp.
        timestamp: u64,
    },
    /// No values, or more than there are, were asked for.
    #[error("the top {k} of {domain} values were asked for; ask for 1 to {domain}")]
    BadTop {
        /// How many values were asked for.
        k: usize,
        /// How many values the domain has.
        domain: u32,
    },
    /// A confidence that is no probability.
    #[error("a confidence of {given} was given; it lies above 0 and below 1")]
    BadConfidence {
        /// What was given.
        given: f64,
    },
    /// A threshold that is no number.
    #[error("a threshold of {given} was given; it is a finite number")]
    BadThreshold {
        /// What was given.
        given: f64,
    },
    /// Thresholds between which a monitor would start and end events at once.
    #[error(
        "an event that starts {direction} {start} cannot end already at {end}; the end lies {} or at the start",
        .direction.opposite()
    )]
    CrossedThresholds {
        /// On which side of its threshold the score is during an event.
        direction: Direction,
        /// Where an event starts.
        start: f64,
        /// Where it ends.
        end: f64,
    },
    /// A release that is not later than all before.
    #[error("the release of timestamp {timestamp} does not come after timestamp {latest}, the latest so far")]
    OutOfOrder {
        /// The timestamp of the release.
        timestamp: u64,
        /// The latest timestamp so far.
        latest: u64,
    },
    /// A release of another stream.
    #[error("a {given} was given, but the stream is one of releases of a {expected}")]
    OtherDomain {
        /// What was given.
        given: Domain,
        /// What was released so far.
        expected: Domain,
    },
    /// A release that no mechanism publishes.
    #[error("the release of timestamp {timestamp} is refused: {reason}")]
    BadRelease {
        /// The timestamp of the release.
        timestamp: u64,
        /// What is wrong with it.
        reason: Unsound,
    },
    /// A release of a number or a symbol, of which no value's frequency can be asked.
    #[error("the release of timestamp {timestamp} is a number or a symbol; queries are about frequencies of values")]
    NotFrequencies {
        /// The timestamp of the release.
        timestamp: u64,
    },
    /// A domain whose values cannot be numbered.
    #[error("a domain of {given} values is too large; it has at most {}", u32::MAX)]
    DomainTooLarge {
        /// How many values there are.
        given: usize,
    },
    /// A history of nothing.
    #[error("a history of capacity zero keeps nothing; the capacity is at least 1")]
    ZeroCapacity,
    /// Something that was saved by another version.
    #[error("the saved state has version {found}; this version of the library reads version {known}")]
    UnknownVersion {
        /// The version found.
        found: u16,
        /// The version that can be read.
        known: u16,
    },
    /// Saved state that holds more than it can.
    #[error("the saved state holds {found} timestamps; it can hold at most {allowed}")]
    Overfull {
        /// How many timestamps it holds.
        found: usize,
        /// How many it can hold.
        allowed: u64,
    },
}
