//! [`SequenceState`]: the state of a mechanism on one user's sequence, and its saved form.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Ledger, Window};

use super::belief::Belief;
use super::crr::{CrrError, MAX_GAP};
use super::leakage::Leakage;
use super::model::Model;

pub(super) const VERSION: u16 = 1;

/// Version of a mechanism with settings that version 1 lacks.
pub(super) const SUPPORT_VERSION: u16 = 2;

/// Belief, time, spends and leakage of a mechanism.
#[derive(Debug)]
pub(super) struct SequenceState {
    pub(super) model: Arc<Model>,
    /// Belief about the next symbol.
    pub(super) belief: Belief,
    /// Next timestamp, in symbols or in batches; `None` before the first.
    pub(super) next: Option<u64>,
    pub(super) ledger: Ledger,
    pub(super) leakage: Leakage,
    /// Whether any randomness since creation or loading was seeded.
    pub(super) seeded: bool,
}

impl SequenceState {
    /// State at the start of a sequence.
    pub(super) fn new(model: Arc<Model>, budget: Epsilon, window: Window) -> Self {
        let leakage = Leakage::new(match window {
            Window::Timestamps(length) => Some(length),
            Window::Unbounded => None,
        });
        let (belief, ledger) = (Belief::new(&model), Ledger::new(budget, window));
        Self { belief, model, next: None, ledger, leakage, seeded: false }
    }

    /// Belief about the first symbol of a timestamp, after skipped timestamps of `symbols` symbols each.
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

    /// Ends a timestamp, with the belief about the next symbol.
    pub(super) fn move_on(&mut self, timestamp: u64, belief: Belief) {
        self.belief = belief;
        self.next = Some(timestamp.saturating_add(1));
    }

    /// Saved form with these settings; `version` is that of the settings.
    pub(super) fn saving<'a, S>(&'a self, settings: &'a S, version: u16) -> Saving<'a, S> {
        let Self { model, belief, next, ledger, leakage, seeded: _ } = self;
        Saving { version, settings, model, belief, next: *next, ledger, leakage }
    }
}

/// Saved form.
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

/// Loaded form, before validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved<S> {
    version: u16,
    settings: S,
    model: Model,
    belief: Belief,
    // Required, though it may be null: a mechanism with a lost time must not load as a new one.
    #[serde(deserialize_with = "Option::deserialize")]
    next: Option<u64>,
    ledger: Ledger,
    leakage: Leakage,
}

impl<S> Saved<S> {
    /// Settings.
    pub(super) const fn settings(&self) -> &S {
        &self.settings
    }

    /// Restores a mechanism: creates it by `fresh`, and replaces its state if the saved one is valid. `known` is the
    /// version of its settings.
    pub(super) fn restore<M, E: ToString>(
        self,
        known: u16,
        fresh: impl FnOnce(Model, S) -> Result<M, E>,
        state: impl FnOnce(&mut M) -> &mut SequenceState,
    ) -> Result<M, String> {
        let Self { version, settings, model, belief, next, ledger, leakage } = self;
        if version != known {
            return Err(format!("mechanism state version {version} is not known; these settings have version {known}"));
        }
        let mut mechanism = fresh(model, settings).map_err(|error| error.to_string())?;
        let state = state(&mut mechanism);
        let same_account = ledger.budget() == state.ledger.budget() && ledger.window() == state.ledger.window();
        // The clock may be ahead: a refused step, or one whose ledger could not be saved, moves it.
        let same_time = next.is_none_or(|next| ledger.clock().is_some_and(|clock| clock >= next.saturating_sub(1)));
        let same_belief = belief.fits(&state.model) && (next.is_none() || belief.can_have_advanced(&state.model));
        if !same_account || !same_time || !same_belief || !leakage.fits(&state.leakage) {
            return Err("the mechanism's state does not fit its settings".to_owned());
        }
        *state = SequenceState { model: Arc::clone(&state.model), belief, next, ledger, leakage, seeded: false };
        Ok(mechanism)
    }
}
