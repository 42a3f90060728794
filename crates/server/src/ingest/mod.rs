//! Taking in of reports and of curator events, from bytes to the store or the event buffer.
//!
//! | module | contents |
//! | --- | --- |
//! | `admission` | admission control of reports: open question, length, plausibility, cap |
//! | `commit` | group commit: many batches in one transaction |
//! | [`event_buffer`] | events of the open ticks of a curated stream |
//! | [`events`] | parser of events |
//! | `issuing` | tokens of devices: one draw for each device and block of timestamps |
//! | `member_cache` | classes of users in memory |
//! | [`members`] | parser of users' classes |

pub(crate) mod admission;
pub(crate) mod commit;
pub mod event_buffer;
pub mod events;
pub(crate) mod issuing;
pub(crate) mod member_cache;
pub mod members;

use tidegate_device::credential::TokenError;
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
    /// A batch without tokens, or one with tokens where no report needs any.
    #[error("{0}")]
    Token(&'static str),
    #[error("too many batches wait to be checked or written; send it again")]
    Busy,
    /// The store failed, so the outcome is unknown.
    #[error("the store is not available; send it again")]
    Store,
}

/// Reason why a device gets no credential or no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DrawError {
    #[error("there is no stream {0}")]
    NoStream(String),
    #[error("the devices of this stream have no credentials: it was declared without them")]
    NoCredentials,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("tokens are drawn for blocks {present} and {}, not for {given}", .present.saturating_add(1))]
    NotNow { given: u64, present: u64 },
    /// A device that has lost its draw, or somebody who wants a second token.
    #[error("this device has drawn other tokens for this block: repeat that draw, or wait for a later block")]
    Drawn,
    #[error("far more devices have drawn tokens than the stream has")]
    Crowded,
    #[error("too many draws and batches wait; send it again")]
    Busy,
}

impl DrawError {
    /// Returns the code of the refusal, for programs and metrics.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::NoStream(_) => "no_stream",
            Self::NoCredentials => "no_credentials",
            Self::Token(TokenError::Unsigned) => "credential",
            Self::Token(_) => "malformed",
            Self::NotNow { .. } => "closed",
            Self::Drawn => "drawn",
            Self::Crowded => "crowded",
            Self::Busy => "busy",
        }
    }
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
