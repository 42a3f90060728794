//! Interval arithmetic with outward rounding: how the kernel turns e^ε, which is irrational, into integer weights that
//! are certainly on the private side.
//!
//! A [`Float`] is `mantissa · 2^exponent` with a 64-bit mantissa. Each operation rounds its lower end down and its
//! upper end up, so the true value always lies inside, and a relative error of about 2⁻⁶³ is added per operation.
//! All values are non-negative.

use std::cmp::Ordering;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Down,
    Up,
}

/// `mantissa · 2^exponent`; the mantissa has its top bit set, or is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Float {
    mantissa: u64,
    exponent: i32,
}

impl Float {
    const ZERO: Self = Self { mantissa: 0, exponent: 0 };

    /// The nearest float in `direction` to `value · 2^exponent`, plus something positive below the last bit if `more`.
    fn round(value: u128, exponent: i32, more: bool, direction: Direction) -> Self {
        if value == 0 {
            // Only reached with `more` false: no operation here loses all its bits.
            return Self::ZERO;
        }
        let bits = 128 - value.leading_zeros();
        let shift = bits.saturating_sub(64);
        let kept = value >> shift;
        let inexact = more || (kept << shift) != value;
        let kept = kept + u128::from(inexact && direction == Direction::Up);
        // Rounding up may carry into a 65th bit; then the low bit is zero and halving is exact.
        let (kept, shift) = if kept >> 64 == 0 { (kept, shift) } else { (kept >> 1, shift + 1) };
        #[allow(clippy::cast_possible_truncation)] // below 2^64 by the line above
        let mantissa = kept as u64;
        let normalise = mantissa.leading_zeros();
        Self { mantissa: mantissa << normalise, exponent: exponent + shift.cast_signed() - normalise.cast_signed() }
    }

    fn from_integer(value: u64) -> Self {
        Self::round(u128::from(value), 0, false, Direction::Down)
    }

    fn mul(self, other: Self, direction: Direction) -> Self {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        Self::round(product, self.exponent + other.exponent, false, direction)
    }

    fn div(self, other: Self, direction: Direction) -> Self {
        let (numerator, denominator) = (u128::from(self.mantissa) << 64, u128::from(other.mantissa));
        let exponent = self.exponent - other.exponent - 64;
        Self::round(numerator / denominator, exponent, numerator % denominator != 0, direction)
    }

    /// `small` on the scale of `large`, 62 bits below its mantissa, and whether bits fell off.
    fn aligned(large: Self, small: Self) -> (u128, u128, bool) {
        let high = u128::from(large.mantissa) << 62;
        let low = u128::from(small.mantissa) << 62;
        let distance = large.exponent.abs_diff(small.exponent);
        let shifted = low.checked_shr(distance).unwrap_or(0);
        let lost = shifted.checked_shl(distance).unwrap_or(0) != low;
        (high, shifted, lost)
    }

    fn add(self, other: Self, direction: Direction) -> Self {
        match (self.mantissa, other.mantissa) {
            (0, _) => other,
            (_, 0) => self,
            _ => {
                let (large, small) = if self.at_most(other) { (other, self) } else { (self, other) };
                let (high, low, lost) = Self::aligned(large, small);
                Self::round(high + low, large.exponent - 62, lost, direction)
            }
        }
    }

    /// `self - other`, and zero where that would be negative.
    fn sub(self, other: Self, direction: Direction) -> Self {
        if other.mantissa == 0 {
            return self;
        }
        if self.at_most(other) {
            return Self::ZERO;
        }
        let (high, low, lost) = Self::aligned(self, other);
        // Bits that fell off the subtrahend make the true difference smaller by less than one.
        Self::round(high - low - u128::from(lost), self.exponent - 62, lost, direction)
    }

    fn at_most(self, other: Self) -> bool {
        match (self.mantissa, other.mantissa) {
            (0, _) => true,
            (_, 0) => false,
            _ => match self.exponent.cmp(&other.exponent) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => self.mantissa <= other.mantissa,
            },
        }
    }

    /// The integer next to `self · 2^shift` in `direction`, or `None` if it exceeds `u64`.
    fn to_integer(self, shift: i32, direction: Direction) -> Option<u64> {
        let exponent = self.exponent + shift;
        if self.mantissa == 0 {
            return Some(0);
        }
        if exponent >= 0 {
            return if exponent == 0 { Some(self.mantissa) } else { None };
        }
        let distance = exponent.unsigned_abs();
        let kept = self.mantissa.checked_shr(distance).unwrap_or(0);
        let inexact = kept.checked_shl(distance).unwrap_or(0) != self.mantissa;
        kept.checked_add(u64::from(inexact && direction == Direction::Up))
    }
}

/// The number e.
static E: OnceLock<Interval> = OnceLock::new();

/// A pair of floats that certainly encloses a non-negative real number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interval {
    lower: Float,
    upper: Float,
}

impl Interval {
    pub(crate) fn integer(value: u64) -> Self {
        let exact = Float::from_integer(value);
        Self { lower: exact, upper: exact }
    }

    /// e to the power of `numerator / denominator`; the power is at most [`Epsilon::MAX`](crate::Epsilon::MAX).
    pub(crate) fn exp(numerator: u64, denominator: u64) -> Self {
        let (whole, rest) = (numerator / denominator, numerator % denominator);
        let fraction = Self::integer(rest).div(Self::integer(denominator));
        let mut power = Self::exp_of_fraction(fraction);
        let mut square = *E.get_or_init(|| Self::exp_of_fraction(Self::integer(1)));
        let mut remaining = whole;
        while remaining > 0 {
            if remaining & 1 == 1 {
                power = power.mul(square);
            }
            remaining >>= 1;
            if remaining > 0 {
                square = square.mul(square);
            }
        }
        power
    }

    /// e^x for 0 <= x <= 1, by its Taylor series.
    fn exp_of_fraction(x: Self) -> Self {
        const TERMS: u64 = 28;
        let mut term = Self::integer(1);
        let mut sum = Self::integer(1);
        for index in 1..=TERMS {
            term = term.mul(x).div(Self::integer(index));
            sum = sum.add(term);
        }
        // For x <= 1 the terms left out sum to less than the last one kept.
        let upper = sum.upper.add(term.upper, Direction::Up);
        Self { lower: sum.lower, upper }
    }

    pub(crate) fn add(self, other: Self) -> Self {
        Self { lower: self.lower.add(other.lower, Direction::Down), upper: self.upper.add(other.upper, Direction::Up) }
    }

    /// The difference, cut at zero.
    pub(crate) fn sub(self, other: Self) -> Self {
        Self { lower: self.lower.sub(other.upper, Direction::Down), upper: self.upper.sub(other.lower, Direction::Up) }
    }

    pub(crate) fn mul(self, other: Self) -> Self {
        Self { lower: self.lower.mul(other.lower, Direction::Down), upper: self.upper.mul(other.upper, Direction::Up) }
    }

    /// The quotient. The divisor must be certainly positive.
    pub(crate) fn div(self, other: Self) -> Self {
        debug_assert!(other.lower.mantissa != 0, "division by an interval that contains zero");
        Self { lower: self.lower.div(other.upper, Direction::Down), upper: self.upper.div(other.lower, Direction::Up) }
    }

    /// The largest integer certainly not above `self · factor`, or `None` beyond `u64`.
    pub(crate) fn floor_times(self, factor: u64) -> Option<u64> {
        self.lower.mul(Float::from_integer(factor), Direction::Down).to_integer(0, Direction::Down)
    }

    /// The smallest integer certainly not below `self · 2^64`, or `None` beyond `u64`. For probabilities below one.
    pub(crate) fn probability_up(self) -> Option<u64> {
        self.upper.to_integer(64, Direction::Up)
    }

    /// The largest integer certainly not above `self · 2^64`, or `None` beyond `u64`. For probabilities below one.
    pub(crate) fn probability_down(self) -> Option<u64> {
        self.lower.to_integer(64, Direction::Down)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {
    use super::*;

    fn value(float: Float) -> f64 {
        float.mantissa as f64 * 2_f64.powi(float.exponent)
    }

    #[test]
    fn exp_encloses_the_true_value_tightly() {
        // First 19 significant digits of e^x, from tables.
        for (numerator, denominator, digits, scale) in [
            (1_u64, 1_u64, 2_718_281_828_459_045_235_u64, 18_i32),
            (1, 2, 1_648_721_270_700_128_146, 18),
            (10, 1, 2_202_646_579_480_671_651, 14),
            (1, 10, 1_105_170_918_075_647_624, 18),
        ] {
            let interval = Interval::exp(numerator, denominator);
            // lower · 10^scale <= digits + 1 and upper · 10^scale >= digits, exactly in integers.
            let scaled =
                |float: Float, direction| float.mul(Float::from_integer(10_u64.pow(scale.unsigned_abs())), direction);
            let lower = scaled(interval.lower, Direction::Down).to_integer(0, Direction::Down).unwrap();
            let upper = scaled(interval.upper, Direction::Up).to_integer(0, Direction::Up).unwrap();
            assert!(lower <= digits + 1, "{lower} {digits}");
            assert!(upper >= digits, "{upper} {digits}");
            assert!((upper - lower) as f64 / (lower as f64) < 1e-16, "{lower} {upper}");
        }
    }

    #[test]
    fn exp_agrees_with_the_float_library_over_the_whole_range() {
        for tenth in 0..=3_000_u64 {
            let interval = Interval::exp(tenth, 10);
            let expected = (tenth as f64 / 10.0).exp();
            assert!((value(interval.lower) / expected - 1.0).abs() < 1e-13, "{tenth}");
            assert!((value(interval.upper) / expected - 1.0).abs() < 1e-13, "{tenth}");
            assert!(interval.lower.at_most(interval.upper));
        }
    }

    #[test]
    fn operations_enclose_exact_rational_results() {
        // Small integers: sums, products and quotients are checked by cross-multiplication in u128.
        for a in 1..60_u64 {
            for b in 1..60_u64 {
                let quotient = Interval::integer(a).div(Interval::integer(b));
                let back = quotient.mul(Interval::integer(b));
                assert!(back.lower.at_most(Float::from_integer(a)));
                assert!(Float::from_integer(a).at_most(back.upper));
                let sum = quotient.add(Interval::integer(1)).mul(Interval::integer(b));
                assert!(sum.lower.at_most(Float::from_integer(a + b)));
                assert!(Float::from_integer(a + b).at_most(sum.upper));
                let difference = quotient.add(Interval::integer(3)).sub(quotient);
                assert!(difference.lower.at_most(Float::from_integer(3)));
                assert!(Float::from_integer(3).at_most(difference.upper));
                assert!((value(difference.upper) - 3.0).abs() < 1e-15);
            }
        }
        assert_eq!(Interval::integer(2).sub(Interval::integer(5)), Interval::integer(0));
    }

    #[test]
    fn integers_are_cut_on_the_stated_side() {
        let third = Interval::integer(1).div(Interval::integer(3));
        assert_eq!(third.floor_times(10), Some(3));
        assert_eq!(third.probability_down(), Some(u64::MAX / 3));
        assert_eq!(third.probability_up(), Some(u64::MAX / 3 + 1));
        assert_eq!(Interval::integer(1).probability_up(), None);
        assert_eq!(Interval::exp(1_000, 1).floor_times(1), None);
    }
}
