//! Reads TOML; errors name the file, the line and the key.

use std::fmt::Display;
use std::io::Read;
use std::ops::Range;

use serde::de::DeserializeOwned;
use tidegate::spec::plain_words;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Error;

/// Longest accepted file, in bytes.
const LONGEST: u64 = 1 << 20;

/// A file's text, with its name in errors.
#[derive(Debug)]
pub struct Text {
    /// The name in errors.
    pub file: String,
    /// The text.
    pub text: String,
}

impl Text {
    /// Reads a source, whose name is used in errors.
    ///
    /// # Errors
    /// A source that cannot be read, is too long, or is not UTF-8.
    pub fn read(name: String, source: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let read = source.take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| Error::Spec(format!("{name} cannot be read: {error}")))?;
        if bytes.len() as u64 > LONGEST {
            return Err(Error::Spec(format!("{name} is longer than {LONGEST} bytes")));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { file: name, text }),
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
                Err(Error::Spec(format!("{name}, line {line}: it is not valid UTF-8: save the file as UTF-8")))
            }
        }
    }

    /// Parses the text.
    pub fn table(&self) -> Result<Table<'_>, Error> {
        let Self { file, text } = self;
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            Error::Spec(format!("{file}, line {line}: {}", plain_words(error.message())))
        })?;
        let span = table.span();
        Ok(Table::new(file, text, table.into_inner(), span))
    }
}

/// A table of a file, before it is deserialised.
#[derive(Debug)]
pub struct Table<'a> {
    /// The lines of its keys.
    pub places: Places,
    text: &'a str,
    /// The keys and their values.
    pub table: DeTable<'a>,
    span: Range<usize>,
}

impl<'a> Table<'a> {
    fn new(file: &str, text: &'a str, table: DeTable<'a>, span: Range<usize>) -> Self {
        let place = |(key, value): (&Spanned<_>, &Spanned<_>)| Place {
            key: std::borrow::Cow::to_string(key.get_ref()),
            line: line_of(text, key.span().start),
            value: Spanned::<DeValue<'_>>::span(value),
        };
        let places = Places { file: file.to_owned(), keys: table.iter().map(place).collect() };
        Self { places, text, table, span }
    }

    /// Removes a key and returns its value.
    pub fn take(&mut self, key: &str) -> Option<Spanned<DeValue<'a>>> {
        self.table.remove(key)
    }

    /// Returns a table inside this one.
    pub fn inner(&self, table: DeTable<'a>, span: Range<usize>) -> Self {
        Self::new(&self.places.file, self.text, table, span)
    }

    /// Returns an error at a place in the text.
    pub fn error_at(&self, span: &Range<usize>, key: Option<&str>, message: impl Display) -> Error {
        self.places.error_at(line_of(self.text, span.start), key, message)
    }

    /// Deserialises the table, and returns the lines of its keys.
    pub fn read<T: DeserializeOwned>(self) -> Result<(T, Places), Error> {
        let Self { places, text, table, span } = self;
        let value = T::deserialize(toml::Deserializer::from(Spanned::new(span.clone(), table)));
        let value = value.map_err(|error| {
            let message = plain_words(error.message());
            match error.span().filter(|place| *place != span) {
                Some(place) => {
                    let key = places.key_around(&place).or_else(|| key_before(text, place.start));
                    places.error_at(line_of(text, place.start), key, message)
                }
                None => places.error(None, message),
            }
        })?;
        Ok((value, places))
    }
}

/// The lines of a table's keys.
#[derive(Debug)]
pub struct Places {
    file: String,
    keys: Vec<Place>,
}

/// A key, its line, and the span of its value.
#[derive(Debug)]
struct Place {
    key: String,
    line: usize,
    value: Range<usize>,
}

impl Places {
    fn key_around(&self, span: &Range<usize>) -> Option<&str> {
        let around = |place: &&Place| place.value.start <= span.start && span.end <= place.value.end;
        self.keys.iter().find(around).map(|place| place.key.as_str())
    }

    /// Returns an error about a key, or about the whole table.
    pub fn error(&self, key: Option<&str>, message: impl Display) -> Error {
        let file = &self.file;
        match key.and_then(|key| self.keys.iter().find(|place| place.key == key)) {
            Some(place) => self.error_at(place.line, Some(&place.key), message),
            None => Error::Spec(format!("{file}: {message}")),
        }
    }

    /// Returns an error about a line, and a key where there is one.
    pub fn error_at(&self, line: usize, key: Option<&str>, message: impl Display) -> Error {
        let file = &self.file;
        match key {
            Some(key) => Error::Spec(format!("{file}, line {line}, key {key:?}: {message}")),
            None => Error::Spec(format!("{file}, line {line}: {message}")),
        }
    }
}

/// Returns the key before a value on the same line, for values in arrays of tables.
fn key_before(text: &str, place: usize) -> Option<&str> {
    let line = text.get(..place)?.rsplit('\n').next()?;
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    (!key.is_empty() && key.chars().all(plain)).then_some(key)
}

/// Returns the line of a place in a text, from one.
pub fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}
