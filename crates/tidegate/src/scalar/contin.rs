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

/// Threshold of a group where none is given, in grid units, from public parameters only.
///
/// With `q` the scale of a query's noise, a stream that stands still is divided by chance about once in two batches of
/// `n` readings at `q ln n`. The deviation of `n` readings is at most `M = n Delta / 2`. Where the noise hides that,
/// groups ought not to end; where it does not, the threshold falls by the root of the ratio, so that groups end where
/// the stream moves. Five times the scale of the publication's noise is the least.
pub(super) fn usual_threshold(
    range: &RangeInclusive<i64>,
    protects: Protects,
    epsilon: Epsilon,
    batch: usize,
    scale: f64,
) -> Result<f64, ScalarError> {
    let noise = ContinuousGroups::noise(range.clone(), protects, epsilon)?;
    #[allow(clippy::cast_precision_loss)] // public bounds
    let (readings, width) = (batch as f64, *range.end() as f64 - *range.start() as f64);
    let (hidden, largest) = (noise.query.as_f64() * readings.ln(), readings * width / 2.0);
    Ok((hidden * (hidden / largest).sqrt().min(1.0)).max(5.0 * scale))
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
