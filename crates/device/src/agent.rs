//! [`Agent`]: a device with durable state. Crashes, retries, clock changes and copied disks cannot make it spend twice.

use std::borrow::Cow;
use std::io;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{OracleError, OracleKind, Report};
use tidegate_kernel::primitives::SymbolBatch;
use tidegate_kernel::{NoEntropy, Question, Randomness, Window};

use crate::clock::{ClockGuard, ClockReading};
use crate::credential::{BLOCK, Draw, DrawAnswer, ReportToken, TokenError};
use crate::device::Device;
use crate::disk::{self, Damaged, Disk};
use crate::enrolment::{StreamPolicy, VerifiedPolicy, common, is_name};
use crate::refusal::RefusalReason;
use crate::sequence::{SequenceError, SequenceMemory, SequencePolicy, SequenceRule};
use crate::wire::{ReportId, StreamTag, TokenProof};

/// The agent's reply to a question. It may be sent to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReply {
    /// A report that is durable. Asking the same question again gives the same report.
    Report(Report),
    /// No report, with the reason.
    Refused(RefusalReason),
}

/// A failure on the device. Never send it to the collector: it may depend on the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum AgentError {
    /// The value is outside the domain.
    #[error("the device's value is outside the domain: {0}")]
    Value(OracleError),
    /// The operating system provides no randomness.
    #[error(transparent)]
    Entropy(NoEntropy),
    /// The state could not be saved. The agent stops; open it again.
    #[error("the device's state could not be saved, so nothing is answered: {0}")]
    Disk(#[source] io::Error),
    /// An earlier save failed, so the disk may be newer than the memory.
    #[error("the device's state could not be saved before; open it again")]
    Stopped,
    /// An invalid name of a data source.
    #[error("a source of data has a name of 1 to 64 lower-case letters, digits, _ and -")]
    Source,
    /// The data were enrolled under another policy, and [`Agent::open`] is no consent to a change. Nothing has changed.
    #[error(
        "the data were enrolled under another policy ({}): only the device's owner can consent to a change",
        .enrolled.differences(.offered).join(", ")
    )]
    OtherPolicy { enrolled: Box<StreamPolicy>, offered: Box<StreamPolicy> },
    /// The data were enrolled under an unbounded window, whose budget never recovers.
    #[error("the data were enrolled under a budget for all time: no other policy can follow")]
    Spent,
    /// A policy of sequences that this device cannot follow.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// The clock is before the stream's epoch.
    #[error("the device's clock shows a time before the stream's epoch")]
    BeforeEpoch,
    /// An answer to a draw that is not accepted. Nothing has changed.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// How an agent was opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Beginning {
    /// Its state was loaded.
    Resumed,
    /// There was no state: it is new or reinstalled. Earlier answers are unknown, so a whole window counts as spent.
    New,
    /// The state had another policy, and the owner consented to the change. The data are the same, so the agent is
    /// silent for the old window and then for a new one.
    OtherPolicy,
    /// The state cannot be trusted. A whole window counts as spent.
    Lost(Damaged),
}

/// A device that saves its ledger to disk before a report leaves.
///
/// An agent represents one source of data, such as a location, and names its file after it. It serves one stream at a
/// time, because the same data under another stream are still the same data. It keeps the policy that it was enrolled
/// with, whatever else the operator signs. Only the device's owner can change it ([`Agent::enrol_anew`]); the old
/// window and a new one then count as spent.
///
/// # Guarantees
/// For all questions, crashes and settings of the wall clock, the reports for the timestamps of any window lose at most
/// the policy's epsilon, and no two reports of one phase differ. A clock that jumps ahead refunds nothing: spends move
/// along, also those of an earlier policy. A clock that jumps back silences the device until it has caught up. A
/// deleted, damaged or copied state counts as fully spent.
///
/// # Limits
/// A copy of the whole machine looks like a restart; if that can happen, keep `witness` in hardware that is not copied.
/// Two sources with the same data are two agents with two budgets.
#[derive(Debug)]
pub struct Agent<D> {
    disk: D,
    file: String,
    state: State,
    stopped: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    witness: Vec<u8>,
    identity: [u8; 16],
    // Without its sequence and its key of tokens, which are saved with what they need.
    #[serde(with = "common")]
    policy: StreamPolicy,
    device: Device,
    /// The last answer, to repeat it if asked again.
    // Required, though it may be null: an agent without it would refuse to repeat the answer.
    #[serde(deserialize_with = "Option::deserialize")]
    last: Option<(Question, Report)>,
    pace: ClockGuard,
    /// Silence imposed by earlier policies.
    // Required as well.
    #[serde(deserialize_with = "Option::deserialize")]
    silence: Option<Silence>,
    /// Tokens of the present block and of the next, in a stream with credentials; saved after the rest.
    #[serde(skip)]
    draws: Vec<Draw>,
    /// Memory of a stream of sequences; saved last.
    #[serde(skip)]
    sequence: Option<SequenceState>,
}

/// The state of an agent that releases sequences.
#[derive(Debug)]
struct SequenceState {
    rule: SequenceRule,
    memory: SequenceMemory,
    /// The symbols of a batch that is not over. They are in memory only: a crash loses them, and no others.
    open: Option<OpenBatch>,
}

#[derive(Debug)]
struct OpenBatch {
    /// The timestamp of its first symbol.
    start: u64,
    symbols: SymbolBatch,
}

/// Heading of the saved form of tokens, with which no state of a sequence begins.
const TOKENS: &[u8] = b"tidegate tokens 1\n";

/// The saved form of tokens.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTokens<'a> {
    issuer: [u8; 32],
    draws: Cow<'a, [Draw]>,
}

/// The saved form of a sequence's state.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSequence<'a> {
    policy: Cow<'a, SequencePolicy>,
    memory: Cow<'a, SequenceMemory>,
}

impl SequenceState {
    fn new(policy: &SequencePolicy) -> Result<Self, SequenceError> {
        let rule = SequenceRule::new(policy)?;
        let memory = SequenceMemory::new(&rule);
        Ok(Self { rule, memory, open: None })
    }

    /// Notes the symbol of a timestamp. A batch that misses a symbol is dropped.
    fn gather(&mut self, timestamp: u64, symbol: u32) {
        let (start, length) = (self.rule.start(timestamp), self.rule.length());
        let position = timestamp - start;
        let mut open = self.open.take().filter(|open| open.start == start);
        if position == 0 && open.is_none() {
            open = self.rule.gather().map(|symbols| OpenBatch { start, symbols });
        }
        let Some(mut open) = open else { return };
        let gathered = u64::from(length) - open.symbols.missing() as u64;
        let kept = match position {
            position if position < gathered => true,
            position if position == gathered => open.symbols.push(symbol).is_ok(),
            _ => false,
        };
        self.open = kept.then_some(open);
    }
}

/// The windows of earlier policies, in which the agent answers nothing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Silence {
    /// End by the wall clock, in seconds since 1970.
    until: u64,
    /// Duration in seconds. It starts again when the elapsed time is unknown.
    seconds: u64,
}

impl State {
    /// Processes a clock reading. If the wall clock has jumped, all spends count as made now, also those of earlier
    /// policies.
    fn look_at(&mut self, now: ClockReading) {
        if self.pace.keeps(now) {
            self.silence = self.silence.filter(|silence| now.wall < silence.until);
            return;
        }
        let mut latest = now.wall;
        if let Some(silence) = &mut self.silence {
            silence.until = silence.until.max(now.wall.saturating_add(silence.seconds));
            latest = silence.until;
        }
        // A time before the epoch means that the clock jumped back, so nothing moves.
        if let Some(timestamp) = self.policy.ticks.timestamp(latest) {
            self.device.jump_to(timestamp);
        }
    }

    /// The silence that this state imposes on a following policy: its window after its last timestamp, plus its own
    /// silence. Call `look_at` first.
    fn silences(&self) -> Result<Silence, AgentError> {
        let Window::Timestamps(window) = self.policy.protects.window else { return Err(AgentError::Spent) };
        let clock = self.device.ledger().clock().unwrap_or(0);
        let until = self.policy.ticks.end_of(clock.saturating_add(window.get() - 1));
        let earlier = self.silence.map_or(0, |silence| silence.seconds);
        let seconds = window.get().saturating_mul(self.policy.ticks.seconds.get()).saturating_add(earlier);
        Ok(Silence { until, seconds })
    }
}

impl<D: Disk> Agent<D> {
    /// Opens the agent of a data source, and returns how. `policy` is the policy of its stream. `witness` distinguishes
    /// this machine from a copy, and may be empty.
    ///
    /// A new source is enrolled with this policy. An enrolled source keeps its policy: any other, stronger or weaker,
    /// is refused, and the disk is unchanged.
    ///
    /// # Errors
    /// [`AgentError::OtherPolicy`] if a readable state has another policy, and [`AgentError::Spent`] if that one has an
    /// unbounded window. [`AgentError::Disk`] if the state cannot be read or saved; [`AgentError::Source`] for an
    /// invalid name; [`AgentError::BeforeEpoch`] if the clock is before the stream's epoch.
    pub fn open(
        disk: D,
        source: &str,
        policy: VerifiedPolicy,
        witness: &[u8],
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<(Self, Beginning), AgentError> {
        Self::begin(disk, source, policy, witness, now, random, Consent::None)
    }

    /// Opens the agent with the owner's consent to this policy, if the data were enrolled under another one. Never call
    /// it at the request of a collector or an operator: the decision belongs to the person whom the data describe.
    ///
    /// The agent is silent for the old policy's window, and then for one of the new policy. If the wall clock jumps,
    /// the old window starts again.
    ///
    /// # Errors
    /// Those of [`Agent::open`], except [`AgentError::OtherPolicy`].
    pub fn enrol_anew(
        disk: D,
        source: &str,
        policy: VerifiedPolicy,
        witness: &[u8],
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<(Self, Beginning), AgentError> {
        Self::begin(disk, source, policy, witness, now, random, Consent::OfTheOwner)
    }

    fn begin(
        disk: D,
        source: &str,
        policy: VerifiedPolicy,
        witness: &[u8],
        now: ClockReading,
        random: &mut impl Randomness,
        consent: Consent,
    ) -> Result<(Self, Beginning), AgentError> {
        if !is_name(source) {
            return Err(AgentError::Source);
        }
        let file = format!("{source}.device");
        let policy = policy.into_policy();
        let (beginning, before) = match load(&disk, &file, witness)? {
            Loaded::Whole(state) if state.policy == policy => {
                // The clocks are checked when a question arrives.
                let mut agent = Self { disk, file, state: *state, stopped: false };
                // The loaded state may not be durable yet, and its report must not leave before it is.
                agent.save()?;
                return Ok((agent, Beginning::Resumed));
            }
            Loaded::Whole(state) => (Beginning::OtherPolicy, Some(state)),
            Loaded::Nothing => (Beginning::New, None),
            Loaded::Untrusted(damage, state) => (Beginning::Lost(damage), state),
        };
        let (mut latest, mut pace, mut silence) = (now.wall, ClockGuard::from(now), None);
        if let Some(mut state) = before {
            state.look_at(now);
            silence = if state.policy == policy {
                // The new ledger counts as spent from the old ledger's last timestamp on.
                let clock = state.device.ledger().clock().unwrap_or(0);
                latest = latest.max(policy.ticks.end_of(clock));
                state.silence
            } else {
                let silence = state.silences()?;
                if consent == Consent::None {
                    return Err(AgentError::OtherPolicy {
                        enrolled: Box::new(state.policy),
                        offered: Box::new(policy),
                    });
                }
                Some(silence)
            };
            pace = state.pace;
        }
        latest = latest.max(silence.map_or(0, |silence| silence.until));
        let timestamp = policy.ticks.timestamp(latest).ok_or(AgentError::BeforeEpoch)?;
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&random.next_word().to_le_bytes());
        identity[8..].copy_from_slice(&random.next_word().to_le_bytes());
        let device = Device::fully_spent(policy.protects, policy.slot_of(&identity), timestamp);
        let sequence = policy.sequence.as_ref().map(SequenceState::new).transpose()?;
        let witness = witness.to_vec();
        let draws = Vec::new();
        let state = State { witness, identity, policy, device, last: None, pace, silence, draws, sequence };
        let mut agent = Self { disk, file, state, stopped: false };
        agent.save()?;
        Ok((agent, beginning))
    }

    /// The stream's policy.
    pub const fn policy(&self) -> &StreamPolicy {
        &self.state.policy
    }

    /// The device, with its ledger.
    pub const fn device(&self) -> &Device {
        &self.state.device
    }

    /// The identity of the report for a question: equal for retries, different for every other question. `None` in a
    /// stream with credentials where there is no token: the device's own identity is of no use there.
    pub fn report_id(&self, question: &Question) -> Option<ReportId> {
        if self.state.policy.issuer.is_some() {
            return Some(self.token(question.timestamp)?.report_id(question.phase));
        }
        Some(ReportId::of(&self.state.identity, self.tag(), question.timestamp, question.phase))
    }

    /// The proof of the token for a report, in a stream with credentials.
    pub fn prove(&self, question: &Question, report: &Report) -> Option<TokenProof> {
        self.token(question.timestamp).map(|token| token.prove(question.phase, report.as_bytes()))
    }

    fn tag(&self) -> StreamTag {
        StreamTag::of(&self.state.policy.stream)
    }

    fn token(&self, timestamp: u64) -> Option<ReportToken> {
        self.state.draws.iter().find_map(|draw| draw.token(self.tag(), timestamp))
    }

    /// The draw of the present block of timestamps; `None` if its tokens are there, or none are needed. Send its
    /// request, and pass the answer to [`drawn`](Self::drawn). Until then it stays the same, also after a crash: on
    /// return it is durable. Tokens and seeds of blocks that are over are gone from the disk as well.
    ///
    /// A draw names the device, so a report that follows at once is joined to it by time. Call
    /// [`draw_ahead`](Self::draw_ahead) in time, and this only if there is no token for a question of the present.
    ///
    /// # Errors
    /// [`AgentError::BeforeEpoch`], [`AgentError::Disk`] and [`AgentError::Stopped`].
    pub fn draw(&mut self, now: ClockReading, random: &mut impl Randomness) -> Result<Option<&Draw>, AgentError> {
        self.draw_block(0, now, random)
    }

    /// The draw of the next block, like [`draw`](Self::draw). Call it at a random moment of the present block, which no
    /// question decides.
    ///
    /// # Errors
    /// Those of [`draw`](Self::draw).
    pub fn draw_ahead(&mut self, now: ClockReading, random: &mut impl Randomness) -> Result<Option<&Draw>, AgentError> {
        self.draw_block(1, now, random)
    }

    fn draw_block(
        &mut self,
        ahead: u64,
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<Option<&Draw>, AgentError> {
        if self.stopped {
            return Err(AgentError::Stopped);
        }
        let State { policy, draws, .. } = &mut self.state;
        if policy.issuer.is_none() {
            return Ok(None);
        }
        let present = policy.ticks.timestamp(now.wall).ok_or(AgentError::BeforeEpoch)? / BLOCK;
        let (wanted, before) = (present.saturating_add(ahead), draws.len());
        draws.retain(|draw| (present..=present.saturating_add(1)).contains(&draw.block()));
        let mut has_changed = draws.len() < before;
        if !draws.iter().any(|draw| draw.block() == wanted) {
            draws.push(Draw::new(wanted, random));
            has_changed = true;
        }
        if has_changed {
            self.save()?;
        }
        Ok(self.state.draws.iter().find(|draw| draw.block() == wanted && !draw.is_complete()))
    }

    /// Takes the answer to a [`draw`](Self::draw). On return the tokens are durable.
    ///
    /// # Errors
    /// [`AgentError::Token`] for tokens of another key than the policy's, or where there is no such draw;
    /// [`AgentError::Disk`] and [`AgentError::Stopped`].
    pub fn drawn(&mut self, block: u64, answer: &DrawAnswer) -> Result<(), AgentError> {
        if self.stopped {
            return Err(AgentError::Stopped);
        }
        let (tag, State { policy, draws, .. }) = (self.tag(), &mut self.state);
        let draw = draws.iter_mut().find(|draw| draw.block() == block && !draw.is_complete());
        let (Some(issuer), Some(draw)) = (&policy.issuer, draw) else { return Err(TokenError::OtherKey.into()) };
        draw.finish(tag, issuer, answer)?;
        self.save()
    }

    /// Notes the value at a timestamp up to now, for the open batch of a stream whose releases take several symbols.
    /// Other streams ignore it. Call it for every timestamp, in order: a batch that misses a value is not released. The
    /// first value of a timestamp counts.
    ///
    /// Values are kept in memory only, unreadable, and are wiped with their batch.
    pub fn gather(&mut self, now: ClockReading, timestamp: u64, value: u32) {
        let present = self.state.policy.ticks.timestamp(now.wall);
        if let Some(sequence) = self.state.sequence.as_mut().filter(|_| Some(timestamp) <= present) {
            sequence.gather(timestamp, value);
        }
    }

    /// Answers a question of a stream, if the policy allows it. On return, the report and its spend are durable.
    ///
    /// # Errors
    /// An [`AgentError`] stays on the device; never send it to the collector.
    pub fn answer(
        &mut self,
        now: ClockReading,
        stream: &str,
        question: &Question,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<AgentReply, AgentError> {
        if self.stopped {
            return Err(AgentError::Stopped);
        }
        let policy = &self.state.policy;
        if stream != policy.stream {
            return Ok(AgentReply::Refused(RefusalReason::OtherStream));
        }
        if policy.oracle.is_some_and(|oracle: OracleKind| oracle != question.oracle) {
            return Ok(AgentReply::Refused(RefusalReason::OtherOracle));
        }
        let timestamp = policy.ticks.timestamp(now.wall).ok_or(AgentError::BeforeEpoch)?;
        self.state.look_at(now);
        let State { policy, device, last, draws, sequence, .. } = &mut self.state;
        // Before anything is spent: without a token the report would not be counted.
        let stream = StreamTag::of(stream);
        if policy.issuer.is_some() && !draws.iter().any(|draw| draw.token(stream, question.timestamp).is_some()) {
            return Ok(AgentReply::Refused(RefusalReason::NoToken));
        }
        if let Some((answered, report)) = last
            && answered == question
            && question.timestamp == timestamp
        {
            return Ok(AgentReply::Report(report.clone()));
        }
        let answered = match sequence {
            None => device.answer(timestamp, question, value, random),
            Some(sequence) => {
                sequence.gather(timestamp, value);
                let SequenceState { rule, memory, open } = sequence;
                let symbols = || open.take().map(|open| open.symbols);
                device.answer_sequence(timestamp, question, rule, memory, symbols, random)
            }
        };
        match answered {
            Ok(report) => {
                *last = Some((question.clone(), report.clone()));
                self.save()?;
                Ok(AgentReply::Report(report))
            }
            Err(refused) => match refused.reason() {
                Ok(reason) => Ok(AgentReply::Refused(reason)),
                Err(error) => {
                    // The spend is saved all the same, so that later answers do not depend on this value.
                    self.save()?;
                    Err(match error {
                        OracleError::Entropy(error) => AgentError::Entropy(error),
                        error => AgentError::Value(error),
                    })
                }
            },
        }
    }

    /// Saves the state. After a failure the agent stops, because the disk may be ahead of the memory.
    fn save(&mut self) -> Result<(), AgentError> {
        let contents = contents_of(&self.state).map_err(|error| io::Error::other(error.to_string()));
        let saved = contents.and_then(|contents| disk::replace(&mut self.disk, &self.file, &contents));
        self.stopped = saved.is_err();
        saved.map_err(AgentError::Disk)
    }
}

/// Whether the owner consents to a change of policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consent {
    None,
    OfTheOwner,
}

/// The state found on disk.
enum Loaded {
    Nothing,
    Whole(Box<State>),
    /// An unreliable state. If readable, it still gives the promised policy and a lower bound of the time.
    Untrusted(Damaged, Option<Box<State>>),
}

fn load(disk: &impl Disk, file: &str, witness: &[u8]) -> Result<Loaded, AgentError> {
    let contents = match disk::read(disk, file) {
        Ok(None) => return Ok(Loaded::Nothing),
        Ok(Some(contents)) => contents,
        // The file may be intact: do not replace it.
        Err(Damaged::Unreadable(error)) => return Err(AgentError::Disk(error)),
        Err(Damaged::Copy { contents }) => {
            let state = parse(&contents);
            return Ok(Loaded::Untrusted(Damaged::Copy { contents }, state));
        }
        Err(damage) => return Ok(Loaded::Untrusted(damage, None)),
    };
    Ok(match parse(&contents) {
        Some(state) if state.witness == witness => Loaded::Whole(state),
        Some(state) => Loaded::Untrusted(Damaged::Copy { contents }, Some(state)),
        None => Loaded::Untrusted(Damaged::Foreign, None),
    })
}

fn contents_of(state: &State) -> postcard::Result<Vec<u8>> {
    let mut contents = postcard::to_allocvec(state)?;
    if let Some(issuer) = state.policy.issuer {
        contents.extend_from_slice(TOKENS);
        contents = postcard::to_extend(&SavedTokens { issuer, draws: Cow::Borrowed(&state.draws) }, contents)?;
    }
    let (Some(policy), Some(SequenceState { memory, .. })) = (&state.policy.sequence, &state.sequence) else {
        return Ok(contents);
    };
    postcard::to_extend(&SavedSequence { policy: Cow::Borrowed(policy), memory: Cow::Borrowed(memory) }, contents)
}

fn parse(contents: &[u8]) -> Option<Box<State>> {
    let (mut state, mut rest): (State, &[u8]) = postcard::take_from_bytes(contents).ok()?;
    if let Some(tokens) = rest.strip_prefix(TOKENS) {
        let (SavedTokens { issuer, draws }, after) = postcard::take_from_bytes(tokens).ok()?;
        if draws.len() > 2 || !draws.iter().all(Draw::is_possible) {
            return None;
        }
        (state.policy.issuer, state.draws, rest) = (Some(issuer), draws.into_owned(), after);
    }
    if !rest.is_empty() {
        let (SavedSequence { policy, memory }, []) = postcard::take_from_bytes(rest).ok()? else { return None };
        let rule = SequenceRule::new(&policy).ok().filter(|rule| memory.fits(rule))?;
        state.policy.sequence = Some(policy.into_owned());
        state.sequence = Some(SequenceState { rule, memory: memory.into_owned(), open: None });
    }
    // An inconsistent state was not written by an agent.
    let fits =
        state.device.policy() == &state.policy.protects && state.device.slot() == state.policy.slot_of(&state.identity);
    fits.then(|| Box::new(state))
}
