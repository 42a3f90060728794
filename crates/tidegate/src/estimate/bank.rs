//! [`Bank`]: interacting multiple models (Blom and Bar-Shalom 1988), one set for each number.
//!
//! A model is linear: a level that walks, with a slope that walks or with scatter around it. Each
//! number has a weight for every model, moved by predictive likelihood. At each timestamp a small share of the weight
//! changes model, and goes on from the mean and covariance of all models.

// Loops run over several arrays with an entry for each model.
#![allow(clippy::needless_range_loop)]

use serde::{Deserialize, Deserializer, Serialize};

use super::belief::{Belief, Component, mixture};
use super::posterior::{Noise, Posterior, normal_cdf};
use super::tuning::{MODELS, Model, TUNING};

/// One value for each model.
pub(super) type PerModel = [f64; MODELS];

/// Entries of a covariance: of the level, between both, of the slope.
const ENTRIES: usize = 3;

/// Least share of its variance that a level keeps where a slope cancels it. Derived: less is rounding.
const LEAST_LEFT: f64 = 1e-14;

/// State of the models of one number. A model without a slope has zeros there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Number {
    pub(super) weights: PerModel,
    /// The number, after the observations of this timestamp.
    pub(super) means: PerModel,
    #[serde(deserialize_with = "variances")]
    pub(super) variances: PerModel,
    /// Level and slope before them: means and covariance.
    pub(super) levels: PerModel,
    pub(super) slopes: PerModel,
    #[serde(deserialize_with = "covariance")]
    pub(super) covariance: [PerModel; ENTRIES],
}

/// Variances without the sign that rounding gave to those of models with a slope, as earlier programs saved them.
fn unsigned(saved: PerModel) -> PerModel {
    std::array::from_fn(|m| if TUNING.has_slope[m] > 0.0 { saved[m].abs() } else { saved[m] })
}

fn variances<'de, D: Deserializer<'de>>(saved: D) -> Result<PerModel, D::Error> {
    Ok(unsigned(Deserialize::deserialize(saved)?))
}

fn covariance<'de, D: Deserializer<'de>>(saved: D) -> Result<[PerModel; ENTRIES], D::Error> {
    let [levels, between, slopes] = Deserialize::deserialize(saved)?;
    Ok([unsigned(levels), between, slopes])
}

/// Effect of some timestamps on each model.
pub(super) struct Steps {
    /// Covariance that they add.
    pub(super) added: [PerModel; ENTRIES],
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
        let scatter = |m: usize| (TUNING.models[m].scatter * unit).min(prior.largest_step);
        let first_slope = (TUNING.first_slope * unit).min(prior.variance);
        let number = Number {
            weights: TUNING.priors(),
            means: [prior.mean; MODELS],
            variances: std::array::from_fn(|m| prior.variance + scatter(m)),
            levels: [prior.mean; MODELS],
            slopes: [0.0; MODELS],
            covariance: [
                [prior.variance; MODELS],
                [0.0; MODELS],
                TUNING.has_slope.map(|has_slope| has_slope * first_slope),
            ],
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
        let of_model: [_; MODELS] = std::array::from_fn(|m| TUNING.models[m].added(n).map(capped));
        Steps {
            added: std::array::from_fn(|entry| std::array::from_fn(|m| of_model[m][entry])),
            scatter: std::array::from_fn(|m| capped(TUNING.models[m].scatter)),
            timestamps: n,
            stays: (1.0 - TUNING.hazard).powf(n),
        }
    }

    /// Updates the level of a number with an observation of the mean of `count` numbers around it.
    #[allow(clippy::needless_range_loop)] // several arrays side by side
    pub(super) fn observe_mean(&mut self, index: usize, count: f64, update: impl Fn(f64, f64) -> Posterior) {
        let Steps { scatter, added, .. } = self.steps(1);
        // Variance of the mean around the level at its end: of its scatter, and of the steps since.
        let around: PerModel = std::array::from_fn(|m| scatter[m] / count + added[0][m] * (count - 1.0) / 3.0);
        let number = &mut self.numbers[index];
        number.condition(&scatter);
        number.expect(&around);
        self.observe(index, update);
        let number = &mut self.numbers[index];
        number.condition(&around);
        number.expect(&scatter);
    }

    /// Moves all beliefs forward by a number of timestamps, at least one.
    pub(super) fn predict(&mut self, timestamps: u64) {
        let Steps { added, scatter, timestamps: n, stays } = self.steps(timestamps);
        let prior = TUNING.priors();
        // A belief wider than this knows nothing.
        let widest = 4.0 * self.cap;
        for number in &mut self.numbers {
            number.condition(&scatter);
            number.mix(stays, &prior);
            number.step(n, &added, widest);
            number.expect(&scatter);
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

    /// Belief about a number.
    pub(super) fn belief(&self, index: usize) -> Belief {
        let number = &self.numbers[index];
        let weights = self.shared_weights(number);
        // Several numbers show together which kinds of models suit them. One number alone does not for a long time.
        let even = if self.numbers.len() == 1 { &TUNING.even_kinds } else { &TUNING.even_models };
        Self::mixture(&weights, even, |m| (number.means[m], number.variances[m]).into())
    }

    /// Mixture of all models. In stated variances, those that do not jump have these priors.
    pub(super) fn mixture(weights: &PerModel, even: &PerModel, belief: impl Fn(usize) -> Belief) -> Belief {
        let prior = TUNING.priors();
        let caution: PerModel =
            std::array::from_fn(|m| if TUNING.models[m].is_jump() { 1.0 } else { even[m] / prior[m] });
        mixture((0..MODELS).map(|m| {
            let belief = belief(m);
            let scattered = if TUNING.models[m].scatter > 0.0 { belief.stated } else { 0.0 };
            Component { weight: weights[m], caution: caution[m], belief: Belief { scattered, ..belief } }
        }))
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

    /// Mean variance of a number under each model, in units, in the steady state of a pattern of observations.
    pub(super) fn steady_errors(pattern: Pattern) -> PerModel {
        std::array::from_fn(|m| pattern.steady_error(&TUNING.models[m]))
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

/// A pattern of observations: one of variance `exact`, then `period - 1` of variance `watch`, and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// Timestamps from one exact observation to the next, at least one.
    pub period: u32,
    /// Variance of an exact observation, in units.
    pub exact: f64,
    /// Variance of the others, in units.
    pub watch: f64,
}

impl Pattern {
    /// Riccati recursion of a model over a horizon: mean variance of its last period.
    fn steady_error(self, model: &Model) -> f64 {
        let Self { period, exact, watch } = self;
        let added = model.added(1.0);
        let mut c = [exact, 0.0, if model.has_slope() { TUNING.first_slope } else { 0.0 }];
        let mut sum = 0.0;
        for _ in 0..(TUNING.horizon / period).max(TUNING.riccati_periods) {
            sum = 0.0;
            for at in 0..period {
                c = moved(c, 1.0);
                c.iter_mut().zip(&added).for_each(|(entry, added)| *entry += added);
                let (before, noise) = (c[0] + model.scatter, if at == 0 { exact } else { watch });
                let known = before * before / (before + noise);
                sum += before - known;
                let (gain, slope_gain) = (c[0] / before, c[1] / before);
                c[0] -= gain * gain * known;
                c[1] -= gain * slope_gain * known;
                c[2] -= slope_gain * slope_gain * known;
            }
        }
        sum / f64::from(period)
    }

    /// Variance of the observations, averaged by precision.
    pub(super) fn mean_noise(self) -> f64 {
        let others = f64::from(self.period - 1);
        f64::from(self.period) / (self.exact.recip() + others / self.watch)
    }

    /// Mean variance that is left of scatter, in units.
    pub(super) fn scatter_error(self, scatter: f64) -> f64 {
        let left = |noise: f64| scatter * (noise / (scatter + noise));
        (left(self.exact) + f64::from(self.period - 1) * left(self.watch)) / f64::from(self.period)
    }
}

/// Covariance after the state has moved on by `n` timestamps, without the variance that this adds.
#[inline]
pub(super) fn moved([level, between, slope]: [f64; ENTRIES], n: f64) -> [f64; ENTRIES] {
    [level + n * (2.0 * between + n * slope), between + n * slope, slope]
}

impl Number {
    /// Carries the posterior of the number back to its state.
    #[inline]
    pub(super) fn condition(&mut self, scatter: &PerModel) {
        for m in 0..MODELS {
            let level = self.covariance[0][m];
            let before = level + scatter[m];
            let (gain, slope_gain) = (level / before, self.covariance[1][m] / before);
            let shift = self.means[m] - self.levels[m];
            let known = before - self.variances[m];
            self.levels[m] += gain * shift;
            self.slopes[m] += slope_gain * shift;
            // As a sum of positive terms: a difference may cancel.
            self.covariance[0][m] = gain * (scatter[m] + gain * self.variances[m]);
            self.covariance[1][m] -= gain * slope_gain * known;
            self.covariance[2][m] = (self.covariance[2][m] - slope_gain * slope_gain * known).max(0.0);
            // Where the observation is far more exact than the belief, rounding may leave a correlation above one.
            let most = (self.covariance[0][m] * self.covariance[2][m]).sqrt();
            self.covariance[1][m] = self.covariance[1][m].clamp(-most, most);
        }
    }

    /// Takes the state as belief about a number that scatters around it.
    #[inline]
    fn expect(&mut self, scatter: &PerModel) {
        self.means = self.levels;
        (0..MODELS).for_each(|m| self.variances[m] = self.covariance[0][m] + scatter[m]);
    }

    /// Some of the weight changes model, and goes on from where all models are together.
    #[inline]
    pub(super) fn mix(&mut self, stays: f64, prior: &PerModel) {
        let total: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= total);
        let mean = |of: &PerModel| of.iter().zip(&self.weights).map(|(value, weight)| value * weight).sum::<f64>();
        let (level, slope) = (mean(&self.levels), mean(&self.slopes));
        let mut spread = [0.0; ENTRIES];
        for m in 0..MODELS {
            let (by, slope_by) = (self.levels[m] - level, self.slopes[m] - slope);
            let apart = [by * by, by * slope_by, slope_by * slope_by];
            (0..ENTRIES).for_each(|at| spread[at] += self.weights[m] * (self.covariance[at][m] + apart[at]));
        }
        let mut own = [0.0; MODELS];
        for m in 0..MODELS {
            let kept = stays * self.weights[m];
            self.weights[m] = kept + (1.0 - stays) * prior[m];
            own[m] = kept / self.weights[m];
        }
        // Mean of both, and the covariance around it.
        for m in 0..MODELS {
            let (has_slope, new) = (TUNING.has_slope[m], 1.0 - own[m]);
            let (by, slope_by) = (self.levels[m] - level, self.slopes[m] - slope);
            let mixed = |at: usize, apart: f64| own[m] * (self.covariance[at][m] + new * apart) + new * spread[at];
            let entries =
                [mixed(0, by * by), has_slope * mixed(1, by * slope_by), has_slope * mixed(2, slope_by * slope_by)];
            (0..ENTRIES).for_each(|at| self.covariance[at][m] = entries[at]);
            self.levels[m] = level + own[m] * by;
            self.slopes[m] = has_slope * (slope + own[m] * slope_by);
        }
    }

    /// Moves the states on by `n` timestamps.
    #[inline]
    fn step(&mut self, n: f64, added: &[PerModel; ENTRIES], widest: f64) {
        for m in 0..MODELS {
            self.levels[m] += n * self.slopes[m];
            let before: [f64; ENTRIES] = std::array::from_fn(|entry| self.covariance[entry][m]);
            let mut c = moved(before, n);
            // A difference may cancel, and rounding take it below zero.
            c[0] = c[0].max(LEAST_LEFT * (before[0] + n * n * before[2]));
            (0..ENTRIES).for_each(|entry| self.covariance[entry][m] = c[entry] + added[entry][m]);
            if self.covariance[0][m] > widest {
                // Of such a model nothing is known but that.
                (0..ENTRIES).for_each(|entry| self.covariance[entry][m] = 0.0);
                self.slopes[m] = 0.0;
                self.covariance[0][m] = widest;
            }
        }
    }

    fn fits(&self) -> bool {
        let Self { weights, means, variances, levels, slopes, covariance } = self;
        let finite = |numbers: &PerModel| numbers.iter().all(|number| number.is_finite());
        let positive = |numbers: &PerModel| numbers.iter().all(|number| *number > 0.0);
        let all = covariance.iter().chain([means, variances, levels, slopes]);
        is_distribution(weights)
            && all.into_iter().all(finite)
            && positive(variances)
            && positive(&covariance[0])
            && covariance[2].iter().all(|number| *number >= 0.0)
    }
}

/// Whether all weights are positive and sum to one, up to rounding.
fn is_distribution(weights: &PerModel) -> bool {
    weights.iter().all(|weight| *weight > 0.0) && (weights.iter().sum::<f64>() - 1.0).abs() < 1e-6
}
