//! Seasonal patterns of any shape: one level for each [`Phase`] of a period.

use serde::{Deserialize, Serialize};

/// Phase of a season: posterior variance and time of its last observation, if any. Shared by all numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Phase(Option<(f64, u64)>);

impl Phase {
    pub(super) const fn unseen() -> Self {
        Self(None)
    }

    pub(super) const fn seen(variance: f64, time: u64) -> Self {
        Self(Some((variance, time)))
    }

    pub(super) const fn is_seen(&self) -> bool {
        self.0.is_some()
    }

    /// Variance at a time, after one step for each period since. `None` before the first observation.
    pub(super) fn variance_at(&self, time: u64, period: usize, step: f64) -> Option<f64> {
        let after = |(variance, seen): (f64, u64)| {
            #[allow(clippy::cast_precision_loss)] // a number of periods
            let periods = time.saturating_sub(seen).div_ceil(period as u64) as f64;
            variance + periods * step
        };
        self.0.map(after)
    }

    /// Whether the state is valid at a time.
    pub(super) fn fits(&self, time: u64) -> bool {
        self.0.is_none_or(|(variance, seen)| variance.is_finite() && variance >= 0.0 && seen <= time)
    }
}

#[allow(clippy::cast_possible_truncation)] // less than the period
pub(super) const fn phase_at(time: u64, period: usize) -> usize {
    (time % period as u64) as usize
}

/// Expected mean squared error of a season observed every `period` timestamps. `step` is the variance of each phase's
/// step over one period. Phases never observed cost `apart`, the mean squared distance between phases.
#[allow(clippy::cast_precision_loss)] // a number of phases or of timestamps
pub(super) fn seasonal_error(phases: usize, period: u64, step: f64, variance: f64, apart: f64) -> f64 {
    let period = period.max(1);
    let both = |part: &u64| (phases as u64).is_multiple_of(*part) && period.is_multiple_of(*part);
    // One phase in `one_in` is observed, each after `periods` periods.
    let one_in = (1..=period.min(phases as u64)).rev().find(both).unwrap_or(1);
    let periods = (period / one_in) as f64;
    let step = step * periods;
    // Steady-state variance of a random walk, before and after an observation.
    let before = f64::midpoint(step, (step * step + 4.0 * step * variance).sqrt());
    let after = before * variance / (before + variance).max(f64::MIN_POSITIVE);
    let known = after + (1.0 - 1.0 / periods) * (before - after) / 2.0;
    known + (1.0 - 1.0 / one_in as f64) * apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_never_observed_cost_what_they_are_apart() {
        let error = |period: u64| seasonal_error(7, period, 0.0, 1.0, 7.0);
        // Without steps, observed phases are known exactly in the end. Periods that are multiples of 7 observe one
        // phase only.
        assert!([1, 2, 3, 6, 8, 13].into_iter().all(|period| error(period) == 0.0));
        assert!([7, 14, 49].into_iter().all(|period| (error(period) - 6.0).abs() < 1e-12));
        // 24 and 18 have the common divisor 6.
        assert!((seasonal_error(24, 18, 0.0, 1.0, 6.0) - 5.0).abs() < 1e-12);
        // With steps, frequent observations help.
        assert!(seasonal_error(7, 1, 1.0, 1.0, 0.0) < seasonal_error(7, 2, 1.0, 1.0, 0.0));
        // Observing one phase every week equals observing it as one of seven.
        assert!((seasonal_error(7, 7, 1.0, 1.0, 0.0) - seasonal_error(7, 1, 1.0, 1.0, 0.0)).abs() < 1e-12);
    }

    #[test]
    fn a_place_takes_a_step_for_each_period_that_has_begun() {
        let place = Phase::seen(0.5, 10);
        assert_eq!([10, 11, 17, 18].map(|time| place.variance_at(time, 7, 1.0)), [0.5, 1.5, 1.5, 2.5].map(Some));
        assert_eq!(Phase::unseen().variance_at(10, 7, 1.0), None);
    }
}
