//! [`Worker`]: reads the partitions that belong to this process, and counts their reports.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_log::Log;

use super::Fleet;
use crate::store::clustered::{PartitionReader, ReaderFigures};
use crate::store::postgres::cluster::Partition;
use crate::store::{PostgresStore, StoreError};

/// Pause before a partition is taken over again after an error.
const BACKOFF: Duration = Duration::from_millis(500);

/// Worker of a cluster.
#[derive(Debug)]
pub struct Worker {
    fleet: Arc<Fleet>,
    log: Arc<dyn Log>,
    readers: HashMap<u32, Reading>,
    figures: Arc<ReaderFigures>,
}

/// Thread that reads a partition.
#[derive(Debug)]
struct Reading {
    partition: Partition,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), StoreError>>,
}

impl Worker {
    /// Creates a worker that has no partitions yet.
    pub fn new(fleet: Arc<Fleet>, log: Arc<dyn Log>, figures: Arc<ReaderFigures>) -> Self {
        Self { fleet, log, readers: HashMap::new(), figures }
    }

    /// Reads partitions until `stop` is set, then releases them.
    pub fn run(&mut self, stop: &AtomicBool) {
        let pause = Duration::from_millis((self.fleet.lease() / 4).clamp(50, 2_000));
        while !stop.load(Ordering::Acquire) {
            if let Err(error) = self.turn() {
                tracing::warn!(%error, "the worker could not renew its leases");
            }
            let until = Instant::now() + pause;
            while Instant::now() < until && !stop.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(20));
            }
        }
        self.keep(&[]);
        let left = self.fleet.store().lease_partitions(self.fleet.name(), &[], 0).map(drop);
        if let Err(error) = left.and_then(|()| self.fleet.leave()) {
            tracing::warn!(%error, "the leases could not be released");
        }
    }

    /// Renews the leases, and starts and stops readers accordingly.
    fn turn(&mut self) -> Result<(), StoreError> {
        let figures = json!({
            "partitions": self.readers.len(),
            "counted": self.figures.counted.load(Ordering::Relaxed),
            "repeated": self.figures.repeated.load(Ordering::Relaxed),
        });
        self.fleet.announce(&figures.to_string())?;
        let all = self.fleet.store().partitions()?;
        let is_mine = |partition: &Partition| self.fleet.is_mine(&format!("partition {}", partition.number));
        let wanted: Vec<u32> = all.iter().filter(|each| is_mine(each)).map(|partition| partition.number).collect();
        // Another may read a partition from the moment at which its lease ends here.
        self.keep(&wanted);
        let held = self.fleet.store().lease_partitions(self.fleet.name(), &wanted, self.fleet.lease())?;
        for partition in held {
            let reads = self.readers.get(&partition.number);
            if reads.is_some_and(|reading| reading.partition.epoch == partition.epoch) {
                continue;
            }
            self.stop(partition.number);
            self.start(partition);
        }
        Ok(())
    }

    /// Stops the readers of other partitions than these, and forgets those that have ended.
    fn keep(&mut self, wanted: &[u32]) {
        let is_over = |(number, reading): (&u32, &Reading)| {
            (!wanted.contains(number) || reading.thread.is_finished()).then_some(*number)
        };
        let over: Vec<u32> = self.readers.iter().filter_map(is_over).collect();
        over.iter().for_each(|number| {
            if let Some(reading) = self.readers.get(number) {
                reading.stop.store(true, Ordering::Release);
            }
        });
        over.into_iter().for_each(|number| self.stop(number));
    }

    fn stop(&mut self, number: u32) {
        let Some(reading) = self.readers.remove(&number) else { return };
        reading.stop.store(true, Ordering::Release);
        match reading.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error @ StoreError::Damaged(_))) => tracing::error!(partition = number, %error, "it is not counted"),
            Ok(Err(error)) => tracing::warn!(partition = number, %error, "the partition is read anew"),
            Err(_) => tracing::error!(partition = number, "its reader panicked, which is a bug of this program"),
        }
    }

    fn start(&mut self, partition: Partition) {
        let (store, log) = (Arc::clone(self.fleet.store()), Arc::clone(&self.log));
        let (stop, figures) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self.figures));
        let taken = (Arc::clone(&stop), partition.clone());
        let name = format!("tidegate partition {}", partition.number);
        let thread = thread::Builder::new().name(name).spawn(move || read(&store, &*log, &taken.1, &taken.0, &figures));
        match thread {
            Ok(thread) => {
                self.readers.insert(partition.number, Reading { partition, stop, thread });
            }
            Err(error) => tracing::error!(%error, "a thread cannot be started"),
        }
    }
}

/// Reads a partition until `stop` is set, or another process is its reader.
fn read(
    store: &PostgresStore,
    log: &dyn Log,
    leased: &Partition,
    stop: &AtomicBool,
    figures: &ReaderFigures,
) -> Result<(), StoreError> {
    while !stop.load(Ordering::Acquire) {
        let outcome = read_once(store, log, leased, stop, figures);
        match outcome {
            Err(error @ (StoreError::Unknown(_) | StoreError::Unavailable(_) | StoreError::Failed(_))) => {
                tracing::warn!(partition = leased.number, %error, "the partition is taken over again");
                thread::sleep(BACKOFF);
            }
            outcome => return outcome,
        }
    }
    Ok(())
}

fn read_once(
    store: &PostgresStore,
    log: &dyn Log,
    leased: &Partition,
    stop: &AtomicBool,
    figures: &ReaderFigures,
) -> Result<(), StoreError> {
    // Its position may have moved since the lease was read.
    let found = store.partitions()?.into_iter().find(|partition| partition.number == leased.number);
    let found = found.filter(|partition| partition.epoch == leased.epoch);
    let found = found.ok_or_else(|| StoreError::Stale(format!("partition {}", leased.number)))?;
    let mut reader = PartitionReader::take_over(store, log, &found, stop)?;
    while !stop.load(Ordering::Acquire) {
        reader.step(figures)?;
    }
    Ok(())
}
