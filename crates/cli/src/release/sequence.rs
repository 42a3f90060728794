//! Users' correlated streams: each user has a mechanism of its own, and each line is answered by itself.

use std::io::Read;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate::kernel::Randomness;
use tidegate::kernel::primitives::SymbolBatch;
use tidegate::release::Release as Published;
use tidegate::sequence::batched::BatchedError;
use tidegate::sequence::crr::CrrError;
use tidegate::sequence::model::Model;
use tidegate::spec::{SequenceMachine, SequenceSpec, SpecError, Values};
use tidegate_table::releases::ReleaseLayout as Shape;
use tidegate_table::{Format, TableError as DataError};

use super::gate::{Family, Next, Rejected};
use super::rows::Released;
use super::state::{decoded, encoded, misfit};
use super::users::{Expected, Line, Roll};
use crate::failure::{Failure, complain};

pub(super) struct Sequences {
    spec: SequenceSpec,
    values: Values,
    model: Option<Arc<Model>>,
    roll: Roll<User>,
}

/// One user's stream.
#[derive(Serialize, Deserialize)]
struct User {
    machine: SequenceMachine,
    /// The last timestamp that was answered.
    last: Option<u64>,
    /// A batch that is not complete, and the timestamp that it waits for. It holds raw symbols, and is not saved.
    #[serde(skip)]
    batch: Option<(SymbolBatch, u64)>,
}

impl Sequences {
    pub(super) fn new(spec: &SequenceSpec) -> Result<Self, SpecError> {
        let (values, model) = (spec.values()?, spec.model()?);
        // What is wrong with the spec is said before anybody's symbol is read.
        spec.mechanism(model.as_ref())?;
        Ok(Self { spec: spec.clone(), values, model, roll: Roll::of(Vec::new()) })
    }

    /// Goes on with a saved run.
    pub(super) fn restore(mut self, saved: Option<&[u8]>) -> Result<Self, Failure> {
        let Some(saved) = saved else { return Ok(self) };
        let users: Vec<(String, User)> = decoded(saved)?;
        let new = self.spec.mechanism(self.model.as_ref()).map_err(Failure::input)?;
        let same = |user: &User| match (&new, &user.machine) {
            (SequenceMachine::Crr(new), SequenceMachine::Crr(saved)) => {
                new.settings() == saved.settings() && new.model() == saved.model()
            }
            (SequenceMachine::Batched(new), SequenceMachine::Batched(saved)) => {
                new.settings() == saved.settings() && new.model() == saved.model()
            }
            (SequenceMachine::Baseline(new), SequenceMachine::Baseline(saved)) => {
                new.settings() == saved.settings() && new.kind() == saved.kind()
            }
            _ => false,
        };
        if !users.iter().all(|(_, user)| same(user)) {
            return Err(misfit("it is of other settings"));
        }
        self.roll = Roll::of(users);
        Ok(self)
    }
}

impl User {
    /// Answers a symbol, or takes it into a batch.
    fn answer(
        &mut self,
        timestamp: u64,
        symbol: u32,
        random: &mut impl Randomness,
    ) -> Result<Vec<Published>, Rejected> {
        let answered = match &mut self.machine {
            SequenceMachine::Crr(mechanism) => {
                let sealed = mechanism.seal(timestamp, symbol).map_err(Failure::run)?;
                match mechanism.step(&sealed, random) {
                    // Nothing is left in the window: what is believed anyway costs nothing.
                    Err(CrrError::Refused(_)) => vec![mechanism.guess(timestamp).map_err(Failure::run)?],
                    Err(error @ CrrError::Gap { .. }) => return Err(Rejected::time(error.to_string())),
                    released => vec![released.map_err(Failure::run)?],
                }
            }
            SequenceMachine::Baseline(mechanism) => {
                let sealed = mechanism.seal(timestamp, symbol).map_err(Failure::run)?;
                vec![mechanism.step(&sealed, random).map_err(Failure::run)?]
            }
            SequenceMachine::Batched(mechanism) => {
                let length = u64::from(mechanism.settings().length);
                let (mut batch, expected) = match self.batch.take() {
                    Some((batch, expected)) => (batch, expected),
                    None => (mechanism.gather().map_err(Failure::run)?, first_of_batch(timestamp, length)),
                };
                if timestamp != expected {
                    let whole = format!(
                        "timestamp {expected}: a batch has {length} symbols, from a multiple of that on, and lacks none"
                    );
                    return Err(Rejected::time(whole));
                }
                batch.push(symbol).map_err(Failure::run)?;
                if !batch.is_full() {
                    self.batch = Some((batch, expected.saturating_add(1)));
                    return Ok(Vec::new());
                }
                let number = timestamp / length;
                match mechanism.answer(number, batch, random) {
                    Err(BatchedError::Step(CrrError::Refused(_))) => mechanism.guess(number).map_err(Failure::run)?,
                    Err(error @ (BatchedError::Timestamp { .. } | BatchedError::Step(CrrError::Gap { .. }))) => {
                        return Err(Rejected::time(error.to_string()));
                    }
                    released => released.map_err(Failure::run)?,
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

impl Family for Sequences {
    type Item = Line;
    type Intake = Expected;

    fn shape(&self) -> Shape {
        Shape::Symbol(self.values.clone())
    }

    fn intake(&self) -> Expected {
        Expected { values: self.values.clone(), over: None, counts: false }
    }

    fn read<S: Read>(
        expected: Expected,
        name: &str,
        source: S,
        format: Format,
    ) -> Result<impl FnMut() -> Next<Line>, DataError> {
        expected.read(name, source, format)
    }

    fn push(&mut self, line: Line, random: &mut impl Randomness, out: &mut Released) -> Result<(), Rejected> {
        let Line::Value { timestamp, user, value } = line else { return Ok(()) };
        let number = match self.roll.find(&user) {
            Some(number) => number,
            None => {
                let machine = self.spec.mechanism(self.model.as_ref()).map_err(Failure::input)?;
                self.roll.add(user, User { machine, last: None, batch: None })
            }
        };
        let (name, user) = &mut self.roll.users[number];
        if let Some(last) = user.last.filter(|last| timestamp <= *last) {
            return Err(Rejected::time(format!(
                "a timestamp after {last}, the last one of this user that was answered"
            )));
        }
        let name = Arc::clone(name);
        let answered = user.answer(timestamp, value, random)?;
        out.releases.extend(answered);
        out.user = Some(name);
        Ok(())
    }

    fn time_of(line: &Line) -> u64 {
        line.timestamp()
    }

    /// Each user has a time of its own.
    fn last(&self) -> Option<u64> {
        None
    }

    /// Its specs have no timeline: who answers, and when, is public.
    fn pass_empty(&mut self, _: u64, _: &mut impl Randomness, _: &mut Released) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self, _random: &mut impl Randomness, _out: &mut Released) -> Result<(), Failure> {
        let incomplete = self.roll.users.iter().filter(|(_, user)| user.batch.is_some()).count();
        if incomplete > 0 {
            complain(
                "note",
                format_args!(
                    "the last batches of {incomplete} users are not complete: nothing of them was released or spent"
                ),
            );
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, Failure> {
        encoded(&self.roll.saving())
    }
}
