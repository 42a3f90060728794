//! [`Reading`]: how the lines of a table are read, and the order of their times.

use std::io::{self, Cursor, Read};

use tidegate::spec::{ColumnsSpec, Duplicates, Empty, InputSpec};

use crate::time::Clock;
use crate::{Format, TableError, TableLine, TableReader};

/// A source whose first bytes were read ahead.
pub(crate) type Peeked<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// The form of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One number a line.
    Scalar,
    /// One value of one user a line.
    Long,
    /// A count for each value a line.
    Wide,
}

/// How the lines of a table are read: its columns, its times, and lines that repeat or lack something.
///
/// The default reads `t`, `user` and `value`, with counters as times.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub(crate) columns: ColumnsSpec,
    /// Turns times into timestamps.
    pub clock: Clock,
    pub(crate) duplicates: Duplicates,
    pub(crate) empty: Empty,
    /// Timestamps up to this one are rejected.
    pub(crate) over: Option<u64>,
}

impl Reading {
    /// Reads a table as a spec says.
    ///
    /// # Errors
    /// A description of the invalid `origin`.
    pub fn of(input: &InputSpec) -> Result<Self, String> {
        let InputSpec { columns, duplicates, empty, .. } = input;
        let (columns, clock) = (columns.clone(), Clock::new(input)?);
        Ok(Self { columns, clock, duplicates: *duplicates, empty: *empty, over: None })
    }

    /// Rejects timestamps up to the given one, with which the last run ended.
    #[must_use]
    pub fn after(self, over: Option<u64>) -> Self {
        Self { over, ..self }
    }

    /// Opens a table; `name` is the name in errors.
    ///
    /// # Errors
    /// An empty file, or one whose first line cannot be read.
    pub fn open<R: Read>(&self, name: &str, source: R, format: Format) -> Result<TableReader<R>, TableError> {
        match (format, self.columns.no_header) {
            (Format::Csv, true) => TableReader::headless(name, source),
            _ => TableReader::new(name, source, format),
        }
    }

    /// Opens a table and detects its format from the first byte: one that starts with a brace is JSON. Skips a byte
    /// order mark.
    ///
    /// # Errors
    /// As [`Reading::open`].
    pub fn detect<R: Read>(&self, name: &str, mut source: R) -> Result<TableReader<Peeked<R>>, TableError> {
        let mut first = Vec::new();
        for _ in 0..2 {
            if let Err(source) = source.by_ref().take(3).read_to_end(&mut first) {
                return Err(TableError::Read { file: name.to_owned(), line: 0, source });
            }
            if first != "\u{feff}".as_bytes() {
                break;
            }
            first.clear();
        }
        let format = if first.starts_with(b"{") { Format::Ndjson } else { Format::Csv };
        self.open(name, Cursor::new(first).chain(source), format)
    }

    /// Detects the form of a table from its columns. Without a header, a table with a column of users is long; where
    /// nothing is named, one with three columns, or one of `symbols`.
    pub fn form<R: Read>(&self, table: &TableReader<R>, symbols: bool) -> Form {
        let ColumnsSpec { user, value, no_header, .. } = &self.columns;
        let [_, by_user, by_value] = self.names();
        let has_users = if *no_header { value.is_none() && table.width() == 3 } else { table.has(by_user) };
        if user.is_some() || symbols || (has_users && (*no_header || table.has(by_value))) {
            Form::Long
        } else if value.is_some() || *no_header || table.has(by_value) {
            Form::Scalar
        } else {
            Form::Wide
        }
    }

    /// Returns the names of the columns with times, users and values.
    pub(crate) fn names(&self) -> [&str; 3] {
        let ColumnsSpec { time, user, value, .. } = &self.columns;
        [time.as_deref().unwrap_or("t"), user.as_deref().unwrap_or("user"), value.as_deref().unwrap_or("value")]
    }

    /// Returns the name of a column in errors, given its default name.
    pub fn column_of(&self, field: &str) -> String {
        let ColumnsSpec { time, user, value, no_header } = &self.columns;
        let given = match field {
            "t" => time,
            "user" => user,
            "value" => value,
            _ => &None,
        };
        match given {
            Some(number) if *no_header => format!("number {number}"),
            Some(name) => name.clone(),
            None => field.to_owned(),
        }
    }

    /// Finds columns by their roles: 0 is the time, 1 the user, 2 the value.
    pub(crate) fn find<const N: usize, R: Read>(
        &self,
        table: &mut TableReader<R>,
        roles: [usize; N],
    ) -> Result<[usize; N], TableError> {
        let names = self.names();
        if table.is_json() {
            for role in roles.into_iter().filter(|role| *role != 2 || !table.may_lack_values()) {
                self.check_json(table, role)?;
            }
            table.keep(&roles.map(|role| names[role]), names[1], names[2]);
            return Ok(std::array::from_fn(|place| place));
        }
        let ColumnsSpec { time, user, value, no_header } = &self.columns;
        let mut places = [0; N];
        for (order, role) in roles.into_iter().enumerate() {
            let ((what, flag), name) = (ROLES[role], names[role]);
            places[order] = if *no_header {
                let given = [time, user, value][role].as_deref();
                let number = given.map_or(Some(order + 1), |given| given.parse().ok());
                number.filter(|number| (1..=table.width()).contains(number)).map(|number| number - 1).ok_or_else(
                    || {
                        table.bad_header(format!(
                        "without a header, {what} are in a column from 1 to {}: --{flag} NUMBER (columns.{flag} in the \
                         spec)",
                        table.width()
                    ))
                    },
                )?
            } else {
                table.only(name).map_err(|found| {
                    table.bad_header(if found == 0 {
                        format!("{}, or say --no-header if the first line is data", self.lacks(role))
                    } else {
                        format!("{found} columns are called {name:?}: rename all but the one with the {what}")
                    })
                })?
            };
        }
        if let Some((first, second)) = same(&places) {
            let ((first, one), (second, other)) = (ROLES[roles[first]], ROLES[roles[second]]);
            let both = format!("one column cannot hold both {first} and {second}: --{one} and --{other} name it");
            return Err(table.bad_header(both));
        }
        Ok(places)
    }

    /// Rejects JSON whose first object lacks a field.
    pub(crate) fn check_json<R: Read>(&self, table: &TableReader<R>, role: usize) -> Result<(), TableError> {
        if table.has(self.names()[role]) { Ok(()) } else { Err(table.bad_header(self.lacks(role))) }
    }

    fn lacks(&self, role: usize) -> String {
        let ((what, flag), name) = (ROLES[role], self.names()[role]);
        format!("it has no column {name:?}: name the column of {what} with --{flag} NAME (columns.{flag} in the spec)")
    }

    /// Whether a table has the columns of users and of values, or a name was given for one of them.
    pub(crate) fn is_long<R: Read>(&self, table: &TableReader<R>) -> bool {
        let ColumnsSpec { user, value, no_header, .. } = &self.columns;
        let [_, by_user, by_value] = self.names();
        user.is_some() || value.is_some() || *no_header || (table.has(by_user) && table.has(by_value))
    }

    /// Returns the timestamp of a line, and whether it is another than that of the last line.
    pub(crate) fn time(
        &mut self,
        line: &TableLine<'_>,
        place: usize,
        last: &mut Option<u64>,
    ) -> Result<(u64, Turn), TableError> {
        let timestamp =
            self.clock.timestamp(line.text(place).trim()).map_err(|expected| line.bad_field(place, expected))?;
        let noun = self.clock.noun();
        if let Some(over) = self.over.filter(|over| timestamp <= *over) {
            let over = self.clock.describe(over);
            return Err(line.bad_field(place, format!("a {noun} after {over}, with which the last run ended")));
        }
        if last.is_some_and(|last| timestamp < last) {
            let sorted = format!("a {noun} that is not before the last: sort the lines by time");
            return Err(line.bad_field(place, sorted));
        }
        let turn = if *last == Some(timestamp) { Turn::Again } else { Turn::Next };
        *last = Some(timestamp);
        Ok((timestamp, turn))
    }

    /// Describes the time of a line that must not share its timestamp.
    fn later(&self) -> String {
        let noun = self.clock.noun();
        format!("a {noun} that is later than the last; duplicates = \"first\" or \"last\" says which of several counts")
    }
}

/// The roles of columns: the contents, and the option that names the column.
const ROLES: [(&str, &str); 3] = [("times", "time"), ("users", "user"), ("values", "value")];

fn same(places: &[usize]) -> Option<(usize, usize)> {
    let mut pairs = (0..places.len()).flat_map(|first| (first + 1..places.len()).map(move |second| (first, second)));
    pairs.find(|(first, second)| places[*first] == places[*second])
}

/// Whether a line begins a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Next,
    Again,
}

/// A line that holds a whole timestamp.
#[derive(Clone, Debug)]
pub(crate) struct Whole<T> {
    pub(crate) timestamp: u64,
    pub(crate) line: u64,
    pub(crate) content: T,
}

/// Reads tables of which one line counts for each timestamp.
pub(crate) struct OneEach<R, T> {
    pub(crate) table: TableReader<R>,
    pub(crate) reading: Reading,
    /// The column of the times.
    pub(crate) place: usize,
    last: Option<u64>,
    /// The first line of the next timestamp, read ahead.
    ahead: Option<Whole<T>>,
}

impl<R: Read, T> OneEach<R, T> {
    pub(crate) const fn new(table: TableReader<R>, reading: Reading, place: usize) -> Self {
        Self { table, reading, place, last: None, ahead: None }
    }

    /// Returns the line that counts for the next timestamp; `None` at the end.
    pub(crate) fn next(
        &mut self,
        take: impl Fn(&TableLine<'_>) -> Result<T, TableError>,
    ) -> Result<Option<Whole<T>>, TableError> {
        let mut found = self.ahead.take();
        while let Some(line) = self.table.next_line()? {
            let (timestamp, turn) = self.reading.time(&line, self.place, &mut self.last)?;
            let content = match (self.reading.duplicates, turn) {
                (Duplicates::Refuse, Turn::Again) => return Err(line.bad_field(self.place, self.reading.later())),
                (Duplicates::First, Turn::Again) => continue,
                _ => take(&line)?,
            };
            let whole = Whole { timestamp, line: line.number_of_line(), content };
            match (self.reading.duplicates, turn) {
                (Duplicates::Last, Turn::Next) if found.is_some() => {
                    self.ahead = Some(whole);
                    return Ok(found);
                }
                (Duplicates::Last, _) => found = Some(whole),
                _ => return Ok(Some(whole)),
            }
        }
        Ok(found)
    }
}
