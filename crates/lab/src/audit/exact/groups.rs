//! All ways to group a batch of consecutive readings, as `contin` does.
//!
//! A group has one noisy threshold, which is summed over; given it, each test is by itself. What is published then is a
//! noisy sum of each group: a reading is in one of them, so the loss of a batch is that of its groups and that of one
//! sum.

use tidegate::scalar::ScalarSettings;
use tidegate_kernel::Epsilon;
use tidegate_kernel::noise::NoiseScale;
use tidegate_kernel::primitives::{ContinuousGroups, Summing};

use crate::experiment::RunError;

/// Batches with no more different contents than this are enumerated.
const MOST_BATCHES: u64 = 1_000;

/// How far a noisy threshold is followed, in scales: beyond lies less than one part in 10^17.
const REACH: f64 = 40.0;

/// One-sided noise on the integers: `P(z) = (1 - q) q^z`.
#[derive(Clone, Copy)]
struct OneSided {
    /// The logarithm of `q`.
    rate: f64,
}

impl OneSided {
    fn new(scale: NoiseScale) -> Self {
        Self { rate: -1.0 / scale.as_f64() }
    }

    /// The probability of `z`, which is not negative.
    fn at(self, z: f64) -> f64 {
        -self.rate.exp_m1() * (self.rate * z).exp()
    }

    /// The probability of a number below `bound`.
    fn below(self, bound: f64) -> f64 {
        if bound <= 0.0 { 0.0 } else { -(self.rate * bound).exp_m1() }
    }
}

struct Grouping {
    threshold: f64,
    threshold_noise: OneSided,
    query_noise: OneSided,
    reach: u32,
}

/// The largest loss of any one reading of a batch; `None` where there are too many batches.
pub(super) fn largest_loss(settings: &ScalarSettings) -> Result<Option<f64>, RunError> {
    let range = settings.grid.range();
    let points = settings.grid.width() + 1;
    let length = settings.delay + 1;
    if points.checked_pow(length).is_none_or(|batches| batches > MOST_BATCHES) {
        return Ok(None);
    }
    let too_little = || RunError::unsupported(format!("epsilon {} cannot be divided", settings.epsilon));
    let share: Epsilon = settings.grouping.or_else(|| settings.epsilon.divided_by(5)).ok_or_else(too_little)?;
    let publication = settings.epsilon.checked_sub(share).ok_or_else(too_little)?;
    let sums = Summing::new(range.clone(), settings.protects, publication).map_err(RunError::failed)?.scale();
    let noise = ContinuousGroups::noise(range, settings.protects, share).map_err(RunError::failed)?;
    // As the mechanism sets it: five times the noise of a publication, unless given, with the means of the noise made
    // up for.
    let threshold = settings.threshold.map_or(5.0 * sums.as_f64(), |given| given / settings.grid.step());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few thousand
    let grouping = Grouping {
        threshold: (threshold + noise.query.as_f64() - noise.threshold.as_f64()).round(),
        threshold_noise: OneSided::new(noise.threshold),
        query_noise: OneSided::new(noise.query),
        reach: (REACH * noise.threshold.as_f64()).ceil() as u32,
    };
    Ok(Some(over_all_batches(&grouping, points, length, sums)))
}

/// Over all batches, all readings in them and all other values of that reading.
fn over_all_batches(grouping: &Grouping, points: u64, length: u32, sums: NoiseScale) -> f64 {
    let batches = points.pow(length);
    let digit = |batch: u64, place: u32| batch / points.pow(place) % points;
    let laws: Vec<Vec<f64>> = (0..batches)
        .map(|batch| grouping.law(&(0..length).map(|place| digit(batch, place)).collect::<Vec<_>>()))
        .collect();
    let mut largest: f64 = 0.0;
    for batch in 0..batches {
        for place in 0..length {
            let now = digit(batch, place);
            for other in 0..now {
                let moved = now - other;
                let neighbour = batch - moved * points.pow(place);
                #[allow(clippy::cast_possible_truncation)] // below the number of batches
                let laws = [&laws[batch as usize], &laws[neighbour as usize]];
                let of_groups =
                    laws[0].iter().zip(laws[1]).map(|(one, other)| (one.ln() - other.ln()).abs()).fold(0.0, f64::max);
                #[allow(clippy::cast_precision_loss)] // a few grid points
                let of_sum = moved as f64 / sums.as_f64();
                largest = largest.max(of_groups + of_sum);
            }
        }
    }
    largest
}

impl Grouping {
    /// The probability of each way to group a batch: bit `i` of its number says whether reading `i + 1` joins the group
    /// before it. A reading that opens a group is not tested, so of two ways that differ there, one is impossible for
    /// all batches, and left out.
    fn law(&self, batch: &[u64]) -> Vec<f64> {
        let ways = 1_u32 << (batch.len() - 1);
        (0..ways).filter_map(|way| self.probability(batch, |place| way >> (place - 1) & 1 == 1)).collect()
    }

    /// The probability with which readings join, or do not; `None` where one would join that opens a group.
    fn probability(&self, batch: &[u64], joins: impl Fn(usize) -> bool) -> Option<f64> {
        let mut probability = 1.0;
        let mut start = 0;
        while start < batch.len() {
            // The group's tests: deviations of those that joined, and perhaps of one that did not and closed it.
            let mut end = start + 1;
            while end < batch.len() && joins(end) {
                end += 1;
            }
            let deviations: Vec<f64> = (start + 2..=end).map(|end| deviation(&batch[start..end])).collect();
            let rejected = (end < batch.len()).then(|| deviation(&batch[start..=end]));
            if rejected.is_some() || !deviations.is_empty() {
                probability *= self.of_group(&deviations, rejected);
            }
            // The one that did not join is alone, and the next opens a group.
            start = if rejected.is_some() { end + 1 } else { end };
            if rejected.is_some() && start < batch.len() && joins(start) {
                return None;
            }
        }
        Some(probability)
    }

    fn of_group(&self, accepted: &[f64], rejected: Option<f64>) -> f64 {
        let given = |noise: f64| {
            let below = |deviation: f64| self.query_noise.below(self.threshold + noise - deviation);
            let accepted: f64 = accepted.iter().map(|deviation| below(*deviation)).product();
            self.threshold_noise.at(noise) * accepted * rejected.map_or(1.0, |deviation| 1.0 - below(deviation))
        };
        (0..=self.reach).map(|noise| given(f64::from(noise))).sum()
    }
}

/// The sum of distances from the mean, rounded down.
#[allow(clippy::cast_precision_loss)] // small whole numbers
fn deviation(group: &[u64]) -> f64 {
    let (count, sum) = (group.len() as u64, group.iter().sum::<u64>());
    (group.iter().map(|reading| (count * reading).abs_diff(sum)).sum::<u64>() / count) as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_group_a_batch_have_probabilities_that_sum_to_one() {
        let scale = |sensitivity| NoiseScale::calibrated(sensitivity, "0.5".parse().unwrap()).unwrap();
        let noise = |sensitivity| OneSided::new(scale(sensitivity));
        let grouping = Grouping { threshold: 2.0, threshold_noise: noise(2), query_noise: noise(4), reach: 400 };
        for batch in [vec![0, 0], vec![0, 2, 1], vec![2, 0, 0, 2], vec![0, 1, 2, 0, 2], vec![1]] {
            let law = grouping.law(&batch);
            let sum: f64 = law.iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "{batch:?}: {law:?}");
        }
    }
}
