//! [`QuestionState`]: an open question in memory, with the identities that have reported.
//!
//! A phase's identities are random, so a table with a row for each would touch nearly a page for each report. Both
//! stores keep them as a log instead, one row a transaction, and the set in memory follows the log.

use std::collections::HashMap;

use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::{Aggregate, Oracle};

use super::identity_set::{Entry, Found, IdentitySet};
use super::row::{QuestionRow, check, sum, well_formed};
use super::{BatchRejection, ReportBatch, StoreError};

/// Bytes of an identity in the log: without its prefix, which the question determines.
const ID: usize = 12;
/// Bytes of a report in the log: its identity and its digest.
const LOGGED: usize = ID + 8;

/// An open question in memory.
#[derive(Debug)]
pub(super) struct QuestionState {
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

/// A row of the log of identities.
pub(super) struct LogRow {
    pub(super) number: u64,
    pub(super) body: Vec<u8>,
    pub(super) sum: i64,
}

impl LogRow {
    /// Makes the log of identities that were kept in another way: a row of all of them.
    pub(super) fn of(question: i64, identities: impl IntoIterator<Item = ([u8; 16], u64)>) -> Self {
        let body: Vec<u8> = identities.into_iter().flat_map(|(id, digest)| logged_of(&id, digest)).collect();
        Self { number: 1, sum: log_sum(question, 1, &body), body }
    }
}

impl QuestionState {
    /// Creates a question with an empty log and without counts.
    pub(super) fn new(row: &QuestionRow) -> Result<Self, StoreError> {
        Ok(Self {
            number: row.number,
            oracle: row.oracle()?,
            identities: IdentitySet::new()?,
            logged: 0,
            sources: HashMap::new(),
            fresh: Vec::new(),
        })
    }

    /// Returns the number of log rows that it knows.
    pub(super) const fn logged(&self) -> u64 {
        self.logged
    }

    /// Adds the next row of the log, and verifies it.
    pub(super) fn follow(&mut self, number: u64, body: &[u8], sum: i64) -> Result<(), StoreError> {
        check(sum, log_sum(self.number, number, body), || "a log of identities".to_owned())?;
        self.logged += 1;
        if number != self.logged {
            return Err(StoreError::Damaged(format!("log row {} of identities is gone", self.logged)));
        }
        let entries: Vec<Entry> = body.as_chunks().0.iter().map(entry_of).collect();
        self.identities.insert(&entries, |_| ());
        Ok(())
    }

    /// Counts a batch in memory.
    pub(super) fn accept(
        &mut self,
        source: &str,
        batch: &ReportBatch,
    ) -> Result<Result<Receipt, BatchRejection>, StoreError> {
        if let Err(rejection) = well_formed(&self.oracle, batch) {
            return Ok(Err(rejection));
        }
        let logged: Vec<[u8; LOGGED]> =
            batch.identities().map(|(id, digest)| logged_of(id.as_bytes(), digest)).collect();
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

    /// Returns the log row of the accepted reports, to be written with the counts of their source; `None` where no
    /// report was accepted.
    pub(super) fn log(&mut self, source: &str) -> Option<LogRow> {
        if self.fresh.is_empty() {
            return None;
        }
        self.logged += 1;
        source_count(&mut self.sources, &self.oracle, source).logged += 1;
        let body = std::mem::take(&mut self.fresh).into_flattened();
        Some(LogRow { number: self.logged, sum: log_sum(self.number, self.logged, &body), body })
    }
}

fn logged_of(id: &[u8; 16], digest: u64) -> [u8; LOGGED] {
    let mut logged = [0; LOGGED];
    logged[..ID].copy_from_slice(&id[4..]);
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
