//! [`DeviationFilter`]: the deviations of many numbers from their mean.

use serde::{Deserialize, Serialize};

use super::model_bank::{ConstantPrior, Estimates, ModelBank};
use super::noise::ObservationNoise;

/// Estimates the deviations of many numbers from their mean.
///
/// Runs two model banks: one of the numbers, one of their Haar coefficients (Haar 1910). The first suits domains where
/// a few values stand out, the second domains where neighbours are alike. The estimate is their mixture, weighed by
/// evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviationFilter {
    values: ModelBank,
    haar: ModelBank,
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl DeviationFilter {
    /// Creates a filter of deviations whose squares sum to at most `squares`. `reference` is the approximate variance
    /// of future observations.
    pub fn new(numbers: usize, reference: f64, squares: f64, stillness: ConstantPrior) -> Self {
        let mean_square = |blocks: usize| squares * expected_concentration(blocks) / numbers.max(1) as f64;
        let of_level = |(level, end): (usize, usize)| (end, mean_square(numbers.div_ceil(1 << level)));
        let ranges: Vec<(usize, f64)> = levels(numbers).into_iter().enumerate().map(of_level).collect();
        Self {
            values: ModelBank::grouped(&[(numbers, mean_square(numbers))], squares, reference, stillness),
            haar: ModelBank::grouped(&ranges, squares, reference * variance_ratio(numbers), stillness),
        }
    }

    /// Whether the state is a valid filter of `numbers` numbers.
    pub fn fits(&self, numbers: usize) -> bool {
        self.values.fits(&[numbers]) && self.haar.fits(&levels(numbers))
    }

    /// Number of numbers.
    pub fn numbers(&self) -> usize {
        self.values.numbers()
    }

    /// Updates with observed deviations, which sum to zero, `gap` timestamps after the last ones.
    pub fn observe(&mut self, gap: u64, deviations: &[f64], noise: impl Into<ObservationNoise>) {
        let noise = noise.into();
        self.values.observe(gap, deviations, noise);
        self.haar.observe(gap, &haar_coefficients(deviations), coefficient_noise(noise, deviations.len()));
    }

    /// Updates as [`Self::observe`] does, given that many numbers have jumped.
    pub fn observe_jump(&mut self, gap: u64, deviations: &[f64], noise: impl Into<ObservationNoise>) {
        let noise = noise.into();
        self.values.observe_jump(gap, deviations, noise);
        self.haar.observe_jump(gap, &haar_coefficients(deviations), coefficient_noise(noise, deviations.len()));
    }

    /// Mixture weight of the Haar bank.
    fn haar_weight(&self) -> f64 {
        let numbers = self.numbers();
        if numbers < 2 {
            return 0.0;
        }
        // Deviations have one degree of freedom less than numbers.
        let values = self.values.evidence() / variance_ratio(numbers);
        let part = 1.0 / (1.0 + (values - self.haar.evidence()).exp());
        if part < NEGLIGIBLE {
            0.0
        } else if part > 1.0 - NEGLIGIBLE {
            1.0
        } else {
            part
        }
    }

    /// Estimate of the Haar bank.
    fn haar_estimate(&self, gap: u64) -> Estimates {
        inverse_haar(&self.haar.estimate(gap), self.numbers())
    }

    /// Returns the posterior `gap` timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let part = self.haar_weight();
        if part >= 1.0 {
            return self.haar_estimate(gap);
        }
        let Estimates { mut means, mut variances } = self.values.estimate(gap);
        if part > 0.0 {
            let ranges = self.haar_estimate(gap);
            let of_ranges = ranges.means.iter().zip(ranges.variances);
            for ((mean, variance), (other, uncertain)) in means.iter_mut().zip(&mut variances).zip(of_ranges) {
                let apart = *mean - other;
                *variance = (1.0 - part) * *variance + part * uncertain + part * (1.0 - part) * apart * apart;
                *mean -= part * apart;
            }
        }
        Estimates { means, variances }
    }

    /// Expected steady-state mean squared error of observations every `period` timestamps.
    pub fn expected_error(&self, period: u64, noise: impl Into<ObservationNoise>) -> f64 {
        let (noise, numbers) = (noise.into(), self.numbers());
        let part = self.haar_weight();
        let of_values = || self.values.expected_error(period, noise);
        let of_ranges =
            || self.haar.expected_error(period, coefficient_noise(noise, numbers)) / variance_ratio(numbers);
        if part <= 0.0 {
            of_values()
        } else if part >= 1.0 {
            of_ranges()
        } else {
            (1.0 - part) * of_values() + part * of_ranges()
        }
    }
}

/// Expected sum of squares of the parts of a whole. Its prior is log-uniform, between equal parts and a single one.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn expected_concentration(parts: usize) -> f64 {
    let parts = parts.max(2) as f64;
    (1.0 - parts.recip()) / parts.ln()
}

/// Smaller mixture weights are rounded to zero or one.
const NEGLIGIBLE: f64 = 1e-9;

/// Ratio of the variance of a coefficient to that of a deviation: there is one coefficient less, and the sums of
/// squares agree.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn variance_ratio(numbers: usize) -> f64 {
    if numbers < 2 { 1.0 } else { numbers as f64 / (numbers as f64 - 1.0) }
}

/// Noise of the coefficients. Treated as normal, which is close for sums of many but not for pairs.
fn coefficient_noise(noise: ObservationNoise, numbers: usize) -> ObservationNoise {
    ObservationNoise::normal(noise.variance() * variance_ratio(numbers))
}

/// End index of the coefficients of each scale, the finest first. A block without a partner joins the next scale.
fn levels(numbers: usize) -> Vec<usize> {
    let (mut blocks, mut end, mut ends) = (numbers, 0, Vec::new());
    while blocks > 1 {
        end += blocks / 2;
        ends.push(end);
        blocks = blocks.div_ceil(2);
    }
    ends
}

/// Sizes of the two blocks of a pair.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn widths(numbers: usize, width: usize, pair: usize) -> (f64, f64) {
    let start = 2 * pair * width;
    (width as f64, (numbers - start - width).min(width) as f64)
}

/// Orthonormal Haar transform of any length, without the mean.
fn haar_coefficients(deviations: &[f64]) -> Vec<f64> {
    let (mut means, mut width) = (deviations.to_vec(), 1);
    let mut coefficients = Vec::with_capacity(deviations.len());
    while means.len() > 1 {
        let pairs = means.len() / 2;
        for pair in 0..pairs {
            let (left, right) = widths(deviations.len(), width, pair);
            let (first, second) = (means[2 * pair], means[2 * pair + 1]);
            coefficients.push((left * right / (left + right)).sqrt() * (first - second));
            means[pair] = (left * first + right * second) / (left + right);
        }
        if means.len() % 2 == 1 {
            means[pairs] = means[2 * pairs];
        }
        means.truncate(means.len().div_ceil(2));
        width *= 2;
    }
    coefficients
}

/// Inverse transform; variances assume independent coefficients.
fn inverse_haar(coefficients: &Estimates, numbers: usize) -> Estimates {
    let (mut means, mut variances) = (vec![0.0], vec![0.0]);
    let ends = levels(numbers);
    for (level, end) in ends.iter().enumerate().rev() {
        let start = if level == 0 { 0 } else { ends[level - 1] };
        let width = 1_usize << level;
        let mut wider = means.into_iter().zip(variances);
        (means, variances) = (Vec::with_capacity(2 * (end - start) + 1), Vec::with_capacity(2 * (end - start) + 1));
        let of_level = coefficients.means[start..*end].iter().zip(&coefficients.variances[start..*end]);
        for ((pair, (coefficient, uncertain)), (mean, variance)) in of_level.enumerate().zip(&mut wider) {
            let (left, right) = widths(numbers, width, pair);
            let (first, second) = (right / (left * (left + right)), left / (right * (left + right)));
            means.extend([mean + coefficient * first.sqrt(), mean - coefficient * second.sqrt()]);
            variances.extend([variance + uncertain * first, variance + uncertain * second]);
        }
        let (left_over, uncertain): (Vec<f64>, Vec<f64>) = wider.unzip();
        means.extend(left_over);
        variances.extend(uncertain);
    }
    Estimates { means, variances }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_keep_the_sum_of_squares_and_lead_back() {
        for numbers in 1..40_usize {
            let raw: Vec<f64> = (0..numbers).map(|number| ((number * 7919) % 101) as f64).collect();
            let mean = raw.iter().sum::<f64>() / numbers as f64;
            let deviations: Vec<f64> = raw.iter().map(|number| number - mean).collect();
            let coefficients = haar_coefficients(&deviations);
            assert_eq!(coefficients.len(), numbers - 1);
            assert_eq!(levels(numbers).last().copied().unwrap_or(0), numbers - 1);
            let squares = |numbers: &[f64]| numbers.iter().map(|number| number * number).sum::<f64>();
            assert!((squares(&coefficients) - squares(&deviations)).abs() < 1e-6, "{numbers}");
            let variances = vec![1.0; coefficients.len()];
            let back = inverse_haar(&Estimates { means: coefficients, variances }, numbers);
            assert_eq!(back.means.len(), numbers);
            assert!(back.means.iter().zip(&deviations).all(|(back, distance)| (back - distance).abs() < 1e-9));
            // Each deviation has the variance of its number less that of the mean.
            let left = 1.0 - 1.0 / numbers as f64;
            assert!(back.variances.iter().all(|variance| (variance - left).abs() < 1e-9), "{numbers}");
        }
    }
}
