//! Scenarios that are too rare for chance.

use std::sync::Arc;

use tidegate::release::Release;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Question, SeededRandom, View};
use tidegate_server::driver::{DriveError, Driver, HighWater, Tools, first_state, next_timestamp};
use tidegate_server::ingest::{CuratorEvent, EventBuffer};
use tidegate_server::store::{MemberChanges, NewStream, RecordFilter, RecordKind, Store, StoreError};
use tidegate_server::stream::Declaration;

use super::classes::{PBD, Wishes};
use super::device::{BrokenDevice, SequenceDefect, SimulatedDevice};
use super::marks::{Careless, Marks};
use super::store::{Breaks, MemoryStore};
use super::world::{BA, LEASE, START, TICK, declaration};

const SECOND: u64 = 1_000;

/// Creates a store with one curated stream, and marks.
fn one_stream(seed: u64) -> (Arc<MemoryStore>, Arc<Marks>) {
    let store = store_of(&declaration("ba", BA), Breaks::Nothing, seed);
    (store, Arc::new(Marks::new(Careless::Not, seed)))
}

fn store_of(declared: &Declaration, breaks: Breaks, seed: u64) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new(breaks, seed));
    let state = first_state(declared, 0, None).unwrap();
    let text = serde_json::to_string(declared).unwrap();
    store.create(&NewStream { name: &declared.name, declaration: &text, policy: "", state: &state }).unwrap();
    store
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
    store.damage("ba", |state| state[0] = 5);
    let before = store.stream("ba").unwrap();
    let later = START + 5 * TICK * SECOND;
    let refused = open(&store, &marks, "one", later).unwrap_err();
    assert!(matches!(&refused, DriveError::State { problem, .. } if problem.contains("version is 5")), "{refused}");
    assert_eq!(store.stream("ba").unwrap(), before);
    // A program of that version goes on with the spent budget.
    store.damage("ba", |state| state[0] = 4);
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

/// A request reads the version of a stream with classes, sleeps for two ticks in which its user counts, and then moves
/// the user to another class; it is repeated where the store says that it came too late. Returns what an outsider finds
/// wrong.
fn a_slow_change_of_class(breaks: Breaks, seed: u64) -> Result<(), String> {
    let declared = declaration("classes", PBD);
    let (store, marks) = (store_of(&declared, breaks, seed), Arc::new(Marks::new(Careless::Not, seed)));
    let classes = declared.classes().unwrap().unwrap();
    let buffer = EventBuffer::new(&declared).unwrap().map(Arc::new);
    let tools = Tools {
        store: Arc::clone(&store) as Arc<dyn Store>,
        marks: marks as Arc<dyn HighWater>,
        key: None,
        holder: "one".to_owned(),
        lease: LEASE,
    };
    let mut driver = Driver::open("classes", START, buffer.clone(), tools).unwrap();
    let (buffer, mut random, mut wishes) = (buffer.unwrap(), SeededRandom::new(seed), Wishes::default());
    let read = || {
        let found = store.stream("classes").unwrap();
        (found.version, next_timestamp(&found).unwrap())
    };
    let change = |(version, next), class| {
        let requests = [("user 1".to_owned(), Some(class)), ("user 0".to_owned(), Some(0))];
        let changes = MemberChanges { version, next, lateness: 0, classes: &classes, requests: &requests };
        store.change_members("classes", &changes)
    };
    let mut asleep = None;
    for second in 0..20 * TICK {
        let now = START + second * SECOND;
        driver.run_due(now, &mut random).unwrap();
        if let Some(open) = buffer.open_timestamp() {
            // User 0 is there at every other tick, so that each release is fresh.
            for user in [0, 1].into_iter().filter(|user| *user == 1 || open.is_multiple_of(2)) {
                let event = CuratorEvent { user: Some(format!("user {user}")), value: user.to_string() };
                if buffer.push(now, Some(open), vec![event]).0 == 1 {
                    wishes.accepted(user, open);
                }
            }
        }
        match second {
            1 => {
                let at = read();
                change(at, 0).unwrap();
                [0, 1].into_iter().for_each(|user| wishes.wished(user, at.1, Some(Some(0))));
            }
            // In the middle of a tick, so that the user counts in what has begun.
            65 => asleep = Some(read()),
            85 => {
                let mut at = asleep.unwrap();
                let mut moved = change(at, 1);
                while matches!(moved, Err(StoreError::Stale(_))) {
                    at = read();
                    moved = change(at, 1);
                }
                moved.unwrap();
                wishes.wished(1, at.1, Some(Some(1)));
            }
            _ => {}
        }
    }
    let mut counted = 0;
    for record in store.records("classes", RecordKind::Release, &RecordFilter::default()).unwrap() {
        let release: Release = serde_json::from_str(&record.body).unwrap();
        wishes.check(&release, &record.body)?;
        counted += 1;
    }
    assert!(counted >= 15, "{counted} releases");
    Ok(())
}

#[test]
fn a_change_of_class_that_comes_too_late_is_repeated() {
    assert_eq!(a_slow_change_of_class(Breaks::Nothing, 10_003), Ok(()));
}

#[test]
fn catches_classes_that_change_at_begun_timestamps() {
    let found = a_slow_change_of_class(Breaks::ChangesWhatHasBegun, 10_004).unwrap_err();
    assert!(found.contains("and in another at"), "{found}");
}

/// The answers of a device at consecutive timestamps, under a model that knows each next symbol.
fn answers_in_a_circle(defect: SequenceDefect) -> Vec<u8> {
    let declared = declaration(
        "circle",
        r#"{ "family": "sequence", "mechanism": "crr", "epsilon": 2, "domain": 4, "population": 1,
             "model": { "prior": [1, 0, 0, 0], "transitions": [[0, 1, 0, 0], [0, 0, 1, 0],
                                                             [0, 0, 0, 1], [1, 0, 0, 0]] } }"#,
    );
    let broken = BrokenDevice { of_sequences: defect, ..BrokenDevice::default() };
    let mut device = SimulatedDevice::new(0, &declared, broken, 1, START);
    let answer = |tick: u64| {
        let now = START + tick * TICK * SECOND;
        let (timestamp, epsilon) = (device.timestamp(now).unwrap(), "4".parse().unwrap());
        let (cohort, view) = (Cohort::Everyone, View::Sequence { length: 1 });
        let question = Question { timestamp, phase: 0, cohort, epsilon, oracle: OracleKind::Grr, domain: 4, view };
        device.answer(now, &question).unwrap().1[0]
    };
    (0..6).map(answer).collect()
}

#[test]
fn catches_a_device_of_sequences_that_forgets_its_belief() {
    assert_eq!(answers_in_a_circle(SequenceDefect::Nothing), [0, 1, 2, 3, 0, 1]);
    assert_eq!(answers_in_a_circle(SequenceDefect::ForgetsBelief), [0; 6]);
}
