//! `batched`: several symbols released at once, through a channel over whole sequences.
//!
//! ```text
//! w symbols ──▶ belief over d^w sequences ──▶ channel ──▶ kernel answers the batch ──▶ w releases ──▶ next belief
//! ```
//!
//! At the same budget per symbol, a batch has fewer wrong symbols than single steps, and far fewer if symbols are
//! correlated. The price is a delay, and the number of sequences:
//!
//! | sequences `n = d^w` | channel | time for a batch |
//! | --- | --- | --- |
//! | up to [`PROGRAMME_LIMIT`], [`Effort::Thorough`] | optimum within 1 %, by linear programming | seconds at 256 |
//! | up to [`CLUSTER_LIMIT`] | [clusters](super::clusters), O(n e^epsilon): 0 to 20 % above | 0.1 s at 1,024 |
//! | any number, with a [support](BatchedSettings::support) | clusters of [classes](super::support) | .01 to .1 s |
//! | beyond | none: [`BatchChannelError::TooLarge`] names the size | |
//!
//! [`Effort::Thorough`]: super::effort::Effort::Thorough
//!
//! With a support, only the likeliest sequences are told apart, and of all others the middle symbol. Every sequence is
//! answered, also one that is believed impossible, and each with the same guarantee.
//!
//! For any length, [divide](BatchedSettings::part) a batch into parts. They are answered one after the other, each with
//! its share of epsilon and the belief after the parts before.
//!
//! Source: Jiang, Li and Tandon: Online Context-Aware Streaming Data Release with Sequence Information Privacy, IEEE
//! TIFS 19, 2024, doi:10.1109/TIFS.2024.3378008, Algorithm 2.

use std::convert::Infallible;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_kernel::primitives::{
    BatchError, ChannelLimits, ClassesError, SymbolBatch, SymbolChannel, SymbolSequence,
};
use tidegate_kernel::{Account, Epsilon, Ledger, Permit, Randomness, Sealed, SpendError};

pub use super::batch::{BatchChannelError, CLUSTER_LIMIT, PROGRAMME_LIMIT, channel};
use super::batch::{check_size, digits};
use super::belief::Belief;
use super::channel::Channel;
use super::crr::{self, CrrError};
use super::leakage::Leakage;
use super::model::{Model, ModelError};
use super::state::{SUPPORT_VERSION, Saved, SequenceState, VERSION};
use super::support::{self, MAX_SUPPORT, SupportedChannel};
use crate::release::{Freshness, Release, Spent, Symbol};

/// Maximum number of symbols in a batch, in all its parts.
pub const MAX_LENGTH: u32 = 1 << 16;

/// Settings of a batched mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchedSettings {
    /// As for single steps, with a batch in place of a symbol: epsilon is for a whole batch, and timestamps and window
    /// count batches. The distance of two sequences is the sum over their symbols.
    pub batch: crr::CrrSettings,
    /// Symbols in a batch.
    pub length: u32,
    /// Symbols answered together; all if not given. The last part may be shorter.
    pub part: Option<u32>,
    /// Number of likely sequences that are told apart, up to [`MAX_SUPPORT`]; all sequences if not given. Of any other
    /// sequence, its middle symbol is answered. For batches with too many sequences to tell all apart.
    pub support: Option<u32>,
}

/// Saved settings as text, in which a key may be missing.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedSettings {
    batch: crr::CrrSettings,
    length: u32,
    #[serde(default)]
    part: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    support: Option<u32>,
}

/// Saved settings as bytes, in which every field is present. Without a support they are those of version 1.
#[derive(Serialize, Deserialize)]
struct PlainSettings {
    batch: crr::CrrSettings,
    length: u32,
    part: PlainPart,
}

#[derive(Serialize, Deserialize)]
enum PlainPart {
    Whole,
    Part(u32),
    Supported { part: Option<u32>, support: u32 },
}

impl Serialize for BatchedSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { batch, length, part, support } = self.clone();
        if serializer.is_human_readable() {
            return NamedSettings { batch, length, part, support }.serialize(serializer);
        }
        let part = match (part, support) {
            (None, None) => PlainPart::Whole,
            (Some(part), None) => PlainPart::Part(part),
            (part, Some(support)) => PlainPart::Supported { part, support },
        };
        PlainSettings { batch, length, part }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BatchedSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let NamedSettings { batch, length, part, support } = NamedSettings::deserialize(deserializer)?;
            return Ok(Self { batch, length, part, support });
        }
        let PlainSettings { batch, length, part } = PlainSettings::deserialize(deserializer)?;
        let (part, support) = match part {
            PlainPart::Whole => (None, None),
            PlainPart::Part(part) => (Some(part), None),
            PlainPart::Supported { part, support } => (part, Some(support)),
        };
        Ok(Self { batch, length, part, support })
    }
}

impl BatchedSettings {
    /// Version of the saved form.
    const fn version(&self) -> u16 {
        if self.support.is_some() { SUPPORT_VERSION } else { VERSION }
    }
}

/// Error of a batched mechanism.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchedError {
    /// Too many sequences, or no channel for them.
    #[error(transparent)]
    Channel(#[from] BatchChannelError),
    #[error("a batch has at least one symbol, and so has a part of it")]
    Empty,
    #[error("a batch of {given} symbols is longer than {MAX_LENGTH}")]
    Length { given: u32 },
    #[error("timestamp {given} of a batch of {length} symbols is too large to give each symbol a timestamp of its own")]
    Timestamp { given: u64, length: u32 },
    #[error("epsilon {epsilon} cannot be divided among {parts} parts")]
    Share { epsilon: Epsilon, parts: usize },
    #[error("the batch was not gathered for this mechanism; use Batched::gather")]
    OtherBatch,
    /// A batch that could not be gathered or sealed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Classes of sequences that the kernel rejects.
    #[error(transparent)]
    Classes(#[from] ClassesError),
    /// Errors of single steps.
    #[error(transparent)]
    Step(#[from] CrrError),
}

macro_rules! by_way_of_step {
    ($($error:ty),*) => { $(
        impl From<$error> for BatchedError {
            fn from(error: $error) -> Self {
                Self::Step(error.into())
            }
        }
    )* };
}

by_way_of_step!(ModelError, tidegate_kernel::Refusal, tidegate_kernel::primitives::ChannelError);

/// Error of [`Batched::answer_and_save`].
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
pub enum AnswerError<E> {
    /// The answer failed.
    #[error(transparent)]
    Answer(#[from] BatchedError),
    #[error("the ledger could not be saved, so nothing was released: {0}")]
    NotSaved(E),
}

/// Batched mechanism on one user's stream; see the [module](self).
///
/// # Guarantee
/// As that of [`Crr`](crr::Crr), with a batch in place of a symbol: each batch is epsilon-SIP if the model is right
/// (whatever was released before, no sequence of symbols becomes more than e^epsilon times as likely, or as unlikely),
/// and 2 epsilon-LDP for any change of the whole batch whether it is or not. A window is a number of batches.
///
/// ```
/// use tidegate::kernel::SystemRandom;
/// use tidegate::sequence::batched::{Batched, BatchedSettings};
/// use tidegate::sequence::crr;
/// use tidegate::sequence::model::Model;
///
/// let model = Model::dense(vec![0.7, 0.3], vec![0.9, 0.1, 0.2, 0.8])?;
/// let settings = BatchedSettings { batch: crr::CrrSettings::new("3".parse()?), length: 3, part: None, support: None };
/// let mut mechanism = Batched::new(model, settings)?;
/// let mut batch = mechanism.gather()?;
/// for symbol in [0, 0, 1] {
///     batch.push(symbol)?;
/// }
/// let releases = mechanism.answer(0, batch, &mut SystemRandom::new()?)?;
/// assert_eq!(releases.iter().map(|release| release.timestamp).collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Deserialize)]
#[serde(try_from = "Saved<BatchedSettings>")]
pub struct Batched {
    settings: BatchedSettings,
    /// In batches: its belief is about the first symbol of the next one.
    state: SequenceState,
    parts: Vec<Part>,
}

/// Symbols of a batch that are answered together, and their spend.
#[derive(Clone, Copy, Debug)]
struct Part {
    length: u32,
    limits: ChannelLimits,
}

/// Channel of a part: over all its sequences, or over classes of them.
enum PartChannel {
    /// With the belief over sequences.
    Every(Channel, Vec<f64>),
    Supported(Box<SupportedChannel>),
}

impl PartChannel {
    fn channel(&self) -> &Channel {
        match self {
            Self::Every(channel, _) => channel,
            Self::Supported(supported) => supported.channel(),
        }
    }

    fn release(&self, model: &Model, length: u32, belief: &mut Belief, output: u32) -> Result<(), BatchedError> {
        match self {
            Self::Every(channel, _) => belief.release_sequence(model, length, channel, output)?,
            Self::Supported(supported) => supported.release(model, belief, output)?,
        };
        Ok(())
    }

    /// Symbols that an output stands for.
    fn symbols(&self, output: u32, domain: u32, length: u32) -> Vec<u32> {
        match self {
            Self::Every(..) => digits(output, domain, length),
            Self::Supported(supported) => supported.answers(output).unwrap_or_default().to_vec(),
        }
    }
}

/// Sealed parts of a batch.
enum SealedParts {
    Numbers(Vec<Sealed<u32>>),
    Sequences(Vec<Sealed<SymbolSequence>>),
}

impl SealedParts {
    fn new(batch: SymbolBatch, by_class: bool, account: Account, timestamp: u64) -> Result<Self, BatchedError> {
        Ok(if by_class {
            Self::Sequences(batch.seal_sequences(account, timestamp)?)
        } else {
            Self::Numbers(batch.seal(account, timestamp)?)
        })
    }

    fn answer(
        &self,
        number: usize,
        of_part: &PartChannel,
        kernel: &SymbolChannel,
        permit: Permit,
        random: &mut impl Randomness,
    ) -> Result<u32, BatchedError> {
        let answer = match (self, of_part) {
            (Self::Numbers(parts), PartChannel::Every(..)) => {
                kernel.answer(permit, parts.get(number).ok_or(BatchedError::OtherBatch)?, random)
            }
            (Self::Sequences(parts), PartChannel::Supported(supported)) => {
                let class = supported.classes().classify(parts.get(number).ok_or(BatchedError::OtherBatch)?)?;
                kernel.answer(permit, &class, random)
            }
            _ => return Err(BatchedError::OtherBatch),
        };
        Ok(answer.map_err(|error| BatchedError::Step(error.into()))?.into_value())
    }
}

impl Batched {
    /// Creates the mechanism. Mechanisms of many users can share one model.
    ///
    /// Algorithm 2 of Jiang, Li and Tandon 2024, [in full above](self).
    ///
    /// # Errors
    /// [`BatchChannelError::TooLarge`] where more than [`CLUSTER_LIMIT`] sequences would have to be told apart;
    /// [`BatchChannelError::Support`]; settings that are wrong for [`Crr`](crr::Crr), too.
    pub fn new(model: impl Into<Arc<Model>>, settings: BatchedSettings) -> Result<Self, BatchedError> {
        let model = model.into();
        settings.batch.check(&model)?;
        let parts = divide(&settings, model.domain())?;
        let state = SequenceState::new(model, settings.batch.loss_budget()?, settings.batch.window);
        Ok(Self { settings, state, parts })
    }

    /// Settings.
    pub const fn settings(&self) -> &BatchedSettings {
        &self.settings
    }

    /// Model.
    pub fn model(&self) -> &Model {
        &self.state.model
    }

    /// Belief about the first symbol of the next batch.
    pub const fn belief(&self) -> &Belief {
        &self.state.belief
    }

    /// Upper bound of the leakage so far, in batches.
    pub const fn leakage(&self) -> &Leakage {
        &self.state.leakage
    }

    /// Ledger, in losses of local privacy, and in batches.
    pub const fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// Creates an empty batch. It holds raw symbols, so it is no part of the saved state. After a stop in the middle of
    /// a batch, gather its symbols again.
    pub fn gather(&self) -> Result<SymbolBatch, BatchedError> {
        let lengths: Vec<u32> = self.parts.iter().map(|part| part.length).collect();
        let domain = self.state.model.domain();
        let batch = if self.settings.support.is_some() { SymbolBatch::wide } else { SymbolBatch::new };
        Ok(batch(domain, &lengths)?)
    }

    /// Returns the channel for the next batch, or its first part, and the belief that it fits: over sequences, numbered
    /// as [`SymbolBatch`] does or, with a [support](BatchedSettings::support), over their classes.
    pub fn channel(&self) -> Result<(Channel, Vec<f64>), BatchedError> {
        let Some(part) = self.parts.first() else { return Err(BatchedError::Empty) };
        Ok(match self.channel_of(part, &self.state.belief)? {
            PartChannel::Every(channel, belief) => (channel, belief),
            PartChannel::Supported(supported) => (supported.channel().clone(), supported.belief().to_vec()),
        })
    }

    fn channel_of(&self, part: &Part, belief: &Belief) -> Result<PartChannel, BatchedError> {
        let batch = &self.settings.batch;
        if let Some(sequences) = self.settings.support {
            let (model, epsilon) = (&self.state.model, part.limits.epsilon());
            let supported =
                support::channel(model, belief, part.length, sequences, epsilon, &batch.distance, batch.effort)?;
            return Ok(PartChannel::Supported(Box::new(supported)));
        }
        let sequences = belief.sequences(&self.state.model, part.length)?;
        let channel = channel(
            &sequences,
            self.state.model.domain(),
            part.length,
            part.limits.epsilon(),
            &batch.distance,
            batch.effort,
        )?;
        Ok(PartChannel::Every(channel, sequences))
    }

    /// Belief about the first symbol of a batch, after skipped batches.
    fn belief_at(&self, timestamp: u64) -> Result<Belief, BatchedError> {
        let length = self.settings.length;
        // The timestamp after the last symbol must fit too.
        if timestamp.checked_add(1).and_then(|batches| batches.checked_mul(u64::from(length))).is_none() {
            return Err(BatchedError::Timestamp { given: timestamp, length });
        }
        Ok(self.state.belief_at(timestamp, u64::from(length))?)
    }

    /// Answers a batch later than the last one; batches may be skipped. Returns one release for each symbol: symbol `i`
    /// of batch `timestamp` has the timestamp `timestamp · length + i`. The first states the spend.
    ///
    /// Spends nothing if the best channel ignores the sequence. Save the mechanism before the releases leave the
    /// device.
    ///
    /// # Errors
    /// If too little is left in the window for a whole batch at the first part that spends, the timestamp is not a
    /// later one (or too large), or the batch is incomplete or not from [`Batched::gather`]. The belief is then as
    /// before.
    pub fn answer(
        &mut self,
        timestamp: u64,
        batch: SymbolBatch,
        random: &mut impl Randomness,
    ) -> Result<Vec<Release>, BatchedError> {
        self.answer_and_save(timestamp, batch, random, |_| Ok::<(), Infallible>(())).map_err(|error| match error {
            AnswerError::Answer(error) => error,
            AnswerError::NotSaved(never) => match never {},
        })
    }

    /// As [`Batched::answer`], but calls `save` with the ledger between each spend and its answer.
    ///
    /// A saved ledger alone does not restore a mechanism: it lacks the belief. It only shows what was spent. To
    /// continue, save the whole mechanism after the answer and before the releases leave.
    pub fn answer_and_save<E>(
        &mut self,
        timestamp: u64,
        batch: SymbolBatch,
        random: &mut impl Randomness,
        mut save: impl FnMut(&Ledger) -> Result<(), E>,
    ) -> Result<Vec<Release>, AnswerError<E>> {
        let mut belief = self.belief_at(timestamp)?;
        if !batch.fits(self.state.model.domain(), self.parts.iter().map(|part| part.length)) {
            return Err(BatchedError::OtherBatch.into());
        }
        self.state.seeded |= !random.provenance().is_private();
        let sealed = SealedParts::new(batch, self.settings.support.is_some(), self.state.ledger.account(), timestamp)?;
        let whole = self.settings.batch.step().map_err(BatchedError::from)?;
        let loss = whole.checked_mul(2).ok_or(BatchedError::Step(CrrError::Budget { given: whole }))?;
        let mut symbols = Vec::with_capacity(self.settings.length as usize);
        let (mut spent, mut leaked) = (None::<Epsilon>, None::<Epsilon>);
        for (number, part) in self.parts.clone().iter().enumerate() {
            let of_part = self.channel_of(part, &belief)?;
            let channel = of_part.channel();
            let answer = if let [(only, _)] = channel.outputs() {
                for _ in 0..part.length {
                    belief.pass(&self.state.model).map_err(BatchedError::from)?;
                }
                *only
            } else {
                let kernel = SymbolChannel::new(&part.limits, channel.kernel_parts()).map_err(BatchedError::from)?;
                // All parts or none: the budget must suffice for all of them.
                if spent.is_none() {
                    self.state.ledger.check(timestamp, loss).map_err(BatchedError::from)?;
                }
                let permit = match self.state.ledger.spend_and_save(timestamp, part.limits.loss(), &mut save) {
                    Ok(permit) => permit,
                    Err(SpendError::Refused(refusal)) => return Err(BatchedError::from(refusal).into()),
                    Err(SpendError::NotSaved(error)) => return Err(AnswerError::NotSaved(error)),
                };
                let answer = sealed.answer(number, &of_part, &kernel, permit, random)?;
                of_part.release(&self.state.model, part.length, &mut belief, answer)?;
                let add = |sum: Option<Epsilon>, more: Epsilon| sum.map_or(Some(more), |sum| sum.checked_add(more));
                spent = add(spent, part.limits.loss());
                leaked = add(leaked, part.limits.epsilon());
                answer
            };
            symbols.extend(of_part.symbols(answer, self.state.model.domain(), part.length));
        }
        self.state.ledger.close(timestamp).map_err(BatchedError::from)?;
        if let Some(leaked) = leaked {
            self.state.leakage.note(timestamp, leaked);
        }
        self.state.move_on(timestamp, belief);
        Ok(self.releases(timestamp, &symbols, spent))
    }

    /// Answers a batch without its symbols, for free: each with the symbol of the least expected distance. For batches
    /// without budget.
    ///
    /// # Errors
    /// If the timestamp is not a later one.
    pub fn guess(&mut self, timestamp: u64) -> Result<Vec<Release>, BatchedError> {
        let mut belief = self.belief_at(timestamp)?;
        let mut symbols = Vec::with_capacity(self.settings.length as usize);
        for _ in 0..self.settings.length {
            symbols.push(self.settings.batch.distance.best_answer(belief.present()));
            belief.pass(&self.state.model)?;
        }
        self.state.ledger.close(timestamp)?;
        self.state.move_on(timestamp, belief);
        Ok(self.releases(timestamp, &symbols, None))
    }

    fn releases(&self, timestamp: u64, symbols: &[u32], spent: Option<Epsilon>) -> Vec<Release> {
        let first = timestamp * u64::from(self.settings.length); // no more than `belief_at` lets pass
        let (freshness, reports) = if spent.is_some() { (Freshness::Fresh, 1) } else { (Freshness::Approximated, 0) };
        let domain = self.state.model.domain();
        let mut releases: Vec<Release> = symbols
            .iter()
            .zip(first..)
            .map(|(&symbol, timestamp)| {
                let statistic = Symbol { symbol, domain }.into();
                Release {
                    timestamp,
                    statistic,
                    freshness,
                    spent: Spent::Nothing,
                    reports,
                    seeded: self.state.seeded,
                    why: None,
                }
            })
            .collect();
        if let Some(first) = releases.first_mut() {
            first.spent = Spent::by_everyone(spent);
        }
        releases
    }
}

/// Divides a batch into parts. Epsilon is split by the number of symbols; the last part gets the rest.
fn divide(settings: &BatchedSettings, domain: u32) -> Result<Vec<Part>, BatchedError> {
    let part = settings.part.unwrap_or(settings.length).min(settings.length);
    if part == 0 {
        return Err(BatchedError::Empty);
    }
    if settings.length > MAX_LENGTH {
        return Err(BatchedError::Length { given: settings.length });
    }
    match settings.support {
        None => check_size(domain, part)?,
        Some(given) if (1..=MAX_SUPPORT).contains(&given) => {}
        Some(given) => return Err(BatchChannelError::Support { given }.into()),
    }
    let whole = settings.batch.step()?;
    let count = settings.length.div_ceil(part);
    let error = BatchedError::Share { epsilon: whole, parts: count as usize };
    let mut left = Some(whole);
    let mut parts = Vec::with_capacity(count as usize);
    for number in 0..count {
        let length = part.min(settings.length - number * part);
        let share =
            if number + 1 == count { left } else { whole.portion(u64::from(length), u64::from(settings.length)) };
        let share = share.ok_or(error.clone())?;
        left = left.and_then(|left| left.checked_sub(share));
        parts.push(Part { length, limits: ChannelLimits::new(share)? });
    }
    Ok(parts)
}

impl Serialize for Batched {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.saving(&self.settings, self.settings.version()).serialize(serializer)
    }
}

impl TryFrom<Saved<BatchedSettings>> for Batched {
    type Error = String;

    fn try_from(saved: Saved<BatchedSettings>) -> Result<Self, String> {
        let version = saved.settings().version();
        saved.restore(version, Self::new, |mechanism| &mut mechanism.state)
    }
}
