//! [`PostgresStore`]: everything in a PostgreSQL database, in its schema `tidegate`.
//!
//! Several services may share one database. Transactions that accept reports hold their streams' advisory locks in
//! shared mode. A transaction that closes a question or advances a stream holds its lock exclusively. PostgreSQL grants
//! these locks in order of request, so a flow of reports cannot starve a driver.

mod accept;
mod fault;
mod pool;
mod rows;
mod transactions;

use std::fmt;
use std::sync::OnceLock;

use postgres::Config;

use fault::{Fault, explain};
use pool::{Connection, LONGEST, PATIENCE, Pool};
use rows::{find_stream_for_update, update_stream};

use super::row::{Columns, StreamRow, sum};
use super::{StoreError, schema};

/// A store in a PostgreSQL database.
///
/// It blocks and runs a small runtime of its own. Never call it on a thread of an asynchronous runtime; use
/// `tokio::task::spawn_blocking`. There is no TLS: reach the database by a Unix socket or a trusted network.
///
/// Leases follow the database's clock. Callers only give their duration, so clocks of their machines do not matter.
pub struct PostgresStore {
    pool: Pool,
    /// Error after which nothing is written.
    failed: OnceLock<String>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresStore").finish_non_exhaustive()
    }
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
        // The error leaves the URL out: it may contain a password.
        let mut config: Config =
            url.parse().map_err(|_| StoreError::Failed("the database's URL cannot be parsed".to_owned()))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        // Keep-alives find dead connections.
        config.keepalives(true).keepalives_idle(PATIENCE).keepalives_interval(PATIENCE).keepalives_retries(3);
        config.tcp_user_timeout(LONGEST).application_name("tidegate");
        let store = Self { pool: Pool::new(config), failed: OnceLock::new() };
        store.write("open", migrate)?;
        Ok(store)
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
            match connection.client.batch_execute(begin) {
                Ok(()) => break connection,
                Err(error) => {
                    self.pool.give(None);
                    // An idle connection that was lost is replaced.
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
        let outcome = outcome.map_err(|fault| fault.explain(name, committing));
        let usable =
            outcome.is_ok() || (!connection.client.is_closed() && connection.client.batch_execute("ROLLBACK").is_ok());
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

    /// Deletes the identities of questions that are over. Nothing is accepted for those, so this may come late; the
    /// next open deletes what is left.
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

fn change_row<T>(
    connection: &mut Connection,
    stream: &str,
    change: impl FnOnce(&mut Connection, &mut StreamRow) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut row = find_stream_for_update(connection, stream)?;
    let done = change(connection, &mut row)?;
    update_stream(connection, &row)?;
    Ok(done)
}

/// Creates or updates the tables, under a lock, after a check that the database is durable.
fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    for (sql, name) in [("SHOW fsync", "fsync"), ("SHOW full_page_writes", "full_page_writes")] {
        if connection.query(sql, &[])?[0].text(0)? != "on" {
            let why = format!("the database has {name} turned off, so nothing in it would survive a crash");
            return Err(StoreError::Failed(why).into());
        }
    }
    connection.execute("SELECT pg_advisory_xact_lock($1)", &[&lock_key("")])?;
    let mut version = 0;
    if connection.query("SELECT to_regclass('tidegate.meta') IS NOT NULL", &[])?[0].flag(0)? {
        let rows = connection.query("SELECT schema FROM tidegate.meta", &[])?;
        let found: i32 = rows.first().map_or(Ok(-1), |row| row.try_get(0))?;
        version = u32::try_from(found)
            .ok()
            .filter(|found| (1..=schema::KNOWN).contains(found))
            .ok_or_else(|| StoreError::Schema { found: found.to_string(), known: schema::KNOWN })?;
    }
    for step in schema::postgres_steps(version) {
        connection.client.batch_execute(&step)?;
    }
    // Left over by a service that stopped before its sweep.
    connection.execute("DELETE FROM tidegate.seen WHERE phase NOT IN (SELECT number FROM tidegate.phases)", &[])?;
    Ok(())
}
