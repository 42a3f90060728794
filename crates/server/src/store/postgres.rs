//! [`PostgresStore`]: everything in a PostgreSQL database, in its schema `tidegate`.
//!
//! Any number of services may use one database. Reports of several gateways are taken side by side: each transaction
//! holds its streams' locks in common with others, and whoever closes a question or moves a stream on holds its lock
//! alone. The locks are advisory ones, which are given in the order in which they were asked for: a stream of gateways
//! cannot keep a driver from closing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::types::{ToSql, WasNull, WrongType};
use postgres::{Client, Config, NoTls, Row, Statement};
use tidegate_device::api::Receipt;
use tidegate_kernel::oracle::{Aggregate, Oracle};

use super::row::{
    Head, PhaseRow, check, count_sum, decode, encode, kind, limit, phase_sum, record_sum, signed, state_sum, sum,
    unsigned, well_formed,
};
use super::{
    Advance, Intake, Lease, Merged, NewStream, NotTaken, PhaseKey, Record, Records, Status, Store, StoreError, Stream,
    Wanted, schema,
};

/// How many connections there are at most.
const CONNECTIONS: usize = 8;
/// How long a transaction waits for a connection, and for another's locks.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a statement may take.
const LONGEST: Duration = Duration::from_secs(60);

/// A store in a PostgreSQL database.
///
/// It blocks, and runs a small runtime of its own: never call it on a thread of an asynchronous runtime, but on one
/// that may block, such as `tokio::task::spawn_blocking` has. There is no TLS: reach the database by a Unix socket, or
/// by a network that you trust.
///
/// The lease goes by the database's clock: what callers give says how long it lasts, and the clocks of their machines
/// do not matter.
pub struct PostgresStore {
    config: Config,
    pool: Mutex<Pool>,
    returned: Condvar,
    /// Why nothing is written any more.
    failed: OnceLock<String>,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    made: usize,
}

/// A connection with the statements that it has prepared.
struct Connection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// What went wrong in a transaction.
enum Fault {
    Store(StoreError),
    Sql(postgres::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NotTaken> for Fault {
    fn from(not: NotTaken) -> Self {
        Self::Store(not.into())
    }
}

impl From<postgres::Error> for Fault {
    fn from(error: postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// What an error means, by what the server says or that it says nothing.
fn explain(error: &postgres::Error, transaction: &str, committing: bool) -> StoreError {
    let why = match error.as_db_error() {
        Some(said) => format!("{transaction}: {} ({})", said.message(), said.code().code()),
        None => format!("{transaction}: {error}"),
    };
    let Some(state) = error.code() else {
        // Without the server's word.
        let source = std::error::Error::source(error);
        let is_odd = source.is_some_and(|source| source.is::<WasNull>() || source.is::<WrongType>());
        return match () {
            () if is_odd => StoreError::Damaged(why),
            () if committing => StoreError::Unknown(why),
            () if error.is_closed() || is_io(error) => StoreError::Unavailable(why),
            () => StoreError::Failed(why),
        };
    };
    let class = state.code().get(..2).unwrap_or_default();
    match class {
        "XX" if *state != SqlState::INTERNAL_ERROR => StoreError::Damaged(why),
        // The server stops, or the connection does.
        "08" | "57" if committing => StoreError::Unknown(why),
        // Also deadlocks, locks that were waited for too long, and too many connections.
        "08" | "57" | "40" => StoreError::Unavailable(why),
        _ if *state == SqlState::LOCK_NOT_AVAILABLE || *state == SqlState::TOO_MANY_CONNECTIONS => {
            StoreError::Unavailable(why)
        }
        _ => StoreError::Failed(why),
    }
}

/// Whether it is the network that failed.
fn is_io(error: &postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
}

impl Connection {
    fn open(config: &Config) -> Result<Self, postgres::Error> {
        let mut client = config.connect(NoTls)?;
        let (patience, longest) = (PATIENCE.as_millis(), LONGEST.as_millis());
        client.batch_execute(&format!(
            "SET synchronous_commit = on; SET lock_timeout = {patience}; SET statement_timeout = {longest}; SET client_min_messages = warning"
        ))?;
        Ok(Self { client, statements: HashMap::new() })
    }

    fn prepared(&mut self, sql: &'static str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn query(&mut self, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.client.query(&statement, values)
    }

    fn execute(&mut self, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.client.execute(&statement, values)
    }
}

/// The key of a stream's lock.
fn lock_of(stream: &str) -> i64 {
    sum(&[b"lock", stream.as_bytes()])
}

impl PostgresStore {
    /// Opens a database by its URL, or by words such as `host=/var/run/postgresql user=tidegate dbname=tidegate`. Its
    /// tables are made where they are missing.
    ///
    /// # Errors
    /// [`StoreError::Schema`] where they are of a later version, [`StoreError::Failed`] where the database does not
    /// sync what it writes, and [`StoreError::Unavailable`] where it cannot be reached.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        // What is wrong with a URL is not repeated: it may have a password in it.
        let mut config: Config =
            url.parse().map_err(|_| StoreError::Failed("the database's URL cannot be understood".to_owned()))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        // A connection that died in silence is found out.
        config.keepalives(true).keepalives_idle(PATIENCE).keepalives_interval(PATIENCE).keepalives_retries(3);
        config.tcp_user_timeout(LONGEST).application_name("tidegate");
        let store = Self { config, pool: Mutex::default(), returned: Condvar::new(), failed: OnceLock::new() };
        store.write("open", |connection| {
            let setting = |connection: &mut Connection, sql| {
                Ok::<_, Fault>(connection.query(sql, &[])?[0].try_get::<_, String>(0)?)
            };
            for (sql, name) in [("SHOW fsync", "fsync"), ("SHOW full_page_writes", "full_page_writes")] {
                if setting(connection, sql)? != "on" {
                    let why = format!("the database has {name} turned off, so nothing in it would survive a crash");
                    return Err(StoreError::Failed(why).into());
                }
            }
            connection.execute("SELECT pg_advisory_xact_lock($1)", &[&lock_of("")])?;
            let found = connection.query("SELECT to_regclass('tidegate.meta') IS NOT NULL", &[])?;
            let mut schema = 0;
            if found[0].try_get(0)? {
                let rows = connection.query("SELECT schema FROM tidegate.meta", &[])?;
                let found: i32 = rows.first().map_or(Ok(-1), |row| row.try_get(0))?;
                schema = u32::try_from(found)
                    .ok()
                    .filter(|found| (1..=schema::KNOWN).contains(found))
                    .ok_or_else(|| StoreError::Schema { found: found.to_string(), known: schema::KNOWN })?;
            }
            for step in schema::POSTGRES.iter().skip(schema as usize) {
                connection.client.batch_execute(step)?;
            }
            // Left over by a service that stopped between moving on and forgetting.
            connection
                .execute("DELETE FROM tidegate.seen WHERE phase NOT IN (SELECT number FROM tidegate.phases)", &[])?;
            Ok(())
        })?;
        Ok(store)
    }

    /// A connection, and whether it is a new one.
    fn take(&self) -> Result<(Connection, bool), Fault> {
        let until = Instant::now() + PATIENCE;
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok((connection, false));
            }
            if pool.made < CONNECTIONS {
                pool.made += 1;
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Unavailable("all connections to the database are in use".to_owned()).into());
            }
            pool = self.returned.wait_timeout(pool, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pool);
        let opened = Connection::open(&self.config);
        if opened.is_err() {
            self.give(None);
        }
        Ok((opened?, true))
    }

    /// Gives a connection back, or says that it is gone.
    fn give(&self, connection: Option<Connection>) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        match connection {
            Some(connection) => pool.idle.push(connection),
            None => pool.made -= 1,
        }
        self.returned.notify_one();
    }

    fn transaction<T>(
        &self,
        name: &'static str,
        begin: &str,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut committing = false;
        let explained = |fault, committing| match fault {
            Fault::Store(error) => error,
            Fault::Sql(error) => explain(&error, name, committing),
        };
        let mut connection = loop {
            let (mut connection, is_new) = self.take().map_err(|fault| explained(fault, false))?;
            match connection.client.batch_execute(begin) {
                Ok(()) => break connection,
                Err(error) => {
                    self.give(None);
                    // One that was lost while nobody used it is replaced.
                    if is_new {
                        return Err(explain(&error, name, false));
                    }
                }
            }
        };
        let outcome = work(&mut connection).and_then(|done| {
            committing = true;
            connection.client.batch_execute("COMMIT")?;
            Ok(done)
        });
        let outcome = outcome.map_err(|fault| explained(fault, committing));
        let usable =
            outcome.is_ok() || (!connection.client.is_closed() && connection.client.batch_execute("ROLLBACK").is_ok());
        self.give(usable.then_some(connection));
        if let Err(error @ StoreError::Damaged(_)) = &outcome {
            tracing::error!(transaction = name, %error, "the store takes nothing any more");
            // Another may have been first.
            let _ = self.failed.set(error.to_string());
        }
        outcome
    }

    fn write<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        if let Some(why) = self.failed.get() {
            return Err(StoreError::Failed(format!("{name}: nothing is written since {why}; open the store anew")));
        }
        self.transaction(name, "BEGIN ISOLATION LEVEL READ COMMITTED", work)
    }

    fn read<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.transaction(name, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", work)
    }

    /// A change of what is kept of a stream.
    fn change<T>(
        &self,
        name: &'static str,
        stream: &str,
        change: impl FnOnce(&mut Connection, &mut Head) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write(name, |connection| {
            let mut head = find_head(connection, HEAD_TO_CHANGE, stream)?.ok_or_else(|| missing(stream))?;
            let done = change(connection, &mut head)?;
            put_head(connection, &head)?;
            Ok(done)
        })
    }

    /// A change that nothing is taken during.
    fn change_alone<T>(
        &self,
        name: &'static str,
        stream: &str,
        change: impl FnOnce(&mut Connection, &mut Head) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write(name, |connection| {
            connection.execute("SELECT pg_advisory_xact_lock($1)", &[&lock_of(stream)])?;
            let mut head = find_head(connection, HEAD_TO_CHANGE, stream)?.ok_or_else(|| missing(stream))?;
            let done = change(connection, &mut head)?;
            put_head(connection, &head)?;
            Ok(done)
        })
    }

    /// Forgets the identities of questions that are over. Nothing is ever taken for those, so it does not matter when;
    /// what is missed is forgotten when the store is opened next.
    fn sweep(&self, over: &[i64]) {
        if over.is_empty() {
            return;
        }
        let swept = self.write("sweep", |connection| {
            connection.execute("DELETE FROM tidegate.seen WHERE phase = ANY($1)", &[&over])?;
            Ok(())
        });
        if let Err(error) = swept {
            tracing::warn!(%error, "identities of reports are left over");
        }
    }
}

fn missing(stream: &str) -> StoreError {
    StoreError::NoStream(stream.to_owned())
}

const HEAD: &str = "SELECT number, name, declaration, policy, status, epoch, holder, until, version, published, releases, said, open, sum
     FROM tidegate.streams WHERE name = $1";
const HEAD_TO_CHANGE: &str = "SELECT number, name, declaration, policy, status, epoch, holder, until, version, published, releases, said, open, sum
     FROM tidegate.streams WHERE name = $1 FOR UPDATE";

fn find_head(connection: &mut Connection, sql: &'static str, stream: &str) -> Result<Option<Head>, Fault> {
    let rows = connection.query(sql, &[&stream])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let number = |column: usize| -> Result<u64, Fault> { Ok(unsigned(row.try_get(column)?)?) };
    let head = Head {
        number: row.try_get(0)?,
        name: row.try_get(1)?,
        declaration: row.try_get(2)?,
        policy: row.try_get(3)?,
        status: Head::status_of(row.try_get(4)?)?,
        epoch: number(5)?,
        holder: row.try_get(6)?,
        until: number(7)?,
        version: number(8)?,
        published: number(9)?,
        releases: number(10)?,
        said: number(11)?,
        open: number(12)?,
    };
    check(row.try_get(13)?, head.sum(), || format!("stream {stream}"))?;
    Ok(Some(head))
}

fn head_of(connection: &mut Connection, stream: &str) -> Result<Head, Fault> {
    find_head(connection, HEAD, stream)?.ok_or_else(|| missing(stream).into())
}

fn put_head(connection: &mut Connection, head: &Head) -> Result<(), Fault> {
    connection.execute(
        "UPDATE tidegate.streams SET declaration = $2, policy = $3, status = $4, epoch = $5, holder = $6, until = $7, version = $8,
             published = $9, releases = $10, said = $11, open = $12, sum = $13
         WHERE number = $1",
        &[
            &head.number,
            &head.declaration,
            &head.policy,
            &head.status.name(),
            &signed(head.epoch)?,
            &head.holder,
            &signed(head.until)?,
            &signed(head.version)?,
            &signed(head.published)?,
            &signed(head.releases)?,
            &signed(head.said)?,
            &signed(head.open)?,
            &head.sum(),
        ],
    )?;
    Ok(())
}

fn put_state(connection: &mut Connection, head: &Head, state: &[u8]) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO tidegate.states (stream, body, sum) VALUES ($1, $2, $3)
         ON CONFLICT (stream) DO UPDATE SET body = excluded.body, sum = excluded.sum",
        &[&head.number, &state, &state_sum(&head.name, head.version, state)],
    )?;
    Ok(())
}

/// The questions of a stream, in their order.
fn phases_of(connection: &mut Connection, head: &Head) -> Result<Vec<PhaseRow>, Fault> {
    let sql = "SELECT number, place, body, closed, sum FROM tidegate.phases WHERE stream = $1 ORDER BY place";
    let mut phases = Vec::new();
    for row in connection.query(sql, &[&head.number])? {
        let (place, body, closed): (i64, &[u8], bool) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        check(row.try_get(4)?, phase_sum(&head.name, place, body, closed), || {
            format!("a question of stream {}", head.name)
        })?;
        phases.push(PhaseRow { number: row.try_get(0)?, asked: decode(body, "question")?, closed });
    }
    if phases.len() as u64 != head.open {
        let why = format!("stream {} has {} questions, but {} are there", head.name, head.open, phases.len());
        return Err(StoreError::Damaged(why).into());
    }
    Ok(phases)
}

fn change_phase(connection: &mut Connection, head: &Head, place: i64, row: &PhaseRow) -> Result<(), Fault> {
    let body = encode(&row.asked)?;
    connection.execute(
        "UPDATE tidegate.phases SET place = $2, body = $3, closed = $4, sum = $5 WHERE number = $1",
        &[&row.number, &place, &body, &row.closed, &phase_sum(&head.name, place, &body, row.closed)],
    )?;
    Ok(())
}

/// Forgets questions, and what was counted for them.
fn forget(connection: &mut Connection, over: &[i64]) -> Result<(), Fault> {
    if !over.is_empty() {
        connection.execute("DELETE FROM tidegate.counts WHERE phase = ANY($1)", &[&over])?;
        connection.execute("DELETE FROM tidegate.phases WHERE number = ANY($1)", &[&over])?;
    }
    Ok(())
}

fn read_count(phase: i64, row: &Row) -> Result<(u64, Aggregate), Fault> {
    let (source, offset, body): (&str, u64, &[u8]) = (row.try_get(0)?, unsigned(row.try_get(1)?)?, row.try_get(2)?);
    check(row.try_get(3)?, count_sum(phase, source, offset, 0, body), || format!("what {source} has counted"))?;
    Ok((offset, decode(body, "count")?))
}

/// What a source has counted for a question, which nobody else changes before the transaction ends.
fn count_of(connection: &mut Connection, phase: i64, source: &str, oracle: &Oracle) -> Result<(u64, Aggregate), Fault> {
    // An empty one first, so that two that begin at once wait for each other.
    let nothing = encode(&oracle.aggregate())?;
    connection.execute(
        "INSERT INTO tidegate.counts (phase, source, counted, body, sum) VALUES ($1, $2, 0, $3, $4) ON CONFLICT DO NOTHING",
        &[&phase, &source, &nothing, &count_sum(phase, source, 0, 0, &nothing)],
    )?;
    let sql = "SELECT source, counted, body, sum FROM tidegate.counts WHERE phase = $1 AND source = $2 FOR UPDATE";
    let rows = connection.query(sql, &[&phase, &source])?;
    let row = rows.first().ok_or_else(|| StoreError::Damaged(format!("what {source} has counted is gone")))?;
    read_count(phase, row)
}

fn put_count(
    connection: &mut Connection,
    phase: i64,
    source: &str,
    offset: u64,
    counts: &Aggregate,
) -> Result<(), Fault> {
    let body = encode(counts)?;
    connection.execute(
        "UPDATE tidegate.counts SET counted = $3, body = $4, sum = $5 WHERE phase = $1 AND source = $2",
        &[&phase, &source, &signed(offset)?, &body, &count_sum(phase, source, offset, 0, &body)],
    )?;
    Ok(())
}

/// All that has been counted for a question; `None` where nothing has.
fn total_of(connection: &mut Connection, phase: i64) -> Result<Option<Aggregate>, Fault> {
    let mut total: Option<Aggregate> = None;
    let sql = "SELECT source, counted, body, sum FROM tidegate.counts WHERE phase = $1";
    for row in connection.query(sql, &[&phase])? {
        let (_, counts) = read_count(phase, &row)?;
        match &mut total {
            None => total = Some(counts),
            Some(total) => total.merge(&counts).map_err(|error| StoreError::Damaged(error.to_string()))?,
        }
    }
    Ok(total.filter(|total| total.reports() > 0))
}

/// The open questions of streams, by timestamp and phase.
type Open = HashMap<String, HashMap<(u64, u16), PhaseRow>>;

/// The open questions of streams, whose locks are held in common with others until the transaction ends.
fn open_phases(connection: &mut Connection, streams: &[&str]) -> Result<Open, Fault> {
    let mut locks: Vec<i64> = streams.iter().map(|stream| lock_of(stream)).collect();
    locks.sort_unstable();
    locks.dedup();
    connection.query("SELECT pg_advisory_xact_lock_shared(stream) FROM unnest($1::int8[]) AS stream", &[&locks])?;
    let mut open = HashMap::new();
    for stream in streams {
        if open.contains_key(*stream) {
            continue;
        }
        let Some(head) = find_head(connection, HEAD, stream)? else { continue };
        let phases = phases_of(connection, &head)?.into_iter().filter(|row| !row.closed);
        let by_key = phases.map(|row| ((row.asked.question.timestamp, row.asked.question.phase), row)).collect();
        open.insert((*stream).to_owned(), by_key);
    }
    Ok(open)
}

fn find<'a>(open: &'a Open, stream: &str, timestamp: u64, phase: u16) -> Result<&'a PhaseRow, NotTaken> {
    open.get(stream).ok_or(NotTaken::NoStream)?.get(&(timestamp, phase)).ok_or(NotTaken::NotOpen { timestamp, phase })
}

fn oracle_of(row: &PhaseRow) -> Result<Oracle, StoreError> {
    row.asked.question.oracle().map_err(|error| StoreError::Failed(error.to_string()))
}

/// Takes in batches for one question; what became of each.
fn take(
    connection: &mut Connection,
    row: &PhaseRow,
    source: &str,
    intakes: &[&Intake<'_>],
) -> Result<Vec<Result<Receipt, NotTaken>>, Fault> {
    let oracle = oracle_of(row)?;
    let checked: Vec<_> = intakes.iter().map(|intake| well_formed(&oracle, &intake.batch)).collect();
    let plausible = |intake: &Intake<'_>, position: usize| intake.implausible.binary_search(&position).is_err();
    // What is seen first under each identity, in the order of identities: all who insert do so in this order, so that
    // nobody waits in a circle.
    let mut first = BTreeMap::new();
    for (intake, _) in intakes.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()) {
        for (position, ((id, _), digest)) in intake.batch.iter().zip(intake.digests()).enumerate() {
            if plausible(intake, position) {
                first.entry(*id.as_bytes()).or_insert_with(|| digest.cast_signed());
            }
        }
    }
    let (ids, digests): (Vec<&[u8]>, Vec<i64>) = first.iter().map(|(id, digest)| (&id[..], *digest)).unzip();
    let inserted = connection.query(
        "INSERT INTO tidegate.seen (phase, id, digest)
         SELECT $1, id, digest FROM unnest($2::bytea[], $3::int8[]) AS new (id, digest)
         ON CONFLICT DO NOTHING RETURNING id",
        &[&row.number, &ids, &digests],
    )?;
    // Whether the first report of an identity is still to be counted, and the digest of the one that is kept.
    let mut kept: HashMap<[u8; 16], (bool, i64)> = HashMap::with_capacity(first.len());
    let odd = || StoreError::Damaged("an identity of another length".to_owned());
    for row in &inserted {
        let id: [u8; 16] = row.try_get::<_, &[u8]>(0)?.try_into().map_err(|_| odd())?;
        kept.insert(id, (true, first.get(&id).copied().ok_or_else(odd)?));
    }
    let others: Vec<&[u8]> = ids.iter().copied().filter(|id| !kept.contains_key(*id)).collect();
    if !others.is_empty() {
        let sql = "SELECT id, digest FROM tidegate.seen WHERE phase = $1 AND id = ANY($2)";
        for row in connection.query(sql, &[&row.number, &others])? {
            let id: [u8; 16] = row.try_get::<_, &[u8]>(0)?.try_into().map_err(|_| odd())?;
            kept.insert(id, (false, row.try_get(1)?));
        }
    }
    let mut counts = oracle.aggregate();
    let mut receipts = Vec::with_capacity(intakes.len());
    for (intake, checked) in intakes.iter().zip(checked) {
        if let Err(not) = checked {
            receipts.push(Err(not));
            continue;
        }
        let mut receipt = Receipt::default();
        for (position, ((id, report), digest)) in intake.batch.iter().zip(intake.digests()).enumerate() {
            if !plausible(intake, position) {
                receipt.implausible += 1;
                continue;
            }
            let (to_count, kept) =
                kept.get_mut(id.as_bytes()).ok_or_else(|| StoreError::Damaged("an identity is gone".to_owned()))?;
            if std::mem::take(to_count) {
                counts.add(report).map_err(|error| StoreError::Failed(error.to_string()))?;
                receipt.accepted += 1;
            } else if digest.cast_signed() == *kept {
                receipt.repeated += 1;
            } else {
                receipt.conflicting += 1;
            }
        }
        receipts.push(Ok(receipt));
    }
    if counts.reports() > 0 {
        let (offset, mut running) = count_of(connection, row.number, source, &oracle)?;
        running.merge(&counts).map_err(|error| StoreError::Failed(error.to_string()))?;
        put_count(connection, row.number, source, offset + counts.reports(), &running)?;
    }
    Ok(receipts)
}

impl Store for PostgresStore {
    fn create(&self, stream: &NewStream<'_>) -> Result<(), StoreError> {
        self.write("create", |connection| {
            let mut head = Head::new(stream);
            let rows = connection.query(
                "INSERT INTO tidegate.streams (name, declaration, policy, status, epoch, until, version, published, releases, said, open, sum)
                 VALUES ($1, $2, $3, $4, 0, 0, 0, 0, 0, 0, 0, $5) ON CONFLICT DO NOTHING RETURNING number",
                &[&head.name, &head.declaration, &head.policy, &head.status.name(), &head.sum()],
            )?;
            let row = rows.first().ok_or_else(|| StoreError::Exists(stream.name.to_owned()))?;
            head.number = row.try_get(0)?;
            put_state(connection, &head, stream.state)
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
            let rows = connection.query("SELECT name FROM tidegate.streams ORDER BY name COLLATE \"C\"", &[])?;
            Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
        })
    }

    fn stream(&self, stream: &str) -> Result<Stream, StoreError> {
        self.read("stream", |connection| {
            let head = head_of(connection, stream)?;
            let rows = connection.query("SELECT body, sum FROM tidegate.states WHERE stream = $1", &[&head.number])?;
            let row =
                rows.first().ok_or_else(|| StoreError::Damaged(format!("the state of stream {stream} is gone")))?;
            let state: Vec<u8> = row.try_get(0)?;
            check(row.try_get(1)?, state_sum(stream, head.version, &state), || {
                format!("the state of stream {stream}")
            })?;
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
        self.change("lease", stream, |connection, head| {
            let rows = connection.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8", &[])?;
            let here = unsigned(rows[0].try_get(0)?)?;
            let end = here.saturating_add(until.saturating_sub(now)).min(i64::MAX.unsigned_abs());
            Ok(head.lease(holder, here, end))
        })
    }

    fn give_back(&self, lease: &Lease) -> Result<(), StoreError> {
        self.change("give_back", &lease.stream, |_, head| {
            head.give_back(lease);
            Ok(())
        })
    }

    fn accept(&self, source: &str, intakes: &[Intake<'_>]) -> Result<Vec<Result<Receipt, NotTaken>>, StoreError> {
        if intakes.is_empty() {
            return Ok(Vec::new());
        }
        self.write("accept", |connection| {
            let streams: Vec<_> = intakes.iter().map(|intake| intake.stream).collect();
            let open = open_phases(connection, &streams)?;
            let mut outcomes: Vec<Result<Receipt, NotTaken>> = Vec::with_capacity(intakes.len());
            // By the numbers of questions, in which order all who take reports go through them.
            let mut by_phase: BTreeMap<i64, (&PhaseRow, Vec<usize>)> = BTreeMap::new();
            for (position, Intake { stream, batch, .. }) in intakes.iter().enumerate() {
                outcomes.push(find(&open, stream, batch.timestamp, batch.phase).map(|row| {
                    by_phase.entry(row.number).or_insert_with(|| (row, Vec::new())).1.push(position);
                    Receipt::default()
                }));
            }
            for (row, positions) in by_phase.into_values() {
                let chosen: Vec<_> = positions.iter().map(|position| &intakes[*position]).collect();
                for (position, outcome) in positions.iter().zip(take(connection, row, source, &chosen)?) {
                    outcomes[*position] = outcome;
                }
            }
            Ok(outcomes)
        })
    }

    fn merge(&self, key: &PhaseKey, source: &str, range: Range<u64>, counts: &Aggregate) -> Result<Merged, StoreError> {
        self.write("merge", |connection| {
            let open = open_phases(connection, &[&key.stream])?;
            let row = find(&open, &key.stream, key.timestamp, key.phase)?;
            let (offset, mut running) = count_of(connection, row.number, source, &oracle_of(row)?)?;
            if range.end <= offset {
                return Ok(Merged::Before);
            }
            if range.start != offset {
                let (counted, start) = (offset, range.start);
                return Err(StoreError::Range { source_name: source.to_owned(), counted, start }.into());
            }
            running.merge(counts).map_err(|error| NotTaken::Malformed(error.to_string()))?;
            put_count(connection, row.number, source, range.end, &running)?;
            Ok(Merged::Now)
        })
    }

    fn close(&self, lease: &Lease, version: u64) -> Result<Vec<Option<Aggregate>>, StoreError> {
        self.change_alone("close", &lease.stream, |connection, head| {
            head.fence(lease, version)?;
            let mut totals = Vec::new();
            for (place, mut row) in (0..).zip(phases_of(connection, head)?) {
                if !row.closed {
                    row.closed = true;
                    change_phase(connection, head, place, &row)?;
                }
                totals.push(total_of(connection, row.number)?);
            }
            Ok(totals)
        })
    }

    fn advance(&self, lease: &Lease, advance: &Advance<'_>) -> Result<(), StoreError> {
        let over = self.change_alone("advance", &lease.stream, |connection, head| {
            head.fence(lease, advance.version)?;
            let mut before = phases_of(connection, head)?;
            let records = head.advance(lease, advance)?;
            // A question that goes on keeps its reports, and whether it is closed.
            let going_on = |row: &PhaseRow| advance.open.iter().any(|asked| asked.question == row.asked.question);
            let over: Vec<i64> = before.extract_if(.., |row| !going_on(row)).map(|row| row.number).collect();
            forget(connection, &over)?;
            for (place, asked) in (0..).zip(advance.open) {
                match before.iter_mut().find(|row| row.asked.question == asked.question) {
                    Some(row) => {
                        row.asked.closes = asked.closes;
                        change_phase(connection, head, place, row)?;
                    }
                    None => {
                        let body = encode(asked)?;
                        connection.execute(
                            "INSERT INTO tidegate.phases (stream, place, body, closed, sum) VALUES ($1, $2, $3, false, $4)",
                            &[&head.number, &place, &body, &phase_sum(&head.name, place, &body, false)],
                        )?;
                    }
                }
            }
            put_state(connection, head, advance.state)?;
            for (records, record) in &records {
                connection.execute(
                    "INSERT INTO tidegate.records (stream, kind, number, version, timestamp, body, sum)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    &[
                        &head.number,
                        &kind(*records),
                        &signed(record.number)?,
                        &signed(record.version)?,
                        &signed(record.timestamp)?,
                        &record.body,
                        &record_sum(&head.name, *records, record),
                    ],
                )?;
            }
            Ok(over)
        })?;
        self.sweep(&over);
        Ok(())
    }

    fn publish(&self, lease: &Lease, version: u64) -> Result<(), StoreError> {
        self.change("publish", &lease.stream, |_, head| Ok(head.publish(lease, version)?))
    }

    fn begin_anew(&self, stream: &str, state: &[u8], version: u64) -> Result<(), StoreError> {
        let over = self.change_alone("begin_anew", stream, |connection, head| {
            let over: Vec<i64> = phases_of(connection, head)?.iter().map(|row| row.number).collect();
            head.begin_anew(version)?;
            forget(connection, &over)?;
            put_state(connection, head, state)?;
            Ok(over)
        })?;
        self.sweep(&over);
        Ok(())
    }

    fn records(&self, stream: &str, records: Records, wanted: &Wanted) -> Result<Vec<Record>, StoreError> {
        self.read("records", |connection| {
            let head = head_of(connection, stream)?;
            let rows = connection.query(
                "SELECT number, version, timestamp, body, sum FROM tidegate.records
                 WHERE stream = $1 AND kind = $2 AND number > $3 AND timestamp BETWEEN $4 AND $5 AND version <= $6
                 ORDER BY number LIMIT $7",
                &[
                    &head.number,
                    &kind(records),
                    &limit(wanted.after),
                    &limit(wanted.from),
                    &limit(wanted.to),
                    &signed(head.published)?,
                    &i64::try_from(wanted.limit).unwrap_or(i64::MAX),
                ],
            )?;
            let mut found = Vec::with_capacity(rows.len());
            for row in rows {
                let number = |column: usize| -> Result<u64, Fault> { Ok(unsigned(row.try_get(column)?)?) };
                let record =
                    Record { number: number(0)?, version: number(1)?, timestamp: number(2)?, body: row.try_get(3)? };
                check(row.try_get(4)?, record_sum(stream, records, &record), || {
                    format!("record {} of {stream}", record.number)
                })?;
                found.push(record);
            }
            Ok(found)
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        self.write("check", |connection| {
            connection.execute("UPDATE tidegate.meta SET checks = checks + 1", &[])?;
            Ok(())
        })
    }
}
