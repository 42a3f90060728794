//! Predicts the error of mechanisms, by formula or by simulation.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_kernel::SeededRandom;

use super::typical::Shape;
use super::{AdviseError, Data, Request, Sample, Trust, formula, sample};
use crate::experiment::{Finding, Plan, RunError, Subject, Trial, TrialError, run_until};
use crate::generate::MAX_LENGTH;
use crate::metrics::{Metric, Summary};
use crate::stop::Stop;
use crate::stream::DataStream;

/// Options of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// Runs of each mechanism on each stream; by default as many as a few seconds allow.
    pub repeats: Option<NonZeroU64>,
    /// Length of typical streams; by default ten windows, if a few seconds allow that.
    pub length: Option<NonZeroUsize>,
    /// The seed of all randomness.
    pub seed: u64,
    /// Number of threads. Results do not depend on it.
    pub threads: NonZeroUsize,
    /// Most cells (values times timestamps times runs) simulated by default.
    pub work: u64,
    /// Stops the simulation: advice then fails with [`RunError::Stopped`].
    pub stop: &'a Stop,
}

/// Default of [`Simulation::work`]: a few seconds.
const WORK: u64 = 12_000_000;
/// [`Simulation::work`] of a quick recommendation.
const QUICK_WORK: u64 = 1_200_000;
/// Most cells of a stream held in memory.
const MOST_CELLS: u64 = 4_000_000;
/// Most sequences of a batch simulated by default.
const MOST_SEQUENCES: u64 = 128;
/// Cost of a cell of a local mechanism, relative to a central one.
const LOCAL_COST: u64 = 8;
/// Most cells of a run that only counts bytes.
const SHORT_RUN: u64 = 1_000_000;
/// Number of streams drawn from a sample.
const DRAWS: u64 = 3;

impl Simulation<'_> {
    /// Uses the default length and number of runs.
    pub fn new(seed: u64, threads: NonZeroUsize) -> Self {
        Self { repeats: None, length: None, seed, threads, work: WORK, stop: Stop::never() }
    }

    /// Simulates a tenth of that.
    pub fn quick(seed: u64, threads: NonZeroUsize) -> Self {
        Self { work: QUICK_WORK, ..Self::new(seed, threads) }
    }

    /// Returns the cost of one timestamp, in cells.
    fn width(data: &Data) -> u64 {
        match *data {
            Data::Counts { domain, .. } => u64::from(domain).max(16),
            Data::Numbers { .. } => 64,
            // The forecast of the next symbol sums over all pairs.
            Data::Symbols { domain } => u64::from(domain) * u64::from(domain) + 200,
        }
    }

    /// Returns the length of a typical stream.
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

    /// Returns the runs of each mechanism; `None` if even two exceed the default budget.
    pub(super) fn repeats(&self, cells: u64, mechanisms: usize) -> Option<NonZeroU64> {
        if self.repeats.is_some() {
            return self.repeats;
        }
        let affordable = self.work / cells.saturating_mul(mechanisms as u64).max(1);
        // An explicit length is simulated, however long that takes.
        NonZeroU64::new(if self.length.is_some() { affordable.clamp(2, 10) } else { affordable.min(10) })
    }
}

/// Returns the streams to predict errors on: drawn from a sample, or typical where that does not tell how the stream
/// moves.
pub fn streams(
    request: &Request,
    sample: Option<&Sample>,
    simulation: &Simulation,
) -> Result<Vec<DataStream>, AdviseError> {
    request.check()?;
    let random = |number: u64| SeededRandom::with_stream(simulation.seed, (1 << 32) + number);
    if let Some(sample) = sample.filter(|sample| sample.movement().is_told()) {
        let least = match request.data {
            Data::Counts { .. } => request.window.get().saturating_mul(2).min(sample::LONGEST),
            Data::Numbers { .. } | Data::Symbols { .. } => 1,
        };
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        return (0..DRAWS).map(|draw| sample.draw(&request.data, least, &mut random(draw))).collect();
    }
    let (length, columns) = (simulation.length(request), request.data.columns());
    if length.saturating_mul(columns) > MAX_LENGTH {
        return Err(AdviseError::Long { length, columns });
    }
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
    /// Returns the name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Formula => "formula",
            Self::Simulation => "simulation",
        }
    }
}

/// The expected error of a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The mechanism.
    pub mechanism: &'static str,
    /// How it was predicted.
    pub method: Method,
    /// Mean over the streams.
    pub error: f64,
    /// Lowest error of a stream, minus two standard errors.
    pub low: f64,
    /// Highest error of a stream, plus two standard errors.
    pub high: f64,
    /// Standard error of the mean, for simulations.
    pub standard_error: f64,
    /// The error on each stream.
    pub on: Vec<(String, Summary)>,
    /// Bytes that a user sends in a timestamp, on average; `None` where users report nothing, or it is unknown.
    pub bytes: Option<f64>,
    /// The place of the mechanism among those asked about.
    pub place: Option<usize>,
}

impl Prediction {
    fn of(mechanism: &'static str, method: Method, on: Vec<(String, Summary)>) -> Self {
        let count = on.len().max(1) as f64;
        let spread = |summary: &Summary| 2.0 * summary.standard_error.unwrap_or(0.0);
        let low = on.iter().map(|(_, summary)| (summary.mean - spread(summary)).max(0.0)).fold(f64::INFINITY, f64::min);
        let high = on.iter().map(|(_, summary)| summary.mean + spread(summary)).fold(0.0, f64::max);
        let error = on.iter().map(|(_, summary)| summary.mean).sum::<f64>() / count;
        let squares: f64 = on.iter().map(|(_, summary)| summary.standard_error.unwrap_or(0.0).powi(2)).sum();
        Self {
            mechanism,
            method,
            error,
            low,
            high,
            standard_error: squares.sqrt() / count,
            on,
            bytes: None,
            place: None,
        }
    }
}

/// Predicts the error of each mechanism, by formula where one exists.
pub fn predict(
    request: &Request,
    subjects: &[&dyn Subject],
    streams: &[DataStream],
    simulation: &Simulation,
) -> Result<Vec<Result<Prediction, Unpredicted>>, AdviseError> {
    let settings = request.settings();
    let formula = |subject: &dyn Subject| -> Option<Vec<(String, Summary)>> {
        let settings = subject.in_formulas(&settings)?;
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
    for (place, (subject, formula)) in subjects.iter().zip(formulas).enumerate() {
        // A formula does not apply to settings that the mechanism rejects.
        predictions.push(match formula {
            Some(on) => works(*subject, request, &streams[0], simulation)?
                .map(|bytes| Prediction { bytes, ..Prediction::of(subject.name(), Method::Formula, on) }),
            None => simulate(*subject, request, streams, simulation, repeats)?,
        });
        if let Some(Ok(prediction)) = predictions.last_mut() {
            prediction.place = Some(place);
        }
    }
    Ok(predictions)
}

/// Returns the number of cells of one run on all streams.
pub(super) fn cells(request: &Request, streams: &[DataStream]) -> u64 {
    let length = |stream: &DataStream| match stream {
        DataStream::Counts(stream) => stream.length() as u64,
        DataStream::Numbers(stream) => stream.values().len() as u64,
        DataStream::Symbols(stream) => stream.sequences().iter().map(|sequence| sequence.len() as u64).sum(),
    };
    // Reports of simulated users cost several times as much as noise on counts.
    let factor =
        if matches!((request.data, request.trust), (Data::Counts { .. }, Trust::Local)) { LOCAL_COST } else { 1 };
    streams.iter().map(length).sum::<u64>().saturating_mul(Simulation::width(&request.data)).saturating_mul(factor)
}

/// A mechanism without a prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpredicted {
    /// The mechanism.
    pub mechanism: &'static str,
    /// The reason.
    pub why: String,
}

fn simulate(
    subject: &dyn Subject,
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
        let length = u32::try_from(request.delay.saturating_add(1)).unwrap_or(u32::MAX);
        let sequences = request.data.domain().and_then(|domain| u64::from(domain).checked_pow(length));
        if simulation.length.is_none() && sequences.is_none_or(|sequences| sequences > MOST_SEQUENCES) {
            return unpredicted("batches of so many sequences take long: give --length to simulate them all the same");
        }
    }
    let trial = Trial { subject, settings: request.settings() };
    let plan = Plan { repeats, seed: simulation.seed, threads: simulation.threads, queries: is_of_ranges(request) };
    let mut on = Vec::with_capacity(streams.len());
    let mut bytes = Vec::with_capacity(streams.len());
    for stream in streams {
        match run_until(simulation.stop, stream, std::slice::from_ref(&trial), &plan, &|| ()) {
            Ok(findings) => {
                let Some(summary) = metric_of(&findings, request.metric) else {
                    return unpredicted("it has no such error");
                };
                on.push((stream.name().to_owned(), summary));
                bytes.extend(metric_of(&findings, Metric::Bytes).map(|summary| summary.mean));
            }
            Err(TrialError { source: RunError::Unsupported(why), .. }) => return unpredicted(&why.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    let bytes = (!bytes.is_empty()).then(|| bytes.iter().sum::<f64>() / bytes.len() as f64);
    Ok(Ok(Prediction { bytes, ..Prediction::of(subject.name(), Method::Simulation, on) }))
}

fn metric_of(findings: &[Finding], metric: Metric) -> Option<Summary> {
    findings.first().and_then(|finding| finding.summary(metric))
}

/// Whether the error is that of ranges of values.
fn is_of_ranges(request: &Request) -> bool {
    matches!(request.metric, Metric::RangeMse | Metric::RangeMae | Metric::RangeMre)
}

/// Checks by a short run that a mechanism accepts the settings; returns the bytes that a user sends in a timestamp.
fn works(
    subject: &dyn Subject,
    request: &Request,
    stream: &DataStream,
    simulation: &Simulation,
) -> Result<Result<Option<f64>, Unpredicted>, AdviseError> {
    let trial = Trial { subject, settings: request.settings() };
    let plan = Plan { repeats: NonZeroU64::MIN, seed: simulation.seed, threads: NonZeroUsize::MIN, queries: false };
    // What is sent is the same in every window.
    let affordable = SHORT_RUN / Simulation::width(&request.data);
    let window = if request.trust == Trust::Local && matches!(request.data, Data::Counts { .. }) {
        request.window.get()
    } else {
        1
    };
    let length = if window <= affordable { usize::try_from(window).unwrap_or(1) } else { 1 };
    match run_until(simulation.stop, &stream.clone().shortened(length)?, &[trial], &plan, &|| ()) {
        Ok(findings) => {
            let known = length as u64 == window;
            Ok(Ok(metric_of(&findings, Metric::Bytes).map(|summary| summary.mean).filter(|_| known)))
        }
        Err(TrialError { source: RunError::Unsupported(why), .. }) => {
            Ok(Err(Unpredicted { mechanism: subject.name(), why: why.to_string() }))
        }
        Err(error) => Err(error.into()),
    }
}
