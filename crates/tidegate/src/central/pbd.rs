//! `pbd`: personalised budget distribution.
//!
//! Part of each class's budget measures the distance to the last release. Each class offers half of what its window has
//! left of the rest; the unused part of an offer stays in its ledger.
//!
//! Source: Du, Cheng, Chen, Shen, Lin and Xi: Infinite Stream Estimation under Personalized w-Event Privacy, PVLDB
//! 18(6), 2025, doi:10.14778/3725688.3725715, Algorithm 4 (PBD).

/// Proposed spend of a class.
pub(super) const fn proposal(left: u64) -> u64 {
    left / 2
}
