//! Tables in wide form: a count for each value of the domain a line.
//!
//! ```text
//! t,away,home
//! 0,3,1
//! 1,1,4
//! ```
//!
//! The first line names the field `t` and the values. So the domain is declared, not taken from the data. Timestamps
//! are whole numbers, each later than the last.

use std::io::Read;

use crate::long::{FIELDS, LongReader, after_the_last};
use crate::{Format, TableError, TableReader};

/// A reader of a table in long or wide form.
#[derive(Debug)]
pub enum LongOrWide<R> {
    /// One value of one user a line.
    Long(LongReader<R>),
    /// A count for each value a line.
    Wide(WideReader<R>),
}

impl<R: Read> LongOrWide<R> {
    /// Reads the first line and detects the form from it; `name` is the name in errors.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, TableError> {
        let mut table = TableReader::new(name, source, format)?;
        if table.has_fields(&FIELDS) {
            return Ok(Self::Long(LongReader::from_table(table)));
        }
        WideReader::from_table(table).map(Self::Wide)
    }
}

/// One line of a table in wide form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideRow {
    /// Number of the line in the file, from one.
    pub line: u64,
    /// The timestamp.
    pub timestamp: u64,
    /// Number of users with each value, in the order of the fields.
    pub counts: Vec<u64>,
}

/// Reads a table in wide form, one line at a time.
///
/// ```
/// use tidegate_table::Format;
/// use tidegate_table::wide::WideReader;
///
/// let mut reader = WideReader::new("evenings", "{\"t\":3,\"home\":1,\"away\":4}\n".as_bytes(), Format::Ndjson)?;
/// assert!(reader.labels().eq(["home", "away"]));
/// assert_eq!(reader.next_row()?.map(|row| (row.timestamp, row.counts)), Some((3, vec![1, 4])));
/// # Ok::<(), tidegate_table::TableError>(())
/// ```
pub struct WideReader<R> {
    table: TableReader<R>,
    last: Option<u64>,
    gaps: bool,
    /// Timestamps up to this one are rejected.
    over: Option<u64>,
}

impl<R> std::fmt::Debug for WideReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WideReader").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<R: Read> WideReader<R> {
    /// Reads the first line, which names `t` and the values; `name` is the name in errors.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, TableError> {
        Self::from_table(TableReader::new(name, source, format)?)
    }

    /// Reads on from a table whose header was read; an error if it has another form.
    pub fn from_table(mut table: TableReader<R>) -> Result<Self, TableError> {
        if table.has_fields(&FIELDS) || table.has_fields(&["t", "value"]) {
            return Err(table.bad_header(
                "a table of single values cannot be read here; count the users of each value: t,<value>,<value>,..",
            ));
        }
        table.put_first("t");
        if table.header().next() != Some("t") {
            return Err(table.bad_header("the fields must be t,<value>,<value>,.. with a count for each value"));
        }
        Ok(Self { table, last: None, gaps: true, over: None })
    }

    /// Rejects a timestamp that is not one more than the last.
    #[must_use]
    pub fn without_gaps(self) -> Self {
        Self { gaps: false, ..self }
    }

    /// Rejects timestamps up to the given one, with which the last run ended.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// Returns the names of the values, in the order of their fields.
    pub fn labels(&self) -> impl Iterator<Item = &str> + '_ {
        self.table.header().skip(1)
    }

    /// Reads the next line; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<WideRow>, TableError> {
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
        Ok(Some(WideRow { line: line.number_of_line(), timestamp, counts }))
    }
}
