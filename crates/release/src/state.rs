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
use tidegate::mechanisms::Family;
use tidegate::spec::StreamSpec;
use tidegate_table::time::Zone;

use crate::Error;
use crate::files::{create_private, place, read_key, sync_folder_of, write_key};

/// The version of the form of a state file.
const VERSION: u32 = 3;

/// The oldest version that is read. It does not say where times are local.
const OLDEST: u32 = 2;

/// First word of every state file, before the version.
const MAGIC: &str = "tidegate state ";

/// After the version of a state to which a seeded run contributed. Its releases are not private, nor are later ones.
const SEEDED: &str = ", seeded";

/// A locked state file.
#[derive(Debug)]
pub struct Keeper {
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
pub struct Saved {
    /// The spec; it must be the same when the run continues.
    pub spec: String,
    /// The state of the stream, or of all series.
    pub stream: Vec<u8>,
    /// Where times are local, once there was one.
    pub zone: Option<Zone>,
}

impl Saved {
    /// Reads a state file, and whether a seeded run contributed to it. A run that uses it is not disturbed.
    pub fn read(path: &str) -> Result<(Self, bool), Error> {
        let cannot = |error: io::Error| Error::State(format!("{path} cannot be read: {error}"));
        let bytes = fs::read(path).map_err(cannot)?;
        of_bytes(&bytes).map_err(|why| Error::State(format!("{path}: {why}")))
    }
}

impl Keeper {
    /// Locks the state file of a path, and reads it. A new state must not exist yet, and any other must: so a mistyped
    /// path begins no new budget.
    pub fn open(path: &str, spec: &StreamSpec, is_new: bool) -> Result<(Self, Option<Saved>), Error> {
        match (is_new, fs::symlink_metadata(path)) {
            (true, Ok(_)) => {
                return Err(Error::State(format!(
                    "{path} exists: leave out --new-state to go on with its budget, or name another file"
                )));
            }
            (false, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::State(format!(
                    "there is no state {path}: check the path, or pass --new-state if a new budget is meant"
                )));
            }
            _ => {}
        }
        let spec = spec.of_state().map_err(|error| Error::Spec(error.to_string()))?;
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) && fs::metadata(path).is_err() {
            // Its target may be a state that is temporarily absent.
            return Err(Error::State(format!("{path} is a link that leads nowhere")));
        }
        // All names of a file share one state and one lock.
        let path = place(path);
        let lock = lock_beside(&path)?;
        let mut seeded = false;
        let saved = match fs::read(&path) {
            Ok(bytes) => {
                let saved;
                (saved, seeded) = read(&path, &bytes, &spec)?;
                Some(saved)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::State(format!("{} cannot be read: {error}", path.display()))),
        };
        let spec = serde_json::to_string(&spec).map_err(Error::run)?;
        Ok((Self { path, _lock: lock, spec, seeded }, saved))
    }

    /// Whether a seeded run contributed to the state.
    pub const fn is_seeded(&self) -> bool {
        self.seeded
    }

    /// Replaces the state; it has reached the disk on return.
    pub fn save(&self, stream: Vec<u8>, zone: Option<Zone>, seeded: bool) -> Result<(), Error> {
        let saved = Saved { spec: self.spec.clone(), stream, zone };
        let body = postcard::to_allocvec(&saved).map_err(Error::run)?;
        let mut bytes = format!("{MAGIC}{VERSION}{}\n", if seeded { SEEDED } else { "" }).into_bytes();
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(checksum(&body));
        bytes.extend(body);
        write_whole(&self.path, &bytes)
            .map_err(|error| Error::Run(format!("{} cannot be written: {error}", self.path.display())))
    }
}

/// Returns the checksum that detects damage.
fn checksum(body: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new();
    hasher.write(body);
    hasher.finish128().as_bytes()
}

/// Reads the state of a spec, and whether a seeded run contributed to it.
fn read(path: &Path, bytes: &[u8], spec: &StreamSpec) -> Result<(Saved, bool), Error> {
    let refused = |why: String| {
        let path = path.display();
        Error::State(format!("{path}: {why}; it was left as it is, because beginning anew would spend again"))
    };
    let (saved, seeded) = of_bytes(bytes).map_err(refused)?;
    // A later spec may declare more series.
    let earlier: Option<StreamSpec> = serde_json::from_str(&saved.spec).ok();
    if earlier.is_none_or(|earlier| !spec.continues(&earlier)) {
        return Err(refused("it is the state of another spec".to_owned()));
    }
    Ok((saved, seeded))
}

/// Checks and parses the content of a state file.
fn of_bytes(bytes: &[u8]) -> Result<(Saved, bool), String> {
    let (version, seeded, rest) = begin(bytes).ok_or("it is not the state of a release, or damaged")?;
    if version < OLDEST {
        return Err(format!(
            "it is the state of an older version of tidegate, of form {version}, and this one reads forms {OLDEST} to \
             {VERSION}: go on with the version that wrote it, or wait until its last window is over and begin a new \
             state with --new-state"
        ));
    }
    if version > VERSION {
        return Err(format!(
            "it is the state of a newer version of tidegate, of form {version}, and this one reads forms {OLDEST} to \
             {VERSION}: update tidegate"
        ));
    }
    let body = body(rest)?;
    let parsed = if version == VERSION {
        postcard::take_from_bytes(body)
    } else {
        postcard::take_from_bytes(body).map(|((spec, stream), rest)| (Saved { spec, stream, zone: None }, rest))
    };
    match parsed {
        Ok((saved, [])) => Ok((saved, seeded)),
        _ => Err("the state cannot be read".to_owned()),
    }
}

/// Parses the first line of a state file: its version, and whether a seeded run contributed to it.
fn begin(bytes: &[u8]) -> Option<(u32, bool, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC.as_bytes())?;
    let end = rest.iter().take(40).position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(&rest[..end]).ok()?;
    let seeded = line.strip_suffix(SEEDED);
    Some((seeded.unwrap_or(line).parse().ok()?, seeded.is_some(), &rest[end + 1..]))
}

/// Checks the length and the sum of a state's body.
fn body(rest: &[u8]) -> Result<&[u8], &'static str> {
    let (length, rest) = rest.split_at_checked(8).ok_or("the state breaks off")?;
    let (sum, body) = rest.split_at_checked(16).ok_or("the state breaks off")?;
    if length != (body.len() as u64).to_le_bytes() {
        return Err("the state breaks off, or is longer than it should be");
    }
    if sum != checksum(body) {
        return Err("the state is damaged");
    }
    Ok(body)
}

/// Returns the path of the lock file.
pub fn lock_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.lock", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Locks the file beside the state; two runs with one budget would spend it twice.
fn lock_beside(path: &Path) -> Result<File, Error> {
    if path.file_name().is_none() {
        return Err(Error::State("--state must name a file".to_owned()));
    }
    let lock = lock_of(path);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
    let file = opened.map_err(|error| Error::State(format!("{} cannot be written: {error}", lock.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::State(format!("{} is used by another run", path.display()))),
        Err(fs::TryLockError::Error(error)) => Err(Error::Run(format!("{} cannot be locked: {error}", lock.display()))),
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
pub fn key(path: &str, is_new: bool) -> Result<VaultKey, Error> {
    let path = Path::new(path);
    match read_key(path)? {
        Some(key) => Ok(VaultKey::from_bytes(key)),
        None if is_new => {
            let key = VaultKey::new().map_err(Error::run)?;
            write_key(path, &key.to_bytes())?;
            Ok(key)
        }
        None => {
            let error = io::Error::from(io::ErrorKind::NotFound);
            Err(Error::State(format!("{} cannot be read: {error}", path.display())))
        }
    }
}

/// Checks that there is a key for a state that holds readings, and none for one that does not. Either is a file of its
/// own: a state that is saved over its key could never be read again.
///
/// # Errors
/// [`Error::Argument`].
pub fn check_key(spec: &StreamSpec, state: Option<&str>, key: Option<&str>) -> Result<(), Error> {
    let problem = match (spec.family() == Family::Scalar, state, key) {
        (true, Some(_), None) => {
            "the state of a stream of numbers holds readings: --key must name a key file, which the first run makes \
             (--new-state)"
        }
        (false, _, Some(_)) => "--key is for streams of numbers: no other state holds raw values",
        (_, Some(state), Some(key)) if [place(state), lock_of(&place(state))].contains(&place(key)) => {
            "state and key must be files of their own"
        }
        _ => return Ok(()),
    };
    Err(Error::Argument(problem.to_owned()))
}

/// Returns the error of an intact but inconsistent state.
pub fn misfit(why: impl std::fmt::Display) -> Error {
    Error::State(format!(
        "the state does not fit its spec: {why}; it was left as it is, because beginning anew would spend again"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn file(first: &str, body: &[u8]) -> Vec<u8> {
        let sum = checksum(body);
        [first.as_bytes(), &(body.len() as u64).to_le_bytes(), &sum, body].concat()
    }

    #[test]
    fn a_state_is_never_saved_over_its_key() {
        let spec = r#"{ "family": "scalar", "mechanism": "laplace", "epsilon": 1, "domain": { "low": 0, "high": 9 },
            "protects": "reading" }"#;
        let spec: StreamSpec = serde_json::from_str(spec).unwrap();
        let check = |state, key| check_key(&spec, Some(state), Some(key)).map_err(|error| error.to_string());
        assert_eq!(check("here.state", "here.key"), Ok(()));
        for key in ["here.state", "./here.state", ".here.state.lock"] {
            assert_eq!(check("here.state", key), Err("state and key must be files of their own".to_owned()), "{key}");
        }
    }

    #[test]
    fn earlier_forms_are_read_or_named() {
        let earlier = postcard::to_allocvec(&("spec", b"stream".to_vec())).unwrap();
        let (saved, seeded) = of_bytes(&file("tidegate state 2, seeded\n", &earlier)).unwrap();
        assert_eq!((saved.spec.as_str(), &saved.stream[..], saved.zone, seeded), ("spec", &b"stream"[..], None, true));
        let saved = Saved { spec: "spec".to_owned(), stream: b"stream".to_vec(), zone: Some(Zone::Offset(3_600)) };
        let body = postcard::to_allocvec(&saved).unwrap();
        let (saved, seeded) = of_bytes(&file("tidegate state 3\n", &body)).unwrap();
        assert_eq!((saved.zone, seeded), (Some(Zone::Offset(3_600)), false));
        // The form is part of what is checked: a state of form 3 is none of form 2.
        assert!(of_bytes(&file("tidegate state 2\n", &body)).unwrap_err().contains("cannot be read"));
        assert!(of_bytes(b"tidegate state 1\nanything").unwrap_err().contains("of an older version"));
        assert!(of_bytes(b"tidegate state 4\nanything").unwrap_err().contains("of a newer version"));
        for damaged in ["tidegate state x\n", "tidegate state 3", "another file\n", ""] {
            assert!(of_bytes(damaged.as_bytes()).unwrap_err().contains("not the state of a release"), "{damaged}");
        }
    }
}
