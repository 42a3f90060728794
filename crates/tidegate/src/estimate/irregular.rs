//! [`IrregularComponent`]: variation of each number that does not persist from one timestamp to the next.

use serde::{Deserialize, Serialize};

use super::model_bank::Estimates;

/// Irregular component of a structural time series (Harvey 1989): independent at each timestamp, such as the binomial
/// variation of counts.
///
/// Its variance is proportional to the size of a number, and is learned from the residuals of the model bank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IrregularComponent {
    /// Variance to which those of [`VARIANCE_GRID`] are relative.
    reference: f64,
    /// Log-posterior of each variance of the grid, relative to the largest.
    log_weights: [f64; VARIANCE_GRID.len()],
    /// Estimates at the last observation, and their error variances.
    estimates: Vec<f64>,
    variances: Vec<f64>,
}

/// Candidate variances of a number of mean size, and prior probability of zero.
const VARIANCE_GRID: [f64; 10] = [0.0, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
const ZERO_PRIOR: f64 = 0.95;

/// Forgetting factor of the log-posterior, and power to which likelihoods are raised: Laplace noise has more large
/// residuals than the normal likelihood expects.
const FORGETTING_FACTOR: f64 = 0.99;
const LIKELIHOOD_POWER: f64 = 0.4;

/// Largest value of a valid state.
const MAX_SAVED: f64 = 1e300;

/// Smallest relative size of a number.
const MIN_SIZE: f64 = 0.1;

/// Limits of a log-posterior, of one number's log-likelihood ratio, and of a scaled residual. A large residual may be a
/// lasting move.
const MAX_LOG_WEIGHT: f64 = 50.0;
const MAX_LOG_RATIO: f64 = 4.0;
const MAX_RESIDUAL: f64 = 1e6;

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl IrregularComponent {
    /// Creates the component before any observation. `reference` is positive: the approximate variance of observations.
    pub(super) fn new(numbers: usize, reference: f64) -> Self {
        let none = vec![0.0; numbers];
        let mut log_weights =
            [((1.0 - ZERO_PRIOR) / ZERO_PRIOR / (VARIANCE_GRID.len() - 1) as f64).ln(); VARIANCE_GRID.len()];
        log_weights[0] = 0.0;
        Self { reference, log_weights, estimates: none.clone(), variances: none }
    }

    /// Whether the state is valid for `numbers` numbers.
    pub(super) fn fits(&self, numbers: usize) -> bool {
        let Self { reference, log_weights, estimates, variances } = self;
        reference.is_finite()
            && *reference > 0.0
            && *reference <= MAX_SAVED
            && log_weights.iter().all(|weight| (-MAX_LOG_WEIGHT..=0.0).contains(weight))
            && estimates.len() == numbers
            && estimates.iter().all(|estimate| estimate.abs() <= MAX_SAVED)
            && variances.len() == numbers
            && variances.iter().all(|variance| (0.0..=MAX_SAVED).contains(variance))
    }

    /// Posterior mean variance of a number of mean size.
    pub(super) fn variance(&self) -> f64 {
        let weights = || self.log_weights.iter().map(|weight| weight.exp());
        let sum: f64 = weights().zip(VARIANCE_GRID).map(|(weight, level)| weight * level).sum();
        self.reference * sum / weights().sum::<f64>()
    }

    /// Updates the posterior of the variance from observations and their forecasts.
    pub(super) fn learn(&mut self, expected: &Estimates, numbers: &[f64], variance: f64) {
        let Estimates { means, variances } = expected;
        let relative_sizes = relative_sizes(means);
        // Log-likelihood ratio of each variance to zero.
        let log_ratios = VARIANCE_GRID.map(|level| {
            let of_one = |(((mean, uncertain), size), number): (((&f64, &f64), &f64), &f64)| {
                let without = uncertain + variance;
                let ratio = without / (without + level * self.reference * size);
                let residual = ((number - mean) / without.sqrt()).abs().min(MAX_RESIDUAL);
                (0.5 * (residual * residual * (1.0 - ratio) + ratio.ln())).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            };
            means.iter().zip(variances).zip(&relative_sizes).zip(numbers).map(of_one).sum::<f64>()
        });
        for (weight, log_ratio) in self.log_weights.iter_mut().zip(log_ratios) {
            *weight = FORGETTING_FACTOR * *weight + LIKELIHOOD_POWER * log_ratio;
        }
        let most = self.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.log_weights.iter_mut().for_each(|weight| *weight = (*weight - most).max(-MAX_LOG_WEIGHT));
    }

    /// Estimates the component. `expected` are the forecast variances, `believed` the posterior means of the model
    /// bank.
    pub(super) fn update(&mut self, expected: &[f64], believed: &[f64], numbers: &[f64], variance: f64) {
        let (irregular, lost) = (self.variance(), 1.0 / numbers.len() as f64);
        let of_numbers =
            self.estimates.iter_mut().zip(&mut self.variances).zip(expected.iter().zip(relative_sizes(believed)));
        for (((estimate, unknown), (uncertain, size)), (number, believed)) in
            of_numbers.zip(numbers.iter().zip(believed))
        {
            let (irregular, total) = (irregular * size, uncertain + variance);
            // Residuals are split in proportion to three variances: component, forecast and noise.
            let (gain, noise_share) = (irregular / (total + irregular), variance / total);
            *estimate = gain * (number - believed);
            // The total follows the model bank, so the mean of the component is unused.
            *unknown = irregular * noise_share * noise_share * (1.0 - gain * (1.0 - lost));
        }
    }

    pub(super) fn reset(&mut self) {
        self.estimates.fill(0.0);
        self.variances.fill(0.0);
    }

    /// Estimates at the last observation.
    pub(super) fn estimates(&self) -> &[f64] {
        &self.estimates
    }

    /// Variances to add to those of the model bank: at the last observation if `observed`, otherwise at any other time.
    pub(super) fn variances(&self, believed: &[f64], observed: bool) -> Vec<f64> {
        if observed {
            return self.variances.clone();
        }
        let variance = self.variance();
        relative_sizes(believed).into_iter().map(|size| variance * size).collect()
    }

    /// Addition to the expected mean squared error of observations every `period` timestamps. `error` is that of the
    /// model bank.
    pub(super) fn expected_error(&self, period: u64, variance: f64, error: f64) -> f64 {
        // Recovers the forecast variance from the posterior variance.
        let unseen = if error < variance { 1.0 - error / variance } else { 0.0 };
        let total = variance / unseen.max(f64::MIN_POSITIVE);
        let irregular = self.variance();
        let where_observed = unseen * variance / (total + irregular);
        irregular * (1.0 - (1.0 - where_observed) / period.max(1) as f64)
    }
}

/// Sizes relative to the mean.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn relative_sizes(numbers: &[f64]) -> Vec<f64> {
    let mean = numbers.iter().map(|number| number.max(0.0)).sum::<f64>() / numbers.len() as f64;
    let size = |number: &f64| if mean > 0.0 { (number / mean).max(MIN_SIZE) } else { 1.0 };
    numbers.iter().map(size).collect()
}
