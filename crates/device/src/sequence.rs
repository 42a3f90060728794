//! Sequences: a device releases its own stream of symbols through channels that follow from its policy and its earlier
//! releases.
//!
//! ```text
//! model, releases ──▶ belief ──▶ channel ──▶ kernel answers the sealed symbols ──▶ release ──▶ next belief
//! ```
//!
//! # Guarantee
//! A release is epsilon-SIP if the policy's model is right, and 2 epsilon-LDP whatever is right. The ledger is debited
//! with 2 epsilon, the amount that holds without a condition. A channel that ignores the symbols costs nothing. Beliefs
//! and channels depend on the policy and on releases, never on symbols.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::{ChannelError, ChannelLimits, SymbolBatch, SymbolChannel};
use tidegate_kernel::{Epsilon, Question, View};
use tidegate_sequence::batch::{self, BatchChannelError};
use tidegate_sequence::belief::Belief;
use tidegate_sequence::channel::Channel;
use tidegate_sequence::distance::Distance;
use tidegate_sequence::effort::Effort;
use tidegate_sequence::model::{Model, ModelError, SparseRow};

use crate::device::DevicePolicy;

/// What a probability of a [`PolicyModel`] counts: billionths, so that every device reads the same number.
pub const BILLION: u32 = 1_000_000_000;

/// Maximum number of symbols of a model.
pub const MAX_SYMBOLS: usize = 4_096;

/// Maximum number of entries in the rows of a model.
pub const MAX_ENTRIES: usize = 1 << 16;

/// Maximum number of symbols that are answered together.
pub const MAX_LENGTH: u32 = 14;

/// Maximum number of timestamps over which a belief is carried; beyond, it stays as it is there.
const MAX_GAP: u64 = 1 << 14;

/// How devices release sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequencePolicy {
    /// The mechanism.
    pub mechanism: SequenceMechanism,
    /// Sequence information privacy of a release, if the model is right. The ledger is debited with twice as much: the
    /// loss of local privacy, whatever is right.
    pub epsilon: Epsilon,
    /// The distance that answers keep small.
    pub metric: Metric,
    /// The public model.
    pub model: PolicyModel,
}

/// A sequence mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceMechanism {
    /// Each symbol by itself.
    Crr,
    /// Several symbols together, at the last of their timestamps. Batches begin at multiples of their length.
    Batched {
        /// How many symbols.
        length: u32,
    },
}

impl SequenceMechanism {
    /// The number of symbols of a release.
    pub const fn length(self) -> u32 {
        match self {
            Self::Crr => 1,
            Self::Batched { length } => length,
        }
    }
}

impl fmt::Display for SequenceMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crr => formatter.write_str("crr"),
            Self::Batched { length } => write!(formatter, "batched by {length}"),
        }
    }
}

/// Distance between a symbol and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// One for a wrong answer.
    Hamming,
    /// `|x - y|`.
    Absolute,
    /// `(x - y)²`.
    Squared,
    /// Euclidean, between cells of a grid numbered by rows.
    Grid {
        /// Cells in a row, at least one.
        columns: u32,
    },
}

impl Metric {
    /// The metric of a distance; `None` for a table, which a policy cannot hold.
    pub const fn of(distance: &Distance) -> Option<Self> {
        Some(match distance {
            Distance::Hamming => Self::Hamming,
            Distance::Absolute => Self::Absolute,
            Distance::Squared => Self::Squared,
            Distance::Grid { columns } => Self::Grid { columns: *columns },
            _ => return None,
        })
    }

    const fn distance(self) -> Distance {
        match self {
            Self::Hamming => Distance::Hamming,
            Self::Absolute => Distance::Absolute,
            Self::Squared => Distance::Squared,
            Self::Grid { columns } => Distance::Grid { columns },
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hamming => formatter.write_str("hamming"),
            Self::Absolute => formatter.write_str("absolute"),
            Self::Squared => formatter.write_str("squared"),
            Self::Grid { columns } => write!(formatter, "grid of {columns} columns"),
        }
    }
}

/// A Markov chain of order 1, in [billionths](BILLION). Each distribution sums to exactly a billion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyModel {
    /// How likely each symbol is at the beginning.
    pub prior: Vec<u32>,
    /// A row for each symbol: how likely each is to follow it.
    pub rows: Vec<PolicyRow>,
    /// What the rest of all rows is divided by.
    pub background: Vec<u32>,
}

/// A row of a [`PolicyModel`]. Its entries and its rest sum to a billion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRow {
    /// Ascending symbols and their probabilities.
    pub own: Vec<(u32, u32)>,
    /// What goes to the background.
    pub rest: u32,
}

/// Why a device cannot release sequences under a policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum SequenceError {
    /// An invalid model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No channel has this epsilon.
    #[error(transparent)]
    Epsilon(#[from] ChannelError),
    /// Too many sequences.
    #[error(transparent)]
    Batch(#[from] BatchChannelError),
    /// A distribution that does not sum to a billion.
    #[error("{what} {row} of the policy's model sums to {given} billionths, not to {BILLION}")]
    Sum { what: &'static str, row: usize, given: u64 },
    /// A model that is too large for a policy.
    #[error(
        "a policy's model has at most {MAX_SYMBOLS} symbols and {MAX_ENTRIES} entries, not {symbols} and {entries}"
    )]
    Size { symbols: usize, entries: usize },
    /// A model of order 2.
    #[error("a policy's model is of order 1")]
    Order,
    /// A model over another domain.
    #[error("the model is over {given} symbols, the policy over {expected}")]
    Domain { given: usize, expected: u32 },
    /// A batch without symbols, or too long.
    #[error("a batch of {given} symbols is outside 1..={MAX_LENGTH}")]
    Length { given: u32 },
    /// A grid without columns.
    #[error("a grid has at least one column")]
    Columns,
    /// A budget that no release fits into.
    #[error("a release costs {loss}, more than {budget}, the budget of a window")]
    Budget { loss: Epsilon, budget: Epsilon },
    /// An oracle in a policy of sequences.
    #[error("sequences are not answered by an oracle")]
    Oracle,
}

impl PolicyModel {
    /// Rounds a model to billionths. What rounding leaves goes to the largest entry of each distribution.
    ///
    /// # Errors
    /// A model of order 2, or one that is too large.
    pub fn of(model: &Model) -> Result<Self, SequenceError> {
        let (rows, background) = model.rows().ok_or(SequenceError::Order)?;
        let row = |row: &SparseRow| {
            let shares: Vec<f64> = row.own.iter().map(|(_, share)| *share).chain([row.left]).collect();
            let mut shares = to_billionths(&shares);
            let rest = shares.pop().unwrap_or(0);
            let symbols = row.own.iter().map(|(symbol, _)| *symbol);
            PolicyRow { own: symbols.zip(shares).filter(|(_, share)| *share > 0).collect(), rest }
        };
        let model = Self {
            prior: to_billionths(model.prior()),
            rows: rows.iter().map(row).collect(),
            background: to_billionths(&background),
        };
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), SequenceError> {
        let (symbols, entries) = (self.prior.len(), self.rows.iter().map(|row| row.own.len()).sum());
        if symbols > MAX_SYMBOLS || entries > MAX_ENTRIES || self.rows.len() > MAX_SYMBOLS {
            return Err(SequenceError::Size { symbols, entries });
        }
        let check = |what, row, given: u64| match given {
            given if given == u64::from(BILLION) => Ok(()),
            given => Err(SequenceError::Sum { what, row, given }),
        };
        let sum = |shares: &[u32]| shares.iter().map(|share| u64::from(*share)).sum();
        check("the prior, row", 0, sum(&self.prior))?;
        check("the background, row", 0, sum(&self.background))?;
        for (number, PolicyRow { own, rest }) in self.rows.iter().enumerate() {
            check("row", number, own.iter().map(|(_, share)| u64::from(*share)).sum::<u64>() + u64::from(*rest))?;
        }
        Ok(())
    }

    /// The model.
    ///
    /// # Errors
    /// Distributions that do not sum to a billion, rows that do not fit, and a model that is too large.
    pub fn model(&self) -> Result<Model, SequenceError> {
        self.check()?;
        let share = |share: &u32| f64::from(*share) / f64::from(BILLION);
        let row = |row: &PolicyRow| SparseRow {
            own: row.own.iter().map(|(symbol, own)| (*symbol, share(own))).collect(),
            left: share(&row.rest),
        };
        let all = |shares: &[u32]| shares.iter().map(share).collect();
        Ok(Model::sparse(all(&self.prior), self.rows.iter().map(row).collect(), all(&self.background))?)
    }
}

/// Rounds shares of one to billionths that sum to a billion.
fn to_billionths(shares: &[f64]) -> Vec<u32> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shares lie between 0 and 1
    let mut rounded: Vec<u32> = shares.iter().map(|share| (share * f64::from(BILLION)).round() as u32).collect();
    let sum: i64 = rounded.iter().map(|share| i64::from(*share)).sum();
    if let Some(largest) = rounded.iter_mut().max() {
        let settled = i64::from(*largest) + i64::from(BILLION) - sum;
        *largest = u32::try_from(settled).unwrap_or(*largest);
    }
    rounded
}

impl SequencePolicy {
    /// The loss of local privacy of a release, whatever is right: what the ledger is debited with.
    ///
    /// # Errors
    /// An epsilon that no channel has.
    pub fn loss(&self) -> Result<Epsilon, SequenceError> {
        Ok(ChannelLimits::new(self.epsilon)?.loss())
    }

    /// Checks that a device can follow the policy.
    pub(crate) fn check(&self, protects: &DevicePolicy, oracle: Option<OracleKind>) -> Result<(), SequenceError> {
        if oracle.is_some() {
            return Err(SequenceError::Oracle);
        }
        if self.metric == (Metric::Grid { columns: 0 }) {
            return Err(SequenceError::Columns);
        }
        let (given, expected) = (self.model.prior.len(), protects.domain);
        if given != expected as usize {
            return Err(SequenceError::Domain { given, expected });
        }
        let (loss, budget) = (self.loss()?, protects.epsilon);
        if loss > budget {
            return Err(SequenceError::Budget { loss, budget });
        }
        SequenceRule::new(self).map(drop)
    }
}

/// A sequence policy, prepared for answering. Many devices can share it.
#[derive(Clone, Debug)]
pub struct SequenceRule {
    model: Arc<Model>,
    limits: ChannelLimits,
    distance: Distance,
    length: u32,
}

/// A release, as far as it follows from earlier ones.
pub(crate) enum Planned {
    /// An answer that ignores the symbols, and costs nothing.
    Constant(u32),
    /// A channel that the kernel has checked, and the belief that it is for.
    Drawn(Box<(SymbolChannel, Channel, Belief)>),
}

impl SequenceRule {
    /// Prepares a policy.
    ///
    /// # Errors
    /// A policy that no device can follow.
    pub fn new(policy: &SequencePolicy) -> Result<Self, SequenceError> {
        let length = policy.mechanism.length();
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(SequenceError::Length { given: length });
        }
        let model = policy.model.model()?;
        if length > 1 {
            batch::check_size(model.domain(), length)?;
        }
        let limits = ChannelLimits::new(policy.epsilon)?;
        Ok(Self { model: Arc::new(model), limits, distance: policy.metric.distance(), length })
    }

    /// The number of symbols of a release.
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// The loss of a release.
    pub(crate) const fn loss(&self) -> Epsilon {
        self.limits.loss()
    }

    /// The number of possible answers.
    pub(crate) fn sequences(&self) -> u32 {
        self.model.domain().saturating_pow(self.length)
    }

    /// The first timestamp of the batch that a timestamp belongs to.
    pub(crate) fn start(&self, timestamp: u64) -> u64 {
        timestamp - timestamp % u64::from(self.length)
    }

    /// An empty batch.
    pub(crate) fn gather(&self) -> Option<SymbolBatch> {
        SymbolBatch::new(self.model.domain(), &[self.length]).ok()
    }

    /// The batch of these symbols. `None` if one is outside the domain, or there are too many.
    pub fn batch_of(&self, symbols: impl IntoIterator<Item = u32>) -> Option<SymbolBatch> {
        let mut batch = self.gather()?;
        symbols.into_iter().all(|symbol| batch.push(symbol).is_ok()).then_some(batch)
    }

    /// Whether a question asks for what the policy allows.
    pub(crate) fn allows(&self, question: &Question) -> bool {
        let Question { timestamp, phase: _, cohort: _, epsilon, oracle, domain: _, view } = question;
        let ends = (timestamp % u64::from(self.length)) + 1 == u64::from(self.length);
        let form = *view == (View::Sequence { length: self.length }) && *oracle == OracleKind::Grr;
        form && *epsilon == self.loss() && ends
    }

    /// The next release, for the batch that ends at a timestamp. `None` if no channel is found.
    pub(crate) fn plan(&self, memory: &SequenceMemory, timestamp: u64) -> Option<Planned> {
        let belief = memory.belief_at(&self.model, self.start(timestamp))?;
        let sequences = belief.sequences(&self.model, self.length).ok()?;
        let (domain, epsilon) = (self.model.domain(), self.limits.epsilon());
        let channel = batch::channel(&sequences, domain, self.length, epsilon, &self.distance, Effort::Fast).ok()?;
        if let [(only, _)] = channel.outputs() {
            return Some(Planned::Constant(*only));
        }
        let kernel = SymbolChannel::new(&self.limits, channel.kernel_parts()).ok()?;
        Some(Planned::Drawn(Box::new((kernel, channel, belief))))
    }
}

/// What a device remembers of its releases. It depends on them alone, so it is public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceMemory {
    /// The belief about the symbol of the next timestamp.
    belief: Belief,
    /// The timestamp after the last release; `None` before the first.
    // Required, though it may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    next: Option<u64>,
}

impl SequenceMemory {
    /// The memory of a device that has released nothing.
    pub fn new(rule: &SequenceRule) -> Self {
        Self { belief: Belief::new(&rule.model), next: None }
    }

    /// Whether it can be a memory under a rule.
    pub(crate) fn fits(&self, rule: &SequenceRule) -> bool {
        self.belief.fits(&rule.model)
    }

    /// Whether the symbols from a timestamp on are unreleased.
    pub(crate) fn is_before(&self, start: u64) -> bool {
        self.next.is_none_or(|next| next <= start)
    }

    /// The belief about the symbol of a later timestamp.
    fn belief_at(&self, model: &Model, timestamp: u64) -> Option<Belief> {
        let mut belief = self.belief.clone();
        let gap = self.next.map_or(0, |next| timestamp.saturating_sub(next)).min(MAX_GAP);
        for _ in 0..gap {
            let before = belief.present().to_vec();
            belief.pass(model).ok()?;
            // A chain that has settled stays where it is.
            if belief.present() == before {
                break;
            }
        }
        Some(belief)
    }

    /// Takes note of a release that was drawn.
    pub(crate) fn release(
        &mut self,
        rule: &SequenceRule,
        timestamp: u64,
        (_, channel, mut belief): (SymbolChannel, Channel, Belief),
        answer: u32,
    ) -> Option<()> {
        belief.release_sequence(&rule.model, rule.length, &channel, answer).ok()?;
        *self = Self { belief, next: Some(timestamp.saturating_add(1)) };
        Some(())
    }

    /// Takes note of a release that ignored the symbols.
    pub(crate) fn pass(&mut self, rule: &SequenceRule, timestamp: u64) -> Option<()> {
        let next = timestamp.saturating_add(1);
        if self.next.is_none() {
            // The prior is about the first symbol.
            self.next = Some(rule.start(timestamp));
        }
        let belief = self.belief_at(&rule.model, next)?;
        *self = Self { belief, next: Some(next) };
        Some(())
    }
}
