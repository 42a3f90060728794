//! Sampling without replacement.

use std::collections::HashSet;
use std::num::NonZeroU64;

use crate::noise::Below;
use crate::random::Randomness;

/// Draws a uniform subset of `count` integers below `bound`, in ascending order; all of them if `count >= bound`.
pub fn choose(count: usize, bound: usize, random: &mut impl Randomness) -> Vec<usize> {
    if count >= bound {
        return (0..bound).collect();
    }
    // Floyd's algorithm (Bentley and Floyd 1987): step j adds a uniform element of 0..=j, or j if that is already in.
    let mut chosen = HashSet::with_capacity(count);
    for last in bound - count..bound {
        let candidate = match NonZeroU64::new(last as u64 + 1) {
            #[allow(clippy::cast_possible_truncation)] // at most `last`, a usize
            Some(size) => Below::new(size).sample(random) as usize,
            None => last,
        };
        if !chosen.insert(candidate) {
            chosen.insert(last);
        }
    }
    let mut chosen: Vec<usize> = chosen.into_iter().collect();
    chosen.sort_unstable();
    chosen
}
