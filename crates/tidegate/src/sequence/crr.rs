//! `crr`: conditional randomised response. At each step the channel that is best for what is believed of the present
//! symbol.
//!
//! ```text
//! belief ──▶ channel for epsilon and distance ──▶ kernel answers the sealed symbol ──▶ release ──▶ next belief
//! ```
//!
//! Beliefs and channels follow from the model and from what was released; only the kernel sees the symbol.

use std::convert::Infallible;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_kernel::primitives::{self, ChannelLimits, ChannelParts, PrimitiveError, SymbolChannel, SymbolError};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Refusal, Sealed, SpendError, Window};

use super::belief::Belief;
use super::channel::{Channel, ChannelMatrixError};
use super::course::{Course, Saved};
use super::distance::Distance;
use super::effort;
pub use super::effort::Effort;
use super::leakage::Leakage;
use super::model::{Model, ModelError};
use crate::release::{Freshness, Release, Spent, Symbol};

/// What epsilon and budget are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// Sequence information privacy: epsilon-SIP if the model is right, and 2 epsilon-LDP whether it is or not.
    Sequence,
    /// Local differential privacy, the robust mode: epsilon-LDP whatever the model, and epsilon/2-SIP if it is right.
    Local,
}

/// What a mechanism is set to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrrSettings {
    /// What each step spends, in units of the guarantee.
    pub epsilon: Epsilon,
    /// What is guaranteed.
    pub guarantee: Guarantee,
    /// The timestamps that share the budget.
    pub window: Window,
    /// What the steps of any window may spend together, in units of the guarantee.
    pub budget: Epsilon,
    /// What makes an answer a good one.
    pub distance: Distance,
    /// How hard the best channel is looked for.
    #[serde(default)]
    pub effort: Effort,
}

impl CrrSettings {
    /// Sequence information privacy of epsilon for each timestamp by itself, and as few wrong answers as possible.
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

    /// Whether they go with a model, and with this build of the library.
    pub(super) fn check(&self, model: &Model) -> Result<(), CrrError> {
        if let Some(given) = self.distance.domain().filter(|given| *given != model.domain() as usize) {
            return Err(CrrError::Matrix { given, expected: model.domain() });
        }
        if cfg!(not(feature = "programme")) && self.effort == Effort::Thorough {
            return Err(CrrError::NoProgramme);
        }
        Ok(())
    }

    /// The SIP of a step.
    pub(super) fn step(&self) -> Result<Epsilon, CrrError> {
        let error = CrrError::Epsilon { given: self.epsilon };
        match self.guarantee {
            Guarantee::Sequence => Ok(self.epsilon),
            Guarantee::Local => self.epsilon.divided_by(2).ok_or(error),
        }
    }

    /// The budget as a ledger counts: in losses of local privacy.
    pub(super) fn loss_budget(&self) -> Result<Epsilon, CrrError> {
        match self.guarantee {
            Guarantee::Sequence => self.budget.checked_mul(2).ok_or(CrrError::Budget { given: self.budget }),
            Guarantee::Local => Ok(self.budget),
        }
    }
}

/// Over how many timestamps without a release a belief is carried at most.
pub const MAX_GAP: u64 = 1 << 20;

/// Why a mechanism could not be made, or released nothing.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CrrError {
    #[error("epsilon {given} is too small to be guaranteed locally; its half is below {}", Epsilon::MIN)]
    Epsilon { given: Epsilon },
    #[error("a budget of {given} in units of sequence information privacy is more than {}, half of what can be counted", Epsilon::MAX.as_f64() / 2.0)]
    Budget { given: Epsilon },
    /// No channel has the epsilon, or the kernel does not take the channel for private.
    #[error(transparent)]
    Limits(#[from] primitives::ChannelError),
    /// No channel for the belief.
    #[error(transparent)]
    Channel(#[from] ChannelMatrixError),
    #[error("a thorough search needs the feature `programme`, without which the library was built")]
    NoProgramme,
    #[error("the matrix of distances is over {given} symbols, the model over {expected}")]
    Matrix { given: usize, expected: u32 },
    /// The belief could not be carried on.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The kernel did not answer.
    #[error(transparent)]
    Primitive(#[from] PrimitiveError),
    /// The ledger did not grant the step or the batch. Where too little was left for a step, the ledger's clock has
    /// moved to its timestamp; a batch is refused before the clock moves. A guess can still answer, for nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("timestamp {given} is not after the last one; the next is {next}")]
    Time { given: u64, next: u64 },
    #[error("timestamp {given} lies {gap} timestamps ahead, more than {MAX_GAP}, over which a belief is carried")]
    Gap { given: u64, gap: u64 },
}

/// Why [`Crr::step_and_save`] released nothing.
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
/// What holds for a window holds for changes of the symbols within that window. Symbols that are correlated with those
/// of other windows are told about by the releases of those, too; over a whole sequence the epsilons of all its steps
/// add up.
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
    course: Course,
    limits: ChannelLimits,
}

impl Crr {
    /// A mechanism that has released nothing yet. Mechanisms of many users can share one model.
    pub fn new(model: impl Into<Arc<Model>>, settings: CrrSettings) -> Result<Self, CrrError> {
        let model = model.into();
        settings.check(&model)?;
        let limits = ChannelLimits::new(settings.step()?)?;
        let course = Course::new(model, settings.loss_budget()?, settings.window);
        Ok(Self { settings, course, limits })
    }

    /// What it is set to.
    pub const fn settings(&self) -> &CrrSettings {
        &self.settings
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.course.model
    }

    /// What is believed of the next symbol.
    pub const fn belief(&self) -> &Belief {
        &self.course.belief
    }

    /// What was released so far has given away at most so much.
    pub const fn leakage(&self) -> &Leakage {
        &self.course.leakage
    }

    /// The ledger, in losses of local privacy.
    pub const fn ledger(&self) -> &Ledger {
        &self.course.ledger
    }

    /// Seals a symbol of the stream.
    pub fn seal(&self, timestamp: u64, symbol: u32) -> Result<Sealed<u32>, SymbolError> {
        primitives::seal_symbol(self.course.ledger.account(), timestamp, symbol, self.course.model.domain())
    }

    /// The channel that the next step would answer through.
    pub fn channel(&self) -> Result<Channel, CrrError> {
        self.channel_for(&self.course.belief)
    }

    fn channel_for(&self, belief: &Belief) -> Result<Channel, CrrError> {
        let CrrSettings { distance, effort, .. } = &self.settings;
        Ok(effort::channel(belief.present(), self.limits.epsilon(), distance, *effort)?)
    }

    /// Answers the symbol of a timestamp, which must lie after the last one. Timestamps may be left out.
    ///
    /// Where the best channel gives the same answer for all symbols, nothing is spent.
    ///
    /// The release must not leave the device before the mechanism was saved, where it is saved at all: a state from
    /// before a release has neither its spend nor what others can conclude from it.
    ///
    /// # Errors
    /// If nothing is left in the window, or the timestamp is not a later one. The belief is then as before.
    pub fn step(&mut self, symbol: &Sealed<u32>, random: &mut impl Randomness) -> Result<Release, CrrError> {
        self.step_and_save(symbol, random, |_| Ok::<(), Infallible>(())).map_err(|error| match error {
            StepError::Step(error) => error,
            StepError::NotSaved(never) => match never {},
        })
    }

    /// As [`Crr::step`]; between the spend and the answer, hands the ledger to `save`, and answers only once that has
    /// succeeded.
    ///
    /// The saved ledger alone does not restore a mechanism: it has the spend, but not the belief, which the answer
    /// changes. It shows after a crash what was spent; to carry on, save the mechanism as a whole after the answer and
    /// before the release leaves.
    pub fn step_and_save<E>(
        &mut self,
        symbol: &Sealed<u32>,
        random: &mut impl Randomness,
        save: impl FnOnce(&Ledger) -> Result<(), E>,
    ) -> Result<Release, StepError<E>> {
        let timestamp = symbol.timestamp();
        let mut belief = self.course.belief_at(timestamp, 1)?;
        self.course.seeded |= !random.provenance().is_private();
        let channel = self.channel_for(&belief)?;
        if let [(only, _)] = channel.outputs() {
            belief.pass(&self.course.model).map_err(CrrError::from)?;
            return Ok(self.finish(timestamp, belief, *only, None)?);
        }
        let kernel = SymbolChannel::new(&self.limits, parts(&channel)).map_err(CrrError::from)?;
        let permit = match self.course.ledger.spend_and_save(timestamp, self.limits.loss(), save) {
            Ok(permit) => permit,
            Err(SpendError::Refused(refusal)) => return Err(CrrError::Refused(refusal).into()),
            Err(SpendError::NotSaved(error)) => return Err(StepError::NotSaved(error)),
        };
        let answer = kernel.answer(permit, symbol, random).map_err(CrrError::from)?.into_value();
        belief.release(&self.course.model, &channel, answer).map_err(CrrError::from)?;
        Ok(self.finish(timestamp, belief, answer, Some(self.limits.loss()))?)
    }

    /// Answers for a timestamp without the symbol, and so for nothing: with the symbol whose expected distance is
    /// least. For timestamps at which the ledger has nothing left.
    pub fn guess(&mut self, timestamp: u64) -> Result<Release, CrrError> {
        let mut belief = self.course.belief_at(timestamp, 1)?;
        let answer = self.settings.distance.best_answer(belief.present());
        belief.pass(&self.course.model)?;
        self.finish(timestamp, belief, answer, None)
    }

    /// The release, and time moved on.
    fn finish(
        &mut self,
        timestamp: u64,
        belief: Belief,
        answer: u32,
        spent: Option<Epsilon>,
    ) -> Result<Release, CrrError> {
        self.course.ledger.close(timestamp)?;
        if spent.is_some() {
            self.course.leakage.note(timestamp, self.limits.epsilon());
        }
        self.course.move_on(timestamp, belief);
        let statistic = Symbol { symbol: answer, domain: self.course.model.domain() }.into();
        let (freshness, reports) = if spent.is_some() { (Freshness::Fresh, 1) } else { (Freshness::Approximated, 0) };
        let (spent, seeded) = (Spent::by_everyone(spent), self.course.seeded);
        Ok(Release { timestamp, statistic, freshness, spent, reports, seeded })
    }
}

/// A channel as the kernel takes it.
pub(super) fn parts(channel: &Channel) -> ChannelParts<'_> {
    ChannelParts {
        outputs: channel.outputs(),
        rows: channel.rows(),
        mixtures: channel.mixtures(),
        mixture_of: channel.mixture_of(),
    }
}

impl Serialize for Crr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.course.saving(&self.settings).serialize(serializer)
    }
}

impl TryFrom<Saved<CrrSettings>> for Crr {
    type Error = String;

    fn try_from(saved: Saved<CrrSettings>) -> Result<Self, String> {
        saved.restore(Self::new, |mechanism| &mut mechanism.course)
    }
}
