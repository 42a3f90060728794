//! [`QuestionState`]: an open question in memory, with the identities that have reported.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use tidegate_device::api::Receipt;
use tidegate_device::wire::ReportId;
use tidegate_kernel::oracle::{Aggregate, Oracle};

use super::super::identity_set::{Entry, Found, IdentitySet};
use super::super::row::{Columns, QuestionRow, check, signed, sum, well_formed};
use super::super::{BatchRejection, ReportBatch, StoreError};
use super::fault::Fault;
use super::rows::{put_count, read_counts};

/// Bytes of an identity in the log: without its prefix, which the question determines.
const ID: usize = 12;
/// Bytes of a report in the log: its identity and its digest.
const LOGGED: usize = ID + 8;

/// An open question in memory.
#[derive(Debug)]
pub(in crate::store) struct QuestionState {
    pub(super) number: i64,
    pub(super) oracle: Oracle,
    pub(super) identities: IdentitySet,
    /// Rows of its log.
    logged: u64,
    pub(super) sources: HashMap<String, SourceCount>,
    /// Reports to be logged at the end of the transaction.
    fresh: Vec<[u8; LOGGED]>,
}

/// Counts of one source.
#[derive(Clone, Debug)]
pub(super) struct SourceCount {
    /// Number of reports that were counted.
    pub(super) offset: u64,
    /// Rows of the log that are of this source.
    pub(super) logged: u64,
    pub(super) counts: Aggregate,
}

impl SourceCount {
    pub(super) fn new(oracle: &Oracle) -> Self {
        Self { offset: 0, logged: 0, counts: oracle.aggregate() }
    }
}

fn log_sum(question: i64, number: u64, body: &[u8]) -> i64 {
    sum(&[b"seen", &question.to_le_bytes(), &number.to_le_bytes(), body])
}

impl QuestionState {
    /// Loads a question with its counts and log, and verifies them.
    pub(in crate::store) fn load(connection: &Connection, row: &QuestionRow) -> Result<Self, Fault> {
        let sources = read_counts(connection, row.number)?;
        let mut question = Self {
            number: row.number,
            oracle: row.oracle()?,
            identities: IdentitySet::new()?,
            logged: 0,
            sources,
            fresh: Vec::new(),
        };
        let mut statement =
            connection.prepare_cached("SELECT number, body, sum FROM seen WHERE phase = ?1 ORDER BY number")?;
        let mut rows = statement.query([question.number])?;
        while let Some(row) = rows.next()? {
            question.logged += 1;
            let number = row.number(0)?;
            let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            check(row.integer(2)?, log_sum(question.number, number, body), || "a log of identities".to_owned())?;
            if number != question.logged {
                return Err(StoreError::Damaged(format!("log row {} of identities is gone", question.logged)).into());
            }
            let entries: Vec<Entry> = body.as_chunks().0.iter().map(entry_of).collect();
            question.identities.insert(&entries, |_| ());
        }
        let expected: u64 = question.sources.values().map(|source| source.logged).sum();
        if question.logged != expected {
            let why = format!("{expected} log rows of identities were written, but {} are there", question.logged);
            return Err(StoreError::Damaged(why).into());
        }
        Ok(question)
    }

    /// Counts a batch in memory.
    pub(super) fn accept(
        &mut self,
        source: &str,
        batch: &ReportBatch,
    ) -> Result<Result<Receipt, BatchRejection>, Fault> {
        if let Err(rejection) = well_formed(&self.oracle, batch) {
            return Ok(Err(rejection));
        }
        let logged: Vec<[u8; LOGGED]> = batch.identities().map(|(id, digest)| logged_of(id, digest)).collect();
        let entries: Vec<Entry> = logged.iter().map(entry_of).collect();
        let mut skipped: Vec<usize> =
            batch.implausible.iter().copied().filter(|position| *position < entries.len()).collect();
        let mut receipt = Receipt { implausible: skipped.len() as u64, ..Receipt::default() };
        let mut next = 0;
        for end in skipped.clone().into_iter().chain([entries.len()]) {
            let mut position = next;
            self.identities.insert(entries.get(next..end).unwrap_or_default(), |found| {
                match found {
                    Found::Nothing => {
                        self.fresh.push(logged[position]);
                        receipt.accepted += 1;
                    }
                    Found::Same => receipt.repeated += 1,
                    Found::Other => receipt.conflicting += 1,
                }
                if found != Found::Nothing {
                    skipped.push(position);
                }
                position += 1;
            });
            next = end + 1;
        }
        skipped.sort_unstable();
        if receipt.accepted > 0 {
            let count = source_count(&mut self.sources, &self.oracle, source);
            let mut next = 0;
            for position in skipped.into_iter().chain([batch.len()]) {
                let reports = &batch.reports()[next * batch.report_length()..position * batch.report_length()];
                count.counts.add_batch(reports).map_err(|error| StoreError::Failed(error.to_string()))?;
                next = position + 1;
            }
            count.offset += receipt.accepted;
        }
        Ok(Ok(receipt))
    }

    /// Writes the log and the counts of the accepted reports.
    pub(super) fn save(&mut self, connection: &Connection, source: &str) -> Result<(), Fault> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        self.logged += 1;
        let fresh = self.fresh.as_flattened();
        connection
            .prepare_cached("INSERT INTO seen (phase, number, body, sum) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![self.number, signed(self.logged)?, fresh, log_sum(self.number, self.logged, fresh)])?;
        self.fresh.clear();
        let count = source_count(&mut self.sources, &self.oracle, source);
        count.logged += 1;
        put_count(connection, self.number, source, count)
    }
}

fn logged_of(id: ReportId, digest: u64) -> [u8; LOGGED] {
    let mut logged = [0; LOGGED];
    logged[..ID].copy_from_slice(&id.as_bytes()[4..]);
    logged[ID..].copy_from_slice(&digest.to_le_bytes());
    logged
}

fn entry_of(logged: &[u8; LOGGED]) -> Entry {
    let [a, b, c, d, e, f, g, h, i, j, k, l, digest @ ..] = *logged;
    Entry::new(&[a, b, c, d, e, f, g, h, i, j, k, l], u64::from_le_bytes(digest))
}

fn source_count<'a>(
    sources: &'a mut HashMap<String, SourceCount>,
    oracle: &Oracle,
    source: &str,
) -> &'a mut SourceCount {
    sources.entry(source.to_owned()).or_insert_with(|| SourceCount::new(oracle))
}
