//! Figures and tables of five papers, measured again, with a verdict on each claim.
//!
//! ```text
//! PAPERS ──▶ Experiment ──▶ Session (runs trials) ──▶ Results ──▶ panels, claims ──▶ CSV, SVG, HTML
//! ```
//!
//! An [`Experiment`] declares its trials, its chart, the numbers that the paper printed and the paper's claims.
//! Verdicts depend on the measured [`Results`] alone. To add a paper, declare it in a module and list it in [`PAPERS`].
//!
//! The crate serves `tidegate reproduce`. Its API may change in any release. The algorithms as the papers print them
//! are subjects of the laboratory ([`tidegate_lab::scalar::published`], [`tidegate_lab::sequence`]), because
//! `tidegate evaluate` runs them, too.

mod chart;
mod compare;
mod delay_allowed;
mod ldp_ids;
mod listing;
mod mtsp_ldp;
mod page;
mod personalized;
mod results;
mod sequence_privacy;
mod session;
pub mod verdict;

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

pub use chart::{bars, curves, lines, named};
pub use listing::{as_json, as_text, chosen, explain, list_as_json, list_as_text};
pub use page::report;
pub use results::{At, Measurement, Results};
pub use session::{
    Cut, DEFAULT_SEED, MeanCurve, PreparedStream, Progress, QUICK_LENGTH, QUICK_REPEATS, ReproduceOptions, Session,
    settings, trials,
};

use tidegate::names::UnknownName;
use tidegate::query::QueryError;
use tidegate_lab::datasets::{self, DatasetError};
use tidegate_lab::experiment::TrialError;
use tidegate_lab::generate::GenerateError;
use tidegate_lab::plot::{Chart, Panel, PlotError};
use tidegate_lab::stream::DataStreamError;
use verdict::Judgement;

/// All papers, in the order of reports.
pub static PAPERS: &[&Paper] =
    &[&ldp_ids::PAPER, &mtsp_ldp::PAPER, &personalized::PAPER, &delay_allowed::PAPER, &sequence_privacy::PAPER];

/// A paper whose evaluation is reproduced.
#[derive(Debug)]
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// The paper's title.
    pub title: &'static str,
    /// Authors, journal and year.
    pub reference: &'static str,
    /// Differences between the printed mechanisms and those measured here.
    pub differences: &'static [&'static str],
    /// The figures and tables that are reproduced.
    pub experiments: &'static [Experiment],
    /// The figures and tables that are not.
    pub omitted: &'static [Omitted],
}

/// A figure or table, or a part of one, that is not reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Omitted {
    /// The figure or table.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// The name on the command line: the paper and the number of the figure or table, such as `ldp-ids-fig4`.
    pub name: &'static str,
    /// Its number in the paper, such as "Figure 4".
    pub place: &'static str,
    /// Its subject, in a few words.
    pub title: &'static str,
    /// A description of the chart.
    pub caption: &'static str,
    /// The data sets.
    pub data: &'static [PaperData],
    /// Repeats of each trial.
    pub repeats: NonZeroU64,
    /// Approximate duration on two cores.
    pub seconds: u32,
    /// Runs the trials.
    pub measure: fn(&Session<'_>) -> Result<Results, ReproduceError>,
    /// Draws the chart.
    pub panels: fn(&Results) -> Vec<Panel>,
    /// Numbers that the paper printed.
    pub published: &'static [PublishedNumber],
    /// The paper's claims, and questions asked here.
    pub claims: &'static [Claim],
    /// Other remarks.
    pub notes: &'static [&'static str],
}

/// A data set of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct PaperData {
    /// Its name in the laboratory.
    pub set: &'static str,
    /// The paper's data set.
    pub paper: &'static str,
    /// How the two differ; `None` if it is the paper's own, or generated as in the paper.
    pub difference: Option<&'static str>,
}

/// A number that the paper printed.
#[derive(Clone, Copy, Debug)]
pub struct PublishedNumber {
    /// The panel of the results.
    pub panel: &'static str,
    /// The series.
    pub series: &'static str,
    /// The place on the horizontal axis.
    pub at: Place,
    /// The metric.
    pub metric: &'static str,
    /// The number.
    pub value: f64,
}

/// A place on the horizontal axis, as a constant.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A number.
    Number(f64),
    /// A name.
    Name(&'static str),
}

impl From<Place> for At {
    fn from(place: Place) -> Self {
        match place {
            Place::Number(number) => Self::Number(number),
            Place::Name(name) => Self::Name(name.to_owned()),
        }
    }
}

/// The place of a question that no paper answers.
pub const ASKED_HERE: &str = "asked here";

/// A claim of the paper about a figure or table, or a question asked here.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The claim in our words.
    pub text: &'static str,
    /// The place in the paper, or [`ASKED_HERE`].
    pub place: &'static str,
    /// Judges the claim by the results.
    pub check: fn(&Results) -> Judgement,
}

impl Claim {
    /// Whether the paper makes the claim.
    pub fn is_the_papers(&self) -> bool {
        self.place != ASKED_HERE
    }
}

/// Converts a number of repeats, for declarations.
///
/// # Panics
///
/// At compile time, if it is zero.
#[allow(clippy::panic)]
pub const fn repeats(count: u64) -> NonZeroU64 {
    match NonZeroU64::new(count) {
        Some(count) => count,
        None => panic!("an experiment is run at least once"),
    }
}

/// The outcome of an experiment.
#[derive(Debug)]
pub struct Outcome {
    /// The paper.
    pub paper: &'static Paper,
    /// The experiment.
    pub experiment: &'static Experiment,
    /// The measured numbers; empty if no data set is available.
    pub table: Results,
    /// The chart; `None` if there is nothing to draw.
    pub svg: Option<String>,
    /// The verdict on each claim; empty if nothing was measured.
    pub judgements: Vec<Judgement>,
    /// Repeats of each trial.
    pub repeats: NonZeroU64,
    /// The missing data sets.
    pub missing: Vec<String>,
    /// Duration, without trials that another experiment had run.
    pub time: Duration,
}

/// An experiment that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ReproduceError {
    /// Unknown experiment or mechanism.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A data set cannot be read.
    #[error(transparent)]
    Data(#[from] DatasetError),
    /// A data set cannot be cut as the experiment needs it.
    #[error(transparent)]
    Stream(#[from] DataStreamError),
    /// A stream cannot be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A mechanism failed.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A query cannot be asked of a stream.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The picture cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The experiment needs a stream of counts.
    #[error("{name} is not a stream of counts")]
    NotCounts { name: String },
    /// Whatever else an experiment runs into.
    #[error("{0}")]
    Other(String),
}

/// Returns all experiments with their papers, in the order of reports.
pub fn all() -> impl Iterator<Item = (&'static Paper, &'static Experiment)> {
    PAPERS.iter().flat_map(|paper| paper.experiments.iter().map(move |experiment| (*paper, experiment)))
}

/// Returns the experiment of a name, or all experiments of a paper.
pub fn by_name(name: &str) -> Result<Vec<(&'static Paper, &'static Experiment)>, UnknownName> {
    let found: Vec<_> = all().filter(|(paper, experiment)| paper.name == name || experiment.name == name).collect();
    if found.is_empty() {
        let valid = PAPERS
            .iter()
            .flat_map(|paper| std::iter::once(paper.name).chain(paper.experiments.iter().map(|one| one.name)));
        return Err(UnknownName::new("experiment", name, valid));
    }
    Ok(found)
}

impl Experiment {
    /// Whether it needs real data sets.
    pub fn needs_data(&self) -> bool {
        self.data.iter().any(|data| datasets::by_name(data.set).is_some_and(datasets::Dataset::is_real))
    }

    /// Runs the experiment and judges its claims.
    pub fn run(&'static self, paper: &'static Paper, session: &Session<'_>) -> Result<Outcome, ReproduceError> {
        let start = Instant::now();
        session.begin(self.repeats);
        let table = (self.measure)(session)?;
        let panels = (self.panels)(&table);
        let svg = if panels.is_empty() {
            None
        } else {
            Some(Chart::new(format!("{}: {}", self.place, self.title), panels).to_svg()?)
        };
        let claims = if table.entries().is_empty() { &[] } else { self.claims };
        let judgements = claims.iter().map(|claim| (claim.check)(&table)).collect();
        Ok(Outcome {
            paper,
            experiment: self,
            table,
            svg,
            judgements,
            repeats: session.repeats(),
            missing: session.missing(),
            time: start.elapsed(),
        })
    }
}

impl Outcome {
    /// Whether anything was measured.
    pub fn is_measured(&self) -> bool {
        !self.table.entries().is_empty()
    }

    /// Returns the names and contents of its files: the numbers, if any were measured, and the chart.
    pub fn files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let numbers = self.is_measured().then(|| (format!("{}.csv", self.experiment.name), self.table.to_csv()));
        let chart = self.svg.as_ref().map(|svg| (format!("{}.svg", self.experiment.name), svg.clone()));
        numbers.into_iter().chain(chart)
    }

    /// Returns the claims with their verdicts; none if nothing was measured.
    pub fn judged(&self) -> impl Iterator<Item = (&'static Claim, &Judgement)> {
        self.experiment.claims.iter().zip(&self.judgements)
    }
}
