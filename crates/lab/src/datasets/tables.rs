//! Streams from tables of one's own, in wide, long or scalar form: those that `tidegate release` reads.

use std::collections::HashMap;
use std::io::Read;

use tidegate::spec::{SpecError, Values, ValuesSpec};
use tidegate_kernel::{Grid, GridError};
use tidegate_table::long::{FieldRefusal, LongReader};
use tidegate_table::scalar::ScalarReader;
use tidegate_table::wide::WideReader;
use tidegate_table::{Form, Reading, TableError, TableReader};

use super::{DatasetError, LoadOptions};
use crate::stream::{CountStream, DataStream, NumberStream, Space, SymbolStream};

/// The domain of a table whose form does not declare it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberDomain {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The distance of neighbouring numbers. `None` stands for 1, to which numbers are rounded.
    pub resolution: Option<f64>,
}

impl NumberDomain {
    /// Returns the domain with its resolution.
    pub(super) fn grid(&self) -> Result<Grid, GridError> {
        Grid::new(self.low, self.high, self.resolution.unwrap_or(1.0))
    }
}

/// Greatest domain of whole numbers in a table in long form.
const MAX_VALUES: u32 = 1_000_000;

/// Most numbers of a table of counts: timestamps without lines count as well.
const MAX_NUMBERS: u64 = 100_000_000;

/// Reads a table in any form; `name` is the name of the stream, and of the table in errors.
pub(super) fn read(name: &str, source: impl Read, options: &LoadOptions) -> Result<DataStream, DatasetError> {
    let reading = reading(name, options)?;
    let table = reading.detect(name, source)?;
    of_reading(name, table, reading, options)
}

/// Reads an open table in any form.
pub(super) fn of_table<R: Read>(
    name: &str,
    table: TableReader<R>,
    options: &LoadOptions,
) -> Result<DataStream, DatasetError> {
    of_reading(name, table, reading(name, options)?, options)
}

fn reading(name: &str, options: &LoadOptions) -> Result<Reading, TableError> {
    let content = |problem| TableError::Content { file: name.to_owned(), problem: format!("origin: {problem}") };
    Reading::of(&options.input).map_err(content)
}

fn of_reading<R: Read>(
    name: &str,
    table: TableReader<R>,
    reading: Reading,
    options: &LoadOptions,
) -> Result<DataStream, DatasetError> {
    let content = |problem: String| TableError::Content { file: name.to_owned(), problem };
    let domain = options.domain.as_ref();
    let given = || domain.ok_or_else(|| DatasetError::NoDomain { file: name.to_owned() });
    let values = || match (&options.values, domain) {
        (Some(values), _) => values.values().map_err(|error: SpecError| content(error.to_string()).into()),
        (None, domain) => whole_numbers(name, domain),
    };
    match reading.form(&table, options.symbols) {
        Form::Scalar => Ok(numbers(name, ScalarReader::from_table(table, reading)?, given()?)?.into()),
        Form::Long if options.symbols => Ok(symbols(name, LongReader::from_table(table, reading)?, &values()?)?.into()),
        Form::Long => Ok(users(name, LongReader::from_table(table, reading)?, &values()?)?.into()),
        Form::Wide => {
            let stream = counts(name, WideReader::from_table(table, reading)?)?;
            if domain.is_some() || options.values.is_some() {
                return Err(DatasetError::OwnDomain { name: name.to_owned() });
            }
            Ok(stream.into())
        }
    }
}

/// Rows of counts, one for each timestamp from the first line to the last.
struct Rows {
    width: usize,
    next: Option<u64>,
    rows: Vec<Vec<u64>>,
}

impl Rows {
    const fn new(width: usize) -> Self {
        Self { width, next: None, rows: Vec::new() }
    }

    /// Adds empty rows up to a timestamp, and its own; an error says what would be short enough.
    fn begin(&mut self, timestamp: u64) -> Result<&mut Vec<u64>, String> {
        let first = self.next.unwrap_or(timestamp);
        let added = timestamp.saturating_add(1).saturating_sub(first);
        let width = self.width.max(1) as u64;
        if added.saturating_add(self.rows.len() as u64).saturating_mul(width) > MAX_NUMBERS {
            let most = MAX_NUMBERS / width;
            return Err(format!("a stream of at most {most} timestamps; if these are seconds, --every 1h makes hours"));
        }
        (0..added).for_each(|_| self.rows.push(vec![0; self.width]));
        self.next = Some(timestamp.saturating_add(1));
        self.rows.last_mut().ok_or_else(String::new)
    }
}

fn counts<R: Read>(name: &str, mut reader: WideReader<R>) -> Result<CountStream, DatasetError> {
    let labels: Vec<String> = reader.labels().map(str::to_owned).collect();
    let mut rows = Rows::new(labels.len());
    while let Some(row) = reader.next_row()? {
        match rows.begin(row.timestamp) {
            Ok(empty) => *empty = row.counts,
            Err(expected) => return Err(reader.bad_time(row.line, expected).into()),
        }
    }
    stream_of(name, labels, rows)
}

fn stream_of(name: &str, labels: Vec<String>, rows: Rows) -> Result<CountStream, DatasetError> {
    CountStream::with_absences(name, labels, rows.rows)
        .map_err(|source| DatasetError::Stream { file: name.to_owned(), source })
}

/// Reads numbers as a release does: moved into the domain, with its lower end in place of what is no number.
fn numbers<R: Read>(
    name: &str,
    mut reader: ScalarReader<R>,
    domain: &NumberDomain,
) -> Result<NumberStream, DatasetError> {
    let grid = domain.grid()?;
    let mut values = Vec::new();
    let number = |_, _, text: &str| match text.trim().parse::<f64>() {
        Ok(number) if !number.is_nan() => {
            let number = number.clamp(grid.low(), grid.high());
            if domain.resolution.is_none() { (number - grid.low()).round() + grid.low() } else { number }
        }
        _ => grid.low(),
    };
    while let Some(value) = reader.next_text(number)? {
        values.push(value);
    }
    NumberStream::new(name, grid, values).map_err(|source| DatasetError::Stream { file: name.to_owned(), source })
}

/// The whole numbers of a domain, as values.
fn whole_numbers(name: &str, domain: Option<&NumberDomain>) -> Result<Values, DatasetError> {
    let domain = domain.ok_or_else(|| DatasetError::NoValues { file: name.to_owned() })?;
    let size = domain.high - domain.low + 1.0;
    let whole = domain.low.fract() == 0.0 && domain.high.fract() == 0.0 && domain.resolution.is_none();
    let content = |problem: String| TableError::Content { file: name.to_owned(), problem };
    if !whole || !(1.0..=f64::from(MAX_VALUES)).contains(&size) {
        let problem = "the values of a table in long form are the whole numbers of its domain, a million at most";
        return Err(content(problem.to_owned()).into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most a million
    let size = size as u32;
    let names = (0..size).map(|value| (domain.low + f64::from(value)).to_string()).collect();
    ValuesSpec::Names(names).values().map_err(|error| content(error.to_string()).into())
}

fn found(values: &Values, name: &str) -> Result<u32, FieldRefusal> {
    let expected = "a value of the domain, as --values or --domain names it";
    values.find(name).ok_or_else(|| FieldRefusal { field: "value", expected: expected.into() })
}

/// Counts the users of each value.
fn users<R: Read>(name: &str, mut reader: LongReader<R>, values: &Values) -> Result<CountStream, DatasetError> {
    let mut rows = Rows::new(values.count() as usize);
    while reader
        .next_checked(|row| {
            let value = found(values, row.value)?;
            let refused = |expected: String| FieldRefusal { field: "t", expected: expected.into() };
            rows.begin(row.timestamp).map_err(refused)?[value as usize] += 1;
            Ok(())
        })?
        .is_some()
    {}
    stream_of(name, (0..values.count()).map(|value| values.name(value).into_owned()).collect(), rows)
}

/// Reads a sequence of each user: the symbols in the order of the lines.
fn symbols<R: Read>(name: &str, mut reader: LongReader<R>, values: &Values) -> Result<SymbolStream, DatasetError> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    while reader
        .next_checked(|row| {
            let symbol = found(values, row.value)?;
            let number = match numbers.get(row.user) {
                Some(number) => *number,
                None => {
                    numbers.insert(row.user.to_owned(), sequences.len());
                    sequences.push(Vec::new());
                    sequences.len() - 1
                }
            };
            sequences[number].push(symbol);
            Ok(())
        })?
        .is_some()
    {}
    SymbolStream::new(name, Space::Line { symbols: values.count() }, sequences)
        .map_err(|source| DatasetError::Stream { file: name.to_owned(), source })
}
