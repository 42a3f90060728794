//! [`DriverEvent`] and [`DriveError`]: what a driver reports to its caller.

use std::io;

use tidegate::kernel::primitives::HistogramError;
use tidegate::kernel::{Epsilon, NoEntropy};
use tidegate::release::Freshness;
use tidegate::stream::StreamError;

use super::Suspicion;
use crate::store::{Missing, StoreError};
use crate::stream::DeclarationError;

/// Something that happened in a [run](super::Driver::run_due). Nothing in it is secret.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DriverEvent {
    /// Questions to devices were opened.
    Asked { timestamp: u64, questions: usize },
    /// A question was closed, and its reports were counted.
    Counted { timestamp: u64, phase: u16, reports: u64 },
    /// Acknowledged reports of a stream's questions were not counted in time.
    Missed { timestamp: u64, missing: Missing },
    /// The counts of a question are statistically implausible.
    Suspicious { timestamp: u64, phase: u16, suspicion: Suspicion },
    /// Releases were committed, but not yet published.
    Released {
        timestamp: u64,
        /// End of the timestamp, in seconds since 1970.
        through: u64,
        releases: usize,
        /// Largest budget that one user spent.
        spent: Option<Epsilon>,
        /// Share of the budget that is left for the next timestamp.
        left: Option<f64>,
        /// Where the numbers of the last one come from.
        freshness: Freshness,
        /// Whether its reports are statistically implausible.
        suspicious: bool,
        /// Whether a monitor reported the beginning or the end of an event.
        said: bool,
    },
    /// Releases became readable.
    Published {
        version: u64,
        /// Delay in milliseconds. `None` for a curated stream: there it may depend on the number of events.
        lag: Option<u64>,
    },
    /// The wall clock jumped ahead; no timestamp is opened before `not_before`.
    Jumped { not_before: u64 },
    /// Timestamps were left out.
    Skipped { count: u64 },
}

/// Error of a driver. The driver must be dropped and opened again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DriveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("stream {0} is driven by another process")]
    Held(String),
    /// The store is older than the high-water mark.
    #[error(
        "the store has version {found} of stream {stream}, but version {marked} may have been published: the store \
         was restored from a backup, so its ledger misses what was spent since"
    )]
    Older { stream: String, found: u64, marked: u64 },
    #[error("the high-water mark could not be raised: {0}")]
    Mark(#[source] io::Error),
    #[error(
        "the state of stream {stream} cannot be read: {problem}. Run the program that wrote it, or begin the stream \
         anew: see \"Upgrading\" in docs/operations.md"
    )]
    State { stream: String, problem: String },
    #[error("the state of stream {0} holds readings, and there is no key for them")]
    NoKey(String),
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error(transparent)]
    Stream(Box<StreamError>),
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    #[error("the driver panicked, which is a bug of this program")]
    Panic,
}

impl DriveError {
    /// The error of saving or loading the state of a stream.
    pub(crate) fn of_state(error: StreamError, stream: &str) -> Self {
        match error {
            StreamError::NoKey => Self::NoKey(stream.to_owned()),
            StreamError::State(problem) => Self::State { stream: stream.to_owned(), problem },
            other => other.into(),
        }
    }
}

impl From<StreamError> for DriveError {
    fn from(error: StreamError) -> Self {
        Self::Stream(Box::new(error))
    }
}
