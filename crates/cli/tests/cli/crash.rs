//! Real services, killed again and again under real load: nothing that was acknowledged is lost, and nothing is counted
//! twice.
//!
//! Senders have batches with identities that are known beforehand, and send each until it is acknowledged or its
//! question is closed, many of them twice. A release says how many reports it counted: at least those that were
//! acknowledged, and at most those that were ever sent. When to kill is drawn from a seed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_device::api::OpenQuestion;
use tidegate_device::client::{Client, ClientError, ClientOptions, ClientToken};
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_device::{Device, PreparedQuestion};
use tidegate_kernel::{Randomness as _, SeededRandom};

use crate::command;
use crate::postgres::Postgres;
use crate::service::{Home, Serving, stream};

const STREAM: &str = "visits";

/// Everything that was sent: for each timestamp and batch, how many reports, and whether they were acknowledged.
#[derive(Debug, Default)]
struct Sent(Mutex<BTreeMap<(u64, u64), (u64, bool)>>);

impl Sent {
    fn sending(&self, timestamp: u64, batch: u64, size: u64) {
        self.0.lock().unwrap().entry((timestamp, batch)).or_insert((size, false));
    }

    fn acknowledged(&self, timestamp: u64, batch: u64) {
        self.0.lock().unwrap().get_mut(&(timestamp, batch)).unwrap().1 = true;
    }

    /// How many reports of a timestamp were acknowledged, and how many were sent.
    fn of(&self, timestamp: u64) -> (u64, u64) {
        let sent = self.0.lock().unwrap();
        let mut counts = (0, 0);
        for (size, is_acknowledged) in sent.range((timestamp, 0)..=(timestamp, u64::MAX)).map(|(_, found)| *found) {
            counts.1 += size;
            counts.0 += if is_acknowledged { size } else { 0 };
        }
        counts
    }

    fn timestamps(&self) -> Vec<u64> {
        let mut timestamps: Vec<u64> = self.0.lock().unwrap().keys().map(|(timestamp, _)| *timestamp).collect();
        timestamps.dedup();
        timestamps
    }
}

/// A service on a port that stays the same.
struct Load {
    home: Home,
    url: String,
    policy: StreamPolicy,
    sent: Arc<Sent>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Makes a service with a stream; `more` comes first in its configuration.
    fn new(tick: u64, more: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = Home::new();
        home.configure("", &stream(STREAM, tick, 2));
        let text = fs::read_to_string(home.config()).unwrap();
        fs::write(home.config(), more.to_owned() + &text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"))).unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let operator = tidegate_device::client::operator_key(&home.operator_key).unwrap();
        let serving = home.serve();
        let policy =
            Client::new(&url, ClientOptions::default()).unwrap().policy(STREAM, &operator).unwrap().into_policy();
        serving.kill();
        Self { home, url, policy, sent: Arc::default(), stop: Arc::default() }
    }

    fn client(&self) -> Client {
        let options = ClientOptions {
            token: Some(ClientToken::new(self.home.token("ingest")).unwrap()),
            timeout: Duration::from_secs(3),
            attempts: 1,
            ..ClientOptions::default()
        };
        Client::new(&self.url, options).unwrap()
    }

    /// Sends batches of so many reports, one after the other, until told to stop.
    fn sender(&self, number: u64, size: u64) -> Sender {
        let (policy, sent, stop) = (self.policy.clone(), Arc::clone(&self.sent), Arc::clone(&self.stop));
        Sender { number, size, client: self.client(), policy, sent, stop }
    }

    /// What the service answers to somebody who reads, byte for byte; `None` where it does not.
    fn get(&self, path: &str) -> Option<String> {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
        let token = self.home.token("analyst");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.split_whitespace().nth(1).filter(|status| *status == "200")?;
        Some(body.to_owned())
    }

    /// The release of a number, as text.
    fn release(&self, number: u64) -> Option<(String, Value)> {
        let text = self.get(&format!("/v1/streams/{STREAM}/releases?after={}&limit=1", number - 1))?;
        let parsed: Value = serde_json::from_str(&text).ok()?;
        let release = parsed["releases"].get(0)?.clone();
        assert_eq!(release["number"], number, "releases have numbers without gaps");
        Some((text, release))
    }

    /// Waits until everything that was sent is released, and compares. How many reports were acknowledged.
    fn compare(&self, read_before: &BTreeMap<u64, String>) -> u64 {
        let timestamps = self.sent.timestamps();
        let last = *timestamps.last().expect("something was sent");
        let (mut released, mut number) = (BTreeMap::new(), 1);
        let start = Instant::now();
        while !released.contains_key(&last) {
            assert!(start.elapsed() < Duration::from_secs(20), "timestamp {last} is not released: {released:?}");
            let Some((text, release)) = self.release(number) else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            if let Some(before) = read_before.get(&number) {
                assert_eq!(*before, text, "a release that is read again is the same, byte for byte");
            }
            let timestamp = release["timestamp"].as_u64().unwrap();
            let reports = release["release"]["reports"].as_u64().unwrap();
            assert_eq!(released.insert(timestamp, reports), None, "timestamp {timestamp} is released once");
            number += 1;
        }
        let mut total = 0;
        for timestamp in timestamps {
            let (acknowledged, sent) = self.sent.of(timestamp);
            let counted = released.get(&timestamp).copied();
            let counted = counted.unwrap_or_else(|| panic!("timestamp {timestamp} was asked about, and is released"));
            assert!(
                (acknowledged..=sent).contains(&counted),
                "timestamp {timestamp}: {acknowledged} acknowledged, {counted} counted, {sent} sent"
            );
            total += acknowledged;
        }
        total
    }
}

struct Sender {
    number: u64,
    size: u64,
    client: Client,
    policy: StreamPolicy,
    sent: Arc<Sent>,
    stop: Arc<AtomicBool>,
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Acknowledged,
    Closed,
    Stopped,
}

impl Sender {
    fn run(&self) {
        let mut next = self.number << 32;
        while !self.stop.load(Ordering::Relaxed) {
            let asked = self.client.questions(STREAM, None, Duration::ZERO).ok();
            let Some(asked) = asked.and_then(|asking| asking.questions.into_iter().next()) else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            while self.send(&asked, next) == Outcome::Acknowledged {
                next += 1;
                thread::sleep(Duration::from_millis(3));
            }
            next += 1;
        }
    }

    /// Sends a batch until it is acknowledged or nothing more is taken; and every third once more.
    fn send(&self, asked: &OpenQuestion, number: u64) -> Outcome {
        let batch = self.batch(asked, number);
        let timestamp = asked.question.timestamp;
        self.sent.sending(timestamp, number, self.size);
        let outcome = self.insist(&batch);
        if outcome == Outcome::Acknowledged {
            self.sent.acknowledged(timestamp, number);
            if number.is_multiple_of(3) {
                return self.insist(&batch);
            }
        }
        outcome
    }

    fn insist(&self, batch: &[u8]) -> Outcome {
        loop {
            match self.client.send(STREAM, batch) {
                Ok(receipt) => {
                    assert_eq!(receipt.accepted + receipt.repeated, self.size, "{receipt:?}");
                    return Outcome::Acknowledged;
                }
                Err(ClientError::Refused { code, .. }) if code.as_deref() == Some("closed") => return Outcome::Closed,
                Err(ClientError::Refused { status, message, .. }) => panic!("{status}: {message}"),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Outcome::Stopped,
                // Nobody knows whether it was taken: the same again.
                Err(_) => thread::sleep(Duration::from_millis(15)),
            }
        }
    }

    /// The same for the same number, whenever it is made.
    fn batch(&self, asked: &OpenQuestion, number: u64) -> Vec<u8> {
        let prepared = PreparedQuestion::new(asked.question.clone()).unwrap();
        let (timestamp, phase) = (asked.question.timestamp, asked.question.phase);
        let tag = StreamTag::of(STREAM);
        let random = &mut SeededRandom::with_stream(timestamp, number);
        let mut batch = BatchWriter::new(tag, timestamp, phase, asked.report_length);
        for report in 0..self.size {
            let mut identity = [0; 16];
            identity[..8].copy_from_slice(&number.to_le_bytes());
            identity[8..].copy_from_slice(&report.to_le_bytes());
            let mut device = Device::new(self.policy.protects, self.policy.slot_of(&identity));
            let value = u32::try_from(report % 3).unwrap();
            let answer = device.answer_prepared(timestamp, &prepared, value, random).unwrap();
            batch.push(ReportId::of(&identity, tag, timestamp, phase), answer.as_bytes()).unwrap();
        }
        batch.write().unwrap()
    }
}

/// Lets senders stop, also where something has failed.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs senders while `disturb` does what it does, and compares afterwards.
fn under_load(load: &Load, senders: u64, size: u64, disturb: impl FnOnce(&mut BTreeMap<u64, String>)) -> u64 {
    let mut read = BTreeMap::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..senders)
            .map(|number| {
                let sender = load.sender(number, size);
                scope.spawn(move || sender.run())
            })
            .collect();
        let stopping = Stopping(&load.stop);
        disturb(&mut read);
        drop(stopping);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let serving = load.home.serve();
    let total = load.compare(&read);
    assert_eq!(serving.terminate().0, Some(0));
    total
}

/// Reads releases that were not read before.
fn read_on(load: &Load, read: &mut BTreeMap<u64, String>) {
    let next = read.len() as u64 + 1;
    if let Some((text, _)) = load.release(next) {
        read.insert(next, text);
    }
}

fn between(random: &mut SeededRandom, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + random.next_word() % (high - low))
}

/// Returns how long services are killed: 12 seconds, or as many as `TIDEGATE_SOAK` says.
fn killing() -> Duration {
    Duration::from_secs(std::env::var("TIDEGATE_SOAK").map_or(12, |seconds| seconds.parse().unwrap()))
}

#[test]
fn services_that_are_killed_lose_nothing_and_count_nothing_twice() {
    let load = Load::new(2, "");
    let random = &mut SeededRandom::new(17);
    let mut kills = 0;
    let total = under_load(&load, 3, 5, |read| {
        let start = Instant::now();
        while start.elapsed() < killing() {
            let serving = load.home.serve();
            thread::sleep(between(random, 100, 900));
            read_on(&load, read);
            serving.kill();
            kills += 1;
        }
    });
    println!("{kills} kills, {total} reports acknowledged");
    assert!(kills >= 5 && total >= 100, "{kills} kills, {total} reports");
}

#[test]
fn services_on_postgres_that_are_killed_with_it_lose_nothing_and_count_nothing_twice() {
    let mut database = Postgres::start();
    let socket = database.url().split_whitespace().next().unwrap().replace("host=", "").replace('/', "%2F");
    let load = Load::new(2, &format!("store = \"postgres://tidegate@{socket}/postgres\"\n"));
    let random = &mut SeededRandom::new(18);
    let mut kills = 0;
    let total = under_load(&load, 3, 5, |read| {
        let start = Instant::now();
        while start.elapsed() < killing() {
            let serving = load.home.serve();
            thread::sleep(between(random, 100, 900));
            read_on(&load, read);
            // Three in turn: the service, the database, and both.
            if kills % 3 > 0 {
                database.stop("KILL");
            }
            if kills % 3 == 1 {
                thread::sleep(between(random, 50, 300));
                database.run();
                thread::sleep(between(random, 100, 900));
            }
            serving.kill();
            if kills % 3 == 2 {
                database.run();
            }
            kills += 1;
        }
    });
    println!("{kills} kills, {total} reports acknowledged");
    assert!(kills >= 4 && total >= 100, "{kills} kills, {total} reports");
}

/// A service whose files may grow by so many KiB only; what is too much is an error, or ends it.
fn cramped(load: &Load, ends: bool) -> Serving {
    let store = fs::metadata(load.home.store()).unwrap().len() / 1_024;
    let limit = format!(
        "ulimit -f {}; {} exec \"$0\" serve --config \"$1\"",
        store + 200,
        if ends { "" } else { "trap '' XFSZ;" }
    );
    let program = command("").get_program().to_owned();
    let mut bash = Command::new("bash");
    Serving::start(bash.arg("-c").arg(limit).arg(program).arg(load.home.config()))
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    for (name, ends) in [("full", false), ("burst", true)] {
        let load = Load::new(2, "");
        let total = under_load(&load, 2, 500, |_| {
            let mut serving = cramped(&load, ends);
            // Long enough for more than fits.
            let start = Instant::now();
            let mut refused = false;
            while start.elapsed() < Duration::from_secs(10) && !refused {
                thread::sleep(Duration::from_millis(100));
                let is_gone = serving.child.try_wait().unwrap().is_some();
                assert!(ends || !is_gone, "it says that it cannot, and does not die of it");
                refused = is_gone || load.get("/readyz").is_none();
            }
            assert!(refused, "it takes no more than there is room for");
            serving.kill();
        });
        println!("{name}: {total} reports acknowledged");
        assert!(total >= 500, "{total}");
    }
}
