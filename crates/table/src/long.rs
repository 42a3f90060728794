//! Tables in long form: one value of one user a line.
//!
//! ```text
//! t,user,value
//! 0,anna,home
//! 0,ben,away
//! 1,anna,away
//! ```
//!
//! Timestamps are whole numbers that never decrease. Each user has at most one line at a timestamp.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;

use crate::{Format, TableError, TableLine, TableReader};

/// The fields of the long form.
pub const FIELDS: [&str; 3] = ["t", "user", "value"];

/// One line of a table in long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongRow<'a> {
    /// Number of the line in the file, from one.
    pub line: u64,
    /// The timestamp.
    pub timestamp: u64,
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
/// It keeps the names of the users of the present timestamp, and nothing else.
///
/// ```
/// use tidegate_table::Format;
/// use tidegate_table::long::LongReader;
///
/// let table = "t,user,value\n0,anna,home\n0,ben,away\n0,anna,away\n";
/// let mut reader = LongReader::new("evening", table.as_bytes(), Format::Csv)?;
/// let users: Vec<_> = (0..2).map(|_| reader.next_checked(|row| Ok(row.user.to_owned()))).collect();
/// assert_eq!(users[1].as_ref().unwrap().as_deref(), Some("ben"));
/// let error = reader.next_checked(|_| Ok(())).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "evening, line 4, field \"user\": expected a user who has no other line at the same timestamp"
/// );
/// # Ok::<(), tidegate_table::TableError>(())
/// ```
pub struct LongReader<R> {
    table: TableReader<R>,
    last: Option<u64>,
    /// Timestamps up to this one are rejected.
    over: Option<u64>,
    seen: HashSet<String>,
}

impl<R> std::fmt::Debug for LongReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LongReader").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> LongReader<R> {
    /// Reads the first line, which must name the fields t, user and value; `name` is the name in errors.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, TableError> {
        let mut table = TableReader::new(name, source, format)?;
        table.expect_header(&FIELDS)?;
        Ok(Self::from_table(table))
    }

    /// Reads on from a table that [has the fields](TableReader::has_fields) of the long form.
    pub fn from_table(table: TableReader<R>) -> Self {
        Self { table, last: None, over: None, seen: HashSet::new() }
    }

    /// Rejects timestamps up to the given one, with which the last run ended.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// Reads the next line and returns the result of `check`; `None` at the end.
    ///
    /// Where `check` rejects a field, the error names the line and the field.
    pub fn next_checked<T>(
        &mut self,
        check: impl FnOnce(LongRow<'_>) -> Result<T, FieldRefusal>,
    ) -> Result<Option<T>, TableError> {
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
        let row = LongRow { line: line.number_of_line(), timestamp, user, value: line.text(2).trim() };
        check(row).map(Some).map_err(|FieldRefusal { field, expected }| refuse(&line, field, expected))
    }
}

pub(crate) fn after_the_last(over: Option<u64>) -> String {
    let over = over.unwrap_or_default();
    format!("a timestamp after {over}, with which the last run ended")
}

fn refuse(line: &TableLine<'_>, field: &'static str, expected: Cow<'static, str>) -> TableError {
    let position = FIELDS.iter().position(|name| *name == field).unwrap_or_default();
    line.bad_field(position, expected)
}

/// Reads a table with one choice for each user: the fields are `user` and `choice`.
///
/// Passes each user and choice to `take`, which returns a description of a valid choice where it rejects one.
pub fn read_users<R: Read>(
    name: &str,
    source: R,
    format: Format,
    choice: &'static str,
    mut take: impl FnMut(&str, &str) -> Result<(), Cow<'static, str>>,
) -> Result<(), TableError> {
    let mut table = TableReader::new(name, source, format)?;
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
