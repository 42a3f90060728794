//! Work that is divided among all cores.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::Failure;
use crate::work::Stop;

/// Does tasks on all cores, and returns what each core has made of its share. A core begins with `begin`, and takes the
/// next task when it is done with one; between two tasks it looks at `stop`.
///
/// # Errors
/// That of the first task, in order, that failed; later ones are not begun.
pub(crate) fn share<Task: Send, Part: Send>(
    tasks: impl Iterator<Item = Task> + Send,
    stop: &Stop,
    begin: impl Fn() -> Result<Part, Failure> + Sync,
    work: impl Fn(&mut Part, Task) -> Result<(), Failure> + Sync,
) -> Result<Vec<Part>, Failure> {
    // None once a task has failed.
    let queue = Mutex::new(Some(tasks.enumerate()));
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let one_core = || {
        let mut part = begin().map_err(|failure| Box::new((0, failure)))?;
        loop {
            let next = lock().as_mut().and_then(Iterator::next);
            let Some((number, task)) = next else { return Ok(part) };
            if let Err(failure) = stop.check().and_then(|()| work(&mut part, task)) {
                *lock() = None;
                return Err(Box::new((number, failure)));
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let done: Vec<Result<Part, Box<(usize, Failure)>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(one_core)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut parts = Vec::with_capacity(cores);
    let mut first: Option<Box<(usize, Failure)>> = None;
    for outcome in done {
        match outcome {
            Ok(part) => parts.push(part),
            Err(failed) if first.as_ref().is_none_or(|first| failed.0 < first.0) => first = Some(failed),
            Err(_) => {}
        }
    }
    first.map_or(Ok(parts), |failed| Err(failed.1))
}
