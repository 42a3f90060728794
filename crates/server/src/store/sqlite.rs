//! [`SqliteStore`]: everything in one SQLite file.
//!
//! **How identities are kept.** The identities of a phase's reports are random, so that a table with a row for each
//! would be written to all over: nearly a page for each report of a batch. They are kept as a log instead, a row for
//! each transaction, beside a set in memory of those of the questions that are open, which is filled from the log when
//! it is first needed. The set takes 21 to 44 bytes a report. Another process may write to the same file: whatever it
//! has committed is seen, and what is in memory is then read anew.
//!
//! **What is safe.** The file is in WAL mode, and synced at every commit. Each transaction begins as a writing one, so
//! that what it reads cannot change before it writes. Every row has a checksum.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use tidegate_device::api::Receipt;
use tidegate_device::wire::ReportId;
use tidegate_kernel::oracle::{Aggregate, Oracle};

use super::row::{
    Head, PhaseRow, check, count_sum, decode, encode, kind, limit, phase_sum, record_sum, signed, state_sum, sum,
    unsigned, well_formed,
};
use super::seen::{Entry, Found, Seen};
use super::{
    Advance, Intake, Lease, Merged, NewStream, NotTaken, OpenPhase, PhaseKey, Record, Records, Status, Store,
    StoreError, Stream, Wanted, schema,
};

/// How many reading connections are kept.
const READERS: usize = 4;

/// How an SQLite file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How long a transaction waits for another process's.
    pub patience: Duration,
    /// How large the file may grow, in pages of 4,096 bytes; what does not fit is [refused](StoreError::Failed).
    pub max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(5), max_pages: None }
    }
}

/// A store in an SQLite file. All writing is done one after the other, by one connection; reading does not wait for it.
///
/// It blocks, for as long as a disk takes: call it from a thread that may.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    writer: Mutex<Writer>,
    readers: Mutex<Vec<Connection>>,
    /// Why nothing is written any more.
    failed: OnceLock<String>,
}

#[derive(Debug)]
struct Writer {
    connection: Connection,
    /// The open questions of the streams that reports have come for.
    streams: HashMap<String, HashMap<(u64, u16), Phase>>,
    /// How many reports there were for each phase of a stream's last timestamp: about as many are going to come for the
    /// next.
    usual: HashMap<(String, u16), usize>,
    /// What SQLite says whenever another connection has written.
    data_version: i64,
}

/// How many bytes of an identity are kept: without the prefix, which the phase says.
const ID: usize = 12;
/// How many bytes are logged of a report: its identity, and its digest.
const LOGGED: usize = ID + 8;

/// An open question, as in the file.
#[derive(Debug)]
pub(super) struct Phase {
    number: i64,
    oracle: Oracle,
    seen: Seen,
    /// How many rows the log has.
    logged: u64,
    sources: HashMap<String, Running>,
    /// What is to be logged at the end of the transaction.
    fresh: Vec<[u8; LOGGED]>,
}

/// What a source has counted.
#[derive(Debug)]
struct Running {
    /// Up to where.
    offset: u64,
    /// How many rows of the log are its.
    logged: u64,
    counts: Aggregate,
}

/// What went wrong in a transaction.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Sql(rusqlite::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// What it means, and whether nothing must be written any more.
    pub(super) fn explain(self, transaction: &str, committing: bool) -> (StoreError, bool) {
        let error = match self {
            Self::Store(error) => {
                let ends = matches!(error, StoreError::Damaged(_));
                return (error, ends);
            }
            Self::Sql(error) => error,
        };
        let why = format!("{transaction}: {error}");
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (StoreError::Unavailable(why), false),
            // What is too much for the disk was not written, and a transaction without its last page is none.
            Some(ErrorCode::DiskFull) => (StoreError::Failed(why), false),
            // The last page may be on the disk although syncing it failed; then the transaction is found there when the
            // file is opened next.
            Some(ErrorCode::SystemIoFailure) if committing => (StoreError::Unknown(why), true),
            Some(ErrorCode::SystemIoFailure) => (StoreError::Failed(why), true),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (StoreError::Damaged(why), true),
            Some(_) => (StoreError::Failed(why), false),
            // A column that is missing, or has another type.
            None => (StoreError::Damaged(why), true),
        }
    }
}

pub(super) fn io_failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", path.display()))
}

/// Makes a file that only its owner may read, and sees to it that its name is safe; `false` where there is one.
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

/// Returns once the name of a file is safe.
pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(|error| io_failed(parent, &error))
}

impl SqliteStore {
    /// Opens a file, which is made where it is missing, for nobody but its owner to read.
    ///
    /// # Errors
    /// [`StoreError::Schema`] where it is of a later version, or another program's; [`StoreError::Damaged`] where it is
    /// no SQLite file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// [Opens](Self::open) a file, to be used in another way than usual.
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
        schema::migrate(&mut connection)??;
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

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn explain(&self, fault: Fault, transaction: &str, committing: bool) -> StoreError {
        let (error, ends) = fault.explain(transaction, committing);
        if ends {
            tracing::error!(transaction, %error, "the store takes nothing any more");
            // Another may have been first.
            let _ = self.failed.set(error.to_string());
        }
        error
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(|poisoned| {
            // Whoever held it stopped in the middle: what is in memory may be ahead of the file.
            let mut writer = poisoned.into_inner();
            writer.streams.clear();
            self.writer.clear_poison();
            writer
        })
    }

    /// A writing transaction.
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
            // What was refused for a good reason was refused before anything changed in memory.
            use StoreError::{Exists, NoStream, Range, Retired, Stale};
            if !matches!(
                error,
                Exists(_) | NoStream(_) | Stale(_) | Retired(_) | Range { .. } | StoreError::NotTaken(_)
            ) {
                writer.streams.clear();
            }
            error
        })
    }

    /// A reading transaction: everything in it is of one moment.
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

    /// Something that takes long, on a connection of its own that reads only.
    pub(super) fn read_on<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.reader().and_then(|connection| work(&connection)).map_err(|fault| self.explain(fault, what, false))
    }

    /// A connection that reads only.
    fn reader(&self) -> Result<Connection, Fault> {
        if let Some(connection) = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(connection);
        }
        let connection = Self::connect(&self.path, &self.options)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// A change of what is kept of a stream.
    fn change<T>(
        &self,
        transaction: &'static str,
        stream: &str,
        change: impl FnOnce(&mut Writer, &mut Head) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write(transaction, |writer| {
            let mut head = head_of(&writer.connection, stream)?;
            let done = change(writer, &mut head)?;
            put_head(&writer.connection, &head)?;
            Ok(done)
        })
    }
}

/// The row of a stream.
pub(super) fn find_head(connection: &Connection, stream: &str) -> Result<Option<Head>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT number, name, declaration, policy, status, epoch, holder, until, version, published, releases, said, open, sum
         FROM streams WHERE name = ?1",
    )?;
    let mut rows = statement.query([stream])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let number = |column: usize| -> Result<u64, Fault> { Ok(unsigned(row.get(column)?)?) };
    let head = Head {
        number: row.get(0)?,
        name: row.get(1)?,
        declaration: row.get(2)?,
        policy: row.get(3)?,
        status: Head::status_of(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?,
        epoch: number(5)?,
        holder: row.get(6)?,
        until: number(7)?,
        version: number(8)?,
        published: number(9)?,
        releases: number(10)?,
        said: number(11)?,
        open: number(12)?,
    };
    check(row.get(13)?, head.sum(), || format!("stream {stream}"))?;
    Ok(Some(head))
}

fn head_of(connection: &Connection, stream: &str) -> Result<Head, Fault> {
    find_head(connection, stream)?.ok_or_else(|| StoreError::NoStream(stream.to_owned()).into())
}

fn put_head(connection: &Connection, head: &Head) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "UPDATE streams SET declaration = ?2, policy = ?3, status = ?4, epoch = ?5, holder = ?6, until = ?7, version = ?8,
                 published = ?9, releases = ?10, said = ?11, open = ?12, sum = ?13
             WHERE number = ?1",
        )?
        .execute(params![
            head.number,
            head.declaration,
            head.policy,
            head.status.name(),
            signed(head.epoch)?,
            head.holder,
            signed(head.until)?,
            signed(head.version)?,
            signed(head.published)?,
            signed(head.releases)?,
            signed(head.said)?,
            signed(head.open)?,
            head.sum(),
        ])?;
    Ok(())
}

pub(super) fn state_of(connection: &Connection, head: &Head) -> Result<Vec<u8>, Fault> {
    let mut statement = connection.prepare_cached("SELECT body, sum FROM states WHERE stream = ?1")?;
    let found = statement.query_row([head.number], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((state, sum)): Option<(Vec<u8>, i64)> = found else {
        return Err(StoreError::Damaged(format!("the state of stream {} is gone", head.name)).into());
    };
    check(sum, state_sum(&head.name, head.version, &state), || format!("the state of stream {}", head.name))?;
    Ok(state)
}

fn put_state(connection: &Connection, head: &Head, state: &[u8]) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO states (stream, body, sum) VALUES (?1, ?2, ?3)")?
        .execute(params![head.number, state, state_sum(&head.name, head.version, state)])?;
    Ok(())
}

/// The questions of a stream, in their order.
pub(super) fn phases_of(connection: &Connection, head: &Head) -> Result<Vec<PhaseRow>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT number, place, body, closed, sum FROM phases WHERE stream = ?1 ORDER BY place")?;
    let mut rows = statement.query([head.number])?;
    let mut phases = Vec::new();
    while let Some(row) = rows.next()? {
        let (place, body, closed): (i64, Vec<u8>, bool) = (row.get(1)?, row.get(2)?, row.get(3)?);
        check(row.get(4)?, phase_sum(&head.name, place, &body, closed), || {
            format!("a question of stream {}", head.name)
        })?;
        phases.push(PhaseRow { number: row.get(0)?, asked: decode(&body, "question")?, closed });
    }
    if phases.len() as u64 != head.open {
        let why = format!("stream {} has {} questions, but {} are there", head.name, head.open, phases.len());
        return Err(StoreError::Damaged(why).into());
    }
    Ok(phases)
}

/// What each source has counted for a question.
fn sources_of(connection: &Connection, phase: i64) -> Result<HashMap<String, Running>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT source, counted, logged, body, sum FROM counts WHERE phase = ?1")?;
    let mut rows = statement.query([phase])?;
    let mut sources = HashMap::new();
    while let Some(row) = rows.next()? {
        let (source, offset, logged) = (row.get::<_, String>(0)?, unsigned(row.get(1)?)?, unsigned(row.get(2)?)?);
        let body: Vec<u8> = row.get(3)?;
        check(row.get(4)?, count_sum(phase, &source, offset, logged, &body), || format!("what {source} has counted"))?;
        sources.insert(source, Running { offset, logged, counts: decode(&body, "count")? });
    }
    Ok(sources)
}

/// All that has been counted for a question; `None` where nothing has.
pub(super) fn total_of(connection: &Connection, phase: i64) -> Result<Option<Aggregate>, Fault> {
    let mut total: Option<Aggregate> = None;
    for running in sources_of(connection, phase)?.into_values().filter(|running| running.counts.reports() > 0) {
        match &mut total {
            None => total = Some(running.counts),
            Some(total) => total.merge(&running.counts).map_err(|error| StoreError::Damaged(error.to_string()))?,
        }
    }
    Ok(total)
}

fn log_sum(phase: i64, number: u64, body: &[u8]) -> i64 {
    sum(&[b"seen", &phase.to_le_bytes(), &number.to_le_bytes(), body])
}

impl Phase {
    /// An open question with all that came for it.
    pub(super) fn load(connection: &Connection, row: &PhaseRow) -> Result<Self, Fault> {
        let oracle = row.asked.question.oracle().map_err(|error| StoreError::Failed(error.to_string()))?;
        let sources = sources_of(connection, row.number)?;
        let mut phase = Self { number: row.number, oracle, seen: Seen::new()?, logged: 0, sources, fresh: Vec::new() };
        let mut statement =
            connection.prepare_cached("SELECT number, body, sum FROM seen WHERE phase = ?1 ORDER BY number")?;
        let mut rows = statement.query([phase.number])?;
        while let Some(row) = rows.next()? {
            phase.logged += 1;
            let number = unsigned(row.get(0)?)?;
            let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            check(row.get(2)?, log_sum(phase.number, number, body), || "a list of identities".to_owned())?;
            if number != phase.logged {
                return Err(StoreError::Damaged(format!("list {} of identities is gone", phase.logged)).into());
            }
            let entries: Vec<Entry> = body.as_chunks().0.iter().map(entry_of).collect();
            phase.seen.insert(&entries, |_| ());
        }
        let expected: u64 = phase.sources.values().map(|running| running.logged).sum();
        if phase.logged != expected {
            let why = format!("{expected} lists of identities were written, but {} are there", phase.logged);
            return Err(StoreError::Damaged(why).into());
        }
        Ok(phase)
    }

    /// Takes in a batch, in memory.
    fn take(&mut self, source: &str, intake: &Intake<'_>) -> Result<Result<Receipt, NotTaken>, Fault> {
        let batch = &intake.batch;
        if let Err(not) = well_formed(&self.oracle, batch) {
            return Ok(Err(not));
        }
        let logged: Vec<[u8; LOGGED]> =
            batch.iter().zip(intake.digests()).map(|((id, _), digest)| logged_of(id, *digest)).collect();
        let entries: Vec<Entry> = logged.iter().map(entry_of).collect();
        let mut skipped: Vec<usize> =
            intake.implausible.iter().copied().filter(|position| *position < entries.len()).collect();
        let mut receipt = Receipt { implausible: skipped.len() as u64, ..Receipt::default() };
        let mut next = 0;
        for end in skipped.clone().into_iter().chain([entries.len()]) {
            let mut position = next;
            self.seen.insert(entries.get(next..end).unwrap_or_default(), |found| {
                match found {
                    Found::Nothing => {
                        self.fresh.push(logged[position]);
                        receipt.accepted += 1;
                    }
                    Found::Same => receipt.repeated += 1,
                    Found::Other => receipt.conflicting += 1,
                }
                if found != Found::Nothing {
                    skipped.push(position);
                }
                position += 1;
            });
            next = end + 1;
        }
        skipped.sort_unstable();
        if receipt.accepted > 0 {
            let running = running(&mut self.sources, &self.oracle, source);
            let mut next = 0;
            for position in skipped.into_iter().chain([batch.len()]) {
                let reports = &batch.reports()[next * batch.report_length()..position * batch.report_length()];
                running.counts.add_batch(reports).map_err(|error| StoreError::Failed(error.to_string()))?;
                next = position + 1;
            }
            running.offset += receipt.accepted;
        }
        Ok(Ok(receipt))
    }

    /// Writes down what was taken.
    fn save(&mut self, connection: &Connection, source: &str) -> Result<(), Fault> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        self.logged += 1;
        let fresh = self.fresh.as_flattened();
        connection
            .prepare_cached("INSERT INTO seen (phase, number, body, sum) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![self.number, signed(self.logged)?, fresh, log_sum(self.number, self.logged, fresh)])?;
        self.fresh.clear();
        let running = running(&mut self.sources, &self.oracle, source);
        running.logged += 1;
        running.save(connection, self.number, source)
    }
}

/// What is logged of a report.
fn logged_of(id: ReportId, digest: u64) -> [u8; LOGGED] {
    let mut logged = [0; LOGGED];
    logged[..ID].copy_from_slice(&id.as_bytes()[4..]);
    logged[ID..].copy_from_slice(&digest.to_le_bytes());
    logged
}

fn entry_of(logged: &[u8; LOGGED]) -> Entry {
    let [a, b, c, d, e, f, g, h, i, j, k, l, digest @ ..] = *logged;
    Entry::new(&[a, b, c, d, e, f, g, h, i, j, k, l], u64::from_le_bytes(digest))
}

fn running<'a>(sources: &'a mut HashMap<String, Running>, oracle: &Oracle, source: &str) -> &'a mut Running {
    sources.entry(source.to_owned()).or_insert_with(|| Running::new(oracle))
}

impl Running {
    fn new(oracle: &Oracle) -> Self {
        Self { offset: 0, logged: 0, counts: oracle.aggregate() }
    }

    fn save(&self, connection: &Connection, phase: i64, source: &str) -> Result<(), Fault> {
        let body = encode(&self.counts)?;
        let sum = count_sum(phase, source, self.offset, self.logged, &body);
        connection
            .prepare_cached(
                "INSERT INTO counts (phase, source, counted, logged, body, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (phase, source)
                 DO UPDATE SET counted = excluded.counted, logged = excluded.logged, body = excluded.body, sum = excluded.sum",
            )?
            .execute(params![phase, source, signed(self.offset)?, signed(self.logged)?, body, sum])?;
        Ok(())
    }
}

impl Writer {
    /// Begins a writing transaction. If another connection has written, nothing that is in memory is believed.
    fn begin(&mut self) -> Result<(), Fault> {
        if !self.connection.is_autocommit() {
            // Whoever was here before stopped in the middle.
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

    /// An open question, and the connection.
    fn phase(
        &mut self,
        stream: &str,
        timestamp: u64,
        phase: u16,
    ) -> Result<Result<(&mut Phase, &Connection), NotTaken>, Fault> {
        if !self.streams.contains_key(stream) {
            let Some(head) = find_head(&self.connection, stream)? else { return Ok(Err(NotTaken::NoStream)) };
            let mut open = HashMap::new();
            for row in phases_of(&self.connection, &head)?.iter().filter(|row| !row.closed) {
                let question = &row.asked.question;
                let mut phase = Phase::load(&self.connection, row)?;
                if let Some(usual) = self.usual.get(&(stream.to_owned(), question.phase)) {
                    phase.seen.make_room(*usual);
                }
                open.insert((question.timestamp, question.phase), phase);
            }
            self.streams.insert(stream.to_owned(), open);
        }
        let open = self.streams.get_mut(stream).and_then(|open| open.get_mut(&(timestamp, phase)));
        Ok(open.map(|open| (open, &self.connection)).ok_or(NotTaken::NotOpen { timestamp, phase }))
    }

    /// Forgets a question, and what came for it.
    fn forget(&self, phase: i64) -> Result<(), Fault> {
        for statement in [
            "DELETE FROM seen WHERE phase = ?1",
            "DELETE FROM counts WHERE phase = ?1",
            "DELETE FROM phases WHERE number = ?1",
        ] {
            self.connection.prepare_cached(statement)?.execute([phase])?;
        }
        Ok(())
    }

    fn add_phase(&self, head: &Head, place: i64, asked: &OpenPhase) -> Result<(), Fault> {
        let body = encode(asked)?;
        self.connection
            .prepare_cached("INSERT INTO phases (stream, place, body, closed, sum) VALUES (?1, ?2, ?3, 0, ?4)")?
            .execute(params![head.number, place, body, phase_sum(&head.name, place, &body, false)])?;
        Ok(())
    }

    fn change_phase(&self, head: &Head, place: i64, row: &PhaseRow) -> Result<(), Fault> {
        let body = encode(&row.asked)?;
        self.connection
            .prepare_cached("UPDATE phases SET place = ?2, body = ?3, closed = ?4, sum = ?5 WHERE number = ?1")?
            .execute(params![row.number, place, body, row.closed, phase_sum(&head.name, place, &body, row.closed)])?;
        Ok(())
    }

    fn add_record(&self, head: &Head, records: Records, record: &Record) -> Result<(), Fault> {
        self.connection
            .prepare_cached(
                "INSERT INTO records (stream, kind, number, version, timestamp, body, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                head.number,
                kind(records),
                signed(record.number)?,
                signed(record.version)?,
                signed(record.timestamp)?,
                record.body,
                record_sum(&head.name, records, record),
            ])?;
        Ok(())
    }
}

impl Store for SqliteStore {
    fn create(&self, stream: &NewStream<'_>) -> Result<(), StoreError> {
        self.write("create", |writer| {
            if find_head(&writer.connection, stream.name)?.is_some() {
                return Err(StoreError::Exists(stream.name.to_owned()).into());
            }
            let mut head = Head::new(stream);
            writer
                .connection
                .prepare_cached(
                    "INSERT INTO streams (name, declaration, policy, status, epoch, until, version, published, releases, said, open, sum)
                     VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, 0, 0, 0, ?5)",
                )?
                .execute(params![head.name, head.declaration, head.policy, head.status.name(), head.sum()])?;
            head.number = writer.connection.last_insert_rowid();
            put_state(&writer.connection, &head, stream.state)
        })
    }

    fn redeclare(&self, stream: &str, declaration: &str) -> Result<(), StoreError> {
        self.change("redeclare", stream, |_, head| {
            declaration.clone_into(&mut head.declaration);
            Ok(())
        })
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.read("names", |connection| {
            let mut statement = connection.prepare_cached("SELECT name FROM streams ORDER BY name")?;
            let names = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(names)
        })
    }

    fn stream(&self, stream: &str) -> Result<Stream, StoreError> {
        self.read("stream", |connection| {
            let head = head_of(connection, stream)?;
            let state = state_of(connection, &head)?;
            let open = phases_of(connection, &head)?.into_iter().map(|row| row.asked).collect();
            let Head { name, declaration, policy, status, epoch, version, published, .. } = head;
            Ok(Stream { name, declaration, policy, status, epoch, version, published, state, open })
        })
    }

    fn status(&self, stream: &str) -> Result<(Status, u64), StoreError> {
        self.read("status", |connection| head_of(connection, stream).map(|head| (head.status, head.version)))
    }

    fn set_status(&self, stream: &str, status: Status) -> Result<(), StoreError> {
        self.change("set_status", stream, |_, head| Ok(head.set_status(status)?))
    }

    fn lease(&self, stream: &str, holder: &str, now: u64, until: u64) -> Result<Option<Lease>, StoreError> {
        let until = until.min(i64::MAX.unsigned_abs());
        self.change("lease", stream, |_, head| Ok(head.lease(holder, now, until)))
    }

    fn give_back(&self, lease: &Lease) -> Result<(), StoreError> {
        self.change("give_back", &lease.stream, |_, head| {
            head.give_back(lease);
            Ok(())
        })
    }

    fn accept(&self, source: &str, intakes: &[Intake<'_>]) -> Result<Vec<Result<Receipt, NotTaken>>, StoreError> {
        self.write("accept", |writer| {
            let mut outcomes = Vec::with_capacity(intakes.len());
            for intake in intakes {
                let phase = writer.phase(intake.stream, intake.batch.timestamp, intake.batch.phase)?;
                outcomes.push(match phase {
                    Ok((phase, _)) => phase.take(source, intake)?,
                    Err(not) => Err(not),
                });
            }
            let mut saved = HashSet::new();
            for Intake { stream, batch, .. } in intakes {
                let open =
                    writer.streams.get_mut(*stream).and_then(|open| open.get_mut(&(batch.timestamp, batch.phase)));
                if let Some(phase) = open.filter(|phase| saved.insert(phase.number)) {
                    phase.save(&writer.connection, source)?;
                }
            }
            Ok(outcomes)
        })
    }

    fn merge(&self, key: &PhaseKey, source: &str, range: Range<u64>, counts: &Aggregate) -> Result<Merged, StoreError> {
        self.write("merge", |writer| {
            let (phase, connection) =
                writer.phase(&key.stream, key.timestamp, key.phase)?.map_err(StoreError::NotTaken)?;
            let mut merged = Running::new(&phase.oracle);
            if let Some(running) = phase.sources.get(source) {
                merged = Running { offset: running.offset, logged: running.logged, counts: running.counts.clone() };
            }
            match range.start.cmp(&merged.offset) {
                _ if range.end <= merged.offset => return Ok(Merged::Before),
                Ordering::Equal => {}
                _ => {
                    let (counted, start) = (merged.offset, range.start);
                    return Err(StoreError::Range { source_name: source.to_owned(), counted, start }.into());
                }
            }
            merged.counts.merge(counts).map_err(|error| StoreError::from(NotTaken::Malformed(error.to_string())))?;
            merged.offset = range.end;
            merged.save(connection, phase.number, source)?;
            phase.sources.insert(source.to_owned(), merged);
            Ok(Merged::Now)
        })
    }

    fn close(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError> {
        self.write("close", |writer| {
            let head = head_of(&writer.connection, &lease.stream)?;
            head.fence(lease, version)?;
            for ((_, phase), open) in writer.streams.remove(&lease.stream).into_iter().flatten() {
                writer.usual.insert((lease.stream.clone(), phase), open.seen.len());
            }
            let mut totals = Vec::new();
            for (place, mut row) in (0..).zip(phases_of(&writer.connection, &head)?) {
                if !row.closed {
                    row.closed = true;
                    writer.change_phase(&head, place, &row)?;
                }
                totals.push(total_of(&writer.connection, row.number)?);
            }
            Ok(totals)
        })
    }

    fn advance(&self, lease: &Lease, advance: &Advance<'_>) -> Result<(), StoreError> {
        self.change("advance", &lease.stream, |writer, head| {
            head.fence(lease, advance.version)?;
            let mut before = phases_of(&writer.connection, head)?;
            let records = head.advance(lease, advance)?;
            writer.streams.remove(&lease.stream);
            // A question that goes on keeps its reports, and whether it is closed.
            let going_on = |row: &PhaseRow| advance.open.iter().any(|asked| asked.question == row.asked.question);
            for row in before.extract_if(.., |row| !going_on(row)) {
                writer.forget(row.number)?;
            }
            for (place, asked) in (0..).zip(advance.open) {
                match before.iter_mut().find(|row| row.asked.question == asked.question) {
                    Some(row) => {
                        row.asked.closes = asked.closes;
                        writer.change_phase(head, place, row)?;
                    }
                    None => writer.add_phase(head, place, asked)?,
                }
            }
            put_state(&writer.connection, head, advance.state)?;
            records.iter().try_for_each(|(kind, record)| writer.add_record(head, *kind, record))
        })
    }

    fn publish(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        self.change("publish", &lease.stream, |_, head| Ok(head.publish(lease, version)?))
    }

    fn begin_anew(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        self.change("begin_anew", stream, |writer, head| {
            let before = phases_of(&writer.connection, head)?;
            head.begin_anew(version)?;
            writer.streams.remove(stream);
            before.iter().try_for_each(|row| writer.forget(row.number))?;
            put_state(&writer.connection, head, state)
        })
    }

    fn records(&self, stream: &str, records: Records, wanted: &Wanted) -> Result<Vec<Record>, StoreError> {
        self.read("records", |connection| {
            let head = head_of(connection, stream)?;
            // Which index is right depends on what is wanted; `+` keeps SQLite from the other.
            let all_times = (wanted.from, wanted.to) == (0, u64::MAX);
            let mut statement: CachedStatement<'_> = connection.prepare_cached(if all_times {
                "SELECT number, version, timestamp, body, sum FROM records
                 WHERE stream = ?1 AND kind = ?2 AND number > ?3 AND +timestamp BETWEEN ?4 AND ?5 AND version <= ?6
                 ORDER BY number LIMIT ?7"
            } else {
                "SELECT number, version, timestamp, body, sum FROM records
                 WHERE stream = ?1 AND kind = ?2 AND +number > ?3 AND timestamp BETWEEN ?4 AND ?5 AND version <= ?6
                 ORDER BY number LIMIT ?7"
            })?;
            let mut rows = statement.query(params![
                head.number,
                kind(records),
                limit(wanted.after),
                limit(wanted.from),
                limit(wanted.to),
                signed(head.published)?,
                i64::try_from(wanted.limit).unwrap_or(i64::MAX),
            ])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let number = |column: usize| -> Result<u64, Fault> { Ok(unsigned(row.get(column)?)?) };
                let record =
                    Record { number: number(0)?, version: number(1)?, timestamp: number(2)?, body: row.get(3)? };
                check(row.get(4)?, record_sum(stream, records, &record), || {
                    format!("record {} of {stream}", record.number)
                })?;
                found.push(record);
            }
            Ok(found)
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", |writer| {
            writer.connection.prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'checks'")?.execute([])?;
            Ok(())
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rusqlite::ffi;

    use super::{Fault, StoreError};

    fn explain(code: i32, committing: bool) -> (StoreError, bool) {
        Fault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).explain("test", committing)
    }

    #[test]
    fn errors_mean_what_sqlite_says() {
        for committing in [false, true] {
            for code in
                [ffi::SQLITE_FULL, ffi::SQLITE_READONLY, ffi::SQLITE_CANTOPEN, ffi::SQLITE_PERM, ffi::SQLITE_NOMEM]
            {
                assert!(matches!(explain(code, committing), (StoreError::Failed(_), false)), "{code}");
            }
            for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_BUSY_SNAPSHOT] {
                assert!(matches!(explain(code, committing), (StoreError::Unavailable(_), false)), "{code}");
            }
            for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
                assert!(matches!(explain(code, committing), (StoreError::Damaged(_), true)), "{code}");
            }
        }
    }

    #[test]
    fn an_error_of_the_disk_leaves_the_outcome_open_only_during_a_commit() {
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE] {
            assert!(matches!(explain(code, false), (StoreError::Failed(_), true)));
            assert!(matches!(explain(code, true), (StoreError::Unknown(_), true)));
        }
    }

    #[test]
    fn a_column_of_another_type_is_damage() {
        let fault = Fault::Sql(rusqlite::Error::QueryReturnedNoRows);
        assert!(matches!(fault.explain("test", false), (StoreError::Damaged(_), true)));
    }
}
