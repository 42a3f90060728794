//! Registry of a stream's users and their classes: types, checksums and rules that both stores share.
//!
//! Each user has a row, written only when the user joins, moves or leaves. A counter of the stream's changes numbers
//! the rows, so a reader asks for the rows that changed since it last read. The row of a user who has left is deleted
//! once nothing depends on it any more.

use std::collections::HashMap;

use tidegate::central::classes::Classes;
use tidegate::central::membership::Membership;

use super::StoreError;
use super::row::{Columns, check, decode, encode, signed, sum};

/// Most users in the registry of a stream, including those who have left within the longest window.
pub const MAX_MEMBERS: u64 = 5_000_000;

/// Most requests in one transaction.
pub const MAX_CHANGES: usize = 5_000;

/// Most rows of forgotten users that one transaction deletes.
pub(super) const SWEEP: i64 = 1_000;

/// User of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the user's last change, among those of the stream.
    pub number: u64,
    /// Name of the user.
    pub user: String,
    /// Classes of the user over time.
    pub membership: Membership,
}

/// Changes of users' classes, in order.
#[derive(Clone, Copy, Debug)]
pub struct MemberChanges<'a> {
    /// Version of the stream from which `next` was computed.
    pub version: u64,
    /// First timestamp that has not begun.
    pub next: u64,
    /// Classes of the stream.
    pub classes: &'a Classes,
    /// How many begun timestamps may still take events, besides the last one.
    pub lateness: u64,
    /// Users, and the class that each wants; `None` to leave.
    pub requests: &'a [(String, Option<u16>)],
}

impl MemberChanges<'_> {
    /// Users who have left are forgotten up to this timestamp: earlier ones take no more events.
    pub const fn forgets_to(&self) -> u64 {
        self.next.saturating_sub(self.lateness)
    }
}

/// Which users to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberFilter<'a> {
    /// Users whose last change has a greater number, in the order of these numbers, up to a limit.
    After(u64, usize),
    /// One user.
    User(&'a str),
}

/// Users of a registry, from one consistent read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberPage {
    /// Number of users.
    pub users: u64,
    /// Largest number of a deleted row. Whoever has read up to a smaller number may have missed that a user left.
    pub forgotten: u64,
    /// Users that were asked for.
    pub members: Vec<Member>,
}

/// Row of a stream's registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RegistryRow {
    /// Number of changes.
    pub(super) changes: u64,
    /// Number of users; finds rows that were lost.
    pub(super) users: u64,
    /// Largest number of a deleted row.
    pub(super) forgotten: u64,
}

impl RegistryRow {
    /// Reads a row of changes, users, forgotten and sum, and verifies its checksum. No row is an empty registry.
    pub(super) fn read<C: Columns>(row: Option<&C>, stream: &str) -> Result<Self, C::Fault> {
        let Some(row) = row else { return Ok(Self::default()) };
        let registry = Self { changes: row.number(0)?, users: row.number(1)?, forgotten: row.number(2)? };
        check(row.integer(3)?, registry.sum(stream), || format!("the registry of {stream}"))?;
        Ok(registry)
    }

    /// Returns the columns changes, users, forgotten and sum.
    pub(super) fn columns(&self, stream: &str) -> Result<[i64; 4], StoreError> {
        Ok([signed(self.changes)?, signed(self.users)?, signed(self.forgotten)?, self.sum(stream)])
    }

    fn sum(&self, stream: &str) -> i64 {
        let numbers = [self.changes, self.users, self.forgotten].map(u64::to_le_bytes).concat();
        sum(&[b"registry", stream.as_bytes(), &numbers])
    }

    /// Notes that the row of a user was deleted.
    pub(super) fn forget(&mut self, number: u64) {
        self.users = self.users.saturating_sub(1);
        self.forgotten = self.forgotten.max(number);
    }

    /// Makes changes to the members found, by name. Returns those to write.
    pub(super) fn change(
        &mut self,
        stream: &str,
        changes: &MemberChanges<'_>,
        mut found: HashMap<String, Member>,
    ) -> Result<Vec<Member>, StoreError> {
        let before = self.changes;
        for (user, class) in changes.requests {
            let old = found.get(user).map(|member| member.membership);
            if old.is_none() && class.is_none() {
                continue;
            }
            let unknown = |error: &dyn ToString| StoreError::Failed(error.to_string());
            let membership = old.unwrap_or_default().changed(changes.classes, *class, changes.next);
            let membership = membership.map_err(|error| unknown(&error))?;
            if old == Some(membership) {
                continue;
            }
            if old.is_none() {
                self.users += 1;
                if self.users > MAX_MEMBERS {
                    return Err(StoreError::Full { stream: stream.to_owned(), most: MAX_MEMBERS });
                }
            }
            self.changes += 1;
            found.insert(user.clone(), Member { number: self.changes, user: user.clone(), membership });
        }
        let mut changed: Vec<_> = found.into_values().filter(|member| member.number > before).collect();
        changed.sort_unstable_by_key(|member| member.number);
        Ok(changed)
    }
}

/// Columns of a member's row: number, body, forgotten_at and sum.
pub(super) struct MemberColumns {
    pub(super) number: i64,
    pub(super) body: Vec<u8>,
    pub(super) forgotten_at: i64,
    pub(super) sum: i64,
}

impl Member {
    pub(super) fn columns(&self, stream: &str, classes: &Classes) -> Result<MemberColumns, StoreError> {
        let (number, body) = (signed(self.number)?, encode(&self.membership)?);
        let forgotten_at = self.membership.forgotten_at(classes).map_or(i64::MAX, super::row::bound);
        let sum = member_sum(stream, &self.user, number, &body);
        Ok(MemberColumns { number, body, forgotten_at, sum })
    }

    /// Reads a row of name, number, body and sum, and verifies its checksum.
    pub(super) fn read<C: Columns>(row: &C, stream: &str) -> Result<Self, C::Fault> {
        let (user, number, body) = (row.text(0)?, row.integer(1)?, row.bytes(2)?);
        check(row.integer(3)?, member_sum(stream, &user, number, &body), || format!("a user of stream {stream}"))?;
        Ok(Self { number: row.number(1)?, membership: decode(&body, "membership")?, user })
    }
}

fn member_sum(stream: &str, user: &str, number: i64, body: &[u8]) -> i64 {
    sum(&[b"member", stream.as_bytes(), user.as_bytes(), &number.to_le_bytes(), body])
}
