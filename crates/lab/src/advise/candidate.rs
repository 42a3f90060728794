//! [`SpecSubject`]: a mechanism with all that a spec says, driven as `tidegate release` drives it.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate::central::classes::{Class, Classes};
use tidegate::mechanisms::Mechanism;
use tidegate::spec::{CentralMachine, LocalMachine, SequenceSpec, StreamSpec};
use tidegate_kernel::primitives::Neighbours;
use tidegate_kernel::{Epsilon, SeededRandom};

use crate::central::{Members, run_central, run_personal};
use crate::experiment::{
    CountOutcome, NumberOutcome, OnCounts, OnNumbers, OnSymbols, RequirementClass, RunError, Setting, Subject,
    SymbolOutcome, TrialSettings,
};
use crate::local::{Crowd, run_local, run_plbu};
use crate::scalar::run_scalar;
use crate::sequence::{answers, learn};
use crate::stream::{CountStream, NumberStream, SymbolStream};
use crate::subjects::listed;

/// A mechanism with all that a spec says. It runs the spec's own machine, so that no key is ignored.
///
/// Of the settings of a trial only epsilon counts: where it is not the one that was asked about, all budgets of the
/// spec change in proportion. The population is that of the stream.
#[derive(Clone, Debug)]
pub struct SpecSubject {
    pub(super) listed: &'static Mechanism,
    pub(super) spec: StreamSpec,
    /// The spec's keys, with the mechanism's name as it is listed.
    pub(super) keys: Map<String, Value>,
    /// The epsilon that was asked about.
    pub(super) asked: Epsilon,
    /// Sizes of the classes, relative to each other.
    pub(super) shares: Vec<NonZeroU64>,
    /// Whether this is the spec that was given.
    pub(super) own: bool,
}

impl SpecSubject {
    const fn listed(&self) -> &'static Mechanism {
        self.listed
    }

    /// Returns the spec.
    pub const fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// Whether this is the spec that was given, rather than another mechanism for the same stream.
    pub const fn is_own(&self) -> bool {
        self.own
    }

    /// Whether the spec has all that a release needs. A mechanism with a model that nobody has given is tried with one
    /// that is learned from the stream, which a release must not do.
    pub fn is_complete(&self) -> bool {
        !matches!(&self.spec, StreamSpec::Sequence(spec) if lacks_model(spec))
    }

    /// Returns the settings for which the formulas of [advice](super::formula) hold; `None` if they hold for none.
    fn plain(&self, settings: &TrialSettings) -> Option<TrialSettings> {
        let scaled = self.at(settings.epsilon).ok()?;
        // Keys that change errors, and that no formula knows.
        const OTHER: [&str; 5] = ["repair", "smooth", "grouping", "truncation", "reuse"];
        if OTHER.iter().any(|key| self.keys.contains_key(*key)) {
            return None;
        }
        let of_window = |epsilon: Option<Epsilon>, window: Option<NonZeroU64>| Some((epsilon?, window?));
        match &scaled {
            StreamSpec::Local(spec) => {
                let (epsilon, window) = of_window(spec.epsilon, spec.window)?;
                Some(TrialSettings { oracle: spec.oracle, ..TrialSettings::new(epsilon, window) })
            }
            StreamSpec::Central(spec) if spec.neighbours != Some(Neighbours::Replace) => {
                let (epsilon, window) = of_window(spec.epsilon, spec.window)?;
                Some(TrialSettings::new(epsilon, window))
            }
            StreamSpec::Scalar(spec) => {
                let found = spec.settings().ok()?;
                Some(TrialSettings {
                    protects: found.protects,
                    within_domain: found.within_domain,
                    ..TrialSettings::new(found.epsilon, NonZeroU64::MIN)
                })
            }
            StreamSpec::Sequence(spec) => Some(TrialSettings::new(spec.epsilon, NonZeroU64::MIN)),
            _ => None,
        }
    }

    /// Returns the spec with all budgets in proportion to an epsilon.
    fn at(&self, epsilon: Epsilon) -> Result<StreamSpec, RunError> {
        if epsilon == self.asked {
            return Ok(self.spec.clone());
        }
        let factor = epsilon.as_f64() / self.asked.as_f64();
        let mut keys = self.keys.clone();
        scale(&mut keys, factor);
        if let Some(Value::Array(classes)) = keys.get_mut("classes") {
            classes.iter_mut().filter_map(Value::as_object_mut).for_each(|class| scale(class, factor));
        }
        serde_json::from_value(Value::Object(keys)).map_err(RunError::unsupported)
    }

    /// Draws the members of the classes.
    fn members(&self, classes: &Classes, stream: &CountStream, random: &mut SeededRandom) -> Result<Members, RunError> {
        let shares = self.shares.iter().copied().chain(std::iter::repeat(NonZeroU64::MIN));
        let class = |(class, weight): (&Class, NonZeroU64)| {
            let requirement = class.requirement;
            RequirementClass { epsilon: requirement.epsilon, window: requirement.window, weight }
        };
        Members::draw(stream, &classes.all().iter().zip(shares).map(class).collect::<Vec<_>>(), random)
    }
}

fn lacks_model(spec: &SequenceSpec) -> bool {
    spec.model.is_none() && spec.mechanism.mechanism().keys.contains(&"model")
}

/// Multiplies the budgets among some keys.
fn scale(keys: &mut Map<String, Value>, factor: f64) {
    for key in ["epsilon", "budget", "grouping"] {
        if let Some(value) = keys.get_mut(key)
            && let Some(number) = value.as_f64().or_else(|| value.as_str()?.parse().ok())
        {
            // A budget has nine decimals.
            *value = Value::from((number * factor * 1e9).round() / 1e9);
        }
    }
}

impl Subject for SpecSubject {
    listed!();

    fn uses(&self) -> &'static [Setting] {
        &[]
    }

    fn in_formulas(&self, settings: &TrialSettings) -> Option<TrialSettings> {
        self.plain(settings)
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        matches!(self.spec, StreamSpec::Local(_) | StreamSpec::Central(_)).then_some(self)
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        matches!(self.spec, StreamSpec::Scalar(_)).then_some(self)
    }

    fn on_symbols(&self) -> Option<&dyn OnSymbols> {
        matches!(self.spec, StreamSpec::Sequence(_)).then_some(self)
    }
}

/// A spec of another family than the stream's.
fn other_family() -> RunError {
    RunError::unsupported("its spec is for streams of another kind")
}

impl OnCounts for SpecSubject {
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError> {
        let spec = self.at(settings.epsilon)?;
        let mut refinement = spec.refinement().map_err(RunError::unsupported)?;
        let smooth = move |release| refinement.push(release);
        match spec {
            StreamSpec::Central(spec) => match spec.mechanism().map_err(RunError::unsupported)? {
                CentralMachine::One(mechanism) => run_central(mechanism, stream, smooth, random),
                CentralMachine::Personal(mechanism) => {
                    let members = self.members(mechanism.classes(), stream, random)?;
                    run_personal(mechanism, &members, stream, smooth, random)
                }
            },
            StreamSpec::Local(mut spec) => {
                let users = (0..stream.length()).map(|timestamp| stream.population(timestamp)).max();
                spec.population = spec.population.and(users.and_then(NonZeroU64::new));
                match spec.mechanism().map_err(RunError::unsupported)? {
                    LocalMachine::One(mechanism) => {
                        let users = Crowd::lazy(mechanism.settings().population.get());
                        run_local(mechanism, users, stream, smooth, random)
                    }
                    LocalMachine::ByClass(mechanism) => {
                        let classes = spec.classes().map_err(RunError::unsupported)?;
                        let members = self.members(&classes, stream, random)?;
                        run_plbu(mechanism, &members, stream, smooth, random)
                    }
                }
            }
            _ => Err(other_family()),
        }
    }
}

impl OnNumbers for SpecSubject {
    fn run(
        &self,
        stream: &NumberStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError> {
        let StreamSpec::Scalar(spec) = self.at(settings.epsilon)? else { return Err(other_family()) };
        let refinement = spec.refinement().map_err(RunError::unsupported)?;
        run_scalar(spec.mechanism().map_err(RunError::unsupported)?, stream, refinement, random)
    }
}

impl OnSymbols for SpecSubject {
    fn run(
        &self,
        stream: &SymbolStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<SymbolOutcome, RunError> {
        let StreamSpec::Sequence(spec) = self.at(settings.epsilon)? else { return Err(other_family()) };
        let model = if lacks_model(&spec) {
            Some(Arc::new(learn(stream, 1)?))
        } else {
            spec.model().map_err(RunError::unsupported)?
        };
        let run = |sequence: &Vec<u32>| {
            let mechanism = spec.mechanism(model.as_ref()).map_err(RunError::unsupported)?;
            answers(mechanism, sequence, random)
        };
        Ok(SymbolOutcome { sequences: stream.sequences().iter().map(run).collect::<Result<_, _>>()? })
    }
}
