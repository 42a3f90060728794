//! Exact rational bounds of e^x, for tests of rounding directions.

use dashu::base::DivRem;
use dashu::integer::UBig;
use dashu::rational::RBig;

/// Fractional bits.
const PLACES: usize = 512;

/// Terms of the Taylor series. For x <= 1 the first omitted term is below `2^-512`.
const TERMS: u64 = 100;

/// Rationals `(below, above)` with `below <= e^(numerator / denominator) <= above`, less than 2^-480 of e^x apart.
pub(crate) fn exp_bounds(numerator: u64, denominator: u64) -> (RBig, RBig) {
    // e^x = (e^(x / 2^halvings))^(2^halvings), with an argument of at most one on the right.
    let halvings = (0..64).find(|shift| u128::from(numerator) <= u128::from(denominator) << shift).unwrap_or(64);
    let divisor = UBig::from(denominator) << halvings;
    let one = UBig::ONE << PLACES;
    let (mut below, mut above) = (one.clone(), one.clone());
    let (mut term_below, mut term_above) = (one.clone(), one);
    for index in 1..=TERMS {
        let factor = &divisor * index;
        term_below = term_below * numerator / &factor;
        term_above = divide_up(term_above * numerator, &factor);
        below += &term_below;
        above += &term_above;
    }
    // Each omitted term is less than half of the one before.
    above += term_above;
    for _ in 0..halvings {
        below = (&below * &below) >> PLACES;
        above = divide_up(&above * &above, &(UBig::ONE << PLACES));
    }
    (scaled(below), scaled(above))
}

/// `mantissa · 2^exponent`.
pub(crate) fn power_of_two_times(mantissa: impl Into<UBig>, exponent: i32) -> RBig {
    let (mantissa, distance) = (mantissa.into(), exponent.unsigned_abs() as usize);
    if exponent >= 0 {
        RBig::from_parts((mantissa << distance).into(), UBig::ONE)
    } else {
        RBig::from_parts(mantissa.into(), UBig::ONE << distance)
    }
}

fn divide_up(numerator: UBig, denominator: &UBig) -> UBig {
    let (quotient, remainder) = numerator.div_rem(denominator);
    if remainder == UBig::ZERO { quotient } else { quotient + UBig::ONE }
}

fn scaled(number: UBig) -> RBig {
    RBig::from_parts(number.into(), UBig::ONE << PLACES)
}

/// Epsilons for rounding tests, in units: both ends, small and round ones, and others spread up to `largest`.
pub(crate) fn many_epsilons(largest: u64) -> Vec<u64> {
    let ends = [1, 2, 3, 7, 999, 1_000_000, 333_333_333, 999_999_999, 1_000_000_000, 1_000_000_001];
    let top = (0..3).map(|below| largest - below);
    // Multiples of the golden ratio spread evenly over any range.
    let spread = (1..200_u64).map(|step| step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % largest + 1);
    let small = (1..60_u64).map(|step| step * step * step * 1_000 + step).filter(|units| *units <= largest);
    ends.into_iter().filter(|units| *units <= largest).chain(top).chain(spread).chain(small).collect()
}

#[test]
fn bounds_enclose_known_digits_of_e() {
    // 60 digits of e and of e^10.
    for (numerator, digits, scale) in [
        (1, "271828182845904523536028747135266249775724709369995957496696", 59),
        (10, "220264657948067165169579006452842443663535126185567810742354", 55),
    ] {
        let (below, above) = exp_bounds(numerator, 1);
        let digits: UBig = digits.parse().unwrap_or_default();
        let ten = UBig::from(10_u8).pow(scale);
        assert!(below <= RBig::from_parts((&digits + UBig::ONE).into(), ten.clone()));
        assert!(above >= RBig::from_parts(digits.into(), ten));
        assert!(&above - &below < power_of_two_times(1_u8, -460));
    }
    assert_eq!(exp_bounds(0, 5).0, RBig::ONE);
}
