//! [`Bank`]: many numbers that move alike, seen with noise of known variance.
//!
//! Each number is followed by several linear models: a walk, a slope, a curve, and a return to the mean. All numbers are seen with the same
//! variance, so how far a model trusts an observation is the same for all of them, and a number costs a few multiplications for each model. Which
//! models suit a number is learned from how well they foretold it, and, where that says little, from which suit the others.

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
}

const MODELS: [Model; 30] = [
    Model::Walk { step: 1e-6 },
    Model::Walk { step: 1e-4 },
    Model::Walk { step: 1e-3 },
    Model::Walk { step: 1e-2 },
    Model::Walk { step: 3e-2 },
    Model::Walk { step: 0.1 },
    Model::Walk { step: 0.3 },
    Model::Walk { step: 1.0 },
    Model::Walk { step: 30.0 },
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
];

/// The variance of a walk before anything is seen, where numbers can be of any size.
const ANYWHERE: f64 = 1e7;

/// How much of a slope, and of a slope's slope, is left after a timestamp.
const SLOPE_KEPT: f64 = 0.995;
const CURVE_KEPT: f64 = 0.99;

/// How likely another model takes over from one observation to the next, at most: of a number in a small group, and of one among at least so many. Among many it is known which
/// models others follow, so that a needless change costs little. Where observations tell so little that estimates follow them by less than this, it is no
/// more than that: a change takes as long to be seen.
const SWITCHES: f64 = 5e-5;
const SWITCHES_AMONG_MANY: f64 = 0.003;
const MANY: f64 = 8.0;
const LEAST_SWITCHES: f64 = 1e-12;

/// A model that follows an observation by less than this is less likely at first, in proportion. There are many that differ only in the long run, and together
/// they would outweigh the others before anything speaks for them.
const QUIET: f64 = 0.2;

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
}

impl Motion {
    const STILL: Self = Self { adds: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], step: [[0.0; 3]; 3] };

    /// Of one timestamp.
    fn of(model: Model, reference: f64, largest: f64) -> Self {
        let mut motion = Self { adds: [[0.0; 3]; 3], step: [[0.0; 3]; 3] };
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
        }
        motion
    }

    /// The spread afterwards.
    fn applied(&self, spread: &Spread) -> Spread {
        let mut after = self.step;
        for (row, adds) in after.iter_mut().zip(&self.adds) {
            for (cell, others) in row.iter_mut().zip(&self.adds) {
                for (add, spread) in adds.iter().zip(spread) {
                    for (other, spread) in others.iter().zip(spread) {
                        *cell += add * other * spread;
                    }
                }
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
        Self { adds, step: next.applied(&self.step) }
    }

    /// Of so many times the time.
    fn times(&self, mut times: u64) -> Self {
        let (mut power, mut result) = (*self, Self::STILL);
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
            Self::Walk { .. } | Self::Return { .. } => 1,
            Self::Slope { .. } => 2,
            Self::Curve { .. } => 3,
        }
    }

    /// What is known before anything is seen: of the slopes, what they come to in the long run.
    fn first(&self, reference: f64, largest: f64) -> Spread {
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
        };
        (follows / QUIET).min(1.0)
    }

    /// By what its variance is multiplied where it is stated. Which of the walks a number takes is never known for sure, and an estimate that goes by one that is too
    /// quiet errs by more; the steps of a slope stand for a bend, and numbers that bend do so less than all the time.
    const fn stated(&self) -> f64 {
        match self {
            Self::Walk { .. } => 1.15,
            Self::Slope { .. } => 0.77,
            Self::Curve { .. } | Self::Return { .. } => 1.0,
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
    /// How large numbers can be.
    sizes: Sizes,
    /// How likely another model takes over until the next observation, at most.
    switches: f64,
    /// Where the groups of numbers that have something in common end.
    groups: Vec<usize>,
    /// Of each group, how much each model suits its numbers in general.
    common: Vec<Vec<f64>>,
    /// Of each model, the spread that all numbers have after the last observation.
    spreads: Vec<Spread>,
    /// Of each model, the estimates of all numbers, then those of their slopes and of the slopes' slopes, as far as it has them.
    states: Vec<Vec<f64>>,
    /// Of each model, how much better it suits each number than the models do together.
    suits: Vec<Vec<f64>>,
    /// The logarithm of how likely all models together made all numbers, compared with there being noise only.
    evidence: f64,
}

/// How large numbers that lie around zero can be, before anything is seen of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// The most that the square of one can be.
    pub largest_square: f64,
    /// The most that the mean of all squares can be. So large ones are rare, and a model by which a number is large is not likely at first.
    pub mean_square: f64,
}

/// Estimates with the variances of their errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    /// The estimates.
    pub means: Vec<f64>,
    /// The expected squared errors, as far as the models can tell.
    pub variances: Vec<f64>,
}

/// The exponential function of numbers that are not positive, to within half a per cent down to minus eight: for weights, of which millions are needed.
/// It has no branch, so that several are computed at once.
fn weight(logarithm: f64) -> f64 {
    let part = (logarithm / 128.0).max(-1.0);
    let mut power = 1.0 + part + 0.5 * part * part;
    for _ in 0..7 {
        power *= power;
    }
    power
}

impl Bank {
    /// So many numbers of which nothing is known but that they lie around zero, or anywhere. `reference` is about the variance with which they are
    /// going to be seen.
    pub fn new(numbers: usize, reference: f64) -> Self {
        let anywhere = ANYWHERE * reference;
        Self::grouped(vec![numbers], reference, Sizes { largest_square: anywhere, mean_square: anywhere })
    }

    /// Numbers of which it is known how large they can be, in groups, of which each has something in common: numbers up to `groups[0]`, then up to
    /// `groups[1]`, and so on.
    pub fn grouped(groups: Vec<usize>, reference: f64, sizes: Sizes) -> Self {
        let numbers = groups.last().copied().unwrap_or(0);
        let sizes = Sizes { largest_square: sizes.largest_square.min(ANYWHERE * reference), ..sizes };
        Self {
            reference,
            sizes,
            switches: SWITCHES_AMONG_MANY,
            common: vec![at_first(reference, sizes); groups.len()],
            groups,
            spreads: MODELS.iter().map(|model| model.first(reference, sizes.largest_square)).collect(),
            states: MODELS.iter().map(|model| vec![0.0; numbers * model.order()]).collect(),
            suits: vec![vec![1.0; numbers]; MODELS.len()],
            evidence: 0.0,
        }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.groups.last().copied().unwrap_or(0)
    }

    /// Whether it can be that of numbers in such groups.
    pub fn fits(&self, expected: &[usize]) -> bool {
        let Self { reference, sizes, switches, groups, common, spreads, states, suits, evidence } = self;
        let numbers = expected.last().copied().unwrap_or(0);
        let weights_fit = |weights: &Vec<f64>, count: usize| {
            weights.len() == count && weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
        };
        let states_fit = MODELS.iter().zip(states).all(|(model, states)| states.len() == numbers * model.order());
        let spread_fits = |spread: &Spread| {
            spread.iter().flatten().all(|cell| cell.is_finite())
                && (0..3).all(|diagonal| spread[diagonal][diagonal] >= 0.0)
        };
        let positive = |number: f64| number.is_finite() && number > 0.0;
        groups == expected
            && groups.is_sorted()
            && common.len() == groups.len()
            && common.iter().all(|common| weights_fit(common, MODELS.len()))
            && [spreads.len(), states.len(), suits.len()] == [MODELS.len(); 3]
            && states_fit
            && states.iter().flatten().all(|number| number.is_finite())
            && suits.iter().all(|suits| weights_fit(suits, numbers))
            && spreads.iter().all(spread_fits)
            && evidence.is_finite()
            && positive(*reference)
            && positive(sizes.largest_square)
            && positive(sizes.mean_square)
            && self.totals().iter().all(|total| positive(*total))
            && (LEAST_SWITCHES..=SWITCHES_AMONG_MANY).contains(switches)
    }

    fn motions(&self) -> impl Iterator<Item = Motion> + use<> {
        let (reference, largest) = (self.reference, self.sizes.largest_square);
        MODELS.iter().map(move |model| Motion::of(*model, reference, largest))
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
        let priors = self.priors();
        let parts: Vec<f64> = self.totals().iter().map(|total| total.recip()).collect();
        let (mut totals, mut errors) = (vec![0.0; observations.len()], vec![0.0; observations.len()]);
        let mut followed = Vec::with_capacity(MODELS.len());
        for (index, motion) in self.motions().enumerate() {
            let motion = motion.times(gap);
            let spread = motion.applied(&self.spreads[index]);
            let (after, gains) = observed(&spread, variance);
            self.spreads[index] = after;
            followed.push(gains[0]);
            follow(&motion, gains, &mut self.states[index], observations, &mut errors);
            // How likely it made the observation, compared with an exact forecast. Any model may have taken over since the last one, as likely as it is in general.
            let total = (spread[0][0] + variance).max(f64::MIN_POSITIVE);
            let (half_precision, offset) = (0.5 / total, 0.5 * (total / variance).ln());
            for (priors, members) in priors.iter().zip(ranges(&self.groups)) {
                let (prior, switches) = (priors[index], self.switches.min(switches(members.len())));
                let suits = self.suits[index][members.clone()].iter_mut().zip(&parts[members.clone()]);
                let news = errors[members.clone()].iter().zip(&mut totals[members]);
                for ((suit, part), (error, total)) in suits.zip(news) {
                    let likely = weight(-half_precision * error * error - offset);
                    *suit = ((1.0 - switches) * part * *suit + switches) * likely;
                    *total += prior * *suit;
                }
            }
        }
        let of_noise = observations.iter().map(|observation| 0.5 * observation * observation / variance);
        let news: f64 = totals.iter().zip(of_noise).map(|(total, noise)| total.ln() + noise).sum();
        self.evidence = (1.0 - FORGOTTEN) * self.evidence + news;
        self.learn_common(&followed, &totals);
    }

    /// Learns what the numbers of a group have in common, and how likely models are to change.
    fn learn_common(&mut self, gains: &[f64], totals: &[f64]) {
        let mut followed = 0.0;
        let parts: Vec<f64> = totals.iter().map(|total| total.recip()).collect();
        let at_first = at_first(self.reference, self.sizes);
        for (common, members) in self.common.iter_mut().zip(ranges(&self.groups)) {
            let count = as_float(members.len()) + NUMBERS_AT_FIRST;
            let rate = COMMON_RATE.min(COMMON_RATE_OF_ONE * as_float(members.len()));
            for (model, common) in common.iter_mut().enumerate() {
                let shares = sum_of_products(&self.suits[model][members.clone()], &parts[members.clone()]);
                let share = prior(*common, at_first[model]) * shares;
                followed += share * gains[model];
                let mean = (share + NUMBERS_AT_FIRST * at_first[model]) / count;
                *common += rate * (mean - *common);
            }
        }
        // Never nothing, so that no model is given up for good.
        self.switches = (followed / as_float(self.numbers().max(1))).clamp(LEAST_SWITCHES, SWITCHES_AMONG_MANY);
    }

    /// Of each group, how likely the models are beforehand.
    fn priors(&self) -> Vec<Vec<f64>> {
        let at_first = at_first(self.reference, self.sizes);
        let of_group =
            |common: &Vec<f64>| common.iter().zip(&at_first).map(|(common, first)| prior(*common, *first)).collect();
        self.common.iter().map(of_group).collect()
    }

    /// What the models of each number weigh together.
    fn totals(&self) -> Vec<f64> {
        let (mut totals, priors) = (vec![0.0; self.numbers()], self.priors());
        for (model, suits) in self.suits.iter().enumerate() {
            for (group, members) in ranges(&self.groups).enumerate() {
                let prior = priors[group][model];
                let sums = totals[members.clone()].iter_mut().zip(&suits[members]);
                sums.for_each(|(total, suit)| *total += prior * suit);
            }
        }
        totals
    }

    /// What is believed so many timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let numbers = self.numbers();
        let (priors, mut totals) = (self.priors(), vec![0.0; numbers]);
        let (mut means, mut squares, mut levels) = (vec![0.0; numbers], vec![0.0; numbers], vec![0.0; numbers]);
        // All are taken from what the first model says: squares of large numbers would differ by less than they are rounded.
        let mut origins = Vec::new();
        for (index, motion) in self.motions().enumerate() {
            let motion = motion.times(gap);
            let spread = MODELS[index].stated() * motion.applied(&self.spreads[index])[0][0];
            levels.fill(0.0);
            for (states, add) in self.states[index].chunks(numbers.max(1)).zip(motion.adds[0]) {
                levels.iter_mut().zip(states).for_each(|(level, state)| *level += add * state);
            }
            if index == 0 {
                origins.clone_from(&levels);
            }
            levels.iter_mut().zip(&origins).for_each(|(level, origin)| *level -= origin);
            for (priors, members) in priors.iter().zip(ranges(&self.groups)) {
                let prior = priors[index];
                let sums = means[members.clone()].iter_mut().zip(&mut squares[members.clone()]);
                let of_model = levels[members.clone()].iter().zip(&self.suits[index][members.clone()]);
                for (((mean, square), total), (level, suit)) in sums.zip(&mut totals[members]).zip(of_model) {
                    let weight = prior * suit;
                    *total += weight;
                    *mean += weight * level;
                    *square += weight * (level * level + spread);
                }
            }
        }
        for (((mean, square), total), origin) in means.iter_mut().zip(&mut squares).zip(totals).zip(origins) {
            *mean /= total;
            *square = (*square / total - *mean * *mean).max(0.0);
            *mean += origin;
        }
        Estimates { means, variances: squares }
    }

    /// The mean squared error to expect in the long run, of observations every `period` timestamps with a variance and forecasts in between.
    pub fn expected_error(&self, period: u64, variance: f64) -> f64 {
        let numbers = as_float(self.numbers().max(1));
        let (priors, totals) = (self.priors(), self.totals());
        let share = |model: usize| -> f64 {
            let of_group = |(priors, members): (&Vec<f64>, std::ops::Range<usize>)| {
                let shares = self.suits[model][members.clone()].iter().zip(&totals[members]);
                priors[model] * shares.map(|(suit, total)| suit / total).sum::<f64>()
            };
            priors.iter().zip(ranges(&self.groups)).map(of_group).sum()
        };
        // Nobody needs to err by more than the numbers are large.
        let Estimates { means, variances } = self.estimate(0);
        let squares = means.iter().zip(variances).map(|(mean, variance)| mean * mean + variance).sum::<f64>() / numbers;
        let of_model = |(motion, spread): (Motion, &Spread)| {
            let (mut spread, of_period) = (*spread, motion.times(period));
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
            error / as_float(usize::try_from(samples).unwrap_or(usize::MAX))
        };
        let errors = self.motions().zip(&self.spreads).map(of_model);
        errors.enumerate().map(|(model, error)| error * share(model)).sum::<f64>() / numbers
    }
}

/// How likely another model takes over, of a number in a group of so many.
fn switches(members: usize) -> f64 {
    (SWITCHES_AMONG_MANY * (as_float(members) / MANY).powi(3)).clamp(SWITCHES, SWITCHES_AMONG_MANY)
}

/// How likely a model is beforehand, by what the numbers of a group have in common and what was likely at first.
fn prior(common: f64, at_first: f64) -> f64 {
    (1.0 - KEPT_AT_FIRST) * common + KEPT_AT_FIRST * at_first
}

/// Moves the states of a model on to what is expected, and from there as far towards the observations as it follows them. `errors` become those by which it
/// expected less.
fn follow(motion: &Motion, gains: [f64; 3], states: &mut [f64], observations: &[f64], errors: &mut [f64]) {
    let [[kept, slope_in, curve_in], [_, slope_kept, curve_to_slope], [_, _, curve_kept]] = motion.adds;
    let [gain, slope_gain, curve_gain] = gains;
    let (levels, slopes) = states.split_at_mut(observations.len());
    let seen = observations.iter().zip(errors);
    if slopes.is_empty() {
        for (level, (observation, error)) in levels.iter_mut().zip(seen) {
            let expected = kept * *level;
            *error = observation - expected;
            *level = expected + gain * *error;
        }
        return;
    }
    let (slopes, curves) = slopes.split_at_mut(observations.len());
    if curves.is_empty() {
        for ((level, slope), (observation, error)) in levels.iter_mut().zip(slopes).zip(seen) {
            let expected = kept * *level + slope_in * *slope;
            *error = observation - expected;
            *level = expected + gain * *error;
            *slope = slope_kept * *slope + slope_gain * *error;
        }
        return;
    }
    for (((level, slope), curve), (observation, error)) in levels.iter_mut().zip(slopes).zip(curves).zip(seen) {
        let expected = kept * *level + slope_in * *slope + curve_in * *curve;
        *error = observation - expected;
        *level = expected + gain * *error;
        *slope = slope_kept * *slope + curve_to_slope * *curve + slope_gain * *error;
        *curve = curve_kept * *curve + curve_gain * *error;
    }
}

/// The sum of products, four at a time.
fn sum_of_products(left: &[f64], right: &[f64]) -> f64 {
    let (fours, rest) = left.as_chunks::<4>();
    let (others, other_rest) = right.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (four, other) in fours.iter().zip(others) {
        sums.iter_mut().zip(four.iter().zip(other)).for_each(|(sum, (left, right))| *sum += left * right);
    }
    let rest: f64 = rest.iter().zip(other_rest).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f64>() + rest
}

/// How many periods are looked ahead.
const PERIODS: u32 = 12;

/// How many timestamps of a period are looked at, at most.
const SAMPLES: u64 = 1_024;

#[allow(clippy::cast_precision_loss)] // a count of numbers or of timestamps
const fn as_float(count: usize) -> f64 {
    count as f64
}

/// The numbers of each group.
fn ranges(ends: &[usize]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends.iter().copied()).map(|(start, end)| start..end)
}

/// How likely each model is before anything is seen: all the same, but for those by which a number is larger than the mean of all can be. So many of them there
/// cannot be.
fn at_first(reference: f64, sizes: Sizes) -> Vec<f64> {
    let likely = |model: &Model| {
        let start = model.first_level(reference, sizes.largest_square);
        model.likely() * (sizes.mean_square / start).min(1.0)
    };
    let weights: Vec<f64> = MODELS.iter().map(likely).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}
