//! Group commit of the changes of many streams.

use super::{Counted, Lease, Store, StoreError, Write, Written};

/// Outcome of each change of a group.
pub(super) type Outcomes = Vec<Result<Written, StoreError>>;

/// Commits one change.
pub(super) fn one<S: Store + ?Sized>(store: &S, write: Write<'_>) -> Result<Written, StoreError> {
    store.commit(&[write]).pop().unwrap_or_else(|| Err(unexpected()))
}

impl Written {
    /// Returns the lease of [`Write::Lease`].
    ///
    /// # Errors
    /// The answer to another change.
    pub fn lease(self) -> Result<Option<Lease>, StoreError> {
        if let Self::Lease(lease) = self { Ok(lease) } else { Err(unexpected()) }
    }

    /// Returns the counts of [`Write::Close`]; `None` while reports are still being counted.
    ///
    /// # Errors
    /// The answer to another change.
    pub fn counts(self) -> Result<Option<Vec<Counted>>, StoreError> {
        match self {
            Self::Counts(counts) => Ok(Some(counts)),
            Self::Counting => Ok(None),
            Self::Done | Self::Lease(_) => Err(unexpected()),
        }
    }
}

fn unexpected() -> StoreError {
    StoreError::Unknown("the store has not answered this change".to_owned())
}

/// Runs changes in one transaction. If that fails for a reason that may lie in one of them, each gets its own.
///
/// `transaction` returns the outcomes of the changes that were made or [refused](is_refusal), or why nothing was
/// committed.
pub(super) fn commit(
    writes: &[Write<'_>],
    transaction: &dyn Fn(&[Write<'_>]) -> Result<Outcomes, StoreError>,
) -> Outcomes {
    match transaction(writes) {
        Ok(outcomes) => outcomes,
        Err(StoreError::Unknown(why)) => writes.iter().map(|_| Err(StoreError::Unknown(why.clone()))).collect(),
        // Waiting again for each change could take very long.
        Err(StoreError::Unavailable(why)) => writes.iter().map(|_| Err(StoreError::Unavailable(why.clone()))).collect(),
        Err(error) if writes.len() == 1 => vec![Err(error)],
        Err(_) => writes.chunks(1).flat_map(|alone| commit(alone, transaction)).collect(),
    }
}

/// Separates a refusal, which comes before any change, from an error after which the transaction must be undone.
pub(super) fn settle<F>(
    outcome: Result<Written, F>,
    refusal: impl FnOnce(F) -> Result<StoreError, F>,
) -> Result<Result<Written, StoreError>, F> {
    match outcome {
        Ok(written) => Ok(Ok(written)),
        Err(fault) => refusal(fault).map(Err),
    }
}

/// Whether an error comes before any change.
pub(super) const fn is_refusal(error: &StoreError) -> bool {
    use StoreError::{Changed, Exists, NoStream, Range, Rejected, Retired, Stale};
    matches!(error, Changed(_) | Exists(_) | NoStream(_) | Stale(_) | Retired(_) | Range { .. } | Rejected(_))
}
