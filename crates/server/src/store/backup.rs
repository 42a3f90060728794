//! Online backups of an [`SqliteStore`], and verification of a whole file.
//!
//! A backup is one file. To restore it, copy it to its place while no service runs. [High-water marks](super::mark)
//! find the streams that have published since. Each of them gets a [new state](super::Store::replace_state), or stays
//! stopped.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::row::{StreamRow, kind_code, read_record, record_columns};
use super::sqlite::{
    Fault, SqliteStore, io_failed, load_question, make_file, read_acknowledgements, read_questions, read_state,
    stream_rows, sync_folder, verify_members,
};
use super::{RecordKind, StoreError, schema};

/// Summary of a verified stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// Name of the stream.
    pub stream: String,
    /// Its version.
    pub version: u64,
    /// Last published version.
    pub published: u64,
    /// How many releases are kept.
    pub releases: u64,
    /// How often classes of its users were changed.
    pub changes: u64,
    /// Its declaration, as JSON.
    pub declaration: String,
}

impl SqliteStore {
    /// Writes a backup of one moment while others write. The file appears complete and durable, or not at all. Only
    /// its owner may read it.
    ///
    /// # Errors
    /// [`StoreError::Failed`], also where a file of that name exists.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let mut draft = to.as_os_str().to_owned();
        draft.push(".partial");
        let draft = Path::new(&draft);
        if to.exists() {
            return Err(StoreError::Failed(format!("{} exists already", to.display())));
        }
        // An interrupted backup may have left one.
        match fs::remove_file(draft) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io_failed(draft, &error)),
            _ => {}
        }
        make_file(draft)?;
        let copied = self.read_on("backup", |source| {
            let mut copy = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            // All pages in one step: in several, each write of others would restart the backup.
            if Backup::new(source, &mut copy)?.step(-1)? != StepResult::Done {
                return Err(StoreError::Unavailable("backup: the file is locked".to_owned()).into());
            }
            // One file, without a log beside it.
            let _: String = copy.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
            Ok(())
        });
        let finished = copied.and_then(|()| {
            File::open(draft).and_then(|file| file.sync_all()).map_err(|error| io_failed(draft, &error))?;
            fs::rename(draft, to).map_err(|error| io_failed(to, &error))?;
            sync_folder(to)
        });
        if finished.is_err() {
            // The next backup removes it where this cannot.
            let _ = fs::remove_file(draft);
        }
        finished
    }

    /// Reads the whole store and verifies its checksums. Returns its streams.
    ///
    /// # Errors
    /// [`StoreError::Damaged`].
    pub fn verify(&self) -> Result<Vec<StreamSummary>, StoreError> {
        self.read_on("verify", |connection| {
            let transaction = connection.unchecked_transaction()?;
            verify(&transaction, schema::KNOWN)
        })
    }
}

/// Reads a whole backup, or a store, and verifies its checksums. Returns its streams. Changes and creates no file.
///
/// # Errors
/// [`StoreError::Damaged`], and [`StoreError::Schema`] for a later version or another program's file.
pub fn check_backup(path: &Path) -> Result<Vec<StreamSummary>, StoreError> {
    let checked = || {
        let connection = open_read_only(path)?;
        match schema::found(&connection)?? {
            0 => Err(StoreError::Damaged(format!("{} is empty", path.display())).into()),
            schema => verify(&connection, schema),
        }
    };
    checked().map_err(|fault: Fault| fault.explain("check of a backup", false).0)
}

/// Opens a file without creating others beside it. If there is a log beside it, somebody may be writing to both. If
/// there is none, nobody is, and SQLite need not create one.
fn open_read_only(path: &Path) -> Result<Connection, Fault> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let (Some(name), false) = (path.to_str(), Path::new(&log).exists()) else {
        return Ok(Connection::open_with_flags(path, flags)?);
    };
    let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let uri = format!("file:{name}?immutable=1");
    Ok(Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?)
}

fn verify(connection: &Connection, version: u32) -> Result<Vec<StreamSummary>, Fault> {
    for pragma in ["integrity_check", "foreign_key_check"] {
        let mut statement = connection.prepare(&format!("PRAGMA {pragma}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let result: String = row.get(0)?;
            if result != "ok" {
                return Err(StoreError::Damaged(format!("{pragma}: {result}")).into());
            }
        }
    }
    let mut found = Vec::new();
    for row in stream_rows(connection, version)? {
        read_state(connection, &row)?;
        for question in read_questions(connection, &row)? {
            load_question(connection, &question)?;
        }
        verify_records(connection, &row, RecordKind::Release, row.releases, row.releases_kept)?;
        verify_records(connection, &row, RecordKind::Answer, row.answers, row.answers_kept)?;
        let changes = verify_members(connection, &row)?;
        if version >= schema::ACKNOWLEDGED {
            read_acknowledgements(connection, &row, 0)?;
        }
        let (version, published, releases) = (row.version, row.published, row.releases_kept);
        found.push(StreamSummary {
            stream: row.name,
            version,
            published,
            releases,
            changes,
            declaration: row.declaration,
        });
    }
    Ok(found)
}

/// Verifies the records of a kind: how many there are, and that the numbers grow up to the last.
fn verify_records(
    connection: &Connection,
    stream: &StreamRow,
    kind: RecordKind,
    last: u64,
    expected: u64,
) -> Result<(), Fault> {
    let name = &stream.name;
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        record_columns!(),
        " FROM records WHERE stream = ?1 AND kind = ?2 ORDER BY number"
    ))?;
    let mut rows = statement.query((stream.number, kind_code(kind)))?;
    let (mut count, mut before) = (0, 0);
    while let Some(row) = rows.next()? {
        count += 1;
        let number = read_record(row, name, kind)?.number;
        if number <= before || number > last {
            return Err(StoreError::Damaged(format!("record {number} of {name} was never written")).into());
        }
        before = number;
    }
    if count != expected {
        return Err(StoreError::Damaged(format!("{name} has {expected} records, but {count} are there")).into());
    }
    Ok(())
}
