//! [`Points`]: noise on single readings.

use std::ops::RangeInclusive;

use tidegate_kernel::primitives::Summing;
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::settings::{ScalarSettings, Shares};
use super::{Arrival, ScalarError};

/// Adds noise to single readings, and to sums.
///
/// A reading sampled for the choice of a bound has less budget left.
#[derive(Debug)]
pub(super) struct Points {
    full: Summing,
    reduced: Option<Summing>,
    variance: f64,
    reduced_variance: f64,
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
        Ok(Self { full, reduced, variance, reduced_variance })
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
