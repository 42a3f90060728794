//! `tidegate device`, against a collector that the tests play.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tidegate_device::DevicePolicy;
use tidegate_device::api::{OpenQuestion, OpenQuestions, Receipt};
use tidegate_device::clock::Ticks;
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::wire::Batch;
use tidegate_kernel::oracle::{Aggregate, OracleKind};
use tidegate_kernel::{Cohort, Question, SLOTS, View, Window};
use tidegate_lab::city::City;

use crate::folder::TestFolder;
use crate::http_server::{Answer, Request, Server};
use crate::{assert_refused, command, run, stderr, stdout};

/// A collector that asks every tick what it is told to, and counts every report once.
struct Collector {
    policy: StreamPolicy,
    /// The questions of each timestamp: who, and with how much.
    questions: Vec<(Cohort, &'static str)>,
    oracle: OracleKind,
    /// Whether it asks for other times, too, before it asks for the present.
    is_greedy: bool,
    counted: BTreeMap<(u64, u16), Counted>,
}

struct Counted {
    aggregate: Aggregate,
    reports: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn wall() -> u64 {
    now().as_secs()
}

fn operator() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn operator_digits() -> String {
    operator().verifying_key().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Collector {
    /// Ticks of so many seconds, and a window of three of them.
    fn new(seconds: u64, questions: Vec<(Cohort, &'static str)>, oracle: OracleKind) -> Self {
        let policy = StreamPolicy {
            stream: "visits".to_owned(),
            protects: DevicePolicy { epsilon: "2".parse().unwrap(), window: Window::of(3).unwrap(), domain: 6 },
            oracle: None,
            ticks: Ticks { epoch: 0, seconds: NonZeroU64::new(seconds).unwrap() },
            slot_key: *b"sixteen byte key",
            sequence: None,
            issuer: None,
        };
        Self { policy, questions, oracle, is_greedy: false, counted: BTreeMap::new() }
    }

    fn start(self) -> (Server, Arc<Mutex<Self>>) {
        let collector = Arc::new(Mutex::new(self));
        let shared = Arc::clone(&collector);
        (Server::start(move |request| shared.lock().unwrap().answer(request)), collector)
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let answer = match request.path.split('?').next().unwrap() {
            "/v1/streams/visits/policy" => json!(self.policy.clone().sign(&operator()).unwrap()),
            "/v1/streams/visits/questions" => json!(self.asking()),
            "/v1/streams/visits/reports" => json!(self.take(&request.body)),
            _ => return Answer::Json(404, json!({ "error": "no_stream", "message": "there is none" }).to_string()),
        };
        Answer::Json(200, answer.to_string())
    }

    fn question(&self, timestamp: u64, phase: usize) -> Question {
        let (cohort, epsilon) = self.questions[phase];
        Question {
            timestamp,
            phase: u16::try_from(phase).unwrap(),
            cohort,
            epsilon: epsilon.parse().unwrap(),
            oracle: self.oracle,
            domain: 6,
            view: View::Values,
        }
    }

    fn asking(&self) -> OpenQuestions {
        let (time, ticks) = (now(), &self.policy.ticks);
        let now = ticks.timestamp(time.as_secs()).unwrap();
        // Not near the end of a tick: what is answered is to arrive within it.
        let left = Duration::from_secs(ticks.end_of(now)).saturating_sub(time);
        if 2 * left < Duration::from_secs(ticks.seconds.get()) {
            return OpenQuestions { stream: "visits".to_owned(), round: 2 * now + 1, questions: Vec::new() };
        }
        let asked = |phase| {
            let question = self.question(now, phase);
            let report_length = question.oracle().unwrap().report_length();
            OpenQuestion { question, report_length, closes: 1_000 * ticks.end_of(now) }
        };
        let mut questions: Vec<OpenQuestion> = (0..self.questions.len()).map(asked).collect();
        if self.is_greedy {
            let others = [now + 1, now + 1_000_000, u64::MAX, 0].repeat(100);
            let at = |timestamp| OpenQuestion {
                question: Question { timestamp, ..questions[0].question.clone() },
                ..questions[0].clone()
            };
            questions = others.into_iter().map(at).chain(questions.clone()).collect();
        }
        OpenQuestions { stream: "visits".to_owned(), round: 2 * now, questions }
    }

    fn take(&mut self, body: &[u8]) -> Receipt {
        let batch = Batch::parse(body).unwrap();
        let oracle = self.question(batch.timestamp, usize::from(batch.phase)).oracle().unwrap();
        let fresh = || Counted { aggregate: oracle.aggregate(), reports: BTreeMap::new() };
        let counted = self.counted.entry((batch.timestamp, batch.phase)).or_insert_with(fresh);
        let mut receipt = Receipt::default();
        for (id, report) in batch.iter() {
            match counted.reports.insert(id.as_bytes().to_vec(), report.to_vec()) {
                None => {
                    counted.aggregate.add(report).unwrap();
                    receipt.accepted += 1;
                }
                Some(before) if before == report => receipt.repeated += 1,
                Some(_) => receipt.conflicting += 1,
            }
        }
        receipt
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_fleet_answers_what_its_cohorts_are_asked_and_no_more() {
    let half = SLOTS / 2;
    let questions = vec![
        (Cohort::Slots { first: 40_000, count: half }, "1.5"),
        (Cohort::Slots { first: 7_232, count: half }, "1.5"),
    ];
    let (server, collector) = Collector::new(2, questions, OracleKind::Grr).start();
    let (url, key) = (server.url(), operator_digits());
    let fleet = |options: &str| {
        command(&format!("device fleet --server {url} --stream visits --operator-key {key} --devices 20000 {options}"))
            .env("TIDEGATE_TOKEN", "a-token")
            .output()
            .unwrap()
    };
    let output = fleet("--ticks 2 --json");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("policy: stream visits: epsilon 2 in any 3 timestamps of 2 s each"));
    assert!(stderr(&output).contains("its reports are not private"));
    assert!(server.requests().iter().all(|request| request.header("authorization") == Some("Bearer a-token")));
    let rows = lines(stdout(&output));
    let first = rows[0]["t"].as_u64().unwrap();
    let (asked, rest): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["t"] == first);
    assert_eq!(asked.iter().map(|row| row["asked"].as_u64().unwrap()).sum::<u64>(), 20_000);
    for row in &asked {
        assert!(row["asked"].as_u64().unwrap().abs_diff(10_000) < 425, "six deviations of 71: {row}");
        assert_eq!((&row["sent"], &row["accepted"]), (&row["asked"], &row["asked"]));
        assert_eq!((&row["refused"], row["lost"].as_u64()), (&json!({}), Some(0)));
    }
    // Everybody has spent 1.5 of 2.
    for row in &rest {
        assert_eq!((&row["refused"]["budget"], row["sent"].as_u64()), (&row["asked"], Some(0)), "{row}");
    }
    // What the devices held is what the data set says, give or take the noise.
    let users = 20_000.try_into().unwrap();
    let city =
        City { users, days: 7.try_into().unwrap(), epsilon: "1".parse().unwrap(), window: NonZeroU64::MIN, seed: 1 };
    let stream = city.stream().unwrap();
    let truth = stream.frequencies(usize::try_from(first % stream.length() as u64).unwrap());
    let counted = &collector.lock().unwrap().counted;
    for phase in [0, 1] {
        let estimate = counted[&(first, phase)].aggregate.estimate().unwrap();
        for (estimated, truth) in estimate.frequencies().iter().zip(&truth) {
            // The deviation of randomised response among 10,000 at epsilon 1.5 is below 0.013.
            assert!((estimated - truth).abs() < 6.0 * 0.013, "{:?} {truth:?}", estimate.frequencies());
        }
    }
}

#[test]
fn poisoners_send_what_no_device_sends_whatever_their_ledger_says() {
    let (server, collector) = Collector::new(2, vec![(Cohort::Everyone, "2")], OracleKind::Oue).start();
    let (url, key) = (server.url(), operator_digits());
    let output = run(&format!(
        "device fleet --server {url} --stream visits --operator-key {key} --devices 500 --poison 30 --ticks 2 \
         --batch 64 --seed 9"
    ));
    assert!(output.status.success(), "{}", stderr(&output));
    let counted = &collector.lock().unwrap().counted;
    let all_ones = |at: &Counted| at.reports.values().filter(|report| report[..] == [0b11_1111]).count();
    let numbers: Vec<_> = counted.values().map(|at| (at.reports.len(), all_ones(at))).collect();
    assert!(numbers[0].0 == 500 && (30..60).contains(&numbers[0].1), "{numbers:?}");
    assert!(numbers[1..].iter().all(|later| *later == (30, 30)), "{numbers:?}");
    assert!(stdout(&output).contains("500 asked, 500 sent, 500 accepted"), "{}", stdout(&output));
    assert!(stdout(&output).contains("; 470 refused by devices (budget)"), "{}", stdout(&output));
}

#[test]
fn a_device_waits_for_a_window_answers_and_goes_on_where_it_was() {
    let greedy = Collector { is_greedy: true, ..Collector::new(1, vec![(Cohort::Everyone, "1")], OracleKind::Grr) };
    let (server, collector) = greedy.start();
    let folder = directory("run");
    let key = folder.join("operator.pub");
    std::fs::write(&key, operator_digits() + "\n").unwrap();
    let state = folder.join("state");
    let device = |options: &str| {
        run(&format!(
            "device run --server {} --stream visits --operator-key {} --state {} --source position --json {options}",
            server.url(),
            key.display(),
            state.display()
        ))
    };
    let output = device("--value 3 --ticks 6");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    for part in
        ["device: is new here, so a whole window counts as spent", "refused: the window has too little budget left"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.contains("answered, and the report was accepted"), "{said}");
    let mut rows = lines(stdout(&output));
    let outcome = |row: &Value| row["outcome"].as_str().unwrap().to_owned();
    rows.retain(|row| outcome(row) != "not_now");
    assert_eq!(outcome(&rows[0]), "budget", "{rows:?}");
    assert!(rows.iter().filter(|row| outcome(row) == "accepted").count() >= 1, "{rows:?}");
    // Again, with what is left; and the value is read from a file.
    let values = folder.join("values.csv");
    std::fs::write(&values, format!("t,value\n0,2\n{},4\n", wall() + 1_000)).unwrap();
    let output = device(&format!("--values {} --ticks 2", values.display()));
    assert!(stderr(&output).contains("device: goes on where it was"), "{}", stderr(&output));
    assert!(stderr(&output).contains("the report was accepted"), "{}", stderr(&output));
    // Without a value it is silent, and has spent the same.
    let silent = device("--values /dev/null --ticks 5");
    let mut outcomes: Vec<String> =
        lines(stdout(&silent)).iter().map(outcome).filter(|word| word != "not_now").collect();
    outcomes.dedup();
    assert!(outcomes.contains(&"no_value".to_owned()) && outcomes.contains(&"budget".to_owned()), "{outcomes:?}");
    let counted = &collector.lock().unwrap().counted;
    assert!(counted.values().all(|at| at.reports.len() == 1), "one device");
    let window = |first: &u64| counted.keys().filter(|(t, _)| (*first..first + 3).contains(t)).count();
    assert!(counted.keys().all(|(first, _)| window(first) <= 2), "more than the budget: {:?}", counted.keys());
}

#[test]
fn a_weaker_policy_takes_effect_only_if_the_owner_accepts_it_by_its_fingerprint() {
    let (server, collector) = Collector::new(1, vec![(Cohort::Everyone, "1")], OracleKind::Grr).start();
    let folder = directory("accept");
    let state = folder.join("state");
    let device = |options: &str| {
        let (url, key, state) = (server.url(), operator_digits(), state.display());
        run(&format!(
            "device run --server {url} --stream visits --operator-key {key} --state {state} --source position \
             --value 3 {options}"
        ))
    };
    let begun = device("--ticks 1");
    assert!(begun.status.success() && stderr(&begun).contains("device: is new here"), "{}", stderr(&begun));
    let saved = || std::fs::read(state.join("position.device")).unwrap();
    let before = saved();
    let fingerprint = {
        let policy = &mut collector.lock().unwrap().policy;
        policy.protects.epsilon = "20".parse().unwrap();
        policy.protects.window = Window::EVENT;
        policy.fingerprint().unwrap().to_string()
    };
    let refused = device("--ticks 1");
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    for part in ["epsilon 20 instead of 2", "window 1 instead of 3", &format!("--accept-policy {fingerprint}")] {
        assert!(said.contains(part), "{said}");
    }
    let other = device(&format!("--ticks 1 --accept-policy {}", "0".repeat(64)));
    assert!(other.status.code() == Some(1) && stderr(&other).contains(&fingerprint), "{}", stderr(&other));
    assert_refused(&device("--accept-policy yes"), "64 hexadecimal digits");
    assert_eq!(saved(), before, "the state was touched");
    let accepted = device(&format!("--ticks 1 --accept-policy {fingerprint}"));
    assert!(stderr(&accepted).contains("device: had another policy"), "{}", stderr(&accepted));
    let again = device("--ticks 1");
    assert!(stderr(&again).contains("device: goes on where it was"), "{}", stderr(&again));
}

#[test]
fn what_devices_are_given_is_checked_before_anything_is_sent() {
    let (server, _) = Collector::new(1, vec![(Cohort::Everyone, "1")], OracleKind::Grr).start();
    let (url, key) = (server.url(), operator_digits());
    let fleet = |server: &str, key: &str, options: &str| {
        let output =
            run(&format!("device fleet --server {server} --stream visits --operator-key {key} --devices 10 {options}"));
        let said = stderr(&output);
        // The first line warns that this is a simulation.
        let error = said.lines().find(|line| line.starts_with("error: ")).unwrap_or(said).to_owned();
        (output.status.code(), error)
    };
    let refused = |server: &str, key: &str, options: &str, code: i32, why: &str| {
        let (given, error) = fleet(server, key, options);
        assert!(given == Some(code) && error.contains(why), "{given:?} {error}");
    };
    refused("http://192.0.2.1", &key, "", 2, "plain http is for this machine only");
    refused(&url, "abc", "", 2, "64 hexadecimal digits");
    refused(&url, "no/such/file", "", 2, "or a file: ");
    refused(&url, &"0".repeat(64), "", 2, "64 hexadecimal digits");
    let other: String =
        SigningKey::from_bytes(&[8; 32]).verifying_key().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    refused(&url, &other, "", 1, "not signed by the operator");
    refused(&url, &key, "--dataset sin", 2, "sin has 2 values, but the stream has 6");
    refused(&url, &key, "--dataset sin", 2, "as in --dataset FILE, a table t,home,work,away of counts");
    let folder = TestFolder::new();
    let table = folder.file("counts.csv");
    std::fs::write(&table, "date,a,b\n0,1,2\n").unwrap();
    let form = "line 1: expected a table t,home,work,away of counts, with a column for each value";
    refused(&url, &key, &format!("--dataset {}", table.display()), 2, form);
    refused(&url, &key, "--dataset markov_90", 2, "is a stream of symbols");
    refused(&url, &key, "--batch 100001", 2, "from 1 to 100000");
    refused(&url, &key, "--ca no/such/file", 2, "cannot be read");
    let one = |options: &str| {
        run(&format!("device run --server {url} --stream visits --operator-key {key} --state s --source x {options}"))
    };
    assert_refused(&one(""), "--value");
    assert_refused(&one("--value 1 --values -"), "cannot be used with");
    let outside = one("--value 6");
    assert!(outside.status.code() == Some(2) && stderr(&outside).contains("the stream has the values 0 to 5"));
    assert!(!Path::new("s").exists(), "nothing was made");
}

/// The most memory that a process had, in bytes, until it ended.
#[cfg(target_os = "linux")]
fn most_memory(child: &mut std::process::Child) -> u64 {
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        most = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(most);
        std::thread::sleep(Duration::from_millis(50));
    }
    most << 10
}

#[cfg(target_os = "linux")]
#[test]
fn a_million_devices_answer_two_rounds_within_a_tick() {
    let half = SLOTS / 2;
    let rounds = [0, 32_768].map(|first| (Cohort::Slots { first, count: half }, "1.5")).to_vec();
    let mut collector = Collector::new(30, rounds, OracleKind::Oue);
    // The tick begins now.
    collector.policy.ticks.epoch = wall();
    let (server, _) = collector.start();
    let (url, key) = (server.url(), operator_digits());
    let mut fleet = command(&format!(
        "device fleet --server {url} --stream visits --operator-key {key} --devices 1000000 --ticks 1 --json"
    ));
    let mut child = fleet.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let memory = most_memory(&mut child);
    let output = child.wait_with_output().unwrap();
    let rows = lines(stdout(&output));
    rows.iter().for_each(|row| println!("{row}"));
    println!("{} MiB at most", memory >> 20);
    assert!(output.status.success() && rows.len() == 2);
    assert_eq!(rows.iter().map(|row| row["accepted"].as_u64().unwrap()).sum::<u64>(), 1_000_000);
    assert!(memory < 512 << 20, "{memory} bytes");
}
