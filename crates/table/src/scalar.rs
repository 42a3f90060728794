//! Tables in scalar form: one number a line.
//!
//! ```text
//! t,value
//! 0,212
//! 1,230.5
//! ```
//!
//! Timestamps are whole numbers, each later than the last.

use std::borrow::Cow;
use std::io::Read;

use crate::long::after_the_last;
use crate::{Format, TableError, TableLine, TableReader};

/// The fields of the scalar form.
pub const FIELDS: [&str; 2] = ["t", "value"];

/// One line of a table in scalar form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalarRow {
    /// The timestamp.
    pub timestamp: u64,
    /// The number, which is finite.
    pub value: f64,
}

/// Reads a table in scalar form, one line at a time.
///
/// It does not check that a number lies within a domain. Where the stream is released, no error may depend on the
/// number: [`next_text`](Self::next_text) passes on its text, for
/// [`Grid::seal_text`](tidegate::kernel::Grid::seal_text).
///
/// ```
/// use tidegate_table::scalar::{ScalarReader, ScalarRow};
///
/// let mut reader = ScalarReader::new("visitors", "t,value\n0,212\n7,230.5\n7,1\n".as_bytes())?;
/// assert_eq!(reader.next().transpose()?, Some(ScalarRow { timestamp: 0, value: 212.0 }));
/// assert_eq!(reader.next().transpose()?, Some(ScalarRow { timestamp: 7, value: 230.5 }));
/// let error = reader.next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "visitors, line 4, field \"t\": expected a timestamp that is later than the last");
/// # Ok::<(), tidegate_table::TableError>(())
/// ```
pub struct ScalarReader<R> {
    table: TableReader<R>,
    last: Option<u64>,
    /// Timestamps up to this one are rejected.
    over: Option<u64>,
    /// Number of the last line read.
    line: u64,
}

impl<R> std::fmt::Debug for ScalarReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ScalarReader").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> ScalarReader<R> {
    /// Reads the first line of CSV, which must be `t,value`; `name` is the name in errors.
    pub fn new(name: &str, source: R) -> Result<Self, TableError> {
        Self::in_format(name, source, Format::Csv)
    }

    /// Reads the first line of a table in either format.
    pub fn in_format(name: &str, source: R, format: Format) -> Result<Self, TableError> {
        let mut table = TableReader::new(name, source, format)?;
        table.allow_missing_values();
        table.expect_header(&FIELDS)?;
        Ok(Self::from_table(table))
    }

    /// Reads on from a table that [has the fields](TableReader::has_fields) of the scalar form.
    pub const fn from_table(table: TableReader<R>) -> Self {
        Self { table, last: None, over: None, line: 0 }
    }

    /// Rejects timestamps up to the given one, with which the last run ended.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// Returns the number of the last line read; zero before the first.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next line and returns the result of `check`; `None` at the end.
    ///
    /// Where `check` rejects the number, it returns a description of a valid one.
    pub fn next_checked<T>(
        &mut self,
        check: impl FnOnce(ScalarRow) -> Result<T, Cow<'static, str>>,
    ) -> Result<Option<T>, TableError> {
        self.next_with(|timestamp, line| {
            let value = line.finite(1, "a number")?;
            check(ScalarRow { timestamp, value }).map_err(|expected| line.bad_field(1, expected))
        })
    }

    /// Passes the next timestamp and the text of its number to `take`; no text is an error.
    pub fn next_text<T>(&mut self, take: impl FnOnce(u64, &str) -> T) -> Result<Option<T>, TableError> {
        self.next_with(|timestamp, line| Ok(take(timestamp, line.text(1))))
    }

    fn next_with<T>(
        &mut self,
        take: impl FnOnce(u64, &TableLine<'_>) -> Result<T, TableError>,
    ) -> Result<Option<T>, TableError> {
        let Some(line) = self.table.next_line()? else { return Ok(None) };
        self.line = line.number_of_line();
        let timestamp = line.timestamp()?;
        if self.over.is_some_and(|over| timestamp <= over) {
            return Err(line.bad_field(0, after_the_last(self.over)));
        }
        if self.last.is_some_and(|last| timestamp <= last) {
            return Err(line.bad_field(0, "a timestamp that is later than the last"));
        }
        let taken = take(timestamp, &line)?;
        self.last = Some(timestamp);
        Ok(Some(taken))
    }
}

/// After an error, the iterator goes on with the next line.
impl<R: Read> Iterator for ScalarReader<R> {
    type Item = Result<ScalarRow, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_checked(Ok).transpose()
    }
}
