//! [`Bank`]: many numbers that move alike, seen with noise of known variance.
//!
//! Each number is followed by several linear models: walks, slopes, curves, returns to the mean or to a level, and levels that stand still, each since another
//! observation. All numbers are seen with the same variance, so how far a model trusts an observation is the same for all of them, and a number costs a few
//! multiplications for each model. Which models suit a number, and how often that changes, is learned from how well they foretold it, and, where that says little, from
//! which suit the others.

use serde::{Deserialize, Serialize};

/// How a number moves. Amounts are in multiples of the variance with which it was first seen.
#[derive(Clone, Copy, Debug)]
enum Model {
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
    /// Not at all, since it began.
    Still,
}

const MODELS: [Model; MOVING + 1] = [
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
    Model::Slope { step: 1e-7 },
    Model::Slope { step: 1e-6 },
    Model::Slope { step: 1e-5 },
    Model::Slope { step: 1e-4 },
    Model::Slope { step: 1e-3 },
    Model::Slope { step: 1e-2 },
    Model::Curve { step: 1e-8 },
    Model::Curve { step: 1e-7 },
    Model::Curve { step: 1e-6 },
    Model::Curve { step: 1e-5 },
    Model::Curve { step: 1e-4 },
    Model::Curve { step: 1e-3 },
    Model::Curve { step: 1e-2 },
    Model::Return { spread: 3e-4, forgets: 1e-3 },
    Model::Return { spread: 3e-3, forgets: 1e-3 },
    Model::Return { spread: 3e-2, forgets: 1e-3 },
    Model::Return { spread: 3e-2, forgets: 0.05 },
    Model::Return { spread: 0.3, forgets: 3e-3 },
    Model::Return { spread: 0.3, forgets: 0.1 },
    Model::Return { spread: 3.0, forgets: 0.1 },
    Model::Around { spread: 0.3, forgets: 1.0 },
    Model::Around { spread: 3.0, forgets: 1.0 },
    Model::Around { spread: 30.0, forgets: 1.0 },
    Model::Around { spread: 300.0, forgets: 1.0 },
    Model::Around { spread: 0.3, forgets: 0.1 },
    Model::Around { spread: 3.0, forgets: 0.1 },
    Model::Still,
];

/// How many models move; of levels that stand still there are several.
const MOVING: usize = 36;

/// How many levels that stand still there are, each since another observation: some have seen nothing of what was before a change, whenever that was.
const LEVELS: usize = 10;

/// The variance of a walk before anything is seen, where numbers can be of any size.
const ANYWHERE: f64 = 1e7;

/// How much of a slope, and of a slope's slope, is left after a timestamp.
const SLOPE_KEPT: f64 = 0.995;
const CURVE_KEPT: f64 = 0.99;

/// How likely another model takes over from one observation to the next. Which of these is right is learned for each group, from how likely each was beforehand, of which a little is
/// kept. Where observations tell so little that estimates follow them by less than this, it is no more than that: a change takes as long to be seen.
const RATES: [f64; 3] = [5e-5, 3e-3, 3e-2];
const RATES_AT_FIRST: [f64; RATES.len()] = [0.97, 0.025, 0.005];
const RATES_KEPT: f64 = 0.001;
const LEAST_SWITCHES: f64 = 1e-6;

/// A model that follows an observation by less than this is less likely at first, in proportion. There are many that differ only in the long run, and together
/// they would outweigh the others before anything speaks for them.
const QUIET: f64 = 0.1;

/// How likely at first are levels that stand still, all together, and each of the models around a level, beside a walk that is not quiet. The latter are for groups of fewer numbers
/// than this: the noise of many is not quite the same for all, and what one has more of it than the others would be taken for its own.
const STILL: f64 = 0.5;
const AROUND: f64 = 0.2;
const MANY: usize = 8;

/// An observation that is off by more than so many standard deviations is followed as if it were off by so many: it is rather from elsewhere. Of a model that knows little, and so
/// follows an observation nearly all the way, it is by as many times more as it is less sure of what it expected.
const SURPRISE: f64 = 5.0;

/// How much of the evidence for all models together is forgotten with each observation.
const FORGOTTEN: f64 = 0.02;

/// How much of what the numbers of a group have in common is learned anew with each observation, at most, and how much for each of the numbers. What few
/// of them seem to have in common is mostly chance.
const COMMON_RATE: f64 = 0.2;
const COMMON_RATE_OF_ONE: f64 = 0.0175;

/// The part of the common weights that is kept as it was at first, so that no model is given up for good.
const KEPT_AT_FIRST: f64 = 0.1;

/// So many numbers' weight have the first weights of a group beside those of its numbers.
const NUMBERS_AT_FIRST: f64 = 2.0;

/// Variances and covariances of a number, its slope and the slope's slope.
type Spread = [[f64; 3]; 3];

/// What becomes of a number, its slope and the slope's slope over some time: what each adds to each, and the spread that comes in.
#[derive(Clone, Copy, Debug)]
struct Motion {
    adds: [[f64; 3]; 3],
    step: Spread,
    /// Whether there is a number only, and no slope.
    alone: bool,
}

impl Motion {
    const STILL: Self =
        Self { adds: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], step: [[0.0; 3]; 3], alone: false };

    /// Of one timestamp.
    fn of(model: Model, reference: f64, largest: f64) -> Self {
        let mut motion = Self { adds: [[0.0; 3]; 3], step: [[0.0; 3]; 3], alone: model.order() == 1 };
        motion.adds[0][0] = 1.0;
        match model {
            Model::Walk { step } => motion.step[0][0] = step * reference,
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
            Model::Still => {}
        }
        motion
    }

    /// The spread afterwards.
    fn applied(&self, spread: &Spread) -> Spread {
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

    /// By how much of its origin a number is less afterwards, if it is measured from there.
    fn of_origin(&self) -> f64 {
        // What has a slope or a level of its own has it from there as well.
        if self.alone { 1.0 - self.adds[0][0] } else { 0.0 }
    }

    /// Of so many times the time.
    fn times(&self, mut times: u64) -> Self {
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
    /// How many of number, slope and slope's slope it has.
    const fn order(&self) -> usize {
        match self {
            Self::Walk { .. } | Self::Return { .. } | Self::Still => 1,
            Self::Slope { .. } | Self::Around { .. } => 2,
            Self::Curve { .. } => 3,
        }
    }

    /// How many of these are levels, which are measured from an origin.
    const fn levels(&self) -> usize {
        if let Self::Around { .. } = self { 2 } else { 1 }
    }

    /// What is known before anything is seen: of the slopes, what they come to in the long run.
    fn first(&self, reference: f64, largest: f64) -> Spread {
        if let Self::Around { spread, .. } = self {
            let (level, around) = (largest, (spread * reference).min(largest));
            return [[level + around, level, 0.0], [level, level, 0.0], [0.0; 3]];
        }
        let mut slopes = Motion::of(*self, reference, largest);
        (slopes.adds[0], slopes.step[0]) = ([0.0; 3], [0.0; 3]);
        let mut first = slopes.times(LONG_RUN).step;
        first[0][0] = self.first_level(reference, largest);
        first
    }

    /// How likely it is at first, beside the others.
    fn likely(&self) -> f64 {
        // About how far it follows an observation in the long run.
        let follows = match *self {
            Self::Walk { step } => ((step * step + 4.0 * step).sqrt() - step) / 2.0,
            Self::Slope { step } => (4.0 * step).sqrt().sqrt(),
            Self::Curve { step } => 2.0 * step.sqrt().cbrt(),
            Self::Return { .. } => return 1.0,
            Self::Around { .. } => return AROUND,
            Self::Still => return STILL,
        };
        (follows / QUIET).min(1.0)
    }

    /// By what its variance is multiplied where it is stated. Which of the walks a number takes is never known for sure, and an estimate that goes by one that is too quiet errs by
    /// more. The steps of a slope stand for a bend, and numbers that bend do so less than all the time.
    const fn stated(&self) -> f64 {
        match self {
            Self::Walk { .. } => 1.1,
            Self::Slope { .. } => 0.77,
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
fn observed(spread: &Spread, variance: f64) -> (Spread, [f64; 3]) {
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

/// Estimates of many numbers that move, from observations of all of them at once.
///
/// ```
/// use tidegate::estimate::bank::Bank;
///
/// let mut bank = Bank::new(1, 1.0);
/// for noise in [0.9, -1.2, 0.4, -0.1, 0.7, -0.8, 0.2, 0.3] {
///     bank.observe(1, &[5.0 + noise], 1.0);
/// }
/// let estimate = bank.estimate(0);
/// assert!((estimate.means[0] - 5.0).abs() < 0.6 && estimate.variances[0] < 1.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bank {
    /// The variance to which the models' amounts are relative.
    reference: f64,
    /// The most that the square of a number can be.
    largest_square: f64,
    /// The groups of numbers that have something in common, one after the other.
    groups: Vec<Group>,
    /// How likely another model takes over until the next observation, at most.
    switches: f64,
    /// How many observations ago each of the levels that stand still began, the latest last.
    ages: Vec<u64>,
    /// What each model believes: first the moving ones, then the levels that stand still.
    followed: Vec<Followed>,
    /// Of each number, from where the models measure it.
    origins: Vec<f64>,
    /// The length in which they do.
    unit: f64,
    /// Of each number, what the models weigh together.
    totals: Vec<f32>,
    /// The logarithm of how likely all models together made all numbers, compared with there being noise only.
    evidence: f64,
    /// What is believed of the numbers after the last observation.
    believed: Estimates,
}

/// Numbers that have something in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Where it ends, and the next one begins.
    end: usize,
    /// How likely each model is before anything is seen; the levels that stand still are one.
    at_first: Vec<f64>,
    /// How much each model suits its numbers in general.
    common: Vec<f64>,
    /// How likely each rate of change is.
    rates: [f64; RATES.len()],
}

/// What a model believes of all numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Followed {
    /// The spread that all numbers have after the last observation.
    spread: Spread,
    /// The estimates of all numbers, from their origins, then those of their slopes and of the slopes' slopes or of the levels around which they are, as far as it has them; in units.
    states: Vec<f32>,
    /// How much better it suits each number than the models do together.
    suits: Vec<f32>,
}

/// Estimates with the variances of their errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    /// The estimates.
    pub means: Vec<f64>,
    /// The expected squared errors, as far as the models can tell.
    pub variances: Vec<f64>,
}

/// The exponential function of [`WEIGHT_PARTS`] times a number that is not positive, to within half a per cent down to minus eight, and never less than 1e-31: for weights, of which
/// millions are needed. It has no branch, so that several are computed at once.
fn weight(part: f32) -> f32 {
    let part = part.max(-0.6);
    let mut power = 1.0 + part * (1.0 + 0.5 * part);
    for _ in 0..7 {
        power *= power;
    }
    power
}

/// The power to which [`weight`] raises.
const WEIGHT_PARTS: f64 = 128.0;

/// Weights need not be exact, and more of them are computed at once if they are short.
#[allow(clippy::cast_possible_truncation)] // what is too large or too small for it weighs all or nothing
const fn short(number: f64) -> f32 {
    number as f32
}

impl Bank {
    /// So many numbers of which nothing is known but that they lie around zero, or anywhere up to some 30,000 standard deviations from it. `reference` is about the variance with which they are
    /// going to be seen.
    pub fn new(numbers: usize, reference: f64) -> Self {
        let anywhere = ANYWHERE * reference;
        Self::grouped(&[(numbers, anywhere)], anywhere, reference)
    }

    /// Numbers in groups, of which each has something in common: numbers up to the first number given, then up to the second, and so on. Of each group it is known what the mean of
    /// its squares is at most, so that large numbers are rare, and of all what the largest square can be.
    pub fn grouped(groups: &[(usize, f64)], largest_square: f64, reference: f64) -> Self {
        let largest_square = largest_square.min(ANYWHERE * reference);
        let mut start = 0;
        let of_group = |(end, mean_square): &(usize, f64)| {
            let members = end - std::mem::replace(&mut start, *end);
            let at_first = at_first(members, reference, largest_square, *mean_square);
            Group { end: *end, common: at_first.clone(), at_first, rates: RATES_AT_FIRST }
        };
        let groups: Vec<Group> = groups.iter().map(of_group).collect();
        let numbers = groups.last().map_or(0, |group| group.end);
        let followed = |model: &Model| Followed {
            spread: model.first(reference, largest_square),
            states: vec![0.0; numbers * model.order()],
            suits: vec![1.0; numbers],
        };
        Self {
            reference,
            largest_square,
            groups,
            switches: 1.0,
            ages: vec![0],
            followed: MODELS.iter().map(followed).collect(),
            origins: vec![0.0; numbers],
            unit: reference.sqrt().max(SHORTEST_UNIT),
            totals: vec![1.0; numbers],
            evidence: 0.0,
            believed: Estimates { means: vec![0.0; numbers], variances: vec![largest_square; numbers] },
        }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// Whether it can be that of numbers in groups with such ends.
    pub fn fits(&self, expected: &[usize]) -> bool {
        let Self {
            reference,
            largest_square,
            groups,
            switches,
            ages,
            followed,
            origins,
            unit,
            totals,
            evidence,
            believed,
        } = self;
        let numbers = expected.last().copied().unwrap_or(0);
        let positive = |number: &f64| number.is_finite() && *number > 0.0;
        let weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        let short_weights = |weights: &[f32], least: f32| {
            weights.len() == numbers && weights.iter().all(|weight| weight.is_finite() && *weight >= least)
        };
        let all = |numbers: &[f64], count: usize, holds: &dyn Fn(&f64) -> bool| {
            numbers.len() == count && numbers.iter().all(holds)
        };
        let group_fits = |group: &Group| {
            all(&group.at_first, MODELS.len(), &weight)
                && all(&group.common, MODELS.len(), &weight)
                && group.rates.iter().all(positive)
        };
        let spread_fits = |spread: &Spread| {
            spread.iter().flatten().all(|cell| cell.is_finite()) && (0..3).all(|place| spread[place][place] >= 0.0)
        };
        let followed_fits = |(index, followed): (usize, &Followed)| {
            spread_fits(&followed.spread)
                && followed.states.len() == numbers * model(index).order()
                && followed.states.iter().all(|state| state.abs() <= MOST_APART)
                && short_weights(&followed.suits, 0.0)
        };
        groups.iter().map(|group| group.end).eq(expected.iter().copied())
            && expected.is_sorted()
            && groups.iter().all(group_fits)
            && (1..=LEVELS).contains(&ages.len())
            && ages.windows(2).all(|pair| pair[0] > pair[1])
            && followed.len() == MOVING + ages.len()
            && followed.iter().enumerate().all(followed_fits)
            && all(origins, numbers, &|number| number.is_finite())
            && positive(unit)
            && short_weights(totals, f32::MIN_POSITIVE)
            && all(&believed.means, numbers, &|number| number.is_finite())
            && all(&believed.variances, numbers, &weight)
            && evidence.is_finite()
            && positive(reference)
            && positive(largest_square)
            && (LEAST_SWITCHES..=1.0).contains(switches)
    }

    /// The logarithm of how much likelier what was observed is to come from numbers such as these than from noise alone, as far as it is not
    /// forgotten. It can be compared between banks that observe the same in other coordinates.
    pub const fn evidence(&self) -> f64 {
        self.evidence
    }

    /// Takes in an observation of every number, so many timestamps after the last one, all with a variance.
    pub fn observe(&mut self, gap: u64, observations: &[f64], variance: f64) {
        // What is known exactly, such as how far a single number is from its own mean, is as good as that.
        let variance = variance.max(f64::MIN_POSITIVE);
        let deviation = variance.sqrt();
        if !(self.unit / FAR_OFF..=self.unit * FAR_OFF).contains(&deviation) {
            self.measure_in(deviation);
        }
        self.begin_level();
        let (numbers, mut news, mut follows) = (self.numbers(), 0.0, 0.0);
        let rates = RATES.map(|rate| rate.min(self.switches));
        let unit = self.unit;
        let motions = (0..self.followed.len()).map(|index| self.motion(index).times(gap)).collect::<Vec<_>>();
        let forecast = |((index, followed), motion): ((usize, &mut Followed), Motion)| {
            Forecast::new(model(index), motion, &mut followed.spread, variance, unit)
        };
        let forecasts: Vec<Forecast> = self.followed.iter_mut().enumerate().zip(motions).map(forecast).collect();
        let mut start = 0;
        for place in 0..self.groups.len() {
            let group = &self.groups[place];
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            let switches = short(rates.iter().zip(group.rates).map(|(rate, likely)| rate * likely).sum());
            let (mut shares, mut likely) = (vec![0.0; self.followed.len()], [0.0; RATES.len()]);
            for from in members.clone().step_by(CHUNK) {
                let members = from..(from + CHUNK).min(members.end);
                let mut chunk = self.chunk(&observations[members], from, switches);
                // What cannot be need not be looked at.
                let possible = || priors.iter().enumerate().filter(|(_, prior)| **prior > 0.0);
                for (index, prior) in possible() {
                    chunk.follow(&forecasts[index], short(*prior), &mut self.followed[index], numbers, switches);
                }
                chunk.believe(&self.origins, &mut self.totals, &mut self.believed);
                let parts = chunk.parts();
                for (index, prior) in possible() {
                    shares[index] += prior * chunk.share(&self.followed[index], &parts);
                }
                likely.iter_mut().zip(rates).for_each(|(likely, rate)| *likely += chunk.likely(rate, switches));
            }
            let of_noise: f64 = observations[members.clone()].iter().map(|seen| 0.5 * seen * seen / variance).sum();
            let group = &mut self.groups[place];
            news += group.weigh_rates(likely) + of_noise;
            follows += shares.iter().zip(&forecasts).map(|(share, forecast)| share * forecast.gain).sum::<f64>();
            group.learn(&shares, members.len());
        }
        self.evidence = (1.0 - FORGOTTEN) * self.evidence + news;
        // Never nothing, so that no model is given up for good.
        self.switches = (follows / as_float(numbers.max(1))).clamp(LEAST_SWITCHES, 1.0);
    }

    /// Some numbers, from one on, with what is observed of them: each from an origin that is near to what is believed of it, or to the observation where that is far off.
    fn chunk<'a>(&mut self, observations: &'a [f64], start: usize, switches: f32) -> Chunk<'a> {
        let mut chunk = Chunk::new(observations, start, self.unit);
        for (place, (observation, total)) in observations.iter().zip(&self.totals[start..]).enumerate() {
            let (number, believed) = (start + place, self.believed.means[start + place]);
            let near = (observation - believed).abs() < FAR_OFF * self.unit;
            let base = if near { believed } else { *observation };
            if (base - self.origins[number]).abs() > NEAR * self.unit {
                let moved = (base - self.origins[number]) / self.unit;
                for (index, followed) in self.followed.iter_mut().enumerate() {
                    for states in followed.states.chunks_mut(self.origins.len()).take(model(index).levels()) {
                        states[number] = apart(f64::from(states[number]) - moved);
                    }
                }
                self.origins[number] = base;
            }
            let origin = self.origins[number];
            chunk.seen[place] = apart((observation - origin) / self.unit);
            chunk.origins[place] = apart(origin / self.unit);
            chunk.bases[place] = apart((base - origin) / self.unit);
            chunk.kept[place] = (1.0 - switches) / total;
        }
        chunk
    }

    /// Measures all that is believed in another unit.
    fn measure_in(&mut self, unit: f64) {
        let unit = unit.max(SHORTEST_UNIT);
        let factor = self.unit / unit;
        let states = self.followed.iter_mut().flat_map(|followed| &mut followed.states);
        states.for_each(|state| *state = apart(f64::from(*state) * factor));
        self.unit = unit;
    }

    /// How numbers move by a model in a timestamp.
    fn motion(&self, index: usize) -> Motion {
        Motion::of(model(index), self.reference, self.largest_square)
    }

    /// Begins another level that stands still, so that one began not long after any change: with every observation, in place of the one that is missed least.
    fn begin_level(&mut self) {
        self.ages.iter_mut().for_each(|age| *age = age.saturating_add(1));
        if self.ages == [1] {
            return;
        }
        if self.ages.len() < LEVELS {
            let Some(first) = self.followed.last() else { return };
            self.followed.push(first.clone());
            self.ages.push(0);
        } else {
            // The one whose neighbours have nearly the same age.
            let ratio = |place: &usize| as_float_of(self.ages[place - 1]) / as_float_of(self.ages[place + 1]);
            let least = (1..LEVELS - 1).min_by(|left, right| ratio(left).total_cmp(&ratio(right))).unwrap_or(1);
            self.ages.remove(least);
            let dropped = self.followed.remove(MOVING + least);
            // What it stood for is nearest to what the next one stands for.
            let heir = &mut self.followed[MOVING + least];
            heir.suits.iter_mut().zip(&dropped.suits).for_each(|(suit, more)| *suit += more);
            self.followed.push(dropped);
            self.ages.push(0);
        }
        if let Some(begun) = self.followed.last_mut() {
            begun.spread = Model::Still.first(self.reference, self.largest_square);
            let zero = |origin: &f64| apart(-origin / self.unit);
            begun.states.iter_mut().zip(&self.origins).for_each(|(state, origin)| *state = zero(origin));
            begun.suits.fill(0.0);
        }
    }

    /// What is believed so many timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        if gap == 0 {
            return self.believed.clone();
        }
        let numbers = self.numbers();
        let (mut means, mut squares, mut weights) = (vec![0.0; numbers], vec![0.0; numbers], vec![0.0; numbers]);
        let (mut levels, mut start) = (vec![0.0; numbers], 0);
        for group in &self.groups {
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            for (index, followed) in self.followed.iter().enumerate() {
                let motion = self.motion(index).times(gap);
                let spread = model(index).stated() * motion.applied(&followed.spread)[0][0];
                let levels = &mut levels[members.clone()];
                // All are taken from what is believed now: squares of large numbers would differ by less than they are rounded.
                let (now, origins) = (&self.believed.means[members.clone()], &self.origins[members.clone()]);
                let of_origin = motion.of_origin();
                for (level, (now, origin)) in levels.iter_mut().zip(now.iter().zip(origins)) {
                    *level = origin - now - of_origin * origin;
                }
                for (states, add) in followed.states.chunks(numbers).zip(motion.adds[0]) {
                    let add = self.unit * add;
                    let states = states[members.clone()].iter();
                    levels.iter_mut().zip(states).for_each(|(level, state)| *level += add * f64::from(*state));
                }
                let sums = means[members.clone()].iter_mut().zip(&mut squares[members.clone()]);
                let suits = &followed.suits[members.clone()];
                let of_members = sums.zip(&mut weights[members.clone()]).zip(levels.iter().zip(suits));
                for (((mean, square), weights), (level, suit)) in of_members {
                    let weight = priors[index] * f64::from(*suit);
                    *weights += weight;
                    *mean += weight * level;
                    *square += weight * (level * level + spread);
                }
            }
        }
        for (((mean, square), weight), now) in means.iter_mut().zip(&mut squares).zip(weights).zip(&self.believed.means)
        {
            *mean /= weight;
            *square = (*square / weight - *mean * *mean).max(0.0);
            *mean += now;
        }
        Estimates { means, variances: squares }
    }

    /// The mean squared error to expect in the long run, of observations every `period` timestamps with a variance and forecasts in between.
    pub fn expected_error(&self, period: u64, variance: f64) -> f64 {
        // Nobody needs to err by more than the numbers are large.
        let Estimates { means, variances } = &self.believed;
        let squares = means.iter().zip(variances).map(|(mean, variance)| mean * mean + variance).sum::<f64>();
        let squares = squares / as_float(self.numbers().max(1));
        let (mut start, mut sum) = (0, 0.0);
        for group in &self.groups {
            let members = start..group.end;
            start = group.end;
            let priors = group.priors(self.ages.len());
            let shares = self.shares(&members, &priors);
            for (index, (followed, share)) in self.followed.iter().zip(shares).enumerate() {
                let motion = self.motion(index);
                let (mut spread, of_period) = (followed.spread, motion.times(period));
                // Observations until the error hardly changes, of which the last period counts.
                for _ in 0..PERIODS {
                    spread = observed(&of_period.applied(&spread), variance).0;
                }
                // Of a long period, some of its timestamps.
                let stride = period.div_ceil(SAMPLES).max(1);
                let (of_stride, samples) = (motion.times(stride), period.div_ceil(stride).max(1));
                let mut error = spread[0][0].min(squares);
                for _ in 1..samples {
                    spread = of_stride.applied(&spread);
                    error += spread[0][0].min(squares);
                }
                sum += share * error / as_float_of(samples);
            }
        }
        sum / as_float(self.numbers().max(1))
    }

    /// Of each model, what it weighs, summed over the numbers of a group.
    fn shares(&self, members: &std::ops::Range<usize>, priors: &[f64]) -> Vec<f64> {
        let share = |(followed, prior): (&Followed, &f64)| {
            let suits = followed.suits[members.clone()].iter().zip(&self.totals[members.clone()]);
            prior * suits.map(|(suit, total)| f64::from(suit / total)).sum::<f64>()
        };
        self.followed.iter().zip(priors).map(share).collect()
    }
}

impl Group {
    /// How likely each model is beforehand, with so many levels that stand still.
    fn priors(&self, levels: usize) -> Vec<f64> {
        let prior = |index: usize| (1.0 - KEPT_AT_FIRST) * self.common[index] + KEPT_AT_FIRST * self.at_first[index];
        let still = prior(MOVING) / as_float(levels);
        (0..MOVING).map(prior).chain(std::iter::repeat_n(still, levels)).collect()
    }

    /// Learns how likely each rate of change is from the logarithms of how likely it made what was observed, and returns that of all of them together.
    fn weigh_rates(&mut self, likely: [f64; RATES.len()]) -> f64 {
        let most = likely.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (rate, likely) in self.rates.iter_mut().zip(likely) {
            *rate *= (likely - most).exp();
            total += *rate;
        }
        for (rate, at_first) in self.rates.iter_mut().zip(RATES_AT_FIRST) {
            *rate = (1.0 - RATES_KEPT) * *rate / total + RATES_KEPT * at_first;
        }
        total.ln() + most
    }

    /// Learns what its numbers have in common from what each model weighs with all of them together.
    fn learn(&mut self, shares: &[f64], members: usize) {
        let count = as_float(members) + NUMBERS_AT_FIRST;
        let rate = COMMON_RATE.min(COMMON_RATE_OF_ONE * as_float(members));
        for (index, (common, at_first)) in self.common.iter_mut().zip(&self.at_first).enumerate() {
            let share: f64 = if index < MOVING { shares[index] } else { shares[MOVING..].iter().sum() };
            let mean = (share + NUMBERS_AT_FIRST * at_first) / count;
            *common += rate * (mean - *common);
        }
    }
}

/// What a model says of the numbers before an observation, and how far it follows it; in units.
struct Forecast {
    adds: [[f32; 3]; 3],
    /// By how much of its origin a number is expected to be less.
    of_origin: f32,
    gains: [f32; 3],
    /// How far the numbers follow on average.
    gain: f64,
    /// The largest error that is followed.
    followed_error: f32,
    /// The square of an error, multiplied by this before, is by how much it makes that less likely, as a part of a logarithm; and what is added to that of a forecast without an
    /// error because it is not exact.
    root_half_precision: f32,
    offset: f32,
    /// The variance that is stated afterwards.
    stated: f32,
}

impl Forecast {
    /// Of a model, whose spread becomes that after the observation of a variance.
    fn new(model: Model, motion: Motion, spread: &mut Spread, variance: f64, unit: f64) -> Self {
        let before = motion.applied(spread);
        let gains;
        (*spread, gains) = observed(&before, variance);
        let total = (before[0][0] + variance).max(f64::MIN_POSITIVE);
        Self {
            adds: motion.adds.map(|row| row.map(short)),
            of_origin: short(motion.of_origin()),
            gains: gains.map(short),
            gain: gains[0],
            followed_error: apart(SURPRISE * total.sqrt() * (total / variance) / unit),
            root_half_precision: apart(unit * (0.5 / total / WEIGHT_PARTS).sqrt()),
            offset: short(-0.5 * (total / variance).ln() / WEIGHT_PARTS),
            stated: apart(model.stated() * spread[0][0] / (unit * unit)),
        }
    }
}

/// So many numbers are taken together, so that all that is known of them is at hand.
const CHUNK: usize = 64;

/// An observation is far off from what was believed if it is so by more than so many units, and an origin is near to it if it is within so many. No model is farther from
/// an origin than this.
const FAR_OFF: f64 = 100.0;
const NEAR: f64 = 16.0;
const MOST_APART: f32 = 1e15;

/// No unit is shorter.
const SHORTEST_UNIT: f64 = 1e-150;

/// How far two numbers are apart, in units, of which there are not too many.
fn apart(units: f64) -> f32 {
    short(units).clamp(-MOST_APART, MOST_APART)
}

/// Some numbers while they are observed. All lengths are in units, and from the numbers' origins: short numbers of any other size would be rounded by more than estimates
/// differ.
struct Chunk<'a> {
    observations: &'a [f64],
    /// Where they begin.
    start: usize,
    unit: f64,
    /// The observations, and the origins themselves.
    seen: [f32; CHUNK],
    origins: [f32; CHUNK],
    /// What was believed, or what is observed where that is far off: how far models are from there is summed.
    bases: [f32; CHUNK],
    /// By how much a model expected less, as a multiple of what makes that less likely; and how far it is from the base.
    errors: [f32; CHUNK],
    apart: [f32; CHUNK],
    /// By what the models' weights of before are multiplied: how likely none takes over from another, divided by what they weigh together.
    kept: [f32; CHUNK],
    /// What they weigh together after the observation, which is how likely they made it; and what that would be if another had taken over for sure.
    totals: [f32; CHUNK],
    anew: [f32; CHUNK],
    /// Sums over the models, by weight, of how far they are from the base, and of the square of that with their variances.
    means: [f32; CHUNK],
    squares: [f32; CHUNK],
}

impl<'a> Chunk<'a> {
    const fn new(observations: &'a [f64], start: usize, unit: f64) -> Self {
        let zero = [0.0; CHUNK];
        Self {
            observations,
            start,
            unit,
            seen: zero,
            origins: zero,
            bases: zero,
            errors: zero,
            apart: zero,
            kept: zero,
            totals: zero,
            anew: zero,
            means: zero,
            squares: zero,
        }
    }

    /// Where its numbers are.
    const fn members(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.observations.len()
    }

    /// Moves the states of a model on to what is expected, and from there as far towards the observations as they are followed; notes the weighed errors and how far from the base
    /// the numbers are then.
    fn advance(&mut self, forecast: &Forecast, states: &mut [f32], numbers: usize) {
        let [[kept, slope_in, curve_in], [_, slope_kept, curve_to_slope], [_, _, curve_kept]] = forecast.adds;
        let [gain, slope_gain, curve_gain] = forecast.gains;
        let (most, root, of_origin) = (forecast.followed_error, forecast.root_half_precision, forecast.of_origin);
        let members = self.members();
        let seen =
            self.seen.iter().zip(&self.origins).zip(&self.bases).zip(self.errors.iter_mut().zip(&mut self.apart));
        let (levels, slopes) = states.split_at_mut(numbers);
        let levels = &mut levels[members.clone()];
        if slopes.is_empty() {
            for (level, (((seen, origin), base), (weighed, apart))) in levels.iter_mut().zip(seen) {
                let expected = kept * *level - of_origin * origin;
                let error = seen - expected;
                *level = expected + gain * error.clamp(-most, most);
                (*weighed, *apart) = (root * error, *level - base);
            }
            return;
        }
        let (slopes, curves) = slopes.split_at_mut(numbers);
        let slopes = &mut slopes[members.clone()];
        if curves.is_empty() {
            for ((level, slope), (((seen, _), base), (weighed, apart))) in levels.iter_mut().zip(slopes).zip(seen) {
                let expected = kept * *level + slope_in * *slope;
                let error = seen - expected;
                let followed = error.clamp(-most, most);
                *level = expected + gain * followed;
                *slope = slope_kept * *slope + slope_gain * followed;
                (*weighed, *apart) = (root * error, *level - base);
            }
            return;
        }
        let moved = levels.iter_mut().zip(slopes).zip(&mut curves[members]);
        for (((level, slope), curve), (((seen, _), base), (weighed, apart))) in moved.zip(seen) {
            let expected = kept * *level + slope_in * *slope + curve_in * *curve;
            let error = seen - expected;
            let followed = error.clamp(-most, most);
            *level = expected + gain * followed;
            *slope = slope_kept * *slope + curve_to_slope * *curve + slope_gain * followed;
            *curve = curve_kept * *curve + curve_gain * followed;
            (*weighed, *apart) = (root * error, *level - base);
        }
    }

    /// Takes the observations in by a model; and weighs it by how likely it made them, after any model may have taken over, as likely as it is in general.
    fn follow(&mut self, forecast: &Forecast, prior: f32, followed: &mut Followed, numbers: usize, switches: f32) {
        self.advance(forecast, &mut followed.states, numbers);
        let suits = followed.suits[self.members()].iter_mut().zip(&self.kept);
        let likely = self.totals.iter_mut().zip(&mut self.anew).zip(&self.errors);
        let sums = self.means.iter_mut().zip(&mut self.squares).zip(&self.apart);
        let (offset, stated) = (forecast.offset, forecast.stated);
        for (((suit, kept), ((total, anew), error)), ((mean, square), apart)) in suits.zip(likely).zip(sums) {
            let likely = weight(offset - error * error);
            *suit = likely * (kept * *suit + switches);
            *anew += prior * likely;
            let weight = prior * *suit;
            *total += weight;
            *mean += weight * apart;
            *square += weight * (apart * apart + stated);
        }
    }

    /// What all models together weigh, and what they believe of the numbers.
    fn believe(&mut self, origins: &[f64], totals: &mut [f32], believed: &mut Estimates) {
        let (origins, totals) = (&origins[self.members()], &mut totals[self.members()]);
        let (means, variances) = (&mut believed.means[self.members()], &mut believed.variances[self.members()]);
        self.totals.iter_mut().for_each(|total| *total = total.max(f32::MIN_POSITIVE));
        totals.iter_mut().zip(&self.totals).for_each(|(kept, total)| *kept = *total);
        let of_models = self.means.iter().zip(&self.squares).zip(&self.totals).zip(&self.bases);
        let believed = means.iter_mut().zip(variances).zip(origins);
        for ((((mean, square), total), base), ((believed, variance), origin)) in of_models.zip(believed) {
            let part = f64::from(*total).recip();
            let (mean, square) = (part * f64::from(*mean), part * f64::from(*square));
            *believed = origin + self.unit * (f64::from(*base) + mean);
            *variance = self.unit * self.unit * (square - mean * mean).max(0.0);
        }
    }

    /// One divided by what the models weigh together.
    fn parts(&self) -> [f32; CHUNK] {
        self.totals.map(f32::recip)
    }

    /// How much a model suits the numbers, in sum, with one divided by what the models weigh together.
    fn share(&self, followed: &Followed, parts: &[f32; CHUNK]) -> f64 {
        let (suits, parts) = (&followed.suits[self.members()], &parts[..self.observations.len()]);
        let ((fours, rest), (parts, parts_of_rest)) = (suits.as_chunks::<4>(), parts.as_chunks::<4>());
        let mut sums = [0.0; 4];
        for (four, parts) in fours.iter().zip(parts) {
            sums.iter_mut().zip(four.iter().zip(parts)).for_each(|(sum, (suit, part))| *sum += suit * part);
        }
        let of_rest = rest.iter().zip(parts_of_rest).map(|(suit, part)| suit * part).sum::<f32>();
        f64::from(sums.iter().sum::<f32>() + of_rest)
    }

    /// The logarithm of how likely all models together made the observations, where any takes over at a rate instead of that by which they were weighed.
    fn likely(&self, rate: f64, switches: f32) -> f64 {
        let (totals, anew) = (&self.totals[..self.observations.len()], &self.anew[..self.observations.len()]);
        let switches = f64::from(switches);
        // What they weigh is linear in the rate.
        let (of_total, of_anew) = ((1.0 - rate) / (1.0 - switches), (rate - switches) / (1.0 - switches));
        let of_one = |(total, anew): (&f32, &f32)| {
            (of_total * f64::from(*total) + of_anew * f64::from(*anew)).max(rate * f64::from(*anew))
        };
        // Logarithms take long: of a few at once, none so small that their product would be nothing.
        let of_some = |(totals, anew): (&[f32], &[f32])| totals.iter().zip(anew).map(of_one).product::<f64>();
        let products = totals.chunks(AT_ONCE).zip(anew.chunks(AT_ONCE)).map(of_some);
        products.map(|product| product.max(f64::MIN_POSITIVE).ln()).sum()
    }
}

/// Of so many numbers a logarithm is taken at once.
const AT_ONCE: usize = 8;

/// The model at a place: the moving ones, then levels that stand still.
const fn model(index: usize) -> Model {
    if index < MOVING { MODELS[index] } else { Model::Still }
}

/// How many periods are looked ahead.
const PERIODS: u32 = 12;

/// How many timestamps of a period are looked at, at most.
const SAMPLES: u64 = 1_024;

#[allow(clippy::cast_precision_loss)] // a count of numbers
const fn as_float(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss)] // a count of observations or timestamps
const fn as_float_of(count: u64) -> f64 {
    count as f64
}

/// How likely each model is before anything is seen: all the same, but for those by which a number is larger than the mean of all can be. So many of them there
/// cannot be.
fn at_first(members: usize, reference: f64, largest_square: f64, mean_square: f64) -> Vec<f64> {
    let likely = |model: &Model| match model {
        Model::Around { .. } if members >= MANY => 0.0,
        _ => model.likely() * (mean_square / model.first_level(reference, largest_square)).min(1.0),
    };
    let weights: Vec<f64> = MODELS.iter().map(likely).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}
