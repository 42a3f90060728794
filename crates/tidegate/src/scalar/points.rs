//! [`Points`]: noise on single readings.

use std::ops::RangeInclusive;

use tidegate_kernel::noise::NoiseScale;
use tidegate_kernel::primitives::Summing;
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::output::Output;
use super::settings::{ScalarSettings, Shares};
use super::{Arrival, ScalarError};
use crate::release::Release;

/// Adds noise to single readings, and to sums.
///
/// A reading sampled for the choice of a bound has less budget left.
#[derive(Debug)]
pub(super) struct Points {
    full: Summing,
    reduced: Option<Summing>,
    variance: f64,
    reduced_variance: f64,
    /// Variances to state of readings.
    stated: f64,
    reduced_stated: f64,
}

/// Standard normal quantile of a 95 % interval.
pub(super) const NORMAL_95: f64 = 1.96;

/// Variance to state of a noisy reading, in grid units: that of the noise, if an interval of 95 % holds 92 % of
/// it. Small noise lies on few points, of which the interval may end just before the last that it needs; it is then as
/// wide as to reach that.
pub(super) fn stated_variance(scale: NoiseScale) -> f64 {
    let (variance, q) = (scale.laplace_variance(), (-1.0 / scale.as_f64()).exp());
    let farthest = (NORMAL_95 * variance.sqrt()).floor();
    let beyond = 2.0 * q.powf(farthest + 1.0) / (1.0 + q);
    if beyond <= 0.08 { variance } else { ((farthest + 1.0) / NORMAL_95).powi(2) * (1.0 + f64::EPSILON) }
}

impl Points {
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        let full = Summing::new(range.clone(), settings.protects, shares.publication)?;
        let reduced = match shares.reduced() {
            Some(amount) => Some(Summing::new(range, settings.protects, amount)?),
            None => None,
        };
        let variance = full.scale().laplace_variance();
        let reduced_variance = reduced.map_or(variance, |summing| summing.scale().laplace_variance());
        let stated = stated_variance(full.scale());
        let reduced_stated = reduced.map_or(stated, |summing| stated_variance(summing.scale()));
        Ok(Self { full, reduced, variance, reduced_variance, stated, reduced_stated })
    }

    /// Noisy reading, and its noise variance, in grid units.
    #[inline]
    pub(super) fn publish(
        &self,
        Arrival { permit, reading, sampled }: Arrival<'_>,
        random: &mut impl Randomness,
    ) -> Result<(i64, f64), ScalarError> {
        let (summing, variance) = match &self.reduced {
            Some(reduced) if sampled => (reduced, self.reduced_variance),
            _ => (&self.full, self.variance),
        };
        Ok((summing.publish([(permit, reading)], random)?.into_value(), variance))
    }

    /// Release of a noisy reading.
    #[inline]
    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn release(
        &self,
        arrival: Arrival<'_>,
        output: &Output,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        let timestamp = arrival.reading.timestamp();
        let stated = if arrival.sampled { self.reduced_stated } else { self.stated };
        let (noisy, _) = self.publish(arrival, random)?;
        Ok(output.release(timestamp, noisy as f64, stated))
    }

    /// Noisy sum of readings, and its noise variance, in grid units.
    #[inline]
    pub(super) fn publish_sum<'a>(
        &self,
        members: impl Iterator<Item = (Permit, &'a Sealed<i64>)>,
        random: &mut impl Randomness,
    ) -> Result<(i64, f64), ScalarError> {
        Ok((self.full.publish(members, random)?.into_value(), self.variance))
    }

    /// Scale of the noise.
    pub(super) fn scale(&self) -> f64 {
        self.full.scale().as_f64()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_kernel::{Epsilon, UNITS_PER_EPSILON};

    use super::*;

    /// Of noise that is 0, 1 or -1 most of the time, the interval of 1.96 deviations may hold 81 % only.
    #[test]
    fn stated_intervals_hold_small_noise() -> Result<(), Box<dyn std::error::Error>> {
        for hundredths in 5..800_u64 {
            let epsilon = Epsilon::from_units(hundredths * (UNITS_PER_EPSILON / 100))?;
            let scale = NoiseScale::calibrated(1, epsilon)?;
            let stated = stated_variance(scale);
            let (q, reach) = ((-1.0 / scale.as_f64()).exp(), (NORMAL_95 * stated.sqrt()).floor());
            let covered = 1.0 - 2.0 * q.powf(reach + 1.0) / (1.0 + q);
            assert!(covered >= 0.92, "epsilon {epsilon}: {covered}");
            let needed = NORMAL_95 * stated.sqrt() - reach < 1e-9;
            assert!(needed || stated <= scale.laplace_variance(), "epsilon {epsilon}: {stated}");
        }
        Ok(())
    }
}
