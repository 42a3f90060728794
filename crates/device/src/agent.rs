//! [`Agent`]: a device with a memory, which crashes, retries, set clocks and copied disks cannot make spend twice.

use std::io;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{OracleError, OracleKind, Report};
use tidegate_kernel::{NoEntropy, Question, Randomness, Window};

use crate::clock::{ClockGuard, ClockReading};
use crate::device::Device;
use crate::disk::{self, Damaged, Disk};
use crate::enrolment::{StreamPolicy, VerifiedPolicy, is_name};
use crate::wire::{ReportId, StreamTag};

/// Why a question gets no answer, in a word that may be told to the collector. None depends on the value that the
/// device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// The question is about another stream than the one that the device's data were enrolled with.
    OtherStream,
    /// The question is for others.
    NotAsked,
    /// It is about another time than the present.
    NotNow,
    /// It is about another domain.
    OtherDomain,
    /// It wants another oracle than the policy's.
    OtherOracle,
    /// Its phase, or a later one, was answered.
    Answered,
    /// It makes no sense.
    Malformed,
    /// The window has too little left.
    Budget,
}

impl RefusalReason {
    /// The word.
    pub const fn code(self) -> &'static str {
        match self {
            Self::OtherStream => "other_stream",
            Self::NotAsked => "not_asked",
            Self::NotNow => "not_now",
            Self::OtherDomain => "other_domain",
            Self::OtherOracle => "other_oracle",
            Self::Answered => "answered",
            Self::Malformed => "malformed",
            Self::Budget => "budget",
        }
    }
}

/// What a question comes to, as a collector may know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReply {
    /// A report, which is safe on the disk. For the same question again it is the same.
    Report(Report),
    /// No report, and why.
    Refused(RefusalReason),
}

/// Something is wrong on the device itself. Must not be told to the collector: it may depend on the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum AgentError {
    /// The value is not one of the domain.
    #[error("the device holds no value of the domain: {0}")]
    Value(OracleError),
    /// The operating system gives no randomness, so the report would not be private.
    #[error(transparent)]
    Entropy(NoEntropy),
    /// The state could not be saved. The agent answers nothing any more: open it again.
    #[error("the device's state could not be saved, so nothing is answered: {0}")]
    Disk(#[source] io::Error),
    /// It could not be saved before. What is on the disk may be newer than what is in memory.
    #[error("the device's state could not be saved before; open it again")]
    Stopped,
    /// A name that could lead to another's file.
    #[error("a source of data has a name of 1 to 64 lower-case letters, digits, _ and -")]
    Source,
    /// The data were enrolled under another policy, and [`Agent::open`] is no consent to a change: nothing has changed.
    #[error(
        "the data were enrolled under another policy ({}): only the device's owner can consent to a change",
        .enrolled.differences(.offered).join(", ")
    )]
    OtherPolicy { enrolled: Box<StreamPolicy>, offered: Box<StreamPolicy> },
    /// The budget was one for all time, and is another's for ever.
    #[error("the data were enrolled under a budget for all time: no other policy can follow")]
    Spent,
    /// The clock shows a time before the stream's epoch.
    #[error("the device's clock shows a time before the stream's epoch")]
    BeforeEpoch,
}

/// How an agent came to be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Beginning {
    /// It goes on where it was.
    Resumed,
    /// There was no state: it is new, or was installed anew. Nobody can tell what it answered before, so a whole window
    /// counts as spent.
    New,
    /// There was a state of another policy, and the owner has consented to the change. Nothing is answered until the
    /// old window has passed, and then one of the new policy, since the data are the same.
    OtherPolicy,
    /// There was a state that cannot be trusted. A whole window counts as spent.
    Lost(Damaged),
}

/// A device whose ledger is on the disk before a report leaves.
///
/// An agent stands for one source of data (where somebody is, what somebody reads), by the name of its file, and serves
/// one stream at a time: the same data under another stream's name are still the same data. It keeps to the policy that
/// it was enrolled with, whatever else the operator signs: only the device's owner can take another
/// ([`Agent::enrol_anew`]), and that begins with both windows spent, the old one and a new one.
///
/// # What holds
/// Whatever the collector asks, however often the program crashes, and however the wall clock is set: the reports that
/// left the device for the timestamps of any window lose at most the policy's epsilon, and no two of one phase differ.
/// A clock that jumps ahead refunds nothing, for what was spent is carried along, also from an earlier policy; one that
/// jumps back silences the device until it has caught up. A state that was deleted, damaged or copied counts as fully
/// spent.
///
/// # What does not
/// A copy of the whole machine, disk and all, looks like a restart: where that can happen, keep `witness` in hardware
/// that is not copied. Two sources of data that tell the same are two agents and have two budgets.
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
    policy: StreamPolicy,
    device: Device,
    /// What was answered last, to be sent again where it is asked for again.
    // Required, though it may be null: an agent that forgot it would refuse what it promises to repeat.
    #[serde(deserialize_with = "Option::deserialize")]
    last: Option<(Question, Report)>,
    pace: ClockGuard,
    /// What earlier policies still forbid.
    // Required, too.
    #[serde(deserialize_with = "Option::deserialize")]
    silence: Option<Silence>,
}

/// The windows of earlier policies, in which nothing is answered under the present one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Silence {
    /// When they have passed by the wall clock, in seconds since 1970.
    until: u64,
    /// How many seconds they last: so long anew where nobody can tell how much time has passed.
    seconds: u64,
}

impl State {
    /// Takes in a reading of the clocks. Where the wall clock has jumped, what was spent counts as spent now, under
    /// earlier policies, too.
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
        // Before the epoch nothing was spent that could be carried there: the clock has jumped back.
        if let Some(timestamp) = self.policy.ticks.timestamp(latest) {
            self.device.jump_to(timestamp);
        }
    }

    /// What this state's promise forbids whoever comes after it under another policy: the window after its last
    /// timestamp, and after what it was silent for itself. The clocks must have been looked at.
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
    /// Opens the agent of a source of data, and says how it came to be. `policy` is that of the stream which it serves;
    /// `witness` is whatever tells this machine from a copy of it, and may be empty.
    ///
    /// A source that was not enrolled is enrolled with this policy. One that was keeps to its own: another policy,
    /// stronger or weaker, is refused, and what is on the disk stays as it is.
    ///
    /// # Errors
    /// [`AgentError::OtherPolicy`] if the data were enrolled under another policy, as far as their state can be read, and
    /// [`AgentError::Spent`] if that was a budget for all time; if the state cannot be read or saved, the name of the source
    /// is none, or the clock shows a time before the stream's epoch.
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

    /// The same, with the consent of the device's owner to this very policy, should the data have been enrolled under
    /// another. Never call it because a collector, or an operator's signature, says so: it is for whoever the data are
    /// about to decide.
    ///
    /// Under the new policy nothing is answered until the window of the old one has passed, and then one of the new.
    /// Where the wall clock has jumped, or jumps in the meantime, the old window counts from then.
    ///
    /// # Errors
    /// As for [`Agent::open`], but for [`AgentError::OtherPolicy`].
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
                // Its clocks are looked at when it is asked.
                let mut agent = Self { disk, file, state: *state, stopped: false };
                // What was read may not be safe yet, and a report that it has must not leave before it is.
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
                // The new ledger is as spent as the old one, from its last timestamp on.
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
        let state = State { witness: witness.to_vec(), identity, policy, device, last: None, pace, silence };
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

    /// The identity under which the report for a question is sent: the same for a retry, another for every other
    /// question.
    pub fn report_id(&self, question: &Question) -> ReportId {
        let stream = StreamTag::of(&self.state.policy.stream);
        ReportId::of(&self.state.identity, stream, question.timestamp, question.phase)
    }

    /// Answers a question of a stream, if it may. On return a report is on the disk, with what it spent.
    ///
    /// # Errors
    /// A [`AgentError`] is a matter between the device and its user: the collector hears nothing.
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
        let State { device, last, .. } = &mut self.state;
        if let Some((answered, report)) = last
            && answered == question
            && question.timestamp == timestamp
        {
            return Ok(AgentReply::Report(report.clone()));
        }
        match device.answer(timestamp, question, value, random) {
            Ok(report) => {
                *last = Some((question.clone(), report.clone()));
                self.save()?;
                Ok(AgentReply::Report(report))
            }
            Err(refused) => match refused.reason() {
                Ok(reason) => Ok(AgentReply::Refused(reason)),
                Err(error) => {
                    // It has been spent all the same, so that what is answered later does not depend on the value of
                    // now.
                    self.save()?;
                    Err(match error {
                        OracleError::Entropy(error) => AgentError::Entropy(error),
                        error => AgentError::Value(error),
                    })
                }
            },
        }
    }

    /// Everything on the disk; or nothing is answered any more, for the disk may be ahead of the memory.
    fn save(&mut self) -> Result<(), AgentError> {
        let contents = postcard::to_allocvec(&self.state).map_err(|error| io::Error::other(error.to_string()));
        let saved = contents.and_then(|contents| disk::replace(&mut self.disk, &self.file, &contents));
        self.stopped = saved.is_err();
        saved.map_err(AgentError::Disk)
    }
}

/// Whether the owner of the data agrees to another policy than the one that they were enrolled under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consent {
    None,
    OfTheOwner,
}

/// What was found on the disk.
enum Loaded {
    Nothing,
    Whole(Box<State>),
    /// It cannot be relied on, but where it can be read it tells what was promised, and how far time had come at least.
    Untrusted(Damaged, Option<Box<State>>),
}

fn load(disk: &impl Disk, file: &str, witness: &[u8]) -> Result<Loaded, AgentError> {
    let contents = match disk::read(disk, file) {
        Ok(None) => return Ok(Loaded::Nothing),
        Ok(Some(contents)) => contents,
        // It may be whole: nothing must take its place.
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

fn parse(contents: &[u8]) -> Option<Box<State>> {
    let state: State = postcard::from_bytes(contents).ok()?;
    // A state that contradicts itself was not written by an agent.
    let fits =
        state.device.policy() == &state.policy.protects && state.device.slot() == state.policy.slot_of(&state.identity);
    fits.then(|| Box::new(state))
}
