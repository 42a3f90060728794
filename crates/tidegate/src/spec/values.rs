//! The values of a domain, and what people call them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Decimal, Grid, MAX_DOMAIN};

use super::{DomainSpec, SpecError};
use crate::release::{UNSTATED, readable};

/// The values of a domain: how many there are, which then are called 0, 1, 2, ..., or their names; or, for a local
/// stream, the range of users' numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of names, how many values there are, or low and high of numbers")]
pub enum ValuesSpec {
    /// So many, called by their numbers.
    Number(u32),
    /// These, in this order.
    Names(Vec<String>),
    /// The numbers of a range, of which the mean is released. It has no `missing`: whoever has no number is not asked.
    Numbers(DomainSpec),
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
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    count: u32,
    /// None where values are called by their numbers.
    names: Option<(Vec<String>, HashMap<String, u32>)>,
    /// The grid of numbers, whose points are the values.
    grid: Option<Grid>,
}

impl ValuesSpec {
    /// The values, each with a name of its own.
    ///
    /// # Errors
    /// [`SpecError::Values`] for no values or too many, and for a name that is empty, begins or ends with a blank, or
    /// is given twice. The same for numbers, which local streams have: [`Self::values_or_numbers`].
    pub fn values(&self) -> Result<Values, SpecError> {
        let problem = |problem: String| SpecError::Values { problem };
        let names = match self {
            Self::Number(count) => {
                check_count(u64::from(*count))?;
                return Ok(Values { count: *count, names: None, grid: None });
            }
            Self::Names(names) => names,
            Self::Numbers(_) => {
                return Err(problem(
                    "the mean of users' numbers is for local streams; give a list of values, or how many there are"
                        .to_owned(),
                ));
            }
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
        Ok(Values { count, names: Some((names.clone(), places)), grid: None })
    }

    /// The values, or the points of a grid of numbers.
    ///
    /// # Errors
    /// As [`values`](Self::values), as [`DomainSpec::grid`], and [`SpecError::Values`] for a grid with more points than
    /// a domain has values.
    pub fn values_or_numbers(&self) -> Result<Values, SpecError> {
        let Self::Numbers(domain) = self else { return self.values() };
        let problem = |problem: String| SpecError::Values { problem };
        if domain.missing.is_some() {
            return Err(problem("a user without a number is not asked: delete missing".to_owned()));
        }
        let grid = domain.grid()?;
        let points = grid.width() + 1;
        let count = u32::try_from(points).ok().filter(|count| *count <= MAX_DOMAIN);
        let count = count.ok_or_else(|| {
            problem(format!("the range has {points} numbers, more than {MAX_DOMAIN}: give a larger resolution"))
        })?;
        Ok(Values { count, names: None, grid: Some(grid) })
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

    /// The grid, where the values are numbers on it.
    pub const fn grid(&self) -> Option<&Grid> {
        self.grid.as_ref()
    }

    /// The number of the value of this name. Of numbers, the nearest point of the grid: one outside the range is moved
    /// to its nearest end.
    pub fn find(&self, name: &str) -> Option<u32> {
        if let Some(grid) = &self.grid {
            let number: Decimal = name.trim().parse().ok()?;
            let [low, high, _] = grid.decimals();
            return grid.steps_of(number.clamp(low, high)).ok().and_then(|steps| u32::try_from(steps).ok());
        }
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
        if let Some(grid) = &self.grid {
            return readable(grid.value_of(value.into()), UNSTATED).to_string().into();
        }
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
