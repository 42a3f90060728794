//! [`Faulty`]: a store as one process sees it. Transactions may fail before or after their commit, and the process may
//! stop there.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::Aggregate;
use tidegate_server::store::{
    Acknowledgement, BatchRejection, MemberChanges, MemberFilter, MemberPage, MergeOutcome, PhaseKey, Record,
    RecordFilter, RecordKind, ReportBatch, Status, Store, StoreError, StreamRecord, Write, Written,
};

use super::dice::Dice;

/// Fault of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrong {
    /// The store is busy; not committed.
    Busy,
    /// The disk is full; not committed.
    Full,
    /// The answer is lost; not committed.
    LostBefore,
    /// The answer is lost; committed.
    LostAfter,
    /// The process stops before the transaction.
    StopsBefore,
    /// The process stops after the commit, before the answer.
    StopsAfter,
}

impl Wrong {
    pub(super) const ALL: [Self; 6] =
        [Self::Busy, Self::Full, Self::LostBefore, Self::LostAfter, Self::StopsBefore, Self::StopsAfter];
}

/// State that all processes share: the present store and its faults.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Mutex<Arc<dyn Store>>,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    dice: Dice,
    /// Faults in a thousand transactions.
    rate: u64,
    full: bool,
    wrong: BTreeMap<(&'static str, Wrong), u64>,
    /// Releases of each process, even where the process did not get the answer.
    released: Vec<Released>,
}

/// A release of a process.
#[derive(Clone, Debug)]
pub(super) struct Released {
    pub(super) process: u64,
    pub(super) stream: String,
    pub(super) timestamp: u64,
    pub(super) body: String,
}

impl Shared {
    pub(super) fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        let dice = Dice::new(seed, 78);
        let inside = Inside { dice, rate: 0, full: false, wrong: BTreeMap::new(), released: Vec::new() };
        Self { store: Mutex::new(store), inside: Mutex::new(inside) }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the faults in a thousand transactions.
    pub(super) fn set_rate(&self, rate: u64) {
        self.lock().rate = rate;
    }

    /// Sets whether the disk is full.
    pub(super) fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Returns the faults and their numbers.
    pub(super) fn wrong(&self) -> BTreeMap<(&'static str, Wrong), u64> {
        self.lock().wrong.clone()
    }

    /// Takes the releases since the last call.
    pub(super) fn take_released(&self) -> Vec<Released> {
        std::mem::take(&mut self.lock().released)
    }
}

/// A store as one process sees it.
pub(super) struct Faulty {
    shared: Arc<Shared>,
    process: u64,
    stopped: Mutex<bool>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the store as process {} sees it", self.process)
    }
}

impl Faulty {
    pub(super) fn new(shared: Arc<Shared>, process: u64) -> Self {
        Self { shared, process, stopped: Mutex::new(false) }
    }

    /// Whether the process has stopped in a transaction.
    pub(super) fn has_stopped(&self) -> bool {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) -> StoreError {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        StoreError::Unknown("the process has stopped".to_owned())
    }

    /// Draws the fault of a transaction, which is counted under each name.
    fn draw(&self, names: impl IntoIterator<Item = &'static str>) -> Option<Wrong> {
        let inside = &mut *self.shared.lock();
        let wrong = if inside.full {
            Some(Wrong::Full)
        } else {
            let goes_wrong = inside.dice.below(1_000) < inside.rate;
            goes_wrong.then(|| Wrong::ALL[inside.dice.index(Wrong::ALL.len())])
        };
        for name in names {
            if let Some(wrong) = wrong {
                *inside.wrong.entry((name, wrong)).or_default() += 1;
            }
        }
        wrong
    }

    fn write<T>(
        &self,
        name: &'static str,
        transaction: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.has_stopped() {
            return Err(StoreError::Unknown("the process has stopped".to_owned()));
        }
        let wrong = self.draw([name]);
        let store = self.shared.store();
        match wrong {
            None => transaction(store.as_ref()),
            Some(Wrong::LostAfter | Wrong::StopsAfter) => {
                transaction(store.as_ref())?;
                Err(self.error(wrong))
            }
            wrong => Err(self.error(wrong)),
        }
    }

    fn error(&self, wrong: Option<Wrong>) -> StoreError {
        match wrong {
            Some(Wrong::Busy) => StoreError::Unavailable("busy".to_owned()),
            Some(Wrong::Full) => StoreError::Failed("no space left".to_owned()),
            Some(Wrong::StopsBefore | Wrong::StopsAfter) => self.stop(),
            Some(Wrong::LostBefore | Wrong::LostAfter) | None => StoreError::Unknown("no answer".to_owned()),
        }
    }

    fn read<T>(
        &self,
        name: &'static str,
        transaction: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.has_stopped() {
            return Err(StoreError::Unavailable("the process has stopped".to_owned()));
        }
        let is_busy = {
            let inside = &mut *self.shared.lock();
            let is_busy = inside.dice.below(3_000) < inside.rate;
            if is_busy {
                *inside.wrong.entry((name, Wrong::Busy)).or_default() += 1;
            }
            is_busy
        };
        if is_busy {
            return Err(StoreError::Unavailable("busy".to_owned()));
        }
        transaction(self.shared.store().as_ref())
    }
}

/// Name of a transaction.
fn name(write: &Write<'_>) -> &'static str {
    match write {
        Write::Create(_) => "create",
        Write::Lease { .. } => "lease",
        Write::ReleaseLease(_) => "release_lease",
        Write::Close { .. } => "close",
        Write::Advance { .. } => "advance",
        Write::Publish { .. } => "publish",
    }
}

impl Store for Faulty {
    /// A group has one fault. Where its answer is lost or the process stops, a part of the group may be committed: a
    /// store may make each change in its own transaction.
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>> {
        if self.has_stopped() {
            return writes.iter().map(|_| Err(StoreError::Unknown("the process has stopped".to_owned()))).collect();
        }
        let wrong = self.draw(writes.iter().map(name));
        let done = match wrong {
            None => writes.len(),
            Some(Wrong::LostAfter | Wrong::StopsAfter) => 1 + self.shared.lock().dice.index(writes.len()),
            Some(_) => 0,
        };
        let store = self.shared.store();
        let outcomes = store.commit(&writes[..done]);
        // Even without a commit: publications tell whether there was one.
        let released = writes[..done].iter().filter_map(|write| match write {
            Write::Advance { lease, next } => Some((lease, next)),
            _ => None,
        });
        let released = released.flat_map(|(lease, next)| {
            next.releases.iter().map(|record| Released {
                process: self.process,
                stream: lease.stream.clone(),
                timestamp: record.timestamp,
                body: record.body.clone(),
            })
        });
        let released: Vec<_> = released.collect();
        self.shared.lock().released.extend(released);
        match wrong {
            None => outcomes,
            wrong => writes.iter().map(|_| Err(self.error(wrong))).collect(),
        }
    }

    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        self.write("redeclare", |store| store.redeclare(stream, earlier, declaration))
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.read("names", |store| store.names())
    }

    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError> {
        self.read("stream", |store| store.stream(stream))
    }

    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError> {
        self.read("status", |store| store.status(stream))
    }

    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError> {
        self.write("set_status", |store| store.set_status(stream, status))
    }

    fn accept(
        &self,
        source: &str,
        batches: &[ReportBatch],
    ) -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError> {
        self.write("accept", |store| store.accept(source, batches))
    }

    fn merge(
        &self,
        phase: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<MergeOutcome, StoreError> {
        self.write("merge", |store| store.merge(phase, source, range, counts))
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.write("replace_state", |store| store.replace_state(stream, state, version))
    }

    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError> {
        self.write("change_members", |store| store.change_members(stream, changes))
    }

    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError> {
        self.read("members", |store| store.members(stream, filter))
    }

    fn records(&self, stream: &str, records: RecordKind, wanted: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.read("records", |store| store.records(stream, records, wanted))
    }

    fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError> {
        self.read("latest", |store| store.latest(stream, kind, later))
    }

    fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read("events", |store| store.events(stream, after, before, limit))
    }

    fn acknowledge(&self, stream: &str, new: &Acknowledgement) -> Result<Option<Acknowledgement>, StoreError> {
        self.write("acknowledge", |store| store.acknowledge(stream, new))
    }

    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError> {
        self.read("acknowledgements", |store| store.acknowledgements(stream, from))
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", |store| store.check())
    }
}
