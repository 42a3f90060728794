//! `tidegate data`: lists data sets and mechanisms.

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

fn uses(subject: &dyn Subject) -> Vec<&'static str> {
    subject.uses().iter().map(|setting| setting.name()).collect()
}

fn as_json() -> String {
    let datasets = datasets::ALL.iter().map(|set| {
        let kind = set.kind().name();
        json!({ "name": set.name, "aliases": set.aliases, "kind": kind, "real": set.is_real(),
                "summary": set.summary, "shape": set.shape, "stands_in_for": set.stands_in_for, "note": set.note })
    });
    let mechanisms = subjects::all().map(|subject| {
        json!({ "name": subject.name(), "takes": kinds(subject), "uses": uses(subject),
                    "summary": subject.summary() })
    });
    let (datasets, mechanisms): (Vec<_>, Vec<_>) = (datasets.collect(), mechanisms.collect());
    format!("{:#}\n", json!({ "datasets": datasets, "mechanisms": mechanisms }))
}

fn as_text() -> String {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(["DATA SET", "OF", ""])];
    for set in datasets::ALL {
        let names: Vec<&str> = std::iter::once(set.name).chain(set.aliases.iter().copied()).collect();
        let place = if set.is_real() { " (in the data directory)" } else { "" };
        rows.push(vec![names.join(", "), set.kind().to_string(), format!("{}{place}", set.summary)]);
        rows.push(row(["", "", set.shape]));
        rows.extend(set.stands_in_for.map(|what| vec![String::new(), String::new(), format!("stands in for {what}")]));
        rows.extend(set.note.map(|note| row(["", "", note])));
    }
    let chain = "synthetic: a chain of so many symbols, each of which stays with a probability: markov:10:0.9";
    rows.push(row(["markov:SYMBOLS:STAY", "symbols", chain]));
    let files = "<path>.csv, .ndjson, -";
    rows.push(row([files, "counts", "a table t,<value>,<value>,.. with a count for each value"]));
    rows.push(row([files, "numbers", "a table t,value, with --domain"]));
    rows.push(row(["", "", ""]));
    let mechanisms = |subject: &dyn Subject| {
        let options: Vec<String> = uses(subject).iter().map(|name| format!("--{}", name.replace('_', "-"))).collect();
        let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
        vec![subject.name().to_owned(), kinds(subject).join(", "), format!("{}{options}", subject.summary())]
    };
    rows.push(row(["MECHANISM", "FOR", "(with the options that matter to it, besides --epsilon)"]));
    rows.extend(subjects::all().map(mechanisms));
    layout(&rows)
}
