//! Tables as lines of JSON: an object a line, whose fields are texts and numbers.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use tidegate::rows::{text_of_json, without_nan};

use super::DataError;
use super::table::{LONGEST_LINE, Rationed};

/// The fields of a line, in the order in which they stand there.
pub(super) type Fields = Vec<(String, String)>;

/// Reads lines of JSON.
pub(super) struct JsonLines<R> {
    source: BufReader<Rationed<R>>,
    /// The line that was read last.
    line: u64,
    text: Vec<u8>,
}

impl<R: Read> JsonLines<R> {
    pub(super) fn new(source: R) -> Self {
        let source = BufReader::new(Rationed { source, ration: LONGEST_LINE });
        Self { source, line: 0, text: Vec::new() }
    }

    /// The next line that is not empty, with its number.
    pub(super) fn next(&mut self, file: &str) -> Result<Option<(u64, Fields)>, DataError> {
        loop {
            self.text.clear();
            self.source.get_mut().ration = LONGEST_LINE;
            let read = self.source.read_until(b'\n', &mut self.text);
            let failed = |source: io::Error| DataError::Read { file: file.to_owned(), line: self.line, source };
            if read.map_err(failed)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            let line = self.line;
            let text = str::from_utf8(&self.text).map_err(|_| DataError::NotUtf8 { file: file.to_owned(), line })?;
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
                        let expected = if field == USER { "a text or a whole number" } else { "a text or a number" };
                        DataError::Field { file: file.to_owned(), line, field, expected: expected.into() }
                    }
                    None => DataError::NotJson { file: file.to_owned(), line },
                }),
            };
        }
    }
}

/// An object as it is read, and the field whose content could not be.
#[derive(Default)]
struct Object {
    fields: Fields,
    open: Option<String>,
}

impl Object {
    /// The fields of an object, or the one whose content could not be read.
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
            let text = match text_of_json(json) {
                Some(text) if field != USER || is_name(json.get(), &text) => text,
                // Whatever stands in the place of a value is handed on: an error would tell something about it.
                None if field == VALUE => String::new(),
                _ => return Err(A::Error::custom("neither a text nor a number")),
            };
            self.open = None;
            self.fields.push((field, text));
        }
        Ok(())
    }
}

/// The field with somebody's name.
const USER: &str = "user";

/// The field with a reading, or the value of a user.
pub(super) const VALUE: &str = "value";

/// Whether a user can be called so: a text, or a whole number of 64 bits that is written in one way only. Otherwise
/// one person would have several names.
fn is_name(json: &str, text: &str) -> bool {
    json.starts_with('"') || (json == text && (text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok()))
}
