//! [`Smoothing`]: the average of a group's noisy points.

use serde::{Deserialize, Serialize};

use super::settings::Smoother;

/// Noisy points of a group, in grid units.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Smoothing {
    smoother: Smoother,
    count: usize,
    sum: f64,
    /// Sum of the variances.
    variances: f64,
    /// Points in ascending order, for the median only.
    sorted: Vec<i64>,
}

impl Smoothing {
    pub(super) fn new(smoother: Smoother) -> Self {
        Self { smoother, ..Self::default() }
    }

    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn add(&mut self, point: i64, variance: f64) {
        self.count += 1;
        self.sum += point as f64;
        self.variances += variance;
        if self.smoother == Smoother::Median {
            let position = self.sorted.partition_point(|earlier| *earlier <= point);
            self.sorted.insert(position, point);
        }
    }

    /// Average and its variance. For the median it states that of the mean, which is larger: with Laplace noise the
    /// median is the better average.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn average(&self) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let average = match self.smoother {
            Smoother::Mean => self.sum / count,
            Smoother::Median => {
                let middle = |index: usize| self.sorted.get(index).copied().unwrap_or_default() as f64;
                f64::midpoint(middle(self.count.saturating_sub(1) / 2), middle(self.count / 2))
            }
        };
        (average, self.variances / (count * count))
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.sum = 0.0;
        self.variances = 0.0;
        self.sorted.clear();
    }

    /// Whether a loaded state matches this average.
    pub(super) fn fits(&self, smoother: Smoother, count: usize) -> bool {
        let kept = if smoother == Smoother::Median { count } else { 0 };
        self.smoother == smoother && self.count == count && self.sorted.len() == kept && self.sorted.is_sorted()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_median_are_what_they_are_called() {
        for (smoother, expected) in [(Smoother::Mean, [5.0, 3.0, 34.0]), (Smoother::Median, [5.0, 3.0, 5.0])] {
            let mut smoothing = Smoothing::new(smoother);
            for (point, expected) in [5, 1, 96].into_iter().zip(expected) {
                smoothing.add(point, 18.0);
                assert_eq!(smoothing.average().0, expected);
            }
            assert_eq!(smoothing.average().1, 6.0);
            assert!(smoothing.fits(smoother, 3));
            smoothing.clear();
            assert!(smoothing.fits(smoother, 0));
        }
    }
}
