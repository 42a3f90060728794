//! `tidegate evaluate`: the error of mechanisms, side by side.

mod parameters;

use std::io::{self, IsTerminal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use anstream::{AutoStream, ColorChoice};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate::names::UnknownName;
use tidegate::sequence::effort::Effort;
use tidegate::spec::{InputSpec, ValuesSpec};
use tidegate_kernel::{Epsilon, Randomness, SystemRandom};

use tidegate_lab::evaluate::{Evaluation, Options, OracleChoice, check, load, load_from};
use tidegate_lab::experiment::RequirementClass;
use tidegate_lab::sequence::SymbolDistance;
use tidegate_lab::stop::Stop;
use tidegate_lab::{DataStream, datasets, subjects};

use crate::arguments::{at_least_one, domain};
use crate::channel::DistanceName;
use crate::columns::TableOptions;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, keep_apart};
use crate::warnings::stand_in;
use parameters::Parameters;

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
/// With --mean the values of counts are taken as the numbers 0, 1, 2, and so on. lbu, lsp, lbd, lba,
/// lpu, lpd and lpa release the mean of these; errors are those of numbers, with cfpu and bytes.
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
    #[arg(long, value_parser = OracleChoice::from_str)]
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

    /// Take the values of users as the numbers 0, 1, 2, and so on, and release their mean
    #[arg(long)]
    mean: bool,

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
        let seed = match self.seed {
            Some(seed) => seed,
            None => SystemRandom::new().map_err(Failure::run)?.next_word(),
        };
        let options = self.options(seed);
        check(&options)?;
        keep_apart([self.output.as_str()], [self.dataset.as_str()])?;
        let stream = self.load(&options)?;
        let is_own_numbers = matches!(stream, DataStream::Numbers(_)) && datasets::by_name(&self.dataset).is_none();
        let evaluation = Evaluation::new(options, stream)?;
        if self.seed.is_some() {
            let why = "whoever knows that can repeat it, so its output is not private";
            complain("warning", format_args!("this run is seeded with {seed}: {why}"));
        } else {
            complain("note", format_args!("--seed {seed} repeats this run"));
        }
        evaluation.warnings().iter().for_each(|warning| complain("warning", warning));
        if let (true, Some((low, _))) = (is_own_numbers, self.domain) {
            complain("note", stand_in(low));
        }
        evaluation.notes(&self.dataset).iter().for_each(|note| complain("note", note));
        let bar = progress_bar(evaluation.runs());
        // Opened before anything is run: a place that cannot be written to is found out at once.
        let mut output = Output::create(&self.output)?;
        let findings = evaluation.run(Stop::never(), &|| bar.inc(1));
        bar.finish_and_clear();
        let findings = findings?;
        evaluation.warnings_of(&findings).iter().for_each(|warning| complain("warning", warning));
        output.write(&if self.json {
            evaluation.to_json(&findings)?
        } else {
            let is_bold = self.output == "-" && AutoStream::choice(&io::stdout()) != ColorChoice::Never;
            evaluation.to_text(&findings, is_bold)
        })?;
        output.finish()
    }

    fn load(&self, options: &Options) -> Result<DataStream, Failure> {
        if self.table.series().is_some() {
            return Err(Failure::input(
                "--series is for release: evaluate takes one series, so keep the lines of one in the table",
            ));
        }
        let stream = match self.dataset.as_str() {
            "-" => {
                let Input { name, source } = Input::open("-")?;
                load_from(&name, source, options)
            }
            name => load(name, options),
        };
        Ok(stream?)
    }

    fn options(&self, seed: u64) -> Options {
        let mut input = InputSpec::default();
        self.table.apply(&mut input);
        Options {
            mechanism: self.mechanism.clone(),
            epsilon: self.epsilon.clone(),
            window: self.window.clone(),
            delay: self.delay.clone(),
            population: self.population,
            length: self.length,
            domain: self.domain,
            resolution: self.resolution,
            values: self.values.clone(),
            repeats: Some(self.repeats),
            seed: Some(seed),
            oracle: self.oracle,
            classes: self.classes.clone(),
            contribution: self.contribution,
            within_domain: self.within_domain,
            smooth: self.smooth,
            batch: self.batch,
            order: self.order.and_then(|order| order.try_into().ok()),
            distance: self.distance.map(SymbolDistance::from),
            effort: self.effort.map(Effort::from),
            data_dir: self.data_dir.clone(),
            threads: self.threads,
            queries: self.queries,
            mean: self.mean,
            input,
            parameters: self.parameters.given(),
        }
    }
}

fn progress_bar(runs: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {per_sec}, {eta} left");
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
