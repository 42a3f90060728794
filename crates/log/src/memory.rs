//! [`MemoryLog`]: a log in memory.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Log, LogError, MAX_RECORD, NewRecord, Record, RecordId};

/// Log in memory. It remembers all identities that it keeps records of, so it never stores one twice.
#[derive(Debug, Default)]
pub struct MemoryLog {
    partitions: Mutex<HashMap<u32, Partition>>,
    appended: Condvar,
}

#[derive(Debug, Default)]
struct Partition {
    /// Position of the first record that is kept.
    first: u64,
    records: VecDeque<(RecordId, Bytes)>,
    known: HashMap<RecordId, u64>,
}

impl Partition {
    fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }
}

impl MemoryLog {
    /// Creates an empty log without partitions.
    pub fn new() -> Self {
        Self::default()
    }

    fn partitions(&self) -> MutexGuard<'_, HashMap<u32, Partition>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing(partition: u32) -> LogError {
    LogError::Failed(format!("there is no partition {partition}"))
}

impl Log for MemoryLog {
    fn append(&self, records: &[NewRecord]) -> Vec<Result<u64, LogError>> {
        let mut partitions = self.partitions();
        let mut append = |record: &NewRecord| {
            if record.body.len() > MAX_RECORD {
                return Err(LogError::Failed(format!("a record has at most {MAX_RECORD} bytes")));
            }
            let partition = partitions.get_mut(&record.partition).ok_or_else(|| missing(record.partition))?;
            if let Some(position) = partition.known.get(&record.id) {
                return Ok(*position);
            }
            let position = partition.end();
            partition.known.insert(record.id, position);
            partition.records.push_back((record.id, record.body.clone()));
            Ok(position)
        };
        let outcomes = records.iter().map(&mut append).collect();
        self.appended.notify_all();
        outcomes
    }

    fn read(&self, partition: u32, from: u64, bytes: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        let until = Instant::now() + wait;
        let mut partitions = self.partitions();
        loop {
            let found = partitions.get(&partition).ok_or_else(|| missing(partition))?;
            if from < found.first {
                return Err(LogError::Lost { partition, from, to: found.first - 1 });
            }
            let mut left = bytes;
            let skipped = usize::try_from(from - found.first).unwrap_or(usize::MAX);
            let mut records = Vec::new();
            for (position, (_, body)) in (from..).zip(found.records.iter().skip(skipped)) {
                if !records.is_empty() && body.len() > left {
                    break;
                }
                left = left.saturating_sub(body.len());
                records.push(Record { position, body: body.clone() });
            }
            let rest = until.saturating_duration_since(Instant::now());
            if !records.is_empty() || rest.is_zero() {
                return Ok(records);
            }
            partitions = self.appended.wait_timeout(partitions, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        let partitions = self.partitions();
        let found = partitions.get(&partition).ok_or_else(|| missing(partition))?;
        Ok(found.first..found.end())
    }

    fn trim(&self, partition: u32, before: u64) -> Result<(), LogError> {
        let mut partitions = self.partitions();
        let found = partitions.get_mut(&partition).ok_or_else(|| missing(partition))?;
        while found.first < before {
            let Some((id, _)) = found.records.pop_front() else { break };
            found.known.remove(&id);
            found.first += 1;
        }
        Ok(())
    }

    fn prepare(&self, count: u32) -> Result<(), LogError> {
        let mut partitions = self.partitions();
        for partition in 0..count {
            partitions.entry(partition).or_default();
        }
        Ok(())
    }
}
