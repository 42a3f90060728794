//! [`Session`]: runs sweeps, each run once even where several experiments need it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::rc::Rc;

use tidegate_kernel::{Epsilon, EpsilonError, SeededRandom};

use crate::ReproduceError;
use tidegate_lab::experiment::{
    CountOutcome, Finding, Plan, RunError, Settings, Trial, TrialError, dataset_random, in_parallel, query_random,
    repeat_random, run,
};
use tidegate_lab::metrics::{RocPoint, Summary, Truth, true_positive_rate};
use tidegate_lab::queries::{QuerySet, QueryTruth};
use tidegate_lab::stream::{CountStream, Stream, StreamKind};
use tidegate_lab::{datasets, subjects};

/// The seed, unless told.
pub const DEFAULT_SEED: u64 = 1;
/// The length to which streams are cut where it has to be quick.
pub const QUICK_LENGTH: usize = 120;
/// How often to run where it has to be quick: the fewest that say something about the spread.
pub const QUICK_REPEATS: u64 = 2;

/// How to reproduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReproduceOptions {
    /// Where the folders of the real data sets are.
    pub data_dir: Option<PathBuf>,
    /// What all randomness comes from. Each experiment's numbers depend on it and not on what else is run, nor on the
    /// threads.
    pub seed: u64,
    /// How many threads run at a time.
    pub threads: NonZeroUsize,
    /// How often to run, instead of what each experiment says.
    pub repeats: Option<NonZeroU64>,
    /// Whether to cut streams to [`QUICK_LENGTH`] timestamps and run [`QUICK_REPEATS`] times only. That shows that
    /// everything works; verdicts then mean little.
    pub quick: bool,
    /// The most timestamps of any stream; [`QUICK_LENGTH`] where it has to be quick, unless given.
    pub length: Option<NonZeroUsize>,
    /// Whether data sets that are not there are left out instead of being an error.
    pub skip_missing: bool,
}

impl Default for ReproduceOptions {
    /// All of it, on one thread, without real data sets.
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

/// What a session tells about its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many runs more are about to begin.
    Planned(u64),
    /// A run has ended.
    Done,
}

/// A stream that was loaded or made, with a name that tells it from all others.
#[derive(Clone, Debug)]
pub struct PreparedStream {
    key: String,
    stream: Rc<Stream>,
}

impl PreparedStream {
    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The stream, where it holds counts.
    pub fn counts(&self) -> Option<&CountStream> {
        match &*self.stream {
            Stream::Counts(stream) => Some(stream),
            Stream::Numbers(_) | Stream::Symbols(_) => None,
        }
    }
}

/// What can be chosen about a named data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// So many users; the data set's own, or the default, unless given.
    pub population: Option<u64>,
    /// So many timestamps; all, or the default, unless given.
    pub length: Option<usize>,
}

/// A mechanism with the height of its mean ROC curve above each of some false positive rates.
pub type MeanCurve = (&'static str, Vec<(f64, Summary)>);

/// Runs what experiments ask for, and remembers it.
pub struct Session<'a> {
    options: ReproduceOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    streams: RefCell<BTreeMap<String, PreparedStream>>,
    findings: RefCell<BTreeMap<String, Finding>>,
    missing: RefCell<BTreeSet<String>>,
    /// How often the experiment that is being run repeats, unless told otherwise.
    repeats: RefCell<NonZeroU64>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// A session that has run nothing yet.
    pub fn new(options: ReproduceOptions, progress: &'a (dyn Fn(Progress) + Sync)) -> Self {
        Self {
            options,
            progress,
            streams: RefCell::default(),
            findings: RefCell::default(),
            missing: RefCell::default(),
            repeats: RefCell::new(NonZeroU64::MIN),
        }
    }

    /// How it was set up.
    pub const fn options(&self) -> &ReproduceOptions {
        &self.options
    }

    /// How often each trial is run: as the options say, or else as the experiment does.
    pub fn repeats(&self) -> NonZeroU64 {
        self.effective_repeats(*self.repeats.borrow())
    }

    /// How often an experiment that says `own` is run.
    pub(super) fn effective_repeats(&self, own: NonZeroU64) -> NonZeroU64 {
        let quick = NonZeroU64::new(QUICK_REPEATS).filter(|_| self.options.quick);
        self.options.repeats.or(quick).unwrap_or(own)
    }

    /// Begins an experiment.
    pub(super) fn begin(&self, repeats: NonZeroU64) {
        *self.repeats.borrow_mut() = repeats;
        self.missing.borrow_mut().clear();
    }

    /// The data sets that the experiment has had to do without.
    pub(super) fn missing(&self) -> Vec<String> {
        self.missing.borrow().iter().cloned().collect()
    }

    /// `full`, or `quick` where it has to be quick: for sizes that [`Session::dataset`] does not know of.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// The length of a stream that would be so long, if it has to be cut.
    pub fn length(&self, full: usize) -> usize {
        let most = self.options.length.map(NonZeroUsize::get).or(self.options.quick.then_some(QUICK_LENGTH));
        most.map_or(full, |most| full.min(most))
    }

    /// A data set by name, cut to [`Session::length`]. `None` where it is not there and that is
    /// allowed ([`ReproduceOptions::skip_missing`]); the report then says so.
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
                &datasets::Options {
                    data_dir: self.options.data_dir.clone(),
                    population: cut.population,
                    length,
                    domain: None,
                    seed: self.options.seed,
                },
            )
        };
        let is_real = datasets::by_name(name).is_some_and(datasets::Dataset::is_real);
        let stream = if is_real {
            // How long a real one is, is seen only once it is there. Sequences are left as long as they are: cutting
            // them would make them easier.
            match load(cut.length)? {
                Stream::Symbols(stream) => Stream::Symbols(stream),
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

    /// A stream that the experiment makes itself, from the generator that makes data sets; `key` tells it from all
    /// others.
    pub fn made(
        &self,
        key: &str,
        make: impl FnOnce(&mut SeededRandom) -> Result<Stream, ReproduceError>,
    ) -> Result<PreparedStream, ReproduceError> {
        let key = format!("made {key}");
        if let Some(found) = self.streams.borrow().get(&key) {
            return Ok(found.clone());
        }
        let stream = make(&mut dataset_random(self.options.seed))?;
        Ok(self.remember(key, stream))
    }

    fn remember(&self, key: String, stream: Stream) -> PreparedStream {
        let prepared = PreparedStream { key: key.clone(), stream: Rc::new(stream) };
        self.streams.borrow_mut().insert(key, prepared.clone());
        prepared
    }

    fn is_there(&self, name: &str) -> bool {
        let Some(dataset) = datasets::by_name(name) else { return true };
        let folder = self.options.data_dir.as_ref().map(|directory| directory.join(dataset.folder_name()));
        !dataset.is_real() || folder.is_some_and(|folder| folder.is_dir())
    }

    /// What comes of each mechanism with each of the settings, in that order: all settings of the first mechanism
    /// first. What was run before, for whatever experiment, is not run again.
    pub fn sweep(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[Settings],
    ) -> Result<Vec<Finding>, ReproduceError> {
        self.measure(self.repeats(), prepared, mechanisms, settings, false)
    }

    /// The same with repeats of their own, for mechanisms that take much longer than the rest of the experiment or
    /// scatter much more; unless the options say how often to run.
    pub fn sweep_repeated(
        &self,
        repeats: NonZeroU64,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[Settings],
    ) -> Result<Vec<Finding>, ReproduceError> {
        self.measure(self.effective_repeats(repeats), prepared, mechanisms, settings, false)
    }

    /// The same with queries answered from the releases too.
    pub fn sweep_with_queries(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[Settings],
    ) -> Result<Vec<Finding>, ReproduceError> {
        self.measure(self.repeats(), prepared, mechanisms, settings, true)
    }

    fn measure(
        &self,
        repeats: NonZeroU64,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &[Settings],
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
            let found = run(prepared.stream(), &new, &plan, &|| (self.progress)(Progress::Done))?;
            let mut findings = self.findings.borrow_mut();
            new.iter().zip(found).for_each(|(trial, finding)| {
                findings.insert(key(trial), finding);
            });
        }
        let findings = self.findings.borrow();
        Ok(trials.iter().filter_map(|trial| findings.get(&key(trial)).cloned()).collect())
    }

    /// The mean ROC curve of each mechanism with the settings, on a stream of counts, at so many false positive rates
    /// from zero to one: what [`Comparison::roc`](tidegate_lab::metrics::Comparison::roc) has for each repeat, with the
    /// standard error. Empty where the stream has no events.
    pub fn roc_curves(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &Settings,
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

    /// The same for rises of range queries: [`QueryTruth::compare_with_curves`], mean over the queries of each repeat.
    pub fn monitor_curves(
        &self,
        prepared: &PreparedStream,
        mechanisms: &[&str],
        settings: &Settings,
        steps: u32,
    ) -> Result<Vec<MeanCurve>, ReproduceError> {
        let stream = prepared.counts().ok_or_else(|| ReproduceError::NotCounts { name: prepared.key.clone() })?;
        let queries = QuerySet::draw(stream, settings.window, &mut query_random(self.options.seed));
        let truth = QueryTruth::of(stream, &queries)?;
        let trials = trials(mechanisms, std::slice::from_ref(settings))?;
        let runs = self.map_counts(stream, &trials, |outcome| Ok(truth.compare_with_curves(outcome)?.1))?;
        Ok(self.mean_curves(&trials, &runs, steps))
    }

    /// The mean height above each false positive rate: over the curves of a run, and then over the runs of a trial.
    fn mean_curves(&self, trials: &[Trial<'_>], runs: &[Vec<Vec<RocPoint>>], steps: u32) -> Vec<MeanCurve> {
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

    /// What `judge` makes of each run on a stream of counts: all repeats of the first trial first, each with the same
    /// randomness as in a sweep.
    pub fn map_counts<T: Send>(
        &self,
        stream: &CountStream,
        trials: &[Trial<'_>],
        judge: impl Fn(CountOutcome) -> Result<T, RunError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let repeats = usize::try_from(self.repeats().get()).unwrap_or(usize::MAX);
        let seed = self.options.seed;
        let results = self.in_parallel(trials.len().saturating_mul(repeats), |job| {
            let trial = &trials[job / repeats];
            let repeat = (job % repeats) as u64;
            let misfit = || subjects::Misfit::boxed(trial.subject, StreamKind::Counts, stream.name());
            let result =
                trial.subject.on_counts().ok_or_else(|| RunError::from(misfit())).and_then(|subject| {
                    judge(subject.run(stream, &trial.settings, &mut repeat_random(seed, repeat))?)
                });
            result.map_err(|source| {
                let settings = Box::new(trial.settings.clone());
                TrialError { mechanism: trial.subject.name(), settings, repeat, source }
            })
        });
        Ok(results?)
    }

    /// Results of the jobs `0..jobs` in their order, run on all threads, or the error of the first job that has one.
    /// All randomness of a job must come from [`Session::random`], or else results depend on the threads.
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

    /// The generator of a repeat, from zero: the same as in a sweep.
    pub fn random(&self, repeat: u64) -> SeededRandom {
        repeat_random(self.options.seed, repeat)
    }
}

/// Settings of a budget and a window, for declarations; the rest is changed by struct update. An error where the budget
/// is not one.
pub fn settings(epsilon: f64, window: u64) -> Result<Settings, ReproduceError> {
    let not_one =
        |why: &dyn std::fmt::Display| ReproduceError::Other(format!("epsilon {epsilon}, window {window}: {why}"));
    let epsilon: Epsilon = epsilon.to_string().parse().map_err(|error: EpsilonError| not_one(&error))?;
    let window = NonZeroU64::new(window).ok_or_else(|| not_one(&"a window has at least one timestamp"))?;
    Ok(Settings::new(epsilon, window))
}

/// Every mechanism with every choice of settings: all settings of the first mechanism first.
pub fn trials(mechanisms: &[&str], settings: &[Settings]) -> Result<Vec<Trial<'static>>, ReproduceError> {
    let mut trials = Vec::new();
    for name in mechanisms {
        let subject = subjects::by_name(name)?;
        trials.extend(settings.iter().map(|settings| Trial { subject, settings: settings.clone() }));
    }
    Ok(trials)
}

fn length_of(stream: &Stream) -> usize {
    match stream {
        Stream::Counts(stream) => stream.length(),
        Stream::Numbers(stream) => stream.values().len(),
        Stream::Symbols(stream) => stream.sequences().iter().map(Vec::len).max().unwrap_or_default(),
    }
}
