//! Registries of users: rules that every store keeps, and the migration of a store without them.

use std::num::NonZeroU64;

use rusqlite::Connection;
use tidegate::central::classes::{Classes, Requirement};
use tidegate_server::store::backup::check_backup;
use tidegate_server::store::{Advance, Member, MemberChanges, MemberFilter, SqliteStore, Status, Store, StoreError};

use super::{TestFolder, advance, begin, create};

/// Two classes, with windows of two and three timestamps.
pub(crate) fn classes() -> Classes {
    let class = |epsilon: &str, window| Requirement {
        epsilon: epsilon.parse().unwrap(),
        window: NonZeroU64::new(window).unwrap(),
    };
    Classes::numbered(&[class("1", 2), class("0.5", 3)]).unwrap()
}

/// Makes changes at a version of a stream.
fn change(store: &dyn Store, at: (u64, u64), requests: &[(&str, Option<u16>)]) -> Result<(), StoreError> {
    change_late(store, at, 0, requests)
}

/// Makes changes while earlier timestamps take late events.
fn change_late(
    store: &dyn Store,
    (version, next): (u64, u64),
    lateness: u64,
    requests: &[(&str, Option<u16>)],
) -> Result<(), StoreError> {
    let requests: Vec<_> = requests.iter().map(|(user, class)| ((*user).to_owned(), *class)).collect();
    store.change_members("a", &MemberChanges { version, next, lateness, classes: &classes(), requests: &requests })
}

fn all(store: &dyn Store) -> Vec<Member> {
    store.members("a", MemberFilter::After(0, 100)).unwrap().members
}

pub(super) fn users_are_registered_and_read_back(store: &dyn Store) {
    create(store, "a");
    create(store, "b");
    assert_eq!(store.members("a", MemberFilter::After(0, 100)).unwrap().users, 0);
    change(store, (0, 5), &[("bert", Some(1)), ("é 'x'", Some(0)), ("bert", Some(0)), ("nobody", None)]).unwrap();
    let page = store.members("a", MemberFilter::After(0, 100)).unwrap();
    assert_eq!((page.users, page.forgotten), (2, 0));
    let names: Vec<_> = page.members.iter().map(|member| (member.user.as_str(), member.number)).collect();
    assert_eq!(names, [("é 'x'", 2), ("bert", 3)]);
    assert_eq!(page.members[1].membership.wanted(), Some((0, 5)));
    assert_eq!(store.members("a", MemberFilter::After(2, 100)).unwrap().members, page.members[1..]);
    assert_eq!(store.members("a", MemberFilter::After(0, 1)).unwrap().members, page.members[..1]);
    assert_eq!(store.members("a", MemberFilter::User("bert")).unwrap().members, page.members[1..]);
    assert!(store.members("a", MemberFilter::User("nobody")).unwrap().members.is_empty());
    assert!(store.members("b", MemberFilter::After(0, 100)).unwrap().members.is_empty());
}

pub(super) fn a_repeated_change_of_class_changes_nothing(store: &dyn Store) {
    create(store, "a");
    change(store, (0, 5), &[("anna", Some(0)), ("bert", Some(0))]).unwrap();
    change(store, (0, 9), &[("anna", Some(1)), ("bert", None)]).unwrap();
    let before = all(store);
    assert_eq!(before[0].membership.wanted(), Some((1, 11)), "it sits out the longer window");
    change(store, (0, 10), &[("anna", Some(1)), ("bert", None)]).unwrap();
    assert_eq!(all(store), before);
}

pub(super) fn classes_change_at_the_present_version_only(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    change(store, (1, 5), &[("anna", Some(0))]).unwrap();
    advance(store, &lease, 1, &[]).unwrap();
    for version in [0, 1, 3] {
        let outcome = change(store, (version, 6), &[("anna", Some(1)), ("bert", Some(1))]);
        assert!(matches!(outcome, Err(StoreError::Stale(_))), "{version}");
    }
    assert_eq!(all(store).len(), 1);
    change(store, (2, 6), &[("anna", Some(1))]).unwrap();
    store.set_status("a", Status::Retired).unwrap();
    assert!(matches!(change(store, (2, 6), &[("anna", None)]), Err(StoreError::Retired(_))));
    assert_eq!(all(store)[0].membership.wanted(), Some((1, 8)));
}

/// A step that counted users by their classes is not stored once one of them has changed.
pub(super) fn a_step_must_know_the_last_change_of_class(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    let step = |version, members| {
        store.advance(&lease, Advance { version, members, ..Advance::default() }).map_err(|error| error.to_string())
    };
    step(1, Some(0)).unwrap();
    change(store, (2, 5), &[("anna", Some(0)), ("bert", Some(0))]).unwrap();
    for known in [0, 1, 3] {
        assert_eq!(step(2, Some(known)), Err(StoreError::Stale("a".to_owned()).to_string()), "{known}");
    }
    step(2, Some(2)).unwrap();
    step(3, None).unwrap();
}

pub(super) fn keeps_who_has_left_for_late_events(store: &dyn Store) {
    create(store, "a");
    change(store, (0, 5), &[("anna", Some(0))]).unwrap();
    change(store, (0, 7), &[("anna", None)]).unwrap();
    change_late(store, (0, 18), 12, &[("bert", Some(0))]).unwrap();
    assert_eq!(all(store).len(), 2, "timestamp 6 takes events until 18 is over");
    change_late(store, (0, 22), 12, &[("cleo", Some(0))]).unwrap();
    assert_eq!(all(store).len(), 2);
}

/// Somebody who reads changes by number must notice that a row was deleted that says who has left.
pub(super) fn forgets_who_has_left_and_says_so(store: &dyn Store) {
    create(store, "a");
    change(store, (0, 5), &[("anna", Some(0)), ("bert", Some(0))]).unwrap();
    change(store, (0, 7), &[("anna", None)]).unwrap();
    change(store, (0, 8), &[("cleo", Some(0))]).unwrap();
    assert_eq!(all(store).len(), 3, "within the longest window a return depends on the class before");
    change(store, (0, 9), &[("dora", Some(0))]).unwrap();
    let page = store.members("a", MemberFilter::After(0, 100)).unwrap();
    let names: Vec<_> = page.members.iter().map(|member| member.user.as_str()).collect();
    assert_eq!((names, page.users, page.forgotten), (vec!["bert", "cleo", "dora"], 3, 3));
}

#[test]
fn a_store_of_version_2_gets_registries() {
    let folder = TestFolder::new();
    let path = folder.file("store");
    let store = SqliteStore::open(&path).unwrap();
    create(&store, "a");
    drop(store);
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "DROP INDEX events_of_monitors; DROP TABLE acknowledgements;
             DROP TABLE members; DROP TABLE registries; PRAGMA user_version = 2",
        )
        .unwrap();
    drop(connection);
    // A backup of that version can be checked as it is.
    check_backup(&path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    change(&store, (0, 5), &[("anna", Some(0))]).unwrap();
    assert_eq!((store.verify().unwrap().len(), all(&store).len()), (1, 1));
}

#[test]
fn a_damaged_registry_is_detected() {
    for damage in [
        "UPDATE members SET body = x'0001'",
        "UPDATE members SET name = 'bert'",
        "UPDATE members SET number = 2",
        "UPDATE registries SET changes = 2",
        "UPDATE registries SET forgotten = 1",
        "DELETE FROM members",
    ] {
        let folder = TestFolder::new();
        let path = folder.file("store");
        let store = SqliteStore::open(&path).unwrap();
        create(&store, "a");
        change(&store, (0, 5), &[("anna", Some(0))]).unwrap();
        store.verify().unwrap();
        Connection::open(&path).unwrap().execute_batch(damage).unwrap();
        assert!(matches!(store.verify(), Err(StoreError::Damaged(_))), "{damage}");
        if !damage.starts_with("DELETE") {
            assert!(matches!(store.members("a", MemberFilter::After(0, 9)), Err(StoreError::Damaged(_))), "{damage}");
        }
    }
}
