//! Torn writes, flipped bits, full disks and foreign files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tidegate_server::store::backup::check_backup;
use tidegate_server::store::{
    Advance, Lease, NewRecord, RecordFilter, RecordKind, SqliteOptions, SqliteStore, Status, Store, StoreError, Write,
};

use super::differential::Dice;
use super::{TestFolder, accept, advance, batch, begin, counts, create, open, taken};

fn record(timestamp: u64, body: &str) -> NewRecord {
    NewRecord { timestamp, body: body.to_owned() }
}

/// A store with rows in all tables.
fn furnish(store: &dyn Store) -> Lease {
    let lease = begin(store, "a", &[open(3, 0)]);
    accept(store, "a", &batch("a", 3, 0, (0..40).map(|device| (device, 1)))).unwrap().unwrap();
    let next = Advance {
        forget: None,
        members: None,
        version: 1,
        state: vec![7; 300],
        open: vec![open(3, 0), open(4, 1)],
        releases: vec![record(2, "{\"release\": 2}"), record(3, "{\"release\": 3}")],
        answers: vec![record(3, "{\"alarm\": 3}")],
    };
    store.advance(&lease, next).unwrap();
    accept(store, "a", &batch("a", 4, 1, (0..40).map(|device| (device, 2)))).unwrap().unwrap();
    store.publish(&lease, 2).unwrap();
    create(store, "b");
    lease
}

/// Reads everything of such a store, or returns the error.
fn read_all(store: &dyn Store) -> Result<String, StoreError> {
    let mut all = format!("{:?}", store.names()?);
    for stream in ["a", "b"] {
        all += &format!("{:?}", store.stream(stream)?);
        for kind in [RecordKind::Release, RecordKind::Answer] {
            all += &format!("{:?}", store.records(stream, kind, &RecordFilter::default())?);
            all += &format!("{:?}", store.records(stream, kind, &RecordFilter { from: 1, ..RecordFilter::default() })?);
        }
    }
    Ok(all)
}

/// Files after a crash: the database and its log.
fn crash(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let with = |path: &Path| format!("{}{suffix}", path.display());
        let _ = fs::remove_file(with(to));
        if Path::new(&with(from)).exists() {
            fs::copy(with(from), with(to)).unwrap();
        }
    }
    let _ = fs::remove_file(format!("{}-shm", to.display()));
}

fn log_of(path: &Path) -> std::path::PathBuf {
    format!("{}-wal", path.display()).into()
}

#[test]
fn acknowledged_reports_survive_a_damaged_log_tail() {
    let folder = TestFolder::new();
    let (path, copy) = (folder.file("store"), folder.file("copy"));
    let store = SqliteStore::open(&path).unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    let (first, second) =
        (batch("a", 3, 0, (0..300).map(|device| (device, 1))), batch("a", 3, 0, (300..600).map(|device| (device, 1))));
    accept(&store, "a", &first).unwrap().unwrap();
    let acknowledged = fs::metadata(log_of(&path)).unwrap().len();
    accept(&store, "a", &second).unwrap().unwrap();
    let end = fs::metadata(log_of(&path)).unwrap().len();
    assert!(end > acknowledged + 4_096, "there is something to tear");
    let mut dice = Dice(1);
    for round in 0..60 {
        crash(&path, &copy);
        let place = acknowledged + dice.below(end - acknowledged);
        let log = log_of(&copy);
        if round % 2 == 0 {
            fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(place).unwrap();
        } else {
            let mut bytes = fs::read(&log).unwrap();
            bytes[usize::try_from(place).unwrap()] ^= 1 << dice.below(8);
            fs::write(&log, bytes).unwrap();
        }
        let torn = SqliteStore::open(&copy).unwrap();
        assert_eq!(accept(&torn, "a", &first).unwrap(), Ok(taken(0, 300, 0, 0)), "round {round}, byte {place}");
        // The one that was torn happened as a whole or not at all, and here it did not.
        assert_eq!(accept(&torn, "a", &second).unwrap(), Ok(taken(300, 0, 0, 0)), "round {round}, byte {place}");
        assert_eq!(counts(torn.close(&lease, 1).unwrap()[0].as_ref().unwrap())[1], 600);
    }
    crash(&path, &copy);
    let whole = SqliteStore::open(&copy).unwrap();
    assert_eq!(accept(&whole, "a", &second).unwrap(), Ok(taken(0, 300, 0, 0)), "nothing was torn");
}

#[test]
fn a_crash_after_any_transaction_loses_none() {
    let folder = TestFolder::new();
    let (path, copy) = (folder.file("store"), folder.file("copy"));
    let store = SqliteStore::open(&path).unwrap();
    let lease = begin(&store, "a", &[open(0, 0)]);
    for version in 1..12 {
        accept(&store, "a", &batch("a", version - 1, 0, [(1, 1), (2, 3)])).unwrap().unwrap();
        crash(&path, &copy);
        let total = SqliteStore::open(&copy).unwrap().close(&lease, version).unwrap();
        assert_eq!(total[0].as_ref().unwrap().reports(), 2);
        let (releases, open) = (vec![record(version, "{}")], vec![open(version, 0)]);
        store.advance(&lease, Advance { version, open, releases, ..Advance::default() }).unwrap();
        crash(&path, &copy);
        assert_eq!(SqliteStore::open(&copy).unwrap().stream("a").unwrap(), store.stream("a").unwrap());
        store.publish(&lease, version + 1).unwrap();
        crash(&path, &copy);
        let published =
            SqliteStore::open(&copy).unwrap().records("a", RecordKind::Release, &RecordFilter::default()).unwrap();
        assert_eq!(published.len() as u64, version);
    }
}

#[test]
fn a_changed_byte_in_any_row_stops_writing() {
    type Use = fn(&dyn Store, &Lease) -> Result<(), StoreError>;
    let look: Use = |store, _| store.stream("a").map(drop);
    let take: Use = |store, _| accept(store, "a", &batch("a", 4, 1, [(77, 1)])).map(drop);
    let close: Use = |store, lease| store.close(lease, 2).map(drop);
    let read: Use = |store, _| store.records("a", RecordKind::Release, &RecordFilter::default()).map(drop);
    let changes: [(&str, Use); 14] = [
        ("UPDATE streams SET declaration = '{ }' WHERE name = 'a'", look),
        ("UPDATE streams SET version = 1 WHERE name = 'a'", look),
        ("UPDATE streams SET published = 1 WHERE name = 'a'", read),
        ("UPDATE streams SET epoch = 0 WHERE name = 'a'", look),
        ("UPDATE streams SET open = 1 WHERE name = 'a'", look),
        ("UPDATE states SET body = zeroblob(300) WHERE stream = 1", look),
        ("UPDATE phases SET closed = 1 - closed WHERE place = 1", take),
        ("UPDATE phases SET body = CAST(substr(body, 1, length(body) - 1) || x'05' AS BLOB)", look),
        ("DELETE FROM phases WHERE place = 0", look),
        ("UPDATE seen SET body = CAST(substr(body, 1, 799) || x'00' AS BLOB)", take),
        ("DELETE FROM seen WHERE phase = (SELECT max(phase) FROM seen)", take),
        ("UPDATE counts SET counted = counted + 1", take),
        ("UPDATE counts SET body = CAST(substr(body, 1, length(body) - 1) || x'07' AS BLOB)", close),
        ("UPDATE records SET body = '{\"release\": 9}' WHERE kind = 0 AND number = 2", read),
    ];
    for (change, use_of) in changes {
        let folder = TestFolder::new();
        let path = folder.file("store");
        let lease = furnish(&SqliteStore::open(&path).unwrap());
        Connection::open(&path).unwrap().execute_batch(&format!("PRAGMA foreign_keys = OFF; {change}")).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        let outcome = use_of(&store, &lease);
        assert!(matches!(outcome, Err(StoreError::Damaged(_))), "{change}: {outcome:?}");
        assert!(matches!(store.set_status("b", Status::Paused), Err(StoreError::Failed(_))), "{change}: written on");
        assert!(matches!(store.verify(), Err(StoreError::Damaged(_))), "{change}: not found by the check");
        drop(store);
        let store = SqliteStore::open(&path).unwrap();
        store.set_status("b", Status::Paused).unwrap();
        assert!(matches!(use_of(&store, &lease), Err(StoreError::Damaged(_))), "{change}: nothing was repaired");
    }
}

#[test]
fn a_flipped_bit_is_detected_or_harmless() {
    let folder = TestFolder::new();
    let (path, backup, flipped) = (folder.file("store"), folder.file("backup"), folder.file("flipped"));
    let store = SqliteStore::open(&path).unwrap();
    furnish(&store);
    let expected = read_all(&store).unwrap();
    store.backup(&backup).unwrap();
    let bytes = fs::read(&backup).unwrap();
    let (mut dice, mut found_out) = (Dice(2), 0);
    for round in 0..160 {
        let mut bytes = bytes.clone();
        // Where something is written, more often than not.
        let written: Vec<_> = (0..bytes.len()).filter(|place| bytes[*place] != 0).collect();
        let place = match round % 4 {
            0 => usize::try_from(dice.below(bytes.len() as u64)).unwrap(),
            _ => written[usize::try_from(dice.below(written.len() as u64)).unwrap()],
        };
        bytes[place] ^= 1 << dice.below(8);
        fs::write(&flipped, &bytes).unwrap();
        let checked = check_backup(&flipped);
        crash(&flipped, &folder.file("opened"));
        let read =
            SqliteStore::open(&folder.file("opened")).and_then(|store| store.verify().and_then(|_| read_all(&store)));
        match read {
            Ok(read) => assert_eq!(read, expected, "byte {place} was changed and nobody noticed"),
            Err(_) => found_out += 1,
        }
        assert!(!matches!(checked, Err(StoreError::Unknown(_))));
    }
    assert!(found_out > 60, "only {found_out} of 160 were found out");
}

#[test]
fn a_change_that_does_not_fit_leaves_its_group_alone() {
    let folder = TestFolder::new();
    let small = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&folder.file("store"), small).unwrap();
    let leases = ["a", "b", "c"].map(|name| begin(&store, name, &[open(3, 0)]));
    accept(&store, "c", &batch("c", 3, 0, [(1, 1)])).unwrap().unwrap();
    let write = |lease: &Lease, length| {
        let releases = vec![record(3, &"x".repeat(length))];
        let open = vec![open(3, 0)];
        Write::Advance { lease: lease.clone(), next: Advance { version: 1, open, releases, ..Advance::default() } }
    };
    let outcomes = store.commit(&[write(&leases[0], 10), write(&leases[1], 300_000), write(&leases[2], 10)]);
    assert!(matches!(outcomes[1], Err(StoreError::Failed(_))), "{outcomes:?}");
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert_eq!(["a", "b", "c"].map(|name| store.status(name).unwrap().1), [2, 1, 2]);
    assert_eq!(accept(&store, "c", &batch("c", 3, 0, [(1, 1), (2, 1)])).unwrap(), Ok(taken(1, 1, 0, 0)));
    store.verify().unwrap();
}

#[test]
fn a_full_disk_loses_nothing() {
    let folder = TestFolder::new();
    let path = folder.file("store");
    let small = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, small).unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    let bytes = |number: u32| batch("a", 3, 0, (number * 500..(number + 1) * 500).map(|device| (device, 1)));
    let mut taken_in = 0;
    let error = loop {
        match accept(&store, "a", &bytes(taken_in)) {
            Ok(receipt) => assert_eq!(receipt.unwrap(), taken(500, 0, 0, 0)),
            Err(error) => break error,
        }
        taken_in += 1;
    };
    assert!(matches!(error, StoreError::Failed(_)), "{error}");
    assert!(taken_in > 2);
    assert!(matches!(accept(&store, "a", &bytes(taken_in)), Err(StoreError::Failed(_))), "it is still full");
    assert_eq!(accept(&store, "a", &bytes(0)).unwrap(), Ok(taken(0, 500, 0, 0)), "what is there is known");
    let releases = vec![record(3, &"x".repeat(300_000))];
    let next = Advance { forget: None, members: None, version: 1, releases, ..Advance::default() };
    assert!(matches!(store.advance(&lease, next.clone()), Err(StoreError::Failed(_))));
    assert_eq!(store.status("a").unwrap(), (Status::Running, 1));
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(accept(&store, "a", &bytes(taken_in - 1)).unwrap(), Ok(taken(0, 500, 0, 0)));
    assert_eq!(accept(&store, "a", &bytes(taken_in)).unwrap(), Ok(taken(500, 0, 0, 0)));
    let total = store.close(&lease, 1).unwrap()[0].as_ref().unwrap().reports();
    assert_eq!(total, u64::from(taken_in + 1) * 500);
    store.advance(&lease, next).unwrap();
    store.verify().unwrap();
}

#[test]
fn refuses_foreign_and_later_files() {
    let folder = TestFolder::new();
    let foreign = folder.file("foreign");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE birds (name TEXT)").unwrap();
    let before = fs::read(&foreign).unwrap();
    assert!(matches!(SqliteStore::open(&foreign), Err(StoreError::Schema { .. })));
    assert_eq!(fs::read(&foreign).unwrap(), before);

    let text = folder.file("text");
    fs::write(&text, "This is a letter, not a database. ".repeat(50)).unwrap();
    assert!(matches!(SqliteStore::open(&text), Err(StoreError::Damaged(_))));

    let later = folder.file("later");
    furnish(&SqliteStore::open(&later).unwrap());
    Connection::open(&later).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteStore::open(&later).unwrap_err();
    assert!(matches!(&error, StoreError::Schema { found, known: 4 } if found == "99"), "{error}");
    assert!(matches!(check_backup(&later), Err(StoreError::Schema { .. })));

    let nowhere = folder.file("no such folder/store");
    assert!(matches!(SqliteStore::open(&nowhere), Err(StoreError::Failed(_))));
}

#[test]
fn waits_for_a_locked_file_with_a_limit() {
    let folder = TestFolder::new();
    let path = folder.file("store");
    let hasty = SqliteOptions { patience: Duration::from_millis(30), ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, hasty).unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(accept(&store, "a", &batch("a", 3, 0, [(1, 1)])), Err(StoreError::Unavailable(_))));
    assert_eq!(store.status("a").unwrap(), (Status::Running, 1), "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(accept(&store, "a", &batch("a", 3, 0, [(1, 1)])).unwrap(), Ok(taken(1, 0, 0, 0)));
    advance(&store, &lease, 1, &[]).unwrap();
}

#[cfg(unix)]
#[test]
fn only_its_owner_reads_a_store() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TestFolder::new();
    let (path, backup) = (folder.file("store"), folder.file("backup"));
    let store = SqliteStore::open(&path).unwrap();
    furnish(&store);
    store.backup(&backup).unwrap();
    for file in [&path, &log_of(&path), &backup] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}
