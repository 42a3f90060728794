//! Transactions of a PostgreSQL store.

use std::collections::HashMap;
use std::ops::Range;

use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::Aggregate;

use super::super::group::{self, is_refusal, settle};
use super::super::row::{
    Columns, QuestionChanges, StreamRow, bound, check_range, kind_code, read_record, record_columns, signed,
    stream_columns,
};
use super::super::{
    Acknowledgement, Advance, BatchRejection, Counted, Lease, MemberChanges, MemberFilter, MemberPage, MergeOutcome,
    NewStream, PhaseKey, Record, RecordFilter, RecordKind, ReportBatch, Status, Store, StoreError, StreamRecord, Write,
    Written,
};
use super::accept::{accept_all, find, lock_questions, open_questions};
use super::fault::Fault;
use super::pool::Connection;
use super::rows::{
    acknowledge, add_question, add_record, delete_questions, delete_records, find_stream_for_update,
    forget_acknowledgements, put_counts, put_state, read_acknowledgements, read_counts_of, read_questions, read_total,
    stream_row, update_question, update_stream, whole_stream,
};
use super::{PostgresStore, lock_key, members, tell_advanced, tell_declared};

/// Rows of streams by name, locked until the transaction ends.
type Rows = HashMap<String, StreamRow>;

/// Locks the streams of a group and reads their rows, in the order that all services keep, so none deadlock.
fn lock_streams(connection: &mut Connection, writes: &[Write<'_>]) -> Result<Rows, Fault> {
    let is_exclusive = |write: &&Write<'_>| matches!(write, Write::Close { .. } | Write::Advance { .. });
    let mut locks: Vec<i64> = writes.iter().filter(is_exclusive).map(|write| lock_key(write.stream())).collect();
    locks.sort_unstable();
    connection.query("SELECT pg_advisory_xact_lock(stream) FROM unnest($1::int8[]) AS stream", &[&locks])?;
    let names: Vec<&str> = writes.iter().map(Write::stream).collect();
    let sql = concat!(
        "SELECT ",
        stream_columns!(),
        " FROM tidegate.streams WHERE name = ANY($1) ORDER BY name COLLATE \"C\" FOR UPDATE"
    );
    let rows = connection.query(sql, &[&names])?;
    rows.iter().map(|row| StreamRow::read(row).map(|row| (row.name.clone(), row))).collect()
}

/// Makes one change of a group.
fn apply(connection: &mut Connection, rows: &mut Rows, write: &Write<'_>) -> Result<Written, Fault> {
    if let Write::Create(new) = write {
        return create(connection, new);
    }
    let stream = write.stream();
    let row = rows.get_mut(stream).ok_or_else(|| StoreError::NoStream(stream.to_owned()))?;
    let written = match write {
        Write::Create(_) => Written::Done,
        Write::Lease { holder, now, until, .. } => {
            let times = connection.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8", &[])?;
            let here = times[0].number(0)?;
            let end = here.saturating_add(until.saturating_sub(*now)).min(i64::MAX.unsigned_abs());
            Written::Lease(row.lease(holder, here, end))
        }
        Write::ReleaseLease(lease) => {
            row.release_lease(lease);
            Written::Done
        }
        Write::Close { lease, version, .. } => return close(connection, row, lease, *version),
        Write::Advance { lease, next } => {
            advance(connection, row, lease, next)?;
            Written::Done
        }
        Write::Publish { lease, version } => {
            row.publish(lease, *version)?;
            Written::Done
        }
    };
    update_stream(connection, row)?;
    Ok(written)
}

fn create(connection: &mut Connection, new: &NewStream<'_>) -> Result<Written, Fault> {
    let mut row = StreamRow::new(new);
    let rows = connection.query(
        "INSERT INTO tidegate.streams (name, declaration, policy, status, epoch, until, version, published,
             releases, answers, open, sum)
         VALUES ($1, $2, $3, $4, 0, 0, 0, 0, 0, 0, 0, $5) ON CONFLICT DO NOTHING RETURNING number",
        &[&row.name, &row.declaration, &row.policy, &row.status.name(), &row.sum()],
    )?;
    let created = rows.first().ok_or_else(|| StoreError::Exists(new.name.to_owned()))?;
    row.number = created.integer(0)?;
    put_state(connection, &row, new.state)?;
    Ok(Written::Done)
}

fn close(connection: &mut Connection, row: &StreamRow, lease: &Lease, version: u64) -> Result<Written, Fault> {
    row.fence(lease, version)?;
    let mut totals = Vec::new();
    for (place, mut question) in (0..).zip(read_questions(connection, row)?) {
        if !question.closed {
            question.closed = true;
            update_question(connection, row, place, &question)?;
        }
        totals.push(Counted::whole(read_total(connection, question.number)?));
    }
    Ok(Written::Counts(totals))
}

fn advance(connection: &mut Connection, row: &mut StreamRow, lease: &Lease, next: &Advance) -> Result<(), Fault> {
    row.fence(lease, next.version)?;
    members::fence(connection, row, next.members)?;
    let before = read_questions(connection, row)?;
    let records = row.advance(lease, next)?;
    let changes = QuestionChanges::new(before, &next.open);
    delete_questions(connection, &changes.over)?;
    for (place, kept) in &changes.kept {
        update_question(connection, row, *place, kept)?;
    }
    for (place, asked) in &changes.added {
        add_question(connection, row, *place, asked)?;
    }
    put_state(connection, row, &next.state)?;
    for (kind, record) in &records {
        add_record(connection, row, *kind, record)?;
    }
    if let Some(before) = next.forget {
        for kind in [RecordKind::Release, RecordKind::Answer] {
            let deleted = delete_records(connection, row, kind, before, next.most_forgotten())?;
            row.forget(kind, deleted)?;
            if kind == RecordKind::Answer && deleted > 0 {
                forget_acknowledgements(connection, row)?;
            }
        }
    }
    Ok(())
}

impl Store for PostgresStore {
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>> {
        let refusal = |fault| match fault {
            Fault::Store(error) if is_refusal(&error) => Ok(error),
            fault => Err(fault),
        };
        group::commit(writes, &|writes| {
            self.write("commit", |connection| {
                let mut rows = lock_streams(connection, writes)?;
                let settle = |write| settle(apply(connection, &mut rows, write), refusal);
                let outcomes = writes.iter().map(settle).collect::<Result<Vec<_>, Fault>>()?;
                let done = writes.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
                let (mut advanced, mut declared) = (Vec::new(), Vec::new());
                for (write, _) in done {
                    match write {
                        Write::Create(_) => declared.push(write.stream()),
                        Write::Advance { .. } | Write::Publish { .. } => advanced.push(write.stream()),
                        Write::Lease { .. } | Write::ReleaseLease(_) | Write::Close { .. } => {}
                    }
                }
                if !advanced.is_empty() {
                    tell_advanced(connection, &advanced)?;
                }
                if !declared.is_empty() {
                    tell_declared(connection, &declared)?;
                }
                Ok(outcomes)
            })
        })
    }

    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        self.change("redeclare", stream, |_, row| Ok(row.redeclare(earlier, declaration)?))
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.read("names", |connection| {
            let rows = connection.query("SELECT name FROM tidegate.streams ORDER BY name COLLATE \"C\"", &[])?;
            rows.iter().map(|row| row.text(0)).collect()
        })
    }

    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError> {
        self.read("stream", |connection| {
            let row = stream_row(connection, stream)?;
            whole_stream(connection, row)
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
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let mut memory = self.memory();
        let outcomes = self.write("accept", |connection| accept_all(connection, &mut memory, source, batches));
        if outcomes.is_err() {
            // It may differ from the database.
            memory.clear();
        }
        outcomes
    }

    fn merge(
        &self,
        key: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<MergeOutcome, StoreError> {
        self.write("merge", |connection| {
            let open = open_questions(connection, &[&key.stream])?;
            let row = find(&open, &key.stream, key.timestamp, key.phase)?;
            lock_questions(connection, &[row.number])?;
            let before = read_counts_of(connection, &[row.number], source)?.remove(&row.number);
            let (offset, mut total) = before.map_or_else(|| Ok((0, row.oracle()?.aggregate())), Ok::<_, StoreError>)?;
            if let Some(outcome) = check_range(source, offset, &range)? {
                return Ok(outcome);
            }
            total.merge(counts).map_err(|error| BatchRejection::Malformed(error.to_string()))?;
            put_counts(connection, source, [(row.number, range.end, &total)].into_iter())?;
            Ok(MergeOutcome::Counted)
        })
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.change_exclusively("replace_state", stream, |connection, row| {
            let over: Vec<i64> = read_questions(connection, row)?.iter().map(|question| question.number).collect();
            row.replace_state(version)?;
            delete_questions(connection, &over)?;
            put_state(connection, row, state)
        })
    }

    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError> {
        self.write("change_members", |connection| members::change(connection, stream, changes))
    }

    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError> {
        self.read("members", |connection| members::read(connection, stream, filter))
    }

    fn records(&self, stream: &str, kind: RecordKind, filter: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.read("records", |connection| {
            let row = stream_row(connection, stream)?;
            let rows = connection.query(
                concat!(
                    "SELECT ",
                    record_columns!(),
                    " FROM tidegate.records WHERE stream = $1 AND kind = $2 AND number > $3
                      AND timestamp BETWEEN $4 AND $5 AND version <= $6 ORDER BY number LIMIT $7"
                ),
                &[
                    &row.number,
                    &kind_code(kind),
                    &bound(filter.after),
                    &bound(filter.from),
                    &bound(filter.to),
                    &signed(row.published)?,
                    &i64::try_from(filter.limit).unwrap_or(i64::MAX),
                ],
            )?;
            rows.iter().map(|row| read_record(row, stream, kind)).collect()
        })
    }

    fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError> {
        self.read("latest", |connection| {
            let row = stream_row(connection, stream)?;
            let rows = connection.query(
                "SELECT number FROM tidegate.records WHERE stream = $1 AND kind = $2 AND version <= $3
                 ORDER BY number DESC LIMIT 1 OFFSET $4",
                &[&row.number, &kind_code(kind), &signed(row.published)?, &bound(later)],
            )?;
            rows.first().map_or(Ok(0), |row| row.number(0))
        })
    }

    fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read("events", |connection| {
            let row = stream_row(connection, stream)?;
            // Its index wants the same condition.
            let rows = connection.query(
                concat!(
                    "SELECT ",
                    record_columns!(),
                    " FROM tidegate.records WHERE stream = $1 AND kind = 1 AND strpos(body, ',\"monitor\":\"') > 0
                      AND number > $2 AND number < $3 AND version <= $4 ORDER BY number DESC LIMIT $5"
                ),
                &[
                    &row.number,
                    &bound(after),
                    &bound(before),
                    &signed(row.published)?,
                    &i64::try_from(limit).unwrap_or(i64::MAX),
                ],
            )?;
            rows.iter().map(|row| read_record(row, stream, RecordKind::Answer)).collect()
        })
    }

    fn acknowledge(&self, stream: &str, new: &Acknowledgement) -> Result<Option<Acknowledgement>, StoreError> {
        self.write("acknowledge", |connection| {
            let row = find_stream_for_update(connection, stream)?;
            acknowledge(connection, &row, new)
        })
    }

    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError> {
        self.read("acknowledgements", |connection| {
            let row = stream_row(connection, stream)?;
            read_acknowledgements(connection, &row, from)
        })
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        self.read("bytes", |connection| {
            let rows = connection.query(
                "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class
                 WHERE relnamespace = 'tidegate'::regnamespace AND relkind = 'r'",
                &[],
            )?;
            rows[0].number(0)
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", |connection| {
            connection.execute("UPDATE tidegate.meta SET checks = checks + 1", &[])?;
            Ok(())
        })
    }
}
