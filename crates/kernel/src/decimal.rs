//! [`Decimal`]: an exact decimal number.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An exact decimal number, `mantissa · 10^exponent`, of up to 36 digits.
///
/// Limits of a domain, resolutions and distances are decimals: a float between the text and the number would move it.
///
/// Text is read as `[+-] digits [. digits] [e [+-] digits]`, with a digit before or after the point. Blanks, `_`,
/// `NaN`, infinities and hexadecimal digits are not part of a number. A float stands for the shortest decimal that
/// reads back as that float: `0.1` is a tenth.
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
    /// Below `10^36` in size, and no multiple of ten unless zero.
    mantissa: i128,
    /// Zero for zero, so that equal numbers have one form.
    exponent: i16,
}

/// Why something is no [`Decimal`]. The text is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecimalError {
    /// Not a number, or not a finite one.
    #[error("expected a decimal number")]
    NotANumber,
    /// More digits than a decimal has, or too large or small.
    #[error("expected a decimal number of at most {MAX_DIGITS} digits, between 1e-{MAX_EXPONENT} and 1e{MAX_EXPONENT}")]
    OutOfRange,
}

/// The most significant digits of a decimal.
const MAX_DIGITS: u32 = 36;

/// The largest power of ten of a decimal, and the negative of the smallest.
const MAX_EXPONENT: i16 = 400;

/// The digits of a text that are kept: one more than [`MAX_DIGITS`], so that a longer number is seen to be longer.
const KEPT_DIGITS: u32 = MAX_DIGITS + 1;

/// Exponents of texts are limited to this, far beyond the length of any text.
const ENDLESS: i64 = 1 << 50;

/// A number as its text says it, of any length: `±(mantissa + rest) · 10^exponent`, where the rest is below one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    is_negative: bool,
    /// At most [`KEPT_DIGITS`] digits; all of them, where there is a rest.
    mantissa: u128,
    exponent: i64,
    /// Whether digits other than zero follow.
    has_rest: bool,
}

impl Spelled {
    /// Reads a text; `None` where it is not a number.
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

    /// The number in units of `10^unit`, rounded down; numbers beyond 128 bits become the ends of their range.
    pub(crate) fn floor(&self, unit: i16) -> i128 {
        let shift = self.exponent - i64::from(unit);
        let beyond = if self.is_negative { i128::MIN } else { i128::MAX };
        if self.mantissa == 0 {
            return 0;
        }
        let power = usize::try_from(shift.unsigned_abs()).ok().and_then(|exponent| POWERS.get(exponent).copied());
        let (whole, has_rest) = match (shift >= 0, power) {
            // With a rest the mantissa has all its digits, and ten times that is beyond every number that is compared.
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

/// Digits that were read: in 64 bits for as long as they fit.
#[derive(Default)]
struct Mantissa {
    short: u64,
    long: u128,
    digits: u32,
}

impl Mantissa {
    /// So many digits fit into 64 bits.
    const SHORT: u32 = 19;

    fn push(&mut self, digit: u8) {
        if self.digits < Self::SHORT {
            self.short = self.short * 10 + u64::from(digit);
        } else {
            let so_far = if self.digits == Self::SHORT { self.short.into() } else { self.long };
            self.long = so_far * 10 + u128::from(digit);
        }
        // Zeros at the beginning take no place.
        self.digits += u32::from(self.digits > 0 || digit > 0);
    }

    fn value(&self) -> u128 {
        if self.digits <= Self::SHORT { self.short.into() } else { self.long }
    }
}

/// The exponent after the `e`, within ±[`ENDLESS`].
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

/// Quotient and remainder, in 64 bits where both fit.
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

    /// Its power of ten.
    pub(crate) const fn exponent(&self) -> i16 {
        self.exponent
    }

    /// It, as its text says it.
    pub(crate) fn spelled(&self) -> Spelled {
        let (is_negative, mantissa) = (self.mantissa < 0, self.mantissa.unsigned_abs());
        Spelled { is_negative, mantissa, exponent: self.exponent.into(), has_rest: false }
    }

    /// The number with the other sign.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self { mantissa: -self.mantissa, ..self }
    }

    /// Whether it is below zero.
    pub const fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Whether it is a whole number.
    pub const fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The float nearest to it, infinite where it is too large for one.
    pub fn to_f64(self) -> f64 {
        // The conversion of the standard library rounds correctly.
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// The float that stands for it, if one does.
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

/// The shortest decimal that reads back as the float.
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
        // One of them is whole in this unit, and the other one too, or beyond it.
        let unit = self.exponent.min(other.exponent);
        self.spelled().floor(unit).cmp(&other.spelled().floor(unit))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// All digits, without an exponent.
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

/// A text format holds a float where one stands for the number, otherwise a whole number of 64 bits, otherwise text. A
/// binary format holds a float; NaN announces a number for which no float stands.
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
