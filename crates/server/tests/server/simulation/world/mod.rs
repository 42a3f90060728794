//! [`World`]: devices, a network, server processes and a store, simulated step by step from a seed.

mod disturbances;
mod history;
mod members;
mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use tidegate::kernel::{VaultKey, Window};
use tidegate_kernel::{Question, SeededRandom};
use tidegate_server::driver::{DriveError, DriverEvent, HighWater, Tools, Turn, drive_together, first_state};
use tidegate_server::ingest::EventBuffer;
use tidegate_server::store::{NewStream, Status, Store, StoreError};
use tidegate_server::stream::Declaration;

use super::classes::PBD;
use super::device::{BrokenDevice, SimulatedDevice};
use super::dice::Dice;
use super::faults::{Faulty, Shared, Wrong};
use super::marks::{Careless, Marks};
use super::observer::{Invariant, Observer, Violation};
use super::store::{Breaks, MemoryStore};
use history::History;
use members::Change;
use network::Message;

/// Length of a tick, in seconds.
pub(super) const TICK: u64 = 10;

/// First moment of a world, in milliseconds since 1970.
pub(super) const START: u64 = 1_000_000_000;

/// A curated stream.
pub(super) const BA: &str =
    r#"{ "family": "central", "mechanism": "ba", "epsilon": 1.0, "window": 3, "domain": ["a", "b", "c"] }"#;

/// Duration of a lease, in milliseconds.
pub(super) const LEASE: u64 = 6_000;

/// Largest jump of a clock, in milliseconds.
const JUMP: u64 = 25_000;

/// Store under a world.
pub(super) trait Base {
    fn store(&self) -> Arc<dyn Store>;
    /// Stops the machine, and returns the store as it is found afterwards.
    fn crash(&mut self) -> Arc<dyn Store>;
    fn back_up(&mut self);
    /// Restores the backup, and returns the store as it is found afterwards.
    fn restore(&mut self) -> Arc<dyn Store>;
}

impl Base for Arc<MemoryStore> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self) as Arc<dyn Store>
    }

    fn crash(&mut self) -> Arc<dyn Store> {
        MemoryStore::crash(self);
        self.store()
    }

    fn back_up(&mut self) {
        MemoryStore::back_up(self);
    }

    fn restore(&mut self) -> Arc<dyn Store> {
        MemoryStore::restore(self);
        self.store()
    }
}

/// Deliberate defects of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) store: Breaks,
    pub(super) marks: Careless,
    pub(super) devices: BrokenDevice,
}

/// Result of a world.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) wrong: BTreeMap<(&'static str, Wrong), u64>,
    pub(super) releases: usize,
    pub(super) reports: usize,
    pub(super) happened: BTreeMap<&'static str, u64>,
}

/// A stream in a process.
struct Driven {
    turn: Turn,
    /// Next wake-up, in true time.
    wakes: u64,
}

struct Process {
    number: u64,
    store: Arc<Faulty>,
    ahead: i64,
    sleeps_until: u64,
    streams: BTreeMap<String, Driven>,
}

pub(super) struct World<B> {
    base: B,
    shared: Arc<Shared>,
    marks: Arc<Marks>,
    key: Arc<VaultKey>,
    dice: Dice,
    noise: SeededRandom,
    now: u64,
    calm: bool,
    declarations: Vec<Declaration>,
    devices: Vec<SimulatedDevice>,
    /// An error is a stopped process, with the time of its start.
    processes: Vec<Result<Process, u64>>,
    started: u64,
    one_name: bool,
    network: BTreeMap<(u64, u64), Message>,
    sent: u64,
    /// Questions of the past, for a dishonest collector.
    old_questions: Vec<(usize, Question)>,
    older: BTreeMap<String, u64>,
    /// A change of a class that a process is making.
    change: Option<Change>,
    /// Next timestamp of the history, and how the one before it ended.
    history: History,
    restores: u64,
    retired: BTreeSet<String>,
    observer: Observer,
    happened: BTreeMap<&'static str, u64>,
}

pub(super) fn declaration(name: &str, spec: &str) -> Declaration {
    let epoch = START / 1_000 - 1_000 * TICK;
    let json = format!(r#"{{ "name": "{name}", "tick": {TICK}, "epoch": {epoch}, "spec": {spec} }}"#);
    serde_json::from_str(&json).unwrap()
}

/// A stream of sequences, whose model never makes an answer constant: two releases in any window.
pub(super) fn sequence(mechanism: &str, more: &str) -> String {
    format!(
        r#"{{ "family": "sequence", "mechanism": "{mechanism}" {more}, "epsilon": 2, "window": 3, "budget": 4,
              "domain": 4, "population": 6,
              "model": {{ "prior": [0.25, 0.25, 0.25, 0.25], "transitions": [[0.4, 0.2, 0.2, 0.2],
                          [0.2, 0.4, 0.2, 0.2], [0.2, 0.2, 0.4, 0.2], [0.2, 0.2, 0.2, 0.4]] }} }}"#
    )
}

/// The streams of a world.
fn declarations(dice: &mut Dice) -> Vec<Declaration> {
    let local = |name: &str, mechanism: &str, window: u64, more: &str| {
        let spec = format!(
            r#"{{ "family": "local", "mechanism": "{mechanism}", "epsilon": 1.0, "window": {window}, "domain": 4,
                  "population": 6 {more} }}"#
        );
        declaration(name, &spec)
    };
    let query = r#", "queries": [{ "name": "some", "value": "1", "delta": 2 }]"#;
    let all = [
        local("lpa", "lpa", 2, query),
        local("lpu", "lpu", 2, ""),
        local("lbd", "lbd", 3, ""),
        local("mtsp", "mtsp_population", 2, ""),
        local("track", "track", 3, query),
    ];
    let first = dice.index(all.len());
    let mut chosen = vec![all[first].clone()];
    if dice.chance(1, 2) {
        chosen.push(all[(first + 1 + dice.index(all.len() - 1)) % all.len()].clone());
    }
    if dice.chance(1, 2) {
        let (name, length) = if dice.chance(1, 2) { ("crr", "") } else { ("batched", r#", "length": 2"#) };
        chosen.push(declaration(name, &sequence(name, length)));
    }
    if dice.chance(2, 3) {
        chosen.push(declaration("ba", BA));
    }
    if dice.chance(1, 2) {
        let contin = r#"{ "family": "scalar", "mechanism": "contin", "epsilon": 0.5, "delay": 2,
                          "domain": { "low": 0, "high": 100 }, "protects": "reading", "outside": "clamp" }"#;
        chosen.push(declaration("contin", contin));
    }
    if dice.chance(1, 2) {
        let lateness = dice.below(3);
        chosen.push(Declaration { lateness, ..declaration("classes", PBD) });
    }
    if dice.chance(1, 3) {
        chosen.push(Declaration { lateness: 2, ..declaration("late", BA) });
    }
    if dice.chance(1, 3) {
        chosen.push(Declaration { backfill: true, ..declaration("past", BA) });
    }
    for declaration in &mut chosen {
        if ["ba", "late", "lpa", "track"].contains(&declaration.name.as_str()) && dice.chance(1, 2) {
            declaration.retention.timestamps = NonZeroU64::new(dice.between(1, 5));
        }
    }
    chosen
}

impl World<Arc<MemoryStore>> {
    pub(super) fn new(seed: u64, variant: Variant) -> Self {
        let store = Arc::new(MemoryStore::new(variant.store, seed));
        Self::on(store, seed, variant)
    }
}

impl<B: Base> World<B> {
    /// Creates a world on an empty store.
    pub(super) fn on(base: B, seed: u64, variant: Variant) -> Self {
        let declarations = declarations(&mut Dice::new(seed, 6));
        Self::with(base, seed, variant, declarations)
    }

    /// Creates a world of these streams.
    pub(super) fn with(base: B, seed: u64, variant: Variant, declarations: Vec<Declaration>) -> Self {
        let mut dice = Dice::new(seed, 1);
        let key = || VaultKey::from_bytes([9; 32]);
        let shared = Arc::new(Shared::new(base.store(), seed));
        let mut world = Self {
            shared,
            marks: Arc::new(Marks::new(variant.marks, seed)),
            key: Arc::new(key()),
            noise: SeededRandom::with_stream(seed, 2),
            now: START,
            calm: false,
            devices: Vec::new(),
            processes: Vec::new(),
            started: 0,
            one_name: dice.chance(1, 8),
            network: BTreeMap::new(),
            sent: 0,
            old_questions: Vec::new(),
            older: BTreeMap::new(),
            change: None,
            history: History::default(),
            restores: 0,
            retired: BTreeSet::new(),
            observer: Observer::new(seed, key()),
            happened: BTreeMap::new(),
            declarations,
            dice,
            base,
        };
        for declaration in world.declarations.clone() {
            let state = first_state(&declaration, 0, Some(&world.key)).unwrap();
            let text = serde_json::to_string(&declaration).unwrap();
            let new = NewStream { name: &declaration.name, declaration: &text, policy: "", state: &state };
            world.shared.store().create(&new).unwrap();
            if !declaration.is_curated() {
                for _ in 0..6 {
                    let person = world.devices.len();
                    world.devices.push(SimulatedDevice::new(person, &declaration, variant.devices, seed, START));
                }
            }
        }
        for _ in 0..world.dice.between(1, 3) {
            let process = world.start();
            world.processes.push(Ok(process));
        }
        world
    }

    fn happens(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn start(&mut self) -> Process {
        self.started += 1;
        let number = self.started;
        let streams = self.declarations.iter().map(|declaration| {
            let buffer = EventBuffer::new(declaration).unwrap().map(Arc::new);
            let turn = Turn { stream: declaration.name.as_str().into(), buffer, driver: None };
            (declaration.name.clone(), Driven { turn, wakes: 0 })
        });
        let streams = streams.collect();
        let store = Arc::new(Faulty::new(Arc::clone(&self.shared), number));
        Process { number, store, ahead: 0, sleeps_until: 0, streams }
    }

    /// Runs steps with faults, then some without. Returns the first violation.
    pub(super) fn run(mut self, steps: u64) -> Result<Outcome, Violation> {
        let rate = [0, 10, 30, 80][self.dice.index(4)];
        self.shared.set_rate(rate);
        for _ in 0..steps {
            self.step()?;
        }
        self.settle();
        // Wait for clocks that were ahead, and for replaced states.
        let settled = self.now + 2 * JUMP + 60_000;
        while self.now < settled {
            self.step()?;
        }
        let before: Vec<usize> = self.declarations.iter().map(|one| self.observer.releases(&one.name)).collect();
        for _ in 0..60 {
            self.step()?;
        }
        for (declaration, before) in self.declarations.iter().zip(before) {
            let name = &declaration.name;
            // Processes of one name take a curator's ticks from each other before they are released: nothing bad, and
            // nothing good.
            let is_contended = self.one_name && self.processes.len() > 1 && declaration.is_curated();
            if self.observer.releases(name) == before && !self.retired.contains(name) && !is_contended {
                let version = self.shared.store().stream(name).map(|stream| stream.version);
                let what = format!(
                    "{name} releases nothing more at {}: it is at version {version:?}; {:?}",
                    self.now, self.happened
                );
                self.observer.wrong(Invariant::GoesOn, what);
            }
        }
        if let Some(violation) = self.observer.found() {
            return Err(violation.clone());
        }
        let releases = self.declarations.iter().map(|one| self.observer.releases(&one.name)).sum();
        let reports = self.observer.acknowledged_reports();
        Ok(Outcome { wrong: self.shared.wrong(), releases, reports, happened: self.happened })
    }

    /// Ends all faults.
    fn settle(&mut self) {
        self.calm = true;
        self.shared.set_rate(0);
        self.shared.set_full(false);
        self.marks.disk().go_on();
        self.marks.disk().set_full(false);
        self.devices.iter_mut().for_each(SimulatedDevice::calm);
        for process in self.processes.iter_mut() {
            match process {
                Ok(process) => (process.ahead, process.sleeps_until) = (0, 0),
                Err(starts) => *starts = 0,
            }
        }
        self.go_live();
        for declaration in &self.declarations {
            if !self.retired.contains(&declaration.name) {
                self.shared.store().set_status(&declaration.name, Status::Running).unwrap();
            }
        }
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.now += if self.calm { 1_000 } else { self.dice.between(50, 2_500) };
        self.observer.step += 1;
        if !self.calm {
            self.disturb();
        }
        self.run_processes();
        self.poll();
        self.deliver();
        self.send_events();
        self.change_classes();
        self.send_history();
        self.operate();
        let released = self.shared.take_released();
        let store = self.shared.store();
        self.observer.look(&*store, released, &self.declarations);
        self.observer.found().map_or(Ok(()), |violation| Err(violation.clone()))
    }

    fn run_processes(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        let first = self.dice.index(processes.len());
        for turn in 0..processes.len() {
            let index = (first + turn) % processes.len();
            let has_stopped = match &mut processes[index] {
                Err(starts) if *starts <= self.now => {
                    let process = self.start();
                    processes[index] = Ok(process);
                    false
                }
                Err(_) => false,
                // Sometimes it is late.
                Ok(process) if process.sleeps_until > self.now || (!self.calm && self.dice.chance(1, 5)) => false,
                Ok(process) => {
                    self.run_process(process);
                    process.store.has_stopped()
                }
            };
            if has_stopped {
                self.happens("a process stops in a transaction");
                processes[index] = Err(self.now + self.dice.below(10_000));
            }
        }
        self.processes = processes;
        if self.happened.remove("the disk of the marks has stopped").is_some() {
            self.stop_machine();
        }
    }

    fn run_process(&mut self, process: &mut Process) {
        let clock = self.now.saturating_add_signed(process.ahead);
        let holder = if self.one_name { "server".to_owned() } else { format!("server {}", process.number) };
        let tools = Tools {
            store: Arc::clone(&process.store) as Arc<dyn Store>,
            marks: Arc::clone(&self.marks) as Arc<dyn HighWater>,
            key: Some(Arc::clone(&self.key)),
            holder,
            lease: LEASE,
        };
        // Threads of a pool drive what is due in groups.
        let mut due: Vec<_> = process.streams.iter_mut().filter(|(_, driven)| driven.wakes <= self.now).collect();
        if due.is_empty() {
            return;
        }
        let groups = 1 + self.dice.index(due.len());
        let size = due.len().div_ceil(groups);
        for group in due.chunks_mut(size) {
            let turns = group.iter_mut().map(|(_, driven)| &mut driven.turn);
            let outcomes = drive_together(&tools, turns, || clock.into(), &mut self.noise);
            for ((stream, driven), outcome) in group.iter_mut().zip(outcomes) {
                match outcome {
                    Ok(report) => {
                        driven.wakes = self.now + report.wake.saturating_sub(clock).clamp(1, 60_000);
                        for event in report.events {
                            if let DriverEvent::Published { .. } = event {
                                *self.happened.entry("something is published").or_default() += 1;
                            }
                        }
                    }
                    Err(error) => {
                        driven.wakes = self.now + self.dice.between(100, 1_500);
                        self.observer.failed(stream, &error, false);
                        match error {
                            DriveError::Held(_) => {
                                // Events of this process are lost to the one that drives.
                                let declaration = self.declarations.iter().find(|one| one.name == **stream).unwrap();
                                driven.turn.buffer = EventBuffer::new(declaration).unwrap().map(Arc::new);
                            }
                            DriveError::Older { .. } => {
                                self.older.entry((*stream).clone()).or_insert(self.now);
                            }
                            DriveError::Store(StoreError::Stale(_)) => {
                                *self.happened.entry("a driver was overtaken").or_default() += 1;
                            }
                            DriveError::Mark(error) if error.kind() != std::io::ErrorKind::StorageFull => {
                                self.happened.insert("the disk of the marks has stopped", 1);
                            }
                            _ => {}
                        }
                    }
                }
            }
            if process.store.has_stopped() {
                return;
            }
        }
    }

    /// An operator replaces the state of streams whose store is behind their mark.
    fn operate(&mut self) {
        for declaration in self.declarations.clone() {
            let name = &declaration.name;
            if self.older.get(name).is_none_or(|since| since + 5_000 > self.now) {
                continue;
            }
            self.older.remove(name);
            let (Some(mark), Window::Timestamps(window)) = (self.marks.mark(name), declaration.spec.window()) else {
                continue;
            };
            let not_before = mark.timestamp.map_or(0, |timestamp| timestamp + window.get());
            let state = first_state(&declaration, not_before, Some(&self.key)).unwrap();
            let store = self.shared.store();
            if store.replace_state(name, &state, mark.version + 2).is_ok() {
                self.happens("a stream begins anew");
                self.observer.begun_anew(name);
            }
        }
    }
}
