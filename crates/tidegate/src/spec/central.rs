//! Streams of users whose values a curator sees.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{ClassHistograms, Neighbours};
use tidegate_kernel::{ClassLedgers, Epsilon, Randomness, Sealed, Window};

use super::levels::classes;
use super::{
    InputSpec, MonitorSpec, QuerySpec, SpecError, StandingQueries, TimelineSpec, Trust, Values, ValuesSpec, check_keys,
    needed, refinement,
};
use crate::central::classes::{Class, Classes, Registry, Requirement};
use crate::central::personal_track::PersonalTrack;
use crate::central::{
    Central, CentralChoice, CentralError, CentralKind, CentralSettings, Estimator, Personal, PersonalKind,
    PersonalSettings,
};
use crate::estimate::Periods;
use crate::post_processing::{Refinement, Repair};
use crate::query::Correlation;
use crate::release::Release;

/// A stream of users' values under w-event privacy, and how it is released.
///
/// It protects the contributions of one user within any `window` consecutive timestamps, as `neighbours` says. With
/// classes, each class has an epsilon and a window of its own, and which class a user is in is public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentralSpec {
    /// Which mechanism.
    pub mechanism: CentralChoice,
    /// The budget of any user in any window; classes have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<Epsilon>,
    /// How many timestamps share epsilon; classes have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU64>,
    /// The values that a user can hold.
    pub domain: ValuesSpec,
    /// Which two streams must be hard to tell apart; unless said, those with and without one user's contribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Neighbours>,
    /// The classes that users choose from, for `pbd`, `pba` and `personal_track`: a list, or levels of privacy and of
    /// windows, of which each pair is a class.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "classes")]
    pub classes: Option<Vec<ClassSpec>>,
    /// How `pbd` and `pba` make one histogram of all classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimator: Option<Estimator>,
    /// Seasonal periods that `track` looks for, in timestamps; unless said, 7, 24 and 168.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<Periods>,
    /// The repair of releases; unless said, [`Repair::default_of`] the mechanism's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Whether releases are smoothed by a [`ReleaseFilter`](crate::estimate::release_filter::ReleaseFilter). Not for
    /// `track` and `personal_track`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smooth: Option<bool>,
    /// Which timestamps are released; unless said and where presence is protected, every one from zero on:
    /// [`Self::timeline()`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineSpec>,
    /// Who has to be trusted, for the reader of the spec: a curator, and nothing else is accepted.
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

/// A class of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Its name.
    pub name: String,
    /// The budget of a member in any window.
    pub epsilon: Epsilon,
    /// How many timestamps share epsilon.
    pub window: NonZeroU64,
}

impl ClassSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["name", "epsilon", "window"];
}

/// A mechanism of the central family.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one a stream
pub enum CentralMachine {
    /// One guarantee for all users: `uniform`, `sample`, `bd`, `ba` or `track`.
    One(Central),
    /// A guarantee for each class: `pbd`, `pba` or `personal_track`.
    Personal(Personalised),
}

/// A mechanism in which each class has a guarantee of its own, and a curator is trusted.
#[derive(Debug)]
pub enum Personalised {
    /// Budgets that are distributed or absorbed: `pbd` or `pba`.
    Budgets(Box<Personal>),
    /// An estimate from all histograms: `personal_track`.
    Track(Box<PersonalTrack>),
}

impl Personalised {
    /// The classes.
    pub const fn classes(&self) -> &Classes {
        match self {
            Self::Budgets(mechanism) => mechanism.classes(),
            Self::Track(mechanism) => mechanism.classes(),
        }
    }

    /// The ledgers, by class.
    pub const fn ledgers(&self) -> &ClassLedgers {
        match self {
            Self::Budgets(mechanism) => mechanism.ledgers(),
            Self::Track(mechanism) => mechanism.ledgers(),
        }
    }

    /// Whether the other is the same mechanism, set to the same, wherever each stands.
    pub fn is_like(&self, other: &Self) -> bool {
        let alike = match (self, other) {
            (Self::Budgets(one), Self::Budgets(other)) => {
                (one.kind(), one.settings()) == (other.kind(), other.settings())
            }
            (Self::Track(one), Self::Track(other)) => one.settings() == other.settings(),
            _ => false,
        };
        alike && self.classes() == other.classes()
    }

    /// Publishes a timestamp, with the number of registered users in each class.
    ///
    /// # Errors
    /// As [`Personal::push`].
    pub fn push(
        &mut self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, CentralError> {
        match self {
            Self::Budgets(mechanism) => mechanism.push(histograms, members, random),
            Self::Track(mechanism) => mechanism.push(histograms, members, random),
        }
    }

    /// Publishes the timestamp that a registry has begun, from pairs of user and value.
    ///
    /// # Errors
    /// As [`Personal::push_registered`].
    pub fn push_registered(
        &mut self,
        registry: &Registry,
        timestamp: u64,
        values: impl IntoIterator<Item = (u32, u32)>,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, CentralError> {
        match self {
            Self::Budgets(mechanism) => mechanism.push_registered(registry, timestamp, values, random),
            Self::Track(mechanism) => mechanism.push_registered(registry, timestamp, values, random),
        }
    }
}

impl CentralSpec {
    /// The keys of a spec, besides `family`.
    pub const KEYS: &[&str] = &[
        "mechanism",
        "epsilon",
        "window",
        "domain",
        "neighbours",
        "classes",
        "estimator",
        "periods",
        "repair",
        "smooth",
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

    /// Whether it is protected that a user is present at a timestamp.
    pub fn protects_presence(&self) -> bool {
        self.neighbours != Some(Neighbours::Replace)
    }

    /// Which timestamps are released whoever is present: as declared, and every one from zero on where nothing is
    /// declared and [presence is protected](Self::protects_presence). `None` where those are released that the input
    /// has.
    pub fn timeline(&self) -> Option<TimelineSpec> {
        self.timeline.or_else(|| self.protects_presence().then(TimelineSpec::default))
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
    pub fn mechanism(&self) -> Result<CentralMachine, SpecError> {
        let name = self.mechanism.name();
        Trust::Curator.check(self.trust, name)?;
        let given = [
            ("epsilon", self.epsilon.is_some()),
            ("window", self.window.is_some()),
            ("classes", self.classes.is_some()),
            ("estimator", self.estimator.is_some()),
            ("periods", self.periods.is_some()),
        ];
        check_keys(self.mechanism.mechanism(), &given)?;
        self.refinement()?;
        let windows = self.window.into_iter().chain(self.classes.iter().flatten().map(|class| class.window));
        self.timeline.unwrap_or_default().check(windows.max().unwrap_or(NonZeroU64::MIN))?;
        let domain = self.values()?.count();
        let one = |kind| {
            let epsilon = needed("epsilon", self.epsilon, name)?;
            let settings = CentralSettings::new(epsilon, needed("window", self.window, name)?, domain);
            let neighbours = self.neighbours.unwrap_or(settings.neighbours);
            let settings = CentralSettings { neighbours, periods: self.periods.unwrap_or_default(), ..settings };
            Ok(CentralMachine::One(Central::new(kind, settings)?))
        };
        let settings = PersonalSettings::new(domain);
        let settings = PersonalSettings {
            neighbours: self.neighbours.unwrap_or(settings.neighbours),
            estimator: self.estimator.unwrap_or(settings.estimator),
            periods: self.periods.unwrap_or_default(),
            ..settings
        };
        let budgets = |kind| {
            let mechanism = Personal::new(kind, self.classes()?, settings)?;
            Ok(CentralMachine::Personal(Personalised::Budgets(Box::new(mechanism))))
        };
        match self.mechanism {
            CentralChoice::Uniform => one(CentralKind::Uniform),
            CentralChoice::Sample => one(CentralKind::Sample),
            CentralChoice::Bd => one(CentralKind::Bd),
            CentralChoice::Ba => one(CentralKind::Ba),
            CentralChoice::Track => one(CentralKind::Track),
            CentralChoice::Pbd => budgets(PersonalKind::Pbd),
            CentralChoice::Pba => budgets(PersonalKind::Pba),
            CentralChoice::PersonalTrack => {
                let mechanism = PersonalTrack::new(self.classes()?, settings)?;
                Ok(CentralMachine::Personal(Personalised::Track(Box::new(mechanism))))
            }
        }
    }

    /// The longest window of all guarantees.
    pub(super) fn longest_window(&self) -> Window {
        longest_window(self.window, self.classes.as_deref())
    }

    /// The post-processing of its releases.
    ///
    /// # Errors
    /// [`SpecError::Unused`].
    pub fn refinement(&self) -> Result<Refinement, SpecError> {
        refinement(self.mechanism.mechanism(), self.repair, self.smooth)
    }

    /// Its standing queries and monitors.
    ///
    /// # Errors
    /// [`SpecError::Values`] and [`SpecError::StandingQuery`].
    pub fn standing_queries(&self) -> Result<StandingQueries, SpecError> {
        let window = self.longest_window();
        let is_smooth = self.smooth == Some(true);
        let correlation = if is_smooth { Correlation::Throughout } else { Correlation::WithinRuns };
        StandingQueries::new(&self.queries, &self.monitors, &self.values()?, window, correlation)
    }
}

/// The classes that were declared.
pub(super) fn classes_of(declared: Option<&[ClassSpec]>, mechanism: &'static str) -> Result<Classes, SpecError> {
    let class = |ClassSpec { name, epsilon, window }: &ClassSpec| Class {
        name: name.clone(),
        requirement: Requirement { epsilon: *epsilon, window: *window },
    };
    Ok(Classes::new(needed("classes", declared, mechanism)?.iter().map(class).collect())?)
}

/// The longest of the windows of all users and of each class.
pub(super) fn longest_window(window: Option<NonZeroU64>, classes: Option<&[ClassSpec]>) -> Window {
    let of_classes = classes.into_iter().flatten().map(|class| class.window);
    of_classes.chain(window).max().map_or(Window::EVENT, Window::Timestamps)
}
