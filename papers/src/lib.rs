//! The figures and tables of the papers, measured again, with a verdict on each claim.
//!
//! ```text
//! PAPERS ──▶ Experiment ──▶ Session (runs the sweep) ──▶ Results ──▶ panels, published numbers, claims ──▶ CSV, SVG, Report
//! ```
//!
//! An [`Experiment`] is a declaration: what to run, what to draw, what the paper printed, what it claims. Verdicts are
//! computed from the measured [`Results`] alone. To add a paper, write a file that declares it and list it in [`PAPERS`].

mod chart;
mod compare;
mod delay_allowed;
mod ldp_ids;
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
pub use page::report;
pub use results::{At, Measurement, Results};
pub use session::{
    Cut, DEFAULT_SEED, MeanCurve, PreparedStream, Progress, QUICK_LENGTH, QUICK_REPEATS, ReproduceOptions, Session,
    settings, trials,
};

use tidegate::query::QueryError;

use tidegate::names::UnknownName;
use tidegate_lab::datasets::{self, DatasetError};
use tidegate_lab::experiment::TrialError;
use tidegate_lab::generate::GenerateError;
use tidegate_lab::plot::{Chart, Panel, PlotError};
use tidegate_lab::stream::StreamError;
use verdict::Judgement;

/// All papers, in the order in which they are reported.
pub static PAPERS: &[&Paper] =
    &[&ldp_ids::PAPER, &mtsp_ldp::PAPER, &personalized::PAPER, &delay_allowed::PAPER, &sequence_privacy::PAPER];

/// A paper whose evaluation is reproduced.
#[derive(Debug)]
pub struct Paper {
    /// The name that users write.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Who published it where.
    pub reference: &'static str,
    /// What to know before comparing: where what is built differs from what is printed.
    pub differences: &'static [&'static str],
    /// What is reproduced.
    pub experiments: &'static [Experiment],
    /// What is not, and why.
    pub omitted: &'static [Omitted],
}

/// A figure or table, or a part of one, that is not reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Omitted {
    /// Which.
    pub what: &'static str,
    /// Why.
    pub why: &'static str,
}

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// The name that users write: the paper's, and the number of the figure or table, such as `ldp-ids-fig4`.
    pub name: &'static str,
    /// Where it is in the paper: "Figure 4".
    pub place: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// What is shown, in our words.
    pub caption: &'static str,
    /// The data sets, and what they stand for.
    pub data: &'static [PaperData],
    /// How often each trial is run.
    pub repeats: NonZeroU64,
    /// About how long all of it takes on two cores.
    pub seconds: u32,
    /// Runs it.
    pub measure: fn(&Session<'_>) -> Result<Results, ReproduceError>,
    /// What to draw.
    pub panels: fn(&Results) -> Vec<Panel>,
    /// What the paper printed as numbers.
    pub published: &'static [PublishedNumber],
    /// What the paper claims about it.
    pub claims: &'static [Claim],
    /// What else to know.
    pub notes: &'static [&'static str],
}

/// A data set of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct PaperData {
    /// Its name here.
    pub set: &'static str,
    /// What the paper used.
    pub paper: &'static str,
    /// How the one differs from the other; `None` where it is the paper's own, or made by the paper's own recipe.
    pub difference: Option<&'static str>,
}

/// A number that the paper printed.
#[derive(Clone, Copy, Debug)]
pub struct PublishedNumber {
    /// The panel of the measured table.
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

/// The place of what no paper claims, but a reader would want to know.
pub const ASKED_HERE: &str = "asked here";

/// Something that the paper says of a figure or table, or that is asked beside.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The claim in our words.
    pub text: &'static str,
    /// Where the paper makes it; [`ASKED_HERE`] where it does not.
    pub place: &'static str,
    /// Whether it holds, by what was measured.
    pub check: fn(&Results) -> Judgement,
}

impl Claim {
    /// Whether the paper claims it.
    pub fn is_the_papers(&self) -> bool {
        self.place != ASKED_HERE
    }
}

/// So many repeats; a constant for declarations.
///
/// # Panics
///
/// At compile time, where it is zero.
#[allow(clippy::panic)]
pub const fn repeats(count: u64) -> NonZeroU64 {
    match NonZeroU64::new(count) {
        Some(count) => count,
        None => panic!("an experiment is run at least once"),
    }
}

/// What came of an experiment.
#[derive(Debug)]
pub struct Outcome {
    /// The paper.
    pub paper: &'static Paper,
    /// The experiment.
    pub experiment: &'static Experiment,
    /// What was measured; empty where none of its data sets is there.
    pub table: Results,
    /// The picture; `None` where nothing was measured, or nothing is to be drawn.
    pub svg: Option<String>,
    /// The verdict on each claim; empty where nothing was measured.
    pub judgements: Vec<Judgement>,
    /// How often each trial was run.
    pub repeats: NonZeroU64,
    /// The data sets that were not there.
    pub missing: Vec<String>,
    /// How long it took; what another experiment had run before took no time.
    pub time: Duration,
}

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// There is no such experiment, or no such mechanism.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A data set cannot be read.
    #[error(transparent)]
    Data(#[from] DatasetError),
    /// A data set cannot be cut as the experiment needs it.
    #[error(transparent)]
    Stream(#[from] StreamError),
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
    NotCounts {
        /// The stream.
        name: String,
    },
    /// Whatever else an experiment runs into.
    #[error("{0}")]
    Other(String),
}

/// All experiments with their papers, in the order in which they are reported.
pub fn all() -> impl Iterator<Item = (&'static Paper, &'static Experiment)> {
    PAPERS.iter().flat_map(|paper| paper.experiments.iter().map(move |experiment| (*paper, experiment)))
}

/// The experiment of a name, or all of a paper.
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
    /// Whether it needs data sets that are not generated.
    pub fn needs_data(&self) -> bool {
        self.data.iter().any(|data| datasets::by_name(data.set).is_some_and(datasets::Dataset::is_real))
    }

    /// Runs it and judges its claims.
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
    /// Whether there is anything to show: without its data sets, there is not.
    pub fn is_measured(&self) -> bool {
        !self.table.entries().is_empty()
    }

    /// The claims with the verdicts on them; none where nothing was measured.
    pub fn judged(&self) -> impl Iterator<Item = (&'static Claim, &Judgement)> {
        self.experiment.claims.iter().zip(&self.judgements)
    }
}
