//! Conformance: each rule of the store's contract, on each store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tidegate_kernel::oracle::{Aggregate, OracleKind};
use tidegate_kernel::{Question, View};
use tidegate_server::store::{
    Advance, BatchRejection, Lease, MemberFilter, MergeOutcome, NewRecord, NewStream, OpenQuestion, PhaseKey, Record,
    RecordFilter, RecordKind, ReportBatch, SqliteStore, Status, Store, StoreError, Write, Written,
};

use super::members::{
    a_repeated_change_of_class_changes_nothing, a_step_must_know_the_last_change_of_class,
    classes_change_at_the_present_version_only, forgets_who_has_left_and_says_so, keeps_who_has_left_for_late_events,
    users_are_registered_and_read_back,
};
use super::numbers::{
    acknowledgements_go_with_their_answers, acknowledges_published_answers_once, finds_the_last_events_of_monitors,
    finds_the_last_records_across_gaps, forgets_old_published_records_only,
    no_number_is_used_twice_after_a_replaced_state,
};
use super::{DOMAIN, TestFolder, accept, advance, batch, begin, counts, create, open, question, taken};
use crate::model::Model;

/// Makes a test of each rule for the stores that need no server, and a list of rules for PostgreSQL.
macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        pub(crate) const ALL: &[(&str, fn(&dyn Store))] = &[$((stringify!($rule), $rule)),*];
        mod sqlite {
            $(#[test]
            fn $rule() {
                let folder = super::TestFolder::new();
                super::$rule(&super::SqliteStore::open(&folder.file("store")).unwrap());
            })*
        }
        mod model {
            $(#[test]
            fn $rule() {
                super::$rule(&super::Model::default());
            })*
        }
    };
}

rules![
    reads_back_a_created_stream,
    refuses_a_name_twice_even_if_retired,
    replaces_a_declaration,
    reports_a_missing_stream,
    a_retired_stream_stays_retired,
    a_lease_is_held_by_one_until_its_end,
    a_released_lease_is_free_at_once,
    a_report_is_counted_once,
    refuses_a_conflicting_report,
    counts_an_identity_in_each_phase,
    skips_implausible_reports,
    counts_the_released_sequences_of_a_batch,
    rejects_a_batch_with_a_malformed_report,
    accepts_batches_of_a_transaction_in_order,
    a_phase_that_is_not_open_accepts_nothing,
    closing_a_phase_is_final_and_repeatable,
    replays_after_the_clean_up_do_not_count,
    a_kept_question_keeps_its_reports,
    partial_counts_are_merged_once,
    refuses_ranges_without_their_predecessor,
    refuses_counts_of_another_oracle,
    reports_and_merged_counts_share_an_offset,
    a_stale_epoch_changes_nothing,
    a_stale_version_changes_nothing,
    commits_a_group_of_independent_changes,
    reads_published_records_only,
    records_are_read_back_byte_for_byte,
    filters_records_by_number_and_timestamp,
    a_replaced_state_drops_questions_and_lease,
    no_number_is_used_twice_after_a_replaced_state,
    forgets_old_published_records_only,
    acknowledges_published_answers_once,
    acknowledgements_go_with_their_answers,
    finds_the_last_records_across_gaps,
    finds_the_last_events_of_monitors,
    streams_do_not_mix,
    counts_exactly_once_while_phases_close,
    a_working_store_passes_its_check,
    users_are_registered_and_read_back,
    a_repeated_change_of_class_changes_nothing,
    classes_change_at_the_present_version_only,
    a_step_must_know_the_last_change_of_class,
    forgets_who_has_left_and_says_so,
    keeps_who_has_left_for_late_events,
];

fn total(store: &dyn Store, lease: &Lease, version: u64) -> Option<Vec<u64>> {
    store.close(lease, version).unwrap()[0].as_ref().map(counts)
}

fn is_stale(outcome: Result<(), StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Stale(_)))
}

fn reads_back_a_created_stream(store: &dyn Store) {
    let new = NewStream { name: "a", declaration: "{\"é\": 1}", policy: "{}", state: &[0, 255, 7] };
    store.create(&new).unwrap();
    let stream = store.stream("a").unwrap();
    assert_eq!((stream.name.as_str(), stream.declaration.as_str()), ("a", new.declaration));
    assert_eq!((stream.policy.as_str(), stream.state.as_slice()), (new.policy, new.state));
    assert_eq!((stream.status, stream.epoch, stream.version, stream.published), (Status::Running, 0, 0, 0));
    assert!(stream.open.is_empty());
    create(store, "b");
    create(store, "B");
    assert_eq!(store.names().unwrap(), ["B", "a", "b"]);
}

fn refuses_a_name_twice_even_if_retired(store: &dyn Store) {
    create(store, "a");
    let again = || store.create(&NewStream { name: "a", declaration: "x", policy: "", state: b"" });
    assert!(matches!(again(), Err(StoreError::Exists(_))));
    store.set_status("a", Status::Retired).unwrap();
    assert!(matches!(again(), Err(StoreError::Exists(_))));
    assert_eq!(store.stream("a").unwrap().declaration, "{}");
}

fn replaces_a_declaration(store: &dyn Store) {
    create(store, "a");
    store.redeclare("a", "{}", "{\"webhooks\": []}").unwrap();
    // Somebody else has changed it since.
    assert!(matches!(store.redeclare("a", "{}", "x"), Err(StoreError::Changed(name)) if name == "a"));
    assert_eq!(store.stream("a").unwrap().declaration, "{\"webhooks\": []}");
    assert_eq!(store.stream("a").unwrap().state, b"first");
}

fn reports_a_missing_stream(store: &dyn Store) {
    fn is_missing<T>(outcome: Result<T, StoreError>) -> bool {
        matches!(outcome, Err(StoreError::NoStream(name)) if name == "a")
    }
    let lease = Lease { stream: "a".to_owned(), epoch: 1 };
    assert!(is_missing(store.stream("a")));
    assert!(is_missing(store.status("a")));
    assert!(is_missing(store.set_status("a", Status::Paused)));
    assert!(is_missing(store.redeclare("a", "", "")));
    assert!(is_missing(store.lease("a", "driver", 0, 1)));
    assert!(is_missing(store.release_lease(&lease)));
    assert!(is_missing(store.close(&lease, 0)));
    assert!(is_missing(advance(store, &lease, 0, &[])));
    assert!(is_missing(store.publish(&lease, 0)));
    assert!(is_missing(store.replace_state("a", b"", 1)));
    assert!(is_missing(store.records("a", RecordKind::Answer, &RecordFilter::default())));
    assert!(is_missing(store.latest("a", RecordKind::Release, 0)));
    assert!(is_missing(store.members("a", MemberFilter::User("anna"))));
    assert_eq!(accept(store, "a", &batch("a", 0, 0, [(1, 1)])).unwrap(), Err(BatchRejection::NoStream));
    let key = PhaseKey { stream: "a".to_owned(), timestamp: 0, phase: 0 };
    let nothing = question(0, 0).oracle().unwrap().aggregate();
    assert!(matches!(store.merge(&key, "x", 0..1, &nothing), Err(StoreError::Rejected(BatchRejection::NoStream))));
}

fn a_retired_stream_stays_retired(store: &dyn Store) {
    create(store, "a");
    for status in [Status::Paused, Status::Running, Status::Retired, Status::Retired] {
        store.set_status("a", status).unwrap();
        assert_eq!(store.status("a").unwrap(), (status, 0));
    }
    assert!(matches!(store.set_status("a", Status::Running), Err(StoreError::Retired(_))));
    assert_eq!(store.status("a").unwrap().0, Status::Retired);
}

fn a_lease_is_held_by_one_until_its_end(store: &dyn Store) {
    create(store, "a");
    // Long ones, for a store that goes by a clock of its own.
    let first = store.lease("a", "one", 0, 1_000_000).unwrap().unwrap();
    assert_eq!(first.epoch, 1);
    assert_eq!(store.lease("a", "two", 10, 1_000_010).unwrap(), None);
    assert_eq!(store.lease("a", "one", 20, 20).unwrap(), Some(first.clone()), "the same holder, the same epoch");
    thread::sleep(std::time::Duration::from_millis(2));
    let second = store.lease("a", "two", 21, 1_000_021).unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert_eq!(store.lease("a", "one", 30, 1_000_030).unwrap(), None);
    assert_eq!(store.stream("a").unwrap().epoch, 2);
}

fn a_released_lease_is_free_at_once(store: &dyn Store) {
    create(store, "a");
    let first = store.lease("a", "one", 0, 1_000_000).unwrap().unwrap();
    store.release_lease(&first).unwrap();
    let second = store.lease("a", "two", 1, 1_000_000).unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    store.release_lease(&first).unwrap();
    assert_eq!(store.lease("a", "three", 2, 1_000_000).unwrap(), None, "an old lease gives nothing back");
    store.release_lease(&second).unwrap();
    assert_eq!(store.lease("a", "two", 3, 1_000_000).unwrap().unwrap().epoch, 3, "nor does anybody get it again");
}

fn a_report_is_counted_once(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let first = batch("a", 3, 0, (0..100).map(|device| (device, 1)));
    assert_eq!(accept(store, "a", &first).unwrap(), Ok(taken(100, 0, 0, 0)));
    assert_eq!(accept(store, "a", &first).unwrap(), Ok(taken(0, 100, 0, 0)));
    let more = batch("a", 3, 0, (50..150).map(|device| (device, 1)));
    assert_eq!(accept(store, "a", &more).unwrap(), Ok(taken(50, 50, 0, 0)));
    assert_eq!(total(store, &lease, 1), Some(vec![0, 150, 0, 0, 0, 0, 0, 0]));
}

fn refuses_a_conflicting_report(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    accept(store, "a", &batch("a", 3, 0, [(1, 1), (2, 2)])).unwrap().unwrap();
    let outcome = accept(store, "a", &batch("a", 3, 0, [(1, 1), (2, 5), (3, 3)]));
    assert_eq!(outcome.unwrap(), Ok(taken(1, 1, 1, 0)));
    assert_eq!(total(store, &lease, 1), Some(vec![0, 1, 1, 1, 0, 0, 0, 0]));
}

fn counts_an_identity_in_each_phase(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0), open(3, 1)]);
    let bytes = batch("a", 3, 0, [(1, 1)]);
    let mut other = bytes.clone();
    other[28] = 1; // the phase
    assert_eq!(accept(store, "a", &bytes).unwrap(), Ok(taken(1, 0, 0, 0)));
    assert_eq!(accept(store, "a", &other).unwrap(), Ok(taken(1, 0, 0, 0)));
    let totals = store.close(&lease, 1).unwrap();
    assert_eq!(totals.iter().flatten().map(|total| total.reports()).collect::<Vec<_>>(), [1, 1]);
}

fn counts_the_released_sequences_of_a_batch(store: &dyn Store) {
    let view = View::Sequence { length: 3 };
    let asked = Question { domain: 2, view, ..question(5, 0) };
    let lease = begin(store, "a", &[OpenQuestion { question: asked.clone(), closes: 6_000 }]);
    assert_eq!(store.stream("a").unwrap().open[0].question, asked);
    let reports = [(1, 0b101), (2, 0b101), (3, 0b111)];
    assert_eq!(accept(store, "a", &batch("a", 5, 0, reports)).unwrap(), Ok(taken(3, 0, 0, 0)));
    assert_eq!(accept(store, "a", &batch("a", 5, 0, [(1, 0b101)])).unwrap(), Ok(taken(0, 1, 0, 0)));
    assert_eq!(accept(store, "a", &batch("a", 5, 0, [(1, 0b100)])).unwrap(), Ok(taken(0, 0, 1, 0)));
    // There are eight sequences of three bits.
    assert!(accept(store, "a", &batch("a", 5, 0, [(4, 0b1000)])).unwrap().is_err());
    assert_eq!(total(store, &lease, 1), Some(vec![0, 0, 0, 0, 0, 2, 0, 1]));
}

fn skips_implausible_reports(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let bytes = batch("a", 3, 0, (0..10).map(|device| (device, 2)));
    let mut intake = ReportBatch::parse("a", bytes.into()).unwrap();
    intake.implausible = vec![0, 4, 9];
    assert_eq!(store.accept("here", std::slice::from_ref(&intake)).unwrap(), [Ok(taken(7, 0, 0, 3))]);
    let mut whole = intake.clone();
    whole.implausible.clear();
    assert_eq!(store.accept("here", &[whole]).unwrap(), [Ok(taken(3, 7, 0, 0))], "their identities are free");
    assert_eq!(total(store, &lease, 1), Some(vec![0, 0, 10, 0, 0, 0, 0, 0]));
}

fn rejects_a_batch_with_a_malformed_report(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let bytes = batch("a", 3, 0, [(1, 1), (2, 8), (3, 3)]);
    assert!(matches!(accept(store, "a", &bytes).unwrap(), Err(BatchRejection::Malformed(_))));
    assert_eq!(accept(store, "a", &batch("a", 3, 0, [(1, 4)])).unwrap(), Ok(taken(1, 0, 0, 0)));
    assert_eq!(total(store, &lease, 1), Some(vec![0, 0, 0, 0, 1, 0, 0, 0]));
}

fn accepts_batches_of_a_transaction_in_order(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0), open(3, 1)]);
    let batches = [
        batch("a", 3, 0, [(1, 1), (2, 1)]),
        batch("a", 3, 1, [(1, 7)]),
        batch("a", 3, 0, [(2, 1), (3, 1), (1, 2)]),
        batch("a", 3, 2, [(1, 1)]),
        batch("a", 3, 0, [(4, 9)]),
        batch("a", 3, 1, [(1, 7), (2, 7)]),
    ];
    let intakes: Vec<_> = batches.iter().map(|bytes| ReportBatch::parse("a", bytes.clone().into()).unwrap()).collect();
    let outcomes = store.accept("here", &intakes).unwrap();
    assert_eq!(outcomes[..3], [Ok(taken(2, 0, 0, 0)), Ok(taken(1, 0, 0, 0)), Ok(taken(1, 1, 1, 0))]);
    assert_eq!(outcomes[3], Err(BatchRejection::NotOpen { timestamp: 3, phase: 2 }));
    assert!(matches!(outcomes[4], Err(BatchRejection::Malformed(_))));
    assert_eq!(outcomes[5], Ok(taken(1, 1, 0, 0)));
    let totals = store.close(&lease, 1).unwrap();
    assert_eq!(counts(totals[0].as_ref().unwrap()), [0, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!(counts(totals[1].as_ref().unwrap()), [0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(store.accept("here", &[]).unwrap(), []);
}

fn a_phase_that_is_not_open_accepts_nothing(store: &dyn Store) {
    begin(store, "a", &[open(3, 1)]);
    for (timestamp, phase) in [(3, 0), (2, 1), (4, 1), (u64::MAX, 1)] {
        let outcome = accept(store, "a", &batch("a", timestamp, phase, [(1, 1)])).unwrap();
        assert_eq!(outcome, Err(BatchRejection::NotOpen { timestamp, phase }));
    }
    assert_eq!(accept(store, "a", &batch("a", 3, 1, [(1, 1)])).unwrap(), Ok(taken(1, 0, 0, 0)));
}

fn closing_a_phase_is_final_and_repeatable(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0), open(3, 1)]);
    accept(store, "a", &batch("a", 3, 0, [(1, 1), (2, 2)])).unwrap().unwrap();
    let totals = store.close(&lease, 1).unwrap();
    assert_eq!(totals.len(), 2);
    assert_eq!(counts(totals[0].as_ref().unwrap()), [0, 1, 1, 0, 0, 0, 0, 0]);
    assert!(totals[1].is_none());
    for device in [1, 3] {
        let outcome = accept(store, "a", &batch("a", 3, 0, [(device, 1)])).unwrap();
        assert_eq!(outcome, Err(BatchRejection::NotOpen { timestamp: 3, phase: 0 }));
    }
    let key = PhaseKey { stream: "a".to_owned(), timestamp: 3, phase: 1 };
    let merged = store.merge(&key, "x", 0..1, totals[0].as_ref().unwrap());
    assert!(matches!(merged, Err(StoreError::Rejected(BatchRejection::NotOpen { .. }))));
    assert_eq!(store.close(&lease, 1).unwrap(), totals);
    assert_eq!(store.stream("a").unwrap().open, [open(3, 0), open(3, 1)], "it still waits for an answer");
}

fn replays_after_the_clean_up_do_not_count(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let bytes = batch("a", 3, 0, (0..20).map(|device| (device, 1)));
    accept(store, "a", &bytes).unwrap().unwrap();
    store.close(&lease, 1).unwrap();
    advance(store, &lease, 1, &[open(4, 0)]).unwrap();
    assert_eq!(accept(store, "a", &bytes).unwrap(), Err(BatchRejection::NotOpen { timestamp: 3, phase: 0 }));
    assert_eq!(total(store, &lease, 2), None);
    // The same devices are heard at the next timestamp.
    advance(store, &lease, 2, &[open(5, 0)]).unwrap();
    let next = batch("a", 5, 0, (0..20).map(|device| (device, 1)));
    assert_eq!(accept(store, "a", &next).unwrap(), Ok(taken(20, 0, 0, 0)));
}

fn a_kept_question_keeps_its_reports(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0), open(3, 1)]);
    accept(store, "a", &batch("a", 3, 0, [(1, 1)])).unwrap().unwrap();
    accept(store, "a", &batch("a", 3, 1, [(1, 1)])).unwrap().unwrap();
    let mut later = open(3, 1);
    later.closes += 5;
    advance(store, &lease, 1, &[open(4, 0), later.clone()]).unwrap();
    assert_eq!(store.stream("a").unwrap().open, [open(4, 0), later.clone()]);
    assert_eq!(accept(store, "a", &batch("a", 3, 1, [(1, 1), (2, 2)])).unwrap(), Ok(taken(1, 1, 0, 0)));
    let totals = store.close(&lease, 2).unwrap();
    assert!(totals[0].is_none());
    assert_eq!(counts(totals[1].as_ref().unwrap()), [0, 1, 1, 0, 0, 0, 0, 0]);
    advance(store, &lease, 2, &[later]).unwrap();
    let outcome = accept(store, "a", &batch("a", 3, 1, [(3, 1)])).unwrap();
    assert_eq!(
        outcome,
        Err(BatchRejection::NotOpen { timestamp: 3, phase: 1 }),
        "what is closed is never opened again"
    );
}

fn partial_counts_are_merged_once(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let key = PhaseKey { stream: "a".to_owned(), timestamp: 3, phase: 0 };
    let mut part = question(3, 0).oracle().unwrap().aggregate();
    part.add_batch(&[1, 1, 2]).unwrap();
    assert_eq!(store.merge(&key, "x", 0..5, &part).unwrap(), MergeOutcome::Counted);
    assert_eq!(store.merge(&key, "x", 0..5, &part).unwrap(), MergeOutcome::AlreadyCounted);
    assert_eq!(store.merge(&key, "x", 2..4, &part).unwrap(), MergeOutcome::AlreadyCounted);
    assert_eq!(store.merge(&key, "y", 0..3, &part).unwrap(), MergeOutcome::Counted);
    assert_eq!(store.merge(&key, "x", 5..8, &part).unwrap(), MergeOutcome::Counted);
    assert_eq!(total(store, &lease, 1), Some(vec![0, 6, 3, 0, 0, 0, 0, 0]));
    advance(store, &lease, 1, &[open(4, 0)]).unwrap();
    let key = PhaseKey { timestamp: 4, ..key };
    assert_eq!(store.merge(&key, "x", 0..5, &part).unwrap(), MergeOutcome::Counted, "each phase begins at 0");
}

fn refuses_ranges_without_their_predecessor(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let key = PhaseKey { stream: "a".to_owned(), timestamp: 3, phase: 0 };
    let mut part = question(3, 0).oracle().unwrap().aggregate();
    part.add_batch(&[1]).unwrap();
    let refused = |range, at| {
        let outcome = store.merge(&key, "x", range, &part);
        matches!(outcome, Err(StoreError::Range { counted, .. }) if counted == at)
    };
    assert!(refused(1..2, 0));
    store.merge(&key, "x", 0..4, &part).unwrap();
    assert!(refused(3..5, 4));
    assert!(refused(5..6, 4));
    assert_eq!(total(store, &lease, 1), Some(vec![0, 1, 0, 0, 0, 0, 0, 0]));
}

fn refuses_counts_of_another_oracle(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let key = PhaseKey { stream: "a".to_owned(), timestamp: 3, phase: 0 };
    let mut other = question(3, 0);
    other.domain = DOMAIN + 1;
    let mut wide = other.oracle().unwrap().aggregate();
    wide.add(&[8]).unwrap();
    let refused = |counts| {
        matches!(store.merge(&key, "x", 0..1, counts), Err(StoreError::Rejected(BatchRejection::Malformed(_))))
    };
    assert!(refused(&wide));
    let unary = Question { oracle: OracleKind::Oue, ..question(3, 0) }.oracle().unwrap().aggregate();
    assert!(refused(&unary));
    assert_eq!(total(store, &lease, 1), None);
}

fn reports_and_merged_counts_share_an_offset(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let key = PhaseKey { stream: "a".to_owned(), timestamp: 3, phase: 0 };
    let mut part = question(3, 0).oracle().unwrap().aggregate();
    part.add_batch(&[5, 5]).unwrap();
    accept(store, "a", &batch("a", 3, 0, [(1, 1), (2, 1), (3, 1)])).unwrap().unwrap();
    assert_eq!(store.merge(&key, "here", 0..3, &part).unwrap(), MergeOutcome::AlreadyCounted);
    assert_eq!(store.merge(&key, "here", 3..5, &part).unwrap(), MergeOutcome::Counted);
    assert_eq!(accept(store, "a", &batch("a", 3, 0, [(3, 1), (4, 1)])).unwrap(), Ok(taken(1, 1, 0, 0)));
    assert_eq!(store.merge(&key, "here", 4..6, &part).unwrap(), MergeOutcome::AlreadyCounted);
    assert_eq!(total(store, &lease, 1), Some(vec![0, 4, 0, 0, 0, 2, 0, 0]));
}

fn a_stale_epoch_changes_nothing(store: &dyn Store) {
    let asleep = begin(store, "a", &[open(3, 0)]);
    store.release_lease(&asleep).unwrap();
    let awake = store.lease("a", "other", 0, 1_000).unwrap().unwrap();
    accept(store, "a", &batch("a", 3, 0, [(1, 1)])).unwrap().unwrap();
    let before = store.stream("a").unwrap();
    assert!(matches!(store.close(&asleep, 1), Err(StoreError::Stale(_))));
    assert!(is_stale(advance(store, &asleep, 1, &[])));
    assert!(is_stale(store.publish(&asleep, 1)));
    assert_eq!(store.stream("a").unwrap(), before);
    assert_eq!(accept(store, "a", &batch("a", 3, 0, [(2, 1)])).unwrap(), Ok(taken(1, 0, 0, 0)), "it is still open");
    assert_eq!(total(store, &awake, 1), Some(vec![0, 2, 0, 0, 0, 0, 0, 0]));
    advance(store, &awake, 1, &[]).unwrap();
    assert!(is_stale(advance(store, &asleep, 2, &[])));
}

fn a_stale_version_changes_nothing(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    let before = store.stream("a").unwrap();
    for version in [0, 2] {
        assert!(matches!(store.close(&lease, version), Err(StoreError::Stale(_))));
        assert!(is_stale(advance(store, &lease, version, &[])));
    }
    assert!(is_stale(store.publish(&lease, 2)), "it has not got there");
    assert_eq!(store.stream("a").unwrap(), before);
    assert_eq!(accept(store, "a", &batch("a", 3, 0, [(2, 1)])).unwrap(), Ok(taken(1, 0, 0, 0)));
}

pub(super) fn records(timestamps: impl IntoIterator<Item = u64>, what: &str) -> Vec<NewRecord> {
    timestamps
        .into_iter()
        .map(|timestamp| NewRecord { timestamp, body: format!("{{\"{what}\": {timestamp}}}") })
        .collect()
}

fn commits_a_group_of_independent_changes(store: &dyn Store) {
    let (a, b) = (begin(store, "a", &[open(3, 0)]), begin(store, "b", &[open(3, 0)]));
    accept(store, "b", &batch("b", 3, 0, [(1, 2)])).unwrap().unwrap();
    let releases = records([3], "released");
    let outcomes = store.commit(&[
        Write::Publish { lease: Lease { epoch: 9, ..a.clone() }, version: 1 },
        Write::Create(NewStream { name: "b", declaration: "{}", policy: "", state: b"another" }),
        Write::Create(NewStream { name: "c", declaration: "{}", policy: "", state: b"new" }),
        Write::Close { lease: b.clone(), version: 1, last_call: false },
        Write::Advance { lease: a.clone(), next: Advance { version: 1, releases, ..Advance::default() } },
        Write::Lease { stream: "d".to_owned(), holder: "driver".to_owned(), now: 0, until: 1_000 },
    ]);
    let [stale, exists, created, closed, advanced, missing] = outcomes.try_into().unwrap();
    assert!(matches!(stale, Err(StoreError::Stale(stream)) if stream == "a"));
    assert!(matches!(exists, Err(StoreError::Exists(stream)) if stream == "b"));
    assert!(matches!(missing, Err(StoreError::NoStream(stream)) if stream == "d"));
    assert_eq!((created.unwrap(), advanced.unwrap()), (Written::Done, Written::Done));
    assert_eq!(closed.unwrap().counts().unwrap().unwrap()[0].total.as_ref().map(Aggregate::reports), Some(1));
    assert_eq!(store.names().unwrap(), ["a", "b", "c"]);
    assert_eq!((store.status("a").unwrap().1, store.stream("c").unwrap().state), (2, b"new".to_vec()));
    assert!(store.commit(&[]).is_empty());
}

fn reads_published_records_only(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    let (releases, said) = (records([3, 4], "released"), records([4], "said"));
    store.advance(&lease, Advance { version: 1, releases, answers: said, ..Advance::default() }).unwrap();
    let more = records([5], "released");
    store.advance(&lease, Advance { version: 2, releases: more, ..Advance::default() }).unwrap();
    let read = |kind| store.records("a", kind, &RecordFilter::default()).unwrap();
    let latest = || [RecordKind::Release, RecordKind::Answer].map(|kind| store.latest("a", kind, 0).unwrap());
    assert_eq!((read(RecordKind::Release).len(), read(RecordKind::Answer).len()), (0, 0));
    store.publish(&lease, 1).unwrap();
    assert_eq!((read(RecordKind::Release).len(), read(RecordKind::Answer).len()), (0, 0));
    assert_eq!(latest(), [0, 0]);
    store.publish(&lease, 2).unwrap();
    assert_eq!(latest(), [2, 1]);
    let record = |number, timestamp, body: &str| Record { number, version: 2, timestamp, body: body.to_owned() };
    assert_eq!(read(RecordKind::Release), [record(1, 3, "{\"released\": 3}"), record(2, 4, "{\"released\": 4}")]);
    assert_eq!(read(RecordKind::Answer), [record(1, 4, "{\"said\": 4}")]);
    store.publish(&lease, 3).unwrap();
    assert_eq!((read(RecordKind::Release).len(), latest()), (3, [3, 1]));
    store.publish(&lease, 1).unwrap();
    assert_eq!(read(RecordKind::Release).len(), 3, "what was published stays so");
    assert_eq!(store.stream("a").unwrap().published, 3);
}

fn records_are_read_back_byte_for_byte(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    let body = "{ \"z\":1.0e-3,\t\"a\": [1,2 ,3], \"n\": \"\\u00e9é\u{1f30a}'\\\"\" }\n".to_owned();
    let bodies = [body, String::new(), "x".repeat(200_000)];
    let releases: Vec<_> = bodies.iter().map(|body| NewRecord { timestamp: 7, body: body.clone() }).collect();
    store.advance(&lease, Advance { version: 1, releases, ..Advance::default() }).unwrap();
    store.publish(&lease, 2).unwrap();
    let read = store.records("a", RecordKind::Release, &RecordFilter::default()).unwrap();
    assert_eq!(read.into_iter().map(|record| record.body).collect::<Vec<_>>(), bodies);
}

fn filters_records_by_number_and_timestamp(store: &dyn Store) {
    let lease = begin(store, "a", &[]);
    let releases = records([10, 11, 11, 12, 15, 14], "released");
    store.advance(&lease, Advance { version: 1, releases, ..Advance::default() }).unwrap();
    store.publish(&lease, 2).unwrap();
    let numbers = |after, from, to, limit| -> Vec<u64> {
        let wanted = RecordFilter { after, from, to, limit };
        store.records("a", RecordKind::Release, &wanted).unwrap().iter().map(|record| record.number).collect()
    };
    assert_eq!(numbers(0, 0, u64::MAX, 1_000), [1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers(2, 0, u64::MAX, 2), [3, 4]);
    assert_eq!(numbers(0, 11, 14, 1_000), [2, 3, 4, 6]);
    assert_eq!(numbers(2, 11, 14, 2), [3, 4]);
    assert_eq!(numbers(0, 14, u64::MAX, 1_000), [5, 6]);
    assert_eq!(numbers(0, 0, 10, 1_000), [1]);
    assert_eq!(numbers(u64::MAX, 0, u64::MAX, 1_000), [0_u64; 0]);
    assert_eq!(numbers(0, u64::MAX, u64::MAX, 1_000), [0_u64; 0]);
    assert_eq!(numbers(0, 0, u64::MAX, 0), [0_u64; 0]);
    assert_eq!(numbers(0, 0, u64::MAX, usize::MAX).len(), 6);
}

fn a_replaced_state_drops_questions_and_lease(store: &dyn Store) {
    let lease = begin(store, "a", &[open(3, 0)]);
    accept(store, "a", &batch("a", 3, 0, [(1, 1)])).unwrap().unwrap();
    assert!(is_stale(store.replace_state("a", b"anew", 1)), "it has that version");
    store.replace_state("a", b"anew", 9).unwrap();
    let stream = store.stream("a").unwrap();
    assert_eq!((stream.version, stream.state.as_slice(), stream.open.len()), (9, &b"anew"[..], 0));
    assert!(is_stale(advance(store, &lease, 9, &[])), "its driver does not know");
    assert_eq!(
        accept(store, "a", &batch("a", 3, 0, [(1, 1)])).unwrap(),
        Err(BatchRejection::NotOpen { timestamp: 3, phase: 0 })
    );
    let lease = store.lease("a", "driver", 0, 1).unwrap().unwrap();
    assert!(lease.epoch > 1);
    advance(store, &lease, 9, &[open(30, 0)]).unwrap();
    assert_eq!(store.status("a").unwrap(), (Status::Running, 10));
}

fn streams_do_not_mix(store: &dyn Store) {
    let (a, b) = (begin(store, "a", &[open(3, 0)]), begin(store, "b", &[open(3, 0)]));
    let bytes = batch("a", 3, 0, [(1, 1)]);
    assert_eq!(accept(store, "a", &bytes).unwrap(), Ok(taken(1, 0, 0, 0)));
    assert_eq!(accept(store, "b", &bytes).unwrap(), Ok(taken(1, 0, 0, 0)));
    assert_eq!(total(store, &a, 1), Some(vec![0, 1, 0, 0, 0, 0, 0, 0]));
    advance(store, &a, 1, &[]).unwrap();
    assert_eq!(accept(store, "b", &bytes).unwrap(), Ok(taken(0, 1, 0, 0)));
    assert_eq!(total(store, &b, 1), Some(vec![0, 1, 0, 0, 0, 0, 0, 0]));
}

/// Gateways send batches until they are acknowledged or the phase is over, some twice, while a driver closes phases.
/// Each phase counts exactly the acknowledged reports.
fn counts_exactly_once_while_phases_close(store: &dyn Store) {
    const PHASES: u64 = 12;
    const GATEWAYS: u32 = 3;
    let lease = begin(store, "a", &[open(0, 0)]);
    let acknowledged: Vec<AtomicU64> = (0..=PHASES).map(|_| AtomicU64::new(0)).collect();
    let now = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let counted: Vec<u64> = thread::scope(|scope| {
        for gateway in 0..GATEWAYS {
            let (acknowledged, now, over) = (&acknowledged, &now, &over);
            scope.spawn(move || {
                let source = format!("gateway {gateway}");
                for round in 0_u32.. {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    let timestamp = now.load(Ordering::SeqCst);
                    // Every third round the gateways send the same devices' reports, so only one of them is first.
                    let first = if round % 3 == 0 { round * 10 } else { (gateway + 1) * 1_000_000 + round * 10 };
                    let bytes = batch("a", timestamp, 0, (first..first + 10).map(|device| (device, 1)));
                    let intake = ReportBatch::parse("a", bytes.to_vec().into()).unwrap();
                    let intakes = if round % 2 == 0 { vec![intake] } else { vec![intake.clone(), intake] };
                    for outcome in store.accept(&source, &intakes).unwrap() {
                        match outcome {
                            Ok(receipt) => {
                                assert_eq!(receipt.conflicting + receipt.implausible, 0);
                                let place = &acknowledged[usize::try_from(timestamp).unwrap()];
                                place.fetch_add(receipt.accepted, Ordering::SeqCst);
                            }
                            Err(not) => assert_eq!(not, BatchRejection::NotOpen { timestamp, phase: 0 }),
                        }
                    }
                }
            });
        }
        let mut counted = Vec::new();
        for timestamp in 0..PHASES {
            thread::sleep(std::time::Duration::from_millis(15));
            let version = timestamp + 1;
            counted.push(store.close(&lease, version).unwrap()[0].as_ref().map_or(0, |total| total.reports()));
            advance(store, &lease, version, &[open(timestamp + 1, 0)]).unwrap();
            now.store(timestamp + 1, Ordering::SeqCst);
        }
        over.store(true, Ordering::SeqCst);
        counted
    });
    let mut acknowledged: Vec<u64> = acknowledged.into_iter().map(AtomicU64::into_inner).collect();
    acknowledged.pop(); // of the phase that is still open
    assert_eq!(counted, acknowledged);
    assert!(counted.iter().sum::<u64>() > 0, "nothing came at all");
}

fn a_working_store_passes_its_check(store: &dyn Store) {
    store.check().unwrap();
    store.check().unwrap();
}
