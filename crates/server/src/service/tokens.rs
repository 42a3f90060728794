//! Credentials of devices, and the tokens that they draw with them and report with.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tidegate_device::credential::{Credential, DrawAnswer, DrawRequest};
use tidegate_device::wire::Batch;
use tokio::sync::Semaphore;

use super::handle::lock;
use super::{Service, now};
use crate::ingest::issuing::{Issuing, wrong_tokens};
use crate::ingest::{DrawError, ReportError};
use crate::store::ReportBatch;

/// Reports of a batch whose tokens are checked together. If more than half of them are wrong, the batch is garbage.
const STRETCH: usize = 128;

/// Work that may wait for each thread, in checks of tokens: some ten seconds. All that is admitted is done in that
/// time.
const MOST_QUEUED: usize = 131_072;

/// Work of a draw, in checks of tokens.
const DRAW: usize = 80;

/// Threads that make and check tokens, and the work that waits for them.
#[derive(Debug)]
pub(super) struct Checks {
    threads: Arc<Semaphore>,
    queued: Arc<AtomicUsize>,
    most: usize,
}

/// Work that waits or runs.
#[derive(Debug)]
struct Queued {
    queued: Arc<AtomicUsize>,
    work: usize,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.work, Ordering::AcqRel);
    }
}

impl Checks {
    pub(super) fn new() -> Self {
        let threads = threads();
        Self {
            threads: Arc::new(Semaphore::new(threads)),
            queued: Arc::default(),
            most: threads.saturating_mul(MOST_QUEUED),
        }
    }

    /// Runs work on a thread that may block, in the order of calls. `None` at once if too much waits already, or if the
    /// work has panicked.
    async fn run<T: Send + 'static>(&self, work: usize, run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let before = self.queued.fetch_add(work, Ordering::AcqRel);
        let queued = Queued { queued: Arc::clone(&self.queued), work };
        if before.saturating_add(work) > self.most {
            return None;
        }
        // The semaphore is never closed.
        let place = Arc::clone(&self.threads).acquire_owned().await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let done = run();
            drop((place, queued));
            done
        });
        done.await.ok()
    }
}

/// Returns how many threads make and check tokens: one processor is left for everything else.
fn threads() -> usize {
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
        self.checks.run(DRAW, move || issuing.answer(request.block, &elements)).await.ok_or(DrawError::Busy)?
    }

    /// Checks the tokens of a batch. Marks the reports whose token is wrong as rejected, and returns their number.
    pub(super) async fn check_tokens(
        &self,
        issuing: &Issuing,
        batch: ReportBatch,
    ) -> Result<(ReportBatch, usize), ReportError> {
        let checker = issuing.issuer().checker(batch.timestamp).ok_or(ReportError::Busy)?;
        let work = batch.len();
        let check = move || {
            let (mut batch, mut wrong) = (batch, Vec::new());
            for from in (0..batch.len()).step_by(STRETCH) {
                let found = wrong_tokens(&batch, &checker, from, STRETCH);
                let is_garbage = found.len() > STRETCH / 2;
                wrong.extend(found);
                if is_garbage {
                    wrong.extend(from + STRETCH..batch.len());
                    break;
                }
            }
            batch.implausible.extend(&wrong);
            batch.implausible.sort_unstable();
            batch.implausible.dedup();
            (batch, wrong.len())
        };
        self.checks.run(work, check).await.ok_or(ReportError::Busy)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn work_that_would_wait_too_long_is_refused_at_once() {
        let checks = Arc::new(Checks { threads: Arc::new(Semaphore::new(1)), queued: Arc::default(), most: 100 });
        let (release, held) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let checks = Arc::clone(&checks);
            async move { checks.run(60, move || held.recv().is_ok()).await }
        });
        while checks.threads.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(checks.run(41, || ()).await, None, "it does not wait");
        // Who goes away makes room.
        let waits = timeout(Duration::from_millis(10), checks.run(40, || ())).await;
        assert!(waits.is_err() && checks.queued.load(Ordering::Acquire) == 60);
        let second = tokio::spawn({
            let checks = Arc::clone(&checks);
            async move { checks.run(40, || 7).await }
        });
        release.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Some(true), Some(7)));
        assert_eq!(checks.queued.load(Ordering::Acquire), 0);
    }
}
