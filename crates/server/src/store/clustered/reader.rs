//! [`PartitionReader`]: reads a partition of the log, counts its reports, and stores the counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_log::Log;

use super::super::postgres::cluster::Partition;
use super::super::{PostgresStore, StoreError};
use super::counter::PartitionCounter;
use super::of_log;

/// Bytes that are read at once.
const READ: usize = 1 << 20;
/// Longest wait for a record.
const WAIT: Duration = Duration::from_millis(200);
/// Longest time for which counts are not stored.
const STORE: Duration = Duration::from_millis(100);
/// Pause between two looks for records that nobody needs any more.
const TRIM: Duration = Duration::from_secs(2);

/// Reports that a reader has counted, for metrics.
#[derive(Debug, Default)]
pub struct ReaderFigures {
    /// Reports that were counted.
    pub counted: AtomicU64,
    /// Reports that came again.
    pub repeated: AtomicU64,
    /// Position of the next record.
    pub position: AtomicU64,
}

/// Reader of one partition, under its lease.
#[derive(Debug)]
pub struct PartitionReader<'a> {
    store: &'a PostgresStore,
    log: &'a dyn Log,
    counter: PartitionCounter,
    number: u32,
    stored: Instant,
    trimmed: (Instant, u64),
}

impl<'a> PartitionReader<'a> {
    /// Takes a partition over: counts the records of open questions again, up to the stored position, and compares the
    /// result with the stored counts. Gives up if `stop` is set.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where records are gone or the counts differ.
    pub fn take_over(
        store: &'a PostgresStore,
        log: &'a dyn Log,
        partition: &Partition,
        stop: &AtomicBool,
    ) -> Result<Self, StoreError> {
        let Partition { number, epoch, counted, kept, .. } = *partition;
        let mut counter = PartitionCounter::new(number, epoch, kept);
        while counter.next() < counted {
            let records = log.read(number, counter.next(), READ, WAIT).map_err(of_log)?;
            let before = records.partition_point(|record| record.position < counted);
            counter.count(store, &records[..before])?;
            if stop.load(Ordering::Acquire) {
                return Err(StoreError::Unavailable("the reader is stopping".to_owned()));
            }
        }
        counter.verify(store)?;
        let now = Instant::now();
        Ok(Self { store, log, counter, number, stored: now, trimmed: (now, kept) })
    }

    /// Counts the next records, and stores the counts when they are due.
    ///
    /// # Errors
    /// After any error the reader must be dropped, and the partition taken over again: what is stored is unknown.
    pub fn step(&mut self, figures: &ReaderFigures) -> Result<(), StoreError> {
        let records = self.log.read(self.number, self.counter.next(), READ, WAIT).map_err(of_log)?;
        let bytes: usize = records.iter().map(|record| record.body.len()).sum();
        let before = self.counter.figures;
        let has_fence = self.counter.count(self.store, &records)?;
        let after = self.counter.figures;
        figures.counted.fetch_add(after.counted - before.counted, Ordering::Relaxed);
        figures.repeated.fetch_add(after.repeated - before.repeated, Ordering::Relaxed);
        figures.position.store(self.counter.next(), Ordering::Relaxed);
        // Where less came than was asked for, there is time.
        let is_due = has_fence || bytes < READ / 2 || self.stored.elapsed() >= STORE;
        if !self.counter.is_stored() && is_due {
            self.counter.store(self.store)?;
            self.stored = Instant::now();
        }
        self.trim();
        Ok(())
    }

    /// Deletes records that no open question needs. An error matters to nobody but the log's disk.
    fn trim(&mut self) {
        let (at, before) = self.trimmed;
        let kept = self.counter.kept();
        if at.elapsed() < TRIM || !self.counter.is_stored() {
            return;
        }
        self.trimmed = (Instant::now(), kept);
        if kept > before
            && let Err(error) = self.log.trim(self.number, kept)
        {
            tracing::warn!(partition = self.number, %error, "the log could not be trimmed");
        }
    }
}
