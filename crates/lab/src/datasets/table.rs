//! Reading tables line by line, so that every error can name its file, line and field.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use csv::{ErrorKind, ReaderBuilder, StringRecord};
use flate2::bufread::MultiGzDecoder;
use tidegate::rows::Format;

use super::DataError;
use super::json_lines::{Fields, JsonLines, VALUE};

/// Opens a file, and decompresses it if it begins as gzip does.
pub fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let file = || path.display().to_string();
    let opened = File::open(path).map_err(|source| DataError::Open { file: file(), source })?;
    let mut reader = BufReader::new(opened);
    let beginning = reader.fill_buf().map_err(|source| DataError::Open { file: file(), source })?;
    if beginning.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(reader)));
    }
    Ok(Box::new(reader))
}

/// Opens a file of a data set, compressed or not: where it is not there under its name, it may be with `.gz` after it,
/// or without.
pub(super) fn open_data(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let name = path.as_os_str().to_string_lossy();
    let other = PathBuf::from(name.strip_suffix(".gz").map_or_else(|| format!("{name}.gz"), str::to_owned));
    if !path.is_file() && other.is_file() { open(&other) } else { open(path) }
}

/// The first of some files that is there.
pub(super) fn first_of(folder: &Path, files: &[&str]) -> Option<PathBuf> {
    files.iter().map(|file| folder.join(file)).find(|path| path.is_file())
}

/// Whether `now` comes after the last one, which it then is. Nothing comes after NaN.
pub(super) fn later<T: PartialOrd + Copy>(last: &mut Option<T>, now: T) -> bool {
    let later = last.is_none_or(|last| now > last);
    *last = Some(now);
    later
}

/// The longest line that is read: whatever a source sends, so much of it is held in memory and no more.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// The most users that can be counted.
const MOST_USERS: u64 = 1 << 53;

/// A source of which only so many bytes can be read before the next line is asked for.
pub(super) struct Rationed<R> {
    pub(super) source: R,
    pub(super) ration: usize,
}

impl<R: Read> Read for Rationed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ration == 0 {
            return Err(io::Error::other(format!("the line is longer than {LONGEST_LINE} bytes")));
        }
        let most = buffer.len().min(self.ration);
        let read = self.source.read(&mut buffer[..most])?;
        self.ration -= read;
        Ok(read)
    }
}

/// A source whose first bytes were looked at.
pub(super) type Peeked<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// A table in the format in which it begins: what begins with a brace is JSON.
pub(super) fn in_own_format<R: Read>(file: &str, mut source: R) -> Result<Table<Peeked<R>>, DataError> {
    let mut first = Vec::new();
    // The first bytes may be a mark of the byte order, after which it is looked again.
    for _ in 0..2 {
        if let Err(source) = source.by_ref().take(3).read_to_end(&mut first) {
            return Err(DataError::Read { file: file.to_owned(), line: 0, source });
        }
        if first != "\u{feff}".as_bytes() {
            break;
        }
        first.clear();
    }
    let format = if first.starts_with(b"{") { Format::Ndjson } else { Format::Csv };
    Table::in_format(file, Cursor::new(first).chain(source), format)
}

/// A table of fields that have names.
pub(super) struct Table<R> {
    file: String,
    reader: Reader<R>,
    fields: StringRecord,
    record: StringRecord,
    /// Whether lines may have any number of fields.
    ragged: bool,
    /// Whether an object without a value has an empty one.
    lacks_values: bool,
}

enum Reader<R> {
    Csv(Box<csv::Reader<Rationed<R>>>),
    Json {
        lines: JsonLines<R>,
        /// The first line, which was read for the names of the fields.
        first: Option<(u64, Fields)>,
    },
}

impl<R: Read> Table<R> {
    /// A CSV table whose first line names its fields.
    pub(super) fn new(file: impl Into<String>, source: R) -> Result<Self, DataError> {
        Self::after(0, file, source)
    }

    /// A table in a format: of JSON, the first line names the fields of all, in any order.
    pub(super) fn in_format(file: impl Into<String>, source: R, format: Format) -> Result<Self, DataError> {
        if format == Format::Csv {
            return Self::new(file, source);
        }
        let file = file.into();
        let mut lines = JsonLines::new(source);
        let first = lines.next(&file)?;
        let fields = first.iter().flat_map(|(_, fields)| fields).map(|(name, _)| name.as_str()).collect();
        let table = Self {
            file,
            reader: Reader::Json { lines, first },
            fields,
            record: StringRecord::new(),
            ragged: false,
            lacks_values: false,
        };
        if table.fields.is_empty() {
            return Err(table.bad_header("the file is empty"));
        }
        Ok(table)
    }

    /// A CSV table whose header stands after so many lines of other content.
    pub(super) fn after(lines: usize, file: impl Into<String>, source: R) -> Result<Self, DataError> {
        let mut table = Self::of(file, source, b',', &[], true);
        for _ in 0..=lines {
            if table.next_line()?.is_none() {
                return Err(table.bad_header("the file is empty"));
            }
        }
        table.fields = std::mem::take(&mut table.record);
        table.ragged = false;
        Ok(table)
    }

    /// A CSV table without such a line; the fields are called so in errors.
    pub(super) fn without_header(file: impl Into<String>, source: R, fields: &[&str]) -> Self {
        Self::of(file, source, b',', fields, false)
    }

    /// Lines of any number of fields, separated by blanks.
    pub(super) fn of_words(file: impl Into<String>, source: R) -> Self {
        Self::of(file, source, b' ', &[], true)
    }

    fn of(file: impl Into<String>, source: R, delimiter: u8, fields: &[&str], ragged: bool) -> Self {
        // Widths are checked here, because lines before the header may have others.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .from_reader(Rationed { source, ration: LONGEST_LINE });
        let reader = Reader::Csv(Box::new(reader));
        Self {
            file: file.into(),
            reader,
            fields: fields.to_vec().into(),
            record: StringRecord::new(),
            ragged,
            lacks_values: false,
        }
    }

    /// The names of the fields.
    pub(super) fn header(&self) -> &StringRecord {
        &self.fields
    }

    /// Whether the fields are these, in this order; where they are JSON, in any, and they are put into this order.
    pub(super) fn has_fields(&mut self, fields: &[&str]) -> bool {
        if matches!(self.reader, Reader::Json { .. })
            && self.fields.len() == fields.len()
            && fields.iter().all(|field| self.fields.iter().any(|own| own == *field))
        {
            self.fields = fields.to_vec().into();
        }
        self.fields == *fields
    }

    /// Takes an object that has no field `value` for one with an empty value, also the first one.
    pub(super) fn allow_missing_values(&mut self) {
        if matches!(self.reader, Reader::Json { .. }) {
            self.lacks_values = true;
            if !self.fields.iter().any(|field| field == VALUE) {
                self.fields.push_field(VALUE);
            }
        }
    }

    /// Puts a field before all others, where they are JSON, which has no order.
    pub(super) fn put_first(&mut self, field: &str) {
        if matches!(self.reader, Reader::Json { .. }) && self.fields.iter().any(|own| own == field) {
            let others: Vec<&str> = self.fields.iter().filter(|own| *own != field).collect();
            self.fields = std::iter::once(field).chain(others).collect();
        }
    }

    /// Where the first of some fields is that the header has; an error where it has none of them.
    pub(super) fn field(&self, names: &[&str]) -> Result<usize, DataError> {
        let position = |name: &&str| self.fields.iter().position(|field| field == *name);
        let found = names.iter().find_map(position);
        found.ok_or_else(|| self.bad_header(format!("a field {} is missing", names.join(" or "))))
    }

    /// The first line must name exactly these fields.
    pub(super) fn expect_header(&mut self, fields: &[&str]) -> Result<(), DataError> {
        if self.has_fields(fields) {
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
        let line = match &mut self.reader {
            Reader::Csv(reader) => {
                reader.get_mut().ration = LONGEST_LINE;
                match reader.read_record(&mut self.record) {
                    Ok(true) => self.record.position().map_or(0, csv::Position::line),
                    Ok(false) => return Ok(None),
                    Err(error) => return Err(unreadable(&self.file, reader.position().line(), error)),
                }
            }
            Reader::Json { lines, first } => {
                let next = match first.take() {
                    Some(first) => Some(first),
                    None => lines.next(&self.file)?,
                };
                let Some((line, fields)) = next else { return Ok(None) };
                self.record.clear();
                for name in &self.fields {
                    let mut found = fields.iter().filter(|(field, _)| field == name);
                    match (found.next(), found.next()) {
                        (Some((_, text)), None) => self.record.push_field(text),
                        (None, _) if self.lacks_values && name == VALUE => self.record.push_field(""),
                        _ => {
                            let (file, expected) = (self.file.clone(), "to be there, once".into());
                            return Err(DataError::Field { file, line, field: name.to_owned(), expected });
                        }
                    }
                }
                // What has more fields is refused below, as it is where they are separated by commas.
                (self.record.len()..fields.len()).for_each(|_| self.record.push_field(""));
                line
            }
        };
        let (given, expected) = (self.record.len(), self.fields.len());
        if !self.ragged && given != expected {
            let (given, expected) = (given as u64, expected as u64);
            return Err(DataError::Width { file: self.file.clone(), line, given, expected });
        }
        Ok(Some(Line { file: &self.file, line, fields: &self.fields, record: &self.record }))
    }
}

fn unreadable(file: &str, here: u64, error: csv::Error) -> DataError {
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::Utf8 { pos, .. } => {
            DataError::NotUtf8 { file, line: pos.as_ref().map_or(here, csv::Position::line) }
        }
        // The reader stands at the beginning of the line that it could not finish.
        _ => DataError::Read { file, line: here.saturating_sub(1), source: error.into() },
    }
}

/// One line of a table.
pub(super) struct Line<'a> {
    file: &'a str,
    line: u64,
    fields: &'a StringRecord,
    record: &'a StringRecord,
}

impl<'a> Line<'a> {
    /// The text of a field, by its position.
    pub(super) fn text(&self, field: usize) -> &'a str {
        self.record.get(field).unwrap_or_default()
    }

    /// Its number in the file, from one.
    pub(super) fn number_of_line(&self) -> u64 {
        self.line
    }

    /// The first field, where that must be a timestamp.
    pub(super) fn timestamp(&self) -> Result<u64, DataError> {
        self.number(0, "a timestamp: a whole number, zero or more")
    }

    /// A field that must not be empty, without blanks around it.
    pub(super) fn named(&self, field: usize, expected: &'static str) -> Result<&'a str, DataError> {
        let text = self.text(field).trim();
        if text.is_empty() { Err(self.bad_field(field, expected)) } else { Ok(text) }
    }

    /// How many fields the line has.
    pub(super) fn fields(&self) -> usize {
        self.record.len()
    }

    /// How many fields the line has, less an empty one at its end: some copies of files end their lines with a blank.
    pub(super) fn words(&self) -> usize {
        let fields = self.fields();
        if fields > 0 && self.text(fields - 1).is_empty() { fields - 1 } else { fields }
    }

    /// A field that must be a number, of which `expected` says what it is.
    pub(super) fn number<T: std::str::FromStr>(&self, field: usize, expected: &'static str) -> Result<T, DataError> {
        self.text(field).trim().parse().map_err(|_| self.bad_field(field, expected))
    }

    /// A field that must be a number, and neither NaN nor infinite.
    pub(super) fn finite(&self, field: usize, expected: &'static str) -> Result<f64, DataError> {
        let number: f64 = self.number(field, expected)?;
        if number.is_finite() { Ok(number) } else { Err(self.bad_field(field, expected)) }
    }

    /// A field that must be a number between two others, inclusive.
    pub(super) fn between(&self, field: usize, low: u32, high: u32, expected: &'static str) -> Result<u32, DataError> {
        let number = self.number(field, expected)?;
        if (low..=high).contains(&number) { Ok(number) } else { Err(self.bad_field(field, expected)) }
    }

    /// Fields that must be a year and a week of it.
    pub(super) fn week(&self, year: usize, week: usize) -> Result<(u32, u32), DataError> {
        Ok((
            self.between(year, 1900, 2999, "a year: 1900 to 2999")?,
            self.between(week, 1, 53, "a week of the year: 1 to 53")?,
        ))
    }

    /// A field that must be a number of users: of so many that each can be told from the next.
    pub(super) fn count(&self, field: usize) -> Result<u64, DataError> {
        let count = self.number(field, "a count: a whole number, zero or more")?;
        if count <= MOST_USERS { Ok(count) } else { Err(self.bad_field(field, "a count of at most 2^53")) }
    }

    /// A field that must lie within the domain of a grid.
    pub(super) fn reading(&self, field: usize, grid: &tidegate_kernel::Grid) -> Result<f64, DataError> {
        let number = self.text(field).trim().parse().ok().filter(|number| grid.steps(*number).is_ok());
        number.ok_or_else(|| {
            self.bad_field(field, format!("a number within the domain, {}..{}", grid.low(), grid.high()))
        })
    }

    pub(super) fn bad_field(&self, field: usize, expected: impl Into<std::borrow::Cow<'static, str>>) -> DataError {
        let name = self.fields.get(field).filter(|name| !name.is_empty());
        DataError::Field {
            file: self.file.to_owned(),
            line: self.line,
            field: name.map_or_else(|| format!("number {}", field + 1), str::to_owned),
            expected: expected.into(),
        }
    }
}
