//! `pbd`: personalised budget distribution.
//!
//! Part of each class's budget measures the distance to the last release. Each class offers half of what its window has
//! left of the rest; the unused part of an offer stays in its ledger.

/// Proposed spend of a class.
pub(super) const fn proposal(left: u64) -> u64 {
    left / 2
}
