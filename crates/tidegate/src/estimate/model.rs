//! How a number can move: the models of a [`super::model_bank::ModelBank`].

use super::seasonal::phase_at;

/// How a number moves. Amounts are in multiples of the variance with which it was first seen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Model {
    /// Steps of a variance, from anywhere.
    LocalLevel { step: f64 },
    /// A slope that takes steps of a variance.
    LocalTrend { step: f64 },
    /// A slope whose own slope takes steps of a variance.
    LocalCurvature { step: f64 },
    /// LevelReverting the mean with a variance, of which a timestamp decay a part.
    MeanReverting { stationary: f64, decay: f64 },
    /// The same around a level of its own.
    LevelReverting { stationary: f64, decay: f64 },
    /// A wave around a level, both of which take steps of a variance.
    Cycle { period: f64, step: f64 },
    /// A level for each place in a period, each of which takes a step of a variance from one period to the next.
    Seasonal { period: usize, step: f64 },
    /// Not at all, since it began.
    Constant,
}

/// Models of all numbers that move.
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

/// What decay no more than this stands still as good as a level does, but is known to be near the mean.
const NEARLY_CONSTANT: f64 = 1e-6;

/// Models of numbers in a small domain, which it does not take long to follow: how much they bend is told more exactly.
const SMALL_DOMAIN: [Model; 7] = [
    Model::LocalTrend { step: 1e-7 },
    Model::LocalTrend { step: 1e-5 },
    Model::LocalTrend { step: 1e-3 },
    Model::LocalCurvature { step: 1e-8 },
    Model::LocalCurvature { step: 1e-6 },
    Model::LocalCurvature { step: 1e-4 },
    Model::LocalCurvature { step: 1e-2 },
];

/// No domain of more numbers than this is small. Waves and seasons are for small ones, too.
const SMALL_DOMAIN_MAX: usize = 50;

/// Models of numbers of which there are few: how much they bend is told yet more exactly; and they can have a level of
/// their own. The noise of many is not quite the same for all, and what one has more of it than the others would be
/// taken for such a level's.
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

/// The periods of waves that numbers are likely to have: months of a year, hours of a day, halves and quarters of them,
/// and weeks of a year; and by what steps they change.
const CYCLE_PERIODS: [f64; 5] = [12.0, 24.0, 48.0, 52.0, 96.0];
const CYCLE_STEPS: [f64; 6] = [1e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// The periods of what repeats itself in any shape: days of a week, and hours of a day; and by what steps.
const SEASONAL_PERIODS: [usize; 2] = [7, 24];
const SEASONAL_STEPS: [f64; 3] = [1e-3, 0.1, 10.0];

/// Where those of small domains, of few numbers, waves and seasons begin among the models.
const SMALL_DOMAIN_START: usize = UNIVERSAL.len();
const SMALL_GROUP_START: usize = SMALL_DOMAIN_START + SMALL_DOMAIN.len();
const CYCLE_START: usize = SMALL_GROUP_START + SMALL_GROUP.len();
const SEASONAL_START: usize = CYCLE_START + CYCLE_PERIODS.len() * CYCLE_STEPS.len();

/// How many models move; of levels that stand still there are several.
pub(super) const DYNAMIC_MODELS: usize = SEASONAL_START + SEASONAL_PERIODS.len() * SEASONAL_STEPS.len();

/// The model at a place: the moving ones, then levels that stand still.
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

/// How likely numbers stand still, before anything is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantPrior {
    /// One way among many: of what is seen with the same noise from the beginning.
    Possible,
    /// Likelier than not: of what may be known well from the beginning, and be seen with much more noise later, by
    /// which it should not be moved.
    Likely,
}

impl ConstantPrior {
    /// How likely at first are levels that stand still, all together, and numbers near the mean that do, beside a walk
    /// that is not quiet.
    const fn weights(self) -> (f64, f64) {
        match self {
            Self::Possible => (0.5, 1.0),
            Self::Likely => (50.0, 5.0),
        }
    }
}

/// How likely each model is before anything is seen, the levels that stand still being one, for a group of so many
/// numbers among so many: by which a number is larger than the mean of all can be, there cannot be many of them.
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
            // Of few numbers that are seen with the same noise all the time, what walks slowly would be taken for that,
            // and more would be posterior of it than is known.
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

/// How much of a slope, and of a slope's slope, is left after a timestamp.
const TREND_DAMPING: f64 = 0.995;
const CURVATURE_DAMPING: f64 = 0.99;

/// A model that follows an observation by less than this is less likely at first, in proportion. There are many that
/// differ only in the long run, and together they would outweigh the others before anything speaks for them.
const SLOW_GAIN: f64 = 0.1;

/// How likely at first is each of the models around a level, each wave and each season, beside a walk that is not
/// quiet.
const LEVEL_REVERTING_WEIGHT: f64 = 0.2;
const CYCLE_WEIGHT: f64 = 0.05;
const SEASONAL_WEIGHT: f64 = 0.05;

/// Variances and covariances of a number, its slope and the slope's slope.
pub(super) type Covariance = [[f64; 3]; 3];

/// What becomes of a number, its slope and the slope's slope over some time: what each matrix to each, and the spread
/// that comes in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    pub(super) matrix: [[f64; 3]; 3],
    process_noise: Covariance,
    /// Whether there is a number only, and no slope.
    is_scalar: bool,
}

impl Transition {
    /// Of a number without a slope, over no time.
    pub(super) const SCALAR_IDENTITY: Self = Self { is_scalar: true, ..Self::IDENTITY };

    const IDENTITY: Self = Self {
        matrix: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        process_noise: [[0.0; 3]; 3],
        is_scalar: false,
    };

    /// Of one timestamp; of a season, of one period.
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

    /// The spread afterwards.
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

    /// This, then another.
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

    /// The variance of a number's own steps.
    pub(super) const fn level_noise(&self) -> f64 {
        self.process_noise[0][0]
    }

    /// By how much of its origin a number is less afterwards, if it is measured from there.
    pub(super) fn origin_decay(&self) -> f64 {
        // What has a slope or a level of its own has it from there as well.
        if self.is_scalar { 1.0 - self.matrix[0][0] } else { 0.0 }
    }

    /// Of so many times the time.
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
    /// How many states it has of a number: itself; its slope, or the level around which it is; and the slope's slope.
    /// Of a wave, itself, how far from its level it is going to be in a quarter of a period, and the level. Of a
    /// season, the level of each place.
    pub(super) const fn order(&self) -> usize {
        match self {
            Self::LocalLevel { .. } | Self::MeanReverting { .. } | Self::Constant => 1,
            Self::LocalTrend { .. } | Self::LevelReverting { .. } => 2,
            Self::LocalCurvature { .. } | Self::Cycle { .. } => 3,
            Self::Seasonal { period, .. } => *period,
        }
    }

    /// Where among the states of so many numbers those are that tell of a time: of a season, the levels of that place;
    /// of others, all.
    pub(super) fn states_at(&self, time: u64, numbers: usize) -> std::ops::Range<usize> {
        if let Self::Seasonal { period, .. } = *self {
            let start = phase_at(time, period) * numbers;
            start..start + numbers
        } else {
            0..numbers * self.order()
        }
    }

    /// Whether the one at a place is a level, which is measured from an origin.
    pub(super) const fn is_absolute(&self, place: usize) -> bool {
        match self {
            Self::LevelReverting { .. } => place < 2,
            Self::Cycle { .. } => place != 1,
            Self::Seasonal { .. } => true,
            _ => place == 0,
        }
    }

    /// Whether it can go on from anywhere, as it did from where it was.
    pub(super) const fn can_jump(&self) -> bool {
        matches!(self, Self::LocalLevel { .. } | Self::LocalTrend { .. } | Self::LocalCurvature { .. })
    }

    /// What is known before anything is seen: of the slopes, what they come to in the long run.
    pub(super) fn initial_covariance(&self, reference: f64, largest: f64) -> Covariance {
        if let Self::LevelReverting { stationary, .. } = self {
            let (level, around) = (largest, (stationary * reference).min(largest));
            return [[level + around, level, 0.0], [level, level, 0.0], [0.0; 3]];
        }
        if let Self::Cycle { .. } = self {
            // Half is the level's.
            let half = largest / 2.0;
            return [[largest, 0.0, half], [0.0, half, 0.0], [half, 0.0, half]];
        }
        let mut slopes = Transition::of(*self, reference, largest);
        (slopes.matrix[0], slopes.process_noise[0]) = ([0.0; 3], [0.0; 3]);
        let mut first = slopes.power(SETTLING_TIME).process_noise;
        first[0][0] = self.initial_variance(reference, largest);
        first
    }

    /// How likely it is at first, beside the others.
    fn prior_weight(&self, constancy: ConstantPrior) -> f64 {
        let (level, mean_reverting) = constancy.weights();
        // About how far it follows an observation in the long run.
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

    /// By what its variance is multiplied where it is stated. Which of the walks a number takes is never known for
    /// sure, and an estimate that goes by one that is too quiet errs by more; what repeats itself is seldom a wave and
    /// nothing else. The steps of a slope stand for a bend, and numbers that bend do so less than all the time.
    pub(super) const fn variance_factor(&self) -> f64 {
        match self {
            Self::LocalTrend { .. } => 0.77,
            Self::LocalCurvature { .. } => 0.85,
            Self::Cycle { step, .. } if *step < 0.3 => 1.5,
            // A wave that changes fast is little else than a walk.
            Self::LocalLevel { .. } | Self::Cycle { .. } => 1.15,
            _ => 1.0,
        }
    }

    /// The variance of the number before anything is seen.
    fn initial_variance(&self, reference: f64, largest: f64) -> f64 {
        if let Self::MeanReverting { stationary, .. } = self { (stationary * reference).min(largest) } else { largest }
    }
}

/// Timestamps after which slopes have forgotten what they were.
const SETTLING_TIME: u64 = 1 << 13;

/// What an observation of a variance leaves of a spread, and how far number, slope and slope's slope follow it.
pub(super) fn kalman_update(covariance: &Covariance, variance: f64) -> (Covariance, [f64; 3]) {
    let total = (covariance[0][0] + variance).max(f64::MIN_POSITIVE);
    let gains = covariance[0].map(|both| both / total);
    let mut after = *covariance;
    for (row, gain) in after.iter_mut().zip(gains) {
        row.iter_mut().zip(covariance[0]).for_each(|(cell, both)| *cell -= gain * both);
    }
    // The same, of the number itself, without the difference of two that may be huge and nearly alike.
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
            // A level that is ten from its origin, with a slope or a wave of nothing, and the same from zero.
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
        // At its height, three above a level of five: then at the level, and as far below it.
        assert!(near(after(24, [8.0, 0.0, 5.0]), [8.0, 0.0, 5.0]));
        assert!(near(after(6, [8.0, 0.0, 5.0]), [5.0, -3.0, 5.0]));
        assert!(near(after(12, [8.0, 0.0, 5.0]), [2.0, 0.0, 5.0]));
    }
}
