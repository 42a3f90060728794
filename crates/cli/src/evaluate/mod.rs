//! `tidegate evaluate`: the error of mechanisms, side by side.

mod parameters;
mod warnings;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

use anstream::{AutoStream, ColorChoice};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Serialize, Serializer, ser::SerializeMap};
use tidegate::names::UnknownName;
use tidegate::sequence::effort::Effort;
use tidegate::spec::{InputSpec, ValuesSpec};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Randomness, SystemRandom};

use tidegate_lab::datasets::{self, DatasetError, NumberDomain};
use tidegate_lab::experiment::{
    Finding, Plan, RequirementClass, RunError, Setting, Subject, Trial, TrialSettings, run,
};
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::sequence::SymbolDistance;
use tidegate_lab::stream::StreamKind;
use tidegate_lab::{DataStream, subjects};
use tidegate_table::TableError;

use crate::arguments::{at_least_one, domain};
use crate::channel::DistanceName;
use crate::columns::TableOptions;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, keep_apart};
use crate::table::{layout_with, short};
use parameters::{Parameters, refuse_to_smooth};

/// Measure the error of mechanisms on a data set, side by side.
///
/// Every mechanism is run with every epsilon, window and delay, as often as --repeats says,
/// by simulated users. What is measured, each as its mean over the repeats and (_se in JSON,
/// after ± in the table) the standard error of that mean, depends on the kind of data set.
/// Of counts of users:
///
///   mse   squared error of a frequency
///   mae   absolute error of a frequency
///   mre   error relative to the true frequency, or to 0.001 where that is larger
///   amre  squared error of a count
///   ajsd  Jensen-Shannon divergence from the true distribution, in nats
///   cfpu  reports per user and timestamp
///   auc   area under the ROC curve of detecting when the mean value is in the top
///         quarter of its range
///   coverage (JSON only)  how often the truth lies within 1.96 standard deviations, as they
///         were stated: 0.95 where they are right
///
/// Of numbers:
///
///   mse, mae   squared and absolute error of a number
///   mre        error relative to the true number, or to a thousandth of the domain's width
///              where that is larger
///   coverage (JSON only)  as of counts
///
/// Of sequences of symbols, as the mean over a user's timestamps and then over the users:
///
///   mse                 squared distance of the released symbol from the true one
///   mae, euclidean      distance, on a line and on a grid (in cells)
///   error_rate          how often the two differ
///   histogram_distance  total variation distance of how often each symbol occurs, of all users
///
/// There, epsilon is spent on each symbol, without a window: in local differential privacy by rr, oue
/// and crr_robust, in sequence information privacy (SIP) by crr and batched, whose steps lose up
/// to 2 epsilon locally. Models are learned from the whole data set, as in the literature.
///
/// With --queries (of counts only) also how well queries over several timestamps are answered
/// from what is released, 50 of each kind, drawn from the seed and the same for all mechanisms. A
/// query asks for the share of users with a value of a range, over a period of 1 to w timestamps:
///
///   counting_mse, _mae, _mre  squared, absolute and relative error, one value
///   range_mse, _mae, _mre     the same, a range of random width
///   monitor_auc               area under the ROC curve of detecting when the share of a range
///                             rises, from one period to the next, by more than the median rise
///
/// An option that changes nothing for any of the mechanisms is warned about. On a terminal, the
/// best mechanism of each epsilon, window and delay is in bold type, column by column.
///
/// These are computed from the true data: use them to choose a mechanism, do not publish them.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate evaluate --dataset lns --mechanism constant,lpa --epsilon 0.5,1 --window 20 \
                  --seed 1\n  \
                  tidegate evaluate --dataset sin --mechanism lpa,mtsp --epsilon 1 --queries\n  \
                  tidegate evaluate --dataset visits.csv --domain 0..500 --mechanism laplace --epsilon 1\n\n\
                  `tidegate data` lists the data sets, the mechanisms, and which options matter to each."
)]
pub(crate) struct Evaluate {
    /// A data set's name, the path of a table (.csv, .csv.gz, or .ndjson with an object a line), or - for
    /// such a table on standard input. It is a table that release reads: t and one field for each value,
    /// with counts; t,user,value; or t,value for a stream of numbers
    #[arg(long, value_name = "NAME|FILE|-")]
    dataset: String,

    /// Mechanisms, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_parser = mechanism)]
    mechanism: Vec<String>,

    /// The privacy budget of any window (of sequences, of each symbol), or several, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_parser = Epsilon::from_str)]
    epsilon: Vec<Epsilon>,

    /// The window in timestamps, or several, separated by commas; 20 unless given
    #[arg(long, value_delimiter = ',', value_parser = at_least_one::<NonZeroU64>)]
    window: Vec<NonZeroU64>,

    /// How many timestamps a release may be held back, or several, separated by commas; 0 unless given
    #[arg(long, value_delimiter = ',')]
    delay: Vec<u64>,

    /// The number of users. Of counts: at each timestamp, 200000 unless given for synthetic data; real
    /// data has its own, and keeps its frequencies among as many users as are given. Of symbols: so
    /// many users, chosen at random
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    population: Option<NonZeroU64>,

    /// The number of timestamps: 800 unless given for synthetic data (10000 symbols), all of them for
    /// real data
    #[arg(long, value_name = "T", value_parser = at_least_one::<NonZeroUsize>)]
    length: Option<NonZeroUsize>,

    /// The domain of a stream of numbers that is read from a table, or of a numbers_ data set, 0..1000 unless
    /// given; other named data sets have their own
    #[arg(long, value_name = "LO..HI", value_parser = domain::<f64>, allow_hyphen_values = true)]
    domain: Option<(f64, f64)>,

    /// The distance of two numbers that are told apart, with --domain; 1 unless given
    #[arg(long, value_name = "STEP", requires = "domain")]
    resolution: Option<f64>,

    /// The values of users that are read from a table: names, separated by commas, or how many there are,
    /// called 0, 1, 2, ..
    #[arg(long, value_name = "NAME,NAME,..|N", value_parser = values, conflicts_with = "domain")]
    values: Option<ValuesSpec>,

    /// How often to run each mechanism
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one::<NonZeroU64>)]
    repeats: NonZeroU64,

    /// Repeat a run exactly; without it, each run draws its own seed
    #[arg(long)]
    seed: Option<u64>,

    /// The frequency oracle of local mechanisms: grr, sue, oue, blh, olh, hadamard or subset; auto, which is
    /// the best of them, unless given
    #[arg(long, value_parser = oracle)]
    oracle: Option<OracleChoice>,

    /// What users require of central mechanisms: classes, separated by commas, with their epsilon, window
    /// and number in proportion. Those with one guarantee for all give that of the strictest class. Unless
    /// given, --epsilon and --window are the strictest, and users of personalised mechanisms choose among
    /// them and the laxer ones of 0.2, 0.4 .. 1 and of 40, 80 .. 200
    #[arg(long, value_delimiter = ',', value_name = "EPSILON:WINDOW:WEIGHT", value_parser = class)]
    classes: Vec<RequirementClass>,

    /// Protect one contributor to a number, who can change it by so many steps of the resolution at
    /// most; the number itself is protected unless given
    #[arg(long, value_name = "STEPS", value_parser = at_least_one::<NonZeroU64>)]
    contribution: Option<NonZeroU64>,

    /// Move the numbers that scalar mechanisms release into the domain where they lie outside
    #[arg(long)]
    within_domain: bool,

    /// Make what mechanisms release better by what they released before, free of budget, with the
    /// estimator of track; of counts and numbers
    #[arg(long)]
    smooth: bool,

    /// How many symbols are released together by mechanisms that release batches; 2 unless given
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    batch: Option<NonZeroUsize>,

    /// How many symbols of the past the model of a sequence looks back on; 1 unless given
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u8).range(1..=2))]
    order: Option<u8>,

    /// What the mechanisms with a model of a sequence make small: hamming, unless given, is how often the answer
    /// is wrong, absolute how far it is off (on a grid, the Euclidean distance), squared its square (on a
    /// line only)
    #[arg(long, value_enum)]
    distance: Option<DistanceName>,

    /// How hard the best channel for sequences is looked for; fast unless given. Thorough is a linear programme,
    /// which is seldom worth the time: with hamming only in batches does it change anything
    #[arg(long, value_enum)]
    effort: Option<EffortName>,

    /// The directory with the folders of the real data sets
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    data_dir: Option<PathBuf>,

    /// How many threads to use; all cores unless given. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Answer counting queries, range queries and monitors too, and measure their errors
    #[arg(long)]
    queries: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Where to write the result; a file is replaced only once all of it is there
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,

    #[command(flatten)]
    table: TableOptions,

    #[command(flatten)]
    parameters: Parameters,
}

/// The values of a domain: their number, or their names.
fn values(text: &str) -> Result<ValuesSpec, String> {
    let spec = match text.parse() {
        Ok(number) => ValuesSpec::Number(number),
        Err(_) => ValuesSpec::Names(text.split(',').map(str::to_owned).collect()),
    };
    spec.values().map(|_| spec).map_err(|error| error.to_string())
}

/// Why a data set cannot be had, and what to do about it.
pub(crate) fn cannot_load(dataset: &str, error: &DatasetError) -> Failure {
    match error {
        DatasetError::NoDirectory { .. } => {
            Failure::input(format_args!("{error}; name it with --data-dir or TIDEGATE_DATA"))
        }
        DatasetError::Table(TableError::Open { .. }) if datasets::by_name(dataset).is_some() => {
            Failure::input(format_args!(
                "{error}; a folder may hold no more than a description, and the page on data sets (docs/data-sets.md) \
                 says which files it must hold"
            ))
        }
        _ => Failure::input(error),
    }
}

fn class(text: &str) -> Result<RequirementClass, String> {
    let [epsilon, window, weight] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err("expected EPSILON:WINDOW:WEIGHT".to_owned());
    };
    let epsilon = epsilon.parse().map_err(|error: tidegate_kernel::EpsilonError| error.to_string())?;
    Ok(RequirementClass { epsilon, window: at_least_one(window)?, weight: at_least_one(weight)? })
}

/// A name that some mechanism has; which one depends on the stream.
fn mechanism(name: &str) -> Result<String, UnknownName> {
    subjects::check_name(name).map(|()| name.to_owned())
}

/// An oracle, or none where the mechanism is to choose.
#[derive(Clone, Copy, Debug)]
struct OracleChoice(Option<OracleKind>);

fn oracle(name: &str) -> Result<OracleChoice, String> {
    if name == "auto" {
        return Ok(OracleChoice(None));
    }
    let kind = OracleKind::from_str(name).map_err(|error| format!("{error}, or auto for the best"))?;
    Ok(OracleChoice(Some(kind)))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EffortName {
    Fast,
    Thorough,
}

impl From<EffortName> for Effort {
    fn from(name: EffortName) -> Self {
        match name {
            EffortName::Fast => Self::Fast,
            EffortName::Thorough => Self::Thorough,
        }
    }
}

impl From<DistanceName> for SymbolDistance {
    fn from(name: DistanceName) -> Self {
        match name {
            DistanceName::Hamming => Self::Hamming,
            DistanceName::Absolute => Self::Absolute,
            DistanceName::Squared => Self::Squared,
        }
    }
}

impl Evaluate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.refuse_repeats()?;
        keep_apart([self.output.as_str()], [self.dataset.as_str()])?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => SystemRandom::new().map_err(Failure::run)?.next_word(),
        };
        let stream = self.load(seed)?;
        let chosen = self.mechanism.iter().map(|name| subjects::by_name_for(stream.kind(), name));
        let chosen: Vec<&'static dyn Subject> = chosen.collect::<Result<_, _>>().map_err(Failure::input)?;
        let names: Vec<&str> = chosen.iter().map(|subject| subject.name()).collect();
        refuse_repeat("--mechanism", &names)?;
        for subject in &chosen {
            subjects::check_fit(*subject, &stream).map_err(Failure::input)?;
        }
        if self.smooth && stream.kind() == StreamKind::Symbols {
            let (name, kind) = (stream.name(), stream.kind());
            return Err(Failure::input(format_args!(
                "--smooth needs counts of users or numbers, but {name} is a stream of {kind}"
            )));
        }
        if self.smooth {
            refuse_to_smooth(&chosen)?;
        }
        if self.queries && stream.kind() != StreamKind::Counts {
            let (name, kind) = (stream.name(), stream.kind());
            return Err(Failure::input(format_args!(
                "--queries needs counts of users, but {name} is a stream of {kind}"
            )));
        }
        if self.seed.is_some() {
            let why = "whoever knows that can repeat it, so its output is not private";
            complain("warning", format_args!("this run is seeded with {seed}: {why}"));
        } else {
            complain("note", format_args!("--seed {seed} repeats this run"));
        }
        warnings::of_options(self, &chosen).iter().for_each(|warning| complain("warning", warning));
        if let Some(what) = stream.stand_in() {
            complain("note", format_args!("{} stands in for {what}", stream.name()));
        }
        if let Some(note) = datasets::by_name(&self.dataset).and_then(|dataset| dataset.note) {
            complain("note", format_args!("{}: {note}", stream.name()));
        }
        let trials = self.trials(&chosen);
        let threads = self.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let plan = Plan { repeats: self.repeats, seed, threads, queries: self.queries };
        let bar = progress_bar((trials.len() as u64).saturating_mul(self.repeats.get()));
        // Opened before anything is run: a place that cannot be written to is found out at once.
        let mut output = Output::create(&self.output)?;
        let findings = run(&stream, &trials, &plan, &|| bar.inc(1));
        bar.finish_and_clear();
        let findings = findings.map_err(|error| match error.source {
            RunError::Unsupported(_) | RunError::Misfit(_) => Failure::input(error),
            _ => Failure::run(error),
        })?;
        let of_findings: BTreeSet<_> =
            findings.iter().flat_map(|finding| warnings::of_finding(finding, &stream)).collect();
        of_findings.iter().for_each(|warning| complain("warning", warning));
        output.write(&if self.json {
            as_json(&stream, &plan, &findings)?
        } else {
            let is_bold = self.output == "-" && AutoStream::choice(&io::stdout()) != ColorChoice::Never;
            as_text(&stream, &plan, &findings, is_bold)
        })?;
        output.finish()
    }

    /// Whether all mechanisms take sequences of symbols only, so that a table in long form holds such.
    fn only_sequences(&self) -> bool {
        let takes = |kind, name: &String| subjects::by_name_for(kind, name).is_ok_and(|subject| subject.takes(kind));
        let others = || self.mechanism.iter().filter(|name| *name != "constant");
        others().any(|name| takes(StreamKind::Symbols, name)) && !others().any(|name| takes(StreamKind::Counts, name))
    }

    fn load(&self, seed: u64) -> Result<DataStream, Failure> {
        if self.table.series().is_some() {
            return Err(Failure::input(
                "--series is for release: evaluate takes one series, so keep the lines of one in the table",
            ));
        }
        let mut input = InputSpec::default();
        self.table.apply(&mut input);
        let domain = |(low, high)| NumberDomain { low, high, resolution: self.resolution };
        let options = datasets::LoadOptions {
            data_dir: self.data_dir.clone(),
            population: self.population.map(NonZeroU64::get),
            length: self.length.map(NonZeroUsize::get),
            domain: self.domain.map(domain),
            values: self.values.clone(),
            input,
            symbols: self.only_sequences(),
            seed,
        };
        let stream = match self.dataset.as_str() {
            "-" => {
                let Input { name, source } = Input::open("-")?;
                datasets::load_from(&name, source, &options)
            }
            name => datasets::load(name, &options),
        };
        stream.map_err(|error| match error {
            DatasetError::NoDomain { .. } => Failure::input(format_args!("{error}; give it with --domain LO..HI")),
            DatasetError::NoValues { .. } => Failure::input(format_args!(
                "{error}; give them with --values NAME,NAME,.. or their number, or with --domain LO..HI"
            )),
            error => cannot_load(&self.dataset, &error),
        })
    }

    fn trials(&self, chosen: &[&'static dyn Subject]) -> Vec<Trial<'static>> {
        let windows = if self.window.is_empty() { vec![DEFAULT_WINDOW] } else { self.window.clone() };
        let delays = if self.delay.is_empty() { vec![0] } else { self.delay.clone() };
        let mut trials = Vec::new();
        for subject in chosen {
            for &epsilon in &self.epsilon {
                for &window in &windows {
                    for &delay in &delays {
                        let mut settings = self.settings(epsilon, window, delay);
                        settings.repair = self.parameters.repair(*subject);
                        trials.push(Trial { subject: *subject, settings });
                    }
                }
            }
        }
        trials
    }

    fn settings(&self, epsilon: Epsilon, window: NonZeroU64, delay: u64) -> TrialSettings {
        let defaults = self.parameters.apply(TrialSettings::new(epsilon, window));
        TrialSettings {
            delay,
            oracle: self.oracle.map_or(defaults.oracle, |OracleChoice(oracle)| oracle),
            classes: self.classes.clone(),
            protects: self.contribution.map_or(defaults.protects, Protects::Contribution),
            within_domain: self.within_domain,
            smooth: self.smooth,
            batch: self.batch.unwrap_or(defaults.batch),
            order: self.order.unwrap_or(defaults.order),
            distance: self.distance.map_or(defaults.distance, SymbolDistance::from),
            effort: self.effort.map_or(defaults.effort, Effort::from),
            ..defaults
        }
    }

    /// Results are told apart by mechanism, epsilon, window and delay, so that the same twice is a mistake.
    fn refuse_repeats(&self) -> Result<(), Failure> {
        refuse_repeat("--mechanism", &self.mechanism)?;
        refuse_repeat("--epsilon", &self.epsilon)?;
        refuse_repeat("--window", &self.window)?;
        refuse_repeat("--delay", &self.delay)
    }

    const fn is_given(&self, setting: Setting) -> bool {
        match setting {
            Setting::Window => !self.window.is_empty(),
            Setting::Delay => !self.delay.is_empty(),
            Setting::Oracle => self.oracle.is_some(),
            Setting::Classes => !self.classes.is_empty(),
            Setting::Contribution => self.contribution.is_some(),
            Setting::WithinDomain => self.within_domain,
            Setting::Batch => self.batch.is_some(),
            Setting::Order => self.order.is_some(),
            Setting::Distance => self.distance.is_some(),
            Setting::Effort => self.effort.is_some(),
        }
    }
}

/// The window, unless told.
const DEFAULT_WINDOW: NonZeroU64 = NonZeroU64::MIN.saturating_add(19);

fn refuse_repeat<T: PartialEq + std::fmt::Display>(option: &str, values: &[T]) -> Result<(), Failure> {
    let repeated = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value));
    match repeated {
        Some((_, value)) => Err(Failure::input(format_args!("{option} has {value} twice"))),
        None => Ok(()),
    }
}

fn progress_bar(runs: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {per_sec}, {eta} left");
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A finding as the object that `--json` prints.
struct Entry<'a> {
    stream: &'a DataStream,
    plan: &'a Plan,
    finding: &'a Finding,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TrialSettings { epsilon, window, delay, .. } = &self.finding.settings;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dataset", self.stream.name())?;
        map.serialize_entry("mechanism", self.finding.mechanism)?;
        map.serialize_entry("epsilon", &epsilon.as_f64())?;
        map.serialize_entry("window", window)?;
        map.serialize_entry("delay", delay)?;
        map.serialize_entry("repeats", &self.plan.repeats)?;
        for (metric, summary) in &self.finding.metrics {
            map.serialize_entry(metric.name(), &summary.mean)?;
            map.serialize_entry(&format!("{metric}_se"), &summary.standard_error)?;
        }
        map.serialize_entry("seconds", &self.finding.time.as_secs_f64())?;
        map.serialize_entry("warnings", &warnings::of_finding(self.finding, self.stream))?;
        map.end()
    }
}

fn as_json(stream: &DataStream, plan: &Plan, findings: &[Finding]) -> Result<String, Failure> {
    let entries: Vec<_> = findings.iter().map(|finding| Entry { stream, plan, finding }).collect();
    let text = serde_json::to_string_pretty(&entries).map_err(Failure::run)?;
    Ok(text + "\n")
}

fn as_text(stream: &DataStream, plan: &Plan, findings: &[Finding], is_bold: bool) -> String {
    let repeats = match plan.repeats.get() {
        1 => "1 run".to_owned(),
        repeats => format!("mean ± standard error of {repeats} runs"),
    };
    let shown: Vec<Metric> = Metric::ALL
        .into_iter()
        .filter(|metric| metric.can_be_better())
        .filter(|metric| findings.iter().any(|finding| finding.metrics.iter().any(|(other, _)| other == metric)))
        .collect();
    const BEFORE: [&str; 4] = ["mechanism", "epsilon", "window", "delay"];
    let mut header = BEFORE.map(str::to_owned).to_vec();
    header.extend(shown.iter().map(|metric| metric.name().to_owned()));
    header.push("seconds".to_owned());
    let mut rows = vec![header];
    for finding in findings {
        let TrialSettings { epsilon, delay, .. } = &finding.settings;
        let window = window_of(finding, stream, plan).map_or_else(String::new, |window| window.to_string());
        let mut row = vec![finding.mechanism.to_owned(), epsilon.to_string(), window, delay.to_string()];
        row.extend(shown.iter().map(|metric| {
            let found = finding.metrics.iter().find(|(other, _)| other == metric);
            found.map_or_else(String::new, |(_, summary)| in_short(summary))
        }));
        row.push(format!("{:.2}", finding.time.as_secs_f64()));
        rows.push(row);
    }
    let is_best = |line: usize, column: usize| {
        let (finding, metric) = (line.checked_sub(1), column.checked_sub(BEFORE.len()));
        let (finding, metric) =
            (finding.and_then(|line| findings.get(line)), metric.and_then(|place| shown.get(place)));
        is_bold && finding.zip(metric).is_some_and(|(finding, metric)| is_best(finding, *metric, findings))
    };
    format!("{stream}; {repeats}\n\n{}", layout_with(&rows, is_best))
}

/// The window of a finding; `None` where neither the mechanism nor the queries have one.
fn window_of(finding: &Finding, stream: &DataStream, plan: &Plan) -> Option<NonZeroU64> {
    let subject = subjects::by_name_for(stream.kind(), finding.mechanism).ok();
    let has_window = plan.queries || subject.is_none_or(|subject| subject.uses().contains(&Setting::Window));
    has_window.then_some(finding.settings.window)
}

/// Whether no other mechanism with the same epsilon, window and delay is better by a metric, and some is worse.
fn is_best(finding: &Finding, metric: Metric, findings: &[Finding]) -> bool {
    let key = |finding: &Finding| (finding.settings.epsilon, finding.settings.window, finding.settings.delay);
    let value = |finding: &Finding| {
        let found = finding.metrics.iter().find(|(other, _)| *other == metric)?;
        Some(if metric.is_better_when_higher() { -found.1.mean } else { found.1.mean })
    };
    let Some(own) = value(finding) else { return false };
    let others = || findings.iter().filter(|other| key(other) == key(finding)).filter_map(value);
    others().all(|other| own <= other) && others().any(|other| own < other)
}

fn in_short(summary: &Summary) -> String {
    match summary.standard_error {
        Some(error) => format!("{} ± {}", short(summary.mean), short(error)),
        None => short(summary.mean),
    }
}
