//! [`Output`]: converts grid units to releases.

use tidegate_kernel::{Epsilon, Grid, Randomness};

use super::settings::ScalarSettings;
use crate::release::{Freshness, Number, Release, Spent};

/// Converts grid units to releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    low: f64,
    high: f64,
    step: f64,
    within_domain: bool,
    epsilon: Epsilon,
    /// Whether any randomness since creation or loading was seeded.
    seeded: bool,
}

impl Output {
    pub(super) fn new(settings: &ScalarSettings, within_domain: bool) -> Self {
        let grid: &Grid = &settings.grid;
        let (low, high, step) = (grid.low(), grid.high(), grid.step());
        Self { low, high, step, within_domain, epsilon: settings.epsilon, seeded: false }
    }

    /// Records whether the randomness is seeded.
    #[inline]
    pub(super) fn note(&mut self, random: &impl Randomness) {
        self.seeded |= !random.provenance().is_private();
    }

    /// Release of a value and its variance in grid units.
    #[inline]
    pub(super) fn release(&self, timestamp: u64, steps: f64, variance: f64) -> Release {
        self.of_value(timestamp, self.low + steps * self.step, variance * self.step * self.step)
    }

    /// Release of a value and its variance in the unit of the stream.
    #[inline]
    pub(super) fn of_value(&self, timestamp: u64, value: f64, variance: f64) -> Release {
        let value = if self.within_domain { value.clamp(self.low, self.high) } else { value };
        Release {
            timestamp,
            statistic: Number { value, variance }.into(),
            freshness: Freshness::Fresh,
            spent: Spent::Everyone(self.epsilon),
            reports: 1,
            seeded: self.seeded,
            why: None,
        }
    }

    /// Converts grid units to a value.
    pub(super) fn value_of(&self, steps: f64) -> f64 {
        self.low + steps * self.step
    }

    pub(super) const fn domain(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    pub(super) const fn step(&self) -> f64 {
        self.step
    }
}
