//! Local hashing: the value is hashed into a few buckets by a function of the device's choice, and the bucket goes
//! through randomised response.

use crate::epsilon::Epsilon;
use crate::oracle::index_codec::IndexCodec;
use crate::oracle::{MalformedReport, Support};
use crate::random::Randomness;
use crate::randomised_response::{MAX_DOMAIN, RandomisedResponse, ResponseError};

const SEED_LENGTH: usize = 8;

/// BLH or OLH. A report is the seed of a hash function and a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalHash {
    response: RandomisedResponse,
    codec: IndexCodec,
}

impl LocalHash {
    /// BLH: two buckets.
    pub(crate) fn binary(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        Self::new(domain, 2, epsilon)
    }

    /// OLH: the number of buckets with the lowest variance, one of the two next to `e^eps + 1`.
    pub(crate) fn optimised(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        let floor = epsilon.exp().floor_times(1).and_then(|floor| u32::try_from(floor).ok());
        let buckets = floor.map_or(MAX_DOMAIN, |floor| floor.saturating_add(1)).clamp(2, MAX_DOMAIN - 1);
        let (fewer, more) = (Self::new(domain, buckets, epsilon)?, Self::new(domain, buckets + 1, epsilon)?);
        Ok(if fewer.variance_factor() <= more.variance_factor() { fewer } else { more })
    }

    fn new(domain: u32, buckets: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(ResponseError::Domain { given: u64::from(domain) });
        }
        Ok(Self { response: RandomisedResponse::new(buckets, epsilon)?, codec: IndexCodec::new(buckets) })
    }

    pub(crate) fn support(&self) -> Support {
        Support { own: self.response.probability_of_truth(), other: 1.0 / f64::from(self.codec.bound()) }
    }

    fn variance_factor(&self) -> f64 {
        let Support { own, other } = self.support();
        other * (1.0 - other) / ((own - other) * (own - other))
    }

    pub(crate) const fn report_length(&self) -> usize {
        SEED_LENGTH + self.codec.length()
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

    /// Adds one to the count of every value that a report, checked before, supports.
    pub(crate) fn add_support(&self, report: &[u8], counts: &mut [u64]) {
        let Some((seed, bucket)) = report.split_first_chunk::<SEED_LENGTH>() else { return };
        let Ok(bucket) = self.codec.read(bucket) else { return };
        Hash::of_seed(u64::from_le_bytes(*seed)).count_bucket(bucket, self.codec.bound(), counts);
    }
}

/// The hash `value -> top half of (factor · value + offset)`, scaled to the buckets.
///
/// For uniform factor and offset it is strongly universal on 32-bit values (Dietzfelbinger 1996): any two values fall
/// into any two of the 2^32 top halves equally often. Scaling to g buckets makes their sizes differ by at most
/// one in 2^32/g, and taking both numbers from one 64-bit seed costs about 2^-32: neither can be seen beside the noise,
/// and privacy does not depend on the hash at all.
struct Hash {
    factor: u64,
    offset: u64,
}

impl Hash {
    fn of_seed(seed: u64) -> Self {
        Self { factor: mix(seed), offset: mix(seed ^ 0x9e37_79b9_7f4a_7c15) }
    }

    /// The bucket `b` such that the top half lies in `start(b)..start(b + 1)`.
    #[inline]
    fn bucket(&self, value: u32, buckets: u32) -> u32 {
        let top = self.factor.wrapping_mul(u64::from(value)).wrapping_add(self.offset) >> 32;
        #[allow(clippy::cast_possible_truncation)] // both factors are below 2^32
        let bucket = ((top * u64::from(buckets)) >> 32) as u32;
        bucket
    }

    /// Adds one to the count of each value in the bucket. The loop has no multiplication and no branch: from one value
    /// to the next the hash grows by the factor, and "the top half lies in the bucket's range" is a difference of
    /// 32-bit numbers that goes below zero or not.
    fn count_bucket(&self, bucket: u32, buckets: u32, counts: &mut [u64]) {
        const LANES: usize = 8;
        const TOP: u64 = u32::MAX as u64;
        let start = |bucket: u64| (bucket << 32).div_ceil(u64::from(buckets));
        let low = start(u64::from(bucket));
        let width = start(u64::from(bucket) + 1) - low;
        let inside = |hash: u64| ((hash >> 32).wrapping_sub(low) & TOP).wrapping_sub(width) >> 63;
        let mut hashes = [0; LANES];
        let mut hash = self.offset;
        for lane in &mut hashes {
            *lane = hash;
            hash = hash.wrapping_add(self.factor);
        }
        let step = self.factor.wrapping_mul(LANES as u64);
        let (chunks, rest) = counts.as_chunks_mut::<LANES>();
        for chunk in chunks {
            for (count, hash) in chunk.iter_mut().zip(&mut hashes) {
                *count += inside(*hash);
                *hash = hash.wrapping_add(step);
            }
        }
        for (count, hash) in rest.iter_mut().zip(hashes) {
            *count += inside(hash);
        }
    }
}

/// A bijection of 64-bit words in which every input bit flips each output bit about half of the time.
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
    fn counting_a_bucket_finds_exactly_the_values_that_hash_into_it() {
        for (seed, buckets, domain) in [(1, 2, 5), (2, 3, 8), (3, 4, 100), (4, 150, 1_023), (5, MAX_DOMAIN, 64)] {
            let hash = Hash::of_seed(seed);
            let target = hash.bucket(3, buckets);
            let mut counts = vec![7; domain];
            hash.count_bucket(target, buckets, &mut counts);
            for (value, count) in (0_u32..).zip(counts) {
                assert_eq!(count, 7 + u64::from(hash.bucket(value, buckets) == target));
            }
        }
    }
}
