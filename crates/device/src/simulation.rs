//! [`SimulatedDisk`]: a disk that can crash after every operation, and then keeps only what was synced.
//!
//! For tests of code that relies on a [`Disk`] (feature `simulation`).
//!
//! ```
//! use tidegate_device::disk::{read, replace};
//! use tidegate_device::simulation::{Broken, SimulatedDisk};
//!
//! let disk = SimulatedDisk::new(Broken::default(), 1);
//! // Each handle is the same disk: what one program wrote is there for the next.
//! replace(&mut disk.clone(), "state", b"first")?;
//! disk.crash_in(2);
//! assert!(replace(&mut disk.clone(), "state", b"second").is_err());
//! disk.restart();
//! assert_eq!(read(&disk, "state")?.as_deref(), Some(b"first".as_slice()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use tidegate_kernel::{Randomness, SeededRandom};

use crate::disk::{Disk, FileId};

/// Defects of a simulated disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// Syncing files silently does nothing.
    pub sync: bool,
    /// Syncing names silently does nothing.
    pub names: bool,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// Durable length.
    safe: usize,
}

#[derive(Debug)]
enum Naming {
    Create(String, u64),
    Rename(String, String),
}

#[derive(Debug)]
struct World {
    files: BTreeMap<u64, File>,
    names: BTreeMap<String, u64>,
    safe_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync.
    pending: Vec<Naming>,
    next: u64,
    broken: Broken,
    /// Operations until the crash.
    crash_in: Option<u32>,
    /// Whether the disk is full.
    full: bool,
    random: SeededRandom,
}

impl World {
    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        let file = self.names.get(name).and_then(|file| self.files.get_mut(file));
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A handle to a disk that outlives the simulated program.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Rc<RefCell<World>>);

fn apply(names: &mut BTreeMap<String, u64>, naming: &Naming) {
    match naming {
        Naming::Create(name, file) => {
            names.insert(name.clone(), *file);
        }
        Naming::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

impl SimulatedDisk {
    /// Creates an empty disk. The seed decides what survives a crash.
    pub fn new(broken: Broken, seed: u64) -> Self {
        Self(Rc::new(RefCell::new(World {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            pending: Vec::new(),
            next: 1,
            broken,
            crash_in: None,
            full: false,
            random: SeededRandom::new(seed),
        })))
    }

    /// Crashes the machine after the given number of operations.
    pub fn crash_in(&self, operations: u32) {
        self.0.borrow_mut().crash_in = Some(operations);
    }

    /// Fills or frees the disk. On a full disk, an append writes only the first half.
    pub fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    /// Restarts the machine: a random part of the unsynced data survives.
    pub fn restart(&self) {
        let world = &mut *self.0.borrow_mut();
        let World { files, names, safe_names, pending, random, crash_in, .. } = world;
        *crash_in = None;
        #[allow(clippy::cast_possible_truncation)] // below a length
        let mut below = |limit: usize| (random.next_word() % limit as u64) as usize;
        for file in files.values_mut() {
            let kept = file.safe + below(file.bytes.len() - file.safe + 1);
            file.bytes.truncate(kept);
            if kept > file.safe && below(4) == 0 {
                let position = file.safe + below(kept - file.safe);
                file.bytes[position] ^= 1 << below(8);
            }
            file.safe = kept;
        }
        for naming in pending.drain(..) {
            if below(2) == 0 {
                apply(safe_names, &naming);
            }
        }
        names.clone_from(safe_names);
    }

    /// Restarts the program only: all data survive.
    pub fn go_on(&self) {
        self.0.borrow_mut().crash_in = None;
    }

    /// The contents of a file, as in a backup.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.0.borrow();
        world.names.get(name).map(|file| world.files[file].bytes.clone())
    }

    /// Writes contents into a new file, as restoring a backup does.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let world = &mut *self.0.borrow_mut();
        let file = world.next;
        world.next += 1;
        world.files.insert(file, File { bytes: bytes.to_vec(), safe: bytes.len() });
        world.names.insert(name.to_owned(), file);
        world.safe_names.insert(name.to_owned(), file);
    }

    /// Changes the contents of a file in place.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let world = &mut *self.0.borrow_mut();
        let file = world.file(name)?;
        change(&mut file.bytes);
        file.safe = file.bytes.len();
        Ok(())
    }

    /// Removes a file durably.
    pub fn remove(&self, name: &str) {
        let world = &mut *self.0.borrow_mut();
        world.names.remove(name);
        world.safe_names.remove(name);
    }

    fn operation(&self) -> io::Result<std::cell::RefMut<'_, World>> {
        let mut world = self.0.borrow_mut();
        match &mut world.crash_in {
            Some(0) => return Err(io::Error::other("the machine has stopped")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(world)
    }
}

impl Disk for SimulatedDisk {
    fn create(&mut self, name: &str) -> io::Result<FileId> {
        let mut world = self.operation()?;
        let file = world.next;
        world.next += 1;
        world.files.insert(file, File::default());
        let naming = Naming::Create(name.to_owned(), file);
        apply(&mut world.names, &naming);
        world.pending.push(naming);
        Ok(FileId(file))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let world = &mut *self.operation()?;
        let full = world.full;
        let file = world.file(name)?;
        if full {
            file.bytes.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let world = &mut *self.operation()?;
        if !world.broken.sync {
            let file = world.file(name)?;
            file.safe = file.bytes.len();
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.operation()?;
        let naming = Naming::Rename(from.to_owned(), to.to_owned());
        apply(&mut world.names, &naming);
        world.pending.push(naming);
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let world = &mut *self.operation()?;
        if !world.broken.names {
            world.pending.clear();
            world.safe_names.clone_from(&world.names);
        }
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, FileId)>> {
        let world = self.operation()?;
        Ok(world.names.get(name).map(|file| (world.files[file].bytes.clone(), FileId(*file))))
    }
}
