//! Group commit of reports.
//!
//! A commit takes a disk milliseconds, however large it is. While one transaction is being written, batches gather, and
//! the next transaction takes all of them. A batch is acknowledged when its transaction is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
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

/// Writes batches until the last sender is gone. This is the body of the writer thread.
pub(crate) fn write_groups(
    store: &dyn Store,
    source: &str,
    queue: &Receiver<Pending>,
    queued: &AtomicUsize,
    observer: &dyn Observer,
) {
    while let Ok(first) = queue.recv() {
        let mut bytes = first.batch.reports().len();
        let (mut batches, mut waiting) = (vec![first.batch], vec![(first.admission, first.reply)]);
        while batches.len() < GROUP && bytes < GROUP_BYTES {
            let Ok(Pending { admission, batch, reply }) = queue.try_recv() else { break };
            bytes += batch.reports().len();
            batches.push(batch);
            waiting.push((admission, reply));
        }
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
