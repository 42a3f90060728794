//! [`Marks`]: high-water marks of all streams, kept outside the database.
//!
//! A database that was restored from a backup is consistent, yet its ledger misses the budget spent since. Nothing in
//! the database can tell. So before each publication its version is written to a file in another folder, and a service
//! compares the two when it starts.
//!
//! The file is replaced atomically, has a checksum, and detects copies of itself (see [`tidegate_device::disk`]). A
//! file that was restored together with the database is refused, like a damaged or missing one. [`Marks::adopt`]
//! overrides that.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_device::disk::{self, Damaged, Folder};

use super::{Store, StoreError};

const FILE: &str = "marks";

/// High-water mark of a stream: nothing beyond it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Version of the stream.
    pub version: u64,
    /// Last timestamp that it has spent budget for.
    pub timestamp: Option<u64>,
}

/// High-water marks, kept apart from the store. A store behind its mark was restored from a backup, so its ledger is
/// outdated.
pub trait HighWater: Send + Sync + fmt::Debug {
    /// Returns the mark of a stream.
    fn mark(&self, stream: &str) -> Option<Mark>;

    /// Raises the marks of any streams together, durably. A mark is never lowered.
    ///
    /// # Errors
    /// Errors of the disk. Each mark may have been raised or not, so nothing must be published.
    fn raise_all(&self, marks: &[(String, Mark)]) -> io::Result<()>;

    /// Raises the mark of one stream, durably.
    ///
    /// # Errors
    /// As for [`raise_all`](Self::raise_all).
    fn raise(&self, stream: &str, mark: Mark) -> io::Result<()> {
        self.raise_all(&[(stream.to_owned(), mark)])
    }

    /// Whether other processes raise marks in the same place.
    fn is_shared(&self) -> bool {
        false
    }

    /// Learns the marks that other processes have raised until now, where several share them.
    ///
    /// # Errors
    /// Errors of the place that they are kept in.
    fn refresh(&self) -> io::Result<()> {
        Ok(())
    }

    /// Checks that marks can be raised, by writing them as they are. Marks in memory need no check.
    ///
    /// # Errors
    /// Errors of the disk.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// High-water marks in a folder that no other process has open.
///
/// One file has all marks. It is written once for all streams that are raised together.
#[derive(Debug)]
pub struct Marks {
    /// Taken before `marks`, and held until the file is durable.
    folder: Mutex<Folder>,
    /// Marks of the file, or of the one that is being written.
    marks: Mutex<BTreeMap<String, Mark>>,
}

#[derive(Serialize, Deserialize)]
struct Saved<M> {
    version: u16,
    marks: M,
}

const VERSION: u16 = 1;

/// A stream whose store is behind its mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "stream {stream} is at version {version}, but version {marked} was published: the store was restored from an \
     older backup"
)]
pub struct Older {
    /// Name of the stream.
    pub stream: String,
    /// Its version in the store; 0 where it is missing.
    pub version: u64,
    /// Its marked version.
    pub marked: u64,
}

/// Error of high-water marks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum MarkError {
    #[error("the folder of the high-water marks is used by another process")]
    InUse,
    #[error("the high-water marks cannot be kept: {0}")]
    Io(#[from] io::Error),
    #[error("the high-water marks are damaged: {0}")]
    Damaged(#[from] Damaged),
    #[error("the high-water marks were written by another version of this program")]
    Version,
    #[error("there are no high-water marks, but stream {stream} has been advanced to version {version}")]
    Missing { stream: String, version: u64 },
    #[error(transparent)]
    Older(#[from] Older),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn open(folder: &Path) -> Result<Folder, MarkError> {
    Folder::open(folder).map_err(of_folder)
}

fn of_folder(error: io::Error) -> MarkError {
    match error.kind() {
        io::ErrorKind::WouldBlock => MarkError::InUse,
        _ => error.into(),
    }
}

fn decode(contents: &[u8]) -> Result<BTreeMap<String, Mark>, MarkError> {
    let (version, _): (u16, _) = postcard::take_from_bytes(contents).map_err(|_| MarkError::Version)?;
    let saved: Option<Saved<BTreeMap<String, Mark>>> = postcard::from_bytes(contents).ok();
    saved.filter(|_| version == VERSION).map(|saved| saved.marks).ok_or(MarkError::Version)
}

fn encode(marks: &BTreeMap<String, Mark>) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(&Saved { version: VERSION, marks }).map_err(io::Error::other)
}

/// Returns the higher version and the later timestamp.
pub(crate) fn higher(one: Mark, other: Mark) -> Mark {
    Mark { version: one.version.max(other.version), timestamp: one.timestamp.max(other.timestamp) }
}

/// Returns the streams that are behind their marks, by their versions in the store; `None` where one is missing.
pub fn behind(marks: &BTreeMap<String, Mark>, version: impl Fn(&str) -> Option<u64>) -> Vec<Older> {
    let older = |(stream, mark): (&String, &Mark)| {
        let version = version(stream);
        version.is_none_or(|version| version < mark.version).then(|| Older {
            stream: stream.clone(),
            version: version.unwrap_or(0),
            marked: mark.version,
        })
    };
    marks.iter().filter_map(older).collect()
}

impl Marks {
    /// Opens the marks in a folder, which is created where it is missing. Without marks, the store must be unused too.
    ///
    /// # Errors
    /// [`MarkError::Missing`], [`MarkError::Damaged`] (also for a copy), [`MarkError::InUse`].
    pub fn open(folder: &Path, store: &dyn Store) -> Result<Self, MarkError> {
        let mut folder = open(folder)?;
        let contents = disk::read(&folder, FILE)?;
        let marks = contents.as_deref().map_or(Ok(BTreeMap::new()), decode)?;
        if contents.is_none() {
            for stream in store.names()? {
                let (_, version) = store.status(&stream)?;
                if version > 0 {
                    return Err(MarkError::Missing { stream, version });
                }
            }
            // From now on a missing file is an error.
            disk::replace(&mut folder, FILE, &encode(&marks)?)?;
        }
        Ok(Self { folder: Mutex::new(folder), marks: Mutex::new(marks) })
    }

    /// Writes new marks where they are missing, damaged or a copy. An operator decides this, who knows that nothing
    /// later was published. Readable marks that are higher stay.
    ///
    /// # Errors
    /// [`MarkError::InUse`], [`MarkError::Io`], and [`MarkError::Version`] for marks of a later program.
    pub fn adopt(folder: &Path, marks: impl IntoIterator<Item = (String, Mark)>) -> Result<Self, MarkError> {
        let mut folder = open(folder)?;
        let mut all = match disk::read(&folder, FILE) {
            Ok(None) | Err(Damaged::Foreign | Damaged::Checksum) => BTreeMap::new(),
            Ok(Some(contents)) | Err(Damaged::Copy { contents }) => decode(&contents)?,
            Err(error) => return Err(error.into()),
        };
        for (stream, mark) in marks {
            let before = all.get(&stream).copied().unwrap_or(mark);
            all.insert(stream, higher(before, mark));
        }
        disk::replace(&mut folder, FILE, &encode(&all)?)?;
        Ok(Self { folder: Mutex::new(folder), marks: Mutex::new(all) })
    }

    /// Reads the marks in a folder, and changes nothing. `None` where there are none.
    ///
    /// # Errors
    /// [`MarkError::Damaged`] (also for a copy), [`MarkError::InUse`].
    pub fn inspect(folder: &Path) -> Result<Option<BTreeMap<String, Mark>>, MarkError> {
        let folder = Folder::open_existing(folder).map_err(of_folder)?;
        disk::read(&folder, FILE)?.as_deref().map(decode).transpose()
    }

    fn marks(&self) -> MutexGuard<'_, BTreeMap<String, Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the streams whose store is behind their marks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn older(&self, store: &dyn Store) -> Result<Vec<Older>, StoreError> {
        let marks = self.marks().clone();
        let mut versions = BTreeMap::new();
        for stream in marks.keys() {
            match store.status(stream) {
                Ok((_, version)) => drop(versions.insert(stream.as_str(), version)),
                Err(StoreError::NoStream(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(behind(&marks, |stream| versions.get(stream).copied()))
    }

    /// Checks that a store is not behind any mark.
    ///
    /// # Errors
    /// [`MarkError::Older`], for the first stream that is.
    pub fn check_against(&self, store: &dyn Store) -> Result<(), MarkError> {
        self.older(store)?.into_iter().next().map_or(Ok(()), |older| Err(older.into()))
    }
}

impl HighWater for Marks {
    fn mark(&self, stream: &str) -> Option<Mark> {
        self.marks().get(stream).copied()
    }

    fn raise_all(&self, marks: &[(String, Mark)]) -> io::Result<()> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = Vec::new();
        let contents = {
            let mut all = self.marks();
            for (stream, mark) in marks {
                let known = all.get(stream).copied();
                let raised = higher(known.unwrap_or(*mark), *mark);
                if known != Some(raised) {
                    before.push((stream, known));
                    all.insert(stream.clone(), raised);
                }
            }
            encode(&all)?
        };
        if before.is_empty() {
            return Ok(());
        }
        let written = disk::replace(&mut *folder, FILE, &contents);
        if written.is_err() {
            // Later ones are then written again.
            let mut all = self.marks();
            for (stream, known) in before.into_iter().rev() {
                match known {
                    Some(mark) => all.insert(stream.clone(), mark),
                    None => all.remove(stream),
                };
            }
        }
        written
    }

    fn check(&self) -> io::Result<()> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody changes marks without the folder.
        let contents = encode(&self.marks())?;
        disk::replace(&mut *folder, FILE, &contents)
    }
}
