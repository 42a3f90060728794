//! Smoothing: estimates of earlier numbers from later observations too.
//!
//! A backward pass over snapshots of the [`Estimator`] (Kim 1994): in each model, the smoother of Rauch, Tung and
//! Striebel (1965); between models, the backward recursion of a hidden Markov chain. It reads no observation again, so
//! it works for every kind of them.

use super::bank::{Bank, Number, PerModel, Steps, moved};
use super::belief::{Belief, Component, mixture};
use super::estimator::{Estimator, first_weights};
use super::tuning::{MODELS, TUNING};

/// Beliefs about the first number of an [`Estimator`], after the observations of a timestamp.
#[derive(Clone, Debug)]
pub struct Snapshot {
    timestamp: u64,
    number: Number,
    /// Weights of the bank and of each seasonal model.
    weights: Vec<f64>,
    /// Beliefs of the seasonal models.
    seasons: Vec<(f64, f64)>,
}

/// Level and slope of a model: means and covariance.
#[derive(Clone, Copy)]
struct Line {
    level: f64,
    slope: f64,
    variance: f64,
    covariance: f64,
    slope_variance: f64,
}

/// Smoothed belief about a timestamp.
struct Smoothed {
    /// Weights of the models of the bank, and their lines.
    models: PerModel,
    lines: [Line; MODELS],
    /// Weights of the bank and of each seasonal model.
    weights: Vec<f64>,
}

impl Estimator {
    /// Beliefs about the first number at the present timestamp.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            timestamp: self.timestamp().unwrap_or(0),
            number: self.bank().number(0).clone(),
            weights: self.weights()[..=self.seasons().len()].to_vec(),
            seasons: self.seasons().iter().map(|season| season.belief(0)).collect(),
        }
    }

    /// Beliefs about the first number at the timestamps of snapshots, which ascend, given the observations up to the
    /// last of them. Only the first `count` are returned.
    pub fn smooth(&self, snapshots: &[Snapshot], count: usize) -> Vec<Belief> {
        let Some(last) = snapshots.last() else { return Vec::new() };
        let scatter = self.bank().steps(1).scatter;
        let mut smoothed = Smoothed {
            models: last.number.weights,
            lines: Line::all(&filtered(&last.number, &scatter)),
            weights: last.weights.clone(),
        };
        let mut numbers = Vec::with_capacity(count);
        if snapshots.len() <= count {
            numbers.push(smoothed.number(last, &scatter));
        }
        for (index, pair) in snapshots.windows(2).enumerate().rev() {
            let steps = self.bank().steps(pair[1].timestamp - pair[0].timestamp);
            smoothed = smoothed.before(&pair[0], &steps);
            if index < count {
                numbers.push(smoothed.number(&pair[0], &scatter));
            }
        }
        numbers.reverse();
        numbers
    }
}

/// Levels and slopes after the observations.
fn filtered(number: &Number, scatter: &PerModel) -> Number {
    let mut number = number.clone();
    number.condition(scatter);
    number
}

impl Smoothed {
    /// Smooths the previous snapshot, so many steps earlier.
    fn before(&self, previous: &Snapshot, steps: &Steps) -> Self {
        let number = filtered(&previous.number, &steps.scatter);
        let own = Line::all(&number);
        let all = Line::mixture(&number.weights, &own);
        let prior = TUNING.priors();
        // A model at the later time was the same one before with probability `stayed`; otherwise any, by its weight.
        let stayed: PerModel = std::array::from_fn(|m| {
            let kept = steps.stays * number.weights[m];
            kept / (kept + (1.0 - steps.stays) * prior[m])
        });
        let changes: PerModel = std::array::from_fn(|m| self.models[m] * (1.0 - stayed[m]));
        let changed: f64 = changes.iter().sum();
        let from_all: [Line; MODELS] = std::array::from_fn(|m| {
            let all = if TUNING.has_slope[m] > 0.0 { all } else { all.without_slope() };
            all.smoothed(&self.lines[m], steps, m)
        });
        let after_change = Line::mixture(&changes.map(|change| change / changed), &from_all);
        let mut models = [0.0; MODELS];
        let lines = std::array::from_fn(|m| {
            let (same, other) = (self.models[m] * stayed[m], number.weights[m] * changed);
            models[m] = same + other;
            let share = same / models[m];
            let same = own[m].smoothed(&self.lines[m], steps, m);
            let other = if TUNING.has_slope[m] > 0.0 { after_change } else { after_change.without_slope() };
            Line::mixture(&[share, 1.0 - share], &[same, other])
        });
        Self { models, lines, weights: self.weights_before(previous, steps.timestamps) }
    }

    /// Weights of the bank and of the seasonal models, so many timestamps earlier.
    fn weights_before(&self, previous: &Snapshot, timestamps: f64) -> Vec<f64> {
        let first = first_weights(previous.seasons.len());
        let stays = (1.0 - TUNING.season_hazard).powf(timestamps);
        let ratios = self.weights.iter().zip(&previous.weights).zip(&first);
        let ratios: Vec<f64> =
            ratios.map(|((after, before), first)| after / (stays * before + (1.0 - stays) * first)).collect();
        let changed: f64 = ratios.iter().zip(&first).map(|(ratio, first)| ratio * first).sum::<f64>() * (1.0 - stays);
        let weights: Vec<f64> =
            previous.weights.iter().zip(&ratios).map(|(weight, ratio)| weight * (stays * ratio + changed)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    /// Belief about the number, of which the snapshot has an observation.
    fn number(&self, snapshot: &Snapshot, scatter: &PerModel) -> Belief {
        let number = &snapshot.number;
        let bank = Bank::mixture(&self.models, &TUNING.even_kinds, |m| {
            let line = &self.lines[m];
            // The observation is worth that of the number itself with a normal noise of this precision.
            let before = number.covariance[0][m] + scatter[m];
            let precision = (number.variances[m].recip() - before.recip()).max(0.0);
            let weighted = number.means[m] / number.variances[m] - number.levels[m] / before;
            let share = (1.0 + scatter[m] * precision).recip();
            let mean = share * line.level + scatter[m] * share * if precision > 0.0 { weighted } else { 0.0 };
            (mean, share * share * line.variance + scatter[m] * share).into()
        });
        let beliefs = std::iter::once(bank).chain(snapshot.seasons.iter().map(|season| (*season).into()));
        let component = |(weight, belief): (&f64, Belief)| Component { weight: *weight, caution: 1.0, belief };
        mixture(self.weights.iter().zip(beliefs).map(component))
    }
}

impl Line {
    fn all(number: &Number) -> [Self; MODELS] {
        std::array::from_fn(|m| Self {
            level: number.levels[m],
            slope: number.slopes[m],
            variance: number.covariance[0][m],
            covariance: number.covariance[1][m],
            slope_variance: number.covariance[2][m],
        })
    }

    fn without_slope(self) -> Self {
        Self { slope: 0.0, covariance: 0.0, slope_variance: 0.0, ..self }
    }

    /// Line with mean and covariance of a mixture. The weights sum to one.
    #[inline]
    fn mixture(weights: &[f64], lines: &[Self]) -> Self {
        let (mut level, mut slope) = (0.0, 0.0);
        for (weight, line) in weights.iter().zip(lines) {
            level += weight * line.level;
            slope += weight * line.slope;
        }
        let mut mixed = Self { level, slope, variance: 0.0, covariance: 0.0, slope_variance: 0.0 };
        for (weight, line) in weights.iter().zip(lines) {
            let (by, slope_by) = (line.level - level, line.slope - slope);
            mixed.variance += weight * (line.variance + by * by);
            mixed.covariance += weight * (line.covariance + by * slope_by);
            mixed.slope_variance += weight * (line.slope_variance + slope_by * slope_by);
        }
        mixed
    }

    /// Smooths by the belief about the line some steps of model `m` later.
    #[inline]
    fn smoothed(&self, later: &Self, steps: &Steps, m: usize) -> Self {
        let n = steps.timestamps;
        let (a, b, d) = (self.variance, self.covariance, self.slope_variance);
        let forecast = moved([a, b, d], n);
        let level_variance = forecast[0] + steps.added[0][m];
        let by = later.level - self.level - n * self.slope;
        if TUNING.has_slope[m] <= 0.0 {
            let gain = a / level_variance;
            let variance = a + gain * gain * (later.variance - level_variance);
            return Self { level: self.level + gain * by, variance: variance.max(0.0), ..self.without_slope() };
        }
        let (between, slope_variance) = (forecast[1] + steps.added[1][m], forecast[2] + steps.added[2][m]);
        let determinant = level_variance * slope_variance - between * between;
        if determinant <= 0.0 || !determinant.is_finite() {
            return *self;
        }
        // Gain: covariance with the later line, times the inverse of its forecast covariance.
        let gain = |level: f64, slope: f64| {
            (
                (level * slope_variance - slope * between) / determinant,
                (slope * level_variance - level * between) / determinant,
            )
        };
        let (g, h) = gain(a + n * b, b);
        let (i, j) = gain(b + n * d, d);
        let slope_by = later.slope - self.slope;
        let (x, y, z) =
            (later.variance - level_variance, later.covariance - between, later.slope_variance - slope_variance);
        Self {
            level: self.level + g * by + h * slope_by,
            slope: self.slope + i * by + j * slope_by,
            variance: (a + g * (g * x + 2.0 * h * y) + h * h * z).max(0.0),
            covariance: b + g * (i * x + j * y) + h * (i * y + j * z),
            slope_variance: (d + i * (i * x + 2.0 * j * y) + j * j * z).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Noise, Prior};
    use super::*;

    /// A constant with noise of unit variance: smoothing brings every estimate to that of all observations.
    #[test]
    fn smoothing_reaches_back() {
        let prior = Prior { mean: 0.0, variance: 100.0, largest_step: 100.0 };
        let mut estimator = Estimator::new(1, 0.5, prior, &[]);
        let mut snapshots = Vec::new();
        for timestamp in 0..200_u32 {
            estimator.advance(timestamp.into());
            let noise = if timestamp % 2 == 0 { 1.0 } else { -1.0 };
            estimator.observe(&[5.0 + noise], Noise::Normal { variance: 1.0 });
            snapshots.push(estimator.snapshot());
        }
        let smoothed = estimator.smooth(&snapshots, 200);
        assert_eq!(smoothed.len(), 200);
        for Belief { mean, variance, .. } in &smoothed {
            assert!((mean - 5.0).abs() < 0.2 && *variance < 0.05, "{mean} {variance}");
        }
        assert_eq!(estimator.smooth(&snapshots, 3), smoothed[..3]);
    }

    /// Before a jump the estimates are of the old level, from it on of the new one.
    #[test]
    fn a_jump_stays_sharp() {
        let prior = Prior { mean: 0.0, variance: 1e8, largest_step: 1e8 };
        let mut estimator = Estimator::new(1, 0.5, prior, &[]);
        let mut snapshots = Vec::new();
        for timestamp in 0..60_u32 {
            estimator.advance(timestamp.into());
            let level = if timestamp < 30 { 10.0 } else { 500.0 };
            let noise = f64::from(timestamp % 3) - 1.0;
            estimator.observe(&[level + noise], Noise::Laplace { scale: 1.0 });
            snapshots.push(estimator.snapshot());
        }
        let smoothed = estimator.smooth(&snapshots, 60);
        for (timestamp, Belief { mean, .. }) in smoothed.iter().enumerate() {
            let level = if timestamp < 30 { 10.0 } else { 500.0 };
            assert!((mean - level).abs() < 0.7, "{timestamp}: {mean}");
        }
    }
}
