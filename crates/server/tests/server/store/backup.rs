//! Backups and high-water marks.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidegate_server::store::backup::{StreamSummary, check_backup};
use tidegate_server::store::mark::{HighWater, Older};
use tidegate_server::store::{Mark, MarkError, Marks, SqliteStore, Store, StoreError};

use super::{TestFolder, accept, advance, batch, begin, create, open, taken};
use crate::model::Model;

#[test]
fn a_backup_under_load_is_one_moment() {
    let folder = TestFolder::new();
    let (path, backup) = (folder.file("store"), folder.file("backup"));
    let store = SqliteStore::open(&path).unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    let over = AtomicBool::new(false);
    let bytes = |number: u32| batch("a", 3, 0, (number * 50..(number + 1) * 50).map(|device| (device, 1)));
    accept(&store, "a", &bytes(0)).unwrap().unwrap();
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for number in 1.. {
                accept(&store, "a", &bytes(number)).unwrap().unwrap();
                if over.load(Ordering::SeqCst) {
                    return number + 1;
                }
            }
            0
        });
        for number in 0..3 {
            store.backup(&folder.file(&format!("backup {number}"))).unwrap();
        }
        store.backup(&backup).unwrap();
        over.store(true, Ordering::SeqCst);
        sender.join().unwrap()
    });
    assert!(matches!(store.backup(&backup), Err(StoreError::Failed(_))), "no backup is written over");
    let declaration = "{}".to_owned();
    let expected =
        StreamSummary { stream: "a".to_owned(), version: 1, published: 0, releases: 0, changes: 0, declaration };
    assert_eq!(check_backup(&backup).unwrap(), std::slice::from_ref(&expected));
    assert_eq!(store.verify().unwrap(), [expected]);
    let restored = SqliteStore::open(&backup).unwrap();
    let total = restored.close(&lease, 1).unwrap()[0].as_ref().unwrap().reports();
    assert!(total > 0 && total <= u64::from(sent) * 50 && total.is_multiple_of(50), "{total} of {sent} batches");
    assert_eq!(store.close(&lease, 1).unwrap()[0].as_ref().unwrap().reports(), u64::from(sent) * 50);
    assert!(check_backup(&folder.file("no such file")).is_err());
}

#[test]
fn a_restored_backup_is_detected_and_replaced() {
    let folder = TestFolder::new();
    let (path, backup) = (folder.file("store"), folder.file("backup"));
    let store = SqliteStore::open(&path).unwrap();
    let marks = Marks::open(&folder.file("marks"), &store).unwrap();
    let lease = begin(&store, "a", &[open(0, 0)]);
    create(&store, "idle");
    let tick = |version: u64| {
        store.close(&lease, version).unwrap();
        advance(&store, &lease, version, &[open(version, 0)]).unwrap();
        marks.raise("a", Mark { version: version + 1, timestamp: Some(version - 1) }).unwrap();
        store.publish(&lease, version + 1).unwrap();
    };
    tick(1);
    tick(2);
    store.backup(&backup).unwrap();
    marks.check_against(&store).unwrap();
    marks.check_against(&SqliteStore::open(&backup).unwrap()).unwrap();
    tick(3);
    marks.check_against(&store).unwrap();
    drop((store, marks));

    fs::remove_file(&path).unwrap();
    fs::rename(&backup, &path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let marks = Marks::open(&folder.file("marks"), &store).unwrap();
    let older = Older { stream: "a".to_owned(), version: 3, marked: 4 };
    assert!(matches!(marks.check_against(&store), Err(MarkError::Older(found)) if found == older));
    let mark = marks.mark("a").unwrap();
    assert_eq!(mark, Mark { version: 4, timestamp: Some(2) });
    store.replace_state("a", b"from timestamp 30 on", mark.version + 1).unwrap();
    marks.check_against(&store).unwrap();
    assert!(matches!(advance(&store, &lease, 3, &[]), Err(StoreError::Stale(_))), "the old driver is out");
    // A store in which the stream is missing altogether is older, too.
    let empty = Model::default();
    assert_eq!(marks.older(&empty).unwrap()[0].version, 0);
}

#[test]
fn marks_are_kept_and_never_lowered() {
    let folder = TestFolder::new();
    let store = Model::default();
    let at = |version, timestamp| Mark { version, timestamp: Some(timestamp) };
    let marks = Marks::open(&folder.file("marks"), &store).unwrap();
    assert_eq!(marks.mark("a"), None);
    marks.raise("a", at(5, 50)).unwrap();
    marks.raise("b", at(1, 9)).unwrap();
    marks.raise("a", at(4, 40)).unwrap();
    assert_eq!(marks.mark("a"), Some(at(5, 50)));
    marks.raise("a", at(6, 40)).unwrap();
    assert!(matches!(Marks::open(&folder.file("marks"), &store), Err(MarkError::InUse)));
    drop(marks);
    let marks = Marks::open(&folder.file("marks"), &store).unwrap();
    assert_eq!((marks.mark("a"), marks.mark("b")), (Some(at(6, 50)), Some(at(1, 9))));
}

#[test]
fn refuses_missing_marks_of_a_used_store() {
    let folder = TestFolder::new();
    let (place, store) = (folder.file("marks"), Model::default());
    create(&store, "idle");
    drop(Marks::open(&place, &store).unwrap());
    begin(&store, "a", &[]);
    drop(Marks::open(&place, &store).unwrap());
    fs::remove_file(place.join("marks")).unwrap();
    let missing = Marks::open(&place, &store);
    assert!(matches!(missing, Err(MarkError::Missing { stream, version: 1 }) if stream == "a"));
    let marks = Marks::adopt(&place, [("a".to_owned(), Mark { version: 1, timestamp: Some(0) })]).unwrap();
    marks.check_against(&store).unwrap();
    drop(marks);
    assert_eq!(Marks::open(&place, &store).unwrap().mark("a"), Some(Mark { version: 1, timestamp: Some(0) }));
}

#[test]
fn refuses_torn_flipped_or_copied_marks() {
    let folder = TestFolder::new();
    let (place, store) = (folder.file("marks"), Model::default());
    let marks = Marks::open(&place, &store).unwrap();
    marks.raise("a", Mark { version: 700, timestamp: Some(7_000) }).unwrap();
    drop(marks);
    let file = place.join("marks");
    let bytes = fs::read(&file).unwrap();
    let write = |bytes: &[u8]| {
        // In place: it stays the same file.
        use std::io::Write;
        let mut open = fs::OpenOptions::new().write(true).truncate(true).open(&file).unwrap();
        open.write_all(bytes).unwrap();
    };
    for place_of in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place_of] ^= 1;
        for damaged in [&flipped[..], &bytes[..place_of]] {
            write(damaged);
            assert!(matches!(Marks::open(&place, &store), Err(MarkError::Damaged(_))), "byte {place_of}");
        }
    }
    write(&bytes);
    assert_eq!(Marks::open(&place, &store).unwrap().mark("a").unwrap().version, 700);
    // A copy that is put in its place may be an old one.
    fs::copy(&file, folder.file("copy")).unwrap();
    fs::rename(folder.file("copy"), &file).unwrap();
    assert!(matches!(Marks::open(&place, &store), Err(MarkError::Damaged(_))));
    // Adopting keeps the marks that can be read.
    let given = BTreeMap::from([("a".to_owned(), Mark { version: 3, timestamp: Some(9_000) })]);
    let marks = Marks::adopt(&place, given).unwrap();
    assert_eq!(marks.mark("a"), Some(Mark { version: 700, timestamp: Some(9_000) }));
    drop(marks);
    assert_eq!(Marks::open(&place, &store).unwrap().mark("a"), Some(Mark { version: 700, timestamp: Some(9_000) }));
}

#[test]
fn a_restored_backup_knows_its_reports() {
    let folder = TestFolder::new();
    let backup = folder.file("backup");
    let store = SqliteStore::open(&folder.file("store")).unwrap();
    begin(&store, "a", &[open(3, 0)]);
    let bytes = batch("a", 3, 0, (0..100).map(|device| (device, 1)));
    accept(&store, "a", &bytes).unwrap().unwrap();
    store.backup(&backup).unwrap();
    let restored = SqliteStore::open(&backup).unwrap();
    assert_eq!(accept(&restored, "a", &bytes).unwrap(), Ok(taken(0, 100, 0, 0)));
}
