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
    /// The character between columns; as the first line tells unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<Separator>,
}

impl ColumnsSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["time", "user", "value", "no_header", "separator"];
}

/// The character between the columns of a table.
///
/// ```
/// use tidegate::spec::Separator;
///
/// assert_eq!((Separator::Tab.byte(), Separator::Tab.name()), (b'\t', "tab"));
/// assert_eq!("\t".parse(), Ok(Separator::Tab));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Separator {
    /// A comma.
    Comma,
    /// A semicolon.
    Semicolon,
    /// A tab.
    Tab,
    /// A vertical bar.
    Bar,
}

/// A text that names no separator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a separator of columns: \",\", \";\", \"|\" or \"tab\"")]
pub struct NoSeparator;

impl Separator {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Bar];

    /// The character.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Bar => b'|',
        }
    }

    /// How it is written in options and specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Comma => ",",
            Self::Semicolon => ";",
            Self::Tab => "tab",
            Self::Bar => "|",
        }
    }
}

impl FromStr for Separator {
    type Err = NoSeparator;

    fn from_str(text: &str) -> Result<Self, NoSeparator> {
        let is_it = |separator: &Self| text == separator.name() || text.as_bytes() == [separator.byte()];
        Self::ALL.into_iter().find(is_it).ok_or(NoSeparator)
    }
}

impl TryFrom<String> for Separator {
    type Error = NoSeparator;

    fn try_from(text: String) -> Result<Self, NoSeparator> {
        text.parse()
    }
}

impl From<Separator> for String {
    fn from(separator: Separator) -> Self {
        separator.name().to_owned()
    }
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

/// The length of a timestamp: a whole number of seconds, minutes, hours, days or weeks, or of months of the calendar.
///
/// ```
/// use tidegate::spec::Every;
///
/// let day: Every = "1d".parse()?;
/// assert_eq!((day.seconds(), day.to_string()), (Some(86_400), "1d".to_owned()));
/// assert_eq!("90m".parse::<Every>()?.to_string(), "90m");
/// let quarter: Every = "1 quarter".parse()?;
/// assert_eq!((quarter.seconds(), quarter.months(), quarter.to_string()), (None, Some(3), "3mo".to_owned()));
/// assert!("1 fortnight".parse::<Every>().is_err());
/// # Ok::<(), tidegate::spec::NoLength>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Every(Length);

/// Units of equal length, and of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Seconds(NonZeroU64),
    Months(NonZeroU64),
}

/// Units with their seconds, the longest first: the short name, and the word.
const UNITS: [(&str, &str, u64); 5] =
    [("w", "week", 7 * 86_400), ("d", "day", 86_400), ("h", "hour", 3_600), ("m", "minute", 60), ("s", "second", 1)];

/// Units with their months, the longest first.
const CALENDAR: [(&str, &str, u64); 3] = [("y", "year", 12), ("q", "quarter", 3), ("mo", "month", 1)];

/// Longest timestamp, in seconds and in months: a hundred years and some.
const LONGEST: (u64, u64) = (5_300 * 7 * 86_400, 1_200);

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a whole number and a unit, up to a hundred years: s, m, h, d or w, as in 30s, 15m, 1h, 1d or 1w, or of \
     the calendar mo, q or y, as in 1mo, 1q or 1y"
)]
pub struct NoLength;

impl Every {
    /// Its length in seconds; `None` for months of the calendar, which differ.
    pub const fn seconds(self) -> Option<u64> {
        match self.0 {
            Length::Seconds(seconds) => Some(seconds.get()),
            Length::Months(_) => None,
        }
    }

    /// Its number of months; `None` for lengths in seconds.
    pub const fn months(self) -> Option<u64> {
        match self.0 {
            Length::Seconds(_) => None,
            Length::Months(months) => Some(months.get()),
        }
    }

    /// The timestamps of a clock that ticks after so many seconds.
    pub const fn of_seconds(seconds: NonZeroU64) -> Self {
        Self(Length::Seconds(seconds))
    }

    /// Whether it is a whole number of weeks.
    pub const fn is_weeks(self) -> bool {
        matches!(self.0, Length::Seconds(seconds) if seconds.get().is_multiple_of(UNITS[0].2))
    }

    /// Whether it is a whole number of days.
    pub const fn is_days(self) -> bool {
        matches!(self.0, Length::Seconds(seconds) if seconds.get().is_multiple_of(UNITS[1].2))
            || self.months().is_some()
    }
}

impl FromStr for Every {
    type Err = NoLength;

    fn from_str(text: &str) -> Result<Self, NoLength> {
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or(NoLength)?;
        let (number, unit) = text.split_at(digits);
        let (number, unit): (u64, _) = (number.parse().map_err(|_| NoLength)?, unit.trim());
        let of = |units: &[(&str, &str, u64)], longest: u64| {
            let is_it = |(short, word, _): &&(&str, &str, u64)| {
                unit == *short || unit.strip_prefix(word).is_some_and(|end| end.is_empty() || end == "s")
            };
            let length = units.iter().find(is_it).and_then(|(_, _, length)| number.checked_mul(*length));
            length.filter(|length| *length <= longest).and_then(NonZeroU64::new)
        };
        let seconds = of(&UNITS, LONGEST.0).map(Length::Seconds);
        seconds.or_else(|| of(&CALENDAR, LONGEST.1).map(Length::Months)).map(Self).ok_or(NoLength)
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
        let (length, units) = match self.0 {
            Length::Seconds(seconds) => (seconds.get(), &UNITS[..]),
            // A quarter is three months.
            Length::Months(months) => (months.get(), &[CALENDAR[0], CALENDAR[2]][..]),
        };
        let fits = |(_, _, unit): &&(&str, &str, u64)| length.is_multiple_of(*unit);
        let (name, unit) = units.iter().find(fits).map_or(("", 1), |(name, _, unit)| (*name, *unit));
        write!(formatter, "{}{name}", length / unit)
    }
}
