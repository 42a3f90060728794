//! `tidegate advise`: which mechanism to take, and which error to expect of it.

mod check;
mod question;
mod render;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tidegate::names::UnknownName;
use tidegate_kernel::Epsilon;
use tidegate_lab::advise::solve::{Unknown, solve};
use tidegate_lab::advise::{
    AdviseError, Chosen, ClassShare, Data, Question, Sample, Simulation, metrics_of, recommend_among, streams_of,
};
use tidegate_lab::experiment::Subject;
use tidegate_lab::metrics::Metric;
use tidegate_lab::stream::StreamKind;

use crate::arguments::{at_least_one, threads_or_all};
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, keep_apart};
use render::{About, advice_json, advice_text, needs_json, needs_text};

/// Predict the error of each mechanism that applies, rank them, and say why.
///
/// What is to be released, and who may see it, decides which mechanisms apply:
///
///   --kind counts   how many of --population users hold each of --domain values;
///                   --trust local (nobody but the device) or curator; --window timestamps
///   --kind numbers  one number within --domain LO..HI at each timestamp
///   --kind symbols  one user's symbol, of --domain symbols, at each timestamp
///
/// Errors are computed by formula where there is one, and simulated where there is none: on
/// streams that may have been behind a --sample of past releases, or on four typical ones
/// (still, walk, seasonal, bursts). The range goes from the lowest to the highest of the
/// streams, with two standard errors on either side of what was simulated.
///
/// A sample is a table as `tidegate release` writes it (t,value,variance,freshness), or
/// has t and a field for each value, of counts or shares. The noise that it states is taken off before
/// it is judged how much the stream moves. Releases are private already, so advice from them
/// is too; a raw sample is not, and a warning says so.
///
/// With --target-error it solves for the epsilon, or the population, that each mechanism
/// needs to come down to that error.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate advise --kind counts --trust local --population 200000 --domain 8 --window 24 \
                  --epsilon 1\n  \
                  tidegate advise --spec stream.toml --sample released.csv\n  \
                  tidegate advise --kind counts --trust curator --population 5000 --domain 10 --target-error 1e-5 \
                  --solve epsilon"
)]
pub(crate) struct Advise {
    /// What is to be released
    #[arg(long, value_enum, required_unless_present_any = ["spec", "check"], conflicts_with = "spec")]
    kind: Option<KindName>,

    /// Who may see raw values: nobody but the device, or a curator; for numbers a curator unless given
    #[arg(long, value_enum, conflicts_with = "spec")]
    trust: Option<TrustName>,

    /// The number of users, for counts; with --spec only where that does not say it
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    population: Option<NonZeroU64>,

    /// The number of values or symbols; for numbers, what they can be
    #[arg(
        long,
        value_name = "D|LO..HI",
        allow_hyphen_values = true,
        conflicts_with = "spec",
        required_unless_present_any = ["spec", "check"]
    )]
    domain: Option<String>,

    /// The distance of two numbers that are told apart; 1 unless given
    #[arg(long, value_name = "STEP", conflicts_with = "spec")]
    resolution: Option<f64>,

    /// Protect one contributor to a number, who can change it by so many steps of the resolution at most
    #[arg(long, value_name = "STEPS", value_parser = at_least_one::<NonZeroU64>, conflicts_with = "spec")]
    contribution: Option<NonZeroU64>,

    /// The privacy budget: of any window for counts, of each timestamp for numbers and symbols
    #[arg(long, value_parser = Epsilon::from_str, conflicts_with = "spec")]
    epsilon: Option<Epsilon>,

    /// The window in timestamps, for counts; 20 unless given
    #[arg(long, value_parser = at_least_one::<NonZeroU64>, conflicts_with = "spec")]
    window: Option<NonZeroU64>,

    /// How many timestamps a release may be held back; 0 unless given
    #[arg(long, conflicts_with = "spec")]
    delay: Option<u64>,

    /// The spec of the stream, instead of the options above
    #[arg(long, value_name = "FILE|-")]
    spec: Option<String>,

    /// Past releases of the stream, or of one like it
    #[arg(long, value_name = "FILE|-")]
    sample: Option<String>,

    /// Classes of users with a guarantee each, for counts, separated by commas: NAME:EPSILON:WINDOW or
    /// NAME:EPSILON:WINDOW:SIZE
    #[arg(
        long,
        value_name = "CLASS",
        value_delimiter = ',',
        value_parser = question::class,
        conflicts_with_all = ["spec", "epsilon", "window"]
    )]
    classes: Vec<ClassShare>,

    /// The sizes of the classes of the spec relative to each other; equal unless given
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = at_least_one::<NonZeroU64>, requires = "spec")]
    class_sizes: Vec<NonZeroU64>,

    /// Judge by the error of ranges of values, in the order of the domain, instead of that of each value; for counts
    #[arg(long)]
    ranges: bool,

    /// Leave out mechanisms whose users send more bytes in a timestamp on average; for counts with --trust local
    #[arg(long, value_name = "BYTES")]
    most_bytes: Option<f64>,

    /// The error that is to be small: mse, mae, mre, amre or ajsd for counts, mse, mae or mre for numbers,
    /// error_rate, mae, mse or histogram_distance for symbols; the first unless given or the spec says otherwise
    #[arg(long, value_parser = metric)]
    metric: Option<Metric>,

    /// Compare these mechanisms only, separated by commas
    #[arg(long, value_delimiter = ',')]
    mechanism: Vec<String>,

    /// Write the spec of the recommended mechanism, with comments, for tidegate release
    #[arg(long, value_name = "FILE|-", conflicts_with = "target_error")]
    write_spec: Option<String>,

    /// Solve for what this error needs
    #[arg(long, value_name = "ERROR", requires = "solve")]
    target_error: Option<f64>,

    /// What to solve for
    #[arg(long, value_enum, requires = "target_error")]
    solve: Option<UnknownQuantity>,

    /// How often to simulate on each stream; up to 10 times unless given, as a few seconds allow
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    repeats: Option<NonZeroU64>,

    /// The length of the typical streams; ten windows unless given, as a few seconds allow
    #[arg(long, value_name = "T", value_parser = at_least_one::<NonZeroUsize>, conflicts_with = "sample")]
    length: Option<NonZeroUsize>,

    /// Where all randomness comes from: the same seed gives the same advice. Nothing private is drawn
    #[arg(long, default_value = "1")]
    seed: u64,

    /// How many threads to use; all cores unless given. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Hold advice against what is measured in twenty cases instead, and print a page of Markdown
    #[arg(long, hide = true, conflicts_with_all = ["spec", "sample", "write_spec"])]
    check: bool,

    /// The directory with the folders of the real data sets, for --check
    #[arg(long, hide = true, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    data_dir: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Where to write the result; a file is replaced only once all of it is there
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindName {
    Counts,
    Numbers,
    Symbols,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TrustName {
    Local,
    Curator,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnknownQuantity {
    Epsilon,
    Population,
}

fn metric(name: &str) -> Result<Metric, UnknownName> {
    let kinds = StreamKind::ALL.into_iter();
    let mut all: Vec<Metric> = kinds.flat_map(|kind| metrics_of(kind).iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let found = all.iter().copied().find(|metric| metric.name() == name);
    found.ok_or_else(|| UnknownName::new("error", name, all.iter().map(|metric| metric.name())))
}

impl Advise {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.write_spec.as_deref() == Some("-") && self.output == "-" {
            return Err(Failure::input("--write-spec - needs an --output FILE for the advice itself"));
        }
        if self.check {
            return self.run_check();
        }
        let outputs = std::iter::once(&self.output).chain(&self.write_spec).map(String::as_str);
        keep_apart(outputs, self.spec.iter().chain(&self.sample).map(String::as_str))?;
        if let Some(name) = self.write_spec.as_ref().filter(|name| *name != "-" && Path::new(name).exists()) {
            return Err(Failure::input(format_args!("{name} is there already: --write-spec names a new file")));
        }
        let question = self.question()?;
        let sample = self.sample.as_deref().map(|name| read_sample(name, &question.request().data)).transpose()?;
        let threads = threads_or_all(self.threads);
        let simulation =
            Simulation { repeats: self.repeats, length: self.length, ..Simulation::new(self.seed, threads) };
        let mut output = Output::create(&self.output)?;
        let text = match (self.target_error, self.solve) {
            (Some(target), Some(unknown)) => self.needs(&question, sample.as_ref(), &simulation, target, unknown)?,
            _ => {
                let found = recommend_among(&question, &self.mechanism, sample.as_ref(), &simulation);
                let found = found.map_err(refused)?;
                let about = About { question: &question, streams: &found.streams, sample: sample.as_ref() };
                let text = if self.json { advice_json(&about, &found)? } else { advice_text(&about, &found) };
                self.write_spec(found.chosen.as_ref())?;
                text
            }
        };
        output.write(&text)?;
        output.finish()
    }

    fn needs(
        &self,
        question: &Question,
        sample: Option<&Sample>,
        simulation: &Simulation,
        target: f64,
        unknown: UnknownQuantity,
    ) -> Result<String, Failure> {
        let unknown = match unknown {
            UnknownQuantity::Epsilon => Unknown::Epsilon,
            UnknownQuantity::Population => Unknown::Population,
        };
        let streams = streams_of(question, sample, simulation).map_err(refused)?;
        let (candidates, _) = question.candidates_named(&self.mechanism).map_err(refused)?;
        let subjects: Vec<&dyn Subject> = candidates.iter().map(|candidate| candidate as &dyn Subject).collect();
        let needs = solve(question.request(), &subjects, &streams, simulation, target, unknown).map_err(refused)?;
        let about = About { question, streams: &streams, sample };
        if self.json {
            needs_json(&about, target, unknown, &needs)
        } else {
            Ok(needs_text(&about, target, unknown, &needs))
        }
    }

    fn write_spec(&self, chosen: Option<&Chosen>) -> Result<(), Failure> {
        let Some(name) = &self.write_spec else { return Ok(()) };
        let none = "no mechanism can be recommended, so there is no spec to write";
        let chosen = chosen.ok_or_else(|| Failure::input(none))?;
        let mut file = Output::create(name)?;
        file.write(&chosen.text)?;
        file.finish()?;
        if name != "-" {
            complain("note", format_args!("{name} has the spec of {}", chosen.mechanism.name()));
        }
        Ok(())
    }
}

/// An error of advice: bad input, unless a mechanism failed.
fn refused(error: AdviseError) -> Failure {
    match error {
        AdviseError::Run(error) => Failure::run(error),
        other => Failure::input(other),
    }
}

fn read_sample(name: &str, data: &Data) -> Result<Sample, Failure> {
    let Input { name, source } = Input::open(name)?;
    let sample = Sample::read(&name, source, data).map_err(refused)?;
    if sample.may_be_raw() {
        let why = "it has neither variances nor freshness, so it may be raw data, and advice that is computed from raw \
                   data tells something about them: keep it to yourself, or take a sample of past releases";
        complain("warning", format_args!("{name}: {why}"));
    } else if !sample.states_variance() {
        complain(
            "warning",
            format_args!("{name}: it states no variance, so that its noise is taken for movement of the stream"),
        );
    }
    Ok(sample)
}
