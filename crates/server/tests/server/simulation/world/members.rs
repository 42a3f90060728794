//! Users who join classes, move and leave, by requests that may be slow, lost or repeated.

use tidegate_server::driver::next_timestamp;
use tidegate_server::store::{MemberChanges, Store as _, StoreError};

use super::super::classes::{USERS, WINDOWS};
use super::{Base, Process, World};

/// A request that is repeated until it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    user: u64,
    class: Option<u16>,
    /// Whether the process takes whole ticks between its read and its write.
    is_slow: bool,
    /// Version of the stream and its next timestamp, as a process has read them.
    read: Option<(usize, u64, u64)>,
}

impl<B: Base> World<B> {
    /// Begins a request, or continues with the one that runs.
    pub(super) fn change_classes(&mut self) {
        let Some(declaration) = self.declarations.iter().find(|one| one.name == "classes").cloned() else { return };
        let stream = declaration.name.as_str();
        if self.retired.contains(stream) {
            return;
        }
        let Some(change) = self.change else {
            if self.dice.chance(1, 4) {
                let class = u16::try_from(self.dice.index(3 * WINDOWS.len())).unwrap();
                let class = (class > 0).then_some(class % 2);
                let (user, is_slow) = (self.dice.below(USERS), self.dice.chance(3, 4));
                self.change = Some(Change { user, class, is_slow, read: None });
            }
            return;
        };
        let Some((process, version, next)) = change.read else {
            let process = self.dice.index(self.processes.len());
            if let Some(store) = self.awake(process)
                && let Ok(found) = store.stream(stream)
                && !self.is_older(stream)
            {
                let read = (process, found.version, next_timestamp(&found).unwrap());
                self.change = Some(Change { read: Some(read), ..change });
            }
            return;
        };
        let steps = if change.is_slow { 24 } else { 3 };
        if !self.calm && !self.dice.chance(1, steps) {
            return;
        }
        self.change = Some(Change { is_slow: false, read: None, ..change });
        let Some(store) = self.awake(process) else { return };
        let requests = [(format!("user {}", change.user), change.class)];
        let classes = declaration.classes().unwrap().unwrap();
        let lateness = declaration.lateness;
        let changes = MemberChanges { version, next, lateness, classes: &classes, requests: &requests };
        let outcome = store.change_members(stream, &changes);
        let has_stopped = store.has_stopped();
        match outcome {
            Ok(()) => {
                self.happens("a class is changed");
                self.observer.wishes.wished(change.user, next, Some(change.class));
                self.change = None;
            }
            Err(StoreError::Unknown(_)) => self.observer.wishes.wished(change.user, next, None),
            Err(StoreError::Stale(_)) => self.happens("a change of class comes too late"),
            Err(_) => {}
        }
        if has_stopped {
            self.happens("a process stops in a transaction");
            self.processes[process] = Err(self.now + self.dice.below(10_000));
        }
    }

    /// Returns the store as a process sees it that runs.
    fn awake(&self, process: usize) -> Option<std::sync::Arc<super::Faulty>> {
        match &self.processes[process] {
            Ok(Process { store, sleeps_until, .. }) if *sleeps_until <= self.now => Some(std::sync::Arc::clone(store)),
            _ => None,
        }
    }
}
