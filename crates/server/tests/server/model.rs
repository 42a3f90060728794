//! [`Model`]: the simplest correct store, in memory, with faults on demand. Other stores are compared with it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use tidegate_device::api::Receipt;
use tidegate_device::wire::ReportId;
use tidegate_kernel::oracle::Aggregate;
use tidegate_server::store::{
    Acknowledgement, Advance, BatchRejection, Counted, Lease, MemberChanges, MemberFilter, MemberPage, MergeOutcome,
    NUMBERS_PER_VERSION, NewRecord, NewStream, OpenQuestion, PhaseKey, Record, RecordFilter, RecordKind, ReportBatch,
    Status, Store, StoreError, StreamRecord, Write, Written,
};

use crate::register::Register;

/// Outcome of a writing transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed.
    Done,
    /// Not committed; the caller may try again.
    Unavailable,
    /// Not committed; no space.
    Full,
    /// Not committed; the caller hears that the outcome is unknown.
    UnknownNotDone,
    /// Committed; the caller hears that the outcome is unknown.
    UnknownDone,
}

/// A store in memory.
pub(crate) struct Model {
    streams: Mutex<BTreeMap<String, Kept>>,
    /// Decides the outcome of each writing transaction by its name.
    fate: Mutex<Fate>,
}

type Fate = Box<dyn FnMut(&'static str) -> Outcome + Send>;

/// A stream of the model.
#[derive(Clone, Debug)]
struct Kept {
    stream: StreamRecord,
    holder: Option<(String, u64)>,
    phases: Vec<KeptPhase>,
    register: Register,
    releases: Vec<Record>,
    said: Vec<Record>,
    acknowledged: BTreeMap<u64, Acknowledgement>,
    /// Numbers of the last release and the last answer.
    last: [u64; 2],
}

#[derive(Clone, Debug)]
struct KeptPhase {
    asked: OpenQuestion,
    closed: bool,
    seen: BTreeMap<ReportId, u64>,
    counts: BTreeMap<String, (u64, Aggregate)>,
}

impl fmt::Debug for Model {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Model").finish_non_exhaustive()
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new(|_| Outcome::Done)
    }
}

impl Model {
    /// Creates an empty store with a function that decides outcomes.
    pub(crate) fn new(fate: impl FnMut(&'static str) -> Outcome + Send + 'static) -> Self {
        Self { streams: Mutex::default(), fate: Mutex::new(Box::new(fate)) }
    }

    /// Replaces the function that decides outcomes.
    pub(crate) fn set_fate(&self, fate: impl FnMut(&'static str) -> Outcome + Send + 'static) {
        *self.fate.lock().unwrap() = Box::new(fate);
    }

    /// Copies the whole store, without faults.
    pub(crate) fn backup(&self) -> Self {
        let copy = Self::default();
        *copy.streams.lock().unwrap() = self.lock().clone();
        copy
    }

    /// Replaces the whole store by a backup.
    pub(crate) fn restore(&self, backup: &Self) {
        let streams = backup.lock().clone();
        *self.lock() = streams;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.streams.lock().unwrap()
    }

    /// Runs an atomic transaction on a copy.
    fn write<T>(
        &self,
        name: &'static str,
        streams: &[&str],
        work: impl FnOnce(&mut BTreeMap<String, Kept>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let outcome = (self.fate.lock().unwrap())(name);
        let mut kept = self.lock();
        match outcome {
            Outcome::Unavailable => return Err(StoreError::Unavailable("on demand".to_owned())),
            Outcome::Full => return Err(StoreError::Failed("full, on demand".to_owned())),
            Outcome::UnknownNotDone => return Err(StoreError::Unknown("on demand".to_owned())),
            Outcome::Done | Outcome::UnknownDone => {}
        }
        let mut copy: BTreeMap<_, _> = streams
            .iter()
            .filter_map(|name| kept.get_key_value(*name))
            .map(|(name, kept)| (name.clone(), kept.clone()))
            .collect();
        let done = work(&mut copy)?;
        kept.extend(copy);
        match outcome {
            Outcome::UnknownDone => Err(StoreError::Unknown("on demand".to_owned())),
            _ => Ok(done),
        }
    }

    fn change<T>(
        &self,
        name: &'static str,
        stream: &str,
        work: impl FnOnce(&mut Kept) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(name, &[stream], |streams| {
            work(streams.get_mut(stream).ok_or_else(|| StoreError::NoStream(stream.to_owned()))?)
        })
    }

    fn read<T>(&self, stream: &str, work: impl FnOnce(&Kept) -> T) -> Result<T, StoreError> {
        self.lock().get(stream).map(work).ok_or_else(|| StoreError::NoStream(stream.to_owned()))
    }
}

impl Kept {
    fn fence(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        let holds = (self.stream.epoch, self.stream.version) == (lease.epoch, version);
        if holds { Ok(()) } else { Err(StoreError::Stale(self.stream.name.clone())) }
    }

    fn phase(&mut self, timestamp: u64, phase: u16) -> Result<&mut KeptPhase, BatchRejection> {
        let is =
            |kept: &&mut KeptPhase| (kept.asked.question.timestamp, kept.asked.question.phase) == (timestamp, phase);
        let open = self.phases.iter_mut().find(is).filter(|phase| !phase.closed);
        open.ok_or(BatchRejection::NotOpen { timestamp, phase })
    }

    fn records(&self, records: RecordKind) -> &Vec<Record> {
        match records {
            RecordKind::Release => &self.releases,
            RecordKind::Answer => &self.said,
        }
    }
}

impl KeptPhase {
    fn take(&mut self, source: &str, intake: &ReportBatch) -> Result<Receipt, BatchRejection> {
        let oracle = self.asked.question.oracle().unwrap();
        for (position, (_, report, _)) in intake.iter().enumerate() {
            oracle
                .check(report)
                .map_err(|error| BatchRejection::Malformed(format!("report {position} of the batch: {error}")))?;
        }
        let mut receipt = Receipt::default();
        for (position, (id, report, digest)) in intake.iter().enumerate() {
            if intake.implausible.contains(&position) {
                receipt.implausible += 1;
                continue;
            }
            match self.seen.insert(id, digest) {
                None => {
                    receipt.accepted += 1;
                    let (offset, counts) =
                        self.counts.entry(source.to_owned()).or_insert_with(|| (0, oracle.aggregate()));
                    *offset += 1;
                    counts.add(report).unwrap();
                }
                Some(before) if before == digest => receipt.repeated += 1,
                Some(before) => {
                    self.seen.insert(id, before);
                    receipt.conflicting += 1;
                }
            }
        }
        Ok(receipt)
    }

    fn total(&self) -> Option<Aggregate> {
        let mut total = self.asked.question.oracle().unwrap().aggregate();
        self.counts.values().for_each(|(_, counts)| total.merge(counts).unwrap());
        (total.reports() > 0).then_some(total)
    }
}

impl Model {
    fn create_one(&self, new: &NewStream<'_>) -> Result<(), StoreError> {
        self.write("create", &[new.name], |streams| {
            if streams.contains_key(new.name) {
                return Err(StoreError::Exists(new.name.to_owned()));
            }
            let stream = StreamRecord {
                name: new.name.to_owned(),
                declaration: new.declaration.to_owned(),
                policy: new.policy.to_owned(),
                status: Status::Running,
                epoch: 0,
                version: 0,
                published: 0,
                state: new.state.to_vec(),
                open: Vec::new(),
            };
            let (releases, said, acknowledged) = (Vec::new(), Vec::new(), BTreeMap::new());
            let register = Register::default();
            let kept =
                Kept { stream, holder: None, phases: Vec::new(), register, releases, said, acknowledged, last: [0; 2] };
            streams.insert(new.name.to_owned(), kept);
            Ok(())
        })
    }

    fn lease_one(&self, stream: &str, holder: &str, now: u64, until: u64) -> Result<Option<Lease>, StoreError> {
        self.change("lease", stream, |kept| {
            match &kept.holder {
                Some((other, _)) if other == holder => {}
                Some((_, end)) if *end > now => return Ok(None),
                _ => kept.stream.epoch += 1,
            }
            kept.holder = Some((holder.to_owned(), until));
            Ok(Some(Lease { stream: stream.to_owned(), epoch: kept.stream.epoch }))
        })
    }

    fn release_one(&self, lease: &Lease) -> Result<(), StoreError> {
        self.change("release_lease", &lease.stream, |kept| {
            if kept.stream.epoch == lease.epoch {
                kept.holder = None;
            }
            Ok(())
        })
    }

    fn close_one(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError> {
        self.change("close", &lease.stream, |kept| {
            kept.fence(lease, version)?;
            kept.phases.iter_mut().for_each(|phase| phase.closed = true);
            Ok(kept.phases.iter().map(KeptPhase::total).collect())
        })
    }

    fn advance_one(&self, lease: &Lease, advance: &Advance) -> Result<(), StoreError> {
        self.change("advance", &lease.stream, |kept| {
            kept.fence(lease, advance.version)?;
            if !kept.register.is_known(advance.members) {
                return Err(StoreError::Stale(lease.stream.clone()));
            }
            kept.stream.version += 1;
            kept.stream.state = advance.state.to_vec();
            let before = std::mem::take(&mut kept.phases);
            for asked in &advance.open {
                let asked = asked.clone();
                kept.phases.push(match before.iter().find(|phase| phase.asked.question == asked.question) {
                    Some(phase) => KeptPhase { asked, ..phase.clone() },
                    None => KeptPhase { asked, closed: false, seen: BTreeMap::new(), counts: BTreeMap::new() },
                });
            }
            let version = kept.stream.version;
            let add = |records: &mut Vec<Record>, last: &mut u64, new: &[NewRecord]| {
                for NewRecord { timestamp, body } in new {
                    *last += 1;
                    let (number, timestamp, body) = (*last, *timestamp, body.clone());
                    records.push(Record { number, version, timestamp, body });
                }
            };
            add(&mut kept.releases, &mut kept.last[0], &advance.releases);
            add(&mut kept.said, &mut kept.last[1], &advance.answers);
            if let Some(before) = advance.forget {
                let published = kept.stream.published;
                for records in [&mut kept.releases, &mut kept.said] {
                    records.retain(|record| record.timestamp >= before || record.version > published);
                }
                let first = kept.said.first().map_or(u64::MAX, |record| record.number);
                kept.acknowledged.retain(|number, _| *number >= first);
            }
            Ok(())
        })
    }

    fn publish_one(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        self.change("publish", &lease.stream, |kept| {
            if kept.stream.epoch != lease.epoch || version > kept.stream.version {
                return Err(StoreError::Stale(lease.stream.clone()));
            }
            kept.stream.published = kept.stream.published.max(version);
            Ok(())
        })
    }
}

impl Store for Model {
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>> {
        let each = |write: &Write<'_>| match write {
            Write::Create(new) => self.create_one(new).map(|()| Written::Done),
            Write::Lease { stream, holder, now, until } => {
                self.lease_one(stream, holder, *now, *until).map(Written::Lease)
            }
            Write::ReleaseLease(lease) => self.release_one(lease).map(|()| Written::Done),
            Write::Close { lease, version, .. } => {
                let counts = self.close_one(lease, *version)?;
                Ok(Written::Counts(counts.into_iter().map(Counted::whole).collect()))
            }
            Write::Advance { lease, next } => self.advance_one(lease, next).map(|()| Written::Done),
            Write::Publish { lease, version } => self.publish_one(lease, *version).map(|()| Written::Done),
        };
        writes.iter().map(each).collect()
    }

    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        self.change("redeclare", stream, |kept| {
            if kept.stream.declaration != earlier {
                return Err(StoreError::Changed(stream.to_owned()));
            }
            kept.stream.declaration = declaration.to_owned();
            Ok(())
        })
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.lock().keys().cloned().collect())
    }

    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError> {
        self.read(stream, |kept| StreamRecord {
            open: kept.phases.iter().map(|phase| phase.asked.clone()).collect(),
            ..kept.stream.clone()
        })
    }

    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError> {
        self.read(stream, |kept| (kept.stream.status, kept.stream.version))
    }

    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError> {
        self.change("set_status", stream, |kept| {
            if kept.stream.status == Status::Retired && status != Status::Retired {
                return Err(StoreError::Retired(stream.to_owned()));
            }
            kept.stream.status = status;
            Ok(())
        })
    }

    fn accept(
        &self,
        source: &str,
        batches: &[ReportBatch],
    ) -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError> {
        let names: Vec<_> = batches.iter().map(|intake| &*intake.stream).collect();
        self.write("accept", &names, |streams| {
            let take = |intake: &ReportBatch| {
                let kept = streams.get_mut(&*intake.stream).ok_or(BatchRejection::NoStream)?;
                kept.phase(intake.timestamp, intake.phase)?.take(source, intake)
            };
            Ok(batches.iter().map(take).collect())
        })
    }

    fn merge(
        &self,
        key: &PhaseKey,
        source: &str,
        range: Range<u64>,
        more: &Aggregate,
    ) -> Result<MergeOutcome, StoreError> {
        self.write("merge", &[&key.stream], |streams| {
            let kept = streams.get_mut(&key.stream).ok_or(BatchRejection::NoStream)?;
            let phase = kept.phase(key.timestamp, key.phase)?;
            let nothing = (0, phase.asked.question.oracle().unwrap().aggregate());
            let (offset, counts) = phase.counts.get(source).cloned().unwrap_or(nothing);
            if range.end <= offset {
                return Ok(MergeOutcome::AlreadyCounted);
            }
            if range.start != offset {
                let (counted, start) = (offset, range.start);
                return Err(StoreError::Range { source_name: source.to_owned(), counted, start });
            }
            let mut sum = counts;
            sum.merge(more).map_err(|error| BatchRejection::Malformed(error.to_string()))?;
            phase.counts.insert(source.to_owned(), (range.end, sum));
            Ok(MergeOutcome::Counted)
        })
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.change("replace_state", stream, |kept| {
            if version <= kept.stream.version {
                return Err(StoreError::Stale(stream.to_owned()));
            }
            let left_out = (version - kept.stream.version).saturating_mul(NUMBERS_PER_VERSION);
            let last = kept.last.map(|last| last.saturating_add(left_out));
            if last.iter().any(|last| *last > i64::MAX.unsigned_abs()) {
                return Err(StoreError::Failed("no number is left".to_owned()));
            }
            kept.last = last;
            kept.stream.version = version;
            kept.stream.epoch += 1;
            kept.stream.state = state.to_vec();
            kept.holder = None;
            kept.phases.clear();
            Ok(())
        })
    }

    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError> {
        self.change("change_members", stream, |kept| {
            if kept.stream.version != changes.version {
                return Err(StoreError::Stale(stream.to_owned()));
            }
            if kept.stream.status == Status::Retired {
                return Err(StoreError::Retired(stream.to_owned()));
            }
            kept.register.change(changes);
            Ok(())
        })
    }

    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError> {
        self.read(stream, |kept| kept.register.page(filter))
    }

    fn records(&self, stream: &str, records: RecordKind, wanted: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.read(stream, |kept| {
            let published = kept.stream.published;
            let is_wanted = |record: &&Record| {
                record.version <= published
                    && record.number > wanted.after
                    && (wanted.from..=wanted.to).contains(&record.timestamp)
            };
            kept.records(records).iter().filter(is_wanted).take(wanted.limit).cloned().collect()
        })
    }

    fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError> {
        let all = RecordFilter { limit: usize::MAX, ..RecordFilter::default() };
        let later = usize::try_from(later).unwrap_or(usize::MAX);
        Ok(self.records(stream, kind, &all)?.iter().rev().nth(later).map_or(0, |record| record.number))
    }

    fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        let all = RecordFilter { after, limit: usize::MAX, ..RecordFilter::default() };
        let mut found = self.records(stream, RecordKind::Answer, &all)?;
        found.retain(|record| record.number < before && record.body.contains(",\"monitor\":\""));
        Ok(found.into_iter().rev().take(limit).collect())
    }

    fn acknowledge(&self, stream: &str, new: &Acknowledgement) -> Result<Option<Acknowledgement>, StoreError> {
        self.change("acknowledge", stream, |kept| {
            let published = kept.stream.published;
            if !kept.said.iter().any(|record| record.number == new.number && record.version <= published) {
                return Ok(None);
            }
            Ok(Some(kept.acknowledged.entry(new.number).or_insert_with(|| new.clone()).clone()))
        })
    }

    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError> {
        self.read(stream, |kept| kept.acknowledged.range(from..).map(|(_, found)| found.clone()).collect())
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", &[], |_| Ok(()))
    }
}

#[test]
fn the_model_fails_on_demand() {
    let model = Model::default();
    let create = |name| model.create(&NewStream { name, declaration: "", policy: "", state: b"" });
    create("a").unwrap();
    let backup = model.backup();
    model.set_fate(|transaction| if transaction == "create" { Outcome::UnknownDone } else { Outcome::Done });
    assert!(matches!(create("b"), Err(StoreError::Unknown(_))));
    model.set_status("b", Status::Paused).unwrap();
    model.set_fate(|_| Outcome::UnknownNotDone);
    assert!(matches!(create("c"), Err(StoreError::Unknown(_))));
    model.set_fate(|_| Outcome::Full);
    assert!(matches!(create("c"), Err(StoreError::Failed(_))));
    model.set_fate(|_| Outcome::Unavailable);
    assert!(matches!(create("c"), Err(StoreError::Unavailable(_))));
    assert_eq!(model.names().unwrap(), ["a", "b"]);
    model.restore(&backup);
    assert_eq!(model.names().unwrap(), ["a"]);
}
