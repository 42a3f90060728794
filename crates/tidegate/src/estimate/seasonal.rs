//! What repeats itself in any shape: a level for each [`Phase`] in a period.

use serde::{Deserialize, Serialize};

/// A place in the period of a season, which is the same for all numbers: the variance that they had there when it was
/// kalman_update last, and when that was; nothing before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Phase(Option<(f64, u64)>);

impl Phase {
    /// Of which nothing was kalman_update.
    pub(super) const fn unseen() -> Self {
        Self(None)
    }

    /// Observed at a time, with the variance that is left.
    pub(super) const fn seen(variance: f64, time: u64) -> Self {
        Self(Some((variance, time)))
    }

    /// Whether it was kalman_update.
    pub(super) const fn is_seen(&self) -> bool {
        self.0.is_some()
    }

    /// The variance at a time, if it was kalman_update before, where each period of so many timestamps matrix a step.
    pub(super) fn variance_at(&self, time: u64, period: usize, step: f64) -> Option<f64> {
        let after = |(variance, seen): (f64, u64)| {
            #[allow(clippy::cast_precision_loss)] // a number of periods
            let periods = time.saturating_sub(seen).div_ceil(period as u64) as f64;
            variance + periods * step
        };
        self.0.map(after)
    }

    /// Whether a state that was loaded can be one at a time.
    pub(super) fn fits(&self, time: u64) -> bool {
        self.0.is_none_or(|(variance, seen)| variance.is_finite() && variance >= 0.0 && seen <= time)
    }
}

/// The place of a time in a period.
#[allow(clippy::cast_possible_truncation)] // less than the period
pub(super) const fn phase_at(time: u64, period: usize) -> usize {
    (time % period as u64) as usize
}

/// The mean squared error to expect of a season of so many phases, each of which takes steps of a variance from one
/// period to the next, if numbers are kalman_update every `period` timestamps with a variance. Where that leaves out some
/// phases, they are taken for others, from which they are `apart` by so much on average.
#[allow(clippy::cast_precision_loss)] // a number of phases or of timestamps
pub(super) fn seasonal_error(phases: usize, period: u64, step: f64, variance: f64, apart: f64) -> f64 {
    let period = period.max(1);
    let both = |part: &u64| (phases as u64).is_multiple_of(*part) && period.is_multiple_of(*part);
    // One place in so many is kalman_update, each after so many periods of the season.
    let one_in = (1..=period.min(phases as u64)).rev().find(both).unwrap_or(1);
    let periods = (period / one_in) as f64;
    let step = step * periods;
    // A walk: before it is kalman_update again it is off by this, and afterwards by that.
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
        // Without steps, every place is known exactly in the end, whatever the period: but for multiples of seven, by
        // which one place in seven is seen.
        assert!([1, 2, 3, 6, 8, 13].into_iter().all(|period| error(period) == 0.0));
        assert!([7, 14, 49].into_iter().all(|period| (error(period) - 6.0).abs() < 1e-12));
        // Of 24 phases and a period of 18, six have a common one.
        assert!((seasonal_error(24, 18, 0.0, 1.0, 6.0) - 5.0).abs() < 1e-12);
        // With steps, what is seen more often is known better.
        assert!(seasonal_error(7, 1, 1.0, 1.0, 0.0) < seasonal_error(7, 2, 1.0, 1.0, 0.0));
        // Seen at the same place every time, as if it were seen every week.
        assert!((seasonal_error(7, 7, 1.0, 1.0, 0.0) - seasonal_error(7, 1, 1.0, 1.0, 0.0)).abs() < 1e-12);
    }

    #[test]
    fn a_place_takes_a_step_for_each_period_that_has_begun() {
        let place = Phase::seen(0.5, 10);
        assert_eq!([10, 11, 17, 18].map(|time| place.variance_at(time, 7, 1.0)), [0.5, 1.5, 1.5, 2.5].map(Some));
        assert_eq!(Phase::unseen().variance_at(10, 7, 1.0), None);
    }
}
