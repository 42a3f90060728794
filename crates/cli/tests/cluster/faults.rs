//! [`Schedule`]: faults in an order that follows from a seed.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_kernel::{Randomness as _, SeededRandom};

use crate::network::{Cut, Machine};
use crate::program::Program;
use crate::roles::{Cluster, Role};

/// A fault. Processes are numbered within their role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A process is killed, and started again.
    Kill(Role),
    /// All processes of a role are killed at once, and started again.
    KillAll(Role),
    /// A process is told to end, and another one takes its place.
    Replace(Role),
    /// A process sleeps for longer than its lease.
    Pause(Role),
    /// A process reaches neither its brokers nor the database.
    CutOff(Role),
    /// A process does not reach the database.
    CutFromDatabase(Role),
    /// A process does not reach the brokers.
    CutFromBrokers(Role),
    /// The leader of the brokers is killed.
    KillLeader,
    /// Another broker is killed.
    KillFollower,
    /// The leader of the brokers sleeps.
    PauseLeader,
    /// The leader of the brokers does not reach the others, but clients reach it.
    CutLeader,
    /// The database is killed, and started again.
    RestartDatabase,
    /// The database is killed, and its standby takes over.
    FailOver,
    /// The disk of a broker is full for a while.
    FillDisk,
}

/// Roles that faults are about.
const ROLES: [Role; 3] = [Role::Gateway, Role::Worker, Role::Driver];

impl Fault {
    /// All faults that a cluster can have.
    pub(crate) fn all(cluster: &Cluster) -> Vec<Self> {
        let brokers = cluster.brokers.as_ref().unwrap();
        let mut all = vec![Self::KillLeader, Self::KillFollower, Self::PauseLeader, Self::RestartDatabase];
        all.extend(
            ROLES
                .into_iter()
                .flat_map(|role| [Self::Kill(role), Self::KillAll(role), Self::Replace(role), Self::Pause(role)]),
        );
        if cluster.network.has_cuts() {
            all.push(Self::CutLeader);
            let cuts = |role| [Self::CutOff(role), Self::CutFromDatabase(role), Self::CutFromBrokers(role)];
            all.extend(ROLES.into_iter().flat_map(cuts));
        }
        if cluster.database.has_standby() {
            all.push(Self::FailOver);
        }
        if brokers.has_disks() {
            all.push(Self::FillDisk);
        }
        all
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// The processes of a role.
fn of_role(cluster: &mut Cluster, role: Role) -> impl Iterator<Item = &mut Program> {
    cluster.processes.iter_mut().filter(move |(own, _)| *own == role).map(|(_, process)| process)
}

/// Faults, and how often each was there.
#[derive(Debug)]
pub(crate) struct Schedule {
    random: SeededRandom,
    /// Those that have been.
    pub(crate) done: BTreeMap<Fault, u64>,
    /// Whether each is printed.
    start: Instant,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: SeededRandom::new(seed), done: BTreeMap::new(), start: Instant::now() }
    }

    fn draw(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.next_word()).unwrap() % bound
    }

    /// Waits for between so many milliseconds.
    pub(crate) fn wait(&mut self, low: u64, high: u64) {
        thread::sleep(Duration::from_millis(low + self.random.next_word() % (high - low)));
    }

    /// Causes a fault, one of all, and ends it.
    pub(crate) fn cause_any(&mut self, cluster: &mut Cluster) {
        let all = Fault::all(cluster);
        let fault = all[self.draw(all.len())];
        self.cause(cluster, fault);
    }

    /// Causes a fault, and ends it.
    pub(crate) fn cause(&mut self, cluster: &mut Cluster, fault: Fault) {
        println!("  {:>6} ms: {fault}", self.start.elapsed().as_millis());
        *self.done.entry(fault).or_default() += 1;
        match fault {
            Fault::Kill(role) | Fault::Replace(role) => {
                let chosen = self.choose(cluster, role);
                let process = &mut cluster.processes[chosen].1;
                if matches!(fault, Fault::Kill(_)) {
                    process.kill();
                } else {
                    let status = process.terminate();
                    assert_eq!(status.code(), Some(0), "{} ends: {}", process.name, process.said());
                }
                // A lease ends, or it does not.
                self.wait(10, 4_000);
                cluster.processes[chosen].1.start();
                cluster.wait_ready();
            }
            Fault::KillAll(role) => {
                of_role(cluster, role).for_each(Program::kill);
                self.wait(10, 1_000);
                of_role(cluster, role).for_each(Program::start);
                cluster.wait_ready();
            }
            Fault::Pause(role) => {
                let chosen = self.choose(cluster, role);
                cluster.processes[chosen].1.signal("STOP");
                self.wait(2_500, 5_000);
                cluster.processes[chosen].1.signal("CONT");
            }
            Fault::CutOff(role) | Fault::CutFromDatabase(role) | Fault::CutFromBrokers(role) => {
                let machine = cluster.processes[self.choose(cluster, role)].1.machine.clone();
                let mut others = Vec::new();
                if !matches!(fault, Fault::CutFromBrokers(_)) {
                    others.extend(cluster.database.machines());
                }
                if !matches!(fault, Fault::CutFromDatabase(_)) {
                    others.extend(cluster.brokers.iter().flat_map(|brokers| &brokers.machines));
                }
                let cut: Cut = machine.cut(&others);
                self.wait(1_000, 5_000);
                drop(cut);
            }
            Fault::KillLeader | Fault::KillFollower => {
                let brokers = cluster.brokers.as_mut().unwrap();
                let leader = brokers.leader();
                let chosen = if fault == Fault::KillLeader { leader } else { (leader + 1) % brokers.machines.len() };
                brokers.servers.kill(chosen).unwrap();
                self.wait(500, 4_000);
                brokers.servers.spawn(chosen).unwrap();
                brokers.servers.wait_ready().unwrap();
            }
            Fault::PauseLeader => {
                let brokers = cluster.brokers.as_mut().unwrap();
                let leader = brokers.leader();
                brokers.servers.pause(leader).unwrap();
                self.wait(1_000, 6_000);
                brokers.servers.resume(leader).unwrap();
                brokers.servers.wait_ready().unwrap();
            }
            Fault::CutLeader => {
                let brokers = cluster.brokers.as_mut().unwrap();
                let own = brokers.machines[brokers.leader()].clone();
                let others: Vec<&Machine> =
                    brokers.machines.iter().filter(|other| other.address != own.address).collect();
                let cut = own.cut(&others);
                self.wait(2_000, 6_000);
                drop(cut);
                brokers.servers.wait_ready().unwrap();
            }
            Fault::RestartDatabase => cluster.database.restart(|| self.wait(50, 2_000)),
            Fault::FailOver => cluster.database.fail_over(|| self.wait(50, 1_000)),
            Fault::FillDisk => {
                let brokers = cluster.brokers.as_mut().unwrap();
                let chosen = self.draw(brokers.machines.len());
                brokers.fill(chosen);
                self.wait(2_000, 5_000);
                brokers.make_room(chosen);
                brokers.servers.wait_ready().unwrap();
            }
        }
    }

    /// Chooses a process of a role, by its place among all.
    fn choose(&mut self, cluster: &Cluster, role: Role) -> usize {
        let processes = cluster.processes.iter().enumerate();
        let own: Vec<usize> = processes.filter(|(_, (own, _))| *own == role).map(|(place, _)| place).collect();
        own[self.draw(own.len())]
    }
}
