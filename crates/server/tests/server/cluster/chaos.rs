//! Random schedules of gateways, readers and a driver, on a log that loses answers, repeats, delays and hides records.
//!
//! A seed is a schedule, on one thread; only the database keeps its own time. The checker knows which reports were sent
//! and which were acknowledged, and nothing of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_kernel::oracle::Aggregate;
use tidegate_log::memory::MemoryLog;
use tidegate_log::{Log, LogError, NewRecord, Record, RecordId};
use tidegate_server::store::clustered::{PartitionReader, ReaderFigures};
use tidegate_server::store::postgres::cluster::Partition;
use tidegate_server::store::{BatchRejection, ClusteredStore, Counted, Missing, PostgresStore, StoreError};

use super::{PARTITIONS, close};
use crate::postgres::Postgres;
use crate::simulation::dice::Dice;
use crate::store::{accept, advance, batch, begin, counts, open};

/// A fault that no log may have. Each must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Acknowledges records that it then loses.
    AcknowledgesEarly,
    /// Sends the reports of one identity to several partitions.
    Scatters,
}

/// A log with the faults of a network.
#[derive(Debug)]
struct Chaos {
    log: MemoryLog,
    broken: Broken,
    has_faults: AtomicBool,
    dice: Mutex<Dice>,
    /// Records that arrive later.
    late: Mutex<Vec<NewRecord>>,
}

impl Chaos {
    fn append_one(&self, record: &NewRecord) -> Result<u64, LogError> {
        let store = |record: &NewRecord| self.log.append(std::slice::from_ref(record)).remove(0);
        if !self.has_faults.load(Ordering::Acquire) {
            return store(record);
        }
        let mut dice = self.dice.lock().unwrap();
        let mut record = record.clone();
        if self.broken == Broken::Scatters && dice.chance(1, 4) {
            record.partition = (record.partition + 1) % PARTITIONS;
        }
        let unknown = || Err(LogError::Unknown("no answer".to_owned()));
        match dice.below(40) {
            0 => Err(LogError::Unavailable("no leader".to_owned())),
            1 => unknown(),
            2 => store(&record).and_then(|_| unknown()),
            3 => {
                self.late.lock().unwrap().push(record);
                unknown()
            }
            4 => {
                // The broker has forgotten the identity of an earlier attempt.
                let again =
                    NewRecord { id: RecordId(u128::from(dice.below(u64::MAX)).to_le_bytes()), ..record.clone() };
                store(&again).and_then(|_| store(&record))
            }
            5..=9 if self.broken == Broken::AcknowledgesEarly => Ok(self.log.bounds(record.partition)?.end),
            _ => store(&record),
        }
    }

    /// Lets late records arrive.
    fn arrive(&self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        self.log.append(&late);
    }
}

impl Log for Chaos {
    fn append(&self, records: &[NewRecord]) -> Vec<Result<u64, LogError>> {
        records.iter().map(|record| self.append_one(record)).collect()
    }

    fn read(&self, partition: u32, from: u64, bytes: usize, _: Duration) -> Result<Vec<Record>, LogError> {
        let mut dice = self.dice.lock().unwrap();
        match dice.below(10) {
            0 => Ok(Vec::new()),
            1 => Err(LogError::Unavailable("no leader".to_owned())),
            2 => self.log.read(partition, from, 1, Duration::ZERO),
            _ => self.log.read(partition, from, bytes, Duration::ZERO),
        }
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        self.log.bounds(partition)
    }

    fn trim(&self, partition: u32, before: u64) -> Result<(), LogError> {
        self.log.trim(partition, before)
    }

    fn prepare(&self, count: u32) -> Result<(), LogError> {
        self.log.prepare(count)
    }
}

/// A worker that may be asleep while others take over.
struct Reading<'a> {
    partition: Partition,
    reader: PartitionReader<'a>,
}

/// Reports of the open question.
#[derive(Default)]
struct Fleet {
    sent: BTreeSet<u32>,
    acknowledged: BTreeSet<u32>,
}

fn value(device: u32) -> u8 {
    u8::try_from(device % 8).unwrap()
}

/// Counts devices by their values.
fn by_value(devices: &BTreeSet<u32>) -> [u64; 8] {
    let mut counts = [0; 8];
    devices.iter().for_each(|device| counts[usize::from(value(*device))] += 1);
    counts
}

/// Runs one schedule. Returns what is wrong, or how many questions were released.
fn run(server: &Postgres, seed: u64, broken: Broken) -> Result<u64, String> {
    server.clear();
    let postgres = Arc::new(PostgresStore::open(&server.url()).unwrap());
    let mut dice = Dice::new(seed, 1);
    let chaos = Arc::new(Chaos {
        log: MemoryLog::new(),
        broken,
        has_faults: AtomicBool::new(false),
        dice: Mutex::new(Dice::new(seed, 2)),
        late: Mutex::default(),
    });
    let open_store = || ClusteredStore::open(postgres.clone(), chaos.clone(), PARTITIONS, 0).unwrap();
    let (gateways, driver) = ([open_store(), open_store()], open_store());
    chaos.has_faults.store(true, Ordering::Release);
    let lease = begin(&driver, "a", &[open(0, 0)]);
    let (mut version, mut timestamp) = (1, 0);
    let (mut fleet, mut is_closing) = (Fleet::default(), false);
    let mut released = 0;
    let mut workers: Vec<BTreeMap<u32, Reading<'_>>> = (0..3).map(|_| BTreeMap::new()).collect();
    let stop = AtomicBool::new(false);
    for _ in 0..400 {
        match dice.below(10) {
            // Reports that come too late are seldom: they would hide that others are missing.
            0..=3 if is_closing && dice.chance(7, 8) => {}
            0..=3 => {
                let first = u32::try_from(dice.below(200)).unwrap();
                let devices = first..first + u32::try_from(dice.below(40)).unwrap() + 1;
                let bytes = batch("a", timestamp, 0, devices.clone().map(|device| (device, value(device))));
                fleet.sent.extend(devices.clone());
                let gateway = &gateways[dice.index(2)];
                match accept(gateway, "a", &bytes) {
                    Ok(Ok(_)) => fleet.acknowledged.extend(devices),
                    Ok(Err(BatchRejection::NotOpen { .. })) | Err(_) => {}
                    Ok(Err(other)) => return Err(other.to_string()),
                }
            }
            4 => chaos.arrive(),
            5 => {
                // Another worker takes some partitions over, whether the one before sleeps or not.
                let worker = dice.index(3);
                let wanted: Vec<u32> = (0..PARTITIONS).filter(|_| dice.chance(1, 2)).collect();
                let held = postgres.lease_partitions(&format!("worker {worker}"), &wanted, 0).unwrap();
                for partition in held {
                    let log: &dyn Log = &*chaos;
                    match PartitionReader::take_over(&postgres, log, &partition, &stop) {
                        Ok(reader) => {
                            workers[worker].insert(partition.number, Reading { partition, reader });
                        }
                        Err(StoreError::Unavailable(_)) => {}
                        Err(error) => return Err(error.to_string()),
                    }
                }
            }
            6..=8 => {
                let worker = dice.index(3);
                let number = u32::try_from(dice.below(u64::from(PARTITIONS))).unwrap();
                let Some(reading) = workers[worker].get_mut(&number) else { continue };
                match reading.reader.step(&ReaderFigures::default()) {
                    Ok(()) => {
                        let now = &postgres.partitions().unwrap()[number as usize];
                        // Where nothing was to be stored, a replaced reader does not notice.
                        assert!(now.epoch >= reading.partition.epoch);
                    }
                    Err(StoreError::Stale(_) | StoreError::Unavailable(_)) => {
                        workers[worker].remove(&number);
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
            _ => {
                is_closing = true;
                let closed = match close(&driver, &lease, version, false) {
                    Ok(Some(closed)) => closed,
                    Ok(None) | Err(StoreError::Unknown(_) | StoreError::Unavailable(_)) => continue,
                    Err(error) => return Err(error.to_string()),
                };
                check(&fleet, &closed[0])?;
                (timestamp, released) = (timestamp + 1, released + 1);
                advance(&driver, &lease, version, &[open(timestamp, 0)]).unwrap();
                (version, fleet, is_closing) = (version + 1, Fleet::default(), false);
            }
        }
    }
    Ok(released)
}

/// Compares a total with the reports that were sent, and with those that were acknowledged.
fn check(fleet: &Fleet, counted: &Counted) -> Result<(), String> {
    if counted.missing != Missing::NOTHING {
        return Err(format!("{:?} reports are missing", counted.missing));
    }
    let total = counted.total.as_ref().map_or_else(|| vec![0; 8], counts);
    let reports = counted.total.as_ref().map_or(0, Aggregate::reports);
    let (least, most) = (by_value(&fleet.acknowledged), by_value(&fleet.sent));
    let fits = total.iter().zip(least).zip(most).all(|((total, least), most)| (least..=most).contains(total));
    if fits && reports == total.iter().sum::<u64>() {
        return Ok(());
    }
    Err(format!("{total:?} are counted, but {least:?} were acknowledged, and {most:?} sent"))
}

#[test]
fn random_schedules_count_what_was_acknowledged_once() {
    let server = Postgres::start();
    let worlds = std::env::var("TIDEGATE_WORLDS").ok().and_then(|worlds| worlds.parse().ok()).unwrap_or(5);
    let mut released = 0;
    for seed in 0..worlds {
        released += run(&server, seed, Broken::Nothing).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(released > worlds, "only {released} questions were released");
    for broken in [Broken::AcknowledgesEarly, Broken::Scatters] {
        let caught = (0..8).any(|seed| run(&server, seed, broken).is_err());
        assert!(caught, "{broken:?} is not noticed");
    }
}
