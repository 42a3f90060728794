//! Tables of a scalar stream: one line a timestamp, with a number.
//!
//! ```text
//! t,value
//! 0,212
//! 1,230.5
//! ```
//!
//! Timestamps are whole numbers, each later than the last; there may be gaps. A file may be compressed with gzip.

use std::borrow::Cow;
use std::io::Read;

use super::DataError;
use super::Format;
use super::long::after_the_last;
use super::table::{Line, Table};
use tidegate_kernel::Grid;

use crate::stream::NumberStream;

/// One line of a scalar stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The timestamp.
    pub timestamp: u64,
    /// The number: finite.
    pub value: f64,
}

/// A scalar stream, read line by line: each reading is given out as soon as its line is complete, and none is kept. So
/// it serves an endless pipe as well as a file.
///
/// That a number lies within a domain is not checked here. Where the stream is to be released, an error that depends
/// on the number would tell something about it: [`next_text`](Self::next_text) hands on the text, for
/// [`Grid::seal_text`](tidegate_kernel::Grid::seal_text).
///
/// ```
/// use tidegate_lab::datasets::scalar::{Reading, Readings};
///
/// let mut readings = Readings::new("visitors", "t,value\n0,212\n7,230.5\n7,1\n".as_bytes())?;
/// assert_eq!(readings.next().transpose()?, Some(Reading { timestamp: 0, value: 212.0 }));
/// assert_eq!(readings.next().transpose()?, Some(Reading { timestamp: 7, value: 230.5 }));
/// let error = readings.next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "visitors, line 4, field \"t\": expected a timestamp that is later than the last");
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub struct Readings<R> {
    table: Table<R>,
    last: Option<u64>,
    /// Timestamps up to this one are over.
    over: Option<u64>,
    /// The number of the line that was read last.
    line: u64,
}

impl<R> std::fmt::Debug for Readings<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Readings").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> Readings<R> {
    /// Reads the first line, which must be `t,value`; `name` is what errors call the source.
    pub fn new(name: &str, source: R) -> Result<Self, DataError> {
        Self::in_format(name, source, Format::Csv)
    }

    /// The same, of a table in any format.
    pub fn in_format(name: &str, source: R, format: Format) -> Result<Self, DataError> {
        let mut table = Table::in_format(name, source, format)?;
        table.allow_missing_values();
        table.expect_header(&["t", "value"])?;
        Ok(Self::of(table))
    }

    pub(super) const fn of(table: Table<R>) -> Self {
        Self { table, last: None, over: None, line: 0 }
    }

    /// The same, but everything up to a timestamp is over and refused.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// The number of the line that was read last; zero before the first.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// What a check makes of the next reading; where it refuses the number, it says what is expected of it, and the
    /// error names the line and the field.
    pub fn next_checked<T>(
        &mut self,
        check: impl FnOnce(Reading) -> Result<T, Cow<'static, str>>,
    ) -> Result<Option<T>, DataError> {
        self.next_with(|timestamp, line| {
            let value = line.finite(1, "a number")?;
            check(Reading { timestamp, value }).map_err(|expected| line.bad_field(1, expected))
        })
    }

    /// What is made of the next timestamp and the text of its number. Whatever the text is, no error comes of it.
    pub fn next_text<T>(&mut self, take: impl FnOnce(u64, &str) -> T) -> Result<Option<T>, DataError> {
        self.next_with(|timestamp, line| Ok(take(timestamp, line.text(1))))
    }

    fn next_with<T>(
        &mut self,
        take: impl FnOnce(u64, &Line<'_>) -> Result<T, DataError>,
    ) -> Result<Option<T>, DataError> {
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

/// After an error, it goes on with the next line: whoever must not, stops.
impl<R: Read> Iterator for Readings<R> {
    type Item = Result<Reading, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_checked(Ok).transpose()
    }
}

/// The domain of a scalar stream, which is public knowledge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The distance of two numbers that are told apart. `None` stands for 1, and then all numbers must be whole, so
    /// that nobody's decimals are rounded away by oversight.
    pub resolution: Option<f64>,
}

pub(super) fn stream<R: Read>(
    name: &str,
    mut readings: Readings<R>,
    domain: &Domain,
) -> Result<NumberStream, DataError> {
    let grid = Grid::new(domain.low, domain.high, domain.resolution.unwrap_or(1.0))?;
    let whole = domain.resolution.is_none();
    let check = |Reading { value, .. }| {
        if grid.steps(value).is_err() {
            return Err(format!("a number within the domain, {}..{}", grid.low(), grid.high()).into());
        }
        if whole && value.fract() != 0.0 {
            return Err("a whole number, for the resolution is 1 unless another is given".into());
        }
        Ok(value)
    };
    let mut values = Vec::new();
    while let Some(value) = readings.next_checked(check)? {
        values.push(value);
    }
    NumberStream::new(name, grid, values).map_err(|source| DataError::Stream { file: name.to_owned(), source })
}
