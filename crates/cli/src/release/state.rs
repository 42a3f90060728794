//! State files, which keep shared budgets across runs.
//!
//! A state is written to a temporary file, synced and renamed, before any release that it pays for is written. A crash
//! in between loses a release but never spends budget twice.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128 as _, SipHasher24};
use tidegate::kernel::VaultKey;
use tidegate::spec::StreamSpec;

use crate::failure::Failure;
use crate::output::{place, sync_folder_of};
use crate::secret::{create_private, read_key, write_key};

/// First line of every state file.
const MAGIC: &[u8] = b"tidegate state 2\n";

/// First line of a state to which a seeded run contributed. Its releases are not private, nor are later ones.
const SEEDED_MAGIC: &[u8] = b"tidegate state 2, seeded\n";

/// A locked state file.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    /// Held until the run ends.
    _lock: File,
    /// The spec, as stored in the state.
    spec: String,
    /// Whether a seeded run contributed to the state.
    seeded: bool,
}

/// The saved state of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The spec; it must be the same when the run continues.
    pub(crate) spec: String,
    /// The state of the stream, or of all series.
    pub(crate) stream: Vec<u8>,
}

impl Saved {
    /// Reads a state file, and whether a seeded run contributed to it. A run that uses it is not disturbed.
    pub(crate) fn read(path: &str) -> Result<(Self, bool), Failure> {
        let cannot = |error: io::Error| Failure::input(format_args!("{path} cannot be read: {error}"));
        let bytes = fs::read(path).map_err(cannot)?;
        let saved = of_bytes(&bytes).map_err(|why| Failure::input(format_args!("{path}: {why}")))?;
        Ok((saved, bytes.starts_with(SEEDED_MAGIC)))
    }
}

impl Keeper {
    /// Locks the state file of a path, and reads it. A new state must not exist yet, and any other must: so a mistyped
    /// path begins no new budget.
    pub(super) fn open(path: &str, spec: &StreamSpec, is_new: bool) -> Result<(Self, Option<Saved>), Failure> {
        match (is_new, fs::symlink_metadata(path)) {
            (true, Ok(_)) => {
                return Err(Failure::input(format_args!(
                    "{path} exists: leave out --new-state to go on with its budget, or name another file"
                )));
            }
            (false, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::input(format_args!(
                    "there is no state {path}: check the path, or pass --new-state if a new budget is meant"
                )));
            }
            _ => {}
        }
        let spec = spec.of_state().map_err(Failure::input)?;
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) && fs::metadata(path).is_err() {
            // Its target may be a state that is temporarily absent.
            return Err(Failure::input(format_args!("{path} is a link that leads nowhere")));
        }
        // All names of a file share one state and one lock.
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
        let spec = serde_json::to_string(&spec).map_err(Failure::run)?;
        Ok((Self { path, _lock: lock, spec, seeded }, saved))
    }

    pub(super) const fn is_seeded(&self) -> bool {
        self.seeded
    }

    /// Replaces the state; it has reached the disk on return.
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

/// Returns the checksum that detects damage.
fn checksum(body: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new();
    hasher.write(body);
    hasher.finish128().as_bytes()
}

fn read(path: &Path, bytes: &[u8], spec: &StreamSpec) -> Result<Saved, Failure> {
    let refused = |why: &str| {
        let path = path.display();
        Failure::input(format_args!("{path}: {why}; it was left as it is, because beginning anew would spend again"))
    };
    let saved = of_bytes(bytes).map_err(refused)?;
    // A later spec may declare more series.
    let earlier: Option<StreamSpec> = serde_json::from_str(&saved.spec).ok();
    if earlier.is_none_or(|earlier| !spec.continues(&earlier)) {
        return Err(refused("it is the state of another spec"));
    }
    Ok(saved)
}

/// Checks and parses the content of a state file.
fn of_bytes(bytes: &[u8]) -> Result<Saved, &'static str> {
    let rest = bytes.strip_prefix(MAGIC).or_else(|| bytes.strip_prefix(SEEDED_MAGIC));
    let rest = rest.ok_or("it is not the state of a release, or damaged")?;
    let (length, rest) = rest.split_at_checked(8).ok_or("the state breaks off")?;
    let (sum, body) = rest.split_at_checked(16).ok_or("the state breaks off")?;
    if length != (body.len() as u64).to_le_bytes() {
        return Err("the state breaks off, or is longer than it should be");
    }
    if sum != checksum(body) {
        return Err("the state is damaged");
    }
    postcard::from_bytes(body).map_err(|_| "the state cannot be read")
}

/// Returns the path of the lock file.
pub(super) fn lock_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.lock", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Locks the file beside the state; two runs with one budget would spend it twice.
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

/// Writes and syncs a temporary file, and renames it.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.partial"));
    // A leftover of an earlier run; the lock excludes other runs.
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

/// Reads the key that encrypts readings held back; creates the file if there is no state yet.
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

/// Returns the error of an intact but inconsistent state.
pub(crate) fn misfit(why: impl std::fmt::Display) -> Failure {
    Failure::input(format_args!(
        "the state does not fit its spec: {why}; it was left as it is, because beginning anew would spend again"
    ))
}
