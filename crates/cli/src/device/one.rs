//! `tidegate device run`: a real device, with its ledger on disk.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tidegate_device::api::{OpenQuestion, Receipt};
use tidegate_device::client::{Client, ClientError};
use tidegate_device::clock::Clock;
use tidegate_device::credential::{BLOCK, Credential};
use tidegate_device::disk::Folder;
use tidegate_device::enrolment::Fingerprint;
use tidegate_device::sequence::MAX_LENGTH;
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_device::{Agent, AgentError, AgentReply, Beginning, RefusalReason};
use tidegate_kernel::oracle::Report;
use tidegate_kernel::{Question, SystemRandom};

use super::ahead::Ahead;
use super::connection::{Connection, explain};
use super::polling::Polling;
use super::values::{Names, Values};
use tidegate_release::gate::Reader;

use crate::arguments::at_least_one;
use crate::failure::{Failure, complain};
use crate::output::Output;

/// Run one device: it answers a collector's questions within its own ledger, and trusts nobody.
///
/// The stream's policy counts only with the operator's signature. What was spent is on the disk
/// before a report leaves; whatever the collector asks, the reports of any window lose no more than
/// the policy's epsilon. A new device, and one whose state was lost, first waits for a whole window.
/// A source of data has one ledger: give the same data the same --state and --source, whatever the
/// stream.
///
/// It keeps to the policy that it was enrolled with when it was new. Where the collector has another
/// one, it says what differs and stops; --accept-policy is your consent to that one. Then nothing is
/// answered until the old window has passed, and after that one of the new.
///
/// Values are names of the stream's domain, or numbers from 0 on. With --values they are read line by
/// line: VALUE counts from when it is read, T,VALUE from the timestamp T on. A device without a value
/// is silent; where that would tell something, let a value stand for it.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate device run --server https://collector.example --stream visits --operator-key \
                  operator.pub --state state --source position --value shop\n  \
                  positions | tidegate device run --server http://127.0.0.1:8420 --stream visits --operator-key \
                  operator.pub --state state --source position --values - --json"
)]
pub(crate) struct One {
    #[command(flatten)]
    connection: Connection,

    /// The folder for the device's state, which is made where there is none
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// Which data they are: lower-case letters, digits, _ and -
    #[arg(long, value_name = "NAME")]
    source: String,

    /// The value that the device holds: its name, or its number from 0 on
    #[arg(long, value_name = "V", required_unless_present = "values", conflicts_with = "values")]
    value: Option<String>,

    /// Where to read values from while it runs
    #[arg(long, value_name = "FILE|-")]
    values: Option<String>,

    /// A file that this machine has and no copy of it: a state that comes with another one was copied
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,

    /// The device's credential, where the stream needs one: what tidegate stream credential prints. With it the device
    /// draws one token for each timestamp; a report shows the token, and neither device nor credential
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,

    /// Take this policy and no other, also in place of the one that the data were enrolled under: its fingerprint, as
    /// the refusal has it
    #[arg(long, value_name = "FINGERPRINT")]
    accept_policy: Option<Fingerprint>,

    /// Stop after so many timestamps have passed
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    ticks: Option<NonZeroU64>,

    /// Print a line of JSON for each question
    #[arg(long)]
    json: bool,
}

/// How long to wait for a question of the next timestamp, as clocks differ slightly.
const SOON: Duration = Duration::from_millis(100);

/// Most timestamps whose values are gathered at once: as many as a batch has.
const MOST_MISSED: u64 = MAX_LENGTH as u64;

/// Most outcomes remembered for one timestamp.
const MOST_SETTLED: usize = 10_000;

impl One {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let client = self.connection.client(1)?;
        let witness = match &self.witness {
            None => Vec::new(),
            Some(path) => std::fs::read(path)
                .map_err(|error| Failure::input(format_args!("{} cannot be read: {error}", path.display())))?,
        };
        let policy = self.connection.policy(&client)?;
        let fingerprint = policy.fingerprint().map_err(Failure::run)?;
        if self.accept_policy.is_some_and(|accepted| accepted != fingerprint) {
            return Err(Failure::run(format_args!(
                "--accept-policy: the collector hands out another policy, with the fingerprint {fingerprint}"
            )));
        }
        let credential = self.credential(policy.issuer.is_some())?;
        let drawing = match credential {
            Some(credential) => Some((self.connection.server.client_once()?, credential)),
            None => None,
        };
        let values = self.values(&client, policy.protects.domain)?;
        let mut random = SystemRandom::new().map_err(Failure::run)?;
        let clock = Clock::new(&mut random);
        let folder = Folder::open(&self.state).map_err(|error| self.cannot_open(&error))?;
        let begin = if self.accept_policy.is_some() { Agent::enrol_anew } else { Agent::open };
        let (agent, beginning) = match begin(folder, &self.source, policy, &witness, clock.read(), &mut random) {
            Err(refused @ AgentError::OtherPolicy { .. }) => {
                return Err(Failure::run(format_args!(
                    "{refused}. Nothing has changed. If you are the owner and want that, run it again with \
                     --accept-policy {fingerprint}"
                )));
            }
            begun => begun.map_err(fault)?,
        };
        complain("device", begun(&beginning));
        if let Some(unknown) = clock.unknown() {
            complain("device", format_args!("{unknown}. What its window has spent counts as spent now"));
        }
        let output = Output::create("-")?;
        let (reader, ahead, client) = (Reader::Listens, Ahead::default(), &client);
        let (settled, gathered) = (BTreeSet::new(), None);
        Running { one: self, client, drawing, ahead, agent, values, clock, random, output, reader, settled, gathered }
            .run()
    }

    /// Reads the device's credential, which the stream needs or does not.
    fn credential(&self, is_needed: bool) -> Result<Option<Credential>, Failure> {
        let stream = &self.connection.stream;
        let Some(path) = &self.credential_file else {
            let missing = format_args!(
                "stream {stream} counts reports with tokens only: --credential-file FILE has the device's credential, \
                 which the operator gets by tidegate stream credential {stream} --device NAME"
            );
            return if is_needed { Err(Failure::input(missing)) } else { Ok(None) };
        };
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::input(format_args!("{name} cannot be read: {error}")))?;
        // The error would repeat parts of the secret.
        let credential: Credential = serde_json::from_str(&text).map_err(|_| {
            Failure::input(format_args!("{name}: expected what tidegate stream credential prints, and nothing else"))
        })?;
        if credential.stream() != stream {
            let of = credential.stream();
            return Err(Failure::input(format_args!("{name} is a credential for stream {of}, not for {stream}")));
        }
        Ok(Some(credential))
    }

    /// Opens the source of its values. Their names come from the collector, whatever the value is.
    fn values(&self, client: &Client, domain: u32) -> Result<Values, Failure> {
        let path = format!("/v1/streams/{}/values", self.connection.stream);
        let names: Names = match client.read(&path) {
            Ok(names) => names,
            // A collector that tells no names has numbers.
            Err(ClientError::Refused { status: 404, .. }) => Names::default(),
            Err(error) => return Err(explain(error)),
        };
        match (&self.value, &self.values) {
            (Some(value), _) => match names.find(value.trim()).filter(|value| *value < domain) {
                Some(value) => Ok(Values::Fixed(value)),
                None => Err(Failure::input(format_args!("--value: {}", names.describe(domain)))),
            },
            (None, Some(name)) => Values::read(name, names),
            // Unreachable: clap requires one of them.
            (None, None) => Err(Failure::input("a device needs --value or --values")),
        }
    }

    fn cannot_open(&self, error: &io::Error) -> Failure {
        let path = self.state.display();
        if error.kind() == io::ErrorKind::WouldBlock {
            return Failure::run(format_args!("{path} is used by another device: one state, one program"));
        }
        Failure::run(format_args!("{path} cannot be opened: {error}"))
    }
}

fn begun(beginning: &Beginning) -> String {
    match beginning {
        Beginning::Resumed => "goes on where it was".to_owned(),
        Beginning::New => "is new here, so a whole window counts as spent".to_owned(),
        Beginning::OtherPolicy => {
            "had another policy: nothing is answered until its window has passed, and then one of the new".to_owned()
        }
        Beginning::Lost(damage) => {
            format!("has a state that cannot be relied on, so a whole window counts as spent: {damage}")
        }
        _ => "begins".to_owned(),
    }
}

fn fault(fault: AgentError) -> Failure {
    match fault {
        AgentError::Source | AgentError::Spent => Failure::input(fault),
        fault => Failure::run(fault),
    }
}

/// A running device.
struct Running<'a> {
    one: &'a One,
    client: &'a Client,
    /// The client of draws, and the credential.
    drawing: Option<(Client, Credential)>,
    ahead: Ahead,
    agent: Agent<Folder>,
    values: Values,
    clock: Clock,
    random: SystemRandom,
    output: Output,
    reader: Reader,
    /// Outcomes already printed for the current questions.
    settled: BTreeSet<(u64, u16, &'static str)>,
    /// The last timestamp whose value was gathered.
    gathered: Option<u64>,
}

/// The outcome of a question.
enum Came {
    Sent(Receipt),
    Refused(RefusalReason),
    /// No value, or none of the domain.
    NoValue,
    /// The report was not accepted in time; it may have been counted.
    NotTaken(ClientError),
}

impl Came {
    /// Returns the outcome's name, and whether the question is finished.
    const fn word(&self) -> (&'static str, bool) {
        match self {
            Self::Sent(Receipt { accepted: 1.., .. }) => ("accepted", true),
            Self::Sent(Receipt { repeated: 1.., .. }) => ("repeated", true),
            Self::Sent(Receipt { conflicting: 1.., .. }) => ("conflicting", true),
            Self::Sent(Receipt { implausible: 1.., .. }) => ("implausible", true),
            Self::Sent(Receipt { wrong_token: 1.., .. }) => ("wrong_token", true),
            Self::Sent(_) => ("ignored", true),
            Self::Refused(reason @ (RefusalReason::NotNow | RefusalReason::NoToken)) => (reason.code(), false),
            Self::Refused(reason) => (reason.code(), true),
            Self::NoValue => ("no_value", true),
            Self::NotTaken(ClientError::Unavailable { .. }) => ("unavailable", false),
            Self::NotTaken(_) => ("not_taken", true),
        }
    }
}

impl Running<'_> {
    fn run(mut self) -> Result<(), Failure> {
        let stream = &self.one.connection.stream;
        let mut polling = Polling::new(self.client, stream);
        let first = self.now();
        let mut present = first;
        // Not first when a question arrives.
        self.draw(false)?;
        loop {
            let now = self.now();
            if now != present {
                present = now;
                self.settled.clear();
            }
            self.gather(now);
            let is_enough = self.one.ticks.is_some_and(|ticks| now.saturating_sub(first) >= ticks.get());
            if is_enough || self.reader == Reader::WentAway {
                return self.output.finish();
            }
            let ends = self.agent.policy().ticks.end_of(now).saturating_sub(self.clock.read().wall);
            let patience = Duration::from_secs(ends.max(1));
            let Some(asking) = polling.next(self.draw_ahead()?.map_or(patience, |left| left.min(patience)))? else {
                continue;
            };
            let (asked_by, questions) = (asking.stream.clone(), asking.questions.clone());
            // Wait once, for all of them.
            if questions.iter().any(|asked| asked.question.timestamp.checked_sub(1) == Some(self.now())) {
                thread::sleep(SOON);
            }
            // Only where there is no token for the present: a draw just before a report is joined to it by time.
            self.draw(false)?;
            for asked in &questions {
                self.answer(&asked_by, asked)?;
            }
        }
    }

    /// Draws tokens for the next block when that is due. Returns how long it is until then.
    fn draw_ahead(&mut self) -> Result<Option<Duration>, Failure> {
        if self.drawing.is_none() {
            return Ok(None);
        }
        let (block, ticks) = (self.now() / BLOCK, self.agent.policy().ticks);
        let last = block.saturating_mul(BLOCK).saturating_add(BLOCK - 1);
        let rest = Duration::from_secs(ticks.end_of(last).saturating_sub(self.clock.read().wall));
        let left = self.ahead.left(block, rest, Instant::now(), &mut self.random);
        if left.is_some_and(|left| left.is_zero()) {
            let is_done = self.draw(true)?;
            self.ahead.tried(block, is_done);
            return Ok(self.ahead.left(block, rest, Instant::now(), &mut self.random));
        }
        Ok(left)
    }

    /// Draws tokens for the present block or the next, unless they are there; returns whether they are then. After a
    /// failure it draws the same again, sooner or later.
    fn draw(&mut self, is_ahead: bool) -> Result<bool, Failure> {
        let Some((client, credential)) = &self.drawing else { return Ok(true) };
        let (now, agent, random) = (self.clock.read(), &mut self.agent, &mut self.random);
        let draw = if is_ahead { agent.draw_ahead(now, random) } else { agent.draw(now, random) };
        let Some(draw) = draw.map_err(fault)? else { return Ok(true) };
        let (block, request) = (draw.block(), draw.request(credential));
        let problem = match client.draw(&self.one.connection.stream, &request) {
            Ok(answer) => match self.agent.drawn(block, &answer) {
                Ok(()) => return Ok(true),
                Err(AgentError::Token(error)) => error.to_string(),
                Err(error) => return Err(fault(error)),
            },
            // Neither the token nor the credential becomes better by trying again.
            Err(error @ ClientError::Refused { status: 401 | 403, .. }) => return Err(explain(error)),
            Err(error @ (ClientError::Unavailable { .. } | ClientError::Refused { .. } | ClientError::Answer(_))) => {
                error.to_string()
            }
            Err(error) => return Err(explain(error)),
        };
        // Once for each timestamp.
        if self.settled.insert((block, u16::MAX, "draw")) {
            complain("device", format_args!("no tokens for the timestamps from {} on: {problem}", block * BLOCK));
        }
        Ok(false)
    }

    /// Gathers the values of all timestamps up to now: a collector may have been away for some.
    fn gather(&mut self, now: u64) {
        let first =
            self.gathered.map_or(now, |gathered| gathered.saturating_add(1)).max(now.saturating_sub(MOST_MISSED));
        for timestamp in first..=now {
            // A missing value becomes one outside every domain.
            let value = self.values.at(timestamp).unwrap_or(u32::MAX);
            self.agent.gather(self.clock.read(), timestamp, value);
        }
        self.gathered = Some(now);
    }

    fn now(&self) -> u64 {
        self.agent.policy().ticks.timestamp(self.clock.read().wall).unwrap_or(0)
    }

    /// Answers a question, unless that is done.
    fn answer(&mut self, stream: &str, asked: &OpenQuestion) -> Result<(), Failure> {
        let (timestamp, phase) = (asked.question.timestamp, asked.question.phase);
        // Caps the work for a collector that asks thousands of questions at once.
        if self.settled.contains(&(timestamp, phase, "")) || self.settled.len() > MOST_SETTLED {
            return Ok(());
        }
        let came = self.come(stream, asked)?;
        let (word, is_over) = came.word();
        if is_over {
            self.settled.insert((timestamp, phase, ""));
        }
        if self.settled.insert((timestamp, phase, word)) {
            self.tell(timestamp, phase, &came)?;
        }
        Ok(())
    }

    fn come(&mut self, stream: &str, asked: &OpenQuestion) -> Result<Came, Failure> {
        let question = &asked.question;
        self.gather(self.now());
        // At the device's own time. A missing value becomes one outside every domain, so costs and later refusals are
        // the same.
        let value = self.values.at(self.now()).unwrap_or(u32::MAX);
        let reply = self.agent.answer(self.clock.read(), stream, question, value, &mut self.random);
        let report = match reply {
            Ok(AgentReply::Report(report)) => report,
            Ok(AgentReply::Refused(reason)) => return Ok(Came::Refused(reason)),
            Err(AgentError::Value(_)) => return Ok(Came::NoValue),
            Err(other) => return Err(fault(other)),
        };
        let Some(id) = self.agent.report_id(question) else { return Ok(Came::Refused(RefusalReason::NoToken)) };
        let batch = self.batch(question, id, &report)?;
        match self.client.send(&self.one.connection.stream, &batch) {
            Ok(receipt) => Ok(Came::Sent(receipt)),
            Err(error @ ClientError::Refused { status: 401 | 403, .. }) => Err(explain(error)),
            Err(error @ (ClientError::Unavailable { .. } | ClientError::Refused { .. } | ClientError::Answer(_))) => {
                Ok(Came::NotTaken(error))
            }
            Err(error) => Err(explain(error)),
        }
    }

    fn batch(&self, question: &Question, id: ReportId, report: &Report) -> Result<Vec<u8>, Failure> {
        let (stream, bytes) = (StreamTag::of(&self.agent.policy().stream), report.as_bytes());
        let mut batch = BatchWriter::new(stream, question.timestamp, question.phase, bytes.len());
        batch.push_with(id, self.agent.prove(question, report), bytes).map_err(Failure::run)?;
        batch.write().map_err(Failure::run)
    }

    /// Prints the outcome of a question.
    fn tell(&mut self, timestamp: u64, phase: u16, came: &Came) -> Result<(), Failure> {
        let (word, _) = came.word();
        let said = match came {
            Came::Sent(Receipt { accepted: 1.., .. }) => "answered, and the report was accepted".to_owned(),
            Came::Sent(Receipt { repeated: 1.., .. }) => "answered again, with the identical report".to_owned(),
            Came::Sent(_) => format!("answered, but the report was not taken: {word}"),
            Came::Refused(RefusalReason::NotAsked) => "others are asked".to_owned(),
            Came::Refused(reason) => format!("refused: {}", in_words(*reason)),
            Came::NoValue => "not answered: there is no value of the domain to report".to_owned(),
            Came::NotTaken(error) => format!("answered, but {error}"),
        };
        complain("device", format_args!("timestamp {timestamp}, phase {phase}: {said}"));
        if self.one.json {
            let line = json!({ "t": timestamp, "phase": phase, "outcome": word, "said": said });
            self.reader = self.output.write(&format!("{line}\n"))?;
        }
        Ok(())
    }
}

const fn in_words(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::OtherStream => "it is about another stream than the one that these data were enrolled with",
        RefusalReason::NotAsked => "others are asked",
        RefusalReason::NotNow => "it is about another time than the present",
        RefusalReason::OtherDomain => "it is about another domain than the policy's",
        RefusalReason::OtherOracle => "it wants another oracle or form than the policy's",
        RefusalReason::Answered => "its phase, or a later one, was answered",
        RefusalReason::Malformed => "it makes no sense",
        RefusalReason::NoChannel => "there is no channel for it",
        RefusalReason::NoToken => "there is no token for it yet",
        RefusalReason::Budget => "the window has too little budget left",
        _ => "the policy does not allow it",
    }
}
