//! [`GridFilter`]: a Bayes filter on a grid of cells (point-mass filter; Bucy and Senne 1971), for a bounded number
//! observed through coarse answers.
//!
//! An answer multiplies the density by its likelihood; time blurs it. Several models of motion run side by side,
//! weighed by the likelihoods of their forecasts.

use serde::{Deserialize, Serialize};

/// Maximum number of cells. Smaller domains have one cell for each point.
pub const MAX_CELLS: usize = 128;

/// Step scales of the level in a timestamp, relative to the domain's width.
const STEPS: [f64; 5] = [0.0005, 0.002, 0.006, 0.02, 0.06];

/// Scales of the number's scatter around its level, relative to the domain's width.
const SCATTERS: [f64; 3] = [0.01, 0.05, 0.15];

/// Number of models. In the first, numbers are independent and uniform. In the others, a level takes steps and rarely
/// jumps anywhere, and the number scatters around it: one model for each pair of step and scatter. Both have Laplace
/// distributions, so that occasional large values are no surprise.
const MODELS: usize = 1 + STEPS.len() * SCATTERS.len();

/// One value for each model.
type PerModel = [f64; MODELS];

/// Mean distance of a uniform number from the middle of the domain, relative to its width.
pub const UNIFORM_SPREAD: f64 = 0.25;

/// Probability that a level jumps, in a timestamp.
const JUMP_PROBABILITY: f64 = 0.0005;

/// Prior weight of the first model.
const INDEPENDENT_PRIOR: f64 = 0.15;

/// Ratio of the prior weights of a step scale and the next smaller one.
const STEP_PRIOR_RATIO: f64 = 0.6;

/// Prior mass of levels near the middle of the domain, and their distance from it relative to the domain's width.
const MIDDLE_PRIOR: f64 = 0.15;
const MIDDLE_WIDTH: f64 = 0.02;

/// Forgetting factor of the model weights, for each number.
const FORGETTING_FACTOR: f64 = 0.9999;

/// Longest prediction, in timestamps.
const MAX_GAP: u64 = 4_096;

/// Step scale of a model with a level.
const fn step_of(model: usize) -> f64 {
    STEPS[(model - 1) / SCATTERS.len()]
}

/// Scatter scale of a model.
const fn scatter_scale(model: usize) -> f64 {
    if model == 0 { UNIFORM_SPREAD } else { SCATTERS[scatter_of(model)] }
}

/// Index of the scatter scale of a model with a level.
const fn scatter_of(model: usize) -> usize {
    (model - 1) % SCATTERS.len()
}

#[allow(clippy::cast_precision_loss)] // a few cells
fn share(cells: usize) -> f64 {
    1.0 / cells as f64
}

/// Ratio of a Laplace kernel between neighbouring cells.
fn ratio(scale: f64, cells: usize) -> f64 {
    (-share(cells) / scale).exp()
}

/// Convolves densities with Laplace kernels, reflected at the ends of the domain. The operator is self-adjoint, so it
/// also carries likelihoods back.
fn blur<const N: usize>(densities: &[[f64; N]], ratios: &[f64; N]) -> Vec<[f64; N]> {
    let add = |running: &mut [f64; N], masses: &[f64; N]| {
        for at in 0..N {
            running[at] = masses[at] + ratios[at] * running[at];
        }
    };
    // Sums the infinitely many mirror images.
    let (mut upwards, mut downwards) = ([0.0; N], [0.0; N]);
    densities.iter().rev().for_each(|masses| add(&mut upwards, masses));
    densities.iter().for_each(|masses| add(&mut downwards, masses));
    for at in 0..N {
        let across = densities.iter().fold(1.0, |across, _| across * ratios[at]);
        let (first, last) = (upwards[at], downwards[at]);
        let images = 1.0 - across * across;
        (upwards[at], downwards[at]) = ((first + across * last) / images, (last + across * first) / images);
    }
    let mut blurred = Vec::with_capacity(densities.len());
    for masses in densities {
        let mut below = [0.0; N];
        for at in 0..N {
            below[at] = ratios[at] * upwards[at];
            upwards[at] = masses[at] + below[at];
        }
        blurred.push(below);
    }
    let factors = ratios.map(|ratio| (1.0 - ratio) / (1.0 + ratio));
    for (blurred, masses) in blurred.iter_mut().zip(densities).rev() {
        add(&mut downwards, masses);
        for at in 0..N {
            blurred[at] = factors[at] * (blurred[at] + downwards[at]);
        }
    }
    blurred
}

/// Multiplies by likelihoods and normalises. Returns the normalisers.
fn multiply(densities: &mut [PerModel], likelihoods: &[PerModel]) -> PerModel {
    let mut totals = [0.0; MODELS];
    for (masses, likely) in densities.iter().zip(likelihoods) {
        for model in 0..MODELS {
            totals[model] += masses[model] * likely[model];
        }
    }
    // Where the product underflows, the density stays.
    let factors = totals.map(|total| if total > f64::MIN_POSITIVE { total.recip() } else { 0.0 });
    let kept = factors.map(|factor| if factor > 0.0 { 0.0 } else { 1.0 });
    for (masses, likely) in densities.iter_mut().zip(likelihoods) {
        for model in 0..MODELS {
            masses[model] *= likely[model] * factors[model] + kept[model];
        }
    }
    totals.map(|total| total.max(f64::MIN_POSITIVE))
}

/// Models of motion over a number of cells.
#[derive(Clone, Debug)]
pub struct GridModels {
    /// Prior density of a level, also after a jump.
    anywhere: Vec<f64>,
    /// Kernel ratio of each scatter.
    scatters: [f64; SCATTERS.len()],
}

/// Observation of one number, or of several in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum GridObservation {
    /// Likelihood of the answer for each cell.
    One(Vec<f64>),
    /// Noisy mean of several numbers, each clamped to a range. Lengths are in cells.
    Mean {
        /// Count of numbers.
        count: u32,
        /// Lower end of the range.
        low: f64,
        /// Upper end of the range.
        high: f64,
        /// Noisy mean.
        mean: f64,
        /// Scale of a Laplace distribution with the variance of the noise.
        scale: f64,
    },
}

/// Variance that a future observation would explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedVariance {
    /// Variance of the level, in squared cells.
    pub level: f64,
    /// Variance of the scatter scale, relative to the squared width of the domain.
    pub scatter: f64,
}

impl GridObservation {
    /// Count of numbers it covers.
    const fn count(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::Mean { count, .. } => *count,
        }
    }
}

/// An observation with its likelihood under each model.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservationLikelihood {
    gap: u64,
    observation: GridObservation,
    /// For each cell and model, likelihood of a level there.
    likelihoods: Vec<PerModel>,
}

impl GridModels {
    /// Creates the models for a number of cells.
    pub fn new(cells: usize) -> Self {
        Self { anywhere: level_prior(cells), scatters: SCATTERS.map(|scatter| ratio(scatter, cells)) }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.anywhere.len()
    }

    /// Computes the likelihoods of an observation made `gap` timestamps after the last one; zero for the first.
    pub fn likelihood(&self, gap: u64, observation: GridObservation) -> ObservationLikelihood {
        let likelihoods = match &observation {
            GridObservation::One(likelihood) => self.expected_around_levels(likelihood),
            GridObservation::Mean { count, low, high, mean, scale } => {
                self.mean_likelihood(f64::from(*count), (*low, *high), *mean, *scale)
            }
        };
        ObservationLikelihood { gap, observation, likelihoods }
    }

    /// Expected value of a function of the number, given a level in each cell.
    fn expected_around_levels(&self, of_number: &[f64]) -> Vec<PerModel> {
        let copies: Vec<[f64; SCATTERS.len()]> = of_number.iter().map(|value| [*value; SCATTERS.len()]).collect();
        let everywhere = of_number.iter().sum::<f64>() * share(self.cells());
        let of_each = |scattered: &[f64; SCATTERS.len()]| {
            std::array::from_fn(|model| if model == 0 { everywhere } else { scattered[scatter_of(model)] })
        };
        blur(&copies, &self.scatters).iter().map(of_each).collect()
    }

    /// Likelihood of a noisy mean for each level.
    #[allow(clippy::cast_precision_loss)] // a few cells
    fn mean_likelihood(&self, count: f64, (low, high): (f64, f64), mean: f64, scale: f64) -> Vec<PerModel> {
        let cells = self.cells();
        let moved = clamped_cells(low, high, cells);
        let squares: Vec<f64> = moved.iter().map(|place| (place - low).powi(2)).collect();
        // Meanwhile the level drifts, by no more than the range shows.
        let drifts: PerModel = std::array::from_fn(|model| {
            let step = if model == 0 { 0.0 } else { step_of(model) * cells as f64 };
            (2.0 * step * step * count / 3.0).min((high - low).powi(2) / 12.0)
        });
        let likely = |(means, squares): (PerModel, PerModel)| {
            std::array::from_fn(|model| {
                let expected = means[model];
                let scatter = (squares[model] - (expected - low).powi(2)).max(0.0) / count;
                let scale = (scale * scale + (scatter + drifts[model]) / 2.0).sqrt();
                (-(mean - expected).abs() / scale).exp() / scale
            })
        };
        self.expected_around_levels(&moved).into_iter().zip(self.expected_around_levels(&squares)).map(likely).collect()
    }

    /// Kernel ratios of the levels, and jump probabilities, over a gap.
    #[allow(clippy::cast_precision_loss)] // a few thousand at most
    fn transition(&self, gap: u64) -> (PerModel, PerModel) {
        let gap = gap.min(MAX_GAP) as f64;
        let ratios = STEPS.map(|step| ratio(step * gap.sqrt(), self.cells()));
        let jump = 1.0 - (1.0 - JUMP_PROBABILITY).powf(gap);
        let of_each = |model: usize| if model == 0 { 0.0 } else { ratios[(model - 1) / SCATTERS.len()] };
        (std::array::from_fn(of_each), std::array::from_fn(|model| if model == 0 { 0.0 } else { jump }))
    }

    /// Predicts the levels after a gap.
    fn predict(&self, levels: &[PerModel], gap: u64) -> Vec<PerModel> {
        if gap == 0 {
            return levels.to_vec();
        }
        let (ratios, jumps) = self.transition(gap);
        let mut moved = blur(levels, &ratios);
        for (masses, anywhere) in moved.iter_mut().zip(&self.anywhere) {
            for model in 0..MODELS {
                masses[model] += (anywhere - masses[model]) * jumps[model];
            }
        }
        moved
    }

    /// Carries likelihoods of the levels back over a gap.
    fn predict_backward(&self, likely: &[PerModel], gap: u64) -> Vec<PerModel> {
        if gap == 0 {
            return likely.to_vec();
        }
        let (ratios, jumps) = self.transition(gap);
        let mut after_a_jump = [0.0; MODELS];
        for (likely, anywhere) in likely.iter().zip(&self.anywhere) {
            for model in 0..MODELS {
                after_a_jump[model] += anywhere * likely[model];
            }
        }
        let mut moved = blur(likely, &ratios);
        for likely in &mut moved {
            for model in 0..MODELS {
                likely[model] += (after_a_jump[model] - likely[model]) * jumps[model];
            }
        }
        moved
    }

    /// Mixture density of the number, given the levels.
    fn number(&self, levels: &[PerModel], weights: &PerModel) -> Vec<f64> {
        let of_scatters = |masses: &PerModel| {
            let mut sums = [0.0; SCATTERS.len()];
            for model in 1..MODELS {
                sums[scatter_of(model)] += weights[model] * masses[model];
            }
            sums
        };
        let levels: Vec<[f64; SCATTERS.len()]> = levels.iter().map(of_scatters).collect();
        let everywhere = weights[0] * share(self.cells());
        blur(&levels, &self.scatters).iter().map(|masses| everywhere + masses.iter().sum::<f64>()).collect()
    }

    /// Density of an observed number. `before` are the levels without the observation, and with all later ones if
    /// smoothing. `weights` include the observation.
    fn number_given(&self, mut before: Vec<PerModel>, seen: &ObservationLikelihood, weights: &PerModel) -> Vec<f64> {
        let GridObservation::One(likelihood) = &seen.observation else {
            multiply(&mut before, &seen.likelihoods);
            return self.number(&before, weights);
        };
        let mut totals = [0.0; MODELS];
        for (masses, likely) in before.iter().zip(&seen.likelihoods) {
            for model in 0..MODELS {
                totals[model] += masses[model] * likely[model];
            }
        }
        let weights = std::array::from_fn(|model| weights[model] / totals[model].max(f64::MIN_POSITIVE));
        self.number(&before, &weights).iter().zip(likelihood).map(|(mass, likely)| mass * likely).collect()
    }
}

/// Centres of the cells, clamped to a range.
#[allow(clippy::cast_precision_loss)] // a few cells
fn clamped_cells(low: f64, high: f64, cells: usize) -> Vec<f64> {
    (0..cells).map(|cell| (cell as f64 + 0.5).clamp(low, high)).collect()
}

/// Prior density of a level. It falls with the level, because upper ends are mostly set with room to spare. Some mass
/// is in the middle, where a guess without data is right and errors cost most in comparison.
#[allow(clippy::cast_precision_loss)] // a few cells
fn level_prior(cells: usize) -> Vec<f64> {
    let place = |cell: usize| (cell as f64 + 0.5) * share(cells);
    let scaled = |weigh: &dyn Fn(f64) -> f64, to: f64| {
        let weights: Vec<f64> = (0..cells).map(|cell| weigh(place(cell))).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight * to / total)
    };
    let falling = scaled(&|place| (1.0 - place).powi(2), 1.0 - MIDDLE_PRIOR);
    let middle = scaled(&|place| (-(place - 0.5).abs() / MIDDLE_WIDTH).exp(), MIDDLE_PRIOR);
    falling.zip(middle).map(|(falling, middle)| falling + middle).collect()
}

/// Prior log-weights of the models, relative to the largest.
fn prior_log_weights() -> PerModel {
    let of_step = |step: usize| (0..step).fold(1.0, |weight, _| weight * STEP_PRIOR_RATIO);
    let all: f64 = (1..MODELS).map(|model| of_step((model - 1) / SCATTERS.len())).sum();
    let weight = |model: usize| match model.checked_sub(1) {
        None => INDEPENDENT_PRIOR,
        Some(model) => (1.0 - INDEPENDENT_PRIOR) * of_step(model / SCATTERS.len()) / all,
    };
    relative_to_max(std::array::from_fn(|model| weight(model).ln()))
}

/// Subtracts the largest log-weight.
fn relative_to_max(weights: PerModel) -> PerModel {
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    weights.map(|weight| weight - most)
}

/// Posterior density of a moving number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridFilter {
    /// Log-weights of the models, relative to the largest.
    log_weights: PerModel,
    /// For each cell and model, probability of the level after the last observation.
    levels: Vec<PerModel>,
}

impl GridFilter {
    /// Creates the filter before any observation.
    pub fn new(models: &GridModels) -> Self {
        Self { log_weights: prior_log_weights(), levels: models.anywhere.iter().map(|mass| [*mass; MODELS]).collect() }
    }

    /// Whether the state is valid for these models.
    pub fn fits(&self, models: &GridModels) -> bool {
        let is_density = |model: usize| {
            let masses = || self.levels.iter().map(|masses| masses[model]);
            masses().all(|mass| (0.0..=1.0).contains(&mass)) && (masses().sum::<f64>() - 1.0).abs() < 1e-6
        };
        self.levels.len() == models.cells()
            && self.log_weights.iter().all(|weight| weight.is_finite() && *weight <= 0.0)
            && self.log_weights.contains(&0.0)
            && (0..MODELS).all(is_density)
    }

    /// Normalised mixture weights.
    fn mixture_weights(&self) -> PerModel {
        let weights = self.log_weights.map(f64::exp);
        let total: f64 = weights.iter().sum();
        weights.map(|weight| weight / total)
    }

    /// Posterior probability that numbers are independent.
    pub fn independence_probability(&self) -> f64 {
        self.mixture_weights()[0]
    }

    /// Geometric mean step of the level in a timestamp, relative to the domain's width.
    pub fn typical_step(&self) -> f64 {
        let mixture_weights = self.mixture_weights();
        let total: f64 = mixture_weights[1..].iter().sum();
        let sum: f64 = (1..MODELS).map(|model| mixture_weights[model] * step_of(model).ln()).sum();
        if total > 0.0 { (sum / total).exp() } else { STEPS[0] }
    }

    /// Predicts the filter after a gap.
    pub fn predict(&self, models: &GridModels, gap: u64) -> Self {
        Self { log_weights: self.log_weights, levels: models.predict(&self.levels, gap) }
    }

    /// Density of the number.
    pub fn number(&self, models: &GridModels) -> Vec<f64> {
        models.number(&self.levels, &self.mixture_weights())
    }

    /// Standard deviation of the expected mean of many numbers clamped to a range. Lengths are in cells.
    pub fn uncertainty(&self, models: &GridModels, low: f64, high: f64) -> f64 {
        let mixture_weights = self.mixture_weights();
        let (mut sum, mut squares) = (0.0, 0.0);
        for (masses, means) in
            self.levels.iter().zip(models.expected_around_levels(&clamped_cells(low, high, models.cells())))
        {
            for model in 0..MODELS {
                let mean = means[model] - low;
                let mass = mixture_weights[model] * masses[model];
                sum += mass * mean;
                squares += mass * mean * mean;
            }
        }
        (squares - sum * sum).max(0.0).sqrt()
    }

    /// Posterior variance of the scatter scale, relative to the squared width of the domain.
    pub fn scatter_variance(&self) -> f64 {
        let mixture_weights = self.mixture_weights();
        let moment = |power: i32| {
            (0..MODELS).map(|model| mixture_weights[model] * scatter_scale(model).powi(power)).sum::<f64>()
        };
        (moment(2) - moment(1).powi(2)).max(0.0)
    }

    /// Variance that the noisy mean of `count` numbers clamped to a range would explain, by linear regression. Lengths
    /// are in cells.
    #[allow(clippy::cast_precision_loss)] // a few cells
    pub fn explained_variance(
        &self,
        models: &GridModels,
        count: u32,
        (low, high): (f64, f64),
        scale: f64,
    ) -> ExplainedVariance {
        let mixture_weights = self.mixture_weights();
        let moved = clamped_cells(low, high, models.cells());
        let squares: Vec<f64> = moved.iter().map(|place| (place - low).powi(2)).collect();
        let (means, squares) = (models.expected_around_levels(&moved), models.expected_around_levels(&squares));
        let middle = models.cells() as f64 / 2.0;
        // Moments of mean, level and scatter over the posterior.
        let (mut mean_sum, mut square_sum, mut variance_sum) = (0.0, 0.0, 0.0);
        let (mut sums, mut products) = ([0.0; 2], [0.0; 2]);
        for (cell, masses) in self.levels.iter().enumerate() {
            let level = cell as f64 + 0.5 - middle;
            for model in 0..MODELS {
                let mass = mixture_weights[model] * masses[model];
                let mean = means[cell][model] - low;
                mean_sum += mass * mean;
                square_sum += mass * mean * mean;
                variance_sum += mass * (squares[cell][model] - mean * mean).max(0.0);
                for (at, value) in [if model == 0 { 0.0 } else { level }, scatter_scale(model)].into_iter().enumerate()
                {
                    sums[at] += mass * value;
                    products[at] += mass * value * mean;
                }
            }
        }
        let variance = square_sum - mean_sum * mean_sum + variance_sum / f64::from(count) + 2.0 * scale * scale;
        let explained = |at: usize| (products[at] - sums[at] * mean_sum).powi(2) / variance.max(f64::MIN_POSITIVE);
        ExplainedVariance { level: explained(0), scatter: explained(1) }
    }

    /// Updates with an observation. Returns the density of each observed number.
    pub fn observe(&mut self, models: &GridModels, seen: &ObservationLikelihood) -> Vec<f64> {
        let memory = FORGETTING_FACTOR.powf(f64::from(seen.observation.count()));
        let before = models.predict(&self.levels, seen.gap);
        self.levels.clone_from(&before);
        let totals = multiply(&mut self.levels, &seen.likelihoods);
        let first = prior_log_weights();
        let weight =
            |model: usize| memory * self.log_weights[model] + (1.0 - memory) * first[model] + totals[model].ln();
        self.log_weights = relative_to_max(std::array::from_fn(weight));
        models.number_given(before, seen, &self.mixture_weights())
    }

    /// Updates the levels with an observation, but not the model weights.
    pub fn observe_levels(&mut self, models: &GridModels, seen: &ObservationLikelihood) {
        self.levels = models.predict(&self.levels, seen.gap);
        multiply(&mut self.levels, &seen.likelihoods);
    }

    /// Forward-backward smoothing: densities of the first `count` observed numbers given all observations. `start` is
    /// the filter before the first of them; model weights are those of `self`.
    pub fn smooth<'a>(
        &self,
        models: &GridModels,
        start: &Self,
        seen: impl DoubleEndedIterator<Item = &'a ObservationLikelihood> + ExactSizeIterator + Clone,
        count: usize,
    ) -> Vec<Vec<f64>> {
        let mixture_weights = self.mixture_weights();
        // Forward pass: levels before each observation.
        let mut before = Vec::with_capacity(count);
        let mut levels = start.levels.clone();
        for seen in seen.clone().take(count) {
            levels = models.predict(&levels, seen.gap);
            before.push(levels.clone());
            multiply(&mut levels, &seen.likelihoods);
        }
        // Backward pass: normalised likelihoods of all later observations.
        let mut after = vec![[share(models.cells()); MODELS]; models.cells()];
        let mut believed = Vec::with_capacity(count);
        for (place, seen) in seen.enumerate().rev() {
            if place < before.len()
                && let Some(mut levels) = before.pop()
            {
                multiply(&mut levels, &after);
                believed.push(models.number_given(levels, seen, &mixture_weights));
            }
            multiply(&mut after, &seen.likelihoods);
            after = models.predict_backward(&after, seen.gap);
        }
        believed.reverse();
        believed
    }
}

/// Quantile of a density, in cells.
#[allow(clippy::cast_precision_loss)] // a few cells
pub fn quantile(density: &[f64], part: f64) -> f64 {
    let mut below = 0.0;
    for (cell, mass) in density.iter().enumerate() {
        if below + mass >= part && *mass > 0.0 {
            return cell as f64 + (part - below) / mass;
        }
        below += mass;
    }
    density.len() as f64
}

/// Expected squared distance from a place, in cells.
#[allow(clippy::cast_precision_loss)] // a few cells
pub fn squared_deviation(density: &[f64], place: f64) -> f64 {
    // A twelfth is the variance within a cell.
    let square = |cell: usize| (cell as f64 + 0.5 - place).powi(2) + 1.0 / 12.0;
    density.iter().enumerate().map(|(cell, mass)| mass * square(cell)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blur_keeps_all_of_a_density_and_makes_it_even_in_the_end() {
        for cells in [1_usize, 2, 7, 128] {
            for scale in [0.001, 0.15, 4.0, 100.0] {
                for peak in [0, cells / 3, cells - 1] {
                    let density: Vec<[f64; 1]> = (0..cells).map(|cell| [f64::from(u8::from(cell == peak))]).collect();
                    let blurred = blur(&density, &[ratio(scale, cells)]);
                    let total: f64 = blurred.iter().map(|[mass]| mass).sum();
                    assert!((total - 1.0).abs() < 1e-9, "{cells} {scale} {peak}: {total}");
                    let [most, least] = [f64::max, f64::min].map(|choose| {
                        blurred.iter().map(|[mass]| *mass).reduce(choose).map_or(0.0, |mass| mass / share(cells))
                    });
                    assert!(scale < 100.0 || most - least < 1e-3, "{cells} {scale} {peak}: {least} to {most}");
                }
            }
        }
    }

    #[test]
    fn a_count_far_out_tells_of_scatter_what_means_over_a_narrow_range_do_not() {
        let models = GridModels::new(MAX_CELLS);
        let mut density = GridFilter::new(&models);
        // Uniform numbers lie above the middle of this range as often as numbers that stay within it.
        let (low, high) = (66.0, 70.0);
        for gap in [0, 12, 12, 12, 12, 12] {
            let observation = GridObservation::Mean { count: 12, low, high, mean: 68.0, scale: (high - low) / 12.0 };
            density.observe(&models, &models.likelihood(gap, observation));
        }
        let within = density.explained_variance(&models, 12, (low, high), (high - low) / 12.0);
        let far_out = density.explained_variance(&models, 12, (59.5, 60.5), 1.0 / 12.0);
        assert!(far_out.scatter > 5.0 * within.scatter, "{far_out:?} {within:?}");
        assert!(far_out.scatter < density.scatter_variance(), "{far_out:?}");
        // Not even an exact answer explains more than the total variance.
        let all = density.explained_variance(&models, u32::MAX, (0.0, 128.0), 0.0);
        assert!(all.level > 0.0 && all.scatter >= 0.0 && all.scatter <= density.scatter_variance(), "{all:?}");
    }
}
