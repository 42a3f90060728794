//! [`Marks`]: high-water marks on a simulated disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use tidegate_device::disk;
use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_server::driver::{HighWater, Mark};

/// Defect of the marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Careless {
    /// Nothing.
    #[default]
    Not,
    /// They are never raised.
    Never,
    /// The folder that they are in is not synced.
    Folder,
    /// They lag two versions behind, so a publication may come before its mark.
    Late,
    /// A group's marks are acknowledged at once, and written with the next group: after the publication.
    Deferred,
}

thread_local! {
    // A simulated disk stays on its thread, and marks are shared by all drivers: they find their disk by its number.
    static DISKS: RefCell<BTreeMap<u64, SimulatedDisk>> = const { RefCell::new(BTreeMap::new()) };
}

#[derive(Debug)]
pub(super) struct Marks {
    disk: u64,
    careless: Careless,
    deferred: Mutex<Vec<(String, Mark)>>,
}

impl Marks {
    /// Creates marks on a new disk.
    pub(super) fn new(careless: Careless, seed: u64) -> Self {
        let broken = Broken { sync: false, names: careless == Careless::Folder };
        DISKS.with_borrow_mut(|disks| disks.insert(seed, SimulatedDisk::new(broken, seed)));
        Self { disk: seed, careless, deferred: Mutex::default() }
    }

    /// Returns the mark of a stream, even after the disk has stopped.
    pub(super) fn peek(&self, stream: &str) -> Option<Mark> {
        // Behind a heading, a checksum and where the file is: 56 bytes.
        postcard::from_bytes(self.disk().contents(&format!("{stream}.mark"))?.get(56..)?).ok()
    }

    /// Starts the machine again, with what its disk has.
    pub(super) fn restart(&self) {
        self.deferred.lock().unwrap().clear();
        self.disk().restart();
    }

    pub(super) fn disk(&self) -> SimulatedDisk {
        DISKS.with_borrow(|disks| disks[&self.disk].clone())
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        DISKS.with_borrow_mut(|disks| disks.remove(&self.disk));
    }
}

impl Marks {
    fn write(&self, stream: &str, mark: Mark) -> io::Result<()> {
        let before = self.mark(stream);
        if before.is_some_and(|before| before.version >= mark.version) || self.careless == Careless::Never {
            return Ok(());
        }
        let late = if self.careless == Careless::Late { 2 } else { 0 };
        let timestamp = before.and_then(|before| before.timestamp).max(mark.timestamp);
        let mark = Mark { version: mark.version.saturating_sub(late), timestamp };
        let contents = postcard::to_allocvec(&mark).map_err(io::Error::other)?;
        disk::replace(&mut self.disk(), &format!("{stream}.mark"), &contents)
    }
}

impl HighWater for Marks {
    fn mark(&self, stream: &str) -> Option<Mark> {
        // A disk that cannot be read cannot be written to either, so nothing is published.
        let contents = disk::read(&self.disk(), &format!("{stream}.mark")).ok()??;
        postcard::from_bytes(&contents).ok()
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> io::Result<()> {
        let mut now = marks.to_vec();
        if self.careless == Careless::Deferred {
            std::mem::swap(&mut now, &mut self.deferred.lock().unwrap());
        }
        now.iter().try_for_each(|(stream, mark)| self.write(stream, *mark))
    }
}
