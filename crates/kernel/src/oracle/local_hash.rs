//! Local hashing (Wang et al. 2017): a random hash function maps the value to a few buckets, and randomised response
//! perturbs the bucket.

use std::sync::{Arc, OnceLock};

use crate::epsilon::Epsilon;
use crate::oracle::choice::best_buckets;
use crate::oracle::index_codec::IndexCodec;
use crate::oracle::{MalformedReport, Support};
use crate::random::Randomness;
use crate::randomised_response::{MAX_DOMAIN, RandomisedResponse, ResponseError};

pub(super) const SEED_LENGTH: usize = 8;

/// BLH or OLH. A report is the seed of a hash function and a bucket.
#[derive(Clone, Debug)]
pub(crate) struct LocalHash {
    domain: u32,
    response: RandomisedResponse,
    codec: IndexCodec,
    /// The key of each value. Computed when the first report is counted, because devices do not need them.
    keys: Arc<OnceLock<Box<[u32]>>>,
}

impl LocalHash {
    /// BLH: two buckets.
    pub(crate) fn binary(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        Self::new(domain, 2, epsilon)
    }

    /// OLH: the number of buckets with the lowest variance.
    pub(crate) fn optimised(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        Self::new(domain, best_buckets(epsilon.exp_as_f64()), epsilon)
    }

    fn new(domain: u32, buckets: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(ResponseError::Domain { given: u64::from(domain) });
        }
        let response = RandomisedResponse::new(buckets, epsilon)?;
        Ok(Self { domain, response, codec: IndexCodec::new(buckets), keys: Arc::default() })
    }

    pub(crate) fn support(&self) -> Support {
        Support { own: self.response.probability_of_truth(), other: 1.0 / f64::from(self.codec.bound()) }
    }

    pub(crate) const fn report_length(&self) -> usize {
        SEED_LENGTH + self.codec.length()
    }

    /// The log-probability of a well-formed report, given its hash function.
    pub(crate) fn log_likelihood(&self, value: u32, report: &[u8]) -> f64 {
        let mut supported = vec![0; value as usize + 1];
        self.add_support(report, &mut supported);
        let is_supported = supported.last() == Some(&1);
        if is_supported { self.response.probability_of_truth().ln() } else { self.response.probability_of_other().ln() }
    }

    #[inline]
    pub(crate) fn perturb(&self, value: u32, random: &mut impl Randomness, report: &mut [u8]) {
        let seed = random.next_word();
        let bucket = Hash::of_seed(seed).bucket(value, self.codec.bound());
        let (seed_bytes, bucket_bytes) = report.split_at_mut(SEED_LENGTH);
        seed_bytes.copy_from_slice(&seed.to_le_bytes());
        self.codec.write(self.response.sample(bucket, random), bucket_bytes);
    }

    /// Checks a slice of the report's length.
    pub(crate) fn check(&self, report: &[u8]) -> Result<(), MalformedReport> {
        self.codec.read(&report[SEED_LENGTH..]).map(drop)
    }

    /// Adds one to the count of every value that a checked report supports.
    pub(crate) fn add_support(&self, report: &[u8], counts: &mut [u64]) {
        let Some((seed, bucket)) = report.split_first_chunk::<SEED_LENGTH>() else { return };
        let Ok(bucket) = self.codec.read(bucket) else { return };
        let keys = self.keys.get_or_init(|| (0..self.domain).map(key).collect());
        Hash::of_seed(u64::from_le_bytes(*seed)).count_bucket(bucket, self.codec.bound(), keys, counts);
    }
}

/// The hash `value -> top half of (factor · key of the value + offset)`, scaled to the buckets.
///
/// For a uniform factor and offset it is strongly universal on 32-bit keys (Dietzfelbinger 1996): any two values fall
/// into any two of the 2^32 top halves equally often. Scaling to g buckets makes their sizes differ by at most one in
/// 2^32/g. Taking both numbers from one 64-bit seed costs about 2^-32. Both effects are far below the noise, and
/// privacy does not depend on the hash. Keys are scrambled values: neighbouring values would otherwise hash to evenly
/// spaced points, and three of them would not be independent.
struct Hash {
    factor: u64,
    offset: u64,
}

impl Hash {
    fn of_seed(seed: u64) -> Self {
        Self { factor: mix(seed), offset: mix(seed ^ 0x9e37_79b9_7f4a_7c15) }
    }

    fn of_key(&self, key: u32) -> u64 {
        self.factor.wrapping_mul(u64::from(key)).wrapping_add(self.offset) >> 32
    }

    /// The bucket of a value.
    #[inline]
    fn bucket(&self, value: u32, buckets: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // both factors are below 2^32
        let bucket = ((self.of_key(key(value)) * u64::from(buckets)) >> 32) as u32;
        bucket
    }

    /// Adds one to the count of each value in the bucket, given the keys of the values. The loop is branch-free:
    /// membership in the bucket's range is the sign of a 32-bit difference.
    fn count_bucket(&self, bucket: u32, buckets: u32, keys: &[u32], counts: &mut [u64]) {
        const TOP: u64 = u32::MAX as u64;
        let start = |bucket: u64| (bucket << 32).div_ceil(u64::from(buckets));
        let low = start(u64::from(bucket));
        let width = start(u64::from(bucket) + 1) - low;
        for (count, key) in counts.iter_mut().zip(keys) {
            *count += (self.of_key(*key).wrapping_sub(low) & TOP).wrapping_sub(width) >> 63;
        }
    }
}

/// The key of a value: a mixing bijection of 32-bit words.
fn key(value: u32) -> u32 {
    let scramble = |word: u32| {
        let word = (word ^ (word >> 16)).wrapping_mul(0x7feb_352d);
        let word = (word ^ (word >> 15)).wrapping_mul(0x846c_a68b);
        word ^ (word >> 16)
    };
    scramble(scramble(value.wrapping_add(0x9e37_79b9)).wrapping_add(0x9e37_79b9))
}

/// A mixing bijection of 64-bit words: each input bit flips each output bit about half of the time.
fn mix(mut word: u64) -> u64 {
    word ^= word >> 32;
    word = word.wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^= word >> 32;
    word = word.wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ (word >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_a_bucket_finds_exactly_its_values() {
        for (seed, buckets, domain) in [(1, 2, 5), (2, 3, 8), (3, 4, 100), (4, 150, 1_023), (5, MAX_DOMAIN, 64)] {
            let hash = Hash::of_seed(seed);
            let target = hash.bucket(3, buckets);
            let mut counts = vec![7; domain];
            let keys: Vec<u32> = (0_u32..).take(domain).map(key).collect();
            hash.count_bucket(target, buckets, &keys, &mut counts);
            for (value, count) in (0_u32..).zip(counts) {
                assert_eq!(count, 7 + u64::from(hash.bucket(value, buckets) == target));
            }
        }
    }
}
