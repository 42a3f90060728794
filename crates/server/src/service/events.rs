//! Events of curated streams.

use std::time::Duration;

use super::handle::lock;
use super::{Service, now};
use crate::ingest::{CuratorEvent, EventError, EventRejection};
use crate::store::Status;

/// How long a tick of the history waits for its release.
const HISTORY_PATIENCE: Duration = Duration::from_secs(15);

impl Service {
    /// Adds events to the open tick of a curated stream, in memory only. Returns how many were accepted.
    /// [`EventBuffer::push`](crate::ingest::EventBuffer::push) says when the timestamp is needed.
    ///
    /// # Errors
    /// The reason why an event was rejected; those before it were accepted.
    pub fn push_events(
        &self,
        stream: &str,
        timestamp: Option<u64>,
        events: Vec<CuratorEvent>,
    ) -> Result<usize, EventError> {
        let handle = self.handle(stream).ok_or_else(|| EventError::NoStream(stream.to_owned()))?;
        let buffer = handle.buffer.as_ref().ok_or(EventError::NotCurated)?;
        match buffer.push(now(), timestamp, events) {
            (accepted, None) => Ok(accepted),
            (accepted, Some(reason)) => Err(EventError::Rejected { accepted, reason }),
        }
    }

    /// Releases a whole tick of the history of a stream that is not live yet. It is durable when this returns. Returns
    /// the number of events. Blocks.
    ///
    /// # Errors
    /// After [`EventError::Unknown`] send the same tick again: it is refused as over if it was released.
    pub fn push_history(&self, stream: &str, timestamp: u64, events: Vec<CuratorEvent>) -> Result<usize, EventError> {
        let handle = self.handle(stream).ok_or_else(|| EventError::NoStream(stream.to_owned()))?;
        let buffer = handle.buffer.as_ref().ok_or(EventError::NotCurated)?;
        let (is_driven, is_live, is_paused) = {
            let view = lock(&handle.view);
            let is_live = !view.declaration.backfill || view.status == Status::Retired;
            (view.driven, is_live, view.status == Status::Paused)
        };
        if is_live {
            return Err(EventError::Live);
        }
        if is_paused {
            return Err(EventError::Rejected { accepted: 0, reason: EventRejection::Paused });
        }
        if !is_driven {
            return Err(EventError::Unknown);
        }
        let count = events.len();
        let outcome = buffer.offer_past(timestamp, events);
        let outcome = outcome.map_err(|(accepted, reason)| EventError::Rejected { accepted, reason })?;
        self.agenda.wake(stream);
        let outcome = outcome.recv_timeout(HISTORY_PATIENCE);
        if outcome.is_err() {
            buffer.withdraw_past();
        }
        match outcome {
            Ok(Ok(())) => Ok(count),
            Ok(Err(reason)) => Err(EventError::Rejected { accepted: 0, reason }),
            Err(_) => Err(EventError::Unknown),
        }
    }
}
