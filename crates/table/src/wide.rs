//! Tables in wide form: a count for each value of the domain a line.
//!
//! ```text
//! t,away,home
//! 0,3,1
//! 1,1,4
//! ```
//!
//! The first line names the times and the values. So the domain is declared, not taken from the data. Each time is
//! later than the last.

use std::io::Read;

use crate::long::LongReader;
use crate::reading::{OneEach, Reading, Whole};
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
    pub fn open(name: &str, source: R, format: Format, reading: Reading) -> Result<Self, TableError> {
        Self::from_table(reading.open(name, source, format)?, reading)
    }

    /// Detects the form of a table whose header was read: one with the columns of users and values is long.
    pub fn from_table(table: TableReader<R>, reading: Reading) -> Result<Self, TableError> {
        if reading.is_long(&table) {
            return LongReader::from_table(table, reading).map(Self::Long);
        }
        WideReader::from_table(table, reading).map(Self::Wide)
    }
}

/// One line of a table in wide form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideRow {
    /// Number of the line in the file, from one.
    pub line: u64,
    /// The timestamp.
    pub timestamp: u64,
    /// The number of the series; 0 where the table is not split.
    pub series: usize,
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
    lines: OneEach<R, Vec<u64>>,
}

impl<R> std::fmt::Debug for WideReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WideReader").field("time", &self.lines.place).finish_non_exhaustive()
    }
}

impl<R: Read> WideReader<R> {
    /// Reads the first line, which names `t` and the values; `name` is the name in errors.
    pub fn new(name: &str, source: R, format: Format) -> Result<Self, TableError> {
        Self::from_table(TableReader::new(name, source, format)?, Reading::default())
    }

    /// Reads on from a table whose header was read; an error if it has another form.
    pub fn from_table(mut table: TableReader<R>, reading: Reading) -> Result<Self, TableError> {
        let [time, user, value, series] = reading.names();
        if table.has(value) && (table.has(user) || table.width() == 2) {
            return Err(table.bad_header(
                "a table of single values cannot be read here; count the users of each value: t,<value>,<value>,..",
            ));
        }
        let (place, series) = if table.is_json() {
            reading.check_json(&table, 0)?;
            table.put_first(time);
            let of_series = reading.series.is_some().then(|| table.field(&[series])).transpose()?;
            (0, of_series)
        } else {
            let ([place], series) = reading.find(&mut table, [0])?;
            table.read_only(0..table.width());
            (place, series)
        };
        Ok(Self { lines: OneEach::new(table, reading, place, series) })
    }

    /// Returns an error about the time of a line that was read before.
    pub fn bad_time(&self, line: u64, expected: String) -> TableError {
        self.lines.table.bad_field(line, self.lines.place, expected)
    }

    /// Returns the names of the values, in the order of their fields.
    pub fn labels(&self) -> impl Iterator<Item = &str> + '_ {
        let others = [Some(self.lines.place), self.lines.series];
        let is_value = move |(place, _): &(usize, &str)| !others.contains(&Some(*place));
        self.lines.table.header().enumerate().filter(is_value).map(|(_, label)| label)
    }

    /// Reads the next line; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<WideRow>, TableError> {
        let others = [Some(self.lines.place), self.lines.series];
        let next = self.lines.next(|line| {
            (0..line.fields()).filter(|field| !others.contains(&Some(*field))).map(|field| line.count(field)).collect()
        })?;
        Ok(next.map(|Whole { timestamp, series, line, content }| WideRow { line, timestamp, series, counts: content }))
    }
}
