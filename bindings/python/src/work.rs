//! Long calls: without the interpreter's lock, and stopped by Ctrl-C.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate_lab::stop;
use tidegate_release::Error;

use crate::error::Failure;

/// How often signals are looked for.
const PATIENCE: Duration = Duration::from_millis(50);

/// Whether a long call is to stop.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Whether it is; cheap enough for every row.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if it is.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_set() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// The process that holds a budget. A forked one has a copy of it in memory, and would spend it again.
#[derive(Debug)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn new() -> Self {
        Self(std::process::id())
    }

    /// # Errors
    /// [`Error::State`] in another process.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.0 == std::process::id() {
            return Ok(());
        }
        let problem = "it belongs to the process that made it, and a copy would spend its budget again: make it in \
                       this process, from a state of its own";
        Err(Error::State(problem.to_owned()).into())
    }
}

/// How long work that was told to stop has to end before it is left behind.
const GRACE: Duration = Duration::from_millis(500);

/// Does work of the laboratory, which looks at its `Stop` before each run of a mechanism only. After Ctrl-C, a run that
/// takes longer ends by itself on its thread, and nobody waits for it.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<stop::Stop>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = Arc::new(stop::Stop::new());
    py.detach(|| {
        let (done, is_done) = channel::<()>();
        let for_work = Arc::clone(&stop);
        let working = thread::Builder::new().spawn(move || {
            // Dropped at the end, also by a panic.
            let _done = done;
            work(&for_work)
        });
        let worker = working.map_err(Error::run)?;
        while is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            if let Err(raised) = Python::attach(|py| py.check_signals()) {
                stop.set();
                // Whether it ended or is left behind, the interrupt is what is raised.
                let _ = is_done.recv_timeout(GRACE);
                return Err(Failure::Raised(raised));
            }
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Does long work on a thread of its own, while this one gives other threads of Python their turn and looks for
/// signals. The work looks at its `Stop`, and returns [`Failure::Interrupted`] soon after that is set.
///
/// # Errors
/// Those of the work, and what the handler of a signal raises: `KeyboardInterrupt`, as a rule.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let stop = Stop::default();
    py.detach(|| {
        thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            let stop = &stop;
            let worker = scope.spawn(move || {
                // Dropped at the end, also by a panic.
                let _done = done;
                work(stop)
            });
            let mut raised = None;
            while is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none() {
                    raised = Python::attach(|py| py.check_signals()).err();
                    stop.0.store(raised.is_some(), Ordering::Relaxed);
                }
            }
            let outcome = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            match (raised, outcome) {
                // What was paid for is handed over, even if the signal came too late to stop it.
                (_, Ok(done)) => Ok(done),
                (Some(raised), Err(_)) => Err(Failure::Raised(raised)),
                (None, failed) => failed,
            }
        })
    })
}
