//! Rows of a table as entries of a stream.

use std::fmt;
use std::io::Read;

use tidegate::kernel::Account;
use tidegate::mechanisms::Family;
use tidegate::series::Series;
use tidegate::spec::{Intake, Values};
use tidegate::stream::{Entry, Stream};
use tidegate_table::long::{FieldRefusal, LongReader, LongRow};
use tidegate_table::scalar::ScalarReader;
use tidegate_table::wide::{LongOrWide, WideReader};
use tidegate_table::{Reading, TableError, TableReader};

/// A row of a table.
#[derive(Debug)]
pub struct Item<'a> {
    /// The number of the line.
    pub line: u64,
    /// The number of its series.
    pub series: usize,
    /// Its content.
    pub content: Content<'a>,
}

/// The content of a line.
pub enum Content<'a> {
    /// The value of a user.
    Value {
        /// The timestamp.
        timestamp: u64,
        /// The user; borrowed, so that no line allocates.
        user: &'a str,
        /// The number of the value.
        value: u32,
    },
    /// Any other entry.
    Entry(Entry),
}

/// Shows the timestamp, and nothing of the data.
impl fmt::Debug for Content<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Content").field("timestamp", &self.timestamp()).finish_non_exhaustive()
    }
}

impl Content<'_> {
    /// Its timestamp.
    pub const fn timestamp(&self) -> u64 {
        match self {
            Self::Value { timestamp, .. } => *timestamp,
            Self::Entry(entry) => entry.timestamp(),
        }
    }
}

/// Passes the next line on; returns whether there was one.
pub type Next<'a> = Box<dyn FnMut(&mut dyn FnMut(Item<'_>)) -> Result<bool, TableError> + 'a>;

/// The input format of a stream.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Numbers, released as they are read; each series has an account.
    Readings {
        /// What seals them.
        intake: Intake,
        /// The account of each series.
        accounts: Vec<Account>,
    },
    /// Values of users.
    Values {
        /// The values of the domain.
        values: Values,
        /// Whether the input may also be counts of users.
        counts: bool,
        /// Whether each user has a time, so that the reader rejects a second line of a user.
        by_user: bool,
    },
}

impl Expected {
    /// Returns `None` for streams of neither readings nor values.
    pub fn of(series: &Series) -> Option<Self> {
        let first = series.streams().first()?;
        if let Some((intake, _)) = first.intake() {
            let accounts = series.streams().iter().map(Stream::account).collect::<Option<_>>()?;
            return Some(Self::Readings { intake, accounts });
        }
        let mechanism = series.spec().mechanism();
        let counts = mechanism.family == Family::Central && !mechanism.by_class;
        let by_user = mechanism.family == Family::Sequence;
        Some(Self::Values { values: first.values()?.clone(), counts, by_user })
    }

    /// Reads entries from a table; `name` is its name in errors.
    ///
    /// # Errors
    /// A table that lacks columns.
    pub fn read<'a, S: Read + 'a>(
        self,
        name: &str,
        table: TableReader<S>,
        reading: Reading,
    ) -> Result<Next<'a>, TableError> {
        match self {
            Self::Readings { intake, accounts } => {
                let mut readings = ScalarReader::from_table(table, reading)?;
                Ok(Box::new(move |take| {
                    let seal = |series: usize, timestamp, text: &str| {
                        (series, Entry::Reading(intake.seal(accounts[series], timestamp, text)))
                    };
                    let Some((series, entry)) = readings.next_text(seal)? else { return Ok(false) };
                    take(Item { line: readings.line(), series, content: Content::Entry(entry) });
                    Ok(true)
                }))
            }
            Self::Values { values, counts, by_user } => {
                let reader = Reader::open(&values, counts, name, table, reading)?;
                Ok(read_values(values, if by_user { reader } else { reader.with_repetitions() }))
            }
        }
    }
}

/// A table in long form or, for counts, in either form.
enum Reader<S> {
    Long(LongReader<S>),
    /// A wide table, with the value of each field.
    Wide(WideReader<S>, Vec<usize>),
}

impl<S: Read> Reader<S> {
    fn open(
        values: &Values,
        counts: bool,
        name: &str,
        table: TableReader<S>,
        reading: Reading,
    ) -> Result<Self, TableError> {
        if !counts {
            return LongReader::from_table(table, reading).map(Self::Long);
        }
        match LongOrWide::from_table(table, reading)? {
            LongOrWide::Long(entries) => Ok(Self::Long(entries)),
            LongOrWide::Wide(rows) => {
                let places = places(values, name, &rows)?;
                Ok(Self::Wide(rows, places))
            }
        }
    }

    /// Leaves it to the stream to reject a second line of a user.
    fn with_repetitions(self) -> Self {
        match self {
            Self::Long(entries) => Self::Long(entries.with_repetitions()),
            wide @ Self::Wide(..) => wide,
        }
    }
}

/// What a value outside the domain should have been.
const OUTSIDE: &str = "a value of the domain, as the spec names it; empty = \"skip\" leaves out lines with an empty \
                       cell, and no others";

fn read_values<'a, S: Read + 'a>(values: Values, mut reader: Reader<S>) -> Next<'a> {
    Box::new(move |take| match &mut reader {
        Reader::Long(entries) => {
            let taken = entries.next_checked(|LongRow { line, timestamp, series, user, value }| {
                let value =
                    values.find(value).ok_or_else(|| FieldRefusal { field: "value", expected: OUTSIDE.into() })?;
                take(Item { line, series, content: Content::Value { timestamp, user, value } });
                Ok(())
            })?;
            Ok(taken.is_some())
        }
        Reader::Wide(rows, places) => {
            let Some(row) = rows.next_row()? else { return Ok(false) };
            let mut counts = vec![0; row.counts.len()];
            places.iter().zip(row.counts).for_each(|(place, count)| counts[*place] = count);
            let entry = Entry::Counts { timestamp: row.timestamp, counts };
            take(Item { line: row.line, series: row.series, content: Content::Entry(entry) });
            Ok(true)
        }
    })
}

/// Returns the value of each field of a wide table; each value must occur exactly once. Errors name values of the
/// domain, which are public: without a header, a name of a field may be somebody's value.
fn places<S: Read>(values: &Values, name: &str, rows: &WideReader<S>) -> Result<Vec<usize>, TableError> {
    let refused = |expected: String| TableError::Header { file: name.to_owned(), expected };
    let places: Option<Vec<usize>> =
        rows.labels().map(|label| values.find(label.trim()).map(|value| value as usize)).collect();
    let Some(places) = places.filter(|places| !places.is_empty()) else {
        let expected = "the fields must be t,user,value, or t and each value of the domain, as the spec names it; \
                        --time, --user and --value name other columns, and --no-header says that the first line is \
                        data";
        return Err(refused(expected.to_owned()));
    };
    let mut times = vec![0_usize; values.count() as usize];
    places.iter().for_each(|place| times[*place] += 1);
    let Some((called, times)) = (0..).zip(times).find(|(_, times)| *times != 1) else { return Ok(places) };
    let called = values.name(called);
    Err(refused(match times {
        0 => format!("it has no column {called:?}: counts have a column for each value of the domain"),
        found => {
            format!("{found} columns are called {called:?}: leave all but the one with the counts of that value out")
        }
    }))
}
