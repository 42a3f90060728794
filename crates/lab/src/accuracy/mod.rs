//! The benchmark of `track`: how its error compares with that of its baseline, over a grid of streams and settings.
//!
//! ```text
//! grid ──▶ measure ──▶ Measured (a cell) ──▶ summary ──▶ markdown
//! incidents: jumps that must be told in time    others: the best other mechanism
//! ```
//!
//! | part | `track` | against | over |
//! | --- | --- | --- | --- |
//! | [`Part::Central`] | `central.track` | `uniform` | streams, users, epsilon, window |
//! | [`Part::Local`] | `local.track` | `lpu` | streams, users, epsilon, window |
//! | [`Part::Scalar`] | `scalar.track` | `clamped` | streams, domains, what is protected, epsilon, delay |
//! | [`Part::Incidents`] | both on counts | | jumps of 5 and 20 noise scales, and monitors |
//! | [`Part::Others`] | both on counts | the best other mechanism | the six streams of the pages on `track` |
//!
//! Cells are [experiments](crate::experiment), so `tidegate evaluate` with the same stream, seed and repeats shows the
//! same numbers. A variant of `track` with a part switched off is one more [`Subject`](crate::experiment::Subject):
//! [`Options::subject`] measures it in place of `track`.

mod grid;
mod incidents;
mod markdown;
mod measure;
mod others;
mod summary;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use serde::Serialize;
use tidegate::names::UnknownName;
use tidegate::query::QueryError;
use tidegate_kernel::EpsilonError;

use crate::datasets::DatasetError;
use crate::experiment::{RunError, TrialError};
use crate::generate::GenerateError;
use crate::stream::DataStreamError;

pub use grid::{Cell, Grid};
pub use incidents::{Fired, Incidents, Told};
pub use markdown::to_markdown;
pub use measure::Measured;
pub use others::{Against, Others};
pub use summary::{Coverage, Ratios, Summary};

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `central.track` against `uniform`.
    Central,
    /// `local.track` against `lpu`.
    Local,
    /// `scalar.track` against `clamped`.
    Scalar,
    /// Jumps and monitors.
    Incidents,
    /// Both on counts against the best other mechanism.
    Others,
}

impl Part {
    /// All parts, in the order in which they run.
    pub const ALL: [Self; 5] = [Self::Central, Self::Local, Self::Scalar, Self::Incidents, Self::Others];

    /// Returns the name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::Local => "local",
            Self::Scalar => "scalar",
            Self::Incidents => "incidents",
            Self::Others => "others",
        }
    }
}

/// Options of [`run`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Parts to run.
    pub parts: Vec<Part>,
    /// Directory with the real data sets; without it, cells that need them are left out.
    pub data_dir: Option<PathBuf>,
    /// Runs of each cell.
    pub repeats: NonZeroU64,
    /// The seed of the streams and of the runs.
    pub seed: u64,
    /// Timestamps of each stream.
    pub length: usize,
    /// Number of threads; results do not depend on it.
    pub threads: NonZeroUsize,
    /// Only the outermost sizes and the middle epsilon.
    pub quick: bool,
    /// Mechanism to measure in the grids in place of `track`; it must take the streams of the chosen parts.
    pub subject: Option<String>,
}

impl Options {
    /// Runs of each cell unless told, and of the quick form.
    pub const REPEATS: [u64; 2] = [20, 3];
    /// Timestamps of each stream unless told: ten days of 24.
    pub const LENGTH: usize = 240;
}

/// Measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The grids that were run.
    pub grids: Vec<Grid>,
    /// Jumps and monitors, if they were run.
    pub incidents: Option<Incidents>,
    /// Comparisons with other mechanisms, if they were run.
    pub others: Vec<Others>,
    /// Data sets that were left out, because they are not in the data directory.
    pub left_out: Vec<&'static str>,
}

/// A benchmark that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum AccuracyError {
    #[error(transparent)]
    Name(#[from] UnknownName),
    #[error(transparent)]
    Data(#[from] DatasetError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Stream(#[from] DataStreamError),
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Epsilon(#[from] EpsilonError),
    #[error("the reference table has the wrong form in line {line}")]
    Reference { line: usize },
}

/// Runs the chosen parts; tells `progress` in a line what was finished.
pub fn run(options: &Options, progress: &dyn Fn(&str)) -> Result<Results, AccuracyError> {
    let mut results = Results { grids: Vec::new(), incidents: None, others: Vec::new(), left_out: Vec::new() };
    for part in Part::ALL.into_iter().filter(|part| options.parts.contains(part)) {
        match part {
            Part::Central | Part::Local | Part::Scalar => {
                let grid = measure::measure(part, options, &mut results.left_out, progress)?;
                results.grids.push(grid);
            }
            Part::Incidents => results.incidents = Some(incidents::run(options, progress)?),
            Part::Others => {
                for family in [Part::Central, Part::Local] {
                    let compared = others::run(family, options, &mut results.left_out, progress)?;
                    results.others.push(compared);
                }
            }
        }
    }
    results.left_out.sort_unstable();
    results.left_out.dedup();
    Ok(results)
}
