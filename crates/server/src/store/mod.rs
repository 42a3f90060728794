//! [`Store`]: the transactions on which the service rests.
//!
//! | transaction | effect, all or nothing |
//! | --- | --- |
//! | [`create`](Store::create) | adds a stream with its policy and first state |
//! | [`lease`](Store::lease) | gives the right to drive a stream, under a growing fencing token |
//! | [`accept`](Store::accept) | adds reports: each identity once, counts together with identities |
//! | [`merge`](Store::merge) | adds counts that were made elsewhere, each range of a source once |
//! | [`close`](Store::close) | closes the open questions and reads their counts |
//! | [`advance`](Store::advance) | stores the next state, questions and releases; deletes old reports |
//! | [`publish`](Store::publish) | makes releases readable up to a version |
//! | [`replace_state`](Store::replace_state) | replaces the state after a restored backup |
//! | [`change_members`](Store::change_members) | changes classes of users, from the next timestamp on |
//!
//! `advance` increments a stream's version, and each new holder of its lease increments the epoch, which is the fencing
//! token. `close`, `advance` and `publish` check both. A driver that slept while another took over gets
//! [`Stale`](StoreError::Stale).
//!
//! The driver's transactions and `create` are [`Write`]s. [`commit`](Store::commit) makes those of many streams durable
//! with one sync of the disk (group commit). Each stream's change is still all or nothing.
//!
//! **Contract of an implementation.** A call that returns without error is durable. After
//! [`Unknown`](StoreError::Unknown) the caller must read back, and must not draw noise again for a committed release.
//! Any other error means that nothing changed. A store never repairs or guesses: damage is
//! [`Damaged`](StoreError::Damaged).
//!
//! | module | contents |
//! | --- | --- |
//! | [`sqlite`], [`postgres`] | the two implementations |
//! | [`clustered`] | PostgreSQL, with reports in a replicated log |
//! | `group` | group commit of the changes of many streams |
//! | `acknowledgement` | acknowledgements of alarms |
//! | `members` | registry of users and their classes |
//! | `row` | rows, checksums and rules that both share |
//! | `schema` | their tables |
//! | `question` | open questions in memory |
//! | `identity_set` | set of report identities in memory |
//! | [`mark`] | high-water marks, kept outside the store |
//! | [`backup`] | backups of an SQLite store |

mod acknowledgement;
pub mod backup;
mod batch;
pub mod clustered;
mod error;
mod group;
mod identity_set;
pub mod mark;
mod members;
pub mod postgres;
mod question;
mod row;
mod schema;
pub mod sqlite;
mod types;

use std::fmt;
use std::ops::Range;

use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::Aggregate;

pub use acknowledgement::Acknowledgement;
pub use batch::{ReportBatch, digest};
pub use clustered::{ClusterState, ClusteredStore, PartitionState};
pub use error::{BatchRejection, StoreError};
pub use mark::{Mark, MarkError, Marks};
pub use members::{MAX_CHANGES, MAX_MEMBERS, Member, MemberChanges, MemberFilter, MemberPage};
pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{SqliteOptions, SqliteStore};
pub use types::{
    Advance, Counted, Lease, MergeOutcome, Missing, NewRecord, NewStream, OpenQuestion, PhaseKey, Record, RecordFilter,
    RecordKind, Status, StreamRecord, Write, Written,
};

/// Most records of a kind that one version adds.
pub const NUMBERS_PER_VERSION: u64 = 1 << 20;

/// Storage of streams, reports and releases. See [the module](self) for its contract.
pub trait Store: Send + Sync + fmt::Debug {
    /// Makes changes of any streams durable together, each all or nothing. Returns the outcome of each, in order.
    ///
    /// Changes are independent: one that is refused does not stop the others. No two are about the same stream.
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>>;

    /// Creates a running stream at version 0.
    ///
    /// # Errors
    /// [`StoreError::Exists`], also for a retired stream.
    fn create(&self, stream: &NewStream<'_>) -> Result<(), StoreError> {
        group::one(self, Write::Create(*stream)).map(|_| ())
    }

    /// Replaces the declaration of a stream, if it is still the `earlier` one. The caller has checked that no promise
    /// changes.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and [`StoreError::Changed`] where it is another by now.
    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError>;

    /// Returns the names of all streams, in order, including retired ones.
    ///
    /// # Errors
    /// Only general errors.
    fn names(&self) -> Result<Vec<String>, StoreError>;

    /// Reads a stream.
    ///
    /// # Errors
    /// [`StoreError::NoStream`] and [`StoreError::Damaged`].
    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError>;

    /// Reads the status and version of a stream: a cheap read for every run of a driver.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError>;

    /// Sets the status of a stream.
    ///
    /// # Errors
    /// [`StoreError::NoStream`] and [`StoreError::Retired`].
    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError>;

    /// Gives the lease of a stream to a holder, if no other holder's lease runs at `now`. Returns `None` otherwise.
    ///
    /// Times are in milliseconds since 1970, by the caller's or the store's clock. The present holder gets its lease
    /// again with the same epoch; another holder gets the next epoch. Safety rests on the epoch, never on clocks.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn lease(&self, stream: &str, holder: &str, now: u64, until: u64) -> Result<Option<Lease>, StoreError> {
        let (stream, holder) = (stream.to_owned(), holder.to_owned());
        group::one(self, Write::Lease { stream, holder, now, until }).and_then(Written::lease)
    }

    /// Ends a lease early. A lease that is no longer held is ignored.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn release_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        group::one(self, Write::ReleaseLease(lease.clone())).map(|_| ())
    }

    /// Adds reports that came to `source`, of any number of batches, in one transaction. Returns the outcome of each
    /// batch, in order.
    ///
    /// A report counts if its question is open and no report with its identity came before.
    ///
    /// # Errors
    /// After an error no report was accepted, except with [`StoreError::Unknown`].
    fn accept(&self, source: &str, batches: &[ReportBatch])
    -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError>;

    /// Adds counts of reports `range` of a source, which were made elsewhere. For each question, ranges of a source
    /// follow each other without gaps from 0. A range that was counted before is ignored.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] and [`StoreError::Range`].
    fn merge(
        &self,
        phase: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<MergeOutcome, StoreError>;

    /// Closes the open questions of a stream. Returns the counts of each, in order; `None` where no report came.
    /// Closing again returns the same.
    ///
    /// A store whose reports are counted elsewhere may answer [`Written::Counting`] to [`Write::Close`], unless it is
    /// the `last_call`. This method makes the last call.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    fn close(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError> {
        let write = Write::Close { lease: lease.clone(), version, last_call: true };
        let counted = group::one(self, write).and_then(Written::counts)?;
        Ok(counted.unwrap_or_default().into_iter().map(|counted| counted.total).collect())
    }

    /// Returns how long a driver waits for reports that are counted elsewhere, from the deadline of the questions to
    /// its last call, in milliseconds.
    fn patience(&self) -> u64 {
        0
    }

    /// Stores the next state of a stream with its questions, releases and answers. Deletes the reports and counts of
    /// questions that are not open any more, and the records that it [forgets](Advance::forget).
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    fn advance(&self, lease: &Lease, next: Advance) -> Result<(), StoreError> {
        group::one(self, Write::Advance { lease: lease.clone(), next }).map(|_| ())
    }

    /// Makes all records readable up to a version, which the stream has reached.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    fn publish(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        group::one(self, Write::Publish { lease: lease.clone(), version }).map(|_| ())
    }

    /// Replaces the state of a stream by one of a later version, on an operator's decision after a restored backup.
    /// Deletes its open questions, ends its lease, and leaves out [`NUMBERS_PER_VERSION`] numbers of records for each
    /// version in between: those were published with other records.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and [`StoreError::Stale`] where the stream has that version already.
    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError>;

    /// Changes classes of users, all or none. Changes apply to timestamps that have not begun at a version of the
    /// stream, so they are refused where the stream has another version by now. A change that is there already
    /// changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::Retired`] and [`StoreError::Full`].
    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError>;

    /// Reads users and their classes.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError>;

    /// Reads published records of a stream.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn records(&self, stream: &str, kind: RecordKind, filter: &RecordFilter) -> Result<Vec<Record>, StoreError>;

    /// Returns the number of the published record of a kind after which there are `later` ones; zero where there is
    /// none.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError>;

    /// Returns the last published events of monitors whose numbers lie between two others, the latest first.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Acknowledges a published answer. Returns the acknowledgement that is stored, which may be an earlier one; `None`
    /// where there is no such answer.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn acknowledge(&self, stream: &str, new: &Acknowledgement) -> Result<Option<Acknowledgement>, StoreError>;

    /// Returns the acknowledgements of the answers from a number on, by number.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError>;

    /// Returns itself, if it is the store of a cluster.
    fn clustered(&self) -> Option<&ClusteredStore> {
        None
    }

    /// Returns its size in bytes; zero for a store in memory.
    ///
    /// # Errors
    /// Only general errors.
    fn bytes(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Checks that the store can be written to, by a small write.
    ///
    /// # Errors
    /// The reason why not.
    fn check(&self) -> Result<(), StoreError>;
}
