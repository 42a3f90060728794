//! [`Fleet`]: devices whose reports are known, and what became of them.
//!
//! A report supports cells: the index that it names, or the bits that are set. Cells are taken in turn, so that most
//! reports of a question have a cell of their own, and a count shows who was counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use tidegate_device::api::OpenQuestion;
use tidegate_device::client::{Client, ClientError, ClientOptions, ClientToken};
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Randomness as _, SeededRandom};

use crate::streams::Declared;

/// Stream, timestamp and phase.
pub(crate) type Question = (&'static str, u64, u16);

/// Reports that were sent under the same identities.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Cells of each report.
    pub(crate) cells: Vec<Vec<u32>>,
    /// Cells of other reports under the same identities, which were sent at the same time.
    pub(crate) others: Option<Vec<Vec<u32>>>,
    /// Whether these were acknowledged.
    pub(crate) acknowledged: bool,
    /// Whether the others were.
    pub(crate) others_acknowledged: bool,
}

/// Reports that were sent in answer to a question.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// By the number of the batch.
    pub(crate) sent: BTreeMap<u64, Sent>,
    next_cell: u32,
}

/// Devices, and what they have sent.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) streams: Vec<Declared>,
    memory: Mutex<BTreeMap<Question, Answers>>,
    /// Attempts that brought no answer.
    pub(crate) unanswered: AtomicU64,
    stop: AtomicBool,
    /// Whether a batch counts as acknowledged before it is sent, as a broken gateway would acknowledge it.
    pub(crate) trusts_too_early: bool,
}

/// A device-side proxy that sends batches to any gateway.
struct Sender<'a> {
    fleet: &'a Fleet,
    stream: &'a Declared,
    gateways: &'a [Client],
    random: SeededRandom,
    next: u64,
}

/// How batches of a stream reach any gateway.
#[derive(Clone, Copy)]
struct Route<'a> {
    fleet: &'a Fleet,
    stream: &'a Declared,
    gateways: &'a [Client],
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Client of a gateway, which tries once.
pub(crate) fn client(url: &str, token: &str) -> Client {
    let options = ClientOptions {
        token: Some(ClientToken::new(token).unwrap()),
        timeout: Duration::from_secs(2),
        attempts: 1,
        allow_plain: true,
        ..ClientOptions::default()
    };
    Client::new(url, options).unwrap()
}

/// Lets threads stop, also where something has failed.
pub(crate) struct Stopping<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Fleet {
    pub(crate) fn new(streams: Vec<Declared>) -> Self {
        Self {
            streams,
            memory: Mutex::default(),
            unanswered: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            trusts_too_early: false,
        }
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, BTreeMap<Question, Answers>> {
        self.memory.lock().unwrap()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sends reports of all streams to gateways while `meanwhile` does what it does.
    pub(crate) fn send_while<T>(&self, urls: &[String], token: &str, seed: u64, meanwhile: impl FnOnce() -> T) -> T {
        self.stop.store(false, Ordering::Relaxed);
        let clients: Vec<Vec<Client>> =
            (0..2 * self.streams.len()).map(|_| urls.iter().map(|url| client(url, token)).collect()).collect();
        thread::scope(|scope| {
            let _stopping = Stopping(&self.stop);
            for (number, gateways) in clients.iter().enumerate() {
                let stream = &self.streams[number % self.streams.len()];
                scope.spawn(move || {
                    let random = SeededRandom::with_stream(seed, number as u64);
                    Sender { fleet: self, stream, gateways, random, next: (number as u64) << 32 }.run();
                });
            }
            meanwhile()
        })
    }

    fn take_cells(&self, question: Question, count: u32, cells: u32) -> Vec<u32> {
        let mut memory = self.memory();
        let next = &mut memory.entry(question).or_default().next_cell;
        let first = *next;
        *next += count;
        (first..first + count).map(|cell| cell % cells).collect()
    }
}

impl Sender<'_> {
    fn draw(&mut self, bound: u64) -> u64 {
        self.random.next_word() % bound
    }

    fn run(mut self) {
        let mut at = 0;
        while !self.fleet.is_over() {
            let asking = self.gateways[at].questions(self.stream.name, None, Duration::ZERO);
            let Some(open) = asking.ok().filter(|asking| !asking.questions.is_empty()) else {
                at = (at + 1) % self.gateways.len();
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let chosen = self.draw(open.questions.len() as u64);
            let asked = open.questions[usize::try_from(chosen).unwrap()].clone();
            for _ in 0..20 {
                // Two of them may be on their way while it closes.
                if now() > asked.closes + 30 || self.fleet.is_over() || !self.answer(&asked) {
                    break;
                }
                thread::sleep(Duration::from_millis(8));
            }
        }
    }

    /// Sends a batch of new reports. Returns whether it was acknowledged.
    fn answer(&mut self, asked: &OpenQuestion) -> bool {
        let question = (self.stream.name, asked.question.timestamp, asked.question.phase);
        self.next += 1;
        let (number, size) = (self.next, 1 + self.draw(20));
        let (bodies, cells) = self.reports(asked, question, size);
        // Some identities have two reports, of which one may count.
        let others = self.draw(8) == 0;
        let others = others.then(|| self.reports(asked, question, size.min(3)));
        let (others, other_cells) = others.unzip();
        let acknowledged = self.fleet.trusts_too_early;
        let sent = Sent { cells, others: other_cells, acknowledged, others_acknowledged: false };
        self.fleet.memory().entry(question).or_default().sent.insert(number, sent);
        let batch = self.batch(asked, number, &bodies);
        let first = usize::try_from(self.draw(self.gateways.len() as u64)).unwrap();
        let route = Route { fleet: self.fleet, stream: self.stream, gateways: self.gateways };
        let done = match others {
            None => route.insist(&batch, size, first, asked.closes),
            Some(others) => {
                let other = self.batch(asked, number, &others);
                thread::scope(|scope| {
                    let (second, count) = (first + 1, others.len() as u64);
                    let sending = scope.spawn(move || route.insist(&other, count, second, asked.closes));
                    let done = route.insist(&batch, size, first, asked.closes);
                    if sending.join().unwrap() == Some(true) {
                        self.learn(question, number, |sent| sent.others_acknowledged = true);
                    }
                    done
                })
            }
        };
        if let Some(done) = done {
            self.learn(question, number, |sent| sent.acknowledged = done);
        }
        if done == Some(true) && self.draw(3) == 0 {
            // A device that has missed the answer sends the same again, perhaps elsewhere.
            let again = usize::try_from(self.draw(self.gateways.len() as u64)).unwrap();
            return route.insist(&batch, size, again, asked.closes) == Some(true);
        }
        done == Some(true)
    }

    fn learn(&self, question: Question, number: u64, learn: impl FnOnce(&mut Sent)) {
        learn(self.fleet.memory().get_mut(&question).unwrap().sent.get_mut(&number).unwrap());
    }

    /// Makes reports, and returns them with their cells.
    fn reports(&mut self, asked: &OpenQuestion, question: Question, size: u64) -> (Vec<Vec<u8>>, Vec<Vec<u32>>) {
        if asked.question.oracle == OracleKind::Grr {
            let taken = self.fleet.take_cells(question, u32::try_from(size).unwrap(), self.stream.cells);
            let bodies = taken.iter().map(|cell| cell.to_le_bytes()[..asked.report_length].to_vec()).collect();
            return (bodies, taken.into_iter().map(|cell| vec![cell]).collect());
        }
        assert_eq!(asked.question.oracle, OracleKind::Oue);
        let bits = self.stream.cells;
        let draw = |_| {
            let word = self.random.next_word() & ((1 << bits) - 1);
            let cells = (0..bits).filter(|bit| word >> bit & 1 == 1).collect();
            (word.to_le_bytes()[..asked.report_length].to_vec(), cells)
        };
        (0..size).map(draw).unzip()
    }

    /// The same for the same number, whenever it is made.
    fn batch(&self, asked: &OpenQuestion, number: u64, bodies: &[Vec<u8>]) -> Vec<u8> {
        let tag = StreamTag::of(self.stream.name);
        let (timestamp, phase) = (asked.question.timestamp, asked.question.phase);
        let mut batch = BatchWriter::new(tag, timestamp, phase, asked.report_length);
        for (place, body) in (0_u64..).zip(bodies) {
            let mut identity = [0; 16];
            identity[..8].copy_from_slice(&number.to_le_bytes());
            identity[8..].copy_from_slice(&place.to_le_bytes());
            batch.push(ReportId::of(&identity, tag, timestamp, phase), body).unwrap();
        }
        batch.write().unwrap()
    }
}

impl Route<'_> {
    /// Sends the same bytes to one gateway after the other. Returns whether one acknowledged them, or refused them;
    /// `None` where none answered.
    fn insist(&self, batch: &[u8], size: u64, first: usize, closes: u64) -> Option<bool> {
        for gateway in first.. {
            match self.gateways[gateway % self.gateways.len()].send(self.stream.name, batch) {
                Ok(receipt) => {
                    let taken = receipt.accepted + receipt.repeated + receipt.conflicting;
                    assert_eq!(taken, size, "{}: {receipt:?}", self.stream.name);
                    return Some(true);
                }
                Err(ClientError::Refused { code, .. }) if code.as_deref() == Some("closed") => return Some(false),
                Err(ClientError::Refused { status, code, message }) => {
                    panic!("{} refuses: {status} {code:?} {message}", self.stream.name)
                }
                Err(_) => {
                    self.fleet.unanswered.fetch_add(1, Ordering::Relaxed);
                    // Long after its end, every gateway knows that a question is closed.
                    let is_over = self.fleet.is_over() || now() > closes + 20_000;
                    // A device does not send again what it was told to be there.
                    if is_over || self.fleet.trusts_too_early {
                        return None;
                    }
                    thread::sleep(Duration::from_millis(15));
                }
            }
        }
        None
    }
}
