//! `contin`: groups of similar consecutive readings within a batch.
//!
//! Source: Li, Qin, Ren, Gong, Feng, Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS
//! 2025, program doi:10.5281/zenodo.13643225, Algorithm 6.

use std::ops::RangeInclusive;

use tidegate_kernel::primitives::{ContinuousGroups, Placed, Protects};
use tidegate_kernel::{Epsilon, Permit, Randomness, Sealed};

use super::ScalarError;

/// Threshold of a group, in grid units.
///
/// The noise is one-sided on both sides of the test. The difference of its means is added, to centre the test.
///
/// Algorithm 6 of Li et al. 2025, [in full above](self).
#[allow(clippy::cast_possible_truncation)] // saturates
pub(super) fn groups(
    range: RangeInclusive<i64>,
    protects: Protects,
    epsilon: Epsilon,
    threshold: f64,
) -> Result<ContinuousGroups, ScalarError> {
    let noise = ContinuousGroups::noise(range.clone(), protects, epsilon)?;
    let centred = threshold + noise.query.as_f64() - noise.threshold.as_f64();
    Ok(ContinuousGroups::new(range, protects, epsilon, centred.round() as i64)?)
}

/// Groups of a batch.
#[derive(Debug)]
pub(super) struct Contin {
    groups: ContinuousGroups,
    /// Number of groups.
    count: u32,
}

impl Contin {
    pub(super) fn new(groups: ContinuousGroups) -> Self {
        Self { groups, count: 0 }
    }

    /// Group of the next reading, numbered consecutively.
    #[inline]
    pub(super) fn place(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<u32, ScalarError> {
        if self.groups.offer(permit, reading, random)?.into_value() != Placed::Joins {
            self.count += 1;
        }
        Ok(self.count)
    }

    pub(super) fn clear(&mut self) {
        self.groups.close();
        self.count = 0;
    }

    #[cfg(test)]
    pub(super) fn open_group(&self) -> &ContinuousGroups {
        &self.groups
    }
}
