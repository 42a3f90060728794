//! [`Season`]: models of numbers that repeat with a period.
//!
//! All numbers share noise and times of observation, so they share the covariance of a model's coefficients. Each has
//! its own scatter around the season, learned from its residuals (Mehra 1970).

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::bank::{Pattern, Prior};
use super::posterior::Posterior;
use super::tuning::TUNING;

/// A seasonal model of numbers that are observed together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Season {
    period: u32,
    shape: Shape,
    /// For each coefficient, that of each number.
    coefficients: Vec<Vec<f64>>,
    /// Covariance of the coefficients, row by row; of phases, their variances.
    covariance: Vec<f64>,
    /// Variance of each number around the season, and the number of residuals behind it.
    scatter: Vec<f64>,
    residuals: u32,
    /// Belief about each number at the present timestamp.
    beliefs: Vec<(f64, f64)>,
}

/// Shape of a season.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    /// A level and harmonics of the period, all of which walk.
    Wave,
    /// A number for each phase, each of which walks.
    Table,
}

impl Season {
    pub(super) fn new(period: u32, shape: Shape, numbers: usize, prior: Prior) -> Self {
        let size = size(period, shape);
        let mut coefficients = vec![vec![0.0; numbers]; size];
        let covariance = match shape {
            Shape::Table => {
                coefficients.iter_mut().for_each(|phase| phase.fill(prior.mean));
                vec![prior.variance; size]
            }
            Shape::Wave => {
                coefficients[0].fill(prior.mean);
                let mut covariance = vec![0.0; size * size];
                (0..size).for_each(|at| covariance[at * (size + 1)] = prior.variance);
                covariance
            }
        };
        let beliefs = vec![(prior.mean, prior.variance); numbers];
        Self { period, shape, coefficients, covariance, scatter: vec![0.0; numbers], residuals: 0, beliefs }
    }

    /// Sets the variance of each number around the season.
    pub(super) fn set_scatter(&mut self, variance: f64) {
        self.scatter.fill(variance);
    }

    /// Shapes of a period: a wave only where it has fewer coefficients than the table.
    pub(super) fn shapes(period: u32) -> impl Iterator<Item = Shape> {
        let wave = (size(period, Shape::Wave) < period as usize).then_some(Shape::Wave);
        wave.into_iter().chain([Shape::Table])
    }

    /// Row of the observation matrix at a timestamp.
    fn row(&self, timestamp: u64) -> Vec<f64> {
        #[allow(clippy::cast_precision_loss)] // below the period
        let turn = TAU * (timestamp % u64::from(self.period)) as f64 / f64::from(self.period);
        let harmonic = |at: usize| {
            #[allow(clippy::cast_precision_loss)] // a few harmonics
            let angle = turn * at.div_ceil(2) as f64;
            if at.is_multiple_of(2) { angle.cos() } else { angle.sin() }
        };
        (0..self.coefficients.len()).map(harmonic).collect()
    }

    #[allow(clippy::cast_possible_truncation)] // below the period
    fn phase(&self, timestamp: u64) -> usize {
        (timestamp % u64::from(self.period)) as usize
    }

    /// Moves on by some timestamps, to `timestamp`. The belief about each number is then a forecast.
    #[allow(clippy::cast_precision_loss)] // beyond 2^53 nothing is known anyway
    pub(super) fn predict(&mut self, timestamp: u64, timestamps: u64, unit: f64, prior: Prior) {
        let n = timestamps as f64;
        let most = prior.variance;
        match self.shape {
            Shape::Table => {
                let step = TUNING.phase_step * unit * n / f64::from(self.period);
                self.covariance.iter_mut().for_each(|variance| *variance = (*variance + step).min(most));
                let phase = self.phase(timestamp);
                let variance = self.covariance[phase];
                let means = self.coefficients[phase].iter().zip(&self.scatter);
                self.beliefs.clear();
                self.beliefs.extend(means.map(|(mean, scatter)| (*mean, variance + scatter)));
            }
            Shape::Wave => {
                let (size, (level, other)) = (self.coefficients.len(), TUNING.wave_steps);
                for at in 0..size {
                    let step = if at == 0 { level } else { other };
                    let variance = &mut self.covariance[at * (size + 1)];
                    *variance = (*variance + step * unit * n).min(most.max(*variance));
                }
                let row = self.row(timestamp);
                let variance = quadratic(&self.covariance, &row);
                for (number, belief) in self.beliefs.iter_mut().enumerate() {
                    let mean = row.iter().zip(&self.coefficients).map(|(by, numbers)| by * numbers[number]).sum();
                    *belief = (mean, variance + self.scatter[number]);
                }
            }
        }
    }

    /// Updates number `index` with an observation. Returns its density, as factor and exponent.
    #[inline]
    pub(super) fn observe(&mut self, index: usize, update: impl Fn(f64, f64) -> Posterior) -> (f64, f64) {
        let (mean, variance) = self.beliefs[index];
        let posterior = update(mean, variance);
        self.beliefs[index] = (posterior.mean, posterior.variance);
        (posterior.factor, posterior.exponent)
    }

    /// Takes the beliefs about the present timestamp over into the coefficients. `noise` is the variance of all
    /// observations of it together.
    #[allow(clippy::cast_precision_loss)] // a number of numbers
    pub(super) fn learn(&mut self, timestamp: u64, observed: Option<&[f64]>, noise: f64) {
        let numbers = self.beliefs.len();
        let scatter = self.scatter.iter().sum::<f64>() / numbers as f64;
        match self.shape {
            Shape::Table => {
                let phase = self.phase(timestamp);
                let own = self.covariance[phase];
                for number in 0..numbers {
                    let coefficient = &mut self.coefficients[phase][number];
                    let before = *coefficient;
                    *coefficient += own / (own + self.scatter[number]) * (self.beliefs[number].0 - before);
                    Self::scatter(
                        &mut self.scatter[number],
                        observed.map(|all| all[number] - before),
                        own + noise,
                        self.residuals,
                    );
                }
                self.covariance[phase] = own * ((noise + scatter) / (own + noise + scatter));
            }
            Shape::Wave => {
                let row = self.row(timestamp);
                let gains = product(&self.covariance, &row);
                let own: f64 = row.iter().zip(&gains).map(|(by, gain)| by * gain).sum();
                for number in 0..numbers {
                    let before: f64 =
                        row.iter().zip(&self.coefficients).map(|(by, numbers)| by * numbers[number]).sum();
                    let shift = (self.beliefs[number].0 - before) / (own + self.scatter[number]);
                    self.coefficients
                        .iter_mut()
                        .zip(&gains)
                        .for_each(|(numbers, gain)| numbers[number] += gain * shift);
                    Self::scatter(
                        &mut self.scatter[number],
                        observed.map(|all| all[number] - before),
                        own + noise,
                        self.residuals,
                    );
                }
                let size = row.len();
                let total = own + noise + scatter;
                for (at, gain) in gains.iter().enumerate() {
                    for (other, other_gain) in gains.iter().enumerate() {
                        self.covariance[at * size + other] -= gain * other_gain / total;
                    }
                }
            }
        }
        self.residuals = self.residuals.saturating_add(1);
    }

    /// Learns the scatter of a number from a residual, whose other variance is `known`.
    fn scatter(scatter: &mut f64, residual: Option<f64>, known: f64, residuals: u32) {
        let Some(residual) = residual else { return };
        // Standard: residuals beyond three deviations count as three, so that one jump is not taken for scatter.
        let square = (residual * residual).min(9.0 * (known + *scatter));
        let rate = (f64::from(residuals) + 1.0).recip().max(TUNING.memory);
        *scatter = (*scatter + rate * (square - known - *scatter)).max(0.0);
    }

    /// Mean and variance of a number at the present timestamp.
    pub(super) fn belief(&self, index: usize) -> (f64, f64) {
        self.beliefs[index]
    }

    /// Expected mean variance of a number in the steady state of a pattern of observations, in units: that of the
    /// coefficients, each a walk that a period of observations shows, and that of the scatter.
    #[allow(clippy::cast_precision_loss)] // a number of coefficients or numbers
    pub(super) fn steady_error(&self, pattern: Pattern, unit: f64) -> f64 {
        let (size, period) = (self.coefficients.len() as f64, f64::from(self.period));
        let scatter = self.scatter.iter().sum::<f64>() / self.scatter.len() as f64 / unit;
        let step = match self.shape {
            Shape::Table => TUNING.phase_step,
            Shape::Wave => TUNING.wave_steps.1 * period,
        };
        let noise = (pattern.mean_noise() + scatter) * size / period;
        let walk = ((step * step + 4.0 * step * noise).sqrt() - step) / 2.0;
        let per_number = if self.shape == Shape::Table { 1.0 } else { size };
        walk * per_number + pattern.scatter_error(scatter)
    }

    /// Whether it has the period and the shape of another.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.period, self.shape) == (other.period, other.shape)
    }

    /// Whether a loaded state is valid.
    pub(super) fn fits(&self, numbers: usize) -> bool {
        let Self { period, shape, coefficients, covariance, scatter, residuals: _, beliefs } = self;
        let finite = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
        if !(2..=TUNING.longest_period).contains(period) {
            return false;
        }
        let size = size(*period, *shape);
        let variances: Vec<f64> = match shape {
            Shape::Table => covariance.clone(),
            Shape::Wave if covariance.len() == size * size => (0..size).map(|at| covariance[at * (size + 1)]).collect(),
            Shape::Wave => return false,
        };
        coefficients.len() == size
            && variances.len() == size
            && finite(covariance)
            && variances.iter().all(|variance| *variance > 0.0)
            && coefficients.iter().all(|all| all.len() == numbers && finite(all))
            && scatter.len() == numbers
            && scatter.iter().all(|scatter| scatter.is_finite() && *scatter >= 0.0)
            && beliefs.len() == numbers
            && beliefs.iter().all(|(mean, variance)| mean.is_finite() && variance.is_finite() && *variance > 0.0)
    }
}

/// Number of coefficients.
fn size(period: u32, shape: Shape) -> usize {
    match shape {
        Shape::Table => period as usize,
        Shape::Wave => 2 * TUNING.harmonics as usize + 1,
    }
}

/// Product of a symmetric matrix and a vector.
fn product(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    let row = |row: &[f64]| row.iter().zip(vector).map(|(entry, by)| entry * by).sum();
    matrix.chunks_exact(vector.len()).map(row).collect()
}

fn quadratic(matrix: &[f64], vector: &[f64]) -> f64 {
    let variance: f64 = product(matrix, vector).iter().zip(vector).map(|(entry, by)| entry * by).sum();
    // Rounding may take a tiny variance below zero.
    variance.max(f64::MIN_POSITIVE)
}
