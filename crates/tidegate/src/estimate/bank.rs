//! [`Bank`]: interacting multiple models (Blom and Bar-Shalom 1988), one set for each number.
//!
//! A model is linear: a level that walks, with a slope that walks, or with scatter around it. Each number has a weight
//! for every model, moved by predictive likelihood. At each timestamp a small share of the weight changes model; who
//! changes goes on from the mean and covariance of all models.

use serde::{Deserialize, Serialize};

use super::posterior::{Noise, Posterior, normal_cdf};
use super::tuning::{MODELS, Model, TUNING};

/// One value for each model.
pub(super) type PerModel = [f64; MODELS];

/// State of the models of one number. Only models with a slope use the slope's fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Number {
    pub(super) weights: PerModel,
    /// The number, after the observations of this timestamp.
    pub(super) means: PerModel,
    pub(super) variances: PerModel,
    /// Level and slope before them: means and covariance.
    pub(super) levels: PerModel,
    pub(super) slopes: PerModel,
    pub(super) level_variances: PerModel,
    pub(super) covariances: PerModel,
    pub(super) slope_variances: PerModel,
}

/// Variances that some timestamps add, for each model.
pub(super) struct Steps {
    /// To the level, to the slope, and between them.
    pub(super) level: PerModel,
    pub(super) slope: PerModel,
    pub(super) between: PerModel,
    /// Scatter around the level.
    pub(super) scatter: PerModel,
    /// Number of timestamps, and the probability that the model stays the same.
    pub(super) timestamps: f64,
    pub(super) stays: f64,
}

/// Beliefs about numbers that are observed together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bank {
    numbers: Vec<Number>,
    /// Unit of the models' variances, and the largest variance of a step.
    unit: f64,
    cap: f64,
    /// Mean weights of the models over all numbers, with exponential forgetting.
    popular: PerModel,
}

/// A normal belief about each number before any observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Mean.
    pub mean: f64,
    /// Variance; positive. A flat prior has a large one.
    pub variance: f64,
    /// Variance of the largest possible step.
    pub largest_step: f64,
}

impl Bank {
    /// Creates a bank whose models move in `unit`s, the variance of one Laplace scale of usual observation noise.
    pub(super) fn new(numbers: usize, unit: f64, prior: Prior) -> Self {
        let slope_variance = |model: &Model| {
            if model.slope_step > 0.0 { (TUNING.first_slope * unit).min(prior.variance) } else { 0.0 }
        };
        let number = Number {
            weights: TUNING.priors(),
            means: [prior.mean; MODELS],
            variances: std::array::from_fn(|m| {
                prior.variance + (TUNING.models[m].scatter * unit).min(prior.largest_step)
            }),
            levels: [prior.mean; MODELS],
            slopes: [0.0; MODELS],
            level_variances: [prior.variance; MODELS],
            covariances: [0.0; MODELS],
            slope_variances: TUNING.models.each_ref().map(slope_variance),
        };
        Self { numbers: vec![number; numbers], unit, cap: prior.largest_step, popular: TUNING.priors() }
    }

    /// Number of numbers.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Unit of the models' variances.
    pub(super) const fn unit(&self) -> f64 {
        self.unit
    }

    /// Mean weights of the models over numbers and recent timestamps.
    pub(super) const fn popular(&self) -> &PerModel {
        &self.popular
    }

    /// State of a number.
    pub(super) fn number(&self, index: usize) -> &Number {
        &self.numbers[index]
    }

    /// Variances that some timestamps add.
    #[inline]
    pub(super) fn steps(&self, timestamps: u64) -> Steps {
        #[allow(clippy::cast_precision_loss)] // beyond 2^53 nothing is known anyway
        let n = timestamps as f64;
        let capped = |variance: f64| (variance * self.unit).min(self.cap);
        let slope: PerModel = std::array::from_fn(|m| capped(TUNING.models[m].slope_step) * n);
        Steps {
            level: std::array::from_fn(|m| {
                let model = &TUNING.models[m];
                (capped(model.step) + capped(model.slope_step) * (n - 1.0) * (2.0 * n - 1.0) / 6.0) * n
            }),
            slope,
            between: slope.map(|step| step * (n - 1.0) / 2.0),
            scatter: std::array::from_fn(|m| capped(TUNING.models[m].scatter)),
            timestamps: n,
            stays: (1.0 - TUNING.hazard).powf(n),
        }
    }

    /// Updates the level of a number with an observation of the mean of `count` numbers around it.
    #[allow(clippy::needless_range_loop)] // several arrays side by side
    pub(super) fn observe_mean(&mut self, index: usize, count: f64, update: impl Fn(f64, f64) -> Posterior) {
        let Steps { scatter, level: step, .. } = self.steps(1);
        // Variance of the mean around the level at its end: of its scatter, and of the steps since.
        let around: PerModel = std::array::from_fn(|m| scatter[m] / count + step[m] * (count - 1.0) / 3.0);
        let number = &mut self.numbers[index];
        number.condition(&scatter);
        number.means = number.levels;
        for m in 0..MODELS {
            number.variances[m] = number.level_variances[m] + around[m];
        }
        self.observe(index, update);
        let number = &mut self.numbers[index];
        number.condition(&around);
        number.means = number.levels;
        for m in 0..MODELS {
            number.variances[m] = number.level_variances[m] + scatter[m];
        }
    }

    /// Moves all beliefs forward by a number of timestamps, at least one.
    pub(super) fn predict(&mut self, timestamps: u64) {
        let Steps { level: step, slope: slope_step, between, scatter, timestamps: n, stays } = self.steps(timestamps);
        let (prior, cap) = (TUNING.priors(), self.cap);
        // A belief wider than this knows nothing.
        let widest = 4.0 * cap;
        for number in &mut self.numbers {
            number.condition(&scatter);
            number.mix(stays, &prior);
            for m in 0..MODELS {
                let (level, slope, covariance) =
                    (number.level_variances[m], number.slope_variances[m], number.covariances[m]);
                number.levels[m] += n * number.slopes[m];
                number.level_variances[m] = (level + n * (2.0 * covariance + n * slope) + step[m]).min(widest);
                number.covariances[m] = covariance + n * slope + between[m];
                number.slope_variances[m] = slope + slope_step[m];
                // Keeps the covariance a covariance where the level's variance was cut.
                let most = (number.level_variances[m] * number.slope_variances[m]).max(0.0).sqrt();
                number.covariances[m] = number.covariances[m].clamp(-most, most);
                number.means[m] = number.levels[m];
                number.variances[m] = number.level_variances[m] + scatter[m];
            }
        }
    }

    /// Updates number `index` with an observation. Returns its density under the bank, as factor and exponent.
    #[inline]
    pub(super) fn observe(&mut self, index: usize, update: impl Fn(f64, f64) -> Posterior) -> (f64, f64) {
        let number = &mut self.numbers[index];
        let (mut factors, mut exponents) = ([0.0; MODELS], [0.0; MODELS]);
        let mut highest = f64::NEG_INFINITY;
        for m in 0..MODELS {
            let posterior = update(number.means[m], number.variances[m]);
            number.means[m] = posterior.mean;
            number.variances[m] = posterior.variance;
            factors[m] = posterior.factor;
            exponents[m] = posterior.exponent;
            highest = highest.max(posterior.exponent);
        }
        let mut total = 0.0;
        for m in 0..MODELS {
            number.weights[m] *= factors[m] * (exponents[m] - highest).exp();
            total += number.weights[m];
        }
        let floor = TUNING.least_weight;
        number.weights.iter_mut().for_each(|weight| *weight = (*weight / total).max(floor));
        (total, highest)
    }

    /// Gives models with scatter this share of the weights.
    pub(super) fn favour_scatter(&mut self, share: f64) {
        for number in &mut self.numbers {
            let has_scatter = |m: usize| TUNING.models[m].scatter > 0.0;
            let before: f64 = (0..MODELS).filter(|m| has_scatter(*m)).map(|m| number.weights[m]).sum();
            for m in 0..MODELS {
                number.weights[m] *= if has_scatter(m) { share / before } else { (1.0 - share) / (1.0 - before) };
            }
        }
    }

    /// Updates the weights of number `index` with an observation of the share of `count` numbers around it that lie
    /// above `cut`, with noise.
    #[allow(clippy::needless_range_loop)] // several arrays side by side
    pub(super) fn observe_share(&mut self, index: usize, count: f64, cut: f64, observed: f64, noise: Noise) {
        let scatter = self.steps(1).scatter;
        let number = &mut self.numbers[index];
        let mut total = 0.0;
        for m in 0..MODELS {
            let (level, variance) = (number.means[m], number.variances[m]);
            let above = normal_cdf((level - cut) / variance.sqrt());
            // The level is common to all, the scatter is not.
            let common = 1.0 - (scatter[m] / variance).min(1.0);
            let spread = above * (1.0 - above) * (common + (1.0 - common) / count);
            let posterior = noise.update(above, spread.max(f64::MIN_POSITIVE), observed);
            number.weights[m] *= (posterior.factor * posterior.exponent.exp()).max(f64::MIN_POSITIVE);
            total += number.weights[m];
        }
        number.weights.iter_mut().for_each(|weight| *weight = (*weight / total).max(TUNING.least_weight));
    }

    /// Updates the popularity of the models, at the end of a timestamp.
    #[allow(clippy::cast_precision_loss)] // a number of numbers
    pub(super) fn close(&mut self) {
        let mut mean = [0.0; MODELS];
        for number in &self.numbers {
            (0..MODELS).for_each(|m| mean[m] += number.weights[m]);
        }
        let share = TUNING.memory / self.numbers.len() as f64;
        (0..MODELS).for_each(|m| self.popular[m] += share * mean[m] - TUNING.memory * self.popular[m]);
    }

    /// Mean and variance of a number, from the models that matter: those of weight above
    /// [`significant`](super::tuning::Tuning::significant).
    pub(super) fn belief(&self, index: usize) -> (f64, f64) {
        let number = &self.numbers[index];
        let weights = self.shared_weights(number);
        let mean: f64 = (0..MODELS).map(|m| weights[m] * number.means[m]).sum();
        let (mut mass, mut square) = (0.0, 0.0);
        for m in 0..MODELS {
            if weights[m] > TUNING.significant {
                mass += weights[m];
                square += weights[m] * (number.variances[m] + (number.means[m] - mean).powi(2));
            }
        }
        (mean, square / mass)
    }

    /// Empirical Bayes: weights under a prior that half follows what suits all numbers.
    fn shared_weights(&self, number: &Number) -> PerModel {
        let prior = TUNING.priors();
        let weight = |m: usize| {
            let favour = if TUNING.models[m].is_jump() { 1.0 } else { self.popular[m] / prior[m] };
            number.weights[m] * (1.0 - TUNING.shared + TUNING.shared * favour)
        };
        let weights: PerModel = std::array::from_fn(weight);
        let total: f64 = weights.iter().sum();
        weights.map(|weight| weight / total)
    }

    /// Whether a loaded state is valid.
    pub(super) fn fits(&self, numbers: usize) -> bool {
        let Self { numbers: beliefs, unit, cap, popular } = self;
        let positive = |number: &f64| number.is_finite() && *number > 0.0;
        beliefs.len() == numbers
            && positive(unit)
            && positive(cap)
            && is_distribution(popular)
            && beliefs.iter().all(Number::fits)
    }
}

impl Number {
    /// Carries the posterior of the number back to level and slope.
    #[inline]
    pub(super) fn condition(&mut self, scatter: &PerModel) {
        for m in 0..MODELS {
            let (level, covariance) = (self.level_variances[m], self.covariances[m]);
            let before = level + scatter[m];
            let (gain, slope_gain) = (level / before, covariance / before);
            let shift = self.means[m] - self.levels[m];
            let known = before - self.variances[m];
            self.levels[m] += gain * shift;
            self.slopes[m] += slope_gain * shift;
            self.level_variances[m] = gain * (scatter[m] + gain * self.variances[m]);
            self.covariances[m] = covariance - gain * slope_gain * known;
            self.slope_variances[m] = (self.slope_variances[m] - slope_gain * slope_gain * known).max(0.0);
        }
    }

    /// Some of the weight changes model, and goes on from where all models are together.
    #[inline]
    pub(super) fn mix(&mut self, stays: f64, prior: &PerModel) {
        let total: f64 = self.weights.iter().sum();
        let (mut level, mut slope) = (0.0, 0.0);
        for m in 0..MODELS {
            self.weights[m] /= total;
            level += self.weights[m] * self.levels[m];
            slope += self.weights[m] * self.slopes[m];
        }
        let (mut level_variance, mut covariance, mut slope_variance) = (0.0, 0.0, 0.0);
        for m in 0..MODELS {
            let (weight, by, slope_by) = (self.weights[m], self.levels[m] - level, self.slopes[m] - slope);
            level_variance += weight * (self.level_variances[m] + by * by);
            covariance += weight * (self.covariances[m] + by * slope_by);
            slope_variance += weight * (self.slope_variances[m] + slope_by * slope_by);
        }
        for m in 0..MODELS {
            let kept = stays * self.weights[m];
            self.weights[m] = kept + (1.0 - stays) * prior[m];
            let own = kept / self.weights[m];
            let other = 1.0 - own;
            let sloped = TUNING.has_slope[m];
            let (by, slope_by) = (self.levels[m] - level, self.slopes[m] - slope);
            // Mean of both, and the variance around it.
            self.levels[m] = level + own * by;
            self.slopes[m] = sloped * (slope + own * slope_by);
            self.level_variances[m] = own * self.level_variances[m] + other * level_variance + own * other * by * by;
            self.covariances[m] =
                sloped * (own * self.covariances[m] + other * covariance + own * other * by * slope_by);
            self.slope_variances[m] =
                sloped * (own * self.slope_variances[m] + other * slope_variance + own * other * slope_by * slope_by);
        }
    }

    fn fits(&self) -> bool {
        let Self { weights, means, variances, levels, slopes, level_variances, covariances, slope_variances } = self;
        let finite = |numbers: &PerModel| numbers.iter().all(|number| number.is_finite());
        let positive = |numbers: &PerModel| numbers.iter().all(|number| number.is_finite() && *number > 0.0);
        is_distribution(weights)
            && [means, levels, slopes, covariances].into_iter().all(finite)
            && positive(variances)
            && positive(level_variances)
            && slope_variances.iter().all(|number| number.is_finite() && *number >= 0.0)
    }
}

/// Whether all weights are positive and sum to one, up to rounding.
fn is_distribution(weights: &PerModel) -> bool {
    weights.iter().all(|weight| *weight > 0.0) && (weights.iter().sum::<f64>() - 1.0).abs() < 1e-6
}
