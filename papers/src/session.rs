//! [`Session`]: runs sweeps and caches their results across experiments.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::rc::Rc;

use tidegate_kernel::{Epsilon, EpsilonError, SeededRandom};

use crate::ReproduceError;
use tidegate_lab::experiment::{
    CountOutcome, Finding, Plan, RunError, Trial, TrialError, TrialSettings, dataset_random, in_parallel, query_random,
    repeat_random, run_until,
};
use tidegate_lab::metrics::{RocPoint, Summary, Truth, true_positive_rate};
use tidegate_lab::queries::{QuerySet, QueryTruth};
use tidegate_lab::stop::Stop;
use tidegate_lab::stream::{CountStream, DataStream, StreamKind};
use tidegate_lab::{datasets, subjects};

/// Default seed.
pub const DEFAULT_SEED: u64 = 1;
/// Length of streams with [`ReproduceOptions::quick`].
pub const QUICK_LENGTH: usize = 120;
/// Repeats with [`ReproduceOptions::quick`]: the fewest that give a standard error.
pub const QUICK_REPEATS: u64 = 2;

/// Options of a [`Session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReproduceOptions {
    /// Directory with the folders of the real data sets.
    pub data_dir: Option<PathBuf>,
    /// Seed of all randomness. Results depend on it, but neither on the threads nor on the other experiments run.
    pub seed: u64,
    /// Number of threads.
    pub threads: NonZeroUsize,
    /// Repeats, instead of each experiment's own.
    pub repeats: Option<NonZeroU64>,
    /// Cuts streams to [`QUICK_LENGTH`] timestamps and runs [`QUICK_REPEATS`] times: a smoke test, whose verdicts mean
    /// little.
    pub quick: bool,
    /// Greatest length of a stream; with `quick`, [`QUICK_LENGTH`] by default.
    pub length: Option<NonZeroUsize>,
    /// Skips missing data sets, instead of failing.
    pub skip_missing: bool,
}

impl Default for ReproduceOptions {
    /// Full runs on one thread, without a data directory.
    fn default() -> Self {
        Self {
            data_dir: None,
            seed: DEFAULT_SEED,
            threads: NonZeroUsize::MIN,
            repeats: None,
            quick: false,
            length: None,
            skip_missing: false,
        }
    }
}

/// A progress event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This many runs are about to start.
    Planned(u64),
    /// One run has ended.
    Done,
}

/// A stream of a session, with a unique key.
#[derive(Clone, Debug)]
pub struct PreparedStream {
    key: String,
    stream: Rc<DataStream>,
}

impl PreparedStream {
    /// The stream.
    pub fn stream(&self) -> &DataStream {
        &self.stream
    }

    /// Returns the stream if it holds counts.
    pub fn counts(&self) -> Option<&CountStream> {
        match &*self.stream {
            DataStream::Counts(stream) => Some(stream),
            DataStream::Numbers(_) | DataStream::Symbols(_) => None,
        }
    }
}

/// Size to which a data set is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Number of users; the data set's own by default.
    pub population: Option<u64>,
    /// Number of timestamps; the data set's own by default.
    pub length: Option<usize>,
}

/// A mechanism and its mean ROC curve: true positive rates by false positive rate.
pub type MeanCurve = (&'static str, Vec<(f64, Summary)>);

/// Runs the trials of experiments and caches their findings.
pub struct Session<'a> {
    options: ReproduceOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    stop: &'a Stop,
    streams: RefCell<BTreeMap<String, PreparedStream>>,
    findings: RefCell<BTreeMap<String, Finding>>,
    missing: RefCell<BTreeSet<String>>,
    /// Repeats of the current experiment.
    repeats: RefCell<NonZeroU64>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// Creates a session; `progress` gets its events.
    pub fn new(options: ReproduceOptions, progress: &'a (dyn Fn(Progress) + Sync)) -> Self {
        Self {
            options,
            progress,
            stop: Stop::never(),
            streams: RefCell::default(),
            findings: RefCell::default(),
            missing: RefCell::default(),
            repeats: RefCell::new(NonZeroU64::MIN),
        }
    }

    /// Has runs fail with [`RunError::Stopped`] once `stop` is set.
    #[must_use]
    pub fn until(self, stop: &'a Stop) -> Self {
        Self { stop, ..self }
    }

    /// Returns the options.
    pub const fn options(&self) -> &ReproduceOptions {
        &self.options
    }

    /// Returns the repeats of each trial: those of the options, or else those of the experiment.
    pub fn repeats(&self) -> NonZeroU64 {
        self.effective_repeats(*self.repeats.borrow())
    }

    /// Returns the repeats of an experiment that declares `own`.
    pub(super) fn effective_repeats(&self, own: NonZeroU64) -> NonZeroU64 {
        let quick = NonZeroU64::new(QUICK_REPEATS).filter(|_| self.options.quick);
        self.options.repeats.or(quick).unwrap_or(own)
    }

    /// Starts an experiment.
    pub(super) fn begin(&self, repeats: NonZeroU64) {
        *self.repeats.borrow_mut() = repeats;
        self.missing.borrow_mut().clear();
    }

    /// Returns the data sets that the current experiment has skipped.
    pub(super) fn missing(&self) -> Vec<String> {
        self.missing.borrow().iter().cloned().collect()
    }

    /// Returns `full`, or `quick` in a quick session.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// Returns `length`, cut as the options say.
    pub fn length(&self, full: usize) -> usize {
        let most = self.options.length.map(NonZeroUsize::get).or(self.options.quick.then_some(QUICK_LENGTH));
        most.map_or(full, |most| full.min(most))
    }

    /// Loads a data set, cut to [`Session::length`].
    ///
    /// Returns `None` if it is missing and [`ReproduceOptions::skip_missing`] is set; the report then says so.
    pub fn dataset(&self, name: &str, cut: Cut) -> Result<Option<PreparedStream>, ReproduceError> {
        let key = format!("{name} {:?} {:?}", cut.population, cut.length);
        if let Some(found) = self.streams.borrow().get(&key) {
            return Ok(Some(found.clone()));
        }
        if self.options.skip_missing && !self.is_there(name) {
            self.missing.borrow_mut().insert(name.to_owned());
            return Ok(None);
        }
        let load = |length: Option<usize>| {
            datasets::load(
                name,
                &datasets::LoadOptions {
                    data_dir: self.options.data_dir.clone(),
                    population: cut.population,
                    length,
                    seed: self.options.seed,
                    ..datasets::LoadOptions::default()
                },
            )
        };
        let is_real = datasets::by_name(name).is_some_and(datasets::Dataset::is_real);
        let stream = if is_real {
            // How long a real one is, is seen only once it is there. Sequences are left as long as they are: cutting
            // them would make them easier.
            match load(cut.length)? {
                DataStream::Symbols(stream) => DataStream::Symbols(stream),
                stream => {
                    let length = self.length(length_of(&stream));
                    stream.shortened(length)?
                }
            }
        } else {
            let is_symbols = datasets::by_name(name).is_some_and(|dataset| dataset.kind() == StreamKind::Symbols);
            let default = if is_symbols { datasets::DEFAULT_SYMBOLS } else { datasets::DEFAULT_LENGTH };
            load(Some(self.length(cut.length.unwrap_or(default))))?
        };
        Ok(Some(self.remember(key, stream)))
    }

    /// Generates a stream with the generator of data sets; `key` must be unique.
    pub fn made(
        &self,
        key: &str,
        make: impl FnOnce(&mut SeededRandom) -> Result<DataStream, ReproduceError>,
    ) -> Result<PreparedStream, ReproduceError> {
        let key = format!("made {key}");
        if let Some(found) = self.streams.borrow().get(&key) {
            return Ok(found.clone());
        }
        let stream = make(&mut dataset_random(self.options.seed))?;
        Ok(self.remember(key, stream))
    }

    fn remember(&self, key: String, stream: DataStream) -> PreparedStream {
        let prepared = PreparedStream { key: key.clone(), stream: Rc::new(stream) };
        self.streams.borrow_mut().insert(key, prepared.clone());
        prepared
    }

    fn is_there(&self, name: &str) -> bool {
        let Some(dataset) = datasets::by_name(name) else { return true };
        let folder = self.options.data_dir.as_ref().map(|directory| directory.join(dataset.folder_name()));
        !dataset.is_real() || folder.is_some_and(|folder| folder.is_dir())
    }

    /// Runs each mechanism with each of the settings, all settings of the first mechanism first.
    ///
    /// Findings of earlier experiments are reused.
    pub fn sweep(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[TrialSettings],
    ) -> Result<Vec<Finding>, ReproduceError> {
        self.measure(self.repeats(), prepared, mechanisms, settings, false)
    }

    /// Like [`Session::sweep`], with other repeats for slow or noisy mechanisms, unless the options set them.
    pub fn sweep_repeated(
        &self,
        repeats: NonZeroU64,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[TrialSettings],
    ) -> Result<Vec<Finding>, ReproduceError> {
        self.measure(self.effective_repeats(repeats), prepared, mechanisms, settings, false)
    }

    /// Like [`Session::sweep`], and answers queries from the releases.
    pub fn sweep_with_queries(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[TrialSettings],
    ) -> Result<Vec<Finding>, ReproduceError> {
        self.measure(self.repeats(), prepared, mechanisms, settings, true)
    }

    fn measure(
        &self,
        repeats: NonZeroU64,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[TrialSettings],
        queries: bool,
    ) -> Result<Vec<Finding>, ReproduceError> {
        let trials = trials(mechanisms, settings)?;
        let key = |trial: &Trial<'_>| {
            let (name, settings) = (trial.subject.name(), &trial.settings);
            format!("{} {name} {settings:?} {repeats} {queries}", prepared.key)
        };
        let new: Vec<_> =
            trials.iter().filter(|trial| !self.findings.borrow().contains_key(&key(trial))).cloned().collect();
        if !new.is_empty() {
            (self.progress)(Progress::Planned((new.len() as u64).saturating_mul(repeats.get())));
            let plan = Plan { repeats, seed: self.options.seed, threads: self.options.threads, queries };
            let progress = || (self.progress)(Progress::Done);
            let found = run_until(self.stop, prepared.stream(), &new, &plan, &progress)?;
            let mut findings = self.findings.borrow_mut();
            new.iter().zip(found).for_each(|(trial, finding)| {
                findings.insert(key(trial), finding);
            });
        }
        let findings = self.findings.borrow();
        Ok(trials.iter().filter_map(|trial| findings.get(&key(trial)).cloned()).collect())
    }

    /// Returns the mean ROC curve of each mechanism on a stream of counts, at `steps` + 1 false positive rates.
    ///
    /// Each repeat has the curve of [`Comparison::roc`](tidegate_lab::metrics::Comparison::roc). Curves are empty if
    /// the stream has no events.
    pub fn roc_curves(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &TrialSettings,
        steps: u32,
    ) -> Result<Vec<MeanCurve>, ReproduceError> {
        let stream = prepared.counts().ok_or_else(|| ReproduceError::NotCounts { name: prepared.key.clone() })?;
        let truth = Truth::of(stream);
        let score = |outcome: CountOutcome| -> Result<Option<Vec<RocPoint>>, RunError> {
            Ok(truth.compare_outcome(&outcome)?.roc())
        };
        let trials = trials(mechanisms, std::slice::from_ref(settings))?;
        let curves = self.map_counts(stream, &trials, score)?;
        let runs: Vec<Vec<Vec<RocPoint>>> = curves.into_iter().map(|curve| curve.into_iter().collect()).collect();
        Ok(self.mean_curves(&trials, &runs, steps))
    }

    /// Like [`Session::roc_curves`], for rises of range queries: [`QueryTruth::compare_with_curves`].
    pub fn monitor_curves(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &TrialSettings,
        steps: u32,
    ) -> Result<Vec<MeanCurve>, ReproduceError> {
        let stream = prepared.counts().ok_or_else(|| ReproduceError::NotCounts { name: prepared.key.clone() })?;
        let queries = QuerySet::draw(stream, settings.window, &mut query_random(self.options.seed));
        let truth = QueryTruth::of(stream, &queries)?;
        let trials = trials(mechanisms, std::slice::from_ref(settings))?;
        let runs = self.map_counts(stream, &trials, |outcome| Ok(truth.compare_with_curves(outcome)?.1))?;
        Ok(self.mean_curves(&trials, &runs, steps))
    }

    /// Averages true positive rates over the curves of a run, then over the runs of a trial.
    pub(crate) fn mean_curves(&self, trials: &[Trial<'_>], runs: &[Vec<Vec<RocPoint>>], steps: u32) -> Vec<MeanCurve> {
        let mean_curve = |runs: &[Vec<Vec<RocPoint>>]| -> Vec<(f64, Summary)> {
            let at = |step: u32| {
                let rate = f64::from(step) / f64::from(steps.max(1));
                let of_run = |curves: &Vec<Vec<RocPoint>>| {
                    let heights: Vec<f64> = curves.iter().map(|curve| true_positive_rate(curve, rate)).collect();
                    Summary::of(&heights).map(|heights| heights.mean)
                };
                let values: Vec<f64> = runs.iter().filter_map(of_run).collect();
                Summary::of(&values).map(|summary| (rate, summary))
            };
            (0..=steps.max(1)).filter_map(at).collect()
        };
        let repeats = usize::try_from(self.repeats().get()).unwrap_or(usize::MAX);
        let named = trials.iter().zip(runs.chunks(repeats));
        named.map(|(trial, runs)| (trial.subject.name(), mean_curve(runs))).collect()
    }

    /// Returns the result of `judge` for each run on a stream of counts, all repeats of the first trial first.
    ///
    /// Each run has the same randomness as in a sweep.
    pub fn map_counts<T: Send>(
        &self,
        stream: &CountStream,
        trials: &[Trial<'_>],
        judge: impl Fn(CountOutcome) -> Result<T, RunError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let repeats = usize::try_from(self.repeats().get()).unwrap_or(usize::MAX);
        let seed = self.options.seed;
        let stop = self.stop;
        let results = self.in_parallel(trials.len().saturating_mul(repeats), |job| {
            let trial = &trials[job / repeats];
            let repeat = (job % repeats) as u64;
            let misfit = || subjects::Misfit::boxed(trial.subject, StreamKind::Counts, stream.name());
            let result = match trial.subject.on_counts() {
                _ if stop.is_set() => Err(RunError::Stopped),
                None => Err(misfit().into()),
                Some(subject) => {
                    let outcome = subject.run(stream, &trial.settings, &mut repeat_random(seed, repeat));
                    outcome.and_then(&judge)
                }
            };
            result.map_err(|source| {
                let settings = Box::new(trial.settings.clone());
                TrialError { mechanism: trial.subject.name(), settings, repeat, source }
            })
        });
        Ok(results?)
    }

    /// Runs the jobs `0..jobs` on all threads; returns their results in order, or the first error.
    ///
    /// Jobs must draw from [`Session::random`] only, or else results depend on the threads.
    pub fn in_parallel<T: Send, E: Send>(
        &self,
        jobs: usize,
        work: impl Fn(usize) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let progress = self.progress;
        progress(Progress::Planned(jobs as u64));
        in_parallel(jobs, self.options.threads, |job| {
            let result = work(job);
            progress(Progress::Done);
            result
        })
    }

    /// Returns the generator of a repeat, numbered from zero, as in a sweep.
    pub fn random(&self, repeat: u64) -> SeededRandom {
        repeat_random(self.options.seed, repeat)
    }
}

/// Returns settings with a budget and a window; an error if either is invalid.
pub fn settings(epsilon: f64, window: u64) -> Result<TrialSettings, ReproduceError> {
    let not_one =
        |why: &dyn std::fmt::Display| ReproduceError::Other(format!("epsilon {epsilon}, window {window}: {why}"));
    let epsilon: Epsilon = epsilon.to_string().parse().map_err(|error: EpsilonError| not_one(&error))?;
    let window = NonZeroU64::new(window).ok_or_else(|| not_one(&"a window has at least one timestamp"))?;
    Ok(TrialSettings::new(epsilon, window))
}

/// Returns a trial for each mechanism and each of the settings, all settings of the first mechanism first.
pub fn trials(mechanisms: &[&str], settings: &[TrialSettings]) -> Result<Vec<Trial<'static>>, ReproduceError> {
    let mut trials = Vec::new();
    for name in mechanisms {
        let subject = subjects::by_name(name)?;
        trials.extend(settings.iter().map(|settings| Trial { subject, settings: settings.clone() }));
    }
    Ok(trials)
}

fn length_of(stream: &DataStream) -> usize {
    match stream {
        DataStream::Counts(stream) => stream.length(),
        DataStream::Numbers(stream) => stream.values().len(),
        DataStream::Symbols(stream) => stream.sequences().iter().map(Vec::len).max().unwrap_or_default(),
    }
}
