//! The primitives: the only way from [`Sealed`](crate::Sealed) data to something that may be published.
//!
//! Each takes a [`Permit`] by value (one for each timestamp that the data come from, where there are
//! several), sealed data, public parameters and a source of randomness, and returns a [`Noised`] value. Its loss is
//! the permit's epsilon. The arithmetic is on integers throughout: what the [proof](crate::proofs) of a primitive says
//! is what its code does.
//!
//! | primitive | publishes | loss |
//! | --- | --- | --- |
//! | [`noisy_histogram`] | how many users hold each value | ε |
//! | [`sampled_histogram`] | the same, where classes of users spend different amounts | each class its own ε |
//! | [`noisy_distance`] | how far a histogram is from a public one | ε |
//! | [`noisy_scalar`], [`noisy_sum`] | a reading, a sum of readings | ε for each reading |
//! | [`noisy_comparison`] | which of two readings is smaller | ε for each reading |
//! | [`randomised_bucket`] | in which of a few buckets a reading lies | ε |
//! | [`noisy_max`] | which score is the largest | ε |
//! | [`AboveThreshold`] | when a series of queries first crosses a threshold | ε for the whole series |
//!
//! Three things hold for all of them:
//!
//! - *What is public.* Every argument that is not sealed, and the length of a sealed vector. The noise scale, and with
//!   one exception the errors, depend on nothing else. (The exception: [`randomised_bucket`] refuses a bucket that is
//!   none.)
//! - *What the caller vouches for.* The kernel cannot see where sealed data come from. It relies on the caller for the
//!   stated sensitivity (how far one neighbour can move a sealed number) and for a permit of the right timestamp.
//! - *What an error costs.* A permit handed to a primitive that fails is gone: the budget stays spent.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::epsilon::Epsilon;
use crate::noise::ScaleError;
use crate::permit::Permit;
use crate::random::{Provenance, Randomness};
use crate::randomised_response::ResponseError;

mod above_threshold;
mod bucket;
mod comparison;
mod distance;
mod histogram;
mod max;
mod sampled_histogram;
mod scalar;

pub use above_threshold::{AboveThreshold, Side, ThresholdNoise};
pub use bucket::{BucketProbabilities, bucket_probabilities, randomised_bucket};
pub use comparison::noisy_comparison;
pub use distance::noisy_distance;
pub use histogram::{histogram_noise, noisy_histogram, seal_histogram};
pub use max::{Scores, noisy_max};
pub use sampled_histogram::{ClassHistograms, sampled_histogram, sampling_probability, seal_class_histograms};
pub use scalar::{noisy_scalar, noisy_sum};

/// Which two data sets must be hard to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbours {
    /// One user's contribution to a timestamp is there or is not: whether somebody takes part is protected.
    AddRemove,
    /// One user's contribution to a timestamp is replaced by another: the number of users is public.
    Replace,
}

impl Neighbours {
    /// How far, in the sum of absolute differences, the histograms of two neighbours can be apart when a user counts
    /// at most `contribution` times: so many times 1 for [`AddRemove`](Self::AddRemove), 2 for
    /// [`Replace`](Self::Replace).
    pub const fn histogram_sensitivity(self, contribution: NonZeroU64) -> u64 {
        match self {
            Self::AddRemove => contribution.get(),
            Self::Replace => contribution.get().saturating_mul(2),
        }
    }
}

/// What a primitive returns: safe to publish, if it is [private](Provenance::is_private) at all.
///
/// Only a primitive makes one, so it tells truly where its randomness came from and what it cost.
///
/// ```compile_fail
/// use tidegate_kernel::primitives::Noised;
///
/// let forged = Noised { value: 7, provenance: todo!(), epsilon: todo!() }; // the fields are private
/// ```
#[must_use = "a noised value has been paid for"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noised<T> {
    value: T,
    provenance: Provenance,
    epsilon: Epsilon,
}

impl<T> Noised<T> {
    fn new(value: T, epsilon: Epsilon, random: &impl Randomness) -> Self {
        Self { value, provenance: random.provenance(), epsilon }
    }

    /// The value.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// The value alone.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Where the randomness came from. A seeded value is **not private**.
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// The loss: what whoever lost most by this value has spent on it.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }
}

/// Why a primitive published nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrimitiveError {
    /// Noise cannot be scaled to the sensitivity.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// No randomised response exists for the epsilon or the number of values.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// Permits that pay for one value are not of the same amount.
    #[error("all permits for one value must be of the same amount, but they are of {first} and {other}")]
    UnequalPermits {
        /// The amount of the first permit.
        first: Epsilon,
        /// The first different amount.
        other: Epsilon,
    },
    /// There are no data, or nothing that pays for them.
    #[error("nothing to publish: at least one {expected} is needed")]
    Nothing {
        /// What there should be at least one of.
        expected: &'static str,
    },
    /// Two sequences that belong together differ in length.
    #[error("{given} {what} were given, but {expected} are needed")]
    Length {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A sealed bucket is not one of the buckets.
    #[error("the sealed bucket is not one of 0..{buckets}")]
    NoSuchBucket {
        /// The number of buckets.
        buckets: u32,
    },
    /// An above-threshold test has already answered "above".
    #[error("the above-threshold test is closed: it answered \"above\", which ends it")]
    Closed,
    /// An amount too small to be shared between a threshold and its queries.
    #[error("epsilon {given} is too small for an above-threshold test; at least 0.000000003 is needed")]
    TooSmallToShare {
        /// What was given.
        given: Epsilon,
    },
    /// A class spends more than the sampling threshold, which would be paid in vain.
    #[error("a class spends {epsilon}, more than the threshold of {threshold}; spend no more than that")]
    AboveSamplingThreshold {
        /// What the class's permit is worth.
        epsilon: Epsilon,
        /// The threshold.
        threshold: Epsilon,
    },
    /// An epsilon so far below the sampling threshold that no member would ever be kept.
    #[error("epsilon {epsilon} is so far below the threshold of {threshold} that nobody would be sampled")]
    NobodySampled {
        /// The epsilon.
        epsilon: Epsilon,
        /// The threshold.
        threshold: Epsilon,
    },
}

/// Values that cannot be sealed into a histogram. The offending value itself is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// A value is not in the domain.
    #[error("the value at position {position} is outside the domain 0..{domain}")]
    Value {
        /// The position of the value among those given.
        position: usize,
        /// The size of the domain.
        domain: u32,
    },
    /// A class is not one of the classes.
    #[error("the class at position {position} is outside 0..{classes}")]
    Class {
        /// The position of the class among those given.
        position: usize,
        /// The number of classes.
        classes: u32,
    },
    /// No cells, or too many.
    #[error("a histogram of {cells} cells is outside 1..={}", crate::MAX_DOMAIN)]
    Cells {
        /// The number of cells, over all classes.
        cells: u64,
    },
    /// Counts that cannot be shared out among the classes.
    #[error("{counts} counts cannot be shared out evenly among {classes} classes")]
    Uneven {
        /// The number of counts.
        counts: usize,
        /// The number of classes.
        classes: usize,
    },
}

/// The one epsilon of permits that together pay for a value computed from several timestamps.
fn common_epsilon(permits: impl IntoIterator<Item = Permit>) -> Result<Epsilon, PrimitiveError> {
    let mut amounts = permits.into_iter().map(|permit| permit.epsilon());
    let first = amounts.next().ok_or(PrimitiveError::Nothing { expected: "permit" })?;
    match amounts.find(|amount| *amount != first) {
        None => Ok(first),
        Some(other) => Err(PrimitiveError::UnequalPermits { first, other }),
    }
}
