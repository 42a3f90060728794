//! `tidegate device fleet`: a simulated fleet that answers a collector over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use tidegate_device::api::{OpenQuestion, Receipt};
use tidegate_device::client::{Client, ClientError};
use tidegate_device::clock::Clock;
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::sequence::SequenceRule;
use tidegate_device::wire::{BatchWriter, MAX_REPORTS, MAX_TOKENS, ReportId, StreamTag};
use tidegate_device::{PreparedQuestion, RefusalReason};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Epsilon, Ledger, SeededRandom, Window};
use tidegate_lab::city::City;
use tidegate_lab::datasets::{self, DatasetError};
use tidegate_lab::{CountStream, DataStream};
use tidegate_table::TableError;

use super::connection::Connection;
use super::drawing::Drawing;
use super::polling::Polling;
use super::population::{Dealt, Member, Population, identity, noise_stream};
use tidegate_lab::evaluate::cannot_load;
use tidegate_release::gate::Reader;

use crate::arguments::at_least_one;
use crate::failure::{Failure, complain};
use crate::output::Output;

/// Simulate a fleet of devices that answer a collector over HTTP.
///
/// Each is a device with a ledger and a slot of its own, and answers as a real one does; but its
/// state is in memory, it has never answered before, and all of its randomness comes from the seed:
/// what it reports is not private. The values are those of a data set: at each timestamp as many
/// devices hold a value as its shares say, and few change theirs where the shares change little.
/// After the last timestamp of the data set comes the first.
///
/// A line a question says how many devices were asked, how many reports were sent, and what became
/// of them. It exits with 1 if reports could not be delivered; those that the service has rejected were.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate device fleet --server http://127.0.0.1:8420 --stream visits --operator-key \
                  operator.pub --devices 1000000\n  \
                  tidegate device fleet --server http://127.0.0.1:8420 --stream sales --operator-key operator.pub \
                  --devices 20000 --dataset sales.csv --ticks 10 --json"
)]
pub(crate) struct Fleet {
    #[command(flatten)]
    pub(crate) connection: Connection,

    /// How many devices there are
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU32>)]
    pub(crate) devices: NonZeroU32,

    /// A stream of counts: city, the name of a data set, or the path of a table
    #[arg(long, value_name = "NAME|PATH", default_value = "city")]
    pub(crate) dataset: String,

    /// The directory with the folders of the real data sets
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Where identities, values and noise come from; the same seed makes the same devices
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,

    /// How many reports are sent at once
    #[arg(long, value_name = "N", default_value = "1000", value_parser = batch_size)]
    pub(crate) batch: NonZeroUsize,

    /// How many threads answer and send, each over a connection of its own
    #[arg(long, value_name = "N", default_value = "4", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) connections: NonZeroUsize,

    /// Stop after so many timestamps at which something was asked
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    pub(crate) ticks: Option<NonZeroU64>,

    /// So many of the devices send the same false report whenever they are asked, whatever their ledger says
    #[arg(long, value_name = "K", default_value = "0")]
    pub(crate) poison: u32,

    /// A file with an operator's token, to get credentials for the devices, where the stream has them
    #[arg(long, value_name = "FILE")]
    pub(crate) operator_token_file: Option<PathBuf>,

    /// Print a line of JSON for each question
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing beside what became of questions
    #[arg(skip)]
    pub(crate) quiet: bool,

    /// How many days the city has; then they come round again
    #[arg(skip = DAYS)]
    pub(crate) days: NonZeroU32,
}

fn batch_size(text: &str) -> Result<NonZeroUsize, String> {
    let within = |size: &NonZeroUsize| size.get() <= MAX_REPORTS;
    text.parse().ok().filter(within).ok_or_else(|| format!("expected a whole number from 1 to {MAX_REPORTS}"))
}

/// The form of a table of counts; the names are an example.
const FORM: &str = "a table t,home,work,away of counts, with a column for each value";

/// Default number of simulated days.
const DAYS: NonZeroU32 = NonZeroU32::MIN.saturating_add(6);

impl Fleet {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut output = Output::create("-")?;
        let write = |answered: &Answered<'_>| {
            let line = if self.json { answered.as_json() } else { answered.as_text() };
            output.write(&line)
        };
        let Some(lost) = self.simulate(write)? else { return Ok(()) };
        output.finish()?;
        match lost {
            0 => Ok(()),
            lost => Err(Failure::run(format_args!("{lost} reports could not be delivered"))),
        }
    }

    /// Answers until told to stop, and prints the outcome of each question. Returns how many reports could not be
    /// delivered, or `None` if the reader of the output went away.
    pub(crate) fn simulate(
        &self,
        mut tell: impl FnMut(&Answered<'_>) -> Result<Reader, Failure>,
    ) -> Result<Option<u64>, Failure> {
        let seed = self.seed;
        self.say(
            "warning",
            format_args!(
                "this fleet is simulated from the seed {seed}: its reports are not private, and its ledgers are in \
                 memory only"
            ),
        );
        let client = self.connection.client(self.connections.get() + 1)?;
        let stream = self.stream()?;
        let policy = self.connection.policy(&client)?.into_policy();
        let domain = policy.protects.domain;
        if u32::try_from(stream.domain()) != Ok(domain) {
            return Err(Failure::input(format_args!(
                "--dataset: {} has {} values, but the stream has {domain}: name a stream of counts that fits, as in \
                 --dataset FILE, {FORM}",
                stream.name(),
                stream.domain()
            )));
        }
        let start = Instant::now();
        let population = Population::new(self.devices.get(), &policy, seed);
        let seconds = start.elapsed().as_secs_f64();
        self.say("fleet", format_args!("{} devices, ready after {seconds:.1} s", self.devices));
        let clock = Clock::new(&mut SeededRandom::new(seed));
        let rule = policy.sequence.as_ref().map(SequenceRule::new).transpose().map_err(Failure::run)?;
        let (server, operator) = (&self.connection.server, self.operator_token_file.as_deref());
        let drawing = Drawing::new(server, operator, &policy, self.devices.get(), seed)?;
        let client = &client;
        Running { fleet: self, client, drawing, policy, rule, stream, population, clock, undelivered: 0 }.run(&mut tell)
    }

    fn say(&self, kind: &str, message: impl std::fmt::Display) {
        if !self.quiet {
            complain(kind, message);
        }
    }

    /// Returns the counts, scaled to the number of devices.
    fn stream(&self) -> Result<CountStream, Failure> {
        if self.dataset == "city" {
            // Only the counts are used; any epsilon will do.
            let epsilon = "1".parse().map_err(Failure::run)?;
            let city = City { users: self.devices, days: self.days, epsilon, window: NonZeroU64::MIN, seed: self.seed };
            return city.stream().map_err(Failure::input);
        }
        let options = datasets::LoadOptions {
            data_dir: self.data_dir.clone(),
            population: Some(u64::from(self.devices.get())),
            seed: self.seed,
            ..datasets::LoadOptions::default()
        };
        match datasets::load(&self.dataset, &options) {
            Ok(DataStream::Counts(stream)) => Ok(stream),
            Ok(other) => Err(Failure::input(format_args!(
                "--dataset: {} is a stream of {}, and devices report counts",
                other.name(),
                other.kind()
            ))),
            // Its advice is to options that this command lacks.
            Err(DatasetError::Table(TableError::Header { file, expected })) if expected.contains("--") => {
                Err(Failure::input(format_args!("--dataset: {file}, line 1: expected {FORM}")))
            }
            Err(error) => Err(cannot_load(&self.dataset, error).into()),
        }
    }
}

/// A question, its outcome, and the time that it took.
#[derive(Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) timestamp: u64,
    phase: u16,
    pub(crate) tally: &'a Tally,
    seconds: f64,
}

/// The outcome of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    asked: u64,
    sent: u64,
    pub(crate) received: Receipt,
    /// The most that any of these devices has spent in its window.
    pub(crate) fullest: Option<Epsilon>,
    /// Refusals of devices, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// Reports that the collector rejected, by reason.
    turned_away: BTreeMap<String, u64>,
    /// Reports whose delivery is unknown.
    lost: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        let Self { asked, sent, received, fullest, refused, turned_away, lost } = other;
        self.fullest = self.fullest.max(fullest);
        self.asked += asked;
        self.sent += sent;
        self.received.accepted += received.accepted;
        self.received.repeated += received.repeated;
        self.received.conflicting += received.conflicting;
        self.received.implausible += received.implausible;
        self.received.wrong_token += received.wrong_token;
        refused.into_iter().for_each(|(reason, count)| *self.refused.entry(reason).or_default() += count);
        turned_away.into_iter().for_each(|(reason, count)| *self.turned_away.entry(reason).or_default() += count);
        self.lost += lost;
    }
}

/// A running fleet.
struct Running<'a> {
    fleet: &'a Fleet,
    client: &'a Client,
    /// How devices get tokens, where they need them.
    drawing: Option<Drawing>,
    policy: StreamPolicy,
    /// How devices release sequences, where they do.
    rule: Option<SequenceRule>,
    stream: CountStream,
    population: Population,
    clock: Clock,
    undelivered: u64,
}

impl Running<'_> {
    fn run(mut self, tell: &mut dyn FnMut(&Answered<'_>) -> Result<Reader, Failure>) -> Result<Option<u64>, Failure> {
        let mut polling = Polling::new(self.client, &self.fleet.connection.stream);
        let (mut answered, mut ticks) = (BTreeSet::new(), 0);
        loop {
            let now = self.now();
            let present = answered.split_off(&(now, 0));
            ticks += answered.iter().map(|(timestamp, _)| *timestamp).collect::<BTreeSet<u64>>().len() as u64;
            answered = present;
            if self.fleet.ticks.is_some_and(|most| ticks >= most.get()) {
                break;
            }
            let left = self.policy.ticks.end_of(now).saturating_sub(self.clock.read().wall);
            let Some(asking) = polling.next(Duration::from_secs(left.max(1)))? else { continue };
            if asking.stream != self.policy.stream {
                return Err(Failure::run("the collector asks for another stream than the policy's"));
            }
            // The question that closes first comes first.
            let mut questions = asking.questions.clone();
            questions.sort_by_key(|asked| asked.closes);
            for asked in questions {
                let question = &asked.question;
                let is_new = question.timestamp == self.now() && answered.insert((question.timestamp, question.phase));
                if is_new && self.answer(asked, tell)? == Reader::WentAway {
                    return Ok(None);
                }
            }
        }
        Ok(Some(self.undelivered))
    }

    fn now(&self) -> u64 {
        self.policy.ticks.timestamp(self.clock.read().wall).unwrap_or(0)
    }

    /// Lets the devices of a question's cohort answer, and returns the outcome.
    fn answer(
        &mut self,
        asked: OpenQuestion,
        tell: &mut dyn FnMut(&Answered<'_>) -> Result<Reader, Failure>,
    ) -> Result<Reader, Failure> {
        let start = Instant::now();
        let (timestamp, phase) = (asked.question.timestamp, asked.question.phase);
        let mut tally = match self.refusal(&asked) {
            Some(reason) => {
                let asked: usize = self.population.cohort(asked.question.cohort).iter().map(|part| part.len()).sum();
                let refused = BTreeMap::from([(reason.code(), asked as u64)]);
                Tally { asked: asked as u64, refused, ..Tally::default() }
            }
            None => match PreparedQuestion::new(asked.question) {
                Ok(prepared) => self.gather(&prepared)?,
                Err(error) => {
                    complain("fleet", format_args!("timestamp {timestamp}, phase {phase} makes no sense: {error}"));
                    return Ok(Reader::Listens);
                }
            },
        };
        self.undelivered += tally.lost;
        let seconds = start.elapsed().as_secs_f64();
        tally.refused.retain(|_, count| *count > 0);
        tell(&Answered { timestamp, phase, tally: &tally, seconds })
    }

    /// Returns a reason for which every device refuses, if there is one.
    fn refusal(&self, asked: &OpenQuestion) -> Option<RefusalReason> {
        let other_oracle = self.policy.oracle.is_some_and(|oracle| oracle != asked.question.oracle);
        other_oracle.then_some(RefusalReason::OtherOracle)
    }

    fn gather(&mut self, prepared: &PreparedQuestion) -> Result<Tally, Failure> {
        let question = prepared.question();
        let Self { fleet, client, drawing, policy, rule, population, clock, .. } = self;
        // A release of a sequence is about several timestamps.
        let before = rule.as_ref().map_or(0, |rule| u64::from(rule.length()) - 1);
        let timestamps = question.timestamp.saturating_sub(before)..=question.timestamp;
        let members = population.cohort(question.cohort);
        let bar = progress(fleet.quiet, members.iter().map(|part| part.len() as u64).sum());
        // Batches with tokens are smaller.
        let most = if drawing.is_some() { fleet.batch.get().min(MAX_TOKENS) } else { fleet.batch.get() };
        let [late, early] = members.map(|part| part.chunks_mut(most));
        let round = Round {
            fleet,
            client,
            drawing: drawing.as_ref(),
            policy,
            rule: rule.as_ref(),
            clock,
            prepared,
            dealt: timestamps.map(|timestamp| Dealt::new(&self.stream, timestamp)).collect(),
            false_report: (fleet.poison > 0).then(|| false_report(prepared, fleet.seed)).transpose()?,
            waiting: Mutex::new(late.chain(early)),
            is_over: AtomicBool::new(false),
            bar: &bar,
        };
        let tallies: Result<Vec<Tally>, Failure> = thread::scope(|scope| {
            let threads: Vec<_> = (0..fleet.connections.get()).map(|_| scope.spawn(|| round.work())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        bar.finish_and_clear();
        let mut tally = Tally::default();
        tallies?.into_iter().for_each(|part| tally.add(part));
        Ok(tally)
    }
}

fn panicked() -> Failure {
    Failure::run("a thread of the fleet stopped short")
}

fn progress(quiet: bool, reports: u64) -> ProgressBar {
    if !quiet && io::stderr().is_terminal() { ProgressBar::new(reports) } else { ProgressBar::hidden() }
}

/// A question in progress.
struct Round<'a, 'b> {
    fleet: &'a Fleet,
    client: &'a Client,
    drawing: Option<&'a Drawing>,
    policy: &'a StreamPolicy,
    rule: Option<&'a SequenceRule>,
    clock: &'a Clock,
    prepared: &'a PreparedQuestion,
    /// The values of each timestamp that an answer is about; the last is the question's.
    dealt: Vec<Dealt>,
    false_report: Option<Vec<u8>>,
    /// The devices that have not been asked.
    waiting: Mutex<std::iter::Chain<ChunksMut<'b, Member>, ChunksMut<'b, Member>>>,
    /// Whether to stop taking devices.
    is_over: AtomicBool,
    bar: &'a ProgressBar,
}

impl Round<'_, '_> {
    /// Answers and sends batches until no device is left.
    fn work(&self) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(members) = next else { return Ok(tally) };
            tally.asked += members.len() as u64;
            self.bar.inc(members.len() as u64);
            if !self.is_over.load(Ordering::Relaxed) {
                self.send(members, &mut tally)?;
            }
        }
    }

    fn send(&self, members: &mut [Member], tally: &mut Tally) -> Result<(), Failure> {
        let Some((batch, count)) = self.batch(members, tally)? else { return Ok(()) };
        tally.sent += count;
        match self.client.send(&self.policy.stream, &batch) {
            Ok(receipt) => tally.add(Tally { received: receipt, ..Tally::default() }),
            Err(ClientError::Refused { status, code, message }) => {
                let reason = code.unwrap_or_else(|| status.to_string());
                if !self.is_over.swap(true, Ordering::Relaxed) {
                    complain("collector", format_args!("turns reports away ({reason}): {message}"));
                }
                *tally.turned_away.entry(reason).or_default() += count;
            }
            Err(error) => {
                complain("collector", error);
                tally.lost += count;
            }
        }
        Ok(())
    }

    /// Returns the encoded reports of these devices.
    fn batch(&self, members: &mut [Member], tally: &mut Tally) -> Result<Option<(Vec<u8>, u64)>, Failure> {
        let Some(first) = members.first() else { return Ok(None) };
        let question = self.prepared.question();
        let (timestamp, phase, seed) = (question.timestamp, question.phase, self.fleet.seed);
        let random = &mut SeededRandom::with_stream(seed, noise_stream(timestamp, phase, first.number));
        let now = self.policy.ticks.timestamp(self.clock.read().wall).unwrap_or(0);
        let stream = StreamTag::of(&self.policy.stream);
        let mut batch = BatchWriter::new(stream, timestamp, phase, self.prepared.oracle().report_length());
        let mut count = 0;
        for member in members {
            let identity = identity(seed, member.number);
            let token = self.drawing.map(|drawing| drawing.token(self.client, self.policy, member, timestamp));
            // Before anything is spent.
            if matches!(token, Some(None)) {
                *tally.refused.entry(RefusalReason::NoToken.code()).or_default() += 1;
                continue;
            }
            let token = token.flatten();
            let own = || ReportId::of(&identity, stream, timestamp, phase);
            let id = token.as_ref().map_or_else(own, |token| token.report_id(phase));
            let proof = |report: &[u8]| token.as_ref().map(|token| token.prove(phase, report));
            if let Some(report) = self.false_report.as_ref().filter(|_| member.number < self.fleet.poison) {
                batch.push_with(id, proof(report), report).map_err(Failure::run)?;
                count += 1;
                continue;
            }
            let (mut device, mut memory) = member.device(self.policy, self.rule, &identity).map_err(Failure::run)?;
            let mut values = self.dealt.iter().map(|dealt| dealt.value(member.number));
            let answered = match (self.rule, &mut memory) {
                (Some(rule), Some(memory)) => {
                    device.answer_sequence(now, question, rule, memory, || rule.batch_of(values), random)
                }
                _ => device.answer_prepared(now, self.prepared, values.next_back().unwrap_or(u32::MAX), random),
            };
            match answered {
                Ok(report) => {
                    tally.fullest = tally.fullest.max(device.spent_in_window(now));
                    member.keep(&device, memory.as_ref()).map_err(Failure::run)?;
                    batch.push_with(id, proof(report.as_bytes()), report.as_bytes()).map_err(Failure::run)?;
                    count += 1;
                }
                Err(refused) => {
                    let reason = refused.reason().map_err(Failure::run)?;
                    *tally.refused.entry(reason.code()).or_default() += 1;
                }
            }
        }
        if count == 0 {
            return Ok(None);
        }
        Ok(Some((batch.write().map_err(Failure::run)?, count)))
    }
}

/// Returns the report that poisoned devices repeat. With one bit for each value, all bits are set. Otherwise it is the
/// draw that most favours the first value.
fn false_report(prepared: &PreparedQuestion, seed: u64) -> Result<Vec<u8>, Failure> {
    let oracle = prepared.oracle();
    let cells = prepared.question().cells();
    if matches!(prepared.question().oracle, OracleKind::Oue | OracleKind::Sue) {
        let mut report = vec![0; oracle.report_length()];
        (0..cells).for_each(|cell| report[(cell / 8) as usize] |= 1 << (cell % 8));
        return Ok(report);
    }
    let mut loudest: Option<(f64, Vec<u8>)> = None;
    let random = &mut SeededRandom::new(seed);
    for _ in 0..DRAWS {
        let mut ledger = Ledger::new(oracle.epsilon(), Window::EVENT);
        let permit = ledger.spend(0, oracle.epsilon()).map_err(Failure::run)?;
        let report = oracle.perturb(permit, 0, random).map_err(Failure::run)?.into_bytes();
        let likelihood = oracle.log_likelihood(0, &report).map_err(Failure::run)?;
        if loudest.as_ref().is_none_or(|(most, _)| likelihood > *most) {
            loudest = Some((likelihood, report));
        }
    }
    loudest.map(|(_, report)| report).ok_or_else(|| Failure::run("no false report was found"))
}

/// Number of draws for a false report.
const DRAWS: u32 = 64;

impl Answered<'_> {
    fn as_json(&self) -> String {
        let Self { timestamp, phase, seconds, .. } = self;
        let Tally { asked, sent, received, refused, turned_away, lost, .. } = self.tally;
        let line = json!({
            "t": timestamp, "phase": phase, "asked": asked, "sent": sent, "accepted": received.accepted,
            "repeated": received.repeated, "conflicting": received.conflicting, "implausible": received.implausible,
            "wrong_token": received.wrong_token,
            "refused": refused, "turned_away": turned_away, "lost": lost, "seconds": seconds,
        });
        format!("{line}\n")
    }

    fn as_text(&self) -> String {
        let Self { timestamp, phase, seconds, .. } = self;
        let Tally { asked, sent, received, refused, turned_away, lost, .. } = self.tally;
        let mut line = format!(
            "timestamp {timestamp}, phase {phase}: {asked} asked, {sent} sent, {} accepted, in {seconds:.1} s",
            received.accepted
        );
        let mut list = |what: &str, count: u64| {
            if count > 0 {
                line += &format!("; {count} {what}");
            }
        };
        list("sent before", received.repeated);
        list("conflicting", received.conflicting);
        list("implausible", received.implausible);
        list("with a wrong token", received.wrong_token);
        refused.iter().for_each(|(reason, count)| list(&format!("refused by devices ({reason})"), *count));
        turned_away.iter().for_each(|(reason, count)| list(&format!("turned away ({reason})"), *count));
        list("lost", *lost);
        line + "\n"
    }
}
