//! [`InputSpec`]: how lines of a table become entries of a stream.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::AcrossSeries;

/// How lines of a table become entries of a stream. All keys have a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InputSpec {
    /// Names of the columns.
    #[serde(skip_serializing_if = "is_default")]
    pub columns: ColumnsSpec,
    /// The length of a timestamp. Required where times are dates or date-times; without it, times are counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// The beginning of timestamp 0, as a date or a date-time: 1970-01-01 unless said, and for weeks the Monday before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The treatment of a second line of a user at a timestamp, or of a second number.
    #[serde(skip_serializing_if = "is_default")]
    pub duplicates: Duplicates,
    /// The treatment of a user's line without a value.
    #[serde(skip_serializing_if = "is_default")]
    pub empty: Empty,
    /// The column with the name of the series, where the table holds several streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The names of the series, which are public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series_names: Option<Vec<String>>,
    /// In how many series one person can be, within any window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across_series: Option<AcrossSeries>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl InputSpec {
    /// Its keys.
    pub const KEYS: &[&str] =
        &["columns", "every", "origin", "duplicates", "empty", "series", "series_names", "across_series"];
}

/// Names of columns. Without a header, a column is named by its number, from one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColumnsSpec {
    /// The time; `t` unless said, or the first column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The user; `user` unless said, or the second column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The value; `value` unless said, or the column after the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether the table has no header.
    #[serde(skip_serializing_if = "is_default")]
    pub no_header: bool,
}

impl ColumnsSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["time", "user", "value", "no_header"];
}

/// The treatment of a second line for the same timestamp: of the same user, of counts, or of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplicates {
    /// It is an error.
    #[default]
    Refuse,
    /// The first line counts.
    First,
    /// The last line counts.
    Last,
}

/// The treatment of a user's line without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Empty {
    /// It is an error.
    #[default]
    Refuse,
    /// The user is absent at the timestamp.
    Skip,
}

/// The length of a timestamp: a whole number of seconds, minutes, hours, days or weeks.
///
/// ```
/// use tidegate::spec::Every;
///
/// let day: Every = "1d".parse()?;
/// assert_eq!((day.seconds(), day.to_string()), (86_400, "1d".to_owned()));
/// assert_eq!("90m".parse::<Every>()?.to_string(), "90m");
/// assert!("1 month".parse::<Every>().is_err());
/// # Ok::<(), tidegate::spec::NoLength>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Every(NonZeroU64);

/// Units, the longest first.
const UNITS: [(char, u64); 5] = [('w', 7 * 86_400), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Longest timestamp, in seconds: a hundred years and some.
const LONGEST: u64 = 5_300 * 7 * 86_400;

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number and a unit (s, m, h, d or w), up to 5300w: 30s, 15m, 1h, 1d or 1w")]
pub struct NoLength;

impl Every {
    /// Its length.
    pub const fn seconds(self) -> u64 {
        self.0.get()
    }

    /// The timestamps of a clock that ticks after so many seconds.
    pub const fn of_seconds(seconds: NonZeroU64) -> Self {
        Self(seconds)
    }

    /// Whether it is a whole number of weeks.
    pub const fn is_weeks(self) -> bool {
        self.seconds().is_multiple_of(UNITS[0].1)
    }

    /// Whether it is a whole number of days.
    pub const fn is_days(self) -> bool {
        self.seconds().is_multiple_of(UNITS[1].1)
    }
}

impl FromStr for Every {
    type Err = NoLength;

    fn from_str(text: &str) -> Result<Self, NoLength> {
        let unit = text.chars().last().and_then(|unit| UNITS.iter().find(|(name, _)| *name == unit)).ok_or(NoLength)?;
        let number = &text[..text.len() - 1];
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NoLength);
        }
        let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit.1));
        let seconds = seconds.filter(|seconds| *seconds <= LONGEST).and_then(NonZeroU64::new);
        seconds.map(Self).ok_or(NoLength)
    }
}

impl TryFrom<String> for Every {
    type Error = NoLength;

    fn try_from(text: String) -> Result<Self, NoLength> {
        text.parse()
    }
}

impl From<Every> for String {
    fn from(every: Every) -> Self {
        every.to_string()
    }
}

impl fmt::Display for Every {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (unit, length) = UNITS.into_iter().find(|(_, length)| seconds.is_multiple_of(*length)).unwrap_or(('s', 1));
        write!(formatter, "{}{unit}", seconds / length)
    }
}
