//! [`State`]: what an agent remembers, and its saved form.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Report;
use tidegate_kernel::primitives::SymbolBatch;
use tidegate_kernel::{Question, Window};

use crate::absence::{AbsenceGuard, Passed};
use crate::agent::AgentError;
use crate::clock::{ClockGuard, ClockReading};
use crate::credential::Draw;
use crate::device::Device;
use crate::disk::Damaged;
use crate::enrolment::{StreamPolicy, common};
use crate::refusal::RefusalReason;
use crate::sequence::{SequenceError, SequenceMemory, SequencePolicy, SequenceRule};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) witness: Vec<u8>,
    pub(crate) identity: [u8; 16],
    // Without its sequence and its key of tokens, which are saved with what they need.
    #[serde(with = "common")]
    pub(crate) policy: StreamPolicy,
    pub(crate) device: Device,
    /// The last answer, to repeat it if asked again.
    // Required, though it may be null: an agent without it would refuse to repeat the answer.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) last: Option<(Question, Report)>,
    pub(crate) pace: ClockGuard,
    /// Silence imposed by earlier policies.
    // Required as well.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) silence: Option<Silence>,
    /// Tokens of the present block and of the next, in a stream with credentials; saved after the rest.
    #[serde(skip)]
    pub(crate) draws: Vec<Draw>,
    /// The guard that takes the place of `pace` under terms of absence; saved after the tokens.
    #[serde(skip)]
    pub(crate) absence: Option<AbsenceGuard>,
    /// Memory of a stream of sequences; saved last.
    #[serde(skip)]
    pub(crate) sequence: Option<SequenceState>,
}

/// The state of an agent that releases sequences.
#[derive(Debug)]
pub(crate) struct SequenceState {
    pub(crate) rule: SequenceRule,
    pub(crate) memory: SequenceMemory,
    /// The symbols of a batch that is not over. They are in memory only: a crash loses them, and no others.
    pub(crate) open: Option<OpenBatch>,
}

#[derive(Debug)]
pub(crate) struct OpenBatch {
    /// The timestamp of its first symbol.
    start: u64,
    pub(crate) symbols: SymbolBatch,
}

/// Heading of the saved form of tokens, with which no state of a sequence begins.
const TOKENS: &[u8] = b"tidegate tokens 1\n";

/// Heading of the saved form of a guard of absences, with which no state of a sequence begins.
const ABSENCES: &[u8] = b"tidegate absences 1\n";

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
    pub(crate) fn new(policy: &SequencePolicy) -> Result<Self, SequenceError> {
        let rule = SequenceRule::new(policy)?;
        let memory = SequenceMemory::new(&rule);
        Ok(Self { rule, memory, open: None })
    }

    /// Notes the symbol of a timestamp. A batch that misses a symbol is dropped.
    pub(crate) fn gather(&mut self, timestamp: u64, symbol: u32) {
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
pub(crate) struct Silence {
    /// End by the wall clock, in seconds since 1970.
    pub(crate) until: u64,
    /// Duration in seconds. It starts again when the elapsed time is unknown.
    pub(crate) seconds: u64,
}

/// Outcome of a look at the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Why nothing new can be answered now.
    pub(crate) reason: Option<RefusalReason>,
    /// Whether the state must be saved, whatever is answered.
    pub(crate) has_moved: bool,
}

impl State {
    /// Processes a clock reading. Spends never count as older than they are, also those of earlier policies.
    pub(crate) fn look_at(&mut self, now: ClockReading) -> Looked {
        let Some(guard) = &mut self.absence else {
            if !self.pace.keeps(now) {
                self.carry(now);
            }
            self.end_silence(now);
            return Looked { reason: None, has_moved: false };
        };
        let tick = self.policy.ticks.seconds;
        let (reason, has_moved) = match guard.look_at(now, tick) {
            Passed::Known { begins } => (None, begins),
            Passed::Ahead(timestamps) => {
                self.device.delay(timestamps.get());
                if let Some(silence) = &mut self.silence {
                    silence.until = silence.until.saturating_add(timestamps.get().saturating_mul(tick.get()));
                }
                (None, true)
            }
            Passed::Unknown => (Some(RefusalReason::NoTime), false),
            Passed::Over => (Some(RefusalReason::ConsentOver), false),
        };
        if reason.is_none() {
            self.end_silence(now);
        }
        Looked { reason, has_moved }
    }

    /// Ends a silence that is over.
    fn end_silence(&mut self, now: ClockReading) {
        self.silence = self.silence.filter(|silence| now.wall < silence.until);
    }

    /// Counts all spends as made now, also those of earlier policies: the elapsed time is unknown.
    pub(crate) fn carry(&mut self, now: ClockReading) {
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
    /// silence. Call `look_at` or `carry` first.
    pub(crate) fn silences(&self) -> Result<Silence, AgentError> {
        let Window::Timestamps(window) = self.policy.protects.window else { return Err(AgentError::Spent) };
        let clock = self.device.ledger().clock().unwrap_or(0);
        let until = self.policy.ticks.end_of(clock.saturating_add(window.get() - 1));
        let earlier = self.silence.map_or(0, |silence| silence.seconds);
        let seconds = window.get().saturating_mul(self.policy.ticks.seconds.get()).saturating_add(earlier);
        Ok(Silence { until, seconds })
    }

    /// The saved form.
    pub(crate) fn contents(&self) -> postcard::Result<Vec<u8>> {
        let mut contents = postcard::to_allocvec(self)?;
        if let Some(issuer) = self.policy.issuer {
            contents.extend_from_slice(TOKENS);
            contents = postcard::to_extend(&SavedTokens { issuer, draws: Cow::Borrowed(&self.draws) }, contents)?;
        }
        if let Some(guard) = &self.absence {
            contents.extend_from_slice(ABSENCES);
            contents = postcard::to_extend(guard, contents)?;
        }
        let (Some(policy), Some(SequenceState { memory, .. })) = (&self.policy.sequence, &self.sequence) else {
            return Ok(contents);
        };
        postcard::to_extend(&SavedSequence { policy: Cow::Borrowed(policy), memory: Cow::Borrowed(memory) }, contents)
    }

    fn parse(contents: &[u8]) -> Option<Box<Self>> {
        let (mut state, mut rest): (Self, &[u8]) = postcard::take_from_bytes(contents).ok()?;
        if let Some(tokens) = rest.strip_prefix(TOKENS) {
            let (SavedTokens { issuer, draws }, after) = postcard::take_from_bytes(tokens).ok()?;
            if draws.len() > 2 || !draws.iter().all(Draw::is_possible) {
                return None;
            }
            (state.policy.issuer, state.draws, rest) = (Some(issuer), draws.into_owned(), after);
        }
        if let Some(absences) = rest.strip_prefix(ABSENCES) {
            let (guard, after) = postcard::take_from_bytes(absences).ok()?;
            (state.absence, rest) = (Some(guard), after);
        }
        if !rest.is_empty() {
            let (SavedSequence { policy, memory }, []) = postcard::take_from_bytes(rest).ok()? else { return None };
            let rule = SequenceRule::new(&policy).ok().filter(|rule| memory.fits(rule))?;
            state.policy.sequence = Some(policy.into_owned());
            state.sequence = Some(SequenceState { rule, memory: memory.into_owned(), open: None });
        }
        // An inconsistent state was not written by an agent.
        let fits = state.device.policy() == &state.policy.protects
            && state.device.slot() == state.policy.slot_of(&state.identity);
        fits.then(|| Box::new(state))
    }
}

/// The state that was found where it is kept.
pub(crate) enum Loaded {
    Nothing,
    Whole(Box<State>),
    /// An unreliable state. If readable, it still gives the promised policy and a lower bound of the time.
    Untrusted(Damaged, Option<Box<State>>),
}

impl Loaded {
    pub(crate) fn of(found: Result<Option<Vec<u8>>, Damaged>, witness: &[u8]) -> Result<Self, AgentError> {
        let contents = match found {
            Ok(None) => return Ok(Self::Nothing),
            Ok(Some(contents)) => contents,
            // It may be intact: do not replace it.
            Err(Damaged::Unreadable(error)) => return Err(AgentError::Disk(error)),
            Err(Damaged::Copy { contents }) => {
                let state = State::parse(&contents);
                return Ok(Self::Untrusted(Damaged::Copy { contents }, state));
            }
            Err(damage) => return Ok(Self::Untrusted(damage, None)),
        };
        Ok(match State::parse(&contents) {
            Some(state) if state.witness == witness => Self::Whole(state),
            Some(state) => Self::Untrusted(Damaged::Copy { contents }, Some(state)),
            None => Self::Untrusted(Damaged::Foreign, None),
        })
    }
}
