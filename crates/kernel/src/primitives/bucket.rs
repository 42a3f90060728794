//! Randomised response on the bucket of a reading.

use std::ops::RangeInclusive;

use super::reading::Clamp;
use super::{Noised, PrimitiveError, paid, paid_exactly};
use crate::epsilon::Epsilon;
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::randomised_response::{RandomisedResponse, ResponseError};
use crate::sealed::Sealed;

/// The answer probabilities of a [`randomised_bucket`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketProbabilities {
    /// The probability of the true bucket.
    pub truth: f64,
    /// The probability of each other bucket.
    pub other: f64,
}

/// The answer probabilities of [`randomised_bucket`]. Their ratio is e^epsilon to within a billionth.
///
/// # Errors
/// Fewer than two buckets, more than [`MAX_DOMAIN`](crate::MAX_DOMAIN), or an epsilon above
/// [`MAX_RESPONSE_EPSILON`](crate::MAX_RESPONSE_EPSILON).
pub fn bucket_probabilities(buckets: u32, epsilon: Epsilon) -> Result<BucketProbabilities, ResponseError> {
    let response = RandomisedResponse::new(buckets, epsilon)?;
    Ok(BucketProbabilities { truth: response.probability_of_truth(), other: response.probability_of_other() })
}

/// Publishes the bucket of a reading by randomised response. The reading is clamped to a public range, which is divided
/// into `buckets` equal parts. The answer is the true bucket with probability `e^epsilon / (e^epsilon + buckets - 1)`,
/// otherwise one of the *others* with equal probability. [`bucket_range`] gives the range of a bucket.
///
/// # Guarantee
/// Any change of the reading is protected at a loss of at most the permit's epsilon, to within a billionth
/// ([proof](crate::proofs::randomised_bucket)). [`bucket_probabilities`] gives the accuracy.
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit does
/// not match the reading; [`PrimitiveError::Response`] for a number of buckets or an epsilon that
/// [`bucket_probabilities`] rejects; [`PrimitiveError::Range`] for a range of fewer than two points;
/// [`PrimitiveError::Buckets`] for more buckets than points.
///
/// ```
/// use tidegate_kernel::primitives::{bucket_probabilities, bucket_range, randomised_bucket};
/// use tidegate_kernel::{Grid, Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("2".parse()?, Window::EVENT);
/// let grid = Grid::new(0.0, 59.0, 1.0)?;
/// let permit = ledger.spend(0, "2".parse()?)?;
/// let reading = grid.seal(ledger.account(), 0, 33.0)?;
/// let noisy = randomised_bucket(permit, &reading, grid.range(), 6, &mut SystemRandom::new()?)?;
/// assert!(*noisy.value() < 6);
/// assert_eq!(bucket_range(&grid.range(), 6, 3)?, 30..=39);
/// let probabilities = bucket_probabilities(6, noisy.epsilon())?;
/// assert!((probabilities.truth - 0.5964).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn randomised_bucket(
    permit: Permit,
    reading: &Sealed<i64>,
    range: RangeInclusive<i64>,
    buckets: u32,
    random: &mut impl Randomness,
) -> Result<Noised<u32>, PrimitiveError> {
    let epsilon = paid(&permit, reading)?;
    Bucketing::new(range, buckets, epsilon)?.randomise(permit, reading, random)
}

/// A [`randomised_bucket`] prepared for many readings.
///
/// # Guarantee
/// That of [`randomised_bucket`], for each reading.
#[derive(Clone, Copy, Debug)]
pub struct Bucketing {
    clamp: Clamp,
    points: u128,
    buckets: u32,
    epsilon: Epsilon,
    response: RandomisedResponse,
}

impl Bucketing {
    /// Divides a range into `buckets` equal parts, for permits of `epsilon`.
    ///
    /// # Errors
    /// [`PrimitiveError::Response`], [`PrimitiveError::Range`] and [`PrimitiveError::Buckets`], as for
    /// [`randomised_bucket`].
    pub fn new(range: RangeInclusive<i64>, buckets: u32, epsilon: Epsilon) -> Result<Self, PrimitiveError> {
        let response = RandomisedResponse::new(buckets, epsilon)?;
        let (clamp, points) = points(&range, buckets)?;
        Ok(Self { clamp, points, buckets, epsilon, response })
    }

    /// The answer probabilities.
    pub fn probabilities(&self) -> BucketProbabilities {
        let response = &self.response;
        BucketProbabilities { truth: response.probability_of_truth(), other: response.probability_of_other() }
    }

    /// Publishes the bucket of a reading by randomised response.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`], [`PrimitiveError::ClassPermit`] and
    /// [`PrimitiveError::UnequalPermits`] if the permit does not match the reading or the epsilon.
    #[inline]
    pub fn randomise(
        &self,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<Noised<u32>, PrimitiveError> {
        paid_exactly(&permit, reading, self.epsilon)?;
        let (above_low, buckets) = (self.clamp.above_low(reading), u64::from(self.buckets));
        #[allow(clippy::cast_possible_truncation)] // a reading lies below the number of points, hence below `buckets`
        let bucket = match (above_low.checked_mul(buckets), u64::try_from(self.points)) {
            (Some(product), Ok(points)) => (product / points) as u32,
            _ => (u128::from(above_low) * u128::from(buckets) / self.points) as u32,
        };
        let random = &mut FreshRandom::new(random)?;
        Ok(Noised::new(self.response.sample(bucket, random), self.epsilon, random))
    }
}

/// The range of a bucket of [`randomised_bucket`]. The ranges differ in length by at most one point.
///
/// # Errors
/// [`PrimitiveError::Range`] and [`PrimitiveError::Buckets`] as for [`randomised_bucket`], and for `bucket >= buckets`.
pub fn bucket_range(
    range: &RangeInclusive<i64>,
    buckets: u32,
    bucket: u32,
) -> Result<RangeInclusive<i64>, PrimitiveError> {
    let (clamp, points) = points(range, buckets)?;
    if bucket >= buckets {
        return Err(PrimitiveError::NoSuchBucket { bucket, buckets });
    }
    let first = |bucket: u128| (bucket * points).div_ceil(u128::from(buckets));
    #[allow(clippy::cast_possible_truncation)] // within the range, whose width is a u64
    let index = |offset: u128| clamp.low().wrapping_add_unsigned(offset as u64);
    Ok(index(first(bucket.into()))..=index(first(u128::from(bucket) + 1) - 1))
}

/// The range and its number of points, which must not be below the number of buckets.
fn points(range: &RangeInclusive<i64>, buckets: u32) -> Result<(Clamp, u128), PrimitiveError> {
    let clamp = Clamp::new(range)?;
    let width = clamp.width();
    if u64::from(buckets) > width.saturating_add(1) {
        return Err(PrimitiveError::Buckets { buckets, points: width + 1 });
    }
    Ok((clamp, u128::from(width) + 1))
}
