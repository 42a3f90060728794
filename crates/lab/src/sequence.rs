//! Sequence mechanisms on streams of symbols; each user's sequence has a mechanism of its own.
//!
//! A subject spends [`TrialSettings::epsilon`] on each symbol. A batch spends that once for each of its symbols. The
//! [window](TrialSettings::window) is not used.
//!
//! The model is learned from the stream's [corpus](SymbolStream::corpus), which contains the protected sequences. The
//! literature measures errors in this way; a real release must not do so.
//!
//! [`paper_crr_not_private`] is a published mechanism that is not private. It is here only to show why.

pub mod adaptive;
pub mod identify;
pub mod noise;

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::Deserialize;
use tidegate::mechanisms::{Family, Mechanism};
use tidegate::release::{Release, Statistic};
use tidegate::sequence::SequenceKind;
use tidegate::sequence::baseline::{self, Baseline, BaselineKind};
use tidegate::sequence::batched::{self, Batched, BatchedError, CLUSTER_LIMIT};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::channel::{Channel, Parts};
use tidegate::sequence::crr::{self, Crr, CrrError, Guarantee};
use tidegate::sequence::distance::Distance;
use tidegate::sequence::model::{Background, Model, Order, Smoothing};
use tidegate::sequence::support;
use tidegate::spec::SequenceMachine;
use tidegate_kernel::primitives::{ChannelLimits, MAX_CHANNEL_EPSILON, SymbolBatch, SymbolChannel};
use tidegate_kernel::{Epsilon, Ledger, SeededRandom, Window};

use crate::draw::unit;
use crate::experiment::{OnSymbols, RunError, Setting, Subject, SymbolOutcome, TrialSettings};
use crate::stream::{Space, SymbolStream};
use crate::subjects::summary_of;

/// What makes an answer in place of a symbol a good one: mechanisms that have a model make it small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SymbolDistance {
    /// How often the answer is another symbol.
    #[default]
    Hamming,
    /// How far it is: on a line the difference, on a grid the Euclidean distance.
    Absolute,
    /// How far it is, squared; on a line only.
    Squared,
}

impl SymbolDistance {
    /// The library's distance between the symbols of a space.
    pub fn within(self, space: Space) -> Result<Distance, RunError> {
        match (self, space) {
            (Self::Hamming, _) => Ok(Distance::Hamming),
            (Self::Absolute, Space::Line { .. }) => Ok(Distance::Absolute),
            (Self::Absolute, Space::Grid { columns, .. }) => Ok(Distance::Grid { columns: columns.into() }),
            (Self::Squared, Space::Line { .. }) => Ok(Distance::Squared),
            (Self::Squared, Space::Grid { .. }) => {
                Err(RunError::unsupported("there is no channel for squared distances on a grid"))
            }
        }
    }
}

/// How learned models are smoothed: each row counts one observation more than it has, of all symbols by their
/// frequency. So no symbol is taken for impossible.
pub const SMOOTHING: Smoothing = Smoothing { pseudo_count: 1.0, background: Background::Frequencies };

/// A model learned from a stream's corpus; its order is 1 or 2.
pub fn learn(stream: &SymbolStream, order: u8) -> Result<Model, RunError> {
    let order = match order {
        1 => Order::One,
        2 => Order::Two,
        other => return Err(RunError::unsupported(format!("a model of order {other}; orders are 1 and 2"))),
    };
    let corpus = stream.corpus().iter().map(Vec::as_slice);
    Model::learn(stream.domain(), corpus, order, SMOOTHING).map_err(RunError::unsupported)
}

/// A mechanism of the sequence family, or what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceSubject {
    /// Conditional randomised response: epsilon-SIP at each step.
    Crr,
    /// The same in its robust mode: epsilon-LDP at each step, whatever the model.
    CrrRobust,
    /// Batches of [`TrialSettings::batch`] symbols: SIP of as many epsilons for each.
    Batched,
    /// A baseline, which has no model: epsilon-LDP at each step.
    Baseline(BaselineKind),
    /// Conditional randomised response as published, which does not keep what it promises; see
    /// [`paper_crr_not_private`].
    PaperCrrNotPrivate,
}

/// All of them.
pub fn subjects() -> Vec<&'static dyn Subject> {
    SUBJECTS.to_vec()
}

const SUBJECTS: &[&dyn Subject] = &[
    &SequenceSubject::Crr,
    &SequenceSubject::CrrRobust,
    &SequenceSubject::Batched,
    &SequenceSubject::Baseline(BaselineKind::Rr),
    &SequenceSubject::Baseline(BaselineKind::Oue),
    &SequenceSubject::PaperCrrNotPrivate,
];

impl Subject for SequenceSubject {
    fn name(&self) -> &'static str {
        self.mechanism().map_or("paper_crr_not_private", Mechanism::name)
    }

    fn mechanism(&self) -> Option<&'static Mechanism> {
        let robust = || Family::Sequence.mechanisms().find(|listed| listed.short_name == "crr_robust");
        match self {
            Self::Crr => Some(SequenceKind::Crr.mechanism()),
            Self::CrrRobust => robust(),
            Self::Batched => Some(SequenceKind::Batched.mechanism()),
            Self::Baseline(BaselineKind::Rr) => Some(SequenceKind::Rr.mechanism()),
            Self::Baseline(BaselineKind::Oue) => Some(SequenceKind::Oue.mechanism()),
            Self::PaperCrrNotPrivate => None,
        }
    }

    fn summary(&self) -> String {
        let published = "NOT PRIVATE: crr as published, which leaks more than epsilon; for comparison only";
        self.mechanism().map_or_else(|| published.to_owned(), summary_of)
    }

    fn uses(&self) -> &'static [Setting] {
        use Setting::{Batch, Distance, Effort, Order};
        match self {
            Self::Crr | Self::CrrRobust => &[Order, Distance, Effort],
            Self::Batched => &[Batch, Order, Distance, Effort],
            Self::Baseline(_) => &[],
            Self::PaperCrrNotPrivate => &[Order],
        }
    }

    fn on_symbols(&self) -> Option<&dyn OnSymbols> {
        Some(self)
    }
}

impl OnSymbols for SequenceSubject {
    fn run(
        &self,
        stream: &SymbolStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<SymbolOutcome, RunError> {
        if let Self::Baseline(kind) = self {
            return each(stream, |sequence| with_baseline(*kind, stream.domain(), sequence, settings, random));
        }
        let distance = settings.distance.within(stream.space())?;
        let model = Arc::new(learn(stream, settings.order)?);
        let steps = |guarantee| crr::CrrSettings {
            guarantee,
            distance: distance.clone(),
            effort: settings.effort,
            ..crr::CrrSettings::new(settings.epsilon)
        };
        each(stream, |sequence| match self {
            Self::Batched => with_batches(&model, sequence, settings.batch, &steps(Guarantee::Sequence), random),
            Self::CrrRobust => with_crr(&model, sequence, steps(Guarantee::Local), random),
            Self::PaperCrrNotPrivate => as_published(&model, sequence, settings.epsilon, random),
            Self::Crr | Self::Baseline(_) => with_crr(&model, sequence, steps(Guarantee::Sequence), random),
        })
    }
}

fn each(
    stream: &SymbolStream,
    run: impl FnMut(&[u32]) -> Result<Vec<u32>, RunError>,
) -> Result<SymbolOutcome, RunError> {
    let sequences: Result<_, RunError> = stream.sequences().iter().map(Vec::as_slice).map(run).collect();
    Ok(SymbolOutcome { sequences: sequences? })
}

fn answer_of(release: &Release) -> Result<u32, RunError> {
    match &release.statistic {
        Statistic::Symbol(answer) => Ok(answer.symbol),
        _ => Err(RunError::failed("a release of something else than a symbol")),
    }
}

fn with_baseline(
    kind: BaselineKind,
    domain: u32,
    sequence: &[u32],
    settings: &TrialSettings,
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let settings = baseline::BaselineSettings::new(domain, settings.epsilon);
    let mechanism = Baseline::new(kind, settings).map_err(RunError::unsupported)?;
    answers(SequenceMachine::Baseline(Box::new(mechanism)), sequence, random)
}

fn with_crr(
    model: &Arc<Model>,
    sequence: &[u32],
    settings: crr::CrrSettings,
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let mechanism = Crr::new(Arc::clone(model), settings).map_err(RunError::unsupported)?;
    answers(SequenceMachine::Crr(Box::new(mechanism)), sequence, random)
}

/// Answers a sequence symbol by symbol, or batch by batch; symbols after the last whole batch have no answer.
pub(crate) fn answers(
    mut mechanism: SequenceMachine,
    sequence: &[u32],
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let mut answers = Vec::with_capacity(sequence.len());
    if let SequenceMachine::Batched(mechanism) = &mut mechanism {
        answer_batches(mechanism, sequence, &mut answers, random)?;
        return Ok(answers);
    }
    for (timestamp, symbol) in (0..).zip(sequence) {
        let release = match &mut mechanism {
            SequenceMachine::Crr(mechanism) => {
                let sealed = mechanism.seal(timestamp, *symbol).map_err(RunError::failed)?;
                match mechanism.step(&sealed, random) {
                    // Nothing is left in the window, so a release guesses from public knowledge.
                    Err(CrrError::Refused(_)) => mechanism.guess(timestamp).map_err(RunError::failed)?,
                    released => released.map_err(RunError::failed)?,
                }
            }
            SequenceMachine::Baseline(mechanism) => {
                let sealed = mechanism.seal(timestamp, *symbol).map_err(RunError::failed)?;
                mechanism.step(&sealed, random).map_err(RunError::failed)?
            }
            SequenceMachine::Batched(_) => return Err(RunError::failed("batches are answered together")),
        };
        answers.push(answer_of(&release)?);
    }
    Ok(answers)
}

/// Answers whole batches, and returns the symbols after the last of them.
fn answer_batches<'a>(
    mechanism: &mut Batched,
    sequence: &'a [u32],
    answers: &mut Vec<u32>,
    random: &mut SeededRandom,
) -> Result<&'a [u32], RunError> {
    let batches = sequence.chunks_exact(mechanism.settings().length as usize);
    let rest = batches.remainder();
    for (timestamp, symbols) in (0..).zip(batches) {
        let mut batch = mechanism.gather().map_err(RunError::failed)?;
        symbols.iter().try_for_each(|symbol| batch.push(*symbol)).map_err(RunError::failed)?;
        let releases = match mechanism.answer(timestamp, batch, random) {
            Err(BatchedError::Step(CrrError::Refused(_))) => mechanism.guess(timestamp).map_err(RunError::failed)?,
            released => released.map_err(RunError::failed)?,
        };
        for release in &releases {
            answers.push(answer_of(release)?);
        }
    }
    Ok(rest)
}

/// How many symbols can be answered together, at least two; `None` where not even those.
pub(crate) fn longest_part(domain: u32) -> Option<u32> {
    let fits = |length: &u32| u64::from(domain).checked_pow(*length).is_some_and(|size| size <= CLUSTER_LIMIT);
    (2..u64::BITS).take_while(fits).last()
}

/// How many likely batches are told apart where there are too many to tell all apart.
pub const SUPPORT: u32 = 512;

/// The settings of batches of some symbols, from those of a single one, each worth its epsilon. Batches with too many
/// sequences are divided into the longest parts for which there is a channel over all sequences. Where those would be
/// single symbols, only the [likeliest](SUPPORT) are told apart, in parts of at most [`MAX_CHANNEL_EPSILON`].
pub fn batched_settings(
    domain: u32,
    length: u32,
    step: &crr::CrrSettings,
) -> Result<batched::BatchedSettings, RunError> {
    let too_much = || format!("epsilon {} for each of {length} symbols is more than can be counted", step.epsilon);
    let epsilon = step.epsilon.checked_mul(u64::from(length)).ok_or_else(|| RunError::unsupported(too_much()))?;
    let batch = crr::CrrSettings { epsilon, budget: epsilon, ..step.clone() };
    let of_all = longest_part(domain);
    let within = (1..length)
        .rev()
        .find(|part| step.epsilon.checked_mul(u64::from(*part)).is_some_and(|epsilon| epsilon <= MAX_CHANNEL_EPSILON));
    Ok(match of_all {
        Some(part) => batched::BatchedSettings { batch, length, part: Some(part), support: None },
        None => {
            let part = within.filter(|_| epsilon > MAX_CHANNEL_EPSILON);
            batched::BatchedSettings { batch, length, part, support: Some(SUPPORT) }
        }
    })
}

fn with_batches(
    model: &Arc<Model>,
    sequence: &[u32],
    length: NonZeroUsize,
    step: &crr::CrrSettings,
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let symbols = u32::try_from(length.get()).map_err(RunError::unsupported)?;
    let settings = batched_settings(model.domain(), symbols, step)?;
    let mut mechanism = Batched::new(Arc::clone(model), settings).map_err(RunError::unsupported)?;
    let mut answers = Vec::with_capacity(sequence.len());
    let rest = answer_batches(&mut mechanism, sequence, &mut answers, random)?;
    if !rest.is_empty() {
        answers.extend(last_batch(&mechanism, rest, step, random).map_err(RunError::Failed)?);
    }
    Ok(answers)
}

/// Answers the symbols that are left when no whole batch is: a shorter batch, at the same epsilon for each.
fn last_batch(
    mechanism: &Batched,
    symbols: &[u32],
    step: &crr::CrrSettings,
    random: &mut SeededRandom,
) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
    let (model, mut belief) = (mechanism.model(), mechanism.belief().clone());
    let domain = model.domain();
    let part = mechanism.settings().part.map_or(symbols.len(), |part| part as usize);
    let mut answers = Vec::with_capacity(symbols.len());
    for (timestamp, symbols) in (0..).zip(symbols.chunks(part)) {
        let length = u32::try_from(symbols.len())?;
        let batched::BatchedSettings { batch, support, .. } = batched_settings(domain, length, step)?;
        let limits = ChannelLimits::new(batch.epsilon)?;
        let mut ledger = Ledger::new(limits.loss(), Window::EVENT);
        if let Some(support) = support {
            let (epsilon, effort) = (batch.epsilon, batch.effort);
            let over = support::channel(model, &belief, length, support, epsilon, &batch.distance, effort)?;
            let mut gathered = SymbolBatch::wide(domain, &[length])?;
            symbols.iter().try_for_each(|symbol| gathered.push(*symbol))?;
            let kernel = SymbolChannel::new(&limits, over.channel().kernel_parts())?;
            for sealed in gathered.seal_sequences(ledger.account(), timestamp)? {
                let permit = ledger.spend(timestamp, limits.loss())?;
                let class = over.classes().classify(&sealed)?;
                let output = kernel.answer(permit, &class, random)?.into_value();
                over.release(model, &mut belief, output)?;
                answers.extend(over.answers(output).unwrap_or_default());
            }
            continue;
        }
        let sequences = belief.sequences(model, length)?;
        let channel = batched::channel(&sequences, domain, length, batch.epsilon, &batch.distance, batch.effort)?;
        let mut gathered = SymbolBatch::new(domain, &[length])?;
        symbols.iter().try_for_each(|symbol| gathered.push(*symbol))?;
        let kernel = SymbolChannel::new(&limits, channel.kernel_parts())?;
        for sealed in gathered.seal(ledger.account(), timestamp)? {
            let permit = ledger.spend(timestamp, limits.loss())?;
            let number = kernel.answer(permit, &sealed, random)?.into_value();
            belief.release_sequence(model, length, &channel, number)?;
            answers.extend((0..length).rev().map(|place| number / domain.pow(place) % domain));
        }
    }
    Ok(answers)
}

/// The closed form of conditional randomised response as published: the symbol itself with probability
/// `1 - (1 - b(x))/e^eps`, any other `y` with probability `b(y)/e^eps`. **Not private**: it exceeds epsilon-SIP
/// wherever a symbol's belief is below `1/(e^eps + 1)`, without bound as the belief falls to zero, and reveals a symbol
/// that is believed impossible.
///
/// A row for each symbol. The mechanism that keeps what it claims is [`tidegate::sequence::hamming`].
pub fn paper_crr_not_private(belief: &[f64], epsilon: f64) -> Vec<Vec<f64>> {
    let independent = (-epsilon).exp();
    let row = |symbol: usize| {
        let mut row: Vec<f64> = belief.iter().map(|weight| weight * independent).collect();
        row[symbol] = 1.0 - (1.0 - belief[symbol]) * independent;
        row
    };
    (0..belief.len()).map(row).collect()
}

/// A sequence through [`paper_crr_not_private`], without a matrix: with probability `e^-eps` the answer is drawn from
/// the belief, otherwise it is the symbol.
fn as_published(
    model: &Model,
    sequence: &[u32],
    epsilon: Epsilon,
    random: &mut SeededRandom,
) -> Result<Vec<u32>, RunError> {
    let independent = (-epsilon.as_f64()).exp();
    let mut belief = Belief::new(model);
    let mut answers = Vec::with_capacity(sequence.len());
    for symbol in sequence {
        let answer = if unit(random) < independent { drawn(belief.present(), random) } else { *symbol };
        let channel = column(belief.present(), answer, independent).map_err(RunError::failed)?;
        belief.release(model, &channel, answer).map_err(RunError::failed)?;
        answers.push(answer);
    }
    Ok(answers)
}

/// A channel that gives `answer` to each symbol as [`paper_crr_not_private`] does. All other answers are one, for
/// beliefs depend on the likelihoods of what was answered and on nothing else.
fn column(
    belief: &[f64],
    answer: u32,
    independent: f64,
) -> Result<Channel, tidegate::sequence::channel::ChannelMatrixError> {
    let weight = belief[answer as usize];
    let other = u32::from(answer == 0);
    let mut outputs = vec![(answer, weight), (other, 1.0 - weight)];
    outputs.sort_unstable_by_key(|(symbol, _)| *symbol);
    let cell = u32::from(answer > other);
    let mut mixture_of = vec![1 - cell; belief.len()];
    mixture_of[answer as usize] = cell;
    let own = vec![vec![(0, 1.0)], vec![(1, 1.0)]];
    Channel::new(Parts { independent, outputs, rows: own.clone(), mixtures: own, mixture_of })
}

/// A symbol drawn from a belief.
pub(crate) fn drawn(belief: &[f64], random: &mut SeededRandom) -> u32 {
    let mut left = unit(random);
    let mut last = 0;
    for (symbol, weight) in (0..).zip(belief).filter(|(_, weight)| **weight > 0.0) {
        last = symbol;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    last
}
