//! Registry of users in a PostgreSQL store.

use std::collections::HashMap;

use super::super::members::{Member, MemberChanges, MemberFilter, MemberPage, RegistryRow, SWEEP};
use super::super::row::{Columns, StreamRow, bound};
use super::super::{Status, StoreError};
use super::fault::Fault;
use super::pool::Connection;
use super::rows::{find_stream_for_update, stream_row};

fn registry(connection: &mut Connection, stream: &StreamRow) -> Result<RegistryRow, Fault> {
    let sql = "SELECT changes, users, forgotten, sum FROM tidegate.registries WHERE stream = $1";
    let rows = connection.query(sql, &[&stream.number])?;
    RegistryRow::read(rows.first(), &stream.name)
}

fn find(connection: &mut Connection, stream: &StreamRow, users: &[&str]) -> Result<Vec<Member>, Fault> {
    let sql = "SELECT name, number, body, sum FROM tidegate.members WHERE stream = $1 AND name = ANY($2)";
    let rows = connection.query(sql, &[&stream.number, &users])?;
    rows.iter().map(|row| Member::read(row, &stream.name)).collect()
}

/// Refuses a step that does not know the last change of the registry.
pub(super) fn fence(connection: &mut Connection, stream: &StreamRow, known: Option<u64>) -> Result<(), Fault> {
    match known {
        Some(known) if registry(connection, stream)?.changes != known => {
            Err(StoreError::Stale(stream.name.clone()).into())
        }
        _ => Ok(()),
    }
}

/// Deletes users who have left, and of whom nothing matters any more.
fn sweep(connection: &mut Connection, stream: &StreamRow, registry: &mut RegistryRow, to: u64) -> Result<(), Fault> {
    let sql = "DELETE FROM tidegate.members WHERE stream = $1 AND name IN (
                   SELECT name FROM tidegate.members WHERE stream = $1 AND forgotten_at <= $2 LIMIT $3
               ) RETURNING number";
    // A number beyond the largest is that of users who are there.
    let rows = connection.query(sql, &[&stream.number, &bound(to).min(i64::MAX - 1), &SWEEP])?;
    for row in &rows {
        registry.forget(row.number(0)?);
    }
    Ok(())
}

/// Changes classes under the lock of the stream's row, which every advance of the stream takes too.
pub(super) fn change(connection: &mut Connection, name: &str, changes: &MemberChanges<'_>) -> Result<(), Fault> {
    let stream = find_stream_for_update(connection, name)?;
    if stream.version != changes.version {
        return Err(StoreError::Stale(name.to_owned()).into());
    }
    if stream.status == Status::Retired {
        return Err(StoreError::Retired(name.to_owned()).into());
    }
    let mut registry = registry(connection, &stream)?;
    sweep(connection, &stream, &mut registry, changes.forgets_to())?;
    let users: Vec<&str> = changes.requests.iter().map(|(user, _)| user.as_str()).collect();
    let found = find(connection, &stream, &users)?;
    let found: HashMap<_, _> = found.into_iter().map(|member| (member.user.clone(), member)).collect();
    let changed = registry.change(name, changes, found)?;
    let (mut numbers, mut bodies, mut ends, mut sums) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for member in &changed {
        let columns = member.columns(name, changes.classes)?;
        numbers.push(columns.number);
        bodies.push(columns.body);
        ends.push(columns.forgotten_at);
        sums.push(columns.sum);
    }
    let names: Vec<&str> = changed.iter().map(|member| member.user.as_str()).collect();
    connection.execute(
        "INSERT INTO tidegate.members (stream, name, number, body, forgotten_at, sum)
         SELECT $1, name, number, body, forgotten_at, sum
         FROM unnest($2::text[], $3::int8[], $4::bytea[], $5::int8[], $6::int8[])
             AS new (name, number, body, forgotten_at, sum)
         ON CONFLICT (stream, name) DO UPDATE SET number = excluded.number, body = excluded.body,
             forgotten_at = excluded.forgotten_at, sum = excluded.sum",
        &[&stream.number, &names, &numbers, &bodies, &ends, &sums],
    )?;
    let [changes, users, forgotten, sum] = registry.columns(name)?;
    connection.execute(
        "INSERT INTO tidegate.registries (stream, changes, users, forgotten, sum) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (stream) DO UPDATE SET changes = excluded.changes, users = excluded.users,
             forgotten = excluded.forgotten, sum = excluded.sum",
        &[&stream.number, &changes, &users, &forgotten, &sum],
    )?;
    Ok(())
}

pub(super) fn read(connection: &mut Connection, name: &str, filter: MemberFilter<'_>) -> Result<MemberPage, Fault> {
    let stream = stream_row(connection, name)?;
    let RegistryRow { users, forgotten, .. } = registry(connection, &stream)?;
    let members = match filter {
        MemberFilter::User(user) => find(connection, &stream, &[user])?,
        MemberFilter::After(number, limit) => {
            let sql = "SELECT name, number, body, sum FROM tidegate.members WHERE stream = $1 AND number > $2
                       ORDER BY number LIMIT $3";
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = connection.query(sql, &[&stream.number, &bound(number), &limit])?;
            rows.iter().map(|row| Member::read(row, name)).collect::<Result<_, Fault>>()?
        }
    };
    Ok(MemberPage { users, forgotten, members })
}
