//! `tidegate accuracy`: the benchmark of `track`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use tidegate_lab::accuracy::{AccuracyError, Options, Part, Results, Summary, run, to_markdown};
use tidegate_lab::experiment::{RunError, TrialError};

use crate::arguments::{at_least_one, threads_or_all};
use crate::failure::{Failure, complain};
use crate::output::Output;

/// Measure the error of track over a grid of streams and settings.
///
/// Each cell is a stream, a size, an epsilon and a window (of numbers, a delay), as in tidegate evaluate. It has
/// the ratio of the mean squared error of track to that of its baseline, which treats all timestamps alike:
///
///   central    central.track against uniform
///   local      local.track against lpu
///   scalar     scalar.track against clamped
///   incidents  jumps that must be told in time, and monitors that must fire
///   others     central.track and local.track against the best other mechanism
///
/// The result is a page of Markdown with what is measured and its limits. Cells of real data need --data-dir; without
/// it, they are left out, and the page says so. All parts take tens of minutes, --quick about one.
#[derive(Debug, Args)]
#[command(
    hide = true,
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate accuracy --quick\n  tidegate accuracy --part central --repeats 5 --json"
)]
pub(crate) struct Accuracy {
    /// Parts to run, separated by commas; all unless given
    #[arg(long, value_delimiter = ',', value_enum)]
    part: Vec<PartName>,

    /// How often to run each cell; 20 unless given, 3 with --quick. At most 5 against other mechanisms
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    repeats: Option<NonZeroU64>,

    /// Fewer sizes, one epsilon and one window
    #[arg(long)]
    quick: bool,

    /// The number of timestamps of each stream
    #[arg(long, value_name = "T", default_value_t = Options::LENGTH)]
    length: usize,

    /// What all randomness comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Measure another mechanism in place of track, of the family of the one grid that is chosen with --part
    #[arg(long, value_name = "NAME", requires = "part")]
    mechanism: Option<String>,

    /// The directory with the folders of the real data sets
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    data_dir: Option<PathBuf>,

    /// How many threads to use; all cores unless given. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print JSON with every cell instead
    #[arg(long)]
    json: bool,

    /// Where to write the result; a file is replaced only once all of it is there
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartName {
    Central,
    Local,
    Scalar,
    Incidents,
    Others,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Central => Self::Central,
            PartName::Local => Self::Local,
            PartName::Scalar => Self::Scalar,
            PartName::Incidents => Self::Incidents,
            PartName::Others => Self::Others,
        }
    }
}

impl Accuracy {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let options = self.options();
        let mut output = Output::create(&self.output)?;
        let results = run(&options, &|line| complain("note", line)).map_err(|error| match error {
            AccuracyError::Name(_) | AccuracyError::Data(_) | AccuracyError::Generate(_) => Failure::input(error),
            AccuracyError::Trial(TrialError { source: RunError::Misfit(_) | RunError::Unsupported(_), .. }) => {
                Failure::input(error)
            }
            error => Failure::run(error),
        })?;
        output.write(&if self.json {
            as_json(&results, &options)
        } else {
            to_markdown(&results, &options, &self.command(&options), env!("CARGO_PKG_VERSION"))
        })?;
        output.finish()
    }

    fn options(&self) -> Options {
        let parts =
            if self.part.is_empty() { Part::ALL.to_vec() } else { self.part.iter().map(|&part| part.into()).collect() };
        let repeats = NonZeroU64::new(Options::REPEATS[usize::from(self.quick)]).unwrap_or(NonZeroU64::MIN);
        Options {
            parts,
            data_dir: self.data_dir.clone(),
            repeats: self.repeats.unwrap_or(repeats),
            seed: self.seed,
            length: self.length,
            threads: threads_or_all(self.threads),
            quick: self.quick,
            subject: self.mechanism.clone(),
        }
    }

    /// The command that repeats this run, but for paths and threads.
    fn command(&self, options: &Options) -> String {
        let mut command = "tidegate accuracy".to_owned();
        if !self.part.is_empty() {
            let parts: Vec<&str> = options.parts.iter().map(|part| part.name()).collect();
            command += &format!(" --part {}", parts.join(","));
        }
        if self.quick {
            command += " --quick";
        }
        if let Some(mechanism) = &self.mechanism {
            command += &format!(" --mechanism {mechanism}");
        }
        command + &format!(" --repeats {} --length {} --seed {}", options.repeats, options.length, options.seed)
    }
}

fn as_json(results: &Results, options: &Options) -> String {
    let summaries = results.grids.iter().map(|grid| (grid.part.name().to_owned(), json!(Summary::of(grid))));
    let summaries: serde_json::Map<_, _> = summaries.collect();
    let text = json!({ "version": env!("CARGO_PKG_VERSION"), "repeats": options.repeats, "seed": options.seed,
                       "length": options.length, "quick": options.quick, "summaries": summaries, "results": results });
    format!("{text:#}\n")
}
