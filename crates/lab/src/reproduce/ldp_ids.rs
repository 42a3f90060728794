//! LDP-IDS: local differential privacy for infinite data streams.

use std::num::NonZeroU64;

use tidegate_kernel::Epsilon;

use super::verdict::{Demand, Judgement, all_below, falls};
use super::{Claim, Cut, Data, Experiment, Paper, ReproduceError, Session, Table, lines, named, repeats};
use crate::experiment::Settings;
use crate::metrics::Metric;
use crate::plot::{Axis, Panel};

pub(super) static PAPER: Paper = Paper {
    name: "ldp-ids",
    title: "LDP-IDS: local differential privacy for infinite data streams",
    reference: "Ren, Shi, Yu, Yang, Zhao and Xu, SIGMOD 2022",
    differences: &[],
    experiments: &[FIGURE_4],
    omitted: &[],
};

const BUDGET: &[&str] = &["lbu", "lbd", "lba"];
const POPULATION: &[&str] = &["lsp", "lpu", "lpd", "lpa"];
/// As the paper's legends list them, with the baseline at the end.
const ALL: &[&str] = &["lbu", "lbd", "lba", "lsp", "lpu", "lpd", "lpa", "constant"];
const MECHANISMS: &[&str] = &["lbu", "lbd", "lba", "lsp", "lpu", "lpd", "lpa"];

const SYNTHETIC: [Data; 3] = [
    Data { set: "lns", paper: "LNS, 800 timestamps, 200,000 users", difference: None },
    Data { set: "sin", paper: "Sin, 800 timestamps, 200,000 users", difference: None },
    Data { set: "log", paper: "Log, 800 timestamps, 200,000 users", difference: None },
];

fn settings(epsilon: f64, window: u64) -> Result<Settings, ReproduceError> {
    let epsilon: Epsilon = epsilon.to_string().parse().map_err(|error| ReproduceError::Other(format!("{error}")))?;
    Ok(Settings::new(epsilon, NonZeroU64::new(window).unwrap_or(NonZeroU64::MIN)))
}

const FIGURE_4: Experiment = Experiment {
    name: "ldp-ids-fig4",
    place: "Figure 4",
    title: "error by privacy budget",
    caption: "Mean relative error of the released histograms over the budget ε of a window of 20 timestamps.",
    data: &SYNTHETIC,
    repeats: repeats(5),
    seconds: 10,
    measure: figure_4,
    panels: |table| {
        let panels = lines(table, "mre", &Axis::linear("ε"), &Axis::log("mean relative error"), |_| true);
        named(panels, |panel| panel.to_owned())
    },
    published: &[],
    claims: &[Claim {
        text: "The error of all methods decreases with ε",
        place: "section 7.2",
        check: |table| falls(table, "mre", MECHANISMS, |_| true).judge(Demand::Everywhere),
    }],
    notes: &[],
};

fn figure_4(session: &Session<'_>) -> Result<Table, ReproduceError> {
    let mut table = Table::new();
    for data in &SYNTHETIC {
        let Some(stream) = session.dataset(data.set, Cut::default())? else { continue };
        let budgets = [0.5, 1.0, 1.5, 2.0, 2.5];
        let settings: Result<Vec<_>, _> = budgets.into_iter().map(|epsilon| settings(epsilon, 20)).collect();
        for finding in session.sweep(&stream, ALL, &settings?)? {
            let at = finding.settings.epsilon.as_f64();
            for (metric, summary) in finding.metrics.iter().filter(|(metric, _)| *metric == Metric::Mre) {
                table.push(data.set, finding.mechanism, at, metric.name(), *summary);
            }
        }
    }
    Ok(table)
}

#[allow(dead_code)]
fn population_better(table: &Table) -> Judgement {
    all_below(table, "mre", POPULATION, BUDGET).judge(Demand::Mostly)
}
#[allow(dead_code)]
fn unused(_: Vec<Panel>) {}
