//! `tidegate reproduce`: the figures and tables of the papers, measured again.

use std::fs;
use std::io::{self, IsTerminal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_papers::{
    DEFAULT_SEED, Experiment, Outcome, Paper, Progress, ReproduceOptions, Session, all, as_json, as_text, chosen,
    explain, list_as_json, list_as_text, report,
};

use crate::arguments::{at_least_one, threads_or_all};
use crate::failure::{Failure, complain};
use crate::output::Output;

/// Measure a paper's figure or table again, and judge what the paper claims about it.
///
/// For each experiment, --out gets NAME.csv with every measured number and NAME.svg with the picture;
/// index.html sets them beside the numbers that the paper printed, with a verdict on each claim:
/// holds, holds partly, does not hold, or cannot be told. Questions that are asked here are no claims.
/// Verdicts are computed from what was measured, and two means are told apart only where they differ by more
/// than three standard errors.
///
/// Other files in the folder stay as they are. Results do not depend on the number of threads, nor on
/// what else is measured with them. They are computed from true data: nothing here is private.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate reproduce --list\n  tidegate reproduce ldp-ids-fig4 --out figures\n  \
                  tidegate reproduce ldp-ids --quick --out figures\n  \
                  tidegate reproduce --all --data-dir data --out figures"
)]
pub(crate) struct Reproduce {
    /// Figures and tables, or whole papers, as --list names them
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "list"])]
    names: Vec<String>,

    /// All papers; data sets that are not there are left out, and the report says so
    #[arg(long, conflicts_with = "names")]
    all: bool,

    /// List what there is
    #[arg(long, conflicts_with_all = ["names", "all"])]
    list: bool,

    /// The folder to write to, which is made where there is none
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,

    /// The directory with the folders of the real data sets
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA", hide_env_values = true)]
    data_dir: Option<PathBuf>,

    /// How often to run each trial; as often as each experiment says unless given (--list shows it)
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    repeats: Option<NonZeroU64>,

    /// Cut streams to 120 timestamps and runs to 2: shows that everything works, not what is true
    #[arg(long)]
    quick: bool,

    /// What all randomness comes from
    #[arg(long, default_value_t = DEFAULT_SEED)]
    seed: u64,

    /// How many threads to use; all cores unless given
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print JSON, with all verdicts, to standard output
    #[arg(long)]
    json: bool,
}

type Chosen = Vec<(&'static Paper, &'static Experiment)>;

impl Reproduce {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.list {
            return print(&if self.json { list_as_json() } else { list_as_text() });
        }
        let chosen = self.chosen()?;
        // Made before anything is run: a place that cannot be written to is found out at once.
        let folder = Folder::make(&self.out)?;
        let bar = Bar::new(&chosen);
        let progress = |step| bar.step(step);
        let options = ReproduceOptions {
            data_dir: self.data_dir.clone(),
            seed: self.seed,
            threads: threads_or_all(self.threads),
            repeats: self.repeats,
            quick: self.quick,
            length: None,
            skip_missing: self.all,
        };
        let session = Session::new(options.clone(), &progress);
        let mut outcomes = Vec::new();
        for (paper, experiment) in chosen {
            bar.begin(experiment);
            let outcome = experiment.run(paper, &session).map_err(|error| {
                bar.bar.finish_and_clear();
                explain(experiment, error)
            })?;
            bar.end(&outcome);
            for (name, text) in outcome.files() {
                folder.write(&name, &text)?;
            }
            outcomes.push(outcome);
        }
        bar.bar.finish_and_clear();
        folder.write("index.html", &report(&outcomes, &options).to_html())?;
        let text = if self.json { as_json(&outcomes, &options) } else { as_text(&outcomes) };
        print(&text)?;
        complain("note", format_args!("the report is {}", self.out.join("index.html").display()));
        Ok(())
    }

    /// Returns the selected experiments, each once, in the order of the papers.
    fn chosen(&self) -> Result<Chosen, Failure> {
        if self.all {
            return Ok(all().collect());
        }
        Ok(chosen(&self.names)?)
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::create("-")?;
    output.write(text)?;
    output.finish()
}

/// The output folder, in which files are replaced atomically.
struct Folder(PathBuf);

impl Folder {
    fn make(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path)
            .map_err(|error| Failure::input(format_args!("{} cannot be made a folder: {error}", path.display())))?;
        Ok(Self(path.to_owned()))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.0.join(name);
        let path = path.to_str().ok_or_else(|| {
            Failure::input(format_args!("{} cannot be written to: its name is not UTF-8", path.display()))
        })?;
        let mut output = Output::create(path)?;
        output.write(text)?;
        output.finish()
    }
}

/// Progress on standard error: a bar on a terminal, otherwise a line at the start and end of an experiment.
struct Bar {
    bar: ProgressBar,
    is_terminal: bool,
    total: usize,
    state: Mutex<Share>,
}

/// Progress of the current experiment. The bar's unit is a millisecond of expected work.
struct Share {
    /// Number of the experiment, from one.
    number: usize,
    /// Expected work of the experiments before it.
    before: u64,
    /// Expected work of the experiment.
    expected: u64,
    planned: u64,
    done: u64,
    runs: u64,
    start: Instant,
}

impl Bar {
    fn new(chosen: &Chosen) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let length = chosen.iter().map(|(_, experiment)| expected(experiment)).sum();
        let bar = if is_terminal { ProgressBar::new(length) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent}%, {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let state = Share { number: 0, before: 0, expected: 0, planned: 0, done: 0, runs: 0, start: Instant::now() };
        Self { bar, is_terminal, total: chosen.len(), state: Mutex::new(state) }
    }

    fn begin(&self, experiment: &Experiment) {
        let mut share = self.share();
        share.number += 1;
        self.bar.set_prefix(format!("{}/{} {}", share.number, self.total, experiment.name));
        share.expected = expected(experiment);
        (share.planned, share.done) = (0, 0);
    }

    fn step(&self, step: Progress) {
        let mut share = self.share();
        match step {
            Progress::Planned(runs) => share.planned += runs,
            Progress::Done => {
                share.done += 1;
                share.runs += 1;
                // An experiment may plan its runs in several parts, so it is finished only when it says so.
                let part = share.expected.saturating_mul(share.done) / share.planned.max(1);
                self.bar.set_position(share.before + part.min(share.expected));
                #[allow(clippy::cast_precision_loss)] // shown with two digits
                let rate = share.runs as f64 / share.start.elapsed().as_secs_f64().max(1e-3);
                self.bar.set_message(format!("{rate:.0} runs/s"));
            }
        }
    }

    fn end(&self, outcome: &Outcome) {
        let mut share = self.share();
        share.before += share.expected;
        self.bar.set_position(share.before);
        if !self.is_terminal {
            let (name, seconds) = (outcome.experiment.name, outcome.time.as_secs_f64());
            complain(&format!("{}/{}", share.number, self.total), format_args!("{name}, {seconds:.1} s"));
        }
    }

    fn share(&self) -> std::sync::MutexGuard<'_, Share> {
        // A poisoned lock means that a worker panicked, which the scope passes on anyway.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn expected(experiment: &Experiment) -> u64 {
    1000 * u64::from(experiment.seconds.max(1))
}
