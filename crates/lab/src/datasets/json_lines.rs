//! Tables as lines of JSON: an object a line, with the same fields in each.
//!
//! ```text
//! {"t": 0, "away": 3, "home": 1}
//! {"t": 1, "away": 1, "home": 4}
//! ```
//!
//! The first object names the fields; `t` may stand anywhere. Values are numbers or text.

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use csv::StringRecord;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::DataError;
use super::table::Rationed;

/// The lines that are left, and the first, which was read for the names of its fields.
pub(super) struct JsonLines<R> {
    reader: BufReader<Rationed<R>>,
    /// The number of the last line that was read.
    line: u64,
    first: Option<(u64, Object)>,
}

impl<R: Read> JsonLines<R> {
    /// Reads the first object; what it names is the header, with the field `t` in front.
    pub(super) fn new(file: &str, source: Rationed<R>) -> Result<(Self, StringRecord), DataError> {
        let mut lines = Self { reader: BufReader::new(source), line: 0, first: None };
        let Some(first) = lines.object(file)? else {
            return Err(DataError::Header { file: file.to_owned(), expected: "the file is empty".to_owned() });
        };
        let mut names: Vec<&str> = first.1.0.iter().map(|(name, _)| name.as_str()).collect();
        // Stable: the others keep their order.
        names.sort_by_key(|name| *name != "t");
        let header = StringRecord::from(names);
        lines.first = Some(first);
        Ok((lines, header))
    }

    /// Puts the next line into a record, in the order of the fields; its number, or `None` at the end.
    pub(super) fn read(
        &mut self,
        file: &str,
        fields: &StringRecord,
        record: &mut StringRecord,
    ) -> Result<Option<u64>, DataError> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => self.object(file)?,
        };
        let Some((line, Object(mut object))) = next else { return Ok(None) };
        let misfit = || {
            let expected = fields.iter().collect::<Vec<_>>().join(",");
            DataError::Fields { file: file.to_owned(), line, expected }
        };
        if object.len() != fields.len() {
            return Err(misfit());
        }
        record.clear();
        for (place, field) in fields.iter().enumerate() {
            let found = object[place..].iter().position(|(name, _)| name == field).ok_or_else(misfit)?;
            // Mostly it is where it was in the first line, and nothing moves.
            object.swap(place, place + found);
            record.push_field(&object[place].1);
        }
        Ok(Some(line))
    }

    /// The next object, and the number of its line; lines without anything are skipped.
    fn object(&mut self, file: &str) -> Result<Option<(u64, Object)>, DataError> {
        loop {
            self.reader.get_mut().renew();
            let mut bytes = Vec::new();
            let unreadable = |source| DataError::Read { file: file.to_owned(), line: self.line, source };
            if self.reader.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| DataError::NotUtf8 { file: file.to_owned(), line: self.line })?;
            if text.trim().is_empty() {
                continue;
            }
            // What serde says of it would quote what stands there.
            let object = serde_json::from_str(text)
                .map_err(|_| DataError::NotJson { file: file.to_owned(), line: self.line })?;
            return Ok(Some((self.line, object)));
        }
    }
}

/// Names and values in their order; no name occurs twice.
#[derive(Debug)]
struct Object(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((name, Cell(value))) = map.next_entry::<String, Cell>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom("a field occurs twice"));
            }
            entries.push((name, value));
        }
        Ok(Object(entries))
    }
}

/// A number or a text, as text.
struct Cell(String);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl Visitor<'_> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a text")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Cell, E> {
        Ok(Cell(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell(value.to_owned()))
    }
}
