//! [`Agent`]: a device with durable state. Crashes, retries, clock changes and copied disks cannot make it spend twice.

use std::io;

use tidegate_kernel::oracle::{OracleError, Report};
use tidegate_kernel::{NoEntropy, Question, Randomness};

use crate::absence::AbsenceTerms;
use crate::clock::ClockReading;
use crate::credential::{Draw, DrawAnswer, TokenError};
use crate::device::Device;
use crate::disk::{self, Damaged, Disk};
use crate::enrolment::{StreamPolicy, VerifiedPolicy, is_name};
use crate::refusal::RefusalReason;
use crate::sequence::SequenceError;
use crate::state::{Loaded, State};
use crate::steps::{Consent, Enrolment, Outcome};
use crate::wire::{ReportId, TokenProof};

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
    /// The data were enrolled under other terms of absence, and opening is no consent to a change. Nothing has changed.
    #[error(
        "the data were enrolled with other consent about the time while the device is away: only the device's owner \
         can change it"
    )]
    OtherTerms { enrolled: Option<AbsenceTerms>, offered: Option<AbsenceTerms> },
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
        let loaded = Loaded::of(disk::read(&disk, &file), witness)?;
        let enrolment = Enrolment { policy: policy.into_policy(), terms: None, witness, consent };
        let (state, beginning) = State::begin(loaded, enrolment, now, random)?;
        let mut agent = Self { disk, file, state: *state, stopped: false };
        // A loaded state may not be durable yet, and its report must not leave before it is.
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
        self.state.report_id(question)
    }

    /// The proof of the token for a report, in a stream with credentials.
    pub fn prove(&self, question: &Question, report: &Report) -> Option<TokenProof> {
        self.state.prove(question, report)
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
        let block = self.step(|state| state.draw_block(ahead, now, random))?;
        Ok(block.and_then(|block| self.state.pending_draw(block)))
    }

    /// Takes the answer to a [`draw`](Self::draw). On return the tokens are durable.
    ///
    /// # Errors
    /// [`AgentError::Token`] for tokens of another key than the policy's, or where there is no such draw;
    /// [`AgentError::Disk`] and [`AgentError::Stopped`].
    pub fn drawn(&mut self, block: u64, answer: &DrawAnswer) -> Result<(), AgentError> {
        self.step(|state| state.drawn(block, answer))
    }

    /// Notes the value at a timestamp up to now, for the open batch of a stream whose releases take several symbols.
    /// Other streams ignore it. Call it for every timestamp, in order: a batch that misses a value is not released. The
    /// first value of a timestamp counts.
    ///
    /// Values are kept in memory only, unreadable, and are wiped with their batch.
    pub fn gather(&mut self, now: ClockReading, timestamp: u64, value: u32) {
        self.state.gather(now, timestamp, value);
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
        self.step(|state| state.answer(now, stream, question, value, random))
    }

    /// Takes a step, and saves what it has changed.
    fn step<T>(&mut self, step: impl FnOnce(&mut State) -> Outcome<T>) -> Result<T, AgentError> {
        if self.stopped {
            return Err(AgentError::Stopped);
        }
        let Outcome { has_changed, reply } = step(&mut self.state);
        if has_changed {
            self.save()?;
        }
        reply
    }

    /// Saves the state. After a failure the agent stops, because the disk may be ahead of the memory.
    fn save(&mut self) -> Result<(), AgentError> {
        let contents = self.state.contents().map_err(|error| io::Error::other(error.to_string()));
        let saved = contents.and_then(|contents| disk::replace(&mut self.disk, &self.file, &contents));
        self.stopped = saved.is_err();
        saved.map_err(AgentError::Disk)
    }
}
