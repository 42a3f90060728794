//! [`MemberCache`]: classes of a stream's users in memory, as the store has them.

use std::collections::HashMap;

use tidegate::central::classes::Classes;
use tidegate::central::membership::Membership;

use super::event_buffer::UserKey;
use crate::store::{MemberFilter, Store, StoreError};

/// Rows that are read at once.
const PAGE: usize = 20_000;

/// How often a registry is read anew because rows were deleted meanwhile.
const ATTEMPTS: u32 = 10;

/// Classes of the users of a stream, by keyed hash of their names. It takes about 100 bytes a user.
#[derive(Debug)]
pub(crate) struct MemberCache {
    classes: Classes,
    key: UserKey,
    /// Number of the last change that was read.
    known: u64,
    members: HashMap<u128, Membership>,
}

impl MemberCache {
    pub(crate) fn new(classes: Classes, key: UserKey) -> Self {
        Self { classes, key, known: 0, members: HashMap::new() }
    }

    pub(crate) const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Reads what has changed since the last time. Returns the number of the registry's last change.
    ///
    /// A change applies to timestamps that had not begun when it was committed. So a cache that is refreshed after a
    /// timestamp was opened has all that matters to it.
    pub(crate) fn refresh(&mut self, store: &dyn Store, stream: &str) -> Result<u64, StoreError> {
        let (mut base, mut attempts) = (self.known, 0);
        loop {
            let page = store.members(stream, MemberFilter::After(self.known, PAGE))?;
            if page.forgotten > base {
                // A user may have left, and the row that says so is deleted.
                attempts += 1;
                if attempts > ATTEMPTS {
                    return Err(StoreError::Unavailable(format!("the registry of {stream} changes too fast")));
                }
                self.members.clear();
                (self.known, base) = (0, page.forgotten);
                continue;
            }
            let is_last = page.members.len() < PAGE;
            for member in page.members {
                self.known = member.number;
                self.members.insert(self.key.hash(&member.user), member.membership);
            }
            if is_last {
                return Ok(self.known.max(page.forgotten));
            }
        }
    }

    /// Drops users who have left before a timestamp.
    pub(crate) fn forget(&mut self, timestamp: u64) {
        self.members.retain(|_, membership| !membership.is_over(timestamp));
    }

    /// Returns the class in which a user counts.
    pub(crate) fn class_at(&self, user: u128, timestamp: u64) -> Option<u16> {
        self.members.get(&user)?.class_at(timestamp)
    }

    /// Counts the registered users of each class.
    pub(crate) fn count(&self, timestamp: u64) -> Vec<u64> {
        let mut counts = vec![0; self.classes.len()];
        for class in self.members.values().filter_map(|membership| membership.class_at(timestamp)) {
            counts[usize::from(class)] += 1;
        }
        counts
    }
}
