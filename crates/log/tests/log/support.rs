//! Records and logs for tests.

use std::time::Duration;

use bytes::Bytes;
use tidegate_log::nats::NatsLog;
use tidegate_log::nats::settings::NatsSettings;
use tidegate_log::testing::Brokers;
use tidegate_log::{Log, NewRecord, Record, RecordId};

/// Time after which a test gives up. Leaders are elected in less than 10 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Builds a record whose identity and content follow from a number.
pub(crate) fn record(partition: u32, number: u64) -> NewRecord {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&partition.to_be_bytes());
    id[8..].copy_from_slice(&number.to_be_bytes());
    NewRecord { partition, id: RecordId(id), body: body(number) }
}

/// Builds a content of 8 to 200 bytes.
pub(crate) fn body(number: u64) -> Bytes {
    let fill = usize::try_from(number % 193).unwrap();
    let mut body = number.to_be_bytes().to_vec();
    body.extend(std::iter::repeat_n(7, fill));
    body.into()
}

/// Number that a content was built from.
pub(crate) fn number(record: &Record) -> u64 {
    let number = u64::from_be_bytes(record.body[..8].try_into().unwrap());
    assert_eq!(record.body, body(number), "position {}", record.position);
    number
}

/// Reads a partition from a position up to another one.
pub(crate) fn read_all(log: &dyn Log, partition: u32, from: u64, to: u64) -> Vec<Record> {
    let until = std::time::Instant::now() + PATIENCE;
    let mut records: Vec<Record> = Vec::new();
    let mut next = from;
    while next < to {
        assert!(std::time::Instant::now() < until, "partition {partition} ends at {next}, not at {to}");
        match log.read(partition, next, 1 << 20, Duration::from_millis(200)) {
            Ok(found) => {
                next = found.last().map_or(next, |record| record.position + 1);
                records.extend(found);
            }
            Err(tidegate_log::LogError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let positions: Vec<_> = records.iter().map(|record| record.position).collect();
    assert_eq!(positions, (from..next).collect::<Vec<_>>());
    records
}

/// Settings for brokers that run.
pub(crate) fn settings(brokers: &Brokers, replicas: usize) -> NatsSettings {
    let mut settings = NatsSettings::new(brokers.urls(), "test");
    settings.replicas = replicas;
    settings.monitoring = brokers.monitoring();
    settings.timeout = Duration::from_secs(2);
    settings
}

/// Connects to brokers that run.
pub(crate) fn connect(brokers: &Brokers, replicas: usize) -> NatsLog {
    NatsLog::connect(settings(brokers, replicas)).unwrap()
}
