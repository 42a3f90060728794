//! Reading the spec of a stream from TOML, with errors that point at the line and the key.

use tidegate::kernel::oracle::OracleKind;
use tidegate::local::LocalKind;
use tidegate::names::UnknownName;
use tidegate::scalar::ScalarKind;
use tidegate::spec::{
    CentralChoice, CentralSpec, DomainSpec, LocalSpec, ScalarSpec, SequenceChoice, SequenceSpec, SpecError, StreamSpec,
    TimelineSpec,
};
use toml::de::DeValue;

use crate::failure::Failure;
use crate::toml_file::{Places, Table, Text};

/// A spec, and where its keys stand.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) stream: StreamSpec,
    places: Places,
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
                tables: &[("timeline", TimelineSpec::KEYS)],
            }),
            "central" => Some(Self {
                keys: CentralSpec::KEYS,
                kind: "central mechanism",
                mechanisms: CentralChoice::ALL.map(CentralChoice::name).to_vec(),
                tables: &[("timeline", TimelineSpec::KEYS)],
            }),
            "scalar" => Some(Self {
                keys: ScalarSpec::KEYS,
                kind: "event-level mechanism",
                mechanisms: ScalarKind::ALL.map(ScalarKind::name).to_vec(),
                tables: &[
                    ("domain", DomainSpec::KEYS),
                    ("truncation", &["every", "percent"]),
                    ("protects", &["contributor"]),
                    ("timeline", TimelineSpec::KEYS),
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
        Self::of(Text::read(name)?.table()?)
    }

    /// What a table says.
    pub(crate) fn of(mut table: Table<'_>) -> Result<Self, Failure> {
        let families = StreamSpec::FAMILIES.iter().copied();
        let Some(family) = table.take("family") else {
            let families: Vec<_> = families.collect();
            let message = format_args!("it has no key family; families: {}", families.join(", "));
            return Err(table.places.error(None, message));
        };
        let name = family.get_ref().as_str().unwrap_or_default();
        let Some(family) = Family::of(name) else {
            return Err(table.places.error(Some("family"), UnknownName::new("family", name, families)));
        };
        family.check(&table)?;
        let (stream, places) = match name {
            "local" => table.read().map(|(spec, places)| (StreamSpec::Local(spec), places)),
            "central" => table.read().map(|(spec, places)| (StreamSpec::Central(spec), places)),
            "scalar" => table.read().map(|(spec, places)| (StreamSpec::Scalar(spec), places)),
            _ => table.read().map(|(spec, places)| (StreamSpec::Sequence(spec), places)),
        }?;
        Ok(Self { stream, places })
    }

    /// What is wrong with what the keys say.
    pub(crate) fn refused(&self, error: &SpecError) -> Failure {
        self.places.error(error.key(), error)
    }
}

impl Family {
    /// Refuses keys that mean nothing, and names of mechanisms and oracles that there are not, and says which was
    /// probably meant.
    fn check(&self, table: &Table<'_>) -> Result<(), Failure> {
        let nested = self.tables.iter().filter_map(|(name, valid)| match table.table.get(*name)?.get_ref() {
            DeValue::Table(inner) => Some((inner, *valid)),
            _ => None,
        });
        for (keys, valid) in std::iter::once((&table.table, self.keys)).chain(nested) {
            if let Some(unknown) = keys.keys().find(|key| !valid.contains(&key.get_ref().as_ref())) {
                let error = UnknownName::new("key", unknown.get_ref(), valid.iter().copied());
                return Err(table.error_at(&unknown.span(), None, error));
            }
        }
        let oracles = OracleKind::ALL.map(OracleKind::name);
        let named = [("mechanism", self.kind, self.mechanisms.as_slice()), ("oracle", "frequency oracle", &oracles)];
        for (key, kind, names) in named {
            if let Some(given) = table.table.get(key).and_then(|name| name.get_ref().as_str())
                && !names.contains(&given)
            {
                return Err(table.places.error(Some(key), UnknownName::new(kind, given, names.iter().copied())));
            }
        }
        Ok(())
    }
}
