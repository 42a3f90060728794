//! Accepting of reports in PostgreSQL, side by side with other services.

use std::collections::{BTreeMap, HashMap};

use tidegate_device::api::Receipt;

use super::super::row::{QuestionRow, well_formed};
use super::super::{BatchRejection, ReportBatch, StoreError};
use super::fault::Fault;
use super::lock_key;
use super::pool::Connection;
use super::rows::{count_for_update, find_stream, put_count, read_questions};

/// Open questions of streams, by timestamp and phase.
type OpenQuestions = HashMap<String, HashMap<(u64, u16), QuestionRow>>;

/// Reads the open questions of streams, under their shared locks, which last until the transaction ends.
pub(super) fn open_questions(connection: &mut Connection, streams: &[&str]) -> Result<OpenQuestions, Fault> {
    let mut locks: Vec<i64> = streams.iter().map(|stream| lock_key(stream)).collect();
    locks.sort_unstable();
    locks.dedup();
    connection.query("SELECT pg_advisory_xact_lock_shared(stream) FROM unnest($1::int8[]) AS stream", &[&locks])?;
    let mut open = HashMap::new();
    for stream in streams {
        if open.contains_key(*stream) {
            continue;
        }
        let Some(found) = find_stream(connection, stream)? else { continue };
        let questions = read_questions(connection, &found)?.into_iter().filter(|row| !row.closed);
        let by_key = questions.map(|row| ((row.asked.question.timestamp, row.asked.question.phase), row)).collect();
        open.insert((*stream).to_owned(), by_key);
    }
    Ok(open)
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

/// Accepts batches of any streams. Returns the outcome of each.
pub(super) fn accept_all(
    connection: &mut Connection,
    source: &str,
    batches: &[ReportBatch],
) -> Result<Vec<Result<Receipt, BatchRejection>>, Fault> {
    let streams: Vec<_> = batches.iter().map(|batch| &*batch.stream).collect();
    let open = open_questions(connection, &streams)?;
    let mut outcomes: Vec<Result<Receipt, BatchRejection>> = Vec::with_capacity(batches.len());
    // All services go through questions in the order of their numbers, so none deadlock.
    let mut by_question: BTreeMap<i64, (&QuestionRow, Vec<usize>)> = BTreeMap::new();
    for (position, ReportBatch { stream, timestamp, phase, .. }) in batches.iter().enumerate() {
        outcomes.push(find(&open, stream, *timestamp, *phase).map(|row| {
            by_question.entry(row.number).or_insert_with(|| (row, Vec::new())).1.push(position);
            Receipt::default()
        }));
    }
    for (row, positions) in by_question.into_values() {
        let chosen: Vec<_> = positions.iter().map(|position| &batches[*position]).collect();
        for (position, outcome) in positions.iter().zip(accept(connection, row, source, &chosen)?) {
            outcomes[*position] = outcome;
        }
    }
    Ok(outcomes)
}

/// What is stored under an identity.
struct Stored {
    /// Whether this transaction inserted it and its first report is still to be counted.
    to_count: bool,
    digest: i64,
}

/// Inserts identities in ascending order, which all services do, so none deadlock. Returns what is stored under each.
fn insert_identities(
    connection: &mut Connection,
    question: i64,
    first: &BTreeMap<[u8; 16], i64>,
) -> Result<HashMap<[u8; 16], Stored>, Fault> {
    let (ids, digests): (Vec<&[u8]>, Vec<i64>) = first.iter().map(|(id, digest)| (&id[..], *digest)).unzip();
    let inserted = connection.query(
        "INSERT INTO tidegate.seen (phase, id, digest)
         SELECT $1, id, digest FROM unnest($2::bytea[], $3::int8[]) AS new (id, digest)
         ON CONFLICT DO NOTHING RETURNING id",
        &[&question, &ids, &digests],
    )?;
    let mut stored = HashMap::with_capacity(first.len());
    let odd = || StoreError::Damaged("an identity of another length".to_owned());
    for row in &inserted {
        let id: [u8; 16] = row.try_get::<_, &[u8]>(0)?.try_into().map_err(|_| odd())?;
        stored.insert(id, Stored { to_count: true, digest: first.get(&id).copied().ok_or_else(odd)? });
    }
    let others: Vec<&[u8]> = ids.iter().copied().filter(|id| !stored.contains_key(*id)).collect();
    if !others.is_empty() {
        let sql = "SELECT id, digest FROM tidegate.seen WHERE phase = $1 AND id = ANY($2)";
        for row in connection.query(sql, &[&question, &others])? {
            let id: [u8; 16] = row.try_get::<_, &[u8]>(0)?.try_into().map_err(|_| odd())?;
            stored.insert(id, Stored { to_count: false, digest: row.try_get(1)? });
        }
    }
    Ok(stored)
}

/// Accepts batches for one question. Returns the outcome of each.
fn accept(
    connection: &mut Connection,
    row: &QuestionRow,
    source: &str,
    batches: &[&ReportBatch],
) -> Result<Vec<Result<Receipt, BatchRejection>>, Fault> {
    let oracle = row.oracle()?;
    let checked: Vec<_> = batches.iter().map(|batch| well_formed(&oracle, batch)).collect();
    let is_plausible = |batch: &ReportBatch, index: usize| batch.implausible.binary_search(&index).is_err();
    let mut first = BTreeMap::new();
    for (batch, _) in batches.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()) {
        for (index, (id, digest)) in batch.identities().enumerate() {
            if is_plausible(batch, index) {
                first.entry(*id.as_bytes()).or_insert_with(|| digest.cast_signed());
            }
        }
    }
    let mut stored = insert_identities(connection, row.number, &first)?;
    let mut counts = oracle.aggregate();
    let mut receipts = Vec::with_capacity(batches.len());
    for (batch, checked) in batches.iter().zip(checked) {
        if let Err(rejection) = checked {
            receipts.push(Err(rejection));
            continue;
        }
        let mut receipt = Receipt::default();
        for (index, (id, report, digest)) in batch.iter().enumerate() {
            if !is_plausible(batch, index) {
                receipt.implausible += 1;
                continue;
            }
            let stored = stored.get_mut(id.as_bytes());
            let stored = stored.ok_or_else(|| StoreError::Damaged("an identity is gone".to_owned()))?;
            if std::mem::take(&mut stored.to_count) {
                counts.add(report).map_err(|error| StoreError::Failed(error.to_string()))?;
                receipt.accepted += 1;
            } else if digest.cast_signed() == stored.digest {
                receipt.repeated += 1;
            } else {
                receipt.conflicting += 1;
            }
        }
        receipts.push(Ok(receipt));
    }
    if counts.reports() > 0 {
        let (offset, mut total) = count_for_update(connection, row.number, source, &oracle)?;
        total.merge(&counts).map_err(|error| StoreError::Failed(error.to_string()))?;
        put_count(connection, row.number, source, offset + counts.reports(), &total)?;
    }
    Ok(receipts)
}
