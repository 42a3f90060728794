//! `pba`: personalised budget absorption.
//!
//! Part of each class's budget measures at each timestamp how far the stream has moved from the last release. Of the
//! rest, each timestamp owns an equal share of the class's window; a class offers the shares of the timestamps since it
//! last took part, and pays what it borrowed back before it offers again. A class that has nothing to offer sits out,
//! and holds nobody else up.

use crate::policy::{Absorption, Proposal};

/// What a class proposes to spend on publishing.
pub(super) fn proposal(absorption: &mut Absorption, timestamp: u64, left: u64) -> u64 {
    match absorption.propose(timestamp) {
        Proposal::Spend(amount) => amount.min(left),
        Proposal::Nullify => 0,
    }
}
