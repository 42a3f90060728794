//! Types of the store's transactions.

use serde::{Deserialize, Serialize};
use tidegate_kernel::Question;
use tidegate_kernel::oracle::Aggregate;

/// Status that an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Ticks are opened.
    Running,
    /// The open tick is finished; no other is opened.
    Paused,
    /// Ended for ever. Readings that wait are released.
    Retired,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Running, Self::Paused, Self::Retired];

    /// Returns the name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Retired => "retired",
        }
    }
}

/// A stream to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewStream<'a> {
    /// Name of the stream.
    pub name: &'a str,
    /// Declaration, as JSON.
    pub declaration: &'a str,
    /// Signed policy, as JSON; empty for a curated stream.
    pub policy: &'a str,
    /// First state of its driver.
    pub state: &'a [u8],
}

/// A stored stream, from one consistent read.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamRecord {
    /// Name of the stream.
    pub name: String,
    /// Declaration, as JSON.
    pub declaration: String,
    /// Signed policy, as JSON; empty for a curated stream.
    pub policy: String,
    /// Status that its operator has set.
    pub status: Status,
    /// Fencing token of its lease.
    pub epoch: u64,
    /// How often it was advanced.
    pub version: u64,
    /// Last published version.
    pub published: u64,
    /// State of its driver at this version.
    pub state: Vec<u8>,
    /// Open questions at this version.
    pub open: Vec<OpenQuestion>,
}

/// A question to devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Question. No two open questions of a stream share a phase.
    pub question: Question,
    /// Deadline, in milliseconds since 1970. The store accepts reports until [`close`](super::Store::close), whatever
    /// the time.
    pub closes: u64,
}

/// Exclusive right to drive a stream, until another holder gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Stream that it is for.
    pub stream: String,
    /// Fencing token: grows with each new holder.
    pub epoch: u64,
}

/// Key of a question: stream, timestamp and phase.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct PhaseKey {
    pub stream: String,
    pub timestamp: u64,
    pub phase: u16,
}

/// Outcome of [`merge`](super::Store::merge).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The counts were added.
    Counted,
    /// The range had been counted before; nothing changed.
    AlreadyCounted,
}

/// Next state of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// Version that it follows.
    pub version: u64,
    /// State of the driver.
    pub state: Vec<u8>,
    /// Questions that are open from now on; all others are deleted.
    pub open: Vec<OpenQuestion>,
    /// New releases.
    pub releases: Vec<NewRecord>,
    /// Answers of queries and monitors about the releases.
    pub answers: Vec<NewRecord>,
    /// Published records of timestamps before this one are deleted, a hundred of a kind at a time.
    pub forget: Option<u64>,
    /// Number of the last change of the registry that the releases know. After a later one, the transaction is refused
    /// as stale.
    pub members: Option<u64>,
}

impl Advance {
    /// Most records of each kind that are deleted at once: many more than are added, so that a backlog shrinks.
    pub(super) const fn most_forgotten(&self) -> usize {
        100 + 2 * (self.releases.len() + self.answers.len())
    }
}

/// Change of one stream, of which [`commit`](super::Store::commit) makes many durable at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Write<'a> {
    /// See [`create`](super::Store::create).
    Create(NewStream<'a>),
    /// See [`lease`](super::Store::lease).
    Lease { stream: String, holder: String, now: u64, until: u64 },
    /// See [`release_lease`](super::Store::release_lease).
    ReleaseLease(Lease),
    /// See [`close`](super::Store::close).
    Close { lease: Lease, version: u64, last_call: bool },
    /// See [`advance`](super::Store::advance).
    Advance { lease: Lease, next: Advance },
    /// See [`publish`](super::Store::publish).
    Publish { lease: Lease, version: u64 },
}

impl Write<'_> {
    /// Returns the name of the stream.
    pub fn stream(&self) -> &str {
        match self {
            Self::Create(new) => new.name,
            Self::Lease { stream, .. } => stream,
            Self::ReleaseLease(lease)
            | Self::Close { lease, .. }
            | Self::Advance { lease, .. }
            | Self::Publish { lease, .. } => &lease.stream,
        }
    }
}

/// Outcome of a [`Write`].
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// Nothing to return.
    Done,
    /// The lease, unless another holder has it.
    Lease(Option<Lease>),
    /// The counts of each open question, in order.
    Counts(Vec<Counted>),
    /// The questions are closed, but not all of their reports are counted yet: close them again a little later.
    Counting,
}

/// Counts of a closed question.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Aggregate of the reports; `None` where no report came.
    pub total: Option<Aggregate>,
    /// Reports that were acknowledged and are not counted.
    pub missing: Missing,
}

/// Reports that were acknowledged, but not counted in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// At most this number of reports.
    Reports(u64),
    /// An unknown number.
    Unknown,
}

impl Missing {
    /// Nothing is missing.
    pub const NOTHING: Self = Self::Reports(0);
}

impl Counted {
    /// Counts from which nothing is missing.
    pub const fn whole(total: Option<Aggregate>) -> Self {
        Self { total, missing: Missing::NOTHING }
    }
}

/// A release or an answer that is not yet published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Timestamp that it is about.
    pub timestamp: u64,
    /// JSON, which is read back byte for byte.
    pub body: String,
}

/// A published release or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sequence number among the stream's records of its kind, from 1. Numbers grow, and none is ever used twice; some
    /// are left out after a restored backup.
    pub number: u64,
    /// Version that added it.
    pub version: u64,
    /// Timestamp that it is about.
    pub timestamp: u64,
    /// JSON.
    pub body: String,
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A release of a mechanism.
    Release,
    /// An answer of a query or monitor.
    Answer,
}

/// Filter of a stream's records, which come in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFilter {
    /// Only records after this number.
    pub after: u64,
    /// Only records of this timestamp and later ones.
    pub from: u64,
    /// Only records of this timestamp and earlier ones.
    pub to: u64,
    /// Most records to return.
    pub limit: usize,
}

impl Default for RecordFilter {
    fn default() -> Self {
        Self { after: 0, from: 0, to: u64::MAX, limit: 1_000 }
    }
}
