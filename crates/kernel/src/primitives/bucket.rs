//! In which of a few buckets a reading lies.

use super::{Noised, PrimitiveError};
use crate::epsilon::Epsilon;
use crate::permit::Permit;
use crate::random::Randomness;
use crate::randomised_response::{RandomisedResponse, ResponseError};
use crate::sealed::Sealed;

/// How likely a [`randomised_bucket`] is what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketProbabilities {
    /// The probability of the true bucket.
    pub truth: f64,
    /// The probability of each one of the others.
    pub other: f64,
}

/// The probabilities with which [`randomised_bucket`] answers. Their ratio is e^epsilon, to within a billionth.
///
/// # Errors
/// As [`randomised_bucket`]'s: fewer than two buckets, more than [`MAX_DOMAIN`](crate::MAX_DOMAIN), or an epsilon
/// above [`MAX_RESPONSE_EPSILON`](crate::MAX_RESPONSE_EPSILON).
pub fn bucket_probabilities(buckets: u32, epsilon: Epsilon) -> Result<BucketProbabilities, ResponseError> {
    let response = RandomisedResponse::new(buckets, epsilon)?;
    Ok(BucketProbabilities { truth: response.probability_of_truth(), other: response.probability_of_other() })
}

/// A bucket out of `0..buckets`: the true one with probability `e^epsilon / (e^epsilon + buckets - 1)`, otherwise one
/// of the *others*, each with equal probability.
///
/// # Guarantee
/// Any change of the bucket is protected at a loss of at most the permit's epsilon, and almost all of it
/// ([proof](crate::proofs::randomised_bucket)). [`bucket_probabilities`] tells what to expect.
///
/// # Errors
/// [`PrimitiveError::Response`] for a number of buckets or an epsilon that [`bucket_probabilities`] refuses, and
/// [`PrimitiveError::NoSuchBucket`] where the sealed bucket is not below `buckets`. That last error depends on the
/// data: it tells that the caller sealed something else than a bucket, and is for the caller's log, not for
/// publication.
///
/// ```
/// use tidegate_kernel::primitives::{bucket_probabilities, randomised_bucket};
/// use tidegate_kernel::{Ledger, Sealed, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("2".parse()?, Window::EVENT);
/// let permit = ledger.spend(0, "2".parse()?)?;
/// let noisy = randomised_bucket(permit, &Sealed::new(3), 6, &mut SystemRandom::new()?)?;
/// assert!(*noisy.value() < 6);
/// let probabilities = bucket_probabilities(6, noisy.epsilon())?;
/// assert!((probabilities.truth - 0.5964).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn randomised_bucket(
    permit: Permit,
    bucket: &Sealed<u32>,
    buckets: u32,
    random: &mut impl Randomness,
) -> Result<Noised<u32>, PrimitiveError> {
    let response = RandomisedResponse::new(buckets, permit.epsilon())?;
    let bucket = *bucket.content();
    if bucket >= buckets {
        return Err(PrimitiveError::NoSuchBucket { buckets });
    }
    Ok(Noised::new(response.sample(bucket, random), permit.epsilon(), random))
}
