//! Streams of users whose values nobody but their device sees.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Epsilon, Window};

use super::central::{classes_of, longest_window};
use super::levels::classes;
use super::{
    ClassSpec, InputSpec, MonitorSpec, QuerySpec, SpecError, StandingQueries, TimelineSpec, Trust, Values, ValuesSpec,
    check_keys, needed, refinement,
};
use crate::central::classes::Classes;
use crate::estimate::Periods;
use crate::local::mtsp::GroupAverage;
use crate::local::plbu::Plbu;
use crate::local::{Local, LocalError, LocalKind, LocalSettings};
use crate::mechanisms::Output;
use crate::post_processing::{Refinement, Repair};
use crate::query::Correlation;

/// A stream of users' values under w-event local privacy, and how it is released.
///
/// It protects all that one user reports within any `window` consecutive timestamps. Who answers, and when, is
/// public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSpec {
    /// Which mechanism.
    pub mechanism: LocalKind,
    /// The budget of any user in any window; `plbu` has it in its classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<Epsilon>,
    /// How many timestamps share epsilon; `plbu` has it in its classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU64>,
    /// The values that a user can hold; for `mtsp` in an order that means something. Or the range of users' numbers, of
    /// which the mean is released: for the seven mechanisms from `lbu` to `lpa`.
    pub domain: ValuesSpec,
    /// About how many users there are: [`LocalSettings::population`]. Not for `plbu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<NonZeroU64>,
    /// The classes that users choose from, for `plbu`: a list, or levels of privacy and of windows.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "classes")]
    pub classes: Option<Vec<ClassSpec>>,
    /// How answers are randomised; the best oracle for each question where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleKind>,
    /// Whether releases use what was learned on the way: [`LocalSettings::reuse`]. Not for `lbu`, `lsp`, `lpu`, `plbu`
    /// and `track`, which learn nothing on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<bool>,
    /// How `mtsp` and `mtsp_population` average: [`LocalSettings::smoother`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoother: Option<GroupAverage>,
    /// Seasonal periods that `track` looks for, in timestamps; unless said, 7, 24 and 168.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<Periods>,
    /// The repair of releases; unless said, [`Repair::default_of`] the mechanism's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Whether releases are smoothed by a [`ReleaseFilter`](crate::estimate::release_filter::ReleaseFilter). Not for
    /// `track`, `mtsp` and `mtsp_population`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smooth: Option<bool>,
    /// Which timestamps are released, whoever answers; unless said, those that the input has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineSpec>,
    /// Who has to be trusted, for the reader of the spec: the device, and nothing else is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Questions that are answered after each release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<QuerySpec>,
    /// Monitors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorSpec>,
    /// How its table is read.
    #[serde(flatten, skip_deserializing)]
    pub input: InputSpec,
}

impl LocalSpec {
    /// The keys of a spec, besides `family`.
    pub const KEYS: &[&str] = &[
        "mechanism",
        "epsilon",
        "window",
        "domain",
        "population",
        "classes",
        "oracle",
        "reuse",
        "smoother",
        "periods",
        "repair",
        "smooth",
        "timeline",
        "trust",
        "queries",
        "monitors",
    ];

    /// The values of the domain, or the grid of numbers.
    ///
    /// # Errors
    /// [`SpecError::Values`], and those of [`DomainSpec::grid`](super::DomainSpec::grid).
    pub fn values(&self) -> Result<Values, SpecError> {
        self.domain.values_or_numbers()
    }

    /// Whether users have numbers, of which the mean is released.
    pub const fn has_numbers(&self) -> bool {
        matches!(self.domain, ValuesSpec::Numbers(_))
    }

    /// The statistic that is released.
    pub const fn output(&self) -> Output {
        if self.has_numbers() { Output::Number } else { self.mechanism.mechanism().output }
    }

    /// About how many users there are; `None` where the mechanism does not divide them.
    pub fn population(&self) -> Option<u64> {
        self.population.map(NonZeroU64::get)
    }

    /// The settings of the mechanism.
    ///
    /// # Errors
    /// [`SpecError::Values`], [`SpecError::Unused`], [`SpecError::Missing`] and [`SpecError::Trust`].
    pub fn settings(&self) -> Result<LocalSettings, SpecError> {
        self.check()?;
        let name = self.mechanism.name();
        let (epsilon, window) = (needed("epsilon", self.epsilon, name)?, needed("window", self.window, name)?);
        let population = needed("population", self.population, name)?;
        let values = self.values()?;
        Ok(LocalSettings {
            oracle: self.oracle,
            reuse: self.reuse.unwrap_or(false),
            smoother: self.smoother.unwrap_or_default(),
            periods: self.periods.unwrap_or_default(),
            numbers: values.grid().copied(),
            ..LocalSettings::new(epsilon, window, values.count(), population)
        })
    }

    /// Checks whom it trusts, its timeline, and that the mechanism uses its keys.
    fn check(&self) -> Result<(), SpecError> {
        let mechanism = self.mechanism.mechanism();
        Trust::Device.check(self.trust, mechanism.short_name)?;
        let given = [
            ("epsilon", self.epsilon.is_some()),
            ("window", self.window.is_some()),
            ("population", self.population.is_some()),
            ("classes", self.classes.is_some()),
            ("reuse", self.reuse.is_some()),
            ("smoother", self.smoother.is_some()),
            ("periods", self.periods.is_some()),
        ];
        check_keys(mechanism, &given)?;
        if self.has_numbers() && !self.mechanism.releases_means() {
            return Err(LocalError::Numbers { mechanism: mechanism.short_name }.into());
        }
        self.refinement()?;
        let windows = self.window.into_iter().chain(self.classes.iter().flatten().map(|class| class.window));
        self.timeline.unwrap_or_default().check(windows.max().unwrap_or(NonZeroU64::MIN))
    }

    /// The classes that users choose from.
    ///
    /// # Errors
    /// [`SpecError::Missing`] where there are none, and [`SpecError::Classes`].
    pub fn classes(&self) -> Result<Classes, SpecError> {
        classes_of(self.classes.as_deref(), self.mechanism.name())
    }

    /// The mechanism, at the beginning of a stream.
    ///
    /// # Errors
    /// An invalid spec: see the variants of [`SpecError`].
    pub fn mechanism(&self) -> Result<LocalMachine, SpecError> {
        if self.mechanism == LocalKind::Plbu {
            self.check()?;
            return Ok(LocalMachine::ByClass(Plbu::new(self.classes()?, self.values()?.count(), self.oracle)?));
        }
        Ok(LocalMachine::One(Local::new(self.mechanism, self.settings()?)?))
    }

    /// The post-processing of its releases.
    ///
    /// # Errors
    /// [`SpecError::Unused`].
    pub fn refinement(&self) -> Result<Refinement, SpecError> {
        if self.has_numbers() && self.repair.is_some() {
            return Err(SpecError::Unused { key: "repair", mechanism: "a mean" });
        }
        refinement(self.mechanism.mechanism(), self.repair, self.smooth)
    }

    /// The longest window of all guarantees.
    pub(super) fn longest_window(&self) -> Window {
        longest_window(self.window, self.classes.as_deref())
    }

    /// Its standing queries and monitors.
    ///
    /// # Errors
    /// [`SpecError::Values`] and [`SpecError::StandingQuery`].
    pub fn standing_queries(&self) -> Result<StandingQueries, SpecError> {
        // Trees are smoothed over time.
        let is_smooth = self.mechanism.mechanism().output == Output::Tree || self.smooth == Some(true);
        let correlation = if is_smooth { Correlation::Throughout } else { Correlation::WithinRuns };
        StandingQueries::new(&self.queries, &self.monitors, &self.values()?, self.longest_window(), correlation)
    }
}

/// A local mechanism of a spec.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one a stream
pub enum LocalMachine {
    /// One guarantee for all users.
    One(Local),
    /// A guarantee for each class: `plbu`.
    ByClass(Plbu),
}
