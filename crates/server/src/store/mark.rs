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

    /// Raises a mark, durably. A mark is never lowered.
    ///
    /// # Errors
    /// Errors of the disk. The mark may have been raised or not, so nothing must be published.
    fn raise(&self, stream: &str, mark: Mark) -> io::Result<()>;
}

/// High-water marks in a folder that no other process has open.
#[derive(Debug)]
pub struct Marks(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    folder: Folder,
    marks: BTreeMap<String, Mark>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u16,
    marks: BTreeMap<String, Mark>,
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
    Folder::open(folder).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => MarkError::InUse,
        _ => error.into(),
    })
}

fn decode(contents: &[u8]) -> Result<BTreeMap<String, Mark>, MarkError> {
    let (version, _): (u16, _) = postcard::take_from_bytes(contents).map_err(|_| MarkError::Version)?;
    let saved: Option<Saved> = postcard::from_bytes(contents).ok();
    saved.filter(|_| version == VERSION).map(|saved| saved.marks).ok_or(MarkError::Version)
}

impl Kept {
    fn save(&mut self, marks: BTreeMap<String, Mark>) -> Result<(), MarkError> {
        let saved = Saved { version: VERSION, marks };
        let contents = postcard::to_allocvec(&saved).map_err(io::Error::other)?;
        disk::replace(&mut self.folder, FILE, &contents)?;
        self.marks = saved.marks;
        Ok(())
    }
}

/// Returns the higher version and the later timestamp.
fn higher(one: Mark, other: Mark) -> Mark {
    Mark { version: one.version.max(other.version), timestamp: one.timestamp.max(other.timestamp) }
}

impl Marks {
    /// Opens the marks in a folder, which is created where it is missing. Without marks, the store must be unused too.
    ///
    /// # Errors
    /// [`MarkError::Missing`], [`MarkError::Damaged`] (also for a copy), [`MarkError::InUse`].
    pub fn open(folder: &Path, store: &dyn Store) -> Result<Self, MarkError> {
        let folder = open(folder)?;
        let contents = disk::read(&folder, FILE)?;
        let marks = contents.as_deref().map_or(Ok(BTreeMap::new()), decode)?;
        let mut kept = Kept { folder, marks };
        if contents.is_none() {
            for stream in store.names()? {
                let (_, version) = store.status(&stream)?;
                if version > 0 {
                    return Err(MarkError::Missing { stream, version });
                }
            }
            // From now on a missing file is an error.
            kept.save(BTreeMap::new())?;
        }
        Ok(Self(Mutex::new(kept)))
    }

    /// Writes new marks where they are missing, damaged or a copy. An operator decides this, who knows that nothing
    /// later was published. Readable marks that are higher stay.
    ///
    /// # Errors
    /// [`MarkError::InUse`], [`MarkError::Io`], and [`MarkError::Version`] for marks of a later program.
    pub fn adopt(folder: &Path, marks: impl IntoIterator<Item = (String, Mark)>) -> Result<Self, MarkError> {
        let folder = open(folder)?;
        let mut all = match disk::read(&folder, FILE) {
            Ok(None) | Err(Damaged::Foreign | Damaged::Checksum) => BTreeMap::new(),
            Ok(Some(contents)) | Err(Damaged::Copy { contents }) => decode(&contents)?,
            Err(error) => return Err(error.into()),
        };
        for (stream, mark) in marks {
            let before = all.get(&stream).copied().unwrap_or(mark);
            all.insert(stream, higher(before, mark));
        }
        let mut kept = Kept { folder, marks: BTreeMap::new() };
        kept.save(all)?;
        Ok(Self(Mutex::new(kept)))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the streams whose store is behind their marks.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn older(&self, store: &dyn Store) -> Result<Vec<Older>, StoreError> {
        let marks = self.kept().marks.clone();
        let mut older = Vec::new();
        for (stream, mark) in marks {
            let version = match store.status(&stream) {
                Ok((_, version)) => Some(version),
                Err(StoreError::NoStream(_)) => None,
                Err(error) => return Err(error),
            };
            if version.is_none_or(|version| version < mark.version) {
                older.push(Older { stream, version: version.unwrap_or(0), marked: mark.version });
            }
        }
        Ok(older)
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
        self.kept().marks.get(stream).copied()
    }

    fn raise(&self, stream: &str, mark: Mark) -> io::Result<()> {
        let mut kept = self.kept();
        let before = kept.marks.get(stream).copied();
        let raised = higher(before.unwrap_or(mark), mark);
        if before == Some(raised) {
            return Ok(());
        }
        let mut marks = kept.marks.clone();
        marks.insert(stream.to_owned(), raised);
        kept.save(marks).map_err(io::Error::other)
    }
}
