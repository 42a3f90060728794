//! [`Fault`]: errors inside a transaction, and their meaning for the store.

use rusqlite::ErrorCode;

use super::super::StoreError;

/// Error inside a transaction.
#[derive(Debug)]
pub(in crate::store) enum Fault {
    Store(StoreError),
    Sql(rusqlite::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Translates the error. Also returns whether the store must stop writing.
    pub(in crate::store) fn explain(self, transaction: &str, committing: bool) -> (StoreError, bool) {
        let error = match self {
            Self::Store(error) => {
                let ends = matches!(error, StoreError::Damaged(_));
                return (error, ends);
            }
            Self::Sql(error) => error,
        };
        let why = format!("{transaction}: {error}");
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (StoreError::Unavailable(why), false),
            // A transaction without its last page is not committed.
            Some(ErrorCode::DiskFull) => (StoreError::Failed(why), false),
            // The last page may be on the disk although its sync failed; the next open then finds the transaction.
            Some(ErrorCode::SystemIoFailure) if committing => (StoreError::Unknown(why), true),
            Some(ErrorCode::SystemIoFailure) => (StoreError::Failed(why), true),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (StoreError::Damaged(why), true),
            Some(_) => (StoreError::Failed(why), false),
            // A column that is missing, or has another type.
            None => (StoreError::Damaged(why), true),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rusqlite::ffi;

    use super::{Fault, StoreError};

    fn explain(code: i32, committing: bool) -> (StoreError, bool) {
        Fault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).explain("test", committing)
    }

    #[test]
    fn translates_error_codes_of_sqlite() {
        for committing in [false, true] {
            for code in
                [ffi::SQLITE_FULL, ffi::SQLITE_READONLY, ffi::SQLITE_CANTOPEN, ffi::SQLITE_PERM, ffi::SQLITE_NOMEM]
            {
                assert!(matches!(explain(code, committing), (StoreError::Failed(_), false)), "{code}");
            }
            for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_BUSY_SNAPSHOT] {
                assert!(matches!(explain(code, committing), (StoreError::Unavailable(_), false)), "{code}");
            }
            for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
                assert!(matches!(explain(code, committing), (StoreError::Damaged(_), true)), "{code}");
            }
        }
    }

    #[test]
    fn a_disk_error_is_unknown_only_during_commit() {
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE] {
            assert!(matches!(explain(code, false), (StoreError::Failed(_), true)));
            assert!(matches!(explain(code, true), (StoreError::Unknown(_), true)));
        }
    }

    #[test]
    fn a_column_of_another_type_is_damage() {
        let fault = Fault::Sql(rusqlite::Error::QueryReturnedNoRows);
        assert!(matches!(fault.explain("test", false), (StoreError::Damaged(_), true)));
    }
}
