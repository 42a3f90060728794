//! Transactions of a PostgreSQL store.

use std::ops::Range;

use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::Aggregate;

use super::super::row::{
    Columns, QuestionChanges, StreamRow, bound, check_range, kind_code, read_record, record_columns, signed,
};
use super::super::{
    Advance, BatchRejection, Lease, MergeOutcome, NewStream, PhaseKey, Record, RecordFilter, RecordKind, ReportBatch,
    Status, Store, StoreError, StreamRecord,
};
use super::PostgresStore;
use super::accept::{accept_all, find, open_questions};
use super::rows::{
    add_question, add_record, count_for_update, delete_questions, put_count, put_state, read_questions, read_total,
    stream_row, update_question,
};

impl Store for PostgresStore {
    fn create(&self, stream: &NewStream<'_>) -> Result<(), StoreError> {
        self.write("create", |connection| {
            let mut row = StreamRow::new(stream);
            let rows = connection.query(
                "INSERT INTO tidegate.streams (name, declaration, policy, status, epoch, until, version, published,
                     releases, said, open, sum)
                 VALUES ($1, $2, $3, $4, 0, 0, 0, 0, 0, 0, 0, $5) ON CONFLICT DO NOTHING RETURNING number",
                &[&row.name, &row.declaration, &row.policy, &row.status.name(), &row.sum()],
            )?;
            let created = rows.first().ok_or_else(|| StoreError::Exists(stream.name.to_owned()))?;
            row.number = created.integer(0)?;
            put_state(connection, &row, stream.state)
        })
    }

    fn redeclare(&self, stream: &str, declaration: &str) -> Result<(), StoreError> {
        self.change("redeclare", stream, |_, row| {
            declaration.clone_into(&mut row.declaration);
            Ok(())
        })
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
            let states = connection.query("SELECT body, sum FROM tidegate.states WHERE stream = $1", &[&row.number])?;
            let state = row.read_state(states.first())?;
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

    fn lease(&self, stream: &str, holder: &str, now: u64, until: u64) -> Result<Option<Lease>, StoreError> {
        self.change("lease", stream, |connection, row| {
            let rows = connection.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8", &[])?;
            let here = rows[0].number(0)?;
            let end = here.saturating_add(until.saturating_sub(now)).min(i64::MAX.unsigned_abs());
            Ok(row.lease(holder, here, end))
        })
    }

    fn release_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        self.change("release_lease", &lease.stream, |_, row| {
            row.release_lease(lease);
            Ok(())
        })
    }

    fn accept(
        &self,
        source: &str,
        batches: &[ReportBatch],
    ) -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError> {
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        self.write("accept", |connection| accept_all(connection, source, batches))
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
            let (offset, mut total) = count_for_update(connection, row.number, source, &row.oracle()?)?;
            if let Some(outcome) = check_range(source, offset, &range)? {
                return Ok(outcome);
            }
            total.merge(counts).map_err(|error| BatchRejection::Malformed(error.to_string()))?;
            put_count(connection, row.number, source, range.end, &total)?;
            Ok(MergeOutcome::Counted)
        })
    }

    fn close(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError> {
        self.change_exclusively("close", &lease.stream, |connection, row| {
            row.fence(lease, version)?;
            let mut totals = Vec::new();
            for (place, mut question) in (0..).zip(read_questions(connection, row)?) {
                if !question.closed {
                    question.closed = true;
                    update_question(connection, row, place, &question)?;
                }
                totals.push(read_total(connection, question.number)?);
            }
            Ok(totals)
        })
    }

    fn advance(&self, lease: &Lease, advance: &Advance<'_>) -> Result<(), StoreError> {
        let over = self.change_exclusively("advance", &lease.stream, |connection, row| {
            row.fence(lease, advance.version)?;
            let before = read_questions(connection, row)?;
            let records = row.advance(lease, advance)?;
            let changes = QuestionChanges::new(before, advance.open);
            delete_questions(connection, &changes.over)?;
            for (place, kept) in &changes.kept {
                update_question(connection, row, *place, kept)?;
            }
            for (place, asked) in &changes.added {
                add_question(connection, row, *place, asked)?;
            }
            put_state(connection, row, advance.state)?;
            for (kind, record) in &records {
                add_record(connection, row, *kind, record)?;
            }
            Ok(changes.over)
        })?;
        self.sweep(&over);
        Ok(())
    }

    fn publish(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        self.change("publish", &lease.stream, |_, row| Ok(row.publish(lease, version)?))
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        let over = self.change_exclusively("replace_state", stream, |connection, row| {
            let over: Vec<i64> = read_questions(connection, row)?.iter().map(|question| question.number).collect();
            row.replace_state(version)?;
            delete_questions(connection, &over)?;
            put_state(connection, row, state)?;
            Ok(over)
        })?;
        self.sweep(&over);
        Ok(())
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

    fn latest(&self, stream: &str, kind: RecordKind) -> Result<u64, StoreError> {
        self.read("latest", |connection| {
            let row = stream_row(connection, stream)?;
            let rows = connection.query(
                "SELECT number FROM tidegate.records WHERE stream = $1 AND kind = $2 AND version <= $3
                 ORDER BY number DESC LIMIT 1",
                &[&row.number, &kind_code(kind), &signed(row.published)?],
            )?;
            rows.first().map_or(Ok(0), |row| row.number(0))
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", |connection| {
            connection.execute("UPDATE tidegate.meta SET checks = checks + 1", &[])?;
            Ok(())
        })
    }
}
