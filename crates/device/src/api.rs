//! What a device and a collector say to each other, besides reports: the bodies of a collector's HTTP answers.
//!
//! | path | what |
//! | --- | --- |
//! | `GET /v1/streams/{stream}/policy` | a [`SignedPolicy`](crate::enrolment::SignedPolicy) |
//! | `GET /v1/streams/{stream}/questions` | [`OpenQuestions`]; with `?after={round}&wait={seconds}` it is held back until there is a later round |
//! | `POST /v1/streams/{stream}/reports` | a [`Batch`](crate::wire::Batch) of the type [`BATCH`], or a [`BatchText`](crate::wire::BatchText); answered by a [`Receipt`] |
//!
//! Any answer with a status of 400 or more is a [`Problem`]. The statuses 408, 429 and from 500 on mean: not now, try
//! again, after as many seconds as `Retry-After` says.

use serde::{Deserialize, Serialize};
use tidegate_kernel::Question;

/// The media type of a binary batch.
pub const BATCH: &str = "application/vnd.tidegate.batch";

/// What devices are asked at the moment. None of it is to be believed: a device answers within its own policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenQuestions {
    /// The stream.
    pub stream: String,
    /// Grows whenever something about the stream changes.
    pub round: u64,
    /// The open questions, none where nothing is asked. Their cohorts are disjoint, and each has a phase of its own.
    pub questions: Vec<OpenQuestion>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenQuestion {
    /// The question.
    pub question: Question,
    /// How long a report is, in bytes.
    pub report_length: usize,
    /// Until when reports are taken, in milliseconds since 1970.
    pub closes: u64,
}

/// What became of the reports of a batch. All that were accepted, now or before, are safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// How many were accepted now.
    pub accepted: u64,
    /// How many had been accepted before, and were sent again.
    pub repeated: u64,
    /// How many were refused because another report had been accepted under their identity.
    pub conflicting: u64,
    /// How many were refused because no device that follows its oracle sends such a report.
    pub implausible: u64,
}

/// Why a request was not granted: the body of every answer that is none. A client copes without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// In a word, for programs.
    pub error: String,
    /// In words, for people.
    pub message: String,
}
