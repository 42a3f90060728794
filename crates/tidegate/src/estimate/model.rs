//! How a number can move: the models of a [`super::bank::Bank`].

use super::season::place_at;

/// How a number moves. Amounts are in multiples of the variance with which it was first seen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Model {
    /// Steps of a variance, from anywhere.
    Walk { step: f64 },
    /// A slope that takes steps of a variance.
    Slope { step: f64 },
    /// A slope whose own slope takes steps of a variance.
    Curve { step: f64 },
    /// Around the mean with a variance, of which a timestamp forgets a part.
    Return { spread: f64, forgets: f64 },
    /// The same around a level of its own.
    Around { spread: f64, forgets: f64 },
    /// A wave around a level, both of which take steps of a variance.
    Wave { period: f64, step: f64 },
    /// A level for each place in a period, each of which takes a step of a variance from one period to the next.
    Season { period: usize, step: f64 },
    /// Not at all, since it began.
    Still,
}

/// Models of all numbers that move.
const OF_ALL: [Model; 26] = [
    Model::Walk { step: 1e-6 },
    Model::Walk { step: 1e-4 },
    Model::Walk { step: 1e-3 },
    Model::Walk { step: 1e-2 },
    Model::Walk { step: 3e-2 },
    Model::Walk { step: 0.1 },
    Model::Walk { step: 0.3 },
    Model::Walk { step: 1.0 },
    Model::Walk { step: 5.0 },
    Model::Walk { step: 1e5 },
    Model::Slope { step: 1e-6 },
    Model::Slope { step: 1e-4 },
    Model::Slope { step: 1e-2 },
    Model::Curve { step: 1e-7 },
    Model::Curve { step: 1e-5 },
    Model::Curve { step: 1e-3 },
    Model::Return { spread: 3e-4, forgets: 1e-3 },
    Model::Return { spread: 3e-3, forgets: 1e-3 },
    Model::Return { spread: 3e-2, forgets: 1e-3 },
    Model::Return { spread: 3e-2, forgets: 0.05 },
    Model::Return { spread: 0.3, forgets: 3e-3 },
    Model::Return { spread: 0.3, forgets: 0.1 },
    Model::Return { spread: 3.0, forgets: 0.1 },
    Model::Return { spread: 0.3, forgets: KEPT },
    Model::Return { spread: 3.0, forgets: KEPT },
    Model::Return { spread: 30.0, forgets: KEPT },
];

/// What forgets no more than this stands still as good as a level does, but is known to be near the mean.
const KEPT: f64 = 1e-6;

/// Models of numbers in a small domain, which it does not take long to follow: how much they bend is told more exactly.
const OF_SMALL: [Model; 7] = [
    Model::Slope { step: 1e-7 },
    Model::Slope { step: 1e-5 },
    Model::Slope { step: 1e-3 },
    Model::Curve { step: 1e-8 },
    Model::Curve { step: 1e-6 },
    Model::Curve { step: 1e-4 },
    Model::Curve { step: 1e-2 },
];

/// No domain of more numbers than this is small. Waves and seasons are for small ones, too.
const SMALL: usize = 50;

/// Models of numbers of which there are few: how much they bend is told yet more exactly; and they can have a level of
/// their own. The noise of many is not quite the same for all, and what one has more of it than the others would be
/// taken for such a level's.
const OF_FEW: [Model; 12] = [
    Model::Curve { step: 3e-8 },
    Model::Curve { step: 3e-7 },
    Model::Curve { step: 3e-6 },
    Model::Curve { step: 3e-5 },
    Model::Curve { step: 3e-4 },
    Model::Curve { step: 3e-3 },
    Model::Around { spread: 0.3, forgets: 1.0 },
    Model::Around { spread: 3.0, forgets: 1.0 },
    Model::Around { spread: 30.0, forgets: 1.0 },
    Model::Around { spread: 300.0, forgets: 1.0 },
    Model::Around { spread: 0.3, forgets: 0.1 },
    Model::Around { spread: 3.0, forgets: 0.1 },
];
const FEW: usize = 7;

/// The periods of waves that numbers are likely to have: months of a year, hours of a day, halves and quarters of them,
/// and weeks of a year; and by what steps they change.
const WAVE_PERIODS: [f64; 5] = [12.0, 24.0, 48.0, 52.0, 96.0];
const WAVE_STEPS: [f64; 6] = [1e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// The periods of what repeats itself in any shape: days of a week, and hours of a day; and by what steps.
const SEASON_PERIODS: [usize; 2] = [7, 24];
const SEASON_STEPS: [f64; 3] = [1e-3, 0.1, 10.0];

/// Where those of small domains, of few numbers, waves and seasons begin among the models.
const OF_SMALL_FROM: usize = OF_ALL.len();
const OF_FEW_FROM: usize = OF_SMALL_FROM + OF_SMALL.len();
const WAVES: usize = OF_FEW_FROM + OF_FEW.len();
const SEASONS: usize = WAVES + WAVE_PERIODS.len() * WAVE_STEPS.len();

/// How many models move; of levels that stand still there are several.
pub(super) const MOVING: usize = SEASONS + SEASON_PERIODS.len() * SEASON_STEPS.len();

/// The model at a place: the moving ones, then levels that stand still.
pub(super) const fn model(index: usize) -> Model {
    if index < OF_SMALL_FROM {
        OF_ALL[index]
    } else if index < OF_FEW_FROM {
        OF_SMALL[index - OF_SMALL_FROM]
    } else if index < WAVES {
        OF_FEW[index - OF_FEW_FROM]
    } else if index < SEASONS {
        let wave = index - WAVES;
        Model::Wave { period: WAVE_PERIODS[wave / WAVE_STEPS.len()], step: WAVE_STEPS[wave % WAVE_STEPS.len()] }
    } else if index < MOVING {
        let season = index - SEASONS;
        let (period, step) = (season / SEASON_STEPS.len(), season % SEASON_STEPS.len());
        Model::Season { period: SEASON_PERIODS[period], step: SEASON_STEPS[step] }
    } else {
        Model::Still
    }
}

/// How likely numbers stand still, before anything is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    /// One way among many: of what is seen with the same noise from the beginning.
    Possible,
    /// Likelier than not: of what may be known well from the beginning, and be seen with much more noise later, by
    /// which it should not be moved.
    Likely,
}

impl Stillness {
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
pub(super) fn at_first(
    members: usize,
    numbers: usize,
    reference: f64,
    largest_square: f64,
    mean_square: f64,
    stillness: Stillness,
) -> Vec<f64> {
    let likely = |index: usize| {
        let model = model(index);
        let possible = match model {
            // Of few numbers that are seen with the same noise all the time, what walks slowly would be taken for that,
            // and more would be believed of it than is known.
            Model::Return { forgets, .. } if forgets <= KEPT => stillness == Stillness::Likely || numbers > SMALL,
            Model::Still => true,
            _ if index < OF_SMALL_FROM => true,
            _ if (OF_FEW_FROM..WAVES).contains(&index) => members <= FEW,
            _ => numbers <= SMALL,
        };
        let rare = (mean_square / model.first_level(reference, largest_square)).min(1.0);
        if possible { model.likely(stillness) * rare } else { 0.0 }
    };
    let weights: Vec<f64> = (0..=MOVING).map(likely).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// How much of a slope, and of a slope's slope, is left after a timestamp.
const SLOPE_KEPT: f64 = 0.995;
const CURVE_KEPT: f64 = 0.99;

/// A model that follows an observation by less than this is less likely at first, in proportion. There are many that
/// differ only in the long run, and together they would outweigh the others before anything speaks for them.
const QUIET: f64 = 0.1;

/// How likely at first is each of the models around a level, each wave and each season, beside a walk that is not
/// quiet.
const AROUND: f64 = 0.2;
const WAVE: f64 = 0.05;
const SEASON: f64 = 0.05;

/// Variances and covariances of a number, its slope and the slope's slope.
pub(super) type Spread = [[f64; 3]; 3];

/// What becomes of a number, its slope and the slope's slope over some time: what each adds to each, and the spread
/// that comes in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Motion {
    pub(super) adds: [[f64; 3]; 3],
    step: Spread,
    /// Whether there is a number only, and no slope.
    alone: bool,
}

impl Motion {
    /// Of a number without a slope, over no time.
    pub(super) const NONE: Self = Self { alone: true, ..Self::STILL };

    const STILL: Self =
        Self { adds: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], step: [[0.0; 3]; 3], alone: false };

    /// Of one timestamp; of a season, of one period.
    pub(super) fn of(model: Model, reference: f64, largest: f64) -> Self {
        let alone = model.order() == 1 || matches!(model, Model::Season { .. });
        let mut motion = Self { adds: [[0.0; 3]; 3], step: [[0.0; 3]; 3], alone };
        motion.adds[0][0] = 1.0;
        match model {
            Model::Walk { step } | Model::Season { step, .. } => motion.step[0][0] = step * reference,
            Model::Slope { step } => {
                (motion.adds[0][1], motion.adds[1][1]) = (1.0, SLOPE_KEPT);
                motion.step[1][1] = step * reference;
            }
            Model::Curve { step } => {
                (motion.adds[0][1], motion.adds[1][1]) = (1.0, SLOPE_KEPT);
                (motion.adds[1][2], motion.adds[2][2]) = (1.0, CURVE_KEPT);
                motion.step[2][2] = step * reference;
            }
            Model::Return { spread, forgets } => {
                let kept = 1.0 - forgets;
                motion.adds[0][0] = kept;
                motion.step[0][0] = (spread * reference).min(largest) * (1.0 - kept * kept);
            }
            Model::Around { spread, forgets } => {
                let kept = 1.0 - forgets;
                (motion.adds[0][0], motion.adds[0][1], motion.adds[1][1]) = (kept, forgets, 1.0);
                motion.step[0][0] = (spread * reference).min(largest) * (1.0 - kept * kept);
            }
            Model::Wave { period, step } => {
                let ((sine, cosine), step) = ((std::f64::consts::TAU / period).sin_cos(), step * reference);
                motion.adds = [[cosine, sine, 1.0 - cosine], [-sine, cosine, sine], [0.0, 0.0, 1.0]];
                motion.step = [[2.0 * step, 0.0, step], [0.0, step, 0.0], [step, 0.0, step]];
            }
            Model::Still => {}
        }
        motion
    }

    /// The spread afterwards.
    pub(super) fn applied(&self, spread: &Spread) -> Spread {
        let mut after = self.step;
        if self.alone {
            after[0][0] += self.adds[0][0] * self.adds[0][0] * spread[0][0];
            return after;
        }
        let mut moved = [[0.0; 3]; 3];
        for (row, adds) in moved.iter_mut().zip(&self.adds) {
            for (add, spread) in adds.iter().zip(spread) {
                row.iter_mut().zip(spread).for_each(|(cell, spread)| *cell += add * spread);
            }
        }
        for (row, moved) in after.iter_mut().zip(&moved) {
            for (cell, adds) in row.iter_mut().zip(&self.adds) {
                *cell += moved.iter().zip(adds).map(|(moved, add)| moved * add).sum::<f64>();
            }
        }
        after
    }

    /// This, then another.
    fn then(&self, next: &Self) -> Self {
        let mut adds = [[0.0; 3]; 3];
        for (row, of_next) in adds.iter_mut().zip(&next.adds) {
            for (middle, of_self) in of_next.iter().zip(&self.adds) {
                row.iter_mut().zip(of_self).for_each(|(cell, add)| *cell += middle * add);
            }
        }
        Self { adds, step: next.applied(&self.step), alone: self.alone && next.alone }
    }

    /// The variance of a number's own steps.
    pub(super) const fn step(&self) -> f64 {
        self.step[0][0]
    }

    /// By how much of its origin a number is less afterwards, if it is measured from there.
    pub(super) fn of_origin(&self) -> f64 {
        // What has a slope or a level of its own has it from there as well.
        if self.alone { 1.0 - self.adds[0][0] } else { 0.0 }
    }

    /// Of so many times the time.
    pub(super) fn times(&self, mut times: u64) -> Self {
        if times == 1 {
            return *self;
        }
        let (mut power, mut result) = (*self, Self { alone: self.alone, ..Self::STILL });
        while times > 0 {
            if times % 2 == 1 {
                result = result.then(&power);
            }
            times /= 2;
            if times > 0 {
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
            Self::Walk { .. } | Self::Return { .. } | Self::Still => 1,
            Self::Slope { .. } | Self::Around { .. } => 2,
            Self::Curve { .. } | Self::Wave { .. } => 3,
            Self::Season { period, .. } => *period,
        }
    }

    /// Where among the states of so many numbers those are that tell of a time: of a season, the levels of that place;
    /// of others, all.
    pub(super) fn states_at(&self, time: u64, numbers: usize) -> std::ops::Range<usize> {
        if let Self::Season { period, .. } = *self {
            let start = place_at(time, period) * numbers;
            start..start + numbers
        } else {
            0..numbers * self.order()
        }
    }

    /// Whether the one at a place is a level, which is measured from an origin.
    pub(super) const fn is_level(&self, place: usize) -> bool {
        match self {
            Self::Around { .. } => place < 2,
            Self::Wave { .. } => place != 1,
            Self::Season { .. } => true,
            _ => place == 0,
        }
    }

    /// Whether it can go on from anywhere, as it did from where it was.
    pub(super) const fn moves_on(&self) -> bool {
        matches!(self, Self::Walk { .. } | Self::Slope { .. } | Self::Curve { .. })
    }

    /// What is known before anything is seen: of the slopes, what they come to in the long run.
    pub(super) fn first(&self, reference: f64, largest: f64) -> Spread {
        if let Self::Around { spread, .. } = self {
            let (level, around) = (largest, (spread * reference).min(largest));
            return [[level + around, level, 0.0], [level, level, 0.0], [0.0; 3]];
        }
        if let Self::Wave { .. } = self {
            // Half is the level's.
            let half = largest / 2.0;
            return [[largest, 0.0, half], [0.0, half, 0.0], [half, 0.0, half]];
        }
        let mut slopes = Motion::of(*self, reference, largest);
        (slopes.adds[0], slopes.step[0]) = ([0.0; 3], [0.0; 3]);
        let mut first = slopes.times(LONG_RUN).step;
        first[0][0] = self.first_level(reference, largest);
        first
    }

    /// How likely it is at first, beside the others.
    fn likely(&self, stillness: Stillness) -> f64 {
        let (level, near_mean) = stillness.weights();
        // About how far it follows an observation in the long run.
        let follows = match *self {
            Self::Walk { step } => ((step * step + 4.0 * step).sqrt() - step) / 2.0,
            Self::Slope { step } => (4.0 * step).sqrt().sqrt(),
            Self::Curve { step } => 2.0 * step.sqrt().cbrt(),
            Self::Return { forgets, .. } => return if forgets > KEPT { 1.0 } else { near_mean },
            Self::Around { .. } => return AROUND,
            Self::Wave { .. } => return WAVE,
            Self::Season { .. } => return SEASON,
            Self::Still => return level,
        };
        (follows / QUIET).min(1.0)
    }

    /// By what its variance is multiplied where it is stated. Which of the walks a number takes is never known for
    /// sure, and an estimate that goes by one that is too quiet errs by more; what repeats itself is seldom a wave and
    /// nothing else. The steps of a slope stand for a bend, and numbers that bend do so less than all the time.
    pub(super) const fn stated(&self) -> f64 {
        match self {
            Self::Slope { .. } => 0.77,
            Self::Curve { .. } => 0.85,
            Self::Wave { step, .. } if *step < 0.3 => 1.5,
            // A wave that changes fast is little else than a walk.
            Self::Walk { .. } | Self::Wave { .. } => 1.15,
            _ => 1.0,
        }
    }

    /// The variance of the number before anything is seen.
    fn first_level(&self, reference: f64, largest: f64) -> f64 {
        if let Self::Return { spread, .. } = self { (spread * reference).min(largest) } else { largest }
    }
}

/// Timestamps after which slopes have forgotten what they were.
const LONG_RUN: u64 = 1 << 13;

/// What an observation of a variance leaves of a spread, and how far number, slope and slope's slope follow it.
pub(super) fn observed(spread: &Spread, variance: f64) -> (Spread, [f64; 3]) {
    let total = (spread[0][0] + variance).max(f64::MIN_POSITIVE);
    let gains = spread[0].map(|both| both / total);
    let mut after = *spread;
    for (row, gain) in after.iter_mut().zip(gains) {
        row.iter_mut().zip(spread[0]).for_each(|(cell, both)| *cell -= gain * both);
    }
    // The same, of the number itself, without the difference of two that may be huge and nearly alike.
    for place in 0..3 {
        let both = spread[0][place] * (variance / total);
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
        for (index, gap) in (0..MOVING).flat_map(|index| [1, 2, 3, 7].map(|gap| (index, gap))) {
            let motion = Motion::of(model(index), 1.0, 1e7).times(gap);
            // A level that is ten from its origin, with a slope or a wave of nothing, and the same from zero.
            let (origin, states) = (90.0, [0, 1, 2].map(|place| f64::from(u8::from(model(index).is_level(place)))));
            let of_states =
                |level: f64| motion.adds[0].iter().zip(states).map(|(add, is)| add * is * level).sum::<f64>();
            let from_origin = of_states(10.0) - motion.of_origin() * origin + origin;
            assert!((from_origin - of_states(100.0)).abs() < 1e-9, "{:?} over {gap}", model(index));
        }
    }

    #[test]
    fn a_wave_comes_back_after_a_period_and_its_level_stays() {
        let motion = Motion::of(Model::Wave { period: 24.0, step: 0.0 }, 1.0, 1.0);
        let after = |gap: u64, states: [f64; 3]| {
            motion.times(gap).adds.map(|row| row.iter().zip(states).map(|(add, state)| add * state).sum::<f64>())
        };
        let near =
            |left: [f64; 3], right: [f64; 3]| left.iter().zip(right).all(|(left, right)| (left - right).abs() < 1e-9);
        // At its height, three above a level of five: then at the level, and as far below it.
        assert!(near(after(24, [8.0, 0.0, 5.0]), [8.0, 0.0, 5.0]));
        assert!(near(after(6, [8.0, 0.0, 5.0]), [5.0, -3.0, 5.0]));
        assert!(near(after(12, [8.0, 0.0, 5.0]), [2.0, 0.0, 5.0]));
    }
}
