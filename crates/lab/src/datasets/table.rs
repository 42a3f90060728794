//! Reading tables line by line, so that every error can name its file, line and field.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use csv::{ErrorKind, ReaderBuilder, StringRecord};
use flate2::bufread::MultiGzDecoder;

use super::DataError;

/// Opens a file, and decompresses it if it begins as gzip does.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let file = || path.display().to_string();
    let opened = File::open(path).map_err(|source| DataError::Open { file: file(), source })?;
    let mut reader = BufReader::new(opened);
    let beginning = reader.fill_buf().map_err(|source| DataError::Open { file: file(), source })?;
    if beginning.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(reader)));
    }
    Ok(Box::new(reader))
}

/// A CSV table with a first line that names its fields.
pub(super) struct Table<R> {
    file: String,
    reader: csv::Reader<R>,
    header: StringRecord,
    record: StringRecord,
}

impl<R: Read> Table<R> {
    /// Reads the first line.
    pub(super) fn new(file: impl Into<String>, source: R) -> Result<Self, DataError> {
        let mut table = Self {
            file: file.into(),
            reader: ReaderBuilder::new().has_headers(false).from_reader(source),
            header: StringRecord::new(),
            record: StringRecord::new(),
        };
        if table.next_line()?.is_none() {
            return Err(table.bad_header("the file is empty"));
        }
        table.header = std::mem::take(&mut table.record);
        Ok(table)
    }

    /// The names of the fields.
    pub(super) fn header(&self) -> &StringRecord {
        &self.header
    }

    /// The first line must name exactly these fields.
    pub(super) fn expect_header(&self, fields: &[&str]) -> Result<(), DataError> {
        if self.header == *fields {
            return Ok(());
        }
        Err(self.bad_header(format!("the fields must be {}", fields.join(","))))
    }

    pub(super) fn bad_header(&self, expected: impl Into<String>) -> DataError {
        DataError::Header { file: self.file.clone(), expected: expected.into() }
    }

    /// Errors about the table as a whole.
    pub(super) fn bad_content(&self, problem: impl Into<String>) -> DataError {
        DataError::Content { file: self.file.clone(), problem: problem.into() }
    }

    /// The next line, or `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, DataError> {
        match self.reader.read_record(&mut self.record) {
            Ok(true) => {
                let line = self.record.position().map_or(0, csv::Position::line);
                Ok(Some(Line { file: &self.file, line, header: &self.header, record: &self.record }))
            }
            Ok(false) => Ok(None),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    fn unreadable(&self, error: csv::Error) -> DataError {
        let file = self.file.clone();
        let here = self.reader.position().line();
        let line_of = |position: &Option<csv::Position>| position.as_ref().map_or(here, csv::Position::line);
        match error.kind() {
            ErrorKind::Utf8 { pos, .. } => DataError::NotUtf8 { file, line: line_of(pos) },
            ErrorKind::UnequalLengths { pos, expected_len, len } => {
                DataError::Width { file, line: line_of(pos), given: *len, expected: *expected_len }
            }
            // The reader stands at the beginning of the line that it could not finish.
            _ => DataError::Read { file, line: here.saturating_sub(1), source: error.into() },
        }
    }
}

/// One line of a table.
pub(super) struct Line<'a> {
    file: &'a str,
    line: u64,
    header: &'a StringRecord,
    record: &'a StringRecord,
}

impl<'a> Line<'a> {
    /// The text of a field, by its position.
    pub(super) fn text(&self, field: usize) -> &'a str {
        self.record.get(field).unwrap_or_default()
    }

    /// The whole line's fields.
    pub(super) fn fields(&self) -> usize {
        self.record.len()
    }

    /// A field that must be a number, of which `expected` says what it is.
    pub(super) fn number<T: std::str::FromStr>(&self, field: usize, expected: &'static str) -> Result<T, DataError> {
        self.text(field).trim().parse().map_err(|_| self.bad_field(field, expected))
    }

    /// A field that must be a number between two others, inclusive.
    pub(super) fn between(&self, field: usize, low: u32, high: u32, expected: &'static str) -> Result<u32, DataError> {
        let number = self.number(field, expected)?;
        if (low..=high).contains(&number) { Ok(number) } else { Err(self.bad_field(field, expected)) }
    }

    /// A field that must be a number of users.
    pub(super) fn count(&self, field: usize) -> Result<u64, DataError> {
        self.number(field, "a count: a whole number, zero or more")
    }

    pub(super) fn bad_field(&self, field: usize, expected: &'static str) -> DataError {
        let name = self.header.get(field).filter(|name| !name.is_empty());
        DataError::Field {
            file: self.file.to_owned(),
            line: self.line,
            field: name.map_or_else(|| format!("number {}", field + 1), str::to_owned),
            expected,
        }
    }
}
