//! [`OnSqlite`]: a real SQLite file under a simulated world.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_server::store::{SqliteStore, Store};

use super::world::Base;
use crate::store::TestFolder;

/// An SQLite file. When the machine stops, the file and its log stay as they are at that moment, without a close.
pub(super) struct OnSqlite {
    folder: TestFolder,
    files: u64,
    store: Arc<SqliteStore>,
}

impl OnSqlite {
    pub(super) fn new() -> Self {
        let folder = TestFolder::new();
        let store = Arc::new(SqliteStore::open(&folder.file("0.sqlite")).unwrap());
        Self { folder, files: 0, store }
    }

    fn next_file(&mut self) -> PathBuf {
        self.files += 1;
        self.folder.file(&format!("{}.sqlite", self.files))
    }

    fn log_of(file: &std::path::Path) -> PathBuf {
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        log.into()
    }

    fn open(&mut self, file: &std::path::Path) -> Arc<dyn Store> {
        self.store = Arc::new(SqliteStore::open(file).unwrap());
        self.store()
    }
}

impl Base for OnSqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn crash(&mut self) -> Arc<dyn Store> {
        let (from, to) = (self.store.path().to_owned(), self.next_file());
        fs::copy(&from, &to).unwrap();
        if fs::exists(Self::log_of(&from)).unwrap() {
            fs::copy(Self::log_of(&from), Self::log_of(&to)).unwrap();
        }
        self.open(&to)
    }

    fn back_up(&mut self) {
        let to = self.folder.file("backup.sqlite");
        let _ = fs::remove_file(&to);
        self.store.backup(&to).unwrap();
    }

    fn restore(&mut self) -> Arc<dyn Store> {
        let to = self.next_file();
        fs::copy(self.folder.file("backup.sqlite"), &to).unwrap();
        self.open(&to)
    }
}
