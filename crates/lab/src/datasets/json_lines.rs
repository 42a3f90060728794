//! Tables as lines of JSON: an object a line, whose fields are texts and numbers.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

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
            let mut object = Object::default();
            let mut parser = serde_json::Deserializer::from_str(text);
            let parsed = object.deserialize(&mut parser).and_then(|()| parser.end());
            if parsed.is_err() {
                return Err(match object.open {
                    Some(field) => {
                        let expected = if field == USER {
                            "a text or a whole number"
                        } else {
                            "a text, a number, or true or false"
                        };
                        DataError::Field { file: file.to_owned(), line, field, expected: expected.into() }
                    }
                    None => DataError::NotJson { file: file.to_owned(), line },
                });
            }
            return Ok(Some((line, object.fields)));
        }
    }
}

/// An object as it is read, and the field whose content could not be.
#[derive(Default)]
struct Object {
    fields: Fields,
    open: Option<String>,
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
            let Scalar { text, is_whole } = map.next_value()?;
            if field == USER && !is_whole {
                return Err(A::Error::custom("not a name"));
            }
            self.open = None;
            self.fields.push((field, text));
        }
        Ok(())
    }
}

/// The field with somebody's name. Numbers that are not whole, or too large for a whole one, do not keep their digits, so that they
/// cannot be names: one person would have several, or several people one.
const USER: &str = "user";

/// A text, or a number or a truth value as it would be written.
struct Scalar {
    text: String,
    /// Whether every digit of it was kept.
    is_whole: bool,
}

impl Scalar {
    fn whole(text: impl ToString) -> Self {
        Self { text: text.to_string(), is_whole: true }
    }
}

impl<'de> serde::Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Content;

        impl Visitor<'_> for Content {
            type Value = Scalar;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a number")
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::whole(text))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar { text: flag.to_string(), is_whole: false })
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::whole(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::whole(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar { text: number.to_string(), is_whole: false })
            }
        }

        deserializer.deserialize_any(Content)
    }
}
