//! Messages between a device and a collector besides reports: the bodies of HTTP responses.
//!
//! | path | body |
//! | --- | --- |
//! | `GET /v1/streams/{stream}/policy` | a [`SignedPolicy`](crate::enrolment::SignedPolicy) |
//! | `GET /v1/streams/{stream}/questions` | [`OpenQuestions`]; `?after={round}&wait={seconds}` waits for a later one |
//! | `POST /v1/streams/{stream}/reports` | [`Receipt`], for a batch of reports |
//! | `POST /v1/streams/{stream}/tokens` | a [`DrawAnswer`](crate::credential::DrawAnswer), for tokens |
//!
//! A response with status 400 or more is a [`Problem`]. Retry after 408, 429 and 5xx, not before the seconds in
//! `Retry-After` have passed. Batches are a [`Batch`](crate::wire::Batch) of media type [`BATCH`], or a
//! [`BatchText`](crate::wire::BatchText).

use serde::{Deserialize, Serialize};
use tidegate_kernel::Question;

/// The media type of a binary batch.
pub const BATCH: &str = "application/vnd.tidegate.batch";

/// The open questions of a stream. A device trusts none of it, and answers within its own policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenQuestions {
    /// The stream.
    pub stream: String,
    /// Increases with every change of the stream.
    pub round: u64,
    /// The open questions. Their cohorts are disjoint, and their phases differ.
    pub questions: Vec<OpenQuestion>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenQuestion {
    /// The question.
    pub question: Question,
    /// Length of a report, in bytes.
    pub report_length: usize,
    /// Deadline for reports, in milliseconds since 1970.
    pub closes: u64,
}

/// Result of a batch of reports. Accepted reports are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Newly accepted reports.
    pub accepted: u64,
    /// Reports that were accepted before.
    pub repeated: u64,
    /// Rejected reports whose identity has another accepted report.
    pub conflicting: u64,
    /// Rejected reports that no honest device sends.
    pub implausible: u64,
    /// Rejected reports whose token is wrong, in a stream with [credentials](crate::credential).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong_token: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants a reference
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The body of an error response. Clients work without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Error code, for programs.
    pub error: String,
    /// Error message, for people.
    pub message: String,
}
