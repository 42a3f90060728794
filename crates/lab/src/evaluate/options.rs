//! [`Options`]: what is evaluated, and with which settings.

use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;

use serde::Deserialize;
use tidegate::mechanisms::Family;
use tidegate::post_processing::Repair;
use tidegate::scalar::Truncation;
use tidegate::sequence::effort::Effort;
use tidegate::spec::{InputSpec, ValuesSpec};
use tidegate_kernel::Epsilon;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::{Neighbours, Protects};

use crate::datasets::{LoadOptions, NumberDomain};
use crate::experiment::{RequirementClass, Setting, Subject, TrialSettings};
use crate::sequence::SymbolDistance;
use crate::stream::StreamKind;
use crate::subjects;

/// What is evaluated, with the names of the command's options. Lists without entries, and what is not there, stand for
/// the defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Names of mechanisms.
    pub mechanism: Vec<String>,
    /// Budgets of a window; of sequences, of each symbol.
    pub epsilon: Vec<Epsilon>,
    /// Windows in timestamps; 20 by default.
    pub window: Vec<NonZeroU64>,
    /// How many timestamps a release may be held back; 0 by default.
    pub delay: Vec<u64>,
    /// The number of users.
    pub population: Option<NonZeroU64>,
    /// The number of timestamps.
    pub length: Option<NonZeroUsize>,
    /// The ends of the domain of numbers.
    pub domain: Option<(f64, f64)>,
    /// The distance of two numbers that are told apart, with `domain`.
    pub resolution: Option<f64>,
    /// The values of users that are read from a table.
    pub values: Option<ValuesSpec>,
    /// How often each mechanism is run; 10 times by default.
    pub repeats: Option<NonZeroU64>,
    /// The seed; 0 unless given, so a caller draws one.
    pub seed: Option<u64>,
    /// The frequency oracle of local mechanisms.
    pub oracle: Option<OracleChoice>,
    /// What users require of central mechanisms.
    pub classes: Vec<RequirementClass>,
    /// Protects one contributor to a number, who can change it by so many steps.
    pub contribution: Option<NonZeroU64>,
    /// Whether released numbers are moved into the domain.
    pub within_domain: bool,
    /// Whether releases are smoothed.
    pub smooth: bool,
    /// How many symbols are released together.
    pub batch: Option<NonZeroUsize>,
    /// The order of the model of a sequence.
    pub order: Option<ModelOrder>,
    /// What mechanisms with a model of a sequence make small.
    pub distance: Option<SymbolDistance>,
    /// The effort of the search for the best channel.
    pub effort: Option<Effort>,
    /// The directory with the folders of the real data sets.
    pub data_dir: Option<std::path::PathBuf>,
    /// The number of threads; all cores by default.
    pub threads: Option<NonZeroUsize>,
    /// Whether queries are answered, too.
    pub queries: bool,
    /// Whether values are taken as the numbers 0, 1, 2, .., of which local mechanisms release the mean.
    pub mean: bool,
    /// How a table is read.
    pub input: InputSpec,
    /// Parameters of some mechanisms.
    pub parameters: Parameters,
}

/// Parameters that some mechanisms have, as a spec has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// How much a group of numbers may scatter.
    pub threshold: Option<f64>,
    /// The number of buckets of `bucorder`.
    pub buckets: Option<u32>,
    /// How truncating mechanisms choose their bound.
    pub truncation: Option<Truncation>,
    /// How points of a group are averaged.
    pub smoother: Option<Average>,
    /// Whether local mechanisms use the reports of the question that decided, too.
    pub reuse: bool,
    /// Which streams central mechanisms make hard to tell apart.
    pub neighbours: Option<Neighbours>,
    /// The repair of releases.
    pub repair: Option<Repair>,
}

/// An average of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Average {
    /// Their mean.
    Mean,
    /// Their median.
    Median,
}

/// The order of a Markov model: 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub struct ModelOrder(u8);

impl TryFrom<u8> for ModelOrder {
    type Error = &'static str;

    fn try_from(order: u8) -> Result<Self, &'static str> {
        if matches!(order, 1 | 2) { Ok(Self(order)) } else { Err("expected an order of 1 or 2") }
    }
}

/// An oracle, or none where the mechanism chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OracleChoice(pub Option<OracleKind>);

impl FromStr for OracleChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "auto" {
            return Ok(Self(None));
        }
        let kind = OracleKind::from_str(name).map_err(|error| format!("{error}, or auto for the best"))?;
        Ok(Self(Some(kind)))
    }
}

impl TryFrom<String> for OracleChoice {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl Options {
    /// Whether a setting was given.
    pub(super) const fn is_given(&self, setting: Setting) -> bool {
        match setting {
            Setting::Window => !self.window.is_empty(),
            Setting::Delay => !self.delay.is_empty(),
            Setting::Oracle => self.oracle.is_some(),
            Setting::Classes => !self.classes.is_empty(),
            Setting::Contribution => self.contribution.is_some(),
            Setting::WithinDomain => self.within_domain,
            Setting::Batch => self.batch.is_some(),
            Setting::Order => self.order.is_some(),
            Setting::Distance => self.distance.is_some(),
            Setting::Effort => self.effort.is_some(),
        }
    }

    /// Returns how the data set is loaded.
    pub fn load_options(&self) -> LoadOptions {
        let domain = |(low, high)| NumberDomain { low, high, resolution: self.resolution };
        LoadOptions {
            data_dir: self.data_dir.clone(),
            population: self.population.map(NonZeroU64::get),
            length: self.length.map(NonZeroUsize::get),
            domain: self.domain.map(domain),
            values: self.values.clone(),
            input: self.input.clone(),
            symbols: self.only_sequences(),
            seed: self.seed.unwrap_or_default(),
        }
    }

    /// Whether all mechanisms take sequences of symbols only, so that a table in long form holds such.
    fn only_sequences(&self) -> bool {
        let takes = |kind, name: &String| subjects::by_name_for(kind, name).is_ok_and(|subject| subject.takes(kind));
        let others = || self.mechanism.iter().filter(|name| *name != "constant");
        others().any(|name| takes(StreamKind::Symbols, name)) && !others().any(|name| takes(StreamKind::Counts, name))
    }

    /// The settings of a trial, but for the repair.
    pub(super) fn settings(&self, epsilon: Epsilon, window: NonZeroU64, delay: u64) -> TrialSettings {
        let defaults = self.parameters.apply(TrialSettings::new(epsilon, window));
        TrialSettings {
            delay,
            oracle: self.oracle.map_or(defaults.oracle, |OracleChoice(oracle)| oracle),
            classes: self.classes.clone(),
            protects: self.contribution.map_or(defaults.protects, Protects::Contribution),
            within_domain: self.within_domain,
            smooth: self.smooth,
            mean: self.mean,
            batch: self.batch.unwrap_or(defaults.batch),
            order: self.order.map_or(defaults.order, |ModelOrder(order)| order),
            distance: self.distance.unwrap_or(defaults.distance),
            effort: self.effort.unwrap_or(defaults.effort),
            ..defaults
        }
    }
}

impl Parameters {
    /// Replaces the settings that were given.
    fn apply(&self, settings: TrialSettings) -> TrialSettings {
        TrialSettings {
            threshold: self.threshold,
            buckets: self.buckets,
            truncation: self.truncation,
            median: self.smoother == Some(Average::Median),
            reuse: self.reuse,
            neighbours: self.neighbours.unwrap_or(Neighbours::AddRemove),
            ..settings
        }
    }

    /// Returns the repair of a mechanism's releases; unless given, that of `tidegate release`.
    pub(super) fn repair(&self, subject: &dyn Subject) -> Repair {
        let usual = || subject.mechanism().map_or(Repair::None, |mechanism| Repair::default_of(mechanism.output));
        self.repair.unwrap_or_else(usual)
    }

    /// Returns the keys of the spec that were given.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
        let given = [
            ("threshold", self.threshold.is_some()),
            ("buckets", self.buckets.is_some()),
            ("truncation", self.truncation.is_some()),
            ("smoother", self.smoother.is_some()),
            ("reuse", self.reuse),
            ("neighbours", self.neighbours.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key)
    }
}

/// Whether a mechanism has a use for a key of its spec.
pub(super) fn uses_key(subject: &dyn Subject, key: &str) -> bool {
    subject.mechanism().is_some_and(|mechanism| match key {
        "neighbours" => mechanism.family == Family::Central,
        "truncation" => mechanism.presets.iter().any(|(fixed, _)| *fixed == key),
        _ => mechanism.keys.contains(&key) && mechanism.presets.iter().all(|(fixed, _)| *fixed != key),
    })
}
