//! Streams of numbers.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Account, Decimal, Epsilon, Grid, Sealed};

use super::{InputSpec, SpecError, TimelineSpec, Trust, refinement};
use crate::estimate::Periods;
use crate::post_processing::Refinement;
use crate::scalar::{Publication, Scalar, ScalarKind, ScalarSettings, Smoother, Truncation};

/// A stream of numbers, and how it is released.
///
/// It says the same as [`ScalarSettings`] in the words of somebody who has a stream and no grid: `domain` with a
/// resolution, what one contributor can change in the stream's own unit, and which number stands for a reading that is
/// none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalarSpec {
    /// Which mechanism.
    pub mechanism: ScalarKind,
    /// The budget of each timestamp.
    pub epsilon: Epsilon,
    /// The range of readings: public knowledge, never taken from the data.
    pub domain: DomainSpec,
    /// How many timestamps a release may be held back: [`ScalarSettings::delay`].
    #[serde(default)]
    pub delay: u32,
    /// The privacy unit. It has no default: the two differ by orders of magnitude in noise and in what they promise.
    pub protects: ProtectsSpec,
    /// The treatment of a reading outside the domain: `clamp` is the only one.
    #[serde(default)]
    pub outside: Outside,
    /// The part of epsilon for grouping: [`ScalarSettings::grouping`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grouping: Option<Epsilon>,
    /// How much a group may scatter: [`ScalarSettings::threshold`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// To what noise is added: [`ScalarSettings::publication`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
    /// How noisy points of a group are averaged.
    #[serde(default)]
    pub smoother: Smoother,
    /// Into how many parts `bucorder` divides the domain: [`ScalarSettings::buckets`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u32>,
    /// Whether releases are moved into the domain where they lie outside: [`ScalarSettings::within_domain`].
    #[serde(default)]
    pub within_domain: bool,
    /// Whether readings are cut off at a private bound, and how that is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// Seasonal periods that `track` looks for, in timestamps: [`ScalarSettings::periods`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<Periods>,
    /// Whether releases are smoothed by a [`ReleaseFilter`](crate::estimate::release_filter::ReleaseFilter). Not for
    /// `track` and `constant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smooth: Option<bool>,
    /// Which timestamps are released, whether or not there is a reading; unless said, those that the input has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineSpec>,
    /// Who has to be trusted, for the reader of the spec: a curator, and nothing else is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// How its table is read.
    #[serde(flatten, skip_deserializing)]
    pub input: InputSpec,
}

/// The range of readings, or of the numbers of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainSpec {
    /// The lower end.
    pub low: Decimal,
    /// The upper end.
    pub high: Decimal,
    /// The distance of two readings that are told apart; readings are rounded to it. Where nothing is said, to whole
    /// numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Decimal>,
    /// The number that stands for a reading that is not a number: empty, `null`, `NaN`, other text. The lower end
    /// where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Decimal>,
}

/// The privacy unit of a scalar stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtectsSpec {
    /// The reading, whatever it is.
    Reading,
    /// One contributor to the reading, as in a count of people, who can change it by so much at most, in the unit of
    /// the stream. That nobody can change it by more is the owner's claim about the data.
    Contributor(Decimal),
}

impl ProtectsSpec {
    /// The two privacy units, in a sentence each, for whoever has not chosen.
    pub const CHOICE: &str = "protects = \"reading\" hides the whole number, as for one person's sensor or one \
                              company's figure, and takes noise as wide as the domain; protects = { contributor = 1 } \
                              hides one of the people who add up to it, as in a count of visits, where nobody changes \
                              it by more than 1, and takes far less";
}

/// The treatment of a reading outside the domain.
///
/// Refusing it is not among the answers: a release that is missing, or a stream that ends, would tell that the reading
/// was outside, at no cost to the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
#[non_exhaustive]
pub enum Outside {
    /// It is taken for the nearest end of the domain, and nothing that is published, or when, tells that it was.
    #[default]
    Clamp,
}

/// An answer other than `clamp`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected \"clamp\", or nothing: a reading that is outside the domain is moved to its nearest end, because \
     refusing it would tell that it was outside"
)]
pub struct UnknownOutside;

impl TryFrom<String> for Outside {
    type Error = UnknownOutside;

    fn try_from(name: String) -> Result<Self, UnknownOutside> {
        if name == "clamp" { Ok(Self::Clamp) } else { Err(UnknownOutside) }
    }
}

/// Seals readings as a spec says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intake {
    grid: Grid,
    missing: u64,
}

impl Intake {
    /// Seals the reading of a timestamp, as text, for the account of the mechanism's ledger: see [`Grid::seal_text`].
    /// Blanks around it do not count. Every text is sealed, so that nothing that is published, or when, depends on it.
    #[inline]
    pub fn seal(&self, account: Account, timestamp: u64, reading: &str) -> Sealed<i64> {
        self.grid.seal_text(account, timestamp, reading.trim(), self.missing)
    }

    /// Seals the stand-in for a reading that is missing from a [timeline](ScalarSpec::timeline), as for a text that is
    /// no number.
    pub fn seal_missing(&self, account: Account, timestamp: u64) -> Sealed<i64> {
        self.seal(account, timestamp, "")
    }
}

impl DomainSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["low", "high", "resolution", "missing"];

    /// Whole numbers between two others, inclusive.
    pub const fn whole(low: Decimal, high: Decimal) -> Self {
        Self { low, high, resolution: None, missing: None }
    }

    /// The grid onto which readings are rounded.
    ///
    /// # Errors
    /// [`SpecError::Domain`] and [`SpecError::NotWhole`].
    pub fn grid(&self) -> Result<Grid, SpecError> {
        let grid = Grid::exact(self.low, self.high, self.resolution.unwrap_or(Decimal::ONE))?;
        if self.resolution.is_none() && !self.low.is_whole() {
            return Err(SpecError::NotWhole { low: self.low });
        }
        Ok(grid)
    }

    /// The grid point that stands for a reading that is not a number.
    fn missing(&self, grid: &Grid) -> Result<u64, SpecError> {
        let given = self.missing.unwrap_or(self.low);
        grid.steps_of(given).map_err(|_| SpecError::StandIn { given, low: self.low, high: self.high })
    }
}

impl ScalarSpec {
    /// The keys of a spec, besides `family`.
    pub const KEYS: &[&str] = &[
        "mechanism",
        "epsilon",
        "domain",
        "delay",
        "protects",
        "outside",
        "grouping",
        "threshold",
        "publication",
        "smoother",
        "buckets",
        "within_domain",
        "truncation",
        "periods",
        "smooth",
        "timeline",
        "trust",
    ];

    /// Takes the keys without a default; change the others by struct update.
    pub fn new(mechanism: ScalarKind, epsilon: Epsilon, domain: DomainSpec, protects: ProtectsSpec) -> Self {
        Self {
            mechanism,
            epsilon,
            domain,
            delay: 0,
            protects,
            outside: Outside::Clamp,
            grouping: None,
            threshold: None,
            publication: None,
            smoother: Smoother::Mean,
            buckets: None,
            within_domain: false,
            truncation: None,
            periods: None,
            smooth: None,
            timeline: None,
            trust: None,
            input: InputSpec::default(),
        }
    }

    /// How readings are sealed.
    ///
    /// # Errors
    /// As [`DomainSpec::grid`], and [`SpecError::StandIn`].
    pub fn intake(&self) -> Result<Intake, SpecError> {
        let grid = self.domain.grid()?;
        Ok(Intake { grid, missing: self.domain.missing(&grid)? })
    }

    /// The settings of the mechanism.
    ///
    /// # Errors
    /// As [`DomainSpec::grid`], and [`SpecError::Contributor`].
    pub fn settings(&self) -> Result<ScalarSettings, SpecError> {
        let grid = self.domain.grid()?;
        Ok(ScalarSettings {
            protects: self.protected(&grid)?,
            grouping: self.grouping,
            threshold: self.threshold,
            publication: self.publication,
            smoother: self.smoother,
            buckets: self.buckets,
            within_domain: self.within_domain,
            truncation: self.truncation,
            periods: self.periods.unwrap_or_default(),
            ..ScalarSettings::new(self.epsilon, grid, self.delay)
        })
    }

    /// The mechanism, at the beginning of a stream.
    ///
    /// # Errors
    /// An invalid spec: see the variants of [`SpecError`].
    pub fn mechanism(&self) -> Result<Scalar, SpecError> {
        Trust::Curator.check(self.trust, self.mechanism.name())?;
        self.intake()?;
        self.refinement()?;
        Ok(Scalar::new(self.mechanism, self.settings()?)?)
    }

    /// The post-processing of its releases.
    ///
    /// # Errors
    /// [`SpecError::Unused`], and settings that the mechanism cannot meet.
    pub fn refinement(&self) -> Result<Refinement, SpecError> {
        let refinement = refinement(self.mechanism.mechanism(), None, self.smooth)?;
        let mechanism = Scalar::new(self.mechanism, self.settings()?)?;
        Ok(if mechanism.states_error() { refinement } else { refinement.without_errors() })
    }

    /// The privacy unit, in grid units: [`Grid::exact_sensitivity`], because readings are sealed from their text.
    fn protected(&self, grid: &Grid) -> Result<Protects, SpecError> {
        let ProtectsSpec::Contributor(given) = self.protects else { return Ok(Protects::Reading) };
        let [_, _, least] = grid.decimals();
        let error = SpecError::Contributor { given, least };
        let steps = grid.exact_sensitivity(given).ok().filter(|_| given >= least).and_then(NonZeroU64::new);
        steps.map(Protects::Contribution).ok_or(error)
    }
}
