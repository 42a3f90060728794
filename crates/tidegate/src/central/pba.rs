//! `pba`: personalised budget absorption.
//!
//! Part of each class's budget measures the distance to the last release. Of the rest, each timestamp owns an equal
//! share. A class offers the shares since it last took part, and pays back borrowed ones before it offers again. A
//! class with nothing to offer sits out.
//!
//! Source: Du, Cheng, Chen, Shen, Lin and Xi: Infinite Stream Estimation under Personalized w-Event Privacy, PVLDB
//! 18(6), 2025, doi:10.14778/3725688.3725715, Algorithm 5 (PBA).

use crate::policy::{Absorption, Proposal};

/// Proposed spend of a class.
pub(super) fn proposal(absorption: &mut Absorption, timestamp: u64, left: u64) -> u64 {
    match absorption.propose(timestamp) {
        Proposal::Spend(amount) => amount.min(left),
        Proposal::Nullify => 0,
    }
}
