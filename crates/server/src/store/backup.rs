//! Backups of an [`SqliteStore`], made while it is used, and the check of a whole file.
//!
//! A backup is one file, which is put in its place by copying it there while nothing runs. What has been published
//! since it was made is found out by the [high-water marks](super::mark), and each stream that is concerned is [begun
//! anew](super::Store::begin_anew), or stays where it is.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::row::{check, kind, record_sum, unsigned};
use super::sqlite::{Fault, Phase, SqliteStore, find_head, io_failed, make_file, phases_of, state_of, sync_folder};
use super::{Record, Records, StoreError, schema};

/// A stream as it was found by a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub stream: String,
    /// Its version.
    pub version: u64,
    /// Up to which version what it released may be read.
    pub published: u64,
    /// How many releases it has.
    pub releases: u64,
}

impl SqliteStore {
    /// Writes a backup, of one moment, without keeping anybody from writing. The file is there whole and safe, or not
    /// at all; only its owner may read it.
    ///
    /// # Errors
    /// [`StoreError::Failed`], also where there is a file of that name.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let mut draft = to.as_os_str().to_owned();
        draft.push(".partial");
        let draft = Path::new(&draft);
        if to.exists() {
            return Err(StoreError::Failed(format!("{} exists already", to.display())));
        }
        // One that was left by a backup that was interrupted.
        match fs::remove_file(draft) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io_failed(draft, &error)),
            _ => {}
        }
        make_file(draft)?;
        let copied = self.read_on("backup", |source| {
            let mut copy = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            // All pages at once, in one reading transaction: it would begin anew after each change otherwise.
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
            // It is of no use, and the next one removes it where this cannot.
            let _ = fs::remove_file(draft);
        }
        finished
    }

    /// Reads everything in the store and compares it with its checksums; what streams there are.
    ///
    /// # Errors
    /// [`StoreError::Damaged`].
    pub fn verify(&self) -> Result<Vec<Found>, StoreError> {
        self.read_on("verify", |connection| {
            let transaction = connection.unchecked_transaction()?;
            verify(&transaction)
        })
    }
}

/// Reads everything in a backup and compares it with its checksums; what streams there are. The file is not changed.
///
/// # Errors
/// [`StoreError::Damaged`], and [`StoreError::Schema`] where it is another program's or of a later version.
pub fn check_backup(path: &Path) -> Result<Vec<Found>, StoreError> {
    let checked = || {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match schema::found(&connection)?? {
            0 => Err(StoreError::Damaged(format!("{} is empty", path.display())).into()),
            _ => verify(&connection),
        }
    };
    checked().map_err(|fault: Fault| fault.explain("check of a backup", false).0)
}

fn verify(connection: &Connection) -> Result<Vec<Found>, Fault> {
    for pragma in ["integrity_check", "foreign_key_check"] {
        let mut statement = connection.prepare(&format!("PRAGMA {pragma}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let said: String = row.get(0)?;
            if said != "ok" {
                return Err(StoreError::Damaged(format!("{pragma}: {said}")).into());
            }
        }
    }
    let mut statement = connection.prepare("SELECT name FROM streams ORDER BY name")?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut found = Vec::new();
    for name in names {
        let head =
            find_head(connection, &name)?.ok_or_else(|| StoreError::Damaged(format!("stream {name} is gone")))?;
        state_of(connection, &head)?;
        for row in phases_of(connection, &head)? {
            Phase::load(connection, &row)?;
        }
        for (records, expected) in [(Records::Releases, head.releases), (Records::Said, head.said)] {
            let mut statement = connection.prepare_cached(
                "SELECT number, version, timestamp, body, sum FROM records WHERE stream = ?1 AND kind = ?2 ORDER BY number",
            )?;
            let mut rows = statement.query((head.number, kind(records)))?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                let number = |column: usize| -> Result<u64, Fault> { Ok(unsigned(row.get(column)?)?) };
                let record =
                    Record { number: number(0)?, version: number(1)?, timestamp: number(2)?, body: row.get(3)? };
                check(row.get(4)?, record_sum(&name, records, &record), || format!("record {count} of {name}"))?;
                if record.number != count {
                    return Err(StoreError::Damaged(format!("record {count} of {name} is gone")).into());
                }
            }
            if count != expected {
                return Err(StoreError::Damaged(format!("{name} has {expected} records, but {count} are there")).into());
            }
        }
        let (version, published, releases) = (head.version, head.published, head.releases);
        found.push(Found { stream: name, version, published, releases });
    }
    Ok(found)
}
