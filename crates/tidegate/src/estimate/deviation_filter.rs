//! [`DeviationFilter`]: how far the values of a domain are from their mean, each by itself or each range from its neighbour.

use serde::{Deserialize, Serialize};

use super::model_bank::{ConstantPrior, Estimates, ModelBank};
use super::noise::ObservationNoise;

/// Follows how far many numbers are from their mean.
///
/// It does so twice: by a bank of the numbers themselves, and by a bank of how far ranges of them differ from the range
/// beside them (their Haar coefficients). The first suits domains in which a few values stand out, the second those in
/// which neighbours are alike. What each believes counts as much as it is likelier to have made what was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviationFilter {
    values: ModelBank,
    haar: ModelBank,
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl DeviationFilter {
    /// So many numbers whose squared deviations from their mean sum to `squares` at most. `reference` is about the
    /// variance with which the deviations are going to be seen.
    pub fn new(numbers: usize, reference: f64, squares: f64, stillness: ConstantPrior) -> Self {
        let mean_square = |blocks: usize| squares * expected_concentration(blocks) / numbers.max(1) as f64;
        let of_level = |(level, end): (usize, usize)| (end, mean_square(numbers.div_ceil(1 << level)));
        let ranges: Vec<(usize, f64)> = levels(numbers).into_iter().enumerate().map(of_level).collect();
        Self {
            values: ModelBank::grouped(&[(numbers, mean_square(numbers))], squares, reference, stillness),
            haar: ModelBank::grouped(&ranges, squares, reference * variance_ratio(numbers), stillness),
        }
    }

    /// Whether it can be that of so many numbers.
    pub fn fits(&self, numbers: usize) -> bool {
        self.values.fits(&[numbers]) && self.haar.fits(&levels(numbers))
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.values.numbers()
    }

    /// Takes in observations of all deviations, which sum to zero, so many timestamps after the last ones, all with the
    /// same noise.
    pub fn observe(&mut self, gap: u64, deviations: &[f64], noise: impl Into<ObservationNoise>) {
        let noise = noise.into();
        self.values.observe(gap, deviations, noise);
        self.haar.observe(gap, &haar_coefficients(deviations), coefficient_noise(noise, deviations.len()));
    }

    /// The same where it is known that many of them have jumped.
    pub fn observe_jump(&mut self, gap: u64, deviations: &[f64], noise: impl Into<ObservationNoise>) {
        let noise = noise.into();
        self.values.observe_jump(gap, deviations, noise);
        self.haar.observe_jump(gap, &haar_coefficients(deviations), coefficient_noise(noise, deviations.len()));
    }

    /// How much the bank of ranges counts, between zero and one.
    fn haar_weight(&self) -> f64 {
        let numbers = self.numbers();
        if numbers < 2 {
            return 0.0;
        }
        // Of numbers that sum to zero, one says nothing.
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

    /// What the bank of ranges believes of the deviations.
    fn haar_estimate(&self, gap: u64) -> Estimates {
        inverse_haar(&self.haar.estimate(gap), self.numbers())
    }

    /// What is believed of the deviations so many timestamps after the last observation.
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

    /// The mean squared error to expect in the long run, of observations every `period` timestamps with noise.
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

/// What to expect of the sum of squares of so many parts of a whole, where it is as likely to be of one order of
/// magnitude as of another, between that of even parts and that of a single one.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn expected_concentration(parts: usize) -> f64 {
    let parts = parts.max(2) as f64;
    (1.0 - parts.recip()) / parts.ln()
}

/// What counts less than this does not count, and is not computed.
const NEGLIGIBLE: f64 = 1e-9;

/// By how much the variance of a coefficient exceeds that of a distance from the mean: there is one coefficient less,
/// and the squares have the same sum.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn variance_ratio(numbers: usize) -> f64 {
    if numbers < 2 { 1.0 } else { numbers as f64 / (numbers as f64 - 1.0) }
}

/// The noise of coefficients of so many numbers whose deviations from their mean have one. All of them are taken to have
/// the same: of sums of many it is nearly normal. (Of pairs, which half of them are of, it is not.)
fn coefficient_noise(noise: ObservationNoise, numbers: usize) -> ObservationNoise {
    ObservationNoise::normal(noise.variance() * variance_ratio(numbers))
}

/// Where the coefficients of each width of ranges end, the narrowest first: pairs of numbers, pairs of pairs, and so
/// on. What is left over without a partner waits for a wider one.
fn levels(numbers: usize) -> Vec<usize> {
    let (mut blocks, mut end, mut ends) = (numbers, 0, Vec::new());
    while blocks > 1 {
        end += blocks / 2;
        ends.push(end);
        blocks = blocks.div_ceil(2);
    }
    ends
}

/// How many numbers a range and the one beside it have.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn widths(numbers: usize, width: usize, pair: usize) -> (f64, f64) {
    let start = 2 * pair * width;
    (width as f64, (numbers - start - width).min(width) as f64)
}

/// How far ranges differ from those beside them, as coefficients whose squares sum to those of the deviations.
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

/// The deviations from the mean that coefficients stand for, with the variances that follow from theirs if they are
/// independent.
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
            // Each distance has what is left of its variance when that of the mean is gone.
            let left = 1.0 - 1.0 / numbers as f64;
            assert!(back.variances.iter().all(|variance| (variance - left).abs() < 1e-9), "{numbers}");
        }
    }
}
