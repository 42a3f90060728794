//! [`Block`]: a block of numbers during an update; [`MeasurementUpdate`]: the Kalman update of one model.

use super::model::{Covariance, Model, Transition, kalman_update};
use super::model_bank::Estimates;
use super::noise::ObservationNoise;

/// Outlier threshold, in standard deviations of the innovation. Residuals are clamped to it, or to the [Huber
/// threshold](super::noise::HuberApproximation::threshold) if that is smaller. A model with a large prior variance gets
/// a wider threshold. A constant level ignores outliers, so that the number can return to it.
const OUTLIER_DEVIATIONS: f64 = 5.0;

/// Fast `exp(EXP_POWER * part)` for `part` below about zero. The relative error is below 0.5 % down to a result of
/// `exp(-8)`, and no result is below 1e-31. Free of branches, so that it vectorises.
fn fast_exp(part: f32) -> f32 {
    let part = part.max(-0.6);
    let mut power = 1.0 + part * (1.0 + 0.5 * part);
    for _ in 0..7 {
        power *= power;
    }
    power
}

/// Power to which [`fast_exp`] raises.
const EXP_POWER: f64 = 128.0;

/// Narrows to `f32`, for speed. Weights need no more precision.
#[allow(clippy::cast_possible_truncation)] // what is too large or too small for it weighs all or nothing
pub(super) const fn as_f32(number: f64) -> f32 {
    number as f32
}

/// Kalman measurement update of one model, shared by all numbers. Lengths are in units.
pub(super) struct MeasurementUpdate {
    matrix: [[f32; 3]; 3],
    /// See [`Transition::origin_decay`].
    origin_decay: f32,
    gains: [f32; 3],
    /// Kalman gain of the number, and variance of the innovation.
    pub(super) gain: f64,
    pub(super) total: f64,
    /// Residuals are clamped to this.
    huber_threshold: f32,
    /// Larger residuals are outliers; and whether this model ignores outliers.
    outlier_threshold: f32,
    rejects_outliers: bool,
    /// The log-likelihood is `offset` minus the squared product of residual and `residual_scale`, up to the Huber
    /// threshold. All are divided by [`EXP_POWER`].
    residual_scale: f32,
    offset: f32,
    /// Huber threshold, in scaled residuals.
    scaled_threshold: f32,
    /// The same for a normal distribution of equal variance: factor of the squared residual, and offset.
    gaussian_scale: f32,
    gaussian_offset: f32,
    /// Posterior variance, as stated.
    stated_variance: f32,
}

impl MeasurementUpdate {
    /// Predicts with `transition`, then updates `covariance` in place.
    pub(super) fn new(
        model: Model,
        transition: Transition,
        covariance: &mut Covariance,
        noise: ObservationNoise,
        unit: f64,
    ) -> Self {
        let (before, variance) = (transition.predict_covariance(covariance), noise.variance());
        let huber = noise.huber_approximation(before[0][0]);
        let gains;
        (*covariance, gains) = kalman_update(&before, huber.effective_variance);
        let total = (before[0][0] + variance).max(f64::MIN_POSITIVE);
        let outlier_threshold = OUTLIER_DEVIATIONS * total.sqrt() * (total / variance);
        let gaussian_offset = -0.5 * (total / variance).ln() / EXP_POWER;
        let root = (0.5 / huber.scale.max(f64::MIN_POSITIVE) / EXP_POWER).sqrt();
        Self {
            matrix: transition.matrix.map(|row| row.map(as_f32)),
            origin_decay: as_f32(transition.origin_decay()),
            gains: gains.map(|gain| as_f32(gain / huber.inside_probability)),
            gain: gains[0],
            total,
            huber_threshold: clamped_f32(outlier_threshold.min(huber.threshold) / unit),
            outlier_threshold: clamped_f32(outlier_threshold / unit),
            rejects_outliers: matches!(model, Model::Constant),
            residual_scale: clamped_f32(unit * root),
            offset: as_f32(gaussian_offset + huber.log_peak_ratio / EXP_POWER),
            scaled_threshold: as_f32(root * huber.threshold),
            gaussian_scale: as_f32(huber.scale / total),
            gaussian_offset: as_f32(gaussian_offset),
            stated_variance: clamped_f32(model.variance_factor() * covariance[0][0] / (unit * unit)),
        }
    }
}

/// Numbers in a block, chosen to fit into the cache.
pub(super) const BLOCK: usize = 64;

/// Limits in units. Observations beyond `FAR` of the posterior move the origin; origins stay within `NEAR` of it.
/// States stay within `MAX_DISTANCE`.
pub(super) const FAR: f64 = 100.0;
pub(super) const NEAR: f64 = 16.0;
pub(super) const MAX_DISTANCE: f32 = 1e15;

/// Narrows a length in units to `f32`, and clamps it.
pub(super) fn clamped_f32(units: f64) -> f32 {
    as_f32(units).clamp(-MAX_DISTANCE, MAX_DISTANCE)
}

/// A block of numbers during an update. Lengths are in units and relative to the origins, to keep `f32` precise.
pub(super) struct Block<'a> {
    observations: &'a [f64],
    /// Index of its first number.
    start: usize,
    unit: f64,
    pub(super) observed: [f32; BLOCK],
    pub(super) origins: [f32; BLOCK],
    /// Posterior means before the update, or the observations where those are far off. Moments are summed around them.
    pub(super) bases: [f32; BLOCK],
    /// Scaled residuals of the present model, and distances of its states from the bases.
    residuals: [f32; BLOCK],
    apart: [f32; BLOCK],
    /// Factor of the old weights: probability of no switch, divided by the total weight.
    pub(super) stay_factors: [f32; BLOCK],
    /// Total weights after the update, which are likelihoods; and the same given a switch.
    totals: [f32; BLOCK],
    after_switch: [f32; BLOCK],
    /// Total weights under normal noise, when the noise is heavy-tailed.
    gaussian_totals: [f32; BLOCK],
    /// Weighted first and second moments of the states around the bases.
    means: [f32; BLOCK],
    squares: [f32; BLOCK],
}

impl<'a> Block<'a> {
    pub(super) const fn new(observations: &'a [f64], start: usize, unit: f64) -> Self {
        let zero = [0.0; BLOCK];
        Self {
            observations,
            start,
            unit,
            observed: zero,
            origins: zero,
            bases: zero,
            residuals: zero,
            apart: zero,
            stay_factors: zero,
            totals: zero,
            after_switch: zero,
            gaussian_totals: zero,
            means: zero,
            squares: zero,
        }
    }

    /// Range of its numbers.
    const fn members(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.observations.len()
    }

    /// Predicts a model's states and updates them with the clamped residuals. Records scaled residuals and distances.
    fn advance(&mut self, update: &MeasurementUpdate, states: &mut [f32], numbers: usize) {
        let [[kept, slope_in, third_in], [number_to_slope, slope_kept, third_to_slope], [_, _, third_kept]] =
            update.matrix;
        let [gain, slope_gain, third_gain] = update.gains;
        let (most, root, origin_decay) = (update.huber_threshold, update.residual_scale, update.origin_decay);
        let outlier_threshold = update.outlier_threshold;
        let members = self.members();
        let observed = self
            .observed
            .iter()
            .zip(&self.origins)
            .zip(&self.bases)
            .zip(self.residuals.iter_mut().zip(&mut self.apart));
        let (levels, slopes) = states.split_at_mut(numbers);
        let levels = &mut levels[members.clone()];
        if update.rejects_outliers {
            for (level, (((observed, _), base), (weighed, apart))) in levels.iter_mut().zip(observed) {
                let residual = observed - *level;
                *level += if residual.abs() <= outlier_threshold { gain * residual.clamp(-most, most) } else { 0.0 };
                (*weighed, *apart) = (root * residual, *level - base);
            }
            return;
        }
        if slopes.is_empty() {
            for (level, (((observed, origin), base), (weighed, apart))) in levels.iter_mut().zip(observed) {
                let expected = kept * *level - origin_decay * origin;
                let residual = observed - expected;
                *level = expected + gain * residual.clamp(-most, most);
                (*weighed, *apart) = (root * residual, *level - base);
            }
            return;
        }
        let (slopes, thirds) = slopes.split_at_mut(numbers);
        let slopes = &mut slopes[members.clone()];
        if thirds.is_empty() {
            for ((level, slope), (((observed, _), base), (weighed, apart))) in
                levels.iter_mut().zip(slopes).zip(observed)
            {
                let expected = kept * *level + slope_in * *slope;
                let residual = observed - expected;
                let clamped = residual.clamp(-most, most);
                *level = expected + gain * clamped;
                *slope = slope_kept * *slope + slope_gain * clamped;
                (*weighed, *apart) = (root * residual, *level - base);
            }
            return;
        }
        let moved = levels.iter_mut().zip(slopes).zip(&mut thirds[members]);
        for (((level, slope), third), (((observed, _), base), (weighed, apart))) in moved.zip(observed) {
            let expected = kept * *level + slope_in * *slope + third_in * *third;
            let residual = observed - expected;
            let clamped = residual.clamp(-most, most);
            let slope_expected = number_to_slope * *level + slope_kept * *slope + third_to_slope * *third;
            *level = expected + gain * clamped;
            *slope = slope_expected + slope_gain * clamped;
            *third = third_kept * *third + third_gain * clamped;
            (*weighed, *apart) = (root * residual, *level - base);
        }
    }

    /// Moves states with outlying residuals to their observations, and multiplies their likelihood by `likely`. Returns
    /// which numbers moved.
    pub(super) fn jump_to_observations(
        &self,
        update: &MeasurementUpdate,
        likely: f32,
        states: &mut [f32],
        likelihoods: &mut [f32],
        numbers: usize,
    ) -> [bool; BLOCK] {
        let mut moved = [false; BLOCK];
        for ((number, observed), moved) in self.members().zip(&self.observed).zip(&mut moved) {
            let places = states.iter().skip(number).step_by(numbers).zip(&update.matrix[0]);
            let residual = observed - places.map(|(state, add)| add * state).sum::<f32>();
            if residual.abs() > update.outlier_threshold {
                states[number] = (states[number] + residual).clamp(-MAX_DISTANCE, MAX_DISTANCE);
                likelihoods[number] *= likely;
                *moved = true;
            }
        }
        moved
    }

    /// Raises the variance of moved numbers to that of the observation.
    pub(super) fn widen_jumped(
        &mut self,
        update: &MeasurementUpdate,
        prior: f32,
        likelihoods: &[f32],
        moved: &[bool; BLOCK],
        observed_variance: f32,
    ) {
        let more = (observed_variance - update.stated_variance).max(0.0);
        let likelihoods = &likelihoods[self.members()];
        for (square, (likelihood, _)) in
            self.squares.iter_mut().zip(likelihoods.iter().zip(moved)).filter(|(_, (_, moved))| **moved)
        {
            *square += prior * likelihood * more;
        }
    }

    /// Updates one model, and weighs it by its likelihood. Before that, each model passes a share of its weight to all
    /// others (fixed share; Herbster and Warmuth 1998). `HEAVY` states whether the noise is heavy-tailed.
    pub(super) fn update<const HEAVY: bool>(
        &mut self,
        update: &MeasurementUpdate,
        prior: f32,
        states: &mut [f32],
        likelihoods: &mut [f32],
        numbers: usize,
        switch_probability: f32,
    ) {
        self.advance(update, states, numbers);
        let likelihoods = likelihoods[self.members()].iter_mut().zip(&self.stay_factors);
        let likely = self
            .totals
            .iter_mut()
            .zip(&mut self.after_switch)
            .zip(self.residuals.iter().zip(&mut self.gaussian_totals));
        let sums = self.means.iter_mut().zip(&mut self.squares).zip(&self.apart);
        let (offset, scaled_threshold, stated_variance) =
            (update.offset, update.scaled_threshold, update.stated_variance);
        let (gaussian_offset, gaussian_scale) = (update.gaussian_offset, update.gaussian_scale);
        for (((likelihood, kept), ((total, after_switch), (residual, gaussian_totals))), ((mean, square), apart)) in
            likelihoods.zip(likely).zip(sums)
        {
            let before = kept * *likelihood + switch_probability;
            let less = if HEAVY {
                *gaussian_totals += prior * before * fast_exp(gaussian_offset - gaussian_scale * residual * residual);
                let bent = residual.abs().min(scaled_threshold);
                bent * (2.0 * residual.abs() - bent)
            } else {
                residual * residual
            };
            let likely = fast_exp(offset - less);
            *likelihood = likely * before;
            *after_switch += prior * likely;
            let weight = prior * *likelihood;
            *total += weight;
            *mean += weight * apart;
            *square += weight * (apart * apart + stated_variance);
        }
    }

    /// Combines all models into the posterior mixture.
    pub(super) fn combine(&mut self, origins: &[f64], totals: &mut [f32], posterior: &mut Estimates) {
        let (origins, totals) = (&origins[self.members()], &mut totals[self.members()]);
        let (means, variances) = (&mut posterior.means[self.members()], &mut posterior.variances[self.members()]);
        self.totals.iter_mut().for_each(|total| *total = total.max(f32::MIN_POSITIVE));
        totals.iter_mut().zip(&self.totals).for_each(|(kept, total)| *kept = *total);
        let of_models = self.means.iter().zip(&self.squares).zip(&self.totals).zip(&self.bases);
        let posterior = means.iter_mut().zip(variances).zip(origins);
        for ((((mean, square), total), base), ((posterior, variance), origin)) in of_models.zip(posterior) {
            let part = f64::from(*total).recip();
            let (mean, square) = (part * f64::from(*mean), part * f64::from(*square));
            *posterior = origin + self.unit * (f64::from(*base) + mean);
            *variance = self.unit * self.unit * (square - mean * mean).max(0.0);
        }
    }

    pub(super) fn inverse_totals(&self) -> [f32; BLOCK] {
        self.totals.map(f32::recip)
    }

    /// Returns the total posterior weight of a model over the block, without its prior.
    pub(super) fn total_weight(&self, likelihoods: &[f32], parts: &[f32; BLOCK]) -> f64 {
        let (likelihoods, parts) = (&likelihoods[self.members()], &parts[..self.observations.len()]);
        let ((fours, rest), (parts, parts_of_rest)) = (likelihoods.as_chunks::<4>(), parts.as_chunks::<4>());
        let mut sums = [0.0; 4];
        for (four, parts) in fours.iter().zip(parts) {
            sums.iter_mut().zip(four.iter().zip(parts)).for_each(|(sum, (likelihood, part))| *sum += likelihood * part);
        }
        let of_rest = rest.iter().zip(parts_of_rest).map(|(likelihood, part)| likelihood * part).sum::<f32>();
        f64::from(sums.iter().sum::<f32>() + of_rest)
    }

    /// Log-likelihood of the block under normal noise, when the noise is heavy-tailed.
    pub(super) fn gaussian_log_likelihood(&self) -> f64 {
        let of_some = |totals: &[f32]| totals.iter().map(|total| f64::from(*total)).product::<f64>();
        let products = self.gaussian_totals[..self.observations.len()].chunks(FACTORS_PER_LOGARITHM).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }

    /// Log-likelihood of the block at another switch rate.
    pub(super) fn log_likelihood(&self, rate: f64, switch_probability: f32) -> f64 {
        let (totals, after_switch) =
            (&self.totals[..self.observations.len()], &self.after_switch[..self.observations.len()]);
        let switch_probability = f64::from(switch_probability);
        // Total weights are linear in the rate.
        let (of_total, of_anew) =
            ((1.0 - rate) / (1.0 - switch_probability), (rate - switch_probability) / (1.0 - switch_probability));
        let of_one = |(total, after_switch): (&f32, &f32)| {
            (of_total * f64::from(*total) + of_anew * f64::from(*after_switch)).max(rate * f64::from(*after_switch))
        };
        // One logarithm for several factors; their product cannot underflow.
        let of_some =
            |(totals, after_switch): (&[f32], &[f32])| totals.iter().zip(after_switch).map(of_one).product::<f64>();
        let products =
            totals.chunks(FACTORS_PER_LOGARITHM).zip(after_switch.chunks(FACTORS_PER_LOGARITHM)).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }
}

const FACTORS_PER_LOGARITHM: usize = 8;
