//! `bucorder`: a randomised bucket for each reading; alone, or to group readings by.
//!
//! Source: Li, Qin, Ren, Gong, Feng, Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS
//! 2025, program doi:10.5281/zenodo.13643225, Algorithm 5.

use std::ops::RangeInclusive;

use tidegate_kernel::primitives::{Bucketing, bucket_probabilities, bucket_range};
use tidegate_kernel::{Epsilon, Randomness};

use super::settings::{ScalarSettings, Shares};
use super::{Arrival, Frame, ScalarError};
use crate::release::Release;

/// Default number of buckets when sums are published.
pub(super) const BUCKETS: u32 = 6;

/// Maximum number of buckets tried by default. More would be best only above an epsilon of about 10, where the error is
/// below a hundredth of the domain anyway.
const MOST_TRIED: u32 = 128;

/// Number of buckets, limited by the points of the range.
#[allow(clippy::cast_possible_truncation)] // no more than the first, a u32
pub(super) fn buckets_of(asked: u32, range: &RangeInclusive<i64>) -> u32 {
    u64::from(asked).min(range.end().abs_diff(*range.start()).saturating_add(1)) as u32
}

/// Share of the variance of a uniform distribution that a randomised label explains: `(p - q)²·(1 - 1/n²)`. The true
/// one of `n` buckets is published with probability `p`, each other with `q`.
pub(super) fn explained(buckets: u32, epsilon: Epsilon) -> Result<f64, ScalarError> {
    let probabilities =
        bucket_probabilities(buckets, epsilon).map_err(tidegate_kernel::primitives::PrimitiveError::from)?;
    let shrink = probabilities.truth - probabilities.other;
    Ok(shrink * shrink * (1.0 - f64::from(buckets).powi(-2)))
}

/// Number of buckets that explains most.
pub(super) fn best(epsilon: Epsilon, range: &RangeInclusive<i64>) -> Result<u32, ScalarError> {
    let mut best = (2, explained(2, epsilon)?);
    for buckets in 3..=buckets_of(MOST_TRIED, range) {
        let explained = explained(buckets, epsilon)?;
        if explained < best.1 {
            break; // it rises to one maximum and falls from there
        }
        best = (buckets, explained);
    }
    Ok(best.0)
}

/// Labels, and the value to publish for each.
#[derive(Debug)]
struct Published {
    bucketing: Bucketing,
    /// In grid units.
    values: Vec<f64>,
    variance: f64,
}

impl Published {
    #[allow(clippy::cast_precision_loss)] // public
    fn new(buckets: u32, epsilon: Epsilon, range: &RangeInclusive<i64>) -> Result<Self, ScalarError> {
        let bucketing = Bucketing::new(range.clone(), buckets, epsilon)?;
        let probabilities = bucketing.probabilities();
        let shrink = probabilities.truth - probabilities.other;
        let centre = f64::midpoint(*range.start() as f64, *range.end() as f64);
        let value = |bucket| {
            let part = bucket_range(range, buckets, bucket)?;
            let middle = f64::midpoint(*part.start() as f64, *part.end() as f64);
            Ok(centre + shrink * (middle - centre))
        };
        let width = range.end().abs_diff(*range.start()) as f64;
        let variance = width * width / 12.0 * (1.0 - explained(buckets, epsilon)?);
        Ok(Self { bucketing, values: (0..buckets).map(value).collect::<Result<_, ScalarError>>()?, variance })
    }
}

/// `bucorder` on labels alone: spends all of epsilon on the label, and publishes the middle of the bucket, shrunk
/// towards the middle of the domain.
#[derive(Debug)]
pub(super) struct Labels {
    full: Published,
    reduced: Option<Published>,
    /// Root mean squared error of a release, relative to the width of the range.
    relative_error: f64,
}

impl Labels {
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        let published = |epsilon| {
            let buckets = match settings.buckets {
                Some(asked) => buckets_of(asked, range),
                None => best(epsilon, range)?,
            };
            Published::new(buckets, epsilon, range)
        };
        let full = published(shares.publication)?;
        let reduced = shares.reduced().map(published).transpose()?;
        let relative_error = (full.variance.sqrt() / range_width(range)).min(1.0);
        Ok(Self { full, reduced, relative_error })
    }

    #[inline]
    pub(super) fn push(
        &self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        let Arrival { permit, reading, sampled } = arrival;
        let published = match &self.reduced {
            Some(reduced) if sampled => reduced,
            _ => &self.full,
        };
        let label = published.bucketing.randomise(permit, reading, random)?.into_value();
        Ok(frame.output.release(reading.timestamp(), published.values[label as usize], published.variance))
    }

    pub(super) const fn relative_error(&self) -> f64 {
        self.relative_error
    }
}

#[allow(clippy::cast_precision_loss)] // public
fn range_width(range: &RangeInclusive<i64>) -> f64 {
    range.end().abs_diff(*range.start()) as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_buckets_is_the_best_of_all() {
        for text in ["0.1", "0.5", "1", "2", "3", "4", "6"] {
            let epsilon = text.parse().unwrap();
            let found = best(epsilon, &(0..=9_999)).unwrap();
            let all = (2..=MOST_TRIED).map(|buckets| explained(buckets, epsilon).unwrap());
            let most = all.fold(0.0, f64::max);
            assert!(explained(found, epsilon).unwrap() >= most, "{text}: {found}");
        }
        assert_eq!(best("1".parse().unwrap(), &(0..=9_999)).unwrap(), 2);
        assert_eq!(best("6".parse().unwrap(), &(0..=1)).unwrap(), 2);
    }
}
