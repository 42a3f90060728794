//! Durable reports a second through the whole service, beside a bare handler that writes the same rows.
//!
//! Both listen on loopback, accept batches of reports over HTTP, and group-commit them to an SQLite file (WAL,
//! `synchronous = FULL`). The bare handler has no tokens, limits, checks, identities or counts. Both are measured in
//! turns, so other load of the machine affects both.
//!
//! `TIDEGATE_BATCHES` sets the batches of a turn (200), `TIDEGATE_REPORTS` the reports in each (1,000),
//! `TIDEGATE_CLIENTS` the connections (16), and `TIDEGATE_TURNS` the turns (7). `TIDEGATE_STORE` is the store of the
//! service: `sqlite`, the URL of a PostgreSQL database, or `postgres`, which starts one. With `TIDEGATE_TOKENS=1`, the
//! stream has credentials, and every report a token.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../tests/server/folder.rs"]
mod folder;
#[allow(dead_code)] // what only tests need
#[path = "../tests/server/postgres.rs"]
mod postgres;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use ed25519_dalek::SigningKey;
use rusqlite::{Connection, params};
use tidegate::kernel::{Ledger, SeededRandom, Window};
use tidegate_device::api::{BATCH, OpenQuestion};
use tidegate_device::clock::BootClock;
use tidegate_device::credential::Issuer;
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_server::driver::{HighWater, Mark, Tools};
use tidegate_server::http::auth::{ApiToken, Role, TokenEntry, Tokens};
use tidegate_server::http::{HttpSettings, Rate, Telemetry, WebhookSettings, serve};
use tidegate_server::service::{Service, ServiceSettings, now};
use tidegate_server::store::{PostgresStore, SqliteStore, Store};
use tidegate_server::stream::Declaration;
use tokio::sync::oneshot;

const SIGNER: [u8; 32] = [7; 32];

#[derive(Debug, Default)]
struct Marks(Mutex<HashMap<String, Mark>>);

impl HighWater for Marks {
    fn mark(&self, stream: &str) -> Option<Mark> {
        self.0.lock().unwrap().get(stream).copied()
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> std::io::Result<()> {
        self.0.lock().unwrap().extend(marks.iter().cloned());
        Ok(())
    }
}

/// Reads a number from the environment.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Number of reports in a batch.
fn reports() -> usize {
    number("TIDEGATE_REPORTS", 1_000)
}

/// Whether reports have tokens.
fn has_tokens() -> bool {
    number("TIDEGATE_TOKENS", 0) > 0
}

/// Starts the service with one stream of long ticks. Returns its address, a token and the question.
fn start_service(folder: &Path, database: Option<&str>) -> (SocketAddr, ApiToken, OpenQuestion) {
    let store: Arc<dyn Store> = match database {
        Some(url) => Arc::new(PostgresStore::open(url).unwrap()),
        None => Arc::new(SqliteStore::open(&folder.join("service")).unwrap()),
    };
    let tools =
        Tools { store, marks: Arc::new(Marks::default()), key: None, holder: "bench".to_owned(), lease: 60_000 };
    let telemetry = Telemetry::new(WebhookSettings::default()).unwrap();
    let (signer, clock) = (SigningKey::from_bytes(&SIGNER), BootClock::new().unwrap());
    let settings = ServiceSettings { queue: 1_024, signer, clock };
    let service = Service::start(tools, settings, &[], telemetry.clone()).unwrap();
    let declaration = serde_json::json!({ "name": "bench", "tick": 36_000, "epoch": now() / 1_000 - 60, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 4, "window": 2, "population": 10_000_000, "oracle": "oue",
        "domain": 128,
    }, "credentials": has_tokens() });
    service.create(&serde_json::from_value::<Declaration>(declaration).unwrap()).unwrap();
    let asked = loop {
        if let Some(asked) = service.asking("bench").unwrap().questions.first() {
            break asked.clone();
        }
        thread::sleep(Duration::from_millis(10));
    };
    let token = ApiToken::new(Role::Ingest).unwrap();
    let entry = TokenEntry { name: "bench".to_owned(), role: Role::Ingest, sha256: token.sha256.clone() };
    let mut settings = HttpSettings { tokens: Tokens::new(vec![entry]).unwrap(), ..HttpSettings::default() };
    // One token sends what thousands of devices would.
    settings.limits.token_rate = Rate { per_second: NonZeroU32::MAX, burst: NonZeroU32::MAX };
    settings.limits.client_rate = settings.limits.token_rate;
    let address = on_runtime(move |listener| async move {
        serve(service, telemetry, listener, settings, std::future::pending()).await.unwrap();
    });
    (address, token, asked)
}

/// Runs a server on its own runtime until the process ends.
fn on_runtime<F: Future<Output = ()>>(work: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            work(listener).await;
        });
    });
    receiver.recv().unwrap()
}

type Job = (Bytes, oneshot::Sender<()>);

/// The bare handler: bytes in, rows out.
async fn bare(State(writer): State<SyncSender<Job>>, body: Bytes) -> &'static str {
    let (reply, answer) = oneshot::channel();
    writer.try_send((body, reply)).unwrap();
    answer.await.unwrap();
    "{}"
}

fn start_bare(folder: PathBuf) -> SocketAddr {
    let (sender, receiver) = sync_channel::<Job>(1_024);
    thread::spawn(move || {
        let mut connection = Connection::open(folder.join("bare")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 CREATE TABLE seen (phase INTEGER NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL,
                     sum INTEGER NOT NULL, PRIMARY KEY (phase, number)) STRICT;
                 CREATE TABLE counts (phase INTEGER NOT NULL, source TEXT NOT NULL, counted INTEGER NOT NULL,
                     logged INTEGER NOT NULL, body BLOB NOT NULL, sum INTEGER NOT NULL,
                     PRIMARY KEY (phase, source)) STRICT;",
            )
            .unwrap();
        let (mut logged, counts) = (0_i64, [0_u8; 512]);
        while let Ok(first) = receiver.recv() {
            let mut jobs = vec![first];
            while jobs.len() < 256
                && let Ok(job) = receiver.try_recv()
            {
                jobs.push(job);
            }
            // As many bytes as the service stores of a report: its identity and a digest.
            let rows: Vec<u8> =
                jobs.iter().flat_map(|(body, _)| &body[40..(40 + 20 * reports()).min(body.len())]).copied().collect();
            logged += 1;
            let transaction = connection.transaction().unwrap();
            transaction
                .prepare_cached("INSERT INTO seen VALUES (1, ?1, ?2, 0)")
                .unwrap()
                .execute(params![logged, rows])
                .unwrap();
            transaction
                .prepare_cached("INSERT OR REPLACE INTO counts VALUES (1, 'bench', ?1, ?1, ?2, 0)")
                .unwrap()
                .execute(params![logged, counts])
                .unwrap();
            transaction.commit().unwrap();
            for (_, reply) in jobs {
                reply.send(()).unwrap();
            }
        }
    });
    let router = Router::new()
        .route("/v1/streams/bench/reports", post(bare))
        .layer(DefaultBodyLimit::disable())
        .with_state(sender);
    on_runtime(move |listener| async move { axum::serve(listener, router).await.unwrap() })
}

/// Batches of honest reports, no device twice.
fn batches(asked: &OpenQuestion, turn: u32, count: usize) -> Vec<Vec<u8>> {
    let (question, tag, random) = (&asked.question, StreamTag::of("bench"), &mut SeededRandom::new(u64::from(turn)));
    let oracle = question.oracle().unwrap();
    let issuer = has_tokens().then(|| Issuer::new(&SIGNER, "bench").unwrap().checker(question.timestamp).unwrap());
    let made = (0_u32..).take(count).map(|number| {
        let mut batch = BatchWriter::new(tag, question.timestamp, question.phase, asked.report_length);
        for device in (0_u32..).take(reports()) {
            let mut identity = [0; 16];
            for (place, part) in identity.chunks_exact_mut(4).zip([turn, number, device]) {
                place.copy_from_slice(&part.to_le_bytes());
            }
            let mut ledger = Ledger::new(question.epsilon, Window::EVENT);
            let permit = ledger.spend(question.timestamp, question.epsilon).unwrap();
            let report = oracle.perturb(permit, device % 128, random).unwrap();
            let token = issuer.as_ref().map(|issuer| issuer.token(identity));
            let id = match &token {
                Some(token) => token.report_id(question.phase),
                None => ReportId::of(&identity, tag, question.timestamp, question.phase),
            };
            let token = token.map(|token| token.prove(question.phase, report.as_bytes()));
            batch.push_with(id, token, report.as_bytes()).unwrap();
        }
        batch.write().unwrap()
    });
    made.collect()
}

/// Sends all batches over several connections. Returns the time until the last acknowledgement.
fn send(address: SocketAddr, token: &str, batches: &[Vec<u8>], clients: usize) -> Duration {
    let began = Instant::now();
    thread::scope(|scope| {
        for share in batches.chunks(batches.len().div_ceil(clients)) {
            scope.spawn(move || {
                let mut connection = BufReader::new(TcpStream::connect(address).unwrap());
                connection.get_ref().set_nodelay(true).unwrap();
                for batch in share {
                    let mut request = format!(
                        "POST /v1/streams/bench/reports HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\
                         content-type: {BATCH}\r\ncontent-length: {}\r\n\r\n",
                        batch.len()
                    )
                    .into_bytes();
                    request.extend_from_slice(batch);
                    connection.get_mut().write_all(&request).unwrap();
                    let (mut length, mut status) = (0, String::new());
                    connection.read_line(&mut status).unwrap();
                    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
                    loop {
                        let mut line = String::new();
                        connection.read_line(&mut line).unwrap();
                        if let Some(text) = line.strip_prefix("content-length: ") {
                            length = text.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                    }
                    connection.read_exact(&mut vec![0; length]).unwrap();
                }
            });
        }
    });
    began.elapsed()
}

fn main() {
    // Test runners start benchmarks to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (count, clients) = (number("TIDEGATE_BATCHES", 200), number("TIDEGATE_CLIENTS", 16));
    let folder = std::env::temp_dir().join(format!("tidegate-ingest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let given = std::env::var("TIDEGATE_STORE").ok().filter(|store| store != "sqlite");
    let started = (given.as_deref() == Some("postgres")).then(postgres::Postgres::start);
    let database = started.as_ref().map(postgres::Postgres::url).or(given);
    let (service, token, asked) = start_service(&folder, database.as_deref());
    let bare = start_bare(folder.clone());
    println!(
        "{count} batches of {} reports of {} bytes a turn, over {clients} connections",
        reports(),
        asked.report_length
    );
    let turns = (0..).take(number("TIDEGATE_TURNS", 7)).map(|turn: u32| {
        let batches = batches(&asked, turn, count);
        let rate = |took: Duration| (count * reports()) as f64 / took.as_secs_f64();
        // The two take turns in going first.
        let (ours, theirs) = if turn.is_multiple_of(2) {
            let ours = send(service, token.secret.reveal(), &batches, clients);
            (ours, send(bare, "", &batches, clients))
        } else {
            let theirs = send(bare, "", &batches, clients);
            (send(service, token.secret.reveal(), &batches, clients), theirs)
        };
        [rate(ours), rate(theirs), rate(ours) / rate(theirs)]
    });
    let turns: Vec<_> = turns.collect();
    for (figure, (name, digits)) in [("service", 0), ("bare", 0), ("ratio", 2)].into_iter().enumerate() {
        let mut values: Vec<f64> = turns.iter().map(|turn| turn[figure]).collect();
        values.sort_by(f64::total_cmp);
        let (least, median, most) = (values[0], values[values.len() / 2], values[values.len() - 1]);
        println!("{name:8} median {median:9.digits$}, lowest {least:9.digits$}, highest {most:9.digits$}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
