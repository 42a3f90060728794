//! Everything that goes wrong besides transactions and messages: crashes, clocks, disks, backups.

use std::sync::Arc;

use tidegate_server::store::{Status, Store};

use super::{Base, JUMP, World};

impl<B: Base> World<B> {
    /// Lets at most one thing go wrong with the servers, and one with a device.
    pub(super) fn disturb(&mut self) {
        let one = self.dice.index(self.processes.len());
        match self.dice.below(90) {
            0 | 1 => {
                self.happens("a process stops");
                self.processes[one] = Err(self.now + self.dice.below(15_000));
            }
            2 | 3 => {
                self.happens("a process is paused");
                let until = self.now + self.dice.between(1_000, 25_000);
                if let Ok(process) = &mut self.processes[one] {
                    process.sleeps_until = until;
                }
            }
            4..=6 => {
                self.happens("a server's clock jumps");
                let ahead = self.jump();
                if let Ok(process) = &mut self.processes[one] {
                    process.ahead = if ahead % 3 == 0 { 0 } else { ahead };
                }
            }
            7 => self.stop_machine(),
            8 => {
                self.happens("the machine is about to stop");
                self.marks.disk().crash_in(u32::try_from(self.dice.below(8)).unwrap());
            }
            9 => {
                self.happens("the disk of the marks is full");
                self.marks.disk().set_full(true);
            }
            10 => {
                self.happens("the store is full");
                self.shared.set_full(true);
            }
            11..=14 => {
                self.marks.disk().set_full(false);
                self.shared.set_full(false);
            }
            15..=17 => {
                self.happens("a backup is made");
                self.base.back_up();
            }
            18 if self.restores < 2 && self.happened.contains_key("a backup is made") => self.restore(),
            19 => {
                let name = self.declarations[self.dice.index(self.declarations.len())].name.clone();
                let status = if self.dice.chance(1, 2) { Status::Paused } else { Status::Running };
                if !self.retired.contains(&name) {
                    self.happens("a stream is paused or goes on");
                    self.shared.store().set_status(&name, status).unwrap();
                }
            }
            20 if self.dice.chance(1, 8) => {
                let name = self.declarations[self.dice.index(self.declarations.len())].name.clone();
                self.happens("a stream is retired");
                let _ = self.shared.store().set_status(&name, Status::Retired);
                self.retired.insert(name);
            }
            _ => {}
        }
        let one = self.dice.index(self.devices.len());
        match self.dice.below(40) {
            0 | 1 => {
                self.happens("a device stops");
                self.devices[one].crash(&mut self.dice, self.now);
            }
            2 | 3 => {
                self.happens("a device is about to stop");
                self.devices[one].crash_soon(&mut self.dice);
            }
            4 => {
                self.happens("a device's clock jumps");
                let ahead = self.jump() / 1_000;
                self.devices[one].set_clock(ahead);
            }
            5 => {
                self.happens("a device's clock is right");
                self.devices[one].set_clock(0);
            }
            6 => {
                self.happens("a device's state is deleted, damaged or copied");
                self.devices[one].spoil(&mut self.dice, self.now);
            }
            _ => {}
        }
    }

    fn jump(&mut self) -> i64 {
        i64::try_from(self.dice.below(2 * JUMP)).unwrap() - i64::try_from(JUMP).unwrap()
    }

    fn set_store(&mut self, store: Arc<dyn Store>) {
        *self.shared.store.lock().unwrap() = store;
    }

    /// Stops all processes, the store and the disk of the marks.
    pub(super) fn stop_machine(&mut self) {
        self.happens("the machine stops");
        for process in &mut self.processes {
            *process = Err(self.now + self.dice.below(10_000));
        }
        self.marks.restart();
        self.marks.disk().set_full(false);
        let store = self.base.crash();
        self.set_store(store);
    }

    /// Restores the backup, while processes stop or, worse, sleep.
    fn restore(&mut self) {
        self.happens("a backup is put back");
        self.restores += 1;
        if self.dice.chance(2, 3) {
            self.stop_machine();
        }
        let store = self.base.restore();
        self.observer.restored(&*store);
        self.set_store(store);
        // The operator retires these streams again.
        for name in &self.retired {
            let _ = self.shared.store().set_status(name, Status::Retired);
        }
    }
}
