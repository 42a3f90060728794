//! [`Disk`]: atomic replacement of checksummed state files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

/// Identity of a file, independent of its name. A copy or a re-created file has another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileId(pub u64);

/// The file operations that [`replace`] and [`read`] need. Each may fail, and a crash may follow each: unsynced data
/// may then be there, in part or not at all.
pub trait Disk {
    /// Creates an empty file; removes one of the same name first.
    fn create(&mut self, name: &str) -> io::Result<FileId>;

    /// Appends to a file.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file's contents durable.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Renames a file, and replaces one of the new name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Makes the names of files durable.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Reads a file and its identity; `None` if there is none.
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, FileId)>>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Excludes other processes while held.
    _lock: File,
}

impl Folder {
    /// Opens a folder, and creates it if missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has it open: two devices with one state would spend twice.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join("lock"))?;
        Self::locked(path, lock)
    }

    /// Opens a folder to look into it, and creates nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has it open.
    pub fn open_existing(path: &Path) -> io::Result<Self> {
        match File::open(path.join("lock")) {
            Ok(lock) => Self::locked(path, lock),
            // Nobody has opened it yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { path: path.to_owned(), _lock: File::open(path)? })
            }
            Err(error) => Err(error),
        }
    }

    fn locked(path: &Path, lock: File) -> io::Result<Self> {
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            fs::TryLockError::Error(error) => error,
        })?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

/// A file's identity from its inode and creation time; an inode alone can be reused.
///
/// # Errors
/// If the file system has no creation times: a copy could not be detected.
fn id_of(file: &File) -> io::Result<FileId> {
    let found = file.metadata()?;
    let made = found.created()?.duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let mut hasher = Sha256::new();
    hasher.update(made.as_nanos().to_le_bytes());
    #[cfg(unix)]
    hasher.update(std::os::unix::fs::MetadataExt::ino(&found).to_le_bytes());
    let digest = hasher.finalize();
    Ok(FileId(digest.iter().take(8).fold(0, |id, byte| id << 8 | u64::from(*byte))))
}

impl Disk for Folder {
    fn create(&mut self, name: &str) -> io::Result<FileId> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        id_of(&options.open(path)?)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().append(true).open(self.path.join(name))?.write_all(bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        OpenOptions::new().append(true).open(self.path.join(name))?.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_names(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, FileId)>> {
        let mut file = match File::open(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)?;
        Ok(Some((contents, id_of(&file)?)))
    }
}

const MAGIC: &[u8; 16] = b"tidegate state 1";

/// Why a state file cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum Damaged {
    /// The file could not be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file has no valid header, or is truncated.
    #[error("it is not a file of state")]
    Foreign,
    /// The checksum does not match.
    #[error("it is damaged: its checksum is not that of its contents")]
    Checksum,
    /// The file is a copy, or was restored.
    #[error("it is a copy of the file that was written")]
    Copy { contents: Vec<u8> },
}

/// Atomically replaces a file's contents. On return they are durable. After a failure or a crash, the file has either
/// the whole old contents or the whole new ones.
pub fn replace(disk: &mut impl Disk, name: &str, contents: &[u8]) -> io::Result<()> {
    let draft = format!("{name}.new");
    let id = disk.create(&draft)?;
    let mut body = Vec::with_capacity(contents.len() + 8);
    body.extend_from_slice(&id.0.to_le_bytes());
    body.extend_from_slice(contents);
    disk.append(&draft, &enclose(MAGIC, &body))?;
    disk.sync(&draft)?;
    disk.rename(&draft, name)?;
    disk.sync_names()
}

/// Reads contents written by [`replace`]; `None` if there is no such file.
///
/// # Errors
/// If the file is damaged, or a copy: a copy may be an old state.
pub fn read(disk: &impl Disk, name: &str) -> Result<Option<Vec<u8>>, Damaged> {
    let Some((bytes, id)) = disk.read(name)? else { return Ok(None) };
    let Some((written, contents)) = body_of(MAGIC, &bytes)?.split_first_chunk() else { return Err(Damaged::Foreign) };
    if u64::from_le_bytes(*written) != id.0 {
        return Err(Damaged::Copy { contents: contents.to_vec() });
    }
    Ok(Some(contents.to_vec()))
}

/// Puts a heading and a checksum before a body.
pub(crate) fn enclose(magic: &[u8; 16], body: &[u8]) -> Vec<u8> {
    [magic.as_slice(), &Sha256::digest(body), body].concat()
}

/// The body, if heading and checksum are right.
pub(crate) fn body_of<'a>(magic: &[u8; 16], bytes: &'a [u8]) -> Result<&'a [u8], Damaged> {
    let Some((head, body)) = bytes.split_at_checked(magic.len() + 32) else { return Err(Damaged::Foreign) };
    let Some(checksum) = head.strip_prefix(magic) else { return Err(Damaged::Foreign) };
    if Sha256::digest(body)[..] != *checksum {
        return Err(Damaged::Checksum);
    }
    Ok(body)
}
