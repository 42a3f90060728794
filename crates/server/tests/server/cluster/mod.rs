//! The store and the processes of a cluster, on a real database and a log in memory.

mod chaos;
mod service;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_kernel::oracle::Aggregate;
use tidegate_log::memory::MemoryLog;
use tidegate_log::{Log, LogError, NewRecord, Record};
use tidegate_server::store::clustered::{PartitionReader, ReaderFigures};
use tidegate_server::store::postgres::cluster::Partition;
use tidegate_server::store::{
    BatchRejection, ClusteredStore, Counted, Lease, Missing, PostgresStore, Store, StoreError, Write,
};

use crate::postgres::Postgres;
use crate::store::{accept, advance, batch, begin, counts, create, open, taken};

/// Number of partitions.
const PARTITIONS: u32 = 3;
/// Longest wait for counts.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster without processes.
struct World<'a> {
    server: &'a Postgres,
    postgres: Arc<PostgresStore>,
    log: Arc<MemoryLog>,
}

impl<'a> World<'a> {
    fn new(server: &'a Postgres) -> Self {
        server.clear();
        Self {
            server,
            postgres: Arc::new(PostgresStore::open(&server.url()).unwrap()),
            log: Arc::new(MemoryLog::new()),
        }
    }

    /// Opens a gateway's or a driver's store.
    fn store(&self) -> ClusteredStore {
        self.store_on(self.log.clone(), PARTITIONS)
    }

    fn store_on(&self, log: Arc<dyn Log>, partitions: u32) -> ClusteredStore {
        ClusteredStore::open(self.postgres.clone(), log, partitions, 0).unwrap()
    }

    /// Makes a worker the reader of all partitions, whoever has been it.
    fn take_all(&self, worker: &str) -> Vec<Partition> {
        let all: Vec<u32> = self.postgres.partitions().unwrap().iter().map(|partition| partition.number).collect();
        let until = Instant::now() + PATIENCE;
        loop {
            let held = self.postgres.lease_partitions(worker, &all, 50).unwrap();
            if held.len() == all.len() {
                return held;
            }
            assert!(Instant::now() < until, "{held:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn reader(&self, partition: &Partition) -> PartitionReader<'_> {
        let log: &dyn Log = &*self.log;
        PartitionReader::take_over(&self.postgres, log, partition, &AtomicBool::new(false)).unwrap()
    }

    /// Counts everything that is in the log.
    fn count_all(&self, worker: &str) {
        for partition in self.take_all(worker) {
            let end = self.log.bounds(partition.number).unwrap().end;
            let mut reader = self.reader(&partition);
            while self.counted(partition.number) < end {
                reader.step(&ReaderFigures::default()).unwrap();
            }
        }
    }

    fn counted(&self, partition: u32) -> u64 {
        self.postgres.partitions().unwrap()[partition as usize].counted
    }
}

fn close(store: &dyn Store, lease: &Lease, version: u64, last_call: bool) -> Result<Option<Vec<Counted>>, StoreError> {
    let write = Write::Close { lease: lease.clone(), version, last_call };
    store.commit(&[write]).remove(0).and_then(|written| written.counts())
}

fn total(counted: &Counted) -> Vec<u64> {
    assert_eq!(counted.missing, Missing::NOTHING);
    counted.total.as_ref().map(counts).unwrap_or_default()
}

/// A rule and its name.
type Rule = (&'static str, fn(&World<'_>));

const RULES: &[Rule] = &[
    ("counts_acknowledged_reports_once_whatever_the_gateway", counts_acknowledged_reports_once_whatever_the_gateway),
    ("acknowledges_nothing_for_a_closed_question", acknowledges_nothing_for_a_closed_question),
    ("a_close_waits_for_the_fences_and_stays_the_same", a_close_waits_for_the_fences_and_stays_the_same),
    ("says_how_many_reports_are_missing", says_how_many_reports_are_missing),
    ("a_replaced_reader_changes_nothing", a_replaced_reader_changes_nothing),
    ("a_new_reader_arrives_at_the_stored_counts", a_new_reader_arrives_at_the_stored_counts),
    ("appends_again_after_an_unknown_outcome", appends_again_after_an_unknown_outcome),
    ("more_partitions_concern_later_questions", more_partitions_concern_later_questions),
    ("a_question_of_an_older_database_is_another_one", a_question_of_an_older_database_is_another_one),
    ("counts_what_was_asked_before_there_was_a_cluster", counts_what_was_asked_before_there_was_a_cluster),
    ("refuses_damaged_records", refuses_damaged_records),
    ("keeps_the_log_as_long_as_it_is_needed", keeps_the_log_as_long_as_it_is_needed),
    ("trims_only_what_no_later_reader_needs", trims_only_what_no_later_reader_needs),
    ("notices_lost_partial_counts", notices_lost_partial_counts),
    ("tells_who_lives", tells_who_lives),
];

#[test]
fn the_store_of_a_cluster_keeps_its_rules() {
    let server = Postgres::start();
    let mut broken = Vec::new();
    for (name, rule) in RULES {
        let world = World::new(&server);
        if catch_unwind(AssertUnwindSafe(|| rule(&world))).is_err() {
            broken.push(*name);
        }
    }
    assert!(broken.is_empty(), "these do not hold: {broken:?}");
}

fn counts_acknowledged_reports_once_whatever_the_gateway(world: &World<'_>) {
    let (one, other) = (world.store(), world.store());
    let lease = begin(&one, "a", &[open(3, 0), open(3, 1)]);
    let bytes = batch("a", 3, 0, (0..1_000).map(|device| (device, 1)));
    assert_eq!(accept(&one, "a", &bytes).unwrap(), Ok(taken(1_000, 0, 0, 0)));
    assert_eq!(accept(&other, "a", &bytes).unwrap(), Ok(taken(1_000, 0, 0, 0)), "found when it is counted");
    let more = batch("a", 3, 0, (900..1_100).map(|device| (device, 2)));
    assert_eq!(accept(&other, "a", &more).unwrap(), Ok(taken(200, 0, 0, 0)));
    accept(&one, "a", &batch("a", 3, 1, [(1, 7)])).unwrap().unwrap();
    assert_eq!(close(&one, &lease, 1, false).unwrap(), None);
    world.count_all("worker");
    let counted = close(&one, &lease, 1, false).unwrap().unwrap();
    assert_eq!(total(&counted[0]), [0, 1_000, 100, 0, 0, 0, 0, 0]);
    assert_eq!(total(&counted[1]), [0, 0, 0, 0, 0, 0, 0, 1]);
}

fn acknowledges_nothing_for_a_closed_question(world: &World<'_>) {
    let (gateway, driver) = (world.store(), world.store());
    let lease = begin(&driver, "a", &[open(3, 0)]);
    accept(&gateway, "a", &batch("a", 3, 0, [(1, 1)])).unwrap().unwrap();
    assert_eq!(close(&driver, &lease, 1, false).unwrap(), None);
    // The gateway knows the question still, and the log takes the report; but it is not acknowledged.
    let late = accept(&gateway, "a", &batch("a", 3, 0, [(2, 1)])).unwrap();
    assert_eq!(late, Err(BatchRejection::NotOpen { timestamp: 3, phase: 0 }));
    let unknown = accept(&gateway, "a", &batch("a", 3, 7, [(2, 1)])).unwrap();
    assert_eq!(unknown, Err(BatchRejection::NotOpen { timestamp: 3, phase: 7 }));
    world.count_all("worker");
    let counted = close(&driver, &lease, 1, false).unwrap().unwrap();
    let reports = counted[0].total.as_ref().map_or(0, Aggregate::reports);
    assert!((1..=2).contains(&reports), "{counted:?}");
}

fn a_close_waits_for_the_fences_and_stays_the_same(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, (0..50).map(|device| (device, 4)))).unwrap().unwrap();
    world.count_all("worker");
    // All reports are counted, but no fence is.
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    world.count_all("worker");
    let counted = close(&store, &lease, 1, false).unwrap().unwrap();
    assert_eq!(total(&counted[0]), [0, 0, 0, 0, 50, 0, 0, 0]);
    // A report that was not acknowledged is counted after the total was read.
    let _ = accept(&store, "a", &batch("a", 3, 0, [(77, 1)])).unwrap();
    world.count_all("worker");
    assert_eq!(close(&store, &lease, 1, false).unwrap().unwrap(), counted);
    assert_eq!(close(&store, &lease, 1, true).unwrap().unwrap(), counted);
    assert!(matches!(close(&store, &lease, 0, true), Err(StoreError::Stale(_))));
    advance(&store, &lease, 1, &[open(4, 0)]).unwrap();
    assert_eq!(close(&store, &lease, 2, true).unwrap().unwrap(), [Counted::whole(None)]);
}

fn says_how_many_reports_are_missing(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0), open(3, 1)]);
    accept(&store, "a", &batch("a", 3, 0, (0..70).map(|device| (device, 4)))).unwrap().unwrap();
    world.count_all("worker");
    accept(&store, "a", &batch("a", 3, 0, (70..100).map(|device| (device, 4)))).unwrap().unwrap();
    accept(&store, "a", &batch("a", 3, 1, [(1, 4)])).unwrap().unwrap();
    let counted = close(&store, &lease, 1, true).unwrap().unwrap();
    let found = counted.iter().map(|one| (one.total.as_ref().map_or(0, Aggregate::reports), one.missing));
    let found: Vec<_> = found.collect();
    assert_eq!(found, [(70, Missing::Reports(30)), (0, Missing::Reports(1))]);
    world.count_all("worker");
    assert_eq!(close(&store, &lease, 1, false).unwrap().unwrap(), counted, "what was read stays");
}

fn a_replaced_reader_changes_nothing(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, (0..100).map(|device| (device, 1)))).unwrap().unwrap();
    let asleep = world.take_all("asleep");
    let mut sleepers: Vec<_> = asleep.iter().map(|partition| world.reader(partition)).collect();
    let awake = world.take_all("awake");
    assert!(awake.iter().zip(&asleep).all(|(new, old)| new.epoch == old.epoch + 1));
    let before = world.postgres.partitions().unwrap();
    for sleeper in &mut sleepers {
        assert!(matches!(sleeper.step(&ReaderFigures::default()), Err(StoreError::Stale(_))));
    }
    assert_eq!(world.postgres.partitions().unwrap(), before);
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    world.count_all("awake");
    assert_eq!(total(&close(&store, &lease, 1, false).unwrap().unwrap()[0]), [0, 100, 0, 0, 0, 0, 0, 0]);
}

fn a_new_reader_arrives_at_the_stored_counts(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0)]);
    for step in 0..5 {
        let devices = step * 20..step * 20 + 30;
        accept(&store, "a", &batch("a", 3, 0, devices.map(|device| (device, 2)))).unwrap().unwrap();
        world.count_all(&format!("worker {step}"));
    }
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    world.count_all("last");
    assert_eq!(total(&close(&store, &lease, 1, false).unwrap().unwrap()[0]), [0, 0, 110, 0, 0, 0, 0, 0]);
    // Where a record has changed since, the counts are not what they were.
    let partition = world.take_all("late").remove(0);
    let partition = Partition { kept: partition.counted, ..partition };
    let log: &dyn Log = &*world.log;
    let outcome = PartitionReader::take_over(&world.postgres, log, &partition, &AtomicBool::new(false));
    assert!(outcome.is_ok(), "without a question it has nothing to compare");
    let other = MemoryLog::new();
    other.prepare(PARTITIONS).unwrap();
    let bounds = world.log.bounds(0).unwrap();
    for record in world.log.read(0, bounds.start, usize::MAX, Duration::ZERO).unwrap().into_iter().rev() {
        let id = tidegate_log::RecordId(u128::from(record.position).to_le_bytes());
        other.append(&[NewRecord { partition: 0, id, body: record.body }]);
    }
    let partition = Partition { kept: bounds.start, counted: bounds.end - 2, ..world.take_all("later").remove(0) };
    let outcome = PartitionReader::take_over(&world.postgres, &other, &partition, &AtomicBool::new(false));
    assert!(matches!(outcome, Err(StoreError::Damaged(_))), "{outcome:?}");
}

/// A log that answers some appends as a network that loses answers does.
#[derive(Debug)]
struct Lossy {
    log: Arc<MemoryLog>,
    lost: AtomicU32,
    /// Draws other identities, as a client does that forgets them.
    repeats: Mutex<Vec<NewRecord>>,
}

impl Log for Lossy {
    fn append(&self, records: &[NewRecord]) -> Vec<Result<u64, LogError>> {
        let outcomes = self.log.append(records);
        if self.lost.fetch_update(Ordering::AcqRel, Ordering::Acquire, |lost| lost.checked_sub(1)).is_err() {
            return outcomes;
        }
        self.repeats.lock().unwrap().extend(records.iter().cloned());
        // The first is lost before it arrives, the others after.
        records.iter().map(|_| Err(LogError::Unknown("no answer".to_owned()))).collect()
    }

    fn read(&self, partition: u32, from: u64, bytes: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        self.log.read(partition, from, bytes, wait)
    }

    fn bounds(&self, partition: u32) -> Result<std::ops::Range<u64>, LogError> {
        self.log.bounds(partition)
    }

    fn trim(&self, partition: u32, before: u64) -> Result<(), LogError> {
        self.log.trim(partition, before)
    }

    fn prepare(&self, count: u32) -> Result<(), LogError> {
        self.log.prepare(count)
    }
}

fn appends_again_after_an_unknown_outcome(world: &World<'_>) {
    let lossy = Arc::new(Lossy { log: world.log.clone(), lost: AtomicU32::new(0), repeats: Mutex::default() });
    let store = world.store_on(lossy.clone(), PARTITIONS);
    let lease = begin(&store, "a", &[open(3, 0)]);
    lossy.lost.store(2, Ordering::Release);
    let bytes = batch("a", 3, 0, (0..40).map(|device| (device, 6)));
    assert_eq!(accept(&store, "a", &bytes).unwrap(), Ok(taken(40, 0, 0, 0)));
    // A log that stores a record twice changes no count.
    for (number, record) in lossy.repeats.lock().unwrap().drain(..).enumerate() {
        let id = tidegate_log::RecordId((number as u128).to_le_bytes());
        world.log.append(&[NewRecord { id, ..record }]);
    }
    lossy.lost.store(u32::MAX, Ordering::Release);
    let outcome = accept(&store, "a", &batch("a", 3, 0, [(50, 6)]));
    assert!(matches!(outcome, Err(StoreError::Unknown(_))), "{outcome:?}");
    lossy.lost.store(0, Ordering::Release);
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    world.count_all("worker");
    let counted = close(&store, &lease, 1, false).unwrap().unwrap();
    // The report of the unknown outcome is there.
    assert_eq!(total(&counted[0]), [0, 0, 0, 0, 0, 0, 41, 0]);
}

fn more_partitions_concern_later_questions(world: &World<'_>) {
    let old = world.store();
    let lease = begin(&old, "a", &[open(3, 0)]);
    accept(&old, "a", &batch("a", 3, 0, (0..100).map(|device| (device, 1)))).unwrap().unwrap();
    let new = world.store_on(world.log.clone(), PARTITIONS + 2);
    // Both send to the partitions that the question has.
    accept(&new, "a", &batch("a", 3, 0, (50..150).map(|device| (device, 1)))).unwrap().unwrap();
    assert_eq!(close(&new, &lease, 1, false).unwrap(), None);
    world.count_all("worker");
    assert_eq!(total(&close(&old, &lease, 1, false).unwrap().unwrap()[0]), [0, 150, 0, 0, 0, 0, 0, 0]);
    advance(&new, &lease, 1, &[open(4, 0)]).unwrap();
    for store in [&old, &new] {
        accept(store, "a", &batch("a", 4, 0, (0..100).map(|device| (device, 2)))).unwrap().unwrap();
    }
    assert_eq!(close(&old, &lease, 2, false).unwrap(), None);
    world.count_all("worker");
    assert!((PARTITIONS..PARTITIONS + 2).all(|partition| world.counted(partition) > 2), "they are used");
    assert_eq!(total(&close(&old, &lease, 2, false).unwrap().unwrap()[0]), [0, 0, 100, 0, 0, 0, 0, 0]);
}

fn a_question_of_an_older_database_is_another_one(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, (0..10).map(|device| (device, 1)))).unwrap().unwrap();
    // A restored database gives the question's number to another one, and reads the log from an earlier position on.
    let routes = world.postgres.routes_of(&["a"]).unwrap();
    advance(&store, &lease, 1, &[]).unwrap();
    let again = format!("ALTER TABLE tidegate.phases ALTER COLUMN number RESTART WITH {}", routes[0].number);
    world.server.execute(&again);
    advance(&store, &lease, 2, &[open(5, 0)]).unwrap();
    assert_eq!(world.postgres.routes_of(&["a"]).unwrap()[0].number, routes[0].number);
    let store = world.store();
    accept(&store, "a", &batch("a", 5, 0, [(1, 3)])).unwrap().unwrap();
    assert_eq!(close(&store, &lease, 3, false).unwrap(), None);
    world.count_all("worker");
    assert_eq!(total(&close(&store, &lease, 3, false).unwrap().unwrap()[0]), [0, 0, 0, 1, 0, 0, 0, 0]);
}

fn counts_what_was_asked_before_there_was_a_cluster(world: &World<'_>) {
    let alone: &dyn Store = &*world.postgres;
    let lease = begin(alone, "a", &[open(3, 0)]);
    accept(alone, "a", &batch("a", 3, 0, [(1, 1), (2, 1)])).unwrap().unwrap();
    let store = world.store();
    assert_eq!(total(&close(&store, &lease, 1, false).unwrap().unwrap()[0]), [0, 2, 0, 0, 0, 0, 0, 0]);
    advance(&store, &lease, 1, &[open(4, 0)]).unwrap();
    accept(&store, "a", &batch("a", 4, 0, [(1, 2)])).unwrap().unwrap();
    assert_eq!(close(&store, &lease, 2, false).unwrap(), None);
    world.count_all("worker");
    assert_eq!(total(&close(&store, &lease, 2, false).unwrap().unwrap()[0]), [0, 0, 1, 0, 0, 0, 0, 0]);
}

fn refuses_damaged_records(world: &World<'_>) {
    let store = world.store();
    begin(&store, "a", &[open(3, 0)]);
    let partition = world.take_all("worker").remove(0);
    let mut reader = world.reader(&partition);
    world.log.append(&[NewRecord { partition: 0, id: tidegate_log::RecordId([9; 16]), body: b"TGR1 odd"[..].into() }]);
    let outcome = reader.step(&ReaderFigures::default());
    assert!(matches!(outcome, Err(StoreError::Damaged(_))), "{outcome:?}");
    assert_eq!(world.counted(0), partition.counted);
}

fn keeps_the_log_as_long_as_it_is_needed(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, (0..100).map(|device| (device, 1)))).unwrap().unwrap();
    world.count_all("worker");
    let kept: Vec<u64> = world.postgres.partitions().unwrap().iter().map(|partition| partition.kept).collect();
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    world.count_all("worker");
    let partitions = world.postgres.partitions().unwrap();
    assert!(partitions.iter().zip(&kept).all(|(now, before)| now.kept == *before && now.counted > now.kept));
    close(&store, &lease, 1, false).unwrap().unwrap();
    advance(&store, &lease, 1, &[open(4, 0)]).unwrap();
    let next = batch("a", 4, 0, (0..100).map(|device| (device, 1)));
    for _ in 0..2 {
        // The question is found to be over when counts are stored, and its records are given up with the next.
        accept(&store, "a", &next).unwrap().unwrap();
        world.count_all("worker");
    }
    assert!(world.postgres.partitions().unwrap().iter().zip(&kept).all(|(now, before)| now.kept > *before));
}

fn trims_only_what_no_later_reader_needs(world: &World<'_>) {
    let store = world.store();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, (0..100).map(|device| (device, 1)))).unwrap().unwrap();
    let held = world.take_all("worker");
    let mut readers: Vec<_> = held.iter().map(|partition| world.reader(partition)).collect();
    let mut step = || readers.iter_mut().for_each(|reader| reader.step(&ReaderFigures::default()).unwrap());
    step();
    assert_eq!(close(&store, &lease, 1, false).unwrap(), None);
    step();
    close(&store, &lease, 1, false).unwrap().unwrap();
    advance(&store, &lease, 1, &[open(4, 0)]).unwrap();
    accept(&store, "a", &batch("a", 4, 0, (0..100).map(|device| (device, 1)))).unwrap().unwrap();
    // Records are deleted every two seconds. This step learns that a question has ended after it has stored what is
    // still kept.
    thread::sleep(Duration::from_millis(2_100));
    step();
    for partition in world.take_all("later") {
        assert!(world.log.bounds(partition.number).unwrap().start <= partition.kept, "{partition:?}");
        world.reader(&partition);
    }
}

fn notices_lost_partial_counts(world: &World<'_>) {
    let store = world.store();
    begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, (0..100).map(|device| (device, 1)))).unwrap().unwrap();
    world.count_all("worker");
    world.server.execute("DELETE FROM tidegate.counts WHERE source = 'log/1'");
    for partition in world.take_all("later") {
        let log: &dyn Log = &*world.log;
        let outcome = PartitionReader::take_over(&world.postgres, log, &partition, &AtomicBool::new(false));
        assert_eq!(matches!(outcome, Err(StoreError::Damaged(_))), partition.number == 1, "{outcome:?}");
    }
}

fn tells_who_lives(world: &World<'_>) {
    create(&*world.postgres, "a");
    let (store, long) = (&world.postgres, 60_000);
    store.announce("one", "worker", "{}", long).unwrap();
    store.announce("two", "driver", "{}", 1).unwrap();
    thread::sleep(Duration::from_millis(50));
    let alive = store.announce("three", "worker", "{\"partitions\":1}", long).unwrap();
    assert_eq!(alive.iter().map(|process| &*process.name).collect::<Vec<_>>(), ["one", "three"]);
    assert_eq!(alive, store.processes().unwrap());
    store.retire_process("one").unwrap();
    assert_eq!(store.processes().unwrap().len(), 1);
}
