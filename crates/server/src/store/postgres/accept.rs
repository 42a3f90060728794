//! Accepting of reports in PostgreSQL, side by side with other services.
//!
//! Services that accept reports for one question take turns: each holds the question's lock from the moment at which it
//! reads what others have logged. Each statement is about all questions of a transaction, so their number does not
//! matter.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use tidegate_device::api::Receipt;

use super::super::question::{LogRow, QuestionState, SourceCount};
use super::super::row::{Columns, QuestionRow, StreamRow, signed, stream_columns, sum};
use super::super::{BatchRejection, ReportBatch};
use super::fault::Fault;
use super::lock_key;
use super::pool::Connection;
use super::rows::{add_log_rows, put_counts, questions_of, read_counts_of};

/// Open questions in memory, by stream and by the number of their row.
pub(super) type Memory = HashMap<String, BTreeMap<i64, QuestionState>>;

/// Open questions of streams, by timestamp and phase.
type OpenQuestions = HashMap<String, HashMap<(u64, u16), QuestionRow>>;

/// Reads the open questions of streams, under their shared locks, which last until the transaction ends.
pub(super) fn open_questions(connection: &mut Connection, streams: &[&str]) -> Result<OpenQuestions, Fault> {
    let mut locks: Vec<i64> = streams.iter().map(|stream| lock_key(stream)).collect();
    locks.sort_unstable();
    locks.dedup();
    connection.query("SELECT pg_advisory_xact_lock_shared(stream) FROM unnest($1::int8[]) AS stream", &[&locks])?;
    let sql = concat!("SELECT ", stream_columns!(), " FROM tidegate.streams WHERE name = ANY($1)");
    let found = connection.query(sql, &[&streams])?;
    let found: Vec<_> = found.iter().map(StreamRow::read).collect::<Result<_, Fault>>()?;
    let questions = questions_of(connection, &found)?;
    let by_key = |rows: Vec<QuestionRow>| {
        let open = rows.into_iter().filter(|row| !row.closed);
        open.map(|row| ((row.asked.question.timestamp, row.asked.question.phase), row)).collect()
    };
    Ok(found.into_iter().zip(questions).map(|(stream, rows)| (stream.name, by_key(rows))).collect())
}

/// Locks questions until the transaction ends, in an order that all services keep, so none deadlock.
pub(super) fn lock_questions(connection: &mut Connection, questions: &[i64]) -> Result<(), Fault> {
    let mut locks: Vec<i64> = questions.iter().map(|number| sum(&[b"question", &number.to_le_bytes()])).collect();
    locks.sort_unstable();
    connection.query("SELECT pg_advisory_xact_lock(question) FROM unnest($1::int8[]) AS question", &[&locks])?;
    Ok(())
}

pub(super) fn find<'a>(
    open: &'a OpenQuestions,
    stream: &str,
    timestamp: u64,
    phase: u16,
) -> Result<&'a QuestionRow, BatchRejection> {
    let questions = open.get(stream).ok_or(BatchRejection::NoStream)?;
    questions.get(&(timestamp, phase)).ok_or(BatchRejection::NotOpen { timestamp, phase })
}

/// Accepts batches of any streams. Returns the outcome of each. After an error the memory is to be dropped.
pub(super) fn accept_all(
    connection: &mut Connection,
    memory: &mut Memory,
    source: &str,
    batches: &[ReportBatch],
) -> Result<Vec<Result<Receipt, BatchRejection>>, Fault> {
    let streams: Vec<_> = batches.iter().map(|batch| &*batch.stream).collect();
    let open = open_questions(connection, &streams)?;
    let mut questions = Vec::new();
    for (stream, open) in &open {
        let known = memory.entry(stream.clone()).or_default();
        known.retain(|number, _| open.values().any(|row| row.number == *number));
        for row in open.values() {
            if let Entry::Vacant(empty) = known.entry(row.number) {
                empty.insert(QuestionState::new(row)?);
            }
            questions.push(row.number);
        }
    }
    lock_questions(connection, &questions)?;
    let mut known: HashMap<i64, &mut QuestionState> = HashMap::new();
    for (_, states) in memory.iter_mut().filter(|(stream, _)| open.contains_key(*stream)) {
        known.extend(states.iter_mut().map(|(number, state)| (*number, state)));
    }
    follow(connection, &mut known)?;
    let mut counts = read_counts_of(connection, &questions, source)?;
    for (number, state) in &mut known {
        let (offset, before) = counts.remove(number).unwrap_or_else(|| (0, state.oracle.aggregate()));
        state.sources = HashMap::from([(source.to_owned(), SourceCount { offset, logged: 0, counts: before })]);
    }
    let mut outcomes = Vec::with_capacity(batches.len());
    for batch in batches {
        let found = find(&open, &batch.stream, batch.timestamp, batch.phase);
        outcomes.push(match found.map(|row| known.get_mut(&row.number)) {
            Ok(Some(question)) => question.accept(source, batch)?,
            Ok(None) => Err(BatchRejection::NoStream),
            Err(rejection) => Err(rejection),
        });
    }
    let logged = known.iter_mut().filter_map(|(number, state)| Some((*number, state.log(source)?)));
    let logged: Vec<(i64, LogRow)> = logged.collect();
    if !logged.is_empty() {
        add_log_rows(connection, &logged)?;
        let counted = logged.iter().filter_map(|(number, _)| Some((*number, known.get(number)?.sources.get(source)?)));
        put_counts(connection, source, counted.map(|(number, count)| (number, count.offset, &count.counts)))?;
    }
    // Others may add to the counts before the next transaction, which reads them again.
    known.values_mut().for_each(|state| state.sources.clear());
    Ok(outcomes)
}

/// Adds what others have logged since the last transaction.
fn follow(connection: &mut Connection, known: &mut HashMap<i64, &mut QuestionState>) -> Result<(), Fault> {
    let (mut numbers, mut logged) = (Vec::new(), Vec::new());
    for (number, state) in known.iter() {
        numbers.push(*number);
        logged.push(signed(state.logged())?);
    }
    let rows = connection.query(
        "SELECT log.phase, log.number, log.body, log.sum
         FROM unnest($1::int8[], $2::int8[]) AS known (phase, number)
         JOIN tidegate.log AS log ON log.phase = known.phase AND log.number > known.number
         ORDER BY log.phase, log.number",
        &[&numbers, &logged],
    )?;
    for row in &rows {
        if let Some(state) = known.get_mut(&row.integer(0)?) {
            state.follow(row.number(1)?, row.try_get(2)?, row.integer(3)?)?;
        }
    }
    Ok(())
}
