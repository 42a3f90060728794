//! Tests of the stores.

mod backup;
mod conformance;
mod damage;
pub(crate) mod differential;
pub(crate) mod members;
mod migration;
mod numbers;
mod postgres;

use tidegate_device::api::Receipt;
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_kernel::oracle::{Aggregate, OracleKind};
use tidegate_kernel::{Cohort, Question, View};
use tidegate_server::store::{Advance, BatchRejection, Lease, NewStream, OpenQuestion, ReportBatch, Store, StoreError};

pub(crate) use crate::folder::TestFolder;

pub(crate) const DOMAIN: u32 = 8;

/// A question about eight values, answered by a byte.
pub(crate) fn question(timestamp: u64, phase: u16) -> Question {
    let (cohort, epsilon) = (Cohort::Everyone, "1".parse().unwrap());
    Question { timestamp, phase, cohort, epsilon, oracle: OracleKind::Grr, domain: DOMAIN, view: View::Values }
}

pub(crate) fn open(timestamp: u64, phase: u16) -> OpenQuestion {
    OpenQuestion { question: question(timestamp, phase), closes: 1_000 * (timestamp + 1) }
}

/// Writes a batch of reports of devices, each with its value.
pub(crate) fn batch(stream: &str, timestamp: u64, phase: u16, reports: impl IntoIterator<Item = (u32, u8)>) -> Vec<u8> {
    let tag = StreamTag::of(stream);
    let mut writer = BatchWriter::new(tag, timestamp, phase, 1);
    for (device, value) in reports {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&device.to_le_bytes());
        writer.push(ReportId::of(&identity, tag, timestamp, phase), &[value]).unwrap();
    }
    writer.write().unwrap()
}

/// Sends one batch to a store.
pub(crate) fn accept(
    store: &dyn Store,
    stream: &str,
    bytes: &[u8],
) -> Result<Result<Receipt, BatchRejection>, StoreError> {
    let intake = ReportBatch::parse(stream, bytes.to_vec().into()).unwrap();
    Ok(store.accept("here", &[intake])?.remove(0))
}

pub(crate) fn create(store: &dyn Store, name: &str) {
    store.create(&NewStream { name, declaration: "{}", policy: "", state: b"first" }).unwrap();
}

/// Creates a stream with open questions, and takes its lease.
pub(crate) fn begin(store: &dyn Store, name: &str, open: &[OpenQuestion]) -> Lease {
    create(store, name);
    let lease = store.lease(name, "driver", 0, 1_000).unwrap().unwrap();
    advance(store, &lease, 0, open).unwrap();
    lease
}

pub(crate) fn advance(store: &dyn Store, lease: &Lease, version: u64, open: &[OpenQuestion]) -> Result<(), StoreError> {
    let (state, open) = (b"next".to_vec(), open.to_vec());
    store.advance(lease, Advance { version, state, open, ..Advance::default() })
}

/// Returns the number of reports for each value.
pub(crate) fn counts(total: &Aggregate) -> Vec<u64> {
    total.supports()
}

pub(crate) fn taken(accepted: u64, repeated: u64, conflicting: u64, implausible: u64) -> Receipt {
    Receipt { accepted, repeated, conflicting, implausible, ..Receipt::default() }
}
