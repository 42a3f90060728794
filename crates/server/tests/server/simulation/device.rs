//! [`SimulatedDevice`]: a device with its own disk and clocks.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use ed25519_dalek::SigningKey;
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::enrolment::VerifiedPolicy;
use tidegate_device::sequence::{SequenceMemory, SequencePolicy, SequenceRule};
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_device::{Agent, AgentError, AgentReply, Device};
use tidegate_kernel::oracle::Report;
use tidegate_kernel::{Question, SeededRandom};
use tidegate_server::stream::Declaration;

use super::dice::Dice;

const FILE: &str = "place.device";

/// Verified policies: signing is slow, and thousands of devices need one.
static POLICIES: LazyLock<Mutex<BTreeMap<String, VerifiedPolicy>>> = LazyLock::new(Mutex::default);

fn policy_of(declaration: &Declaration) -> VerifiedPolicy {
    let mut policies = POLICIES.lock().unwrap_or_else(PoisonError::into_inner);
    let verify = || {
        let operator = SigningKey::from_bytes(&[7; 32]);
        let policy = declaration.policy(*b"sixteen byte key").unwrap().unwrap();
        policy.sign(&operator).unwrap().verified(&operator.verifying_key()).unwrap()
    };
    policies.entry(serde_json::to_string(declaration).unwrap()).or_insert_with(verify).clone()
}

/// Defect of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BrokenDevice {
    pub(super) disk: Broken,
    /// A retry draws noise again.
    pub(super) draws_again: bool,
    /// Defect of devices that release sequences.
    pub(super) of_sequences: SequenceDefect,
}

/// What a device of sequences does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SequenceDefect {
    /// Nothing.
    #[default]
    Nothing,
    /// It forgets its ledger with each release.
    ForgetsLedger,
    /// It debits the loss that holds if the model is right: half of what holds in any case.
    DebitsHalf,
    /// It forgets its ledger, and what it has released, with each release.
    ForgetsEverything,
    /// It forgets what follows from its releases about its next symbol.
    ForgetsBelief,
}

pub(super) struct SimulatedDevice {
    /// Person whose data it holds.
    pub(super) person: usize,
    pub(super) declaration: Declaration,
    broken: BrokenDevice,
    disk: SimulatedDisk,
    disks: u64,
    seed: u64,
    agent: Option<Agent<SimulatedDisk>>,
    /// Offset of the wall clock, in seconds.
    ahead: i64,
    furthest: u64,
    run: u8,
    run_began: u64,
    machine: u8,
    backup: Option<Vec<u8>>,
    random: SeededRandom,
    /// State before the answer, for a device that draws again.
    before: Option<(Question, Vec<u8>)>,
    /// State of a device with a defect of sequences, which needs no disk to go wrong.
    defective: Option<(Device, SequenceMemory)>,
}

impl SimulatedDevice {
    /// Creates a device whose first window has passed at `now`, in milliseconds.
    pub(super) fn new(person: usize, declaration: &Declaration, broken: BrokenDevice, seed: u64, now: u64) -> Self {
        let seed = seed.wrapping_mul(1_000).wrapping_add(person as u64);
        let enrolled = now - 100_000;
        let mut device = Self {
            person,
            declaration: declaration.clone(),
            broken,
            disk: SimulatedDisk::new(broken.disk, seed),
            disks: 0,
            seed,
            agent: None,
            ahead: 0,
            furthest: 0,
            run: 1,
            run_began: enrolled / 1_000,
            machine: 1,
            backup: None,
            random: SeededRandom::with_stream(seed, 5),
            before: None,
            defective: None,
        };
        device.open(enrolled);
        device
    }

    fn reading(&mut self, now: u64) -> ClockReading {
        let truly = now / 1_000;
        let wall = truly.saturating_add_signed(self.ahead);
        self.furthest = self.furthest.max(wall);
        let steady = Steady { run: [self.run; 16], seconds: truly - self.run_began };
        ClockReading { wall, steady }
    }

    /// Returns the timestamp of its own clock.
    pub(super) fn timestamp(&mut self, now: u64) -> Option<u64> {
        let wall = self.reading(now).wall;
        self.declaration.ticks().timestamp(wall)
    }

    fn open(&mut self, now: u64) {
        let reading = self.reading(now);
        let opened = Agent::open(
            self.disk.clone(),
            "place",
            policy_of(&self.declaration),
            &[self.machine],
            reading,
            &mut self.random,
        );
        self.agent = opened.ok().map(|(agent, _)| agent);
    }

    /// Answers a question with the defect of a device that releases sequences.
    fn answer_defectively(&mut self, now: u64, question: &Question, policy: &SequencePolicy) -> Option<Report> {
        let rule = SequenceRule::new(policy).unwrap();
        let mut protects = policy_of(&self.declaration).into_policy().protects;
        if self.broken.of_sequences == SequenceDefect::DebitsHalf {
            protects.epsilon = protects.epsilon.checked_mul(2).unwrap();
        }
        let new = || (Device::new(protects, 0), SequenceMemory::new(&rule));
        let (mut device, mut memory) = self.defective.take().unwrap_or_else(new);
        match self.broken.of_sequences {
            SequenceDefect::ForgetsLedger => device = new().0,
            SequenceDefect::ForgetsEverything => (device, memory) = new(),
            SequenceDefect::ForgetsBelief => memory = new().1,
            SequenceDefect::Nothing | SequenceDefect::DebitsHalf => {}
        }
        let value = u32::try_from(self.person % 4).unwrap();
        let symbols = vec![value; rule.length() as usize];
        let timestamp = self.timestamp(now)?;
        let batch = || rule.batch_of(symbols);
        let random = &mut self.random;
        let report = device.answer_sequence(timestamp, question, &rule, &mut memory, batch, random).ok();
        self.defective = Some((device, memory));
        report
    }

    /// Answers a question, if the device does: identity, report and batch.
    pub(super) fn answer(&mut self, now: u64, question: &Question) -> Option<(ReportId, Vec<u8>, Vec<u8>)> {
        if self.agent.is_none() {
            self.disk.go_on();
            self.open(now);
        }
        let (value, reading) = (u32::try_from(self.person % 4).unwrap(), self.reading(now));
        let agent = self.agent.as_mut()?;
        let sequence = agent.policy().sequence.as_ref();
        if let Some(policy) = sequence.filter(|_| self.broken.of_sequences != SequenceDefect::Nothing).cloned() {
            let id = agent.report_id(question)?;
            let bytes = self.answer_defectively(now, question, &policy)?.into_bytes();
            let batch = batch_of(&self.declaration.name, question, id, &bytes);
            return Some((id, bytes, batch));
        }
        let before = postcard::to_allocvec(agent.device()).unwrap();
        // A device that releases batches has noted its values all along.
        if let Some(timestamp) = self.declaration.ticks().timestamp(reading.wall) {
            let noted = timestamp.saturating_sub(3)..=timestamp;
            noted.for_each(|timestamp| agent.gather(reading, timestamp, value));
        }
        let stream = self.declaration.name.clone();
        let report = match agent.answer(reading, &stream, question, value, &mut self.random) {
            Ok(AgentReply::Report(report)) => report,
            Ok(AgentReply::Refused(_)) => return None,
            Err(AgentError::Disk(_) | AgentError::Stopped) => {
                self.agent = None;
                return None;
            }
            Err(_) => return None,
        };
        let id = agent.report_id(question)?;
        let mut bytes = report.into_bytes();
        if self.broken.draws_again && agent.policy().sequence.is_none() {
            match &self.before {
                Some((asked, before)) if asked == question => {
                    let mut device: Device = postcard::from_bytes(before).unwrap();
                    let again = device.answer(question.timestamp, question, value, &mut self.random).unwrap();
                    bytes = again.into_bytes();
                }
                _ => self.before = Some((question.clone(), before)),
            }
        }
        let batch = batch_of(&stream, question, id, &bytes);
        Some((id, bytes, batch))
    }

    /// Stops the program or the whole machine.
    pub(super) fn crash(&mut self, dice: &mut Dice, now: u64) {
        self.agent = None;
        if dice.chance(1, 3) {
            self.backup = self.disk.contents(FILE);
        }
        if dice.chance(1, 2) {
            self.disk.restart();
            if dice.chance(1, 2) {
                (self.run, self.run_began) = (self.run.wrapping_add(1), now / 1_000);
            }
        } else {
            self.disk.go_on();
        }
    }

    /// Stops the machine after a few disk operations.
    pub(super) fn crash_soon(&mut self, dice: &mut Dice) {
        self.disk.crash_in(u32::try_from(dice.below(9)).unwrap());
    }

    /// Sets the wall clock.
    pub(super) fn set_clock(&mut self, ahead: i64) {
        self.ahead = ahead;
    }

    /// Deletes, damages, restores or moves the state.
    pub(super) fn spoil(&mut self, dice: &mut Dice, now: u64) {
        // What is deleted while the clock is set back counts as spent at the time that the clock shows: nothing else is
        // promised.
        if self.reading(now).wall < self.furthest {
            return;
        }
        self.agent = None;
        self.disk.go_on();
        let Some(contents) = self.disk.contents(FILE) else { return };
        match dice.below(5) {
            0 => self.disk.remove(FILE),
            1 => self.disk.put(FILE, self.backup.as_ref().unwrap_or(&contents)),
            2 => self.disk.damage(FILE, |bytes| bytes.truncate(bytes.len() / 2)).unwrap(),
            3 => self.disk.damage(FILE, |bytes| bytes.iter_mut().rev().take(1).for_each(|last| *last ^= 4)).unwrap(),
            _ => {
                // To another machine, with the old state.
                self.disks += 1;
                self.machine = self.machine.wrapping_add(1);
                self.disk = SimulatedDisk::new(self.broken.disk, self.seed.wrapping_add(self.disks << 40));
                self.disk.put(FILE, &contents);
            }
        }
    }

    /// Ends all faults.
    pub(super) fn calm(&mut self) {
        self.disk.go_on();
        self.ahead = 0;
    }
}

/// Writes a batch of one report.
pub(super) fn batch_of(stream: &str, question: &Question, id: ReportId, report: &[u8]) -> Vec<u8> {
    let mut writer = BatchWriter::new(StreamTag::of(stream), question.timestamp, question.phase, report.len());
    writer.push(id, report).unwrap();
    writer.write().unwrap()
}
