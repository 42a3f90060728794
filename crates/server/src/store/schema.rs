//! Tables of both stores, as numbered steps.
//!
//! A store of an earlier version is brought up to date when it is opened, all steps or none. A store of a later
//! version and another program's database are refused.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;
use super::sqlite::{Fault, stream_rows, update_stream};

/// Schema version of SQLite files that this program writes.
pub(super) const KNOWN: u32 = 4;

/// The first one of SQLite with acknowledgements.
pub(super) const ACKNOWLEDGED: u32 = 4;

/// Schema version of PostgreSQL databases that this program writes.
pub(super) const POSTGRES: u32 = 6;

/// The first one in which identities are a log.
pub(super) const POSTGRES_LOGGED: u32 = 2;

/// The first one that counts the records that are kept.
pub(super) const POSTGRES_KEPT: u32 = 3;

/// Application id in the header of an SQLite file: "TGST".
pub(super) const APPLICATION: i32 = 0x5447_5354;

/// Words that differ between the two databases.
struct Dialect {
    /// Prefix of table names.
    schema: &'static str,
    /// Type of a key that the database assigns.
    key: &'static str,
    /// The same, where no number may ever be used again.
    unique_key: &'static str,
    integer: &'static str,
    small: &'static str,
    flag: &'static str,
    bytes: &'static str,
    /// Function that finds a text in another.
    find: &'static str,
    /// Options after a table.
    options: &'static str,
}

const SQLITE: Dialect = Dialect {
    schema: "",
    key: "INTEGER PRIMARY KEY",
    unique_key: "INTEGER PRIMARY KEY AUTOINCREMENT",
    integer: "INTEGER",
    small: "INTEGER",
    flag: "INTEGER",
    bytes: "BLOB",
    find: "instr",
    options: " STRICT",
};

const POSTGRES_DIALECT: Dialect = Dialect {
    schema: "tidegate.",
    key: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    unique_key: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    integer: "BIGINT",
    small: "SMALLINT",
    flag: "BOOLEAN",
    bytes: "BYTEA",
    find: "strpos",
    options: "",
};

/// Tables that both stores have.
const COMMON: &str = "
CREATE TABLE {schema}streams (
    number {key},
    name TEXT NOT NULL UNIQUE,
    declaration TEXT NOT NULL,
    policy TEXT NOT NULL,
    status TEXT NOT NULL,
    epoch {integer} NOT NULL,
    holder TEXT,
    until {integer} NOT NULL,
    version {integer} NOT NULL,
    published {integer} NOT NULL,
    releases {integer} NOT NULL,
    said {integer} NOT NULL,
    open {integer} NOT NULL,
    sum {integer} NOT NULL
){options};
CREATE TABLE {schema}states (
    stream {integer} PRIMARY KEY REFERENCES {schema}streams (number),
    body {bytes} NOT NULL,
    sum {integer} NOT NULL
){options};
CREATE TABLE {schema}phases (
    number {unique_key},
    stream {integer} NOT NULL REFERENCES {schema}streams (number),
    place {integer} NOT NULL,
    body {bytes} NOT NULL,
    closed {flag} NOT NULL,
    sum {integer} NOT NULL
){options};
CREATE INDEX phases_of_stream ON {schema}phases (stream, place);
CREATE TABLE {schema}records (
    stream {integer} NOT NULL REFERENCES {schema}streams (number),
    kind {small} NOT NULL,
    number {integer} NOT NULL,
    version {integer} NOT NULL,
    timestamp {integer} NOT NULL,
    body TEXT NOT NULL,
    sum {integer} NOT NULL,
    PRIMARY KEY (stream, kind, number)
){options};
CREATE INDEX records_by_timestamp ON {schema}records (stream, kind, timestamp, number);
";

/// Own tables of SQLite: identities are a log, a row for each transaction.
const SQLITE_OWN: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES ('checks', 0);
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
";

/// Own tables of PostgreSQL in version 1: a row for each identity.
const POSTGRES_OWN: &str = "
CREATE SCHEMA IF NOT EXISTS tidegate;
CREATE TABLE tidegate.meta (schema INTEGER NOT NULL, checks BIGINT NOT NULL);
INSERT INTO tidegate.meta VALUES (1, 0);
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
";

/// Version 2: identities are a log, as in SQLite. Its rows are random bytes, so compressing them is useless.
const POSTGRES_LOG: &str = "
CREATE TABLE tidegate.log (
    phase BIGINT NOT NULL,
    number BIGINT NOT NULL,
    body BYTEA NOT NULL,
    sum BIGINT NOT NULL,
    PRIMARY KEY (phase, number)
);
ALTER TABLE tidegate.log ALTER COLUMN body SET STORAGE EXTERNAL;
UPDATE tidegate.meta SET schema = 2;
";

/// Numbers of records are counted apart from the records that are kept, since old ones can be deleted. The store then
/// computes the rows' checksums anew. The new name of a column stops services of earlier versions, which would write
/// other checksums.
const KEPT: &str = "
ALTER TABLE {schema}streams RENAME COLUMN said TO answers;
ALTER TABLE {schema}streams ADD COLUMN releases_kept {integer} NOT NULL DEFAULT 0;
ALTER TABLE {schema}streams ADD COLUMN answers_kept {integer} NOT NULL DEFAULT 0;
";

/// Registries of users and their classes: version 3 of SQLite, and 4 of PostgreSQL.
const MEMBERS: &str = "
CREATE TABLE {schema}registries (
    stream {integer} PRIMARY KEY REFERENCES {schema}streams (number),
    changes {integer} NOT NULL,
    users {integer} NOT NULL,
    forgotten {integer} NOT NULL,
    sum {integer} NOT NULL
){options};
CREATE TABLE {schema}members (
    stream {integer} NOT NULL REFERENCES {schema}streams (number),
    name TEXT NOT NULL,
    number {integer} NOT NULL,
    body {bytes} NOT NULL,
    forgotten_at {integer} NOT NULL,
    sum {integer} NOT NULL,
    PRIMARY KEY (stream, name)
){options};
CREATE INDEX members_by_change ON {schema}members (stream, number);
CREATE INDEX members_by_end ON {schema}members (stream, forgotten_at);
";

/// Acknowledgements of alarms, and an index of monitors' events: version 4 of SQLite, and 5 of PostgreSQL.
const ACKNOWLEDGEMENTS: &str = "
CREATE TABLE {schema}acknowledgements (
    stream {integer} NOT NULL REFERENCES {schema}streams (number),
    number {integer} NOT NULL,
    holder TEXT NOT NULL,
    at {integer} NOT NULL,
    sum {integer} NOT NULL,
    PRIMARY KEY (stream, number)
){options};
CREATE INDEX events_of_monitors ON {schema}records (stream, number)
WHERE kind = 1 AND {find}(body, ',\"monitor\":\"') > 0;
";

/// Control plane of a cluster, version 6 of PostgreSQL: partitions of the log with their readers, routes of questions
/// through them, and the processes that live.
const CLUSTER: &str = "
CREATE TABLE tidegate.partitions (
    number INTEGER PRIMARY KEY,
    epoch BIGINT NOT NULL,
    holder TEXT,
    until BIGINT NOT NULL,
    counted BIGINT NOT NULL,
    kept BIGINT NOT NULL,
    sum BIGINT NOT NULL
);
CREATE TABLE tidegate.routes (
    phase BIGINT PRIMARY KEY,
    partitions INTEGER NOT NULL,
    ends BIGINT[],
    total BYTEA,
    sum BIGINT
);
CREATE TABLE tidegate.processes (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    started BIGINT NOT NULL,
    until BIGINT NOT NULL,
    figures TEXT NOT NULL
);
UPDATE tidegate.meta SET schema = 6;
";

impl Dialect {
    /// Writes statements in this dialect.
    fn write(&self, text: &str) -> String {
        [
            ("{schema}", self.schema),
            ("{key}", self.key),
            ("{unique_key}", self.unique_key),
            ("{integer}", self.integer),
            ("{small}", self.small),
            ("{flag}", self.flag),
            ("{bytes}", self.bytes),
            ("{find}", self.find),
            ("{options}", self.options),
        ]
        .iter()
        .fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
    }
}

/// Returns the steps from a version on, for SQLite.
fn sqlite_steps(from: u32) -> impl Iterator<Item = String> {
    let own = [KEPT, MEMBERS, ACKNOWLEDGEMENTS].map(|step| SQLITE.write(step));
    std::iter::once(SQLITE.write(COMMON) + SQLITE_OWN).chain(own).skip(from as usize)
}

/// Returns the steps from a version on, for PostgreSQL.
pub(super) fn postgres_steps(from: u32) -> impl Iterator<Item = String> {
    let kept = POSTGRES_DIALECT.write(KEPT) + "UPDATE tidegate.meta SET schema = 3;";
    let members = POSTGRES_DIALECT.write(MEMBERS) + "UPDATE tidegate.meta SET schema = 4;";
    let acknowledgements = POSTGRES_DIALECT.write(ACKNOWLEDGEMENTS) + "UPDATE tidegate.meta SET schema = 5;";
    let first = POSTGRES_OWN.to_owned() + &POSTGRES_DIALECT.write(COMMON);
    let steps = [first, POSTGRES_LOG.to_owned(), kept, members, acknowledgements, CLUSTER.to_owned()];
    steps.into_iter().skip(from as usize)
}

fn foreign(found: impl Into<String>) -> StoreError {
    StoreError::Schema { found: found.into(), known: KNOWN }
}

/// Reads the schema version of an SQLite file, which is 0 for an empty one. Changes nothing.
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
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    // Read before any change: the file may belong to another program.
    if found(connection)?? == KNOWN {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let schema = found(&transaction)??;
    let first_rows = if schema == 1 { stream_rows(&transaction, schema)? } else { Vec::new() };
    for step in sqlite_steps(schema) {
        transaction.execute_batch(&step)?;
    }
    first_rows.iter().try_for_each(|row| update_stream(&transaction, row))?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", KNOWN)?;
    transaction.commit()?;
    Ok(())
}
