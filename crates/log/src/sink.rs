//! [`Sink`]: numbered messages for other systems, each exactly once and in order.
//!
//! A subject holds the messages of one sender with growing numbers. The sink itself says which number it holds last,
//! and appends a message only behind the one that the sender names (compare and set). So a sender keeps no position: it
//! reads the last number, and sends what comes after. Two senders, or one that was restarted, neither repeat nor skip.

use std::fmt;

use bytes::Bytes;

use super::LogError;

/// Message for a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number, which grows within its subject.
    pub number: u64,
    /// Content.
    pub body: Bytes,
}

/// Last message of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Its number.
    pub number: u64,
    /// Its position in the sink.
    pub position: u64,
}

/// Messages for one subject, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Subject.
    pub subject: String,
    /// Last message of the subject, behind which these are appended; `None` for an empty subject.
    pub after: Option<Last>,
    /// At least one message, with growing numbers.
    pub messages: Vec<Message>,
}

/// Receiver of numbered messages.
///
/// Calls block, and every wait has an end. Implementations are shared by threads.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Creates what is missing on the servers, and checks what is there.
    ///
    /// # Errors
    /// [`LogError::Failed`] for a sink that could forget the last message of a subject.
    fn prepare(&self) -> Result<(), LogError>;

    /// Returns the last message of each subject, in order; `None` for an empty one.
    ///
    /// # Errors
    /// Per subject. [`LogError::Failed`] for a message that has no number.
    fn last(&self, subjects: &[String]) -> Vec<Result<Option<Last>, LogError>>;

    /// Appends runs of different subjects, side by side. Returns the last message of each subject, in order.
    ///
    /// # Errors
    /// Per run. The first messages of the run may have been appended. [`LogError::Unknown`] also where another sender
    /// was first. After any error, read [`last`](Self::last) again.
    fn send(&self, runs: &[Run]) -> Vec<Result<Last, LogError>>;
}
