//! Specs: the parameters of a stream, as a file declares them.
//!
//! The types read themselves from any format that `serde` knows; the command reads TOML. A spec names the family of its
//! mechanism, and has the keys of that family: an unknown key is an error, because a key that is misspelt is a decision
//! that is not followed. So is a key of the family that the chosen mechanism has no use for.
//!
//! | family | spec | what it builds |
//! | --- | --- | --- |
//! | `local` | [`LocalSpec`] | [`LocalMachine`]: [`Local`](crate::local::Local) or [`Plbu`](crate::local::plbu::Plbu) |
//! | `central` | [`CentralSpec`] | [`CentralMachine`]: [`Central`](crate::central::Central) or [`Personalised`] |
//! | `scalar` | [`ScalarSpec`] | [`Scalar`](crate::scalar::Scalar) |
//! | `sequence` | [`SequenceSpec`] | [`SequenceMachine`], one for each user |
//!
//! Nothing here reads, writes or looks at a clock. [`StandingQueries`] answers the queries and runs the monitors of a
//! spec.
//!
//! ```
//! use tidegate::kernel::SystemRandom;
//! use tidegate::spec::StreamSpec;
//!
//! let json = r#"{
//!     "family": "scalar", "mechanism": "contin", "epsilon": 0.5, "delay": 10,
//!     "domain": { "low": 0, "high": 612 }, "protects": "reading"
//! }"#;
//! let StreamSpec::Scalar(spec) = serde_json::from_str(json)? else { unreachable!("it says event") };
//! let (intake, mut mechanism) = (spec.intake()?, spec.mechanism()?);
//! let random = &mut SystemRandom::new()?;
//! let reading = intake.seal(mechanism.ledger().account(), 0, "240");
//! let mut released = mechanism.push(reading, random)?;
//! released.extend(mechanism.finish(random)?);
//! assert_eq!(released.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod central;
mod input;
mod levels;
mod local;
mod parser_words;
mod reply;
mod scalar;
mod sequence;
mod series;
mod standing_queries;
mod strict;
mod timeline;
mod values;

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_kernel::{Decimal, GridError, Window};

use crate::central::CentralError;
use crate::central::classes::ClassError;
use crate::local::LocalError;
use crate::mechanisms::{self, Family, Mechanism, Output};
use crate::post_processing::{Refinement, Repair};
use crate::query::QueryError;
use crate::scalar::ScalarError;
use crate::sequence::baseline::BaselineError;
use crate::sequence::batched::BatchedError;
use crate::sequence::crr::CrrError;
use crate::sequence::model::ModelError;

pub use central::{CentralMachine, CentralSpec, ClassSpec, Personalised};
pub use input::{ColumnsSpec, Duplicates, Empty, Every, InputSpec, NoLength, NoSeparator, Separator};
pub use local::{LocalMachine, LocalSpec};
pub use parser_words::plain_words;
pub use scalar::{DomainSpec, Intake, Outside, ProtectsSpec, ScalarSpec, UnknownOutside};
pub use sequence::{ModelSpec, PairSpec, SequenceMachine, SequenceSpec};
pub use series::{AcrossSeries, MOST_SERIES, SeriesSpec};
use strict::StrictMap;

pub use standing_queries::{MonitorSpec, QuerySpec, Reply, Said, ScoreSpec, StandingQueries};
pub use timeline::TimelineSpec;
pub use values::{ValueSpec, Values, ValuesSpec};

/// The spec of a stream of any family, told apart by the key `family`, or by the full name of its mechanism.
#[allow(clippy::large_enum_variant)] // a program has few specs, and moves them rarely
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "family", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamSpec {
    /// A value of each user at each timestamp, which nobody but the user's device sees.
    Local(LocalSpec),
    /// A value of each user at each timestamp, which a curator sees.
    Central(CentralSpec),
    /// One number at each timestamp, which a curator sees.
    Scalar(ScalarSpec),
    /// The correlated stream of one user, or of several, each by itself, which nobody but the user's device sees.
    Sequence(SequenceSpec),
}

/// The form in which a spec is read once its names are [normalised](mechanisms::normalise).
#[allow(clippy::large_enum_variant)] // as above
#[derive(Deserialize)]
#[serde(tag = "family", rename_all = "snake_case")]
enum Normalised {
    Local(LocalSpec),
    Central(CentralSpec),
    Scalar(ScalarSpec),
    Sequence(SequenceSpec),
}

impl<'de> Deserialize<'de> for StreamSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StrictMap(mut spec) = StrictMap::deserialize(deserializer)?;
        mechanisms::normalise(&mut spec).map_err(D::Error::custom)?;
        let input = InputSpec::KEYS.iter().filter_map(|key| Some(((*key).to_owned(), spec.remove(*key)?))).collect();
        let input = InputSpec::deserialize(serde_json::Value::Object(input)).map_err(D::Error::custom)?;
        let mut spec = match Normalised::deserialize(serde_json::Value::Object(spec)).map_err(D::Error::custom)? {
            Normalised::Local(spec) => Self::Local(spec),
            Normalised::Central(spec) => Self::Central(spec),
            Normalised::Scalar(spec) => Self::Scalar(spec),
            Normalised::Sequence(spec) => Self::Sequence(spec),
        };
        *spec.input_mut() = input;
        Ok(spec)
    }
}

impl StreamSpec {
    /// Its family.
    pub const fn family(&self) -> Family {
        match self {
            Self::Local(_) => Family::Local,
            Self::Central(_) => Family::Central,
            Self::Scalar(_) => Family::Scalar,
            Self::Sequence(_) => Family::Sequence,
        }
    }

    /// How its table is read.
    pub const fn input(&self) -> &InputSpec {
        match self {
            Self::Local(spec) => &spec.input,
            Self::Central(spec) => &spec.input,
            Self::Scalar(spec) => &spec.input,
            Self::Sequence(spec) => &spec.input,
        }
    }

    /// How its table is read, to be changed.
    pub const fn input_mut(&mut self) -> &mut InputSpec {
        match self {
            Self::Local(spec) => &mut spec.input,
            Self::Central(spec) => &mut spec.input,
            Self::Scalar(spec) => &mut spec.input,
            Self::Sequence(spec) => &mut spec.input,
        }
    }

    /// The entry of its mechanism in the list.
    pub const fn mechanism(&self) -> &'static Mechanism {
        match self {
            Self::Local(spec) => spec.mechanism.mechanism(),
            Self::Central(spec) => spec.mechanism.mechanism(),
            Self::Scalar(spec) => spec.mechanism.mechanism(),
            Self::Sequence(spec) => spec.mechanism.mechanism(),
        }
    }

    /// The statistic that it releases: that of its mechanism, but a number where users of a local stream have numbers.
    pub const fn output(&self) -> Output {
        match self {
            Self::Local(spec) => spec.output(),
            _ => self.mechanism().output,
        }
    }

    /// The values of its domain, or the grid of users' numbers; `None` for a scalar stream.
    ///
    /// # Errors
    /// [`SpecError::Values`].
    pub fn values(&self) -> Result<Option<Values>, SpecError> {
        Ok(match self {
            Self::Local(spec) => Some(spec.values()?),
            Self::Central(spec) => Some(spec.values()?),
            Self::Scalar(_) => None,
            Self::Sequence(spec) => Some(spec.values()?),
        })
    }

    /// The post-processing of its releases: the repair and smoothing that it names, or the default of its output.
    ///
    /// # Errors
    /// [`SpecError::Unused`].
    pub fn refinement(&self) -> Result<Refinement, SpecError> {
        match self {
            Self::Local(spec) => spec.refinement(),
            Self::Central(spec) => spec.refinement(),
            Self::Scalar(spec) => spec.refinement(),
            Self::Sequence(_) => Ok(Refinement::new(Repair::None, false)),
        }
    }

    /// Its standing queries and monitors; `None` where there are none.
    ///
    /// # Errors
    /// [`SpecError::Values`] and [`SpecError::StandingQuery`].
    pub fn standing_queries(&self) -> Result<Option<StandingQueries>, SpecError> {
        let queries = match self {
            Self::Local(spec) => spec.standing_queries()?,
            Self::Central(spec) => spec.standing_queries()?,
            Self::Scalar(_) | Self::Sequence(_) => return Ok(None),
        };
        Ok((!queries.is_idle()).then_some(queries))
    }

    /// Which timestamps are released whoever is present: as the spec declares, and every one from zero on where it
    /// does not and presence is protected. `None` where those are released that the input has.
    pub fn timeline(&self) -> Option<TimelineSpec> {
        match self {
            Self::Local(spec) => spec.timeline,
            Self::Central(spec) => spec.timeline(),
            Self::Scalar(spec) => spec.timeline,
            Self::Sequence(_) => None,
        }
    }

    /// Whether the spec declares a timeline, rather than having that of its family.
    pub const fn declares_timeline(&self) -> bool {
        match self {
            Self::Local(spec) => spec.timeline.is_some(),
            Self::Central(spec) => spec.timeline.is_some(),
            Self::Scalar(spec) => spec.timeline.is_some(),
            Self::Sequence(_) => false,
        }
    }

    /// Whether consecutive timestamps share a budget, a group or a batch. Then the distance of timestamps matters.
    pub fn shares_timestamps(&self) -> bool {
        match self {
            Self::Scalar(spec) => spec.delay > 0,
            Self::Sequence(spec) => spec.length.is_some() || spec.window.is_some_and(|window| window.get() > 1),
            _ => self.window() != Window::EVENT,
        }
    }

    /// The longest window over which a budget is shared: where it is longer than one timestamp, a mechanism that begins
    /// anew has forgotten what it spent.
    pub fn window(&self) -> Window {
        match self {
            Self::Local(spec) => spec.longest_window(),
            Self::Central(spec) => spec.longest_window(),
            Self::Scalar(_) => Window::EVENT,
            Self::Sequence(spec) => spec.window.map_or(Window::EVENT, Window::Timestamps),
        }
    }
}

/// Who has to be trusted with the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Each user's own device, and nobody else.
    Device,
    /// The curator who runs the mechanism.
    Curator,
}

impl fmt::Display for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Device => "device",
            Self::Curator => "curator",
        })
    }
}

impl Trust {
    /// That a spec, where it says whom to trust, says what is so.
    fn check(self, given: Option<Self>, mechanism: &'static str) -> Result<(), SpecError> {
        match given {
            Some(given) if given != self => Err(SpecError::Trust { given, actual: self, mechanism }),
            _ => Ok(()),
        }
    }
}

/// Why a spec cannot be followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum SpecError {
    /// A domain that is none.
    #[error(transparent)]
    Domain(#[from] GridError),
    /// Whole readings in a domain that does not begin with one.
    #[error("without a resolution readings are whole numbers, but the lower end is {low}")]
    NotWhole { low: Decimal },
    /// A number for missing readings that is outside the domain.
    #[error(
        "missing stands for readings that are not numbers, and is a number within {low}..{high}; {given} was given"
    )]
    StandIn { given: Decimal, low: Decimal, high: Decimal },
    /// A contributor who changes nothing, or no number.
    #[error("a contributor changes a reading by at least {least}, the distance of two readings; {given} was given")]
    Contributor { given: Decimal, least: Decimal },
    /// Values that have no name, or not one of their own.
    #[error("{problem}")]
    Values { problem: String },
    /// Timestamps of a timeline that lie farther apart than a window counts.
    #[error(
        "windows count units of t, so that with a step of {step} a window would hold a single timestamp: number the \
         timestamps of the input 0, 1, 2, .. and leave step out"
    )]
    Step { step: u64 },
    /// A key about the table that cannot be followed.
    #[error("{problem}")]
    Input { key: &'static str, problem: String },
    /// A key that the mechanism does not use.
    #[error("{mechanism} has no use for it")]
    Unused { key: &'static str, mechanism: &'static str },
    /// A key that the mechanism needs.
    #[error("{mechanism} needs the key {key}")]
    Missing { key: &'static str, mechanism: &'static str },
    /// Somebody is trusted who is not.
    #[error("{mechanism} is for those who trust the {actual}, not the {given}")]
    Trust { given: Trust, actual: Trust, mechanism: &'static str },
    /// A query or a monitor that cannot be followed.
    #[error("{name:?}: {problem}")]
    StandingQuery { key: &'static str, name: String, problem: String },
    /// Classes that are none.
    #[error(transparent)]
    Classes(#[from] ClassError),
    /// A model that is none.
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Central(#[from] CentralError),
    #[error(transparent)]
    Crr(#[from] CrrError),
    #[error(transparent)]
    Batched(#[from] BatchedError),
    #[error(transparent)]
    Baseline(#[from] BaselineError),
}

impl SpecError {
    /// The key that it is about, if it is about one that is there.
    pub const fn key(&self) -> Option<&'static str> {
        match self {
            Self::Domain(_) | Self::NotWhole { .. } | Self::StandIn { .. } | Self::Values { .. } => Some("domain"),
            Self::Contributor { .. } => Some("protects"),
            Self::Step { .. } => Some("timeline"),
            Self::Unused { key, .. } | Self::StandingQuery { key, .. } | Self::Input { key, .. } => Some(key),
            Self::Missing { .. } => None,
            Self::Trust { .. } => Some("trust"),
            Self::Classes(_) => Some("classes"),
            Self::Model(_) => Some("model"),
            Self::Scalar(error) => match error {
                ScalarError::Grouping { .. } => Some("grouping"),
                ScalarError::Publication { .. } => Some("publication"),
                ScalarError::Threshold { .. } => Some("threshold"),
                ScalarError::Percent { .. } | ScalarError::TruncatedContribution => Some("truncation"),
                _ => None,
            },
            Self::Local(error) => match error {
                LocalError::Domain { .. } | LocalError::Numbers { .. } => Some("domain"),
                LocalError::Oracle { .. } => Some("oracle"),
                LocalError::Epsilon { .. } => Some("epsilon"),
                LocalError::Window { .. } => Some("window"),
                _ => None,
            },
            Self::Central(error) => match error {
                CentralError::Domain { .. } => Some("domain"),
                CentralError::Epsilon { .. } => Some("epsilon"),
                _ => None,
            },
            Self::Crr(error) | Self::Batched(BatchedError::Step(error)) => crr_key(error),
            Self::Batched(error) => match error {
                BatchedError::Channel(_) | BatchedError::Empty | BatchedError::Length { .. } => Some("length"),
                BatchedError::Share { .. } => Some("epsilon"),
                _ => None,
            },
            Self::Baseline(_) => Some("epsilon"),
        }
    }

    /// A query or a monitor that cannot be followed.
    fn standing_query(key: &'static str, name: &str, problem: impl fmt::Display) -> Self {
        Self::StandingQuery { key, name: name.to_owned(), problem: problem.to_string() }
    }
}

const fn crr_key(error: &CrrError) -> Option<&'static str> {
    match error {
        CrrError::Epsilon { .. } | CrrError::Limits(_) => Some("epsilon"),
        CrrError::Budget { .. } => Some("budget"),
        CrrError::NoProgramme => Some("effort"),
        CrrError::Matrix { .. } => Some("distance"),
        CrrError::Model(_) => Some("model"),
        _ => None,
    }
}

/// Refuses keys that were given although the mechanism has no use for them.
fn check_keys(mechanism: &Mechanism, given: &[(&'static str, bool)]) -> Result<(), SpecError> {
    match given.iter().find(|(key, is_given)| *is_given && !mechanism.keys.contains(key)) {
        Some((key, _)) => Err(SpecError::Unused { key, mechanism: mechanism.short_name }),
        None => Ok(()),
    }
}

/// The post-processing of a mechanism's releases.
fn refinement(mechanism: &Mechanism, repair: Option<Repair>, smooth: Option<bool>) -> Result<Refinement, SpecError> {
    if !mechanism.can_be_smoothed() && smooth.is_some() {
        return Err(SpecError::Unused { key: "smooth", mechanism: mechanism.short_name });
    }
    Ok(Refinement::new(repair.unwrap_or(Repair::default_of(mechanism.output)), smooth.unwrap_or(false)))
}

/// Requires a key.
fn needed<T>(key: &'static str, given: Option<T>, mechanism: &'static str) -> Result<T, SpecError> {
    given.ok_or(SpecError::Missing { key, mechanism })
}

/// A confidence of an interval, checked where the spec is.
fn check_confidence(confidence: f64) -> Result<(), QueryError> {
    if confidence > 0.0 && confidence < 1.0 { Ok(()) } else { Err(QueryError::BadConfidence { given: confidence }) }
}
