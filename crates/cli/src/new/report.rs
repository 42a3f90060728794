//! [`Report`]: what is written and printed about a new spec.

use serde_json::json;
use tidegate::mechanisms::Family;
use tidegate_lab::advise::{Chosen, Data};
use tidegate_table::layout::figure;

use crate::failure::{Failure, complain};
use crate::output::Output;
use crate::warnings::{of_prediction, of_spec};

/// A recommended spec, and the commands to use it.
pub(super) struct Report {
    chosen: Chosen,
    /// Expected error, in users or in the unit of the numbers; the share of wrong symbols.
    pub(super) error: f64,
    place: String,
    first: String,
    later: String,
    budget: String,
    warnings: Vec<String>,
    what: &'static str,
}

impl Report {
    pub(super) fn new(chosen: Chosen, data: Data, place: &str, table: Option<&str>, stem: &str) -> Self {
        #[allow(clippy::cast_precision_loss)] // numbers of users
        let (error, level, what, typical) = match data {
            Data::Counts { domain, population } => {
                let users = population.get() as f64;
                let level = users / f64::from(domain);
                (chosen.error.sqrt() * users, Some(level), "users in each count", "the average count")
            }
            Data::Numbers { grid, .. } => {
                let level = (grid.high() - grid.low()) / 2.0;
                (chosen.error.sqrt(), Some(level), "in each number", "half the domain, which no guess exceeds,")
            }
            Data::Symbols { .. } => (chosen.error, None, "of the symbols", ""),
        };
        let mut warnings = of_spec(&chosen.spec);
        let beyond = level.and_then(|level| of_prediction(&chosen.spec, error, level, typical));
        if warnings.is_empty() {
            warnings.extend(beyond);
        }
        let table = table.map_or_else(|| format!("{stem}.csv"), str::to_owned);
        let key = if chosen.mechanism.family == Family::Scalar {
            format!(" --key {}", quoted(&format!("{stem}.key")))
        } else {
            String::new()
        };
        let plot = if chosen.mechanism.family == Family::Sequence {
            String::new()
        } else {
            format!(" --plot {}", quoted(&format!("{stem}.svg")))
        };
        let state = quoted(&format!("{stem}.state"));
        let release = |input: &str, output: &str| {
            let (spec, input, output) = (quoted(place), quoted(input), quoted(output));
            format!("tidegate release --spec {spec} --input {input} --output {output} --state {state}{key}")
        };
        Self {
            first: format!("{} --new-state{plot}", release(&table, &format!("{stem}-released.csv"))),
            later: release("next.csv", "next-released.csv"),
            budget: format!("tidegate budget {state}"),
            error,
            place: place.to_owned(),
            chosen,
            warnings,
            what,
        }
    }

    /// The spec, with the commands to use it.
    pub(super) fn spec_text(&self) -> String {
        let Self { first, later, chosen, .. } = self;
        format!(
            "# Written by tidegate new. The first release, which begins the budget:\n#\n#   {first}\n#\n\
             # Later ones go on with it:\n#\n#   {later}\n#\n{}",
            chosen.text
        )
    }

    /// Prints the result, and warnings to standard error.
    pub(super) fn print(&self, as_json: bool) -> Result<(), Failure> {
        let Self { chosen, error, place, first, later, budget, warnings, what } = self;
        warnings.iter().for_each(|warning| complain("warning", warning));
        let mut output = Output::create("-")?;
        let text = if as_json {
            let commands = json!({ "first": first, "later": later, "budget": budget });
            let report = json!({
                "spec": place, "mechanism": chosen.mechanism.full_name, "expected_error": error, "commands": commands,
                "warnings": warnings,
            });
            format!("{report}\n")
        } else {
            let error = match chosen.mechanism.family {
                Family::Sequence => format!("about {} % {what} wrong", figure(100.0 * error)),
                _ => format!("an expected error of ±{} {what}", figure(*error)),
            };
            format!(
                "{place}: {}, with {error}\n\nThe first release, which begins the budget:\n  {first}\n\nLater ones \
                 go on with it:\n  {later}\n\nWhat is left of the budget:\n  {budget}\n",
                chosen.mechanism.full_name
            )
        };
        output.write(&text)?;
        output.finish()
    }
}

/// A word of a shell's command.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./+:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
