//! Ticks that stay open for late events: each closes once, in order, whatever stops or jumps.

use std::sync::Arc;

use tidegate_device::clock::Steady;
use tidegate_kernel::SeededRandom;
use tidegate_server::driver::{Driver, DriverEvent, Now, Tools, first_state};
use tidegate_server::ingest::{CuratorEvent, EventBuffer, EventRejection};
use tidegate_server::store::{NewStream, Status, Store};
use tidegate_server::stream::Declaration;

use crate::http::Marks;
use crate::model::Model;

const START: u64 = 1_800_000_000_000;
/// Timestamp 1,000 begins at the start. A tick closes two ticks after its end.
const LATE: &str = r#"{ "name": "late", "tick": 1, "epoch": 1799999000, "lateness": 2, "spec":
    { "family": "central", "mechanism": "uniform", "epsilon": 1, "window": 5, "domain": ["a", "b"] } }"#;

struct World {
    store: Arc<Model>,
    buffer: Arc<EventBuffer>,
    driver: Option<Driver>,
    released: Vec<(u64, u64)>,
}

impl World {
    fn new() -> Self {
        let declaration: Declaration = serde_json::from_str(LATE).unwrap();
        let store = Arc::new(Model::default());
        let state = first_state(&declaration, 0, None).unwrap();
        store.create(&NewStream { name: "late", declaration: LATE, policy: "", state: &state }).unwrap();
        let buffer = Arc::new(EventBuffer::new(&declaration).unwrap().unwrap());
        Self { store, buffer, driver: None, released: Vec::new() }
    }

    /// Drives the stream at a number of milliseconds since the start.
    fn run(&mut self, at: u64, ahead: u64) {
        let steady = Some(Steady { run: [1; 16], seconds: at / 1_000 });
        let now = Now { wall: START + at + ahead, steady };
        let driver = self.driver.get_or_insert_with(|| {
            let marks = Arc::new(Marks::default());
            let store = Arc::clone(&self.store) as Arc<dyn Store>;
            let tools = Tools { store, marks, key: None, holder: "only".to_owned(), lease: 60_000 };
            Driver::open("late", now, Some(Arc::clone(&self.buffer)), tools).unwrap()
        });
        let mut due = true;
        while due {
            let report = driver.run_due(now, &mut SeededRandom::new(at)).unwrap();
            due = report.wake <= now.wall;
            self.released.extend(report.events.iter().filter_map(|event| match event {
                DriverEvent::Released { timestamp, .. } => Some((*timestamp, at)),
                _ => None,
            }));
        }
    }

    fn run_through(&mut self, from: u64, to: u64) {
        (from..=to).step_by(100).for_each(|at| self.run(at, 0));
    }

    fn send(&self, at: u64, timestamp: Option<u64>) -> Option<EventRejection> {
        let event = CuratorEvent { user: Some("anna".to_owned()), value: "a".to_owned() };
        self.buffer.push(START + at, timestamp, vec![event]).1
    }
}

#[test]
fn a_tick_takes_events_until_it_closes() {
    let mut world = World::new();
    world.run_through(100, 4_500);
    assert_eq!(world.buffer.open_timestamps(), [1_002, 1_003, 1_004]);
    for timestamp in [None, Some(1_002), Some(1_003), Some(1_004)] {
        assert_eq!(world.send(4_500, timestamp), None, "{timestamp:?}");
    }
    let (first, last) = (1_002, 1_004);
    for timestamp in [1_001, 1_005] {
        assert_eq!(world.send(4_500, Some(timestamp)), Some(EventRejection::Timestamp { first, last }));
    }
    // By the clock it is over, also before the driver closes it.
    assert_eq!(world.send(5_001, Some(1_002)), Some(EventRejection::Timestamp { first: 1_003, last }));
    world.run_through(4_600, 9_000);
    let closed: Vec<_> = (0..6).map(|tick| (1_001 + tick, 4_000 + 1_000 * tick)).collect();
    assert_eq!(world.released, closed);
}

#[test]
fn a_paused_stream_closes_its_open_ticks_in_time() {
    let mut world = World::new();
    world.run_through(100, 4_500);
    world.store.set_status("late", Status::Paused).unwrap();
    world.run_through(4_600, 9_500);
    assert_eq!(world.released, [(1_001, 4_000), (1_002, 5_000), (1_003, 6_000), (1_004, 7_000)]);
    assert!(world.buffer.open_timestamps().is_empty());
    world.store.set_status("late", Status::Running).unwrap();
    world.run_through(9_600, 13_500);
    assert_eq!(world.released[4..], [(1_010, 13_000)]);
}

#[test]
fn a_restart_releases_no_tick_that_was_open() {
    let mut world = World::new();
    world.run_through(100, 4_500);
    (world.driver, world.buffer) = (None, World::new().buffer);
    world.run_through(4_600, 9_500);
    // Ticks 1,002 to 1,004 had events in the memory of the process that has ended.
    assert_eq!(world.released, [(1_001, 4_000), (1_005, 8_000), (1_006, 9_000)]);
}

#[test]
fn a_failed_driver_goes_on_with_its_open_ticks() {
    let mut world = World::new();
    world.run_through(100, 4_500);
    world.driver = None;
    world.run_through(4_600, 7_500);
    assert_eq!(world.released, [(1_001, 4_000), (1_002, 5_000), (1_003, 6_000), (1_004, 7_000)]);
}

#[test]
fn a_clock_that_jumps_ahead_drops_all_open_ticks() {
    let mut world = World::new();
    world.run_through(100, 4_500);
    (4_600..20_000).step_by(100).for_each(|at| world.run(at, 30_000));
    // Nothing is opened for a window of five ticks after the jump.
    assert_eq!(world.released[..2], [(1_001, 4_000), (1_039, 12_000)]);
    assert!(world.released.is_sorted());
}
