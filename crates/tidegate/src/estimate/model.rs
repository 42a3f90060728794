//! Linear state-space models of a [`super::model_bank::ModelBank`]: the components of structural time series (Harvey
//! 1989), and the Kalman (1960) prediction and update of their covariances.

use super::seasonal::phase_at;

/// A linear model of one number. Variances are in multiples of the reference variance.
#[derive(Clone, Copy, Debug)]
pub(super) enum Model {
    /// Random walk; `step` is the variance of its steps.
    LocalLevel { step: f64 },
    /// Damped linear trend; the slope takes random steps.
    LocalTrend { step: f64 },
    /// Damped quadratic trend; the slope of the slope takes random steps.
    LocalCurvature { step: f64 },
    /// First-order autoregression around the mean of all numbers; `stationary` is its stationary variance.
    MeanReverting { stationary: f64, decay: f64 },
    /// First-order autoregression around a level of its own.
    LevelReverting { stationary: f64, decay: f64 },
    /// Stochastic cycle around a level.
    Cycle { period: f64, step: f64 },
    /// One random walk for each phase of a period, with one step a period.
    Seasonal { period: usize, step: f64 },
    /// A constant since its start.
    Constant,
}

/// Models for any number of numbers.
const UNIVERSAL: [Model; 26] = [
    Model::LocalLevel { step: 1e-6 },
    Model::LocalLevel { step: 1e-4 },
    Model::LocalLevel { step: 1e-3 },
    Model::LocalLevel { step: 1e-2 },
    Model::LocalLevel { step: 3e-2 },
    Model::LocalLevel { step: 0.1 },
    Model::LocalLevel { step: 0.3 },
    Model::LocalLevel { step: 1.0 },
    Model::LocalLevel { step: 5.0 },
    Model::LocalLevel { step: 1e5 },
    Model::LocalTrend { step: 1e-6 },
    Model::LocalTrend { step: 1e-4 },
    Model::LocalTrend { step: 1e-2 },
    Model::LocalCurvature { step: 1e-7 },
    Model::LocalCurvature { step: 1e-5 },
    Model::LocalCurvature { step: 1e-3 },
    Model::MeanReverting { stationary: 3e-4, decay: 1e-3 },
    Model::MeanReverting { stationary: 3e-3, decay: 1e-3 },
    Model::MeanReverting { stationary: 3e-2, decay: 1e-3 },
    Model::MeanReverting { stationary: 3e-2, decay: 0.05 },
    Model::MeanReverting { stationary: 0.3, decay: 3e-3 },
    Model::MeanReverting { stationary: 0.3, decay: 0.1 },
    Model::MeanReverting { stationary: 3.0, decay: 0.1 },
    Model::MeanReverting { stationary: 0.3, decay: NEARLY_CONSTANT },
    Model::MeanReverting { stationary: 3.0, decay: NEARLY_CONSTANT },
    Model::MeanReverting { stationary: 30.0, decay: NEARLY_CONSTANT },
];

/// Decay up to which an autoregression counts as constant. Unlike [`Model::Constant`] it is known to be near the mean.
const NEARLY_CONSTANT: f64 = 1e-6;

/// Further trends for small domains, where they are cheap.
const SMALL_DOMAIN: [Model; 7] = [
    Model::LocalTrend { step: 1e-7 },
    Model::LocalTrend { step: 1e-5 },
    Model::LocalTrend { step: 1e-3 },
    Model::LocalCurvature { step: 1e-8 },
    Model::LocalCurvature { step: 1e-6 },
    Model::LocalCurvature { step: 1e-4 },
    Model::LocalCurvature { step: 1e-2 },
];

/// Size of the largest small domain. Cycles and seasons are for small domains too.
const SMALL_DOMAIN_MAX: usize = 50;

/// Further models for small groups. In large groups the noise differs a little between numbers; level reversion would
/// mistake that for a level.
const SMALL_GROUP: [Model; 12] = [
    Model::LocalCurvature { step: 3e-8 },
    Model::LocalCurvature { step: 3e-7 },
    Model::LocalCurvature { step: 3e-6 },
    Model::LocalCurvature { step: 3e-5 },
    Model::LocalCurvature { step: 3e-4 },
    Model::LocalCurvature { step: 3e-3 },
    Model::LevelReverting { stationary: 0.3, decay: 1.0 },
    Model::LevelReverting { stationary: 3.0, decay: 1.0 },
    Model::LevelReverting { stationary: 30.0, decay: 1.0 },
    Model::LevelReverting { stationary: 300.0, decay: 1.0 },
    Model::LevelReverting { stationary: 0.3, decay: 0.1 },
    Model::LevelReverting { stationary: 3.0, decay: 0.1 },
];
const SMALL_GROUP_MAX: usize = 7;

/// Periods of cycles: months of a year, hours of a day with halves and quarters, weeks of a year. Then variances of
/// steps.
const CYCLE_PERIODS: [f64; 5] = [12.0, 24.0, 48.0, 52.0, 96.0];
const CYCLE_STEPS: [f64; 6] = [1e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// Periods of seasons: days of a week, hours of a day. Then variances of steps.
const SEASONAL_PERIODS: [usize; 2] = [7, 24];
const SEASONAL_STEPS: [f64; 3] = [1e-3, 0.1, 10.0];

/// First index of each kind of model.
const SMALL_DOMAIN_START: usize = UNIVERSAL.len();
const SMALL_GROUP_START: usize = SMALL_DOMAIN_START + SMALL_DOMAIN.len();
const CYCLE_START: usize = SMALL_GROUP_START + SMALL_GROUP.len();
const SEASONAL_START: usize = CYCLE_START + CYCLE_PERIODS.len() * CYCLE_STEPS.len();

/// Number of models that are not constant.
pub(super) const DYNAMIC_MODELS: usize = SEASONAL_START + SEASONAL_PERIODS.len() * SEASONAL_STEPS.len();

/// Returns the model at an index; every index from [`DYNAMIC_MODELS`] on is a constant.
pub(super) const fn model(index: usize) -> Model {
    if index < SMALL_DOMAIN_START {
        UNIVERSAL[index]
    } else if index < SMALL_GROUP_START {
        SMALL_DOMAIN[index - SMALL_DOMAIN_START]
    } else if index < CYCLE_START {
        SMALL_GROUP[index - SMALL_GROUP_START]
    } else if index < SEASONAL_START {
        let cycle = index - CYCLE_START;
        Model::Cycle { period: CYCLE_PERIODS[cycle / CYCLE_STEPS.len()], step: CYCLE_STEPS[cycle % CYCLE_STEPS.len()] }
    } else if index < DYNAMIC_MODELS {
        let season = index - SEASONAL_START;
        let (period, step) = (season / SEASONAL_STEPS.len(), season % SEASONAL_STEPS.len());
        Model::Seasonal { period: SEASONAL_PERIODS[period], step: SEASONAL_STEPS[step] }
    } else {
        Model::Constant
    }
}

/// Prior weight of constant levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantPrior {
    /// One hypothesis among many. For numbers whose observation noise never changes.
    Possible,
    /// More likely than not. For numbers that may be known exactly at first, and observed with much more noise later.
    Likely,
}

impl ConstantPrior {
    /// Returns the prior weights of constant levels and of near-constant numbers, relative to a random walk.
    const fn weights(self) -> (f64, f64) {
        match self {
            Self::Possible => (0.5, 1.0),
            Self::Likely => (50.0, 5.0),
        }
    }
}

/// Returns the prior probability of each model for a group of `members` among `numbers`. All constants together count
/// as one model. Models with a variance above the mean square get less: large numbers are rare.
pub(super) fn initial_prior(
    members: usize,
    numbers: usize,
    reference: f64,
    largest_square: f64,
    mean_square: f64,
    constancy: ConstantPrior,
) -> Vec<f64> {
    let likely = |index: usize| {
        let model = model(index);
        let possible = match model {
            // Few numbers with unchanging noise: a slow walk would pass for this, with too small a variance.
            Model::MeanReverting { decay, .. } if decay <= NEARLY_CONSTANT => {
                constancy == ConstantPrior::Likely || numbers > SMALL_DOMAIN_MAX
            }
            Model::Constant => true,
            _ if index < SMALL_DOMAIN_START => true,
            _ if (SMALL_GROUP_START..CYCLE_START).contains(&index) => members <= SMALL_GROUP_MAX,
            _ => numbers <= SMALL_DOMAIN_MAX,
        };
        let rare = (mean_square / model.initial_variance(reference, largest_square)).min(1.0);
        if possible { model.prior_weight(constancy) * rare } else { 0.0 }
    };
    let weights: Vec<f64> = (0..=DYNAMIC_MODELS).map(likely).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Share of a slope, and of its slope, that remains after a timestamp.
const TREND_DAMPING: f64 = 0.995;
const CURVATURE_DAMPING: f64 = 0.99;

/// Models with a steady-state Kalman gain below this get less prior weight, in proportion. Many slow models differ only
/// in the long run; together they would outweigh the others at the start.
const SLOW_GAIN: f64 = 0.1;

/// Prior weights relative to a random walk.
const LEVEL_REVERTING_WEIGHT: f64 = 0.2;
const CYCLE_WEIGHT: f64 = 0.05;
const SEASONAL_WEIGHT: f64 = 0.05;

/// Covariance matrix of a number, its slope and the slope of its slope.
pub(super) type Covariance = [[f64; 3]; 3];

/// Transition over some time: state transition matrix and process noise covariance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    pub(super) matrix: [[f64; 3]; 3],
    process_noise: Covariance,
    /// Whether the state is the number alone.
    is_scalar: bool,
}

impl Transition {
    /// Identity transition of a scalar state.
    pub(super) const SCALAR_IDENTITY: Self = Self { is_scalar: true, ..Self::IDENTITY };

    const IDENTITY: Self = Self {
        matrix: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        process_noise: [[0.0; 3]; 3],
        is_scalar: false,
    };

    /// Returns the transition over one timestamp, or over one period for seasonal models.
    pub(super) fn of(model: Model, reference: f64, largest: f64) -> Self {
        let is_scalar = model.order() == 1 || matches!(model, Model::Seasonal { .. });
        let mut transition = Self { matrix: [[0.0; 3]; 3], process_noise: [[0.0; 3]; 3], is_scalar };
        transition.matrix[0][0] = 1.0;
        match model {
            Model::LocalLevel { step } | Model::Seasonal { step, .. } => {
                transition.process_noise[0][0] = step * reference
            }
            Model::LocalTrend { step } => {
                (transition.matrix[0][1], transition.matrix[1][1]) = (1.0, TREND_DAMPING);
                transition.process_noise[1][1] = step * reference;
            }
            Model::LocalCurvature { step } => {
                (transition.matrix[0][1], transition.matrix[1][1]) = (1.0, TREND_DAMPING);
                (transition.matrix[1][2], transition.matrix[2][2]) = (1.0, CURVATURE_DAMPING);
                transition.process_noise[2][2] = step * reference;
            }
            Model::MeanReverting { stationary, decay } => {
                let kept = 1.0 - decay;
                transition.matrix[0][0] = kept;
                transition.process_noise[0][0] = (stationary * reference).min(largest) * (1.0 - kept * kept);
            }
            Model::LevelReverting { stationary, decay } => {
                let kept = 1.0 - decay;
                (transition.matrix[0][0], transition.matrix[0][1], transition.matrix[1][1]) = (kept, decay, 1.0);
                transition.process_noise[0][0] = (stationary * reference).min(largest) * (1.0 - kept * kept);
            }
            Model::Cycle { period, step } => {
                let ((sine, cosine), step) = ((std::f64::consts::TAU / period).sin_cos(), step * reference);
                transition.matrix = [[cosine, sine, 1.0 - cosine], [-sine, cosine, sine], [0.0, 0.0, 1.0]];
                transition.process_noise = [[2.0 * step, 0.0, step], [0.0, step, 0.0], [step, 0.0, step]];
            }
            Model::Constant => {}
        }
        transition
    }

    /// Kalman prediction of the covariance.
    pub(super) fn predict_covariance(&self, covariance: &Covariance) -> Covariance {
        let mut after = self.process_noise;
        if self.is_scalar {
            after[0][0] += self.matrix[0][0] * self.matrix[0][0] * covariance[0][0];
            return after;
        }
        let mut moved = [[0.0; 3]; 3];
        for (row, matrix) in moved.iter_mut().zip(&self.matrix) {
            for (add, covariance) in matrix.iter().zip(covariance) {
                row.iter_mut().zip(covariance).for_each(|(cell, covariance)| *cell += add * covariance);
            }
        }
        for (row, moved) in after.iter_mut().zip(&moved) {
            for (cell, matrix) in row.iter_mut().zip(&self.matrix) {
                *cell += moved.iter().zip(matrix).map(|(moved, add)| moved * add).sum::<f64>();
            }
        }
        after
    }

    /// Composes two transitions.
    fn then(&self, next: &Self) -> Self {
        let mut matrix = [[0.0; 3]; 3];
        for (row, of_next) in matrix.iter_mut().zip(&next.matrix) {
            for (middle, of_self) in of_next.iter().zip(&self.matrix) {
                row.iter_mut().zip(of_self).for_each(|(cell, add)| *cell += middle * add);
            }
        }
        Self {
            matrix,
            process_noise: next.predict_covariance(&self.process_noise),
            is_scalar: self.is_scalar && next.is_scalar,
        }
    }

    /// Process noise variance of the number itself.
    pub(super) const fn level_noise(&self) -> f64 {
        self.process_noise[0][0]
    }

    /// Share of the origin that a number loses, when states are measured from that origin.
    pub(super) fn origin_decay(&self) -> f64 {
        // Trends and own levels are measured from the origin too.
        if self.is_scalar { 1.0 - self.matrix[0][0] } else { 0.0 }
    }

    /// Returns the transition over `exponent` times the time, by repeated squaring.
    pub(super) fn power(&self, mut exponent: u64) -> Self {
        if exponent == 1 {
            return *self;
        }
        let (mut power, mut result) = (*self, Self { is_scalar: self.is_scalar, ..Self::IDENTITY });
        while exponent > 0 {
            if exponent % 2 == 1 {
                result = result.then(&power);
            }
            exponent /= 2;
            if exponent > 0 {
                power = power.then(&power);
            }
        }
        result
    }
}

impl Model {
    /// Number of state components of each number. A cycle has the number, its quadrature component and the level; a
    /// season has one level for each phase.
    pub(super) const fn order(&self) -> usize {
        match self {
            Self::LocalLevel { .. } | Self::MeanReverting { .. } | Self::Constant => 1,
            Self::LocalTrend { .. } | Self::LevelReverting { .. } => 2,
            Self::LocalCurvature { .. } | Self::Cycle { .. } => 3,
            Self::Seasonal { period, .. } => *period,
        }
    }

    /// Returns the range of states that are active at a time: of a season, those of its phase; otherwise all.
    pub(super) fn states_at(&self, time: u64, numbers: usize) -> std::ops::Range<usize> {
        if let Self::Seasonal { period, .. } = *self {
            let start = phase_at(time, period) * numbers;
            start..start + numbers
        } else {
            0..numbers * self.order()
        }
    }

    /// Whether a state component is a position, which is measured from the origin.
    pub(super) const fn is_absolute(&self, place: usize) -> bool {
        match self {
            Self::LevelReverting { .. } => place < 2,
            Self::Cycle { .. } => place != 1,
            Self::Seasonal { .. } => true,
            _ => place == 0,
        }
    }

    /// Whether the model can restart from an observation after a jump.
    pub(super) const fn can_jump(&self) -> bool {
        matches!(self, Self::LocalLevel { .. } | Self::LocalTrend { .. } | Self::LocalCurvature { .. })
    }

    /// Covariance before the first observation; slopes have their stationary covariance.
    pub(super) fn initial_covariance(&self, reference: f64, largest: f64) -> Covariance {
        if let Self::LevelReverting { stationary, .. } = self {
            let (level, around) = (largest, (stationary * reference).min(largest));
            return [[level + around, level, 0.0], [level, level, 0.0], [0.0; 3]];
        }
        if let Self::Cycle { .. } = self {
            // Level and cycle share the variance equally.
            let half = largest / 2.0;
            return [[largest, 0.0, half], [0.0, half, 0.0], [half, 0.0, half]];
        }
        let mut slopes = Transition::of(*self, reference, largest);
        (slopes.matrix[0], slopes.process_noise[0]) = ([0.0; 3], [0.0; 3]);
        let mut first = slopes.power(SETTLING_TIME).process_noise;
        first[0][0] = self.initial_variance(reference, largest);
        first
    }

    /// Unnormalised prior weight.
    fn prior_weight(&self, constancy: ConstantPrior) -> f64 {
        let (level, mean_reverting) = constancy.weights();
        // Approximate steady-state Kalman gain.
        let steady_gain = match *self {
            Self::LocalLevel { step } => ((step * step + 4.0 * step).sqrt() - step) / 2.0,
            Self::LocalTrend { step } => (4.0 * step).sqrt().sqrt(),
            Self::LocalCurvature { step } => 2.0 * step.sqrt().cbrt(),
            Self::MeanReverting { decay, .. } => return if decay > NEARLY_CONSTANT { 1.0 } else { mean_reverting },
            Self::LevelReverting { .. } => return LEVEL_REVERTING_WEIGHT,
            Self::Cycle { .. } => return CYCLE_WEIGHT,
            Self::Seasonal { .. } => return SEASONAL_WEIGHT,
            Self::Constant => return level,
        };
        (steady_gain / SLOW_GAIN).min(1.0)
    }

    /// Correction factor of the stated variance. The true walk is never known for certain, and
    /// most periodic streams are not pure cycles, so these variances are raised. Trends bend less than all the time.
    pub(super) const fn variance_factor(&self) -> f64 {
        match self {
            Self::LocalTrend { .. } => 0.77,
            Self::LocalCurvature { .. } => 0.85,
            Self::Cycle { step, .. } if *step < 0.3 => 1.5,
            // A fast-changing cycle is almost a random walk.
            Self::LocalLevel { .. } | Self::Cycle { .. } => 1.15,
            _ => 1.0,
        }
    }

    /// Variance of the number before the first observation.
    fn initial_variance(&self, reference: f64, largest: f64) -> f64 {
        if let Self::MeanReverting { stationary, .. } = self { (stationary * reference).min(largest) } else { largest }
    }
}

/// Timestamps after which slopes reach their stationary covariance.
const SETTLING_TIME: u64 = 1 << 13;

/// Kalman measurement update of the number. Returns the posterior covariance and the gains.
pub(super) fn kalman_update(covariance: &Covariance, variance: f64) -> (Covariance, [f64; 3]) {
    let total = (covariance[0][0] + variance).max(f64::MIN_POSITIVE);
    let gains = covariance[0].map(|both| both / total);
    let mut after = *covariance;
    for (row, gain) in after.iter_mut().zip(gains) {
        row.iter_mut().zip(covariance[0]).for_each(|(cell, both)| *cell -= gain * both);
    }
    // The first row again, in a form that avoids cancellation of large terms.
    for place in 0..3 {
        let both = covariance[0][place] * (variance / total);
        (after[0][place], after[place][0]) = (both, both);
    }
    (0..3).for_each(|diagonal| after[diagonal][diagonal] = after[diagonal][diagonal].max(0.0));
    (after, gains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_returns_does_so_from_wherever_it_is_measured_and_over_any_time() {
        for (index, gap) in (0..DYNAMIC_MODELS).flat_map(|index| [1, 2, 3, 7].map(|gap| (index, gap))) {
            let transition = Transition::of(model(index), 1.0, 1e7).power(gap);
            // A level 10 above its origin, with zero slope or cycle, against the same level measured from zero.
            let (origin, states) = (90.0, [0, 1, 2].map(|place| f64::from(u8::from(model(index).is_absolute(place)))));
            let of_states =
                |level: f64| transition.matrix[0].iter().zip(states).map(|(add, is)| add * is * level).sum::<f64>();
            let from_origin = of_states(10.0) - transition.origin_decay() * origin + origin;
            assert!((from_origin - of_states(100.0)).abs() < 1e-9, "{:?} over {gap}", model(index));
        }
    }

    #[test]
    fn a_wave_comes_back_after_a_period_and_its_level_stays() {
        let transition = Transition::of(Model::Cycle { period: 24.0, step: 0.0 }, 1.0, 1.0);
        let after = |gap: u64, states: [f64; 3]| {
            transition.power(gap).matrix.map(|row| row.iter().zip(states).map(|(add, state)| add * state).sum::<f64>())
        };
        let near =
            |left: [f64; 3], right: [f64; 3]| left.iter().zip(right).all(|(left, right)| (left - right).abs() < 1e-9);
        // At its peak, 3 above a level of 5; then at the level; then 3 below it.
        assert!(near(after(24, [8.0, 0.0, 5.0]), [8.0, 0.0, 5.0]));
        assert!(near(after(6, [8.0, 0.0, 5.0]), [5.0, -3.0, 5.0]));
        assert!(near(after(12, [8.0, 0.0, 5.0]), [2.0, 0.0, 5.0]));
    }
}
