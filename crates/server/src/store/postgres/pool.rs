//! [`Pool`]: connections to the database, each with its prepared statements.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Row, Statement};

use super::super::StoreError;
use super::fault::Fault;

/// Most connections.
const CONNECTIONS: usize = 8;
/// How long a transaction waits for a connection, and for another's locks.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time of a statement.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Connections, opened when they are needed.
pub(super) struct Pool {
    config: Config,
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
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Connection {
    fn open(config: &Config) -> Result<Self, postgres::Error> {
        let mut client = config.connect(NoTls)?;
        let (patience, longest) = (PATIENCE.as_millis(), LONGEST.as_millis());
        client.batch_execute(&format!(
            "SET synchronous_commit = on; SET lock_timeout = {patience}; SET statement_timeout = {longest};
             SET client_min_messages = warning"
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

    pub(super) fn query(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.client.query(&statement, values)
    }

    pub(super) fn execute(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.client.execute(&statement, values)
    }
}

impl Pool {
    pub(super) fn new(config: Config) -> Self {
        Self { config, connections: Mutex::default(), returned: Condvar::new() }
    }

    /// Takes a connection. Also returns whether it is new.
    pub(super) fn take(&self) -> Result<(Connection, bool), Fault> {
        let until = Instant::now() + PATIENCE;
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
        let opened = Connection::open(&self.config);
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
