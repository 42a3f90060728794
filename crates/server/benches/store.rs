//! Durable batches of 1,000 reports in the SQLite store, beside plain inserts of the same rows.
//!
//! First by criterion, then a timestamp of a million devices with its processor time. Both are in WAL mode and synced
//! at every commit.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use rusqlite::{Connection, params};
use tidegate_device::wire::{Batch, StreamTag};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Question, View};
use tidegate_server::store::{Advance, Lease, NewStream, OpenQuestion, ReportBatch, SqliteStore, Store, digest};

const OUTPUT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/criterion");
const REPORTS: usize = 1_000;
const DOMAIN: u32 = 128;

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .output_directory(Path::new(OUTPUT))
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20);
    let mut group = criterion.benchmark_group("batches of 1,000");
    group.throughput(Throughput::Elements(REPORTS as u64));
    let folder = Folder::new("criterion");
    let (bench, plain) = (Service::new(&folder, OracleKind::Oue), plain(&folder));
    let mut next = 0;
    group.bench_function("accept", |bencher| {
        bencher.iter_custom(|times| {
            let batches: Vec<_> = (0..times).map(|number| batch(&bench.question, next + number)).collect();
            next += times;
            let begun = Instant::now();
            batches.iter().for_each(|bytes| bench.accept(bytes));
            begun.elapsed()
        });
    });
    let mut next = 0;
    group.bench_function("plain inserts", |bencher| {
        bencher.iter_custom(|times| {
            let batches: Vec<_> = (0..times).map(|number| batch(&bench.question, next + number)).collect();
            next += times;
            let begun = Instant::now();
            batches.iter().for_each(|bytes| insert(&plain, bytes));
            begun.elapsed()
        });
    });
    group.finish();
    criterion.final_summary();
    million();
}

/// A timestamp of a million devices.
fn million() {
    println!("\na million reports, in batches of 1,000     | wall s |  CPU s");
    for oracle in [OracleKind::Oue, OracleKind::Grr] {
        let folder = Folder::new("million");
        let service = Service::new(&folder, oracle);
        let batches: Vec<_> = (0..1_000).map(|number| batch(&service.question, number)).collect();
        row(&format!("accept, {oracle}, a batch a transaction"), || {
            batches.iter().for_each(|bytes| service.accept(bytes))
        });
        row("  sent again", || batches.iter().for_each(|bytes| service.accept(bytes)));
        let lease = &service.lease;
        row("  close", || assert_eq!(service.store.close(lease, 1).unwrap()[0].as_ref().unwrap().reports(), 1_000_000));
        row("  advance, which forgets them", || {
            service.store.advance(lease, Advance { version: 1, ..Advance::default() }).unwrap();
        });
        let folder = Folder::new("grouped");
        let service = Service::new(&folder, oracle);
        row(&format!("accept, {oracle}, 16 batches a transaction"), || {
            for batches in batches.chunks(16) {
                let parse = |bytes: &Bytes| ReportBatch::parse("s", bytes.clone()).unwrap();
                let parsed: Vec<_> = batches.iter().map(parse).collect();
                service.store.accept("here", &parsed).unwrap();
            }
        });
        drop(service.store);
        let store = SqliteStore::open(&folder.0.join("store")).unwrap();
        row("  first batch after opening anew", || {
            let batch = ReportBatch::parse("s", batches[0].clone()).unwrap();
            assert_eq!(store.accept("here", &[batch]).unwrap()[0].as_ref().unwrap().repeated, REPORTS as u64);
        });
    }
    let folder = Folder::new("plain");
    let plain = plain(&folder);
    let question = question(OracleKind::Oue);
    let batches: Vec<_> = (0..1_000).map(|number| batch(&question, number)).collect();
    row("plain inserts, a batch a transaction", || batches.iter().for_each(|bytes| insert(&plain, bytes)));
    row("  delete them", || assert_eq!(plain.execute("DELETE FROM seen WHERE phase = 1", []).unwrap(), 1_000_000));
}

fn row(what: &str, work: impl FnOnce()) {
    let (begun, before) = (Instant::now(), processor());
    work();
    println!("{what:42} | {:6.2} | {:6.2}", begun.elapsed().as_secs_f64(), processor() - before);
}

/// Returns the processor time of this process in seconds, where it is known.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (ticks(11) + ticks(12)) / 100.0
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Service {
    store: SqliteStore,
    lease: Lease,
    question: Question,
}

impl Service {
    fn new(folder: &Folder, oracle: OracleKind) -> Self {
        let store = SqliteStore::open(&folder.0.join("store")).unwrap();
        store.create(&NewStream { name: "s", declaration: "{}", policy: "{}", state: b"" }).unwrap();
        let lease = store.lease("s", "driver", 0, 1_000).unwrap().unwrap();
        let question = question(oracle);
        let open = vec![OpenQuestion { question: question.clone(), closes: 0 }];
        store.advance(&lease, Advance { open, ..Advance::default() }).unwrap();
        Self { store, lease, question }
    }

    fn accept(&self, bytes: &Bytes) {
        let batch = ReportBatch::parse("s", bytes.clone()).unwrap();
        self.store.accept("here", &[batch]).unwrap()[0].as_ref().unwrap();
    }
}

fn question(oracle: OracleKind) -> Question {
    let (cohort, epsilon) = (Cohort::Everyone, "1".parse().unwrap());
    Question { timestamp: 7, phase: 0, cohort, epsilon, oracle, domain: DOMAIN, view: View::Values }
}

/// Writes a batch of random identities and reports.
fn batch(question: &Question, number: u64) -> Bytes {
    let mut state = number.wrapping_mul(0x1234_5678_9abc_def1);
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let length = question.oracle().unwrap().report_length();
    let mut bytes = Vec::new();
    bytes.extend_from_slice(b"TGB1");
    bytes.extend_from_slice(StreamTag::of("s").as_bytes());
    bytes.extend_from_slice(&question.timestamp.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(&(REPORTS as u32).to_le_bytes());
    let prefix = (question.timestamp as u32).to_be_bytes();
    let mut ids: Vec<[u8; 16]> = (0..REPORTS)
        .map(|_| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&random().to_be_bytes());
            id[8..].copy_from_slice(&random().to_be_bytes());
            id[..4].copy_from_slice(&prefix);
            id
        })
        .collect();
    ids.sort_unstable();
    ids.iter().for_each(|id| bytes.extend_from_slice(id));
    for _ in 0..REPORTS * length {
        bytes.push((random() >> 57) as u8);
    }
    bytes.into()
}

/// Table with a row for each report.
fn plain(folder: &Folder) -> Connection {
    let connection = Connection::open(folder.0.join("plain")).unwrap();
    let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
        .execute_batch(
            "CREATE TABLE seen (phase INTEGER NOT NULL, id BLOB NOT NULL, digest INTEGER NOT NULL,
                 PRIMARY KEY (phase, id))
             WITHOUT ROWID",
        )
        .unwrap();
    connection
}

fn insert(connection: &Connection, bytes: &[u8]) {
    let batch = Batch::parse(bytes).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut statement =
        connection.prepare_cached("INSERT OR IGNORE INTO seen (phase, id, digest) VALUES (1, ?1, ?2)").unwrap();
    for (id, report) in batch.iter() {
        statement.execute(params![id.as_bytes(), digest(report).cast_signed()]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}
