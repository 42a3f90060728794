//! Numbers as people read them: without the digits that floats add.

use super::{Number, Release, Statistic};
use crate::tree::Tree;

/// Digits of a number beyond the first of its standard deviation: what is left out is below a millionth of the noise.
const BEYOND: i32 = 6;

/// Significant digits of a number without a stated error: floats hold so many of any decimal.
const DIGITS: usize = 15;

/// Significant digits of a variance.
const VARIANCE_DIGITS: usize = 12;

/// Rounds an estimate to a millionth of its standard deviation, or less. One without a stated error, or without any,
/// keeps 15 significant digits.
///
/// ```
/// use tidegate::release::{UNSTATED, readable};
///
/// assert_eq!(-10.0 + 342.0 * 0.1, 24.200000000000003);
/// assert_eq!(readable(-10.0 + 342.0 * 0.1, 200.0), 24.2);
/// assert_eq!(readable(-10.0 + 342.0 * 0.1, UNSTATED), 24.2);
/// assert_eq!(readable(0.123_456_789_123, 0.0004), 0.12345679);
/// assert_eq!(readable(1_000_000_000.000_001, 1e-12), 1_000_000_000.000_001);
/// ```
pub fn readable(value: f64, variance: f64) -> f64 {
    // Whole numbers have no digits to spare.
    if value.fract() == 0.0 || !value.is_finite() {
        return value;
    }
    if !variance.is_finite() || variance <= 0.0 {
        return significant(value, DIGITS);
    }
    #[allow(clippy::cast_possible_truncation)] // a logarithm of a float
    let decimals = BEYOND - (0.5 * variance.log10()).floor() as i32;
    let decimals = usize::try_from(decimals).unwrap_or_default();
    // No float has digits so far behind the point.
    // The sum has no negative zero.
    if decimals > 300 { value } else { format!("{value:.decimals$}").parse().unwrap_or(value) + 0.0 }
}

/// Rounds to so many significant digits.
fn significant(value: f64, digits: usize) -> f64 {
    let decimals = digits - 1;
    format!("{value:.decimals$e}").parse().unwrap_or(value)
}

/// Rounds a variance to 12 significant digits.
pub(crate) fn readable_variance(variance: f64) -> f64 {
    if variance.fract() == 0.0 || !variance.is_finite() { variance } else { significant(variance, VARIANCE_DIGITS) }
}

fn pair((value, variance): (f64, f64)) -> (f64, f64) {
    (readable(value, variance), readable_variance(variance))
}

/// Rounds numbers and their variances.
fn all(values: &mut [f64], variances: &mut [f64]) {
    for (value, variance) in values.iter_mut().zip(variances) {
        (*value, *variance) = pair((*value, *variance));
    }
}

impl Release {
    /// The release with numbers as people [read](readable) them. That is how it is published.
    #[must_use]
    pub fn readable(mut self) -> Self {
        match &mut self.statistic {
            Statistic::Histogram(histogram) => all(&mut histogram.frequencies, &mut histogram.variances),
            Statistic::Counts(counts) => all(&mut counts.counts, &mut counts.variances),
            Statistic::Number(Number { value, variance }) => (*value, *variance) = pair((*value, *variance)),
            Statistic::Tree(tree) => {
                let (frequencies, variances) = tree.nodes();
                *tree = Tree::from_positions(*tree.shape(), |node| pair((frequencies[node], variances[node])));
            }
            Statistic::Symbol(_) => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp)]

    use super::*;
    use crate::release::UNSTATED;

    #[test]
    fn what_is_left_out_is_a_millionth_of_the_noise() {
        for power in -12..12 {
            let deviation = 3.7 * 10_f64.powi(power);
            for step in 1..200 {
                let value = f64::from(step) * 0.123_456_789_123_456_7 * deviation;
                let read = readable(value, deviation * deviation);
                assert!((read - value).abs() <= 1e-6 * deviation, "{value} {deviation}");
                assert!(format!("{read}").len() <= format!("{value}").len(), "{read} {value}");
                assert_eq!(readable(-value, deviation * deviation), -read);
                assert_eq!(readable(read, deviation * deviation), read);
            }
        }
    }

    #[test]
    fn grids_of_decimals_are_read_as_decimals() {
        for steps in -500_i32..1_500 {
            // Cancellation leaves errors far above the last digit.
            let value = -10.0 + f64::from(steps) * 0.1;
            let expected: f64 = format!("{:.1}", f64::from(steps - 100) / 10.0).parse().unwrap_or_default();
            assert_eq!(readable(value, 0.02), expected, "{value}");
        }
        assert_eq!(readable_variance(0.02 + 1e-17), 0.02);
        assert_eq!(
            [readable(f64::NAN, 1.0).is_nan(), readable(UNSTATED, 1.0) == UNSTATED, readable(4e18, UNSTATED) == 4e18],
            [true; 3]
        );
        assert_eq!(readable(5e-324, 5e-324), 0.0, "far below its deviation");
    }
}
