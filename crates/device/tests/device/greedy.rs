//! A device and a greedy collector over HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use tidegate_device::api::{OpenQuestion, OpenQuestions, Receipt};
use tidegate_device::client::{Client, ClientOptions};
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::wire::{Batch, BatchWriter, StreamTag};
use tidegate_device::{Agent, AgentError, AgentReply};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon, Question, Randomness, SeededRandom, View};

use crate::agent::{ALL, EPOCH, TICK, policy};
use crate::http_server::{Answer, Request, Server};

/// State of the collector.
struct Greed {
    random: SeededRandom,
    now: u64,
    /// Received reports, by identity.
    got: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Two reports under one identity.
    drawn_twice: bool,
}

impl Greed {
    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_word() % below
    }

    fn answer(&mut self, request: &Request) -> Answer {
        match self.draw(12) {
            0 => return Answer::Json(503, "{}".to_owned()),
            1 => return Answer::Raw(Vec::new()),
            2 => return Answer::Json(200, "{\"stream\":".to_owned()),
            _ => {}
        }
        if request.method == "POST" {
            return self.take(&request.body);
        }
        if request.path.ends_with("policy") { self.promise() } else { self.ask() }
    }

    /// A policy: the stream's own, another that the operator signed, or one that nobody did.
    fn promise(&mut self) -> Answer {
        let operator = SigningKey::from_bytes(&[7; 32]);
        let mut promised = policy(3);
        match self.draw(6) {
            0 => promised.protects.window = policy(1).protects.window,
            1 => promised.slot_key = [9; 16],
            2 => promised.stream = "visits-2".to_owned(),
            _ => {}
        }
        let mut signed = promised.sign(&operator).unwrap();
        match self.draw(6) {
            0 => signed.policy.protects.epsilon = "9".parse().unwrap(),
            1 => signed = policy(3).sign(&SigningKey::from_bytes(&[8; 32])).unwrap(),
            2 => signed.signature.clear(),
            _ => {}
        }
        Answer::Json(200, serde_json::to_string(&signed).unwrap())
    }

    fn ask(&mut self) -> Answer {
        let questions = (0..1 + self.draw(3)).map(|_| self.question()).collect();
        let stream = if self.draw(6) == 0 { "visits-2" } else { "visits" }.to_owned();
        let asking = OpenQuestions { stream, round: self.draw(5), questions };
        Answer::Json(200, serde_json::to_string(&asking).unwrap())
    }

    fn question(&mut self) -> OpenQuestion {
        let now = (self.now - EPOCH) / TICK;
        let timestamp = (now + self.draw(7).saturating_sub(4)).saturating_sub(self.draw(7).saturating_sub(5));
        let units = [ALL, ALL / 2, ALL / 3, 1, 9 * ALL][usize::try_from(self.draw(5)).unwrap()];
        let kind = OracleKind::ALL[usize::try_from(self.draw(7)).unwrap()];
        let view = match self.draw(5) {
            0 => View::Ranges(vec![0, 3]),
            1 => View::Ranges(vec![3, 0]),
            _ => View::Values,
        };
        let cohort = match self.draw(4) {
            0 => Cohort::Slots { first: 0, count: 1 << 15 },
            1 => Cohort::Slots { first: 1 << 15, count: u32::MAX },
            _ => Cohort::Everyone,
        };
        let question = Question {
            timestamp,
            phase: u16::try_from(self.draw(4)).unwrap(),
            cohort,
            epsilon: Epsilon::from_units(units).unwrap(),
            oracle: kind,
            domain: if self.draw(6) == 0 { 7 } else { 6 },
            view,
        };
        OpenQuestion { question, report_length: usize::try_from(self.draw(9)).unwrap(), closes: self.draw(u64::MAX) }
    }

    fn take(&mut self, body: &[u8]) -> Answer {
        let batch = Batch::parse(body).unwrap();
        for (id, report) in batch.iter() {
            let key = [batch.stream.as_bytes().as_slice(), id.as_bytes(), &batch.phase.to_le_bytes()].concat();
            let before = self.got.insert(key, report.to_vec());
            self.drawn_twice |= before.is_some_and(|before| before != report);
        }
        // Accepted, perhaps without a response, so that the device retries.
        if self.draw(3) == 0 {
            return Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"accep".to_vec());
        }
        Answer::Json(200, serde_json::to_string(&Receipt { accepted: 1, ..Receipt::default() }).unwrap())
    }
}

/// A report: its time, policy and loss.
struct Left {
    at: u64,
    window: u64,
    units: u64,
}

/// Simulates a device under the collector's control, whose owner consents to every policy or only to the first. Returns
/// the number of reports.
fn live(seed: u64, consents: bool) -> usize {
    let random = SeededRandom::new(seed);
    let greed = Greed { random, now: EPOCH + 10_000, got: BTreeMap::new(), drawn_twice: false };
    let greed = Arc::new(Mutex::new(greed));
    let server = {
        let greed = Arc::clone(&greed);
        Server::start(move |request| greed.lock().unwrap().answer(request))
    };
    let options = ClientOptions { attempts: 2, pause: Duration::from_millis(1), ..ClientOptions::default() };
    let client = Client::new(&server.url(), options).unwrap();
    let operator = SigningKey::from_bytes(&[7; 32]).verifying_key();
    let disk = SimulatedDisk::new(Broken::default(), seed);
    let mut random = SeededRandom::with_stream(seed, 1);
    let (mut agent, mut enrolled) = (None::<Agent<SimulatedDisk>>, None);
    let (mut now, mut left, mut reports) = (EPOCH + 10_000, Vec::<Left>::new(), BTreeMap::new());
    for _ in 0..100 {
        now += random.next_word() % TICK;
        greed.lock().unwrap().now = now;
        let reading = ClockReading { wall: now, steady: Steady { run: [1; 16], seconds: now - EPOCH } };
        // It restarts now and then, with the collector's present policy.
        if agent.is_none() || random.next_word().is_multiple_of(12) {
            let Ok(promised) = client.policy("visits", &operator) else { continue };
            drop(agent.take());
            let begin = if consents { Agent::enrol_anew } else { Agent::open };
            let before = disk.contents("position.device");
            agent = match begin(disk.clone(), "position", promised.clone(), b"", reading, &mut random) {
                Ok((agent, _)) => Some(agent),
                Err(AgentError::OtherPolicy { offered, .. }) => {
                    assert_eq!(*offered, *promised);
                    assert_eq!(disk.contents("position.device"), before, "seed {seed}: refused, and changed");
                    continue;
                }
                Err(fault) => panic!("{fault}"),
            };
        }
        let (Some(device), Ok(asking)) = (&mut agent, client.questions("visits", Some(3), Duration::from_secs(1)))
        else {
            continue;
        };
        for OpenQuestion { question, .. } in &asking.questions {
            let report = match device.answer(reading, &asking.stream, question, 2, &mut random) {
                Ok(AgentReply::Report(report)) => report,
                Ok(AgentReply::Refused(_)) => continue,
                Err(AgentError::BeforeEpoch) => panic!("the clock is right"),
                Err(fault) => panic!("{fault}"),
            };
            enrolled.get_or_insert_with(|| device.policy().clone());
            assert!(consents || enrolled.as_ref() == Some(device.policy()), "seed {seed}: the collector has its way");
            let StreamPolicy { stream, protects, slot_key, .. } = device.policy();
            let key = (stream.clone(), format!("{:?}", protects.window), *slot_key, question.timestamp, question.phase);
            match reports.insert(key, report.clone()) {
                None => left.push(Left {
                    at: now,
                    window: if *protects == policy(3).protects { 3 } else { 1 },
                    units: question.epsilon.units(),
                }),
                Some(before) => assert_eq!(before, report, "seed {seed}: one phase, two reports"),
            }
            let bytes = report.as_bytes();
            let mut batch = BatchWriter::new(StreamTag::of(stream), question.timestamp, question.phase, bytes.len());
            batch.push(device.report_id(question).unwrap(), bytes).unwrap();
            let _ = client.send(stream, &batch.write().unwrap());
        }
    }
    for first in &left {
        // A window's timestamps span at least a window minus one tick.
        let span = first.at..=first.at + (first.window - 1) * TICK;
        let lost: u64 = left.iter().filter(|other| span.contains(&other.at)).map(|other| other.units).sum();
        assert!(lost <= ALL, "seed {seed}: {lost} were lost from {} on, in a window of {}", first.at, first.window);
    }
    assert!(!greed.lock().unwrap().drawn_twice, "seed {seed}: two reports under one identity");
    left.len()
}

#[test]
fn no_collector_exceeds_the_window_over_http() {
    for consents in [false, true] {
        let reports: usize = (0..8).map(|seed| live(seed, consents)).sum();
        assert!(reports > 50, "only {reports} reports were made: the collector is not greedy enough to tell anything");
    }
}
