//! Brokers that are killed, stopped, restarted and full.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_log::nats::NatsLog;
use tidegate_log::testing::Brokers;
use tidegate_log::{Log, LogError, NewRecord, Record};

use crate::support::{PATIENCE, connect, number, read_all, record, settings};

/// Threads that append.
const WRITERS: u64 = 4;

/// Records that each thread has acknowledged after the fault.
const AFTER: u64 = 50;

/// Appends from several threads while a fault happens, and reads what they append. Each thread repeats a record, with
/// the same identity, until it is acknowledged. Returns the acknowledged numbers and their positions.
fn append_through(log: &NatsLog, fault: impl FnOnce()) -> Vec<(u64, u64)> {
    let (faulted, acknowledged, total) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(u64::MAX));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read: Vec<Record> = Vec::new();
            let begin = Instant::now();
            while (read.len() as u64) < total.load(Ordering::Relaxed) {
                assert!(begin.elapsed() < 2 * PATIENCE, "the reader has {} records", read.len());
                match log.read(0, 1 + read.len() as u64, 4_096, Duration::from_millis(100)) {
                    Ok(found) => read.extend(found),
                    Err(LogError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            read
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (faulted, acknowledged) = (&faulted, &acknowledged);
                scope.spawn(move || {
                    let (mut done, mut after) = (Vec::new(), 0);
                    let mut next = writer;
                    while after < AFTER {
                        let until = Instant::now() + PATIENCE;
                        let position = loop {
                            match log.append(&[record(0, next)]).remove(0) {
                                Ok(position) => break position,
                                Err(LogError::Failed(text)) => panic!("{text}"),
                                Err(error) => assert!(Instant::now() < until, "{error}"),
                            }
                            std::thread::sleep(Duration::from_millis(20));
                        };
                        done.push((next, position));
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                        after += u64::from(faulted.load(Ordering::Relaxed));
                        next += WRITERS;
                    }
                    done
                })
            })
            .collect();
        while acknowledged.load(Ordering::Relaxed) < 200 {
            assert!(!writers.iter().all(std::thread::ScopedJoinHandle::is_finished));
            std::thread::sleep(Duration::from_millis(5));
        }
        fault();
        faulted.store(true, Ordering::Relaxed);
        let done: Vec<_> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        total.store(done.len() as u64, Ordering::Relaxed);
        let read = reader.join().unwrap();
        assert_eq!(read, read_all(log, 0, 1, 1 + done.len() as u64));
        done
    })
}

/// Checks that each acknowledged record is at its position, that none is there twice, and that no other is between.
fn is_complete(log: &NatsLog, acknowledged: &[(u64, u64)]) {
    let end = acknowledged.iter().map(|(_, position)| position + 1).max().unwrap();
    let records = read_all(log, 0, 1, end);
    for (appended, position) in acknowledged {
        assert_eq!(number(&records[usize::try_from(position - 1).unwrap()]), *appended, "position {position}");
    }
    let mut numbers: Vec<_> = records.iter().map(number).collect();
    numbers.sort_unstable();
    let before = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), before);
    assert_eq!(numbers.len(), acknowledged.len());
}

#[test]
fn a_killed_leader_loses_nothing() {
    let mut brokers = Brokers::start(3).unwrap();
    let log = connect(&brokers, 3);
    log.prepare(1).unwrap();
    let killed = brokers.leader("tidegate_test_0").unwrap();
    let acknowledged = append_through(&log, || brokers.kill(killed).unwrap());
    is_complete(&log, &acknowledged);
    // It comes back, and another one goes.
    brokers.spawn(killed).unwrap();
    brokers.wait_ready().unwrap();
    let leader = brokers.leader("tidegate_test_0").unwrap();
    assert_ne!(leader, killed);
    brokers.kill(leader).unwrap();
    is_complete(&log, &acknowledged);
}

#[test]
fn an_append_waits_for_an_election() {
    let mut brokers = Brokers::start(3).unwrap();
    let mut patient = settings(&brokers, 3);
    patient.timeout = Duration::from_secs(20);
    let log = NatsLog::connect(patient).unwrap();
    log.prepare(2).unwrap();
    log.append(&[record(0, 0)])[0].clone().unwrap();
    brokers.kill(brokers.leader("tidegate_test_0").unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    assert_eq!(log.append(&[record(0, 1)]), [Ok(2)]);
    // Followers wait for four seconds at least, so it has waited.
    assert!(begin.elapsed() > Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[test]
fn a_stopped_leader_loses_nothing() {
    let brokers = Brokers::start(3).unwrap();
    let log = connect(&brokers, 3);
    log.prepare(1).unwrap();
    let stopped = brokers.leader("tidegate_test_0").unwrap();
    let mut acknowledged = append_through(&log, || brokers.pause(stopped).unwrap());
    is_complete(&log, &acknowledged);
    // It wakes up, still believing that it leads.
    let next = acknowledged.iter().map(|(number, _)| number + 1).max().unwrap();
    brokers.resume(stopped).unwrap();
    for number in next..next + 20 {
        let until = Instant::now() + PATIENCE;
        let position = loop {
            match log.append(&[record(0, number)]).remove(0) {
                Ok(position) => break position,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        };
        acknowledged.push((number, position));
    }
    is_complete(&log, &acknowledged);
}

#[test]
fn a_restarted_broker_keeps_everything() {
    let mut brokers = Brokers::start(1).unwrap();
    let log = connect(&brokers, 1);
    log.prepare(1).unwrap();
    let acknowledged = append_through(&log, || {
        brokers.kill(0).unwrap();
        brokers.spawn(0).unwrap();
        brokers.wait_ready().unwrap();
    });
    is_complete(&log, &acknowledged);
}

#[test]
fn without_brokers_every_call_ends() {
    let mut brokers = Brokers::start(1).unwrap();
    let log = connect(&brokers, 1);
    log.prepare(1).unwrap();
    log.append(&[record(0, 0)])[0].clone().unwrap();
    brokers.kill(0).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let limit = settings(&brokers, 1).timeout * 4;
    let ends = |what: &str, call: &dyn Fn() -> Option<LogError>| {
        let begin = Instant::now();
        let outcome = call();
        assert!(begin.elapsed() < limit, "{what} took {:?}", begin.elapsed());
        assert!(matches!(outcome, Some(LogError::Unavailable(_))), "{what}: {outcome:?}");
    };
    let many: Vec<_> = (1..1_000).map(|number| record(0, number)).collect();
    ends("append", &|| log.append(&many).pop().and_then(Result::err));
    ends("read", &|| log.read(0, 1, 100, Duration::from_secs(1)).err());
    ends("bounds", &|| log.bounds(0).err());
    ends("trim", &|| log.trim(0, 1).err());
}

#[test]
fn a_full_partition_refuses_and_recovers() {
    let brokers = Brokers::start(3).unwrap();
    let mut small = settings(&brokers, 3);
    small.max_bytes = Some(200_000);
    let log = NatsLog::connect(small).unwrap();
    log.prepare(1).unwrap();
    let long = |number| NewRecord { body: vec![3; 10_000].into(), ..record(0, number) };
    let mut stored = 0;
    let refusal = loop {
        match log.append(&[long(stored)]).remove(0) {
            Ok(position) => {
                stored += 1;
                assert_eq!(position, stored);
            }
            Err(error) => break error,
        }
        assert!(stored < 30, "nothing is refused");
    };
    assert!(matches!(refusal, LogError::Failed(_)), "{refusal:?}");
    assert_eq!(log.bounds(0), Ok(1..stored + 1));
    log.trim(0, stored - 2).unwrap();
    assert_eq!(log.append(&[long(stored)]), [Ok(stored + 1)]);
    assert_eq!(log.bounds(0), Ok(stored - 2..stored + 2));
    // More space, by other settings.
    let mut larger = settings(&brokers, 3);
    larger.max_bytes = Some(1_000_000);
    let log = NatsLog::connect(larger).unwrap();
    log.prepare(1).unwrap();
    let many: Vec<_> = (100..150).map(long).collect();
    assert!(log.append(&many).iter().all(Result::is_ok));
}

#[test]
fn a_hole_is_a_loss() {
    let brokers = Brokers::start(1).unwrap();
    // A stream as an operator might make it, whose records can be deleted.
    let url = brokers.urls().remove(0);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
        let config = async_nats::jetstream::stream::Config {
            name: "tidegate_test_0".to_owned(),
            subjects: vec!["tidegate.test.0".to_owned()],
            discard: async_nats::jetstream::stream::DiscardPolicy::New,
            ..Default::default()
        };
        context.create_stream(config).await.unwrap()
    });
    let log = connect(&brokers, 1);
    log.prepare(1).unwrap();
    let batch: Vec<_> = (0..7).map(|number| record(0, number)).collect();
    assert!(log.append(&batch).iter().all(Result::is_ok));
    runtime.block_on(stream.delete_message(6)).unwrap();
    let wait = Duration::from_secs(3);
    let mut next = 1;
    while next < 6 {
        next += log.read(0, next, 1 << 20, wait).unwrap().len() as u64;
    }
    for _ in 0..2 {
        assert_eq!(log.read(0, 6, 1 << 20, wait), Err(LogError::Lost { partition: 0, from: 6, to: 6 }));
    }
    assert_eq!(log.read(0, 7, 1 << 20, wait).unwrap().len(), 1);
}
