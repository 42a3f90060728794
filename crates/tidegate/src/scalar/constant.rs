//! `constant`: the middle of the domain, whatever the readings are. Whatever spends budget should do better.

use super::settings::Settings;
use crate::release::{Freshness, Number, Release, Spent};

/// The middle of the domain; its variance is that of a value that is spread evenly over the domain.
pub(super) fn release(timestamp: u64, settings: &Settings) -> Release {
    let (low, high) = (settings.grid.low(), settings.grid.high());
    let width = high - low;
    Release {
        timestamp,
        statistic: Number { value: f64::midpoint(low, high), variance: width * width / 12.0 }.into(),
        freshness: Freshness::Approximated,
        spent: Spent::Nothing,
        reports: 0,
        // It uses no randomness.
        seeded: false,
    }
}
