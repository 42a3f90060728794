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
//! | beyond | none: [`BatchedError::TooLarge`] names the size | |
//!
//! For any length, [divide](BatchedSettings::part) a batch into parts. They are answered one after the other, each with
//! its share of epsilon and the belief after the parts before.

use std::convert::Infallible;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_kernel::primitives::{BatchError, ChannelLimits, SymbolBatch, SymbolChannel};
use tidegate_kernel::{Epsilon, Ledger, Randomness, SpendError};

use super::belief::Belief;
use super::bins::{self, Shares, index};
use super::channel::{Channel, ChannelMatrixError};
use super::clusters::best_clusters;
use super::crr::{self, CrrError};
use super::distance::Distance;
use super::effort::{self, Effort};
use super::leakage::Leakage;
use super::model::{Model, ModelError};
use super::state::{Saved, SequenceState};
use crate::release::{Freshness, Release, Spent, Symbol};

/// Maximum number of sequences for the optimal channel, with [`Effort::Thorough`] (feature `programme`).
pub const PROGRAMME_LIMIT: u64 = 256;

/// Maximum number of sequences of a batch, or of a part of one. Beyond, clusters are too few for longer batches to pay.
pub const CLUSTER_LIMIT: u64 = 1 << 14;

/// Maximum number of symbols in a batch, in all its parts.
pub const MAX_LENGTH: u32 = 1 << 16;

/// Maximum number of further answers of the linear programme, besides cluster representatives: the likeliest sequences.
#[cfg(feature = "programme")]
const ANSWERS: usize = 96;

/// Settings of a batched mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchedSettings {
    /// As for single steps, with a batch in place of a symbol: epsilon is for a whole batch, and timestamps and window
    /// count batches. The distance of two sequences is the sum over their symbols.
    pub batch: crr::CrrSettings,
    /// Symbols in a batch.
    pub length: u32,
    /// Symbols answered together; all if not given. The last part may be shorter.
    #[serde(default)]
    pub part: Option<u32>,
}

/// Error of a batched mechanism.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchedError {
    #[error(
        "sequences of {length} symbols from a domain of {domain} are {sequences}, more than {CLUSTER_LIMIT}; \
         {}", advice(*.longest)
    )]
    TooLarge { domain: u32, length: u32, sequences: String, longest: u32 },
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

by_way_of_step!(ModelError, ChannelMatrixError, tidegate_kernel::Refusal, tidegate_kernel::primitives::ChannelError);

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
/// let settings = BatchedSettings { batch: crr::CrrSettings::new("3".parse()?), length: 3, part: None };
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

impl Batched {
    /// Creates the mechanism. Mechanisms of many users can share one model.
    ///
    /// # Errors
    /// [`BatchedError::TooLarge`] where more than [`CLUSTER_LIMIT`] sequences would have to be told apart; settings
    /// that are wrong for [`Crr`](crr::Crr), too.
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
        Ok(SymbolBatch::new(self.state.model.domain(), &lengths)?)
    }

    /// Returns the channel for the next batch, or its first part, and the belief that it fits: over sequences, numbered
    /// as [`SymbolBatch`] does.
    pub fn channel(&self) -> Result<(Channel, Vec<f64>), BatchedError> {
        let Some(part) = self.parts.first() else { return Err(BatchedError::Empty) };
        self.channel_of(part, &self.state.belief)
    }

    fn channel_of(&self, part: &Part, belief: &Belief) -> Result<(Channel, Vec<f64>), BatchedError> {
        let sequences = belief.sequences(&self.state.model, part.length)?;
        let batch = &self.settings.batch;
        let channel = channel(
            &sequences,
            self.state.model.domain(),
            part.length,
            part.limits.epsilon(),
            &batch.distance,
            batch.effort,
        )?;
        Ok((channel, sequences))
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
        let sealed = batch.seal(self.state.ledger.account(), timestamp).map_err(BatchedError::from)?;
        let whole = self.settings.batch.step().map_err(BatchedError::from)?;
        let loss = whole.checked_mul(2).ok_or(BatchedError::Step(CrrError::Budget { given: whole }))?;
        let mut symbols = Vec::with_capacity(self.settings.length as usize);
        let (mut spent, mut leaked) = (None::<Epsilon>, None::<Epsilon>);
        for (part, sealed) in self.parts.clone().iter().zip(&sealed) {
            let (channel, _) = self.channel_of(part, &belief)?;
            let answer = if let [(only, _)] = channel.outputs() {
                for _ in 0..part.length {
                    belief.pass(&self.state.model).map_err(BatchedError::from)?;
                }
                *only
            } else {
                let kernel = SymbolChannel::new(&part.limits, crr::parts(&channel)).map_err(BatchedError::from)?;
                // All parts or none: the budget must suffice for all of them.
                if spent.is_none() {
                    self.state.ledger.check(timestamp, loss).map_err(BatchedError::from)?;
                }
                let permit = match self.state.ledger.spend_and_save(timestamp, part.limits.loss(), &mut save) {
                    Ok(permit) => permit,
                    Err(SpendError::Refused(refusal)) => return Err(BatchedError::from(refusal).into()),
                    Err(SpendError::NotSaved(error)) => return Err(AnswerError::NotSaved(error)),
                };
                let answer = kernel.answer(permit, sealed, random);
                let answer = answer.map_err(|error| BatchedError::Step(error.into()))?.into_value();
                let released = belief.release_sequence(&self.state.model, part.length, &channel, answer);
                released.map_err(BatchedError::from)?;
                let add = |sum: Option<Epsilon>, more: Epsilon| sum.map_or(Some(more), |sum| sum.checked_add(more));
                spent = add(spent, part.limits.loss());
                leaked = add(leaked, part.limits.epsilon());
                answer
            };
            symbols.extend(digits(answer, self.state.model.domain(), part.length));
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
                Release { timestamp, statistic, freshness, spent: Spent::Nothing, reports, seeded: self.state.seeded }
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
    check_size(domain, part)?;
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

/// Advice about too many sequences; `longest` is the length of which there are few enough.
fn advice(longest: u32) -> String {
    match longest {
        0 => "one symbol is too many already: merge values of the domain, or release symbols one by one with crr"
            .to_owned(),
        longest => format!("release batches, or divide them into parts, of at most {longest}"),
    }
}

/// Rejects too many sequences.
fn check_size(domain: u32, length: u32) -> Result<(), BatchedError> {
    let sequences = |length| u64::from(domain).checked_pow(length);
    if sequences(length).is_some_and(|sequences| sequences <= CLUSTER_LIMIT) {
        return Ok(());
    }
    let longest = (1..length).take_while(|length| sequences(*length).is_some_and(|n| n <= CLUSTER_LIMIT)).last();
    let sequences = sequences(length).map_or_else(|| format!("{domain}^{length}"), |sequences| sequences.to_string());
    Err(BatchedError::TooLarge { domain, length, sequences, longest: longest.unwrap_or(0) })
}

/// Symbols of a sequence, from its number.
fn digits(mut number: u32, domain: u32, length: u32) -> Vec<u32> {
    let mut symbols = Vec::with_capacity(length as usize);
    for _ in 0..length {
        symbols.push(number % domain);
        number /= domain;
    }
    symbols.reverse();
    symbols
}

/// All sequences, and their distances: sums over their symbols.
struct Sequences {
    domain: usize,
    length: usize,
    /// Symbols of all sequences, one after the other.
    symbols: Vec<u32>,
    /// Distances between symbols, row by row.
    table: Vec<f64>,
    /// Expected distance for each position and answer.
    means: Vec<Vec<f64>>,
}

impl Sequences {
    fn new(belief: &[f64], domain: u32, length: u32, distance: &Distance) -> Self {
        let symbols: Vec<u32> = (0..index(belief.len())).flat_map(|number| digits(number, domain, length)).collect();
        let table: Vec<f64> =
            (0..domain).flat_map(|symbol| (0..domain).map(move |answer| distance.between(symbol, answer))).collect();
        let mut sequences =
            Self { domain: domain as usize, length: length as usize, symbols, table, means: Vec::new() };
        let all: Vec<(u32, f64)> = (0_u32..).zip(belief.iter().copied()).collect();
        sequences.means = sequences.distances_by_position(&all);
        sequences
    }

    fn of(&self, number: u32) -> &[u32] {
        let begin = number as usize * self.length;
        &self.symbols[begin..begin + self.length]
    }

    fn between(&self, one: u32, other: u32) -> f64 {
        let pairs = self.of(one).iter().zip(self.of(other));
        pairs.map(|(symbol, answer)| self.table[*symbol as usize * self.domain + *answer as usize]).sum()
    }

    fn mean(&self, answer: u32) -> f64 {
        self.means.iter().zip(self.of(answer)).map(|(means, answer)| means[*answer as usize]).sum()
    }

    /// Sum of weighted distances from these sequences, for each position and answer.
    fn distances_by_position(&self, members: &[(u32, f64)]) -> Vec<Vec<f64>> {
        let mut weights = vec![vec![0.0; self.domain]; self.length];
        for (number, weight) in members {
            for (weights, symbol) in weights.iter_mut().zip(self.of(*number)) {
                weights[*symbol as usize] += weight;
            }
        }
        let sum = |weights: &[f64], answer: usize| -> f64 {
            let rows = weights.iter().zip(self.table.chunks_exact(self.domain));
            rows.filter(|(weight, _)| **weight > 0.0).map(|(weight, row)| weight * row[answer]).sum()
        };
        weights.iter().map(|weights| (0..self.domain).map(|answer| sum(weights, answer)).collect()).collect()
    }

    /// Best answer for a cluster, found symbol by symbol, as the distance is a sum.
    fn representative(&self, members: &[(u32, f64)], mass: f64, independent: f64) -> u32 {
        let own = self.distances_by_position(members);
        own.iter().zip(&self.means).fold(0, |number, (own, means)| {
            let cost = |answer: usize| (1.0 - independent) * own[answer] + independent * mass * means[answer];
            let best = (0..self.domain).min_by(|one, other| cost(*one).total_cmp(&cost(*other)));
            number * index(self.domain) + index(best.unwrap_or(0))
        })
    }
}

/// Returns an epsilon-SIP channel for a belief over sequences of `length` symbols, numbered as [`SymbolBatch`] does.
/// The distance of two sequences is the sum over their symbols; for its quality, see the [module](self).
///
/// # Errors
/// [`BatchedError::TooLarge`]; a belief that is none, or not over `domain^length` sequences; a matrix for another
/// domain.
pub fn channel(
    belief: &[f64],
    domain: u32,
    length: u32,
    epsilon: Epsilon,
    distance: &Distance,
    effort: Effort,
) -> Result<Channel, BatchedError> {
    check_size(domain, length)?;
    let size = (domain as usize).pow(length);
    if belief.len() != size {
        return Err(ChannelMatrixError::Belief { given: belief.len(), expected: size }.into());
    }
    if let Some(expected) = distance.domain().filter(|expected| *expected != domain as usize) {
        return Err(ChannelMatrixError::Belief { given: domain as usize, expected }.into());
    }
    if length == 1 {
        return Ok(effort::channel(belief, epsilon, distance, effort)?);
    }
    let belief = bins::normalised(belief)?;
    let shares = Shares::new(epsilon)?;
    if let Some(identity) = bins::identity(&belief, &shares) {
        return Ok(identity?);
    }
    let sequences = Sequences::new(&belief, domain, length, distance);
    let between = |one, other| sequences.between(one, other);
    let representative =
        |members: &[(u32, f64)], mass: f64| sequences.representative(members, mass, shares.independent);
    let clustered = best_clusters(&belief, &shares, between, |answer| sequences.mean(answer), representative)?;
    #[cfg(feature = "programme")]
    if effort == Effort::Thorough && belief.len() as u64 <= PROGRAMME_LIMIT {
        use super::programme::{cheaper, own_cells, solve};
        let mut likeliest: Vec<u32> = (0..index(belief.len())).collect();
        likeliest.sort_by(|one, other| belief[*other as usize].total_cmp(&belief[*one as usize]));
        likeliest.truncate(ANSWERS);
        let mut outputs: Vec<u32> =
            likeliest.into_iter().chain(clustered.outputs().iter().map(|(output, _)| *output)).collect();
        outputs.sort_unstable();
        outputs.dedup();
        let solved = solve(&belief, &own_cells(&belief), outputs, &shares, between);
        return Ok(cheaper(clustered, solved, &belief, between)?);
    }
    Ok(clustered)
}

impl Serialize for Batched {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.saving(&self.settings).serialize(serializer)
    }
}

impl TryFrom<Saved<BatchedSettings>> for Batched {
    type Error = String;

    fn try_from(saved: Saved<BatchedSettings>) -> Result<Self, String> {
        saved.restore(Self::new, |mechanism| &mut mechanism.state)
    }
}
