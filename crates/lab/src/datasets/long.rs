//! Tables in long form: one line for each value of a user at a timestamp.
//!
//! ```text
//! t,user,value
//! 0,anna,home
//! 0,ben,away
//! 1,anna,away
//! ```
//!
//! Timestamps are whole numbers, none before the last; each user has at most one line at a timestamp. The domain is
//! public knowledge and never taken from the table. A file may be compressed with gzip.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;

use super::Format;
use super::table::{Line, Table};
use super::{DataError, scalar};
use crate::stream::CountStream;

/// The fields of the long form.
pub(super) const FIELDS: [&str; 3] = ["t", "user", "value"];

/// One line of a table in long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number in the file, from one.
    pub line: u64,
    /// The timestamp.
    pub timestamp: u64,
    /// The user.
    pub user: &'a str,
    /// The value, which is the user's: errors do not tell it.
    pub value: &'a str,
}

/// A field that a check refuses, and what is expected of it instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The field: `t`, `user` or `value`.
    pub field: &'static str,
    /// What is expected.
    pub expected: Cow<'static, str>,
}

/// A table in long form, read line by line: each entry is given out as soon as its line is complete, and no more is
/// kept than who had a line at the present timestamp. So it serves an endless pipe as well as a file.
///
/// ```
/// use tidegate_lab::datasets::long::Entries;
/// use tidegate_lab::datasets::Format;
///
/// let table = "t,user,value\n0,anna,home\n0,ben,away\n0,anna,away\n";
/// let mut entries = Entries::new("evening", table.as_bytes(), Format::Csv)?;
/// let users: Vec<_> = (0..2).map(|_| entries.next_checked(|entry| Ok(entry.user.to_owned()))).collect();
/// assert_eq!(users[1].as_ref().unwrap().as_deref(), Some("ben"));
/// let error = entries.next_checked(|_| Ok(())).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "evening, line 4, field \"user\": expected a user who has no other line at the same timestamp"
/// );
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub struct Entries<R> {
    table: Table<R>,
    last: Option<u64>,
    /// Timestamps up to this one are over.
    over: Option<u64>,
    seen: HashSet<String>,
}

impl<R> std::fmt::Debug for Entries<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entries").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> Entries<R> {
    /// Reads the first line, which must name the fields t, user and value; `name` is what errors call the source.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, DataError> {
        let mut table = Table::in_format(name, source, format)?;
        table.expect_header(&FIELDS)?;
        Ok(Self::of(table))
    }

    pub(super) fn of(table: Table<R>) -> Self {
        Self { table, last: None, over: None, seen: HashSet::new() }
    }

    /// The same, but everything up to a timestamp is over and refused.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// What a check makes of the next entry; where it refuses a field, the error names the line and the field.
    pub fn next_checked<T>(
        &mut self,
        check: impl FnOnce(Entry<'_>) -> Result<T, Refused>,
    ) -> Result<Option<T>, DataError> {
        let Some(line) = self.table.next_line()? else { return Ok(None) };
        let timestamp = line.timestamp()?;
        if self.over.is_some_and(|over| timestamp <= over) {
            return Err(line.bad_field(0, after_the_last(self.over)));
        }
        if self.last.is_some_and(|last| timestamp < last) {
            return Err(line.bad_field(0, "a timestamp that is not before the last"));
        }
        if self.last != Some(timestamp) {
            self.seen.clear();
        }
        self.last = Some(timestamp);
        let user = line.named(1, "a user: some text")?;
        if !self.seen.insert(user.to_owned()) {
            return Err(line.bad_field(1, "a user who has no other line at the same timestamp"));
        }
        let entry = Entry { line: line.number_of_line(), timestamp, user, value: line.text(2).trim() };
        check(entry).map(Some).map_err(|Refused { field, expected }| refuse(&line, field, expected))
    }
}

pub(super) fn after_the_last(over: Option<u64>) -> String {
    let over = over.unwrap_or_default();
    format!("a timestamp after {over}, with which the last run ended")
}

fn refuse(line: &Line<'_>, field: &'static str, expected: Cow<'static, str>) -> DataError {
    let position = FIELDS.iter().position(|name| *name == field).unwrap_or_default();
    line.bad_field(position, expected)
}

/// Reads a table of users and what each has chosen: the fields are user and the one that is named. Hands each line's
/// number, user and choice to `take`, which says what is expected instead where it refuses the choice.
pub fn read_users<R: Read>(
    name: &str,
    source: R,
    format: Format,
    choice: &'static str,
    mut take: impl FnMut(&str, &str) -> Result<(), Cow<'static, str>>,
) -> Result<(), DataError> {
    let mut table = Table::in_format(name, source, format)?;
    table.expect_header(&["user", choice])?;
    let mut seen = HashSet::new();
    while let Some(line) = table.next_line()? {
        let user = line.named(0, "a user: some text")?;
        if !seen.insert(user.to_owned()) {
            return Err(line.bad_field(0, "a user who has no other line"));
        }
        take(user, line.text(1).trim()).map_err(|expected| line.bad_field(1, expected))?;
    }
    Ok(())
}

/// Counts the users of each value, where values are the whole numbers of a domain. Each timestamp has users.
pub(super) fn stream<R: Read>(
    name: &str,
    mut entries: Entries<R>,
    domain: &scalar::Domain,
) -> Result<CountStream, DataError> {
    let content = |problem: &str| DataError::Content { file: name.to_owned(), problem: problem.to_owned() };
    let size = domain.high - domain.low + 1.0;
    let whole = domain.low.fract() == 0.0 && domain.high.fract() == 0.0 && domain.resolution.is_none();
    if !whole || !(1.0..=f64::from(MOST_VALUES)).contains(&size) {
        return Err(content(
            "the values of a table in long form are the whole numbers of its domain, a million at most",
        ));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most a million
    let size = size as usize;
    let labels = (0..size).map(|value| (domain.low + f64::from(u32::try_from(value).unwrap_or(0))).to_string());
    let mut last = None;
    let mut counts: Vec<Vec<u64>> = Vec::new();
    loop {
        let next = entries.next_checked(|entry| {
            if last.is_some_and(|last| entry.timestamp - last > 1) {
                return Err(Refused { field: "t", expected: "a timestamp that is the last, or one more".into() });
            }
            let number: Option<f64> = entry.value.parse().ok();
            let place = number.map(|number| number - domain.low);
            let place = place.filter(|place| place.fract() == 0.0 && (0.0..=domain.high - domain.low).contains(place));
            let expected = || format!("a whole number within the domain, {}..{}", domain.low, domain.high);
            let place = place.ok_or_else(|| Refused { field: "value", expected: expected().into() })?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the domain
            Ok((entry.timestamp, place as usize))
        })?;
        let Some((timestamp, place)) = next else { break };
        if last != Some(timestamp) {
            counts.push(vec![0; size]);
        }
        last = Some(timestamp);
        if let Some(counts) = counts.last_mut() {
            counts[place] += 1;
        }
    }
    CountStream::new(name, labels.collect(), counts)
        .map_err(|source| DataError::Stream { file: name.to_owned(), source })
}

const MOST_VALUES: u32 = 1_000_000;
