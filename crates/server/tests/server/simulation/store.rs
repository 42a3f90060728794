//! [`MemoryStore`]: a store in memory with atomic transactions, which can break a rule on purpose.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::Aggregate;
use tidegate_server::store::{
    Acknowledgement, Advance, BatchRejection, Counted, Lease, MemberChanges, MemberFilter, MemberPage, MergeOutcome,
    NUMBERS_PER_VERSION, NewRecord, NewStream, OpenQuestion, PhaseKey, Record, RecordFilter, RecordKind, ReportBatch,
    Status, Store, StoreError, StreamRecord, Write, Written,
};

use super::dice::Dice;
use crate::register::Register;

/// Rule that the store breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Breaks {
    /// None.
    #[default]
    Nothing,
    /// Publishes before it commits the cost, with a crash in between.
    PublishesFirst,
    /// Loses acknowledged transactions when the machine stops.
    LosesCommits,
    /// Ignores epoch and version.
    DoesNotFence,
    /// Counts an identity each time.
    CountsRepetitions,
    /// Deletes identities with their phase, and accepts reports for a closed phase.
    ForgetsWhatIsOver,
    /// Acknowledges a group before it is durable: the last one is lost when the machine stops.
    AcknowledgesEarly,
    /// Publishes releases with their group, before the marks are raised.
    PublishesBeforeMarks,
    /// Gives each stream of a group the counts of the next one.
    MixesUpCounts,
    /// Numbers records from the backup on when a stream begins anew.
    ReusesNumbers,
    /// Changes classes at timestamps that have begun.
    ChangesWhatHasBegun,
    /// Lets users who move count in their new class at once.
    MovesAtOnce,
    /// Acknowledges changes of classes before they are durable: the last one is lost when the machine stops.
    LosesMembers,
    /// Deletes a timestamp more than the retention says.
    DeletesTooMuch,
    /// Numbers records by how many there are, also after some were deleted.
    CountsWhatIsLeft,
}

/// Reports for an open question.
#[derive(Clone, Debug, Default)]
struct Came {
    identities: BTreeMap<[u8; 16], u64>,
    counts: Option<Aggregate>,
    sources: BTreeMap<String, u64>,
}

#[derive(Clone, Debug)]
struct Row {
    stream: StreamRecord,
    holder: Option<(String, u64)>,
    closed: bool,
    came: Vec<Came>,
    releases: Vec<Record>,
    said: Vec<Record>,
    acknowledged: BTreeMap<u64, Acknowledgement>,
    /// Numbers that are left out before the next records, since another store may have published them.
    left_out: u64,
    /// How many releases and answers were deleted.
    deleted: [u64; 2],
    register: Register,
    /// The registry before the last change, where that is not durable.
    durable: Option<Register>,
}

impl Row {
    /// Deletes published records of timestamps before this one.
    fn forget(&mut self, before: u64, breaks: Breaks) {
        let published = self.stream.published;
        for (records, deleted) in [&mut self.releases, &mut self.said].into_iter().zip(&mut self.deleted) {
            let all = records.len();
            records.retain(|record| record.timestamp >= before || record.version > published);
            if breaks != Breaks::CountsWhatIsLeft {
                *deleted += (all - records.len()) as u64;
            }
        }
        let said = &self.said;
        self.acknowledged.retain(|number, _| said.iter().any(|record| record.number == *number));
    }
}

type Image = BTreeMap<String, Row>;

#[derive(Debug)]
struct Inside {
    image: Image,
    /// State before the last few transactions.
    before: VecDeque<Image>,
    /// State before the last group, where that is not durable.
    unsynced: Option<Image>,
    backup: Option<Image>,
    dice: Dice,
}

/// A store in memory, with backups.
#[derive(Debug)]
pub(super) struct MemoryStore {
    breaks: Breaks,
    inside: Mutex<Inside>,
}

impl MemoryStore {
    pub(super) fn new(breaks: Breaks, seed: u64) -> Self {
        let dice = Dice::new(seed, 77);
        let inside = Inside { image: Image::new(), before: VecDeque::new(), unsynced: None, backup: None, dice };
        Self { breaks, inside: Mutex::new(inside) }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the machine. A correct store keeps everything.
    pub(super) fn crash(&self) {
        let inside = &mut *self.lock();
        if let Some(durable) = inside.unsynced.take() {
            inside.image = durable;
        }
        for row in inside.image.values_mut() {
            if let Some(durable) = row.durable.take() {
                row.register = durable;
            }
        }
        if self.breaks == Breaks::LosesCommits {
            for _ in 0..inside.dice.below(4) {
                if let Some(before) = inside.before.pop_back() {
                    inside.image = before;
                }
            }
        }
    }

    /// Makes a backup, which replaces the last.
    pub(super) fn back_up(&self) {
        let inside = &mut *self.lock();
        inside.backup = Some(inside.image.clone());
    }

    /// Restores the last backup.
    pub(super) fn restore(&self) {
        let inside = &mut *self.lock();
        if let Some(backup) = &inside.backup {
            inside.image = backup.clone();
            inside.before.clear();
            inside.unsynced = None;
        }
    }

    /// Changes the state of a stream, as a bad disk would.
    pub(super) fn damage(&self, stream: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(row) = self.lock().image.get_mut(stream) {
            change(&mut row.stream.state);
        }
    }

    /// Runs a transaction on a stream. It refuses before any change.
    fn write<T>(&self, stream: &str, change: impl FnOnce(&mut Row) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let inside = &mut *self.lock();
        let before = (self.breaks == Breaks::LosesCommits).then(|| inside.image.clone());
        let row = inside.image.get_mut(stream).ok_or_else(|| StoreError::NoStream(stream.to_owned()))?;
        let done = change(row)?;
        if let Some(before) = before {
            inside.before.push_back(before);
            if inside.before.len() > 4 {
                inside.before.pop_front();
            }
        }
        Ok(done)
    }

    fn read<T>(&self, stream: &str, look: impl FnOnce(&Row) -> T) -> Result<T, StoreError> {
        self.lock().image.get(stream).map(look).ok_or_else(|| StoreError::NoStream(stream.to_owned()))
    }

    fn fence(&self, row: &Row, lease: &Lease, version: Option<u64>) -> Result<(), StoreError> {
        let is_current = row.stream.epoch == lease.epoch && version.is_none_or(|version| version == row.stream.version);
        if is_current || self.breaks == Breaks::DoesNotFence {
            Ok(())
        } else {
            Err(StoreError::Stale(lease.stream.clone()))
        }
    }

    fn take(&self, row: &mut Row, intake: &ReportBatch) -> Result<Receipt, BatchRejection> {
        let (timestamp, phase) = (intake.timestamp, intake.phase);
        let is_it = |open: &OpenQuestion| open.question.timestamp == timestamp && open.question.phase == phase;
        let Some(position) = row.stream.open.iter().position(is_it) else {
            if self.breaks == Breaks::ForgetsWhatIsOver && row.stream.version > 0 {
                return Ok(Receipt { accepted: intake.len() as u64, ..Receipt::default() });
            }
            return Err(BatchRejection::NotOpen { timestamp, phase });
        };
        if row.closed {
            return Err(BatchRejection::NotOpen { timestamp, phase });
        }
        let malformed = |problem: String| BatchRejection::Malformed(problem);
        let oracle = row.stream.open[position].question.oracle().map_err(|error| malformed(error.to_string()))?;
        for (index, (_, report, _)) in intake.iter().enumerate() {
            if !intake.implausible.contains(&index) {
                oracle.check(report).map_err(|error| malformed(error.to_string()))?;
            }
        }
        let mut receipt = Receipt::default();
        let came = &mut row.came[position];
        let counts = came.counts.get_or_insert_with(|| oracle.aggregate());
        for (index, (id, report, digest)) in intake.iter().enumerate() {
            if intake.implausible.contains(&index) {
                receipt.implausible += 1;
                continue;
            }
            match came.identities.get(id.as_bytes()) {
                Some(before) if self.breaks != Breaks::CountsRepetitions => {
                    if *before == digest {
                        receipt.repeated += 1;
                    } else {
                        receipt.conflicting += 1;
                    }
                    continue;
                }
                _ => {}
            }
            came.identities.insert(*id.as_bytes(), digest);
            counts.add(report).map_err(|error| malformed(error.to_string()))?;
            receipt.accepted += 1;
        }
        Ok(receipt)
    }
}

/// Transactions of one stream.
impl MemoryStore {
    fn create_one(&self, new: &NewStream<'_>) -> Result<(), StoreError> {
        let inside = &mut *self.lock();
        if inside.image.contains_key(new.name) {
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
        let (came, releases, said) = (Vec::new(), Vec::new(), Vec::new());
        let register = Register::new(self.breaks == Breaks::MovesAtOnce);
        let row = Row {
            stream,
            holder: None,
            closed: false,
            came,
            releases,
            said,
            acknowledged: BTreeMap::new(),
            register,
            durable: None,
            left_out: 0,
            deleted: [0; 2],
        };
        inside.image.insert(new.name.to_owned(), row);
        Ok(())
    }

    fn lease_one(&self, stream: &str, holder: &str, now: u64, until: u64) -> Result<Option<Lease>, StoreError> {
        self.write(stream, |row| {
            match &row.holder {
                Some((held_by, _)) if held_by == holder => {}
                Some((_, held_until)) if *held_until > now => return Ok(None),
                _ => row.stream.epoch += 1,
            }
            row.holder = Some((holder.to_owned(), until));
            Ok(Some(Lease { stream: stream.to_owned(), epoch: row.stream.epoch }))
        })
    }

    fn release_one(&self, lease: &Lease) -> Result<(), StoreError> {
        self.write(&lease.stream, |row| {
            if row.stream.epoch == lease.epoch {
                row.holder = None;
            }
            Ok(())
        })
    }

    fn close_one(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError> {
        self.write(&lease.stream, |row| {
            self.fence(row, lease, Some(version))?;
            row.closed = true;
            Ok(row.came.iter().map(|came| came.counts.clone()).collect())
        })
    }

    fn advance_one(&self, lease: &Lease, advance: &Advance) -> Result<(), StoreError> {
        if self.breaks == Breaks::PublishesFirst && !advance.releases.is_empty() {
            let version = self.write(&lease.stream, |row| {
                self.fence(row, lease, Some(advance.version))?;
                let version = advance.version + 1;
                row.stream.published = version;
                number(&mut row.releases, row.left_out + row.deleted[0], &advance.releases, version);
                Ok(version)
            })?;
            if self.lock().dice.chance(1, 8) {
                return Err(StoreError::Unknown(format!("stopped between publishing and paying for {version}")));
            }
        }
        self.write(&lease.stream, |row| {
            self.fence(row, lease, Some(advance.version))?;
            if !row.register.is_known(advance.members) && self.breaks != Breaks::ChangesWhatHasBegun {
                return Err(StoreError::Stale(lease.stream.clone()));
            }
            row.stream.version = advance.version + 1;
            row.stream.state = advance.state.to_vec();
            row.stream.open = advance.open.to_vec();
            row.closed = false;
            row.came = vec![Came::default(); advance.open.len()];
            if self.breaks != Breaks::PublishesFirst {
                number(&mut row.releases, row.left_out + row.deleted[0], &advance.releases, row.stream.version);
            }
            number(&mut row.said, row.left_out + row.deleted[1], &advance.answers, row.stream.version);
            if let Some(before) = advance.forget {
                row.forget(before + u64::from(self.breaks == Breaks::DeletesTooMuch), self.breaks);
            }
            if self.breaks == Breaks::PublishesBeforeMarks && !advance.releases.is_empty() {
                row.stream.published = row.stream.version;
            }
            Ok(())
        })
    }

    fn publish_one(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        self.write(&lease.stream, |row| {
            self.fence(row, lease, None)?;
            if version > row.stream.version {
                return Err(StoreError::Stale(lease.stream.clone()));
            }
            row.stream.published = row.stream.published.max(version);
            Ok(())
        })
    }

    fn apply(&self, write: &Write<'_>) -> Result<Written, StoreError> {
        match write {
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
        }
    }
}

/// Appends records with their numbers, after those that were left out or deleted.
fn number(records: &mut Vec<Record>, left_out: u64, new: &[NewRecord], version: u64) {
    for NewRecord { timestamp, body } in new {
        let number = records.len() as u64 + 1 + left_out;
        records.push(Record { number, version, timestamp: *timestamp, body: body.clone() });
    }
}

impl Store for MemoryStore {
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>> {
        if self.breaks == Breaks::AcknowledgesEarly {
            let inside = &mut *self.lock();
            inside.unsynced = Some(inside.image.clone());
        }
        let mut outcomes: Vec<_> = writes.iter().map(|write| self.apply(write)).collect();
        if self.breaks == Breaks::MixesUpCounts {
            let counts = outcomes.iter_mut().filter(|outcome| matches!(outcome, Ok(Written::Counts(_))));
            let mut counts: Vec<_> = counts.collect();
            for place in 1..counts.len() {
                let (before, after) = counts.split_at_mut(place);
                std::mem::swap(before[place - 1], after[0]);
            }
        }
        outcomes
    }

    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        self.write(stream, |row| {
            if row.stream.declaration != earlier {
                return Err(StoreError::Changed(stream.to_owned()));
            }
            row.stream.declaration = declaration.to_owned();
            Ok(())
        })
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.lock().image.keys().cloned().collect())
    }

    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError> {
        self.read(stream, |row| row.stream.clone())
    }

    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError> {
        self.read(stream, |row| (row.stream.status, row.stream.version))
    }

    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError> {
        self.write(stream, |row| {
            if row.stream.status == Status::Retired {
                return Err(StoreError::Retired(stream.to_owned()));
            }
            row.stream.status = status;
            Ok(())
        })
    }

    fn accept(
        &self,
        _source: &str,
        batches: &[ReportBatch],
    ) -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError> {
        // Its sync includes what was written before.
        self.lock().unsynced = None;
        let mut receipts = Vec::with_capacity(batches.len());
        for intake in batches {
            receipts.push(match self.write(&intake.stream, |row| Ok(self.take(row, intake))) {
                Ok(taken) => taken,
                Err(StoreError::NoStream(_)) => Err(BatchRejection::NoStream),
                Err(error) => return Err(error),
            });
        }
        Ok(receipts)
    }

    fn merge(
        &self,
        phase: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<MergeOutcome, StoreError> {
        self.write(&phase.stream, |row| {
            let not_open = BatchRejection::NotOpen { timestamp: phase.timestamp, phase: phase.phase };
            let is_it =
                |open: &OpenQuestion| open.question.timestamp == phase.timestamp && open.question.phase == phase.phase;
            let position = row.stream.open.iter().position(is_it).filter(|_| !row.closed).ok_or(not_open)?;
            let malformed = |problem: String| BatchRejection::Malformed(problem);
            let oracle = row.stream.open[position].question.oracle().map_err(|error| malformed(error.to_string()))?;
            let came = &mut row.came[position];
            let counted = came.sources.get(source).copied().unwrap_or(0);
            if range.end <= counted {
                return Ok(MergeOutcome::AlreadyCounted);
            }
            if range.start != counted {
                let source_name = source.to_owned();
                return Err(StoreError::Range { source_name, counted, start: range.start });
            }
            let own = came.counts.get_or_insert_with(|| oracle.aggregate());
            own.merge(counts).map_err(|error| malformed(error.to_string()))?;
            came.sources.insert(source.to_owned(), range.end);
            Ok(MergeOutcome::Counted)
        })
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.write(stream, |row| {
            if version <= row.stream.version {
                return Err(StoreError::Stale(stream.to_owned()));
            }
            if self.breaks != Breaks::ReusesNumbers {
                row.left_out += (version - row.stream.version) * NUMBERS_PER_VERSION;
            }
            (row.stream.version, row.stream.epoch) = (version, row.stream.epoch + 1);
            row.stream.state = state.to_vec();
            row.stream.open.clear();
            row.came.clear();
            (row.holder, row.closed) = (None, false);
            Ok(())
        })
    }

    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError> {
        self.write(stream, |row| {
            if row.stream.version != changes.version && self.breaks != Breaks::ChangesWhatHasBegun {
                return Err(StoreError::Stale(stream.to_owned()));
            }
            if row.stream.status == Status::Retired {
                return Err(StoreError::Retired(stream.to_owned()));
            }
            if self.breaks == Breaks::LosesMembers {
                row.durable = Some(row.register.clone());
            }
            row.register.change(changes);
            Ok(())
        })
    }

    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError> {
        self.read(stream, |row| row.register.page(filter))
    }

    fn records(&self, stream: &str, records: RecordKind, wanted: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.read(stream, |row| {
            let all = match records {
                RecordKind::Release => &row.releases,
                RecordKind::Answer => &row.said,
            };
            let is_wanted = |record: &&Record| {
                record.version <= row.stream.published
                    && record.number > wanted.after
                    && (wanted.from..=wanted.to).contains(&record.timestamp)
            };
            all.iter().filter(is_wanted).take(wanted.limit).cloned().collect()
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
        self.write(stream, |row| {
            let published = row.stream.published;
            if !row.said.iter().any(|record| record.number == new.number && record.version <= published) {
                return Ok(None);
            }
            Ok(Some(row.acknowledged.entry(new.number).or_insert_with(|| new.clone()).clone()))
        })
    }

    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError> {
        self.read(stream, |row| row.acknowledged.range(from..).map(|(_, found)| found.clone()).collect())
    }

    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
