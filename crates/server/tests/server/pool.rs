//! The threads that drive streams: groups, faults of one stream, stalls.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use tidegate_device::api::Receipt;
use tidegate_device::clock::BootClock;
use tidegate_server::driver::{DriveError, DriverEvent, HighWater, Mark, Tools};
use tidegate_server::ingest::ReportError;
use tidegate_server::service::{Observer, Overview, Service, ServiceSettings};
use tidegate_server::store::{Store, StoreError};
use tidegate_server::stream::Declaration;

use crate::http::Marks;
use crate::model::{Model, Outcome};
use crate::store::TestFolder;

#[derive(Debug)]
pub(crate) struct Nobody;

impl Observer for Nobody {
    fn driver_event(&self, _: &str, _: &DriverEvent) {}

    fn failed(&self, _: &str, _: &DriveError) {}

    fn received(&self, _: &str, _: &Result<Receipt, ReportError>) {}

    fn committed(&self, _: usize, _: Duration) {}
}

fn declaration(name: &str) -> Declaration {
    let declaration = serde_json::json!({ "name": name, "tick": 1, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 1, "window": 2, "population": 10, "domain": 4,
    } });
    serde_json::from_value(declaration).unwrap()
}

fn start(store: Arc<dyn Store>, marks: Arc<dyn HighWater>, names: &[&str]) -> Arc<Service> {
    let tools = Tools { store, marks, key: None, holder: "only".to_owned(), lease: 60_000 };
    let (signer, clock) = (SigningKey::from_bytes(&[7; 32]), BootClock::new().unwrap());
    let settings = ServiceSettings { queue: 64, signer, clock };
    let declared: Vec<_> = names.iter().map(|name| declaration(name)).collect();
    Service::start(tools, settings, &declared, Arc::new(Nobody)).unwrap()
}

/// Longest wait for something that comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a stream looks like that.
fn wait_for(service: &Service, stream: &str, is_it: impl Fn(&Overview) -> bool) -> Overview {
    let until = Instant::now() + PATIENCE;
    loop {
        let overview = service.overview(stream).unwrap();
        if is_it(&overview) {
            return overview;
        }
        assert!(Instant::now() < until, "{overview:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A gate at which transactions wait while it is closed.
#[derive(Debug, Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn set(&self, closed: bool) {
        *self.0.lock().unwrap() = closed;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |closed| *closed).unwrap());
    }
}

fn gated() -> (Arc<Gate>, Arc<Model>) {
    let gate = Arc::new(Gate::default());
    let entrance = Arc::clone(&gate);
    let store = Model::new(move |transaction| {
        if transaction != "create" && transaction != "check" {
            entrance.pass();
        }
        Outcome::Done
    });
    (gate, Arc::new(store))
}

#[test]
fn a_stalled_stream_says_so() {
    let (gate, store) = gated();
    let service = start(store, Arc::new(Marks::default()), &["rooms"]);
    assert!(wait_for(&service, "rooms", |stream| stream.published > 0).problem.is_none());
    gate.set(true);
    let stalled = wait_for(&service, "rooms", |stream| stream.problem.is_some());
    assert!(stalled.problem.unwrap().contains("its step is late by more than"));
    let state = service.states().remove(0);
    assert!(state.has_problem && state.overdue.unwrap() > Duration::from_secs(5), "{state:?}");
    gate.set(false);
    wait_for(&service, "rooms", |stream| stream.problem.is_none() && stream.published > stalled.published + 1);
    let until = Instant::now() + PATIENCE;
    while service.states()[0].overdue.unwrap() >= Duration::from_secs(5) {
        assert!(Instant::now() < until, "it is still late");
        thread::sleep(Duration::from_millis(20));
    }
    service.stop();
}

#[test]
fn a_service_answers_before_its_streams_are_open() {
    let (gate, store) = gated();
    gate.set(true);
    let service = start(store, Arc::new(Marks::default()), &["a", "b"]);
    assert_eq!(service.streams().len(), 2);
    let error = service.ready().unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("2 of 2 streams")), "{error}");
    gate.set(false);
    wait_for(&service, "a", |stream| stream.driven);
    wait_for(&service, "b", |stream| stream.driven);
    // A driver shows its stream before it ends the turn.
    let until = Instant::now() + PATIENCE;
    while let Err(error) = service.ready() {
        assert!(Instant::now() < until, "{error}");
        thread::sleep(Duration::from_millis(5));
    }
    service.stop();
}

#[test]
fn a_service_whose_marks_cannot_be_written_is_not_ready() {
    let folder = TestFolder::new();
    let (store, state) = (Arc::new(Model::default()), folder.file("state"));
    std::fs::create_dir(&state).unwrap();
    let marks = tidegate_server::store::Marks::open(&state, &*store).unwrap();
    let service = start(store, Arc::new(marks), &["a"]);
    wait_for(&service, "a", |stream| stream.driven);
    service.ready().unwrap();
    std::fs::rename(&state, folder.file("elsewhere")).unwrap();
    let error = service.ready().unwrap_err().to_string();
    assert!(error.contains("the high-water marks cannot be raised"), "{error}");
    std::fs::rename(folder.file("elsewhere"), &state).unwrap();
    service.stop();
}

#[test]
fn a_service_that_can_drive_no_stream_is_not_ready() {
    let service = start(Arc::new(Model::default()), Arc::new(Panicking::default()), &["bad"]);
    let until = Instant::now() + PATIENCE;
    while !service.ready().is_err_and(|error| error.to_string().contains("no stream can be driven")) {
        assert!(Instant::now() < until, "{:?}", service.ready());
        thread::sleep(Duration::from_millis(5));
    }
    service.stop();
}

/// Marks that panic for one stream.
#[derive(Debug, Default)]
struct Panicking(Marks);

impl HighWater for Panicking {
    fn mark(&self, stream: &str) -> Option<Mark> {
        let mark = self.0.mark(stream);
        assert!(stream != "bad" || mark.is_none_or(|mark| mark.version < 2), "on purpose");
        mark
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> std::io::Result<()> {
        self.0.raise_all(marks)
    }
}

#[test]
fn a_panic_in_one_stream_does_not_stop_others() {
    let store = Arc::new(Model::default());
    let service = start(store, Arc::new(Panicking::default()), &["bad", "good", "well"]);
    let bad = wait_for(&service, "bad", |stream| stream.problem.is_some());
    assert!(bad.problem.unwrap().contains("panicked"));
    for name in ["good", "well"] {
        wait_for(&service, name, |stream| stream.published > 6 && stream.problem.is_none());
    }
    service.ready().unwrap();
    service.stop();
}

#[test]
fn a_stop_releases_all_leases() {
    let store = Arc::new(Model::default());
    let service = start(Arc::clone(&store) as Arc<dyn Store>, Arc::new(Marks::default()), &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        wait_for(&service, name, |stream| stream.driven);
        assert_eq!(store.lease(name, "another", tidegate_server::service::now(), u64::MAX).unwrap(), None);
    }
    service.stop();
    for name in ["a", "b", "c"] {
        assert!(store.lease(name, "another", tidegate_server::service::now(), u64::MAX).unwrap().is_some());
    }
}
