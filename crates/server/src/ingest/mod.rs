//! Taking in of reports and of curator events, from bytes to the store or the event buffer.
//!
//! | module | contents |
//! | --- | --- |
//! | `admission` | admission control of reports: open question, length, plausibility, cap |
//! | `commit` | group commit: many batches in one transaction |
//! | [`event_buffer`] | events of the open ticks of a curated stream |
//! | [`events`] | parser of events |
//! | `member_cache` | classes of users in memory |
//! | [`members`] | parser of users' classes |

pub(crate) mod admission;
pub(crate) mod commit;
pub mod event_buffer;
pub mod events;
pub(crate) mod member_cache;
pub mod members;

use tidegate_device::wire::WireError;

pub use event_buffer::{CuratorEvent, EventBuffer, EventBufferError, EventRejection};

use crate::store::BatchRejection;

/// Reason why a batch of reports was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ReportError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the batch is for another stream")]
    OtherStream,
    #[error(transparent)]
    Rejected(#[from] BatchRejection),
    /// Far more reports than devices: somebody invents devices.
    #[error("far more reports than the stream has devices")]
    Crowded,
    #[error("too many batches wait to be written; send it again")]
    Busy,
    /// The store failed, so the outcome is unknown.
    #[error("the store is not available; send it again")]
    Store,
}

/// Reason why events were not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum EventError {
    #[error("there is no stream {0}")]
    NoStream(String),
    #[error("devices of this stream report for themselves; it takes no events")]
    NotCurated,
    #[error("this stream is live, and takes no history")]
    Live,
    /// Whether a tick of the history was released is unknown.
    #[error("the outcome is unknown; send the tick again")]
    Unknown,
    /// The first `accepted` events were accepted, and the next was not.
    #[error("{reason}")]
    Rejected { accepted: usize, reason: EventRejection },
}
