//! The tables, as numbered steps: a store of an earlier version is brought up to date when it is opened, all steps or
//! none. One of a later version, and another program's database, are refused.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// Which schema this program knows.
pub(super) const KNOWN: u32 = 1;

/// What the header of an SQLite file says whose it is: "TGST".
pub(super) const APPLICATION: i32 = 0x5447_5354;

const _: () = assert!(SQLITE.len() == KNOWN as usize && POSTGRES.len() == KNOWN as usize);

/// The steps of SQLite.
const SQLITE: &[&str] = &["
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES ('checks', 0);
CREATE TABLE streams (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    declaration TEXT NOT NULL,
    policy TEXT NOT NULL,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    holder TEXT,
    until INTEGER NOT NULL,
    version INTEGER NOT NULL,
    published INTEGER NOT NULL,
    releases INTEGER NOT NULL,
    said INTEGER NOT NULL,
    open INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE states (
    stream INTEGER PRIMARY KEY REFERENCES streams (number),
    body BLOB NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE phases (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL REFERENCES streams (number),
    place INTEGER NOT NULL,
    body BLOB NOT NULL,
    closed INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX phases_of_stream ON phases (stream, place);
CREATE TABLE seen (
    phase INTEGER NOT NULL REFERENCES phases (number),
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (phase, number)
) STRICT;
CREATE TABLE counts (
    phase INTEGER NOT NULL REFERENCES phases (number),
    source TEXT NOT NULL,
    counted INTEGER NOT NULL,
    logged INTEGER NOT NULL,
    body BLOB NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (phase, source)
) STRICT;
CREATE TABLE records (
    stream INTEGER NOT NULL REFERENCES streams (number),
    kind INTEGER NOT NULL,
    number INTEGER NOT NULL,
    version INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (stream, kind, number)
) STRICT;
CREATE INDEX records_by_timestamp ON records (stream, kind, timestamp, number);
"];

/// The steps of PostgreSQL.
pub(super) const POSTGRES: &[&str] = &["
CREATE SCHEMA IF NOT EXISTS tidegate;
CREATE TABLE tidegate.meta (schema INTEGER NOT NULL, checks BIGINT NOT NULL);
INSERT INTO tidegate.meta VALUES (1, 0);
CREATE TABLE tidegate.streams (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    declaration TEXT NOT NULL,
    policy TEXT NOT NULL,
    status TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    holder TEXT,
    until BIGINT NOT NULL,
    version BIGINT NOT NULL,
    published BIGINT NOT NULL,
    releases BIGINT NOT NULL,
    said BIGINT NOT NULL,
    open BIGINT NOT NULL,
    sum BIGINT NOT NULL
);
CREATE TABLE tidegate.states (
    stream BIGINT PRIMARY KEY REFERENCES tidegate.streams (number),
    body BYTEA NOT NULL,
    sum BIGINT NOT NULL
);
CREATE TABLE tidegate.phases (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream BIGINT NOT NULL REFERENCES tidegate.streams (number),
    place BIGINT NOT NULL,
    body BYTEA NOT NULL,
    closed BOOLEAN NOT NULL,
    sum BIGINT NOT NULL
);
CREATE INDEX phases_of_stream ON tidegate.phases (stream, place);
CREATE TABLE tidegate.seen (
    phase BIGINT NOT NULL,
    id BYTEA NOT NULL,
    digest BIGINT NOT NULL,
    PRIMARY KEY (phase, id)
);
CREATE TABLE tidegate.counts (
    phase BIGINT NOT NULL,
    source TEXT NOT NULL,
    counted BIGINT NOT NULL,
    body BYTEA NOT NULL,
    sum BIGINT NOT NULL,
    PRIMARY KEY (phase, source)
);
CREATE TABLE tidegate.records (
    stream BIGINT NOT NULL REFERENCES tidegate.streams (number),
    kind SMALLINT NOT NULL,
    number BIGINT NOT NULL,
    version BIGINT NOT NULL,
    timestamp BIGINT NOT NULL,
    body TEXT NOT NULL,
    sum BIGINT NOT NULL,
    PRIMARY KEY (stream, kind, number)
);
CREATE INDEX records_by_timestamp ON tidegate.records (stream, kind, timestamp, number);
"];

fn foreign(found: impl Into<String>) -> StoreError {
    StoreError::Schema { found: found.into(), known: KNOWN }
}

/// Which schema an SQLite file has: 0 where it is empty. Nothing is changed.
pub(super) fn found(connection: &Connection) -> Result<Result<u32, StoreError>, rusqlite::Error> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let schema: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, schema, objects) {
        (0, 0, 0) => Ok(0),
        (APPLICATION, schema, _) if (1..=KNOWN).contains(&schema) => Ok(schema),
        (APPLICATION, schema, _) => Err(foreign(schema.to_string())),
        _ => Err(foreign("of another program")),
    })
}

/// Brings an SQLite file up to date.
pub(super) fn migrate(connection: &mut Connection) -> Result<Result<(), StoreError>, rusqlite::Error> {
    // Looked at first without changing anything: it may be somebody else's.
    match found(connection)? {
        Ok(KNOWN) => return Ok(Ok(())),
        Ok(_) => {}
        Err(error) => return Ok(Err(error)),
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let schema = match found(&transaction)? {
        Ok(schema) => schema,
        Err(error) => return Ok(Err(error)),
    };
    for step in SQLITE.iter().skip(schema as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", KNOWN)?;
    transaction.commit()?;
    Ok(Ok(()))
}
