//! [`SqliteStore`]: everything in one SQLite file.
//!
//! **Identities.** They are a log, one row a transaction, with a set in memory of the open questions' identities. The
//! set is filled from the log on first use and takes 21 to 44 bytes a report. When another process has
//! written to the file, the memory is read anew.
//!
//! **Durability.** The file is in WAL mode and synced at every commit. Each writing transaction begins with the write
//! lock, so what it reads cannot change before it writes. Every row has a checksum.

mod fault;
mod members;
mod rows;
mod transactions;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub(super) use fault::Fault;
pub(super) use members::verify as verify_members;
use rows::{find_stream, stream_row};
pub(super) use rows::{load_question, read_acknowledgements, read_questions, read_state, stream_rows, update_stream};

use super::group::is_refusal;
use super::question::QuestionState;
use super::row::StreamRow;
use super::{BatchRejection, StoreError, schema};

/// Reading connections that are kept open.
const READERS: usize = 4;

/// Options of an SQLite store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How long a transaction waits for one of another process.
    pub patience: Duration,
    /// Largest size of the file, in pages of 4,096 bytes; a larger write is [refused](StoreError::Failed).
    pub max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(5), max_pages: None }
    }
}

/// A store in an SQLite file. One connection writes, one transaction at a time; readers do not wait for it.
///
/// It blocks while the disk works, so call it from a thread that may.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    writer: Mutex<Writer>,
    readers: Mutex<Vec<Connection>>,
    /// Error after which nothing is written.
    failed: OnceLock<String>,
}

#[derive(Debug)]
struct Writer {
    connection: Connection,
    /// Open questions of the streams that reports have come for.
    streams: HashMap<String, HashMap<(u64, u16), QuestionState>>,
    /// Reports for each phase at the last timestamp, which sizes the next set.
    usual: HashMap<(String, u16), usize>,
    /// Changes when another connection has written.
    data_version: i64,
}

pub(super) fn io_failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", path.display()))
}

/// Creates a file that only its owner may read, and syncs its name. Returns `false` where there is one.
pub(super) fn make_file(path: &Path) -> Result<bool, StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => sync_folder(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_failed(path, &error)),
    }
}

/// Syncs the folder of a file, so that its name is durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(|error| io_failed(parent, &error))
}

impl SqliteStore {
    /// Opens a file, or creates one that only its owner may read.
    ///
    /// # Errors
    /// [`StoreError::Schema`] for a later version or another program's file, and [`StoreError::Damaged`] for a file
    /// that is not SQLite's.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// [Opens](Self::open) a file with other options.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_with(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        make_file(path)?;
        let connection = Self::connect(path, &options).map_err(|fault| fault.explain("open", false).0)?;
        let writer = Writer { connection, streams: HashMap::new(), usual: HashMap::new(), data_version: -1 };
        let path = fs::canonicalize(path).map_err(|error| io_failed(path, &error))?;
        let (writer, readers) = (Mutex::new(writer), Mutex::new(Vec::new()));
        Ok(Self { path, options, writer, readers, failed: OnceLock::new() })
    }

    fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.patience)?;
        connection.set_prepared_statement_cache_capacity(64);
        schema::migrate(&mut connection)?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(StoreError::Failed(format!("{}: no WAL mode on this file system", path.display())).into());
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        if let Some(pages) = options.max_pages {
            let _: i64 = connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0))?;
        }
        Ok(connection)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn explain(&self, fault: Fault, transaction: &str, committing: bool) -> StoreError {
        let (error, ends) = fault.explain(transaction, committing);
        if ends {
            tracing::error!(transaction, %error, "the store stops writing");
            // The first error is kept.
            let _ = self.failed.set(error.to_string());
        }
        error
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(|poisoned| {
            // A thread panicked in a transaction, so the memory may be ahead of the file.
            let mut writer = poisoned.into_inner();
            writer.streams.clear();
            self.writer.clear_poison();
            writer
        })
    }

    /// Runs a writing transaction.
    fn write<T>(
        &self,
        transaction: &'static str,
        work: impl FnOnce(&mut Writer) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut writer = self.writer();
        if let Some(why) = self.failed.get() {
            let why = format!("{transaction}: nothing is written since {why}; open the store anew");
            return Err(StoreError::Failed(why));
        }
        let mut committing = false;
        let outcome = writer.begin().and_then(|()| work(&mut writer)).and_then(|done| {
            committing = true;
            writer.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(done)
        });
        outcome.map_err(|fault| {
            if !writer.connection.is_autocommit() && writer.connection.execute_batch("ROLLBACK").is_err() {
                let _ = self.failed.set(format!("{transaction} could not be rolled back"));
            }
            let error = self.explain(fault, transaction, committing);
            if !is_refusal(&error) {
                writer.streams.clear();
            }
            error
        })
    }

    /// Runs a reading transaction, which sees one moment.
    fn read<T>(
        &self,
        transaction: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.try_read(work).map_err(|fault| self.explain(fault, transaction, false))
    }

    fn try_read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let connection = self.reader()?;
        connection.prepare_cached("BEGIN")?.execute([])?;
        let done = work(&connection);
        connection.prepare_cached("ROLLBACK")?.execute([])?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push(connection);
        }
        done
    }

    /// Runs long work on a reading connection of its own.
    pub(super) fn read_on<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.reader().and_then(|connection| work(&connection)).map_err(|fault| self.explain(fault, what, false))
    }

    fn reader(&self) -> Result<Connection, Fault> {
        if let Some(connection) = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(connection);
        }
        let connection = Self::connect(&self.path, &self.options)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// Changes the row of a stream in a writing transaction.
    fn change<T>(
        &self,
        transaction: &'static str,
        stream: &str,
        change: impl FnOnce(&mut Writer, &mut StreamRow) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write(transaction, |writer| writer.change(stream, change))
    }
}

impl Writer {
    /// Changes the row of a stream.
    fn change<T>(
        &mut self,
        stream: &str,
        change: impl FnOnce(&mut Self, &mut StreamRow) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut row = stream_row(&self.connection, stream)?;
        let done = change(self, &mut row)?;
        update_stream(&self.connection, &row)?;
        Ok(done)
    }

    /// Begins a writing transaction. Drops the memory if another connection has written.
    fn begin(&mut self) -> Result<(), Fault> {
        if !self.connection.is_autocommit() {
            // A thread panicked in a transaction.
            self.connection.execute_batch("ROLLBACK")?;
            self.streams.clear();
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let data_version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if data_version != self.data_version {
            self.data_version = data_version;
            self.streams.clear();
        }
        Ok(())
    }

    /// Returns an open question, and the connection. Loads the stream's questions on first use.
    fn question(
        &mut self,
        stream: &str,
        timestamp: u64,
        phase: u16,
    ) -> Result<Result<(&mut QuestionState, &Connection), BatchRejection>, Fault> {
        if !self.streams.contains_key(stream) {
            let Some(found) = find_stream(&self.connection, stream)? else {
                return Ok(Err(BatchRejection::NoStream));
            };
            let mut open = HashMap::new();
            for row in read_questions(&self.connection, &found)?.iter().filter(|row| !row.closed) {
                let asked = &row.asked.question;
                let mut question = load_question(&self.connection, row)?;
                if let Some(usual) = self.usual.get(&(stream.to_owned(), asked.phase)) {
                    question.identities.reserve_total(*usual);
                }
                open.insert((asked.timestamp, asked.phase), question);
            }
            self.streams.insert(stream.to_owned(), open);
        }
        let open = self.streams.get_mut(stream).and_then(|open| open.get_mut(&(timestamp, phase)));
        Ok(open.map(|open| (open, &self.connection)).ok_or(BatchRejection::NotOpen { timestamp, phase }))
    }
}
