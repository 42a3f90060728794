//! [`Fault`]: errors inside a transaction, and their meaning for the store.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{WasNull, WrongType};

use super::super::{BatchRejection, StoreError};

/// Error inside a transaction.
pub(in crate::store) enum Fault {
    Store(StoreError),
    Sql(tokio_postgres::Error),
    /// The database did not answer in time.
    Hangs,
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<BatchRejection> for Fault {
    fn from(rejection: BatchRejection) -> Self {
        Self::Store(rejection.into())
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Translates the error.
    pub(super) fn explain(self, transaction: &str, committing: bool) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sql(error) => explain(&error, transaction, committing),
            Self::Hangs if committing => StoreError::Unknown(format!("{transaction}: {HANGS}")),
            Self::Hangs => StoreError::Unavailable(format!("{transaction}: {HANGS}")),
        }
    }
}

const HANGS: &str = "the database does not answer";

/// Translates an error by the server's code, or by the lack of one.
fn explain(error: &tokio_postgres::Error, transaction: &str, committing: bool) -> StoreError {
    let why = match error.as_db_error() {
        Some(error) => format!("{transaction}: {} ({})", error.message(), error.code().code()),
        None => format!("{transaction}: {error}"),
    };
    let Some(state) = error.code() else {
        let source = std::error::Error::source(error);
        let is_odd = source.is_some_and(|source| source.is::<WasNull>() || source.is::<WrongType>());
        return match () {
            () if is_odd => StoreError::Damaged(why),
            () if committing => StoreError::Unknown(why),
            () if error.is_closed() || is_io(error) => StoreError::Unavailable(why),
            () => StoreError::Failed(why),
        };
    };
    let class = state.code().get(..2).unwrap_or_default();
    match class {
        "XX" if *state != SqlState::INTERNAL_ERROR => StoreError::Damaged(why),
        // The server or the connection is shutting down.
        "08" | "57" if committing => StoreError::Unknown(why),
        // Also deadlocks and serialisation failures.
        "08" | "57" | "40" => StoreError::Unavailable(why),
        _ if *state == SqlState::LOCK_NOT_AVAILABLE || *state == SqlState::TOO_MANY_CONNECTIONS => {
            StoreError::Unavailable(why)
        }
        _ => StoreError::Failed(why),
    }
}

/// Whether the network failed.
fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
}
