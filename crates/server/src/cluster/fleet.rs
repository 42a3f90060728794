//! [`Fleet`]: the living processes of a cluster, and how work is divided among them.

use std::fmt;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher24;

use crate::store::postgres::cluster::Process;
use crate::store::{PostgresStore, StoreError};

/// Task of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes reports in, and answers over HTTP.
    Gateway,
    /// Counts reports.
    Worker,
    /// Drives streams.
    Driver,
}

impl Role {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Worker => "worker",
            Self::Driver => "driver",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Processes of a role, and this one among them.
///
/// Each piece of work belongs to the living process whose hash with it is the highest (rendezvous hashing, Thaler and
/// Ravishankar 1998). So work moves only when a process comes or goes. Two processes may differ for a moment in who is
/// alive; leases decide then.
#[derive(Debug)]
pub struct Fleet {
    store: Arc<PostgresStore>,
    role: Role,
    name: String,
    /// How long a process counts as alive without a sign, in milliseconds.
    lease: u64,
    peers: Mutex<Vec<String>>,
}

fn weight(process: &str, work: &str) -> u64 {
    let mut hasher = SipHasher24::new_with_key(b"tidegate: fleets");
    hasher.write(process.as_bytes());
    hasher.write(&[0xff]);
    hasher.write(work.as_bytes());
    hasher.finish()
}

/// Returns the process to which a piece of work belongs.
fn owner<'a>(peers: &'a [String], work: &str) -> Option<&'a String> {
    peers.iter().max_by_key(|process| (weight(process, work), *process))
}

impl Fleet {
    /// Joins the processes of a role under a name of its own.
    pub fn new(store: Arc<PostgresStore>, role: Role, name: String, lease: u64) -> Self {
        Self { store, role, name, lease, peers: Mutex::default() }
    }

    /// Returns the name of this process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns how long a process counts as alive without a sign, in milliseconds.
    pub const fn lease(&self) -> u64 {
        self.lease
    }

    /// Returns the control plane.
    pub const fn store(&self) -> &Arc<PostgresStore> {
        &self.store
    }

    fn peers(&self) -> MutexGuard<'_, Vec<String>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a sign of life, and learns who else lives. Returns whether that has changed.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn announce(&self, figures: &str) -> Result<bool, StoreError> {
        let all = self.store.announce(&self.name, self.role.name(), figures, self.lease)?;
        let role = self.role.name();
        let alive: Vec<String> =
            all.into_iter().filter(|process: &Process| process.role == role).map(|process| process.name).collect();
        let mut peers = self.peers();
        let changed = *peers != alive;
        *peers = alive;
        Ok(changed)
    }

    /// Whether a piece of work belongs to this process.
    pub fn is_mine(&self, work: &str) -> bool {
        owner(&self.peers(), work) == Some(&self.name)
    }

    /// Says that this process has ended.
    ///
    /// # Errors
    /// Errors of the database. Others then wait until its lease has ended.
    pub fn leave(&self) -> Result<(), StoreError> {
        self.store.retire_process(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_divided_evenly_and_moves_only_when_it_must() {
        let names = |count: usize| (0..count).map(|number| format!("process {number}")).collect::<Vec<_>>();
        let (three, four) = (names(3), names(4));
        let work: Vec<String> = (0..3_000).map(|number| format!("stream-{number}")).collect();
        for peers in [&three, &four] {
            for process in peers {
                let own = work.iter().filter(|work| owner(peers, work) == Some(process)).count();
                // Six standard deviations around the mean: a false alarm has a probability below 10^-8.
                let mean = work.len() / peers.len();
                assert!(own.abs_diff(mean) < 6 * mean.isqrt(), "{own} of {}", work.len());
            }
        }
        let moved = work.iter().filter(|work| owner(&three, work) != owner(&four, work));
        assert!(moved.clone().all(|work| owner(&four, work) == four.last()), "work moves to the new process only");
        assert_eq!(owner(&[], "stream"), None);
    }
}
