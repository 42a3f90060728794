//! A spec in TOML, with a comment for each key.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tidegate::mechanisms::Family;

use super::candidate::SpecSubject;
use super::{Advice, Data, Prediction, Question};
use crate::experiment::Subject as _;

/// Keys in the order of a spec; others follow.
const ORDER: [&str; 9] =
    ["epsilon", "window", "budget", "domain", "population", "delay", "protects", "neighbours", "length"];

/// Keys that are tables of their own, at the end.
const TABLES: [&str; 5] = ["columns", "model", "classes", "queries", "monitors"];

/// Keys with the value that they have by default: not worth a line.
const DEFAULTS: [(&str, &str); 4] =
    [("outside", "\"clamp\""), ("within_domain", "false"), ("smoother", "\"mean\""), ("effort", "\"fast\"")];

/// Longest line, as far as a list can be wrapped.
const WIDTH: usize = 100;

/// Returns the spec of a candidate, with what was predicted of it.
pub(super) fn spec_text(candidate: &SpecSubject, best: &Prediction, advice: &Advice, question: &Question) -> String {
    let request = question.request();
    let name = candidate.name();
    let mut text = format!("# {}\n#\n", capitalised(&candidate.summary()));
    comment(
        &mut text,
        &format!(
            "Recommended by tidegate advise: an error ({}) of {:.3e} is expected, between {:.3e} and {:.3e} on the \
             streams that it was tried on.",
            request.metric, best.error, best.low, best.high
        ),
    );
    let others = advice.ranking.iter().filter(|other| other.place != best.place).take(3);
    let others: Vec<_> = others.map(|other| format!("{} {:.3e}", other.mechanism, other.error)).collect();
    if !others.is_empty() {
        comment(&mut text, &format!("Next to it: {}.", others.join(", ")));
    }
    if let Data::Counts { population, .. } = request.data
        && candidate.listed.family == Family::Central
    {
        comment(&mut text, &format!("Assumed number of users: {population}."));
    }
    text += "#\n# docs/spec.md lists all keys.\n\n";
    let keys = &candidate.keys;
    let _ = writeln!(text, "family = {}", quoted(candidate.listed.family.name()));
    // A spec that was given has the keys of its variant; any other has the name of the variant instead.
    let written = if candidate.own { candidate.spec.mechanism().name() } else { name };
    let _ = writeln!(text, "mechanism = {}", quoted(written));
    let ordered = ORDER.iter().copied();
    let rest = keys.keys().map(String::as_str).filter(|key| !ORDER.contains(key) && !TABLES.contains(key));
    for key in ordered.chain(rest).filter(|key| !matches!(*key, "family" | "mechanism")) {
        let Some(value) = keys.get(key) else { continue };
        let value = of_key(key, value);
        if DEFAULTS.contains(&(key, value.as_str())) {
            continue;
        }
        text.push('\n');
        if let Some(about) = about(key, candidate.listed.family) {
            comment(&mut text, about);
        }
        let _ = writeln!(text, "{key} = {value}");
    }
    for key in TABLES {
        match keys.get(key) {
            Some(Value::Object(entries)) => table(&mut text, key, &format!("[{key}]"), entries, candidate),
            Some(Value::Array(entries)) => {
                for entries in entries.iter().filter_map(Value::as_object) {
                    table(&mut text, key, &format!("[[{key}]]"), entries, candidate);
                }
            }
            _ => {}
        }
    }
    text
}

fn table(text: &mut String, key: &str, heading: &str, entries: &Map<String, Value>, candidate: &SpecSubject) {
    text.push('\n');
    // An array of tables has one comment.
    if !text.contains(&format!("\n{heading}\n"))
        && let Some(about) = about(key, candidate.listed.family)
    {
        comment(text, about);
    }
    let _ = writeln!(text, "{heading}");
    for (key, value) in in_order(entries) {
        let _ = writeln!(text, "{key} = {}", of_key(key, value));
    }
}

/// Returns what a key means.
fn about(key: &str, family: Family) -> Option<&'static str> {
    let of_window = matches!(family, Family::Local | Family::Central);
    Some(match (key, family) {
        ("epsilon", _) if of_window => {
            "The largest privacy loss of any user in any window of consecutive timestamps: the probability of any \
             output changes by at most a factor of e^epsilon."
        }
        ("epsilon", Family::Scalar) => "The largest privacy loss of each timestamp.",
        ("epsilon", _) => "The cost of each step: a symbol, or for batched a whole batch.",
        ("window", _) if of_window => "How many timestamps share epsilon.",
        ("window", _) => "How many steps share the budget.",
        ("budget", _) => "The budget of the steps of any window.",
        ("domain", Family::Scalar) => {
            "The possible readings, which are rounded to the resolution. The domain is public: never take it from the \
             data."
        }
        ("domain", _) => {
            "The values, by name; or their number, and they are called 0, 1, 2, and so on. The domain is public: never \
             take it from the data."
        }
        ("population", _) => "About how many users there are.",
        ("delay", _) => "How many timestamps a release may be delayed.",
        ("protects", _) => {
            "The protected unit: \"reading\", the number whatever it is; or { contributor = N }, one contributor to \
             it, who changes it by at most N."
        }
        ("neighbours", _) => {
            "\"add_remove\": presence is protected. \"replace\": the value is, and the number of users is public."
        }
        ("length", _) => "How many symbols a batch has.",
        ("part", _) => "How many symbols of a batch are answered together.",
        ("support", _) => "How many likely sequences are told apart; of any other, the middle symbol is answered.",
        ("guarantee", _) => {
            "\"sequence\": sequence information privacy if the model is right. \"local\": local privacy whatever the \
             model."
        }
        ("distance", _) => "The error to minimise.",
        ("periods", _) => "Seasonal periods to look for, in timestamps.",
        ("every", _) => "The length of a timestamp.",
        ("origin", _) => "The beginning of timestamp 0.",
        ("columns", _) => "Columns of the table.",
        ("duplicates", _) => "Which line of a user at a timestamp counts: \"first\", \"last\", or \"refuse\".",
        ("empty", _) => "Lines of users without a value: \"refuse\", or \"skip\".",
        ("timeline", _) => "The released timestamps, whoever is present.",
        ("classes", _) => {
            "The classes of users, each with the largest privacy loss of a member in any window. A table of users \
             (--users) has the class of each."
        }
        ("model", _) => "The public model. It must not be learned from the protected data.",
        _ => return None,
    })
}

/// Appends a comment, wrapped.
fn comment(text: &mut String, about: &str) {
    let mut line = "#".to_owned();
    for word in about.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(text, "{line}");
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn quoted(text: &str) -> String {
    // A JSON string is a basic string of TOML.
    Value::from(text).to_string()
}

/// Returns a value in TOML, in one line unless a list is long.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(entries) => {
            let entries: Vec<_> = entries.iter().map(inline).collect();
            let line = format!("[{}]", entries.join(", "));
            if line.len() <= WIDTH { line } else { wrapped(&entries) }
        }
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{key} = {}", of_key(key, value));
            let entries: Vec<_> = in_order(entries).into_iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15);
            float.map_or_else(|| number.to_string(), |whole| format!("{whole}"))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns the value of a key in TOML. Budgets are texts in JSON, and numbers here.
fn of_key(key: &str, value: &Value) -> String {
    match value.as_str() {
        Some(budget) if matches!(key, "epsilon" | "budget" | "grouping") => budget.to_owned(),
        _ => inline(value),
    }
}

/// Keys of a table in the order in which people write them.
fn in_order(entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
    const FIRST: [&str; 6] = ["name", "epsilon", "window", "low", "high", "prior"];
    let place = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| place(key));
    entries
}

/// Returns a list over several lines.
fn wrapped(entries: &[String]) -> String {
    let mut text = "[\n   ".to_owned();
    let mut width = 3;
    for entry in entries {
        if width + entry.len() + 2 > WIDTH && width > 3 {
            text += "\n   ";
            width = 3;
        }
        let _ = write!(text, " {entry},");
        width += entry.len() + 2;
    }
    text + "\n]"
}
