//! Rules of the conformance tests about numbers of records: none is used twice, whatever is left out or deleted.

use tidegate_server::store::{
    Acknowledgement, Advance, Lease, NUMBERS_PER_VERSION, NewRecord, RecordFilter, RecordKind, Store, StoreError,
};

use super::begin;
use super::conformance::records;

/// Reads the numbers of published records.
fn numbers(store: &dyn Store, kind: RecordKind) -> Vec<u64> {
    let records = store.records("a", kind, &RecordFilter::default()).unwrap();
    records.iter().map(|record| record.number).collect()
}

/// Adds releases and answers to a stream, and publishes them.
fn release(store: &dyn Store, lease: &Lease, version: u64, timestamps: &[u64], forget: Option<u64>) {
    let [releases, answers] = ["released", "said"].map(|what| records(timestamps.iter().copied(), what));
    store.advance(lease, Advance { version, releases, answers, forget, ..Advance::default() }).unwrap();
    store.publish(lease, version + 1).unwrap();
}

/// The store was restored; what it had published since the backup had the next numbers.
pub(super) fn no_number_is_used_twice_after_a_replaced_state(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    release(store, &lease, 1, &[3, 4], None);
    store.replace_state("a", b"anew", 7).unwrap();
    let lease = store.lease("a", "driver", 0, 1).unwrap().unwrap();
    release(store, &lease, 7, &[30], None);
    let anew = 3 + 5 * NUMBERS_PER_VERSION;
    for kind in [RecordKind::Release, RecordKind::Answer] {
        assert_eq!(numbers(store, kind), [1, 2, anew]);
        assert_eq!(store.latest("a", kind, 0).unwrap(), anew);
    }
    // Versions that no number is left for are refused.
    let farthest = i64::MAX.unsigned_abs() - 1;
    assert!(matches!(store.replace_state("a", b"anew", farthest), Err(StoreError::Failed(_))));
    assert_eq!(store.status("a").unwrap().1, 8);
}

pub(super) fn forgets_old_published_records_only(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    release(store, &lease, 1, &[3, 4, 5], None);
    // Versions 3 and 4 are not published yet when 3 is forgotten.
    let new = |version, timestamps: &[u64]| {
        let releases = records(timestamps.iter().copied(), "released");
        Advance { version, releases, forget: Some(5), ..Advance::default() }
    };
    store.advance(&lease, new(2, &[1, 6])).unwrap();
    assert_eq!(numbers(store, RecordKind::Release), [3]);
    store.advance(&lease, new(3, &[7])).unwrap();
    store.publish(&lease, 4).unwrap();
    assert_eq!(numbers(store, RecordKind::Release), [3, 4, 5, 6]);
    store.advance(&lease, new(4, &[])).unwrap();
    assert_eq!((numbers(store, RecordKind::Release), numbers(store, RecordKind::Answer)), (vec![3, 5, 6], vec![3]));
    // Numbers go on, also where all records are gone.
    store.advance(&lease, Advance { version: 5, forget: Some(100), ..Advance::default() }).unwrap();
    assert_eq!(store.latest("a", RecordKind::Release, 0).unwrap(), 0);
    release(store, &lease, 6, &[200], None);
    assert_eq!((numbers(store, RecordKind::Release), numbers(store, RecordKind::Answer)), (vec![7], vec![4]));
}

pub(super) fn finds_the_last_records_across_gaps(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    release(store, &lease, 1, &[3, 4, 5], None);
    store.replace_state("a", b"anew", 3).unwrap();
    let lease = store.lease("a", "driver", 0, 1).unwrap().unwrap();
    release(store, &lease, 3, &[30, 31], None);
    let before = |later| store.latest("a", RecordKind::Release, later).unwrap();
    let anew = 4 + NUMBERS_PER_VERSION;
    assert_eq!([0, 1, 2, 3, 4, 5, u64::MAX].map(before), [anew + 1, anew, 3, 2, 1, 0, 0]);
}

pub(super) fn finds_the_last_events_of_monitors(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    // A query is not a monitor, whatever its name.
    let bodies = [
        r#"{"t":1,"monitor":"m","event":"started"}"#,
        r#"{"t":1,"query":",\"monitor\":\""}"#,
        r#"{"t":1,"monitor":"n","event":"started"}"#,
        r#"{"t":1,"monitor":"m","event":"ended"}"#,
        r#"{"t":1,"query":"monitor"}"#,
    ];
    let answer = |body: &str| NewRecord { timestamp: 1, body: body.to_owned() };
    let advance = |version, bodies: &[&str]| {
        let answers = bodies.iter().map(|body| answer(body)).collect();
        store.advance(&lease, Advance { version, answers, releases: vec![answer(bodies[0])], ..Advance::default() })
    };
    advance(1, &bodies).unwrap();
    let numbers = |after, before, limit| -> Vec<u64> {
        store.events("a", after, before, limit).unwrap().iter().map(|record| record.number).collect()
    };
    assert_eq!(numbers(0, u64::MAX, 9), [] as [u64; 0], "nothing is published");
    store.publish(&lease, 2).unwrap();
    advance(2, &bodies).unwrap();
    assert_eq!(numbers(0, u64::MAX, 9), [4, 3, 1]);
    assert_eq!((numbers(0, u64::MAX, 2), numbers(0, 4, 9), numbers(1, 4, 9)), (vec![4, 3], vec![3, 1], vec![3]));
    assert_eq!(store.events("a", 3, u64::MAX, 1).unwrap()[0].body, bodies[3]);
    assert!(matches!(store.events("b", 0, 1, 1), Err(StoreError::NoStream(_))));
}

pub(super) fn acknowledges_published_answers_once(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    release(store, &lease, 1, &[3, 4, 5], None);
    let answers = records([9], "said");
    store.advance(&lease, Advance { version: 2, answers, ..Advance::default() }).unwrap();
    let by = |number, by: &str, at| Acknowledgement { number, by: by.to_owned(), at };
    let acknowledge = |new: Acknowledgement| store.acknowledge("a", &new).unwrap();
    assert_eq!(acknowledge(by(2, "anna", 7)), Some(by(2, "anna", 7)));
    // The first one stays.
    assert_eq!(acknowledge(by(2, "bert", 8)), Some(by(2, "anna", 7)));
    // Answer 4 is not published, and there is no other.
    for number in [4, 5, 0, u64::MAX] {
        assert!(!matches!(store.acknowledge("a", &by(number, "anna", 7)), Ok(Some(_))), "{number}");
    }
    assert_eq!(acknowledge(by(3, "anna", 9)), Some(by(3, "anna", 9)));
    let found = |from| store.acknowledgements("a", from).unwrap();
    assert_eq!(found(0), [by(2, "anna", 7), by(3, "anna", 9)]);
    assert_eq!(found(3), [by(3, "anna", 9)]);
    assert!(matches!(store.acknowledgements("b", 0), Err(StoreError::NoStream(_))));
}

pub(super) fn acknowledgements_go_with_their_answers(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    release(store, &lease, 1, &[3, 4, 5], None);
    for number in 1..=3 {
        store.acknowledge("a", &Acknowledgement { number, by: "anna".to_owned(), at: 7 }).unwrap();
    }
    store.advance(&lease, Advance { version: 2, forget: Some(5), ..Advance::default() }).unwrap();
    let numbers = |store: &dyn Store| -> Vec<u64> {
        store.acknowledgements("a", 0).unwrap().iter().map(|found| found.number).collect()
    };
    assert_eq!(numbers(store), [3]);
    store.advance(&lease, Advance { version: 3, forget: Some(6), ..Advance::default() }).unwrap();
    assert_eq!(numbers(store), [] as [u64; 0]);
}
