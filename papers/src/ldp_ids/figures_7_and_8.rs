//! Figures 7 and 8: event monitoring and communication.

use tidegate_lab::generate::Process;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::Axis;

use super::figure_6::{DEVIATIONS, POPULATIONS, lns, process};
use super::{
    BUDGET, BUDGETS, LNS, POPULATION, STREAMS, WINDOWS, by_epsilon, by_window, stream, sweep, title, with_oracle,
};
use crate::verdict::{Demand, Judgement, Tally, all_below, digits, falls, near, short, smaller};
use crate::{At, Claim, Experiment, ReproduceError, Results, Session, curves, lines, named, repeats, settings};

/// Those that the paper's curves show, and the baseline.
const MONITORS: &[&str] = &["lba", "lsp", "lpu", "lpd", "lpa", "constant"];

const WHOLE_CURVE: &str = "whole curve";

pub(super) const FIGURE_7: Experiment = Experiment {
    name: "ldp-ids-fig7",
    place: "Figure 7",
    title: "detecting events",
    caption: "ROC curves at ε = 1 and w = 50: how well timestamps are found at which the mean of the users' values \
              lies in the top quarter of its range. Values are numbered from zero; of two values the mean is the \
              share of ones. Bands are one standard error.",
    data: &STREAMS,
    repeats: repeats(16),
    seconds: 3,
    measure: |session| {
        let mut table = Results::new();
        for data in &STREAMS {
            let Some(stream) = stream(session, data)? else { continue };
            let settings = with_oracle(settings(1.0, 50)?, &stream);
            for (mechanism, curve) in session.roc_curves(&stream, MONITORS, &settings, 50)? {
                curve.into_iter().for_each(|(rate, height)| {
                    table.push(data.set, mechanism, rate, "true_positive_rate", height);
                });
            }
            for finding in session.sweep(&stream, MONITORS, &[settings])? {
                for (_, area) in finding.metrics.iter().filter(|(metric, _)| *metric == Metric::Auc) {
                    table.push(data.set, finding.mechanism, WHOLE_CURVE, "auc", *area);
                }
            }
        }
        Ok(table)
    },
    panels: |table| {
        let axis = |label: &str| Axis { limits: Some((0.0, 1.0)), ..Axis::linear(label) };
        let (x, y) = (axis("false positive rate"), axis("true positive rate"));
        named(curves(table, "true_positive_rate", &x, &y, |_| true), title)
    },
    published: &[],
    claims: &[
        Claim {
            text: "The methods that divide the population generally detect better than LBA.",
            place: "section 7.4",
            check: |table| all_below(table, "auc", &["lba"], POPULATION).judge(Demand::Mostly),
        },
        Claim {
            text: "LPD and LPA generally detect better than LBA, LSP and LPU.",
            place: "section 7.4",
            check: |table| all_below(table, "auc", &["lba", "lsp", "lpu"], &["lpd", "lpa"]).judge(Demand::Mostly),
        },
        Claim {
            text: "LSP generally detects worst, on most data sets.",
            place: "section 7.4",
            check: |table| all_below(table, "auc", &["lsp"], &["lba", "lpu", "lpd", "lpa"]).judge(Demand::Mostly),
        },
    ],
    notes: &["Claims are judged by the area under the curve: 0.5 is guessing, 1 is perfect."],
};

const CFPU_USERS: &str = "by users";
const CFPU_DEVIATION: &str = "by fluctuation";
const CFPU_EPSILON: &str = "by budget";
const CFPU_WINDOW: &str = "by window";

pub(super) const FIGURE_8: Experiment = Experiment {
    name: "ldp-ids-fig8",
    place: "Figure 8",
    title: "communication",
    caption: "Reports per user and timestamp (CFPU) on LNS: by the number of users, by the standard deviation √Q of a \
              step, by ε, and by w. What is not varied is 200,000 users, √Q = 0.0025, ε = 1 and w = 20.",
    data: &[LNS],
    repeats: repeats(16),
    seconds: 8,
    measure: figure_8,
    panels: |table| {
        let axes = [
            (CFPU_USERS, Axis::log("users")),
            (CFPU_DEVIATION, Axis::log("√Q")),
            (CFPU_EPSILON, Axis::linear("ε")),
            (CFPU_WINDOW, Axis::linear("w")),
        ];
        let y = Axis::log("reports per user and timestamp");
        axes.into_iter().flat_map(|(panel, x)| lines(table, "cfpu", &x, &y, move |other| other == panel)).collect()
    },
    published: &[],
    claims: &[
        Claim {
            text: "LBU, LBD and LBA have everyone report at least once at each timestamp, LBU exactly once.",
            place: "section 7.5",
            check: at_least_one_report,
        },
        Claim {
            text: "With LSP and LPU a user reports once in a window: 1/w per timestamp.",
            place: "section 7.5",
            check: one_report_a_window,
        },
        Claim {
            text: "LPD and LPA have users report even less.",
            place: "section 7.5",
            check: |table| all_below(table, "cfpu", &["lpd", "lpa"], &["lpu"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "With larger Q, LPD and LPA have users report more; for LBD and LBA that is not evident.",
            place: "section 7.5",
            check: |table| {
                let ends = ends(table, CFPU_DEVIATION, &["lpd", "lpa"]);
                ends.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "With larger ε, LPD and LPA have users report more.",
            place: "section 7.5",
            check: |table| ends(table, CFPU_EPSILON, &["lpd", "lpa"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "With larger w, users report less: with LSP, LPU, LPD and LPA, and slightly so with LBD and LBA.",
            place: "section 7.5",
            check: |table| {
                let series = &["lsp", "lpu", "lpd", "lpa", "lbd", "lba"];
                falls(table, "cfpu", series, |panel| panel == CFPU_WINDOW).judge(Demand::Everywhere)
            },
        },
    ],
    notes: &[
        "constant asks nobody, so that on a logarithmic axis its line has no place.",
        "Claims about Q and ε compare the two ends of the axis.",
    ],
};

fn figure_8(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    let choice = settings(1.0, 20)?;
    for users in POPULATIONS {
        let stream = process(session, Process::LNS, u64::from(users))?;
        let at = At::from(f64::from(users));
        sweep(session, &stream, &[(at, choice.clone())], (CFPU_USERS, Metric::Cfpu), &mut table)?;
    }
    for deviation in DEVIATIONS {
        let stream = process(session, lns(deviation), 200_000)?;
        let at = At::from(deviation);
        sweep(session, &stream, &[(at, choice.clone())], (CFPU_DEVIATION, Metric::Cfpu), &mut table)?;
    }
    let stream = process(session, Process::LNS, 200_000)?;
    sweep(session, &stream, &by_epsilon(&BUDGETS, 20)?, (CFPU_EPSILON, Metric::Cfpu), &mut table)?;
    sweep(session, &stream, &by_window(1.0, &WINDOWS)?, (CFPU_WINDOW, Metric::Cfpu), &mut table)?;
    Ok(table)
}

/// The first place of a panel below its last one.
fn ends(table: &Results, panel: &str, series: &[&str]) -> Tally {
    let mut tally = Tally::new();
    for name in series {
        let along = table.along(panel, name, "cfpu");
        if let Some(((from, first), (to, last))) = along.first().zip(along.last()) {
            let what = format!("{panel}, {name} from {from} to {to}: {} to {}", short(*first), short(*last));
            tally.add(smaller(*first, *last), what);
        }
    }
    tally
}

fn at_least_one_report(table: &Results) -> Judgement {
    let mut tally = Tally::new();
    for entry in table.entries().iter().filter(|entry| BUDGET.contains(&entry.series.as_str())) {
        let what = format!("{}, {} at {}: {}", entry.panel, entry.series, entry.at, short(entry.value));
        let answer = if entry.series == "lbu" {
            near(entry.value, 1.0, 1e-9)
        } else {
            smaller(Summary { mean: 1.0, standard_error: Some(0.0) }, entry.value)
        };
        tally.add(answer, what);
    }
    tally.judge(Demand::Everywhere)
}

/// Within three per cent: a window that the end of the stream cuts off, and slots that do not divide evenly, are that
/// much.
fn one_report_a_window(table: &Results) -> Judgement {
    let mut tally = Tally::new();
    for entry in table.entries().iter().filter(|entry| matches!(entry.series.as_str(), "lsp" | "lpu")) {
        let window = match (&entry.at, entry.panel.as_str()) {
            (At::Number(window), CFPU_WINDOW) => *window,
            _ => 20.0,
        };
        let what = format!(
            "{}, {} at {}: {}, 1/w is {}",
            entry.panel,
            entry.series,
            entry.at,
            short(entry.value),
            digits(1.0 / window, 3)
        );
        tally.add(near(entry.value, 1.0 / window, 0.03), what);
    }
    tally.judge(Demand::Everywhere)
}
