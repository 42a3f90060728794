//! The history of a curated stream: each tick is released once and in order, whatever fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvError, TryRecvError};

use serde_json::Value;
use tidegate_kernel::SeededRandom;
use tidegate_server::driver::{HighWater, Mark, Now, RunReport, Tools, Turn, drive_together, first_state};
use tidegate_server::ingest::{CuratorEvent, EventBuffer, EventRejection};
use tidegate_server::store::{MemberChanges, NewStream, RecordFilter, RecordKind, Status, Store};
use tidegate_server::stream::Declaration;

use crate::http::Marks;
use crate::model::{Model, Outcome};
use crate::store::differential::Dice;

const START: u64 = 1_800_000_000_000;
/// Timestamp 1,000 begins at the start. There is practically no noise.
const PAST: &str = r#"{ "name": "past", "tick": 1, "epoch": 1799999000, "backfill": true, "spec":
    { "family": "central", "mechanism": "uniform", "epsilon": 500, "window": 5, "domain": ["a", "b"] } }"#;

fn declaration() -> Declaration {
    serde_json::from_str(PAST).unwrap()
}

fn create(store: &Model) {
    let state = first_state(&declaration(), 0, None).unwrap();
    store.create(&NewStream { name: "past", declaration: PAST, policy: "", state: &state }).unwrap();
}

fn new_turn() -> Turn {
    let buffer = EventBuffer::new(&declaration()).unwrap().map(Arc::new);
    Turn { stream: "past".into(), buffer, driver: None }
}

fn tools(store: &Arc<Model>) -> Tools {
    let (store, marks) = (Arc::clone(store) as Arc<dyn Store>, Arc::new(Marks::default()));
    Tools { store, marks, key: None, holder: "only".to_owned(), lease: 60_000 }
}

fn drive(tools: &Tools, turn: &mut Turn, at: u64) -> Option<RunReport> {
    let now = || Now::from(START + at);
    drive_together(tools, [turn], now, &mut SeededRandom::new(at)).remove(0).ok()
}

fn users(count: u64) -> Vec<CuratorEvent> {
    (0..count).map(|user| CuratorEvent { user: Some(format!("user {user}")), value: "a".to_owned() }).collect()
}

/// Timestamps that can be read, and how many users hold the first value.
fn released(store: &Model) -> Vec<(u64, u64)> {
    let records = store.records("past", RecordKind::Release, &RecordFilter::default()).unwrap();
    let count = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["statistic"]["counts"]["counts"][0].as_f64().unwrap().round()
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small count
    records.iter().map(|record| (record.timestamp, count(&record.body) as u64)).collect()
}

#[test]
fn each_tick_is_released_once_under_faults() {
    for seed in 0..40 {
        let store = Arc::new(Model::default());
        create(&store);
        let (mut dice, mut fates) = (Dice(seed), Dice(seed + 1_000));
        store.set_fate(move |_| match fates.below(12) {
            0 => Outcome::Unavailable,
            1 => Outcome::Full,
            2 => Outcome::UnknownNotDone,
            3 => Outcome::UnknownDone,
            _ => Outcome::Done,
        });
        let tools = tools(&store);
        let (mut turn, mut next, mut at) = (new_turn(), 3, 0);
        while next < 23 {
            let offered = turn.buffer.as_ref().unwrap().offer_past(next, users(1 + next % 4)).unwrap();
            let outcome = loop {
                at += 10;
                drive(&tools, &mut turn, at);
                match offered.try_recv() {
                    Err(TryRecvError::Empty) => {}
                    outcome => break outcome,
                }
                if dice.below(10) == 0 {
                    // The process stops, and another one starts.
                    turn = new_turn();
                }
            };
            match outcome {
                Ok(Ok(())) => next += 1,
                // It was released, and the answer was lost.
                Ok(Err(EventRejection::Past { first })) => {
                    assert_eq!(first, next + 1, "seed {seed}");
                    next += 1;
                }
                Ok(Err(other)) => panic!("seed {seed}: {other}"),
                Err(_) => {}
            }
        }
        store.set_fate(|_| Outcome::Done);
        (0..5).for_each(|run| drop(drive(&tools, &mut turn, at + run)));
        let all: Vec<_> = (3..23).map(|timestamp| (timestamp, 1 + timestamp % 4)).collect();
        assert_eq!(released(&store), all, "seed {seed}");
    }
}

#[test]
fn history_is_in_order_and_over() {
    let store = Arc::new(Model::default());
    create(&store);
    let (tools, mut turn) = (tools(&store), new_turn());
    let mut send = |timestamp: u64, at: u64| {
        let offered = turn.buffer.as_ref().unwrap().offer_past(timestamp, users(2)).unwrap();
        drive(&tools, &mut turn, at);
        offered.recv().unwrap()
    };
    assert_eq!(send(5, 0), Ok(()));
    for over in [0, 4, 5] {
        assert_eq!(send(over, 10), Err(EventRejection::Past { first: 6 }));
    }
    assert_eq!(send(999, 20), Ok(()), "timestamps may be left out");
    for not_over in [1_000, 1_001, u64::MAX] {
        assert_eq!(send(not_over, 30), Err(EventRejection::Past { first: 1_000 }));
    }
    // The present opens no tick.
    assert_eq!(send(1_000, 1_500), Ok(()));
    drive(&tools, &mut turn, 3_500);
    assert_eq!(turn.buffer.as_ref().unwrap().open_timestamp(), None);
    // Another process hears that the stream is live, and opens the next whole tick.
    let live = Declaration { backfill: false, ..declaration() };
    store
        .redeclare("past", &store.stream("past").unwrap().declaration, &serde_json::to_string(&live).unwrap())
        .unwrap();
    for at in (4_600..9_000).step_by(100) {
        drive(&tools, &mut turn, at);
    }
    assert_eq!(released(&store)[..3], [(5, 2), (999, 2), (1_000, 2)]);
    assert_eq!(released(&store)[3].0, 1_005);
}

/// A stream of the same name whose users have classes.
fn with_classes() -> Declaration {
    let mut declared: Value = serde_json::from_str(PAST).unwrap();
    declared["spec"] = serde_json::json!({ "family": "central", "mechanism": "pba", "domain": ["a", "b"],
        "classes": [{ "name": "careful", "epsilon": 1, "window": 3 }, { "name": "open", "epsilon": 5, "window": 3 }] });
    serde_json::from_value(declared).unwrap()
}

/// Marks that are looked at before a step is stored. Once armed, they change the class of a user at that moment.
#[derive(Debug)]
struct Meanwhile {
    store: Arc<Model>,
    is_armed: AtomicBool,
}

impl Meanwhile {
    fn change(&self, class: u16, next: u64) {
        let classes = with_classes().classes().unwrap().unwrap();
        let version = self.store.stream("past").unwrap().version;
        let requests = [("user 0".to_owned(), Some(class))];
        let changes = MemberChanges { version, next, lateness: 0, classes: &classes, requests: &requests };
        self.store.change_members("past", &changes).unwrap();
    }
}

impl HighWater for Meanwhile {
    fn mark(&self, _: &str) -> Option<Mark> {
        if self.is_armed.swap(false, Ordering::Relaxed) {
            self.change(1, 6);
        }
        None
    }

    fn raise_all(&self, _: &[(String, Mark)]) -> std::io::Result<()> {
        Ok(())
    }
}

/// A change of class applies to all timestamps that are not released, also to one that is being released.
#[test]
fn a_change_of_class_repeats_the_tick_it_meets() {
    let (store, declared) = (Arc::new(Model::default()), with_classes());
    let state = first_state(&declared, 0, None).unwrap();
    let text = serde_json::to_string(&declared).unwrap();
    store.create(&NewStream { name: "past", declaration: &text, policy: "", state: &state }).unwrap();
    let marks = Arc::new(Meanwhile { store: Arc::clone(&store), is_armed: AtomicBool::new(false) });
    let kept = Arc::clone(&store) as Arc<dyn Store>;
    let tools = Tools {
        store: kept,
        marks: Arc::clone(&marks) as Arc<dyn HighWater>,
        key: None,
        holder: "only".to_owned(),
        lease: 60_000,
    };
    let buffer = EventBuffer::new(&declared).unwrap().map(Arc::new);
    let mut turn = Turn { stream: "past".into(), buffer, driver: None };
    let mut send = |timestamp: u64, at: u64| {
        let offered = turn.buffer.as_ref().unwrap().offer_past(timestamp, users(1)).unwrap();
        drive(&tools, &mut turn, at);
        offered.recv()
    };
    marks.change(0, 5);
    assert_eq!(send(5, 0), Ok(Ok(())));
    marks.is_armed.store(true, Ordering::Relaxed);
    assert_eq!(send(6, 10), Err(RecvError), "it counted the user in a class that the user has left");
    let timestamps = |store: &Model| {
        let records = store.records("past", RecordKind::Release, &RecordFilter::default()).unwrap();
        records.iter().map(|record| record.timestamp).collect::<Vec<_>>()
    };
    assert_eq!(timestamps(&store), [5]);
    assert_eq!(send(6, 20), Ok(Ok(())));
    assert_eq!(timestamps(&store), [5, 6]);
}

#[test]
fn a_pause_stops_the_history() {
    let store = Arc::new(Model::default());
    create(&store);
    let (tools, mut turn) = (tools(&store), new_turn());
    store.set_status("past", Status::Paused).unwrap();
    let offered = turn.buffer.as_ref().unwrap().offer_past(5, users(2)).unwrap();
    drive(&tools, &mut turn, 0);
    assert_eq!(offered.recv().unwrap(), Err(EventRejection::Paused));
    assert!(released(&store).is_empty());
}
