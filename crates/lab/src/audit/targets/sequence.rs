//! Sequence mechanisms: one user's symbols.

use std::sync::Arc;

use tidegate::release::{Release, Statistic};
use tidegate::sequence::baseline::{self, Baseline, BaselineKind};
use tidegate::sequence::batched::{self, Batched};
use tidegate::sequence::crr::{self, Crr, Guarantee};
use tidegate::sequence::model::Model;
use tidegate_kernel::{Epsilon, SeededRandom, Window};

use super::other_input;
use crate::audit::{AuditSettings, Input, Pair, Target, TargetFamily, Transcript, exact};
use crate::experiment::RunError;
use crate::sequence::drawn;

/// The most sequences of a window whose transcripts are examined.
const MOST_SEQUENCES: u32 = 64;

/// How symbols are answered.
#[derive(Clone, Debug)]
pub enum Method {
    /// One at a time, with a model.
    Crr(crr::CrrSettings),
    /// Several at a time, with a model.
    Batched(batched::BatchedSettings),
    /// One at a time, without a model.
    Baseline(BaselineKind, baseline::BaselineSettings),
}

/// What is promised of a sequence mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Sequence information privacy: no symbol, or batch, becomes more than so much likelier, or less likely, than it
    /// was before.
    Sequence,
    /// Local differential privacy of a symbol, or a batch.
    Local,
    /// Local differential privacy of all symbols of a window.
    LocalWindow,
}

/// A sequence mechanism and one of its promises.
#[derive(Clone, Debug)]
pub struct SequenceTarget {
    /// How symbols are answered.
    pub method: Method,
    /// What is promised.
    pub promise: Promise,
    /// By how much.
    pub claimed: Epsilon,
    /// What the mechanism believes of symbols, and what is true of those that are drawn.
    pub model: Arc<Model>,
    /// How many symbols are released.
    pub length: usize,
}

/// All sequence mechanisms with all their promises.
pub(super) fn targets(settings: &AuditSettings) -> Result<Vec<Box<dyn Target>>, RunError> {
    let AuditSettings { epsilon, window, domain } = *settings;
    let model = Arc::new(model(domain)?);
    let too_much = || RunError::unsupported(format!("twice epsilon {epsilon} is more than can be counted"));
    let twice = epsilon.checked_mul(2).ok_or_else(too_much)?;
    let too_little = || RunError::unsupported(format!("epsilon {epsilon} cannot be divided among {window} timestamps"));
    let share = epsilon.divided_by(window.get()).ok_or_else(too_little)?;
    let steps = usize::try_from(window.get()).map_err(RunError::unsupported)?;

    let step = crr::CrrSettings::new(epsilon);
    let robust = crr::CrrSettings { guarantee: Guarantee::Local, ..step.clone() };
    let of_window = Window::Timestamps(window);
    let shared = crr::CrrSettings { epsilon: share, window: of_window, budget: epsilon, ..step.clone() };
    let batch = batched::BatchedSettings { batch: step.clone(), length: 2, part: None, support: None };
    // Half of the pairs are told apart, of the others the first symbol.
    let half = (domain.saturating_mul(domain) / 2).min(tidegate::sequence::support::MAX_SUPPORT);
    let supported = batched::BatchedSettings { support: Some(half), ..batch.clone() };
    let baseline = |kind| {
        let each = baseline::BaselineSettings { epsilon: share, window: of_window, budget: epsilon, domain };
        (Method::Baseline(kind, each), Promise::LocalWindow, epsilon, steps)
    };
    let all = [
        (Method::Crr(step.clone()), Promise::Sequence, epsilon, 1),
        (Method::Crr(step), Promise::Local, twice, 1),
        (Method::Crr(shared), Promise::LocalWindow, twice, steps),
        (Method::Crr(robust), Promise::Local, epsilon, 1),
        (Method::Batched(batch.clone()), Promise::Sequence, epsilon, 2),
        (Method::Batched(batch), Promise::Local, twice, 2),
        (Method::Batched(supported.clone()), Promise::Sequence, epsilon, 2),
        (Method::Batched(supported), Promise::Local, twice, 2),
        baseline(BaselineKind::Rr),
        baseline(BaselineKind::Oue),
    ];
    let target = |(method, promise, claimed, length)| {
        Box::new(SequenceTarget { method, promise, claimed, model: Arc::clone(&model), length }) as Box<dyn Target>
    };
    Ok(all.into_iter().map(target).collect())
}

/// A chain over symbols that become a little rarer one by one: a symbol stays with probability 0.6 and is otherwise
/// drawn anew.
fn model(domain: u32) -> Result<Model, RunError> {
    let weights: Vec<f64> = (0..domain).map(|symbol| f64::from(2 * domain - symbol)).collect();
    let total: f64 = weights.iter().sum();
    let prior: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let matrix = (0..prior.len())
        .flat_map(|from| prior.iter().enumerate().map(move |(to, p)| 0.4 * p + if from == to { 0.6 } else { 0.0 }));
    Model::dense(prior.clone(), matrix.collect()).map_err(RunError::unsupported)
}

impl SequenceTarget {
    /// A sequence drawn from the model.
    fn draw(&self, length: usize, random: &mut SeededRandom) -> Vec<u32> {
        let mut symbols: Vec<u32> = Vec::with_capacity(length);
        for _ in 0..length {
            let next = match symbols.as_slice() {
                [] => drawn(self.model.prior(), random),
                [.., last] => {
                    let row: Vec<f64> =
                        (0..self.model.domain()).map(|next| self.model.transition(None, *last, next)).collect();
                    drawn(&row, random)
                }
            };
            symbols.push(next);
        }
        symbols
    }
}

fn note(transcript: &mut Transcript, release: &Release) -> Result<(), RunError> {
    let Statistic::Symbol(answer) = release.statistic else {
        return Err(RunError::failed("a release of something else than a symbol"));
    };
    transcript.extend([f64::from(answer.symbol), super::freshness(release.freshness), super::spent(&release.spent)]);
    Ok(())
}

impl Target for SequenceTarget {
    fn name(&self) -> &'static str {
        match &self.method {
            Method::Crr(settings) if settings.guarantee == Guarantee::Local => "crr_robust",
            Method::Crr(_) => "crr",
            Method::Batched(_) => "batched",
            Method::Baseline(kind, _) => kind.name(),
        }
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Sequence
    }

    fn guarantee(&self) -> String {
        let of = match (&self.method, self.promise) {
            (_, Promise::LocalWindow) => format!("any {} symbols", self.length),
            (Method::Batched(settings), _) if settings.support.is_some() => "a batch, with a support".to_owned(),
            (Method::Batched(_), _) => "a batch".to_owned(),
            (Method::Crr(_) | Method::Baseline(..), _) => "a symbol".to_owned(),
        };
        let what = if self.promise == Promise::Sequence { "SIP" } else { "LDP" };
        format!("{what} of {of}")
    }

    fn claimed(&self) -> f64 {
        self.claimed.as_f64()
    }

    fn neighbours(&self) -> Vec<Pair> {
        let last = self.model.domain() - 1;
        let sequences: Vec<(String, Vec<u32>)> = [
            ("most frequent", vec![0; self.length]),
            ("rarest", vec![last; self.length]),
            ("alternating", (0..self.length).map(|at| if at % 2 == 0 { last } else { 0 }).collect()),
        ]
        .into_iter()
        .map(|(name, sequence)| (name.to_owned(), sequence))
        .collect();
        let mut pairs = Vec::new();
        for (index, (name, sequence)) in sequences.iter().enumerate() {
            if self.promise == Promise::Sequence {
                let (one, other) = (Input::Symbols(sequence.clone()), Input::Drawn(self.length));
                pairs.push(Pair { name: name.clone(), one, other });
                continue;
            }
            for (other_name, other) in &sequences[index + 1..] {
                if other != sequence {
                    let name = format!("{name} or {other_name}");
                    let (one, other) = (Input::Symbols(sequence.clone()), Input::Symbols(other.clone()));
                    pairs.push(Pair { name, one, other });
                }
            }
        }
        pairs
    }

    /// For a window, each sequence against those in which every symbol is moved on by as many places.
    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        let domain = self.model.domain();
        let sequences = u32::try_from(self.length).ok().and_then(|length| domain.checked_pow(length));
        let sequences = match (self.promise, sequences) {
            (Promise::LocalWindow, Some(sequences)) if sequences <= MOST_SEQUENCES => sequences,
            _ => return self.neighbours(),
        };
        let digits = |mut number: u32| -> Vec<u32> {
            let mut digit = || {
                let digit = number % domain;
                number /= domain;
                digit
            };
            (0..self.length).map(|_| digit()).collect()
        };
        let mut pairs = Vec::new();
        for one in (0..sequences).map(digits) {
            for places in 1..domain {
                let other: Vec<u32> = one.iter().map(|symbol| (symbol + places) % domain).collect();
                // Losses are taken in both directions: each pair once.
                if one < other {
                    let name = format!("{one:?} or {other:?}");
                    pairs.push(Pair { name, one: Input::Symbols(one.clone()), other: Input::Symbols(other) });
                }
            }
        }
        pairs
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let symbols = match input {
            Input::Symbols(symbols) => symbols.clone(),
            Input::Drawn(length) => self.draw(*length, random),
            _ => return Err(other_input(self)),
        };
        let mut transcript = Transcript::new();
        match &self.method {
            Method::Crr(settings) => {
                let mut mechanism =
                    Crr::new(Arc::clone(&self.model), settings.clone()).map_err(RunError::unsupported)?;
                for (timestamp, symbol) in (0_u64..).zip(&symbols) {
                    let sealed = mechanism.seal(timestamp, *symbol).map_err(RunError::failed)?;
                    note(&mut transcript, &mechanism.step(&sealed, random).map_err(RunError::failed)?)?;
                }
            }
            Method::Batched(settings) => {
                let mut mechanism =
                    Batched::new(Arc::clone(&self.model), settings.clone()).map_err(RunError::unsupported)?;
                for (timestamp, symbols) in (0_u64..).zip(symbols.chunks_exact(settings.length as usize)) {
                    let mut batch = mechanism.gather().map_err(RunError::failed)?;
                    symbols.iter().try_for_each(|symbol| batch.push(*symbol)).map_err(RunError::failed)?;
                    for release in mechanism.answer(timestamp, batch, random).map_err(RunError::failed)? {
                        note(&mut transcript, &release)?;
                    }
                }
            }
            Method::Baseline(kind, settings) => {
                let mut mechanism = Baseline::new(*kind, *settings).map_err(RunError::unsupported)?;
                for (timestamp, symbol) in (0_u64..).zip(&symbols) {
                    let sealed = mechanism.seal(timestamp, *symbol).map_err(RunError::failed)?;
                    note(&mut transcript, &mechanism.step(&sealed, random).map_err(RunError::failed)?)?;
                }
            }
        }
        Ok(transcript)
    }

    /// All sequences of the model.
    fn streams(&self, input: &Input) -> Vec<(f64, Input)> {
        let Input::Drawn(length) = input else { return vec![(0.0, input.clone())] };
        let mut streams = vec![(1.0, Vec::new())];
        for _ in 0..*length {
            let extend = |(probability, symbols): &(f64, Vec<u32>)| {
                let next = |next: u32| match symbols.last() {
                    None => self.model.prior().get(next as usize).copied().unwrap_or(0.0),
                    Some(last) => self.model.transition(None, *last, next),
                };
                let longer = |symbol: u32| (probability * next(symbol), [symbols.as_slice(), &[symbol]].concat());
                (0..self.model.domain()).map(longer).collect::<Vec<_>>()
            };
            streams = streams.iter().flat_map(extend).collect();
        }
        streams.into_iter().map(|(probability, symbols)| (probability.ln(), Input::Symbols(symbols))).collect()
    }

    fn exact(&self) -> Result<Option<f64>, RunError> {
        exact::sequence::largest_loss(self)
    }
}
