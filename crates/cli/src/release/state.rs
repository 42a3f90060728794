//! What a run leaves behind for the next one: so budgets that are shared by several timestamps hold across restarts.
//!
//! The state is written whole, beside the old one, and takes its name once it has reached the disk. It is written
//! before anything that it pays for is handed over. Whoever dies in between has lost a release, and has spent nothing
//! twice.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128 as _, SipHasher24};
use tidegate::kernel::VaultKey;
use tidegate::spec::StreamSpec;

use crate::failure::Failure;
use crate::output::sync_folder_of;
use crate::secret::{create_private, read_key, write_key};

/// How every state begins.
const MAGIC: &[u8] = b"tidegate state 1\n";

/// How a state begins to which a run with a seed has contributed. Its releases are not private, nor are those that
/// follow.
const SEEDED_MAGIC: &[u8] = b"tidegate state 1, seeded\n";

/// Where the state is kept.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    /// Locked as long as this run lasts.
    _lock: File,
    /// The spec, as the state names it.
    spec: String,
    /// Whether a run with a seed has contributed to the state that was found.
    seeded: bool,
}

/// What is saved of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    /// The spec, which must be the same when the run goes on.
    spec: String,
    /// The state of the stream.
    pub(super) stream: Vec<u8>,
}

impl Keeper {
    /// Takes the state of a path for this run alone, and reads it if it is there.
    pub(super) fn open(path: &str, spec: &StreamSpec) -> Result<(Self, Option<Saved>), Failure> {
        let spec = serde_json::to_string(spec).map_err(Failure::run)?;
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) && fs::metadata(path).is_err() {
            // What it leads to may be a state that is not there at the moment.
            return Err(Failure::input(format_args!("{path} is a link that leads nowhere")));
        }
        // By whatever name it is called, there is one state and one lock.
        let path = place(path);
        let lock = lock_beside(&path)?;
        let mut seeded = false;
        let saved = match fs::read(&path) {
            Ok(bytes) => {
                seeded = bytes.starts_with(SEEDED_MAGIC);
                Some(read(&path, &bytes, &spec)?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::input(format_args!("{} cannot be read: {error}", path.display()))),
        };
        Ok((Self { path, _lock: lock, spec, seeded }, saved))
    }

    /// Whether a run with a seed has contributed to the state that was found.
    pub(super) const fn is_seeded(&self) -> bool {
        self.seeded
    }

    /// Replaces the state; once this is done, it has reached the disk.
    pub(super) fn save(&self, stream: Vec<u8>, seeded: bool) -> Result<(), Failure> {
        let saved = Saved { spec: self.spec.clone(), stream };
        let body = postcard::to_allocvec(&saved).map_err(Failure::run)?;
        let mut bytes = if seeded { SEEDED_MAGIC } else { MAGIC }.to_vec();
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(checksum(&body));
        bytes.extend(body);
        write_whole(&self.path, &bytes)
            .map_err(|error| Failure::run(format_args!("{} cannot be written: {error}", self.path.display())))
    }
}

/// Where a path leads, the same for all its spellings, also where nothing is there yet.
pub(super) fn place(path: &str) -> PathBuf {
    let path = Path::new(path);
    let beside = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// What tells a damaged state from a whole one.
fn checksum(body: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new();
    hasher.write(body);
    hasher.finish128().as_bytes()
}

fn read(path: &Path, bytes: &[u8], spec: &str) -> Result<Saved, Failure> {
    let refused = |why: &str| {
        let path = path.display();
        Failure::input(format_args!("{path}: {why}; it was left as it is, because beginning anew would spend again"))
    };
    let rest = bytes.strip_prefix(MAGIC).or_else(|| bytes.strip_prefix(SEEDED_MAGIC));
    let rest = rest.ok_or_else(|| refused("it is not the state of a release, or damaged"))?;
    let (length, rest) = rest.split_at_checked(8).ok_or_else(|| refused("the state breaks off"))?;
    let (sum, body) = rest.split_at_checked(16).ok_or_else(|| refused("the state breaks off"))?;
    if length != (body.len() as u64).to_le_bytes() {
        return Err(refused("the state breaks off, or is longer than it should be"));
    }
    if sum != checksum(body) {
        return Err(refused("the state is damaged"));
    }
    let saved: Saved = postcard::from_bytes(body).map_err(|_| refused("the state cannot be read"))?;
    if saved.spec != spec {
        return Err(refused("it is the state of another spec"));
    }
    Ok(saved)
}

/// The file by which a run keeps the state of a path to itself.
pub(super) fn lock_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.lock", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// A file beside the state that is locked while a run uses it: two runs with one budget would spend it twice.
fn lock_beside(path: &Path) -> Result<File, Failure> {
    if path.file_name().is_none() {
        return Err(Failure::input("--state must name a file"));
    }
    let lock = lock_of(path);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
    let file = opened.map_err(|error| Failure::input(format_args!("{} cannot be written: {error}", lock.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Failure::input(format_args!("{} is used by another run", path.display())))
        }
        Err(fs::TryLockError::Error(error)) => {
            Err(Failure::run(format_args!("{} cannot be locked: {error}", lock.display())))
        }
    }
}

/// Writes a file under another name, and changes that once it has reached the disk.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.partial"));
    // Whatever an earlier run left there was never taken for a state; no other run is at it, for the state is locked.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    sync_folder_of(path)
}

/// The key under which readings that are held back are kept: of a file of 64 hexadecimal digits, which is made if it is
/// not there and there is no state yet.
pub(super) fn key(path: &str, is_new: bool) -> Result<VaultKey, Failure> {
    let path = Path::new(path);
    match read_key(path)? {
        Some(key) => Ok(VaultKey::from_bytes(key)),
        None if is_new => {
            let key = VaultKey::new().map_err(Failure::run)?;
            write_key(path, &key.to_bytes())?;
            Ok(key)
        }
        None => {
            let error = io::Error::from(io::ErrorKind::NotFound);
            Err(Failure::input(format_args!("{} cannot be read: {error}", path.display())))
        }
    }
}

/// A state that is whole but makes no sense.
pub(super) fn misfit(why: impl std::fmt::Display) -> Failure {
    Failure::input(format_args!(
        "the state does not fit its spec: {why}; it was left as it is, because beginning anew would spend again"
    ))
}
