//! Transactions of an SQLite store.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::Aggregate;

use super::super::group::{self, is_refusal, settle};
use super::super::question::{QuestionState, SourceCount};
use super::super::row::{
    QuestionChanges, StreamRow, bound, check_range, kind_code, read_record, record_columns, signed, total, unsigned,
};
use super::super::{
    Acknowledgement, Advance, BatchRejection, Counted, Lease, MemberChanges, MemberFilter, MemberPage, MergeOutcome,
    NewStream, PhaseKey, Record, RecordFilter, RecordKind, ReportBatch, Status, Store, StoreError, StreamRecord, Write,
    Written,
};
use super::fault::Fault;
use super::rows::{
    acknowledge, add_log_row, add_question, add_record, delete_question, delete_records, find_stream,
    forget_acknowledgements, put_count, put_state, read_acknowledgements, read_counts, read_questions, read_state,
    stream_row, update_question,
};
use super::{SqliteStore, Writer, io_failed, members};

impl Writer {
    /// Makes one change of a group.
    fn apply(&mut self, write: &Write<'_>) -> Result<Written, Fault> {
        match write {
            Write::Create(new) => self.create(new),
            Write::Lease { stream, holder, now, until } => {
                let until = (*until).min(i64::MAX.unsigned_abs());
                self.change(stream, |_, row| Ok(Written::Lease(row.lease(holder, *now, until))))
            }
            Write::ReleaseLease(lease) => self.change(&lease.stream, |_, row| {
                row.release_lease(lease);
                Ok(Written::Done)
            }),
            Write::Close { lease, version, .. } => self.close(lease, *version),
            Write::Advance { lease, next } => self.advance(lease, next),
            Write::Publish { lease, version } => self.change(&lease.stream, |_, row| {
                row.publish(lease, *version)?;
                Ok(Written::Done)
            }),
        }
    }

    fn create(&self, new: &NewStream<'_>) -> Result<Written, Fault> {
        if find_stream(&self.connection, new.name)?.is_some() {
            return Err(StoreError::Exists(new.name.to_owned()).into());
        }
        let mut row = StreamRow::new(new);
        self.connection
            .prepare_cached(
                "INSERT INTO streams (name, declaration, policy, status, epoch, until, version, published,
                     releases, answers, open, sum)
                 VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, 0, 0, 0, ?5)",
            )?
            .execute(params![row.name, row.declaration, row.policy, row.status.name(), row.sum()])?;
        row.number = self.connection.last_insert_rowid();
        put_state(&self.connection, &row, new.state)?;
        Ok(Written::Done)
    }

    fn close(&mut self, lease: &Lease, version: u64) -> Result<Written, Fault> {
        let row = stream_row(&self.connection, &lease.stream)?;
        row.fence(lease, version)?;
        for ((_, phase), open) in self.streams.remove(&lease.stream).into_iter().flatten() {
            self.usual.insert((lease.stream.clone(), phase), open.identities.len());
        }
        let mut totals = Vec::new();
        for (place, mut question) in (0..).zip(read_questions(&self.connection, &row)?) {
            if !question.closed {
                question.closed = true;
                update_question(&self.connection, &row, place, &question)?;
            }
            let sources = read_counts(&self.connection, question.number)?;
            totals.push(Counted::whole(total(sources.into_values().map(|source| source.counts))?));
        }
        Ok(Written::Counts(totals))
    }

    fn advance(&mut self, lease: &Lease, next: &Advance) -> Result<Written, Fault> {
        self.change(&lease.stream, |writer, row| {
            row.fence(lease, next.version)?;
            members::fence(&writer.connection, row, next.members)?;
            let before = read_questions(&writer.connection, row)?;
            let records = row.advance(lease, next)?;
            writer.streams.remove(&lease.stream);
            let connection = &writer.connection;
            let changes = QuestionChanges::new(before, &next.open);
            changes.over.iter().try_for_each(|question| delete_question(connection, *question))?;
            changes.kept.iter().try_for_each(|(place, kept)| update_question(connection, row, *place, kept))?;
            changes.added.iter().try_for_each(|(place, asked)| add_question(connection, row, *place, asked))?;
            put_state(connection, row, &next.state)?;
            records.iter().try_for_each(|(kind, record)| add_record(connection, row, *kind, record))?;
            if let Some(before) = next.forget {
                for kind in [RecordKind::Release, RecordKind::Answer] {
                    let deleted = delete_records(connection, row, kind, before, next.most_forgotten())?;
                    row.forget(kind, deleted)?;
                    if kind == RecordKind::Answer && deleted > 0 {
                        forget_acknowledgements(connection, row)?;
                    }
                }
            }
            Ok(Written::Done)
        })
    }
}

/// Writes the log and the counts of the accepted reports.
fn save(connection: &Connection, question: &mut QuestionState, source: &str) -> Result<(), Fault> {
    let Some(row) = question.log(source) else { return Ok(()) };
    add_log_row(connection, question.number, &row)?;
    match question.sources.get(source) {
        Some(count) => put_count(connection, question.number, source, count),
        None => Ok(()),
    }
}

impl Store for SqliteStore {
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>> {
        let refusal = |fault| match fault {
            Fault::Store(error) if is_refusal(&error) => Ok(error),
            fault => Err(fault),
        };
        group::commit(writes, &|writes| {
            self.write("commit", |writer| writes.iter().map(|write| settle(writer.apply(write), refusal)).collect())
        })
    }

    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        self.change("redeclare", stream, |_, row| Ok(row.redeclare(earlier, declaration)?))
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.read("names", |connection| {
            let mut statement = connection.prepare_cached("SELECT name FROM streams ORDER BY name")?;
            let names = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(names)
        })
    }

    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError> {
        self.read("stream", |connection| {
            let row = stream_row(connection, stream)?;
            let state = read_state(connection, &row)?;
            let open = read_questions(connection, &row)?;
            Ok(row.into_record(state, open))
        })
    }

    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError> {
        self.read("status", |connection| stream_row(connection, stream).map(|row| (row.status, row.version)))
    }

    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError> {
        self.change("set_status", stream, |_, row| Ok(row.set_status(status)?))
    }

    fn accept(
        &self,
        source: &str,
        batches: &[ReportBatch],
    ) -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError> {
        self.write("accept", |writer| {
            let mut outcomes = Vec::with_capacity(batches.len());
            for batch in batches {
                outcomes.push(match writer.question(&batch.stream, batch.timestamp, batch.phase)? {
                    Ok((question, _)) => question.accept(source, batch)?,
                    Err(rejection) => Err(rejection),
                });
            }
            let mut saved = HashSet::new();
            for ReportBatch { stream, timestamp, phase, .. } in batches {
                let open = writer.streams.get_mut(&**stream).and_then(|open| open.get_mut(&(*timestamp, *phase)));
                if let Some(question) = open.filter(|question| saved.insert(question.number)) {
                    save(&writer.connection, question, source)?;
                }
            }
            Ok(outcomes)
        })
    }

    fn merge(
        &self,
        key: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<MergeOutcome, StoreError> {
        self.write("merge", |writer| {
            let (question, connection) =
                writer.question(&key.stream, key.timestamp, key.phase)?.map_err(StoreError::Rejected)?;
            let before = question.sources.get(source).cloned();
            let mut merged = before.unwrap_or_else(|| SourceCount::new(&question.oracle));
            if let Some(outcome) = check_range(source, merged.offset, &range)? {
                return Ok(outcome);
            }
            let malformed = |error: &dyn ToString| StoreError::from(BatchRejection::Malformed(error.to_string()));
            merged.counts.merge(counts).map_err(|error| malformed(&error))?;
            merged.offset = range.end;
            put_count(connection, question.number, source, &merged)?;
            question.sources.insert(source.to_owned(), merged);
            Ok(MergeOutcome::Counted)
        })
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.change("replace_state", stream, |writer, row| {
            let before = read_questions(&writer.connection, row)?;
            row.replace_state(version)?;
            writer.streams.remove(stream);
            before.iter().try_for_each(|question| delete_question(&writer.connection, question.number))?;
            put_state(&writer.connection, row, state)
        })
    }

    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError> {
        self.write("change_members", |writer| members::change(&writer.connection, stream, changes))
    }

    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError> {
        self.read("members", |connection| members::read(connection, stream, filter))
    }

    fn records(&self, stream: &str, kind: RecordKind, filter: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.read("records", |connection| {
            let row = stream_row(connection, stream)?;
            // The filter decides which index is right; `+` keeps SQLite from using the other.
            let all_times = (filter.from, filter.to) == (0, u64::MAX);
            let mut statement: CachedStatement<'_> = connection.prepare_cached(if all_times {
                concat!(
                    "SELECT ",
                    record_columns!(),
                    " FROM records WHERE stream = ?1 AND kind = ?2 AND number > ?3
                      AND +timestamp BETWEEN ?4 AND ?5 AND version <= ?6 ORDER BY number LIMIT ?7"
                )
            } else {
                concat!(
                    "SELECT ",
                    record_columns!(),
                    " FROM records WHERE stream = ?1 AND kind = ?2 AND +number > ?3
                      AND timestamp BETWEEN ?4 AND ?5 AND version <= ?6 ORDER BY number LIMIT ?7"
                )
            })?;
            let mut rows = statement.query(params![
                row.number,
                kind_code(kind),
                bound(filter.after),
                bound(filter.from),
                bound(filter.to),
                signed(row.published)?,
                i64::try_from(filter.limit).unwrap_or(i64::MAX),
            ])?;
            let mut records = Vec::new();
            while let Some(row) = rows.next()? {
                records.push(read_record(row, stream, kind)?);
            }
            Ok(records)
        })
    }

    fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError> {
        self.read("latest", |connection| {
            let row = stream_row(connection, stream)?;
            let mut statement = connection.prepare_cached(
                "SELECT number FROM records WHERE stream = ?1 AND kind = ?2 AND version <= ?3
                 ORDER BY number DESC LIMIT 1 OFFSET ?4",
            )?;
            let number = (row.number, kind_code(kind), signed(row.published)?, bound(later));
            let number = statement.query_row(number, |row| row.get(0)).optional()?;
            Ok(unsigned(number.unwrap_or(0))?)
        })
    }

    fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read("events", |connection| {
            let row = stream_row(connection, stream)?;
            // Its index wants the same condition.
            let mut statement = connection.prepare_cached(concat!(
                "SELECT ",
                record_columns!(),
                " FROM records WHERE stream = ?1 AND kind = 1 AND instr(body, ',\"monitor\":\"') > 0
                  AND number > ?2 AND number < ?3 AND version <= ?4 ORDER BY number DESC LIMIT ?5"
            ))?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let published = signed(row.published)?;
            let mut rows = statement.query(params![row.number, bound(after), bound(before), published, limit])?;
            let mut records = Vec::new();
            while let Some(row) = rows.next()? {
                records.push(read_record(row, stream, RecordKind::Answer)?);
            }
            Ok(records)
        })
    }

    fn acknowledge(&self, stream: &str, new: &Acknowledgement) -> Result<Option<Acknowledgement>, StoreError> {
        self.write("acknowledge", |writer| {
            let row = stream_row(&writer.connection, stream)?;
            acknowledge(&writer.connection, &row, new)
        })
    }

    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError> {
        self.read("acknowledgements", |connection| {
            let row = stream_row(connection, stream)?;
            read_acknowledgements(connection, &row, from)
        })
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let mut log = self.path().as_os_str().to_owned();
        log.push("-wal");
        let file = std::fs::metadata(self.path()).map_err(|error| io_failed(self.path(), &error))?.len();
        // The log comes and goes.
        Ok(file + std::fs::metadata(log).map_or(0, |data| data.len()))
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", |writer| {
            writer.connection.prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'checks'")?.execute([])?;
            Ok(())
        })
    }
}
