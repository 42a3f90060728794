//! Means of numbers: a discrete form of the piecewise mechanism (Wang et al. 2019: Collecting and Analyzing
//! Multidimensional Data with Local Differential Privacy, ICDE, doi:10.1109/ICDE.2019.00063, Algorithm 2).
//!
//! A device rounds its number at random to one of `B + 1` levels, without bias. Of `B + W` outputs it then reports one
//! of the `W` beginning at its level with weight `a` each, and any other with weight `b`. With one level above zero and
//! a window of one this is the mechanism of Duchi, Jordan and Wainwright (2018); with many it is the piecewise one.
//! `B` and `W` have the lowest variance for the worst number.

use std::num::{NonZeroU32, NonZeroU64};

use crate::epsilon::Epsilon;
use crate::noise::{Below, bernoulli};
use crate::oracle::index_codec::IndexCodec;
use crate::oracle::{Estimate, MeanError, Support, Variance};
use crate::random::Randomness;
use crate::randomised_response::{MAX_DOMAIN, ResponseError, odds};

/// Most levels above zero. More would lower the variance by less than a hundredth up to epsilon 8.
const MOST_LEVELS: u32 = 64;

/// The oracle of a grid of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piecewise {
    /// Steps from the first point of the grid to the last.
    steps: NonZeroU64,
    law: Law,
    truth: u64,
    other: NonZeroU64,
    below_total: Below,
    codec: IndexCodec,
}

impl Piecewise {
    /// Creates the oracle of a grid of so many points, at a loss of at most `epsilon` and within one part in 10⁹ of it.
    pub(crate) fn new(points: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        let steps = points.checked_sub(1).and_then(NonZeroU32::new).filter(|_| points <= MAX_DOMAIN);
        let steps = steps.ok_or(ResponseError::Domain { given: u64::from(points) })?;
        let Law { levels, window, .. } = Law::best(steps.get(), epsilon.exp_as_f64());
        let (near, far) = (u64::from(window), u64::from(levels));
        let (truth, other) = odds(near, far, epsilon)?;
        let total = NonZeroU64::MIN.saturating_add(near * truth + far * other.get() - 1);
        #[allow(clippy::cast_precision_loss)] // a public ratio
        let law = Law { levels, window, ratio: truth as f64 / other.get() as f64 };
        let codec = IndexCodec::new(levels + window);
        Ok(Self { steps: steps.into(), law, truth, other, below_total: Below::new(total), codec })
    }

    pub(crate) const fn codec(&self) -> &IndexCodec {
        &self.codec
    }

    /// The probabilities of an output inside the window and outside of it.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn support(&self) -> Support {
        let total = self.below_total.bound() as f64;
        Support { own: self.truth as f64 / total, other: self.other.get() as f64 / total }
    }

    /// The variance of a mean of so many reports where all numbers are those with the largest one.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn variance(&self, reports: u64) -> Variance {
        Variance { constant: self.law.worst() / reports as f64, slope: 0.0 }
    }

    /// The level below a point, and the point's distance from it in parts of a level, of which there are
    /// [`steps`](Self::steps).
    fn level_of(&self, point: u32) -> (u32, u64) {
        let scaled = u64::from(point) * u64::from(self.law.levels);
        #[allow(clippy::cast_possible_truncation)] // at most the number of levels
        let level = (scaled / self.steps) as u32;
        (level, scaled % self.steps)
    }

    /// Draws a report. Each draw is made whatever the point is.
    #[inline]
    pub(crate) fn perturb(&self, point: u32, random: &mut impl Randomness, report: &mut [u8]) {
        let (below, beyond) = self.level_of(point);
        let level = below + u32::from(bernoulli(beyond, self.steps, random));
        let drawn = self.below_total.sample(random);
        #[allow(clippy::cast_possible_truncation)] // below the number of outputs
        let output = match drawn.checked_sub(u64::from(self.law.window) * self.truth) {
            None => level + (drawn / self.truth) as u32,
            Some(outside) => {
                let output = (outside / self.other) as u32;
                if output < level { output } else { output + self.law.window }
            }
        };
        self.codec.write(output, report);
    }

    /// The probabilities of all outputs at a point.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn probabilities(&self, point: u32) -> Vec<f64> {
        let (level, beyond) = self.level_of(point);
        let up = beyond as f64 / self.steps.get() as f64;
        let Support { own, other } = self.support();
        let at = |output: u32, level: u32| {
            if (level..level + self.law.window).contains(&output) { own } else { other }
        };
        (0..self.codec.bound()).map(|output| (1.0 - up) * at(output, level) + up * at(output, level + 1)).collect()
    }

    /// The log-probability of a well-formed report.
    pub(crate) fn log_likelihood(&self, point: u32, report: &[u8]) -> f64 {
        let output = self.codec.read(report).map_or(usize::MAX, |output| output as usize);
        self.probabilities(point).get(output).map_or(f64::NEG_INFINITY, |probability| probability.ln())
    }

    /// The mean as a share of the range, from the number of reports of each output.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn estimate(&self, counts: &[u64], reports: u64) -> Estimate {
        let law = &self.law;
        let (levels, slope, n) = (f64::from(law.levels), law.slope(), reports as f64);
        let middle = (counts.len() as f64 - 1.0) / 2.0;
        let moment = |power: i32| {
            let term = |(output, count): (usize, &u64)| *count as f64 * (output as f64 - middle).powi(power);
            counts.iter().enumerate().map(term).sum::<f64>() / n
        };
        let (first, second) = (moment(1), moment(2));
        let mean = first / slope / levels + 0.5;
        let unbiased = (second - first * first).max(0.0) / (slope * levels).powi(2) / (n - 1.0);
        // What a mean within the range, and numbers within it, allow.
        let within = mean.clamp(0.0, 1.0);
        let least = law.rounded_square(within);
        let square = ((second - law.floor()) / slope).min(levels * levels / 4.0).max(least);
        let scatter = (square - least) / (levels * levels);
        let variance = Variance { constant: law.at(within, scatter) / n, slope: 0.0 };
        let error = MeanError { unbiased: (reports > 1).then_some(unbiased), scatter };
        Estimate::of_mean(mean, reports, variance, error)
    }
}

/// The variance of one report as an estimate of the mean, as a share of the squared range, where numbers have a mean
/// that is so large a share of the range, and so large a variance.
pub fn mean_variance(points: u32, epsilon: Epsilon, mean: f64, scatter: f64) -> f64 {
    Law::best(points.saturating_sub(1).max(1), epsilon.exp_as_f64()).at(mean.clamp(0.0, 1.0), scatter)
}

/// The largest variance of one report, whatever the numbers are.
pub(super) fn worst_variance(points: u32, ratio: f64) -> f64 {
    Law::best(points.saturating_sub(1).max(1), ratio).worst()
}

/// The length of a report in bytes: there are never more outputs than a byte has values.
pub(super) const REPORT_LENGTH: usize = 1;

/// The distribution of reports. Levels and outputs are counted from their middle; formulas are those of the
/// [proof](crate::proofs::piecewise). Floating point is for public formulas only, and with operations that are exact to
/// the last bit on every platform: devices and collectors must choose alike.
#[derive(Clone, Copy, Debug)]
struct Law {
    levels: u32,
    window: u32,
    /// Weight of an output inside the window, over that of one outside.
    ratio: f64,
}

impl Law {
    /// The levels and the window of the lowest [worst](Self::worst) variance.
    fn best(steps: u32, ratio: f64) -> Self {
        // The best has about as many levels as the root of the ratio, and a window of less than half of them.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least 4; beyond the range, its end
        let most = ((1.0 + 3.0 * ratio.sqrt()) as u32).min(MOST_LEVELS).min(steps);
        let all = (1..=most).flat_map(|levels| {
            let widest = (levels / 2 + 1).min(levels);
            (1..=widest).map(move |window| Self { levels, window, ratio })
        });
        let first = Self { levels: 1, window: 1, ratio };
        // Differences due to rounding are ties, which fewer outputs win.
        let better = |(best, lowest): (Self, f64), next: Self| {
            let variance = next.worst();
            if variance < lowest * (1.0 - 1e-9) { (next, variance) } else { (best, lowest) }
        };
        all.fold((first, first.worst()), better).0
    }

    fn total(&self) -> f64 {
        f64::from(self.window) * self.ratio + f64::from(self.levels)
    }

    /// By how much the mean output grows from a level to the next: `(u-1) W / (Wu + B)`.
    fn slope(&self) -> f64 {
        (self.ratio - 1.0) * f64::from(self.window) / self.total()
    }

    /// The mean square of an output at the middle level.
    fn floor(&self) -> f64 {
        let (outputs, window) = (f64::from(self.levels + self.window), f64::from(self.window));
        let squares = |count: f64| count * (count * count - 1.0) / 12.0;
        (squares(outputs) + (self.ratio - 1.0) * squares(window)) / self.total()
    }

    /// The mean square of the level to which a number is rounded, given as a share of the range.
    fn rounded_square(&self, share: f64) -> f64 {
        let levels = f64::from(self.levels);
        let up = share * levels - (share * levels).floor();
        ((share - 0.5) * levels) * ((share - 0.5) * levels) + up * (1.0 - up)
    }

    /// The variance of one report, for numbers of this mean and variance.
    fn at(&self, mean: f64, scatter: f64) -> f64 {
        let (levels, slope) = (f64::from(self.levels), self.slope());
        let own = self.floor() / (slope * slope) + self.rounded_square(mean) / slope;
        let middle = (mean - 0.5) * levels;
        (own - middle * middle) / (levels * levels) + scatter / slope
    }

    /// The variance of a report of the number with the largest one, which lies between the last two levels.
    fn worst(&self) -> f64 {
        let (levels, slope) = (f64::from(self.levels), self.slope());
        let from_end = ((1.0 - (1.0 - slope) * levels) / (2.0 * slope * levels)).clamp(0.0, 1.0 / levels);
        self.at(1.0 - from_end, 0.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn epsilon(text: &str) -> Epsilon {
        text.parse().unwrap()
    }

    #[test]
    fn the_worst_number_has_the_largest_variance() {
        for levels in 1..12 {
            for window in 1..=levels {
                for ratio in [1.001, 1.5, 2.0, 5.0, 50.0, 3_000.0] {
                    let law = Law { levels, window, ratio };
                    let largest = (0..=4_000).map(|part| law.at(f64::from(part) / 4_000.0, 0.0)).fold(0.0, f64::max);
                    let worst = law.worst();
                    assert!(worst >= largest * (1.0 - 1e-12), "{law:?}: {worst} < {largest}");
                    assert!(worst <= largest * (1.0 + 1e-3), "{law:?}: {worst} > {largest}");
                }
            }
        }
    }

    #[test]
    fn no_other_levels_or_window_are_better() {
        for hundredths in [1, 20, 80, 110, 150, 200, 240, 300, 400, 550, 700, 900, 1_500, 2_000] {
            let ratio = Epsilon::from_units(hundredths * 10_000_000).unwrap().exp_as_f64();
            for steps in [2, 5, 1_000] {
                let found = Law::best(steps, ratio).worst();
                for levels in 1..=steps.min(MOST_LEVELS) {
                    for window in 1..=levels {
                        let other = Law { levels, window, ratio }.worst();
                        assert!(
                            found <= other * (1.0 + 1e-9),
                            "{hundredths} {steps}: {levels} {window} {other} {found}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn few_levels_serve_small_epsilons_and_many_large_ones() {
        let shape = |text: &str| {
            let Law { levels, window, .. } = Piecewise::new(1_001, epsilon(text)).unwrap().law;
            (levels, window)
        };
        assert_eq!(["0.01", "1", "2", "4"].map(shape), [(1, 1), (1, 1), (2, 1), (9, 3)]);
        // A grid of three points has no more than two levels.
        assert_eq!(Piecewise::new(3, epsilon("8")).unwrap().law.levels, 2);
    }

    // Variances of the worst number, times four: those of a range of -1 to 1, as in the papers.
    #[test]
    fn no_mechanism_of_the_literature_is_much_better() {
        for hundredths in (10..600).step_by(5) {
            let ratio = Epsilon::from_units(hundredths * 10_000_000).unwrap().exp_as_f64();
            let half = ratio.sqrt();
            let duchi = ((ratio + 1.0) / (ratio - 1.0)).powi(2);
            let piecewise = 1.0 / (half - 1.0) + (half + 3.0) / (3.0 * (half - 1.0).powi(2));
            let mixed = (half + 3.0) / (3.0 * half * (half - 1.0)) + duchi / half;
            let own = 4.0 * worst_variance(10_001, ratio);
            assert!(own <= duchi.min(piecewise) * (1.0 + 1e-9), "{hundredths}: {own} {duchi} {piecewise}");
            // The hybrid mechanism is that of Duchi et al. up to 0.61.
            let (hybrid, above) = match hundredths {
                0..=61 => (duchi, 1.0 + 1e-9),
                62..=164 => (mixed, 1.13),
                _ => (mixed, 1.0),
            };
            assert!(own <= hybrid * above, "{hundredths}: {own} {hybrid}");
        }
    }

    #[test]
    fn every_output_fits_into_a_byte() {
        for text in ["0.000000001", "0.1", "3", "6", "10", "20"] {
            let oracle = Piecewise::new(MAX_DOMAIN, epsilon(text)).unwrap();
            assert_eq!(oracle.codec().length(), REPORT_LENGTH, "{text}");
        }
    }
}
