//! Repeated, seeded runs of mechanisms on a stream, on all cores, with results that do not depend on how many there
//! are.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::estimate::release_filter::ReleaseFilter;
use tidegate::mechanisms::Mechanism;
use tidegate::query::QueryError;
use tidegate::release::{Histogram, Release};
use tidegate::scalar::Truncation;
use tidegate::sequence::effort::Effort;
use tidegate::tree::Tree;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, SeededRandom};

use crate::metrics::{
    Metric, Metrics, NotComparable, RocPoint, Summary, Truth, cfpu, compare_numbers, compare_symbols, mean_curve,
};
use crate::queries::{Incomparable, QuerySet, QueryTruth};
use crate::sequence::SymbolDistance;
use crate::stream::{CountStream, DataStream, NumberStream, StreamKind, SymbolStream};
use crate::subjects::Misfit;

/// What a mechanism is given besides the stream. A family reads what concerns it and ignores the rest.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate_lab::experiment::TrialSettings;
///
/// let window = NonZeroU64::new(20).unwrap();
/// let settings = TrialSettings { delay: 10, ..TrialSettings::new("0.5".parse()?, window) };
/// assert_eq!((settings.delay, settings.order), (10, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSettings {
    /// The budget of any window; of sequences, of each symbol.
    pub epsilon: Epsilon,
    /// The window, in timestamps; sequences have none.
    pub window: NonZeroU64,
    /// How many timestamps a release may be held back.
    pub delay: u64,
    /// Local: the frequency oracle; `None` leaves the choice to the mechanism.
    pub oracle: Option<OracleKind>,
    /// Central: what users require, instead of what [`requirements`](crate::central::requirements) derives from
    /// `epsilon` and `window` where this is empty.
    pub classes: Vec<RequirementClass>,
    /// Scalar: whether the number itself is protected, or one contributor to it, in steps of the stream's grid.
    pub protects: Protects,
    /// Scalar: whether what is released is moved into the domain where it lies outside, which costs nothing.
    pub within_domain: bool,
    /// Scalar: how much a group may scatter, in the unit of the stream; `None` leaves the choice to the mechanism.
    pub threshold: Option<f64>,
    /// Scalar: into how many parts `bucorder` divides the domain; `None` leaves the choice to the mechanism.
    pub buckets: Option<u32>,
    /// Scalar: how the mechanisms that cut readings off choose the bound; `None` for the default.
    pub truncation: Option<Truncation>,
    /// All but sequences: whether what is released is made better by what was released before, as
    /// [`ReleaseFilter`] does.
    pub smooth: bool,
    /// Sequence: how many timestamps are released together, where a mechanism releases batches.
    pub batch: NonZeroUsize,
    /// Sequence: how many symbols of the past the model looks back on.
    pub order: u8,
    /// Sequence: what mechanisms that have a model make small.
    pub distance: SymbolDistance,
    /// Sequence: how hard the best channel is looked for, where that is hard.
    pub effort: Effort,
}

/// Users who require the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequirementClass {
    /// The budget of any of their windows.
    pub epsilon: Epsilon,
    /// Their window, in timestamps.
    pub window: NonZeroU64,
    /// How many of them there are, in proportion to the other classes.
    pub weight: NonZeroU64,
}

impl TrialSettings {
    /// A batch, unless told.
    pub const DEFAULT_BATCH: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

    /// What has no default; the rest is changed by struct update.
    pub const fn new(epsilon: Epsilon, window: NonZeroU64) -> Self {
        Self {
            epsilon,
            window,
            delay: 0,
            oracle: None,
            classes: Vec::new(),
            protects: Protects::Reading,
            within_domain: false,
            threshold: None,
            buckets: None,
            truncation: None,
            smooth: false,
            batch: Self::DEFAULT_BATCH,
            order: 1,
            distance: SymbolDistance::Hamming,
            effort: Effort::Fast,
        }
    }
}

impl TrialSettings {
    /// What releases go through before they are looked at.
    pub(crate) fn smoothing(&self) -> impl FnMut(Release) -> Release + use<> {
        let mut smoother = self.smooth.then(ReleaseFilter::new);
        move |release| match &mut smoother {
            Some(smoother) => smoother.push(release),
            None => release,
        }
    }
}

/// One of the [`TrialSettings`] that matter to some mechanisms and not to others. Epsilon matters to all but the baselines
/// that spend nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// [`TrialSettings::window`].
    Window,
    /// [`TrialSettings::delay`].
    Delay,
    /// [`TrialSettings::oracle`].
    Oracle,
    /// [`TrialSettings::classes`].
    Classes,
    /// [`TrialSettings::protects`]: how much one contributor can change a number.
    Contribution,
    /// [`TrialSettings::within_domain`].
    WithinDomain,
    /// [`TrialSettings::batch`].
    Batch,
    /// [`TrialSettings::order`].
    Order,
    /// [`TrialSettings::distance`].
    Distance,
    /// [`TrialSettings::effort`].
    Effort,
}

impl Setting {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 10] = [
        Self::Window,
        Self::Delay,
        Self::Oracle,
        Self::Classes,
        Self::Contribution,
        Self::WithinDomain,
        Self::Batch,
        Self::Order,
        Self::Distance,
        Self::Effort,
    ];

    /// The name that tables and JSON use; that of the command's option has hyphens in it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Delay => "delay",
            Self::Oracle => "oracle",
            Self::Classes => "classes",
            Self::Contribution => "contribution",
            Self::WithinDomain => "within_domain",
            Self::Batch => "batch",
            Self::Order => "order",
            Self::Distance => "distance",
            Self::Effort => "effort",
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// What a mechanism made of a stream of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CountOutcome {
    /// The released frequencies: a row for each timestamp, with a column for each value.
    pub frequencies: Vec<Vec<f64>>,
    /// Whether counts were released, of which the frequencies are what part of the users they are that there really
    /// were.
    pub of_counts: bool,
    /// The variances that were stated with them, in the same order; empty where none were.
    pub variances: Vec<Vec<f64>>,
    /// The trees whose leaves those frequencies are, one for each timestamp; empty where histograms were released.
    pub trees: Vec<Tree>,
    /// How many reports users sent, over all timestamps and questions; 0 where a curator sees the data.
    pub reports: u64,
}

impl CountOutcome {
    /// Adds what was released for the next timestamp.
    pub(crate) fn push(&mut self, released: Histogram) {
        self.frequencies.push(released.frequencies);
        self.variances.push(released.variances);
    }
}

/// What a mechanism made of a stream of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberOutcome {
    /// The released numbers, one for each timestamp: when they were released does not matter here.
    pub values: Vec<f64>,
}

/// What a mechanism made of a stream of symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOutcome {
    /// The released sequences, one for each user, as long as the true ones.
    pub sequences: Vec<Vec<u32>>,
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
    /// It takes streams of another kind.
    #[error(transparent)]
    Misfit(#[from] Box<Misfit>),
    /// What it released does not fit the stream.
    #[error("its releases do not fit the stream: {0}")]
    Outcome(#[from] NotComparable),
}

impl RunError {
    /// The mechanism cannot work with these settings or this stream, for this reason.
    pub fn unsupported(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unsupported(error.into())
    }

    /// It failed along the way, for this reason.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
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
///
/// It takes streams of the kinds for which it says how it runs, mostly one:
///
/// ```
/// use tidegate_kernel::{Grid, SeededRandom};
/// use tidegate_lab::NumberStream;
/// use tidegate_lab::experiment::{NumberOutcome, OnNumbers, RunError, Setting, TrialSettings, Subject};
///
/// struct Zero;
///
/// impl Subject for Zero {
///     fn name(&self) -> &'static str {
///         "zero"
///     }
///
///     fn summary(&self) -> String {
///         "baseline: zero, always".to_owned()
///     }
///
///     fn uses(&self) -> &'static [Setting] {
///         &[] // whatever is set, it is zero
///     }
///
///     fn on_numbers(&self) -> Option<&dyn OnNumbers> {
///         Some(self)
///     }
/// }
///
/// impl OnNumbers for Zero {
///     fn run(&self, stream: &NumberStream, _: &TrialSettings, _: &mut SeededRandom) -> Result<NumberOutcome, RunError> {
///         Ok(NumberOutcome { values: vec![0.0; stream.values().len()] })
///     }
/// }
/// ```
pub trait Subject: Send + Sync {
    /// The name that users write, as [the list of mechanisms](tidegate::mechanisms) has it.
    fn name(&self) -> &'static str;

    /// Its entry in the list of mechanisms; `None` for what no spec can name, such as algorithms as printed.
    fn mechanism(&self) -> Option<&'static Mechanism> {
        None
    }

    /// What it does, in one line.
    fn summary(&self) -> String;

    /// Which settings, besides epsilon, change what it does.
    fn uses(&self) -> &'static [Setting];

    /// How it runs on streams of counts; `None` where it takes none.
    fn on_counts(&self) -> Option<&dyn OnCounts> {
        None
    }

    /// How it runs on streams of numbers; `None` where it takes none.
    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        None
    }

    /// How it runs on streams of symbols; `None` where it takes none.
    fn on_symbols(&self) -> Option<&dyn OnSymbols> {
        None
    }

    /// Whether it takes streams of a kind.
    fn takes(&self, kind: StreamKind) -> bool {
        match kind {
            StreamKind::Counts => self.on_counts().is_some(),
            StreamKind::Numbers => self.on_numbers().is_some(),
            StreamKind::Symbols => self.on_symbols().is_some(),
        }
    }
}

/// Runs on streams of counts.
pub trait OnCounts {
    /// Runs from the stream's first timestamp to its last. The outcome is a function of the arguments alone: all
    /// randomness comes from `random`.
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError>;
}

/// Runs on streams of numbers.
pub trait OnNumbers {
    /// As [`OnCounts::run`].
    fn run(
        &self,
        stream: &NumberStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError>;
}

/// Runs on streams of symbols.
pub trait OnSymbols {
    /// As [`OnCounts::run`], for each user anew.
    fn run(
        &self,
        stream: &SymbolStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<SymbolOutcome, RunError>;
}

/// One mechanism with one choice of settings.
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

/// How finely the ROC curves of a [`Finding`] are drawn.
pub const CURVE_STEPS: usize = 100;

/// What came of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its settings.
    pub settings: TrialSettings,
    /// The metrics that apply, in the order of [`Metric::ALL`], over the repeats.
    pub metrics: Vec<(Metric, Summary)>,
    /// The ROC curve of detected events ([`Comparison::roc`](crate::metrics::Comparison::roc)), the mean over the
    /// repeats at [`CURVE_STEPS`] + 1 false-positive rates ([`mean_curve`]); empty where `auc` is absent.
    pub roc: Vec<RocPoint>,
    /// The same of detected rises, the mean over range queries and repeats; empty where `monitor_auc` is absent.
    pub monitor_roc: Vec<RocPoint>,
    /// How long the mechanism ran, over all repeats and whatever the number of threads.
    pub time: Duration,
}

/// How often to run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of runs of each trial.
    pub repeats: NonZeroU64,
    /// The seed. Each repeat draws from a generator of its own, the same for each trial: so a trial's numbers do not
    /// depend on what it is compared with, and differences between trials owe less to chance.
    pub seed: u64,
    /// How many threads run at a time.
    pub threads: NonZeroUsize,
    /// Whether to answer queries from the releases too: [`QueryTruth::compare`]. They are drawn from the seed, and are
    /// the same for all trials of the same window. Only streams of counts have queries.
    pub queries: bool,
}

/// A trial that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{mechanism} at epsilon {} and window {}, repeat {repeat}: {source}", .settings.epsilon, .settings.window)]
pub struct TrialError {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its settings.
    pub settings: Box<TrialSettings>,
    /// Which repeat, from zero.
    pub repeat: u64,
    /// What went wrong.
    pub source: RunError,
}

/// The generators of a seed: number 0 is for making the data set, the last for drawing queries, the others for the
/// repeats.
pub fn dataset_random(seed: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, 0)
}

/// The generator of the queries that are drawn for a stream.
pub fn query_random(seed: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, u64::MAX)
}

/// The generator of a repeat, from zero.
pub fn repeat_random(seed: u64, repeat: u64) -> SeededRandom {
    SeededRandom::with_stream(seed, repeat.wrapping_add(1))
}

/// Runs each trial as often as planned and summarises it; `progress` is called after each run.
///
/// Findings come in the order of the trials and, their times aside, are the same whatever the number of threads. So is
/// the error where there is one: the first, by trial and then by repeat.
pub fn run(
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
        let run = bench.run_once(trial, &mut repeat_random(plan.seed, repeat));
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
    /// Of detected events, and of detected rises; empty where there are none.
    roc: Vec<RocPoint>,
    monitor_roc: Vec<RocPoint>,
    time: Duration,
}

impl Run {
    const fn of(metrics: Metrics, time: Duration) -> Self {
        Self { metrics, roc: Vec::new(), monitor_roc: Vec::new(), time }
    }
}

/// A stream with what is needed to judge releases of it.
enum Bench<'a> {
    Counts { stream: &'a CountStream, truth: Truth, queries: BTreeMap<NonZeroU64, Result<QueryTruth, QueryError>> },
    Numbers(&'a NumberStream),
    Symbols(&'a SymbolStream),
}

impl<'a> Bench<'a> {
    fn new(stream: &'a DataStream, trials: &[Trial<'_>], plan: &Plan) -> Self {
        match stream {
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
                run.metrics.extend(comparison.coverage(&outcome.variances).map(|part| (Metric::Coverage, part)));
                if let Some(queries) = queries {
                    let (metrics, curves) = queries.compare_with_curves(outcome)?;
                    run.metrics.extend(metrics);
                    run.monitor_roc = mean_curve(&curves, CURVE_STEPS);
                }
                Ok(run)
            }
            Self::Numbers(stream) => {
                let misfit = || Misfit::boxed(*subject, StreamKind::Numbers, stream.name());
                let subject = subject.on_numbers().ok_or_else(misfit)?;
                let (outcome, time) = timed(|| subject.run(stream, settings, random))?;
                Ok(Run::of(compare_numbers(stream, &outcome.values)?, time))
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

fn timed<T>(work: impl FnOnce() -> Result<T, RunError>) -> Result<(T, Duration), RunError> {
    let start = Instant::now();
    work().map(|outcome| (outcome, start.elapsed()))
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
        time: runs.iter().map(|run| run.time).sum(),
    }
}

/// Results of the jobs `0..jobs` in their order, or the error of the first job that has one.
///
/// Jobs are taken in order, and after an error no new ones are. So whenever a job has failed, all jobs before it have
/// been taken and are finished: the first error does not depend on the threads.
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
