//! Promises of [`Log`], held by every implementation.

use std::time::{Duration, Instant};

use tidegate_log::memory::MemoryLog;
use tidegate_log::testing::Brokers;
use tidegate_log::{Log, LogError, MAX_RECORD, NewRecord};

use crate::support::{connect, number, read_all, record};

/// Partitions that the promises below use, one each.
pub(crate) const PARTITIONS: u32 = 7;

fn conforms(log: &dyn Log) {
    log.prepare(PARTITIONS).unwrap();
    // Once more, with the partitions that are there.
    log.prepare(PARTITIONS).unwrap();
    keeps_order_without_holes(log, 0);
    stores_an_identity_once(log, 1);
    refuses_a_record_that_is_too_long(log, 2);
    trims(log, 3);
    waits_no_longer_than_told(log, 4);
    wakes_for_a_record(log, 5);
    reads_again_from_anywhere(log, 6);
    refuses_a_partition_that_is_missing(log, PARTITIONS);
}

pub(crate) fn keeps_order_without_holes(log: &dyn Log, partition: u32) {
    let start = log.bounds(partition).unwrap();
    assert!(start.is_empty(), "{start:?}");
    let batch: Vec<_> = (0..300).map(|number| record(partition, number)).collect();
    let mut positions: Vec<u64> = log.append(&batch).into_iter().map(Result::unwrap).collect();
    let records = read_all(log, partition, start.start, start.start + 300);
    for (number_appended, position) in (0..).zip(&positions) {
        let found = &records[usize::try_from(position - start.start).unwrap()];
        assert_eq!(number(found), number_appended);
    }
    positions.sort_unstable();
    assert_eq!(positions, (start.start..start.start + 300).collect::<Vec<_>>());
    // One after the other, positions grow.
    for number in 300..310 {
        assert_eq!(log.append(&[record(partition, number)]), [Ok(start.start + number)]);
    }
    assert_eq!(log.bounds(partition), Ok(start.start..start.start + 310));
}

fn stores_an_identity_once(log: &dyn Log, partition: u32) {
    let first = log.append(&[record(partition, 1)]);
    let other = log.append(&[record(partition, 2)]);
    assert_eq!(log.append(&[record(partition, 1), record(partition, 2)]), [first[0].clone(), other[0].clone()]);
    let bounds = log.bounds(partition).unwrap();
    assert_eq!(bounds.end - bounds.start, 2);
}

pub(crate) fn refuses_a_record_that_is_too_long(log: &dyn Log, partition: u32) {
    let long = |bytes, number| NewRecord { body: vec![1; bytes].into(), ..record(partition, number) };
    let outcomes = log.append(&[record(partition, 1), long(MAX_RECORD + 1, 2), long(MAX_RECORD, 3)]);
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert!(matches!(outcomes[1], Err(LogError::Failed(_))), "{outcomes:?}");
    let bounds = log.bounds(partition).unwrap();
    let (mut next, mut sizes) = (bounds.start, Vec::new());
    while next < bounds.end {
        // One record at least, even if it is longer than asked for.
        for record in log.read(partition, next, 10, Duration::from_secs(5)).unwrap() {
            next = record.position + 1;
            sizes.push(record.body.len());
        }
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [9, MAX_RECORD]);
}

fn trims(log: &dyn Log, partition: u32) {
    let batch: Vec<_> = (0..20).map(|number| record(partition, number)).collect();
    for outcome in log.append(&batch) {
        outcome.unwrap();
    }
    let start = log.bounds(partition).unwrap().start;
    log.trim(partition, start + 5).unwrap();
    assert_eq!(log.bounds(partition), Ok(start + 5..start + 20));
    let wait = Duration::from_millis(100);
    let lost = |from, to| Err(LogError::Lost { partition, from, to });
    assert_eq!(log.read(partition, start + 2, 1 << 20, wait), lost(start + 2, start + 4));
    assert_eq!(read_all(log, partition, start + 5, start + 20).len(), 15);
    // What is trimmed already stays so, and nothing behind the end is left out.
    log.trim(partition, start + 1).unwrap();
    assert_eq!(log.bounds(partition), Ok(start + 5..start + 20));
    log.trim(partition, start + 1_000).unwrap();
    assert_eq!(log.bounds(partition), Ok(start + 20..start + 20));
    assert_eq!(log.read(partition, start + 7, 1 << 20, wait), lost(start + 7, start + 19));
    assert_eq!(log.append(&[record(partition, 99)]), [Ok(start + 20)]);
    assert_eq!(number(&read_all(log, partition, start + 20, start + 21)[0]), 99);
}

pub(crate) fn waits_no_longer_than_told(log: &dyn Log, partition: u32) {
    let end = log.bounds(partition).unwrap().end;
    for position in [end, end + 10] {
        let begin = Instant::now();
        assert_eq!(log.read(partition, position, 1 << 20, Duration::from_millis(300)), Ok(Vec::new()));
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(3), "{took:?}");
    }
}

pub(crate) fn wakes_for_a_record(log: &dyn Log, partition: u32) {
    let end = log.bounds(partition).unwrap().end;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (log.read(partition, end, 1 << 20, Duration::from_secs(20)), Instant::now()));
        std::thread::sleep(Duration::from_millis(500));
        log.append(&[record(partition, 5)])[0].as_ref().unwrap();
        let acknowledged = Instant::now();
        let (found, woken) = reader.join().unwrap();
        assert_eq!(number(&found.unwrap()[0]), 5);
        assert!(woken.saturating_duration_since(acknowledged) < Duration::from_secs(3));
    });
}

pub(crate) fn reads_again_from_anywhere(log: &dyn Log, partition: u32) {
    let batch: Vec<_> = (0..200).map(|number| record(partition, number)).collect();
    for outcome in log.append(&batch) {
        outcome.unwrap();
    }
    let bounds = log.bounds(partition).unwrap();
    let once = read_all(log, partition, bounds.start, bounds.end);
    for skip in [150, 3, 3, 199, 0] {
        let from = bounds.start + skip;
        // In batches of a few records each, of which some are asked for a second time.
        let few = log.read(partition, from, 300, Duration::from_secs(5)).unwrap();
        assert!(!few.is_empty() && few.len() < 40, "{}", few.len());
        assert_eq!(few[0].position, from);
        let rest = read_all(log, partition, from, bounds.end);
        assert_eq!(rest, once[usize::try_from(skip).unwrap()..]);
    }
}

fn refuses_a_partition_that_is_missing(log: &dyn Log, partition: u32) {
    let failed = |outcome: LogError| assert!(matches!(outcome, LogError::Failed(_)), "{outcome:?}");
    failed(log.append(&[record(partition, 1)])[0].clone().unwrap_err());
    failed(log.read(partition, 1, 100, Duration::ZERO).unwrap_err());
    failed(log.bounds(partition).unwrap_err());
    failed(log.trim(partition, 1).unwrap_err());
}

#[test]
fn memory_conforms() {
    conforms(&MemoryLog::new());
}

#[test]
fn one_broker_conforms() {
    let brokers = Brokers::start(1).unwrap();
    conforms(&connect(&brokers, 1));
}

#[test]
fn three_brokers_conform() {
    let brokers = Brokers::start(3).unwrap();
    conforms(&connect(&brokers, 3));
}
