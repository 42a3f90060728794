//! [`Block`]: some numbers while they are kalman_update, and [`MeasurementUpdate`]: what a model says of them.

use super::model::{Covariance, Model, Transition, kalman_update};
use super::model_bank::Estimates;
use super::noise::ObservationNoise;

/// An observation that is off by more than so many standard deviations is clamped as if it were off by so many, or by
/// what its noise [allows](super::noise::Innovation::clamped), whichever is less: it is rather from elsewhere. Of a
/// model that knows little, and so follows an observation nearly all the way, it is by as many times more as it is less
/// sure of what it expected. A level that stands still does not follow at all: it is kept as it was, for the number to
/// come back to.
const OUTLIER_DEVIATIONS: f64 = 5.0;

/// The exponential function of [`EXP_POWER`] times a number that is hardly positive, to within half a per cent down
/// to minus eight, and never less than 1e-31: for weights, of which millions are needed. It has no branch, so that
/// several are computed at once.
fn fast_exp(part: f32) -> f32 {
    let part = part.max(-0.6);
    let mut power = 1.0 + part * (1.0 + 0.5 * part);
    for _ in 0..7 {
        power *= power;
    }
    power
}

/// The power to which [`weight`] raises.
const EXP_POWER: f64 = 128.0;

/// Weights need not be exact, and more of them are computed at once if they are short.
#[allow(clippy::cast_possible_truncation)] // what is too large or too small for it weighs all or nothing
pub(super) const fn as_f32(number: f64) -> f32 {
    number as f32
}

/// What a model says of the numbers before an observation, and how far it follows it; in units.
pub(super) struct MeasurementUpdate {
    matrix: [[f32; 3]; 3],
    /// By how much of its origin a number is expected to be less.
    origin_decay: f32,
    gains: [f32; 3],
    /// How far the numbers follow on average, and the variance of what they are kalman_update to be.
    pub(super) gain: f64,
    pub(super) total: f64,
    /// The largest residual that is clamped; larger ones are clamped as far as that.
    huber_threshold: f32,
    /// A larger residual than this is rather from elsewhere; and whether such are not clamped at all.
    outlier_threshold: f32,
    rejects_outliers: bool,
    /// The square of an residual, multiplied by this before, is by how much it makes that less likely, as a part of a
    /// logarithm, where it is not beyond the scaled_threshold; and what is added to that of a update without an residual because it
    /// is not exact, or its noise is not normal.
    residual_scale: f32,
    offset: f32,
    /// From which residual on, multiplied like that, the logarithm falls in proportion to it, and no longer to its square.
    scaled_threshold: f32,
    /// What makes the same of a normal distribution of the same variance: a factor of the square, and what is added.
    gaussian_scale: f32,
    gaussian_offset: f32,
    /// The variance that is stated_variance afterwards.
    stated_variance: f32,
}

impl MeasurementUpdate {
    /// Of a model, whose covariance becomes that after an observation with noise.
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

/// So many numbers are taken together, so that all that is known of them is at hand.
pub(super) const BLOCK: usize = 64;

/// An observation is far off from what was posterior if it is so by more than so many units, and an origin is near to it
/// if it is within so many. No model is farther from an origin than this.
pub(super) const FAR: f64 = 100.0;
pub(super) const NEAR: f64 = 16.0;
pub(super) const MAX_DISTANCE: f32 = 1e15;

/// How far two numbers are apart, in units, of which there are not too many.
pub(super) fn clamped_f32(units: f64) -> f32 {
    as_f32(units).clamp(-MAX_DISTANCE, MAX_DISTANCE)
}

/// Some numbers while they are kalman_update. All lengths are in units, and from the numbers' origins: short numbers of any
/// other size would be rounded by more than estimates differ.
pub(super) struct Block<'a> {
    observations: &'a [f64],
    /// Where they begin.
    start: usize,
    unit: f64,
    /// The observations, and the origins themselves.
    pub(super) observed: [f32; BLOCK],
    pub(super) origins: [f32; BLOCK],
    /// What was posterior, or what is kalman_update where that is far off: how far models are from there is summed.
    pub(super) bases: [f32; BLOCK],
    /// By how much a model expected less, as a multiple of what makes that less likely; and how far it is from the
    /// base.
    residuals: [f32; BLOCK],
    apart: [f32; BLOCK],
    /// By what the models' weights of before are multiplied: how likely none takes over from another, divided by what
    /// they weigh together.
    pub(super) stay_factors: [f32; BLOCK],
    /// What they weigh together after the observation, which is how likely they made it; and what that would be if
    /// another had taken over for sure.
    totals: [f32; BLOCK],
    after_switch: [f32; BLOCK],
    /// What they would weigh together after the observation if the noise were normal, where it is not.
    gaussian_totals: [f32; BLOCK],
    /// Sums over the models, by weight, of how far they are from the base, and of the square of that with their
    /// variances.
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

    /// Where its numbers are.
    const fn members(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.observations.len()
    }

    /// Moves the states of a model on to what is expected, and from there as far towards the observations as they are
    /// clamped; notes the weighed residuals and how far from the base the numbers are then.
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

    /// Moves a model's numbers that are far off to where they are kalman_update, as if they had jumped there and moved on as
    /// before; that makes the model so many times as likely. Which they are.
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

    /// States the variance of the observation for numbers that were moved to it, by a model that has clamped them.
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

    /// Takes the observations in by a model; and weighs it by how likely it made them, after any model may have taken
    /// over, as likely as it is in general. `HEAVY` says whether their noise has heavier tails than a normal
    /// distribution.
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

    /// What all models together weigh, and what they believe of the numbers.
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

    /// One divided by what the models weigh together.
    pub(super) fn inverse_totals(&self) -> [f32; BLOCK] {
        self.totals.map(f32::recip)
    }

    /// How much a model likelihoods the numbers, in sum, with one divided by what the models weigh together.
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

    /// The logarithm of how likely all models together would have made the observations if the noise were normal, where
    /// it is not.
    pub(super) fn gaussian_log_likelihood(&self) -> f64 {
        let of_some = |totals: &[f32]| totals.iter().map(|total| f64::from(*total)).product::<f64>();
        let products = self.gaussian_totals[..self.observations.len()].chunks(FACTORS_PER_LOGARITHM).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }

    /// The logarithm of how likely all models together made the observations, where any takes over at a rate instead of
    /// that by which they were weighed.
    pub(super) fn log_likelihood(&self, rate: f64, switch_probability: f32) -> f64 {
        let (totals, after_switch) =
            (&self.totals[..self.observations.len()], &self.after_switch[..self.observations.len()]);
        let switch_probability = f64::from(switch_probability);
        // What they weigh is linear in the rate.
        let (of_total, of_anew) =
            ((1.0 - rate) / (1.0 - switch_probability), (rate - switch_probability) / (1.0 - switch_probability));
        let of_one = |(total, after_switch): (&f32, &f32)| {
            (of_total * f64::from(*total) + of_anew * f64::from(*after_switch)).max(rate * f64::from(*after_switch))
        };
        // Logarithms take long: of a few at once, none so small that their product would be nothing.
        let of_some =
            |(totals, after_switch): (&[f32], &[f32])| totals.iter().zip(after_switch).map(of_one).product::<f64>();
        let products =
            totals.chunks(FACTORS_PER_LOGARITHM).zip(after_switch.chunks(FACTORS_PER_LOGARITHM)).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }
}

/// Of so many numbers a logarithm is taken at once.
const FACTORS_PER_LOGARITHM: usize = 8;
