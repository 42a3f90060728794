//! Reads a stream's spec from TOML; errors name the line and the key.

use std::path::Path;

use tidegate::kernel::oracle::OracleKind;
use tidegate::mechanisms::{self, Family, Mechanism, Preset};
use tidegate::names::UnknownName;
use tidegate::spec::{
    CentralSpec, ColumnsSpec, DomainSpec, InputSpec, LocalSpec, ModelSpec, ScalarSpec, SequenceSpec, SpecError,
    StreamSpec, TimelineSpec,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Error;
use crate::model_file::ModelFile;
use crate::toml_file::{Places, Table, Text};

/// A spec, with the lines of its keys.
#[derive(Debug)]
pub struct Spec {
    /// The spec.
    pub stream: StreamSpec,
    /// The file of its model, if that was learned with a seed.
    pub seeded_model: Option<String>,
    places: Places,
}

/// The keys of a family's spec.
struct Keys {
    valid: &'static [&'static str],
    /// Keys whose value is a table, with that table's keys.
    tables: &'static [(&'static str, &'static [&'static str])],
}

impl Keys {
    const fn of(family: Family) -> Self {
        match family {
            Family::Local => Self { valid: LocalSpec::KEYS, tables: &[("timeline", TimelineSpec::KEYS)] },
            Family::Central => Self { valid: CentralSpec::KEYS, tables: &[("timeline", TimelineSpec::KEYS)] },
            Family::Scalar => Self {
                valid: ScalarSpec::KEYS,
                tables: &[
                    ("domain", DomainSpec::KEYS),
                    ("truncation", &["every", "percent"]),
                    ("protects", &["contributor"]),
                    ("timeline", TimelineSpec::KEYS),
                ],
            },
            Family::Sequence => Self { valid: SequenceSpec::KEYS, tables: &[] },
        }
    }
}

impl Spec {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is no spec.
    pub fn open(path: &str) -> Result<Self, Error> {
        let source = tidegate_table::open(Path::new(path)).map_err(|error| Error::Spec(error.to_string()))?;
        Self::of(Text::read(path.to_owned(), source)?.table()?)
    }

    /// Reads a spec from a table.
    ///
    /// # Errors
    /// A table that is no spec.
    pub fn of(mut table: Table<'_>) -> Result<Self, Error> {
        let mechanism = mechanism_of(&mut table)?;
        check(&table, &Keys::of(mechanism.family))?;
        let (seeded_model, learned) = match learned_model(&mut table)? {
            Some((path, ModelFile { model, seeded })) => (seeded.then_some(path), Some(model)),
            None => (None, None),
        };
        let input = input_of(&mut table)?;
        let (mut stream, places) = match mechanism.family {
            Family::Local => table.read().map(|(spec, places)| (StreamSpec::Local(spec), places)),
            Family::Central => table.read().map(|(spec, places)| (StreamSpec::Central(spec), places)),
            Family::Scalar => table.read().map(|(spec, places)| (StreamSpec::Scalar(spec), places)),
            Family::Sequence => {
                table.read().map(|(spec, places)| (StreamSpec::Sequence(SequenceSpec { learned, ..spec }), places))
            }
        }?;
        *stream.input_mut() = input;
        Ok(Self { stream, seeded_model, places })
    }

    /// Returns the spec for a declaration, which names no files: the model of a file is written into it.
    ///
    /// # Errors
    /// A model that was learned with a seed, which is not private, and one that a declaration cannot hold.
    pub fn declared(&self) -> Result<StreamSpec, Error> {
        if let Some(path) = &self.seeded_model {
            return Err(self.places.error(Some("model"), ModelFile::seeded_note(path)));
        }
        let mut stream = self.stream.clone();
        if let StreamSpec::Sequence(SequenceSpec { model, learned, .. }) = &mut stream
            && let Some(learned) = learned.take()
        {
            let why = "devices take a model of order 1 over at most 256 symbols";
            *model = Some(ModelSpec::of(&learned).ok_or_else(|| self.places.error(Some("model"), why))?);
        }
        Ok(stream)
    }

    /// Returns a spec error with its line.
    pub fn refused(&self, error: &SpecError) -> Error {
        self.places.error(error.key(), error)
    }
}

/// Takes the path of a model's file out of a sequence spec, and reads the file.
fn learned_model(table: &mut Table<'_>) -> Result<Option<(String, ModelFile)>, Error> {
    let path = table.table.get("model").and_then(|model| model.get_ref().as_str().map(str::to_owned));
    let Some(path) = path else { return Ok(None) };
    table.take("model");
    match ModelFile::read(&path) {
        Ok(model) => Ok(Some((path, model))),
        Err(failure) => Err(table.places.error(Some("model"), failure)),
    }
}

/// Removes the family, and replaces a mechanism's variant by the keys that it stands for.
fn mechanism_of(table: &mut Table<'_>) -> Result<&'static Mechanism, Error> {
    let families = || Family::ALL.map(Family::name);
    let family = match table.take("family") {
        None => None,
        Some(given) => {
            let name = given.get_ref().as_str().unwrap_or_default();
            let found = Family::ALL.into_iter().find(|family| family.name() == name);
            let unknown = || table.places.error(Some("family"), UnknownName::new("family", name, families()));
            Some(found.ok_or_else(unknown)?)
        }
    };
    let given = table.table.get("mechanism").map(|name| (name.get_ref().as_str().unwrap_or_default(), name.span()));
    let (found, span) = match (family, given) {
        (Some(family), Some((name, span))) => (mechanisms::find_in(family, name), span),
        (None, Some((name, span))) => (mechanisms::find(name), span),
        (Some(family), None) => {
            let names: Vec<_> = family.mechanisms().map(|mechanism| mechanism.short_name).collect();
            let message = format_args!("it has no key mechanism; {family} mechanisms: {}", names.join(", "));
            return Err(table.places.error(None, message));
        }
        (None, None) => {
            let message = format_args!("it has no key family; families: {}", families().join(", "));
            return Err(table.places.error(None, message));
        }
    };
    let found = found.map_err(|error| table.places.error(Some("mechanism"), error))?;
    let text = |text: &'static str| Spanned::new(span.clone(), DeValue::String(text.into()));
    table
        .table
        .insert(Spanned::new(span.clone(), "mechanism".into()), text(found.variant_of.unwrap_or(found.short_name)));
    for (key, preset) in found.presets {
        if table.table.contains_key(*key) {
            return Err(table.places.error(Some(key), format_args!("{found} fixes it; delete this key")));
        }
        let value = match preset {
            Preset::Text(value) => text(value),
            Preset::Table(_, text) => DeValue::parse(text).map_err(Error::run)?,
        };
        table.table.insert(Spanned::new(span.clone(), (*key).into()), value);
    }
    Ok(found)
}

/// Removes the keys that say how the table is read.
fn input_of(table: &mut Table<'_>) -> Result<InputSpec, Error> {
    let mut found = DeTable::new();
    for key in InputSpec::KEYS {
        if let Some(value) = table.take(key) {
            found.insert(Spanned::new(value.span(), (*key).into()), value);
        }
    }
    let (input, _) = table.inner(found, 0..0).read()?;
    Ok(input)
}

/// Rejects unknown keys and oracles, and suggests the probable spelling.
fn check(table: &Table<'_>, keys: &Keys) -> Result<(), Error> {
    let tables = keys.tables.iter().chain(&[("columns", ColumnsSpec::KEYS)]);
    let nested = tables.filter_map(|(name, valid)| match table.table.get(*name)?.get_ref() {
        DeValue::Table(inner) => Some((inner, *valid)),
        _ => None,
    });
    let of_all = [keys.valid, InputSpec::KEYS].concat();
    for (found, valid) in std::iter::once((&table.table, &of_all[..])).chain(nested) {
        if let Some(unknown) = found.keys().find(|key| !valid.contains(&key.get_ref().as_ref())) {
            let error = UnknownName::new("key", unknown.get_ref(), valid.iter().copied());
            return Err(table.error_at(&unknown.span(), None, error));
        }
    }
    let oracles = OracleKind::ALL.map(OracleKind::name);
    match table.table.get("oracle").and_then(|name| name.get_ref().as_str()) {
        Some(given) if !oracles.contains(&given) => {
            Err(table.places.error(Some("oracle"), UnknownName::new("frequency oracle", given, oracles)))
        }
        _ => Ok(()),
    }
}
