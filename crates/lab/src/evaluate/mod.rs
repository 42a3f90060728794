//! Mechanisms side by side: what `tidegate evaluate` and the Python package share.

mod options;
mod render;
mod warnings;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Read;
use std::num::{NonZeroU64, NonZeroUsize};
use std::thread;

use tidegate::local::LocalKind;
use tidegate::mechanisms::Family;
use tidegate_release::Error;
use tidegate_table::{TableError, TableReader};

use crate::DataStream;
use crate::datasets::{self, DatasetError};
use crate::experiment::{Finding, Plan, RunError, Subject, Trial, run_until};
use crate::stop::Stop;
use crate::stream::StreamKind;
use crate::subjects;
pub use options::{Average, ModelOrder, Options, OracleChoice, Parameters};

/// The window, unless told.
const DEFAULT_WINDOW: NonZeroU64 = NonZeroU64::MIN.saturating_add(19);

/// How often each mechanism is run, unless told.
const DEFAULT_REPEATS: NonZeroU64 = NonZeroU64::MIN.saturating_add(9);

/// A data set and the mechanisms that are to run on it, which fit.
#[derive(Debug)]
pub struct Evaluation {
    options: Options,
    stream: DataStream,
    trials: Vec<Trial<'static>>,
    chosen: Vec<&'static str>,
    plan: Plan,
}

/// Refuses options with the same mechanism, epsilon, window or delay twice: results are told apart by these.
///
/// # Errors
/// [`Error::Spec`].
pub fn check(options: &Options) -> Result<(), Error> {
    for (option, is_empty) in [("--mechanism", options.mechanism.is_empty()), ("--epsilon", options.epsilon.is_empty())]
    {
        if is_empty {
            return Err(refused(format_args!("{option} needs at least one")));
        }
    }
    refuse_repeat("--mechanism", &options.mechanism)?;
    refuse_repeat("--epsilon", &options.epsilon)?;
    refuse_repeat("--window", &options.window)?;
    refuse_repeat("--delay", &options.delay)
}

/// Loads the data set of a name or a path.
///
/// # Errors
/// [`Error::Data`] for a table, otherwise [`Error::Spec`].
pub fn load(name: &str, options: &Options) -> Result<DataStream, Error> {
    datasets::load(name, &options.load_options()).map_err(|error| lacks(name, error))
}

/// Loads a table from a source such as standard input.
///
/// # Errors
/// As [`load`].
pub fn load_from(name: &str, source: impl Read, options: &Options) -> Result<DataStream, Error> {
    datasets::load_from(name, source, &options.load_options()).map_err(|error| lacks(name, error))
}

/// Loads an open table, such as one in memory.
///
/// # Errors
/// As [`load`].
pub fn load_table<R: Read>(name: &str, table: TableReader<R>, options: &Options) -> Result<DataStream, Error> {
    datasets::load_table(name, table, &options.load_options()).map_err(|error| lacks(name, error))
}

/// Why a data set cannot be had, and what to do about it.
pub fn cannot_load(dataset: &str, error: DatasetError) -> Error {
    match error {
        DatasetError::NoDirectory { .. } => refused(format_args!("{error}; name it with --data-dir or TIDEGATE_DATA")),
        DatasetError::Table(TableError::Open { .. }) if datasets::by_name(dataset).is_some() => refused(format_args!(
            "{error}; a folder may hold no more than a description, and the page on data sets (docs/data-sets.md) \
                 says which files it must hold"
        )),
        DatasetError::Table(error) => error.into(),
        error => refused(error),
    }
}

/// The same, with the options that declare a domain.
fn lacks(dataset: &str, error: DatasetError) -> Error {
    match error {
        DatasetError::NoDomain { .. } => refused(format_args!("{error}; give it with --domain LO..HI")),
        DatasetError::NoValues { .. } => refused(format_args!(
            "{error}; give them with --values NAME,NAME,.. or their number, or with --domain LO..HI"
        )),
        error => cannot_load(dataset, error),
    }
}

impl Evaluation {
    /// Chooses the mechanisms for a data set.
    ///
    /// # Errors
    /// [`Error::Spec`] for options that do not go together, or not with the data set.
    pub fn new(options: Options, stream: DataStream) -> Result<Self, Error> {
        check(&options)?;
        let chosen = options.mechanism.iter().map(|name| subjects::by_name_for(stream.kind(), name));
        let chosen: Vec<&'static dyn Subject> = chosen.collect::<Result<_, _>>().map_err(refused)?;
        let names: Vec<&str> = chosen.iter().map(|subject| subject.name()).collect();
        refuse_repeat("--mechanism", &names)?;
        for subject in &chosen {
            subjects::check_fit(*subject, &stream).map_err(refused)?;
        }
        let (name, kind) = (stream.name(), stream.kind());
        if options.smooth && kind == StreamKind::Symbols {
            return Err(refused(format_args!(
                "--smooth needs counts of users or numbers, but {name} is a stream of {kind}"
            )));
        }
        if options.smooth {
            refuse_to_smooth(&chosen)?;
        }
        if options.queries && kind != StreamKind::Counts {
            return Err(refused(format_args!("--queries needs counts of users, but {name} is a stream of {kind}")));
        }
        if options.mean {
            check_means(&options, &stream, &chosen)?;
        }
        let threads = options.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let plan = Plan {
            repeats: options.repeats.unwrap_or(DEFAULT_REPEATS),
            seed: options.seed.unwrap_or_default(),
            threads,
            queries: options.queries,
        };
        let trials = trials(&options, &chosen);
        let chosen = chosen.iter().map(|subject| subject.name()).collect();
        Ok(Self { options, stream, trials, chosen, plan })
    }

    /// The data set.
    pub const fn stream(&self) -> &DataStream {
        &self.stream
    }

    /// The number of runs.
    pub fn runs(&self) -> u64 {
        (self.trials.len() as u64).saturating_mul(self.plan.repeats.get())
    }

    /// Options that change nothing.
    pub fn warnings(&self) -> Vec<String> {
        let subjects: Vec<_> =
            self.chosen.iter().filter_map(|name| subjects::by_name_for(self.stream.kind(), name).ok()).collect();
        warnings::of_options(&self.options, &subjects)
    }

    /// Remarks on the data set of a name.
    pub fn notes(&self, dataset: &str) -> Vec<String> {
        let name = self.stream.name();
        let stand_in = self.stream.stand_in().map(|what| format!("{name} stands in for {what}"));
        let note = datasets::by_name(dataset).and_then(|dataset| dataset.note).map(|note| format!("{name}: {note}"));
        stand_in.into_iter().chain(note).collect()
    }

    /// Runs all mechanisms; calls `progress` after each run.
    ///
    /// # Errors
    /// A mechanism that rejects its settings, or fails; [`Error::Run`] soon after `stop` is set.
    pub fn run(&self, stop: &Stop, progress: &(dyn Fn() + Sync)) -> Result<Vec<Finding>, Error> {
        run_until(stop, &self.stream, &self.trials, &self.plan, progress).map_err(|error| match error.source {
            RunError::Unsupported(_) | RunError::Misfit(_) => refused(error),
            _ => Error::run(error),
        })
    }

    /// Warnings about findings, each once.
    pub fn warnings_of(&self, findings: &[Finding]) -> BTreeSet<String> {
        findings.iter().flat_map(|finding| warnings::of_finding(finding, &self.stream)).collect()
    }

    /// The findings in JSON, as `--json` prints them.
    ///
    /// # Errors
    /// None in practice.
    pub fn to_json(&self, findings: &[Finding]) -> Result<String, Error> {
        render::as_json(self, findings)
    }

    /// The findings as a table of plain text, the best in bold type if that is wanted.
    pub fn to_text(&self, findings: &[Finding], is_bold: bool) -> String {
        render::as_text(self, findings, is_bold)
    }
}

fn trials(options: &Options, chosen: &[&'static dyn Subject]) -> Vec<Trial<'static>> {
    let windows = if options.window.is_empty() { vec![DEFAULT_WINDOW] } else { options.window.clone() };
    let delays = if options.delay.is_empty() { vec![0] } else { options.delay.clone() };
    let mut trials = Vec::new();
    for subject in chosen {
        for &epsilon in &options.epsilon {
            for &window in &windows {
                for &delay in &delays {
                    let mut settings = options.settings(epsilon, window, delay);
                    settings.repair = options.parameters.repair(*subject);
                    trials.push(Trial { subject: *subject, settings });
                }
            }
        }
    }
    trials
}

/// Checks that means can be released, and that no option is about frequencies.
fn check_means(options: &Options, stream: &DataStream, chosen: &[&'static dyn Subject]) -> Result<(), Error> {
    let (name, kind) = (stream.name(), stream.kind());
    let DataStream::Counts(counts) = stream else {
        return Err(refused(format_args!("--mean needs counts of users, but {name} is a stream of {kind}")));
    };
    if counts.means().is_none() {
        return Err(refused(format_args!(
            "--mean needs two values and a user at each timestamp, which {name} has not"
        )));
    }
    if options.queries || options.oracle.is_some() || options.parameters.repair.is_some() {
        return Err(refused("--mean goes without --queries, --oracle and --repair, which are about frequencies"));
    }
    let releases_none = |subject: &&&dyn Subject| {
        let listed = subject.mechanism().filter(|listed| listed.family == Family::Local);
        let kind = listed.and_then(|listed| listed.short_name.parse::<LocalKind>().ok());
        subject.name() != "constant" && !kind.is_some_and(LocalKind::releases_means)
    };
    match chosen.iter().find(releases_none) {
        Some(subject) => Err(refused(format_args!(
            "--mean: {} releases no mean; lbu, lsp, lbd, lba, lpu, lpd and lpa do",
            subject.name()
        ))),
        None => Ok(()),
    }
}

/// Refuses `--smooth` for mechanisms whose releases it does not change.
fn refuse_to_smooth(chosen: &[&'static dyn Subject]) -> Result<(), Error> {
    let is_fixed = |subject: &&&dyn Subject| subject.mechanism().is_some_and(|mechanism| !mechanism.can_be_smoothed());
    let Some(subject) = chosen.iter().find(is_fixed) else { return Ok(()) };
    Err(refused(format_args!(
        "--smooth changes nothing for {}, which filters its releases itself, or releases trees or always the same; \
         leave out one of the two",
        subject.name()
    )))
}

fn refuse_repeat<T: PartialEq + Display>(option: &str, values: &[T]) -> Result<(), Error> {
    let repeated = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value));
    match repeated {
        Some((_, value)) => Err(refused(format_args!("{option} has {value} twice"))),
        None => Ok(()),
    }
}

fn refused(error: impl Display) -> Error {
    Error::Spec(error.to_string())
}
