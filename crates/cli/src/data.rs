//! `tidegate data`: what there is to evaluate.

use clap::Args;
use serde_json::json;
use tidegate_lab::experiment::Subject;
use tidegate_lab::stream::StreamKind;
use tidegate_lab::{datasets, subjects};

use crate::failure::Failure;
use crate::output::Output;
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
        let mut output = Output::create("-")?;
        output.write(&if self.json { as_json() } else { as_text() })?;
        output.finish()
    }
}

fn kinds(subject: &dyn Subject) -> Vec<&'static str> {
    StreamKind::ALL.into_iter().filter(|kind| subject.takes(*kind)).map(StreamKind::name).collect()
}

fn as_json() -> String {
    let datasets = datasets::ALL.iter().map(|set| {
        let kind = set.kind().name();
        json!({ "name": set.name, "alias": set.alias, "kind": kind, "real": set.is_real(), "summary": set.summary,
                "note": set.note })
    });
    let mechanisms = subjects::all()
        .map(|subject| json!({ "name": subject.name(), "takes": kinds(subject), "summary": subject.summary() }));
    let (datasets, mechanisms): (Vec<_>, Vec<_>) = (datasets.collect(), mechanisms.collect());
    format!("{:#}\n", json!({ "datasets": datasets, "mechanisms": mechanisms }))
}

fn as_text() -> String {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(["DATA SET", "OF", ""])];
    for set in datasets::ALL {
        let name = set.alias.map_or_else(|| set.name.to_owned(), |alias| format!("{}, {alias}", set.name));
        let place = if set.is_real() { " (in the data directory)" } else { "" };
        rows.push(vec![name, set.kind().to_string(), format!("{}{place}", set.summary)]);
        rows.extend(set.note.map(|note| row(["", "", note])));
    }
    rows.push(row(["<path>.csv, -", "counts", "a table t,<value>,<value>,.. with a count for each value"]));
    rows.push(row(["<path>.csv, -", "numbers", "a table t,value, with --domain"]));
    rows.extend([row(["", "", ""]), row(["MECHANISM", "FOR", ""])]);
    rows.extend(
        subjects::all()
            .map(|subject| vec![subject.name().to_owned(), kinds(subject).join(", "), subject.summary().to_owned()]),
    );
    layout(&rows)
}
