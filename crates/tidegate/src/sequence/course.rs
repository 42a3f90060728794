//! How far a mechanism has come along a user's sequence, and how that is saved.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Ledger, Window};

use super::belief::Belief;
use super::crr::{CrrError, MAX_GAP};
use super::leakage::Leakage;
use super::model::Model;

const VERSION: u16 = 1;

/// What a mechanism knows of the sequence so far, and what it has spent on it.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) model: Arc<Model>,
    /// What is believed of the next symbol.
    pub(super) belief: Belief,
    /// The timestamp that comes next, in symbols or in batches; any, before the first.
    pub(super) next: Option<u64>,
    pub(super) ledger: Ledger,
    pub(super) leakage: Leakage,
    /// Whether any randomness came from a seed since the mechanism was made or loaded.
    pub(super) seeded: bool,
}

impl Course {
    /// The beginning of a sequence.
    pub(super) fn new(model: Arc<Model>, budget: Epsilon, window: Window) -> Self {
        let leakage = Leakage::new(match window {
            Window::Timestamps(length) => Some(length),
            Window::Unbounded => None,
        });
        let (belief, ledger) = (Belief::new(&model), Ledger::new(budget, window));
        Self { belief, model, next: None, ledger, leakage, seeded: false }
    }

    /// The belief in the first symbol of a timestamp, where timestamps, of so many symbols each, were left out.
    pub(super) fn belief_at(&self, timestamp: u64, symbols: u64) -> Result<Belief, CrrError> {
        let mut belief = self.belief.clone();
        if let Some(next) = self.next {
            let gap = timestamp.checked_sub(next).ok_or(CrrError::Time { given: timestamp, next })?;
            let gap = gap.saturating_mul(symbols);
            if gap > MAX_GAP {
                return Err(CrrError::Gap { given: timestamp, gap });
            }
            for _ in 0..gap {
                belief.pass(&self.model)?;
            }
        }
        Ok(belief)
    }

    /// A timestamp is done, and this is believed of the symbol after it.
    pub(super) fn move_on(&mut self, timestamp: u64, belief: Belief) {
        self.belief = belief;
        self.next = Some(timestamp.saturating_add(1));
    }

    /// The form in which a mechanism with these settings is saved.
    pub(super) fn saving<'a, S>(&'a self, settings: &'a S) -> Saving<'a, S> {
        let Self { model, belief, next, ledger, leakage, seeded: _ } = self;
        Saving { version: VERSION, settings, model, belief, next: *next, ledger, leakage }
    }
}

/// A mechanism as it is saved.
#[derive(Serialize)]
pub(super) struct Saving<'a, S> {
    version: u16,
    settings: &'a S,
    model: &'a Model,
    belief: &'a Belief,
    next: Option<u64>,
    ledger: &'a Ledger,
    leakage: &'a Leakage,
}

/// A mechanism as it is loaded, before its parts are checked against each other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved<S> {
    version: u16,
    settings: S,
    model: Model,
    belief: Belief,
    // Required, though it may be null: a mechanism whose time got lost must not load as one that has released nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    next: Option<u64>,
    ledger: Ledger,
    leakage: Leakage,
}

impl<S> Saved<S> {
    /// The mechanism: a new one by `fresh`, whose course is then the saved one, where that fits.
    pub(super) fn restore<M, E: ToString>(
        self,
        fresh: impl FnOnce(Model, S) -> Result<M, E>,
        course: impl FnOnce(&mut M) -> &mut Course,
    ) -> Result<M, String> {
        let Self { version, settings, model, belief, next, ledger, leakage } = self;
        if version != VERSION {
            return Err(format!(
                "mechanism state version {version} is not known; this program reads version {VERSION}"
            ));
        }
        let mut mechanism = fresh(model, settings).map_err(|error| error.to_string())?;
        let course = course(&mut mechanism);
        let same_account = ledger.budget() == course.ledger.budget() && ledger.window() == course.ledger.window();
        // The clock may be ahead: a step that was refused, or whose ledger could not be saved, moves it.
        let same_time = next.is_none_or(|next| ledger.clock().is_some_and(|clock| clock >= next.saturating_sub(1)));
        let same_belief = belief.fits(&course.model) && (next.is_none() || belief.can_have_advanced(&course.model));
        if !same_account || !same_time || !same_belief || !leakage.fits(&course.leakage) {
            return Err("the mechanism's state does not fit its settings".to_owned());
        }
        *course = Course { model: Arc::clone(&course.model), belief, next, ledger, leakage, seeded: false };
        Ok(mechanism)
    }
}
