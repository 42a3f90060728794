//! Advice against measurement: on streams whose truth is known.
//!
//! The first half of a stream is the past. It is released by a mechanism that treats all timestamps alike, with the
//! budget that is asked about, and advice is computed from these releases. Sequences, whose releases state no
//! variance, have a public model instead, learned from the past. Then every mechanism runs on the second half, with
//! other randomness. The same is done without a sample, from typical streams.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate_kernel::SeededRandom;
use tidegate_kernel::primitives::Protects;
use tidegate_table::released::{ReleasedLine, ReleasedTable};

use super::candidate::SpecSubject;
use super::{AdviseError, Data, Question, Request, Sample, Simulation, Trust, metrics_of, recommend};
use crate::central::domain_of;
use crate::datasets::{self, DatasetError, LoadOptions};
use crate::experiment::{Plan, RunError, Subject, Trial, TrialError, run};
use crate::stream::{CountStream, DataStream, NumberStream, SymbolStream, as_float};

/// A stream with the settings that are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// The data set.
    pub stream: &'static str,
    /// The family of mechanisms.
    pub family: &'static str,
    /// The number of users; that of the data set if 0.
    pub population: u64,
    /// The budget.
    pub epsilon: &'static str,
    /// The window.
    pub window: u64,
    /// The delay.
    pub delay: u64,
    /// Whether one contributor to a number is protected.
    pub contributor: bool,
}

const fn counts(stream: &'static str, family: &'static str, population: u64, window: u64) -> Case {
    Case { stream, family, population, epsilon: "1", window, delay: 0, contributor: false }
}

const fn numbers(stream: &'static str, delay: u64, contributor: bool) -> Case {
    Case { stream, family: "scalar", population: 0, epsilon: "1", window: 1, delay, contributor }
}

const fn symbols(stream: &'static str, epsilon: &'static str, delay: u64) -> Case {
    Case { stream, family: "sequence", population: 0, epsilon, window: 1, delay, contributor: false }
}

/// The cases: ten on generated data and ten on real data. Three data sets occur twice.
pub const CASES: [Case; 20] = [
    counts("traffic", "central", 20_000, 20),
    counts("seasonal_counts", "central", 20_000, 20),
    counts("white", "central", 20_000, 10),
    counts("tdrive_counts", "central", 0, 20),
    counts("nyc_taxi_ge", "central", 0, 7),
    counts("foursquare_nyc_stan", "central", 0, 7),
    counts("lns", "local", 200_000, 20),
    counts("sin", "local", 200_000, 20),
    counts("traffic", "local", 200_000, 20),
    counts("tdrive_counts", "local", 200_000, 20),
    counts("taobao_userbehavior", "local", 200_000, 10),
    numbers("outpatient_ilinet_once", 10, true),
    numbers("covid19_death_chronological", 4, true),
    numbers("unemployment", 10, true),
    numbers("numbers_daily", 0, false),
    numbers("numbers_walk", 10, false),
    symbols("markov_90", "1", 0),
    symbols("markov:10:0.8", "2", 1),
    symbols("msnbc_spmf", "1", 0),
    symbols("msnbc_spmf", "3", 0),
];

/// Longest stream, past and future together.
const LONGEST: usize = 480;
/// Longest sequence.
const LONGEST_SEQUENCE: usize = 4_000;

/// Options of [`check`].
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Directory with the real data sets; without it, cases that need them are left out.
    pub data_dir: Option<PathBuf>,
    /// Runs of each mechanism on the second half.
    pub repeats: NonZeroU64,
    /// The seed.
    pub seed: u64,
    /// Number of threads; results do not depend on it.
    pub threads: NonZeroUsize,
}

/// A prediction and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The mechanism.
    pub mechanism: &'static str,
    /// The predicted error.
    pub predicted: f64,
    /// The measured error.
    pub measured: f64,
}

impl Pair {
    /// Returns the factor between the two, at least one.
    pub fn factor(&self) -> f64 {
        let ratio = self.predicted / self.measured;
        ratio.max(ratio.recip())
    }
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Predictions, the best first.
    pub pairs: Vec<Pair>,
    /// The mechanism that measured best.
    pub best: &'static str,
    /// The measured error of the recommended mechanism over that of the best.
    pub regret: f64,
}

/// Results with and without a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckResults {
    /// From past releases, or a public model.
    pub from_past: Vec<Checked>,
    /// From typical streams.
    pub typical: Vec<Checked>,
    /// Data sets that are not in the data directory.
    pub left_out: Vec<&'static str>,
}

/// Returns the share of predictions within a factor of what was measured, and of cases whose recommendation is within
/// a factor of the best.
pub fn shares(checked: &[Checked], of_error: f64, of_best: f64) -> (f64, f64) {
    let part = |fitting: usize, all: usize| as_float(fitting as u64) / as_float(all.max(1) as u64);
    let pairs = || checked.iter().flat_map(|checked| &checked.pairs);
    let close = pairs().filter(|pair| pair.factor() <= of_error).count();
    let good = checked.iter().filter(|checked| checked.regret <= of_best).count();
    (part(close, pairs().count()), part(good, checked.len()))
}

/// Runs the cases; tells `progress` in a line what was finished.
///
/// # Errors
/// A data set that cannot be read, or a failure of a mechanism.
pub fn check(cases: &[Case], options: &CheckOptions, progress: &dyn Fn(&str)) -> Result<CheckResults, AdviseError> {
    let mut results = CheckResults { from_past: Vec::new(), typical: Vec::new(), left_out: Vec::new() };
    for (number, case) in (1..).zip(cases) {
        let load = LoadOptions {
            data_dir: options.data_dir.clone(),
            population: (case.population > 0).then_some(case.population),
            seed: options.seed,
            ..LoadOptions::default()
        };
        let stream = match datasets::load(case.stream, &load) {
            Ok(stream) => stream,
            Err(DatasetError::NoDirectory { .. }) => {
                results.left_out.push(case.stream);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (past, future) = halves(&stream)?;
        let question = question_of(case, &past)?;
        let simulation = Simulation::new(options.seed, options.threads);
        let measured = measure(&question, &future, options)?;
        results.typical.push(checked(case, &question, None, &simulation, &measured)?);
        let (question, sample) = with_past(question, &past, options.seed)?;
        // A model is part of the mechanism.
        let measured = if sample.is_none() { measure(&question, &future, options)? } else { measured };
        results.from_past.push(checked(case, &question, sample.as_ref(), &simulation, &measured)?);
        progress(&format!("{number}/{}: {}, {}", cases.len(), case.stream, case.family));
    }
    Ok(results)
}

/// Divides a stream into past and future.
fn halves(stream: &DataStream) -> Result<(DataStream, DataStream), AdviseError> {
    Ok(match stream {
        DataStream::Counts(stream) => {
            let rows: Vec<_> = stream.counts().iter().take(LONGEST).cloned().collect();
            let (past, future) = rows.split_at(rows.len() / 2);
            let labels = stream.labels().to_vec();
            let half = |rows: &[Vec<u64>]| CountStream::with_absences(stream.name(), labels.clone(), rows.to_vec());
            (half(past)?.into(), half(future)?.into())
        }
        DataStream::Numbers(stream) => {
            let values = &stream.values()[..stream.values().len().min(LONGEST)];
            let (past, future) = values.split_at(values.len() / 2);
            let half = |values: &[f64]| NumberStream::new(stream.name(), *stream.grid(), values.to_vec());
            (half(past)?.into(), half(future)?.into())
        }
        DataStream::Symbols(stream) => {
            // The longest sequences of some users, one after the other.
            let mut sequences: Vec<&Vec<u32>> = stream.sequences().iter().collect();
            sequences.sort_by_key(|sequence| std::cmp::Reverse(sequence.len()));
            let symbols: Vec<u32> = sequences.into_iter().flatten().copied().take(LONGEST_SEQUENCE).collect();
            let (past, future) = symbols.split_at(symbols.len() / 4 * 2);
            let half = |symbols: &[u32]| SymbolStream::new(stream.name(), stream.space(), vec![symbols.to_vec()]);
            (half(past)?.into(), half(future)?.into())
        }
    })
}

fn question_of(case: &Case, past: &DataStream) -> Result<Question, AdviseError> {
    let data = match past {
        DataStream::Counts(stream) => {
            let users: u64 = (0..stream.length()).map(|timestamp| stream.population(timestamp)).sum();
            let mean = NonZeroU64::new(users / stream.length() as u64).unwrap_or(NonZeroU64::MIN);
            Data::Counts { domain: domain_of(stream), population: mean }
        }
        DataStream::Numbers(stream) => {
            let protects = if case.contributor { Protects::Contribution(NonZeroU64::MIN) } else { Protects::Reading };
            Data::Numbers { grid: *stream.grid(), protects }
        }
        DataStream::Symbols(stream) => Data::Symbols { domain: stream.domain() },
    };
    let trust = if matches!(case.family, "local" | "sequence") { Trust::Local } else { Trust::Curator };
    let (epsilon, delay) = (case.epsilon.parse()?, case.delay);
    let window = NonZeroU64::new(case.window).unwrap_or(NonZeroU64::MIN);
    Ok(Question::new(Request { data, trust, epsilon, window, delay, metric: metrics_of(data.kind())[0] }))
}

/// Runs every mechanism on the future.
fn measure(
    question: &Question,
    future: &DataStream,
    options: &CheckOptions,
) -> Result<Vec<(&'static str, f64)>, AdviseError> {
    let (candidates, _) = question.candidates()?;
    let request = question.request();
    let seed = options.seed.wrapping_add(1 << 20);
    let plan = Plan { repeats: options.repeats, seed, threads: options.threads, queries: false };
    let mut found = Vec::new();
    for candidate in &candidates {
        let trial = Trial { subject: candidate as &dyn Subject, settings: request.settings() };
        match run(future, &[trial], &plan, &|| ()) {
            Ok(findings) => found.extend(
                findings.iter().filter_map(|finding| Some((finding.mechanism, finding.summary(request.metric)?.mean))),
            ),
            Err(TrialError { source: RunError::Unsupported(_), .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn checked(
    case: &Case,
    question: &Question,
    sample: Option<&Sample>,
    simulation: &Simulation,
    measured: &[(&'static str, f64)],
) -> Result<Checked, AdviseError> {
    let advice = recommend(question, sample, simulation)?.advice;
    let pairs: Vec<Pair> = advice
        .ranking
        .iter()
        .filter_map(|prediction| {
            let (mechanism, measured) = *measured.iter().find(|(name, _)| *name == prediction.mechanism)?;
            Some(Pair { mechanism, predicted: prediction.error, measured })
        })
        .collect();
    let best = pairs.iter().min_by(|a, b| a.measured.total_cmp(&b.measured));
    let (name, least) = best.map_or(("", f64::NAN), |best| (best.mechanism, best.measured));
    let regret = pairs.first().map_or(f64::NAN, |first| first.measured / least);
    Ok(Checked { case: *case, pairs, best: name, regret })
}

/// Released numbers of a timestamp, and their variances.
type Row = (Vec<f64>, Vec<f64>);

/// Adds what the past tells: releases, or a model.
fn with_past(question: Question, past: &DataStream, seed: u64) -> Result<(Question, Option<Sample>), AdviseError> {
    let request = *question.request();
    let random = &mut SeededRandom::with_stream(seed, 1 << 34);
    let plain = |name: &str| -> Result<Option<SpecSubject>, AdviseError> {
        Ok(question.candidates_named(&[name.to_owned()])?.0.into_iter().next())
    };
    let settings = request.settings();
    let failed = |error: RunError| AdviseError::Spec(tidegate::spec::SpecError::Values { problem: error.to_string() });
    let line =
        |(timestamp, (numbers, variances)): (u64, Row)| ReleasedLine { timestamp, numbers, variances, fresh: true };
    let (values, rows): (usize, Vec<Row>) = match past {
        DataStream::Symbols(stream) => {
            let model = model_of(stream.domain(), &stream.sequences()[0]);
            return Ok((question.with_keys(model), None));
        }
        DataStream::Counts(stream) => {
            let name = if request.trust == Trust::Local { "lpu" } else { "uniform" };
            let Some(subject) = plain(name)? else { return Ok((question, None)) };
            let Some(runner) = subject.on_counts() else { return Ok((question, None)) };
            let outcome = runner.run(stream, &settings, random).map_err(failed)?;
            (stream.domain(), outcome.frequencies.into_iter().zip(outcome.variances).collect())
        }
        DataStream::Numbers(stream) => {
            let Some(subject) = plain("laplace")? else { return Ok((question, None)) };
            let Some(runner) = subject.on_numbers() else { return Ok((question, None)) };
            let outcome = runner.run(stream, &settings, random).map_err(failed)?;
            let rows = outcome.values.into_iter().zip(outcome.variances);
            (1, rows.map(|(value, variance)| (vec![value], vec![variance])).collect())
        }
    };
    let table = ReleasedTable {
        values: (0..values).map(|value| value.to_string()).collect(),
        states_variance: true,
        is_release: true,
        lines: (0..).zip(rows).map(line).collect(),
    };
    let sample = Sample::of_table("past", table, &request.data)?;
    Ok((question, Some(sample)))
}

/// Returns a model learned from a sequence, each symbol counted once more than it follows another.
fn model_of(domain: u32, sequence: &[u32]) -> Map<String, Value> {
    let size = domain as usize;
    let mut follows = vec![vec![1.0 / f64::from(domain); size]; size];
    for pair in sequence.windows(2) {
        follows[pair[0] as usize][pair[1] as usize] += 1.0;
    }
    let normal = |row: Vec<f64>| {
        let sum: f64 = row.iter().sum();
        row.into_iter().map(|weight| weight / sum).collect::<Vec<f64>>()
    };
    let mut prior = vec![1.0 / f64::from(domain); size];
    sequence.iter().for_each(|symbol| prior[*symbol as usize] += 1.0);
    let transitions: Vec<Vec<f64>> = follows.into_iter().map(normal).collect();
    let mut keys = Map::new();
    keys.insert("model".to_owned(), json!({ "prior": normal(prior), "transitions": transitions }));
    keys
}
