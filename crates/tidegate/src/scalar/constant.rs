//! `constant`: the middle of the domain; a baseline that spends nothing.

use super::settings::ScalarSettings;
use crate::release::{Freshness, Number, Release, Spent};

/// Releases the middle of the domain, with the variance of a uniform value.
pub(super) fn release(timestamp: u64, settings: &ScalarSettings) -> Release {
    let (low, high) = (settings.grid.low(), settings.grid.high());
    let width = high - low;
    Release {
        timestamp,
        statistic: Number { value: f64::midpoint(low, high), variance: width * width / 12.0 }.into(),
        freshness: Freshness::Approximated,
        spent: Spent::Nothing,
        reports: 0,
        // No randomness.
        seeded: false,
        why: None,
    }
}
