//! Users who trust nobody: each is a device with a ledger of its own, in this process.
//!
//! The mechanism asks, the devices answer, and only what the collector makes of that leaves the process.

use std::io::Read;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate::kernel::oracle::Estimate;
use tidegate::kernel::{FreshRandom, Question, Randomness, Window};
use tidegate::local::{Local, LocalKind, Step};
use tidegate::rows::Shape;
use tidegate::spec::{LocalSpec, SpecError, Values};
use tidegate_device::{AnswerError, Device, DevicePolicy, slot_of};
use tidegate_lab::datasets::{DataError, Format};

use super::gate::{Family, Next, Rejected};
use super::rows::Released;
use super::state::{decoded, encoded, misfit};
use super::users::{Expected, Line, Roll};
use crate::failure::Failure;

pub(super) struct Devices {
    values: Values,
    mechanism: Local,
    policy: DevicePolicy,
    /// Gives each user a slot; drawn with the first.
    slots: Option<[u8; 16]>,
    roll: Roll<OwnDevice>,
    /// The timestamp that is open, and the devices that have a value at it.
    open: Option<(u64, Vec<(usize, u32)>)>,
    last: Option<u64>,
}

/// A user's device.
#[derive(Serialize, Deserialize)]
struct OwnDevice(Device);

impl AsMut<Device> for OwnDevice {
    fn as_mut(&mut self) -> &mut Device {
        &mut self.0
    }
}

#[derive(Serialize)]
struct Saving<'a> {
    last: Option<u64>,
    mechanism: &'a Local,
    slots: Option<[u8; 16]>,
    users: Vec<(&'a str, &'a OwnDevice)>,
}

#[derive(Deserialize)]
struct Saved {
    last: Option<u64>,
    mechanism: Local,
    slots: Option<[u8; 16]>,
    users: Vec<(String, OwnDevice)>,
}

impl Devices {
    pub(super) fn new(spec: &LocalSpec) -> Result<Self, SpecError> {
        let (values, mechanism) = (spec.values()?, spec.mechanism()?);
        let settings = mechanism.settings();
        let window = Window::Timestamps(settings.window);
        let policy = DevicePolicy { epsilon: settings.epsilon, window, domain: settings.domain };
        Ok(Self { values, mechanism, policy, slots: None, roll: Roll::of(Vec::new()), open: None, last: None })
    }

    /// Goes on with a saved run.
    pub(super) fn restore(mut self, saved: Option<&[u8]>) -> Result<Self, Failure> {
        let Some(saved) = saved else { return Ok(self) };
        let Saved { last, mechanism, slots, users } = decoded(saved)?;
        let same = mechanism.settings() == self.mechanism.settings() && mechanism.kind() == self.mechanism.kind();
        if !same || users.iter().any(|(_, OwnDevice(device))| *device.policy() != self.policy) {
            return Err(misfit("it is of other settings"));
        }
        (self.mechanism, self.slots, self.last) = (mechanism, slots, last);
        self.roll = Roll::of(users);
        Ok(self)
    }

    /// Drives the mechanism through the timestamp that is open.
    fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        let Some((timestamp, present)) = self.open.take() else { return Ok(()) };
        let mut step = self.mechanism.open(timestamp).map_err(Failure::run)?;
        let release = loop {
            match step {
                Step::Done(release) => break release,
                Step::Ask(questions) => {
                    let devices = &mut self.roll.users;
                    let ask = |question: &Question| {
                        let answers = present.iter().map(|(number, value)| (*number, *value));
                        asked(question, timestamp, devices, answers, random)
                    };
                    let answers: Vec<Option<Estimate>> = questions.iter().map(ask).collect::<Result<_, _>>()?;
                    step = self.mechanism.answer(&questions, &answers).map_err(Failure::run)?;
                }
            }
        };
        self.last = Some(timestamp);
        // Who is there is public: a collector sees who answers.
        out.population = Some(present.len() as u64);
        out.releases.push(release);
        Ok(())
    }
}

/// What devices make of a question. A device that refuses because its budget is spent is silent.
pub(super) fn asked<D: AsMut<Device>>(
    question: &Question,
    now: u64,
    devices: &mut [(Arc<str>, D)],
    present: impl Iterator<Item = (usize, u32)>,
    random: &mut impl Randomness,
) -> Result<Option<Estimate>, Failure> {
    let mut aggregate = question.oracle().map_err(Failure::run)?.aggregate();
    // All answers are drawn at once: one batch.
    let random = &mut FreshRandom::new(random).map_err(Failure::run)?;
    for (number, value) in present {
        match devices[number].1.as_mut().answer(now, question, value, random) {
            Ok(report) => aggregate.add(report.as_bytes()).map_err(Failure::run)?,
            Err(AnswerError::NotAsked | AnswerError::Budget(_) | AnswerError::Answered { .. }) => {}
            Err(refused) => return Err(Failure::run(refused)),
        }
    }
    Ok(aggregate.estimate().ok())
}

impl Family for Devices {
    type Item = Line;
    type Intake = Expected;

    fn shape(&self) -> Shape {
        match self.mechanism.kind() {
            LocalKind::Mtsp | LocalKind::MtspPopulation => Shape::Tree(self.values.clone()),
            _ => Shape::Frequencies(self.values.clone()),
        }
    }

    fn intake(&self) -> Expected {
        Expected { values: self.values.clone(), over: self.last, counts: false }
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
        if self.open.as_ref().is_some_and(|(open, _)| *open != timestamp) {
            self.close(random, out)?;
        }
        let number = match self.roll.find(&user) {
            Some(number) => number,
            None => {
                let key = self.slots.get_or_insert_with(|| {
                    let mut key = [0; 16];
                    key[..8].copy_from_slice(&random.next_word().to_le_bytes());
                    key[8..].copy_from_slice(&random.next_word().to_le_bytes());
                    key
                });
                let device = Device::new(self.policy, slot_of(key, user.as_bytes()));
                self.roll.add(user, OwnDevice(device))
            }
        };
        self.open.get_or_insert((timestamp, Vec::new())).1.push((number, value));
        Ok(())
    }

    fn time_of(line: &Line) -> u64 {
        line.timestamp()
    }

    fn last(&self) -> Option<u64> {
        self.last
    }

    fn pass_empty(&mut self, timestamp: u64, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        self.close(random, out)?;
        self.open = Some((timestamp, Vec::new()));
        self.close(random, out)
    }

    fn finish(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        self.close(random, out)
    }

    fn save(&self) -> Result<Vec<u8>, Failure> {
        let Self { last, mechanism, slots, roll, .. } = self;
        encoded(&Saving { last: *last, mechanism, slots: *slots, users: roll.saving() })
    }
}
