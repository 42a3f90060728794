//! [`IrregularComponent`]: by how much numbers differ at every timestamp from what moves.

use serde::{Deserialize, Serialize};

use super::model_bank::Estimates;

/// How far numbers lie, at each timestamp anew, from what the models of a bank follow: as counts do of people who toss
/// coins.
///
/// What a model follows is what the numbers have from one timestamp to the next. Where they irregular around it, what was
/// observed is farther residual than the models say, by more the larger a number is. How much that is, is learned from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IrregularComponent {
    /// The variance to which the amounts are relative.
    reference: f64,
    /// The logarithms of how likely each level is beside the likeliest: at first, and by what was observed.
    log_weights: [f64; VARIANCE_GRID.len()],
    /// Of each number that was observed last: what it has of its estimates at that timestamp, and the variance of what it may
    /// have besides.
    estimates: Vec<f64>,
    variances: Vec<f64>,
}

/// By what variance numbers of a mean size may irregular, and how likely it is beforehand that they do not.
const VARIANCE_GRID: [f64; 10] = [0.0, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
const ZERO_PRIOR: f64 = 0.95;

/// How much is remembered from one observation to the next, of log_weights that counts by so much: noise that has a
/// Laplace distribution is far residual more often than a normal one.
const FORGETTING_FACTOR: f64 = 0.99;
const LIKELIHOOD_POWER: f64 = 0.4;

/// Nothing that is saved is larger than this.
const MAX_SAVED: f64 = 1e300;

/// No number scatters by less than one of this size beside the mean.
const MIN_SIZE: f64 = 0.1;

/// Evidence against an level is never more than this, nor is more of it believed from one number at once, however far
/// that is residual: it may have moved for good.
const MAX_LOG_WEIGHT: f64 = 50.0;
const MAX_LOG_RATIO: f64 = 4.0;
const MAX_RESIDUAL: f64 = 1e6;

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl IrregularComponent {
    /// Of so many numbers, of which nothing is known. `reference`, which is positive, is about the variance with which
    /// they are going to be seen.
    pub(super) fn new(numbers: usize, reference: f64) -> Self {
        let none = vec![0.0; numbers];
        let mut log_weights =
            [((1.0 - ZERO_PRIOR) / ZERO_PRIOR / (VARIANCE_GRID.len() - 1) as f64).ln(); VARIANCE_GRID.len()];
        log_weights[0] = 0.0;
        Self { reference, log_weights, estimates: none.clone(), variances: none }
    }

    /// Whether a state that was loaded can be that of so many numbers.
    pub(super) fn fits(&self, numbers: usize) -> bool {
        let Self { reference, log_weights, estimates, variances } = self;
        reference.is_finite()
            && *reference > 0.0
            && *reference <= MAX_SAVED
            && log_weights.iter().all(|log_weights| (-MAX_LOG_WEIGHT..=0.0).contains(log_weights))
            && estimates.len() == numbers
            && estimates.iter().all(|estimates| estimates.abs() <= MAX_SAVED)
            && variances.len() == numbers
            && variances.iter().all(|variances| (0.0..=MAX_SAVED).contains(variances))
    }

    /// The variance by which a number of the mean size scatters.
    pub(super) fn variance(&self) -> f64 {
        let weights = || self.log_weights.iter().map(|log_weights| log_weights.exp());
        let sum: f64 = weights().zip(VARIANCE_GRID).map(|(weight, level)| weight * level).sum();
        self.reference * sum / weights().sum::<f64>()
    }

    /// Learns from what was observed, with a variance, of numbers of which something else was expected.
    pub(super) fn learn(&mut self, expected: &Estimates, numbers: &[f64], variance: f64) {
        let Estimates { means, variances } = expected;
        let relative_sizes = relative_sizes(means);
        // How much log_ratios each level made what was observed than none did.
        let log_ratios = VARIANCE_GRID.map(|level| {
            let of_one = |(((mean, uncertain), size), number): (((&f64, &f64), &f64), &f64)| {
                let without = uncertain + variance;
                let ratio = without / (without + level * self.reference * size);
                let residual = ((number - mean) / without.sqrt()).abs().min(MAX_RESIDUAL);
                (0.5 * (residual * residual * (1.0 - ratio) + ratio.ln())).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            };
            means.iter().zip(variances).zip(&relative_sizes).zip(numbers).map(of_one).sum::<f64>()
        });
        for (log_weights, log_ratios) in self.log_weights.iter_mut().zip(log_ratios) {
            *log_weights = FORGETTING_FACTOR * *log_weights + LIKELIHOOD_POWER * log_ratios;
        }
        let most = self.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.log_weights.iter_mut().for_each(|log_weights| *log_weights = (*log_weights - most).max(-MAX_LOG_WEIGHT));
    }

    /// Notes what numbers that were observed with a variance have of their estimates, where these variances were expected of
    /// what moves, and that is believed of it since.
    pub(super) fn update(&mut self, expected: &[f64], believed: &[f64], numbers: &[f64], variance: f64) {
        let (irregular, lost) = (self.variance(), 1.0 / numbers.len() as f64);
        let of_numbers =
            self.estimates.iter_mut().zip(&mut self.variances).zip(expected.iter().zip(relative_sizes(believed)));
        for (((estimates, variances), (uncertain, size)), (number, believed)) in
            of_numbers.zip(numbers.iter().zip(believed))
        {
            let (irregular, total) = (irregular * size, uncertain + variance);
            // What is residual is shared out by variances: that of the irregular, of what is variances about what moves, and of
            // the noise.
            let (of_scatter, not_followed) = (irregular / (total + irregular), variance / total);
            *estimates = of_scatter * (number - believed);
            // Their sum is taken to be as it moves, so what they have of their estimates on average is not made use of.
            *variances = irregular * not_followed * not_followed * (1.0 - of_scatter * (1.0 - lost));
        }
    }

    /// Nothing is known of what numbers have of their estimates.
    pub(super) fn reset(&mut self) {
        self.estimates.fill(0.0);
        self.variances.fill(0.0);
    }

    /// What each number has of its estimates where it was observed.
    pub(super) fn estimates(&self) -> &[f64] {
        &self.estimates
    }

    /// The variances that irregular adds to those of what is believed of the numbers: at the timestamp at which they were
    /// observed, or at any other.
    pub(super) fn variances(&self, believed: &[f64], observed: bool) -> Vec<f64> {
        if observed {
            return self.variances.clone();
        }
        let variance = self.variance();
        relative_sizes(believed).into_iter().map(|size| variance * size).collect()
    }

    /// What it adds to the mean squared error to expect, of numbers that are observed every `period` timestamps with a
    /// variance, where that of what moves is so much.
    pub(super) fn expected_error(&self, period: u64, variance: f64, error: f64) -> f64 {
        // What an error after an observation says of that before it.
        let unseen = if error < variance { 1.0 - error / variance } else { 0.0 };
        let total = variance / unseen.max(f64::MIN_POSITIVE);
        let irregular = self.variance();
        let where_observed = unseen * variance / (total + irregular);
        irregular * (1.0 - (1.0 - where_observed) / period.max(1) as f64)
    }
}

/// How large numbers are beside their mean.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn relative_sizes(numbers: &[f64]) -> Vec<f64> {
    let mean = numbers.iter().map(|number| number.max(0.0)).sum::<f64>() / numbers.len() as f64;
    let size = |number: &f64| if mean > 0.0 { (number / mean).max(MIN_SIZE) } else { 1.0 };
    numbers.iter().map(size).collect()
}
