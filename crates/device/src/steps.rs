//! The steps of an agent: what changes its [`State`], without saving it.

use tidegate_kernel::oracle::{OracleError, OracleKind, Report};
use tidegate_kernel::{Question, Randomness};

use crate::absence::{AbsenceGuard, AbsenceTerms};
use crate::agent::{AgentError, AgentReply, Beginning};
use crate::clock::{ClockGuard, ClockReading};
use crate::credential::{BLOCK, Draw, DrawAnswer, ReportToken, TokenError};
use crate::device::Device;
use crate::enrolment::StreamPolicy;
use crate::refusal::RefusalReason;
use crate::state::{Loaded, Looked, SequenceState, State};
use crate::wire::{ReportId, StreamTag, TokenProof};

/// Whether the owner consents to a change of policy or terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    None,
    OfTheOwner,
}

/// What an agent is opened with.
#[derive(Debug)]
pub(crate) struct Enrolment<'a> {
    pub(crate) policy: StreamPolicy,
    pub(crate) terms: Option<AbsenceTerms>,
    pub(crate) witness: &'a [u8],
    pub(crate) consent: Consent,
}

/// A reply, which may be used once the state is saved, if that has changed.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) has_changed: bool,
    pub(crate) reply: Result<T, AgentError>,
}

impl State {
    /// The state to begin with. Save it before anything else, also if it was loaded.
    pub(crate) fn begin(
        loaded: Loaded,
        enrolment: Enrolment<'_>,
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Result<(Box<Self>, Beginning), AgentError> {
        let Enrolment { policy, terms, witness, consent } = enrolment;
        let (beginning, before) = match loaded {
            Loaded::Whole(mut state) if state.policy == policy => {
                // The clocks are checked when a question arrives.
                state.agree_to(terms, consent, now)?;
                return Ok((state, Beginning::Resumed));
            }
            Loaded::Whole(state) => (Beginning::OtherPolicy, Some(state)),
            Loaded::Nothing => (Beginning::New, None),
            Loaded::Untrusted(damage, state) => (Beginning::Lost(damage), state),
        };
        let (mut latest, mut pace, mut silence) = (now.wall, ClockGuard::from(now), None);
        if let Some(mut state) = before {
            if state.absence.is_none() && terms.is_none() {
                state.look_at(now);
            } else {
                // Another guard begins, which does not know how much time has passed.
                state.carry(now);
            }
            silence = if state.policy == policy {
                state.check_terms(terms.as_ref(), consent)?;
                // The new ledger counts as spent from the old ledger's last timestamp on.
                let clock = state.device.ledger().clock().unwrap_or(0);
                latest = latest.max(policy.ticks.end_of(clock));
                state.silence
            } else {
                let silence = state.silences()?;
                if consent == Consent::None {
                    let (enrolled, offered) = (Box::new(state.policy), Box::new(policy));
                    return Err(AgentError::OtherPolicy { enrolled, offered });
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
        let absence = terms.map(|terms| AbsenceGuard::new(terms, now));
        let (witness, draws, last) = (witness.to_vec(), Vec::new(), None);
        let state = Self { witness, identity, policy, device, last, pace, silence, draws, absence, sequence };
        Ok((Box::new(state), beginning))
    }

    fn check_terms(&self, offered: Option<&AbsenceTerms>, consent: Consent) -> Result<(), AgentError> {
        let enrolled = self.absence.as_ref().map(|guard| &guard.terms);
        if enrolled == offered || consent == Consent::OfTheOwner {
            return Ok(());
        }
        Err(AgentError::OtherTerms { enrolled: enrolled.cloned(), offered: offered.cloned() })
    }

    /// Takes other terms of absence, if the owner consents.
    fn agree_to(&mut self, terms: Option<AbsenceTerms>, consent: Consent, now: ClockReading) -> Result<(), AgentError> {
        self.check_terms(terms.as_ref(), consent)?;
        match (&mut self.absence, terms) {
            (None, None) => {}
            (Some(guard), Some(terms)) if guard.terms.trusts == terms.trusts => guard.terms = terms,
            (_, terms) => {
                // Another guard begins, which does not know how much time has passed.
                self.carry(now);
                self.pace = ClockGuard::from(now);
                self.absence = terms.map(|terms| AbsenceGuard::new(terms, now));
            }
        }
        Ok(())
    }

    /// The identity of the report for a question; `None` without the token that it needs.
    pub(crate) fn report_id(&self, question: &Question) -> Option<ReportId> {
        if self.policy.issuer.is_some() {
            return Some(self.token(question.timestamp)?.report_id(question.phase));
        }
        Some(ReportId::of(&self.identity, self.tag(), question.timestamp, question.phase))
    }

    /// The proof of the token for a report, in a stream with credentials.
    pub(crate) fn prove(&self, question: &Question, report: &Report) -> Option<TokenProof> {
        self.token(question.timestamp).map(|token| token.prove(question.phase, report.as_bytes()))
    }

    fn tag(&self) -> StreamTag {
        StreamTag::of(&self.policy.stream)
    }

    fn token(&self, timestamp: u64) -> Option<ReportToken> {
        self.draws.iter().find_map(|draw| draw.token(self.tag(), timestamp))
    }

    /// The draw of a block that is not answered yet.
    pub(crate) fn pending_draw(&self, block: u64) -> Option<&Draw> {
        self.draws.iter().find(|draw| draw.block() == block && !draw.is_complete())
    }

    /// Prepares the draw of the present block, or of so many later, and returns the block if it is not answered yet.
    pub(crate) fn draw_block(
        &mut self,
        ahead: u64,
        now: ClockReading,
        random: &mut impl Randomness,
    ) -> Outcome<Option<u64>> {
        let Self { policy, draws, .. } = self;
        if policy.issuer.is_none() {
            return Outcome { has_changed: false, reply: Ok(None) };
        }
        let Some(timestamp) = policy.ticks.timestamp(now.wall) else {
            return Outcome { has_changed: false, reply: Err(AgentError::BeforeEpoch) };
        };
        let present = timestamp / BLOCK;
        let (wanted, before) = (present.saturating_add(ahead), draws.len());
        draws.retain(|draw| (present..=present.saturating_add(1)).contains(&draw.block()));
        let mut has_changed = draws.len() < before;
        if !draws.iter().any(|draw| draw.block() == wanted) {
            draws.push(Draw::new(wanted, random));
            has_changed = true;
        }
        Outcome { has_changed, reply: Ok(self.pending_draw(wanted).map(Draw::block)) }
    }

    /// Takes the answer to a draw.
    pub(crate) fn drawn(&mut self, block: u64, answer: &DrawAnswer) -> Outcome<()> {
        let (tag, Self { policy, draws, .. }) = (self.tag(), self);
        let draw = draws.iter_mut().find(|draw| draw.block() == block && !draw.is_complete());
        let finished = match (&policy.issuer, draw) {
            (Some(issuer), Some(draw)) => draw.finish(tag, issuer, answer),
            _ => Err(TokenError::OtherKey),
        };
        Outcome { has_changed: finished.is_ok(), reply: finished.map_err(AgentError::from) }
    }

    /// Notes the value at a timestamp up to now, for the open batch of a stream whose releases take several symbols.
    pub(crate) fn gather(&mut self, now: ClockReading, timestamp: u64, value: u32) {
        let present = self.policy.ticks.timestamp(now.wall);
        if let Some(sequence) = self.sequence.as_mut().filter(|_| Some(timestamp) <= present) {
            sequence.gather(timestamp, value);
        }
    }

    /// Answers a question of a stream, if the policy allows it.
    pub(crate) fn answer(
        &mut self,
        now: ClockReading,
        stream: &str,
        question: &Question,
        value: u32,
        random: &mut impl Randomness,
    ) -> Outcome<AgentReply> {
        let policy = &self.policy;
        let mut has_changed = false;
        let refuse = |has_changed, reason| Outcome { has_changed, reply: Ok(AgentReply::Refused(reason)) };
        if stream != policy.stream {
            return refuse(has_changed, RefusalReason::OtherStream);
        }
        if policy.oracle.is_some_and(|oracle: OracleKind| oracle != question.oracle) {
            return refuse(has_changed, RefusalReason::OtherOracle);
        }
        let Some(timestamp) = policy.ticks.timestamp(now.wall) else {
            return Outcome { has_changed, reply: Err(AgentError::BeforeEpoch) };
        };
        let Looked { reason, has_moved } = self.look_at(now);
        has_changed |= has_moved;
        let Self { policy, device, last, draws, sequence, .. } = self;
        // Before anything is spent: without a token the report would not be counted.
        let stream = StreamTag::of(stream);
        if policy.issuer.is_some() && !draws.iter().any(|draw| draw.token(stream, question.timestamp).is_some()) {
            return refuse(has_changed, RefusalReason::NoToken);
        }
        if let Some((answered, report)) = last
            && answered == question
            && question.timestamp == timestamp
        {
            return Outcome { has_changed, reply: Ok(AgentReply::Report(report.clone())) };
        }
        if let Some(reason) = reason {
            return refuse(has_changed, reason);
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
                Outcome { has_changed: true, reply: Ok(AgentReply::Report(report)) }
            }
            Err(refused) => match refused.reason() {
                Ok(reason) => refuse(has_changed, reason),
                Err(error) => {
                    // The spend is saved all the same, so that later answers do not depend on this value.
                    let error = match error {
                        OracleError::Entropy(error) => AgentError::Entropy(error),
                        error => AgentError::Value(error),
                    };
                    Outcome { has_changed: true, reply: Err(error) }
                }
            },
        }
    }
}
