//! Local streams: a collector asks devices. The devices may be elsewhere, or in this process, where each has its own
//! ledger.

use serde::{Deserialize, Serialize};
use tidegate_device::{AnswerError, Device, DevicePolicy, PreparedQuestion, slot_of};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{FreshRandom, Question, Randomness, Window};

use super::users::Users;
use super::{Released, StreamError, other_settings};
use crate::central::classes::{Classes, Requirement};
use crate::local::plbu::Plbu;
use crate::local::{Local, Step};

/// A collector, and the devices of this process.
pub(super) struct Collector<M> {
    pub(super) mechanism: M,
    /// The number of values.
    domain: u32,
    /// Gives each user a slot; drawn with the first.
    slots: Option<[u8; 16]>,
    users: Users<Member>,
    /// The open timestamp, and the devices that have a value at it.
    open: Option<(u64, Vec<(usize, u32)>)>,
    /// Number of timestamps closed.
    turn: u32,
    pub(super) last: Option<u64>,
}

/// A user of this process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Member {
    class: u16,
    device: Device,
    /// Whether the user was enrolled since the stream was made or loaded.
    #[serde(skip)]
    is_there: bool,
    /// The turn of the user's last value, from one.
    #[serde(skip)]
    turn: u32,
}

impl Member {
    const fn new(class: u16, device: Device) -> Self {
        Self { class, device, is_there: true, turn: 0 }
    }
}

/// The saved form of a collector.
#[derive(Debug, Serialize)]
pub(super) struct SavingCollector<'a, M> {
    last: Option<u64>,
    mechanism: &'a M,
    slots: Option<[u8; 16]>,
    users: Vec<(&'a str, &'a Member)>,
}

/// The loaded form of a collector.
#[derive(Debug, Deserialize)]
pub(super) struct SavedCollector<M> {
    last: Option<u64>,
    mechanism: M,
    slots: Option<[u8; 16]>,
    users: Vec<(String, Member)>,
}

impl<M> Collector<M> {
    pub(super) fn new(mechanism: M, domain: u32) -> Self {
        Self { mechanism, domain, slots: None, users: Users::default(), open: None, turn: 1, last: None }
    }

    pub(super) fn save(&self) -> SavingCollector<'_, M> {
        let Self { last, mechanism, slots, users, .. } = self;
        SavingCollector { last: *last, mechanism, slots: *slots, users: users.saving() }
    }

    fn loaded(self, saved: SavedCollector<M>) -> Self {
        let SavedCollector { last, mechanism, slots, users } = saved;
        Self { mechanism, slots, users: Users::of(users), last, ..self }
    }

    /// Takes the value of a user in.
    pub(super) fn note(&mut self, timestamp: u64, number: usize, value: u32) -> Result<(), StreamError> {
        let turn = &mut self.users.get_mut(number).turn;
        if std::mem::replace(turn, self.turn) == self.turn {
            return Err(StreamError::second_value());
        }
        self.open.get_or_insert((timestamp, Vec::new())).1.push((number, value));
        Ok(())
    }

    /// Ends the open timestamp.
    fn take_open(&mut self) -> Option<(u64, Vec<(usize, u32)>)> {
        // After 2^32 timestamps, a user who was absent all the while is taken for present, once.
        self.turn = self.turn.checked_add(1).unwrap_or(1);
        self.open.take()
    }

    /// The timestamp whose entries are gathered.
    pub(super) fn open_timestamp(&self) -> Option<u64> {
        self.open.as_ref().map(|(timestamp, _)| *timestamp)
    }

    pub(super) fn open_empty(&mut self, timestamp: u64) {
        self.open = Some((timestamp, Vec::new()));
    }
}

impl Collector<Local> {
    fn policy(&self) -> DevicePolicy {
        let settings = self.mechanism.settings();
        DevicePolicy { epsilon: settings.epsilon, window: Window::Timestamps(settings.window), domain: settings.domain }
    }

    pub(super) fn load(self, saved: SavedCollector<Local>) -> Result<Self, StreamError> {
        let (new, old) = (&self.mechanism, &saved.mechanism);
        let same = (new.settings(), new.kind()) == (old.settings(), old.kind());
        let policy = self.policy();
        if !same || saved.users.iter().any(|(_, member)| *member.device.policy() != policy) {
            return Err(other_settings());
        }
        Ok(self.loaded(saved))
    }

    /// Takes a value in; a user who was never seen gets a device.
    pub(super) fn add(
        &mut self,
        timestamp: u64,
        user: &str,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<(), StreamError> {
        let number = match self.users.find(user) {
            Some(number) => number,
            None => {
                let key = self.slots.get_or_insert_with(|| {
                    let mut key = [0; 16];
                    key[..8].copy_from_slice(&random.next_word().to_le_bytes());
                    key[8..].copy_from_slice(&random.next_word().to_le_bytes());
                    key
                });
                let slot = slot_of(key, user.as_bytes());
                let device = Device::new(self.policy(), slot);
                self.users.add(user, Member::new(0, device))
            }
        };
        self.note(timestamp, number, value)
    }

    /// Asks the devices of the open timestamp until it is released.
    pub(super) fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        let Some((timestamp, present)) = self.take_open() else { return Ok(()) };
        let mut step = self.mechanism.open(timestamp)?;
        let release = loop {
            match step {
                Step::Done(release) => break release,
                Step::Ask(questions) => {
                    let ask = |question: &Question| {
                        answers(question, timestamp, &mut self.users, present.iter().copied(), random)
                    };
                    let answers: Vec<Option<Estimate>> = questions.iter().map(ask).collect::<Result<_, _>>()?;
                    step = self.mechanism.answer(&questions, &answers)?;
                }
            }
        };
        self.last = Some(timestamp);
        // Presence is public: a collector sees who answers.
        out.population = Some(present.len() as u64);
        out.releases.push(release);
        Ok(())
    }
}

impl Collector<Plbu> {
    pub(super) fn load(self, saved: SavedCollector<Plbu>) -> Result<Self, StreamError> {
        let has_policy = |(_, member): &(String, Member)| {
            let class = self.classes().all().get(usize::from(member.class));
            class.is_some_and(|class| *member.device.policy() == self.policy(class.requirement))
        };
        if !self.mechanism.is_like(&saved.mechanism) || !saved.users.iter().all(has_policy) {
            return Err(other_settings());
        }
        Ok(self.loaded(saved))
    }

    pub(super) const fn classes(&self) -> &Classes {
        self.mechanism.classes()
    }

    const fn policy(&self, requirement: Requirement) -> DevicePolicy {
        let window = Window::Timestamps(requirement.window);
        DevicePolicy { epsilon: requirement.epsilon, window, domain: self.domain }
    }

    /// Enrols a device in a class, for good.
    pub(super) fn enrol(&mut self, user: &str, class: u16) -> Result<(), StreamError> {
        if let Some(number) = self.users.find(user) {
            let member = self.users.get_mut(number);
            if member.class != class {
                let kept = "the class that the user had before: a device keeps the promise it was enrolled with";
                return Err(StreamError::entry("class", kept));
            }
            member.is_there = true;
            return Ok(());
        }
        let policy = self.policy(self.classes().all()[usize::from(class)].requirement);
        self.users.add(user, Member::new(class, Device::new(policy, 0)));
        Ok(())
    }

    /// The number of an enrolled user.
    pub(super) fn find(&self, user: &str) -> Result<usize, StreamError> {
        let number = self.users.find(user).filter(|number| self.users.get(*number).is_there);
        number.ok_or_else(StreamError::not_enrolled)
    }

    /// Asks each class of the open timestamp its own question.
    pub(super) fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        let Some((timestamp, present)) = self.take_open() else { return Ok(()) };
        let questions = self.mechanism.open(timestamp)?;
        let mut by_class = vec![Vec::new(); questions.len()];
        for (number, value) in present {
            by_class[usize::from(self.users.get(number).class)].push((number, value));
        }
        let asked = questions.iter().zip(by_class);
        let asked =
            asked.map(|(question, members)| answers(question, timestamp, &mut self.users, members.into_iter(), random));
        let asked: Vec<_> = asked.collect::<Result<_, _>>()?;
        out.releases.extend(self.mechanism.answer(timestamp, &asked)?);
        self.last = Some(timestamp);
        Ok(())
    }
}

/// The estimate from what devices answer. A device whose budget is spent is silent.
fn answers(
    question: &Question,
    now: u64,
    users: &mut Users<Member>,
    present: impl Iterator<Item = (usize, u32)>,
    random: &mut impl Randomness,
) -> Result<Option<Estimate>, StreamError> {
    let prepared = PreparedQuestion::new(question.clone())?;
    let mut aggregate = prepared.oracle().aggregate();
    // All answers are drawn at once: one batch.
    let random = &mut FreshRandom::new(random)?;
    for (number, value) in present {
        match users.get_mut(number).device.answer_once(now, &prepared, value, random) {
            Ok(report) => aggregate.add(report.as_bytes())?,
            Err(AnswerError::NotAsked | AnswerError::Budget(_) | AnswerError::Answered { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Ok(aggregate.estimate().ok())
}
