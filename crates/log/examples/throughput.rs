//! Measures a log on real brokers of this machine, which sync each write: append and read, in MB/s.
//!
//! `cargo run --release -p tidegate-log --features brokers --example throughput`

use std::error::Error;
use std::time::{Duration, Instant};

use tidegate_log::nats::NatsLog;
use tidegate_log::nats::settings::NatsSettings;
use tidegate_log::testing::Brokers;
use tidegate_log::{Log, NewRecord, RecordId};

/// Bytes that are appended in each run.
const TOTAL: usize = 256 << 20;

/// Threads that append.
const WRITERS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>7}  {:>10}  {:>10}  {:>12}  {:>10}", "brokers", "record", "in flight", "append MB/s", "read MB/s");
    for count in [1, 3] {
        for (bytes, in_flight) in [(16 << 10, 64), (256 << 10, 16), (1_000_000, 4)] {
            let brokers = Brokers::start(count)?;
            let mut settings = NatsSettings::new(brokers.urls(), "bench");
            settings.replicas = count;
            settings.monitoring = brokers.monitoring();
            settings.timeout = Duration::from_secs(30);
            let log = NatsLog::connect(settings)?;
            log.prepare(1)?;
            let appended = append(&log, bytes, in_flight)?;
            let read = read(&log)?;
            let flight = in_flight * WRITERS;
            println!("{count:>7}  {bytes:>10}  {flight:>10}  {appended:>12.0}  {read:>10.0}");
        }
    }
    Ok(())
}

/// Appends in several threads, each a batch after the other.
fn append(log: &NatsLog, bytes: usize, batch: usize) -> Result<f64, Box<dyn Error>> {
    let batches = TOTAL / bytes / batch / WRITERS;
    let begin = Instant::now();
    let outcomes = std::thread::scope(|scope| {
        let write = |writer: usize| {
            move || {
                for number in 0..batches {
                    let identity = |place: usize| {
                        RecordId(((writer as u128) << 96 | (number as u128) << 32 | place as u128).to_be_bytes())
                    };
                    let records: Vec<_> = (0..batch)
                        .map(|place| NewRecord { partition: 0, id: identity(place), body: vec![1; bytes].into() })
                        .collect();
                    for outcome in log.append(&records) {
                        outcome?;
                    }
                }
                Ok::<_, tidegate_log::LogError>(())
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(write(writer))).collect();
        writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for outcome in outcomes {
        outcome.map_err(|_| "a thread failed")??;
    }
    Ok(speed(batches * batch * WRITERS * bytes, begin))
}

/// Reads all of it in order, 1 MB at a time.
fn read(log: &NatsLog) -> Result<f64, Box<dyn Error>> {
    let end = log.bounds(0)?.end;
    let begin = Instant::now();
    let (mut next, mut bytes) = (1, 0);
    while next < end {
        for record in log.read(0, next, 1 << 20, Duration::from_secs(5))? {
            next = record.position + 1;
            bytes += record.body.len();
        }
    }
    Ok(speed(bytes, begin))
}

fn speed(bytes: usize, begin: Instant) -> f64 {
    bytes as f64 / 1e6 / begin.elapsed().as_secs_f64()
}
