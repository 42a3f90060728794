//! Rows, checksums and rules that both stores share.

use std::hash::Hasher;
use std::ops::Range;

use siphasher::sip::SipHasher24;
use tidegate_kernel::oracle::{Aggregate, AggregateError, MalformedReport, Oracle};

use super::{
    Advance, BatchRejection, Lease, MergeOutcome, NUMBERS_PER_VERSION, NewStream, OpenQuestion, Record, RecordKind,
    ReportBatch, Status, StoreError, StreamRecord,
};

/// Columns of a stream's row, in the order of [`StreamRow::read`].
macro_rules! stream_columns {
    () => {
        "number, name, declaration, policy, status, epoch, holder, until, version, published, releases, answers, \
         open, releases_kept, answers_kept, sum"
    };
}
pub(super) use stream_columns;

/// The same in the first schema, in the order of [`StreamRow::read_first`].
macro_rules! first_stream_columns {
    () => {
        "number, name, declaration, policy, status, epoch, holder, until, version, published, releases, said, open, sum"
    };
}
pub(super) use first_stream_columns;

/// Columns of a record's row, in the order of [`read_record`].
macro_rules! record_columns {
    () => {
        "number, version, timestamp, body, sum"
    };
}
pub(super) use record_columns;

/// A row that a database returned.
pub(super) trait Columns {
    type Fault: From<StoreError>;

    fn integer(&self, column: usize) -> Result<i64, Self::Fault>;
    fn text(&self, column: usize) -> Result<String, Self::Fault>;
    fn optional_text(&self, column: usize) -> Result<Option<String>, Self::Fault>;
    fn bytes(&self, column: usize) -> Result<Vec<u8>, Self::Fault>;
    fn flag(&self, column: usize) -> Result<bool, Self::Fault>;

    fn number(&self, column: usize) -> Result<u64, Self::Fault> {
        Ok(unsigned(self.integer(column)?)?)
    }
}

/// Computes the checksum of a row, over all its columns. It also finds rows that were moved.
pub(super) fn sum(parts: &[&[u8]]) -> i64 {
    let mut hasher = SipHasher24::new_with_key(b"tidegate: stored");
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish().cast_signed()
}

/// Verifies a checksum.
pub(super) fn check(found: i64, expected: i64, what: impl FnOnce() -> String) -> Result<(), StoreError> {
    if found == expected { Ok(()) } else { Err(StoreError::Damaged(format!("{} has another checksum", what()))) }
}

/// Converts a number for a database, which has signed ones only.
pub(super) fn signed(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value)
        .map_err(|_| StoreError::Failed(format!("{value} exceeds {}, the largest number of a store", i64::MAX)))
}

/// Converts a bound, where no stored number is larger.
pub(super) fn bound(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| StoreError::Damaged(format!("{value} where no number is negative")))
}

/// Row of a stream: everything but its state, questions and records.
#[derive(Clone, Debug)]
pub(super) struct StreamRow {
    pub(super) number: i64,
    pub(super) name: String,
    pub(super) declaration: String,
    pub(super) policy: String,
    pub(super) status: Status,
    pub(super) epoch: u64,
    pub(super) holder: Option<String>,
    /// End of the lease, in milliseconds since 1970.
    pub(super) until: u64,
    pub(super) version: u64,
    pub(super) published: u64,
    /// Number of the last release. It never goes back.
    pub(super) releases: u64,
    /// Number of the last answer. It never goes back.
    pub(super) answers: u64,
    /// How many questions there are; this and the next two find rows that were lost.
    pub(super) open: u64,
    /// How many releases there are.
    pub(super) releases_kept: u64,
    /// How many answers there are.
    pub(super) answers_kept: u64,
}

/// Longest lease, in milliseconds.
const MAX_LEASE: u64 = 3_600_000;

impl StreamRow {
    pub(super) fn new(stream: &NewStream<'_>) -> Self {
        Self {
            number: 0,
            name: stream.name.to_owned(),
            declaration: stream.declaration.to_owned(),
            policy: stream.policy.to_owned(),
            status: Status::Running,
            epoch: 0,
            holder: None,
            until: 0,
            version: 0,
            published: 0,
            releases: 0,
            answers: 0,
            open: 0,
            releases_kept: 0,
            answers_kept: 0,
        }
    }

    /// Reads a row of [`stream_columns`], and verifies its checksum.
    pub(super) fn read<C: Columns>(row: &C) -> Result<Self, C::Fault> {
        let stream =
            Self { releases_kept: row.number(13)?, answers_kept: row.number(14)?, ..Self::read_unchecked(row)? };
        check(row.integer(15)?, stream.sum(), || format!("stream {}", stream.name))?;
        Ok(stream)
    }

    /// Reads a row of [`first_stream_columns`], and verifies its checksum. There, every record is still kept.
    pub(super) fn read_first<C: Columns>(row: &C) -> Result<Self, C::Fault> {
        let stream = Self::read_unchecked(row)?;
        check(row.integer(13)?, stream.sum_of(&stream.first_numbers()), || format!("stream {}", stream.name))?;
        Ok(Self { releases_kept: stream.releases, answers_kept: stream.answers, ..stream })
    }

    fn read_unchecked<C: Columns>(row: &C) -> Result<Self, C::Fault> {
        let status = row.text(4)?;
        Ok(Self {
            number: row.integer(0)?,
            name: row.text(1)?,
            declaration: row.text(2)?,
            policy: row.text(3)?,
            status: Status::ALL
                .into_iter()
                .find(|known| known.name() == status)
                .ok_or_else(|| StoreError::Damaged(format!("{status:?} is no status")))?,
            epoch: row.number(5)?,
            holder: row.optional_text(6)?,
            until: row.number(7)?,
            version: row.number(8)?,
            published: row.number(9)?,
            releases: row.number(10)?,
            answers: row.number(11)?,
            open: row.number(12)?,
            releases_kept: 0,
            answers_kept: 0,
        })
    }

    fn first_numbers(&self) -> [u64; 7] {
        [self.epoch, self.until, self.version, self.published, self.releases, self.answers, self.open]
    }

    /// Computes the checksum. It leaves out the row's number, which the database assigns.
    pub(super) fn sum(&self) -> i64 {
        self.sum_of(&[&self.first_numbers()[..], &[self.releases_kept, self.answers_kept]].concat())
    }

    fn sum_of(&self, numbers: &[u64]) -> i64 {
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let holder = self.holder.as_ref().map_or(&b""[..], |holder| holder.as_bytes());
        let (declaration, policy) = (self.declaration.as_bytes(), self.policy.as_bytes());
        let held = [u8::from(self.holder.is_some())];
        sum(&[self.name.as_bytes(), declaration, policy, self.status.name().as_bytes(), &held, holder, &numbers])
    }

    /// Reads a state of columns body and sum, and verifies its checksum.
    pub(super) fn read_state<C: Columns>(&self, row: Option<&C>) -> Result<Vec<u8>, C::Fault> {
        let row = row.ok_or_else(|| StoreError::Damaged(format!("the state of stream {} is gone", self.name)))?;
        let state = row.bytes(0)?;
        check(row.integer(1)?, self.state_sum(&state), || format!("the state of stream {}", self.name))?;
        Ok(state)
    }

    pub(super) fn state_sum(&self, state: &[u8]) -> i64 {
        sum(&[b"state", self.name.as_bytes(), &self.version.to_le_bytes(), state])
    }

    pub(super) fn into_record(self, state: Vec<u8>, questions: Vec<QuestionRow>) -> StreamRecord {
        let open = questions.into_iter().map(|row| row.asked).collect();
        let Self { name, declaration, policy, status, epoch, version, published, .. } = self;
        StreamRecord { name, declaration, policy, status, epoch, version, published, state, open }
    }

    /// Verifies that no question was lost.
    pub(super) fn check_questions(&self, questions: &[QuestionRow]) -> Result<(), StoreError> {
        if questions.len() as u64 == self.open {
            return Ok(());
        }
        let (name, expected, found) = (&self.name, self.open, questions.len());
        Err(StoreError::Damaged(format!("stream {name} has {expected} questions, but {found} are there")))
    }

    /// Replaces the declaration, if it is still the one that was read.
    pub(super) fn redeclare(&mut self, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        if self.declaration != earlier {
            return Err(StoreError::Changed(self.name.clone()));
        }
        declaration.clone_into(&mut self.declaration);
        Ok(())
    }

    pub(super) fn set_status(&mut self, status: Status) -> Result<(), StoreError> {
        if self.status == Status::Retired && status != Status::Retired {
            return Err(StoreError::Retired(self.name.clone()));
        }
        self.status = status;
        Ok(())
    }

    /// Gives the lease to a holder, unless another has it.
    pub(super) fn lease(&mut self, holder: &str, now: u64, until: u64) -> Option<Lease> {
        if self.holder.as_deref() != Some(holder) {
            // A lease that ends this late was taken by a wrong clock. The new epoch fences its holder off.
            if self.holder.is_some() && self.until > now && self.until - now <= MAX_LEASE {
                return None;
            }
            self.epoch += 1;
            self.holder = Some(holder.to_owned());
        }
        self.until = until;
        Some(Lease { stream: self.name.clone(), epoch: self.epoch })
    }

    /// Ends a lease, if it is still held.
    pub(super) fn release_lease(&mut self, lease: &Lease) {
        if self.epoch == lease.epoch && self.holder.is_some() {
            (self.holder, self.until) = (None, 0);
        }
    }

    fn stale<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Stale(self.name.clone()))
    }

    /// Checks the fencing token and the version.
    pub(super) fn fence(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        if (self.epoch, self.version) == (lease.epoch, version) { Ok(()) } else { self.stale() }
    }

    /// Increments the version. Returns the new records with their numbers.
    pub(super) fn advance(
        &mut self,
        lease: &Lease,
        advance: &Advance,
    ) -> Result<Vec<(RecordKind, Record)>, StoreError> {
        self.fence(lease, advance.version)?;
        signed(self.version + 1)?;
        self.version += 1;
        self.open = advance.open.len() as u64;
        let mut records = Vec::with_capacity(advance.releases.len() + advance.answers.len());
        for (kind, new, last, kept) in [
            (RecordKind::Release, &advance.releases, &mut self.releases, &mut self.releases_kept),
            (RecordKind::Answer, &advance.answers, &mut self.answers, &mut self.answers_kept),
        ] {
            if new.len() as u64 > NUMBERS_PER_VERSION {
                return Err(StoreError::Failed(format!("a version has at most {NUMBERS_PER_VERSION} records")));
            }
            for record in new {
                *last += 1;
                *kept += 1;
                let (timestamp, body) = (record.timestamp, record.body.clone());
                records.push((kind, Record { number: *last, version: self.version, timestamp, body }));
            }
        }
        Ok(records)
    }

    /// Notes that records of a kind were deleted.
    pub(super) fn forget(&mut self, kind: RecordKind, deleted: u64) -> Result<(), StoreError> {
        let kept = match kind {
            RecordKind::Release => &mut self.releases_kept,
            RecordKind::Answer => &mut self.answers_kept,
        };
        let left = kept.checked_sub(deleted);
        *kept = left.ok_or_else(|| StoreError::Damaged(format!("{} has too many records", self.name)))?;
        Ok(())
    }

    /// Publishes up to a version.
    pub(super) fn publish(&mut self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        if self.epoch != lease.epoch || version > self.version {
            return self.stale();
        }
        self.published = self.published.max(version);
        Ok(())
    }

    /// Moves to a later version under a new epoch that nobody holds. The numbers of records that the versions in
    /// between may have published are left out.
    pub(super) fn replace_state(&mut self, version: u64) -> Result<(), StoreError> {
        if version <= self.version {
            return self.stale();
        }
        signed(version)?;
        let left_out = (version - self.version).saturating_mul(NUMBERS_PER_VERSION);
        for last in [&mut self.releases, &mut self.answers] {
            *last = last.saturating_add(left_out);
            signed(*last)?;
        }
        (self.version, self.epoch, self.open) = (version, self.epoch + 1, 0);
        (self.holder, self.until) = (None, 0);
        Ok(())
    }
}

/// Number under which a kind of record is stored.
pub(super) const fn kind_code(kind: RecordKind) -> i16 {
    match kind {
        RecordKind::Release => 0,
        RecordKind::Answer => 1,
    }
}

pub(super) fn record_sum(stream: &str, kind: RecordKind, record: &Record) -> i64 {
    let numbers = [record.number, record.version, record.timestamp].map(u64::to_le_bytes).concat();
    sum(&[b"record", stream.as_bytes(), &kind_code(kind).to_le_bytes(), &numbers, record.body.as_bytes()])
}

/// Reads a row of [`record_columns`], and verifies its checksum.
pub(super) fn read_record<C: Columns>(row: &C, stream: &str, kind: RecordKind) -> Result<Record, C::Fault> {
    let (number, version, timestamp) = (row.number(0)?, row.number(1)?, row.number(2)?);
    let record = Record { number, version, timestamp, body: row.text(3)? };
    check(row.integer(4)?, record_sum(stream, kind, &record), || format!("record {number} of {stream}"))?;
    Ok(record)
}

/// Row of a question.
#[derive(Debug)]
pub(super) struct QuestionRow {
    pub(super) number: i64,
    pub(super) asked: OpenQuestion,
    pub(super) closed: bool,
}

impl QuestionRow {
    /// Reads a row of number, place, body, closed and sum, and verifies its checksum.
    pub(super) fn read<C: Columns>(row: &C, stream: &str) -> Result<Self, C::Fault> {
        let (place, body, closed) = (row.integer(1)?, row.bytes(2)?, row.flag(3)?);
        check(row.integer(4)?, question_sum(stream, place, &body, closed), || {
            format!("a question of stream {stream}")
        })?;
        Ok(Self { number: row.integer(0)?, asked: decode(&body, "question")?, closed })
    }

    pub(super) fn oracle(&self) -> Result<Oracle, StoreError> {
        self.asked.question.oracle().map_err(|error| StoreError::Failed(error.to_string()))
    }
}

pub(super) fn question_sum(stream: &str, place: i64, body: &[u8], closed: bool) -> i64 {
    sum(&[b"phase", stream.as_bytes(), &place.to_le_bytes(), body, &[u8::from(closed)]])
}

/// Changes of a stream's questions in [`advance`](super::Store::advance), each with its place.
#[derive(Debug)]
pub(super) struct QuestionChanges<'a> {
    /// Row numbers of questions that are over.
    pub(super) over: Vec<i64>,
    /// Questions that stay open; they keep their reports and whether they are closed.
    pub(super) kept: Vec<(i64, QuestionRow)>,
    pub(super) added: Vec<(i64, &'a OpenQuestion)>,
}

impl<'a> QuestionChanges<'a> {
    pub(super) fn new(mut before: Vec<QuestionRow>, open: &'a [OpenQuestion]) -> Self {
        let mut changes = Self { over: Vec::new(), kept: Vec::new(), added: Vec::new() };
        for (place, asked) in (0..).zip(open) {
            match before.iter().position(|row| row.asked.question == asked.question) {
                Some(index) => {
                    let mut row = before.swap_remove(index);
                    row.asked.closes = asked.closes;
                    changes.kept.push((place, row));
                }
                None => changes.added.push((place, asked)),
            }
        }
        changes.over.extend(before.iter().map(|row| row.number));
        changes
    }
}

pub(super) fn count_sum(question: i64, source: &str, offset: u64, logged: u64, body: &[u8]) -> i64 {
    let numbers = [question.to_le_bytes(), offset.to_le_bytes(), logged.to_le_bytes()].concat();
    sum(&[b"count", &numbers, source.as_bytes(), body])
}

/// Decides about a range of a source that has been counted up to an offset. `None` means that it is to be added.
pub(super) fn check_range(source: &str, offset: u64, range: &Range<u64>) -> Result<Option<MergeOutcome>, StoreError> {
    if range.end <= offset {
        return Ok(Some(MergeOutcome::AlreadyCounted));
    }
    if range.start == offset {
        return Ok(None);
    }
    Err(StoreError::Range { source_name: source.to_owned(), counted: offset, start: range.start })
}

/// Adds up the counts of all sources; `None` where no report came.
pub(super) fn total(counts: impl IntoIterator<Item = Aggregate>) -> Result<Option<Aggregate>, StoreError> {
    let mut total: Option<Aggregate> = None;
    for counts in counts.into_iter().filter(|counts| counts.reports() > 0) {
        match &mut total {
            None => total = Some(counts),
            Some(total) => total.merge(&counts).map_err(|error| StoreError::Damaged(error.to_string()))?,
        }
    }
    Ok(total)
}

pub(super) fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(value).map_err(|error| StoreError::Failed(format!("it cannot be encoded: {error}")))
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|error| StoreError::Damaged(format!("a {what} cannot be decoded: {error}")))
}

/// Checks that an oracle accepts all reports of a batch.
pub(super) fn well_formed(oracle: &Oracle, batch: &ReportBatch) -> Result<(), BatchRejection> {
    let (given, expected) = (batch.report_length(), oracle.report_length());
    let checked = if given == expected {
        oracle.check_batch(batch.reports())
    } else {
        Err(AggregateError::Report { index: 0, problem: MalformedReport::Length { given, expected } })
    };
    checked.map_err(|error| BatchRejection::Malformed(error.to_string()))
}
