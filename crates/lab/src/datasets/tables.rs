//! Streams from tables of one's own, in wide, long or scalar form.

use std::io::Read;

use tidegate_kernel::{Grid, GridError};
use tidegate_table::long::{self, FieldRefusal, LongReader};
use tidegate_table::scalar::{self, ScalarReader, ScalarRow};
use tidegate_table::wide::WideReader;
use tidegate_table::{TableError, TableReader};

use super::DatasetError;
use crate::stream::{CountStream, DataStream, NumberStream};

/// The domain of a table whose form does not declare it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberDomain {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The distance of neighbouring numbers. `None` stands for 1, and requires whole numbers, so that no decimals are
    /// rounded away by oversight.
    pub resolution: Option<f64>,
}

impl NumberDomain {
    /// Returns the domain with its resolution.
    pub(super) fn grid(&self) -> Result<Grid, GridError> {
        Grid::new(self.low, self.high, self.resolution.unwrap_or(1.0))
    }
}

/// Greatest domain of a table in long form.
const MAX_VALUES: u32 = 1_000_000;

/// Reads a table in any form; `name` is the name of the stream, and of the table in errors.
pub(super) fn read(name: &str, source: impl Read, domain: Option<&NumberDomain>) -> Result<DataStream, DatasetError> {
    let mut table = TableReader::detect(name, source)?;
    let given = || domain.ok_or_else(|| DatasetError::NoDomain { file: name.to_owned() });
    if table.has_fields(&scalar::FIELDS) {
        return Ok(numbers(name, ScalarReader::from_table(table), given()?)?.into());
    }
    if table.has_fields(&long::FIELDS) {
        return Ok(users(name, LongReader::from_table(table), given()?)?.into());
    }
    let stream = counts(name, WideReader::from_table(table)?)?;
    if domain.is_some() {
        return Err(DatasetError::OwnDomain { name: name.to_owned() });
    }
    Ok(stream.into())
}

fn counts<R: Read>(name: &str, reader: WideReader<R>) -> Result<CountStream, DatasetError> {
    let mut reader = reader.without_gaps();
    let mut counts = Vec::new();
    while let Some(row) = reader.next_row()? {
        counts.push(row.counts);
    }
    let labels = reader.labels().map(str::to_owned).collect();
    CountStream::new(name, labels, counts).map_err(|source| DatasetError::Stream { file: name.to_owned(), source })
}

fn numbers<R: Read>(
    name: &str,
    mut reader: ScalarReader<R>,
    domain: &NumberDomain,
) -> Result<NumberStream, DatasetError> {
    let grid = domain.grid()?;
    let whole = domain.resolution.is_none();
    let check = |ScalarRow { value, .. }| {
        if grid.steps(value).is_err() {
            return Err(format!("a number within the domain, {}..{}", grid.low(), grid.high()).into());
        }
        if whole && value.fract() != 0.0 {
            return Err("a whole number, for the resolution is 1 unless another is given".into());
        }
        Ok(value)
    };
    let mut values = Vec::new();
    while let Some(value) = reader.next_checked(check)? {
        values.push(value);
    }
    NumberStream::new(name, grid, values).map_err(|source| DatasetError::Stream { file: name.to_owned(), source })
}

/// Counts the users of each value: the values are the whole numbers of the domain.
fn users<R: Read>(name: &str, mut reader: LongReader<R>, domain: &NumberDomain) -> Result<CountStream, DatasetError> {
    let content = |problem: &str| TableError::Content { file: name.to_owned(), problem: problem.to_owned() };
    let size = domain.high - domain.low + 1.0;
    let whole = domain.low.fract() == 0.0 && domain.high.fract() == 0.0 && domain.resolution.is_none();
    if !whole || !(1.0..=f64::from(MAX_VALUES)).contains(&size) {
        let problem = "the values of a table in long form are the whole numbers of its domain, a million at most";
        return Err(content(problem).into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most a million
    let size = size as usize;
    let labels = (0..size).map(|value| (domain.low + f64::from(u32::try_from(value).unwrap_or(0))).to_string());
    let mut last = None;
    let mut counts: Vec<Vec<u64>> = Vec::new();
    loop {
        let next = reader.next_checked(|row| {
            if last.is_some_and(|last| row.timestamp - last > 1) {
                return Err(FieldRefusal { field: "t", expected: "a timestamp that is the last, or one more".into() });
            }
            let number: Option<f64> = row.value.parse().ok();
            let place = number.map(|number| number - domain.low);
            let place = place.filter(|place| place.fract() == 0.0 && (0.0..=domain.high - domain.low).contains(place));
            let expected = || format!("a whole number within the domain, {}..{}", domain.low, domain.high);
            let place = place.ok_or_else(|| FieldRefusal { field: "value", expected: expected().into() })?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the domain
            Ok((row.timestamp, place as usize))
        })?;
        let Some((timestamp, place)) = next else { break };
        if last != Some(timestamp) {
            counts.push(vec![0; size]);
        }
        last = Some(timestamp);
        if let Some(counts) = counts.last_mut() {
            counts[place] += 1;
        }
    }
    CountStream::new(name, labels.collect(), counts)
        .map_err(|source| DatasetError::Stream { file: name.to_owned(), source })
}
