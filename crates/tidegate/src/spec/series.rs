//! [`SeriesSpec`]: several streams in one table.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Window};

use super::{InputSpec, SpecError, StreamSpec};
use crate::sequence::crr::Guarantee;

/// Most series of a table.
pub const MOST_SERIES: usize = 1_000;

/// Longest name of a series, in characters.
const LONGEST_NAME: usize = 100;

/// In how many series one person can be, within any window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum AcrossSeries {
    /// At most so many.
    Most(NonZeroU64),
    /// Any number of them.
    All,
}

/// The written form of [`AcrossSeries`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a whole number from 1 on, or \"all\"")]
enum Written {
    Number(NonZeroU64),
    Text(String),
}

impl TryFrom<Written> for AcrossSeries {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        match written {
            Written::Number(most) => Ok(Self::Most(most)),
            Written::Text(text) if text == "all" => Ok(Self::All),
            Written::Text(_) => Err("expected a whole number from 1 on, or \"all\""),
        }
    }
}

impl From<AcrossSeries> for Written {
    fn from(across: AcrossSeries) -> Self {
        match across {
            AcrossSeries::Most(most) => Self::Number(most),
            AcrossSeries::All => Self::Text("all".to_owned()),
        }
    }
}

impl fmt::Display for AcrossSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Most(most) => most.fmt(formatter),
            Self::All => formatter.write_str("all"),
        }
    }
}

/// The series of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSpec {
    /// The column with the name of the series.
    pub column: String,
    /// The names, which are public.
    pub names: Vec<String>,
    /// The most series that one person can be in within any window; at most their number.
    pub most: NonZeroU64,
}

const HOW_MANY: &str = "say in how many series one person can be within a window: across_series = 1 if in one only, \
                        across_series = \"all\" if in any. Each series gets epsilon divided by that number, so that \
                        epsilon covers all that a person contributes";

impl InputSpec {
    /// The series of the table; `None` where it holds a single stream.
    ///
    /// # Errors
    /// [`SpecError::Input`] for names that are missing, too many or not distinct, and for a missing `across_series`.
    pub fn split(&self) -> Result<Option<SeriesSpec>, SpecError> {
        let refused = |key, problem: String| Err(SpecError::Input { key, problem });
        let names = match (&self.series_names, &self.series, self.across_series) {
            (Some(names), ..) => names,
            (None, None, None) => return Ok(None),
            (None, Some(_), _) => {
                let names = "declare the series too, because their names are public: series_names = [\"north\", \
                             \"south\"] in the spec";
                return refused("series", names.to_owned());
            }
            (None, None, Some(_)) => return refused("across_series", "it goes with series_names".to_owned()),
        };
        let is_name = |name: &String| {
            !name.is_empty()
                && name.trim() == name
                && name.chars().count() <= LONGEST_NAME
                && !name.chars().any(char::is_control)
        };
        if names.is_empty() || names.len() > MOST_SERIES {
            return refused("series_names", format!("expected 1 to {MOST_SERIES} names; {} were given", names.len()));
        }
        if let Some(place) = names.iter().position(|name| !is_name(name)) {
            return refused(
                "series_names",
                format!("name {} is empty, longer than {LONGEST_NAME} characters, or has blanks around it", place + 1),
            );
        }
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return refused("series_names", format!("{twice:?} is there twice"));
        }
        let all = NonZeroU64::new(names.len() as u64).unwrap_or(NonZeroU64::MIN);
        let most = match self.across_series {
            Some(AcrossSeries::Most(most)) => most.min(all),
            Some(AcrossSeries::All) => all,
            None if all == NonZeroU64::MIN => all,
            None => return refused("series_names", HOW_MANY.to_owned()),
        };
        let column = self.series.clone().unwrap_or_else(|| "series".to_owned());
        Ok(Some(SeriesSpec { column, names: names.clone(), most }))
    }

    /// The same table as a single stream.
    fn unsplit(&mut self) {
        (self.series, self.series_names, self.across_series) = (None, None, None);
    }
}

impl StreamSpec {
    /// The spec of one series: every epsilon is divided by the number of series that one person can be in.
    ///
    /// # Guarantee
    /// Whoever is in at most `most` series within any window loses at most the sum of as many shares there, which is at
    /// most the epsilon of this spec: each share is rounded down.
    ///
    /// # Errors
    /// [`SpecError::Input`] for a share that is too small, and for a guarantee that does not compose over series.
    pub fn of_one_series(&self, most: NonZeroU64) -> Result<Self, SpecError> {
        let refused = |problem: String| SpecError::Input { key: "across_series", problem };
        let divide = |epsilon: &mut Epsilon| -> Result<(), SpecError> {
            let share = epsilon.divided_by(most.get());
            *epsilon = share.ok_or_else(|| refused(format!("{epsilon} divided by {most} is too small an epsilon")))?;
            Ok(())
        };
        let mut spec = self.clone();
        spec.input_mut().unsplit();
        match &mut spec {
            Self::Local(spec) => {
                spec.epsilon.iter_mut().try_for_each(divide)?;
                spec.classes.iter_mut().flatten().try_for_each(|class| divide(&mut class.epsilon))?;
            }
            Self::Central(spec) => {
                spec.epsilon.iter_mut().try_for_each(divide)?;
                spec.classes.iter_mut().flatten().try_for_each(|class| divide(&mut class.epsilon))?;
            }
            Self::Scalar(spec) => divide(&mut spec.epsilon)?,
            Self::Sequence(spec) => {
                let series = self.input().series_names.as_ref().map_or(1, Vec::len);
                if most.get() < series as u64 {
                    return Err(refused(
                        "sequences of several series go on at any time, so nobody can be kept out of some: say \
                         across_series = \"all\""
                            .to_owned(),
                    ));
                }
                let has_model = spec.mechanism.mechanism().keys.contains(&"guarantee");
                if series > 1 && has_model && spec.guarantee != Some(Guarantee::Local) {
                    return Err(refused(
                        "the model says nothing about how series of one person depend on each other, so sequence \
                         information privacy does not add up over several: say guarantee = \"local\""
                            .to_owned(),
                    ));
                }
                divide(&mut spec.epsilon)?;
                spec.budget.iter_mut().try_for_each(divide)?;
            }
        }
        Ok(spec)
    }

    /// The timestamps within which one person is in a limited number of series: the longest window, in units of t.
    pub fn window_of_series(&self) -> Window {
        match (self, self.window()) {
            (Self::Sequence(spec), Window::Timestamps(steps)) => {
                let length = u64::from(spec.length.unwrap_or(1).max(1));
                Window::of(steps.get().saturating_mul(length)).unwrap_or(Window::EVENT)
            }
            (_, window) => window,
        }
    }
}
