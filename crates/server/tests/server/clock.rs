//! A curated stream while the wall clock is wrong, or the store slow.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::kernel::SeededRandom;
use tidegate_device::clock::{BootClock, Steady};
use tidegate_server::driver::{Driver, DriverEvent, Now, Tools, Turn, drive_together, first_state};
use tidegate_server::ingest::{CuratorEvent, EventBuffer};
use tidegate_server::store::sqlite::SqliteStore;
use tidegate_server::store::{NewStream, Store as _};
use tidegate_server::stream::Declaration;

use crate::http::Marks;
use crate::model::{Model, Outcome};
use crate::store::TestFolder;

/// Milliseconds since 1970 at which the first process starts.
const START: u64 = 1_800_000_000_000;
/// Spends all of epsilon 1 at one timestamp of each window of 600 seconds.
const DECLARATION: &str = r#"{ "name": "counts", "tick": 1, "epoch": 1799999000, "spec":
    { "family": "central", "mechanism": "sample", "epsilon": 1.0, "window": 600, "domain": ["a", "b"] } }"#;

/// Returns the units of epsilon that three processes of five seconds spend. The wall clock is set 700 seconds ahead
/// before each; `start` returns the steady clock of each.
fn spent_by_three_processes(start: impl Fn(u64) -> Steady) -> u64 {
    let folder = TestFolder::new();
    let store = Arc::new(SqliteStore::open(&folder.file("store")).unwrap());
    let declaration: Declaration = serde_json::from_str(DECLARATION).unwrap();
    let state = first_state(&declaration, 0, None).unwrap();
    store.create(&NewStream { name: "counts", declaration: DECLARATION, policy: "", state: &state }).unwrap();
    let tools = Tools { store, marks: Arc::new(Marks::default()), key: None, holder: "only".to_owned(), lease: 60_000 };
    let mut spent = 0;
    for process in 0..3 {
        let Steady { run, seconds } = start(process);
        let buffer = EventBuffer::new(&declaration).unwrap().map(Arc::new);
        let at = |second: u64| Now {
            wall: START + 1_000 * (705 * process + second),
            steady: Some(Steady { run, seconds: seconds + 5 * process + second }),
        };
        let mut driver = Driver::open("counts", at(0), buffer.clone(), tools.clone()).unwrap();
        for second in 0..5 {
            let report = driver.run_due(at(second), &mut SeededRandom::new(process)).unwrap();
            spent += report.events.iter().map(units).sum::<u64>();
            let buffer = buffer.as_ref().unwrap();
            let event = CuratorEvent { user: Some("one".to_owned()), value: "a".to_owned() };
            buffer.push(at(second).wall, buffer.open_timestamp(), vec![event]);
        }
        driver.release_lease().unwrap();
    }
    spent
}

fn units(news: &DriverEvent) -> u64 {
    match news {
        DriverEvent::Released { spent, .. } => spent.map_or(0, |spent| spent.units()),
        _ => 0,
    }
}

#[test]
fn refunds_nothing_after_a_restart_with_clock_ahead() {
    // As every process finds it, whatever the others have found.
    let spent = spent_by_three_processes(|_| BootClock::new().unwrap().read().steady);
    assert_eq!(spent, 1_000_000_000);
}

/// The reason why a service does not start without a clock that spans restarts.
#[test]
fn a_clock_run_for_each_start_would_refund() {
    let spent = spent_by_three_processes(|process| Steady { run: [process.to_le_bytes()[0]; 16], seconds: 0 });
    assert_eq!(spent, 3_000_000_000);
}

/// Time, in which somebody sends an event every tenth of a second.
struct Senders {
    clock: AtomicU64,
    buffer: Arc<EventBuffer>,
    /// Timestamps of which an event was taken.
    told: Mutex<BTreeSet<u64>>,
}

impl Senders {
    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn pass(&self, tenths: u64) {
        for _ in 0..tenths {
            let now = self.clock.fetch_add(100, Ordering::Relaxed) + 100;
            let open = self.buffer.open_timestamp();
            let event = CuratorEvent { user: Some("one".to_owned()), value: "a".to_owned() };
            if self.buffer.push(now, open, vec![event]).0 == 1 {
                self.told.lock().unwrap().extend(open);
            }
        }
    }
}

/// Every few transactions a database takes three ticks. Nobody can send events of a tick that is over before it is
/// open, so its counts would be a release of nobody.
#[test]
fn releases_only_ticks_that_took_events() {
    let declaration: Declaration = serde_json::from_str(DECLARATION).unwrap();
    let buffer = Arc::new(EventBuffer::new(&declaration).unwrap().unwrap());
    let senders = Arc::new(Senders { clock: START.into(), buffer: Arc::clone(&buffer), told: Mutex::default() });
    let (others, mut transactions) = (Arc::clone(&senders), 0_u64);
    let store = Arc::new(Model::new(move |_| {
        transactions += 1;
        others.pass(if transactions.is_multiple_of(7) { 30 } else { 0 });
        Outcome::Done
    }));
    let state = first_state(&declaration, 0, None).unwrap();
    store.create(&NewStream { name: "counts", declaration: DECLARATION, policy: "", state: &state }).unwrap();
    let tools = Tools { store, marks: Arc::new(Marks::default()), key: None, holder: "only".to_owned(), lease: 4_000 };
    let mut turn = Turn { stream: "counts".into(), buffer: Some(buffer), driver: None };
    let mut released = Vec::new();
    for _ in 0..400 {
        let now = || Now::from(senders.now());
        let report = drive_together(&tools, [&mut turn], now, &mut SeededRandom::new(1)).remove(0).unwrap();
        released.extend(report.events.iter().filter_map(|event| match event {
            DriverEvent::Released { timestamp, .. } => Some(*timestamp),
            _ => None,
        }));
        senders.pass(1);
    }
    assert!(released.len() > 10, "{released:?}");
    let told = senders.told.lock().unwrap();
    let silent: Vec<_> = released.iter().filter(|timestamp| !told.contains(*timestamp)).collect();
    assert!(silent.is_empty(), "{silent:?} of {released:?} took no event");
}
