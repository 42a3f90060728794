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

/// The variance of a walk before anything is seen.
const ANYWHERE: f64 = 1e7;

/// How much of a slope is left after a timestamp.
const SLOPE_KEPT: f64 = 0.995;

/// How much of what was learned about the models of a number is kept from one observation to the next.
const MEMORY: f64 = 0.98;

/// How much of what all numbers have in common is learned anew with each observation, at least.
const COMMON_RATE: f64 = 0.02;

/// The part of the common weights that is spread evenly over the models, so that none is given up for good.
const EVEN: f64 = 0.1;

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
    fn of(model: Model, reference: f64) -> Self {
        let still = Spread { level: ANYWHERE * reference, both: 0.0, slope: 0.0 };
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
                Self { kept, step: spread * (1.0 - kept * kept), first: Spread { level: spread, ..still }, ..walk }
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
    /// How many observations there were.
    seen: u64,
    /// How much each model suits the numbers in general.
    common: Vec<f64>,
    /// Of each model, the spread that all numbers have after the last observation.
    spreads: Vec<Spread>,
    /// Of each model, the estimate of each number, then those of the slopes where it has them.
    levels: Vec<Vec<f64>>,
    slopes: Vec<Vec<f64>>,
    /// Of each model, the logarithm of how much it suits each number; the largest of a number is zero.
    suits: Vec<Vec<f64>>,
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
    let mut power = (1.0 + logarithm / 1_024.0).max(0.0);
    for _ in 0..10 {
        power *= power;
    }
    power
}

impl Bank {
    /// So many numbers of which nothing is known but that they lie around zero, or anywhere. `reference` is about the variance with which they are
    /// going to be seen.
    pub fn new(numbers: usize, reference: f64) -> Self {
        let motions = MODELS.iter().map(|model| Motion::of(*model, reference));
        let zeros = vec![0.0; numbers];
        let slopes = motions.clone().map(|motion| if motion.has_slope() { zeros.clone() } else { Vec::new() });
        Self {
            reference,
            seen: 0,
            common: vec![even(); MODELS.len()],
            spreads: motions.clone().map(|motion| motion.first).collect(),
            levels: vec![zeros.clone(); MODELS.len()],
            slopes: slopes.collect(),
            suits: vec![zeros; MODELS.len()],
        }
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Whether it can be that of so many numbers.
    pub fn fits(&self, numbers: usize) -> bool {
        let Self { reference, common, spreads, levels, slopes, suits, .. } = self;
        let of_models = [common.len(), spreads.len(), levels.len(), slopes.len(), suits.len()];
        let of_numbers = |vectors: &[Vec<f64>]| vectors.iter().all(|vector| vector.len() == numbers);
        let slopes_fit = MODELS
            .iter()
            .zip(slopes)
            .all(|(model, slopes)| slopes.len() == if matches!(model, Model::Slope { .. }) { numbers } else { 0 });
        let all = || levels.iter().chain(slopes).chain(suits).flatten().chain(common);
        of_models.iter().all(|models| *models == MODELS.len())
            && of_numbers(levels)
            && of_numbers(suits)
            && slopes_fit
            && all().all(|number| number.is_finite())
            && common.iter().all(|weight| *weight >= 0.0)
            && spreads.iter().all(|spread| spread.level.is_finite() && spread.level >= 0.0 && spread.slope.is_finite())
            && reference.is_finite()
            && *reference > 0.0
    }

    fn motions(&self) -> impl Iterator<Item = Motion> + use<> {
        let reference = self.reference;
        MODELS.iter().map(move |model| Motion::of(*model, reference))
    }

    /// Takes in an observation of every number, so many timestamps after the last one, all with a variance.
    pub fn observe(&mut self, gap: u64, observations: &[f64], variance: f64) {
        let mut best = vec![f64::NEG_INFINITY; observations.len()];
        for (index, motion) in self.motions().enumerate() {
            let spread = motion.spread_over(self.spreads[index], gap);
            let (after, gain, slope_gain) = observed(spread, variance);
            self.spreads[index] = after;
            let total = (spread.level + variance).max(f64::MIN_POSITIVE);
            let (half_precision, offset) = (0.5 / total, 0.5 * (total / self.reference).ln());
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
                *suit = MEMORY * *suit - half_precision * error * error - offset;
                *best = best.max(*suit);
            }
        }
        self.seen += 1;
        self.learn_common(&best);
    }

    /// Moves the largest logarithm of each number to zero, and learns what the numbers have in common.
    #[allow(clippy::cast_precision_loss)] // a count
    fn learn_common(&mut self, best: &[f64]) {
        for suits in &mut self.suits {
            suits.iter_mut().zip(best).for_each(|(suit, best)| *suit -= best);
        }
        let totals = self.totals();
        let rate = COMMON_RATE.max(1.0 / (self.seen as f64 + 10.0)) / totals.len().max(1) as f64;
        for (common, suits) in self.common.iter_mut().zip(&self.suits) {
            let prior = mixed(*common);
            let mean: f64 = suits.iter().zip(&totals).map(|(suit, total)| prior * weight(*suit) / total).sum();
            *common += rate * (mean - totals.len() as f64 * *common);
        }
    }

    /// The sum over the models of what each number's weigh.
    fn totals(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.numbers()];
        for (common, suits) in self.common.iter().zip(&self.suits) {
            let prior = mixed(*common);
            totals.iter_mut().zip(suits).for_each(|(total, suit)| *total += prior * weight(*suit));
        }
        totals
    }

    /// What is believed so many timestamps after the last observation.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let numbers = self.numbers();
        let totals = self.totals();
        let (mut means, mut squares) = (vec![0.0; numbers], vec![0.0; numbers]);
        for (index, motion) in self.motions().enumerate() {
            let (kept, added, _) = motion.over(gap);
            let spread = motion.spread_over(self.spreads[index], gap).level;
            let prior = mixed(self.common[index]);
            let mut slopes = self.slopes[index].iter();
            let sums = means.iter_mut().zip(&mut squares);
            for (((mean, square), level), suit) in sums.zip(&self.levels[index]).zip(&self.suits[index]) {
                let level = kept * level + slopes.next().map_or(0.0, |slope| added * slope);
                let weight = prior * weight(*suit);
                *mean += weight * level;
                *square += weight * (level * level + spread);
            }
        }
        for ((mean, square), total) in means.iter_mut().zip(&mut squares).zip(totals) {
            *mean /= total;
            *square = (*square / total - *mean * *mean).max(0.0);
        }
        Estimates { means, variances: squares }
    }

    /// The mean squared error to expect in the long run, of observations every `period` timestamps with a variance and forecasts in between.
    #[allow(clippy::cast_precision_loss)] // a count
    pub fn expected_error(&self, period: u64, variance: f64) -> f64 {
        let totals = self.totals();
        let share = |(common, suits): (&f64, &Vec<f64>)| -> f64 {
            suits.iter().zip(&totals).map(|(suit, total)| mixed(*common) * weight(*suit) / total).sum()
        };
        let shares = self.common.iter().zip(&self.suits).map(share);
        let of_model = |(motion, spread): (Motion, &Spread)| {
            let mut spread = *spread;
            let mut error = 0.0;
            // Observations until the error hardly changes, of which the last period counts.
            for _ in 0..PERIODS {
                spread = observed(motion.spread_over(spread, period), variance).0;
                error = spread.level;
            }
            for _ in 1..period {
                spread = motion.later(spread);
                error += spread.level;
            }
            error / period as f64
        };
        let errors = self.motions().zip(&self.spreads).map(of_model);
        errors.zip(shares).map(|(error, share)| error * share).sum::<f64>() / self.numbers().max(1) as f64
    }
}

/// How many periods are looked ahead.
const PERIODS: u32 = 12;

#[allow(clippy::cast_precision_loss)] // a few
const fn even() -> f64 {
    1.0 / MODELS.len() as f64
}

/// A common weight, a part of which is spread evenly.
const fn mixed(common: f64) -> f64 {
    (1.0 - EVEN) * common + EVEN * even()
}
