//! [`TableReader`]: reads a table line by line.

use std::borrow::Cow;
use std::io::Read;
use std::str::FromStr;

use csv::{ErrorKind, ReaderBuilder, StringRecord};
use tidegate::spec::Separator;

use crate::json_lines::{Cell, Fields, JsonLines};
use crate::rows::{Cells, Rows};
use crate::source::Limited;
use crate::{Format, TableError};

/// Greatest count of users: above it, not every whole number is a floating-point number.
const MAX_USERS: u64 = 1 << 53;

/// Names of the fields with users and with values, unless told.
const DEFAULT_ROLES: [&str; 2] = ["user", "value"];

/// Reads a table with named fields, one line at a time.
pub struct TableReader<R> {
    file: String,
    reader: Reader<R>,
    fields: StringRecord,
    record: StringRecord,
    /// Lines may have any number of fields.
    ragged: bool,
    /// An object without a value has an empty one.
    lacks_values: bool,
    /// Only these fields of JSON objects are read.
    keeps: bool,
    /// Names of the fields with users and with values.
    roles: [String; 2],
    /// Whether the first line of a table without a header was read ahead.
    is_ahead: bool,
}

impl<R> std::fmt::Debug for TableReader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TableReader").field("file", &self.file).finish_non_exhaustive()
    }
}

enum Reader<R> {
    Csv(Box<csv::Reader<Limited<R>>>),
    Json {
        lines: JsonLines<R>,
        /// First line, read ahead for the names of the fields.
        first: Option<(u64, Fields)>,
    },
    Rows {
        rows: Box<dyn Rows>,
        /// The number of the next row.
        next: u64,
    },
}

impl<R: Read> TableReader<R> {
    /// Reads the first line, which names the fields; `file` is the name in errors.
    ///
    /// In CSV, commas, semicolons or tabs separate fields, as the first line tells. In JSON, each object has the fields
    /// of the first, in any order.
    pub fn new(file: impl Into<String>, source: R, format: Format) -> Result<Self, TableError> {
        if format == Format::Csv {
            return Self::csv(file, source, None);
        }
        let file = file.into();
        let mut lines = JsonLines::new(source);
        let first = lines.next(&file)?;
        let fields = first.iter().flat_map(|(_, fields)| fields).map(|(name, _)| name.as_str()).collect();
        let table = Self::with(file, Reader::Json { lines, first }, fields);
        if table.fields.is_empty() {
            return Err(table.bad_header("the file is empty"));
        }
        Ok(table)
    }

    /// Reads CSV with the separator that was given, or else that of its first line.
    pub(crate) fn csv(file: impl Into<String>, source: R, separator: Option<Separator>) -> Result<Self, TableError> {
        Self::separated(file, source, separator)?.with_header(0)
    }

    /// Reads a table in memory. Its rows are numbered from zero, and errors have these numbers for those of lines.
    pub fn of_rows(file: impl Into<String>, rows: Box<dyn Rows>) -> Self {
        let fields = rows.columns().into();
        Self::with(file, Reader::Rows { rows, next: 0 }, fields)
    }

    /// Reads CSV whose header follows `lines` lines of other content.
    pub fn csv_after(lines: usize, file: impl Into<String>, source: R) -> Result<Self, TableError> {
        Self::of(file, Limited::new(source), b',', &[], true).with_header(lines)
    }

    /// Takes the names of the fields from the line after `lines` others.
    fn with_header(mut self, lines: usize) -> Result<Self, TableError> {
        for _ in 0..=lines {
            if self.next_line()?.is_none() {
                return Err(self.bad_header("the file is empty"));
            }
        }
        self.fields = std::mem::take(&mut self.record);
        self.ragged = false;
        Ok(self)
    }

    /// CSV with the separator that was given, or else that of its first line.
    fn separated(file: impl Into<String>, source: R, separator: Option<Separator>) -> Result<Self, TableError> {
        let (file, mut source) = (file.into(), Limited::new(source));
        let delimiter = match separator {
            Some(separator) => separator.byte(),
            None => match source.first_line().map(separator_of) {
                Ok(Ok(separator)) => separator.byte(),
                Ok(Err(expected)) => return Err(TableError::Header { file, expected }),
                Err(source) => return Err(TableError::Read { file, line: 0, source }),
            },
        };
        Ok(Self::of(file, source, delimiter, &[], true))
    }

    /// Reads CSV without a header; errors name its fields as given here.
    pub fn without_header(file: impl Into<String>, source: R, fields: &[&str]) -> Self {
        Self::of(file, Limited::new(source), b',', fields, false)
    }

    /// Reads lines of any number of fields, separated by spaces.
    pub fn of_words(file: impl Into<String>, source: R) -> Self {
        Self::of(file, Limited::new(source), b' ', &[], true)
    }

    fn of(file: impl Into<String>, source: Limited<R>, delimiter: u8, fields: &[&str], ragged: bool) -> Self {
        // `next_line` checks the number of fields: lines before the header may have others.
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(source);
        let table = Self::with(file, Reader::Csv(Box::new(reader)), fields.to_vec().into());
        Self { ragged, ..table }
    }

    fn with(file: impl Into<String>, reader: Reader<R>, fields: StringRecord) -> Self {
        Self {
            file: file.into(),
            reader,
            fields,
            record: StringRecord::new(),
            ragged: false,
            lacks_values: false,
            keeps: false,
            roles: DEFAULT_ROLES.map(str::to_owned),
            is_ahead: false,
        }
    }

    /// Reads CSV without a header; errors name its fields by their number.
    pub(crate) fn headless(
        file: impl Into<String>,
        source: R,
        separator: Option<Separator>,
    ) -> Result<Self, TableError> {
        let mut table = Self::separated(file, source, separator)?;
        let width = match table.next_line()? {
            Some(line) => line.fields(),
            None => return Err(table.bad_header("the file is empty")),
        };
        table.fields = vec![""; width].into();
        (table.ragged, table.is_ahead) = (false, true);
        Ok(table)
    }

    /// Returns the number of fields.
    pub(crate) fn width(&self) -> usize {
        self.fields.len()
    }

    /// Whether a field has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.trim() == name)
    }

    /// Returns the position of the only field with this name; an error says how many there are.
    pub(crate) fn only(&self, name: &str) -> Result<usize, usize> {
        let places = || self.fields.iter().enumerate().filter(|(_, field)| field.trim() == name);
        places().next().filter(|_| places().count() == 1).map(|(place, _)| place).ok_or(places().count())
    }

    pub(crate) const fn is_in_memory(&self) -> bool {
        matches!(self.reader, Reader::Rows { .. })
    }

    pub(crate) const fn is_json(&self) -> bool {
        matches!(self.reader, Reader::Json { .. })
    }

    /// Has a table in memory give these columns only. It gives none for the others, which keep their places.
    pub(crate) fn read_only(&mut self, places: impl Iterator<Item = usize>) {
        if let Reader::Rows { rows, .. } = &mut self.reader {
            rows.read_only(&places.collect::<Vec<_>>());
        }
    }

    /// Reads only these fields of JSON objects, in this order.
    pub(crate) fn keep(&mut self, fields: &[&str], user: &str, value: &str) {
        self.fields = fields.to_vec().into();
        self.keeps = true;
        self.roles = [user, value].map(str::to_owned);
    }

    pub(crate) const fn may_lack_values(&self) -> bool {
        self.lacks_values
    }

    /// Returns the names of the fields.
    pub fn header(&self) -> impl Iterator<Item = &str> + '_ {
        self.fields.iter()
    }

    /// Whether the table has exactly these fields in this order. Fields of JSON have any order and are put into this.
    pub fn has_fields(&mut self, fields: &[&str]) -> bool {
        if matches!(self.reader, Reader::Json { .. })
            && self.fields.len() == fields.len()
            && fields.iter().all(|field| self.fields.iter().any(|own| own == *field))
        {
            self.fields = fields.to_vec().into();
        }
        self.fields == *fields
    }

    /// Treats a JSON object without a value as one with an empty value.
    pub(crate) const fn allow_missing_values(&mut self) {
        self.lacks_values = true;
    }

    /// Moves a field of a JSON table to the front.
    pub(crate) fn put_first(&mut self, field: &str) {
        if matches!(self.reader, Reader::Json { .. }) && self.fields.iter().any(|own| own == field) {
            let others: Vec<&str> = self.fields.iter().filter(|own| *own != field).collect();
            self.fields = std::iter::once(field).chain(others).collect();
        }
    }

    /// Returns the position of the first of `names` that is a field.
    pub fn field(&self, names: &[&str]) -> Result<usize, TableError> {
        let position = |name: &&str| self.fields.iter().position(|field| field == *name);
        let found = names.iter().find_map(position);
        found.ok_or_else(|| self.bad_header(format!("a field {} is missing", names.join(" or "))))
    }

    /// Returns an error unless the table [has exactly these fields](Self::has_fields).
    pub fn expect_header(&mut self, fields: &[&str]) -> Result<(), TableError> {
        if self.has_fields(fields) {
            return Ok(());
        }
        Err(self.bad_header(format!("the fields must be {}", fields.join(","))))
    }

    /// Returns an error about the header.
    pub fn bad_header(&self, expected: impl Into<String>) -> TableError {
        TableError::Header { file: self.file.clone(), expected: expected.into() }
    }

    /// Returns an error about a field of a line that was read before.
    pub(crate) fn bad_field(&self, line: u64, field: usize, expected: impl Into<Cow<'static, str>>) -> TableError {
        let record = &self.record;
        TableLine { file: &self.file, line, fields: &self.fields, record }.bad_field(field, expected)
    }

    /// Returns an error about the table as a whole.
    pub fn bad_content(&self, problem: impl Into<String>) -> TableError {
        TableError::Content { file: self.file.clone(), problem: problem.into() }
    }

    /// Reads the next line; `None` at the end.
    pub fn next_line(&mut self) -> Result<Option<TableLine<'_>>, TableError> {
        let line = match &mut self.reader {
            Reader::Csv(reader) if self.is_ahead => {
                self.is_ahead = false;
                self.record.position().map_or(0, csv::Position::line).min(reader.position().line())
            }
            Reader::Csv(reader) => {
                reader.get_mut().start_line();
                match reader.read_record(&mut self.record) {
                    Ok(true) => self.record.position().map_or(0, csv::Position::line),
                    Ok(false) => return Ok(None),
                    Err(error) => return Err(unreadable(&self.file, reader.position().line(), error)),
                }
            }
            Reader::Rows { rows, next } => {
                self.record.clear();
                let number = *next;
                let failed = |source| TableError::Read { file: self.file.clone(), line: number, source };
                if !rows.next_row(&mut Cells::new(&mut self.record)).map_err(failed)? {
                    return Ok(None);
                }
                *next += 1;
                number
            }
            Reader::Json { lines, first } => {
                let next = match first.take() {
                    Some(first) => Some(first),
                    None => lines.next(&self.file)?,
                };
                let Some((line, fields)) = next else { return Ok(None) };
                self.record.clear();
                for name in &self.fields {
                    let wrong = |expected: &'static str| {
                        let (file, field) = (self.file.clone(), name.to_owned());
                        TableError::Field { file, line, field, expected: expected.into() }
                    };
                    let [user, value] = self.roles.each_ref().map(|role| name == role);
                    let mut found = fields.iter().filter(|(field, _)| field == name);
                    match (found.next(), found.next()) {
                        (Some((_, cell)), None) if user && !cell.is_name => {
                            return Err(wrong("a text or a whole number"));
                        }
                        (Some((_, Cell { text: Some(text), .. })), None) => self.record.push_field(text),
                        // No error may depend on a value, so an invalid one becomes empty.
                        (Some(_), None) if value => self.record.push_field(""),
                        // A variance that is not stated is null.
                        (Some(_), None) if name == "variance" => self.record.push_field(""),
                        (Some(_), None) => return Err(wrong("a text or a number")),
                        (None, _) if self.lacks_values && value => self.record.push_field(""),
                        _ => return Err(wrong("to be there, once")),
                    }
                }
                // Surplus fields are rejected below, as in CSV.
                if !self.keeps {
                    (self.record.len()..fields.len()).for_each(|_| self.record.push_field(""));
                }
                line
            }
        };
        let (given, expected) = (self.record.len(), self.fields.len());
        if !self.ragged && given != expected {
            let (given, expected) = (given as u64, expected as u64);
            return Err(TableError::Width { file: self.file.clone(), line, given, expected });
        }
        Ok(Some(TableLine { file: &self.file, line, fields: &self.fields, record: &self.record }))
    }
}

/// The separator of a line, or a description of what must be said because it may be one or another.
fn separator_of(line: &[u8]) -> Result<Separator, String> {
    let mut is_quoted = false;
    let mut counts =
        [(Separator::Comma, "commas", 0), (Separator::Semicolon, "semicolons", 0), (Separator::Tab, "tabs", 0)];
    for byte in line {
        is_quoted ^= *byte == b'"';
        if let Some(found) = counts.iter_mut().find(|found| !is_quoted && found.0.byte() == *byte) {
            found.2 += 1;
        }
    }
    let mut found = counts.into_iter().filter(|(_, _, count)| *count > 0);
    match (found.next(), found.next()) {
        (None, _) => Ok(Separator::Comma),
        (Some((separator, ..)), None) => Ok(separator),
        (Some((_, one, _)), Some((_, other, _))) => Err(format!(
            "{one} or {other} may separate its columns: say which with --separator (columns.separator in the spec)"
        )),
    }
}

fn unreadable(file: &str, here: u64, error: csv::Error) -> TableError {
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::Utf8 { pos, .. } => {
            TableError::NotUtf8 { file, line: pos.as_ref().map_or(here, csv::Position::line) }
        }
        // The reader's position is the start of the line that it could not finish.
        _ => TableError::Read { file, line: here.saturating_sub(1), source: error.into() },
    }
}

/// One line of a table. Fields are numbered from zero.
#[derive(Debug)]
pub struct TableLine<'a> {
    file: &'a str,
    line: u64,
    fields: &'a StringRecord,
    record: &'a StringRecord,
}

impl<'a> TableLine<'a> {
    /// Returns the text of a field; empty if the line has no such field.
    pub fn text(&self, field: usize) -> &'a str {
        self.record.get(field).unwrap_or_default()
    }

    /// Returns the number of the line in the file, from one.
    pub fn number_of_line(&self) -> u64 {
        self.line
    }

    /// Reads the first field as a timestamp.
    pub fn timestamp(&self) -> Result<u64, TableError> {
        self.number(0, "a timestamp: a whole number, zero or more")
    }

    /// Returns the text of a field without surrounding spaces; an error if it is empty.
    pub fn named(&self, field: usize, expected: &'static str) -> Result<&'a str, TableError> {
        let text = self.text(field).trim();
        if text.is_empty() { Err(self.bad_field(field, expected)) } else { Ok(text) }
    }

    /// Returns the number of fields.
    pub fn fields(&self) -> usize {
        self.record.len()
    }

    /// Returns the number of fields without an empty last one: in some files, lines end with a space.
    pub fn words(&self) -> usize {
        let fields = self.fields();
        if fields > 0 && self.text(fields - 1).is_empty() { fields - 1 } else { fields }
    }

    /// Parses a field as a number; `expected` describes it in the error.
    pub fn number<T: FromStr>(&self, field: usize, expected: &'static str) -> Result<T, TableError> {
        self.text(field).trim().parse().map_err(|_| self.bad_field(field, expected))
    }

    /// Parses a field as a finite number.
    pub fn finite(&self, field: usize, expected: &'static str) -> Result<f64, TableError> {
        let number: f64 = self.number(field, expected)?;
        if number.is_finite() { Ok(number) } else { Err(self.bad_field(field, expected)) }
    }

    /// Parses a field as a whole number from `low` to `high`, inclusive.
    pub fn between(&self, field: usize, low: u32, high: u32, expected: &'static str) -> Result<u32, TableError> {
        let number = self.number(field, expected)?;
        if (low..=high).contains(&number) { Ok(number) } else { Err(self.bad_field(field, expected)) }
    }

    /// Parses a field as a number of users, at most 2^53.
    pub fn count(&self, field: usize) -> Result<u64, TableError> {
        let count = self.number(field, "a count: a whole number, zero or more")?;
        if count <= MAX_USERS { Ok(count) } else { Err(self.bad_field(field, "a count of at most 2^53")) }
    }

    /// Returns an error about a field.
    pub fn bad_field(&self, field: usize, expected: impl Into<Cow<'static, str>>) -> TableError {
        let name = self.fields.get(field).filter(|name| !name.is_empty());
        TableError::Field {
            file: self.file.to_owned(),
            line: self.line,
            field: name.map_or_else(|| format!("number {}", field + 1), str::to_owned),
            expected: expected.into(),
        }
    }
}
