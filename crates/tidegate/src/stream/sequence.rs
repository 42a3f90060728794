//! Sequence streams: each user has a mechanism of their own, and each symbol is answered by itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::SymbolBatch;
use tidegate_kernel::{Ledger, Randomness};

use super::users::Users;
use super::{Released, StreamError, other_settings};
use crate::release::Release;
use crate::sequence::batched::BatchedError;
use crate::sequence::crr::CrrError;
use crate::sequence::model::Model;
use crate::spec::{SequenceMachine, SequenceSpec, SpecError};

pub(super) struct Sequences {
    spec: SequenceSpec,
    model: Option<Arc<Model>>,
    users: Users<Sequence>,
}

/// One user's stream.
#[derive(Serialize, Deserialize)]
pub(super) struct Sequence {
    machine: SequenceMachine,
    /// The last timestamp that was answered.
    last: Option<u64>,
    /// An incomplete batch, and the timestamp that it waits for. It holds raw symbols, and is not saved.
    #[serde(skip)]
    batch: Option<(SymbolBatch, u64)>,
}

impl Sequences {
    pub(super) fn new(spec: &SequenceSpec) -> Result<Self, SpecError> {
        let model = spec.model()?;
        // A spec that cannot be followed is refused before any symbol is read.
        spec.mechanism(model.as_ref())?;
        Ok(Self { spec: spec.clone(), model, users: Users::default() })
    }

    pub(super) fn load(self, users: Vec<(String, Sequence)>) -> Result<Self, StreamError> {
        let new = self.spec.mechanism(self.model.as_ref())?;
        if !users.iter().all(|(_, user)| new.is_like(&user.machine)) {
            return Err(other_settings());
        }
        Ok(Self { users: Users::of(users), ..self })
    }

    pub(super) fn save(&self) -> Vec<(&str, &Sequence)> {
        self.users.saving()
    }

    /// The ledger of a user's mechanism, at the beginning.
    pub(super) fn with_new_ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> Result<T, SpecError> {
        Ok(look(self.spec.mechanism(self.model.as_ref())?.ledger()))
    }

    pub(super) fn push(
        &mut self,
        timestamp: u64,
        user: &str,
        symbol: u32,
        random: &mut impl Randomness,
        out: &mut Released,
    ) -> Result<(), StreamError> {
        let number = match self.users.find(user) {
            Some(number) => number,
            None => {
                let machine = self.spec.mechanism(self.model.as_ref())?;
                self.users.add(user, Sequence { machine, last: None, batch: None })
            }
        };
        let sequence = self.users.get_mut(number);
        if let Some(last) = sequence.last.filter(|last| timestamp <= *last) {
            let expected = format!("a timestamp after {last}, the last one of this user that was answered");
            return Err(StreamError::entry("t", expected));
        }
        out.releases.extend(sequence.answer(timestamp, symbol, random)?);
        out.user = Some(self.users.name(number).into());
        Ok(())
    }

    /// The largest leakage of any user so far, in sequence information privacy and in local privacy.
    pub(super) fn leakage(&self) -> Option<(f64, f64)> {
        let of_user =
            |(_, user): (_, &Sequence)| user.machine.leakage().map(|leakage| (leakage.total(), leakage.local_bound()));
        self.users.iter().filter_map(of_user).max_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// How many users there are.
    pub(super) fn count(&self) -> usize {
        self.users.iter().count()
    }

    /// The latest timestamp of any user that was answered.
    pub(super) fn last(&self) -> Option<u64> {
        self.users.iter().filter_map(|(_, user)| user.last).max()
    }

    /// The ledger of each user, and the last timestamp that was answered.
    pub(super) fn ledgers(&self) -> impl Iterator<Item = (Option<u64>, &Ledger)> {
        self.users.iter().map(|(_, user)| (user.last, user.machine.ledger()))
    }

    /// How many users wait for the rest of a batch.
    pub(super) fn incomplete(&self) -> usize {
        self.users.iter().filter(|(_, user)| user.batch.is_some()).count()
    }
}

impl Sequence {
    /// The model, where there is one.
    pub(super) fn model(&self) -> Option<&Model> {
        self.machine.model()
    }

    /// Answers a symbol, or takes it into a batch.
    fn answer(
        &mut self,
        timestamp: u64,
        symbol: u32,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, StreamError> {
        let answered = match &mut self.machine {
            SequenceMachine::Crr(mechanism) => {
                let sealed = mechanism.seal(timestamp, symbol)?;
                match mechanism.step(&sealed, random) {
                    // Nothing is left in the window: a guess from public knowledge costs nothing.
                    Err(CrrError::Refused(_)) => vec![mechanism.guess(timestamp)?],
                    Err(error @ CrrError::Gap { .. }) => return Err(StreamError::entry("t", error.to_string())),
                    released => vec![released?],
                }
            }
            SequenceMachine::Baseline(mechanism) => {
                let sealed = mechanism.seal(timestamp, symbol)?;
                vec![mechanism.step(&sealed, random)?]
            }
            SequenceMachine::Batched(mechanism) => {
                let length = u64::from(mechanism.settings().length);
                let first = || first_of_batch(timestamp, length);
                let expected = self.batch.as_ref().map_or_else(first, |(_, expected)| *expected);
                if timestamp != expected {
                    let whole = format!(
                        "timestamp {expected}: a batch has {length} symbols, from a multiple of that on, and lacks none"
                    );
                    return Err(StreamError::entry("t", whole));
                }
                let mut batch = match self.batch.take() {
                    Some((batch, _)) => batch,
                    None => mechanism.gather()?,
                };
                batch.push(symbol)?;
                if !batch.is_full() {
                    self.batch = Some((batch, expected.saturating_add(1)));
                    return Ok(Vec::new());
                }
                let number = timestamp / length;
                match mechanism.answer(number, batch, random) {
                    Err(BatchedError::Step(CrrError::Refused(_))) => mechanism.guess(number)?,
                    Err(error @ (BatchedError::Timestamp { .. } | BatchedError::Step(CrrError::Gap { .. }))) => {
                        return Err(StreamError::entry("t", error.to_string()));
                    }
                    released => released?,
                }
            }
        };
        self.last = Some(timestamp);
        Ok(answered)
    }
}

/// The first timestamp from which a batch can begin.
const fn first_of_batch(timestamp: u64, length: u64) -> u64 {
    match timestamp.checked_next_multiple_of(length) {
        Some(first) => first,
        None => 0,
    }
}
