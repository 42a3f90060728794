//! A database and receivers of webhooks that hang or lead astray.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_device::api::BATCH;
use tidegate_server::http::auth::Role;
use tidegate_server::http::{ServeError, WebhookSettings};
use tidegate_server::store::PostgresStore;

use super::{PATIENCE, Server, batch, local_webhooks, visits};
use crate::postgres::Postgres;
use crate::store::TestFolder;

#[test]
fn a_hung_database_stops_neither_readiness_nor_the_end() {
    let postgres = Postgres::start();
    let store = Arc::new(PostgresStore::open(&postgres.url()).unwrap());
    let mut server = Server::start_on(store, TestFolder::new(), WebhookSettings::default(), |settings| {
        let limits = &mut settings.limits;
        (limits.store, limits.grace, limits.stop) =
            (Duration::from_secs(3), Duration::from_millis(300), Duration::from_secs(1));
    });
    server.create(&visits());
    let asked = server.question("visits", 300);
    server.until(Role::Analyst, "/readyz", |answer| answer.status == 200);
    let hung = postgres.hang();
    // The last result is good for a second.
    server.until(Role::Analyst, "/readyz", |answer| answer.status == 503);
    let timed = |ask: &dyn Fn() -> super::Answer| {
        let began = Instant::now();
        let answer = ask();
        // The database takes longer than a minute to be given up.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        answer
    };
    for _ in 0..3 {
        timed(&|| server.get(None, "/readyz")).refuses(503, "not_ready");
        assert_eq!(timed(&|| server.get(None, "/healthz")).status, 200);
    }
    timed(&|| server.get(Some(Role::Analyst), "/v1/streams/visits/releases")).refuses(503, "store");
    let reports = batch("visits", &asked, 0..60, 2, 1);
    let sent = timed(&|| server.post(Some(Role::Ingest), "/v1/streams/visits/reports", BATCH, &reports));
    assert!([409, 503].contains(&sent.status), "{}", sent.text);
    let began = Instant::now();
    let stopped = server.stop();
    assert!(matches!(stopped, Err(ServeError::Stop)), "{stopped:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    drop(hung);
}

/// Answers every request with a head; returns when each came.
fn receiver(address: &str, head: &str) -> (u16, Receiver<Instant>) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let (sender, received) = channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, mut request) = (connection.unwrap(), [0; 4_096]);
            // Head and body may come apart, and the end of neither matters here.
            let _ = connection.read(&mut request);
            let _ = connection.write_all(answer.as_bytes());
            if sender.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    (port, received)
}

/// Few devices, of whom more report than there are: a message in each tick.
fn crowded(webhooks: &[String]) -> Value {
    json!({ "name": "bits", "tick": 1, "webhooks": webhooks, "spec": {
        "family": "local", "mechanism": "lbu", "epsilon": 4, "window": 2, "population": 80,
        "oracle": "oue", "domain": 256,
    } })
}

/// Reports in so many ticks. A report that comes after its tick is refused, and does not count.
fn report_in(server: &Server, ticks: usize) {
    let (mut last, mut counted, until) = (None, 0, Instant::now() + PATIENCE);
    while counted < ticks {
        assert!(Instant::now() < until, "{counted} ticks have reports");
        let asked = server.question("bits", 500);
        if last.replace(asked.question.timestamp) == Some(asked.question.timestamp) {
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        let sent =
            server.post(Some(Role::Ingest), "/v1/streams/bits/reports", BATCH, &batch("bits", &asked, 0..250, 0, 1));
        assert!(sent.status == 200 || sent.status == 409, "{}", sent.text);
        counted += usize::from(sent.status == 200);
    }
}

#[test]
fn a_webhook_that_hangs_delays_no_other() {
    // It takes connections, and never answers.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, received) = receiver("127.0.0.1:0", "204 Yes");
    let urls = [format!("http://{}/", dead.local_addr().unwrap()), format!("http://127.0.0.1:{port}/")];
    // One message to the first takes longer than all to the second.
    let server = Server::start_with(WebhookSettings { timeout: 4 * PATIENCE, ..local_webhooks() }, |_| {});
    server.create(&crowded(&urls));
    report_in(&server, 4);
    for _ in 0..3 {
        received.recv_timeout(PATIENCE).unwrap();
    }
    // It ends what is being sent there, so the service stops at once.
    drop(dead);
}

#[test]
fn webhooks_reach_allowed_networks_only() {
    let (inside, reached) = receiver("127.0.0.1:0", "204 Yes");
    let (allowed, redirected) =
        receiver("127.0.0.2:0", &format!("302 Elsewhere\r\nlocation: http://127.0.0.1:{inside}/"));
    let settings = WebhookSettings { networks: vec!["127.0.0.2".parse().unwrap()], ..WebhookSettings::default() };
    let server = Server::start_with(settings, |_| {});
    // By address, by a name that resolves to it, as IPv6 writes it, and by a redirect from an allowed one.
    let urls = [
        format!("http://127.0.0.1:{inside}/"),
        format!("http://localhost:{inside}/"),
        format!("http://[::ffff:127.0.0.1]:{inside}/"),
        format!("http://127.0.0.2:{allowed}/"),
    ];
    server.create(&crowded(&urls));
    report_in(&server, 2);
    redirected.recv_timeout(PATIENCE).unwrap();
    let refused = |answer: &super::Answer| {
        let line =
            answer.text.lines().find_map(|line| line.strip_prefix("tidegate_webhooks_total{outcome=\"refused\"} "));
        line.is_some_and(|count| count.parse::<u64>().unwrap() >= 3)
    };
    server.until(Role::Analyst, "/metrics", refused);
    assert!(reached.try_recv().is_err(), "a message went to an address that is not allowed");
}
