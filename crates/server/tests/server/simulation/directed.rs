//! Scenarios that are too rare for chance.

use std::sync::Arc;

use tidegate_kernel::SeededRandom;
use tidegate_server::driver::{DriveError, Driver, HighWater, Tools, first_state};
use tidegate_server::ingest::EventBuffer;
use tidegate_server::store::{NewStream, RecordFilter, RecordKind, Store};

use super::marks::{Careless, Marks};
use super::store::{Breaks, MemoryStore};
use super::world::{BA, LEASE, START, TICK, declaration};

const SECOND: u64 = 1_000;

/// Creates a store with one curated stream, and marks.
fn one_stream(seed: u64) -> (Arc<MemoryStore>, Arc<Marks>) {
    let store = Arc::new(MemoryStore::new(Breaks::Nothing, seed));
    let declared = declaration("ba", BA);
    let state = first_state(&declared, 0, None).unwrap();
    let text = serde_json::to_string(&declared).unwrap();
    store.create(&NewStream { name: "ba", declaration: &text, policy: "", state: &state }).unwrap();
    (store, Arc::new(Marks::new(Careless::Not, seed)))
}

fn open(store: &Arc<MemoryStore>, marks: &Arc<Marks>, holder: &str, now: u64) -> Result<Driver, DriveError> {
    let buffer = EventBuffer::new(&declaration("ba", BA)).unwrap().map(Arc::new);
    let tools = Tools {
        store: Arc::clone(store) as Arc<dyn Store>,
        marks: Arc::clone(marks) as Arc<dyn HighWater>,
        key: None,
        holder: holder.to_owned(),
        lease: LEASE,
    };
    Driver::open("ba", now, buffer, tools)
}

/// Drives a stream for some ticks.
fn drive(driver: &mut Driver, from: u64, ticks: u64, random: &mut SeededRandom) {
    for second in 0..=ticks * TICK {
        driver.run_due(from + second * SECOND, random).unwrap();
    }
}

#[test]
fn refuses_a_state_of_unknown_version() {
    let (store, marks) = one_stream(10_001);
    let mut random = SeededRandom::new(1);
    drive(&mut open(&store, &marks, "one", START).unwrap(), START, 4, &mut random);
    // The version is the first number of a state.
    store.damage("ba", |state| state[0] = 4);
    let before = store.stream("ba").unwrap();
    let later = START + 5 * TICK * SECOND;
    let refused = open(&store, &marks, "one", later).unwrap_err();
    assert!(matches!(&refused, DriveError::State { problem, .. } if problem.contains("version is 4")), "{refused}");
    assert_eq!(store.stream("ba").unwrap(), before);
    // A program of that version goes on with the spent budget.
    store.damage("ba", |state| state[0] = 3);
    let mut driver = open(&store, &marks, "one", later).unwrap();
    drive(&mut driver, later, 4, &mut random);
    assert!(driver.version() > before.version);
}

#[test]
fn a_driver_asleep_during_a_restore_releases_nothing() {
    let (store, marks) = one_stream(10_002);
    let mut random = SeededRandom::new(1);
    let mut sleeper = open(&store, &marks, "sleeper", START).unwrap();
    drive(&mut sleeper, START, 3, &mut random);
    store.back_up();
    // It falls asleep, and another takes over and publishes.
    let later = START + 5 * TICK * SECOND;
    drive(&mut open(&store, &marks, "other", later).unwrap(), later, 4, &mut random);
    let published = store.records("ba", RecordKind::Release, &RecordFilter::default()).unwrap();
    store.restore();
    // The store is exactly as the sleeper knows it, epoch and version; only the marks tell.
    assert_eq!(store.stream("ba").unwrap().version, sleeper.version());
    let restored = store.records("ba", RecordKind::Release, &RecordFilter::default()).unwrap();
    assert!(restored.len() < published.len());
    let woken = (0..5 * TICK).find_map(|second| sleeper.run_due(later + second * SECOND, &mut random).err());
    assert!(matches!(woken, Some(DriveError::Older { .. })), "{woken:?}");
    let read = store.records("ba", RecordKind::Release, &RecordFilter::default()).unwrap();
    assert!(published.starts_with(&read), "nothing else can be read");
}
