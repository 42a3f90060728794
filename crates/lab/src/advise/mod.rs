//! Which mechanism to take, and which error to expect of it: by [formula] where there is one, and by simulation where
//! there is none.
//!
//! Errors are predicted on streams: those that may have been behind a [`Sample`] of past releases, or a few [typical]
//! ones. A prediction is the mean over the streams; its range goes from the lowest to the highest of them, with two
//! standard errors on either side where it was simulated. Everything is a function of its arguments, the seed among
//! them.
//!
//! Advice from releases is post-processing: it tells nothing that they have not told. Advice from raw data is not
//! private.

mod explain;
pub mod formula;
pub mod sample;
pub mod solve;
pub mod typical;

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid, SeededRandom};

use crate::experiment::{Plan, RunError, Subject, Trial, TrialError, TrialSettings, run};
use crate::generate::GenerateError;
use crate::metrics::{Metric, Summary};
use crate::sequence::SymbolDistance;
use crate::stream::{DataStream, DataStreamError, MAX_POPULATION, StreamKind};
use crate::subjects::{Constant, has_name};
use crate::{central, local, scalar, sequence};
use tidegate_table::TableError;

pub use sample::Sample;
use typical::Shape;

/// What is to be released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// How many of some users hold each value of a domain.
    Counts {
        /// The number of values, at least two.
        domain: u32,
        /// The number of users.
        population: NonZeroU64,
    },
    /// One number at each timestamp.
    Numbers {
        /// What it can be.
        grid: Grid,
        /// What of it is protected.
        protects: Protects,
    },
    /// One user's symbol at each timestamp, on a line.
    Symbols {
        /// The number of symbols, at least two.
        domain: u32,
    },
}

impl Data {
    /// What kind of stream it is.
    pub const fn kind(&self) -> StreamKind {
        match self {
            Self::Counts { .. } => StreamKind::Counts,
            Self::Numbers { .. } => StreamKind::Numbers,
            Self::Symbols { .. } => StreamKind::Symbols,
        }
    }

    /// How many numbers a timestamp has.
    const fn columns(&self) -> usize {
        match self {
            Self::Counts { domain, .. } => *domain as usize,
            Self::Numbers { .. } | Self::Symbols { .. } => 1,
        }
    }

    /// How many values there are.
    const fn domain(&self) -> Option<u32> {
        match self {
            Self::Counts { domain, .. } | Self::Symbols { domain } => Some(*domain),
            Self::Numbers { .. } => None,
        }
    }
}

/// Who sees raw values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Nobody but the device.
    Local,
    /// A curator, of all users.
    Curator,
}

impl Trust {
    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Curator => "curator",
        }
    }
}

/// What advice is wanted on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// What is to be released.
    pub data: Data,
    /// Who may see it.
    pub trust: Trust,
    /// The budget: of any window for counts, of each timestamp for numbers and symbols.
    pub epsilon: Epsilon,
    /// The window, for counts.
    pub window: NonZeroU64,
    /// How many timestamps a release may be held back.
    pub delay: u64,
    /// Which error is to be small.
    pub metric: Metric,
}

/// The errors that there are for a kind of stream; the first unless another is asked for.
pub const fn metrics_of(kind: StreamKind) -> &'static [Metric] {
    match kind {
        StreamKind::Counts => &[Metric::Mse, Metric::Mae, Metric::Mre, Metric::Amre, Metric::Ajsd],
        StreamKind::Numbers => &[Metric::Mse, Metric::Mae, Metric::Mre],
        StreamKind::Symbols => &[Metric::ErrorRate, Metric::Mae, Metric::Mse, Metric::HistogramDistance],
    }
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// Fewer than two values.
    #[error("a domain needs at least two values, but {given} was given")]
    Domain {
        /// What was given.
        given: u32,
    },
    /// More users than can be counted.
    #[error("the population must be between 1 and {MAX_POPULATION}, but {given} was given")]
    Population {
        /// What was given.
        given: u64,
    },
    /// A curator for a single user's symbols.
    #[error("a sequence of symbols is one user's, who trusts nobody: a curator counts users, so ask about counts")]
    CuratorOfSymbols,
    /// An error that this kind of stream does not have.
    #[error("streams of {kind} are not judged by {metric}; there are: {}", names(.kind))]
    Metric {
        /// The metric.
        metric: Metric,
        /// The kind of stream.
        kind: StreamKind,
    },
    /// A mechanism that does not fit.
    #[error("{mechanism} does not apply to {kind} with trust {trust}; there are: {}", .fitting.join(", "))]
    Mechanism {
        /// The mechanism.
        mechanism: String,
        /// The kind of stream.
        kind: StreamKind,
        /// Who is trusted.
        trust: &'static str,
        /// Those that fit.
        fitting: Vec<&'static str>,
    },
    /// A sample over another domain.
    #[error("{file} has {given} values a timestamp, but the domain has {expected}")]
    SampleWidth {
        /// The file.
        file: String,
        /// How many values it has.
        given: usize,
        /// How many it should have.
        expected: usize,
    },
    /// A target that is no error.
    #[error("a target must be a number above 0, but {given} was given")]
    Target {
        /// What was given.
        given: f64,
    },
    /// A population was asked for where there is none.
    #[error("a stream of {kind} has no population that could be solved for; solve for epsilon")]
    NoPopulation {
        /// The kind of stream.
        kind: StreamKind,
    },
    /// A sample that cannot be read.
    #[error(transparent)]
    Sample(#[from] TableError),
    /// A stream that cannot be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A stream that cannot be made.
    #[error(transparent)]
    Stream(#[from] DataStreamError),
    /// A mechanism failed.
    #[error(transparent)]
    Run(#[from] TrialError),
}

fn names(kind: &StreamKind) -> String {
    metrics_of(*kind).iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
}

impl Request {
    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), AdviseError> {
        if let Some(given) = self.data.domain().filter(|domain| *domain < 2) {
            return Err(AdviseError::Domain { given });
        }
        if let Data::Counts { population, .. } = self.data
            && population.get() > MAX_POPULATION
        {
            return Err(AdviseError::Population { given: population.get() });
        }
        if matches!((self.data, self.trust), (Data::Symbols { .. }, Trust::Curator)) {
            return Err(AdviseError::CuratorOfSymbols);
        }
        let kind = self.data.kind();
        if !metrics_of(kind).contains(&self.metric) {
            return Err(AdviseError::Metric { metric: self.metric, kind });
        }
        Ok(())
    }

    /// The mechanisms that apply, in the order in which they are listed.
    ///
    /// A single number is released in the same way by a curator and by a device that has it to itself. Mechanisms in
    /// which classes of users have guarantees of their own are not among them: which classes there are is for the users
    /// to say.
    pub fn candidates(&self) -> Vec<&'static dyn Subject> {
        let of_family = match (self.data.kind(), self.trust) {
            (StreamKind::Counts, Trust::Local) => local::subjects(),
            (StreamKind::Counts, Trust::Curator) => central::subjects(),
            (StreamKind::Numbers, _) => scalar::subjects(),
            (StreamKind::Symbols, _) => sequence::subjects(),
        };
        let applies = |subject: &&dyn Subject| subject.mechanism().is_some_and(|listed| !listed.by_class);
        of_family.into_iter().filter(applies).collect()
    }

    /// Those of the candidates that have these names, or all where there are no names.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&'static dyn Subject>, AdviseError> {
        let candidates = self.candidates();
        if names.is_empty() {
            return Ok(candidates);
        }
        let find = |name: &String| candidates.iter().copied().find(|subject| has_name(*subject, name));
        names
            .iter()
            .map(|name| {
                find(name).ok_or_else(|| AdviseError::Mechanism {
                    mechanism: name.clone(),
                    kind: self.data.kind(),
                    trust: self.trust.name(),
                    fitting: candidates.iter().map(|subject| subject.name()).collect(),
                })
            })
            .collect()
    }

    /// What a mechanism is set to.
    pub fn settings(&self) -> TrialSettings {
        let batch = usize::try_from(self.delay).unwrap_or(usize::MAX).saturating_add(1);
        let protects = if let Data::Numbers { protects, .. } = self.data { protects } else { Protects::Reading };
        let distance = match self.metric {
            Metric::Mae => SymbolDistance::Absolute,
            Metric::Mse => SymbolDistance::Squared,
            _ => SymbolDistance::Hamming,
        };
        TrialSettings {
            delay: self.delay,
            protects,
            batch: NonZeroUsize::new(batch).unwrap_or(NonZeroUsize::MIN),
            distance,
            ..TrialSettings::new(self.epsilon, self.window)
        }
    }
}

/// How errors are simulated where there is no formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// How often each mechanism is run on each stream; as often as is done in a few seconds unless given.
    pub repeats: Option<NonZeroU64>,
    /// The length of typical streams; ten windows, where that is done in a few seconds, unless given.
    pub length: Option<NonZeroUsize>,
    /// Where all randomness comes from.
    pub seed: u64,
    /// How many threads run at a time. Results do not depend on it.
    pub threads: NonZeroUsize,
}

/// So many cells (a value at a timestamp of a run) are simulated without being asked to.
const WORK: u64 = 12_000_000;
/// Streams with more cells are not held in memory.
const MOST_CELLS: u64 = 4_000_000;
/// Batches over more sequences take too long.
const MOST_SEQUENCES: u64 = 128;
/// How many streams are drawn from a sample.
const DRAWS: u64 = 3;

impl Simulation {
    /// As long and as often as is done in a few seconds.
    pub const fn new(seed: u64, threads: NonZeroUsize) -> Self {
        Self { repeats: None, length: None, seed, threads }
    }

    /// What one timestamp costs, in cells.
    fn width(data: &Data) -> u64 {
        match *data {
            Data::Counts { domain, .. } => u64::from(domain).max(16),
            Data::Numbers { .. } => 64,
            // What is believed of the next symbol is a sum over all pairs.
            Data::Symbols { domain } => u64::from(domain) * u64::from(domain) + 200,
        }
    }

    /// The length of a typical stream.
    fn length(&self, request: &Request) -> usize {
        if let Some(length) = self.length {
            return length.get();
        }
        let window = match request.data {
            Data::Counts { .. } => request.window.get(),
            Data::Numbers { .. } | Data::Symbols { .. } => request.delay.saturating_add(1),
        };
        let wanted = window.saturating_mul(10).clamp(240, 800).max(window.saturating_mul(2));
        let most = (MOST_CELLS / Self::width(&request.data)).max(1);
        usize::try_from(wanted.min(most)).unwrap_or(usize::MAX)
    }

    /// How often a mechanism is run on streams of so many cells together; `None` where twice is too much already.
    fn repeats(&self, cells: u64, mechanisms: usize) -> Option<NonZeroU64> {
        if self.repeats.is_some() {
            return self.repeats;
        }
        let affordable = WORK / cells.saturating_mul(mechanisms as u64).max(1);
        // A length that was asked for is simulated, however long that takes.
        NonZeroU64::new(if self.length.is_some() { affordable.clamp(2, 10) } else { affordable.min(10) })
    }
}

/// The streams that errors are predicted on: drawn from a sample, or typical.
pub fn streams(
    request: &Request,
    sample: Option<&Sample>,
    simulation: &Simulation,
) -> Result<Vec<DataStream>, AdviseError> {
    request.check()?;
    let random = |number: u64| SeededRandom::with_stream(simulation.seed, (1 << 32) + number);
    if let Some(sample) = sample {
        let least = match request.data {
            Data::Counts { .. } => request.window.get().saturating_mul(2).min(sample::LONGEST),
            Data::Numbers { .. } | Data::Symbols { .. } => 1,
        };
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        return (0..DRAWS).map(|draw| sample.draw(&request.data, least, &mut random(draw))).collect();
    }
    let length = simulation.length(request);
    let typical = |(number, shape): (u64, Shape)| {
        let random = &mut random(number);
        Ok(match request.data {
            Data::Counts { domain, population } => {
                shape.counts(domain as usize, population.get(), length, random)?.into()
            }
            Data::Numbers { grid, .. } => shape.numbers(grid, length, random)?.into(),
            Data::Symbols { domain } => shape.symbols(domain, length, random)?.into(),
        })
    };
    (0..).zip(Shape::ALL).map(typical).collect()
}

/// How an error was predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// By [formula].
    Formula,
    /// By running the mechanism.
    Simulation,
}

impl Method {
    /// The name that tables and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Formula => "formula",
            Self::Simulation => "simulation",
        }
    }
}

/// The error that is to be expected of a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The mechanism.
    pub mechanism: &'static str,
    /// How it was predicted.
    pub method: Method,
    /// The mean over the streams.
    pub error: f64,
    /// The lowest of them, less two standard errors.
    pub low: f64,
    /// The highest of them, and two standard errors.
    pub high: f64,
    /// The standard error of the mean, of what was simulated.
    pub standard_error: f64,
    /// The error on each stream.
    pub on: Vec<(String, Summary)>,
}

impl Prediction {
    fn of(mechanism: &'static str, method: Method, on: Vec<(String, Summary)>) -> Self {
        let count = on.len().max(1) as f64;
        let spread = |summary: &Summary| 2.0 * summary.standard_error.unwrap_or(0.0);
        let low = on.iter().map(|(_, summary)| (summary.mean - spread(summary)).max(0.0)).fold(f64::INFINITY, f64::min);
        let high = on.iter().map(|(_, summary)| summary.mean + spread(summary)).fold(0.0, f64::max);
        let error = on.iter().map(|(_, summary)| summary.mean).sum::<f64>() / count;
        let squares: f64 = on.iter().map(|(_, summary)| summary.standard_error.unwrap_or(0.0).powi(2)).sum();
        Self { mechanism, method, error, low, high, standard_error: squares.sqrt() / count, on }
    }
}

/// Predicts the error of mechanisms on streams, by formula where there is one.
///
/// Of each mechanism its prediction, or why there is none.
pub fn predict(
    request: &Request,
    subjects: &[&'static dyn Subject],
    streams: &[DataStream],
    simulation: &Simulation,
) -> Result<Vec<Result<Prediction, Unpredicted>>, AdviseError> {
    let settings = request.settings();
    let formula = |subject: &dyn Subject| -> Option<Vec<(String, Summary)>> {
        let of = |stream: &DataStream| {
            let mean = formula::error(subject.name(), stream, &settings, request.metric)?;
            Some((stream.name().to_owned(), Summary { mean, standard_error: None }))
        };
        streams.iter().map(of).collect()
    };
    let formulas: Vec<_> = subjects.iter().map(|subject| formula(*subject)).collect();
    let to_simulate = formulas.iter().filter(|formula| formula.is_none()).count();
    let repeats = simulation.repeats(cells(request, streams), to_simulate);
    let mut predictions = Vec::with_capacity(subjects.len());
    for (subject, formula) in subjects.iter().zip(formulas) {
        // What cannot be set up has no error, whatever a formula says.
        predictions.push(match formula {
            Some(on) => works(*subject, request, &streams[0], simulation)?
                .map(|()| Prediction::of(subject.name(), Method::Formula, on)),
            None => simulate(*subject, request, streams, simulation, repeats)?,
        });
    }
    Ok(predictions)
}

/// How many cells a run on all streams has.
fn cells(request: &Request, streams: &[DataStream]) -> u64 {
    let length = |stream: &DataStream| match stream {
        DataStream::Counts(stream) => stream.length() as u64,
        DataStream::Numbers(stream) => stream.values().len() as u64,
        DataStream::Symbols(stream) => stream.sequences().iter().map(|sequence| sequence.len() as u64).sum(),
    };
    streams.iter().map(length).sum::<u64>().saturating_mul(Simulation::width(&request.data))
}

/// Why an error was not predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpredicted {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Why.
    pub why: String,
}

fn simulate(
    subject: &'static dyn Subject,
    request: &Request,
    streams: &[DataStream],
    simulation: &Simulation,
    repeats: Option<NonZeroU64>,
) -> Result<Result<Prediction, Unpredicted>, AdviseError> {
    let unpredicted = |why: &str| Ok(Err(Unpredicted { mechanism: subject.name(), why: why.to_owned() }));
    let Some(repeats) = repeats else {
        return unpredicted("it would take long to simulate: give --length or --repeats to do it all the same");
    };
    if subject.name() == "batched" {
        if request.delay == 0 {
            return unpredicted("without a delay there are no batches");
        }
        let length = u32::try_from(request.delay + 1).unwrap_or(u32::MAX);
        let sequences = request.data.domain().and_then(|domain| u64::from(domain).checked_pow(length));
        if simulation.length.is_none() && sequences.is_none_or(|sequences| sequences > MOST_SEQUENCES) {
            return unpredicted("batches of so many sequences take long: give --length to simulate them all the same");
        }
    }
    let trial = Trial { subject, settings: request.settings() };
    let plan = Plan { repeats, seed: simulation.seed, threads: simulation.threads, queries: false };
    let mut on = Vec::with_capacity(streams.len());
    for stream in streams {
        match run(stream, std::slice::from_ref(&trial), &plan, &|| ()) {
            Ok(findings) => {
                let found = findings.iter().flat_map(|finding| &finding.metrics);
                let found = found.clone().find(|(metric, _)| *metric == request.metric);
                let Some((_, summary)) = found else { return unpredicted("it has no such error") };
                on.push((stream.name().to_owned(), *summary));
            }
            Err(TrialError { source: RunError::Unsupported(why), .. }) => return unpredicted(&why.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Ok(Prediction::of(subject.name(), Method::Simulation, on)))
}

/// Whether a mechanism can be set up as is asked: it is run on the first timestamps of a stream.
fn works(
    subject: &'static dyn Subject,
    request: &Request,
    stream: &DataStream,
    simulation: &Simulation,
) -> Result<Result<(), Unpredicted>, AdviseError> {
    let trial = Trial { subject, settings: request.settings() };
    let plan = Plan { repeats: NonZeroU64::MIN, seed: simulation.seed, threads: NonZeroUsize::MIN, queries: false };
    match run(&stream.clone().shortened(1)?, &[trial], &plan, &|| ()) {
        Ok(_) => Ok(Ok(())),
        Err(TrialError { source: RunError::Unsupported(why), .. }) => {
            Ok(Err(Unpredicted { mechanism: subject.name(), why: why.to_string() }))
        }
        Err(error) => Err(error.into()),
    }
}

/// An oracle, and what its reports cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OracleAdvice {
    /// The oracle.
    pub kind: OracleKind,
    /// The variance of a frequency, averaged over the values, from a single report.
    pub variance: f64,
    /// The length of a report in bytes.
    pub bytes: usize,
}

/// Frequency oracles for a domain at the epsilon of one report, the lowest variance first. [`OracleKind::best`] takes
/// the shortest report among those within one per cent of the lowest.
pub fn oracles(domain: u32, epsilon: Epsilon) -> Vec<OracleAdvice> {
    let advice = |kind: OracleKind| {
        let bytes = Oracle::new(kind, domain, epsilon).ok()?.report_length();
        let variance = kind.variance(domain, epsilon, 1).at(1.0 / f64::from(domain));
        Some(OracleAdvice { kind, variance, bytes })
    };
    let mut all: Vec<_> = OracleKind::ALL.into_iter().filter_map(advice).collect();
    all.sort_by(|a, b| a.variance.total_cmp(&b.variance));
    all
}

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The mechanisms and the constant beside them, the lowest error first.
    pub ranking: Vec<Prediction>,
    /// Those of which nothing can be said.
    pub unpredicted: Vec<Unpredicted>,
    /// Why the first wins here.
    pub why: String,
    /// What it would take for another to win.
    pub otherwise: String,
    /// The epsilon of one report of the best local mechanism, and the oracles for it.
    pub oracles: Option<(Epsilon, Vec<OracleAdvice>)>,
}

/// Ranks mechanisms by the error that is to be expected on some [streams].
///
/// ```
/// use std::num::{NonZeroU64, NonZeroUsize};
/// use tidegate_lab::advise::{Data, Request, Simulation, Trust, advise, streams};
/// use tidegate_lab::metrics::Metric;
///
/// let one = NonZeroU64::MIN;
/// let request = Request {
///     data: Data::Counts { domain: 2, population: one.saturating_add(199_999) },
///     trust: Trust::Local,
///     epsilon: "1".parse()?,
///     window: one.saturating_add(19),
///     delay: 0,
///     metric: Metric::Mse,
/// };
/// let simulation = Simulation { repeats: Some(one), ..Simulation::new(1, NonZeroUsize::MIN) };
/// let streams = streams(&request, None, &simulation)?;
/// let advice = advise(&request, &request.chosen(&["lbu".into(), "lpu".into()])?, &streams, &simulation)?;
/// let order: Vec<_> = advice.ranking.iter().map(|prediction| prediction.mechanism).collect();
/// assert_eq!(order, ["lpu", "lbu", "constant"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn advise(
    request: &Request,
    subjects: &[&'static dyn Subject],
    streams: &[DataStream],
    simulation: &Simulation,
) -> Result<Advice, AdviseError> {
    request.check()?;
    let (mut ranking, mut unpredicted) = (Vec::new(), Vec::new());
    for prediction in predict(request, subjects, streams, simulation)? {
        match prediction {
            Ok(prediction) => ranking.push(prediction),
            Err(why) => unpredicted.push(why),
        }
    }
    // It draws nothing: once is enough.
    let once = Simulation { repeats: Some(NonZeroU64::MIN), ..*simulation };
    let constant = predict(request, &[&Constant], streams, &once)?.into_iter().flatten();
    ranking.extend(constant.map(|prediction| Prediction { method: Method::Formula, ..prediction }));
    ranking.sort_by(|a, b| a.error.total_cmp(&b.error));
    let (why, otherwise) = explain::explain(request, &ranking, streams)?;
    let report = best_report(request, &ranking);
    let oracles = report.zip(request.data.domain()).map(|(epsilon, domain)| (epsilon, oracles(domain, epsilon)));
    Ok(Advice { ranking, unpredicted, why, otherwise, oracles })
}

/// The epsilon of one report of the best local mechanism.
fn best_report(request: &Request, ranking: &[Prediction]) -> Option<Epsilon> {
    if !matches!((request.data, request.trust), (Data::Counts { .. }, Trust::Local)) {
        return None;
    }
    let best = ranking.iter().find(|prediction| prediction.mechanism != "constant")?;
    let parts = match best.mechanism {
        "lbu" => request.window.get(),
        // Half of each share is for measuring; that for publishing differs.
        "lbd" | "lba" | "mtsp" => request.window.get().saturating_mul(2),
        _ => 1,
    };
    request.epsilon.divided_by(parts)
}
