//! Tables in long form: one value of one user a line.
//!
//! ```text
//! t,user,value
//! 0,anna,home
//! 0,ben,away
//! 1,anna,away
//! ```
//!
//! Times never decrease. Of each user, one line counts at a timestamp. [`Reading`] says which columns hold what, how
//! times become timestamps, and which line counts.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use tidegate::spec::{Duplicates, Empty};

use crate::reading::{Reading, Turn};
use crate::users::{Met, Users};
use crate::{Format, TableError, TableReader};

/// The fields of the long form.
const FIELDS: [&str; 3] = ["t", "user", "value"];

/// One line of a table in long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongRow<'a> {
    /// Number of the line in the file, from one.
    pub line: u64,
    /// The timestamp.
    pub timestamp: u64,
    /// The number of the series; 0 where the table is not split.
    pub series: usize,
    /// The user.
    pub user: &'a str,
    /// The user's value, which no error contains.
    pub value: &'a str,
}

/// A field that a caller's check rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRefusal {
    /// `t`, `user` or `value`.
    pub field: &'static str,
    /// Description of a valid field.
    pub expected: Cow<'static, str>,
}

/// Reads a table in long form, one line at a time.
///
/// It keeps the names of the users of the present timestamp, and of some before it.
///
/// ```
/// use tidegate_table::Format;
/// use tidegate_table::long::LongReader;
///
/// let table = "t,user,value\n0,anna,home\n0,ben,away\n0,anna,away\n";
/// let mut reader = LongReader::new("evening", table.as_bytes(), Format::Csv)?;
/// let users: Vec<_> = (0..2).map(|_| reader.next_checked(|row| Ok(row.user.to_string()))).collect();
/// assert_eq!(users[1].as_ref().unwrap().as_deref(), Some("ben"));
/// let error = reader.next_checked(|_| Ok(())).unwrap_err();
/// let expected = "evening, line 4, field \"user\": expected a user who has no other line at the same timestamp";
/// assert!(error.to_string().starts_with(expected));
/// # Ok::<(), tidegate_table::TableError>(())
/// ```
pub struct LongReader<R> {
    table: TableReader<R>,
    reading: Reading,
    /// The columns of times, users and values.
    places: [usize; 3],
    /// The column of series.
    series: Option<usize>,
    last: Option<u64>,
    /// The users of each series; empty where the caller rejects a second line of a user.
    users: Vec<Users>,
    /// Lines of the open timestamp that wait for a later line of the same user, in reverse order once it is over.
    held: Vec<Held>,
    /// Whether the timestamp of the held lines is over.
    is_over: bool,
    /// The first line of the next timestamp, read ahead.
    ahead: Option<Held>,
}

/// A line that is held back.
struct Held {
    timestamp: u64,
    series: usize,
    line: u64,
    user: Arc<str>,
    value: String,
}

impl<R> std::fmt::Debug for LongReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LongReader").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> LongReader<R> {
    /// Reads the first line, which must name the fields t, user and value; `name` is the name in errors.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, TableError> {
        Self::open(name, source, format, Reading::default())
    }

    /// Reads the first line of a table, whose columns and times are as `reading` says.
    pub fn open(name: &str, source: R, format: Format, reading: Reading) -> Result<Self, TableError> {
        Self::from_table(reading.open(name, source, format)?, reading)
    }

    /// Reads on from a table whose header was read.
    pub fn from_table(mut table: TableReader<R>, reading: Reading) -> Result<Self, TableError> {
        let (places, series) = reading.find(&mut table, [0, 1, 2])?;
        Ok(Self {
            table,
            places,
            series,
            last: None,
            users: std::iter::repeat_with(Users::default).take(reading.series_count()).collect(),
            reading,
            held: Vec::new(),
            is_over: false,
            ahead: None,
        })
    }

    /// Leaves it to the caller to reject a second line of a user, unless one of several counts. It keeps no names.
    #[must_use]
    pub fn with_repetitions(mut self) -> Self {
        if self.reading.duplicates == Duplicates::Refuse {
            self.users.clear();
        }
        self
    }

    /// Reads the next line and returns the result of `check`; `None` at the end.
    ///
    /// Where `check` rejects a field, the error names the line and the field.
    pub fn next_checked<T>(
        &mut self,
        check: impl FnOnce(LongRow<'_>) -> Result<T, FieldRefusal>,
    ) -> Result<Option<T>, TableError> {
        if self.reading.duplicates == Duplicates::Last {
            return self.next_held(check);
        }
        let [time, by_user, by_value] = self.places;
        loop {
            let Some(line) = self.table.next_line()? else { return Ok(None) };
            let (timestamp, turn) = self.reading.time(&line, time, &mut self.last)?;
            let series = self.reading.series_of(&line, self.series)?;
            if turn == Turn::Next {
                self.users.iter_mut().for_each(Users::begin);
            }
            let value = line.text(by_value).trim();
            let text = line.named(by_user, "a user: some text")?;
            if value.is_empty() && self.reading.empty == Empty::Skip {
                continue;
            }
            let is_again = self.users.get_mut(series).is_some_and(|users| !users.meet(text, 0).is_first);
            if is_again {
                if self.reading.duplicates == Duplicates::First {
                    continue;
                }
                return Err(line.bad_field(by_user, SECOND_LINE));
            }
            let row = LongRow { line: line.number_of_line(), timestamp, series, user: text, value };
            return check(row)
                .map(Some)
                .map_err(|FieldRefusal { field, expected }| line.bad_field(position(self.places, field), expected));
        }
    }

    /// Like [`Self::next_checked`], where the last line of a user counts.
    fn next_held<T>(
        &mut self,
        check: impl FnOnce(LongRow<'_>) -> Result<T, FieldRefusal>,
    ) -> Result<Option<T>, TableError> {
        if !self.is_over {
            self.hold_timestamp()?;
        }
        let Some(Held { timestamp, series, line, user, value }) = self.held.pop() else { return Ok(None) };
        self.is_over = !self.held.is_empty();
        let row = LongRow { line, timestamp, series, user: &user, value: &value };
        check(row).map(Some).map_err(|FieldRefusal { field, expected }| {
            self.table.bad_field(line, position(self.places, field), expected)
        })
    }

    /// Reads all lines of a timestamp.
    fn hold_timestamp(&mut self) -> Result<(), TableError> {
        let [time, by_user, by_value] = self.places;
        self.held.extend(self.ahead.take());
        while let Some(line) = self.table.next_line()? {
            let (timestamp, turn) = self.reading.time(&line, time, &mut self.last)?;
            let series = self.reading.series_of(&line, self.series)?;
            if turn == Turn::Next {
                self.users.iter_mut().for_each(Users::begin);
            }
            let value = line.text(by_value).trim();
            let text = line.named(by_user, "a user: some text")?;
            if value.is_empty() && self.reading.empty == Empty::Skip {
                continue;
            }
            let is_next = self.held.first().is_some_and(|held| held.timestamp != timestamp);
            let place = if is_next { 0 } else { self.held.len() };
            let Met { name, place, is_first } = self.users[series].meet(text, place);
            let (line, user) = (line.number_of_line(), Arc::clone(name));
            let held = Held { timestamp, series, line, user, value: value.to_owned() };
            if is_next {
                self.ahead = Some(held);
                break;
            }
            match self.held.get_mut(place).filter(|_| !is_first) {
                Some(earlier) => *earlier = held,
                None => self.held.push(held),
            }
        }
        self.held.reverse();
        self.is_over = true;
        Ok(())
    }
}

const SECOND_LINE: &str = "a user who has no other line at the same timestamp; duplicates = \"first\" or \"last\" says \
                           which of several counts";

fn position(places: [usize; 3], field: &'static str) -> usize {
    FIELDS.iter().position(|name| *name == field).map_or(places[0], |role| places[role])
}

/// Reads a table with one choice for each user: the fields are `user` and `choice`.
///
/// Passes each user and choice to `take`, which returns a description of a valid choice where it rejects one.
pub fn read_users<R: Read>(
    mut table: TableReader<R>,
    choice: &'static str,
    mut take: impl FnMut(&str, &str) -> Result<(), Cow<'static, str>>,
) -> Result<(), TableError> {
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
