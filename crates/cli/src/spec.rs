//! Reading the spec of a stream from TOML, with errors that point at the line and the key.

use std::io::Read;
use std::ops::Range;

use serde::Deserialize;
use tidegate::event::EventKind;
use tidegate::spec::{DomainSpec, EventSpec, SpecError, StreamSpec};
use tidegate_lab::UnknownName;
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;
use crate::input::Input;

/// No spec is longer: whatever a source sends, so much of it is held in memory and no more.
const LONGEST: u64 = 1 << 20;

/// A spec, and where its keys stand.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) stream: EventSpec,
    places: Places,
}

/// The lines of a file's keys.
#[derive(Debug)]
struct Places {
    file: String,
    /// The keys, each with its line and where in the text its value stands.
    keys: Vec<(String, usize, Range<usize>)>,
}

impl Spec {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(name: &str) -> Result<Self, Failure> {
        let Input { name, source } = Input::open(name)?;
        let mut bytes = Vec::new();
        let read = source.take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::input(format_args!("{name} cannot be read: {error}")))?;
        if bytes.len() as u64 > LONGEST {
            return Err(Failure::input(format_args!("{name} is longer than {LONGEST} bytes")));
        }
        match str::from_utf8(&bytes) {
            Ok(text) => Self::parse(&name, text),
            Err(error) => {
                let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
                Err(Failure::input(format_args!("{name}, line {line}: it is not valid UTF-8")))
            }
        }
    }

    fn parse(file: &str, text: &str) -> Result<Self, Failure> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            Failure::input(format_args!("{file}, line {line}: {}", error.message()))
        })?;
        let places = Places {
            file: file.to_owned(),
            keys: table
                .get_ref()
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), line_of(text, key.span().start), value.span()))
                .collect(),
        };
        let span = table.span();
        let mut table = table.into_inner();
        let families = StreamSpec::FAMILIES.iter().copied();
        match table.remove("family") {
            None => {
                let families: Vec<_> = families.collect();
                return Err(places.error(None, format_args!("it has no key family; families: {}", families.join(", "))));
            }
            Some(family) => match family.get_ref().as_str() {
                Some("event") => {}
                given => {
                    let unknown = UnknownName::new("family", given.unwrap_or_default(), families);
                    return Err(places.error(Some("family"), unknown));
                }
            },
        }
        check_keys(file, text, &table)?;
        if let Some(given) = table.get("mechanism").and_then(|name| name.get_ref().as_str())
            && !EventKind::ALL.iter().any(|kind| kind.name() == given)
        {
            let kinds = EventKind::ALL.into_iter().map(EventKind::name);
            return Err(places.error(Some("mechanism"), UnknownName::new("event-level mechanism", given, kinds)));
        }
        let spec = EventSpec::deserialize(toml::Deserializer::from(toml::Spanned::new(span, table)));
        let spec = spec.map_err(|error| {
            let at = error.span().and_then(|span| places.key_around(&span));
            places.error(at, error.message())
        })?;
        Ok(Self { stream: spec, places })
    }

    /// What is wrong with what the keys say.
    pub(crate) fn refused(&self, error: &SpecError) -> Failure {
        self.places.error(error.key(), error)
    }
}

impl Places {
    fn key_around(&self, span: &Range<usize>) -> Option<&str> {
        let around = |value: &Range<usize>| value.start <= span.start && span.end <= value.end;
        self.keys.iter().find(|(_, _, value)| around(value)).map(|(key, _, _)| key.as_str())
    }

    /// An error about a key, or about the whole.
    fn error(&self, key: Option<&str>, message: impl std::fmt::Display) -> Failure {
        let file = &self.file;
        match key.and_then(|key| self.keys.iter().find(|(name, _, _)| name == key)) {
            Some((key, line, _)) => Failure::input(format_args!("{file}, line {line}, key {key:?}: {message}")),
            None => Failure::input(format_args!("{file}: {message}")),
        }
    }
}

/// Refuses keys that mean nothing, and says which was probably meant.
fn check_keys(file: &str, text: &str, table: &DeTable<'_>) -> Result<(), Failure> {
    let tables = [("domain", DomainSpec::KEYS), ("truncation", &["every", "percent"]), ("protects", &["contributor"])];
    let nested = tables.iter().filter_map(|(name, valid)| match table.get(*name)?.get_ref() {
        DeValue::Table(inner) => Some((inner, *valid)),
        _ => None,
    });
    for (table, valid) in std::iter::once((table, EventSpec::KEYS)).chain(nested) {
        if let Some(unknown) = table.keys().find(|key| !valid.contains(&key.get_ref().as_ref())) {
            let line = line_of(text, unknown.span().start);
            let error = UnknownName::new("key", unknown.get_ref(), valid.iter().copied());
            return Err(Failure::input(format_args!("{file}, line {line}: {error}")));
        }
    }
    Ok(())
}

/// The line of a place in a text, from one.
fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}
