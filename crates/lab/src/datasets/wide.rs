//! Tables in wide form: one line a timestamp, with a count for each value of the domain.
//!
//! ```text
//! t,away,home
//! 0,3,1
//! 1,1,4
//! ```
//!
//! The first line names the field `t` and the values: so the domain is what the table declares, not what happens to
//! occur in it. Timestamps are whole numbers, each one more than the last. The file may be compressed with gzip.

use std::io::Read;

use super::DataError;
use super::Format;
use super::long::{Entries, FIELDS, after_the_last};
use super::table::{Table, in_own_format};
use crate::stream::CountStream;

/// Reads a table; `name` is what errors and results call it.
///
/// ```
/// use tidegate_lab::datasets::wide;
///
/// let stream = wide::read("evenings", "t,away,home\n0,3,1\n1,1,4\n".as_bytes())?;
/// assert_eq!(stream.counts(), [[3, 1], [1, 4]]);
///
/// let error = wide::read("evenings", "t,away,home\n0,3,-1\n".as_bytes()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "evenings, line 2, field \"home\": expected a count: a whole number, zero or more"
/// );
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub fn read(name: &str, source: impl Read) -> Result<CountStream, DataError> {
    stream(name, in_own_format(name, source)?)
}

pub(super) fn stream<R: Read>(name: &str, table: Table<R>) -> Result<CountStream, DataError> {
    let mut rows = Rows::of(table)?.without_gaps();
    let mut counts = Vec::new();
    while let Some(row) = rows.next_row()? {
        counts.push(row.counts);
    }
    let labels = rows.labels().map(str::to_owned).collect();
    CountStream::new(name, labels, counts).map_err(|source| DataError::Stream { file: name.to_owned(), source })
}

/// A table of users in either form.
#[derive(Debug)]
pub enum LongOrWide<R> {
    /// A line for each user.
    Long(Entries<R>),
    /// A line with counts of users.
    Wide(Rows<R>),
}

impl<R: Read> LongOrWide<R> {
    /// Reads the first line, which tells the form.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, DataError> {
        let mut table = Table::in_format(name, source, format)?;
        Ok(if table.has_fields(&FIELDS) { Self::Long(Entries::of(table)) } else { Self::Wide(Rows::of(table)?) })
    }
}

/// One line of a table in wide form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number in the file, from one.
    pub line: u64,
    /// The timestamp.
    pub timestamp: u64,
    /// How many users hold each value, in the order of the fields.
    pub counts: Vec<u64>,
}

/// A table in wide form, read line by line: each row is given out as soon as its line is complete, and none is kept.
///
/// ```
/// use tidegate_lab::datasets::Format;
/// use tidegate_lab::datasets::wide::Rows;
///
/// let mut rows = Rows::new("evenings", "{\"t\":3,\"home\":1,\"away\":4}\n".as_bytes(), Format::Ndjson)?;
/// assert!(rows.labels().eq(["home", "away"]));
/// assert_eq!(rows.next_row()?.map(|row| (row.timestamp, row.counts)), Some((3, vec![1, 4])));
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub struct Rows<R> {
    table: Table<R>,
    last: Option<u64>,
    gaps: bool,
    /// Timestamps up to this one are over.
    over: Option<u64>,
}

impl<R> std::fmt::Debug for Rows<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rows").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> Rows<R> {
    /// Reads the first line, which names `t` and the values; `name` is what errors call the source.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, DataError> {
        Self::of(Table::in_format(name, source, format)?)
    }

    pub(super) fn of(mut table: Table<R>) -> Result<Self, DataError> {
        if table.has_fields(&FIELDS) || table.has_fields(&["t", "value"]) {
            return Err(table.bad_header(
                "a table of single values cannot be read here; count the users of each value: t,<value>,<value>,..",
            ));
        }
        table.put_first("t");
        if table.header().get(0) != Some("t") {
            return Err(table.bad_header("the fields must be t,<value>,<value>,.. with a count for each value"));
        }
        Ok(Self { table, last: None, gaps: true, over: None })
    }

    fn without_gaps(self) -> Self {
        Self { gaps: false, ..self }
    }

    /// The same, but everything up to a timestamp is over and refused.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// The values, in the order of their fields.
    pub fn labels(&self) -> impl Iterator<Item = &str> + '_ {
        self.table.header().iter().skip(1)
    }

    /// The next row, of a timestamp that is later than the last; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<Row>, DataError> {
        let Some(line) = self.table.next_line()? else { return Ok(None) };
        let timestamp = line.timestamp()?;
        if self.over.is_some_and(|over| timestamp <= over) {
            return Err(line.bad_field(0, after_the_last(self.over)));
        }
        let next = self.last.map_or(Some(timestamp), |last| last.checked_add(1));
        if !self.gaps && next != Some(timestamp) {
            return Err(line.bad_field(0, "a timestamp that is one more than the last"));
        }
        if next.is_none_or(|next| timestamp < next) {
            return Err(line.bad_field(0, "a timestamp that is later than the last"));
        }
        self.last = Some(timestamp);
        let counts = (1..line.fields()).map(|field| line.count(field)).collect::<Result<_, _>>()?;
        Ok(Some(Row { line: line.number_of_line(), timestamp, counts }))
    }
}
