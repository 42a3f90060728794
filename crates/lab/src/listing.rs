//! Data sets and mechanisms, listed as text and as JSON.

use serde_json::json;
use tidegate_table::layout::layout;

use crate::experiment::Subject;
use crate::stream::StreamKind;
use crate::{datasets, subjects};

fn kinds(subject: &dyn Subject) -> Vec<&'static str> {
    StreamKind::ALL.into_iter().filter(|kind| subject.takes(*kind)).map(StreamKind::name).collect()
}

fn uses(subject: &dyn Subject) -> Vec<&'static str> {
    subject.uses().iter().map(|setting| setting.name()).collect()
}

/// Lists them in JSON.
pub fn as_json() -> String {
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

/// Lists them as plain text.
pub fn as_text() -> String {
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
