//! `tidegate advise`: which mechanism to take, and which error to expect of it.

mod check;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tidegate_kernel::Epsilon;
use tidegate_lab::advise::solve::Unknown;
use tidegate_lab::advise::{AdviseError, ClassShare, Data, MetricName, Options, Question, Sample, Trust};
use tidegate_lab::stop::Stop;
use tidegate_lab::stream::StreamKind;
use tidegate_release::Error;

use crate::arguments::at_least_one;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, keep_apart};

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
        value_parser = ClassShare::from_str,
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
    #[arg(long, value_parser = MetricName::from_str)]
    metric: Option<MetricName>,

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
    #[value(alias = "device")]
    Local,
    Curator,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnknownQuantity {
    Epsilon,
    Population,
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
        let options = self.options();
        let question = self.question(&options)?;
        let sample = self.sample.as_deref().map(|name| read_sample(name, &question.request().data)).transpose()?;
        let mut output = Output::create(&self.output)?;
        let answer = options.answer(&question, sample.as_ref(), Stop::never())?;
        self.write_spec(answer.spec)?;
        output.write(if self.json { &answer.json } else { &answer.text })?;
        output.finish()
    }

    fn question(&self, options: &Options) -> Result<Question, Failure> {
        let Some(name) = &self.spec else { return Ok(options.question()?) };
        let spec = Input::spec(name)?;
        options.question_of(&spec.stream).map_err(|error| match error {
            AdviseError::Spec(error) => spec.refused(&error).into(),
            other => refused(other),
        })
    }

    fn options(&self) -> Options {
        Options {
            kind: self.kind.map(|kind| match kind {
                KindName::Counts => StreamKind::Counts,
                KindName::Numbers => StreamKind::Numbers,
                KindName::Symbols => StreamKind::Symbols,
            }),
            trust: self.trust.map(|trust| match trust {
                TrustName::Local => Trust::Local,
                TrustName::Curator => Trust::Curator,
            }),
            population: self.population,
            domain: self.domain.clone(),
            resolution: self.resolution,
            contribution: self.contribution,
            epsilon: self.epsilon,
            window: self.window,
            delay: self.delay,
            classes: self.classes.clone(),
            class_sizes: self.class_sizes.clone(),
            ranges: self.ranges,
            most_bytes: self.most_bytes,
            metric: self.metric,
            mechanism: self.mechanism.clone(),
            target_error: self.target_error,
            solve: self.solve.map(|unknown| match unknown {
                UnknownQuantity::Epsilon => Unknown::Epsilon,
                UnknownQuantity::Population => Unknown::Population,
            }),
            repeats: self.repeats,
            length: self.length,
            seed: Some(self.seed),
            threads: self.threads,
        }
    }

    fn write_spec(&self, spec: Option<(&str, String)>) -> Result<(), Failure> {
        let Some(name) = &self.write_spec else { return Ok(()) };
        let none = "no mechanism can be recommended, so there is no spec to write";
        let (mechanism, text) = spec.ok_or_else(|| Failure::input(none))?;
        let mut file = Output::create(name)?;
        file.write(&text)?;
        file.finish()?;
        if name != "-" {
            complain("note", format_args!("{name} has the spec of {mechanism}"));
        }
        Ok(())
    }
}

fn refused(error: AdviseError) -> Failure {
    Error::from(error).into()
}

fn read_sample(name: &str, data: &Data) -> Result<Sample, Failure> {
    let Input { name, source } = Input::open(name)?;
    let sample = Sample::read(&name, source, data).map_err(refused)?;
    if let Some(warning) = sample.warning() {
        complain("warning", format_args!("{name}: {warning}"));
    }
    Ok(sample)
}
