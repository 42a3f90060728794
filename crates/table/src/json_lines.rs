//! Newline-delimited JSON: one object a line, with strings and numbers as fields.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::TableError;
use crate::json::{text_of_json, without_nan};
use crate::source::Limited;

/// Names and contents of an object's fields, in their order.
pub(crate) type Fields = Vec<(String, Cell)>;

/// The content of a field.
pub(crate) struct Cell {
    /// The text; `None` for what is neither a text nor a number.
    pub(crate) text: Option<String>,
    /// Whether it can be the name of a user.
    pub(crate) is_name: bool,
}

/// Reads objects line by line.
pub(crate) struct JsonLines<R> {
    source: BufReader<Limited<R>>,
    /// Number of the last line read.
    line: u64,
    text: Vec<u8>,
}

impl<R: Read> JsonLines<R> {
    pub(crate) fn new(source: R) -> Self {
        let source = BufReader::new(Limited::new(source));
        Self { source, line: 0, text: Vec::new() }
    }

    /// Reads the next line that is not empty, with its number.
    pub(crate) fn next(&mut self, file: &str) -> Result<Option<(u64, Fields)>, TableError> {
        loop {
            self.text.clear();
            self.source.get_mut().start_line();
            let read = self.source.read_until(b'\n', &mut self.text);
            let failed = |source: io::Error| TableError::Read { file: file.to_owned(), line: self.line, source };
            if read.map_err(failed)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            let line = self.line;
            let text = str::from_utf8(&self.text).map_err(|_| TableError::NotUtf8 { file: file.to_owned(), line })?;
            if text.trim().is_empty() {
                continue;
            }
            let mut read = Object::read(text);
            if read.is_err()
                && let Some(clean) = without_nan(text)
            {
                read = Object::read(&clean);
            }
            return match read {
                Ok(fields) => Ok(Some((line, fields))),
                Err(open) => Err(match open {
                    Some(field) => {
                        let expected = "a text or a number".into();
                        TableError::Field { file: file.to_owned(), line, field, expected }
                    }
                    None => TableError::NotJson { file: file.to_owned(), line },
                }),
            };
        }
    }
}

/// An object as it is parsed, and the field whose content is being parsed.
#[derive(Default)]
struct Object {
    fields: Fields,
    open: Option<String>,
}

impl Object {
    /// Returns the fields of an object, or the name of the field whose content is invalid.
    fn read(text: &str) -> Result<Fields, Option<String>> {
        let mut object = Self::default();
        let mut parser = serde_json::Deserializer::from_str(text);
        match object.deserialize(&mut parser).and_then(|()| parser.end()) {
            Ok(()) => Ok(object.fields),
            Err(_) => Err(object.open),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Object {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Object {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<String>()? {
            self.open = Some(field.chars().take(40).collect());
            let json: &RawValue = map.next_value()?;
            let text = text_of_json(json);
            let is_name = text.as_deref().is_some_and(|text| is_name(json.get(), text));
            self.open = None;
            self.fields.push((field, Cell { text, is_name }));
        }
        Ok(())
    }
}

/// Whether JSON is the name of a user: a string, or a 64-bit integer in its canonical form.
///
/// With other forms, one user would have several names.
fn is_name(json: &str, text: &str) -> bool {
    json.starts_with('"') || (json == text && (text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok()))
}
