//! [`Marks`]: how far each stream had got when something of it was last published, kept outside the database.
//!
//! A database that was restored from a backup is whole and in order, and yet older than what was published: its ledger
//! has forgotten what was spent since. Nothing inside it can tell. So before anything is published, the version that it
//! belongs to is written down in a file of its own, in another folder than the database's backups are made of; and
//! whoever starts compares the two.
//!
//! The file is replaced whole, with a checksum, and knows a copy of itself (see [`tidegate_device::disk`]): one that
//! was restored together with the database is refused like one that is damaged or gone. [`Marks::adopt`] is for whoever
//! knows better.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_device::disk::{self, Damaged, Folder};

use super::{Store, StoreError};

const FILE: &str = "marks";

/// How far a stream has come, so that something of it may have been published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its version.
    pub version: u64,
    /// The last timestamp that it had spent for; `None` for none.
    pub timestamp: Option<u64>,
}

/// A note, kept apart from the store, of how far streams have come: a store that is older than that was put back from a
/// backup, and what it says about budgets is not true any more.
pub trait HighWater: Send + Sync + fmt::Debug {
    /// How far a stream has come.
    fn mark(&self, stream: &str) -> Option<Mark>;

    /// Notes that it has come further; safe on return. A mark is never lowered.
    ///
    /// # Errors
    /// What the disk says. Then it may have been raised or not, and nothing must be published.
    fn raise(&self, stream: &str, mark: Mark) -> io::Result<()>;
}

/// What was published of all streams, in a folder that nobody else has open.
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

/// A stream of which more was published than its store knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "stream {stream} is at version {version}, but version {marked} was published: the store was restored from an older backup"
)]
pub struct Older {
    /// The stream.
    pub stream: String,
    /// Its version in the store; 0 where it is not there.
    pub version: u64,
    /// The version that was published.
    pub marked: u64,
}

/// Why there are no marks to go by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// Another process has them.
    #[error("the folder of the high-water marks is used by another process")]
    InUse,
    /// They cannot be read or written.
    #[error("the high-water marks cannot be kept: {0}")]
    Io(#[from] io::Error),
    /// Their file is not what was written.
    #[error("the high-water marks are not what was written: {0}")]
    Damaged(#[from] Damaged),
    /// They were written by a later version of this program.
    #[error("the high-water marks are of a version that is not known here")]
    Version,
    /// There are none, but the store has streams that have been advanced.
    #[error("there are no high-water marks, but stream {stream} has been advanced to version {version}")]
    Missing {
        /// A stream.
        stream: String,
        /// Its version.
        version: u64,
    },
    /// The store is older than what was published.
    #[error(transparent)]
    Older(#[from] Older),
    /// The store does not say.
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

/// The higher of two.
fn higher(one: Mark, other: Mark) -> Mark {
    Mark { version: one.version.max(other.version), timestamp: one.timestamp.max(other.timestamp) }
}

impl Marks {
    /// Opens the marks in a folder, which is made where it is missing. Where there are none, as before the first start,
    /// the store must not have been used either.
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
            // From now on a missing file is a lost one.
            kept.save(BTreeMap::new())?;
        }
        Ok(Self(Mutex::new(kept)))
    }

    /// Makes marks anew, where they are missing, damaged or a copy: an operator's decision, who knows that nothing
    /// later was published. Marks that can be read and are higher are kept.
    ///
    /// # Errors
    /// [`MarkError::InUse`], [`MarkError::Io`]; and [`MarkError::Version`] where a later program has written them.
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

    /// The streams of which more was published than a store knows.
    ///
    /// # Errors
    /// What the store says.
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

    /// That a store knows of everything that was published.
    ///
    /// # Errors
    /// [`MarkError::Older`], for the first stream of which it does not.
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
