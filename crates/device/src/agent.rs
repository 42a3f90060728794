//! [`Agent`]: a device with a memory, which crashes, retries, set clocks and copied disks cannot make spend twice.

use std::io;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{OracleError, OracleKind, Report};
use tidegate_kernel::{Question, Randomness, Window};

use crate::clock::{Pace, Reading};
use crate::device::Device;
use crate::disk::{self, Damaged, Disk};
use crate::enrolment::{StreamPolicy, VerifiedPolicy, is_name};
use crate::wire::{ReportId, StreamTag};

/// Why a question gets no answer, in a word that may be told to the collector. None depends on the value that the device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
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

impl Reason {
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
pub enum Reply {
    /// A report, which is safe on the disk. For the same question again it is the same.
    Report(Report),
    /// No report, and why.
    Refused(Reason),
}

/// Something is wrong on the device itself. Must not be told to the collector: it may depend on the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The value is not one of the domain.
    #[error("the device holds no value of the domain: {0}")]
    Value(OracleError),
    /// The state could not be saved. The agent answers nothing any more: open it again.
    #[error("the device's state could not be saved, so nothing is answered: {0}")]
    Disk(#[source] io::Error),
    /// It could not be saved before. What is on the disk may be newer than what is in memory.
    #[error("the device's state could not be saved before; open it again")]
    Stopped,
    /// A name that could lead to another's file.
    #[error("a source of data has a name of 1 to 64 lower-case letters, digits, _ and -")]
    Source,
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
    /// There was no state: it is new, or was installed anew. Nobody can tell what it answered before, so a whole window counts as spent.
    New,
    /// There was a state of another policy. Nothing is answered until its window has passed, and then one of the new policy, since the data
    /// are the same.
    OtherPolicy,
    /// There was a state that cannot be trusted. A whole window counts as spent.
    Lost(Damaged),
}

/// A device whose ledger is on the disk before a report leaves.
///
/// An agent stands for one source of data (where somebody is, what somebody reads), by the name of its file, and serves one stream at a time: the same data under
/// another stream's name are still the same data, and a new policy begins with a whole window spent.
///
/// # What holds
/// Whatever the collector asks, however often the program crashes, and however the wall clock is set: the reports that left the device for the
/// timestamps of any window lose at most the policy's epsilon, and no two of one phase differ. A clock that jumps ahead refunds nothing, for what was spent is
/// carried along; one that jumps back silences the device until it has caught up. A state that was deleted, damaged or copied counts as fully spent.
///
/// # What does not
/// A copy of the whole machine, disk and all, looks like a restart: where that can happen, keep `witness` in hardware that is not copied. Two
/// sources of data that tell the same are two agents and have two budgets.
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
    pace: Pace,
}

impl<D: Disk> Agent<D> {
    /// Opens the agent of a source of data, and says how it came to be. `policy` is that of the stream which it serves;
    /// `witness` is whatever tells this machine from a copy of it, and may be empty.
    ///
    /// # Errors
    /// If its state cannot be read or saved, the name of the source is none, the clock shows a time before the stream's epoch, or the data were enrolled under
    /// a budget for all time and another policy.
    pub fn open(
        disk: D,
        source: &str,
        policy: VerifiedPolicy,
        witness: &[u8],
        now: Reading,
        random: &mut impl Randomness,
    ) -> Result<(Self, Beginning), Fault> {
        if !is_name(source) {
            return Err(Fault::Source);
        }
        let file = format!("{source}.device");
        let policy = policy.into_policy();
        let mut latest = now.wall;
        let beginning = match load(&disk, &file, witness)? {
            Loaded::Whole(state) if state.policy == policy => {
                let mut agent = Self { disk, file, state: *state, stopped: false };
                // What was read may not be safe yet, and a report that it has must not leave before it is.
                agent.save()?;
                return Ok((agent, Beginning::Resumed));
            }
            Loaded::Whole(state) => {
                latest = latest.max(end_of_promise(&state, &policy)?);
                Beginning::OtherPolicy
            }
            Loaded::Nothing => Beginning::New,
            Loaded::Untrusted(damage, state) => {
                if let Some(state) = state {
                    latest = latest.max(end_of_promise(&state, &policy)?);
                }
                Beginning::Lost(damage)
            }
        };
        let timestamp = policy.ticks.timestamp(latest).ok_or(Fault::BeforeEpoch)?;
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&random.next_word().to_le_bytes());
        identity[8..].copy_from_slice(&random.next_word().to_le_bytes());
        let device = Device::fully_spent(policy.protects, policy.slot_of(&identity), timestamp);
        let state = State { witness: witness.to_vec(), identity, policy, device, last: None, pace: Pace::from(now) };
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

    /// The identity under which the report for a question is sent: the same for a retry, another for every other question.
    pub fn report_id(&self, question: &Question) -> ReportId {
        let stream = StreamTag::of(&self.state.policy.stream);
        ReportId::of(&self.state.identity, stream, question.timestamp, question.phase)
    }

    /// Answers a question of a stream, if it may. On return a report is on the disk, with what it spent.
    ///
    /// # Errors
    /// A [`Fault`] is a matter between the device and its user: the collector hears nothing.
    pub fn answer(
        &mut self,
        now: Reading,
        stream: &str,
        question: &Question,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<Reply, Fault> {
        if self.stopped {
            return Err(Fault::Stopped);
        }
        let State { policy, device, last, pace, .. } = &mut self.state;
        if stream != policy.stream {
            return Ok(Reply::Refused(Reason::OtherStream));
        }
        if policy.oracle.is_some_and(|oracle: OracleKind| oracle != question.oracle) {
            return Ok(Reply::Refused(Reason::OtherOracle));
        }
        let timestamp = policy.ticks.timestamp(now.wall).ok_or(Fault::BeforeEpoch)?;
        if !pace.keeps(now) {
            device.jump_to(timestamp);
        }
        if let Some((answered, report)) = last
            && answered == question
            && question.timestamp == timestamp
        {
            return Ok(Reply::Report(report.clone()));
        }
        match device.answer(timestamp, question, value, random) {
            Ok(report) => {
                *last = Some((question.clone(), report.clone()));
                self.save()?;
                Ok(Reply::Report(report))
            }
            Err(refused) => match refused.reason() {
                Ok(reason) => Ok(Reply::Refused(reason)),
                Err(error) => {
                    // It has been spent all the same, so that what is answered later does not depend on the value of now.
                    self.save()?;
                    Err(Fault::Value(error))
                }
            },
        }
    }

    /// Everything on the disk; or nothing is answered any more, for the disk may be ahead of the memory.
    fn save(&mut self) -> Result<(), Fault> {
        let contents = postcard::to_allocvec(&self.state).map_err(|error| io::Error::other(error.to_string()));
        let saved = contents.and_then(|contents| disk::replace(&mut self.disk, &self.file, &contents));
        self.stopped = saved.is_err();
        saved.map_err(Fault::Disk)
    }
}

/// What was found on the disk.
enum Loaded {
    Nothing,
    Whole(Box<State>),
    /// It cannot be relied on, but where it can be read it tells what was promised, and how far time had come at least.
    Untrusted(Damaged, Option<Box<State>>),
}

fn load(disk: &impl Disk, file: &str, witness: &[u8]) -> Result<Loaded, Fault> {
    let contents = match disk::read(disk, file) {
        Ok(None) => return Ok(Loaded::Nothing),
        Ok(Some(contents)) => contents,
        // It may be whole: nothing must take its place.
        Err(Damaged::Unreadable(error)) => return Err(Fault::Disk(error)),
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

/// Until when a state's promise holds whatever comes after it, in seconds since 1970: for its last timestamp, or, where another policy follows, whose own window
/// may be shorter, for the whole window after that.
fn end_of_promise(state: &State, next: &StreamPolicy) -> Result<u64, Fault> {
    let clock = state.device.ledger().clock().unwrap_or(0);
    let window = match state.policy.protects.window {
        _ if state.policy == *next => 1,
        Window::Timestamps(window) => window.get(),
        Window::Unbounded => return Err(Fault::Spent),
    };
    Ok(state.policy.ticks.end_of(clock.saturating_add(window - 1)))
}
