//! What lists show of a stream: alarms, found among all answers of a store, and figures of this process's driver.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use serde_json::json;
use tidegate_device::clock::BootClock;
use tidegate_server::driver::{Tools, first_state};
use tidegate_server::service::{ALARM_HISTORY, Listed, Service, ServiceSettings, now};
use tidegate_server::store::{Advance, NewRecord, NewStream, Store};
use tidegate_server::stream::Declaration;

use crate::http::Marks;
use crate::model::Model;
use crate::pool::{Nobody, PATIENCE};

fn declaration(monitors: &[&str], tick: u64) -> Declaration {
    let monitor = |name: &&str| json!({ "name": name, "value": 1, "direction": "above", "start": 0.5 });
    let monitors: Vec<_> = monitors.iter().map(monitor).collect();
    let declaration = json!({ "name": "visits", "tick": tick, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 1, "window": 2, "population": 10, "domain": 4,
        "monitors": monitors,
    } });
    serde_json::from_value(declaration).unwrap()
}

fn event(monitor: &str, event: &str) -> String {
    format!(r#"{{"t":0,"monitor":"{monitor}","event":"{event}"}}"#)
}

/// A store with a stream that has published these answers, and does nothing for an hour.
fn published(declaration: &Declaration, bodies: Vec<String>) -> Arc<Model> {
    let (store, now) = (Arc::new(Model::default()), now());
    let text = serde_json::to_string(declaration).unwrap();
    let state = first_state(declaration, now, None).unwrap();
    store.create(&NewStream { name: "visits", declaration: &text, policy: "", state: &state }).unwrap();
    let lease = store.lease("visits", "before", now, now + 60_000).unwrap().unwrap();
    let answers = bodies.into_iter().map(|body| NewRecord { timestamp: 0, body }).collect();
    store.advance(&lease, Advance { version: 0, state, answers, ..Advance::default() }).unwrap();
    store.publish(&lease, 1).unwrap();
    store.release_lease(&lease).unwrap();
    store
}

fn start(store: &Arc<Model>) -> Arc<Service> {
    let (store, marks) = (Arc::clone(store) as Arc<dyn Store>, Arc::new(Marks::default()));
    let tools = Tools { store, marks, key: None, holder: "own".to_owned(), lease: 4_000 };
    let (signer, clock) = (SigningKey::from_bytes(&[7; 32]), BootClock::new().unwrap());
    Service::start(tools, ServiceSettings { queue: 64, signer, clock }, &[], Arc::new(Nobody)).unwrap()
}

/// Waits until the list shows the stream like that.
fn wait_for(service: &Service, is_it: impl Fn(&Listed) -> bool) -> Listed {
    let until = Instant::now() + PATIENCE;
    loop {
        let listed = service.list("", 1).remove(0);
        if is_it(&listed) {
            return listed;
        }
        assert!(Instant::now() < until, "{listed:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Standing queries answer after each release, so thousands of answers follow an event.
#[test]
fn an_active_alarm_stays_listed_behind_many_answers() {
    let mut bodies = vec![event("crowd", "started")];
    bodies.extend((0..6_000).map(|_| r#"{"t":0,"query":"all","value":1.0}"#.to_owned()));
    let store = published(&declaration(&["crowd"], 3_600), bodies);
    let service = start(&store);
    let counts = |listed: Listed| listed.alarms.map(|counts| (counts.active, counts.unacknowledged));
    let listed = wait_for(&service, |listed| listed.alarms.is_some_and(|alarms| alarms.active > 0));
    assert_eq!(counts(listed), Some((1, 1)));
    let alarm = service.alarms("visits").unwrap().remove(0);
    assert_eq!((alarm.number, &*alarm.monitor, alarm.ended), (1, "crowd", None));
    let acknowledged = service.acknowledge("visits", 1, "anna").unwrap().unwrap();
    assert_eq!(acknowledged.acknowledged.unwrap().by, "anna");
    assert_eq!(service.acknowledge("visits", 2, "anna").unwrap(), None);
    assert_eq!(counts(service.list("", 1).remove(0)), Some((1, 0)));
    service.stop();
    let service = start(&store);
    let listed = wait_for(&service, |listed| listed.alarms.is_some_and(|alarms| alarms.active > 0));
    assert_eq!(counts(listed), Some((1, 0)));
    service.stop();
}

#[test]
fn an_active_alarm_stays_listed_behind_many_alarms() {
    let mut bodies = vec![event("crowd", "started"), event("gone", "started")];
    for _ in 0..2 * ALARM_HISTORY {
        bodies.extend([event("noisy", "started"), event("noisy", "ended")]);
    }
    bodies.push(event("noisy", "started"));
    let service = start(&published(&declaration(&["crowd", "noisy"], 3_600), bodies));
    let listed = wait_for(&service, |listed| listed.alarms.is_some_and(|alarms| alarms.active > 0));
    // The monitor that is not declared any more has no active event.
    let alarms = service.alarms("visits").unwrap();
    let active: Vec<_> = alarms.iter().filter(|alarm| alarm.ended.is_none()).map(|alarm| &*alarm.monitor).collect();
    assert_eq!(active, ["noisy", "crowd"]);
    assert_eq!(listed.alarms.unwrap().active, 2);
    assert_eq!(listed.alarms.unwrap().unacknowledged, alarms.len());
    assert_eq!((alarms.len(), alarms.last().unwrap().number), (ALARM_HISTORY, 1));
    assert!(service.acknowledge("visits", 1, "anna").unwrap().is_some());
    service.stop();
}

/// What another process has spent since is not known.
#[test]
fn a_stream_that_was_taken_over_shows_no_old_budget() {
    let store = published(&declaration(&[], 1), Vec::new());
    let service = start(&store);
    wait_for(&service, |listed| listed.is_driven && listed.budget_left.is_some());
    let later = now() + 600_000;
    store.lease("visits", "other", later, later + 600_000).unwrap().unwrap();
    wait_for(&service, |listed| !listed.is_driven && !listed.has_problem && listed.budget_left.is_none());
    service.stop();
}
