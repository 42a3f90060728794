//! Streams of numbers.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Account, Epsilon, Grid, Sealed};

use super::{SpecError, TimelineSpec, Trust};
use crate::event::{Event, EventKind, Publication, Settings, Smoother, Truncation};

/// A stream of numbers, and how it is released.
///
/// It says the same as [`Settings`] in the words of somebody who has a stream and no grid: `domain` with a resolution, what one
/// contributor can change in the stream's own unit, and what happens to readings outside the domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// Which mechanism.
    pub mechanism: EventKind,
    /// What may be spent on each timestamp.
    pub epsilon: Epsilon,
    /// What readings can be: public knowledge, never taken from the data.
    pub domain: DomainSpec,
    /// How many timestamps a release may be held back: [`Settings::delay`].
    #[serde(default)]
    pub delay: u32,
    /// What is protected.
    #[serde(default)]
    pub protects: ProtectsSpec,
    /// What happens to a reading outside the domain.
    #[serde(default)]
    pub outside: Outside,
    /// What of epsilon is spent on grouping: [`Settings::grouping`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grouping: Option<Epsilon>,
    /// How much a group may scatter: [`Settings::threshold`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// To what noise is added: [`Settings::publication`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
    /// How noisy points of a group are averaged.
    #[serde(default)]
    pub smoother: Smoother,
    /// Into how many parts `bucorder` divides the domain: [`Settings::buckets`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u32>,
    /// Whether releases are moved into the domain where they lie outside: [`Settings::within_domain`].
    #[serde(default)]
    pub within_domain: bool,
    /// Whether readings are cut off at a private bound, and how that is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// Which timestamps are released, whether or not there is a reading; unless said, those that the input has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineSpec>,
    /// Who has to be trusted, for the reader of the spec: a curator, and nothing else is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

/// What readings can be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainSpec {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The distance of two readings that are told apart; readings are rounded to it. Where nothing is said, readings are whole
    /// numbers, and others are refused: nobody's decimals are rounded away by oversight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
}

/// What is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtectsSpec {
    /// The reading, whatever it is.
    #[default]
    Reading,
    /// One contributor to the reading, as in a count of people, who can change it by so much at most, in the unit of the stream.
    /// That nobody can change it by more is the owner's claim about the data.
    Contributor(f64),
}

/// What happens to a reading outside the domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// It is refused, which whoever sees the stream end there can tell.
    #[default]
    Refuse,
    /// It is taken for the nearest end of the domain, and nothing that is published, or when, tells that it was.
    Clamp,
}

/// Why a reading was refused. The reading itself is never told.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
    /// It is not within the domain, or not a number.
    #[error("a number within the domain, {low}..{high}")]
    Outside {
        /// The lower end of the domain.
        low: f64,
        /// The upper end of the domain.
        high: f64,
    },
    /// It has decimals, and no resolution was given.
    #[error("a whole number, for no resolution was given")]
    NotWhole,
}

/// Seals readings as a spec says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intake {
    grid: Grid,
    outside: Outside,
    whole: bool,
}

impl Intake {
    /// Seals the reading of a timestamp for the account of the mechanism's ledger.
    ///
    /// # Errors
    /// What was expected of the reading; both depend on it, so that whoever can tell that there was an error learns something.
    #[inline]
    pub fn seal(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, IntakeError> {
        if self.whole && reading.is_finite() && reading.fract() != 0.0 {
            return Err(IntakeError::NotWhole);
        }
        let sealed = match self.outside {
            Outside::Refuse => self.grid.seal(account, timestamp, reading),
            Outside::Clamp => self.grid.seal_clamped(account, timestamp, reading),
        };
        sealed.map_err(|_| IntakeError::Outside { low: self.grid.low(), high: self.grid.high() })
    }

    /// Seals the stand-in for a reading that is missing from a [timeline](EventSpec::timeline): the lower end of the
    /// domain.
    ///
    /// # Errors
    /// None that is known: the lower end lies in the domain.
    pub fn seal_missing(&self, account: Account, timestamp: u64) -> Result<Sealed<i64>, IntakeError> {
        self.seal(account, timestamp, self.grid.low())
    }
}

impl DomainSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["low", "high", "resolution"];

    /// The grid onto which readings are rounded.
    ///
    /// # Errors
    /// [`SpecError::Domain`] and [`SpecError::NotWhole`].
    pub fn grid(&self) -> Result<Grid, SpecError> {
        let grid = Grid::new(self.low, self.high, self.resolution.unwrap_or(1.0))?;
        if self.resolution.is_none() && self.low.fract() != 0.0 {
            return Err(SpecError::NotWhole { low: self.low });
        }
        Ok(grid)
    }
}

impl EventSpec {
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
        "timeline",
        "trust",
    ];

    /// What has no default; the rest is changed by struct update.
    pub fn new(mechanism: EventKind, epsilon: Epsilon, domain: DomainSpec) -> Self {
        Self {
            mechanism,
            epsilon,
            domain,
            delay: 0,
            protects: ProtectsSpec::Reading,
            outside: Outside::Refuse,
            grouping: None,
            threshold: None,
            publication: None,
            smoother: Smoother::Mean,
            buckets: None,
            within_domain: false,
            truncation: None,
            timeline: None,
            trust: None,
        }
    }

    /// How readings are sealed.
    ///
    /// # Errors
    /// As [`DomainSpec::grid`].
    pub fn intake(&self) -> Result<Intake, SpecError> {
        Ok(Intake { grid: self.domain.grid()?, outside: self.outside, whole: self.domain.resolution.is_none() })
    }

    /// What the mechanism is set to.
    ///
    /// # Errors
    /// As [`DomainSpec::grid`], and [`SpecError::Contributor`].
    pub fn settings(&self) -> Result<Settings, SpecError> {
        let grid = self.domain.grid()?;
        Ok(Settings {
            protects: self.protected(&grid)?,
            grouping: self.grouping,
            threshold: self.threshold,
            publication: self.publication,
            smoother: self.smoother,
            buckets: self.buckets,
            within_domain: self.within_domain,
            truncation: self.truncation,
            ..Settings::new(self.epsilon, grid, self.delay)
        })
    }

    /// The mechanism, at the beginning of a stream.
    ///
    /// # Errors
    /// What cannot be followed: see the variants of [`SpecError`].
    pub fn mechanism(&self) -> Result<Event, SpecError> {
        Trust::Curator.check(self.trust, self.mechanism.name())?;
        Ok(Event::new(self.mechanism, self.settings()?)?)
    }

    /// What is protected, in grid units. Whole readings lie on the grid and move by whole steps. Others are rounded to it, which
    /// can make a difference of one step more: [`Grid::sensitivity`].
    fn protected(&self, grid: &Grid) -> Result<Protects, SpecError> {
        let ProtectsSpec::Contributor(given) = self.protects else { return Ok(Protects::Reading) };
        let error = SpecError::Contributor { given, least: grid.step() };
        if given.is_nan() || given < grid.step() {
            return Err(error);
        }
        let rounded = grid.sensitivity(given).map_err(|_| error.clone())?;
        let steps = match self.domain.resolution {
            Some(_) => rounded,
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least 1; large ones saturate
            None => (given.floor() as u64).min(grid.width()),
        };
        NonZeroU64::new(steps).map(Protects::Contribution).ok_or(error)
    }
}
