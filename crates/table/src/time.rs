//! [`Clock`]: times as timestamps, and timestamps as times.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};
use tidegate::spec::{Every, InputSpec};

/// Counters from here on are taken for seconds since 1970: it is March 1973.
const LIKE_SECONDS: u64 = 100_000_000;

/// Whole numbers from here on are milliseconds since 1970: as milliseconds it is March 1973, as seconds the year 5138.
const LIKE_MILLISECONDS: u64 = 100_000_000_000;

/// The Monday of the week of 1970-01-01, in seconds.
const MONDAY: i64 = -3 * 86_400;

/// A description of what was expected of a time. It never contains the content of a field.
type Expected = Cow<'static, str>;

/// Turns times into timestamps, and timestamps into times of the same form.
///
/// Without a length of timestamps, a time is a counter: the timestamp itself. With one, it is a date, a date-time, or a
/// number of seconds or milliseconds since 1970, and its timestamp is `floor((time - origin) / every)`. Months are
/// counted by the calendar, from the month of the origin. All times of a table have the form and the offset from UTC of
/// the first; a time without an offset counts as UTC. Dates and hours are those of the clock at that offset.
///
/// A clone knows the form that either has read.
///
/// ```
/// use tidegate::spec::InputSpec;
/// use tidegate_table::time::Clock;
///
/// let daily = InputSpec { every: "1d".parse().ok(), origin: Some("2026-03-01".to_owned()), ..InputSpec::default() };
/// let mut clock = Clock::new(&daily)?;
/// assert_eq!(clock.timestamp("2026-03-03T09:30+01:00"), Ok(2));
/// assert_eq!(clock.time(2).as_deref(), Some("2026-03-03T00:00+01:00"));
/// assert!(clock.timestamp("2026-03-03T09:30Z").is_err(), "another offset");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    every: Option<Every>,
    /// The beginning of timestamp 0, in seconds of the local clock.
    origin: i64,
    /// The offset that the origin was given with.
    zone: Option<Offset>,
    /// The offset of the times of an earlier run, which this one goes on with.
    kept: Option<Zone>,
    /// Whether timestamps share something, so that seconds in place of counters would tear them apart.
    shares: bool,
    form: Arc<OnceLock<Form>>,
    /// The last text and its timestamp: many lines have the same time.
    last: (String, u64),
}

/// Where the times of a table are local: it decides which times fall into a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Zone {
    /// Times without an offset from UTC: dates, and date-times of an unknown zone.
    Unstated,
    /// Times with this offset, in seconds. Seconds since 1970 have the offset 0.
    Offset(i32),
}

/// The form of a table's times.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Date,
    DateTime {
        /// Between date and time.
        separator: char,
        /// Length of the time of day as text: `09:30`, `09:30:00`, `09:30:00.000`.
        precision: usize,
        /// As it was written, with the offset that it stands for; `None` where nothing was.
        zone: Option<(String, Offset)>,
    },
    Seconds,
    Milliseconds,
}

impl Form {
    fn zone(&self) -> Zone {
        match self {
            Self::Date | Self::DateTime { zone: None, .. } => Zone::Unstated,
            Self::DateTime { zone: Some((_, offset)), .. } => Zone::Offset(offset.seconds()),
            Self::Seconds | Self::Milliseconds => Zone::Offset(0),
        }
    }

    const fn in_words(&self) -> &'static str {
        match self {
            Self::Date => "a date without a time of day, like the times before it",
            Self::DateTime { .. } => "a date with a time of day, like the times before it",
            Self::Seconds => "a number of seconds since 1970, like the times before it",
            Self::Milliseconds => "a number of milliseconds since 1970, like the times before it",
        }
    }
}

const A_TIME: &str = "a time: a date (2026-03-01, not 20260301), a date-time (2026-03-01T09:30:00Z), or the seconds \
                      or milliseconds since 1970";

impl Clock {
    /// A clock for the times of a table.
    ///
    /// # Errors
    /// A description of the invalid `origin`.
    pub fn new(input: &InputSpec) -> Result<Self, String> {
        let (origin, zone) = match (&input.origin, input.every) {
            (None, every) => (if every.is_some_and(Every::is_weeks) { MONDAY } else { 0 }, None),
            (Some(_), None) => return Err("origin goes with every, the length of a timestamp: every = \"1d\"".into()),
            (Some(text), Some(every)) => match parse(text) {
                Some((Form::Date, seconds)) => (seconds, None),
                Some((Form::DateTime { zone, .. }, seconds)) if !every.is_days() || seconds % 86_400 == 0 => {
                    (seconds, zone.map(|(_, offset)| offset))
                }
                Some((Form::DateTime { .. }, _)) => {
                    return Err(
                        "timestamps of days, weeks or months begin at midnight: leave the time of day out".into()
                    );
                }
                _ => return Err("expected a date (2026-03-01) or a date-time (2026-03-01T09:30:00Z)".into()),
            },
        };
        if input.every.is_some_and(|every| every.months().is_some())
            && month_of(origin).and_then(first_of) != Some(origin)
        {
            return Err("timestamps of months begin on the first day of one, as in origin = \"2026-01-01\"".into());
        }
        Ok(Self { every: input.every, origin, zone, ..Self::default() })
    }

    /// A clock of timestamps that begin at a second since 1970, in UTC.
    pub fn of_ticks(every: Every, epoch: u64) -> Self {
        let origin = i64::try_from(epoch).unwrap_or(i64::MAX);
        let form = if every.is_days() && epoch.is_multiple_of(86_400) {
            Form::Date
        } else {
            Form::DateTime { separator: 'T', precision: 8, zone: Some(("Z".to_owned(), Offset::UTC)) }
        };
        Self { every: Some(every), origin, form: Arc::new(form.into()), ..Self::default() }
    }

    /// Rejects counters that look like seconds since 1970: for streams with a delay or a window of several timestamps.
    pub const fn refuse_seconds(&mut self) {
        self.shares = true;
    }

    /// Rejects times of another offset than those of an earlier run: they would fall into other timestamps.
    pub const fn keep_zone(&mut self, zone: Option<Zone>) {
        self.kept = zone;
    }

    /// Where the times are local; `None` before the first.
    pub fn zone(&self) -> Option<Zone> {
        self.form.get().map(Form::zone).or(self.kept)
    }

    /// Whether timestamps have times.
    pub const fn has_times(&self) -> bool {
        self.every.is_some()
    }

    /// Returns the timestamp of a time.
    ///
    /// # Errors
    /// A description of what was expected.
    pub fn timestamp(&mut self, text: &str) -> Result<u64, Expected> {
        let Some(every) = self.every else { return self.counter(text) };
        if text == self.last.0 && !text.is_empty() {
            return Ok(self.last.1);
        }
        let (form, seconds) = parse(text).ok_or(A_TIME)?;
        if form == Form::Date && !every.is_days() {
            return Err(format!("a time of day too: every is {every}, and a date has days only").into());
        }
        if let Form::DateTime { zone, .. } = &form
            && let Some(expected) = self.zone.filter(|expected| zone.as_ref().map(|(_, given)| given) != Some(expected))
        {
            return Err(format!("the offset from UTC of the origin, {expected}: convert all times to it").into());
        }
        if let Some(kept) = self.kept.filter(|kept| *kept != form.zone()) {
            return Err(as_kept(kept));
        }
        let known = self.form.get_or_init(|| form.clone());
        let offset = |zone: &Option<(String, Offset)>| zone.as_ref().map(|(_, offset)| *offset);
        match (known, &form) {
            (Form::DateTime { zone: one, .. }, Form::DateTime { zone: other, .. }) if offset(one) == offset(other) => {}
            (Form::DateTime { .. }, Form::DateTime { .. }) => {
                return Err("the same offset from UTC as the times before it: convert all times to UTC (Z), or leave \
                            the offsets out"
                    .into());
            }
            (known, form) if known != form => return Err(known.in_words().into()),
            _ => {}
        }
        let timestamp = self.number_of(every, seconds).ok_or_else(|| {
            let origin = self.time(0).unwrap_or_default();
            Cow::from(format!("a time from {origin} on, where timestamp 0 begins: origin names another beginning"))
        })?;
        self.last.0.clear();
        self.last.0.push_str(text);
        self.last.1 = timestamp;
        Ok(timestamp)
    }

    /// The timestamp of a second of the local clock; `None` before the origin.
    fn number_of(&self, every: Every, seconds: i64) -> Option<u64> {
        let (since, length) = match every.months() {
            None => (seconds.checked_sub(self.origin)?, every.seconds()?),
            Some(months) => (month_of(seconds)? - month_of(self.origin)?, months),
        };
        u64::try_from(since.div_euclid(i64::try_from(length).ok()?)).ok()
    }

    /// The second of the local clock at which a timestamp begins; `None` where it is too late for a clock.
    fn beginning(&self, every: Every, timestamp: u64) -> Option<i64> {
        let after = |length: u64| i64::try_from(timestamp.checked_mul(length)?).ok();
        match every.months() {
            None => after(every.seconds()?)?.checked_add(self.origin),
            Some(months) => first_of(month_of(self.origin)?.checked_add(after(months)?)?),
        }
    }

    fn counter(&self, text: &str) -> Result<u64, Expected> {
        let Ok(counter) = text.parse::<u64>() else {
            if matches!(parse(text), Some((Form::Date | Form::DateTime { .. }, _))) {
                return Err("a whole number; for dates and times, say how long a timestamp is: every = \"1d\" in the \
                            spec, or --every 1d"
                    .into());
            }
            return Err("a timestamp: a whole number, zero or more".into());
        };
        if self.shares && counter >= LIKE_SECONDS {
            return Err("a counter 0, 1, 2, .., and this looks like seconds since 1970, so that a delay or a window \
                        would hold a single timestamp: say how long a timestamp is, every = \"1h\" in the spec or \
                        --every 1h (1s if seconds are meant)"
                .into());
        }
        Ok(counter)
    }

    /// Returns the beginning of a timestamp in seconds since 1970 by the local clock; `None` for counters.
    pub fn seconds(&self, timestamp: u64) -> Option<i64> {
        Some(self.beginning(self.every?, timestamp).unwrap_or(i64::MAX))
    }

    /// Returns the time at which a timestamp begins, in the form of the table; `None` for counters.
    pub fn time(&self, timestamp: u64) -> Option<String> {
        let (every, seconds) = (self.every?, self.seconds(timestamp)?);
        let iso = if every.is_days() {
            Form::Date
        } else {
            let kept = match self.kept {
                Some(Zone::Offset(seconds)) => Offset::from_seconds(seconds).ok(),
                _ => None,
            };
            Form::DateTime { separator: 'T', precision: 8, zone: self.zone.or(kept).map(|zone| (written(zone), zone)) }
        };
        let form = self.form.get().unwrap_or(&iso);
        let (separator, precision, zone) = match form {
            Form::Seconds => return Some(seconds.to_string()),
            Form::Milliseconds => return Some((i128::from(seconds) * 1_000).to_string()),
            Form::Date => ('T', 0, ""),
            Form::DateTime { separator, precision, zone } => {
                (*separator, *precision, zone.as_ref().map_or("", |(written, _)| written.as_str()))
            }
        };
        let Ok(moment) = Timestamp::from_second(seconds) else { return Some(String::new()) };
        let local = Offset::UTC.to_datetime(moment);
        let mut text = local.date().to_string();
        if precision > 0 {
            let time = local.time();
            text.push(separator);
            text.push_str(&format!("{:02}:{:02}", time.hour(), time.minute()));
            if precision > 5 || time.second() != 0 {
                text.push_str(&format!(":{:02}", time.second()));
            }
            if precision > 9 {
                text.push('.');
                text.extend(std::iter::repeat_n('0', precision - 9));
            }
            text.push_str(zone);
        }
        Some(text)
    }

    /// Describes a timestamp in an error: its time, or the counter.
    pub fn describe(&self, timestamp: u64) -> String {
        self.time(timestamp).unwrap_or_else(|| timestamp.to_string())
    }

    /// The word for a timestamp in an error.
    pub(crate) const fn noun(&self) -> &'static str {
        if self.has_times() { "time" } else { "timestamp" }
    }
}

/// An offset as tables have it: `+08:00`.
fn written(zone: Offset) -> String {
    let seconds = zone.seconds();
    let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
    match (seconds, seconds % 60) {
        (0, _) => "Z".to_owned(),
        (_, 0) => format!("{}{hours:02}:{minutes:02}", if seconds < 0 { '-' } else { '+' }),
        _ => zone.to_string(),
    }
}

/// Describes a time with the offset of an earlier run.
fn as_kept(kept: Zone) -> Expected {
    let offset = match kept {
        Zone::Unstated => {
            return "a time without an offset from UTC, like those of the last run: with another offset, times would \
                    fall into other timestamps of the same budget"
                .into();
        }
        Zone::Offset(0) => "Z (UTC)".to_owned(),
        Zone::Offset(seconds) => Offset::from_seconds(seconds).map_or_else(|_| String::new(), written),
    };
    format!(
        "the offset from UTC of the last run, {offset}: with another one, times would fall into other timestamps of \
         the same budget; convert all times to it"
    )
    .into()
}

/// The number of the month of a second of the local clock, from the year 0.
fn month_of(seconds: i64) -> Option<i64> {
    let local = Offset::UTC.to_datetime(Timestamp::from_second(seconds).ok()?);
    Some(12 * i64::from(local.year()) + i64::from(local.month()) - 1)
}

/// The second of the local clock at which a month begins.
fn first_of(month: i64) -> Option<i64> {
    let year = i16::try_from(month.div_euclid(12)).ok()?;
    let first = Date::new(year, i8::try_from(month.rem_euclid(12)).ok()? + 1, 1).ok()?;
    Some(Offset::UTC.to_timestamp(first.to_datetime(Time::midnight())).ok()?.as_second())
}

/// Whether a number reads as a date without hyphens, such as 20260301.
fn is_compact_date(text: &str) -> bool {
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(|part| part.parse::<u16>().ok());
    let date = (part(0..4), part(4..6), part(6..8));
    text.len() == 8 && matches!(date, (Some(1900..=2199), Some(1..=12), Some(1..=31)))
}

/// Returns the form of a time, and its seconds since 1970 by the local clock, rounded down.
fn parse(text: &str) -> Option<(Form, i64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !whole.is_empty() && is_digits(whole) {
        let number: u64 = whole.parse().ok().filter(|_| is_digits(fraction))?;
        // As seconds, it would be a day of 1970.
        if is_compact_date(text) {
            return None;
        }
        let is_milliseconds = number >= LIKE_MILLISECONDS;
        let seconds = i64::try_from(if is_milliseconds { number / 1_000 } else { number }).ok()?;
        return Some((if is_milliseconds { Form::Milliseconds } else { Form::Seconds }, seconds));
    }
    // Four digits of the year: signed years, and forms without hyphens, would be printed in another way.
    if text.as_bytes().get(4) != Some(&b'-') || !text.is_ascii() {
        return None;
    }
    let pieces = Pieces::parse(text).ok()?;
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let time = pieces.time();
    let local = DateTime::from_parts(pieces.date(), time.unwrap_or(Time::midnight()));
    let seconds = Offset::UTC.to_timestamp(local).ok()?.duration_since(Timestamp::UNIX_EPOCH);
    // Rounded down, also before 1970.
    let seconds = seconds.as_secs() - i64::from(seconds.subsec_nanos() < 0);
    if time.is_none() {
        return Some((Form::Date, seconds));
    }
    let of_day = text.get(11..)?;
    let end = of_day.find(|letter: char| !(letter.is_ascii_digit() || ".:,".contains(letter)));
    let (of_day, written) = of_day.split_at(end.unwrap_or(of_day.len()));
    let zone = pieces.to_numeric_offset().map(|offset| (written.to_owned(), offset));
    let separator = char::from(*text.as_bytes().get(10)?);
    Some((Form::DateTime { separator, precision: of_day.len(), zone }, seconds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn clock(every: &str, origin: Option<&str>) -> Clock {
        let (every, origin) = (Some(every.parse().unwrap()), origin.map(str::to_owned));
        Clock::new(&InputSpec { every, origin, ..InputSpec::default() }).unwrap()
    }

    /// The timestamp of a time, and the time of that timestamp.
    fn there_and_back(every: &str, origin: Option<&str>, time: &str) -> (u64, String) {
        let mut clock = clock(every, origin);
        let timestamp = clock.timestamp(time).unwrap();
        (timestamp, clock.time(timestamp).unwrap())
    }

    #[test]
    fn times_keep_their_form() {
        for (every, time, timestamp, begins) in [
            ("1d", "2026-03-01", 20_513, "2026-03-01"),
            ("1w", "2026-03-01", 2_930, "2026-02-23"),
            ("1w", "2026-03-02", 2_931, "2026-03-02"),
            ("1mo", "2026-03-31", 674, "2026-03-01"),
            ("1mo", "2024-02-29T23:59:59Z", 649, "2024-02-01T00:00:00Z"),
            ("1 quarter", "2026-03-01", 224, "2026-01-01"),
            ("1y", "1772323200", 56, "1767225600"),
            ("1h", "1970-01-02T03:59", 27, "1970-01-02T03:00"),
            ("1h", "1970-01-02 03:59:59.250", 27, "1970-01-02 03:00:00.000"),
            ("1h", "1970-01-01T23:30:00-05:00", 23, "1970-01-01T23:00:00-05:00"),
            ("15m", "1970-01-01T01:20:00Z", 5, "1970-01-01T01:15:00Z"),
            ("30s", "1970-01-01T00:01:40+0200", 3, "1970-01-01T00:01:30+0200"),
            ("30s", "1970-01-01T00:01", 2, "1970-01-01T00:01"),
            ("1d", "1772323200", 20_513, "1772323200"),
            ("1h", "3599.75", 0, "0"),
            ("1d", "1772323200123", 20_513, "1772323200000"),
        ] {
            assert_eq!(there_and_back(every, None, time), (timestamp, begins.to_owned()), "{every} {time}");
        }
        let origin = Some("2026-03-01T06:00+01:00");
        assert_eq!(there_and_back("6h", origin, "2026-03-02T07:00+01:00"), (4, "2026-03-02T06:00+01:00".to_owned()));
    }

    #[test]
    fn months_are_those_of_the_calendar() {
        for month in 0..2_000_u64 {
            let mut clock = clock("1mo", Some("1999-11-01"));
            let begins = clock.time(month).unwrap();
            let (year, of_year) = (1999 + (10 + month) / 12, (10 + month) % 12 + 1);
            assert_eq!(begins, format!("{year}-{of_year:02}-01"));
            assert_eq!(clock.timestamp(&begins), Ok(month));
            assert_eq!(clock.timestamp(&format!("{year}-{of_year:02}-28")), Ok(month));
        }
        let origin = |origin: &str| {
            let (every, origin) = ("3mo".parse().ok(), Some(origin.to_owned()));
            Clock::new(&InputSpec { every, origin, ..InputSpec::default() }).map(|_| ())
        };
        assert!(origin("2026-02-01").is_ok() && origin("2026-02-01T00:00+01:00").is_ok());
        assert!(origin("2026-02-02").unwrap_err().contains("on the first day"));
        let before = clock("1mo", Some("2026-03-01")).timestamp("2026-02-28").unwrap_err();
        assert!(before.starts_with("a time from 2026-03-01 on"), "{before}");
        assert_eq!(clock("1y", None).time(u64::MAX).unwrap(), "");
    }

    #[test]
    fn a_kept_offset_is_written_like_that_of_a_table() {
        for offset in ["+08:00", "-03:30", "Z"] {
            let mut first = clock("1h", None);
            first.timestamp(&format!("2026-03-01T09:00:00{offset}")).unwrap();
            let mut next = clock("1h", None);
            next.keep_zone(first.zone());
            let time = next.time(492_300).unwrap();
            assert!(time.starts_with("2026-0") && time.ends_with(&format!(":00:00{offset}")), "{time}");
            assert_eq!(next.timestamp(&time), Ok(492_300));
        }
    }

    #[test]
    fn an_earlier_run_fixes_the_offset() {
        let refused = |every: &str, earlier: &str, time: &str| {
            let mut first = clock(every, None);
            first.timestamp(earlier).unwrap();
            let mut next = clock(every, None);
            next.keep_zone(first.zone());
            assert_eq!(next.zone(), first.zone());
            next.timestamp(time).err().map(Cow::into_owned)
        };
        for (every, earlier, time) in [
            ("1d", "2026-03-01", "2026-03-02T00:00"),
            ("1h", "2026-03-01T09:00+01:00", "2026-03-01 11:00:00+0100"),
            ("1h", "2026-03-01T09:00Z", "1772409600"),
            ("1h", "1772409600", "1772409600000"),
        ] {
            assert_eq!(refused(every, earlier, time), None, "{earlier} {time}");
        }
        for (every, earlier, time, why) in [
            ("1h", "2026-03-01T09:00+01:00", "2026-03-02T09:00Z", "the last run, +01:00:"),
            ("1h", "2026-03-01T09:00Z", "2026-03-02T09:00+01:00", "the last run, Z (UTC):"),
            ("1h", "2026-03-01T09:00Z", "2026-03-02T09:00", "the last run, Z (UTC):"),
            ("1d", "2026-03-01", "1772409600", "without an offset from UTC, like those of the last run"),
        ] {
            let refused = refused(every, earlier, time).unwrap_or_default();
            assert!(refused.contains(why), "{earlier} {time}: {refused}");
        }
    }

    #[test]
    fn an_unread_form_is_iso_8601() {
        assert_eq!(clock("1d", Some("2026-03-01")).time(31).unwrap(), "2026-04-01");
        assert_eq!(clock("1h", Some("2026-03-01T00:00Z")).time(25).unwrap(), "2026-03-02T01:00:00Z");
        let hour = "1h".parse().unwrap();
        assert_eq!(Clock::of_ticks(hour, 0).time(1).unwrap(), "1970-01-01T01:00:00Z");
        assert_eq!(Clock::of_ticks("1d".parse().unwrap(), 86_400).time(1).unwrap(), "1970-01-03");
    }

    #[test]
    fn rejects_what_is_no_time() {
        for wrong in [
            "",
            "2026-02-30",
            "2026-13-01",
            "01.03.2026",
            "03/01/2026",
            "20260301",
            "2026-03-01T25:00",
            "-1",
            "1e9",
            "2026-03-01T09:00[Europe/Paris]",
            "yesterday",
        ] {
            let mut clock = clock("1h", None);
            assert_eq!(clock.timestamp(wrong).unwrap_err(), A_TIME, "{wrong}");
        }
    }

    #[test]
    fn rejects_another_form_or_offset() {
        let refused = |every: &str, one: &str, other: &str| {
            let mut clock = clock(every, None);
            clock.timestamp(one).unwrap();
            clock.timestamp(other).unwrap_err().into_owned()
        };
        assert!(refused("1d", "2026-03-01", "2026-03-01T00:00").starts_with("a date without a time of day"));
        assert!(refused("1d", "1772323200", "2026-03-01").starts_with("a number of seconds since 1970"));
        assert!(refused("1h", "2026-03-01T00:00Z", "2026-03-01T00:00").starts_with("the same offset from UTC"));
        assert!(refused("1h", "2026-03-01T00:00+01:00", "2026-03-01T00:00+02:00").contains("convert all times to UTC"));
        assert!(clock("1h", None).timestamp("2026-03-01").unwrap_err().starts_with("a time of day too: every is 1h"));
        let mut here = clock("1h", Some("2026-03-01T00:00+01:00"));
        let why = here.timestamp("2026-03-01T00:00Z").unwrap_err();
        assert!(why.contains("the offset from UTC of the origin"), "{why}");
        let before = clock("1d", Some("2026-03-01")).timestamp("2026-02-28").unwrap_err();
        assert!(before.starts_with("a time from 2026-03-01 on"), "{before}");
    }

    #[test]
    fn counters_that_look_like_seconds_are_rejected_where_timestamps_share() {
        let mut counters = Clock::default();
        assert_eq!(counters.timestamp("1772323200"), Ok(1_772_323_200));
        assert!(counters.timestamp("2026-03-01").unwrap_err().contains("--every 1d"));
        let mut shared = counters;
        shared.refuse_seconds();
        assert!(shared.timestamp("1772323200").unwrap_err().contains("--every 1h"));
        assert_eq!(shared.timestamp("99999999"), Ok(99_999_999));
        assert_eq!(shared.time(3), None);
    }
}
