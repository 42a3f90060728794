//! Interval arithmetic with outward rounding. It turns e^ε, which is irrational, into integer weights that are never
//! less private.
//!
//! A [`Float`] is `mantissa · 2^exponent` with a 64-bit mantissa. Each operation rounds the lower end down and the
//! upper end up, so the interval always contains the true value. An operation adds a relative error of about 2⁻⁶³. All
//! values are non-negative.

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

    /// Rounds `value · 2^exponent` in `direction`; `more` adds a positive amount below the last bit.
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

    /// The nearest float, ties away from zero; infinite or zero beyond the range of normal floats.
    fn to_f64(self) -> f64 {
        // The top 53 bits; a carry makes 2^53, which is exact too.
        let mantissa = (self.mantissa >> 11) + (self.mantissa >> 10 & 1);
        match u64::try_from(self.exponent + 11 + 1023) {
            #[allow(clippy::cast_precision_loss)] // at most 2^53
            Ok(biased @ 1..=2046) => mantissa as f64 * f64::from_bits(biased << 52),
            Ok(2047..) if mantissa > 0 => f64::INFINITY,
            _ => 0.0,
        }
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

    /// Aligns `small` to the exponent of `large`, with 62 guard bits; also returns whether bits were lost.
    fn aligned(large: Self, small: Self) -> (u128, u128, bool) {
        let high = u128::from(large.mantissa) << 62;
        let low = u128::from(small.mantissa) << 62;
        let distance = large.exponent.abs_diff(small.exponent);
        let shifted = low.checked_shr(distance).unwrap_or(0);
        let lost = shifted.checked_shl(distance).unwrap_or(0) != low;
        (high, shifted, lost)
    }

    fn add(self, other: Self, direction: Direction) -> Self {
        let (large, small) = if self.at_most(other) { (other, self) } else { (self, other) };
        let (high, low, lost) = Self::aligned(large, small);
        Self::round(high + low, large.exponent - 62, lost, direction)
    }

    /// `self - other`, or zero if negative.
    fn sub(self, other: Self, direction: Direction) -> Self {
        if other.mantissa == 0 {
            return self;
        }
        if self.at_most(other) {
            return Self::ZERO;
        }
        let (high, low, lost) = Self::aligned(self, other);
        // Lost bits of the subtrahend make the true difference smaller by less than one.
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

    /// Rounds `self · 2^shift` to an integer in `direction`; `None` beyond `u64`.
    fn to_integer(self, shift: i32, direction: Direction) -> Option<u64> {
        let exponent = self.exponent + shift;
        if self.mantissa == 0 {
            return Some(0);
        }
        if exponent > 0 {
            return None;
        }
        let distance = exponent.unsigned_abs();
        let kept = self.mantissa.checked_shr(distance).unwrap_or(0);
        let inexact = kept.checked_shl(distance).unwrap_or(0) != self.mantissa;
        kept.checked_add(u64::from(inexact && direction == Direction::Up))
    }
}

/// The number e.
static E: OnceLock<Interval> = OnceLock::new();

/// A pair of floats that encloses a non-negative real number.
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
        // For x <= 1 the omitted terms sum to less than the last one kept.
        let upper = sum.upper.add(term.upper, Direction::Up);
        Self { lower: sum.lower, upper }
    }

    pub(crate) fn add(self, other: Self) -> Self {
        Self { lower: self.lower.add(other.lower, Direction::Down), upper: self.upper.add(other.upper, Direction::Up) }
    }

    /// The difference, or zero if negative.
    pub(crate) fn sub(self, other: Self) -> Self {
        Self { lower: self.lower.sub(other.upper, Direction::Down), upper: self.upper.sub(other.lower, Direction::Up) }
    }

    pub(crate) fn mul(self, other: Self) -> Self {
        Self { lower: self.lower.mul(other.lower, Direction::Down), upper: self.upper.mul(other.upper, Direction::Up) }
    }

    /// The quotient. The divisor's lower end must be positive.
    pub(crate) fn div(self, other: Self) -> Self {
        debug_assert!(other.lower.mantissa != 0, "division by an interval that contains zero");
        Self { lower: self.lower.div(other.upper, Direction::Down), upper: self.upper.div(other.lower, Direction::Up) }
    }

    /// The float nearest to the lower bound.
    pub(crate) fn as_f64(self) -> f64 {
        self.lower.to_f64()
    }

    /// A lower bound of `self · factor`, rounded down to an integer; `None` beyond `u64`.
    pub(crate) fn floor_times(self, factor: u64) -> Option<u64> {
        self.lower.mul(Float::from_integer(factor), Direction::Down).to_integer(0, Direction::Down)
    }

    /// An upper bound of `self · 2^64`, rounded up to an integer; `None` beyond `u64`. For probabilities below one.
    pub(crate) fn probability_up(self) -> Option<u64> {
        self.upper.to_integer(64, Direction::Up)
    }

    /// A lower bound of `self · 2^64`, rounded down to an integer; `None` beyond `u64`. For probabilities below one.
    pub(crate) fn probability_down(self) -> Option<u64> {
        self.lower.to_integer(64, Direction::Down)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {
    use dashu::integer::{IBig, UBig};
    use dashu::rational::RBig;

    use super::*;
    use crate::exact::{exp_bounds, many_epsilons, power_of_two_times};
    use crate::{Epsilon, Randomness, SeededRandom, UNITS_PER_EPSILON};

    fn value(float: Float) -> f64 {
        float.mantissa as f64 * 2_f64.powi(float.exponent)
    }

    fn exact(float: Float) -> RBig {
        power_of_two_times(float.mantissa, float.exponent)
    }

    /// Asserts that `rounded` is the float nearest to `exact_value` in the direction.
    #[track_caller]
    fn assert_rounded(rounded: Float, exact_value: &RBig, direction: Direction) {
        if rounded == Float::ZERO {
            assert_eq!(exact_value, &RBig::ZERO);
            return;
        }
        assert_eq!(rounded.mantissa >> 63, 1, "{rounded:?} is not normalised");
        let (here, step) = (exact(rounded), power_of_two_times(1_u8, rounded.exponent));
        match direction {
            Direction::Down => assert!(here <= *exact_value && *exact_value < here + step, "{rounded:?}"),
            Direction::Up => {
                let step = if rounded.mantissa == 1 << 63 { step / RBig::from(2) } else { step };
                assert!(here.clone() - step < *exact_value && *exact_value <= here, "{rounded:?}");
            }
        }
    }

    /// Floats with few and with many bits, near each other and far apart.
    fn many_floats() -> Vec<Float> {
        let mut random = SeededRandom::new(1);
        let mut floats = vec![Float::ZERO];
        for exponent in [-200, -128, -127, -126, -125, -65, -64, -63, -62, -61, -2, -1, 0, 1, 2, 61, 62, 63, 64, 65] {
            let random_mantissa = random.next_word() | 1 << 63;
            for mantissa in [1 << 63, (1 << 63) + 1, 3 << 62, u64::MAX - 1, u64::MAX, random_mantissa] {
                floats.push(Float { mantissa, exponent });
            }
        }
        floats
    }

    #[test]
    fn operations_round_to_the_nearest_float() {
        let floats = many_floats();
        for &a in &floats {
            for &b in &floats {
                let (exact_a, exact_b) = (exact(a), exact(b));
                let difference = if exact_a < exact_b { RBig::ZERO } else { &exact_a - &exact_b };
                let (sum, product) = (&exact_a + &exact_b, &exact_a * &exact_b);
                for direction in [Direction::Down, Direction::Up] {
                    assert_rounded(a.add(b, direction), &sum, direction);
                    assert_rounded(a.sub(b, direction), &difference, direction);
                    assert_rounded(a.mul(b, direction), &product, direction);
                    if b != Float::ZERO {
                        assert_rounded(a.div(b, direction), &(&exact_a / &exact_b), direction);
                    }
                }
                assert_eq!(a.at_most(b), exact_a <= exact_b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn integers_are_the_exact_floor_and_ceiling() {
        for float in many_floats() {
            for shift in [-64, -1, 0, 1, 64, 127, 128] {
                let scaled = exact(float) * power_of_two_times(1_u8, shift);
                let whole = |integer: IBig| u64::try_from(integer).ok();
                assert_eq!(float.to_integer(shift, Direction::Down), whole(scaled.floor()), "{float:?} {shift}");
                assert_eq!(float.to_integer(shift, Direction::Up), whole(scaled.ceil()), "{float:?} {shift}");
            }
            let interval = Interval { lower: float, upper: float };
            for factor in [0, 1, 3, u64::MAX] {
                let product = exact(float) * RBig::from(UBig::from(factor));
                assert_eq!(interval.floor_times(factor), u64::try_from(product.floor()).ok(), "{float:?} {factor}");
            }
        }
    }

    #[test]
    fn interval_operations_enclose_every_pair_of_members() {
        let member = |lower: u64, upper: u64| {
            let end = |mantissa: u64| Float { mantissa: mantissa | 1 << 63, exponent: -63 };
            Interval { lower: end(lower.min(upper)), upper: end(lower.max(upper)) }
        };
        let mut random = SeededRandom::new(2);
        for _ in 0..500 {
            let mut draw = || member(random.next_word(), random.next_word());
            let (a, b) = (draw(), draw());
            let ends = |interval: Interval| (exact(interval.lower), exact(interval.upper));
            let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
            let cut = |number: RBig| if number < RBig::ZERO { RBig::ZERO } else { number };
            for (result, low, high) in [
                (a.add(b), &a_low + &b_low, &a_high + &b_high),
                (a.sub(b), cut(&a_low - &b_high), cut(&a_high - &b_low)),
                (a.mul(b), &a_low * &b_low, &a_high * &b_high),
                (a.div(b), &a_low / &b_high, &a_high / &b_low),
            ] {
                assert_rounded(result.lower, &low, Direction::Down);
                assert_rounded(result.upper, &high, Direction::Up);
            }
            assert_eq!(a.probability_up(), a.upper.to_integer(64, Direction::Up));
            assert_eq!(a.probability_down(), a.lower.to_integer(64, Direction::Down));
        }
    }

    #[test]
    fn exp_encloses_exact_rational_bounds_tightly() {
        for units in [0].into_iter().chain(many_epsilons(Epsilon::MAX.units())) {
            for denominator in [UNITS_PER_EPSILON, 2 * UNITS_PER_EPSILON] {
                let interval = Interval::exp(units, denominator);
                let (below, above) = exp_bounds(units, denominator);
                let (lower, upper) = (exact(interval.lower), exact(interval.upper));
                assert!(lower <= below && above <= upper, "{units}/{denominator}");
                // About a hundred roundings for the fraction, and as many again for each whole power.
                let parts = RBig::from(units / denominator + 1) * power_of_two_times(1_u8, -57);
                assert!(&upper - &lower <= lower * parts, "{units}/{denominator}");
            }
        }
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
    fn exp_agrees_with_the_float_library() {
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
