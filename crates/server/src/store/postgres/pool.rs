//! [`Pool`]: connections to the database, each with its prepared statements and a time limit for each answer.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Error, NoTls, Row, Statement};

use super::super::StoreError;
use super::fault::Fault;
use super::tls::Tls;

/// Most connections.
const CONNECTIONS: usize = 8;

/// Time limits of a PostgreSQL store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// How long a transaction waits for a connection, for another's locks, and to begin.
    pub patience: Duration,
    /// Longest time of a statement. Both sides end it: a database that hangs ends nothing.
    pub longest: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10), longest: Duration::from_secs(60) }
    }
}

/// Connections, opened when they are needed.
pub(super) struct Pool {
    config: Config,
    tls: Option<Tls>,
    options: PostgresOptions,
    connections: Mutex<Connections>,
    returned: Condvar,
}

#[derive(Default)]
struct Connections {
    idle: Vec<Connection>,
    made: usize,
}

/// A connection with its prepared statements.
pub(super) struct Connection {
    client: tokio_postgres::Client,
    statements: HashMap<&'static str, Statement>,
    /// Drives the connection while somebody waits for it.
    runtime: Runtime,
    options: PostgresOptions,
    /// Whether the database did not answer in time, so that nothing is known of the connection.
    hangs: bool,
}

impl Connection {
    fn open(config: &Config, tls: Option<Tls>, options: PostgresOptions) -> Result<Self, Fault> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Failed(format!("no connection can be opened: {error}")))?;
        // Errors of a connection reach its client.
        let connecting = async {
            match tls {
                None => config.connect(NoTls).await.map(|(client, connection)| {
                    tokio::spawn(async { drop(connection.await) });
                    client
                }),
                Some(tls) => config.connect(tls).await.map(|(client, connection)| {
                    tokio::spawn(async { drop(connection.await) });
                    client
                }),
            }
        };
        let connected = runtime.block_on(async { timeout(options.patience, connecting).await });
        let client = connected.map_err(|_| Fault::Hangs)??;
        let mut connection = Self { client, statements: HashMap::new(), runtime, options, hangs: false };
        let (patience, longest) = (options.patience.as_millis(), options.longest.as_millis());
        connection.begin(&format!(
            "SET synchronous_commit = on; SET lock_timeout = {patience}; SET statement_timeout = {longest};
             SET idle_in_transaction_session_timeout = {longest}; SET client_min_messages = warning"
        ))?;
        Ok(connection)
    }

    /// Waits for an answer.
    fn wait<T>(
        &mut self,
        longest: Duration,
        ask: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, Error>,
    ) -> Result<T, Fault> {
        let Self { client, runtime, .. } = self;
        match runtime.block_on(async { timeout(longest, ask(client)).await }) {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.hangs = true;
                Err(Fault::Hangs)
            }
        }
    }

    /// The database ends a statement first, where it does not hang.
    fn longest(&self) -> Duration {
        self.options.longest + self.options.patience
    }

    /// Whether it can be used no more.
    pub(super) fn is_closed(&self) -> bool {
        self.hangs || self.client.is_closed()
    }

    /// Runs statements that take no time, and so tell whether the database answers.
    pub(super) fn begin(&mut self, sql: &str) -> Result<(), Fault> {
        self.wait(self.options.patience, async |client| client.batch_execute(sql).await)
    }

    pub(super) fn batch_execute(&mut self, sql: &str) -> Result<(), Fault> {
        self.wait(self.longest(), async |client| client.batch_execute(sql).await)
    }

    fn prepared(&mut self, sql: &'static str) -> Result<Statement, Fault> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.wait(self.longest(), async |client| client.prepare(sql).await)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) fn query(&mut self, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Fault> {
        let statement = self.prepared(sql)?;
        self.wait(self.longest(), async |client| client.query(&statement, values).await)
    }

    pub(super) fn execute(&mut self, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, Fault> {
        let statement = self.prepared(sql)?;
        self.wait(self.longest(), async |client| client.execute(&statement, values).await)
    }
}

impl Pool {
    pub(super) fn new(config: Config, tls: Option<Tls>, options: PostgresOptions) -> Self {
        Self { config, tls, options, connections: Mutex::default(), returned: Condvar::new() }
    }

    /// Returns how to connect.
    pub(super) fn address(&self) -> (&Config, Option<Tls>, PostgresOptions) {
        (&self.config, self.tls.clone(), self.options)
    }

    /// Takes a connection. Also returns whether it is new.
    pub(super) fn take(&self) -> Result<(Connection, bool), Fault> {
        let until = Instant::now() + self.options.patience;
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = connections.idle.pop() {
                return Ok((connection, false));
            }
            if connections.made < CONNECTIONS {
                connections.made += 1;
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Unavailable("all connections to the database are in use".to_owned()).into());
            }
            connections = self.returned.wait_timeout(connections, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(connections);
        let opened = Connection::open(&self.config, self.tls.clone(), self.options);
        if opened.is_err() {
            self.give(None);
        }
        Ok((opened?, true))
    }

    /// Gives a connection back; `None` where it is lost.
    pub(super) fn give(&self, connection: Option<Connection>) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        match connection {
            Some(connection) => connections.idle.push(connection),
            None => connections.made -= 1,
        }
        self.returned.notify_one();
    }
}
