//! `tidegate data`: what there is to evaluate.

use clap::Args;
use serde_json::json;
use tidegate_lab::experiment::Subject;
use tidegate_lab::{datasets, subjects};

use crate::failure::{Failure, print};
use crate::table::layout;

/// List the data sets and the mechanisms that `tidegate evaluate` knows.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate data --json")]
pub(crate) struct Data {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Data {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        print(&if self.json { as_json() } else { as_text() })
    }
}

fn as_json() -> String {
    let datasets: Vec<_> = datasets::ALL
        .iter()
        .map(|set| json!({ "name": set.name, "alias": set.alias, "real": set.is_real(), "summary": set.summary }))
        .collect();
    let mechanisms: Vec<_> =
        subjects::ALL.iter().map(|subject| json!({ "name": subject.name(), "summary": subject.summary() })).collect();
    format!("{:#}\n", json!({ "datasets": datasets, "mechanisms": mechanisms }))
}

fn as_text() -> String {
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(["DATA SET", ""])];
    rows.extend(datasets::ALL.iter().map(|set| {
        let name = set.alias.map_or_else(|| set.name.to_owned(), |alias| format!("{}, {alias}", set.name));
        let place = if set.is_real() { " (in the data directory)" } else { "" };
        vec![name, format!("{}{place}", set.summary)]
    }));
    rows.extend([row(["<path>.csv, -", "a table t,<value>,<value>,.. with a count for each value"])]);
    rows.extend([row(["", ""]), row(["MECHANISM", ""])]);
    let describe = |subject: &&dyn Subject| vec![subject.name().to_owned(), subject.summary().to_owned()];
    rows.extend(subjects::ALL.iter().map(describe));
    layout(&rows)
}
