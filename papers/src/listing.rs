//! Experiments and their outcomes, as text and as JSON.

use serde_json::{Value, json};
use tidegate_lab::datasets::DatasetError;
use tidegate_release::Error;
use tidegate_table::layout::layout;

use crate::{ASKED_HERE, Experiment, Outcome, PAPERS, Paper, ReproduceError, ReproduceOptions, all, by_name};

/// Returns the experiments of these names, each once, in the order of the papers. A paper's name stands for all of its
/// experiments.
///
/// # Errors
/// [`Error::Spec`] for a name that there is not.
pub fn chosen(names: &[String]) -> Result<Vec<(&'static Paper, &'static Experiment)>, Error> {
    let mut found = Vec::new();
    for name in names {
        let experiments = by_name(name).map_err(|error| Error::Spec(error.to_string()))?;
        found.extend(experiments.into_iter().map(|(_, experiment)| experiment.name));
    }
    Ok(all().filter(|(_, experiment)| found.contains(&experiment.name)).collect())
}

/// An error of an experiment: bad input, unless a mechanism failed.
pub fn explain(experiment: &Experiment, error: ReproduceError) -> Error {
    let name = experiment.name;
    match error {
        ReproduceError::Data(error @ DatasetError::NoDirectory { .. }) => {
            Error::Spec(format!("{name}: {error}; name it with --data-dir or TIDEGATE_DATA"))
        }
        ReproduceError::Data(error) => Error::Spec(format!("{name}: {error}")),
        ReproduceError::Name(_) => Error::Spec(format!("{name}: {error}")),
        error => Error::run(format_args!("{name}: {error}")),
    }
}

/// The experiments as a table of plain text.
pub fn list_as_text() -> String {
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

/// The experiments in JSON.
pub fn list_as_json() -> String {
    let experiment = |paper: &Paper, experiment: &Experiment| {
        let data: Vec<_> = experiment.data.iter().map(|data| data.set).collect();
        json!({ "name": experiment.name, "paper": paper.name, "place": experiment.place, "title": experiment.title,
                "data": data, "needs_data": experiment.needs_data(), "repeats": experiment.repeats,
                "seconds": experiment.seconds, "claims": experiment.claims.len() })
    };
    let listed: Vec<Value> = all().map(|(paper, one)| experiment(paper, one)).collect();
    format!("{:#}\n", Value::from(listed))
}

/// The verdicts as a table of plain text.
pub fn as_text(outcomes: &[Outcome]) -> String {
    let mut rows = vec![["NAME", "VERDICT", "WHOSE", "CLAIM"].map(str::to_owned).to_vec()];
    for outcome in outcomes {
        let name = outcome.experiment.name;
        if !outcome.is_measured() {
            let needs = format!("needs {}", outcome.missing.join(", "));
            rows.push(vec![name.to_owned(), "no data".to_owned(), String::new(), needs]);
        }
        for (claim, judgement) in outcome.judged() {
            let whose = if claim.is_the_papers() { "the paper's" } else { ASKED_HERE };
            let cells = [name, judgement.verdict.words(), whose, claim.text];
            rows.push(cells.map(str::to_owned).to_vec());
        }
    }
    layout(&rows)
}

/// The verdicts in JSON.
pub fn as_json(outcomes: &[Outcome], options: &ReproduceOptions) -> String {
    let entry = |outcome: &Outcome| {
        let claims = outcome.experiment.claims.iter().zip(&outcome.judgements);
        let claims: Vec<_> = claims
            .map(|(claim, judgement)| {
                json!({ "claim": claim.text, "place": claim.place, "of_the_paper": claim.is_the_papers(),
                        "verdict": judgement.verdict.name(), "because": judgement.because })
            })
            .collect();
        json!({ "name": outcome.experiment.name, "paper": outcome.paper.name, "place": outcome.experiment.place,
                "repeats": outcome.repeats, "seed": options.seed, "quick": options.quick, "missing": outcome.missing,
                "seconds": outcome.time.as_secs_f64(), "claims": claims })
    };
    let entries: Vec<Value> = outcomes.iter().map(entry).collect();
    format!("{:#}\n", Value::from(entries))
}
