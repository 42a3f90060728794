//! Gateways, workers and drivers together.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use tidegate_device::api::Receipt;
use tidegate_device::clock::BootClock;
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_log::Log;
use tidegate_log::memory::MemoryLog;
use tidegate_server::cluster::{Fleet, LogMarks, Role};
use tidegate_server::driver::Tools;
use tidegate_server::http::{Telemetry, WebhookSettings};
use tidegate_server::service::{Membership, Service, ServiceSettings};
use tidegate_server::store::{ClusteredStore, NewStream, PostgresStore, RecordFilter, RecordKind, Store};
use tidegate_server::stream::Declaration;

use super::PATIENCE;
use crate::postgres::Postgres;

/// Lease of every process, in milliseconds.
const LEASE: u64 = 800;

/// The logs of a cluster, which outlive its processes.
struct Logs {
    reports: Arc<MemoryLog>,
    marks: Arc<MemoryLog>,
}

fn join(server: &Postgres, logs: &Logs, role: Role, name: &str, declared: &[Declaration]) -> Arc<Service> {
    let postgres = Arc::new(PostgresStore::open(&server.url()).unwrap());
    let log: Arc<dyn Log> = logs.reports.clone();
    let store = ClusteredStore::open(Arc::clone(&postgres), Arc::clone(&log), 3, 20_000).unwrap();
    let marks = Arc::new(LogMarks::open(logs.marks.clone()).unwrap());
    let tools = Tools { store: Arc::new(store), marks, key: None, holder: name.to_owned(), lease: LEASE };
    let settings =
        ServiceSettings { queue: 64, signer: SigningKey::from_bytes(&[7; 32]), clock: BootClock::new().unwrap() };
    let fleet = Arc::new(Fleet::new(postgres, role, name.to_owned(), LEASE));
    let telemetry = Telemetry::new(WebhookSettings::default()).unwrap();
    Service::join(tools, settings, declared, telemetry, Membership { fleet, log }).unwrap()
}

fn declaration(name: &str) -> Declaration {
    let declared = serde_json::json!({ "name": name, "tick": 1, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 1, "window": 2, "population": 1_000, "domain": 4,
        "oracle": "grr",
    } });
    serde_json::from_value(declared).unwrap()
}

/// Sends a batch of devices for the open question of a stream. Returns its timestamp if all were accepted.
fn send(gateway: &Service, stream: &str, devices: u32) -> Option<u64> {
    let asked = gateway.asking(stream)?.questions.into_iter().next()?;
    let (timestamp, phase) = (asked.question.timestamp, asked.question.phase);
    let tag = StreamTag::of(stream);
    let mut writer = BatchWriter::new(tag, timestamp, phase, asked.report_length);
    for device in 0..devices {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&device.to_le_bytes());
        let report = vec![u8::try_from(device % 4).unwrap(); asked.report_length];
        writer.push(ReportId::of(&identity, tag, timestamp, phase), &report).unwrap();
    }
    let body = Bytes::from(writer.write().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sent = runtime.block_on(gateway.report(stream, body, Instant::now() + PATIENCE));
    matches!(sent, Ok(Receipt { accepted, .. }) if accepted == u64::from(devices)).then_some(timestamp)
}

/// Sends to the open question of a stream, once for each timestamp, until `count` were accepted.
fn send_some(gateways: &[&Service], stream: &str, count: usize) -> Vec<u64> {
    let (until, mut sent) = (Instant::now() + PATIENCE, Vec::new());
    while sent.len() < count {
        assert!(Instant::now() < until, "{sent:?}");
        // The same devices report to each gateway.
        let accepted: Vec<_> = gateways.iter().map(|gateway| send(gateway, stream, 100)).collect();
        if let Some(Some(timestamp)) = accepted.iter().find(|accepted| accepted.is_some())
            && sent.last() != Some(timestamp)
        {
            sent.push(*timestamp);
        }
        thread::sleep(Duration::from_millis(50));
    }
    sent
}

/// Waits for the release of a timestamp, and returns how many reports it counts.
fn reports(service: &Service, stream: &str, timestamp: u64) -> u64 {
    let until = Instant::now() + PATIENCE;
    loop {
        let filter = RecordFilter { from: timestamp, to: timestamp, ..RecordFilter::default() };
        if let Some(record) = service.records(stream, RecordKind::Release, &filter).unwrap().first() {
            let body: serde_json::Value = serde_json::from_str(&record.body).unwrap();
            assert_eq!(body.get("counted_share"), None, "{body}");
            return body["reports"].as_u64().unwrap();
        }
        assert!(Instant::now() < until, "timestamp {timestamp} of {stream} is not released");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn gateways_workers_and_drivers_release_what_was_acknowledged() {
    let server = Postgres::start();
    let logs = Logs { reports: Arc::default(), marks: Arc::default() };
    let declared: Vec<_> = ["a", "b", "c", "d"].map(declaration).to_vec();
    let one = join(&server, &logs, Role::Gateway, "gateway 1", &declared);
    let other = join(&server, &logs, Role::Gateway, "gateway 2", &declared);
    let worker = join(&server, &logs, Role::Worker, "worker 1", &[]);
    let driver = join(&server, &logs, Role::Driver, "driver 1", &[]);
    for timestamp in send_some(&[&one, &other], "a", 2) {
        assert_eq!(reports(&other, "a", timestamp), 100);
    }
    // Work moves to processes that come, and from those that go.
    let second = join(&server, &logs, Role::Driver, "driver 2", &[]);
    let second_worker = join(&server, &logs, Role::Worker, "worker 2", &[]);
    let driven = |service: &Service| service.states().iter().filter(|stream| stream.is_driven).count();
    let until = Instant::now() + PATIENCE;
    while driven(&driver) + driven(&second) != 4 || driven(&driver) == 4 {
        assert!(Instant::now() < until, "{} and {}", driven(&driver), driven(&second));
        thread::sleep(Duration::from_millis(50));
    }
    driver.stop();
    worker.stop();
    for stream in ["a", "b", "c", "d"] {
        let timestamp = send_some(&[&one], stream, 1)[0];
        assert_eq!(reports(&one, stream, timestamp), 100);
    }
    // A stream that nobody can read stops no other.
    let odd = NewStream { name: "odd", declaration: "{}", policy: "", state: b"" };
    PostgresStore::open(&server.url()).unwrap().create(&odd).unwrap();
    // A stream that is declared at one gateway is known to all processes.
    one.create(&declaration("late")).unwrap();
    let timestamp = send_some(&[&other], "late", 3)[2];
    assert_eq!(reports(&other, "late", timestamp), 100);
    let tick = declaration("late").tick;
    assert_eq!(tick, NonZeroU64::MIN);
    [one, other, second, second_worker].iter().for_each(|service| service.stop());
    let left = PostgresStore::open(&server.url()).unwrap().processes().unwrap();
    assert!(left.is_empty(), "{left:?}");
}
