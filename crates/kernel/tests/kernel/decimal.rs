//! Conversion of decimal text to grid steps, checked against exact rationals.

use dashu::integer::{IBig, UBig};
use dashu::rational::RBig;
use proptest::prelude::*;
use tidegate_kernel::{Decimal, DecimalError, Grid, GridError};

use crate::grid::revealed;
use crate::support::account;

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

/// Parses a number naively, as an exact rational.
fn rational(text: &str) -> RBig {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: IBig = format!("{whole}{part}").parse().unwrap();
    let exponent = exponent.parse::<i64>().unwrap() - i64::try_from(part.len()).unwrap();
    let power = UBig::from(10_u8).pow(usize::try_from(exponent.unsigned_abs()).unwrap());
    if exponent < 0 { RBig::from_parts(digits, power) } else { RBig::from(digits * IBig::from(power)) }
}

/// The grid point nearest to the clamped reading; ties go up.
fn nearest(low: &RBig, high: &RBig, step: &RBig, reading: &RBig) -> i64 {
    let clamped = if reading < low {
        low
    } else if reading > high {
        high
    } else {
        reading
    };
    let half = RBig::from_parts(1.into(), 2_u8.into());
    i64::try_from(((clamped - low) / step + half).floor()).unwrap()
}

/// Decimal text with a limited number of digits, in many spellings.
fn text(digits: usize) -> impl Strategy<Value = String> {
    let spelled = (any::<bool>(), 1..=digits, any::<u64>(), 0..=digits, -30_i32..30, 0_u8..3);
    spelled.prop_map(|(negative, length, seed, point, exponent, form)| {
        let sign = if negative { "-" } else { "" };
        let digit = |place: usize| char::from(b'0' + (seed.rotate_left(place as u32 * 7) % 10) as u8);
        let digits: String = (0..length).map(digit).collect();
        let (whole, part) = digits.split_at(point.clamp(1, length));
        match form {
            0 => format!("{sign}{digits}"),
            1 => format!("{sign}{whole}.{part}0"),
            _ => format!("{sign}00{whole}.{part}0e{exponent}"),
        }
    })
}

/// A grid, low and step as text.
fn grids() -> impl Strategy<Value = (Grid, RBig, RBig, RBig)> {
    let parts = (text(18), 1_u64..1_000_000, -12_i32..6, 1_u64..5_000, 0_u64..100);
    parts.prop_filter_map("no grid", |(low, step, exponent, steps, extra)| {
        let step_text = format!("{step}e{exponent}");
        let (low, step) = (rational(&low), rational(&step_text));
        let high = &low + &step * RBig::from(steps) + &step * RBig::from_parts(extra.into(), 100_u8.into());
        let exact = |number: &RBig| exact_text(number).parse::<Decimal>().ok();
        let grid = Grid::exact(exact(&low)?, exact(&high)?, decimal(&step_text)).ok()?;
        Some((grid, low, high, step))
    })
}

/// The text of a number that has at most 60 decimals.
fn exact_text(number: &RBig) -> String {
    let scaled = number * RBig::from(UBig::from(10_u8).pow(60));
    assert!(scaled.is_int());
    format!("{}e-60", scaled.floor())
}

proptest! {
    /// Any reading of any length is sealed as the exact rounding of its text.
    #[test]
    fn text_is_rounded_exactly((grid, low, high, step) in grids(), reading in text(60)) {
        let exact = nearest(&low, &high, &step, &rational(&reading));
        prop_assert_eq!(revealed(&grid.seal_text(account(), 0, &reading, 0)), exact);
    }

    /// Readings near the boundaries between grid points, decided by a digit far behind.
    #[test]
    fn a_last_digit_decides(
        (grid, low, high, step) in grids(), at in 0_u64..5_000, far in 1_usize..200, up in any::<bool>(),
    ) {
        let half = RBig::from_parts(1.into(), 2_u8.into());
        let hair = RBig::from_parts(1.into(), UBig::from(10_u8).pow(60 + far));
        let boundary = &low + (RBig::from(at) + half) * &step;
        let reading = if up { &boundary + &hair } else { &boundary - &hair };
        let scaled = &reading * RBig::from(UBig::from(10_u8).pow(60 + far));
        let reading_text = format!("{}e-{}", scaled.floor(), 60 + far);
        let exact = nearest(&low, &high, &step, &reading);
        prop_assert_eq!(revealed(&grid.seal_text(account(), 0, &reading_text, 0)), exact);
        let middle = nearest(&low, &high, &step, &boundary);
        prop_assert_eq!(revealed(&grid.seal_text(account(), 0, &exact_text(&boundary), 0)), middle);
    }

    /// Neighbours' steps differ by at most the proven bound, which is tight.
    #[test]
    fn neighbours_stay_within_the_sensitivity(
        (grid, low, _, step) in grids(), at in 0_u64..5_000_000, thousandths in 0_u64..3_000,
    ) {
        let thousandth = RBig::from_parts(1.into(), 1_000_u16.into());
        let first = &low + RBig::from(at) * &thousandth * &step;
        let distance = RBig::from(thousandths) * &thousandth * &step;
        let second = &first + &distance;
        let sealed = |reading: &RBig| revealed(&grid.seal_text(account(), 0, &exact_text(reading), 0));
        let [first, second] = [sealed(&first), sealed(&second)];
        let exact = decimal(&exact_text(&distance));
        let bound = grid.exact_sensitivity(exact).unwrap();
        prop_assert!(first.abs_diff(second) <= bound);
        prop_assert_eq!(bound, u64::try_from((distance / step).ceil()).unwrap().min(grid.width()));
        prop_assert_eq!(grid.sensitivity(exact).unwrap(), (bound + 1).min(grid.width()));
    }

    /// A float is sealed as the shortest decimal that parses back to it.
    #[test]
    fn a_float_stands_for_its_shortest_decimal((grid, ..) in grids(), share in 0.0..1.0_f64, halves in any::<bool>()) {
        let span = grid.high() - grid.low();
        let mut reading = grid.low() + share * span;
        if halves {
            reading = grid.low() + (((reading - grid.low()) / grid.step()).floor() + 0.5) * grid.step();
        }
        match grid.seal(account(), 0, reading) {
            Ok(sealed) => {
                let text = revealed(&grid.seal_text(account(), 0, &format!("{reading:e}"), 0));
                prop_assert_eq!(revealed(&sealed), text);
            }
            Err(GridError::Floats { .. }) => prop_assert!(grid.check_floats().is_err()),
            Err(error) => prop_assert_eq!(error, GridError::Reading { low: grid.low(), high: grid.high() }),
        }
    }

    /// Parsing, ordering, printing and saving lose nothing.
    #[test]
    fn decimals_keep_their_value(one in text(36), other in text(36)) {
        let (Ok(first), Ok(second)) = (one.parse::<Decimal>(), other.parse::<Decimal>()) else { return Ok(()) };
        prop_assert_eq!(rational(&first.to_string()), rational(&one));
        prop_assert_eq!(first.cmp(&second), rational(&one).cmp(&rational(&other)));
        let json = serde_json::to_string(&first).unwrap();
        prop_assert_eq!(serde_json::from_str::<Decimal>(&json).unwrap(), first);
        let bytes = postcard::to_allocvec(&(first, second)).unwrap();
        prop_assert_eq!(postcard::from_bytes::<(Decimal, Decimal)>(&bytes).unwrap(), (first, second));
    }

    /// Numbers that were saved as floats still load.
    #[test]
    fn saved_floats_are_read(number in -1e15..1e15_f64) {
        let bytes = postcard::to_allocvec(&number).unwrap();
        let read: Decimal = postcard::from_bytes(&bytes).unwrap();
        prop_assert_eq!(read.to_f64(), number);
        prop_assert_eq!(postcard::to_allocvec(&read).unwrap(), bytes);
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&number).unwrap());
    }
}

#[test]
fn parses_numbers_and_nothing_else() {
    for (text, same) in [
        ("0012.50", "12.5"),
        ("+5", "5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-0", "0"),
        ("0e999999999999999999999", "0"),
        ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("-1.25e+2", "-125"),
    ] {
        assert_eq!(decimal(text).to_string(), same, "{text}");
    }
    for text in [
        "",
        " ",
        " 3",
        "3 ",
        "1_000",
        "1,000",
        "0x10",
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "abc",
        "null",
        ".",
        "-",
        "+",
        "e5",
        "1e",
        "1e+",
        "1e1.5",
        "1.2.3",
        "--1",
        "1-2",
        "١",
        "1\u{a0}",
        "1\0",
    ] {
        assert_eq!(text.parse::<Decimal>(), Err(DecimalError::NotANumber), "{text:?}");
    }
    for text in ["1e401", "1e-401", "1e99999999999999999999", &"9".repeat(37), &format!("1{}1", "0".repeat(400))] {
        assert_eq!(text.parse::<Decimal>(), Err(DecimalError::OutOfRange), "{text}");
    }
    assert_eq!(decimal(&format!("1{}", "0".repeat(400))), decimal("1e400"));
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Decimal::try_from(number), Err(DecimalError::NotANumber));
    }
    assert_eq!(serde_json::to_string(&decimal("1700000000000000129")).unwrap(), "1700000000000000129");
    assert_eq!(serde_json::to_string(&decimal("1.7000000000000000000129")).unwrap(), "\"1.7000000000000000000129\"");
    assert!(serde_json::from_str::<Decimal>("null").is_err() && serde_json::from_str::<Decimal>("\"x\"").is_err());
}

#[test]
fn every_reading_is_sealed() {
    let grid = Grid::exact(decimal("-2"), decimal("8"), decimal("0.5")).unwrap();
    for (reading, steps) in [
        ("1", 6),
        ("1.25", 7),
        ("1.249999999999999999999999999999999999999999999999999999999999", 6),
        ("1.25000000000000000000000000000000000000000000000000000000000e0", 7),
        ("-0", 4),
        ("1e300", 20),
        ("1e99999999999999999999999", 20),
        ("-1e99999999999999999999999", 0),
        ("1e-99999999999999999999999", 4),
        ("-1e-99999999999999999999999", 4),
        ("-0.25", 4),
        ("-0.2500000000000000000000000000000000000000000000000000000000001", 3),
        ("NaN", 9),
        ("inf", 9),
        ("", 9),
        ("abc", 9),
        ("0x1", 9),
    ] {
        assert_eq!(revealed(&grid.seal_text(account(), 0, reading, 9)), steps, "{reading}");
    }
    let long = format!("{}.{}e-900", "7".repeat(901), "3".repeat(1_000));
    assert_eq!(revealed(&grid.seal_text(account(), 0, &long, 0)), 20);
    assert_eq!(revealed(&grid.seal_text(account(), 0, &format!("0.{}1e1000", "0".repeat(1_000)), 0)), 4);
    assert_eq!(revealed(&grid.seal_text(account(), 0, "x", 1 << 40)), 20, "no more than the width");
    assert_eq!(grid.seal_text(account(), 3, "x", 0).timestamp(), 3);
}

#[test]
fn neighbours_beyond_float_precision_differ_by_one_step() {
    for low in ["1700000000000000000", "10000000000000000", "-1700000000000001000"] {
        let high = (rational(low) + RBig::from(1_000)).to_string();
        let grid = Grid::exact(decimal(low), decimal(&high), Decimal::ONE).unwrap();
        for steps in [1_u64, 2, 3, 128, 129, 999] {
            let reading = (rational(low) + RBig::from(steps)).to_string();
            assert_eq!(revealed(&grid.seal_text(account(), 0, &reading, 0)), steps as i64, "{reading}");
        }
    }
}

#[test]
fn a_grid_too_fine_for_floats_rejects_them() {
    let fine = Grid::exact(decimal("1e16"), decimal("10000000000001000"), Decimal::ONE).unwrap();
    for reading in [1e16, 0.0, f64::NAN] {
        let error = fine.seal(account(), 0, reading).unwrap_err();
        assert!(matches!(error, GridError::Floats { .. }), "whatever the reading: {error}");
        assert_eq!(fine.seal_clamped(account(), 0, reading).unwrap_err(), error.clone());
    }
    let message = "floats near 10000000000001000 lie 2 apart, and a step must be at least 1024 times that, but is 1: \
                   give readings as decimal text";
    assert_eq!(Grid::new(1e16, 1e16 + 1_000.0, 1.0).unwrap_err().to_string(), message);
    // Just coarse enough: floats below 2^43 lie 2^-10 apart.
    assert!(Grid::new(8_796_093_000_000.0, 8_796_093_022_207.0, 1.0).is_ok());
    assert!(Grid::new(8_796_093_000_000.0, 8_796_093_022_208.0, 1.0).is_err());
    assert!(Grid::new(-8_796_093_022_208.0, -8_796_093_000_000.0, 1.0).is_err());
    assert!(Grid::new(0.0, 1e-310, 1e-315).is_err(), "no normal float");
}

#[test]
fn rejects_a_public_number_outside_the_domain() {
    let grid = Grid::exact(decimal("0"), decimal("1"), decimal("0.1")).unwrap();
    assert_eq!((grid.steps_of(decimal("0.25")), grid.steps_of(Decimal::ONE)), (Ok(3), Ok(10)));
    for outside in ["1.00000000000000000000000000001", "-0.00000000000000000000000000001", "1e300"] {
        assert_eq!(grid.steps_of(decimal(outside)), Err(GridError::Reading { low: 0.0, high: 1.0 }), "{outside}");
    }
    assert_eq!(grid.decimals(), [Decimal::ZERO, Decimal::ONE, decimal("0.1")]);
    let digits = Grid::exact(decimal("1e-30"), decimal("1e30"), decimal("1e29"));
    assert_eq!(digits.unwrap_err(), GridError::Digits);
}
