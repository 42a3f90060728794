//! [`Readiness`]: whether the service can do its work, in less than a second, also where a disk or a database hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::App;

/// How long a result is good for: anybody may ask, and the check writes.
const KEPT: Duration = Duration::from_secs(1);
/// Longest wait for a check. One that takes longer is not ready.
const PATIENCE: Duration = Duration::from_millis(900);

/// Results of checks, of which one runs at a time.
#[derive(Debug)]
pub(super) struct Readiness {
    /// When the last check ended, and whether the service was ready.
    last: watch::Sender<Option<(Instant, bool)>>,
    is_checking: AtomicBool,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { last: watch::Sender::new(None), is_checking: AtomicBool::new(false) }
    }
}

/// Whether reports can be accepted and released.
pub(super) async fn is_ready(app: &Arc<App>) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut last = app.readiness.last.subscribe();
    if let Some((ended, is_ready)) = *last.borrow_and_update()
        && ended.elapsed() < KEPT
    {
        return is_ready;
    }
    if !app.readiness.is_checking.swap(true, Ordering::AcqRel) {
        let checking = Checking(Arc::clone(app));
        tokio::task::spawn_blocking(move || check(&checking.0));
    }
    match timeout_at(deadline, last.changed()).await {
        Ok(Ok(())) => last.borrow().is_some_and(|(_, is_ready)| is_ready),
        _ => {
            tracing::warn!("not ready: the store or the high-water marks do not answer");
            false
        }
    }
}

/// Lets the next check begin when this one ends, also by a panic or before it began.
struct Checking(Arc<App>);

impl Drop for Checking {
    fn drop(&mut self) {
        self.0.readiness.is_checking.store(false, Ordering::Release);
    }
}

fn check(app: &App) {
    let began = Instant::now();
    let ready = app.service.ready();
    app.telemetry.meters().store("check", began.elapsed());
    if let Err(error) = &ready {
        tracing::warn!(%error, "not ready");
    }
    app.readiness.last.send_replace(Some((Instant::now(), ready.is_ok())));
}
