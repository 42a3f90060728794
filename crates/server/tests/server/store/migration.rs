//! A store that the first version of the schema wrote, with its streams, opened by this program.

use std::fs;
use std::io::Read as _;
use std::sync::Arc;

use flate2::read::GzDecoder;
use tidegate::kernel::{SeededRandom, VaultKey};
use tidegate_device::clock::BootClock;
use tidegate_server::driver::{DriveError, Driver, DriverEvent, Now, Tools, check_state, next_timestamp, progress};
use tidegate_server::ingest::EventBuffer;
use tidegate_server::store::backup::{StreamSummary, check_backup};
use tidegate_server::store::{Acknowledgement, Advance, NewRecord, RecordFilter, RecordKind, SqliteStore, Store};
use tidegate_server::stream::Declaration;

use super::{TestFolder, begin};
use crate::http::Marks;

/// A service of schema 1 wrote it until it was killed, with reports in an open question and a reading that waits. It
/// is a backup of that store.
const VERSION_1: &[u8] = include_bytes!("version-1.db.gz");

/// A store that version 0.1.0 wrote: ten local, five central and nine scalar streams after five ticks of ten seconds,
/// with reports in their open questions. It is a backup of that store.
const RELEASED_0_1_0: &[u8] = include_bytes!("version-0.1.0.db.gz");

/// Key of its readings.
const KEY: &str = "4ad3ea6e12c2c740e6ae5d8e3d029b80ee9685a3cc884b3efc1062fef1f6661c";

fn unpack(folder: &TestFolder, packed: &[u8]) -> std::path::PathBuf {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let path = folder.file("store");
    fs::write(&path, bytes).unwrap();
    path
}

fn schema(path: &std::path::Path) -> u32 {
    rusqlite::Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_store_of_version_1_keeps_everything() {
    let folder = TestFolder::new();
    let path = unpack(&folder, VERSION_1);
    // A backup of version 1 can be checked, which changes nothing.
    let before = check_backup(&path).unwrap();
    assert_eq!(schema(&path), 1);
    let names: Vec<_> = before.iter().map(|stream| stream.stream.as_str()).collect();
    assert_eq!(names, ["load", "rooms", "visits"]);
    assert!(before.iter().all(|StreamSummary { releases, .. }| *releases > 0), "{before:?}");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(schema(&path), 4);
    assert_eq!(store.verify().unwrap(), before);
    let open = &store.stream("visits").unwrap().open;
    assert!(!open.is_empty());
    for StreamSummary { stream, releases, version, .. } in before {
        let found = store.records(&stream, RecordKind::Release, &RecordFilter::default()).unwrap();
        assert!(found.len() as u64 <= releases && !found.is_empty(), "{stream}");
        assert_eq!(store.status(&stream).unwrap().1, version);
    }
    assert_eq!(check_backup(&path).unwrap(), store.verify().unwrap());
}

/// Publishes an event of a monitor, as answer 1.
pub(super) fn raise_an_alarm(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    let body = r#"{"t":1,"monitor":"m","event":"started"}"#.to_owned();
    let answers = vec![NewRecord { timestamp: 1, body }];
    store.advance(&lease, Advance { version: 1, answers, ..Advance::default() }).unwrap();
    store.publish(&lease, 2).unwrap();
}

pub(super) fn acknowledge_the_alarm(store: &dyn Store) {
    let events = store.events("a", 0, u64::MAX, 9).unwrap();
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1]);
    let new = Acknowledgement { number: 1, by: "anna".to_owned(), at: 7 };
    assert_eq!(store.acknowledge("a", &new).unwrap(), Some(new.clone()));
    assert_eq!(store.acknowledgements("a", 0).unwrap(), [new]);
}

#[test]
fn a_store_of_version_3_gets_acknowledgements() {
    let folder = TestFolder::new();
    let path = folder.file("store");
    let store = SqliteStore::open(&path).unwrap();
    raise_an_alarm(&store);
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let earlier = "DROP INDEX events_of_monitors; DROP TABLE acknowledgements; PRAGMA user_version = 3";
    connection.execute_batch(earlier).unwrap();
    drop(connection);
    // A backup of that version can be checked as it is.
    let before = check_backup(&path).unwrap();
    assert_eq!(schema(&path), 3);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!((schema(&path), store.verify().unwrap()), (4, before));
    acknowledge_the_alarm(&store);
}

/// Reports that were acknowledged before are counted after, and numbers go on.
#[test]
fn streams_of_version_1_go_on() {
    let folder = TestFolder::new();
    let store = Arc::new(SqliteStore::open(&unpack(&folder, VERSION_1)).unwrap());
    let key: Vec<u8> = (0..32).map(|place| u8::from_str_radix(&KEY[2 * place..2 * place + 2], 16).unwrap()).collect();
    let key = Some(Arc::new(VaultKey::from_bytes(key.try_into().unwrap())));
    let (marks, holder) = (Arc::new(Marks::default()), "after".to_owned());
    let tools = Tools { store: store.clone(), marks, key, holder, lease: 60_000 };
    let mut random = SeededRandom::new(1);
    for name in ["visits", "rooms", "load"] {
        let found = store.stream(name).unwrap();
        let declaration: Declaration = serde_json::from_str(&found.declaration).unwrap();
        let last = progress(&found).unwrap().timestamp.unwrap();
        let numbers = |kind| {
            let records = store.records(name, kind, &RecordFilter::default()).unwrap();
            records.iter().map(|record| record.number).collect::<Vec<_>>()
        };
        let before = numbers(RecordKind::Release).len();
        let buffer = EventBuffer::new(&declaration).unwrap().map(Arc::new);
        // Its lease has run out.
        let moment = |tick: u64| declaration.schedule().begins(last) + 1_000 * declaration.tick.get() * tick;
        let at = |wall| Now { wall, steady: Some(BootClock::new().unwrap().read().steady) };
        let mut driver = Driver::open(name, at(moment(30)), buffer, tools.clone()).unwrap();
        let mut counted = Vec::new();
        for step in 0..40 {
            let report = driver.run_due(at(moment(30) + 500 * step), &mut random).unwrap();
            counted.extend(report.events.into_iter().filter_map(|event| match event {
                DriverEvent::Counted { reports, .. } => Some(reports),
                _ => None,
            }));
        }
        assert_eq!(store.stream(name).unwrap().published, driver.published(), "{name}");
        let after = numbers(RecordKind::Release);
        assert!(after.iter().copied().eq(1..=after.len() as u64), "{name}: {after:?}");
        if name == "visits" {
            assert!(counted[0] > 0 && after.len() > before, "{counted:?}, {before} releases before, {after:?}");
        }
    }
}

/// Streams of the released version 0.1.0 go on with what they have spent, but those of `track`, whose state is of
/// another form: they say what to do.
#[test]
fn streams_of_the_released_version_go_on() {
    let folder = TestFolder::new();
    let store = Arc::new(SqliteStore::open(&unpack(&folder, RELEASED_0_1_0)).unwrap());
    let (key, marks) = (Some(Arc::new(VaultKey::from_bytes([9; 32]))), Arc::new(Marks::default()));
    let tools = Tools { store: store.clone(), marks, key, holder: "after".to_owned(), lease: 60_000 };
    let (mut random, names) = (SeededRandom::new(1), store.names().unwrap());
    assert_eq!(names.len(), 24, "{names:?}");
    for name in names {
        let found = store.stream(&name).unwrap();
        let declaration: Declaration = serde_json::from_str(&found.declaration).unwrap();
        let last = progress(&found).unwrap().timestamp.unwrap();
        assert_eq!(next_timestamp(&found).unwrap(), last + 1);
        let begins = declaration.schedule().begins(last);
        let buffer = EventBuffer::new(&declaration).unwrap().map(Arc::new);
        let opened = Driver::open(&name, begins + 1_000, buffer, tools.clone());
        let checked = check_state(&found, tools.key.as_deref());
        if name.ends_with("track") {
            let refused = opened.unwrap_err().to_string();
            assert!(refused.contains("see \"Upgrading\" in docs/operations.md"), "{name}: {refused}");
            assert!(matches!(checked, Err(DriveError::State { .. })), "{name}: {checked:?}");
            continue;
        }
        checked.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut driver = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        // What was spent in the window is still spent.
        if ["central_uniform", "central_bd", "central_ba", "local_lpu"].contains(&name.as_str()) {
            assert!(driver.budget_left().is_some_and(|left| left < 1.0), "{name}: {:?}", driver.budget_left());
        }
        let numbers = || {
            let records = store.records(&name, RecordKind::Release, &RecordFilter::default()).unwrap();
            records.iter().map(|record| (record.number, record.timestamp)).collect::<Vec<_>>()
        };
        let (before, asked, mut counted) = (numbers(), driver.questions().len(), Vec::new());
        for second in 1..60 {
            let report = driver.run_due(begins + 1_000 * second, &mut random).unwrap();
            counted.extend(report.events.into_iter().filter_map(|event| match event {
                DriverEvent::Counted { timestamp, reports, .. } if timestamp == last => Some(reports),
                _ => None,
            }));
        }
        let after = numbers();
        assert!(after.starts_with(&before), "{name}");
        assert!(after.iter().map(|(number, _)| *number).eq(1..=after.len() as u64), "{name}: {after:?}");
        assert!(after.windows(2).all(|pair| pair[0].1 < pair[1].1), "{name}: {after:?}");
        // Nobody sends readings here.
        assert!(after.len() > before.len() || name.starts_with("scalar"), "{name}: {after:?}");
        assert_eq!(asked == 0, counted.first().is_none_or(|count| *count == 0), "{name}: {counted:?}");
    }
}
