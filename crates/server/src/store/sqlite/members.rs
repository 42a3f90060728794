//! Registry of users in an SQLite store.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::super::members::{Member, MemberChanges, MemberFilter, MemberPage, RegistryRow, SWEEP};
use super::super::row::{Columns, StreamRow, bound, unsigned};
use super::super::{Status, StoreError};
use super::fault::Fault;
use super::rows::stream_row;

fn registry(connection: &Connection, stream: &StreamRow) -> Result<RegistryRow, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT changes, users, forgotten, sum FROM registries WHERE stream = ?1")?;
    let mut rows = statement.query([stream.number])?;
    RegistryRow::read(rows.next()?, &stream.name)
}

fn find(connection: &Connection, stream: &StreamRow, user: &str) -> Result<Option<Member>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT name, number, body, sum FROM members WHERE stream = ?1 AND name = ?2")?;
    let mut rows = statement.query(params![stream.number, user])?;
    rows.next()?.map(|row| Member::read(row, &stream.name)).transpose()
}

/// Refuses a step that does not know the last change of the registry.
pub(super) fn fence(connection: &Connection, stream: &StreamRow, known: Option<u64>) -> Result<(), Fault> {
    match known {
        Some(known) if registry(connection, stream)?.changes != known => {
            Err(StoreError::Stale(stream.name.clone()).into())
        }
        _ => Ok(()),
    }
}

/// Deletes users who have left, and of whom nothing matters any more.
fn sweep(connection: &Connection, stream: &StreamRow, registry: &mut RegistryRow, to: u64) -> Result<(), Fault> {
    let sql = "DELETE FROM members WHERE (stream, name) IN (
                   SELECT stream, name FROM members WHERE stream = ?1 AND forgotten_at <= ?2 LIMIT ?3
               ) RETURNING number";
    let mut statement = connection.prepare_cached(sql)?;
    // A number beyond the largest is that of users who are there.
    let mut rows = statement.query(params![stream.number, bound(to).min(i64::MAX - 1), SWEEP])?;
    while let Some(row) = rows.next()? {
        registry.forget(row.number(0)?);
    }
    Ok(())
}

pub(super) fn change(connection: &Connection, name: &str, changes: &MemberChanges<'_>) -> Result<(), Fault> {
    let stream = stream_row(connection, name)?;
    if stream.version != changes.version {
        return Err(StoreError::Stale(name.to_owned()).into());
    }
    if stream.status == Status::Retired {
        return Err(StoreError::Retired(name.to_owned()).into());
    }
    let mut registry = registry(connection, &stream)?;
    sweep(connection, &stream, &mut registry, changes.forgets_to())?;
    let mut found = HashMap::new();
    for (user, _) in changes.requests {
        if !found.contains_key(user)
            && let Some(member) = find(connection, &stream, user)?
        {
            found.insert(user.clone(), member);
        }
    }
    for member in registry.change(name, changes, found)? {
        let columns = member.columns(name, changes.classes)?;
        connection
            .prepare_cached(
                "INSERT INTO members (stream, name, number, body, forgotten_at, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (stream, name) DO UPDATE SET number = excluded.number, body = excluded.body,
                     forgotten_at = excluded.forgotten_at, sum = excluded.sum",
            )?
            .execute(params![
                stream.number,
                member.user,
                columns.number,
                columns.body,
                columns.forgotten_at,
                columns.sum
            ])?;
    }
    let [changes, users, forgotten, sum] = registry.columns(name)?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO registries (stream, changes, users, forgotten, sum) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![stream.number, changes, users, forgotten, sum])?;
    Ok(())
}

pub(super) fn read(connection: &Connection, name: &str, filter: MemberFilter<'_>) -> Result<MemberPage, Fault> {
    let stream = stream_row(connection, name)?;
    let RegistryRow { users, forgotten, .. } = registry(connection, &stream)?;
    let members = match filter {
        MemberFilter::User(user) => find(connection, &stream, user)?.into_iter().collect(),
        MemberFilter::After(number, limit) => {
            let sql = "SELECT name, number, body, sum FROM members WHERE stream = ?1 AND number > ?2
                       ORDER BY number LIMIT ?3";
            let mut statement = connection.prepare_cached(sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![stream.number, bound(number), limit])?;
            let mut members = Vec::new();
            while let Some(row) = rows.next()? {
                members.push(Member::read(row, name)?);
            }
            members
        }
    };
    Ok(MemberPage { users, forgotten, members })
}

/// Verifies all rows of a registry. Returns the number of its changes.
pub(in crate::store) fn verify(connection: &Connection, stream: &StreamRow) -> Result<u64, Fault> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'registries'", [], |row| row.get(0))?;
    if tables == 0 {
        // A file of an earlier version.
        return Ok(0);
    }
    let RegistryRow { changes, users: expected, .. } = registry(connection, stream)?;
    let mut statement = connection.prepare_cached("SELECT name, number, body, sum FROM members WHERE stream = ?1")?;
    let mut rows = statement.query([stream.number])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        Member::read(row, &stream.name)?;
        found += 1;
    }
    if unsigned(found)? == expected {
        return Ok(changes);
    }
    let name = &stream.name;
    Err(StoreError::Damaged(format!("{name} has {expected} registered users, but {found} are there")).into())
}
