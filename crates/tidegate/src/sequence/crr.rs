//! `crr`: conditional randomised response. Each step uses the best channel for the belief about the present symbol.
//!
//! ```text
//! belief ──▶ channel for epsilon and distance ──▶ kernel answers the sealed symbol ──▶ release ──▶ next belief
//! ```
//!
//! Beliefs and channels depend on the model and the releases; only the kernel sees the symbol.
//!
//! Source: Jiang, Li and Tandon: Online Context-Aware Streaming Data Release with Sequence Information Privacy, IEEE
//! TIFS 19, 2024, doi:10.1109/TIFS.2024.3378008, Algorithm 1 and Theorem 4.

use std::convert::Infallible;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_kernel::primitives::{self, ChannelLimits, PrimitiveError, SymbolChannel, SymbolError};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Refusal, Sealed, SpendError, Window};

use super::belief::Belief;
use super::channel::{Channel, ChannelMatrixError};
use super::distance::Distance;
use super::effort;
pub use super::effort::Effort;
use super::leakage::Leakage;
use super::model::{Model, ModelError};
use super::state::{Saved, SequenceState, VERSION};
use crate::release::{Freshness, Release, Spent, Symbol};

/// Unit of epsilon and budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// Sequence information privacy: epsilon-SIP if the model is right, and 2 epsilon-LDP in any case.
    Sequence,
    /// Local differential privacy: epsilon-LDP for any model, and epsilon/2-SIP if it is right.
    Local,
}

/// Settings of the mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrrSettings {
    /// Spend of each step, in units of the guarantee.
    pub epsilon: Epsilon,
    /// Guarantee.
    pub guarantee: Guarantee,
    /// Timestamps that share the budget.
    pub window: Window,
    /// Budget of any window, in units of the guarantee.
    pub budget: Epsilon,
    /// Distance to minimise.
    pub distance: Distance,
    /// Effort of the search for a channel.
    #[serde(default)]
    pub effort: Effort,
}

impl CrrSettings {
    /// Settings with epsilon-SIP for each timestamp by itself, and the least probability of error.
    pub const fn new(epsilon: Epsilon) -> Self {
        Self {
            epsilon,
            guarantee: Guarantee::Sequence,
            window: Window::EVENT,
            budget: epsilon,
            distance: Distance::Hamming,
            effort: Effort::Fast,
        }
    }

    /// Checks the settings against a model and this build of the library.
    pub(super) fn check(&self, model: &Model) -> Result<(), CrrError> {
        if let Some(given) = self.distance.domain().filter(|given| *given != model.domain() as usize) {
            return Err(CrrError::Matrix { given, expected: model.domain() });
        }
        if cfg!(not(feature = "programme")) && self.effort == Effort::Thorough {
            return Err(CrrError::NoProgramme);
        }
        Ok(())
    }

    /// SIP of a step.
    ///
    /// # Errors
    /// [`CrrError::Epsilon`].
    pub fn step(&self) -> Result<Epsilon, CrrError> {
        let error = CrrError::Epsilon { given: self.epsilon };
        match self.guarantee {
            Guarantee::Sequence => Ok(self.epsilon),
            Guarantee::Local => self.epsilon.divided_by(2).ok_or(error),
        }
    }

    /// Budget of the ledger, in losses of local privacy.
    ///
    /// # Errors
    /// [`CrrError::Budget`].
    pub fn loss_budget(&self) -> Result<Epsilon, CrrError> {
        match self.guarantee {
            Guarantee::Sequence => self.budget.checked_mul(2).ok_or(CrrError::Budget { given: self.budget }),
            Guarantee::Local => Ok(self.budget),
        }
    }
}

/// Maximum number of skipped timestamps.
pub const MAX_GAP: u64 = 1 << 20;

/// Error of the mechanism.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CrrError {
    #[error("epsilon {given} is too small to be guaranteed locally; its half is below {}", Epsilon::MIN)]
    Epsilon { given: Epsilon },
    #[error("a SIP budget of {given} exceeds {}, the largest that can be counted", Epsilon::MAX.as_f64() / 2.0)]
    Budget { given: Epsilon },
    /// No channel has this epsilon, or the kernel rejects it.
    #[error(transparent)]
    Limits(#[from] primitives::ChannelError),
    /// No channel for the belief.
    #[error(transparent)]
    Channel(#[from] ChannelMatrixError),
    #[error("a thorough search needs the feature `programme`, without which the library was built")]
    NoProgramme,
    #[error("the matrix of distances is over {given} symbols, the model over {expected}")]
    Matrix { given: usize, expected: u32 },
    /// The belief could not be updated.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The kernel did not answer.
    #[error(transparent)]
    Primitive(#[from] PrimitiveError),
    /// The ledger refused the step or the batch. A refused step has moved the ledger's clock to its timestamp; a
    /// refused batch has not. A guess can still answer, for free.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("timestamp {given} is not after the last one; the next is {next}")]
    Time { given: u64, next: u64 },
    #[error("timestamp {given} lies {gap} timestamps ahead, more than {MAX_GAP}, over which a belief is carried")]
    Gap { given: u64, gap: u64 },
}

/// Error of [`Crr::step_and_save`].
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
pub enum StepError<E> {
    /// The step failed.
    #[error(transparent)]
    Step(#[from] CrrError),
    #[error("the ledger could not be saved, so nothing was released: {0}")]
    NotSaved(E),
}

/// Conditional randomised response on one user's stream.
///
/// # Guarantee
/// With [`Guarantee::Sequence`], each step is epsilon-SIP: whatever was released before, an observer who knows the
/// model finds no sequence of symbols more than e^epsilon times as likely, or as unlikely, after the step as before it.
/// The steps of any window sum to at most the budget. If the model is wrong, or the observer knows something else, each
/// step is still 2 epsilon-LDP, and any window twice the budget. With [`Guarantee::Local`] epsilon and budget bound the
/// loss of local privacy in the first place. The ledger counts losses of local privacy in both cases.
///
/// The guarantee of a window covers changes of the symbols within it. Releases of other windows also tell about
/// correlated symbols; over a whole sequence the epsilons of all steps add up.
///
/// ```
/// use tidegate::kernel::{SystemRandom, Window};
/// use tidegate::release::Statistic;
/// use tidegate::sequence::crr::{Crr, CrrSettings};
/// use tidegate::sequence::model::Model;
///
/// let model = Model::dense(vec![0.5, 0.5], vec![0.9, 0.1, 0.2, 0.8])?;
/// let settings = CrrSettings {
///     window: Window::of(10).ok_or("a window has a length")?,
///     budget: "5".parse()?,
///     ..CrrSettings::new("0.5".parse()?)
/// };
/// let mut mechanism = Crr::new(model, settings)?;
/// let random = &mut SystemRandom::new()?;
/// for (timestamp, symbol) in [(0, 1), (1, 1), (2, 0)] {
///     let release = mechanism.step(&mechanism.seal(timestamp, symbol)?, random)?;
///     assert!(matches!(release.statistic, Statistic::Symbol(answer) if answer.symbol < 2));
/// }
/// assert!(mechanism.leakage().total() <= 1.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Deserialize)]
#[serde(try_from = "Saved<CrrSettings>")]
pub struct Crr {
    settings: CrrSettings,
    state: SequenceState,
    limits: ChannelLimits,
}

impl Crr {
    /// Creates the mechanism. Mechanisms of many users can share one model.
    ///
    /// Algorithm 1 and Theorem 4 of Jiang, Li and Tandon 2024, [in full above](self).
    pub fn new(model: impl Into<Arc<Model>>, settings: CrrSettings) -> Result<Self, CrrError> {
        let model = model.into();
        settings.check(&model)?;
        let limits = ChannelLimits::new(settings.step()?)?;
        let state = SequenceState::new(model, settings.loss_budget()?, settings.window);
        Ok(Self { settings, state, limits })
    }

    /// Settings.
    pub const fn settings(&self) -> &CrrSettings {
        &self.settings
    }

    /// Model.
    pub fn model(&self) -> &Model {
        &self.state.model
    }

    /// Belief about the next symbol.
    pub const fn belief(&self) -> &Belief {
        &self.state.belief
    }

    /// Upper bound of the leakage so far.
    pub const fn leakage(&self) -> &Leakage {
        &self.state.leakage
    }

    /// Ledger, in losses of local privacy.
    pub const fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// Seals a symbol of the stream.
    pub fn seal(&self, timestamp: u64, symbol: u32) -> Result<Sealed<u32>, SymbolError> {
        primitives::seal_symbol(self.state.ledger.account(), timestamp, symbol, self.state.model.domain())
    }

    /// Channel of the next step.
    pub fn channel(&self) -> Result<Channel, CrrError> {
        self.channel_for(&self.state.belief)
    }

    fn channel_for(&self, belief: &Belief) -> Result<Channel, CrrError> {
        let CrrSettings { distance, effort, .. } = &self.settings;
        Ok(effort::channel(belief.present(), self.limits.epsilon(), distance, *effort)?)
    }

    /// Answers the symbol of a timestamp later than the last one. Timestamps may be skipped.
    ///
    /// Spends nothing if the best channel ignores the symbol.
    ///
    /// Save the mechanism before the release leaves the device: an earlier state lacks the spend and the updated
    /// belief.
    ///
    /// # Errors
    /// If nothing is left in the window, or the timestamp is not a later one. The belief is then as before.
    pub fn step(&mut self, symbol: &Sealed<u32>, random: &mut impl Randomness) -> Result<Release, CrrError> {
        self.step_and_save(symbol, random, |_| Ok::<(), Infallible>(())).map_err(|error| match error {
            StepError::Step(error) => error,
            StepError::NotSaved(never) => match never {},
        })
    }

    /// As [`Crr::step`], but calls `save` with the ledger between the spend and the answer.
    ///
    /// A saved ledger alone does not restore a mechanism: it lacks the belief. It only shows what was spent. To
    /// continue, save the whole mechanism after the answer and before the release leaves.
    pub fn step_and_save<E>(
        &mut self,
        symbol: &Sealed<u32>,
        random: &mut impl Randomness,
        save: impl FnOnce(&Ledger) -> Result<(), E>,
    ) -> Result<Release, StepError<E>> {
        let timestamp = symbol.timestamp();
        let mut belief = self.state.belief_at(timestamp, 1)?;
        self.state.seeded |= !random.provenance().is_private();
        let channel = self.channel_for(&belief)?;
        if let [(only, _)] = channel.outputs() {
            belief.pass(&self.state.model).map_err(CrrError::from)?;
            return Ok(self.finish(timestamp, belief, *only, None)?);
        }
        let kernel = SymbolChannel::new(&self.limits, channel.kernel_parts()).map_err(CrrError::from)?;
        let permit = match self.state.ledger.spend_and_save(timestamp, self.limits.loss(), save) {
            Ok(permit) => permit,
            Err(SpendError::Refused(refusal)) => return Err(CrrError::Refused(refusal).into()),
            Err(SpendError::NotSaved(error)) => return Err(StepError::NotSaved(error)),
        };
        let answer = kernel.answer(permit, symbol, random).map_err(CrrError::from)?.into_value();
        belief.release(&self.state.model, &channel, answer).map_err(CrrError::from)?;
        Ok(self.finish(timestamp, belief, answer, Some(self.limits.loss()))?)
    }

    /// Answers a timestamp without the symbol, for free: with the symbol of the least expected distance. For timestamps
    /// without budget.
    pub fn guess(&mut self, timestamp: u64) -> Result<Release, CrrError> {
        let mut belief = self.state.belief_at(timestamp, 1)?;
        let answer = self.settings.distance.best_answer(belief.present());
        belief.pass(&self.state.model)?;
        self.finish(timestamp, belief, answer, None)
    }

    /// Returns the release, and advances the time.
    fn finish(
        &mut self,
        timestamp: u64,
        belief: Belief,
        answer: u32,
        spent: Option<Epsilon>,
    ) -> Result<Release, CrrError> {
        self.state.ledger.close(timestamp)?;
        if spent.is_some() {
            self.state.leakage.note(timestamp, self.limits.epsilon());
        }
        self.state.move_on(timestamp, belief);
        let statistic = Symbol { symbol: answer, domain: self.state.model.domain() }.into();
        let (freshness, reports) = if spent.is_some() { (Freshness::Fresh, 1) } else { (Freshness::Approximated, 0) };
        let (spent, seeded) = (Spent::by_everyone(spent), self.state.seeded);
        Ok(Release { timestamp, statistic, freshness, spent, reports, seeded, why: None })
    }
}

impl Serialize for Crr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.saving(&self.settings, VERSION).serialize(serializer)
    }
}

impl TryFrom<Saved<CrrSettings>> for Crr {
    type Error = String;

    fn try_from(saved: Saved<CrrSettings>) -> Result<Self, String> {
        saved.restore(VERSION, Self::new, |mechanism| &mut mechanism.state)
    }
}
