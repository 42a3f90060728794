//! The values of a domain, and what people call them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tidegate_kernel::MAX_DOMAIN;

use super::SpecError;

/// The values of a domain: how many there are, which then are called 0, 1, 2, ..., or their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of names, or how many values there are")]
pub enum ValuesSpec {
    /// So many, called by their numbers.
    Number(u32),
    /// These, in this order.
    Names(Vec<String>),
}

/// One value, by its name or its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a value, or its number")]
pub enum ValueSpec {
    /// By its number, where values are called by their numbers.
    Number(u32),
    /// By its name.
    Name(String),
}

/// The values of a domain, by name and by number.
///
/// ```
/// use tidegate::spec::ValuesSpec;
///
/// let values = ValuesSpec::Names(vec!["home".to_owned(), "away".to_owned()]).values()?;
/// assert_eq!((values.find("away"), values.find("work"), values.name(0).as_ref()), (Some(1), None, "home"));
/// let values = ValuesSpec::Number(5).values()?;
/// assert_eq!((values.find("4"), values.find("5"), values.find("04")), (Some(4), None, None));
/// # Ok::<(), tidegate::spec::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    count: u32,
    /// None where values are called by their numbers.
    names: Option<(Vec<String>, HashMap<String, u32>)>,
}

impl ValuesSpec {
    /// The values, each with a name of its own.
    ///
    /// # Errors
    /// [`SpecError::Values`] for no values or too many, and for a name that is empty, begins or ends with a blank, or
    /// is given twice.
    pub fn values(&self) -> Result<Values, SpecError> {
        let problem = |problem: String| SpecError::Values { problem };
        let names = match self {
            Self::Number(count) => {
                check_count(u64::from(*count))?;
                return Ok(Values { count: *count, names: None });
            }
            Self::Names(names) => names,
        };
        check_count(names.len() as u64)?;
        let mut places = HashMap::with_capacity(names.len());
        for (name, place) in names.iter().zip(0_u32..) {
            if name.is_empty() || name.trim() != name {
                return Err(problem(format!("{name:?} is no name: one has letters, and no blanks at its ends")));
            }
            if places.insert(name.clone(), place).is_some() {
                return Err(problem(format!("two values are called {name:?}")));
            }
        }
        #[allow(clippy::cast_possible_truncation)] // checked above
        let count = names.len() as u32;
        Ok(Values { count, names: Some((names.clone(), places)) })
    }
}

fn check_count(count: u64) -> Result<(), SpecError> {
    if (1..=u64::from(MAX_DOMAIN)).contains(&count) {
        return Ok(());
    }
    Err(SpecError::Values { problem: format!("a domain of {count} values is outside 1..={MAX_DOMAIN}") })
}

impl Values {
    /// How many there are, at least one.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether they have names, rather than numbers.
    pub const fn is_named(&self) -> bool {
        self.names.is_some()
    }

    /// The number of the value of this name.
    pub fn find(&self, name: &str) -> Option<u32> {
        match &self.names {
            Some((_, places)) => places.get(name).copied(),
            // Exactly as it would be written: 4, and neither 04 nor +4.
            None => {
                let plain = name == "0" || name.starts_with(|first: char| ('1'..='9').contains(&first));
                name.parse().ok().filter(|value| plain && *value < self.count)
            }
        }
    }

    /// The name of a value; of one that does not exist, its number.
    pub fn name(&self, value: u32) -> std::borrow::Cow<'_, str> {
        match self.names.as_ref().and_then(|(names, _)| names.get(value as usize)) {
            Some(name) => name.into(),
            None => value.to_string().into(),
        }
    }

    /// The number of the value that a spec names.
    pub(super) fn look_up(&self, value: &ValueSpec) -> Result<u32, String> {
        let name = match value {
            ValueSpec::Number(number) => number.to_string(),
            ValueSpec::Name(name) => name.clone(),
        };
        self.find(&name).ok_or_else(|| {
            let name: String = name.chars().take(40).collect();
            format!("the domain has no value {name:?}")
        })
    }
}
