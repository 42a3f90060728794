//! Credentials of devices, and the tokens that they draw with them and report with.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use tidegate_device::credential::{Credential, DrawAnswer, DrawRequest};
use tidegate_device::wire::Batch;

use super::handle::lock;
use super::{Service, now};
use crate::ingest::issuing::{Issuing, wrong_tokens};
use crate::ingest::{DrawError, ReportError};
use crate::store::ReportBatch;

/// Reports whose tokens are checked in one turn: some ten milliseconds. Batches take turns, so that a large one delays
/// others by one turn only.
const TURN: usize = 128;

/// Returns how many threads make and check tokens: one processor is left for everything else.
pub(super) fn checks() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).saturating_sub(1).max(1)
}

/// Refuses a batch without tokens where they are needed, and one with tokens elsewhere.
pub(super) fn expect(batch: &Batch<'_>, needs_tokens: bool) -> Result<(), ReportError> {
    match (needs_tokens, batch.tokens().is_empty()) {
        (true, true) => {
            Err(ReportError::Token("this stream counts reports with tokens only: devices draw them with credentials"))
        }
        (false, false) => Err(ReportError::Token("this stream has no credentials: send its reports without tokens")),
        _ => Ok(()),
    }
}

impl Service {
    fn issuing(&self, stream: &str) -> Result<Arc<Issuing>, DrawError> {
        let handle = self.handle(stream).ok_or_else(|| DrawError::NoStream(stream.to_owned()))?;
        handle.issuing.clone().ok_or(DrawError::NoCredentials)
    }

    /// Whether a stream counts reports with tokens only.
    pub fn has_credentials(&self, stream: &str) -> bool {
        self.issuing(stream).is_ok()
    }

    /// Returns the credential of a device. The same name has always the same credential; nothing is stored. Whoever
    /// calls this vouches that the name belongs to one device.
    ///
    /// # Errors
    /// An unknown stream, one without credentials, or an invalid name.
    pub fn credential(&self, stream: &str, device: &str) -> Result<Credential, DrawError> {
        Ok(self.issuing(stream)?.issuer().credential(device)?)
    }

    /// Answers a draw of tokens. A device gets one answer for each block; the same draw has the same answer. Needs a
    /// runtime of tokio.
    ///
    /// # Errors
    /// [`DrawError`].
    pub async fn draw(&self, stream: &str, request: DrawRequest) -> Result<DrawAnswer, DrawError> {
        let handle = self.handle(stream).ok_or_else(|| DrawError::NoStream(stream.to_owned()))?;
        let issuing = handle.issuing.clone().ok_or(DrawError::NoCredentials)?;
        let timestamp = lock(&handle.view).declaration.schedule().timestamp(now()).unwrap_or(0);
        let elements = issuing.admit(&request, timestamp)?;
        self.on_turn(move || issuing.answer(request.block, &elements)).await.ok_or(DrawError::Busy)?
    }

    /// Checks the tokens of a batch. Marks the reports whose token is wrong as rejected, and returns their number.
    pub(super) async fn check_tokens(
        &self,
        issuing: &Issuing,
        batch: ReportBatch,
    ) -> Result<(ReportBatch, usize), ReportError> {
        let checker = Arc::new(issuing.issuer().checker(batch.timestamp).ok_or(ReportError::Busy)?);
        let (batch, mut wrong) = (Arc::new(batch), Vec::new());
        for from in (0..batch.len()).step_by(TURN) {
            let (batch, checker) = (Arc::clone(&batch), Arc::clone(&checker));
            let found = self.on_turn(move || wrong_tokens(&batch, &checker, from, TURN)).await;
            wrong.extend(found.ok_or(ReportError::Busy)?);
        }
        let mut batch = Arc::unwrap_or_clone(batch);
        batch.implausible.extend(&wrong);
        batch.implausible.sort_unstable();
        batch.implausible.dedup();
        Ok((batch, wrong.len()))
    }

    /// Runs work of some milliseconds on a thread that may block, in the order of calls. `None` where it panicked.
    async fn on_turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.checks).acquire_owned().await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        done.await.ok()
    }
}
