//! [`StagedAgent`]: an agent for platforms that save asynchronously, such as a browser's IndexedDB or a phone's store.
//!
//! It does no input or output. A step that changes its state takes the agent and gives a [`Staged`] reply: bytes to
//! save, and a reply that cannot be read. Only the proof that the bytes are stored gives the reply and the agent back.
//! So a report cannot leave before its spend is stored, and there are never two unsaved states. After a failure the
//! agent is gone: open it again from what is stored.
//!
//! # What the store must do
//! Replace the contents in one step, if they are those that [`Save::replaces`] names, and durably. Two tabs that have
//! opened one state are then one device: each opening saves, so it makes the agents that were opened before fail.
//!
//! # Old copies
//! A store may have a second place that is not restored with the first. [`Save::mark`] goes there, after the contents
//! and before the reply is used. Contents that are older than the mark count as lost: a whole window is spent. Without
//! a second place, or where both are restored, an old copy looks like a device that was away, and spends again what was
//! spent since the copy. A `witness` that is not copied, such as one in a phone's keystore, detects other machines.
//!
//! # Deleted storage
//! A device whose storage is deleted is enrolled anew, with a new identity, slot and consent. It is silent for a whole
//! window, so no window is exceeded if the clocks that [count](crate::absence) are right. It cannot know an earlier
//! policy, nor timestamps that it answered while its clock was ahead.
//!
//! ```
//! # use tidegate_device::clock::{ClockReading, Steady, Ticks};
//! # use tidegate_device::enrolment::StreamPolicy;
//! # use tidegate_device::staged::{Confirmed, Found, Saved, StagedAgent, Turn};
//! # use tidegate_device::{AgentReply, DevicePolicy};
//! # use tidegate_kernel::oracle::OracleKind;
//! # use tidegate_kernel::{Cohort, Question, SystemRandom, View, Window};
//! # let mut random = SystemRandom::new()?;
//! # let operator = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
//! # let protects = DevicePolicy { epsilon: "1".parse()?, window: Window::EVENT, domain: 6 };
//! # let ticks = Ticks { epoch: 0, seconds: std::num::NonZeroU64::MIN };
//! # let policy = StreamPolicy {
//! #     stream: "visits".into(), protects, oracle: None, ticks, slot_key: [0; 16], sequence: None, issuer: None,
//! # }.sign(&operator)?.verified(&operator.verifying_key())?;
//! # let at = |seconds| ClockReading { wall: seconds, steady: Steady { run: [1; 16], seconds } };
//! # let question = Question { timestamp: 9, phase: 0, cohort: Cohort::Everyone, epsilon: "1".parse()?,
//! #     oracle: OracleKind::Grr, domain: 6, view: View::Values };
//! let found = Found { contents: None, mark: None };
//! let opened = StagedAgent::open(found, "position", policy, None, b"", at(5), &mut random)?;
//! let mut stored = opened.save().contents.clone();                    // the platform saves, and reads back
//! let Confirmed { agent, .. } = opened.confirm(Saved::read_back(&stored))?;
//! let Turn::Save(answered) = agent.answer(at(9), "visits", &question, 2, &mut random) else { unreachable!() };
//! stored = answered.save().contents.clone();
//! let Confirmed { reply, .. } = answered.confirm(Saved::read_back(&stored))?;
//! assert!(matches!(reply?, AgentReply::Report(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use sha2::{Digest, Sha256};
use tidegate_kernel::oracle::Report;
use tidegate_kernel::{Question, Randomness};

use crate::absence::{AbsenceTerms, SignedTime, TimeError, TimeRequest};
use crate::agent::{AgentError, AgentReply, Beginning};
use crate::clock::ClockReading;
use crate::credential::{Draw, DrawAnswer};
use crate::device::Device;
use crate::disk::{Damaged, body_of, enclose};
use crate::enrolment::{StreamPolicy, VerifiedPolicy, is_name};
use crate::state::{Loaded, State};
use crate::steps::{Consent, Enrolment, Outcome};
use crate::wire::{ReportId, TokenProof, digits_of};

const MAGIC: &[u8; 16] = b"tidegate staged1";

/// What is stored for a data source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found<'a> {
    /// The contents; `None` if nothing is stored. An error of the store is not nothing: try again.
    pub contents: Option<&'a [u8]>,
    /// The mark from the second place, if there is one.
    pub mark: Option<u64>,
}

/// The SHA-256 of contents, as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version([u8; 32]);

impl Version {
    /// The version of contents.
    pub fn of(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&digits_of(&self.0))
    }
}

/// What is to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// The contents.
    pub contents: Vec<u8>,
    /// Their version.
    pub version: Version,
    /// The version that they replace; `None` if nothing may be stored. If something else is stored, another agent has
    /// gone on: save nothing.
    pub replaces: Option<Version>,
    /// The mark for a second place. It grows with every save.
    pub mark: u64,
}

/// Proof that contents are stored: their version, from what the store gives back.
#[derive(Debug)]
pub struct Saved(Version);

impl Saved {
    /// The proof from contents that were read from the store after it had confirmed them.
    pub fn read_back(stored: &[u8]) -> Self {
        Self(Version::of(stored))
    }
}

/// The store holds other contents than were to be saved. Open the agent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store holds other contents ({found}) than were to be saved ({expected}): open the agent again")]
pub struct NotSaved {
    /// What was to be saved.
    pub expected: Version,
    /// What the store holds.
    pub found: Version,
}

/// A reply that cannot be read before the agent's state is stored. Dropping it gives up the agent.
#[must_use = "the agent goes on only once its state is stored"]
pub struct Staged<T> {
    agent: StagedAgent,
    save: Save,
    reply: T,
}

impl<T> fmt::Debug for Staged<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Staged").field("version", &self.save.version).finish_non_exhaustive()
    }
}

/// An agent whose state is stored, and its reply.
#[derive(Debug)]
pub struct Confirmed<T> {
    /// The agent.
    pub agent: StagedAgent,
    /// The reply.
    pub reply: T,
}

impl<T> Staged<T> {
    /// What is to be saved.
    pub const fn save(&self) -> &Save {
        &self.save
    }

    /// Gives the reply, and the agent back.
    ///
    /// # Errors
    /// [`NotSaved`] if other contents are stored. The agent is given up.
    pub fn confirm(self, saved: Saved) -> Result<Confirmed<T>, NotSaved> {
        let Self { mut agent, save: Save { version, .. }, reply } = self;
        let Saved(found) = saved;
        if found != version {
            return Err(NotSaved { expected: version, found });
        }
        agent.stored = Some(version);
        Ok(Confirmed { agent, reply })
    }
}

/// Outcome of a step.
#[derive(Debug)]
#[must_use = "the agent is in it"]
pub enum Turn<T> {
    /// Nothing has changed.
    Done(StagedAgent, T),
    /// The state has changed. A refusal may change it, too.
    Save(Staged<T>),
}

/// An agent that saves nothing itself. See [the module](self), and [`Agent`](crate::Agent) for its guarantees.
#[derive(Debug)]
pub struct StagedAgent {
    state: Box<State>,
    /// Distinguishes the openings of one state.
    opening: [u8; 16],
    mark: u64,
    stored: Option<Version>,
}

impl StagedAgent {
    /// Opens the agent of a data source, like [`Agent::open`](crate::Agent::open). Without `terms` it follows the
    /// strict rule: no time is known to have passed between two runs of the steady clock.
    ///
    /// # Errors
    /// Those of [`Agent::open`](crate::Agent::open), and [`AgentError::OtherTerms`].
    pub fn open(
        found: Found<'_>,
        source: &str,
        policy: VerifiedPolicy,
        terms: Option<AbsenceTerms>,
        witness: &[u8],
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<Staged<Beginning>, AgentError> {
        let policy = policy.into_policy();
        Self::begin(found, source, Enrolment { policy, terms, witness, consent: Consent::None }, now, random)
    }

    /// Opens the agent with the owner's consent to this policy and these terms, like
    /// [`Agent::enrol_anew`](crate::Agent::enrol_anew). Other terms take a window of silence, a later end of the same
    /// terms none.
    ///
    /// # Errors
    /// Those of [`Agent::enrol_anew`](crate::Agent::enrol_anew).
    pub fn enrol_anew(
        found: Found<'_>,
        source: &str,
        policy: VerifiedPolicy,
        terms: Option<AbsenceTerms>,
        witness: &[u8],
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<Staged<Beginning>, AgentError> {
        let policy = policy.into_policy();
        Self::begin(found, source, Enrolment { policy, terms, witness, consent: Consent::OfTheOwner }, now, random)
    }

    fn begin(
        found: Found<'_>,
        source: &str,
        enrolment: Enrolment<'_>,
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<Staged<Beginning>, AgentError> {
        if !is_name(source) {
            return Err(AgentError::Source);
        }
        let marked = found.mark.unwrap_or(0);
        let (mark, contents) = match found.contents.map(read).transpose() {
            Ok(None) => (marked, Ok(None)),
            Ok(Some((mark, contents))) if mark < marked => (marked, Err(Damaged::Copy { contents })),
            Ok(Some((mark, contents))) => (mark, Ok(Some(contents))),
            Err(damage) => (marked, Err(damage)),
        };
        let loaded = Loaded::of(contents, enrolment.witness)?;
        let (state, beginning) = State::begin(loaded, enrolment, now, random)?;
        let mut opening = [0; 16];
        opening[..8].copy_from_slice(&random.next_word().to_le_bytes());
        opening[8..].copy_from_slice(&random.next_word().to_le_bytes());
        Ok(Self { state, opening, mark, stored: found.contents.map(Version::of) }.stage(beginning))
    }

    fn stage<T>(mut self, reply: T) -> Staged<T> {
        self.mark = self.mark.saturating_add(1);
        let (contents, version) = match self.state.contents() {
            Ok(contents) => {
                let body = [&self.mark.to_le_bytes(), self.opening.as_slice(), &contents].concat();
                let contents = enclose(MAGIC, &body);
                let version = Version::of(&contents);
                (contents, version)
            }
            // Nothing confirms it, so the agent is given up.
            Err(_) => (Vec::new(), Version([0; 32])),
        };
        let save = Save { contents, version, replaces: self.stored, mark: self.mark };
        Staged { agent: self, save, reply }
    }

    fn turn<T>(self, Outcome { has_changed, reply }: Outcome<T>) -> Turn<Result<T, AgentError>> {
        if has_changed { Turn::Save(self.stage(reply)) } else { Turn::Done(self, reply) }
    }

    /// The stream's policy.
    pub fn policy(&self) -> &StreamPolicy {
        &self.state.policy
    }

    /// The device, with its ledger.
    pub fn device(&self) -> &Device {
        &self.state.device
    }

    /// The terms of absence that the owner has consented to.
    pub fn terms(&self) -> Option<&AbsenceTerms> {
        self.state.absence.as_ref().map(|guard| &guard.terms)
    }

    /// The identity of the report for a question, as [`Agent::report_id`](crate::Agent::report_id).
    pub fn report_id(&self, question: &Question) -> Option<ReportId> {
        self.state.report_id(question)
    }

    /// The proof of the token for a report, in a stream with credentials.
    pub fn prove(&self, question: &Question, report: &Report) -> Option<TokenProof> {
        self.state.prove(question, report)
    }

    /// Asks for the service's time; `None` under terms that do not count it. Send the request at once, and pass the
    /// answer to [`attest`](Self::attest). It replaces an earlier request.
    pub fn ask_time(&mut self, now: ClockReading, random: &mut impl Randomness) -> Option<TimeRequest> {
        self.state.absence.as_mut().and_then(|guard| guard.ask(now, random))
    }

    /// Takes the service's time. It counts for the next minute of the steady clock.
    ///
    /// # Errors
    /// A [`TimeError`]: the time does not count.
    pub fn attest(&mut self, now: ClockReading, time: &SignedTime) -> Result<(), TimeError> {
        self.state.absence.as_mut().map_or(Err(TimeError::NotAsked), |guard| guard.hear(now, time))
    }

    /// Notes the value at a timestamp, as [`Agent::gather`](crate::Agent::gather).
    pub fn gather(&mut self, now: ClockReading, timestamp: u64, value: u32) {
        self.state.gather(now, timestamp, value);
    }

    /// Answers a question of a stream, if the policy allows it. The report can be read once its spend is stored.
    pub fn answer(
        mut self,
        now: ClockReading,
        stream: &str,
        question: &Question,
        value: u32,
        random: &mut impl Randomness,
    ) -> Turn<Result<AgentReply, AgentError>> {
        let outcome = self.state.answer(now, stream, question, value, random);
        self.turn(outcome)
    }

    /// Prepares the draw of the present block, as [`Agent::draw`](crate::Agent::draw), and gives the block if its draw
    /// is [pending](Self::pending_draw).
    pub fn draw(mut self, now: ClockReading, random: &mut impl Randomness) -> Turn<Result<Option<u64>, AgentError>> {
        let outcome = self.state.draw_block(0, now, random);
        self.turn(outcome)
    }

    /// Prepares the draw of the next block, as [`Agent::draw_ahead`](crate::Agent::draw_ahead).
    pub fn draw_ahead(
        mut self,
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Turn<Result<Option<u64>, AgentError>> {
        let outcome = self.state.draw_block(1, now, random);
        self.turn(outcome)
    }

    /// The draw of a block, if it is prepared and not answered.
    pub fn pending_draw(&self, block: u64) -> Option<&Draw> {
        self.state.pending_draw(block)
    }

    /// Takes the answer to a draw, as [`Agent::drawn`](crate::Agent::drawn).
    pub fn drawn(mut self, block: u64, answer: &DrawAnswer) -> Turn<Result<(), AgentError>> {
        let outcome = self.state.drawn(block, answer);
        self.turn(outcome)
    }
}

/// Reads stored contents: the mark and the state.
fn read(stored: &[u8]) -> Result<(u64, Vec<u8>), Damaged> {
    let body = body_of(MAGIC, stored)?;
    let Some((mark, rest)) = body.split_first_chunk() else { return Err(Damaged::Foreign) };
    let Some((_, contents)) = rest.split_first_chunk::<16>() else { return Err(Damaged::Foreign) };
    Ok((u64::from_le_bytes(*mark), contents.to_vec()))
}
