//! The primitives: the only way from [`Sealed`] data to something that may be published.
//!
//! Each takes a [`Permit`] by value (one for each timestamp that the data come from, where there are
//! several), sealed data, public parameters and a source of randomness, and returns a [`Noised`] value. Its loss is
//! the permit's epsilon. A permit pays for data of its own account and timestamp only, and one for a class of users
//! only for the data of that class; any other is refused. The arithmetic is on integers throughout: what the
//! [proof](crate::proofs) of a primitive says is what its code does.
//!
//! | primitive | publishes | loss |
//! | --- | --- | --- |
//! | [`noisy_histogram`] | how many users hold each value | ε |
//! | [`noisy_distance`] | how far a histogram is from a public one | ε |
//! | [`sampled_histogram`], [`sampled_distance`] | the same, where classes of users spend different amounts | each class its own ε |
//! | [`grouped_histograms`], [`weighted_distance`] | the same without sampling: a histogram of each group of classes, one distance | each class its own ε |
//! | [`noisy_scalar`], [`noisy_sum`] | a reading, a sum of readings | ε for each reading |
//! | [`noisy_comparison`] | which of two readings is smaller | ε for each reading |
//! | [`randomised_bucket`] | in which of a few buckets a reading lies | ε |
//! | [`noisy_max`] | which score is the largest | ε |
//! | [`noisy_bound`] | where to cut readings off | ε for each reading |
//! | [`SymbolChannel`] | a symbol, through a public channel that fits what is believed of it | ε |
//! | [`AboveThreshold`] | when a series of [queries](SealedQuery) first crosses a threshold | ε for each timestamp, for the whole series |
//! | [`ContinuousGroups`] | which consecutive readings are alike | ε for each reading |
//! | [`DeviationTests`] | which readings are alike, wherever they stand | ε for each reading, for all its tests |
//! | [`Comparisons`] | the order of each reading and its neighbours | ε for each reading, for all its comparisons |
//!
//! [`Summing`] and [`Bucketing`] are [`noisy_sum`] and [`randomised_bucket`] set up once for many readings, and
//! [`Held`] keeps readings that wait, with the permits that pay for them.
//!
//! Four things hold for all of them:
//!
//! - *What is public.* Every argument that is not sealed, and the timestamp, the classes and the length of what is
//!   sealed. The noise scale and the errors depend on nothing else.
//! - *What the caller vouches for.* The kernel cannot see where sealed data come from. It relies on the caller for the
//!   timestamp they are sealed with and for how much one user contributes to them (where the reading itself is
//!   [protected](Protects::Reading), not even for that), and for scores whose sensitivity the caller states.
//! - *Fresh noise.* Each begins with [new entropy](FreshRandom) of the operating system, or fails with
//!   [`PrimitiveError::Entropy`].
//! - *What an error costs.* A permit handed to a primitive that fails is gone: the budget stays spent.

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
pub use symbol_batch::{BatchError, SymbolBatch};

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
    /// Takes the generator that the value was drawn from, which only a [fresh](FreshRandom) one can be.
    fn new(value: T, epsilon: Epsilon, random: &mut FreshRandom<'_, impl Randomness>) -> Self {
        random.note_spend(epsilon);
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
#[allow(missing_docs)] // the messages name the fields
pub enum PrimitiveError {
    /// The operating system gives no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// Noise cannot be scaled to the sensitivity.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// A batch of too many readings.
    #[error("a batch of {given} readings was asked for; it has {most} at most")]
    Batch { given: usize, most: usize },
    /// No randomised response exists for the epsilon or the number of values.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// A permit is for another timestamp than the data that it should pay for.
    #[error("the permit is for timestamp {permit}, but the data are of timestamp {data}")]
    Timestamp { permit: u64, data: u64 },
    /// A permit is of another account than the data that it should pay for.
    #[error("the permit is of another account than the data: seal data with the account of the ledger that pays")]
    Account,
    /// A permit for a class of users pays for data of everyone.
    #[error("the permit is for the users of class {class} only, but the data are not")]
    ClassPermit { class: u32 },
    /// A permit for data of classes is for none of them.
    #[error("the permit is not for a class of users, but the data are")]
    WithoutClass,
    /// A permit is for a class that has no data.
    #[error("the permit is for class {class}, of which there is no histogram")]
    NoSuchClass { class: u32 },
    /// A permit is not worth what an answer from the channel loses.
    #[error("the permit is for {permit}, but an answer from this channel loses {channel}")]
    ChannelPermit { permit: Epsilon, channel: Epsilon },
    /// Two permits are for one class.
    #[error("two permits were given for class {class}; spend the sum at once")]
    ClassPaidTwice { class: u32 },
    /// A query reads a timestamp that was not paid for.
    #[error("the query reads timestamp {timestamp}, for which there is no permit")]
    Unpaid { timestamp: u64 },
    /// A permit is for a timestamp that the query does not read.
    #[error("a permit was given for timestamp {timestamp}, which the query does not read")]
    Unread { timestamp: u64 },
    /// A permit is for a timestamp that was paid for already.
    #[error("timestamp {timestamp} has been paid for already")]
    PaidTwice { timestamp: u64 },
    /// Two readings of one query are of the same timestamp.
    #[error("two readings are of timestamp {timestamp}; a query takes one of each")]
    SameTimestamp { timestamp: u64 },
    /// A query can be moved farther than the noise of its test allows for.
    #[error("one timestamp can move the query by {query}, but the test was opened for at most {test}")]
    TooSensitive { query: u64, test: u64 },
    /// A range to which readings cannot be clamped.
    #[error("a range needs two points or more, in ascending order, but {low}..={high} was given")]
    Range { low: i64, high: i64 },
    /// A timestamp's readings come out of order.
    #[error("timestamp {timestamp} does not come after {latest}, the latest so far")]
    OutOfOrder { timestamp: u64, latest: u64 },
    /// A reading has taken part in all that it was paid for.
    #[error("the reading of timestamp {timestamp} has taken part in all tests that its permit pays for")]
    UsedUp { timestamp: u64 },
    /// A public index that is no member's.
    #[error("there is no member {index}; there are {members}")]
    NoSuchMember { index: usize, members: usize },
    /// Permits that pay for one value are not of the same amount.
    #[error("all permits for one value must be of the same amount, but they are of {first} and {other}")]
    UnequalPermits { first: Epsilon, other: Epsilon },
    /// There are no data, or nothing that pays for them.
    #[error("nothing to publish: at least one {expected} is needed")]
    Nothing { expected: &'static str },
    /// Two sequences that belong together differ in length.
    #[error("{given} {what} were given, but {expected} are needed")]
    Length { what: &'static str, given: usize, expected: usize },
    /// A range is to be cut into more buckets than it has points.
    #[error("a range of {points} points cannot be cut into {buckets} buckets")]
    Buckets { buckets: u32, points: u64 },
    /// A public bucket index is none.
    #[error("bucket {bucket} is not one of 0..{buckets}")]
    NoSuchBucket { bucket: u32, buckets: u32 },
    /// An above-threshold test has already answered "above".
    #[error("the above-threshold test is closed: it answered \"above\", which ends it")]
    Closed,
    /// An amount too small to be shared between a threshold and its queries.
    #[error("epsilon {given} is too small for an above-threshold test; at least 0.000000003 is needed")]
    TooSmallToShare { given: Epsilon },
    /// An amount too small to be divided among comparisons.
    #[error("epsilon {given} is too small to be divided among {times} comparisons")]
    TooSmallToDivide { given: Epsilon, times: u64 },
    /// A class spends more than the sampling threshold, which would be paid in vain.
    #[error("a class spends {epsilon}, more than the threshold of {threshold}; spend no more than that")]
    AboveSamplingThreshold { epsilon: Epsilon, threshold: Epsilon },
    /// An epsilon so far below the sampling threshold that no member would ever be kept.
    #[error("epsilon {epsilon} is so far below the threshold of {threshold} that nobody would be sampled")]
    NobodySampled { epsilon: Epsilon, threshold: Epsilon },
}

/// Values that cannot be sealed into a histogram. The offending value itself is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum HistogramError {
    /// A value is not in the domain.
    #[error("the value at position {position} is outside the domain 0..{domain}")]
    Value { position: usize, domain: u32 },
    /// A class is not one of the classes.
    #[error("the class at position {position} is none of the {classes} classes")]
    Class { position: usize, classes: usize },
    /// A class is named twice.
    #[error("class {class} is named twice")]
    RepeatedClass { class: u32 },
    /// A count is too large to draw a sample from.
    #[error("the count at position {position} is above {}, the most that is sampled from", ClassHistograms::MAX_COUNT)]
    Count { position: usize },
    /// No cells, or too many.
    #[error("a histogram of {cells} cells is outside 1..={}", crate::MAX_DOMAIN)]
    Cells { cells: u64 },
    /// Counts that cannot be shared out among the classes.
    #[error("{counts} counts cannot be shared out evenly among {classes} classes")]
    Uneven { counts: usize, classes: usize },
}

/// What a permit pays for data of everyone.
#[inline]
fn plain(permit: &Permit) -> Result<Epsilon, PrimitiveError> {
    match permit.class() {
        None => Ok(permit.epsilon()),
        Some(class) => Err(PrimitiveError::ClassPermit { class }),
    }
}

/// That a permit is of the data's account and timestamp.
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

/// What a permit pays for the data, if it is theirs.
#[inline]
fn paid<T: Zeroize>(permit: &Permit, data: &Sealed<T>) -> Result<Epsilon, PrimitiveError> {
    check_stamp(permit, data)?;
    plain(permit)
}

/// That a permit pays for the data, and exactly this.
#[inline]
fn paid_exactly<T: Zeroize>(permit: &Permit, data: &Sealed<T>, epsilon: Epsilon) -> Result<(), PrimitiveError> {
    let other = paid(permit, data)?;
    if other == epsilon { Ok(()) } else { Err(PrimitiveError::UnequalPermits { first: epsilon, other }) }
}

/// Readings that are published together, each paid for by a permit of its own, and the one epsilon of those permits.
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
