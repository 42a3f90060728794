//! [`HistogramFilter`]: the counts or frequencies of a domain.

use serde::{Deserialize, Serialize};

use super::deviation_filter::DeviationFilter;
use super::irregular::IrregularComponent;
use super::model_bank::{ConstantPrior, Estimates, ModelBank};
use super::noise::ObservationNoise;
use super::simplex::shift_and_project;

/// Estimates non-negative numbers: their mean, the deviation of each from it, and an irregular component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramFilter {
    mean: ModelBank,
    deviations: DeviationFilter,
    irregular: IrregularComponent,
    observations: u64,
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl HistogramFilter {
    /// Creates a filter scaled to a first observation, which it does not take in. `reference` is positive: the
    /// approximate variance of most observations.
    pub fn new(numbers: &[f64], variance: f64, reference: f64) -> Self {
        let values = numbers.len() as f64;
        // The squares of non-negative numbers sum to at most the square of their sum.
        let squares = numbers.iter().sum::<f64>().powi(2).max(values * variance).max(f64::MIN_POSITIVE);
        Self {
            mean: ModelBank::new(1, reference / values, ConstantPrior::Likely),
            deviations: DeviationFilter::new(numbers.len(), reference, squares, ConstantPrior::Likely),
            irregular: IrregularComponent::new(numbers.len(), reference),
            observations: 0,
        }
    }

    /// Whether the state is a valid filter of `values` numbers.
    pub fn fits(&self, values: usize) -> bool {
        self.mean.fits(&[1]) && self.deviations.fits(values) && self.irregular.fits(values)
    }

    /// Number of numbers.
    pub fn numbers(&self) -> usize {
        self.deviations.numbers()
    }

    /// Number of observations so far.
    pub const fn observations(&self) -> u64 {
        self.observations
    }

    /// Updates with numbers published `gap` timestamps after the last ones. `noise` is their average noise.
    pub fn observe(&mut self, gap: u64, numbers: &[f64], noise: impl Into<ObservationNoise>) {
        let noise = noise.into().diluted_by(self.irregular.variance());
        let expected = (self.observations > 0).then(|| self.structural(gap));
        let (mean, deviations) = deviations(numbers);
        self.mean.observe(gap, &[mean], noise.of_mean(numbers.len()));
        self.deviations.observe(gap, &deviations, noise.of_deviations(numbers.len()));
        self.observations = self.observations.saturating_add(1);
        if let Some(expected) = expected {
            self.irregular.learn(&expected, numbers, noise.variance());
            self.irregular.update(&expected.variances, &self.structural(0).means, numbers, noise.variance());
        }
    }

    /// Updates as [`Self::observe`] does, given that many numbers have jumped.
    pub fn observe_jump(&mut self, gap: u64, numbers: &[f64], noise: impl Into<ObservationNoise>) {
        let noise = noise.into().diluted_by(self.irregular.variance());
        let (mean, deviations) = deviations(numbers);
        self.mean.observe_jump(gap, &[mean], noise.of_mean(numbers.len()));
        self.deviations.observe_jump(gap, &deviations, noise.of_deviations(numbers.len()));
        self.observations = self.observations.saturating_add(1);
        self.irregular.reset();
    }

    /// Returns the non-negative posterior `gap` timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let Estimates { mut means, mut variances } = self.structural(gap);
        let irregular_variances = self.irregular.variances(&means, gap == 0);
        variances.iter_mut().zip(irregular_variances).for_each(|(variance, irregular)| *variance += irregular);
        if gap == 0 {
            let total = means.iter().sum();
            means.iter_mut().zip(self.irregular.estimates()).for_each(|(mean, irregular)| *mean += irregular);
            shift_and_project(&mut means, &variances, total);
        }
        Estimates { means, variances }
    }

    /// Posterior without the irregular component.
    fn structural(&self, gap: u64) -> Estimates {
        let mean = self.mean.estimate(gap);
        let (mean, uncertain) = (mean.means[0].max(0.0), mean.variances[0]);
        let Estimates { mut means, mut variances } = self.deviations.estimate(gap);
        means.iter_mut().for_each(|number| *number += mean);
        let total = mean * means.len() as f64;
        shift_and_project(&mut means, &variances, total);
        variances.iter_mut().for_each(|variance| *variance += uncertain);
        Estimates { means, variances }
    }

    /// Expected steady-state mean squared error of observations every `period` timestamps.
    pub fn expected_error(&self, period: u64, noise: impl Into<ObservationNoise>) -> f64 {
        let (noise, values) = (noise.into().diluted_by(self.irregular.variance()), self.numbers());
        let error = self.mean.expected_error(period, noise.of_mean(values))
            + self.deviations.expected_error(period, noise.of_deviations(values));
        error + self.irregular.expected_error(period, noise.variance(), error)
    }
}

/// Returns the mean, and the deviations from it.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn deviations(numbers: &[f64]) -> (f64, Vec<f64>) {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    (mean, numbers.iter().map(|number| number - mean).collect())
}
