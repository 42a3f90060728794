//! [`Log`]: a replicated log with partitions, as the data plane of a cluster.
//!
//! A log stores records of bytes. It knows nothing of streams, devices or privacy. What it must promise is little: a
//! record that it acknowledged is not lost, and a partition has one order. It need not be exactly-once: counts follow
//! from the identities of reports, and a record that is there twice changes nothing.
//!
//! | module | contents |
//! | --- | --- |
//! | `kafka` | log on brokers that speak the Kafka protocol (feature `kafka`) |
//! | [`memory`] | log in memory, for tests and simulations |
//! | `nats` | log on NATS JetStream (feature `nats`) |
//! | `testing` | real brokers for tests (feature `brokers`) |

#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "brokers")]
pub mod testing;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// Longest record, in bytes: what fits with its headers into the longest message, 1 MiB, that brokers take by default.
pub const MAX_RECORD: usize = (1 << 20) - (1 << 10);

/// Identity of a record. Its sender draws it at random, once for all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub [u8; 16]);

/// Record to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Partition.
    pub partition: u32,
    /// Identity. Appended again soon under the same identity, a record may be stored once or twice.
    pub id: RecordId,
    /// Content, of at most [`MAX_RECORD`] bytes.
    pub body: Bytes,
}

/// Stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position in its partition. Positions grow by one. The first one is 0 or 1; reading from 0 begins with it.
    pub position: u64,
    /// Content.
    pub body: Bytes,
}

/// Error of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LogError {
    /// The record may or may not have been appended.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// Nothing was appended; another attempt may succeed.
    #[error("the log is not available: {0}")]
    Unavailable(String),
    /// An operator must act first: no space, no permission, a broker of another version.
    #[error("the log failed: {0}")]
    Failed(String),
    /// Records that should be there are gone.
    #[error("partition {partition} has lost positions {from} to {to}")]
    Lost { partition: u32, from: u64, to: u64 },
}

/// Partitioned, append-only log.
///
/// Calls block, and every wait has an end. Implementations are shared by threads.
pub trait Log: Send + Sync + fmt::Debug {
    /// Appends records, side by side. Returns the position of each, in order.
    ///
    /// A position is returned once the record is durable on a majority of the replicas. The append is linearisable: a
    /// record that is appended after another one was acknowledged has a higher position.
    ///
    /// # Errors
    /// Per record. After [`LogError::Unknown`] it may be there, or appear later. After [`LogError::Failed`] a part of
    /// the replicas may have it, where the disk of another one is full.
    fn append(&self, records: &[NewRecord]) -> Vec<Result<u64, LogError>>;

    /// Reads records from a position on, in order and without gaps: at most about `bytes`, but one at least if there is
    /// one. Waits for the first one no longer than `wait`. An empty answer proves nothing about the end.
    ///
    /// # Errors
    /// [`LogError::Lost`] where records after `from` are gone, for example because they were trimmed.
    fn read(&self, partition: u32, from: u64, bytes: usize, wait: Duration) -> Result<Vec<Record>, LogError>;

    /// Returns the positions from the first record that is kept to the one after the last. A replica may answer that
    /// lags behind; to learn a bound on what was acknowledged, append a record.
    ///
    /// # Errors
    /// General errors.
    fn bounds(&self, partition: u32) -> Result<std::ops::Range<u64>, LogError>;

    /// Deletes the records before a position.
    ///
    /// # Errors
    /// General errors. Some records may be gone already.
    fn trim(&self, partition: u32, before: u64) -> Result<(), LogError>;

    /// Creates the partitions from 0 to `count` that are missing, and checks those that are there.
    ///
    /// # Errors
    /// [`LogError::Failed`] for brokers whose version, replicas or syncing are not good enough.
    fn prepare(&self, count: u32) -> Result<(), LogError>;
}
