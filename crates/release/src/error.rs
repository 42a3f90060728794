//! [`Error`]: why a run fails.

use std::fmt::Display;

use tidegate::stream::StreamError;
use tidegate_table::TableError;

/// Why a run fails. The message says what is wrong, where, and what to do; it never contains somebody's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A spec that cannot be read or followed.
    #[error("{0}")]
    Spec(String),
    /// A state file or a key file that cannot be used.
    #[error("{0}")]
    State(String),
    /// A table that cannot be read, or a row that is refused.
    #[error(transparent)]
    Data(#[from] TableError),
    /// Arguments that do not go together, or not with the spec.
    #[error("{0}")]
    Argument(String),
    /// A stream that could not go on.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A failure of the system, as when a file cannot be written.
    #[error("{0}")]
    Run(String),
}

impl Error {
    /// A failure of the system.
    pub fn run(error: impl Display) -> Self {
        Self::Run(error.to_string())
    }

    /// Whether the caller can correct it.
    pub const fn is_of_input(&self) -> bool {
        !matches!(self, Self::Stream(_) | Self::Run(_))
    }
}
