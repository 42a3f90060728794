//! `tidegate reproduce`: the figures and tables of the papers, measured again.

use std::fs;
use std::io::{self, IsTerminal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tidegate_lab::datasets::DatasetError;
use tidegate_papers::{
    DEFAULT_SEED, Experiment, Outcome, PAPERS, Paper, Progress, ReproduceError, ReproduceOptions, Session, all,
    by_name, report,
};

use crate::arguments::{at_least_one, threads_or_all};
use crate::failure::{Failure, complain};
use crate::output::Output;
use crate::table::layout;

/// Measure a paper's figure or table again, and judge what the paper claims about it.
///
/// For each experiment, --out gets NAME.csv with every measured number and NAME.svg with the picture;
/// index.html sets them beside the numbers that the paper printed, with a verdict on each claim:
/// holds, holds partly, does not hold, or cannot be told. Verdicts are computed from what was measured,
/// and two means are told apart only where they differ by more than three standard errors.
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
            if outcome.is_measured() {
                folder.write(&format!("{}.csv", experiment.name), &outcome.table.to_csv())?;
            }
            if let Some(svg) = &outcome.svg {
                folder.write(&format!("{}.svg", experiment.name), svg)?;
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
        let mut names = Vec::new();
        for name in &self.names {
            names.extend(by_name(name).map_err(Failure::input)?.into_iter().map(|(_, experiment)| experiment.name));
        }
        Ok(all().filter(|(_, experiment)| names.contains(&experiment.name)).collect())
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::create("-")?;
    output.write(text)?;
    output.finish()
}

fn explain(experiment: &Experiment, error: ReproduceError) -> Failure {
    let name = experiment.name;
    match error {
        ReproduceError::Data(error @ DatasetError::NoDirectory { .. }) => {
            Failure::input(format_args!("{name}: {error}; name it with --data-dir or TIDEGATE_DATA"))
        }
        ReproduceError::Data(error) => Failure::input(format_args!("{name}: {error}")),
        ReproduceError::Name(_) => Failure::input(format_args!("{name}: {error}")),
        error => Failure::run(format_args!("{name}: {error}")),
    }
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

fn list_as_text() -> String {
    let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(["NAME", "IN THE PAPER", "REPEATS", "SECONDS", "DATA", ""])];
    for paper in PAPERS {
        rows.push(row([paper.name, "", "", "", "", paper.title]));
        for experiment in paper.experiments {
            rows.push(vec![
                format!("  {}", experiment.name),
                experiment.place.to_owned(),
                experiment.repeats.to_string(),
                experiment.seconds.to_string(),
                if experiment.needs_data() { "real" } else { "synthetic" }.to_owned(),
                experiment.title.to_owned(),
            ]);
        }
    }
    layout(&rows)
}

fn list_as_json() -> String {
    let experiment = |paper: &Paper, experiment: &Experiment| {
        let data: Vec<_> = experiment.data.iter().map(|data| data.set).collect();
        json!({ "name": experiment.name, "paper": paper.name, "place": experiment.place, "title": experiment.title,
                "data": data, "needs_data": experiment.needs_data(), "repeats": experiment.repeats,
                "seconds": experiment.seconds, "claims": experiment.claims.len() })
    };
    let listed: Vec<Value> = all().map(|(paper, one)| experiment(paper, one)).collect();
    format!("{:#}\n", Value::from(listed))
}

fn as_text(outcomes: &[Outcome]) -> String {
    let mut rows = vec![["NAME", "VERDICT", "CLAIM"].map(str::to_owned).to_vec()];
    for outcome in outcomes {
        let name = outcome.experiment.name;
        if !outcome.is_measured() {
            rows.push(vec![name.to_owned(), "no data".to_owned(), format!("needs {}", outcome.missing.join(", "))]);
        }
        for (claim, judgement) in outcome.experiment.claims.iter().zip(&outcome.judgements) {
            rows.push(vec![name.to_owned(), judgement.verdict.to_string(), claim.text.to_owned()]);
        }
    }
    layout(&rows)
}

fn as_json(outcomes: &[Outcome], options: &ReproduceOptions) -> String {
    let entry = |outcome: &Outcome| {
        let claims = outcome.experiment.claims.iter().zip(&outcome.judgements);
        let claims: Vec<_> = claims
            .map(|(claim, judgement)| {
                json!({ "claim": claim.text, "place": claim.place, "verdict": judgement.verdict.name(),
                        "because": judgement.because })
            })
            .collect();
        json!({ "name": outcome.experiment.name, "paper": outcome.paper.name, "place": outcome.experiment.place,
                "repeats": outcome.repeats, "seed": options.seed, "quick": options.quick, "missing": outcome.missing,
                "seconds": outcome.time.as_secs_f64(), "claims": claims })
    };
    let entries: Vec<Value> = outcomes.iter().map(entry).collect();
    format!("{:#}\n", Value::from(entries))
}
