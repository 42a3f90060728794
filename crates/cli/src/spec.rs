//! Reading the spec of a stream from TOML, with errors that point at the line and the key.

use std::io::Read;
use std::ops::Range;

use serde::de::DeserializeOwned;
use tidegate::event::EventKind;
use tidegate::kernel::oracle::OracleKind;
use tidegate::local::LocalKind;
use tidegate::spec::{
    CentralChoice, CentralSpec, DomainSpec, EventSpec, LocalSpec, SequenceChoice, SequenceSpec, SpecError, StreamSpec,
};
use tidegate_lab::{UnknownName, nearest};
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;
use crate::input::Input;

/// No spec is longer: whatever a source sends, so much of it is held in memory and no more.
const LONGEST: u64 = 1 << 20;

/// A spec, and where its keys stand.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) stream: StreamSpec,
    places: Places,
}

/// The lines of a file's keys.
#[derive(Debug)]
struct Places {
    file: String,
    /// The keys, each with its line and where in the text its value stands.
    keys: Vec<(String, usize, Range<usize>)>,
}

/// What is known of a family before its spec is read.
struct Family {
    keys: &'static [&'static str],
    /// What its mechanisms are called in errors.
    kind: &'static str,
    mechanisms: Vec<&'static str>,
    /// Keys whose value is a table, with the keys of that.
    tables: &'static [(&'static str, &'static [&'static str])],
}

impl Family {
    fn of(name: &str) -> Option<Self> {
        match name {
            "local" => Some(Self {
                keys: LocalSpec::KEYS,
                kind: "local mechanism",
                mechanisms: LocalKind::ALL.map(LocalKind::name).to_vec(),
                tables: &[],
            }),
            "central" => Some(Self {
                keys: CentralSpec::KEYS,
                kind: "central mechanism",
                mechanisms: CentralChoice::ALL.map(CentralChoice::name).to_vec(),
                tables: &[],
            }),
            "event" => Some(Self {
                keys: EventSpec::KEYS,
                kind: "event-level mechanism",
                mechanisms: EventKind::ALL.map(EventKind::name).to_vec(),
                tables: &[
                    ("domain", DomainSpec::KEYS),
                    ("truncation", &["every", "percent"]),
                    ("protects", &["contributor"]),
                ],
            }),
            "sequence" => Some(Self {
                keys: SequenceSpec::KEYS,
                kind: "sequence mechanism",
                mechanisms: SequenceChoice::ALL.map(SequenceChoice::name).to_vec(),
                tables: &[],
            }),
            _ => None,
        }
    }
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
        let Some(family) = table.remove("family") else {
            let families: Vec<_> = families.collect();
            return Err(places.error(None, format_args!("it has no key family; families: {}", families.join(", "))));
        };
        let name = family.get_ref().as_str().unwrap_or_default();
        let Some(family) = Family::of(name) else {
            return Err(places.error(Some("family"), UnknownName::new("family", name, families)));
        };
        family.check(&places, text, &table)?;
        let source = Source { places: &places, text, table, span };
        let stream = match name {
            "local" => StreamSpec::Local(source.read()?),
            "central" => StreamSpec::Central(source.read()?),
            "event" => StreamSpec::Event(source.read()?),
            _ => StreamSpec::Sequence(source.read()?),
        };
        Ok(Self { stream, places })
    }

    /// What is wrong with what the keys say.
    pub(crate) fn refused(&self, error: &SpecError) -> Failure {
        self.places.error(error.key(), error)
    }
}

impl Family {
    /// Refuses keys that mean nothing, and names of mechanisms and oracles that there are not, and says which was probably meant.
    fn check(&self, places: &Places, text: &str, table: &DeTable<'_>) -> Result<(), Failure> {
        let nested = self.tables.iter().filter_map(|(name, valid)| match table.get(*name)?.get_ref() {
            DeValue::Table(inner) => Some((inner, *valid)),
            _ => None,
        });
        for (table, valid) in std::iter::once((table, self.keys)).chain(nested) {
            if let Some(unknown) = table.keys().find(|key| !valid.contains(&key.get_ref().as_ref())) {
                let line = line_of(text, unknown.span().start);
                let error = UnknownName::new("key", unknown.get_ref(), valid.iter().copied());
                return Err(Failure::input(format_args!("{}, line {line}: {error}", places.file)));
            }
        }
        let oracles = OracleKind::ALL.map(OracleKind::name);
        let named = [("mechanism", self.kind, self.mechanisms.as_slice()), ("oracle", "frequency oracle", &oracles)];
        for (key, kind, names) in named {
            if let Some(given) = table.get(key).and_then(|name| name.get_ref().as_str())
                && !names.contains(&given)
            {
                return Err(places.error(Some(key), UnknownName::new(kind, given, names.iter().copied())));
            }
        }
        Ok(())
    }
}

/// A spec whose family is known.
struct Source<'a> {
    places: &'a Places,
    text: &'a str,
    table: DeTable<'a>,
    span: Range<usize>,
}

impl Source<'_> {
    fn read<T: DeserializeOwned>(self) -> Result<T, Failure> {
        let Self { places, text, table, span } = self;
        T::deserialize(toml::Deserializer::from(toml::Spanned::new(span.clone(), table))).map_err(|error| {
            let message = explained(error.message());
            match error.span().filter(|place| *place != span) {
                Some(place) => places.error_at(line_of(text, place.start), places.key_around(&place), message),
                None => places.error(None, message),
            }
        })
    }
}

/// What the parser says of a name that is not one of several, with the one that was probably meant.
fn explained(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some((given, valid)), true) = (quoted.split_first(), message.starts_with("unknown ")) else {
        return message.to_owned();
    };
    let meant = nearest(&given.to_lowercase(), valid).map(|meant| format!(" (did you mean {meant}?)"));
    let meant = meant.unwrap_or_default();
    if message.starts_with("unknown field") {
        return format!("there is no key {given:?}{meant}; there are: {}", valid.join(", "));
    }
    format!("{message}{meant}")
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
            Some((key, line, _)) => self.error_at(*line, Some(key), message),
            None => Failure::input(format_args!("{file}: {message}")),
        }
    }

    fn error_at(&self, line: usize, key: Option<&str>, message: impl std::fmt::Display) -> Failure {
        let file = &self.file;
        match key {
            Some(key) => Failure::input(format_args!("{file}, line {line}, key {key:?}: {message}")),
            None => Failure::input(format_args!("{file}, line {line}: {message}")),
        }
    }
}

/// The line of a place in a text, from one.
fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}
