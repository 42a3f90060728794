//! [`PostgresStore`]: everything in a PostgreSQL database, in its schema `tidegate`.
//!
//! Several services may share one database. Transactions that accept reports hold their streams' advisory locks in
//! shared mode, and then those of their questions. A transaction that closes a question or advances a stream holds its
//! lock exclusively. PostgreSQL grants these locks in order of request, so a flow of reports cannot starve a driver.

mod accept;
pub mod cluster;
mod fault;
mod listen;
mod members;
mod pool;
mod rows;
mod tls;
mod transactions;

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock};

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use accept::Memory;
use fault::Fault;
pub use listen::Listener;
pub use pool::PostgresOptions;
use pool::{Connection, Pool};
use rows::{add_log_rows, find_stream_for_update, stream_rows, update_stream, whole_stream};
use tls::Address;

use super::question::LogRow;
use super::row::{Columns, StreamRow, sum};
use super::{StoreError, StreamRecord, schema};

/// A store in a PostgreSQL database.
///
/// It blocks and runs a small runtime of its own. Never call it on a thread of an asynchronous runtime; use
/// `tokio::task::spawn_blocking`. With `sslmode=verify-full` in its URL, connections are encrypted, and the database's
/// certificate is verified against the authorities in the file `sslrootcert`, or against those of the web. Otherwise
/// reach the database by a Unix socket or a trusted network.
///
/// Leases follow the database's clock. Callers only give their duration, so clocks of their machines do not matter.
pub struct PostgresStore {
    pool: Pool,
    /// Open questions of the streams that reports have come for.
    memory: Mutex<Memory>,
    /// Error after which nothing is written.
    failed: OnceLock<String>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// Tells listeners which streams have advanced or published, once the transaction is committed.
fn tell_advanced(connection: &mut Connection, streams: &[&str]) -> Result<(), Fault> {
    connection.query("SELECT pg_notify('tidegate_advanced', name) FROM unnest($1::text[]) AS name", &[&streams])?;
    Ok(())
}

/// Tells listeners which streams were declared, or have another status, once the transaction is committed.
fn tell_declared(connection: &mut Connection, streams: &[&str]) -> Result<(), Fault> {
    connection.query("SELECT pg_notify('tidegate_declared', name) FROM unnest($1::text[]) AS name", &[&streams])?;
    Ok(())
}

/// Key of a stream's advisory lock.
fn lock_key(stream: &str) -> i64 {
    sum(&[b"lock", stream.as_bytes()])
}

impl PostgresStore {
    /// Opens a database by its URL, or by words such as `host=/var/run/postgresql user=tidegate dbname=tidegate`.
    /// Missing tables are created.
    ///
    /// # Errors
    /// [`StoreError::Schema`] for tables of a later version, [`StoreError::Failed`] for a database that does not sync
    /// its writes, and [`StoreError::Unavailable`] for one that cannot be reached.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, PostgresOptions::default())
    }

    /// Opens a database with other time limits.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let store = Self::connect(url, options)?;
        store.write("open", migrate)?;
        Ok(store)
    }

    /// Reads all streams, and changes nothing. `None` where there are no tables.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn inspect(url: &str) -> Result<Option<Vec<StreamRecord>>, StoreError> {
        let store = Self::connect(url, PostgresOptions::default())?;
        store.read("inspect", |connection| {
            check_durable(connection)?;
            let schema = schema_of(connection)?;
            if schema == 0 {
                return Ok(None);
            }
            let rows = stream_rows(connection, schema)?;
            rows.into_iter().map(|row| whole_stream(connection, row)).collect::<Result<_, _>>().map(Some)
        })
    }

    fn connect(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let Address { text, tls } = Address::read(url)?;
        // The error leaves the URL out: it may contain a password.
        let mut config: Config =
            text.parse().map_err(|_| StoreError::Failed("the database's URL cannot be parsed".to_owned()))?;
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.patience);
        }
        // Keep-alives find dead connections.
        let idle = options.patience;
        config.keepalives(true).keepalives_idle(idle).keepalives_interval(idle).keepalives_retries(3);
        config.tcp_user_timeout(options.longest).application_name("tidegate");
        Ok(Self { pool: Pool::new(config, tls, options), memory: Mutex::default(), failed: OnceLock::new() })
    }

    fn transaction<T>(
        &self,
        name: &'static str,
        begin: &str,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut committing = false;
        let mut connection = loop {
            let (mut connection, is_new) = self.pool.take().map_err(|fault| fault.explain(name, false))?;
            match connection.begin(begin) {
                Ok(()) => break connection,
                Err(fault) => {
                    self.pool.give(None);
                    // An idle connection that was lost is replaced.
                    if is_new || matches!(fault, Fault::Hangs) {
                        return Err(fault.explain(name, false));
                    }
                }
            }
        };
        let outcome = work(&mut connection).and_then(|done| {
            committing = true;
            connection.batch_execute("COMMIT")?;
            Ok(done)
        });
        let outcome = outcome.map_err(|fault| fault.explain(name, committing));
        let usable = outcome.is_ok() || (!connection.is_closed() && connection.begin("ROLLBACK").is_ok());
        self.pool.give(usable.then_some(connection));
        if let Err(error @ StoreError::Damaged(_)) = &outcome {
            tracing::error!(transaction = name, %error, "the store stops writing");
            // The first error is kept.
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

    /// Changes the row of a stream in a writing transaction.
    fn change<T>(
        &self,
        name: &'static str,
        stream: &str,
        change: impl FnOnce(&mut Connection, &mut StreamRow) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write(name, |connection| change_row(connection, stream, change))
    }

    /// Changes the row of a stream under its exclusive lock, so that no reports are accepted meanwhile.
    fn change_exclusively<T>(
        &self,
        name: &'static str,
        stream: &str,
        change: impl FnOnce(&mut Connection, &mut StreamRow) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.write(name, |connection| {
            connection.execute("SELECT pg_advisory_xact_lock($1)", &[&lock_key(stream)])?;
            change_row(connection, stream, change)
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(|poisoned| {
            // A thread panicked in a transaction, so the memory may be ahead of the database.
            let mut memory = poisoned.into_inner();
            memory.clear();
            self.memory.clear_poison();
            memory
        })
    }
}

fn change_row<T>(
    connection: &mut Connection,
    stream: &str,
    change: impl FnOnce(&mut Connection, &mut StreamRow) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut row = find_stream_for_update(connection, stream)?;
    let done = change(connection, &mut row)?;
    update_stream(connection, &row)?;
    tell_declared(connection, &[stream])?;
    Ok(done)
}

/// Checks that what is committed survives a crash.
fn check_durable(connection: &mut Connection) -> Result<(), Fault> {
    for (sql, name) in [("SHOW fsync", "fsync"), ("SHOW full_page_writes", "full_page_writes")] {
        if connection.query(sql, &[])?[0].text(0)? != "on" {
            let why = format!("the database has {name} turned off, so nothing in it would survive a crash");
            return Err(StoreError::Failed(why).into());
        }
    }
    Ok(())
}

/// Returns the version of the tables; 0 where there are none.
fn schema_of(connection: &mut Connection) -> Result<u32, Fault> {
    if !connection.query("SELECT to_regclass('tidegate.meta') IS NOT NULL", &[])?[0].flag(0)? {
        return Ok(0);
    }
    let rows = connection.query("SELECT schema FROM tidegate.meta", &[])?;
    let found: i32 = rows.first().map_or(Ok(-1), |row| row.try_get(0))?;
    let known = u32::try_from(found).ok().filter(|found| (1..=schema::POSTGRES).contains(found));
    Ok(known.ok_or_else(|| StoreError::Schema { found: found.to_string(), known: schema::POSTGRES })?)
}

/// Creates or updates the tables, under a lock, after a check that the database is durable.
fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    check_durable(connection)?;
    connection.execute("SELECT pg_advisory_xact_lock($1)", &[&lock_key("")])?;
    let version = schema_of(connection)?;
    let first_rows = if (1..schema::POSTGRES_KEPT).contains(&version) {
        // A service of an earlier version that is still running writes no more.
        connection.batch_execute("LOCK TABLE tidegate.streams IN ACCESS EXCLUSIVE MODE")?;
        stream_rows(connection, version)?
    } else {
        Vec::new()
    };
    for step in schema::postgres_steps(version) {
        connection.batch_execute(&step)?;
    }
    if version < schema::POSTGRES_LOGGED {
        move_identities(connection)?;
    }
    if version < schema::POSTGRES_KEPT {
        for row in first_rows {
            update_stream(connection, &row)?;
        }
    }
    Ok(())
}

/// Moves the identities of version 1, a row each, to the log.
fn move_identities(connection: &mut Connection) -> Result<(), Fault> {
    // A service of version 1 that is still running writes no more.
    connection.batch_execute("LOCK TABLE tidegate.seen IN ACCESS EXCLUSIVE MODE")?;
    let phases = connection
        .query("SELECT DISTINCT phase FROM tidegate.seen WHERE phase IN (SELECT number FROM tidegate.phases)", &[])?;
    for phase in &phases {
        let question = phase.integer(0)?;
        let rows = connection.query("SELECT id, digest FROM tidegate.seen WHERE phase = $1", &[&question])?;
        let odd = || StoreError::Damaged("an identity of another length".to_owned());
        let identities = rows.iter().map(|row| {
            let id: [u8; 16] = row.try_get::<_, &[u8]>(0)?.try_into().map_err(|_| odd())?;
            Ok((id, row.integer(1)?.cast_unsigned()))
        });
        let identities = identities.collect::<Result<Vec<_>, Fault>>()?;
        add_log_rows(connection, &[(question, LogRow::of(question, identities))])?;
    }
    connection.batch_execute("DROP TABLE tidegate.seen")?;
    Ok(())
}
