//! Group commit of reports.
//!
//! A commit takes a disk milliseconds, however large it is. While one transaction is being written, batches gather, and
//! the next transaction takes all of them. A batch is acknowledged when its transaction is durable.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_device::api::Receipt;
use tokio::sync::oneshot;

use super::ReportError;
use super::admission::Admission;
use crate::service::Observer;
use crate::store::{ReportBatch, Store};

/// Most batches in one transaction.
const GROUP: usize = 256;
/// Most bytes of reports in one transaction; the last batch may exceed it.
const GROUP_BYTES: usize = 32 << 20;

/// A batch that waits for its transaction.
#[derive(Debug)]
pub(crate) struct Pending {
    admission: Arc<Admission>,
    batch: ReportBatch,
    reply: oneshot::Sender<Result<Receipt, ReportError>>,
}

/// Queues a batch and waits until it is durable.
pub(crate) async fn commit(
    queue: SyncSender<Pending>,
    queued: &AtomicUsize,
    admission: Arc<Admission>,
    batch: ReportBatch,
) -> Result<Receipt, ReportError> {
    let (reply, outcome) = oneshot::channel();
    // Before it is sent: the writer may take it at once.
    queued.fetch_add(1, Ordering::AcqRel);
    if queue.try_send(Pending { admission, batch, reply }).is_err() {
        queued.fetch_sub(1, Ordering::AcqRel);
        return Err(ReportError::Busy);
    }
    drop(queue);
    outcome.await.unwrap_or(Err(ReportError::Store))
}

/// Takes the batches that wait, in one group; `None` once the last sender is gone.
fn take(queue: &Mutex<Receiver<Pending>>) -> Option<Vec<Pending>> {
    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let mut group = vec![queue.recv().ok()?];
    let mut bytes = group[0].batch.reports().len();
    while group.len() < GROUP && bytes < GROUP_BYTES {
        let Ok(pending) = queue.try_recv() else { break };
        bytes += pending.batch.reports().len();
        group.push(pending);
    }
    Some(group)
}

/// Writes batches until the last sender is gone. This is the body of a writer thread.
pub(crate) fn write_groups(
    store: &dyn Store,
    source: &str,
    queue: &Mutex<Receiver<Pending>>,
    queued: &AtomicUsize,
    observer: &dyn Observer,
) {
    while let Some(group) = take(queue) {
        let (batches, waiting): (Vec<_>, Vec<_>) =
            group.into_iter().map(|pending| (pending.batch, (pending.admission, pending.reply))).unzip();
        queued.fetch_sub(batches.len(), Ordering::AcqRel);
        let began = Instant::now();
        let outcomes = store.accept(source, &batches);
        observer.committed(batches.len(), began.elapsed());
        // A client that has gone away sends its batch again.
        match outcomes {
            Ok(outcomes) => {
                for ((admission, reply), outcome) in waiting.into_iter().zip(outcomes) {
                    if let Ok(receipt) = &outcome {
                        admission.count_accepted(receipt.accepted);
                    }
                    let _ = reply.send(outcome.map_err(ReportError::from));
                }
            }
            Err(error) => {
                tracing::error!(%error, batches = batches.len(), "reports could not be committed");
                for (_, reply) in waiting {
                    let _ = reply.send(Err(ReportError::Store));
                }
            }
        }
    }
}
