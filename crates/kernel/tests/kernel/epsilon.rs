//! Amounts are exact, round only towards more privacy, and reject invalid input.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, EpsilonError, UNITS_PER_EPSILON, as_units};

use crate::support::{epsilon, repeatable};

fn units(units: u64) -> Epsilon {
    Epsilon::from_units(units).unwrap()
}

fn any_epsilon() -> impl Strategy<Value = Epsilon> {
    let max = Epsilon::MAX.units();
    prop_oneof![1..=max, 1..=2_000_u64, max - 2_000..=max, (1..=1_000_u64).prop_map(|whole| whole * UNITS_PER_EPSILON)]
        .prop_map(units)
}

/// An amount below [`Epsilon::MAX`] and decimals beyond its ninth, not all of them zero.
fn between_two_units() -> impl Strategy<Value = (u64, String)> {
    let decimals = ("[0-9]{0,30}", "[1-9]", "[0-9]{0,30}").prop_map(|(before, digit, after)| before + &digit + &after);
    (0..Epsilon::MAX.units(), decimals)
}

fn decimal(units: u64, more_decimals: &str) -> String {
    format!("{}.{:09}{more_decimals}", units / UNITS_PER_EPSILON, units % UNITS_PER_EPSILON)
}

fn message<T: std::fmt::Debug>(result: Result<T, EpsilonError>) -> String {
    result.unwrap_err().to_string()
}

proptest! {
    #![proptest_config(repeatable(4096))]

    #[test]
    fn displayed_amounts_parse_back(amount in any_epsilon()) {
        let text = amount.to_string();
        prop_assert_eq!(text.parse(), Ok(amount));
        prop_assert_eq!(Epsilon::parse_budget(&text), Ok(amount));
        prop_assert_eq!(Epsilon::parse_spend(&text), Ok(amount));
        prop_assert!(!text.contains('.') || !text.ends_with(['0', '.']), "{} has idle digits", text);
    }

    #[test]
    fn padding_with_zeros_changes_nothing(amount in any_epsilon(), before in "0{0,50}", after in "0{0,50}") {
        let text = before + &decimal(amount.units(), &after);
        prop_assert_eq!(text.parse(), Ok(amount));
    }

    #[test]
    fn budgets_round_down_and_spends_round_up((below, decimals) in between_two_units()) {
        let text = decimal(below, &decimals);
        prop_assert_eq!(Epsilon::parse_budget(&text).ok(), Epsilon::from_units(below).ok());
        prop_assert_eq!(Epsilon::parse_spend(&text), Ok(units(below + 1)));
        let refused = matches!(text.parse::<Epsilon>(), Err(EpsilonError::TooPrecise { .. }));
        prop_assert!(refused, "{} was not refused", text);
    }

    #[test]
    fn a_float_is_read_as_its_shortest_decimal(amount in 1e-12..1_000.0_f64) {
        let text = format!("{amount}");
        prop_assert_eq!(Epsilon::budget(amount), Epsilon::parse_budget(&text));
        prop_assert_eq!(Epsilon::spend(amount), Epsilon::parse_spend(&text));
        let budget = Epsilon::budget(amount).map_or(0, Epsilon::units);
        let spend = Epsilon::spend(amount).unwrap().units();
        prop_assert!(spend - budget <= 1, "{} lies between {} and {} units", text, budget, spend);
        // The float nearest to a number of units has an error far below one unit.
        prop_assert!(budget as f64 <= amount * 1e9 * (1.0 + 1e-15) && amount * 1e9 <= spend as f64 * (1.0 + 1e-15));
    }

    #[test]
    fn a_nearby_float_stays_within_a_unit(amount in any_epsilon()) {
        let float = amount.as_f64();
        prop_assert!(Epsilon::budget(float).unwrap().units().abs_diff(amount.units()) <= 1);
        prop_assert!(Epsilon::spend(float).unwrap().units().abs_diff(amount.units()) <= 1);
    }

    #[test]
    fn arithmetic_agrees_with_wide_integers(
        a in any_epsilon(),
        b in any_epsilon(),
        times in any::<u64>(),
        few in 0..50_u64,
    ) {
        let max = u128::from(Epsilon::MAX.units());
        let (wide_a, wide_b) = (u128::from(a.units()), u128::from(b.units()));
        let amount = |wide: u128| (1..=max).contains(&wide).then(|| units(u64::try_from(wide).unwrap()));
        prop_assert_eq!(a.checked_add(b), amount(wide_a + wide_b));
        prop_assert_eq!(a.checked_sub(b), wide_a.checked_sub(wide_b).and_then(amount));
        for times in [times, few] {
            prop_assert_eq!(a.checked_mul(times), amount(wide_a * u128::from(times)));
        }
        prop_assert_eq!(a.cmp(&b), wide_a.cmp(&wide_b));
    }

    #[test]
    fn parts_waste_less_than_a_unit_each(whole in any_epsilon(), parts in 1..10_000_u64) {
        let wide = u128::from(whole.units());
        match whole.divided_by(parts) {
            Some(part) => {
                prop_assert!(u128::from(part.units()) * u128::from(parts) <= wide);
                prop_assert!((u128::from(part.units()) + 1) * u128::from(parts) > wide);
            }
            None => prop_assert!(whole.units() < parts),
        }
    }

    #[test]
    fn portions_never_exceed_the_whole(whole in any_epsilon(), weights in prop::collection::vec(any::<u32>(), 1..8)) {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let portions = weights.iter().filter_map(|weight| whole.portion(u64::from(*weight), total));
        let sum: u128 = portions.map(|portion| u128::from(portion.units())).sum();
        prop_assert!(sum <= u128::from(whole.units()));
    }

    #[test]
    fn a_portion_is_the_exact_quotient_rounded_down(
        whole in any_epsilon(),
        numerator in any::<u64>(),
        denominator in any::<u64>(),
    ) {
        let product = u128::from(whole.units()) * u128::from(numerator);
        let expected = product.checked_div(u128::from(denominator)).and_then(|wide| u64::try_from(wide).ok());
        let expected = expected.and_then(|wide| Epsilon::from_units(wide).ok());
        prop_assert_eq!(whole.portion(numerator, denominator), expected);
    }

    #[test]
    fn every_encoding_gives_the_same_amount_back(amount in any_epsilon()) {
        let json = serde_json::to_string(&amount).unwrap();
        prop_assert_eq!(&json, &format!("\"{amount}\""));
        prop_assert_eq!(serde_json::from_str::<Epsilon>(&json).unwrap(), amount);
        let bytes = postcard::to_allocvec(&amount).unwrap();
        prop_assert_eq!(&bytes, &postcard::to_allocvec(&amount.units()).unwrap());
        prop_assert_eq!(postcard::from_bytes::<Epsilon>(&bytes).unwrap(), amount);
    }

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = (text.parse::<Epsilon>(), Epsilon::parse_budget(&text), Epsilon::parse_spend(&text));
    }
}

#[test]
fn rejects_parts_that_are_not_amounts() {
    let one = epsilon("1");
    assert_eq!(one.divided_by(0), None);
    assert_eq!(one.divided_by(UNITS_PER_EPSILON), Some(Epsilon::MIN));
    assert_eq!(one.divided_by(UNITS_PER_EPSILON + 1), None);
    assert_eq!(one.portion(0, 1), None);
    assert_eq!(one.portion(1, 0), None);
    assert_eq!(one.portion(0, 0), None);
    assert_eq!(one.portion(1_000, 1), Some(Epsilon::MAX));
    assert_eq!(one.portion(1_001, 1), None);
    assert_eq!(Epsilon::MAX.portion(u64::MAX, u64::MAX), Some(Epsilon::MAX));
    assert_eq!(one.portion(2, 3), Some(epsilon("0.666666666")));
}

#[test]
fn arithmetic_stops_at_both_ends() {
    assert_eq!(Epsilon::MAX.checked_add(Epsilon::MIN), None);
    assert_eq!(epsilon("999.999999999").checked_add(Epsilon::MIN), Some(Epsilon::MAX));
    assert_eq!(Epsilon::MIN.checked_sub(Epsilon::MIN), None);
    assert_eq!(Epsilon::MIN.checked_sub(Epsilon::MAX), None);
    assert_eq!(Epsilon::MIN.checked_mul(0), None);
    assert_eq!(Epsilon::MIN.checked_mul(Epsilon::MAX.units()), Some(Epsilon::MAX));
    assert_eq!(Epsilon::MIN.checked_mul(Epsilon::MAX.units() + 1), None);
    assert_eq!(Epsilon::MAX.checked_mul(u64::MAX), None);
}

#[test]
fn tenths_add_up_to_one() {
    let tenth = epsilon("0.1");
    let sum = (1..10).try_fold(tenth, |sum, _| sum.checked_add(tenth));
    assert_eq!(sum, Some(epsilon("1")));
    assert_eq!(Epsilon::budget(0.1), Ok(tenth));
    assert_eq!(Epsilon::spend(0.1), Ok(tenth));
}

#[test]
fn floats_round_towards_more_privacy() {
    assert_eq!(Epsilon::budget(1.0 / 3.0), Ok(epsilon("0.333333333")));
    assert_eq!(Epsilon::spend(1.0 / 3.0), Ok(epsilon("0.333333334")));
    assert_eq!(Epsilon::spend(1e-9), Ok(Epsilon::MIN));
    assert_eq!(Epsilon::budget(1e-9), Ok(Epsilon::MIN));
    assert_eq!(Epsilon::spend(f64::MIN_POSITIVE), Ok(Epsilon::MIN));
    assert_eq!(Epsilon::spend(f64::from_bits(1)), Ok(Epsilon::MIN));
    assert_eq!(Epsilon::budget(999.999_999_999_9), Ok(epsilon("999.999999999")));
    assert_eq!(Epsilon::spend(999.999_999_999_9), Ok(Epsilon::MAX));
}

#[test]
fn parses_common_spellings_of_decimals() {
    for (text, expected) in
        [("1", 1_000_000_000), ("1.", 1_000_000_000), (".5", 500_000_000), ("007.25", 7_250_000_000)]
    {
        assert_eq!(text.parse(), Ok(units(expected)), "{text}");
    }
}

#[test]
fn rejects_text_that_is_not_a_decimal() {
    for text in ["", ".", "-", "+1", "1e3", "0x1", "1,5", "1.2.3", " 1", "1 ", "1_000", "--1", "-.", "half", "٣", "1\0"]
    {
        let expected = format!("epsilon {text:?} is not a plain decimal number; write it like 0.5");
        assert_eq!(message(text.parse::<Epsilon>()), expected);
        assert_eq!(message(Epsilon::parse_budget(text)), expected);
        assert_eq!(message(Epsilon::parse_spend(text)), expected);
    }
}

#[test]
fn rejects_nan_and_infinities() {
    for (float, given) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
        let expected = format!("epsilon must be finite, but {given} was given");
        assert_eq!(message(Epsilon::budget(float)), expected);
        assert_eq!(message(Epsilon::spend(float)), expected);
        assert_eq!(message(given.parse::<Epsilon>()), expected);
    }
    for text in ["nan", "INF", "Infinity", "-infinity", "+inf"] {
        assert!(matches!(text.parse::<Epsilon>(), Err(EpsilonError::NotFinite { .. })), "{text}");
    }
}

#[test]
fn rejects_zero_and_negative_amounts() {
    for (float, given) in [(0.0, "0"), (-0.0, "-0"), (-0.5, "-0.5"), (-1e-12, "-0.000000000001")] {
        let expected = format!("epsilon must be at least 0.000000001, but {given} was given");
        assert_eq!(message(Epsilon::budget(float)), expected);
        assert_eq!(message(Epsilon::spend(float)), expected);
    }
    assert_eq!(message("0.000".parse::<Epsilon>()), "epsilon must be at least 0.000000001, but 0.000 was given");
    assert_eq!(message(Epsilon::from_units(0)), "epsilon must be at least 0.000000001, but 0 units was given");
}

#[test]
fn tiny_budgets_are_rejected_and_tiny_spends_round_up() {
    let expected = "epsilon must be at least 0.000000001, but 0.0000000009 was given";
    assert_eq!(message(Epsilon::parse_budget("0.0000000009")), expected);
    assert_eq!(message(Epsilon::budget(9e-10)), expected);
    assert_eq!(Epsilon::parse_spend("0.0000000009"), Ok(Epsilon::MIN));
}

#[test]
fn rejects_amounts_beyond_the_maximum() {
    assert_eq!(Epsilon::MAX, epsilon("1000"));
    let too_large = |given: &str| format!("epsilon must be at most 1000, but {given} was given");
    assert_eq!(message("1000.000000001".parse::<Epsilon>()), too_large("1000.000000001"));
    assert_eq!(message(Epsilon::from_units(1_000_000_000_001)), too_large("1000000000001 units"));
    assert_eq!(message(Epsilon::from_units(u64::MAX)), too_large(&format!("{} units", u64::MAX)));
    assert_eq!(message(Epsilon::budget(1_000.5)), too_large("1000.5"));
    assert_eq!(message(Epsilon::spend(f64::MAX)), too_large(&f64::MAX.to_string()[..40]));
    // Slightly above the maximum: a budget rounds down to it, a spend exceeds it.
    assert_eq!(Epsilon::parse_budget("1000.0000000001"), Ok(Epsilon::MAX));
    assert_eq!(message(Epsilon::parse_spend("1000.0000000001")), too_large("1000.0000000001"));
    // Numbers at which a 64-bit or a 128-bit count of units would wrap around.
    for text in ["18446744073.709551617", "340282366920938463463374607431.768211457"] {
        assert_eq!(message(text.parse::<Epsilon>()), too_large(text));
    }
    let digits = "9".repeat(10_000);
    assert_eq!(message(digits.parse::<Epsilon>()), too_large(&"9".repeat(40)));
}

#[test]
fn extra_decimals_need_a_rounding_direction() {
    let expected = "epsilon 0.1234567891 has more than nine decimals; round it down for a budget or up for a spend";
    assert_eq!(message("0.1234567891".parse::<Epsilon>()), expected);
    assert_eq!(Epsilon::parse_budget("0.1234567891"), Ok(epsilon("0.123456789")));
    assert_eq!(Epsilon::parse_spend("0.1234567891"), Ok(epsilon("0.12345679")));
    assert_eq!("0.5000000000".parse(), Ok(epsilon("0.5")));
}

#[test]
fn display_pads_and_debug_names_the_type() {
    assert_eq!(
        format!("{:>8}|{:<6}|{:?}", epsilon("0.25"), epsilon("3"), epsilon("0.5")),
        "    0.25|3     |Epsilon(0.5)"
    );
    assert_eq!(Epsilon::MIN.to_string(), "0.000000001");
}

#[test]
fn a_json_number_is_not_in_units() {
    for (json, expected) in
        [("1", "1"), ("0.1", "0.1"), ("1.0", "1"), ("1e-9", "0.000000001"), ("1e3", "1000"), ("\".5\"", "0.5")]
    {
        assert_eq!(serde_json::from_str::<Epsilon>(json).unwrap(), epsilon(expected), "{json}");
    }
}

#[test]
fn rejects_invalid_encodings_with_the_reason() {
    for (json, reason) in [
        ("0", "must be at least"),
        ("-1", "must be at least"),
        ("-0.5", "must be at least"),
        ("1001", "must be at most"),
        ("1e300", "must be at most"),
        ("18446744073709551615", "must be at most"),
        ("0.0123456789123", "more than nine decimals"),
        ("\"0.0123456789123\"", "more than nine decimals"),
        ("\"\"", "not a plain decimal"),
        ("\"inf\"", "must be finite"),
        ("null", "an epsilon such as \"0.5\""),
        ("true", "an epsilon such as \"0.5\""),
        ("[1]", "an epsilon such as \"0.5\""),
    ] {
        let error = serde_json::from_str::<Epsilon>(json).unwrap_err().to_string();
        assert!(error.contains(reason), "{json} gave {error:?}");
    }
    for units in [0, Epsilon::MAX.units() + 1, u64::MAX] {
        assert!(postcard::from_bytes::<Epsilon>(&postcard::to_allocvec(&units).unwrap()).is_err(), "{units}");
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    #[serde(with = "as_units")]
    spent: Epsilon,
}

#[test]
fn as_units_writes_the_integer_in_every_format() {
    let record = Record { spent: epsilon("0.5") };
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(json, r#"{"spent":500000000}"#);
    assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
    let bytes = postcard::to_allocvec(&record).unwrap();
    assert_eq!(bytes, postcard::to_allocvec(&500_000_000_u64).unwrap());
    assert_eq!(postcard::from_bytes::<Record>(&bytes).unwrap(), record);
    for json in [r#"{"spent":0}"#, r#"{"spent":1000000000001}"#, r#"{"spent":"0.5"}"#, r#"{"spent":0.5}"#] {
        assert!(serde_json::from_str::<Record>(json).is_err(), "{json}");
    }
}
