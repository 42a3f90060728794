//! Figures 4 and 5: errors over the budget and over the window.

use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::{Axis, Panel};

use super::{BUDGET, BUDGETS, MECHANISMS, POPULATION, STREAMS, WINDOWS, by_epsilon, by_window, stream, sweep, title};
use crate::verdict::{
    Decision, Demand, Judgement, Tally, Verdict, all_below, all_below_where, digits, falls, ratio, rises, short,
    smaller, smaller_than_times,
};
use crate::{At, Claim, Experiment, Results, lines, named, repeats};

pub(super) const FIGURE_4: Experiment = Experiment {
    name: "ldp-ids-fig4",
    place: "Figure 4",
    title: "error by privacy budget",
    caption: "Mean relative error of the released histograms over the budget ε of any window of 20 timestamps. lbu, \
              lbd and lba divide the budget; lpu, lpd and lpa divide the users; lsp asks everyone once a window.",
    data: &STREAMS,
    repeats: repeats(16),
    seconds: 16,
    measure: |session| {
        let mut table = Results::new();
        for data in &STREAMS {
            let Some(stream) = stream(session, data)? else { continue };
            sweep(session, &stream, &by_epsilon(&BUDGETS, 20)?, (data.set, Metric::Mre), &mut table)?;
        }
        Ok(table)
    },
    panels: |table| error_panels(table, "ε"),
    published: &[],
    claims: &[
        Claim {
            text: "The error of all methods decreases with ε.",
            place: "section 7.2",
            check: |table| falls(table, "mre", MECHANISMS, |_| true).judge(Demand::Everywhere),
        },
        Claim {
            text: "Dividing the population is significantly better than dividing the budget.",
            place: "section 7.2",
            check: |table| all_below(table, "mre", POPULATION, BUDGET).judge(Demand::Everywhere),
        },
        Claim {
            text: "LBD and LBA generally have smaller errors than LBU.",
            place: "section 7.2",
            check: |table| all_below(table, "mre", &["lbd", "lba"], &["lbu"]).judge(Demand::Mostly),
        },
        Claim {
            text: "LPD and LPA have smaller errors than LPU.",
            place: "section 7.2",
            check: |table| all_below(table, "mre", &["lpd", "lpa"], &["lpu"]).judge(Demand::Mostly),
        },
        Claim {
            text: "What LPD and LPA gain on LPU is clearer than what LBD and LBA gain on LBU.",
            place: "section 7.2",
            check: advantage_clearer,
        },
        Claim {
            text: "LSP has an even smaller error than LPD and LPA.",
            place: "section 7.2",
            check: |table| all_below(table, "mre", &["lsp"], &["lpd", "lpa"]).judge(Demand::Mostly),
        },
        Claim {
            text: "How well LSP does varies dramatically from one data set to another.",
            place: "section 7.2",
            check: lsp_varies,
        },
    ],
    notes: &[],
};

fn error_panels(table: &Results, x: &str) -> Vec<Panel> {
    named(lines(table, "mre", &Axis::linear(x), &Axis::log("mean relative error"), |_| true), title)
}

/// Of each pair, the adaptive method of the users' side gains more on its uniform one than that of the budget's side
/// does; and it does gain.
fn advantage_clearer(table: &Results) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for at in table.places(panel) {
            let get = |series: &str| table.get(panel, series, at.clone(), "mre");
            for (population, budget) in [("lpd", "lbd"), ("lpa", "lba")] {
                let all = get(population).zip(get("lpu")).zip(get(budget).zip(get("lbu")));
                let Some(((population_error, lpu), (budget_error, lbu))) = all else { continue };
                let (of_users, of_budget) = (ratio(population_error, lpu), ratio(budget_error, lbu));
                let what = format!(
                    "{panel} at {at}: {population} / lpu {}, {budget} / lbu {}",
                    short(of_users),
                    short(of_budget)
                );
                let answer = match (smaller(population_error, lpu), smaller(of_users, of_budget)) {
                    (Decision::Yes, Decision::Yes) => Decision::Yes,
                    (Decision::No, _) | (_, Decision::No) => Decision::No,
                    _ => Decision::Unclear,
                };
                tally.add(answer, what);
            }
        }
    }
    tally.judge(Demand::Mostly)
}

/// How far the ratio of LSP's error to LPA's differs between data sets, at the same budget.
fn lsp_varies(table: &Results) -> Judgement {
    let places: Vec<At> =
        table.panels().first().map(|panel| table.places(panel).into_iter().cloned().collect()).unwrap_or_default();
    let mut largest: Option<(f64, String)> = None;
    for at in places {
        let mut ratios: Vec<(f64, &str)> = table
            .panels()
            .into_iter()
            .filter_map(|panel| {
                let get = |series: &str| table.get(panel, series, at.clone(), "mre");
                Some((ratio(get("lsp")?, get("lpa")?).mean, panel))
            })
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some(low), Some(high)) = (ratios.first(), ratios.last()) {
            let spread = high.0 / low.0;
            if largest.as_ref().is_none_or(|(most, _)| spread > *most) {
                let what = format!(
                    "at {at}, LSP's error is {} times LPA's on {} and {} times on {}",
                    digits(low.0, 2),
                    low.1,
                    digits(high.0, 2),
                    high.1
                );
                largest = Some((spread, what));
            }
        }
    }
    let Some((spread, what)) = largest else {
        return Judgement {
            verdict: Verdict::Unclear,
            because: "Nothing was measured that could be compared.".to_owned(),
        };
    };
    let verdict = match spread {
        3.0.. => Verdict::Holds,
        1.5.. => Verdict::Partly,
        _ => Verdict::DoesNotHold,
    };
    Judgement {
        verdict,
        because: format!("Where it differs most, {what}: a factor of {} (3 or more was asked for).", digits(spread, 2)),
    }
}

pub(super) const FIGURE_5: Experiment = Experiment {
    name: "ldp-ids-fig5",
    place: "Figure 5",
    title: "error by window",
    caption: "Mean relative error of the released histograms over the length w of the window in which ε = 1 is spent.",
    data: &STREAMS,
    repeats: repeats(16),
    seconds: 12,
    measure: |session| {
        let mut table = Results::new();
        for data in &STREAMS {
            let Some(stream) = stream(session, data)? else { continue };
            sweep(session, &stream, &by_window(1.0, &WINDOWS)?, (data.set, Metric::Mre), &mut table)?;
        }
        Ok(table)
    },
    panels: |table| error_panels(table, "w"),
    published: &[],
    claims: &[
        Claim {
            text: "In general, the error of all methods increases with w.",
            place: "section 7.2",
            check: |table| rises(table, "mre", MECHANISMS, |_| true).judge(Demand::Mostly),
        },
        Claim {
            text: "When w is large, LBD may even have a larger error than LBU.",
            place: "section 7.2",
            check: |table| {
                anywhere(&all_below_where(table, "mre", &["lbu"], &["lbd"], |_, at| *at == At::Number(50.0)))
            },
        },
        Claim {
            text: "LBA avoids that: it stays below LBU.",
            place: "section 7.2",
            check: |table| all_below(table, "mre", &["lba"], &["lbu"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "LPD has a smaller error than LPU, and LPA a much smaller one.",
            place: "section 7.2",
            check: lpa_much_better,
        },
        Claim {
            text: "The larger w, the more LPD and LPA gain on LPU.",
            place: "section 7.2",
            check: |table| gain_grows(table, 10.0, 50.0),
        },
    ],
    notes: &[],
};

/// A claim that something may happen: it holds where it does at least once.
fn anywhere(tally: &Tally) -> Judgement {
    let judgement = tally.judge(Demand::Mostly);
    let (yes, no, unclear) = tally.counts();
    let verdict = match (yes, no, unclear) {
        (1.., _, _) => Verdict::Holds,
        (0, 1.., 0) => Verdict::DoesNotHold,
        _ => Verdict::Unclear,
    };
    Judgement { verdict, ..judgement }
}

/// LPD below LPU, and LPA below it by a fifth.
fn lpa_much_better(table: &Results) -> Judgement {
    let mut tally = all_below(table, "mre", &["lpd"], &["lpu"]);
    for panel in table.panels() {
        for at in table.places(panel) {
            let get = |series: &str| table.get(panel, series, at.clone(), "mre");
            if let Some((lpa, lpu)) = get("lpa").zip(get("lpu")) {
                let what =
                    format!("{panel} at {at}: lpa {}, four fifths of lpu {}", short(lpa), short(scaled(lpu, 0.8)));
                tally.add(smaller_than_times(lpa, 0.8, lpu), what);
            }
        }
    }
    tally.judge(Demand::Mostly)
}

fn scaled(summary: Summary, factor: f64) -> Summary {
    Summary { mean: factor * summary.mean, standard_error: summary.standard_error.map(|error| factor * error) }
}

/// What LPD and LPA have of LPU's error is less at the one end than at the other.
fn gain_grows(table: &Results, from: f64, to: f64) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for name in ["lpd", "lpa"] {
            let share = |at: f64| Some(ratio(table.get(panel, name, at, "mre")?, table.get(panel, "lpu", at, "mre")?));
            if let Some((early, late)) = share(from).zip(share(to)) {
                let what = format!("{panel}, {name} / lpu from {from} to {to}: {} to {}", short(early), short(late));
                tally.add(smaller(late, early), what);
            }
        }
    }
    tally.judge(Demand::Mostly)
}
