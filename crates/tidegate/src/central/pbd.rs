//! `pbd`: personalised budget distribution.
//!
//! Part of each class's budget measures at each timestamp how far the stream has moved from the last release. Of the
//! rest, each class offers half of what its own window has left; what a publication does not use of the offer stays in
//! the class's ledger.

/// What a class proposes to spend on publishing, of what its window has left.
pub(super) const fn proposal(left: u64) -> u64 {
    left / 2
}
