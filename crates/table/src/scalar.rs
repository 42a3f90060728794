//! Tables in scalar form: one number a line.
//!
//! ```text
//! t,value
//! 0,212
//! 1,230.5
//! ```
//!
//! Each time is later than the last. [`Reading`] says which columns hold what, and how times become timestamps.

use std::borrow::Cow;
use std::io::Read;

use crate::reading::{OneEach, Reading, Whole};
use crate::{Format, TableError, TableReader};

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
/// assert!(error.to_string().starts_with("visitors, line 4, field \"t\": expected a timestamp that is later"));
/// # Ok::<(), tidegate_table::TableError>(())
/// ```
pub struct ScalarReader<R> {
    lines: OneEach<R, String>,
    /// The column of the numbers.
    value: usize,
    /// Number of the last line read.
    line: u64,
}

impl<R> std::fmt::Debug for ScalarReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ScalarReader").field("line", &self.line).finish_non_exhaustive()
    }
}

impl<R: Read> ScalarReader<R> {
    /// Reads the first line of CSV, which must be `t,value`; `name` is the name in errors.
    pub fn new(name: &str, source: R) -> Result<Self, TableError> {
        Self::open(name, source, Format::Csv, Reading::default())
    }

    /// Reads the first line of a table, whose columns and times are as `reading` says.
    pub fn open(name: &str, source: R, format: Format, reading: Reading) -> Result<Self, TableError> {
        Self::from_table(reading.open(name, source, format)?, reading)
    }

    /// Reads on from a table whose header was read.
    pub fn from_table(mut table: TableReader<R>, reading: Reading) -> Result<Self, TableError> {
        table.allow_missing_values();
        let ([time, value], series) = reading.find(&mut table, [0, 2])?;
        Ok(Self { lines: OneEach::new(table, reading, time, series), value, line: 0 })
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
        let Some(Whole { timestamp, content, .. }) = self.next_whole()? else { return Ok(None) };
        let number = content.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let checked = number.ok_or("a number".into()).and_then(|value| check(ScalarRow { timestamp, value }));
        checked.map(Some).map_err(|expected| self.lines.table.bad_field(self.line, self.value, expected))
    }

    /// Passes the number of the next line's series, its timestamp and the text of its number to `take`; no text is an
    /// error. The series is 0 where the table is not split.
    pub fn next_text<T>(&mut self, take: impl FnOnce(usize, u64, &str) -> T) -> Result<Option<T>, TableError> {
        Ok(self.next_whole()?.map(|Whole { timestamp, series, content, .. }| take(series, timestamp, &content)))
    }

    fn next_whole(&mut self) -> Result<Option<Whole<String>>, TableError> {
        let value = self.value;
        let next = self.lines.next(|line| Ok(line.text(value).to_owned()))?;
        self.line = next.as_ref().map_or(self.line, |whole| whole.line);
        Ok(next)
    }
}

/// After an error, the iterator goes on with the next line.
impl<R: Read> Iterator for ScalarReader<R> {
    type Item = Result<ScalarRow, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_checked(Ok).transpose()
    }
}
