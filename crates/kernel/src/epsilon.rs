//! [`Epsilon`]: an exact amount of privacy budget.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::interval::Interval;

/// An exact, strictly positive amount of privacy budget, counted in units of 10⁻⁹.
///
/// Integer units add and compare exactly. A real number between two units is rounded towards more privacy: a *budget*
/// down, a *spend* up. "No budget" is not an `Epsilon`; use `Option<Epsilon>` where it can occur.
///
/// ```
/// use tidegate_kernel::Epsilon;
///
/// let budget: Epsilon = "0.3".parse()?;
/// let thrice = "0.1".parse::<Epsilon>()?.checked_mul(3);
/// assert_eq!(thrice, Some(budget)); // in floating point, 0.1 + 0.1 + 0.1 > 0.3
/// assert_eq!(budget.divided_by(7).map(|share| share.to_string()), Some("0.042857142".to_owned()));
/// # Ok::<(), tidegate_kernel::EpsilonError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epsilon(NonZeroU64);

/// Units in an epsilon of one.
pub const UNITS_PER_EPSILON: u64 = 1_000_000_000;

const FRACTION_DIGITS: usize = 9;

/// Why a number is not an [`Epsilon`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum EpsilonError {
    /// The text is not a plain decimal number.
    #[error("epsilon {given:?} is not a plain decimal number; write it like 0.5")]
    NotANumber { given: String },
    /// NaN or an infinity.
    #[error("epsilon must be finite, but {given} was given")]
    NotFinite { given: String },
    /// Zero, a negative number, or a number that rounds to zero units.
    #[error("epsilon must be at least {}, but {given} was given", Epsilon::MIN)]
    TooSmall { given: String },
    /// More than [`Epsilon::MAX`].
    #[error("epsilon must be at most {}, but {given} was given", Epsilon::MAX)]
    TooLarge { given: String },
    /// More than nine decimals, without a rounding direction.
    #[error("epsilon {given} has more than nine decimals; round it down for a budget or up for a spend")]
    TooPrecise { given: String },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Down,
    Up,
    Refuse,
}

impl Epsilon {
    /// The smallest amount: one unit, 10⁻⁹.
    pub const MIN: Self = Self(NonZeroU64::MIN);

    /// The largest amount: 1000. It gives no useful privacy and exists to bound sums.
    pub const MAX: Self = Self::whole::<1_000>();

    /// An integer amount, for constants.
    pub(crate) const fn whole<const NUMBER: u64>() -> Self {
        const { assert!(0 < NUMBER && NUMBER <= 1_000) };
        match NonZeroU64::new(NUMBER * UNITS_PER_EPSILON) {
            Some(units) => Self(units),
            None => Self::MIN, // not reached: the number was just checked
        }
    }

    /// Creates an amount from units of 10⁻⁹.
    pub fn from_units(units: u64) -> Result<Self, EpsilonError> {
        Self::from_wide(u128::from(units), || format!("{units} units"))
    }

    fn from_wide(units: u128, given: impl Fn() -> String) -> Result<Self, EpsilonError> {
        match u64::try_from(units).ok().map(NonZeroU64::new) {
            Some(None) => Err(EpsilonError::TooSmall { given: given() }),
            Some(Some(units)) if units <= Self::MAX.0 => Ok(Self(units)),
            _ => Err(EpsilonError::TooLarge { given: given() }),
        }
    }

    /// Creates a budget: `amount` rounded **down** to a whole unit.
    ///
    /// The float is read as the shortest decimal that parses back to it, so `budget(0.1)` is exactly 0.1.
    pub fn budget(amount: f64) -> Result<Self, EpsilonError> {
        Self::parse(&amount.to_string(), Rounding::Down)
    }

    /// Creates a spend: `amount` rounded **up** to a whole unit. The float is read as in [`Epsilon::budget`].
    pub fn spend(amount: f64) -> Result<Self, EpsilonError> {
        Self::parse(&amount.to_string(), Rounding::Up)
    }

    /// Parses a decimal of any precision as a budget, rounding **down**.
    pub fn parse_budget(text: &str) -> Result<Self, EpsilonError> {
        Self::parse(text, Rounding::Down)
    }

    /// Parses a decimal of any precision as a spend, rounding **up**.
    pub fn parse_spend(text: &str) -> Result<Self, EpsilonError> {
        Self::parse(text, Rounding::Up)
    }

    fn parse(text: &str, rounding: Rounding) -> Result<Self, EpsilonError> {
        let given = || text.chars().take(40).collect::<String>();
        let lower = text.to_ascii_lowercase();
        if ["nan", "inf", "infinity"].contains(&lower.trim_start_matches(['-', '+'])) {
            return Err(EpsilonError::NotFinite { given: given() });
        }
        let magnitude = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
        let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits_only(whole) || !digits_only(fraction) {
            return Err(EpsilonError::NotANumber { given: given() });
        }
        if text.starts_with('-') {
            return Err(EpsilonError::TooSmall { given: given() });
        }
        let (kept, rest) = fraction.split_at(fraction.len().min(FRACTION_DIGITS));
        let inexact = rest.bytes().any(|digit| digit != b'0');
        if inexact && rounding == Rounding::Refuse {
            return Err(EpsilonError::TooPrecise { given: given() });
        }
        let zeros = FRACTION_DIGITS - kept.len();
        let padding = std::iter::repeat_n(b'0', zeros);
        let units = whole
            .bytes()
            .chain(kept.bytes())
            .chain(padding)
            .try_fold(0_u128, |units, digit| units.checked_mul(10)?.checked_add(u128::from(digit - b'0')));
        let rounded_up = u128::from(inexact && rounding == Rounding::Up);
        let units = units.unwrap_or(u128::MAX).saturating_add(rounded_up);
        Self::from_wide(units, given)
    }

    /// The amount in units of 10⁻⁹.
    pub const fn units(self) -> u64 {
        self.0.get()
    }

    /// The nearest float, for error formulas. Budget decisions never use it.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.units() as f64 / UNITS_PER_EPSILON as f64
    }

    /// The sum, or `None` above [`Epsilon::MAX`].
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.units()).filter(|sum| *sum <= Self::MAX.0).map(Self)
    }

    /// The difference, or `None` if nothing is left.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        NonZeroU64::new(self.units().checked_sub(other.units())?).map(Self)
    }

    /// The product, or `None` for zero times or above [`Epsilon::MAX`].
    pub fn checked_mul(self, times: u64) -> Option<Self> {
        let units = self.0.checked_mul(NonZeroU64::new(times)?)?;
        (units <= Self::MAX.0).then_some(Self(units))
    }

    /// One of `parts` equal parts, rounded down, so that the parts never exceed the whole. `None` for zero parts or a
    /// part below one unit.
    pub fn divided_by(self, parts: u64) -> Option<Self> {
        self.portion(1, parts)
    }

    /// `numerator / denominator` of the amount, rounded down. `None` for a zero denominator, a portion below one unit,
    /// or one above [`Epsilon::MAX`].
    pub fn portion(self, numerator: u64, denominator: u64) -> Option<Self> {
        let product = u128::from(self.units()).checked_mul(u128::from(numerator))?;
        let units = product.checked_div(u128::from(denominator))?;
        Self::from_wide(units, String::new).ok()
    }

    /// e to the power of this amount, computed with integers: the same bits on every machine, unlike
    /// [`f64::exp`]. For public quantities that several machines must agree on.
    ///
    /// ```
    /// use tidegate_kernel::Epsilon;
    ///
    /// assert!(("1".parse::<Epsilon>()?.exp_as_f64() - std::f64::consts::E).abs() < 1e-15);
    /// # Ok::<(), tidegate_kernel::EpsilonError>(())
    /// ```
    pub fn exp_as_f64(self) -> f64 {
        self.exp().as_f64()
    }

    /// An interval that contains e to the power of this amount.
    pub(crate) fn exp(self) -> Interval {
        Interval::exp(self.units(), UNITS_PER_EPSILON)
    }
}

impl fmt::Display for Epsilon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.units() / UNITS_PER_EPSILON;
        let fraction = format!("{:09}", self.units() % UNITS_PER_EPSILON);
        match fraction.trim_end_matches('0') {
            "" => formatter.pad(&whole.to_string()),
            digits => formatter.pad(&format!("{whole}.{digits}")),
        }
    }
}

impl fmt::Debug for Epsilon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Epsilon({self})")
    }
}

/// Parses a decimal with at most nine decimals, exactly.
impl FromStr for Epsilon {
    type Err = EpsilonError;

    fn from_str(text: &str) -> Result<Self, EpsilonError> {
        Self::parse(text, Rounding::Refuse)
    }
}

/// Serialises as a decimal string in human-readable formats, and as the number of units in binary ones.
impl Serialize for Epsilon {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.units())
        }
    }
}

/// Human-readable formats hold a decimal string, or a number (`1` is an epsilon of one, not one unit). Binary formats
/// hold the number of units.
impl<'de> Deserialize<'de> for Epsilon {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(DecimalVisitor)
        } else {
            as_units::deserialize(deserializer)
        }
    }
}

struct DecimalVisitor;

impl de::Visitor<'_> for DecimalVisitor {
    type Value = Epsilon;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an epsilon such as \"0.5\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Epsilon, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Epsilon, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Epsilon, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Epsilon, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

/// Serialises an [`Epsilon`] as its number of units in every format: `#[serde(with = "tidegate_kernel::as_units")]`.
pub mod as_units {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Epsilon;

    /// Writes the number of units.
    pub fn serialize<S: Serializer>(epsilon: &Epsilon, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(epsilon.units())
    }

    /// Reads a number of units.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Epsilon, D::Error> {
        Epsilon::from_units(u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
