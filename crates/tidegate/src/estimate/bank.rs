//! [`Bank`]: many numbers that move alike, seen with noise of known variance.
//!
//! Each number is followed by several linear models: a walk, a walk with a slope, and a return to the mean. All numbers are seen with the same
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
    /// Around the mean with a variance, of which a timestamp forgets a part.
    Return { spread: f64, forgets: f64 },
}

const MODELS: [Model; 22] = [
    Model::Walk { step: 1e-4 },
    Model::Walk { step: 1e-3 },
    Model::Walk { step: 1e-2 },
    Model::Walk { step: 3e-2 },
    Model::Walk { step: 0.1 },
    Model::Walk { step: 0.3 },
    Model::Walk { step: 1.0 },
    Model::Walk { step: 10.0 },
    Model::Walk { step: 1e3 },
    Model::Slope { step: 1e-8 },
    Model::Slope { step: 1e-7 },
    Model::Slope { step: 1e-6 },
    Model::Slope { step: 1e-5 },
    Model::Slope { step: 1e-4 },
    Model::Slope { step: 1e-2 },
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

/// How much of a slope is left after a timestamp.
const SLOPE_KEPT: f64 = 0.995;

/// How much of what was learned about the models of a number is forgotten from one observation to the next, at most. Where observations tell so little that
/// estimates follow them by less than this, it is no more than that: a change takes as long to be seen.
const FORGOTTEN: f64 = 0.02;

/// How much of what the numbers of a group have in common is learned anew with each observation, at most, and how much for each of the numbers. What few
/// of them seem to have in common is mostly chance.
const COMMON_RATE: f64 = 0.2;
const COMMON_RATE_OF_ONE: f64 = 0.0175;

/// The part of the common weights that is kept as it was at first, so that no model is given up for good.
const KEPT_AT_FIRST: f64 = 0.1;

/// So many numbers' weight have the first weights of a group beside those of its numbers.
const NUMBERS_AT_FIRST: f64 = 2.0;

/// After so many timestamps without an observation a forecast grows no less certain.
const LONGEST_GAP: u64 = 1_024;

/// How a model moves a number and its slope from one timestamp to the next: what is kept of each, and the variances of their steps.
#[derive(Clone, Copy, Debug)]
struct Motion {
    kept: f64,
    slope_kept: f64,
    step: f64,
    slope_step: f64,
    first: Spread,
}

/// Variances of a number and its slope, and their covariance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Spread {
    level: f64,
    both: f64,
    slope: f64,
}

impl Motion {
    fn of(model: Model, reference: f64, largest: f64) -> Self {
        let still = Spread { level: largest, both: 0.0, slope: 0.0 };
        let walk = Self { kept: 1.0, slope_kept: 0.0, step: 0.0, slope_step: 0.0, first: still };
        match model {
            Model::Walk { step } => Self { step: step * reference, ..walk },
            Model::Slope { step } => {
                let step = step * reference;
                let slope = step / (1.0 - SLOPE_KEPT * SLOPE_KEPT);
                Self { slope_kept: SLOPE_KEPT, slope_step: step, first: Spread { slope, ..still }, ..walk }
            }
            Model::Return { spread, forgets } => {
                let (spread, kept) = (spread * reference, 1.0 - forgets);
                Self {
                    kept,
                    step: spread.min(largest) * (1.0 - kept * kept),
                    first: Spread { level: spread.min(largest), ..still },
                    ..walk
                }
            }
        }
    }

    fn has_slope(&self) -> bool {
        self.slope_kept > 0.0
    }

    /// The spread a timestamp later.
    fn later(&self, spread: Spread) -> Spread {
        let Spread { level, both, slope } = spread;
        let slope_in = if self.has_slope() { slope } else { 0.0 };
        Spread {
            level: self.kept * self.kept * level + 2.0 * self.kept * both + slope_in + self.step,
            both: self.slope_kept * (self.kept * both + slope_in),
            slope: self.slope_kept * self.slope_kept * slope + self.slope_step,
        }
    }

    /// What becomes of a number and its slope after so many timestamps: the part of the number that is kept, how much of the slope is added, and the
    /// part of the slope that is kept.
    fn over(&self, gap: u64) -> (f64, f64, f64) {
        let exponent = i32::try_from(gap).unwrap_or(i32::MAX);
        let kept = self.kept.powi(exponent);
        if !self.has_slope() {
            return (kept, 0.0, 0.0);
        }
        let slope_kept = self.slope_kept.powi(exponent);
        (kept, (1.0 - slope_kept) / (1.0 - self.slope_kept), slope_kept)
    }

    fn spread_over(&self, spread: Spread, gap: u64) -> Spread {
        (0..gap.min(LONGEST_GAP)).fold(spread, |spread, _| self.later(spread))
    }
}

/// What an observation of a variance leaves of a spread, and how far level and slope follow it.
fn observed(spread: Spread, variance: f64) -> (Spread, f64, f64) {
    let total = (spread.level + variance).max(f64::MIN_POSITIVE);
    let (level, slope) = (spread.level / total, spread.both / total);
    let after = Spread {
        level: spread.level * (1.0 - level),
        both: spread.both * (1.0 - level),
        slope: (spread.slope - slope * spread.both).max(0.0),
    };
    (after, level, slope)
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
    /// How much of what is known about the models the next observation is going to make forgotten.
    forgotten: f64,
    /// Where the groups of numbers that have something in common end.
    groups: Vec<usize>,
    /// Of each group, how much each model suits its numbers in general.
    common: Vec<Vec<f64>>,
    /// Of each model, the spread that all numbers have after the last observation.
    spreads: Vec<Spread>,
    /// Of each model, the estimate of each number, then those of the slopes where it has them.
    levels: Vec<Vec<f64>>,
    slopes: Vec<Vec<f64>>,
    /// Of each model, the logarithm of how much it suits each number; the largest of a number is zero.
    suits: Vec<Vec<f64>>,
    /// Of each number, the logarithm of how likely the model that suits it best made it, compared with there being noise only.
    best: Vec<f64>,
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

/// The exponential function to within a few per cent, of numbers that are not positive: for weights, of which millions are needed. It has no branch,
/// so that several are computed at once.
fn weight(logarithm: f64) -> f64 {
    let mut power = (1.0 + logarithm / 256.0).max(0.0);
    for _ in 0..8 {
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
        let motions = MODELS.iter().map(|model| Motion::of(*model, reference, sizes.largest_square));
        let zeros = vec![0.0; numbers];
        let slopes = motions.clone().map(|motion| if motion.has_slope() { zeros.clone() } else { Vec::new() });
        let spreads: Vec<Spread> = motions.clone().map(|motion| motion.first).collect();
        Self {
            reference,
            sizes,
            forgotten: FORGOTTEN,
            common: vec![at_first(reference, sizes); groups.len()],
            groups,
            spreads,
            levels: vec![zeros.clone(); MODELS.len()],
            slopes: slopes.collect(),
            suits: vec![zeros.clone(); MODELS.len()],
            best: zeros,
            evidence: 0.0,
        }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.best.len()
    }

    /// Whether it can be that of numbers in such groups.
    pub fn fits(&self, expected: &[usize]) -> bool {
        let Self { reference, sizes, forgotten, groups, common, spreads, levels, slopes, suits, best, evidence } = self;
        let numbers = expected.last().copied().unwrap_or(0);
        let of_models = [spreads.len(), levels.len(), slopes.len(), suits.len()];
        let of_numbers = |vectors: &[Vec<f64>]| vectors.iter().all(|vector| vector.len() == numbers);
        let slopes_fit = MODELS
            .iter()
            .zip(slopes)
            .all(|(model, slopes)| slopes.len() == if matches!(model, Model::Slope { .. }) { numbers } else { 0 });
        let all = || levels.iter().chain(slopes).chain(suits).chain(common).flatten().chain(best).chain([evidence]);
        let positive = |number: f64| number.is_finite() && number > 0.0;
        groups == expected
            && common.len() == groups.len()
            && common.iter().all(|common| common.len() == MODELS.len() && common.iter().all(|weight| *weight >= 0.0))
            && of_models.iter().all(|models| *models == MODELS.len())
            && of_numbers(levels)
            && of_numbers(suits)
            && best.len() == numbers
            && slopes_fit
            && all().all(|number| number.is_finite())
            && spreads.iter().all(|spread| spread.level.is_finite() && spread.level >= 0.0 && spread.slope.is_finite())
            && positive(*reference)
            && positive(sizes.largest_square)
            && positive(sizes.mean_square)
            && (0.0..=FORGOTTEN).contains(forgotten)
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
        let memory = 1.0 - self.forgotten;
        let mut best = vec![f64::NEG_INFINITY; observations.len()];
        let mut gains = Vec::with_capacity(MODELS.len());
        for (index, motion) in self.motions().enumerate() {
            let spread = motion.spread_over(self.spreads[index], gap);
            let (after, gain, slope_gain) = observed(spread, variance);
            self.spreads[index] = after;
            gains.push(gain);
            let total = (spread.level + variance).max(f64::MIN_POSITIVE);
            let (half_precision, offset) = (0.5 / total, 0.5 * (total / variance).ln());
            let (kept, added, slope_kept) = motion.over(gap);
            let levels = self.levels[index].iter_mut().zip(observations);
            let suits = self.suits[index].iter_mut().zip(&mut best);
            let mut slopes = self.slopes[index].iter_mut();
            for ((level, observation), (suit, best)) in levels.zip(suits) {
                let mut expected = kept * *level;
                if let Some(slope) = slopes.next() {
                    expected += added * *slope;
                    *slope = slope_kept * *slope + slope_gain * (observation - expected);
                }
                let error = observation - expected;
                *level = expected + gain * error;
                *suit = memory * *suit - half_precision * error * error - offset;
                *best = best.max(*suit);
            }
        }
        for suits in &mut self.suits {
            suits.iter_mut().zip(&best).for_each(|(suit, best)| *suit -= best);
        }
        let of_noise = observations.iter().map(|observation| 0.5 * observation * observation / variance);
        for ((so_far, best), of_noise) in self.best.iter_mut().zip(best).zip(of_noise) {
            *so_far = memory * *so_far + best + of_noise;
        }
        self.learn_common(&gains);
    }

    /// Learns what the numbers of a group have in common, and how fast to forget it.
    fn learn_common(&mut self, gains: &[f64]) {
        let weights = self.weights();
        self.evidence = weights.totals.iter().zip(&self.best).map(|(total, best)| total.ln() + best).sum();
        let mut followed = 0.0;
        let parts: Vec<f64> = weights.totals.iter().map(|total| total.recip()).collect();
        let at_first = at_first(self.reference, self.sizes);
        for (group, members) in ranges(&self.groups).enumerate() {
            let count = as_float(members.len()) + NUMBERS_AT_FIRST;
            let rate = COMMON_RATE.min(COMMON_RATE_OF_ONE * as_float(members.len()));
            for (model, common) in self.common[group].iter_mut().enumerate() {
                let shares = weights.of_models[model][members.clone()].iter().zip(&parts[members.clone()]);
                let share: f64 = shares.map(|(weight, part)| weight * part).sum();
                followed += share * gains[model];
                let mean = (share + NUMBERS_AT_FIRST * at_first[model]) / count;
                *common += rate * (mean - *common);
            }
        }
        self.forgotten = FORGOTTEN.min(followed / as_float(self.numbers().max(1)));
    }

    /// What the models of each number weigh.
    fn weights(&self) -> Weights {
        let mut totals = vec![0.0; self.numbers()];
        let mut of_models = Vec::with_capacity(MODELS.len());
        let at_first = at_first(self.reference, self.sizes);
        for (model, suits) in self.suits.iter().enumerate() {
            let mut weights = vec![0.0; suits.len()];
            for (group, members) in ranges(&self.groups).enumerate() {
                let prior = (1.0 - KEPT_AT_FIRST) * self.common[group][model] + KEPT_AT_FIRST * at_first[model];
                let sums = weights[members.clone()].iter_mut().zip(&mut totals[members.clone()]);
                for ((weighs, total), suit) in sums.zip(&suits[members]) {
                    *weighs = prior * weight(*suit);
                    *total += *weighs;
                }
            }
            of_models.push(weights);
        }
        Weights { of_models, totals }
    }

    /// What is believed so many timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let numbers = self.numbers();
        let weights = self.weights();
        let (mut means, mut squares) = (vec![0.0; numbers], vec![0.0; numbers]);
        for (index, motion) in self.motions().enumerate() {
            let (kept, added, _) = motion.over(gap);
            let spread = motion.spread_over(self.spreads[index], gap).level;
            let mut slopes = self.slopes[index].iter();
            let sums = means.iter_mut().zip(&mut squares);
            for (((mean, square), level), weight) in sums.zip(&self.levels[index]).zip(&weights.of_models[index]) {
                let level = kept * level + slopes.next().map_or(0.0, |slope| added * slope);
                *mean += weight * level;
                *square += weight * (level * level + spread);
            }
        }
        for ((mean, square), total) in means.iter_mut().zip(&mut squares).zip(weights.totals) {
            *mean /= total;
            *square = (*square / total - *mean * *mean).max(0.0);
        }
        Estimates { means, variances: squares }
    }

    /// The mean squared error to expect in the long run, of observations every `period` timestamps with a variance and forecasts in between.
    pub fn expected_error(&self, period: u64, variance: f64) -> f64 {
        let numbers = as_float(self.numbers().max(1));
        let weights = self.weights();
        let share = |of_model: &Vec<f64>| -> f64 {
            of_model.iter().zip(&weights.totals).map(|(weight, total)| weight / total).sum()
        };
        // Nobody needs to err by more than the numbers are large.
        let Estimates { means, variances } = self.estimate(0);
        let squares = means.iter().zip(variances).map(|(mean, variance)| mean * mean + variance).sum::<f64>() / numbers;
        let of_model = |(motion, spread): (Motion, &Spread)| {
            let mut spread = *spread;
            // Observations until the error hardly changes, of which the last period counts.
            for _ in 0..PERIODS {
                spread = observed(motion.spread_over(spread, period), variance).0;
            }
            let mut error = spread.level.min(squares);
            for _ in 1..period {
                spread = motion.later(spread);
                error += spread.level.min(squares);
            }
            error / as_float(usize::try_from(period).unwrap_or(usize::MAX))
        };
        let errors = self.motions().zip(&self.spreads).map(of_model);
        errors.zip(&weights.of_models).map(|(error, of_model)| error * share(of_model)).sum::<f64>() / numbers
    }
}

/// What models weigh, by model and number, and the sums over the models.
struct Weights {
    of_models: Vec<Vec<f64>>,
    totals: Vec<f64>,
}

/// How many periods are looked ahead.
const PERIODS: u32 = 12;

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
        let start = Motion::of(*model, reference, sizes.largest_square).first.level;
        (sizes.mean_square / start).min(1.0)
    };
    let weights: Vec<f64> = MODELS.iter().map(likely).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}
