//! Repeated, seeded runs of mechanisms on a stream, on all cores.
//!
//! Results do not depend on the number of threads.

mod processor;
mod settings;
mod subject;

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::query::QueryError;
use tidegate_kernel::SeededRandom;

use crate::metrics::{
    Metric, Metrics, RocPoint, Summary, Truth, cfpu, compare_numbers, compare_symbols, coverage_of_numbers, mean_curve,
};
use crate::queries::{QuerySet, QueryTruth};
use crate::stop::Stop;
use crate::stream::{CountStream, DataStream, NumberStream, StreamKind, SymbolStream};
use crate::subjects::Misfit;
pub use settings::{RequirementClass, Setting, TrialSettings};
pub use subject::{
    CountOutcome, MeanOutcome, NumberOutcome, OnCounts, OnNumbers, OnSymbols, RunError, Subject, SymbolOutcome,
};

/// A mechanism with its settings.
#[derive(Clone)]
pub struct Trial<'a> {
    /// The mechanism.
    pub subject: &'a dyn Subject,
    /// Its settings.
    pub settings: TrialSettings,
}

impl std::fmt::Debug for Trial<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Trial")
            .field("subject", &self.subject.name())
            .field("settings", &self.settings)
            .finish()
    }
}

/// Number of steps of a [`Finding`]'s ROC curves.
pub const CURVE_STEPS: usize = 100;

/// The result of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its settings.
    pub settings: TrialSettings,
    /// Applicable metrics over the repeats, in the order of [`Metric::ALL`].
    pub metrics: Vec<(Metric, Summary)>,
    /// Mean ROC curve of detected events over the repeats, at [`CURVE_STEPS`] + 1 false-positive rates
    /// ([`mean_curve`]). Empty if `auc` is absent. See [`Comparison::roc`](crate::metrics::Comparison::roc).
    pub roc: Vec<RocPoint>,
    /// The same for detected rises, averaged over range queries too; empty if `monitor_auc` is absent.
    pub monitor_roc: Vec<RocPoint>,
    /// Total running time of the mechanism, over all repeats and threads.
    pub time: Duration,
    /// Metrics of each run, in the order of the repeats. Trials of one plan share the seeds of their repeats, so their
    /// runs can be compared in pairs.
    pub runs: Vec<Metrics>,
    /// Processor time of each run of the mechanism: unlike [`Finding::time`] without what other programs took. On
    /// systems that do not tell a thread's, elapsed time.
    pub processor_times: Vec<Duration>,
}

impl Finding {
    /// Returns a metric over the repeats; `None` if it does not apply.
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        self.metrics.iter().find(|(other, _)| *other == metric).map(|(_, summary)| *summary)
    }
}

/// The plan of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Runs of each trial.
    pub repeats: NonZeroU64,
    /// The seed. Each repeat has a generator of its own, shared by all trials. A trial's results therefore do not
    /// depend on the other trials, and differences between trials have less variance.
    pub seed: u64,
    /// Number of threads.
    pub threads: NonZeroUsize,
    /// Whether to answer queries too ([`QueryTruth::compare`]), for streams of counts. Queries are drawn from the seed,
    /// and are the same for all trials of one window.
    pub queries: bool,
}

/// A failed trial.
#[derive(Debug, thiserror::Error)]
#[error("{mechanism} at epsilon {} and window {}, repeat {repeat}: {source}", .settings.epsilon, .settings.window)]
pub struct TrialError {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its settings.
    pub settings: Box<TrialSettings>,
    /// Index of the repeat.
    pub repeat: u64,
    /// The cause.
    pub source: RunError,
}

/// Returns the generator of the data set: random stream 0 of the seed. The last stream is for queries, the others for
/// repeats.
pub fn dataset_random(seed: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, 0)
}

/// Returns the generator of the queries.
pub fn query_random(seed: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, u64::MAX)
}

/// Returns the generator of a repeat, from zero.
pub fn repeat_random(seed: u64, repeat: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, repeat.wrapping_add(1))
}

/// Runs each trial as often as planned and summarises it; calls `progress` after each run.
///
/// Findings have the order of the trials. Except for times, they do not depend on the number of threads. Neither does
/// the error, which is the first by trial and then by repeat.
pub fn run(
    stream: &DataStream,
    trials: &[Trial<'_>],
    plan: &Plan,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Finding>, TrialError> {
    run_until(Stop::never(), stream, trials, plan, progress)
}

/// Like [`run`], but fails with [`RunError::Stopped`] soon after `stop` is set: no run begins after that.
pub fn run_until(
    stop: &Stop,
    stream: &DataStream,
    trials: &[Trial<'_>],
    plan: &Plan,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Finding>, TrialError> {
    let bench = Bench::new(stream, trials, plan);
    let repeats = usize::try_from(plan.repeats.get()).unwrap_or(usize::MAX);
    let jobs = trials.len().saturating_mul(repeats);
    let one_run = |job: usize| -> Result<Run, TrialError> {
        let trial = &trials[job / repeats];
        let repeat = (job % repeats) as u64;
        let run = match stop.is_set() {
            true => Err(RunError::Stopped),
            false => bench.run_once(trial, &mut repeat_random(plan.seed, repeat)),
        };
        run.map_err(|source| {
            let settings = Box::new(trial.settings.clone());
            TrialError { mechanism: trial.subject.name(), settings, repeat, source }
        })
    };
    let runs = in_parallel(jobs, plan.threads, |job| {
        let run = one_run(job);
        progress();
        run
    })?;
    let findings = trials.iter().zip(runs.chunks(repeats)).map(|(trial, runs)| summarise(trial, runs));
    Ok(findings.collect())
}

struct Run {
    metrics: Metrics,
    /// Of detected events, and of detected rises; empty if there are none.
    roc: Vec<RocPoint>,
    monitor_roc: Vec<RocPoint>,
    time: Elapsed,
}

/// Running time of a mechanism, by the wall clock and by the processor.
#[derive(Clone, Copy)]
struct Elapsed {
    wall: Duration,
    processor: Duration,
}

impl Run {
    const fn of(metrics: Metrics, time: Elapsed) -> Self {
        Self { metrics, roc: Vec::new(), monitor_roc: Vec::new(), time }
    }
}

/// A stream with its true answers.
enum Bench<'a> {
    Counts {
        stream: &'a CountStream,
        truth: Truth,
        queries: BTreeMap<NonZeroU64, Result<QueryTruth, QueryError>>,
    },
    /// The values as numbers, and their true means; `None` where nobody is there at some timestamp.
    Means {
        stream: &'a CountStream,
        truth: Option<NumberStream>,
    },
    Numbers(&'a NumberStream),
    Symbols(&'a SymbolStream),
}

impl<'a> Bench<'a> {
    fn new(stream: &'a DataStream, trials: &[Trial<'_>], plan: &Plan) -> Self {
        match stream {
            DataStream::Counts(stream) if trials.iter().any(|trial| trial.settings.mean) => {
                Self::Means { stream, truth: stream.means() }
            }
            DataStream::Counts(stream) => {
                let mut queries = BTreeMap::new();
                for trial in trials.iter().filter(|_| plan.queries) {
                    let window = trial.settings.window;
                    let query_truth =
                        || QueryTruth::of(stream, &QuerySet::draw(stream, window, &mut query_random(plan.seed)));
                    queries.entry(window).or_insert_with(query_truth);
                }
                Self::Counts { stream, truth: Truth::of(stream), queries }
            }
            DataStream::Numbers(stream) => Self::Numbers(stream),
            DataStream::Symbols(stream) => Self::Symbols(stream),
        }
    }

    fn run_once(&self, trial: &Trial<'_>, random: &mut SeededRandom) -> Result<Run, RunError> {
        let Trial { subject, settings } = trial;
        match self {
            Self::Counts { stream, truth, queries } => {
                let queries = queries.get(&settings.window).map(Result::as_ref).transpose();
                let queries = queries.map_err(|error| RunError::failed(*error))?;
                let misfit = || Misfit::boxed(*subject, StreamKind::Counts, stream.name());
                let subject = subject.on_counts().ok_or_else(misfit)?;
                let (outcome, time) = timed(|| subject.run(stream, settings, random))?;
                let comparison = truth.compare_outcome(&outcome)?;
                let mut run = Run::of(comparison.metrics(), time);
                run.roc = mean_curve(comparison.roc().as_slice(), CURVE_STEPS);
                run.metrics.insert(Metric::Cfpu, cfpu(stream, outcome.reports));
                if outcome.bytes > 0 {
                    run.metrics.insert(Metric::Bytes, cfpu(stream, outcome.bytes));
                }
                run.metrics.extend(comparison.coverage(&outcome.variances).map(|part| (Metric::Coverage, part)));
                if let Some(queries) = queries {
                    let (metrics, curves) = queries.compare_with_curves(outcome)?;
                    run.metrics.extend(metrics);
                    run.monitor_roc = mean_curve(&curves, CURVE_STEPS);
                }
                Ok(run)
            }
            Self::Means { stream, truth } => {
                let truth = truth.as_ref().ok_or_else(|| RunError::unsupported("nobody has a mean"))?;
                let misfit = || Misfit::boxed(*subject, StreamKind::Counts, stream.name());
                let subject = subject.on_counts().ok_or_else(misfit)?;
                let (outcome, time) = timed(|| subject.run_mean(stream, settings, random))?;
                let mut metrics = compare_numbers(truth, &outcome.released.values)?;
                let coverage = coverage_of_numbers(truth, &outcome.released.values, &outcome.released.variances);
                metrics.extend(coverage.map(|part| (Metric::Coverage, part)));
                metrics.insert(Metric::Cfpu, cfpu(stream, outcome.reports));
                if outcome.bytes > 0 {
                    metrics.insert(Metric::Bytes, cfpu(stream, outcome.bytes));
                }
                Ok(Run::of(metrics, time))
            }
            Self::Numbers(stream) => {
                let misfit = || Misfit::boxed(*subject, StreamKind::Numbers, stream.name());
                let subject = subject.on_numbers().ok_or_else(misfit)?;
                let (outcome, time) = timed(|| subject.run(stream, settings, random))?;
                let mut metrics = compare_numbers(stream, &outcome.values)?;
                let coverage = coverage_of_numbers(stream, &outcome.values, &outcome.variances);
                metrics.extend(coverage.map(|part| (Metric::Coverage, part)));
                Ok(Run::of(metrics, time))
            }
            Self::Symbols(stream) => {
                let misfit = || Misfit::boxed(*subject, StreamKind::Symbols, stream.name());
                let subject = subject.on_symbols().ok_or_else(misfit)?;
                let (outcome, time) = timed(|| subject.run(stream, settings, random))?;
                Ok(Run::of(compare_symbols(stream, &outcome.sequences)?, time))
            }
        }
    }
}

fn timed<T>(work: impl FnOnce() -> Result<T, RunError>) -> Result<(T, Elapsed), RunError> {
    let (start, before) = (Instant::now(), processor::of_thread());
    let outcome = work()?;
    let wall = start.elapsed();
    let processor = before.zip(processor::of_thread()).map_or(wall, |(before, after)| after.saturating_sub(before));
    Ok((outcome, Elapsed { wall, processor }))
}

fn summarise(trial: &Trial<'_>, runs: &[Run]) -> Finding {
    let summary = |metric: Metric| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.metrics.get(&metric).copied()).collect();
        Summary::of(&values).map(|summary| (metric, summary))
    };
    let mean_of = |curve: fn(&Run) -> &Vec<RocPoint>| {
        let curves: Vec<Vec<RocPoint>> = runs.iter().map(curve).filter(|curve| !curve.is_empty()).cloned().collect();
        mean_curve(&curves, CURVE_STEPS)
    };
    Finding {
        mechanism: trial.subject.name(),
        settings: trial.settings.clone(),
        metrics: Metric::ALL.into_iter().filter_map(summary).collect(),
        roc: mean_of(|run| &run.roc),
        monitor_roc: mean_of(|run| &run.monitor_roc),
        time: runs.iter().map(|run| run.time.wall).sum(),
        runs: runs.iter().map(|run| run.metrics.clone()).collect(),
        processor_times: runs.iter().map(|run| run.time.processor).collect(),
    }
}

/// Runs the jobs `0..jobs`; returns their results in order, or the error of the first failed job.
///
/// Jobs start in order, and none starts after an error. All jobs before a failed one have therefore finished, so the
/// first error does not depend on the threads.
pub fn in_parallel<T: Send, E: Send>(
    jobs: usize,
    threads: NonZeroUsize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let finished = Mutex::new(Vec::new());
    let worker = || {
        while !failed.load(Ordering::Relaxed) {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                break;
            }
            let result = work(job);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            // A poisoned lock means that another worker panicked; the scope propagates that.
            finished.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((job, result));
        }
    };
    thread::scope(|scope| {
        // This thread is one of the workers.
        for _ in 1..threads.get().min(jobs) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut finished = finished.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    finished.sort_unstable_by_key(|(job, _)| *job);
    finished.into_iter().map(|(_, result)| result).collect()
}
