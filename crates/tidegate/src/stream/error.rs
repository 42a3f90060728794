//! [`StreamError`]: why a stream could not go on.

use tidegate_device::AnswerError;
use tidegate_kernel::oracle::MalformedReport;
use tidegate_kernel::primitives::{BatchError, HistogramError, SymbolError};
use tidegate_kernel::{NoEntropy, QuestionError};

use crate::central::CentralError;
use crate::central::classes::ClassError;
use crate::local::LocalError;
use crate::query::QueryError;
use crate::scalar::ScalarError;
use crate::sequence::baseline::BaselineError;
use crate::sequence::batched::BatchedError;
use crate::sequence::crr::CrrError;
use crate::spec::SpecError;

/// Why a stream could not take an entry, release, or be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum StreamError {
    /// A field of an entry is not acceptable. Nothing was taken in.
    #[error("{field}: expected {expected}")]
    Entry { field: &'static str, expected: String },
    /// The stream does not take entries of this kind, or is not asked questions.
    #[error("a {family} stream does not take {given}")]
    Kind { family: &'static str, given: &'static str },
    /// A saved state cannot be loaded.
    #[error("the state does not fit: {0}")]
    State(String),
    /// The state holds readings, which are saved and loaded under a key only.
    #[error("the state of a scalar stream holds readings: a key is needed")]
    NoKey,
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Central(#[from] CentralError),
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    #[error(transparent)]
    Crr(#[from] CrrError),
    #[error(transparent)]
    Batched(#[from] BatchedError),
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    #[error(transparent)]
    Classes(#[from] ClassError),
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    #[error(transparent)]
    Symbol(#[from] SymbolError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Device(#[from] AnswerError),
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error(transparent)]
    Report(#[from] MalformedReport),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
}

impl StreamError {
    pub(crate) fn entry(field: &'static str, expected: impl Into<String>) -> Self {
        Self::Entry { field, expected: expected.into() }
    }

    pub(super) fn not_enrolled() -> Self {
        Self::entry("user", "a user of the table of users")
    }

    pub(super) fn second_value() -> Self {
        let once = "a user who has no other line at the same timestamp; duplicates = \"first\" or \"last\" says which \
                    of several counts";
        Self::entry("user", once)
    }
}

/// A state of another mechanism, or of one with other settings.
pub(super) fn other_settings() -> StreamError {
    StreamError::State("it is of other settings".to_owned())
}
