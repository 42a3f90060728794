//! [`StoreError`] and [`BatchRejection`].

/// Reason why no report of a batch was accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum BatchRejection {
    #[error("there is no stream of that name")]
    NoStream,
    /// The question is closed, or was not asked yet.
    #[error("phase {phase} of timestamp {timestamp} is not open")]
    NotOpen { timestamp: u64, phase: u16 },
    /// A report that the question's oracle rejects.
    #[error("{0}")]
    Malformed(String),
}

/// Error of a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum StoreError {
    /// A stream of that name exists, perhaps a retired one.
    #[error("there is a stream {0} already")]
    Exists(String),
    #[error("there is no stream {0}")]
    NoStream(String),
    /// The fencing token or the version is outdated.
    #[error("stream {0} was taken over by another driver")]
    Stale(String),
    #[error("the declaration of stream {0} has changed since it was read")]
    Changed(String),
    #[error("stream {0} is retired, and stays so")]
    Retired(String),
    #[error("stream {stream} has {most} registered users, and can have no more")]
    Full { stream: String, most: u64 },
    /// A source's range does not start where its last one ended.
    #[error(
        "source {source_name} has been counted up to {counted}, so a range that begins at {start} leaves a gap or \
         overlaps"
    )]
    Range { source_name: String, counted: u64, start: u64 },
    #[error("{0}")]
    Rejected(#[from] BatchRejection),
    /// The transaction may or may not have been committed.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// Not committed; another attempt may succeed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Not committed; an operator must act first: no space, no permission, a disk error.
    #[error("the store failed: {0}")]
    Failed(String),
    /// A checksum or an invariant does not hold.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A schema of another version or program.
    #[error("the store has schema {found}, which this program does not know: it knows {known}")]
    Schema { found: String, known: u32 },
}
