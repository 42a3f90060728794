//! [`PartitionCounter`]: counts the reports of one partition.
//!
//! What it holds is a function of the partition's records alone, from the first one that an open question needs. So a
//! reader that takes over counts those records again, and must arrive at the stored counts.

use std::collections::{HashMap, HashSet};

use tidegate_kernel::oracle::{Aggregate, Oracle};
use tidegate_log::Record;

use super::super::identity_set::{Entry, Found, IdentitySet};
use super::super::postgres::cluster::{PartitionCommit, Route};
use super::super::{PostgresStore, StoreError};
use super::frame::{Chunk, chunks};

/// Questions that are over, of which records may still come.
const MOST_OVER: usize = 100_000;

/// Counts of one partition.
#[derive(Debug)]
pub(super) struct PartitionCounter {
    number: u32,
    epoch: u64,
    /// Position up to which the database knows its counts.
    stored: u64,
    /// Position from which the database knows that records are kept. A later reader begins there.
    kept: u64,
    /// Position of the next record.
    next: u64,
    questions: HashMap<i64, Counting>,
    over: HashSet<i64>,
    /// Reports that were counted, and those that came again.
    pub(super) figures: Figures,
}

/// Number of reports that a counter has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) counted: u64,
    pub(super) repeated: u64,
}

/// An open question.
#[derive(Debug)]
struct Counting {
    tag: u64,
    oracle: Oracle,
    identities: IdentitySet,
    reports: u64,
    total: Aggregate,
    /// Position of its first record.
    first: u64,
    changed: bool,
}

fn damaged(number: u32, position: u64, problem: &str) -> StoreError {
    StoreError::Damaged(format!("record {position} of partition {number} {problem}"))
}

impl Counting {
    fn new(route: &Route, first: u64) -> Result<Self, StoreError> {
        let oracle = route.open.question.oracle().map_err(|error| StoreError::Failed(error.to_string()))?;
        let total = oracle.aggregate();
        Ok(Self { tag: route.tag(), oracle, identities: IdentitySet::new()?, reports: 0, total, first, changed: false })
    }

    /// Counts the reports of a chunk whose identities are new.
    fn count(&mut self, chunk: &Chunk<'_>, figures: &mut Figures) -> Result<(), &'static str> {
        if chunk.report_length != self.oracle.report_length() {
            return Err("has reports of another length than its question");
        }
        let entries: Vec<Entry> = chunk.ids.iter().map(|id| Entry::new(id, 0)).collect();
        let (mut repeated, mut position) = (Vec::new(), 0);
        self.identities.insert(&entries, |found| {
            if found != Found::Nothing {
                repeated.push(position);
            }
            position += 1;
        });
        let mut next = 0;
        for end in repeated.iter().copied().chain([entries.len()]) {
            let reports = &chunk.reports[next * chunk.report_length..end * chunk.report_length];
            if !reports.is_empty() {
                self.total.add_batch(reports).map_err(|_| "has a report that its question does not allow")?;
            }
            next = end + 1;
        }
        let fresh = (entries.len() - repeated.len()) as u64;
        self.reports += fresh;
        self.changed |= fresh > 0;
        figures.counted += fresh;
        figures.repeated += repeated.len() as u64;
        Ok(())
    }
}

impl PartitionCounter {
    /// Creates a counter that has read nothing, from a position on.
    pub(super) fn new(number: u32, epoch: u64, from: u64) -> Self {
        Self {
            number,
            epoch,
            stored: from,
            kept: from,
            next: from,
            questions: HashMap::new(),
            over: HashSet::new(),
            figures: Figures::default(),
        }
    }

    /// Returns the position of the next record.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Whether the database knows everything that was counted.
    pub(super) const fn is_stored(&self) -> bool {
        self.stored == self.next
    }

    /// Returns the position before which no reader needs a record, as the database knows. Questions that have ended
    /// since its last commit do not count: another reader would begin at their records.
    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns the position of the first record that an open question may still need.
    fn needed(&self) -> u64 {
        self.questions.values().map(|question| question.first).min().unwrap_or(self.next)
    }

    /// Counts the next records. Returns whether one of them is a fence, so that somebody waits for these counts.
    pub(super) fn count(&mut self, store: &PostgresStore, records: &[Record]) -> Result<bool, StoreError> {
        let mut has_fence = false;
        let mut read = Vec::with_capacity(records.len());
        for record in records {
            if record.position != self.next + read.len() as u64 {
                return Err(damaged(self.number, record.position, "does not follow the one before"));
            }
            let chunks = chunks(&record.body)
                .ok_or_else(|| damaged(self.number, record.position, "is damaged, or not of this cluster"))?;
            has_fence |= chunks.is_empty();
            read.push(chunks);
        }
        self.meet(store, &read)?;
        for (position, chunks) in (self.next..).zip(&read) {
            for chunk in chunks {
                let Some(question) = self.questions.get_mut(&chunk.question) else { continue };
                if question.tag == chunk.tag {
                    let counted = question.count(chunk, &mut self.figures);
                    counted.map_err(|problem| damaged(self.number, position, problem))?;
                }
            }
        }
        self.next += read.len() as u64;
        Ok(has_fence)
    }

    /// Learns the questions of records that it does not know.
    fn meet(&mut self, store: &PostgresStore, read: &[Vec<Chunk<'_>>]) -> Result<(), StoreError> {
        let mut unknown: HashMap<i64, u64> = HashMap::new();
        for (position, chunks) in (self.next..).zip(read) {
            for Chunk { question, .. } in chunks {
                if !self.questions.contains_key(question) && !self.over.contains(question) {
                    unknown.entry(*question).or_insert(position);
                }
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = unknown.keys().copied().collect();
        for route in store.routes(&numbers)? {
            if let Some(first) = unknown.remove(&route.number) {
                self.questions.insert(route.number, Counting::new(&route, first)?);
            }
        }
        self.forget(unknown.into_keys());
        Ok(())
    }

    /// Forgets questions that are over.
    fn forget(&mut self, over: impl IntoIterator<Item = i64>) {
        if self.over.len() > MOST_OVER {
            self.over.clear();
        }
        for question in over {
            self.questions.remove(&question);
            self.over.insert(question);
        }
    }

    /// Stores the counts, and the position up to which they go.
    pub(super) fn store(&mut self, store: &PostgresStore) -> Result<(), StoreError> {
        let changed = self.questions.iter().filter(|(_, question)| question.changed);
        let commit = PartitionCommit {
            number: self.number,
            epoch: self.epoch,
            from: self.stored,
            to: self.next,
            kept: self.needed(),
            counts: changed.map(|(number, question)| (*number, question.reports, question.total.clone())).collect(),
            known: self.questions.keys().copied().collect(),
        };
        let over = store.count(&commit)?;
        (self.stored, self.kept) = (self.next, commit.kept);
        self.questions.values_mut().for_each(|question| question.changed = false);
        self.forget(over);
        Ok(())
    }

    /// Notes that the counts up to here are stored already, and compares them with the stored ones.
    pub(super) fn verify(&mut self, store: &PostgresStore) -> Result<(), StoreError> {
        self.stored = self.next;
        let known: Vec<i64> = self.questions.keys().copied().collect();
        let stored = store.partial_counts(self.number, &known)?;
        let mut odd = Vec::new();
        for (number, question) in &mut self.questions {
            question.changed = false;
            let same = match stored.get(number) {
                Some((reports, total)) => (*reports, total) == (question.reports, &question.total),
                None => question.reports == 0,
            };
            odd.extend((!same).then_some(*number));
        }
        // Questions that have ended meanwhile have no counts.
        let Some(route) = store.routes(&odd)?.into_iter().next() else {
            self.forget(odd);
            return Ok(());
        };
        let (number, stream) = (self.number, route.stream);
        let problem = format!("partition {number} counts again to another result for stream {stream}");
        Err(StoreError::Damaged(problem))
    }
}
