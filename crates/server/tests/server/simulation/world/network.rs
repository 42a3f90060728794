//! Messages between devices, collectors and servers, which may be late, lost, repeated or forged.

use std::collections::BTreeMap;

use tidegate_kernel::{Cohort, Epsilon, Question};
use tidegate_server::ingest::CuratorEvent;
use tidegate_server::store::{BatchRejection, OpenQuestion, ReportBatch, Store as _, StoreError};

use super::super::classes::USERS;
use super::super::device::batch_of;
use super::{Base, Process, World};

pub(super) enum Message {
    Asking { device: usize, open: Vec<OpenQuestion> },
    Batch { bytes: Vec<u8>, stream: String },
}

impl<B: Base> World<B> {
    fn send(&mut self, message: Message) {
        let delay = match self.dice.below(10) {
            _ if self.calm => 100,
            0 => self.dice.between(5_000, 40_000),
            1..=3 => self.dice.between(1_000, 5_000),
            _ => self.dice.below(500),
        };
        self.sent += 1;
        self.network.insert((self.now + delay, self.sent), message);
    }

    /// Devices poll for questions, some of which are forged.
    pub(super) fn poll(&mut self) {
        for device in 0..self.devices.len() {
            if !self.calm && self.dice.chance(1, 3) {
                continue;
            }
            let process = self.dice.index(self.processes.len());
            let Ok(Process { store, sleeps_until, .. }) = &self.processes[process] else { continue };
            if *sleeps_until > self.now {
                continue;
            }
            let Ok(stream) = store.stream(&self.devices[device].declaration.name) else { continue };
            let mut open = stream.open;
            if !self.calm && self.dice.chance(1, 6) {
                let question = open.first().map(|open| open.question.clone());
                self.old_questions.extend(question.map(|question| (device, question)));
                open.extend(self.invent(device));
            }
            if !open.is_empty() {
                self.send(Message::Asking { device, open });
            }
        }
    }

    /// Invents a question that no device should answer: an old one, or one for more budget.
    fn invent(&mut self, device: usize) -> Option<OpenQuestion> {
        let old: Vec<&Question> =
            self.old_questions.iter().filter(|(of, _)| *of == device).map(|(_, question)| question).collect();
        let mut question = (*old.get(self.dice.index(old.len().max(1)))?).clone();
        let now = self.devices[device].timestamp(self.now)?;
        match self.dice.below(5) {
            0 => {}
            1 => question.timestamp = now,
            2 => (question.timestamp, question.phase) = (now, u16::try_from(self.dice.below(4)).unwrap()),
            3 => {
                (question.timestamp, question.cohort) = (now, Cohort::Everyone);
                question.phase = u16::try_from(self.dice.below(4)).unwrap();
                question.epsilon = Epsilon::from_units(1 + self.dice.below(1_500_000_000)).ok()?;
            }
            _ => (question.timestamp, question.domain) = (now, 5),
        }
        Some(OpenQuestion { question, closes: 0 })
    }

    pub(super) fn deliver(&mut self) {
        let later = self.network.split_off(&(self.now + 1, 0));
        let due = std::mem::replace(&mut self.network, later);
        let mut arrived: BTreeMap<usize, Vec<(String, Vec<u8>)>> = BTreeMap::new();
        for (_, message) in due {
            if !self.calm && self.dice.chance(1, 8) {
                self.happened.entry("a message is lost").and_modify(|count| *count += 1).or_insert(1);
                continue;
            }
            match message {
                Message::Asking { device, open } => self.ask(device, &open),
                Message::Batch { bytes, stream } => {
                    if !self.calm && self.dice.chance(1, 6) {
                        self.happens("a message comes twice");
                        self.send(Message::Batch { bytes: bytes.clone(), stream: stream.clone() });
                    }
                    let to = self.dice.index(self.processes.len());
                    arrived.entry(to).or_default().push((stream, bytes));
                }
            }
        }
        for (process, batches) in arrived {
            self.accept(process, &batches);
        }
    }

    fn ask(&mut self, device: usize, open: &[OpenQuestion]) {
        for OpenQuestion { question, .. } in open {
            let device = &mut self.devices[device];
            let Some((id, report, batch)) = device.answer(self.now, question) else { continue };
            self.observer.left(device.person, &device.declaration, question, &report);
            let stream = device.declaration.name.clone();
            if !self.calm && self.dice.chance(1, 30) {
                // Somebody on the way puts another report in its place.
                let mut forged = report.clone();
                forged[0] ^= 1;
                self.happens("a report is forged");
                let bytes = batch_of(&stream, question, id, &forged);
                self.send(Message::Batch { bytes, stream: stream.clone() });
            }
            self.send(Message::Batch { bytes: batch, stream });
        }
    }

    /// A process accepts the batches that have arrived, in one transaction.
    fn accept(&mut self, process: usize, batches: &[(String, Vec<u8>)]) {
        let Ok(Process { store, sleeps_until, .. }) = &self.processes[process] else { return };
        if *sleeps_until > self.now {
            return;
        }
        // A service does not start on a store that is older than its high-water marks.
        let batches = batches.iter().filter(|(stream, _)| !self.is_older(stream));
        let parse = |(stream, bytes): &(String, Vec<u8>)| ReportBatch::parse(stream, bytes.clone().into()).unwrap();
        let batches: Vec<ReportBatch> = batches.map(parse).collect();
        let outcomes = store.accept("all", &batches);
        for (position, batch) in batches.iter().enumerate() {
            let (id, _) = batch.identities().next().unwrap();
            let (stream, id, timestamp) = (&*batch.stream, *id.as_bytes(), batch.timestamp);
            match outcomes.as_ref().map(|outcomes| &outcomes[position]) {
                Ok(Ok(receipt)) if receipt.accepted + receipt.repeated > 0 => {
                    self.observer.acknowledged(stream, timestamp, id, receipt.accepted > 0);
                    *self.happened.entry("a report is acknowledged").or_default() += 1;
                }
                Ok(Ok(_)) => *self.happened.entry("a report is in conflict").or_default() += 1,
                Ok(Err(BatchRejection::NotOpen { .. })) => {
                    *self.happened.entry("a report is too late").or_default() += 1;
                }
                Ok(Err(_)) => {}
                Err(StoreError::Unknown(_)) => self.observer.possible(stream, timestamp, id),
                Err(_) => {}
            }
        }
        if store.has_stopped() {
            self.happens("a process stops in a transaction");
            self.processes[process] = Err(self.now + self.dice.below(10_000));
        }
    }

    /// Whether the store is behind the mark of a stream.
    pub(super) fn is_older(&self, stream: &str) -> bool {
        let version = self.shared.store().status(stream).map_or(0, |(_, version)| version);
        self.marks.peek(stream).is_some_and(|mark| mark.version > version)
    }

    /// Sends events to curators.
    pub(super) fn send_events(&mut self) {
        for declaration in &self.declarations {
            if !declaration.is_curated() {
                continue;
            }
            for _ in 0..4 {
                let process = self.dice.index(self.processes.len());
                let Ok(process) = &self.processes[process] else { continue };
                // The threads that listen go on, also where the one that drives is stuck.
                let Some(buffer) = &process.streams[&declaration.name].turn.buffer else { continue };
                let user = self.dice.below(USERS);
                let event = match declaration.name.as_str() {
                    "classes" => CuratorEvent { user: Some(format!("user {user}")), value: user.to_string() },
                    "ba" | "late" => {
                        let value = ["a", "b", "c"][self.dice.index(3)].to_owned();
                        CuratorEvent { user: Some(format!("user {}", self.dice.below(30))), value }
                    }
                    _ => CuratorEvent { user: None, value: self.dice.below(101).to_string() },
                };
                let open = buffer.open_timestamps();
                let open = open.get(self.dice.index(open.len().max(1))).copied();
                // Others each tick, so that most releases are fresh.
                if declaration.name == "classes" && open.is_none_or(|open| (open ^ user).is_multiple_of(4)) {
                    continue;
                }
                let clock = self.now.saturating_add_signed(process.ahead);
                let (taken, _) = buffer.push(clock, open, vec![event]);
                if let (Some(timestamp), 1) = (open, taken) {
                    self.observer.accepted_event(&declaration.name, timestamp, process.number);
                    if declaration.name == "classes" {
                        self.observer.wishes.accepted(user, timestamp);
                    }
                    if Some(timestamp) < buffer.open_timestamp() {
                        *self.happened.entry("a late event is accepted").or_default() += 1;
                    }
                    *self.happened.entry("an event is accepted").or_default() += 1;
                }
            }
        }
    }
}
