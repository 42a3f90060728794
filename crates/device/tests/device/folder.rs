//! State files on a real disk.

use std::fs;
use std::path::PathBuf;

use tidegate_device::disk::{Damaged, Folder, read, replace};

/// A temporary folder, removed after the test.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-device-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn state_files_are_readable_by_their_owner_only() {
    let own = Own::new("written");
    let mut folder = Folder::open(&own.0).unwrap();
    assert_eq!(read(&folder, "a").unwrap(), None);
    for contents in [b"first".as_slice(), b"second"] {
        replace(&mut folder, "a", contents).unwrap();
        assert_eq!(read(&folder, "a").unwrap().as_deref(), Some(contents));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(own.0.join("a")).unwrap().permissions().mode() & 0o077, 0);
    }
    let mut names: Vec<_> = fs::read_dir(&own.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "lock"]);
}

#[test]
fn a_restored_copy_is_detected() {
    let own = Own::new("copy");
    let mut folder = Folder::open(&own.0).unwrap();
    replace(&mut folder, "a", b"old").unwrap();
    fs::copy(own.0.join("a"), own.0.join("backup")).unwrap();
    replace(&mut folder, "a", b"new").unwrap();
    fs::rename(own.0.join("backup"), own.0.join("a")).unwrap();
    assert!(matches!(read(&folder, "a"), Err(Damaged::Copy { .. })));
}

#[test]
fn an_old_state_is_detected_despite_reused_inodes() {
    let own = Own::new("over");
    let mut folder = Folder::open(&own.0).unwrap();
    replace(&mut folder, "a", b"old").unwrap();
    fs::copy(own.0.join("a"), own.0.join("backup")).unwrap();
    for _ in 0..4 {
        std::thread::sleep(std::time::Duration::from_millis(20)); // file systems tell times apart by some milliseconds
        replace(&mut folder, "a", b"new").unwrap();
        fs::copy(own.0.join("backup"), own.0.join("a")).unwrap();
        assert!(matches!(read(&folder, "a"), Err(Damaged::Copy { contents }) if contents == b"old"));
        replace(&mut folder, "a", b"new").unwrap();
    }
}

#[test]
fn a_folder_has_one_user_at_a_time() {
    let own = Own::new("owner");
    let folder = Folder::open(&own.0).unwrap();
    assert_eq!(Folder::open(&own.0).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(folder);
    Folder::open(&own.0).unwrap();
}
