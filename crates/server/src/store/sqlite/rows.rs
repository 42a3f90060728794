//! Statements on rows of an SQLite store.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::super::question::{LogRow, QuestionState, SourceCount};
use super::super::row::{
    Columns, QuestionRow, StreamRow, bound, check, count_sum, decode, encode, first_stream_columns, kind_code,
    question_sum, record_sum, signed, stream_columns,
};
use super::super::{Acknowledgement, OpenQuestion, Record, RecordKind, StoreError};
use super::fault::Fault;

impl Columns for Row<'_> {
    type Fault = Fault;

    fn integer(&self, column: usize) -> Result<i64, Fault> {
        Ok(self.get(column)?)
    }

    fn text(&self, column: usize) -> Result<String, Fault> {
        Ok(self.get(column)?)
    }

    fn optional_text(&self, column: usize) -> Result<Option<String>, Fault> {
        Ok(self.get(column)?)
    }

    fn bytes(&self, column: usize) -> Result<Vec<u8>, Fault> {
        Ok(self.get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, Fault> {
        Ok(self.get(column)?)
    }
}

pub(super) fn find_stream(connection: &Connection, stream: &str) -> Result<Option<StreamRow>, Fault> {
    let mut statement =
        connection.prepare_cached(concat!("SELECT ", stream_columns!(), " FROM streams WHERE name = ?1"))?;
    let mut rows = statement.query([stream])?;
    rows.next()?.map(StreamRow::read).transpose()
}

/// Reads all streams of a file of some schema, in order.
pub(in crate::store) fn stream_rows(connection: &Connection, schema: u32) -> Result<Vec<StreamRow>, Fault> {
    let is_first = schema == 1;
    let columns = if is_first { first_stream_columns!() } else { stream_columns!() };
    let mut statement = connection.prepare(&format!("SELECT {columns} FROM streams ORDER BY name"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(if is_first { StreamRow::read_first(row) } else { StreamRow::read(row) }?);
    }
    Ok(found)
}

pub(super) fn stream_row(connection: &Connection, stream: &str) -> Result<StreamRow, Fault> {
    find_stream(connection, stream)?.ok_or_else(|| StoreError::NoStream(stream.to_owned()).into())
}

pub(in crate::store) fn update_stream(connection: &Connection, row: &StreamRow) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "UPDATE streams SET declaration = ?2, policy = ?3, status = ?4, epoch = ?5, holder = ?6, until = ?7,
                 version = ?8, published = ?9, releases = ?10, answers = ?11, open = ?12, releases_kept = ?13,
                 answers_kept = ?14, sum = ?15
             WHERE number = ?1",
        )?
        .execute(params![
            row.number,
            row.declaration,
            row.policy,
            row.status.name(),
            signed(row.epoch)?,
            row.holder,
            signed(row.until)?,
            signed(row.version)?,
            signed(row.published)?,
            signed(row.releases)?,
            signed(row.answers)?,
            signed(row.open)?,
            signed(row.releases_kept)?,
            signed(row.answers_kept)?,
            row.sum(),
        ])?;
    Ok(())
}

pub(in crate::store) fn read_state(connection: &Connection, stream: &StreamRow) -> Result<Vec<u8>, Fault> {
    let mut statement = connection.prepare_cached("SELECT body, sum FROM states WHERE stream = ?1")?;
    let mut rows = statement.query([stream.number])?;
    stream.read_state(rows.next()?)
}

pub(super) fn put_state(connection: &Connection, stream: &StreamRow, state: &[u8]) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO states (stream, body, sum) VALUES (?1, ?2, ?3)")?
        .execute(params![stream.number, state, stream.state_sum(state)])?;
    Ok(())
}

/// Reads the questions of a stream, in order.
pub(in crate::store) fn read_questions(connection: &Connection, stream: &StreamRow) -> Result<Vec<QuestionRow>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT number, place, body, closed, sum FROM phases WHERE stream = ?1 ORDER BY place")?;
    let mut rows = statement.query([stream.number])?;
    let mut questions = Vec::new();
    while let Some(row) = rows.next()? {
        questions.push(QuestionRow::read(row, &stream.name)?);
    }
    stream.check_questions(&questions)?;
    Ok(questions)
}

pub(super) fn add_question(
    connection: &Connection,
    stream: &StreamRow,
    place: i64,
    asked: &OpenQuestion,
) -> Result<(), Fault> {
    let body = encode(asked)?;
    connection
        .prepare_cached("INSERT INTO phases (stream, place, body, closed, sum) VALUES (?1, ?2, ?3, 0, ?4)")?
        .execute(params![stream.number, place, body, question_sum(&stream.name, place, &body, false)])?;
    Ok(())
}

pub(super) fn update_question(
    connection: &Connection,
    stream: &StreamRow,
    place: i64,
    row: &QuestionRow,
) -> Result<(), Fault> {
    let body = encode(&row.asked)?;
    let sum = question_sum(&stream.name, place, &body, row.closed);
    connection
        .prepare_cached("UPDATE phases SET place = ?2, body = ?3, closed = ?4, sum = ?5 WHERE number = ?1")?
        .execute(params![row.number, place, body, row.closed, sum])?;
    Ok(())
}

/// Deletes a question with its identities and counts.
pub(super) fn delete_question(connection: &Connection, question: i64) -> Result<(), Fault> {
    for statement in [
        "DELETE FROM seen WHERE phase = ?1",
        "DELETE FROM counts WHERE phase = ?1",
        "DELETE FROM phases WHERE number = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([question])?;
    }
    Ok(())
}

pub(super) fn add_record(
    connection: &Connection,
    stream: &StreamRow,
    kind: RecordKind,
    record: &Record,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO records (stream, kind, number, version, timestamp, body, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            stream.number,
            kind_code(kind),
            signed(record.number)?,
            signed(record.version)?,
            signed(record.timestamp)?,
            record.body,
            record_sum(&stream.name, kind, record),
        ])?;
    Ok(())
}

/// Deletes published records of timestamps before this one, the oldest first. Returns how many.
pub(super) fn delete_records(
    connection: &Connection,
    stream: &StreamRow,
    kind: RecordKind,
    before: u64,
    most: usize,
) -> Result<u64, Fault> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM records WHERE rowid IN (
                 SELECT rowid FROM records WHERE stream = ?1 AND kind = ?2 AND timestamp < ?3 AND version <= ?4
                 ORDER BY timestamp, number LIMIT ?5
             )",
        )?
        .execute(params![
            stream.number,
            kind_code(kind),
            bound(before),
            signed(stream.published)?,
            bound(most as u64),
        ])?;
    Ok(deleted as u64)
}

/// Deletes the acknowledgements of answers that were deleted.
pub(super) fn forget_acknowledgements(connection: &Connection, stream: &StreamRow) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM acknowledgements WHERE stream = ?1 AND number < coalesce(
                 (SELECT min(number) FROM records WHERE stream = ?1 AND kind = ?2), ?3
             )",
        )?
        .execute(params![stream.number, kind_code(RecordKind::Answer), i64::MAX])?;
    Ok(())
}

/// Acknowledges a published answer, unless that was done before.
pub(super) fn acknowledge(
    connection: &Connection,
    stream: &StreamRow,
    new: &Acknowledgement,
) -> Result<Option<Acknowledgement>, Fault> {
    let number = signed(new.number)?;
    connection
        .prepare_cached(
            "INSERT INTO acknowledgements (stream, number, holder, at, sum)
             SELECT stream, number, ?3, ?4, ?5 FROM records
             WHERE stream = ?1 AND number = ?2 AND kind = ?6 AND version <= ?7
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            stream.number,
            number,
            new.by,
            signed(new.at)?,
            new.sum(&stream.name),
            kind_code(RecordKind::Answer),
            signed(stream.published)?,
        ])?;
    let found = read_acknowledgements(connection, stream, new.number)?.into_iter().next();
    Ok(found.filter(|found| found.number == new.number))
}

/// Reads the acknowledgements of the answers from a number on, and verifies them.
pub(in crate::store) fn read_acknowledgements(
    connection: &Connection,
    stream: &StreamRow,
    from: u64,
) -> Result<Vec<Acknowledgement>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT number, holder, at, sum FROM acknowledgements WHERE stream = ?1 AND number >= ?2 ORDER BY number",
    )?;
    let mut rows = statement.query(params![stream.number, bound(from)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Acknowledgement::read(row, &stream.name)?);
    }
    Ok(found)
}

/// Loads a question with its counts and log, and verifies them.
pub(in crate::store) fn load_question(connection: &Connection, row: &QuestionRow) -> Result<QuestionState, Fault> {
    let mut question = QuestionState::new(row)?;
    question.sources = read_counts(connection, row.number)?;
    let mut statement =
        connection.prepare_cached("SELECT number, body, sum FROM seen WHERE phase = ?1 ORDER BY number")?;
    let mut rows = statement.query([row.number])?;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        question.follow(row.number(0)?, body, row.integer(2)?)?;
    }
    let (found, expected) = (question.logged(), question.sources.values().map(|source| source.logged).sum::<u64>());
    if found != expected {
        let why = format!("{expected} log rows of identities were written, but {found} are there");
        return Err(StoreError::Damaged(why).into());
    }
    Ok(question)
}

/// Writes a row of the log of identities.
pub(super) fn add_log_row(connection: &Connection, question: i64, row: &LogRow) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT INTO seen (phase, number, body, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![question, signed(row.number)?, row.body, row.sum])?;
    Ok(())
}

/// Reads the counts of each source of a question.
pub(super) fn read_counts(connection: &Connection, question: i64) -> Result<HashMap<String, SourceCount>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT source, counted, logged, body, sum FROM counts WHERE phase = ?1")?;
    let mut rows = statement.query([question])?;
    let mut sources = HashMap::new();
    while let Some(row) = rows.next()? {
        let (source, offset, logged, body) = (row.text(0)?, row.number(1)?, row.number(2)?, row.bytes(3)?);
        check(row.integer(4)?, count_sum(question, &source, offset, logged, &body), || {
            format!("the counts of {source}")
        })?;
        sources.insert(source, SourceCount { offset, logged, counts: decode(&body, "count")? });
    }
    Ok(sources)
}

pub(super) fn put_count(
    connection: &Connection,
    question: i64,
    source: &str,
    count: &SourceCount,
) -> Result<(), Fault> {
    let body = encode(&count.counts)?;
    let sum = count_sum(question, source, count.offset, count.logged, &body);
    connection
        .prepare_cached(
            "INSERT INTO counts (phase, source, counted, logged, body, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (phase, source) DO UPDATE
             SET counted = excluded.counted, logged = excluded.logged, body = excluded.body, sum = excluded.sum",
        )?
        .execute(params![question, source, signed(count.offset)?, signed(count.logged)?, body, sum])?;
    Ok(())
}
