//! The list of mechanisms. Specs, the service, `advise`, `evaluate`, `audit` and the documentation read it.
//!
//! A mechanism is known by its full name, `family.name`: `central.track`. The short name does where only one family
//! has it: `lpa`. A variant is a mechanism with some keys of its spec fixed: `contin_points` is `contin` with
//! `publication = "points"`.
//!
//! Each family lists its own mechanisms, in its `mod.rs`. To add one: write its file, add its lines to the list of its
//! family, and write its page.
//!
//! ```
//! use tidegate::mechanisms::{self, Family};
//!
//! assert_eq!(mechanisms::find("lpa")?.family, Family::Local);
//! assert_eq!(mechanisms::find("central.track")?.name(), "central.track");
//! assert!(mechanisms::find("track").is_err()); // three families have one
//! assert_eq!(mechanisms::find_in(Family::Scalar, "track")?.full_name, "scalar.track");
//! # Ok::<(), tidegate::names::UnknownName>(())
//! ```

use std::fmt;

use crate::names::UnknownName;
use crate::{central, local, scalar, sequence};

/// A family of mechanisms: who is trusted, and what a timestamp has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Each user's value, which only the user's device sees.
    Local,
    /// Each user's value, which a curator sees.
    Central,
    /// One number, which a curator sees.
    Scalar,
    /// One user's symbol, which only the user's device sees.
    Sequence,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 4] = [Self::Local, Self::Central, Self::Scalar, Self::Sequence];

    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Central => "central",
            Self::Scalar => "scalar",
            Self::Sequence => "sequence",
        }
    }

    /// Its mechanisms and their variants.
    pub fn mechanisms(self) -> impl Iterator<Item = &'static Mechanism> {
        let (mechanisms, variants): (&'static [Mechanism], &'static [Mechanism]) = match self {
            Self::Local => (local::MECHANISMS, &[]),
            Self::Central => (central::MECHANISMS, central::VARIANTS),
            Self::Scalar => (scalar::MECHANISMS, scalar::VARIANTS),
            Self::Sequence => (sequence::MECHANISMS, sequence::VARIANTS),
        };
        mechanisms.iter().chain(variants)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The statistic that a mechanism releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The frequency of each value.
    Frequencies,
    /// Frequencies of the nodes of a tree over the domain.
    Tree,
    /// The number of users with each value.
    Counts,
    /// A number.
    Number,
    /// A symbol.
    Symbol,
}

impl Output {
    /// The word for it in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frequencies => "frequencies",
            Self::Tree => "tree",
            Self::Counts => "counts",
            Self::Number => "number",
            Self::Symbol => "symbol",
        }
    }
}

/// A value that a variant fixes in its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A text.
    Text(&'static str),
    /// A table of whole numbers, and its text in TOML.
    Table(&'static [(&'static str, u64)], &'static str),
}

impl Preset {
    /// The value in JSON.
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Table(entries, _) => {
                let entry = |(key, value): &(&str, u64)| ((*key).to_owned(), serde_json::Value::from(*value));
                entries.iter().map(entry).collect()
            }
        }
    }
}

/// An entry of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The family.
    pub family: Family,
    /// The name within the family.
    pub short_name: &'static str,
    /// `family.name`.
    pub full_name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// The keys of a spec that this mechanism uses, of those that not every mechanism of its family does.
    pub keys: &'static [&'static str],
    /// How many rounds of questions a timestamp has at most; zero where nobody is asked.
    pub rounds: u8,
    /// Whether each class of users has a guarantee of its own.
    pub by_class: bool,
    /// The statistic that it releases.
    pub output: Output,
    /// The mechanism that this is a variant of.
    pub variant_of: Option<&'static str>,
    /// The keys that the variant fixes.
    pub presets: &'static [(&'static str, Preset)],
}

impl Mechanism {
    /// Whether a filter can improve its releases. Some mechanisms filter theirs themselves, release trees or symbols,
    /// or always the same number.
    pub fn can_be_smoothed(&self) -> bool {
        let is_filtered = ["track", "personal_track", "constant"].contains(&self.short_name);
        !is_filtered && !matches!(self.output, Output::Tree | Output::Symbol)
    }

    /// The name to show: the short one where only one family has it.
    pub fn name(&self) -> &'static str {
        let same = all().filter(|other| other.short_name == self.short_name);
        if same.count() > 1 { self.full_name } else { self.short_name }
    }

    /// The page of the documentation, from the folder `docs` on.
    pub fn page(&self) -> String {
        let page = match self.variant_of.unwrap_or(self.short_name) {
            "personal_track" => "track",
            "mtsp_population" => "mtsp",
            "constant" | "clamped" => "laplace",
            "pegasus_delay" => "pegasus",
            "rr" | "oue" => "README",
            own => own,
        };
        format!("{}/{page}.md", self.family)
    }

    /// A variant of this mechanism.
    pub(crate) const fn variant(
        self,
        names: (&'static str, &'static str),
        summary: &'static str,
        presets: &'static [(&'static str, Preset)],
    ) -> Self {
        let (short_name, full_name) = names;
        Self { short_name, full_name, summary, variant_of: Some(self.short_name), presets, ..self }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// All mechanisms and their variants, by family.
pub fn all() -> impl Iterator<Item = &'static Mechanism> {
    Family::ALL.into_iter().flat_map(Family::mechanisms)
}

/// The mechanism of a full name, or of a short one that only one family has.
///
/// # Errors
/// [`UnknownName`], with all names, or with the full names that a short one may mean.
pub fn find(name: &str) -> Result<&'static Mechanism, UnknownName> {
    let mut fitting = all().filter(|mechanism| mechanism.full_name == name || mechanism.short_name == name);
    match (fitting.next(), fitting.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(ambiguous(name, all())),
        _ => Err(UnknownName::new("mechanism", name, all().map(Mechanism::name))),
    }
}

/// A name that several mechanisms have, with their full names.
pub fn ambiguous(name: &str, among: impl Iterator<Item = &'static Mechanism>) -> UnknownName {
    let fitting = among.filter(|mechanism| mechanism.short_name == name).map(|mechanism| mechanism.full_name);
    UnknownName::ambiguous("mechanism", name, fitting)
}

/// The mechanism of a family by its short or full name.
///
/// # Errors
/// [`UnknownName`], with the names of the family.
pub fn find_in(family: Family, name: &str) -> Result<&'static Mechanism, UnknownName> {
    let found = family.mechanisms().find(|mechanism| mechanism.full_name == name || mechanism.short_name == name);
    found.ok_or_else(|| {
        let valid = family.mechanisms().map(|mechanism| mechanism.short_name);
        UnknownName::new(kind_of(family), name, valid)
    })
}

const fn kind_of(family: Family) -> &'static str {
    match family {
        Family::Local => "local mechanism",
        Family::Central => "central mechanism",
        Family::Scalar => "scalar mechanism",
        Family::Sequence => "sequence mechanism",
    }
}

/// Puts a spec into the form that its family reads: the key `family` is there, `mechanism` is a short name that is no
/// variant, and the keys that a variant fixes are set. What is not understood is left for the family to refuse.
///
/// # Errors
/// A key that the variant fixes was given too, or family and mechanism contradict each other.
pub fn normalise(spec: &mut serde_json::Map<String, serde_json::Value>) -> Result<(), String> {
    let Some(name) = spec.get("mechanism").and_then(|name| name.as_str()) else { return Ok(()) };
    // A family that is no text is unknown, and refused later.
    let family = spec.get("family").map(|family| family.as_str().unwrap_or_default());
    let mechanism = match family {
        None => find(name).map_err(|error| error.to_string())?,
        Some(family) => {
            let Some(family) = Family::ALL.into_iter().find(|known| known.name() == family) else { return Ok(()) };
            find_in(family, name).map_err(|error| error.to_string())?
        }
    };
    spec.insert("family".into(), mechanism.family.name().into());
    spec.insert("mechanism".into(), mechanism.variant_of.unwrap_or(mechanism.short_name).into());
    for (key, value) in mechanism.presets {
        if spec.insert((*key).to_owned(), value.to_json()).is_some() {
            return Err(format!("{key}: {mechanism} fixes it; delete this key"));
        }
    }
    Ok(())
}

/// Declares the mechanisms of a family: an enum of their kinds, and the family's part of the list.
macro_rules! mechanisms {
    (
        $(#[$about:meta])*
        $kinds:ident: $family:ident, $prefix:literal, all as $all:ident;
        $($(#[$doc:meta])* $kind:ident = $name:literal { $($field:ident: $value:expr),* $(,)? })*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        pub enum $kinds {
            $($(#[$doc])* $kind,)*
        }

        /// The mechanisms of the family, in the order of their kinds.
        pub const MECHANISMS: &[crate::mechanisms::Mechanism] = &[$(crate::mechanisms::Mechanism {
            family: crate::mechanisms::Family::$family,
            short_name: $name,
            full_name: concat!($prefix, ".", $name),
            $($field: $value,)*
            variant_of: None,
            presets: &[],
        },)*];

        impl $kinds {
            /// All mechanisms of the family.
            pub const $all: [Self; MECHANISMS.len()] = [$(Self::$kind,)*];

            /// Its entry in the list of mechanisms.
            pub const fn mechanism(self) -> &'static crate::mechanisms::Mechanism {
                &MECHANISMS[self as usize]
            }

            /// The name within the family.
            pub const fn name(self) -> &'static str {
                self.mechanism().short_name
            }
        }

        impl std::fmt::Display for $kinds {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl From<$kinds> for &'static str {
            fn from(kind: $kinds) -> Self {
                kind.name()
            }
        }

        impl std::str::FromStr for $kinds {
            type Err = crate::names::UnknownName;

            fn from_str(name: &str) -> Result<Self, crate::names::UnknownName> {
                let found = crate::mechanisms::find_in(crate::mechanisms::Family::$family, name)?;
                let kind = Self::$all.into_iter().find(|kind| kind.mechanism() == found);
                kind.ok_or_else(|| crate::names::UnknownName::new("mechanism", name, Self::$all.map(Self::name)))
            }
        }

        impl TryFrom<String> for $kinds {
            type Error = crate::names::UnknownName;

            fn try_from(name: String) -> Result<Self, crate::names::UnknownName> {
                name.parse()
            }
        }
    };
}

pub(crate) use mechanisms;
