//! Statements on rows of a PostgreSQL store.

use std::collections::HashMap;

use tidegate_kernel::oracle::Aggregate;
use tokio_postgres::Row;

use super::super::question::LogRow;
use super::super::row::{
    Columns, QuestionRow, StreamRow, bound, check, count_sum, decode, encode, first_stream_columns, kind_code,
    question_sum, record_sum, signed, stream_columns, total,
};
use super::super::{Acknowledgement, OpenQuestion, Record, RecordKind, StoreError, StreamRecord, schema};
use super::fault::Fault;
use super::pool::Connection;

impl Columns for Row {
    type Fault = Fault;

    fn integer(&self, column: usize) -> Result<i64, Fault> {
        Ok(self.try_get(column)?)
    }

    fn text(&self, column: usize) -> Result<String, Fault> {
        Ok(self.try_get(column)?)
    }

    fn optional_text(&self, column: usize) -> Result<Option<String>, Fault> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: usize) -> Result<Vec<u8>, Fault> {
        Ok(self.try_get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, Fault> {
        Ok(self.try_get(column)?)
    }
}

const STREAMS: &str = concat!("SELECT ", stream_columns!(), " FROM tidegate.streams ORDER BY name COLLATE \"C\"");
const FIRST_STREAMS: &str =
    concat!("SELECT ", first_stream_columns!(), " FROM tidegate.streams ORDER BY name COLLATE \"C\"");
const STREAM: &str = concat!("SELECT ", stream_columns!(), " FROM tidegate.streams WHERE name = $1");
const STREAM_FOR_UPDATE: &str =
    concat!("SELECT ", stream_columns!(), " FROM tidegate.streams WHERE name = $1 FOR UPDATE");

fn missing(stream: &str) -> StoreError {
    StoreError::NoStream(stream.to_owned())
}

pub(super) fn find_stream(connection: &mut Connection, stream: &str) -> Result<Option<StreamRow>, Fault> {
    connection.query(STREAM, &[&stream])?.first().map(StreamRow::read).transpose()
}

/// Reads all streams of a database of some schema, in order.
pub(super) fn stream_rows(connection: &mut Connection, schema: u32) -> Result<Vec<StreamRow>, Fault> {
    if schema < schema::POSTGRES_KEPT {
        connection.query(FIRST_STREAMS, &[])?.iter().map(StreamRow::read_first).collect()
    } else {
        connection.query(STREAMS, &[])?.iter().map(StreamRow::read).collect()
    }
}

/// Returns the stream of a row, with its state and its questions.
pub(super) fn whole_stream(connection: &mut Connection, row: StreamRow) -> Result<StreamRecord, Fault> {
    let states = connection.query("SELECT body, sum FROM tidegate.states WHERE stream = $1", &[&row.number])?;
    let state = row.read_state(states.first())?;
    let open = read_questions(connection, &row)?;
    Ok(row.into_record(state, open))
}

pub(super) fn stream_row(connection: &mut Connection, stream: &str) -> Result<StreamRow, Fault> {
    find_stream(connection, stream)?.ok_or_else(|| missing(stream).into())
}

/// Reads the row of a stream, and locks it until the transaction ends.
pub(super) fn find_stream_for_update(connection: &mut Connection, stream: &str) -> Result<StreamRow, Fault> {
    let rows = connection.query(STREAM_FOR_UPDATE, &[&stream])?;
    rows.first().map(StreamRow::read).transpose()?.ok_or_else(|| missing(stream).into())
}

pub(super) fn update_stream(connection: &mut Connection, row: &StreamRow) -> Result<(), Fault> {
    connection.execute(
        "UPDATE tidegate.streams SET declaration = $2, policy = $3, status = $4, epoch = $5, holder = $6, until = $7,
             version = $8, published = $9, releases = $10, answers = $11, open = $12, releases_kept = $13,
             answers_kept = $14, sum = $15
         WHERE number = $1",
        &[
            &row.number,
            &row.declaration,
            &row.policy,
            &row.status.name(),
            &signed(row.epoch)?,
            &row.holder,
            &signed(row.until)?,
            &signed(row.version)?,
            &signed(row.published)?,
            &signed(row.releases)?,
            &signed(row.answers)?,
            &signed(row.open)?,
            &signed(row.releases_kept)?,
            &signed(row.answers_kept)?,
            &row.sum(),
        ],
    )?;
    Ok(())
}

pub(super) fn put_state(connection: &mut Connection, stream: &StreamRow, state: &[u8]) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO tidegate.states (stream, body, sum) VALUES ($1, $2, $3)
         ON CONFLICT (stream) DO UPDATE SET body = excluded.body, sum = excluded.sum",
        &[&stream.number, &state, &stream.state_sum(state)],
    )?;
    Ok(())
}

/// Reads the questions of streams, each in order.
pub(super) fn questions_of(connection: &mut Connection, streams: &[StreamRow]) -> Result<Vec<Vec<QuestionRow>>, Fault> {
    let numbers: Vec<i64> = streams.iter().map(|stream| stream.number).collect();
    let sql = "SELECT number, place, body, closed, sum, stream FROM tidegate.phases
               WHERE stream = ANY($1) ORDER BY stream, place";
    let rows = connection.query(sql, &[&numbers])?;
    let mut by_stream: HashMap<i64, Vec<&Row>> = HashMap::new();
    for row in &rows {
        by_stream.entry(row.integer(5)?).or_default().push(row);
    }
    let of_stream = |stream: &StreamRow| {
        let rows = by_stream.get(&stream.number).into_iter().flatten();
        let questions = rows.map(|row| QuestionRow::read(*row, &stream.name)).collect::<Result<Vec<_>, Fault>>()?;
        stream.check_questions(&questions)?;
        Ok(questions)
    };
    streams.iter().map(of_stream).collect()
}

/// Reads the questions of a stream, in order.
pub(super) fn read_questions(connection: &mut Connection, stream: &StreamRow) -> Result<Vec<QuestionRow>, Fault> {
    Ok(questions_of(connection, std::slice::from_ref(stream))?.pop().unwrap_or_default())
}

pub(super) fn add_question(
    connection: &mut Connection,
    stream: &StreamRow,
    place: i64,
    asked: &OpenQuestion,
) -> Result<(), Fault> {
    let body = encode(asked)?;
    // In a cluster, its reports are divided among the partitions that there are now.
    connection.execute(
        "WITH asked AS (
             INSERT INTO tidegate.phases (stream, place, body, closed, sum) VALUES ($1, $2, $3, false, $4)
             RETURNING number
         )
         INSERT INTO tidegate.routes (phase, partitions)
         SELECT asked.number, partitions.count
         FROM asked, (SELECT count(*)::integer FROM tidegate.partitions) AS partitions
         WHERE partitions.count > 0",
        &[&stream.number, &place, &body, &question_sum(&stream.name, place, &body, false)],
    )?;
    Ok(())
}

pub(super) fn update_question(
    connection: &mut Connection,
    stream: &StreamRow,
    place: i64,
    row: &QuestionRow,
) -> Result<(), Fault> {
    let body = encode(&row.asked)?;
    connection.execute(
        "UPDATE tidegate.phases SET place = $2, body = $3, closed = $4, sum = $5 WHERE number = $1",
        &[&row.number, &place, &body, &row.closed, &question_sum(&stream.name, place, &body, row.closed)],
    )?;
    Ok(())
}

/// Deletes questions with their identities and counts.
pub(super) fn delete_questions(connection: &mut Connection, over: &[i64]) -> Result<(), Fault> {
    if !over.is_empty() {
        connection.execute("DELETE FROM tidegate.phases WHERE number = ANY($1)", &[&over])?;
        connection.execute("DELETE FROM tidegate.routes WHERE phase = ANY($1)", &[&over])?;
        connection.execute("DELETE FROM tidegate.log WHERE phase = ANY($1)", &[&over])?;
        connection.execute("DELETE FROM tidegate.counts WHERE phase = ANY($1)", &[&over])?;
    }
    Ok(())
}

/// Deletes published records of timestamps before this one, the oldest first. Returns how many.
pub(super) fn delete_records(
    connection: &mut Connection,
    stream: &StreamRow,
    kind: RecordKind,
    before: u64,
    most: usize,
) -> Result<u64, Fault> {
    connection.execute(
        "DELETE FROM tidegate.records WHERE stream = $1 AND kind = $2 AND number = ANY(ARRAY(
             SELECT number FROM tidegate.records
             WHERE stream = $1 AND kind = $2 AND timestamp < $3 AND version <= $4
             ORDER BY timestamp, number LIMIT $5
         ))",
        &[&stream.number, &kind_code(kind), &bound(before), &signed(stream.published)?, &bound(most as u64)],
    )
}

/// Deletes the acknowledgements of answers that were deleted.
pub(super) fn forget_acknowledgements(connection: &mut Connection, stream: &StreamRow) -> Result<(), Fault> {
    connection.execute(
        "DELETE FROM tidegate.acknowledgements WHERE stream = $1 AND number < coalesce(
             (SELECT min(number) FROM tidegate.records WHERE stream = $1 AND kind = $2), $3
         )",
        &[&stream.number, &kind_code(RecordKind::Answer), &i64::MAX],
    )?;
    Ok(())
}

/// Acknowledges a published answer, unless that was done before.
pub(super) fn acknowledge(
    connection: &mut Connection,
    stream: &StreamRow,
    new: &Acknowledgement,
) -> Result<Option<Acknowledgement>, Fault> {
    connection.execute(
        "INSERT INTO tidegate.acknowledgements (stream, number, holder, at, sum)
         SELECT stream, number, $3, $4, $5 FROM tidegate.records
         WHERE stream = $1 AND number = $2 AND kind = $6 AND version <= $7
         ON CONFLICT DO NOTHING",
        &[
            &stream.number,
            &signed(new.number)?,
            &new.by,
            &signed(new.at)?,
            &new.sum(&stream.name),
            &kind_code(RecordKind::Answer),
            &signed(stream.published)?,
        ],
    )?;
    let found = read_acknowledgements(connection, stream, new.number)?.into_iter().next();
    Ok(found.filter(|found| found.number == new.number))
}

/// Reads the acknowledgements of the answers from a number on, and verifies them.
pub(super) fn read_acknowledgements(
    connection: &mut Connection,
    stream: &StreamRow,
    from: u64,
) -> Result<Vec<Acknowledgement>, Fault> {
    let sql = "SELECT number, holder, at, sum FROM tidegate.acknowledgements WHERE stream = $1 AND number >= $2
               ORDER BY number";
    let rows = connection.query(sql, &[&stream.number, &bound(from)])?;
    rows.iter().map(|row| Acknowledgement::read(row, &stream.name)).collect()
}

pub(super) fn add_record(
    connection: &mut Connection,
    stream: &StreamRow,
    kind: RecordKind,
    record: &Record,
) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO tidegate.records (stream, kind, number, version, timestamp, body, sum)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            &stream.number,
            &kind_code(kind),
            &signed(record.number)?,
            &signed(record.version)?,
            &signed(record.timestamp)?,
            &record.body,
            &record_sum(&stream.name, kind, record),
        ],
    )?;
    Ok(())
}

fn read_count(question: i64, row: &Row) -> Result<(u64, Aggregate), Fault> {
    let (source, offset, body) = (row.text(0)?, row.number(1)?, row.bytes(2)?);
    check(row.integer(3)?, count_sum(question, &source, offset, 0, &body), || format!("the counts of {source}"))?;
    Ok((offset, decode(&body, "count")?))
}

/// Reads the counts of a source for questions, under the [lock](super::accept::lock_questions) of each.
pub(super) fn read_counts_of(
    connection: &mut Connection,
    questions: &[i64],
    source: &str,
) -> Result<HashMap<i64, (u64, Aggregate)>, Fault> {
    let sql = "SELECT source, counted, body, sum, phase FROM tidegate.counts WHERE phase = ANY($1) AND source = $2";
    let rows = connection.query(sql, &[&questions, &source])?;
    let each = rows.iter().map(|row| {
        let question = row.integer(4)?;
        Ok((question, read_count(question, row)?))
    });
    each.collect()
}

/// Writes the counts of a source for questions: how many reports, and their aggregate.
pub(super) fn put_counts<'a>(
    connection: &mut Connection,
    source: &str,
    counts: impl Iterator<Item = (i64, u64, &'a Aggregate)>,
) -> Result<(), Fault> {
    let (mut questions, mut offsets, mut bodies, mut sums) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (question, offset, counts) in counts {
        let body = encode(counts)?;
        questions.push(question);
        offsets.push(signed(offset)?);
        sums.push(count_sum(question, source, offset, 0, &body));
        bodies.push(body);
    }
    connection.execute(
        "INSERT INTO tidegate.counts (phase, source, counted, body, sum)
         SELECT phase, $2, counted, body, sum
         FROM unnest($1::int8[], $3::int8[], $4::bytea[], $5::int8[]) AS new (phase, counted, body, sum)
         ON CONFLICT (phase, source) DO UPDATE
         SET counted = excluded.counted, body = excluded.body, sum = excluded.sum",
        &[&questions, &source, &offsets, &bodies, &sums],
    )?;
    Ok(())
}

/// Writes rows of the log of identities, each of another question.
pub(super) fn add_log_rows(connection: &mut Connection, rows: &[(i64, LogRow)]) -> Result<(), Fault> {
    let questions: Vec<i64> = rows.iter().map(|(question, _)| *question).collect();
    let numbers = rows.iter().map(|(_, row)| signed(row.number)).collect::<Result<Vec<i64>, _>>()?;
    let bodies: Vec<&[u8]> = rows.iter().map(|(_, row)| &*row.body).collect();
    let sums: Vec<i64> = rows.iter().map(|(_, row)| row.sum).collect();
    connection.execute(
        "INSERT INTO tidegate.log (phase, number, body, sum)
         SELECT * FROM unnest($1::int8[], $2::int8[], $3::bytea[], $4::int8[])",
        &[&questions, &numbers, &bodies, &sums],
    )?;
    Ok(())
}

/// Adds up the counts of all sources; `None` where no report came.
pub(super) fn read_total(connection: &mut Connection, question: i64) -> Result<Option<Aggregate>, Fault> {
    let sql = "SELECT source, counted, body, sum FROM tidegate.counts WHERE phase = $1";
    let rows = connection.query(sql, &[&question])?;
    let counts = rows.iter().map(|row| read_count(question, row).map(|(_, counts)| counts));
    Ok(total(counts.collect::<Result<Vec<_>, Fault>>()?)?)
}
