//! Paths, and files with secrets, which only their owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Creates a new file that only its owner may read.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes and syncs a new file that only its owner may read.
pub fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        let mut file = create_private(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        sync_folder_of(path)
    };
    write().map_err(|error: io::Error| Error::Run(format!("{} cannot be written: {error}", path.display())))
}

/// Replaces a file, or makes it: a reader sees all of the old text or all of the new.
pub fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let replaced = written.and_then(|()| fs::rename(&partial, path));
        if replaced.is_err() {
            // The first failure is told.
            let _ = fs::remove_file(&partial);
        }
        replaced.and_then(|()| sync_folder_of(path))
    };
    write().map_err(|error: io::Error| Error::Run(format!("{} cannot be written: {error}", path.display())))
}

/// Writes a key to a new file, as 64 hexadecimal digits.
pub fn write_key(path: &Path, key: &[u8; 32]) -> Result<(), Error> {
    write_private(path, &(hexadecimal(key) + "\n"))
}

/// Reads a key; `None` if there is no such file.
pub fn read_key(path: &Path) -> Result<Option<[u8; 32]>, Error> {
    let shown = path.display();
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| Error::State(format!("{shown} cannot be read: {error}")))?,
    };
    let mut text = String::new();
    let read = file.take(100).read_to_string(&mut text);
    read.map_err(|error| Error::State(format!("{shown} cannot be read: {error}")))?;
    let key = parse_key(text.trim());
    key.map(Some).ok_or_else(|| Error::State(format!("{shown} is no key: one has 64 hexadecimal digits")))
}

/// Checks that only the owner and the group can read a file.
///
/// # Errors
///
/// What is wrong, and what to do.
pub fn check_private(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = fs::metadata(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        if mode & 0o027 != 0 {
            let mode = mode & 0o777;
            return Err(format!(
                "{shown} holds a secret, and others may read or change it (mode {mode:03o}): chmod 600 {shown}"
            ));
        }
    }
    #[cfg(not(unix))]
    let _ = found;
    Ok(())
}

/// Checks that only the owner can write to a folder. One that is missing is made so.
///
/// # Errors
/// What is wrong, and what to do.
pub fn check_folder(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| format!("{shown} cannot be read: {error}"))?,
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;

        let (mode, owner, own) = (found.mode() & 0o777, found.uid(), rustix::process::geteuid().as_raw());
        if mode & 0o022 != 0 {
            return Err(format!(
                "others may write to {shown} (mode {mode:03o}), and so replace what is in it: chmod 700 {shown}"
            ));
        }
        // Root may write everywhere, and looks after the folders of others.
        if ![own, 0].contains(&owner) && own != 0 {
            return Err(format!("{shown} belongs to another user, who can replace the store or the marks: chown it"));
        }
    }
    #[cfg(not(unix))]
    let _ = found;
    Ok(())
}

/// Parses 64 hexadecimal digits.
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}

/// Formats bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Syncs the folder of a file, so that a rename survives a crash.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Resolves a path to one spelling, even if nothing is there.
pub fn place(path: &str) -> PathBuf {
    let path = Path::new(path);
    let beside = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}
