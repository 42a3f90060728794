//! Randomising primitives: the only way to publish something about [`Sealed`] data.
//!
//! Each takes a [`Permit`] by value (one for each timestamp of the data), sealed data, public parameters and a source
//! of randomness, and returns a [`Noised`] value. Its loss is the permit's epsilon. A permit pays only for data of its
//! own account and timestamp, and a class permit only for data of that class. All arithmetic is on integers, so the
//! [proofs](crate::proofs) describe the code exactly.
//!
//! | primitive | publishes | loss |
//! | --- | --- | --- |
//! | [`noisy_histogram`] | the number of users with each value | ε |
//! | [`noisy_distance`] | the L1 distance of a histogram from a public one | ε |
//! | [`sampled_histogram`], [`sampled_distance`] | the same for classes with different budgets | ε of each class |
//! | [`grouped_histograms`], [`weighted_distance`] | the same without sampling, by groups | ε of each class |
//! | [`noisy_scalar`], [`noisy_sum`] | a reading, a sum of readings | ε for each reading |
//! | [`noisy_comparison`] | which of two readings is smaller | ε for each reading |
//! | [`randomised_bucket`] | the bucket of a reading | ε |
//! | [`noisy_max`] | the index of the largest score (report noisy max) | ε |
//! | [`noisy_bound`] | a clipping bound for readings | ε for each reading |
//! | [`SymbolChannel`] | a symbol, perturbed by a public channel | ε |
//! | [`AboveThreshold`] | the first of many [queries](SealedQuery) above a threshold | ε per timestamp for the series |
//! | [`ContinuousGroups`] | groups of consecutive similar readings | ε for each reading |
//! | [`DeviationTests`] | tests for similar readings at any positions | ε per reading for all its tests |
//! | [`Comparisons`] | the order of readings in a sliding window | ε per reading for all its comparisons |
//!
//! [`Summing`] and [`Bucketing`] are [`noisy_sum`] and [`randomised_bucket`] prepared for many readings. [`Held`] is a
//! queue of delayed readings with their permits. [`SequenceClasses`] turns a sealed batch of symbols into one of few
//! classes for a [`SymbolChannel`].
//!
//! For all of them:
//!
//! - *Public information.* Every argument that is not sealed, and the timestamp, classes and length of sealed data.
//!   Noise scales and errors depend on nothing else.
//! - *Caller's claims.* The kernel cannot see where sealed data come from. It relies on the caller for their timestamp,
//!   for one user's contribution (unless the whole reading is [protected](Protects::Reading)), and for the sensitivity
//!   of scores.
//! - *Fresh entropy.* Each call starts with [new entropy](FreshRandom) of the operating system, or fails with
//!   [`PrimitiveError::Entropy`].
//! - *Cost of errors.* A permit passed to a failing primitive is lost: the budget stays spent.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::noise::ScaleError;
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, NoEntropy, Provenance, Randomness};
use crate::randomised_response::ResponseError;
use crate::sealed::Sealed;

mod above_threshold;
mod bound;
mod bucket;
mod channel;
mod comparison;
mod continuous_groups;
mod deviation;
mod deviation_tests;
mod distance;
mod grouped_histograms;
mod held;
mod histogram;
mod max;
mod query;
mod reading;
mod sampled_histogram;
mod scalar;
mod sequence_classes;
mod symbol_batch;

#[cfg(feature = "simulation")]
pub(crate) use self::{
    above_threshold::LatentTest,
    channel::ChannelAnswer,
    continuous_groups::GroupTest,
    deviation_tests::NoisyTest,
    max::Largest,
    sampled_histogram::{Kept, SampledCounts, SampledDistance, Sampling},
};
pub use above_threshold::{AboveThreshold, Side, ThresholdNoise};
pub use bound::{Bound, bound_noise, noisy_bound};
pub use bucket::{BucketProbabilities, Bucketing, bucket_probabilities, bucket_range, randomised_bucket};
pub use channel::{
    ChannelError, ChannelLimits, ChannelParts, MAX_CHANNEL_EPSILON, SymbolChannel, SymbolError, seal_symbol,
};
pub use comparison::{Comparisons, noisy_comparison};
pub use continuous_groups::{ContinuousGroups, Placed};
pub use deviation_tests::DeviationTests;
pub use distance::noisy_distance;
pub use grouped_histograms::{common_unit, grouped_histograms, weighted_distance};
pub use held::Held;
pub use histogram::{histogram_noise, noisy_histogram, seal_histogram};
pub use max::{Scores, noisy_max};
pub use query::SealedQuery;
pub use reading::Protects;
pub use sampled_histogram::{
    ClassHistograms, sampled_distance, sampled_histogram, sampling_probability, seal_class_histograms,
};
pub use scalar::{Summing, noisy_scalar, noisy_sum};
pub use sequence_classes::{ClassesError, SequenceClasses, SymbolSequence};
pub use symbol_batch::{BatchError, SymbolBatch};

/// The neighbouring relation of data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbours {
    /// One user's contribution to a timestamp is added or removed: presence is protected.
    AddRemove,
    /// One user's contribution to a timestamp is replaced by another: the number of users is public.
    Replace,
}

impl Neighbours {
    /// The L1 sensitivity of a histogram in which a user counts at most `contribution` times: `contribution` for
    /// [`AddRemove`](Self::AddRemove), twice that for [`Replace`](Self::Replace).
    pub const fn histogram_sensitivity(self, contribution: NonZeroU64) -> u64 {
        match self {
            Self::AddRemove => contribution.get(),
            Self::Replace => contribution.get().saturating_mul(2),
        }
    }
}

/// The result of a primitive: safe to publish if it is [private](Provenance::is_private).
///
/// Only primitives create one, so its provenance and its cost are reliable.
///
/// ```compile_fail
/// use tidegate_kernel::primitives::Noised;
/// use tidegate_kernel::{Epsilon, Provenance};
///
/// let forged = Noised { value: 7, provenance: Provenance::System, epsilon: Epsilon::MIN }; // the fields are private
/// ```
#[must_use = "a noised value has been paid for"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noised<T> {
    value: T,
    provenance: Provenance,
    epsilon: Epsilon,
}

impl<T> Noised<T> {
    /// Takes the [fresh](FreshRandom) generator that drew the value.
    fn new(value: T, epsilon: Epsilon, random: &mut FreshRandom<'_, impl Randomness>) -> Self {
        random.note_spend(epsilon);
        Self { value, provenance: random.provenance(), epsilon }
    }

    /// The value.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// The value, without provenance and cost.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The source of the randomness. A seeded value is **not private**.
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// The loss of the users who lost most.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }
}

/// Errors of primitives. Nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum PrimitiveError {
    /// The operating system provides no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The sensitivity is out of range.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// A batch of too many readings.
    #[error("a batch of {given} readings is too large; the limit is {most}")]
    Batch { given: usize, most: usize },
    /// No randomised response exists for the epsilon or the number of values.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// The timestamps of permit and data differ.
    #[error("the permit is for timestamp {permit}, but the data are of timestamp {data}")]
    Timestamp { permit: u64, data: u64 },
    /// The accounts of permit and data differ.
    #[error("the permit is of another account than the data: seal data with the account of the ledger that pays")]
    Account,
    /// A class permit for data of everyone.
    #[error("the permit is for the users of class {class} only, but the data are not")]
    ClassPermit { class: u32 },
    /// A permit without a class for data of classes.
    #[error("the permit is not for a class of users, but the data are")]
    WithoutClass,
    /// A permit for a class without data.
    #[error("the permit is for class {class}, of which there is no histogram")]
    NoSuchClass { class: u32 },
    /// The permit's amount is not the loss of an answer.
    #[error("the permit is for {permit}, but an answer from this channel loses {channel}")]
    ChannelPermit { permit: Epsilon, channel: Epsilon },
    /// Two permits for one class.
    #[error("two permits were given for class {class}; spend the sum at once")]
    ClassPaidTwice { class: u32 },
    /// A query reads an unpaid timestamp.
    #[error("the query reads timestamp {timestamp}, for which there is no permit")]
    Unpaid { timestamp: u64 },
    /// A permit for a timestamp that the query does not read.
    #[error("a permit was given for timestamp {timestamp}, which the query does not read")]
    Unread { timestamp: u64 },
    /// A permit for a timestamp that is already paid for.
    #[error("timestamp {timestamp} has been paid for already")]
    PaidTwice { timestamp: u64 },
    /// Two readings of one timestamp in a query.
    #[error("two readings are of timestamp {timestamp}; a query takes one of each")]
    SameTimestamp { timestamp: u64 },
    /// The query's sensitivity exceeds the test's.
    #[error("one timestamp can move the query by {query}, but the test was opened for at most {test}")]
    TooSensitive { query: u64, test: u64 },
    /// A range of fewer than two points.
    #[error("a range needs two points or more, in ascending order, but {low}..={high} was given")]
    Range { low: i64, high: i64 },
    /// Timestamps out of order.
    #[error("timestamp {timestamp} does not come after {latest}, the latest so far")]
    OutOfOrder { timestamp: u64, latest: u64 },
    /// The reading's permit is used up.
    #[error("the reading of timestamp {timestamp} has taken part in all tests that its permit pays for")]
    UsedUp { timestamp: u64 },
    /// A public index out of range.
    #[error("there is no member {index}; there are {members}")]
    NoSuchMember { index: usize, members: usize },
    /// Permits for one value have different amounts.
    #[error("all permits for one value must be of the same amount, but they are of {first} and {other}")]
    UnequalPermits { first: Epsilon, other: Epsilon },
    /// No data or no permits.
    #[error("nothing to publish: at least one {expected} is needed")]
    Nothing { expected: &'static str },
    /// A sequence of the wrong length.
    #[error("{given} {what} were given, but {expected} are needed")]
    Length { what: &'static str, given: usize, expected: usize },
    /// More buckets than points in the range.
    #[error("a range of {points} points cannot be cut into {buckets} buckets")]
    Buckets { buckets: u32, points: u64 },
    /// A public bucket index out of range.
    #[error("bucket {bucket} is not one of 0..{buckets}")]
    NoSuchBucket { bucket: u32, buckets: u32 },
    /// The test has answered "above".
    #[error("the above-threshold test is closed: it answered \"above\", which ends it")]
    Closed,
    /// An epsilon too small to divide between threshold and queries.
    #[error("epsilon {given} is too small for an above-threshold test; at least 0.000000003 is needed")]
    TooSmallToShare { given: Epsilon },
    /// An epsilon too small to divide among comparisons.
    #[error("epsilon {given} is too small to be divided among {times} comparisons")]
    TooSmallToDivide { given: Epsilon, times: u64 },
    /// A class spends more than the sampling threshold, which would be wasted.
    #[error("a class spends {epsilon}, more than the threshold of {threshold}; spend no more than that")]
    AboveSamplingThreshold { epsilon: Epsilon, threshold: Epsilon },
    /// An epsilon so far below the sampling threshold that nobody would be sampled.
    #[error("epsilon {epsilon} is so far below the threshold of {threshold} that nobody would be sampled")]
    NobodySampled { epsilon: Epsilon, threshold: Epsilon },
}

/// Why a histogram could not be sealed. Messages contain no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum HistogramError {
    /// A value outside the domain.
    #[error("the value at position {position} is outside the domain 0..{domain}")]
    Value { position: usize, domain: u32 },
    /// An unknown class.
    #[error("the class at position {position} is none of the {classes} classes")]
    Class { position: usize, classes: usize },
    /// A repeated class.
    #[error("class {class} is named twice")]
    RepeatedClass { class: u32 },
    /// A count too large for sampling.
    #[error("the count at position {position} is above {}, the most that is sampled from", ClassHistograms::MAX_COUNT)]
    Count { position: usize },
    /// No cells, or too many.
    #[error("a histogram of {cells} cells is outside 1..={}", crate::MAX_DOMAIN)]
    Cells { cells: u64 },
    /// The number of counts is not a multiple of the number of classes.
    #[error("{counts} counts cannot be divided evenly among {classes} classes")]
    Uneven { counts: usize, classes: usize },
}

/// The amount of a permit for data of everyone.
#[inline]
fn plain(permit: &Permit) -> Result<Epsilon, PrimitiveError> {
    match permit.class() {
        None => Ok(permit.epsilon()),
        Some(class) => Err(PrimitiveError::ClassPermit { class }),
    }
}

/// Checks that account and timestamp of permit and data agree.
#[inline]
fn check_stamp<T: Zeroize>(permit: &Permit, data: &Sealed<T>) -> Result<(), PrimitiveError> {
    check_account(permit, data.account())?;
    let (permit, data) = (permit.timestamp(), data.timestamp());
    if permit == data { Ok(()) } else { Err(PrimitiveError::Timestamp { permit, data }) }
}

#[inline]
fn check_account(permit: &Permit, account: Account) -> Result<(), PrimitiveError> {
    if permit.account().pays_for(account) { Ok(()) } else { Err(PrimitiveError::Account) }
}

/// The amount of a permit that matches the data.
#[inline]
fn paid<T: Zeroize>(permit: &Permit, data: &Sealed<T>) -> Result<Epsilon, PrimitiveError> {
    check_stamp(permit, data)?;
    plain(permit)
}

/// Checks that a permit matches the data and has exactly this amount.
#[inline]
fn paid_exactly<T: Zeroize>(permit: &Permit, data: &Sealed<T>, epsilon: Epsilon) -> Result<(), PrimitiveError> {
    let other = paid(permit, data)?;
    if other == epsilon { Ok(()) } else { Err(PrimitiveError::UnequalPermits { first: epsilon, other }) }
}

/// Readings published together, each with its own permit, and the common epsilon of the permits.
fn paid_members<'a>(
    members: impl IntoIterator<Item = (Permit, &'a Sealed<i64>)>,
) -> Result<(Epsilon, Vec<&'a Sealed<i64>>), PrimitiveError> {
    let mut first = None;
    let mut readings = Vec::new();
    for (permit, reading) in members {
        let other = paid(&permit, reading)?;
        let first = *first.get_or_insert(other);
        if other != first {
            return Err(PrimitiveError::UnequalPermits { first, other });
        }
        readings.push(reading);
    }
    Ok((first.ok_or(PrimitiveError::Nothing { expected: "reading" })?, readings))
}
