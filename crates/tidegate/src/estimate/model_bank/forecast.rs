//! Forecasts of a model bank, and their expected errors.

use super::{Estimates, FilterState, ModelBank, as_float, as_float_of};
use crate::estimate::model::{Model, Transition, kalman_update, model};
use crate::estimate::noise::ObservationNoise;
use crate::estimate::seasonal::{phase_at, seasonal_error};

/// Cycles with a larger variance make no forecast. Limits relative to the reference variance and to the largest square.
const MAX_CYCLE_VARIANCE: f64 = 100.0;
const MAX_CYCLE_SHARE: f64 = 0.1;

/// Models with a smaller share of the weight are left out of the expected error.
const NEGLIGIBLE_SHARE: f64 = 1e-6;

/// Periods until the filter is taken to be in steady state.
const STEADY_STATE_PERIODS: u32 = 12;

/// Maximum number of timestamps sampled in a period.
const MAX_SAMPLES: u64 = 1_024;

impl ModelBank {
    /// Returns the posterior `gap` timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        if gap == 0 {
            return self.posterior.clone();
        }
        let numbers = self.numbers();
        let (mut means, mut squares, mut weights) = (vec![0.0; numbers], vec![0.0; numbers], vec![0.0; numbers]);
        let (mut levels, mut start) = (vec![0.0; numbers], 0);
        for group in &self.groups {
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            for (index, filter) in self.filters.iter().enumerate().filter(|(index, _)| priors[*index] > 0.0) {
                let Some((transition, covariance, states)) = self.predict(index, gap) else { continue };
                let covariance = model(index).variance_factor() * covariance;
                let levels = &mut levels[members.clone()];
                // Relative to the present means: squares of large numbers would cancel.
                let (now, origins) = (&self.posterior.means[members.clone()], &self.origins[members.clone()]);
                let origin_decay = transition.origin_decay();
                for (level, (now, origin)) in levels.iter_mut().zip(now.iter().zip(origins)) {
                    *level = origin - now - origin_decay * origin;
                }
                for (states, add) in states.chunks(numbers).zip(transition.matrix[0]) {
                    let add = self.unit * add;
                    let states = states[members.clone()].iter();
                    levels.iter_mut().zip(states).for_each(|(level, state)| *level += add * f64::from(*state));
                }
                let sums = means[members.clone()].iter_mut().zip(&mut squares[members.clone()]);
                let likelihoods = &filter.likelihoods[members.clone()];
                let of_members = sums.zip(&mut weights[members.clone()]).zip(levels.iter().zip(likelihoods));
                for (((mean, square), weights), (level, likelihood)) in of_members {
                    let weight = priors[index] * f64::from(*likelihood);
                    *weights += weight;
                    *mean += weight * level;
                    *square += weight * (level * level + covariance);
                }
            }
        }
        for (((mean, square), weight), now) in
            means.iter_mut().zip(&mut squares).zip(weights).zip(&self.posterior.means)
        {
            let weight = weight.max(f64::MIN_POSITIVE);
            *mean /= weight;
            *square = (*square / weight - *mean * *mean).max(0.0);
            *mean += now;
        }
        Estimates { means, variances: squares }
    }

    /// Returns a model's transition, variance and states `gap` timestamps ahead. `None` if the model makes no forecast,
    /// such as for a phase that was never observed.
    fn predict(&self, index: usize, gap: u64) -> Option<(Transition, f64, &[f32])> {
        let (filter, transition) = (&self.filters[index], self.transition(index));
        let time = self.clock.saturating_add(gap);
        let states = &filter.states[model(index).states_at(time, self.numbers())];
        if let Model::Seasonal { period, .. } = model(index) {
            let variance = filter.phases[phase_at(time, period)].variance_at(time, period, transition.level_noise());
            return variance.map(|variance| (Transition::SCALAR_IDENTITY, variance, states));
        }
        let transition = transition.power(gap);
        let variance = transition.predict_covariance(&filter.covariance)[0][0];
        let known = (MAX_CYCLE_VARIANCE * self.reference).min(MAX_CYCLE_SHARE * self.largest_square);
        let unknown = matches!(model(index), Model::Cycle { .. }) && variance > known;
        (!unknown).then_some((transition, variance, states))
    }

    /// Expected steady-state mean squared error of observations every `period` timestamps, with forecasts in between.
    pub fn expected_error(&self, period: u64, noise: impl Into<ObservationNoise>) -> f64 {
        let noise = noise.into();
        // No forecast needs to err by more than the size of the numbers.
        let Estimates { means, variances } = &self.posterior;
        let squares = means.iter().zip(variances).map(|(mean, variance)| mean * mean + variance).sum::<f64>();
        let squares = squares / as_float(self.numbers().max(1));
        let shares = self.shares();
        let counts = shares.iter().sum::<f64>() * NEGLIGIBLE_SHARE;
        let mut sum = 0.0;
        for (index, share) in shares.iter().enumerate().filter(|(_, share)| **share > counts) {
            let transition = self.transition(index);
            if matches!(model(index), Model::Seasonal { .. }) {
                let apart = self.phase_variance(index).min(squares);
                let error =
                    seasonal_error(model(index).order(), period, transition.level_noise(), noise.variance(), apart);
                sum += share * error.min(squares);
                continue;
            }
            let (mut covariance, of_period) = (self.filters[index].covariance, transition.power(period));
            // Iterate to the steady state; the last period counts.
            for _ in 0..STEADY_STATE_PERIODS {
                let before = of_period.predict_covariance(&covariance);
                covariance = kalman_update(&before, noise.huber_approximation(before[0][0]).effective_variance).0;
            }
            // Sample long periods.
            let stride = period.div_ceil(MAX_SAMPLES).max(1);
            let (of_stride, samples) = (transition.power(stride), period.div_ceil(stride).max(1));
            let mut error = covariance[0][0].min(squares);
            for _ in 1..samples {
                covariance = of_stride.predict_covariance(&covariance);
                error += covariance[0][0].min(squares);
            }
            sum += share * error / as_float_of(samples);
        }
        sum / as_float(self.numbers().max(1))
    }

    /// Mean squared distance between the observed phases of a season.
    fn phase_variance(&self, index: usize) -> f64 {
        let (FilterState { phases, states, .. }, numbers) = (&self.filters[index], self.numbers());
        let seen = || phases.iter().enumerate().filter(|(_, place)| place.is_seen());
        let count = as_float(seen().count().max(1));
        let of_number = |number: usize| {
            let levels = || seen().map(|(place, _)| f64::from(states[place * numbers + number]));
            let mean = levels().sum::<f64>() / count;
            levels().map(|level| (level - mean).powi(2)).sum::<f64>() / count
        };
        self.unit * self.unit * (0..numbers).map(of_number).sum::<f64>() / as_float(numbers.max(1))
    }

    /// Returns the total weight of each model over all numbers.
    fn shares(&self) -> Vec<f64> {
        let (mut start, mut shares) = (0, vec![0.0; self.filters.len()]);
        for group in &self.groups {
            let members = start..group.end;
            start = group.end;
            let of_models = shares.iter_mut().zip(&self.filters).zip(group.priors(self.ages.len()));
            for ((share, filter), prior) in of_models.filter(|(_, prior)| *prior > 0.0) {
                let likelihoods = filter.likelihoods[members.clone()].iter().zip(&self.totals[members.clone()]);
                *share += prior * likelihoods.map(|(likelihood, total)| f64::from(likelihood / total)).sum::<f64>();
            }
        }
        shares
    }
}
