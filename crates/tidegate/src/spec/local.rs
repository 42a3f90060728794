//! Streams of users whose values nobody but their device sees.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Epsilon, Window};

use super::{MonitorSpec, QuerySpec, SpecError, StandingQueries, TimelineSpec, Trust, Values, ValuesSpec, unused};
use crate::local::mtsp::GroupAverage;
use crate::local::{Local, LocalKind, Settings};
use crate::query::Correlation;

/// A stream of users' values under w-event local privacy, and how it is released.
///
/// What is protected: all that one user reports within any `window` consecutive timestamps. Who answers, and when, is
/// public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSpec {
    /// Which mechanism.
    pub mechanism: LocalKind,
    /// What any user may spend in any window.
    pub epsilon: Epsilon,
    /// How many timestamps share epsilon.
    pub window: NonZeroU64,
    /// The values that a user can hold; for `mtsp` in an order that means something.
    pub domain: ValuesSpec,
    /// About how many users there are: [`Settings::population`].
    pub population: NonZeroU64,
    /// How answers are randomised; the best oracle for each question where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleKind>,
    /// Whether releases use what was learned on the way: [`Settings::reuse`]. Not for `lbu`, `lsp` and `lpu`, which
    /// learn nothing on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<bool>,
    /// How `mtsp` and `mtsp_population` average: [`Settings::smoother`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoother: Option<GroupAverage>,
    /// Which timestamps are released, whoever answers; unless said, those that the input has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineSpec>,
    /// Who has to be trusted, for the reader of the spec: the device, and nothing else is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Questions that are answered after each release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<QuerySpec>,
    /// What is watched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorSpec>,
}

impl LocalSpec {
    /// The keys of a spec, besides `family`.
    pub const KEYS: &[&str] = &[
        "mechanism",
        "epsilon",
        "window",
        "domain",
        "population",
        "oracle",
        "reuse",
        "smoother",
        "timeline",
        "trust",
        "queries",
        "monitors",
    ];

    /// The values of the domain.
    ///
    /// # Errors
    /// [`SpecError::Values`].
    pub fn values(&self) -> Result<Values, SpecError> {
        self.domain.values()
    }

    /// What the mechanism is set to.
    ///
    /// # Errors
    /// [`SpecError::Values`], [`SpecError::Unused`] and [`SpecError::Trust`].
    pub fn settings(&self) -> Result<Settings, SpecError> {
        let name = self.mechanism.name();
        Trust::Device.check(self.trust, name)?;
        self.timeline.unwrap_or_default().check(self.window)?;
        if matches!(self.mechanism, LocalKind::Lbu | LocalKind::Lsp | LocalKind::Lpu) {
            unused(name, &[("reuse", self.reuse.is_some())])?;
        }
        if !self.publishes_trees() {
            unused(name, &[("smoother", self.smoother.is_some())])?;
        }
        Ok(Settings {
            oracle: self.oracle,
            reuse: self.reuse.unwrap_or(false),
            smoother: self.smoother.unwrap_or_default(),
            ..Settings::new(self.epsilon, self.window, self.values()?.count(), self.population)
        })
    }

    const fn publishes_trees(&self) -> bool {
        matches!(self.mechanism, LocalKind::Mtsp | LocalKind::MtspPopulation)
    }

    /// The mechanism, at the beginning of a stream.
    ///
    /// # Errors
    /// What cannot be followed: see the variants of [`SpecError`].
    pub fn mechanism(&self) -> Result<Local, SpecError> {
        Ok(Local::new(self.mechanism, self.settings()?)?)
    }

    /// What answers its queries and runs its monitors.
    ///
    /// # Errors
    /// [`SpecError::Values`] and [`SpecError::StandingQuery`].
    pub fn standing_queries(&self) -> Result<StandingQueries, SpecError> {
        // Trees are smoothed over time.
        let correlation = if self.publishes_trees() { Correlation::Throughout } else { Correlation::WithinRuns };
        StandingQueries::new(
            &self.queries,
            &self.monitors,
            &self.values()?,
            Window::Timestamps(self.window),
            correlation,
        )
    }
}
