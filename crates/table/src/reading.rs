//! [`Reading`]: how the lines of a table are read, and the order of their times.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Cursor, Read};
use std::sync::Arc;

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
    /// The series of the table, where it holds several.
    pub(crate) series: Option<SeriesColumn>,
}

/// The series of a table.
#[derive(Clone, Debug)]
pub(crate) struct SeriesColumn {
    column: String,
    numbers: Arc<HashMap<String, usize>>,
}

impl Reading {
    /// Reads a table as a spec says.
    ///
    /// # Errors
    /// A description of the invalid `origin`, or of invalid series.
    pub fn of(input: &InputSpec) -> Result<Self, String> {
        let InputSpec { columns, duplicates, empty, .. } = input;
        let (columns, clock) = (columns.clone(), Clock::new(input)?);
        let split = input.split().map_err(|error| error.to_string())?;
        let series = split.map(|split| SeriesColumn {
            column: split.column,
            numbers: Arc::new(split.names.into_iter().zip(0..).collect()),
        });
        Ok(Self { columns, clock, duplicates: *duplicates, empty: *empty, over: None, series })
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
            (Format::Csv, true) => TableReader::headless(name, source, self.columns.separator),
            (Format::Csv, false) => TableReader::csv(name, source, self.columns.separator),
            (Format::Ndjson, _) => TableReader::new(name, source, format),
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
        let [_, by_user, by_value, _] = self.names();
        let has_users = if *no_header { value.is_none() && table.width() == 3 } else { table.has(by_user) };
        if user.is_some() || symbols || (has_users && (*no_header || table.has(by_value))) {
            Form::Long
        } else if value.is_some() || *no_header || table.has(by_value) {
            Form::Scalar
        } else {
            Form::Wide
        }
    }

    /// Returns the names of the columns with times, users, values and series.
    pub(crate) fn names(&self) -> [&str; 4] {
        let ColumnsSpec { time, user, value, .. } = &self.columns;
        [
            time.as_deref().unwrap_or("t"),
            user.as_deref().unwrap_or("user"),
            value.as_deref().unwrap_or("value"),
            self.series.as_ref().map_or("series", |series| &series.column),
        ]
    }

    /// The number of series; one where the table is not split.
    pub(crate) fn series_count(&self) -> usize {
        self.series.as_ref().map_or(1, |series| series.numbers.len())
    }

    /// Returns the number of a line's series; 0 where the table is not split.
    pub(crate) fn series_of(&self, line: &TableLine<'_>, place: Option<usize>) -> Result<usize, TableError> {
        let (Some(series), Some(place)) = (&self.series, place) else { return Ok(0) };
        let number = series.numbers.get(line.text(place).trim()).copied();
        number.ok_or_else(|| {
            let declared = "a series that the spec declares: add its name to series_names, which are public, or leave \
                            its lines out";
            line.bad_field(place, declared)
        })
    }

    /// Returns the name of a column in errors, given its default name.
    pub fn column_of(&self, field: &str) -> String {
        let ColumnsSpec { time, user, value, no_header, .. } = &self.columns;
        let series = self.series.as_ref().map(|series| series.column.clone());
        let given = match field {
            "series" => &series,
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

    /// Finds columns by their roles: 0 is the time, 1 the user, 2 the value. Adds that of the series, if there are any.
    pub(crate) fn find<const N: usize, R: Read>(
        &self,
        table: &mut TableReader<R>,
        roles: [usize; N],
    ) -> Result<([usize; N], Option<usize>), TableError> {
        let names = self.names();
        let of_series = self.series.as_ref().map(|_| SERIES);
        let all = || roles.into_iter().chain(of_series);
        if table.is_json() {
            for role in all().filter(|role| *role != 2 || !table.may_lack_values()) {
                self.check_json(table, role)?;
            }
            let kept: Vec<&str> = all().map(|role| names[role]).collect();
            table.keep(&kept, names[1], names[2]);
            return Ok((std::array::from_fn(|place| place), of_series.map(|_| N)));
        }
        let ColumnsSpec { time, user, value, no_header, .. } = &self.columns;
        let mut places = Vec::with_capacity(N + 1);
        for (order, role) in all().enumerate() {
            let ((what, flag), name) = (ROLES[role], names[role]);
            places.push(if *no_header {
                let given = [time, user, value].get(role).map_or(Some(name), |given| given.as_deref());
                let number = given.map_or(Some(order + 1), |given| given.parse().ok());
                number.filter(|number| (1..=table.width()).contains(number)).map(|number| number - 1).ok_or_else(
                    || {
                        let (width, key) = (table.width(), key_of(role));
                        table.bad_header(format!(
                            "without a header, {what} are in a column from 1 to {width}: --{flag} NUMBER ({key} in the \
                             spec)"
                        ))
                    },
                )?
            } else {
                table.only(name).map_err(|found| {
                    table.bad_header(if found == 0 && table.is_in_memory() {
                        self.lacks(role)
                    } else if found == 0 {
                        format!("{}, or say --no-header if the first line is data", self.lacks(role))
                    } else {
                        format!("{found} columns are called {name:?}: rename all but the one with the {what}")
                    })
                })?
            });
        }
        table.read_only(places.iter().copied());
        if let Some((first, second)) = same(&places) {
            let role = |place: usize| ROLES[all().nth(place).unwrap_or_default()];
            let ((first, one), (second, other)) = (role(first), role(second));
            let both = format!("one column cannot hold both {first} and {second}: --{one} and --{other} name it");
            return Err(table.bad_header(both));
        }
        Ok((std::array::from_fn(|order| places[order]), of_series.map(|_| places[N])))
    }

    /// Rejects JSON whose first object lacks a field.
    pub(crate) fn check_json<R: Read>(&self, table: &TableReader<R>, role: usize) -> Result<(), TableError> {
        if table.has(self.names()[role]) { Ok(()) } else { Err(table.bad_header(self.lacks(role))) }
    }

    fn lacks(&self, role: usize) -> String {
        let ((what, flag), name) = (ROLES[role], self.names()[role]);
        let key = key_of(role);
        format!("it has no column {name:?}: name the column of {what} with --{flag} NAME ({key} in the spec)")
    }

    /// Whether a table has the columns of users and of values, or a name was given for one of them.
    pub(crate) fn is_long<R: Read>(&self, table: &TableReader<R>) -> bool {
        let ColumnsSpec { user, value, no_header, .. } = &self.columns;
        let [_, by_user, by_value, _] = self.names();
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
const ROLES: [(&str, &str); 4] = [("times", "time"), ("users", "user"), ("values", "value"), ("series", "series")];

/// The role of the series.
const SERIES: usize = 3;

/// The key of the spec that names a column.
fn key_of(role: usize) -> String {
    let (_, flag) = ROLES[role];
    if role == SERIES { flag.to_owned() } else { format!("columns.{flag}") }
}

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
    pub(crate) series: usize,
    pub(crate) line: u64,
    pub(crate) content: T,
}

/// Reads tables of which one line counts for each timestamp of a series.
pub(crate) struct OneEach<R, T> {
    pub(crate) table: TableReader<R>,
    pub(crate) reading: Reading,
    /// The column of the times.
    pub(crate) place: usize,
    /// The column of the series.
    pub(crate) series: Option<usize>,
    last: Option<u64>,
    /// The last timestamp of each series.
    seen: Vec<Option<u64>>,
    /// Where the last line counts: the lines of the open timestamp.
    open: Vec<Whole<T>>,
    /// Lines that count and are yet to be returned.
    ready: VecDeque<Whole<T>>,
}

impl<R: Read, T> OneEach<R, T> {
    pub(crate) fn new(table: TableReader<R>, reading: Reading, place: usize, series: Option<usize>) -> Self {
        let seen = vec![None; reading.series_count()];
        Self { table, reading, place, series, last: None, seen, open: Vec::new(), ready: VecDeque::new() }
    }

    /// Returns the line that counts for the next timestamp of a series; `None` at the end.
    pub(crate) fn next(
        &mut self,
        take: impl Fn(&TableLine<'_>) -> Result<T, TableError>,
    ) -> Result<Option<Whole<T>>, TableError> {
        while self.ready.is_empty() {
            let Some(line) = self.table.next_line()? else {
                self.ready.extend(self.open.drain(..));
                break;
            };
            let (timestamp, turn) = self.reading.time(&line, self.place, &mut self.last)?;
            let series = self.reading.series_of(&line, self.series)?;
            let is_again = self.seen[series].replace(timestamp) == Some(timestamp);
            let content = match (self.reading.duplicates, is_again) {
                (Duplicates::Refuse, true) => return Err(line.bad_field(self.place, self.reading.later())),
                (Duplicates::First, true) => continue,
                _ => take(&line)?,
            };
            let whole = Whole { timestamp, series, line: line.number_of_line(), content };
            if self.reading.duplicates != Duplicates::Last {
                return Ok(Some(whole));
            }
            if turn == Turn::Next {
                self.ready.extend(self.open.drain(..));
            }
            match self.open.iter_mut().find(|earlier| earlier.series == series) {
                Some(earlier) => *earlier = whole,
                None => self.open.push(whole),
            }
        }
        Ok(self.ready.pop_front())
    }
}
