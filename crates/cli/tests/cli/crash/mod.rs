//! Real services, killed again and again under real load: nothing that was acknowledged is lost, and nothing is counted
//! twice.
//!
//! Senders have batches with identities that are known beforehand, and send each until it is acknowledged or its
//! question is closed, many of them twice. A release says how many reports it counted: at least those that were
//! acknowledged, and at most those that were ever sent. When to kill is drawn from a seed. What was released is also
//! audited: no window has spent more than its budget.

mod audit;
mod classes;
mod service;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_device::api::OpenQuestion;
use tidegate_device::client::{Client, ClientError, ClientOptions, ClientToken};
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::sequence::{SequenceMemory, SequenceRule};
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_device::{Device, PreparedQuestion};
use tidegate_kernel::SeededRandom;

use crate::command;
use crate::service::Serving;
use audit::audit;
use service::{Declared, Seen, Target, between};
pub(crate) use service::{Killed, killing};

const VISITS: Declared = Declared {
    name: "visits",
    tick: 2,
    spec: "family = \"local\"\nmechanism = \"lbu\"\nepsilon = 2.0\nwindow = 2\n\
           domain = [\"home\", \"work\", \"away\"]\npopulation = 100000\n",
};

/// Streams of sequences, whose model never makes an answer constant.
const SEQUENCES: [Declared; 2] = [
    Declared {
        name: "moves",
        tick: 2,
        spec: "family = \"sequence\"\nmechanism = \"crr\"\nepsilon = 2\ndomain = [\"home\", \"work\", \"away\"]\n\
               population = 100000\n[model]\nprior = [0.4, 0.3, 0.3]\n\
               transitions = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]\n",
    },
    Declared {
        name: "trips",
        tick: 1,
        spec: "family = \"sequence\"\nmechanism = \"batched\"\nlength = 2\nepsilon = 2\n\
               domain = [\"home\", \"work\", \"away\"]\npopulation = 100000\n[model]\nprior = [0.4, 0.3, 0.3]\n\
               transitions = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]\n",
    },
];

/// Stream, timestamp and number of a batch.
type Batch = (String, u64, u64);

/// Everything that was sent: for each batch how many reports, and whether they were acknowledged.
#[derive(Debug, Default)]
struct Sent(Mutex<BTreeMap<Batch, (u64, bool)>>);

impl Sent {
    fn sending(&self, stream: &str, timestamp: u64, batch: u64, size: u64) {
        self.0.lock().unwrap().entry((stream.to_owned(), timestamp, batch)).or_insert((size, false));
    }

    fn acknowledged(&self, stream: &str, timestamp: u64, batch: u64) {
        self.0.lock().unwrap().get_mut(&(stream.to_owned(), timestamp, batch)).unwrap().1 = true;
    }

    /// For each timestamp of a stream: how many reports were acknowledged, and how many were sent.
    fn of(&self, stream: &str) -> BTreeMap<u64, (u64, u64)> {
        let sent = self.0.lock().unwrap();
        let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for ((_, timestamp, _), (size, is_acknowledged)) in sent.iter().filter(|((name, ..), _)| name == stream) {
            let (acknowledged, all) = counts.entry(*timestamp).or_default();
            *all += size;
            *acknowledged += if *is_acknowledged { size } else { &0 };
        }
        counts
    }
}

/// A service and what was sent to it.
struct Load {
    target: Target,
    policies: Vec<StreamPolicy>,
    sent: Arc<Sent>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Makes a service with streams; `more` comes first in its configuration.
    fn new(streams: &[Declared], more: &str) -> Self {
        let target = Target::new(streams, more);
        let operator = tidegate_device::client::operator_key(&target.home.operator_key).unwrap();
        let serving = target.home.serve();
        let client = Client::new(&target.url, ClientOptions::default()).unwrap();
        let policy = |stream: &Declared| client.policy(stream.name, &operator).unwrap().into_policy();
        let policies = streams.iter().map(policy).collect();
        serving.kill();
        Self { target, policies, sent: Arc::default(), stop: Arc::default() }
    }

    fn client(&self) -> Client {
        let options = ClientOptions {
            token: Some(ClientToken::new(self.target.home.token("ingest")).unwrap()),
            timeout: Duration::from_secs(3),
            attempts: 1,
            ..ClientOptions::default()
        };
        Client::new(&self.target.url, options).unwrap()
    }

    /// Sends batches of so many reports, one after the other, until told to stop. Senders take the streams in turn.
    fn sender(&self, number: u64, size: u64) -> Sender {
        let place = usize::try_from(number).unwrap() % self.policies.len();
        let (policy, sent, stop) = (self.policies[place].clone(), Arc::clone(&self.sent), Arc::clone(&self.stop));
        let rule = policy.sequence.as_ref().map(|sequence| SequenceRule::new(sequence).unwrap());
        Sender { number, size, client: self.client(), policy, rule, sent, stop }
    }

    /// Waits until everything that was sent is released, and compares. How many reports were acknowledged.
    fn compare(&self, read: &Seen, streams: &[Declared], limits: &[(u64, u64)]) -> u64 {
        let mut total = 0;
        for (stream, limit) in streams.iter().zip(limits) {
            let sent = self.sent.of(stream.name);
            let last = *sent.keys().next_back().expect("something was sent");
            let released = read.all(&self.target, stream.name, last);
            for (timestamp, (acknowledged, sent)) in sent {
                let release = released.get(&timestamp);
                let release =
                    release.unwrap_or_else(|| panic!("timestamp {timestamp} was asked about, and is released"));
                let counted = release["reports"].as_u64().unwrap();
                assert!(
                    (acknowledged..=sent).contains(&counted),
                    "timestamp {timestamp}: {acknowledged} acknowledged, {counted} counted, {sent} sent"
                );
                total += acknowledged;
            }
            audit(&self.target, stream.name, &released, &[*limit]);
        }
        total
    }
}

struct Sender {
    number: u64,
    size: u64,
    client: Client,
    policy: StreamPolicy,
    /// How its devices release sequences.
    rule: Option<SequenceRule>,
    sent: Arc<Sent>,
    stop: Arc<AtomicBool>,
}

/// Outcome of a batch.
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
            let asked = self.client.questions(&self.policy.stream, None, Duration::ZERO).ok();
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
        self.sent.sending(&self.policy.stream, timestamp, number, self.size);
        let outcome = self.insist(&batch);
        if outcome == Outcome::Acknowledged {
            self.sent.acknowledged(&self.policy.stream, timestamp, number);
            if number.is_multiple_of(3) {
                return self.insist(&batch);
            }
        }
        outcome
    }

    fn insist(&self, batch: &[u8]) -> Outcome {
        loop {
            match self.client.send(&self.policy.stream, batch) {
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
        let prepared = PreparedQuestion::new(asked.question.clone());
        let (timestamp, phase) = (asked.question.timestamp, asked.question.phase);
        let tag = StreamTag::of(&self.policy.stream);
        let random = &mut SeededRandom::with_stream(timestamp, number);
        let mut batch = BatchWriter::new(tag, timestamp, phase, asked.report_length);
        for report in 0..self.size {
            let mut identity = [0; 16];
            identity[..8].copy_from_slice(&number.to_le_bytes());
            identity[8..].copy_from_slice(&report.to_le_bytes());
            let mut device = Device::new(self.policy.protects, self.policy.slot_of(&identity));
            let value = u32::try_from(report % 3).unwrap();
            let answer = match &self.rule {
                None => device.answer_prepared(timestamp, prepared.as_ref().unwrap(), value, random).unwrap(),
                Some(rule) => {
                    let (memory, symbols) = (&mut SequenceMemory::new(rule), vec![value; rule.length() as usize]);
                    let symbols = || rule.batch_of(symbols);
                    device.answer_sequence(timestamp, &asked.question, rule, memory, symbols, random).unwrap()
                }
            };
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
fn under_load(load: &Load, senders: u64, size: u64, disturb: impl FnOnce()) {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..senders)
            .map(|number| {
                let sender = load.sender(number, size);
                scope.spawn(move || sender.run())
            })
            .collect();
        let stopping = Stopping(&load.stop);
        disturb();
        drop(stopping);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Kills services with streams of devices, and compares what was acknowledged with what was released. `limits` are the
/// window and the budget of each.
fn survives_kills(mut store: Killed, streams: &[Declared], limits: &[(u64, u64)], seed: u64) {
    let load = Load::new(streams, &store.line());
    let (random, mut read, mut kills) = (&mut SeededRandom::new(seed), Seen::default(), 0);
    under_load(&load, 3, 5, || {
        let lives = |random: &mut SeededRandom| between(random, 100, 900);
        let observe = || streams.iter().for_each(|stream| read.on(&load.target, stream.name));
        kills = store.again_and_again(&load.target, random, lives, observe);
    });
    let serving = load.target.home.serve();
    let total = load.compare(&read, streams, limits);
    assert_eq!(serving.terminate().0, Some(0));
    println!("{kills} kills, {total} reports acknowledged, none lost, none counted twice");
    assert!(kills >= 4 && total >= 100, "{kills} kills, {total} reports");
}

#[test]
fn services_that_are_killed_lose_nothing_and_count_nothing_twice() {
    survives_kills(Killed::Sqlite, &[VISITS], &[(2, 2)], 17);
}

#[test]
fn services_on_postgres_that_are_killed_with_it_lose_nothing_and_count_nothing_twice() {
    survives_kills(Killed::postgres(), &[VISITS], &[(2, 2)], 18);
}

/// The ledger of a device is debited with four in each release.
#[test]
fn sequences_of_services_that_are_killed_are_counted_once() {
    survives_kills(Killed::Sqlite, &SEQUENCES, &[(1, 4), (2, 4)], 19);
}

#[test]
fn sequences_of_services_on_postgres_that_are_killed_with_it_are_counted_once() {
    survives_kills(Killed::postgres(), &SEQUENCES, &[(1, 4), (2, 4)], 20);
}

/// A service whose files may grow by so many KiB only; what is too much is an error, or ends it.
fn cramped(load: &Load, ends: bool) -> Serving {
    let store = fs::metadata(load.target.home.store()).unwrap().len() / 1_024;
    let limit = format!(
        "ulimit -f {}; {} exec \"$0\" serve --config \"$1\"",
        store + 200,
        if ends { "" } else { "trap '' XFSZ;" }
    );
    let program = command("").get_program().to_owned();
    let mut bash = Command::new("bash");
    Serving::start(bash.arg("-c").arg(limit).arg(program).arg(load.target.home.config()))
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    for (name, ends) in [("full", false), ("burst", true)] {
        let load = Load::new(&[VISITS], "");
        under_load(&load, 2, 500, || {
            let mut serving = cramped(&load, ends);
            // Long enough for more than fits.
            let start = Instant::now();
            let mut refused = false;
            while start.elapsed() < Duration::from_secs(10) && !refused {
                thread::sleep(Duration::from_millis(100));
                let is_gone = serving.child.try_wait().unwrap().is_some();
                assert!(ends || !is_gone, "it says that it cannot, and does not die of it");
                refused = is_gone || load.target.get("/readyz").is_none();
            }
            assert!(refused, "it takes no more than there is room for");
            serving.kill();
        });
        let serving = load.target.home.serve();
        let total = load.compare(&Seen::default(), &[VISITS], &[(2, 2)]);
        assert_eq!(serving.terminate().0, Some(0));
        println!("{name}: {total} reports acknowledged");
        assert!(total >= 500, "{total}");
    }
}
