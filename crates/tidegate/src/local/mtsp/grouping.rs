//! Averages of a node's publications that belong together.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Average of the publications of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupAverage {
    /// Mean, weighted by inverse variance.
    #[default]
    Mean,
    /// Median of the newest [`MEDIAN_OF`] publications.
    Median,
}

/// Maximum number of publications in a median, which limits memory.
pub const MEDIAN_OF: usize = 32;

/// A weighted mean of independent estimates, and its variance.
///
/// Weights are inverse variances at the mean frequency of a level; at each estimated frequency they would bias the mean
/// towards low ones. The variance is exact for any weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Mean {
    weights: f64,
    /// Sum of weight times value.
    values: f64,
    /// Sum of squared weight times variance.
    variances: f64,
}

impl Mean {
    /// Adds an estimate.
    pub(super) fn add(&mut self, value: f64, variance: f64, weight: f64) {
        self.weights += weight;
        self.values += weight * value;
        self.variances += weight * weight * variance;
    }

    /// Adds the estimates of another mean.
    pub(super) fn merge(&mut self, other: &Self) {
        self.weights += other.weights;
        self.values += other.values;
        self.variances += other.variances;
    }

    /// Mean and its variance; `None` if empty.
    pub(super) fn read(&self) -> Option<(f64, f64)> {
        (self.weights > 0.0).then(|| (self.values / self.weights, self.variances / (self.weights * self.weights)))
    }

    /// Estimate of a part with a fixed share of the whole: value times share, variance times its square. The variance
    /// is a lower bound, as the share may be wrong.
    pub(super) fn part(&self, share: f64) -> Self {
        let square = share * share;
        Self { weights: self.weights / square, values: self.values / share, variances: self.variances / square }
    }

    /// Unbiased estimate of the squared difference between the truths behind both; may be negative.
    fn squared_deviation(&self, new: &Self) -> Option<f64> {
        let ((mean, mean_variance), (value, variance)) = (self.read()?, new.read()?);
        Some((value - mean) * (value - mean) - variance - mean_variance)
    }

    /// Squared difference up to which adding an estimate lowers the error.
    ///
    /// With weight `a` for the new estimate of variance `v`, and `1-a` for the mean of variance `m`, the error is `a² v
    /// + (1-a)² (m + deviation²)`; without the mean it is `v`. For exact inverse variances the bound is `v + m`.
    fn threshold(&self, new: &Self) -> Option<f64> {
        let ((_, mean_variance), (_, variance)) = (self.read()?, new.read()?);
        // `(1 - a²) / (1 - a)²`, free of cancellation.
        let factor = 1.0 + 2.0 * new.weights / self.weights;
        Some(variance * factor - mean_variance)
    }

    /// Whether an estimate belongs to the same group.
    fn accepts(&self, new: &Self) -> bool {
        matches!((self.squared_deviation(new), self.threshold(new)), (Some(deviation), Some(most)) if deviation <= most)
    }
}

/// Current group of each node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Groups {
    means: Vec<Mean>,
    /// For the median: newest publications of each group, with their variances.
    newest: Vec<VecDeque<(f64, f64)>>,
}

impl Groups {
    pub(super) fn new(nodes: usize, smoother: GroupAverage) -> Self {
        let newest = match smoother {
            GroupAverage::Mean => Vec::new(),
            GroupAverage::Median => vec![VecDeque::new(); nodes],
        };
        Self { means: vec![Mean::default(); nodes], newest }
    }

    /// Whether it has so many nodes.
    pub(super) fn fits(&self, nodes: usize, smoother: GroupAverage) -> bool {
        self.means.len() == nodes && self.newest.len() == if smoother == GroupAverage::Mean { 0 } else { nodes }
    }

    /// Adds a publication of a node to its group, or starts a new group. Returns the average and its variance, which
    /// ignores drift within the group; `None` for an empty publication.
    pub(super) fn publish(&mut self, position: usize, new: &Mean) -> Option<(f64, f64)> {
        let published = new.read()?;
        let mean = &mut self.means[position];
        let joins = mean.accepts(new);
        if joins {
            mean.merge(new);
        } else {
            *mean = *new;
        }
        let Some(newest) = self.newest.get_mut(position) else { return mean.read() };
        if !joins {
            newest.clear();
        }
        if newest.len() == MEDIAN_OF {
            newest.pop_front();
        }
        newest.push_back(published);
        Some(median(newest))
    }
}

/// Median and its variance. Up to two estimates it is that of the mean; otherwise the limit for normal estimates of one
/// truth, `π n / (2 (Σ 1/√v)²)`, which is `π/2 · v/n` for equal variances.
#[allow(clippy::cast_precision_loss)]
fn median(estimates: &VecDeque<(f64, f64)>) -> (f64, f64) {
    let mut values: Vec<f64> = estimates.iter().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let (lower, upper) = (values[(count - 1) / 2], values[count / 2]);
    let variance = if count <= 2 {
        estimates.iter().map(|(_, variance)| variance).sum::<f64>() / (count * count) as f64
    } else {
        let densities: f64 = estimates.iter().map(|(_, variance)| variance.sqrt().recip()).sum();
        std::f64::consts::FRAC_PI_2 * count as f64 / (densities * densities)
    };
    (f64::midpoint(lower, upper), variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_kernel::{Randomness as _, SeededRandom};

    fn one(value: f64, variance: f64) -> Mean {
        let mut mean = Mean::default();
        mean.add(value, variance, 1.0 / variance);
        mean
    }

    /// An approximately normal error: a sum of twelve uniform numbers.
    #[allow(clippy::cast_precision_loss)]
    fn error(variance: f64, random: &mut SeededRandom) -> f64 {
        let sum: f64 = (0..12).map(|_| (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5).sum();
        sum * variance.sqrt()
    }

    #[test]
    fn the_squared_deviation_is_unbiased_whatever_the_variances() {
        // Three publications with unequal variances, then one whose truth is 0.03 away.
        let (variances, new_variance) = ([0.004, 0.001, 0.0005], 0.002);
        let mut random = SeededRandom::new(1);
        let trials = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..trials {
            let mut group = Mean::default();
            variances.iter().for_each(|v| group.merge(&one(0.2 + error(*v, &mut random), *v)));
            let new = one(0.23 + error(new_variance, &mut random), new_variance);
            let deviation = group.squared_deviation(&new).unwrap_or(f64::NAN);
            sum += deviation;
            squares += deviation * deviation;
        }
        let mean = sum / f64::from(trials);
        let standard_error = ((squares / f64::from(trials) - mean * mean) / f64::from(trials)).sqrt();
        // False-failure probability: 1e-6. Detects a variance wrong by a tenth.
        assert!((mean - 0.0009).abs() < 4.9 * standard_error, "{mean} ± {standard_error}");
        assert!(0.1 * new_variance > 9.8 * standard_error);
    }

    #[test]
    fn the_threshold_is_that_of_the_paper_where_all_variances_are_equal() {
        let mut group = Mean::default();
        for _ in 0..4 {
            group.merge(&one(0.3, 0.01));
        }
        // `(l + 1) / l` times the variance.
        assert!((group.threshold(&one(0.3, 0.01)).unwrap_or(f64::NAN) - 0.0125).abs() < 1e-15);
        // For inverse variances in general, the sum of both variances.
        assert!((group.threshold(&one(0.3, 0.7)).unwrap_or(f64::NAN) - 0.7025).abs() < 1e-12);
    }

    #[test]
    fn what_has_not_moved_is_averaged_and_what_has_begins_anew() {
        for smoother in [GroupAverage::Mean, GroupAverage::Median] {
            let mut groups = Groups::new(1, smoother);
            assert_eq!(groups.publish(0, &one(0.5, 0.01)), Some((0.5, 0.01)));
            let (value, variance) = groups.publish(0, &one(0.6, 0.01)).unwrap_or_default();
            assert!((value - 0.55).abs() < 1e-12 && (variance - 0.005).abs() < 1e-12, "{smoother:?}");
            let moved = groups.publish(0, &one(0.9, 0.01)).unwrap_or_default();
            assert!((moved.0 - 0.9).abs() < 1e-12 && (moved.1 - 0.01).abs() < 1e-12, "{smoother:?}");
            assert_eq!(groups.publish(0, &Mean::default()), None);
        }
    }

    #[test]
    fn the_median_is_over_a_bounded_number_and_states_its_variance() {
        let mut groups = Groups::new(1, GroupAverage::Median);
        let mut last = (0.0, 0.0);
        for index in 0..100 {
            last = groups.publish(0, &one(if index % 2 == 0 { 0.5 } else { 0.52 }, 0.01)).unwrap_or_default();
        }
        assert_eq!(groups.newest[0].len(), MEDIAN_OF);
        assert!((last.0 - 0.51).abs() < 1e-12);
        assert!((last.1 - std::f64::consts::FRAC_PI_2 * 0.01 / 32.0).abs() < 1e-12);
    }

    #[test]
    fn the_stated_variance_of_a_median_is_not_too_low() {
        let (variances, trials) = ([0.01, 0.04, 0.01, 0.02, 0.01, 0.03, 0.02], 20_000);
        let mut random = SeededRandom::new(2);
        let mut squares = 0.0;
        let mut stated = 0.0;
        for _ in 0..trials {
            let estimates = variances.iter().map(|variance| (error(*variance, &mut random), *variance)).collect();
            let (value, variance) = median(&estimates);
            squares += value * value / f64::from(trials);
            stated = variance;
        }
        assert!(squares < stated && stated < 1.3 * squares, "{squares} {stated}");
    }

    #[test]
    fn a_part_has_its_share_of_the_value_and_the_square_of_it_of_the_variance() {
        let (value, variance) = one(0.12, 0.01).part(1.0 / 3.0).read().unwrap_or_default();
        assert!((value - 0.04).abs() < 1e-15 && (variance - 0.01 / 9.0).abs() < 1e-15);
    }
}
