//! Correlated streams, one of each user.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Ledger, Window};

use super::{InputSpec, SpecError, Trust, Values, ValuesSpec, check_keys, needed};
use crate::sequence::SequenceKind;
use crate::sequence::baseline::{self, Baseline, BaselineKind};
use crate::sequence::batched::{self, Batched};
use crate::sequence::crr::{self, Crr, Guarantee};
use crate::sequence::distance::Distance;
use crate::sequence::effort::Effort;
use crate::sequence::leakage::Leakage;
use crate::sequence::model::{Model, ModelError, Order, SparseRow};

/// Users' correlated streams, and how they are released: each by a mechanism of its own, all with one model.
///
/// It protects one user's symbols, each with epsilon; with a `window`, the steps of any so many timestamps spend
/// at most the `budget`. Which timestamps have a symbol is public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceSpec {
    /// Which mechanism.
    pub mechanism: SequenceKind,
    /// The spend of each step: on a symbol, and for `batched` on a whole batch.
    pub epsilon: Epsilon,
    /// The symbols.
    pub domain: ValuesSpec,
    /// The public model, for `crr` and `batched`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// A learned model instead of `model`, of any form. The command reads it from the file that `model` names; it is
    /// no key itself.
    #[serde(skip)]
    pub learned: Option<Model>,
    /// The unit of epsilon and budget, for `crr` and `batched`: by default, sequence information privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    /// How many steps share the budget, for `crr` and `batched`; each has epsilon to itself unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU64>,
    /// The budget of the steps of any window: given exactly where the window is. A step that finds too little
    /// left is answered by what is believed anyway, for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Epsilon>,
    /// The distance that answers keep small, for `crr` and `batched`: by default, Hamming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
    /// How hard good channels are looked for, for `crr` and `batched`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// How many symbols a batch has, for `batched`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// How many symbols of a batch are answered together, for `batched`: all, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// How many likely sequences are told apart, for `batched`: all, unless said. Of any other, the middle symbol is
    /// answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support: Option<u32>,
    /// How many users there are, for a service: it counts what their devices release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<NonZeroU64>,
    /// Who has to be trusted, for the reader of the spec: the device, and nothing else is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// How its table is read.
    #[serde(flatten, skip_deserializing)]
    pub input: InputSpec,
}

/// A Markov chain, which is public and was not learned from what it is to protect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// How likely each symbol is at the beginning.
    pub prior: Vec<f64>,
    /// A row for each symbol: how likely each is to follow it.
    pub transitions: Vec<Vec<f64>>,
    /// For a chain of order 2: rows for some pairs of symbols, in ascending order. Other pairs follow `transitions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairSpec>,
}

/// A row of a chain of order 2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairSpec {
    /// The symbol before the present one, as its place in the domain, from 0 on.
    pub before: u32,
    /// The present symbol.
    pub present: u32,
    /// How likely each symbol is to follow.
    pub next: Vec<f64>,
}

impl ModelSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["prior", "transitions", "pairs"];

    /// Writes a model as prior and transitions; `None` for order 2, and for more than 256 symbols.
    pub fn of(model: &Model) -> Option<Self> {
        let domain = model.domain();
        let row = |symbol| (0..domain).map(|next| model.transition(None, symbol, next)).collect();
        let is_small = model.order() == Order::One && domain <= 256;
        is_small.then(|| Self {
            prior: model.prior().to_vec(),
            transitions: (0..domain).map(row).collect(),
            pairs: Vec::new(),
        })
    }

    /// The model of so many symbols.
    ///
    /// # Errors
    /// Rows of another length, and what is no distribution.
    pub fn model(&self, symbols: u32) -> Result<Model, ModelError> {
        let expected = symbols as usize;
        let length = |what, given: usize| match given {
            given if given == expected => Ok(()),
            given => Err(ModelError::Length { what, given, expected }),
        };
        length("the prior", self.prior.len())?;
        length("the list of transitions", self.transitions.len())?;
        self.transitions.iter().try_for_each(|row| length("a row of the transitions", row.len()))?;
        let first = Model::dense(self.prior.clone(), self.transitions.concat())?;
        if self.pairs.is_empty() {
            return Ok(first);
        }
        self.pairs.iter().try_for_each(|pair| length("a row of the pairs", pair.next.len()))?;
        let row = |pair: &PairSpec| {
            let own = (0..).zip(pair.next.iter().copied()).filter(|(_, share)| *share != 0.0).collect();
            ((pair.before, pair.present), SparseRow { own, left: 0.0 })
        };
        first.with_pairs(self.pairs.iter().map(row))
    }
}

/// The mechanism of one user's stream.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceMachine {
    /// A symbol at a time.
    Crr(Box<Crr>),
    /// Several symbols at a time.
    Batched(Box<Batched>),
    /// A symbol at a time, without a model.
    Baseline(Box<Baseline>),
}

impl SequenceMachine {
    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        match self {
            Self::Crr(mechanism) => mechanism.ledger(),
            Self::Batched(mechanism) => mechanism.ledger(),
            Self::Baseline(mechanism) => mechanism.ledger(),
        }
    }

    /// The model; `None` for a baseline.
    pub fn model(&self) -> Option<&Model> {
        match self {
            Self::Crr(mechanism) => Some(mechanism.model()),
            Self::Batched(mechanism) => Some(mechanism.model()),
            Self::Baseline(_) => None,
        }
    }

    /// Upper bound of the leakage so far; `None` without a model, where every step loses epsilon.
    pub fn leakage(&self) -> Option<&Leakage> {
        match self {
            Self::Crr(mechanism) => Some(mechanism.leakage()),
            Self::Batched(mechanism) => Some(mechanism.leakage()),
            Self::Baseline(_) => None,
        }
    }

    /// Whether another is the same mechanism with the same settings and model, wherever each stands.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Crr(one), Self::Crr(other)) => (one.settings(), one.model()) == (other.settings(), other.model()),
            (Self::Batched(one), Self::Batched(other)) => {
                (one.settings(), one.model()) == (other.settings(), other.model())
            }
            (Self::Baseline(one), Self::Baseline(other)) => {
                (one.settings(), one.kind()) == (other.settings(), other.kind())
            }
            _ => false,
        }
    }
}

impl SequenceSpec {
    /// The keys of a spec, besides `family`.
    pub const KEYS: &[&str] = &[
        "mechanism",
        "epsilon",
        "domain",
        "model",
        "guarantee",
        "window",
        "budget",
        "distance",
        "effort",
        "length",
        "part",
        "support",
        "population",
        "trust",
    ];

    /// How many users there are, where the spec says so.
    pub fn population(&self) -> Option<u64> {
        self.population.map(NonZeroU64::get)
    }

    /// The symbols.
    ///
    /// # Errors
    /// [`SpecError::Values`].
    pub fn values(&self) -> Result<Values, SpecError> {
        self.domain.values()
    }

    /// The model, to be shared by the mechanisms of all users; `None` for `rr` and `oue`.
    ///
    /// # Errors
    /// [`SpecError::Missing`] where there is none, [`SpecError::Unused`] where there should be none, and
    /// [`SpecError::Model`].
    pub fn model(&self) -> Result<Option<Arc<Model>>, SpecError> {
        let name = self.mechanism.name();
        match self.mechanism {
            SequenceKind::Crr | SequenceKind::Batched => {
                let symbols = self.values()?.count();
                let model = match (&self.model, &self.learned) {
                    (None, Some(learned)) => learned.clone(),
                    (Some(_), Some(_)) => return Err(SpecError::Unused { key: "model", mechanism: name }),
                    (model, None) => needed("model", model.as_ref(), name)?.model(symbols)?,
                };
                if model.domain() != symbols {
                    let (given, expected) = (model.prior().len(), symbols as usize);
                    return Err(ModelError::Length { what: "the prior", given, expected }.into());
                }
                Ok(Some(Arc::new(model)))
            }
            SequenceKind::Rr | SequenceKind::Oue => {
                let given = self.model.is_some() || self.learned.is_some();
                check_keys(self.mechanism.mechanism(), &[("model", given)])?;
                Ok(None)
            }
        }
    }

    /// The mechanism of one more user, at the beginning of that user's stream. `model` is that of
    /// [`model`](Self::model).
    ///
    /// # Errors
    /// An invalid spec: see the variants of [`SpecError`].
    pub fn mechanism(&self, model: Option<&Arc<Model>>) -> Result<SequenceMachine, SpecError> {
        let name = self.mechanism.name();
        Trust::Device.check(self.trust, name)?;
        let given = [
            ("model", self.model.is_some()),
            ("guarantee", self.guarantee.is_some()),
            ("window", self.window.is_some()),
            ("budget", self.budget.is_some()),
            ("distance", self.distance.is_some()),
            ("effort", self.effort.is_some()),
            ("length", self.length.is_some()),
            ("part", self.part.is_some()),
            ("support", self.support.is_some()),
            ("population", self.population.is_some()),
        ];
        check_keys(self.mechanism.mechanism(), &given)?;
        match self.mechanism {
            SequenceKind::Crr => {
                let model = needed("model", model, name)?;
                Ok(SequenceMachine::Crr(Box::new(Crr::new(Arc::clone(model), self.step(name)?)?)))
            }
            SequenceKind::Batched => {
                let (length, part) = (needed("length", self.length, name)?, self.part);
                let settings =
                    batched::BatchedSettings { batch: self.step(name)?, length, part, support: self.support };
                let model = needed("model", model, name)?;
                Ok(SequenceMachine::Batched(Box::new(Batched::new(Arc::clone(model), settings)?)))
            }
            SequenceKind::Rr => self.baseline(BaselineKind::Rr),
            SequenceKind::Oue => self.baseline(BaselineKind::Oue),
        }
    }

    fn baseline(&self, kind: BaselineKind) -> Result<SequenceMachine, SpecError> {
        let settings = baseline::BaselineSettings::new(self.values()?.count(), self.epsilon);
        Ok(SequenceMachine::Baseline(Box::new(Baseline::new(kind, settings)?)))
    }

    fn step(&self, name: &'static str) -> Result<crr::CrrSettings, SpecError> {
        let settings = crr::CrrSettings::new(self.epsilon);
        let (window, budget) = match (self.window, self.budget) {
            (None, None) => (settings.window, settings.budget),
            (Some(window), budget) => (Window::Timestamps(window), needed("budget", budget, name)?),
            (None, Some(_)) => return Err(SpecError::Missing { key: "window", mechanism: name }),
        };
        Ok(crr::CrrSettings {
            guarantee: self.guarantee.unwrap_or(settings.guarantee),
            distance: self.distance.clone().unwrap_or(settings.distance),
            effort: self.effort.unwrap_or(settings.effort),
            window,
            budget,
            ..settings
        })
    }
}
