//! [`ClusteredStore`]: PostgreSQL as the control plane, and a replicated log for the reports.
//!
//! **Acknowledged means counted.** A batch is acknowledged after (1) the log has all of its reports, and (2) its
//! question was seen open in the database after that. Closing a question (a) marks it closed in the database, (b)
//! appends a fence to each partition, and (c) waits until each partition is counted up to its fence. By (2), the
//! acknowledged reports were in the log before (a), so they lie before the fences of (b), and (c) counts them.
//!
//! **Counted once.** All reports with one identity come to one partition, whose reader counts the first of them. The
//! position of the reader and its counts move in one transaction that names its epoch, so a reader that was replaced
//! changes nothing. A new reader counts the records of open questions again, and must arrive at the stored counts.
//!
//! | module | contents |
//! | --- | --- |
//! | `frame` | records of the log |
//! | `counter` | counts of one partition |
//! | `reader` | thread that reads a partition |
//! | `closing` | closing of questions |
//! | `state` | who lives, and how far partitions are counted |

mod closing;
mod counter;
mod frame;
mod reader;
mod state;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::{Aggregate, Oracle};
use tidegate_log::{Log, LogError, NewRecord as NewLogRecord, RecordId};

use super::postgres::cluster::Route;
use super::row::well_formed;
use super::{
    Acknowledgement, BatchRejection, MemberChanges, MemberFilter, MemberPage, MergeOutcome, PhaseKey, PostgresStore,
    Record, RecordFilter, RecordKind, ReportBatch, Status, Store, StoreError, StreamRecord, Write, Written,
};
use frame::{ChunkWriter, MAX_REPORT, fence, records};
pub use reader::{PartitionReader, ReaderFigures};
pub use state::{ClusterState, PartitionState};

/// Most attempts to append a record, and the pause before the second; it doubles.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Questions in memory, before those that are over are forgotten.
const MOST_QUESTIONS: usize = 50_000;

/// Store of a cluster: streams in PostgreSQL, reports in a replicated log.
#[derive(Debug)]
pub struct ClusteredStore {
    postgres: Arc<PostgresStore>,
    log: Arc<dyn Log>,
    patience: u64,
    /// Questions that reports have come for. What is known of them never changes.
    asked: Mutex<AskedQuestions>,
}

/// Questions by stream, timestamp and phase.
type AskedQuestions = HashMap<(Arc<str>, u64, u16), Arc<Asked>>;

/// A question, as reports need it.
#[derive(Debug)]
struct Asked {
    number: i64,
    tag: u64,
    partitions: u32,
    oracle: Oracle,
    /// Set when it was found closed, which it stays: its reports are not worth a place in the log.
    is_closed: AtomicBool,
}

/// Translates an error of the log.
fn of_log(error: LogError) -> StoreError {
    match error {
        LogError::Unknown(why) => StoreError::Unknown(why),
        LogError::Unavailable(why) => StoreError::Unavailable(why),
        LogError::Lost { .. } => StoreError::Damaged(error.to_string()),
        other => StoreError::Failed(other.to_string()),
    }
}

/// Draws the identity of a record.
fn draw_id() -> Result<RecordId, StoreError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StoreError::Failed(format!("no randomness: {error}")))?;
    Ok(RecordId(id))
}

/// Appends bodies to partitions. Attempts are repeated, which adds no count. Returns the positions.
fn append(log: &dyn Log, bodies: impl IntoIterator<Item = (u32, Bytes)>) -> Result<Vec<u64>, StoreError> {
    let record = |(partition, body)| Ok(NewLogRecord { partition, id: draw_id()?, body });
    let records: Vec<_> = bodies.into_iter().map(record).collect::<Result<_, StoreError>>()?;
    let mut positions = vec![None; records.len()];
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        let left: Vec<usize> = (0..records.len()).filter(|place| positions[*place].is_none()).collect();
        let again: Vec<_> = left.iter().map(|place| records[*place].clone()).collect();
        let mut failure = None;
        for (place, outcome) in left.iter().zip(log.append(&again)) {
            match outcome {
                Ok(position) => positions[*place] = Some(position),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            None => break,
            Some(error @ (LogError::Unknown(_) | LogError::Unavailable(_))) if attempt < ATTEMPTS => {
                tracing::debug!(%error, attempt, "records are appended again");
                thread::sleep(pause);
                pause *= 2;
            }
            Some(error) => return Err(of_log(error)),
        }
    }
    let missing = || StoreError::Unknown("the log has not answered every record".to_owned());
    positions.into_iter().collect::<Option<_>>().ok_or_else(missing)
}

/// Returns the partition of an identity.
fn partition_of(id: &[u8; 16], partitions: u32) -> u32 {
    let [.., a, b, c, d] = *id;
    // Of the product with a number below 2^32, the upper half is below the other factor.
    u32::try_from((u64::from(u32::from_le_bytes([a, b, c, d])) * u64::from(partitions)) >> 32).unwrap_or(0)
}

impl ClusteredStore {
    /// Opens the store of a cluster, and adds the partitions that are missing. A release waits for `patience`
    /// milliseconds at most until its reports are counted.
    ///
    /// # Errors
    /// Errors of the database and of the log.
    pub fn open(
        postgres: Arc<PostgresStore>,
        log: Arc<dyn Log>,
        partitions: u32,
        patience: u64,
    ) -> Result<Self, StoreError> {
        let there: HashSet<u32> = postgres.partitions()?.iter().map(|partition| partition.number).collect();
        let all = partitions.max(there.iter().max().map_or(0, |most| most + 1));
        log.prepare(all).map_err(of_log)?;
        let added: Vec<u32> = (0..all).filter(|number| !there.contains(number)).collect();
        if !added.is_empty() {
            // What a log holds before is of another cluster.
            let ends = append(&*log, added.iter().map(|number| (*number, fence())))?;
            let first: BTreeMap<u32, u64> = added.into_iter().zip(ends.into_iter().map(|end| end + 1)).collect();
            postgres.add_partitions(&first)?;
        }
        Ok(Self { postgres, log, patience, asked: Mutex::default() })
    }

    /// Returns the control plane.
    pub const fn postgres(&self) -> &Arc<PostgresStore> {
        &self.postgres
    }

    /// Returns the log of reports.
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    fn asked(&self) -> MutexGuard<'_, AskedQuestions> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns the questions of batches that it does not know.
    fn meet(&self, batches: &[ReportBatch]) -> Result<(), StoreError> {
        let known = self.asked();
        let key = |batch: &ReportBatch| (Arc::clone(&batch.stream), batch.timestamp, batch.phase);
        let unknown: HashSet<Arc<str>> = batches
            .iter()
            .filter(|batch| !known.contains_key(&key(batch)))
            .map(|batch| Arc::clone(&batch.stream))
            .collect();
        drop(known);
        if unknown.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = unknown.iter().map(|name| &**name).collect();
        let routes = self.postgres.routes_of(&names)?;
        let mut known = self.asked();
        if known.len() > MOST_QUESTIONS {
            known.clear();
        }
        for route in routes {
            let Some(name) = unknown.get(&*route.stream) else { continue };
            let question = &route.open.question;
            let key = (Arc::clone(name), question.timestamp, question.phase);
            known.insert(key, Arc::new(Asked::new(&route)?));
        }
        Ok(())
    }

    /// Finds the question of a batch, and checks its reports.
    fn admit(&self, batch: &ReportBatch) -> Result<Arc<Asked>, BatchRejection> {
        let (timestamp, phase) = (batch.timestamp, batch.phase);
        let key = (Arc::clone(&batch.stream), timestamp, phase);
        let asked = self.asked().get(&key).cloned().ok_or(BatchRejection::NotOpen { timestamp, phase })?;
        if asked.is_closed.load(Ordering::Acquire) {
            return Err(BatchRejection::NotOpen { timestamp, phase });
        }
        well_formed(&asked.oracle, batch)?;
        if batch.report_length() > MAX_REPORT {
            let problem = format!("a report of {} bytes is too long for the log", batch.report_length());
            return Err(BatchRejection::Malformed(problem));
        }
        Ok(asked)
    }
}

impl Asked {
    fn new(route: &Route) -> Result<Self, StoreError> {
        let oracle = route.open.question.oracle().map_err(|error| StoreError::Failed(error.to_string()))?;
        let (number, partitions) = (route.number, route.partitions.max(1));
        Ok(Self { number, tag: route.tag(), partitions, oracle, is_closed: AtomicBool::new(route.closed) })
    }
}

/// Chunks of reports that are on their way to a partition.
type Chunks = BTreeMap<u32, Vec<ChunkWriter>>;

/// Divides the reports of a batch among partitions. Returns how many there are.
fn divide(batch: &ReportBatch, asked: &Asked, chunks: &mut Chunks) -> u64 {
    let mut open: HashMap<u32, ChunkWriter> = HashMap::new();
    let new = || ChunkWriter::new(asked.number, asked.tag, batch.report_length());
    let mut skipped = batch.implausible.iter().copied().peekable();
    let mut count = 0;
    for (place, (id, report, _)) in batch.iter().enumerate() {
        if skipped.next_if_eq(&place).is_some() {
            continue;
        }
        let partition = partition_of(id.as_bytes(), asked.partitions);
        let chunk = open.entry(partition).or_insert_with(new);
        if chunk.is_full() {
            chunks.entry(partition).or_default().push(std::mem::replace(chunk, new()));
        }
        chunk.push(id.as_bytes(), report);
        count += 1;
    }
    open.into_iter().for_each(|(partition, chunk)| chunks.entry(partition).or_default().push(chunk));
    count
}

impl Store for ClusteredStore {
    fn commit(&self, writes: &[Write<'_>]) -> Vec<Result<Written, StoreError>> {
        let (closes, others): (Vec<usize>, Vec<usize>) =
            (0..writes.len()).partition(|place| matches!(writes[*place], Write::Close { .. }));
        let other: Vec<_> = others.iter().map(|place| writes[*place].clone()).collect();
        let close: Vec<_> = closes.iter().map(|place| &writes[*place]).collect();
        let mut outcomes: Vec<_> = Vec::with_capacity(writes.len());
        if !other.is_empty() {
            outcomes.extend(others.into_iter().zip(self.postgres.commit(&other)));
        }
        if !close.is_empty() {
            outcomes.extend(closes.into_iter().zip(self.close_all(&close)));
        }
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn patience(&self) -> u64 {
        self.patience
    }

    fn clustered(&self) -> Option<&Self> {
        Some(self)
    }

    /// Reports are acknowledged once the log has them. Whether one came before is found when they are counted, so no
    /// receipt says so.
    fn accept(
        &self,
        _source: &str,
        batches: &[ReportBatch],
    ) -> Result<Vec<Result<Receipt, BatchRejection>>, StoreError> {
        self.meet(batches)?;
        let admitted: Vec<_> = batches.iter().map(|batch| self.admit(batch)).collect();
        let mut chunks = Chunks::new();
        let mut outcomes = Vec::with_capacity(batches.len());
        for (batch, asked) in batches.iter().zip(&admitted) {
            outcomes.push(asked.as_ref().map_err(Clone::clone).map(|asked| {
                let accepted = divide(batch, asked, &mut chunks);
                let implausible = (batch.len() as u64).saturating_sub(accepted);
                Receipt { accepted, implausible, ..Receipt::default() }
            }));
        }
        let bodies = chunks
            .iter()
            .flat_map(|(partition, chunks)| records(chunks).into_iter().map(move |body| (*partition, body)));
        append(&*self.log, bodies)?;
        // Only now: a question that is open still was open when the log had its reports.
        let mut numbers: Vec<i64> = admitted.iter().flatten().map(|asked| asked.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let open = if numbers.is_empty() { HashSet::new() } else { self.postgres.still_open(&numbers)? };
        for ((batch, asked), outcome) in batches.iter().zip(&admitted).zip(&mut outcomes) {
            let (timestamp, phase) = (batch.timestamp, batch.phase);
            if let Ok(asked) = asked
                && !open.contains(&asked.number)
            {
                asked.is_closed.store(true, Ordering::Release);
                *outcome = Err(BatchRejection::NotOpen { timestamp, phase });
            }
        }
        Ok(outcomes)
    }

    fn merge(
        &self,
        phase: &PhaseKey,
        source: &str,
        range: Range<u64>,
        counts: &Aggregate,
    ) -> Result<MergeOutcome, StoreError> {
        self.postgres.merge(phase, source, range, counts)
    }

    fn redeclare(&self, stream: &str, earlier: &str, declaration: &str) -> Result<(), StoreError> {
        self.postgres.redeclare(stream, earlier, declaration)
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.postgres.names()
    }

    fn stream(&self, stream: &str) -> Result<StreamRecord, StoreError> {
        self.postgres.stream(stream)
    }

    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError> {
        self.postgres.status(stream)
    }

    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError> {
        self.postgres.set_status(stream, status)
    }

    fn replace_state(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.postgres.replace_state(stream, state, version)
    }

    fn change_members(&self, stream: &str, changes: &MemberChanges<'_>) -> Result<(), StoreError> {
        self.postgres.change_members(stream, changes)
    }

    fn members(&self, stream: &str, filter: MemberFilter<'_>) -> Result<MemberPage, StoreError> {
        self.postgres.members(stream, filter)
    }

    fn records(&self, stream: &str, kind: RecordKind, filter: &RecordFilter) -> Result<Vec<Record>, StoreError> {
        self.postgres.records(stream, kind, filter)
    }

    fn latest(&self, stream: &str, kind: RecordKind, later: u64) -> Result<u64, StoreError> {
        self.postgres.latest(stream, kind, later)
    }

    fn events(&self, stream: &str, after: u64, before: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.postgres.events(stream, after, before, limit)
    }

    fn acknowledge(&self, stream: &str, new: &Acknowledgement) -> Result<Option<Acknowledgement>, StoreError> {
        self.postgres.acknowledge(stream, new)
    }

    fn acknowledgements(&self, stream: &str, from: u64) -> Result<Vec<Acknowledgement>, StoreError> {
        self.postgres.acknowledgements(stream, from)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        self.postgres.bytes()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.postgres.check()
    }
}
