//! [`Decimal`]: an exact decimal number.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An exact decimal number, `mantissa · 10^exponent`, of up to 36 digits.
///
/// Domain limits, resolutions and distances are decimals, because converting their text to floats would round them.
///
/// The syntax is `[+-] digits [. digits] [e [+-] digits]`, with a digit before or after the point. Spaces, `_`, `NaN`,
/// infinities and hexadecimal digits are rejected. A float converts to the shortest decimal that parses back to it:
/// `0.1` is exactly one tenth.
///
/// ```
/// use tidegate_kernel::{Decimal, DecimalError};
///
/// let large: Decimal = "1700000000000000129".parse()?;
/// assert_eq!(large.to_string(), "1700000000000000129");
/// assert_eq!("-0012.50e1".parse(), Ok(Decimal::from(-125_i64)));
/// assert_eq!(Decimal::try_from(0.1), "0.1".parse());
/// assert_eq!("0x10".parse::<Decimal>(), Err(DecimalError::NotANumber));
/// # Ok::<(), DecimalError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Absolute value below `10^36`; not a multiple of ten unless zero.
    mantissa: i128,
    /// Zero if the mantissa is, so that equal numbers have one representation.
    exponent: i16,
}

/// Why a conversion to [`Decimal`] failed. The message never repeats the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecimalError {
    /// Not a number, or not a finite one.
    #[error("expected a decimal number")]
    NotANumber,
    /// Too many digits, or a magnitude out of range.
    #[error("expected a decimal number of at most {MAX_DIGITS} digits, between 1e-{MAX_EXPONENT} and 1e{MAX_EXPONENT}")]
    OutOfRange,
}

/// Maximum number of significant digits.
const MAX_DIGITS: u32 = 36;

/// Largest exponent; the smallest is its negative.
const MAX_EXPONENT: i16 = 400;

/// Digits kept while parsing: one more than [`MAX_DIGITS`], to detect longer numbers.
const KEPT_DIGITS: u32 = MAX_DIGITS + 1;

/// Limit of parsed exponents, far beyond the length of any text.
const ENDLESS: i64 = 1 << 50;

/// A parsed number of any length: `±(mantissa + rest) · 10^exponent`, with a rest below one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    is_negative: bool,
    /// At most [`KEPT_DIGITS`] digits; exactly that many if there is a rest.
    mantissa: u128,
    exponent: i64,
    /// Whether non-zero digits were dropped.
    has_rest: bool,
}

impl Spelled {
    /// Parses a number.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (is_negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        let end = bytes.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(bytes.len());
        let (digits, exponent) = (&bytes[..end], bytes.get(end + 1..));
        let mut exponent = exponent.map_or(Some(0), exponent_of)?;
        let mut mantissa = Mantissa::default();
        let (mut seen, mut point, mut has_rest) = (false, false, false);
        for byte in digits {
            if *byte == b'.' && !std::mem::replace(&mut point, true) {
                continue;
            }
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            seen = true;
            if mantissa.digits < KEPT_DIGITS {
                mantissa.push(digit);
                exponent -= i64::from(point);
            } else {
                has_rest |= digit > 0;
                exponent += i64::from(!point);
            }
        }
        seen.then(|| Self { is_negative, mantissa: mantissa.value(), exponent, has_rest })
    }

    /// The number in units of `10^unit`, rounded down and saturated to 128 bits.
    pub(crate) fn floor(&self, unit: i16) -> i128 {
        let shift = self.exponent - i64::from(unit);
        let beyond = if self.is_negative { i128::MIN } else { i128::MAX };
        if self.mantissa == 0 {
            return 0;
        }
        let power = usize::try_from(shift.unsigned_abs()).ok().and_then(|exponent| POWERS.get(exponent).copied());
        let (whole, has_rest) = match (shift >= 0, power) {
            // With a rest, the mantissa is full, and ten times that exceeds every number compared with it.
            (true, Some(power)) if !self.has_rest || power == 1 => match self.mantissa.checked_mul(power) {
                Some(whole) => (whole, self.has_rest),
                None => return beyond,
            },
            (true, _) => return beyond,
            (false, Some(power)) => {
                let (whole, below) = divided(self.mantissa, power);
                (whole, below > 0 || self.has_rest)
            }
            (false, None) => (0, true),
        };
        let Ok(whole) = i128::try_from(whole) else { return beyond };
        if self.is_negative { -whole - i128::from(has_rest) } else { whole }
    }
}

/// Accumulates digits, in 64 bits while they fit.
#[derive(Default)]
struct Mantissa {
    short: u64,
    long: u128,
    digits: u32,
}

impl Mantissa {
    /// Digits that fit into 64 bits.
    const SHORT: u32 = 19;

    fn push(&mut self, digit: u8) {
        if self.digits < Self::SHORT {
            self.short = self.short * 10 + u64::from(digit);
        } else {
            let so_far = if self.digits == Self::SHORT { self.short.into() } else { self.long };
            self.long = so_far * 10 + u128::from(digit);
        }
        // Leading zeros take no space.
        self.digits += u32::from(self.digits > 0 || digit > 0);
    }

    fn value(&self) -> u128 {
        if self.digits <= Self::SHORT { self.short.into() } else { self.long }
    }
}

/// Parses the exponent after `e`, clamped to ±[`ENDLESS`].
fn exponent_of(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0_i64, |size, digit| (size * 10 + i64::from(digit - b'0')).min(ENDLESS));
    Some(sign * size)
}

/// The powers of ten within 128 bits.
const POWERS: [u128; 39] = {
    let mut powers = [1; 39];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// Quotient and remainder, computed in 64 bits if both operands fit.
#[inline]
pub(crate) fn divided(number: u128, divisor: u128) -> (u128, u128) {
    match (u64::try_from(number), u64::try_from(divisor)) {
        (Ok(number), Ok(divisor)) => ((number / divisor).into(), (number % divisor).into()),
        _ => (number / divisor, number % divisor),
    }
}

impl Decimal {
    /// Zero.
    pub const ZERO: Self = Self { mantissa: 0, exponent: 0 };

    /// One.
    pub const ONE: Self = Self { mantissa: 1, exponent: 0 };

    /// The number `mantissa · 10^exponent`.
    pub(crate) fn of(mut mantissa: i128, mut exponent: i64) -> Result<Self, DecimalError> {
        if mantissa == 0 {
            return Ok(Self::ZERO);
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let limit = i64::from(MAX_EXPONENT);
        let digits = i64::from(mantissa.unsigned_abs().ilog10());
        if digits >= i64::from(MAX_DIGITS) || exponent < -limit || exponent + digits > limit {
            return Err(DecimalError::OutOfRange);
        }
        let exponent = i16::try_from(exponent).map_err(|_| DecimalError::OutOfRange)?;
        Ok(Self { mantissa, exponent })
    }

    /// The power of ten.
    pub(crate) const fn exponent(&self) -> i16 {
        self.exponent
    }

    /// The number as parsed text.
    pub(crate) fn spelled(&self) -> Spelled {
        let (is_negative, mantissa) = (self.mantissa < 0, self.mantissa.unsigned_abs());
        Spelled { is_negative, mantissa, exponent: self.exponent.into(), has_rest: false }
    }

    /// The negated number.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self { mantissa: -self.mantissa, ..self }
    }

    /// Whether the number is below zero.
    pub const fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Whether the number is an integer.
    pub const fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The nearest float; infinite if the number is too large.
    pub fn to_f64(self) -> f64 {
        // The standard library's parser rounds correctly.
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// The float that converts back to this decimal, if any.
    fn as_float(self) -> Option<f64> {
        let float = self.to_f64();
        (Self::try_from(float) == Ok(self)).then_some(float)
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let Spelled { is_negative, mantissa, exponent, has_rest } =
            Spelled::read(text).ok_or(DecimalError::NotANumber)?;
        let mantissa = i128::try_from(mantissa).ok().filter(|_| !has_rest).ok_or(DecimalError::OutOfRange)?;
        Self::of(if is_negative { -mantissa } else { mantissa }, exponent)
    }
}

/// Converts to the shortest decimal that parses back to the float.
impl TryFrom<f64> for Decimal {
    type Error = DecimalError;

    fn try_from(number: f64) -> Result<Self, DecimalError> {
        if number.is_finite() { format!("{number:e}").parse() } else { Err(DecimalError::NotANumber) }
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self::of(number.into(), 0).unwrap_or_default()
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Self {
        Self::of(number.into(), 0).unwrap_or_default()
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        // In this unit, one is an integer, and the other is an integer or out of range.
        let unit = self.exponent.min(other.exponent);
        self.spelled().floor(unit).cmp(&other.spelled().floor(unit))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Prints all digits, without an exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.mantissa.unsigned_abs().to_string();
        let zeros = usize::from(self.exponent.unsigned_abs());
        let text = if self.exponent >= 0 {
            format!("{digits}{}", "0".repeat(zeros))
        } else if digits.len() > zeros {
            let (whole, part) = digits.split_at(digits.len() - zeros);
            format!("{whole}.{part}")
        } else {
            format!("0.{}{digits}", "0".repeat(zeros - digits.len()))
        };
        formatter.pad_integral(self.mantissa >= 0, "", &text)
    }
}

/// Text formats hold a float if it converts back to the number, else a 64-bit integer, else a string. Binary formats
/// hold a float; NaN precedes a number that has no such float.
impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let float = self.as_float();
        if !serializer.is_human_readable() {
            let mut parts = serializer.serialize_tuple(if float.is_some() { 1 } else { 3 })?;
            parts.serialize_element(&float.unwrap_or(f64::NAN))?;
            if float.is_none() {
                parts.serialize_element(&self.mantissa)?;
                parts.serialize_element(&self.exponent)?;
            }
            return parts.end();
        }
        let text = self.to_string();
        match (float, text.parse(), text.parse()) {
            (Some(float), ..) => serializer.serialize_f64(float),
            (None, Ok(number), _) => serializer.serialize_i64(number),
            (None, _, Ok(number)) => serializer.serialize_u64(number),
            _ => serializer.serialize_str(&text),
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Number)
        } else {
            deserializer.deserialize_tuple(3, Number)
        }
    }
}

struct Number;

impl<'de> Visitor<'de> for Number {
    type Value = Decimal;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a decimal number, or its text")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Decimal, E> {
        Ok(number.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Decimal, E> {
        Ok(number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Decimal, E> {
        Decimal::try_from(number).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Decimal, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Decimal, A::Error> {
        let missing = |position| de::Error::invalid_length(position, &self);
        let float: f64 = parts.next_element()?.ok_or_else(|| missing(0))?;
        if !float.is_nan() {
            return Decimal::try_from(float).map_err(de::Error::custom);
        }
        let mantissa: i128 = parts.next_element()?.ok_or_else(|| missing(1))?;
        let exponent: i16 = parts.next_element()?.ok_or_else(|| missing(2))?;
        Decimal::of(mantissa, exponent.into()).map_err(de::Error::custom)
    }
}
