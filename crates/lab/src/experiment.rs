//! Repeated, seeded runs of mechanisms on a stream, on all cores, with results that do not depend on how many there are.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::tree::Tree;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Epsilon, SeededRandom};

use crate::metrics::{Metric, Metrics, NotComparable, Summary, Truth, cfpu};
use crate::queries::{Incomparable, QuerySet, QueryTruth};
use crate::stream::CountStream;

/// What a mechanism is given besides the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The budget of any window.
    pub epsilon: Epsilon,
    /// The window, in timestamps.
    pub window: NonZeroU64,
    /// How many timestamps a release may be held back.
    pub delay: u64,
    /// The frequency oracle; `None` leaves the choice to the mechanism.
    pub oracle: Option<OracleKind>,
}

/// What a mechanism made of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The released frequencies: a row for each timestamp, with a column for each value.
    pub frequencies: Vec<Vec<f64>>,
    /// The trees whose leaves those frequencies are, one for each timestamp; empty where histograms were released.
    pub trees: Vec<Tree>,
    /// How many reports users sent, over all timestamps and questions.
    pub reports: u64,
}

/// Why a run did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The mechanism cannot work with these settings or this stream: ask for something else.
    #[error("it cannot work with this: {0}")]
    Unsupported(Box<dyn Error + Send + Sync>),
    /// It failed along the way.
    #[error("it failed: {0}")]
    Failed(Box<dyn Error + Send + Sync>),
    /// What it released does not fit the stream.
    #[error("its releases do not fit the stream: {0}")]
    Outcome(#[from] NotComparable),
}

impl From<Incomparable> for RunError {
    fn from(error: Incomparable) -> Self {
        match error {
            Incomparable::Outcome(error) => Self::Outcome(error),
            Incomparable::Query(error) => Self::Failed(Box::new(error)),
        }
    }
}

/// Something to try on a stream: a mechanism with the simulated users that answer it, or a baseline.
pub trait Subject: Send + Sync {
    /// The name that users write.
    fn name(&self) -> &'static str;

    /// What it is, in one line.
    fn summary(&self) -> &'static str;

    /// Runs from the stream's first timestamp to its last. The outcome is a function of the arguments alone: all randomness
    /// comes from `random`.
    fn run(&self, stream: &CountStream, settings: &Settings, random: &mut SeededRandom) -> Result<Outcome, RunError>;
}

/// One mechanism with one choice of settings.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// The mechanism.
    pub subject: &'a dyn Subject,
    /// Its settings.
    pub settings: Settings,
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

/// What came of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its settings.
    pub settings: Settings,
    /// The metrics that apply, in the order of [`Metric::ALL`], over the repeats.
    pub metrics: Vec<(Metric, Summary)>,
    /// How long the mechanism ran, over all repeats and whatever the number of threads.
    pub time: Duration,
}

/// How often to run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of runs of each trial.
    pub repeats: NonZeroU64,
    /// The seed. Each repeat draws from a generator of its own, the same for each trial: so a trial's numbers do not depend on
    /// what it is compared with, and differences between trials owe less to chance.
    pub seed: u64,
    /// How many threads run at a time.
    pub threads: NonZeroUsize,
    /// Whether to answer queries from the releases too: [`QueryTruth::compare`]. They are drawn from the seed, and are the
    /// same for all trials of the same window.
    pub queries: bool,
}

/// A trial that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{mechanism} at epsilon {} and window {}, repeat {repeat}: {source}", .settings.epsilon, .settings.window)]
pub struct TrialError {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its settings.
    pub settings: Settings,
    /// Which repeat, from zero.
    pub repeat: u64,
    /// What went wrong.
    pub source: RunError,
}

/// The generators of a seed: number 0 is for making the data set, the last for drawing queries, the others for the repeats.
pub fn dataset_random(seed: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, 0)
}

fn query_random(seed: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, u64::MAX)
}

fn repeat_random(seed: u64, repeat: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, repeat.wrapping_add(1))
}

/// Runs each trial as often as planned and summarises it; `progress` is called after each run.
///
/// Findings come in the order of the trials and, their times aside, are the same whatever the number of threads. So is the
/// error where there is one: the first, by trial and then by repeat.
pub fn run(
    stream: &CountStream,
    trials: &[Trial<'_>],
    plan: &Plan,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Finding>, TrialError> {
    let truth = Truth::of(stream);
    let mut queries = BTreeMap::new();
    for trial in trials.iter().filter(|_| plan.queries) {
        let window = trial.settings.window;
        let query_truth = || QueryTruth::of(stream, &QuerySet::draw(stream, window, &mut query_random(plan.seed)));
        queries.entry(window).or_insert_with(query_truth);
    }
    let repeats = usize::try_from(plan.repeats.get()).unwrap_or(usize::MAX);
    let jobs = trials.len().saturating_mul(repeats);
    let one_run = |job: usize| -> Result<Run, TrialError> {
        let trial = &trials[job / repeats];
        let repeat = (job % repeats) as u64;
        let queries = queries.get(&trial.settings.window).map(Result::as_ref).transpose();
        let run = queries
            .map_err(|error| RunError::Failed(Box::new(*error)))
            .and_then(|queries| run_once(stream, &truth, queries, trial, &mut repeat_random(plan.seed, repeat)));
        let settings = trial.settings;
        run.map_err(|source| TrialError { mechanism: trial.subject.name(), settings, repeat, source })
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
    time: Duration,
}

fn run_once(
    stream: &CountStream,
    truth: &Truth,
    queries: Option<&QueryTruth>,
    trial: &Trial<'_>,
    random: &mut SeededRandom,
) -> Result<Run, RunError> {
    let start = Instant::now();
    let outcome = trial.subject.run(stream, &trial.settings, random)?;
    let time = start.elapsed();
    let mut metrics = truth.compare(&outcome.frequencies)?.metrics();
    metrics.insert(Metric::Cfpu, cfpu(stream, outcome.reports));
    if let Some(queries) = queries {
        metrics.extend(queries.compare(outcome)?);
    }
    Ok(Run { metrics, time })
}

fn summarise(trial: &Trial<'_>, runs: &[Run]) -> Finding {
    let summary = |metric: Metric| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.metrics.get(&metric).copied()).collect();
        Summary::of(&values).map(|summary| (metric, summary))
    };
    Finding {
        mechanism: trial.subject.name(),
        settings: trial.settings,
        metrics: Metric::ALL.into_iter().filter_map(summary).collect(),
        time: runs.iter().map(|run| run.time).sum(),
    }
}

/// Results of the jobs `0..jobs` in their order, or the error of the first job that has one.
///
/// Jobs are taken in order, and after an error no new ones are. So whenever a job has failed, all jobs before it have been
/// taken and are finished: the first error does not depend on the threads.
fn in_parallel<T: Send, E: Send>(
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
            // A poisoned lock means that another worker panicked, which the scope passes on anyway.
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
