//! [`Store`]: the few transactions on which everything rests.
//!
//! | transaction | what it does, all or nothing |
//! | --- | --- |
//! | [`create`](Store::create) | a new stream, with its policy and first state |
//! | [`lease`](Store::lease) | who drives a stream's clock, under a growing epoch |
//! | [`accept`](Store::accept) | takes in reports: each identity once, and the counts move with the identities |
//! | [`merge`](Store::merge) | takes in counts that were made elsewhere, each range of a source once |
//! | [`close`](Store::close) | nothing more is taken for the open questions, and what came is read |
//! | [`advance`](Store::advance) | the next state of a mechanism, its questions and its releases; the reports of the last are forgotten |
//! | [`publish`](Store::publish) | what was released up to a version may be read |
//! | [`begin_anew`](Store::begin_anew) | another state, after a restored backup |
//!
//! A stream has a version, which `advance` moves up by one, and an epoch, which a new holder of its lease moves up.
//! `close`, `advance` and `publish` change nothing unless both are as the caller believes: a driver that was asleep
//! while another took over finds itself [`Stale`](StoreError::Stale).
//!
//! **What must hold of an implementation.** A call that returned without an error is safe, whatever crashes. One that
//! returned [`Unknown`](StoreError::Unknown) may or may not have happened: whoever called reads back, and never draws
//! noise again for what happened. Any other error means that nothing happened. Nothing is repaired, guessed or reset:
//! what is damaged is [`Damaged`](StoreError::Damaged).

pub mod backup;
pub mod mark;
pub mod postgres;
mod row;
mod schema;
mod seen;
pub mod sqlite;

use std::borrow::Cow;
use std::fmt;
use std::hash::Hasher;
use std::ops::Range;

pub use self::mark::{Mark, MarkError, Marks};
pub use self::postgres::PostgresStore;
pub use self::sqlite::{SqliteOptions, SqliteStore};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use tidegate_device::api::Receipt;
use tidegate_device::wire::Batch;
use tidegate_kernel::Question;
use tidegate_kernel::oracle::Aggregate;

/// What an operator wants of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its ticks are opened.
    Running,
    /// The tick that is open is finished; no other is opened.
    Paused,
    /// For ever: what is held back is released, and that is all.
    Retired,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Running, Self::Paused, Self::Retired];

    /// The name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Retired => "retired",
        }
    }
}

/// A stream at its beginning.
#[derive(Clone, Copy, Debug)]
pub struct NewStream<'a> {
    /// Its name.
    pub name: &'a str,
    /// What was declared, as JSON.
    pub declaration: &'a str,
    /// The signed policy, as JSON; empty where no devices are asked.
    pub policy: &'a str,
    /// The state of its mechanism.
    pub state: &'a [u8],
}

/// A stream as it is now: one consistent reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// What was declared, as JSON.
    pub declaration: String,
    /// The signed policy, as JSON; empty where no devices are asked.
    pub policy: String,
    /// What its operator wants.
    pub status: Status,
    /// The epoch of its lease.
    pub epoch: u64,
    /// How often it was advanced.
    pub version: u64,
    /// Up to which version what it released may be read.
    pub published: u64,
    /// The state of its mechanism, as of the version.
    pub state: Vec<u8>,
    /// The questions that it waits for, as of the version.
    pub open: Vec<OpenPhase>,
}

/// A question that devices are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPhase {
    /// The question. No two open questions of a stream have the same phase.
    pub question: Question,
    /// When it closes, in milliseconds since 1970. The store takes reports until it [is closed](Store::close), whatever
    /// the time.
    pub closes: u64,
}

/// The right to drive a stream's clock, for as long as nobody else has been given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The stream.
    pub stream: String,
    /// Which lease of the stream this is.
    pub epoch: u64,
}

/// A phase of a timestamp of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhaseKey {
    /// The stream.
    pub stream: String,
    /// The timestamp.
    pub timestamp: u64,
    /// The phase.
    pub phase: u16,
}

/// Reports that came in together.
#[derive(Clone, Debug)]
pub struct Intake<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The reports.
    pub batch: Batch<'a>,
    /// The positions of those that are not to be taken, ascending.
    pub implausible: &'a [usize],
    digests: Cow<'a, [u64]>,
}

impl<'a> Intake<'a> {
    /// The reports of a batch, but for those at some positions, which ascend.
    pub fn new(stream: &'a str, batch: Batch<'a>, implausible: &'a [usize]) -> Self {
        Self { stream, batch, implausible, digests: digests(&batch).into() }
    }

    /// The same, where the [digests] of that batch are there already.
    ///
    /// # Errors
    /// [`NotTaken::Malformed`] where they are not one for each report.
    pub fn with_digests(
        stream: &'a str,
        batch: Batch<'a>,
        implausible: &'a [usize],
        digests: &'a [u64],
    ) -> Result<Self, NotTaken> {
        if digests.len() != batch.len() {
            let problem = format!("{} digests for {} reports", digests.len(), batch.len());
            return Err(NotTaken::Malformed(problem));
        }
        Ok(Self { stream, batch, implausible, digests: digests.into() })
    }

    /// The digest of each report.
    pub fn digests(&self) -> &[u64] {
        &self.digests
    }
}

/// The [digest] of each report of a batch.
pub fn digests(batch: &Batch<'_>) -> Vec<u64> {
    batch.iter().map(|(_, report)| digest(report)).collect()
}

/// Why none of a batch's reports was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// There is no such stream.
    #[error("there is no stream of that name")]
    NoStream,
    /// The phase is not open: it is closed, or was not asked yet.
    #[error("phase {phase} of timestamp {timestamp} is not open")]
    NotOpen {
        /// The timestamp.
        timestamp: u64,
        /// The phase.
        phase: u16,
    },
    /// A report that the question's oracle does not know.
    #[error("{0}")]
    Malformed(String),
}

/// How a partial count went in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It is counted now.
    Now,
    /// It had been counted before.
    Before,
}

/// The next state of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Advance<'a> {
    /// The version that it comes after.
    pub version: u64,
    /// The state of the mechanism.
    pub state: &'a [u8],
    /// The questions that are asked from now on; all others are over.
    pub open: &'a [OpenPhase],
    /// What is released.
    pub releases: &'a [NewRecord],
    /// What queries and monitors say about it.
    pub said: &'a [NewRecord],
}

/// Something released, or said about it, before it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The timestamp.
    pub timestamp: u64,
    /// What, as JSON, which is read back byte for byte.
    pub body: String,
}

/// Something released, or said about it, that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, from 1: how many of its kind the stream had, with this one.
    pub number: u64,
    /// The version that released it.
    pub version: u64,
    /// The timestamp.
    pub timestamp: u64,
    /// What, as JSON.
    pub body: String,
}

/// Which records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// Releases.
    Releases,
    /// What queries and monitors said.
    Said,
}

/// Which of a stream's records are wanted, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Those after this number.
    pub after: u64,
    /// Those of this timestamp and later ones.
    pub from: u64,
    /// Those of this timestamp and earlier ones.
    pub to: u64,
    /// At most so many.
    pub limit: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { after: 0, from: 0, to: u64::MAX, limit: 1_000 }
    }
}

/// Why a store did not do as it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is a stream of that name already, perhaps a retired one.
    #[error("there is a stream {0} already")]
    Exists(String),
    /// There is no such stream.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// Another has taken the stream over, or has advanced it.
    #[error("stream {0} was taken over by another driver")]
    Stale(String),
    /// A retired stream stays retired.
    #[error("stream {0} is retired, and stays so")]
    Retired(String),
    /// A source's range that does not begin where the last one ended.
    #[error(
        "source {source_name} has been counted up to {counted}, so a range that begins at {start} leaves a gap or cuts one in two"
    )]
    Range {
        /// The source.
        source_name: String,
        /// Up to where it was counted.
        counted: u64,
        /// Where the range begins.
        start: u64,
    },
    /// Counts for a phase that is not open, or of another oracle than its question's.
    #[error("{0}")]
    NotTaken(#[from] NotTaken),
    /// It may or may not have happened.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// It did not happen, and the next attempt may: the store is busy or cannot be reached.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// It did not happen, and something must be done first: no space, no permission, an error of the disk.
    #[error("the store failed: {0}")]
    Failed(String),
    /// What was read back is not what was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Another version's store.
    #[error("the store has schema {found}, which this program does not know: it knows {known}")]
    Schema {
        /// What was found.
        found: String,
        /// What is known.
        known: u32,
    },
}

/// Where streams, reports and releases are kept. See [the module](self) for what must hold.
pub trait Store: Send + Sync + fmt::Debug {
    /// Creates a stream, running, at version 0.
    ///
    /// # Errors
    /// [`StoreError::Exists`], also where the stream of that name is retired.
    fn create(&self, stream: &NewStream<'_>) -> Result<(), StoreError>;

    /// Replaces what was declared of a stream, where that changes no promise: whoever calls has seen to it.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn redeclare(&self, stream: &str, declaration: &str) -> Result<(), StoreError>;

    /// The names of all streams, in order, retired ones too.
    ///
    /// # Errors
    /// What the store says.
    fn names(&self) -> Result<Vec<String>, StoreError>;

    /// A stream.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and [`StoreError::Damaged`] where what is there is not what was written.
    fn stream(&self, stream: &str) -> Result<Stream, StoreError>;

    /// What an operator wants of a stream, and its version: a small reading, for every turn of a driver.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError>;

    /// Sets what an operator wants.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], [`StoreError::Retired`].
    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError>;

    /// Gives the lease of a stream to a holder until a moment, if nobody else's runs at `now` (both in milliseconds
    /// since 1970, by the caller's clock or the store's own). The holder that has it already gets it again, with the
    /// same epoch; any other gets the next epoch. `None` where somebody else has it. What holds never rests on these
    /// clocks, but on the epoch.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn lease(&self, stream: &str, holder: &str, now: u64, until: u64) -> Result<Option<Lease>, StoreError>;

    /// Gives a lease back, so that another need not wait for its end. A lease that is no longer held is left alone.
    ///
    /// # Errors
    /// What the store says.
    fn give_back(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Takes in reports that have come to `source`, of any number of batches in one transaction. A report is counted if
    /// nobody has reported under its identity in its phase, which must be open; its identity and its count are safe
    /// together. What became of each batch, in order.
    ///
    /// # Errors
    /// What the store says; then no report of any batch was taken, unless it is [`StoreError::Unknown`].
    fn accept(&self, source: &str, intakes: &[Intake<'_>]) -> Result<Vec<Result<Receipt, NotTaken>>, StoreError>;

    /// Takes in counts of reports `range` of a source, which were made elsewhere. Ranges of a source follow each other
    /// without gaps from 0 on, for each phase anew; one that was counted before is not counted again.
    ///
    /// # Errors
    /// [`StoreError::NotTaken`], [`StoreError::Range`].
    fn merge(
        &self,
        phase: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<Merged, StoreError>;

    /// From now on nothing is taken for the open questions of a stream; and what came for each of them, in their order,
    /// `None` where nothing did. Closing again gives the same.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    fn close(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError>;

    /// The next state of a stream, with its questions, releases and what is said about them. Reports and counts of
    /// questions that are over are forgotten.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    fn advance(&self, lease: &Lease, advance: &Advance<'_>) -> Result<(), StoreError>;

    /// Lets everything be read that was released up to a version, which the stream has reached.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    fn publish(&self, lease: &Lease, version: u64) -> Result<(), StoreError>;

    /// Puts another state in the place of a stream's, of a later version, which its operator has decided on: the store
    /// was restored and is older than what was published. Its open questions and what came for them are forgotten, and
    /// whoever drove it has to take it over anew.
    ///
    /// # Errors
    /// [`StoreError::NoStream`], and [`StoreError::Stale`] where the stream has that version already.
    fn begin_anew(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError>;

    /// Records of a stream that were published.
    ///
    /// # Errors
    /// [`StoreError::NoStream`].
    fn records(&self, stream: &str, records: Records, wanted: &Wanted) -> Result<Vec<Record>, StoreError>;

    /// That the store can be written to: for those who ask whether the service is ready.
    ///
    /// # Errors
    /// Why not.
    fn check(&self) -> Result<(), StoreError>;
}

/// What tells one report from another under the same identity. It is no secret and not proof against forgery: two
/// reports that it does not tell apart are taken for a repetition, and the second is not counted.
pub fn digest(report: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(b"tidegate: report");
    hasher.write(report);
    hasher.finish()
}
