//! Figure 6: errors on clicks.

use tidegate_lab::metrics::Metric;
use tidegate_lab::plot::Axis;

use super::figure_5::MAE;
use super::{Line, PAPER_FORM, RR_TWICE, TWICE, add, batch, batch_by_distance, by_distance, plain};
use crate::compare::not;
use crate::verdict::{Decision, Demand, Tally, all_below, all_below_where, short, smaller, smaller_than_times};
use crate::{ASKED_HERE, At, Claim, Cut, Experiment, PaperData, Results, lines, named, repeats};

pub(super) const KOSARAK: &str = "kosarak";
pub(super) const MSNBC: &str = "msnbc_spmf";

const KOSARAK_BATCHES: &str = "kosarak, batches";

const KOSARAK_SERIES: [Line; 5] = [
    plain("rr"),
    by_distance("crr, by distance", "crr"),
    batch_by_distance("batched, 5", 5),
    batch_by_distance("batched, 10", 10),
    plain("constant"),
];

const CLICKS: [Line; 8] = [
    plain("rr"),
    RR_TWICE,
    plain("oue"),
    plain("crr"),
    by_distance("crr, by distance", "crr"),
    plain("crr_robust"),
    plain(PAPER_FORM),
    plain("constant"),
];

pub(super) const FIGURE_6: Experiment = Experiment {
    name: "sequence-privacy-fig6",
    place: "Figure 6(a)",
    title: "clicks",
    caption: "Mean distance |x - y| of the answered page from the true one over ε. \"By distance\" is the channel \
              that makes this small; the others make the number of wrong answers small.",
    data: &[
        PaperData {
            set: KOSARAK,
            paper: "Kosarak: 1,000 of 990,002 users, 41,270 pages",
            difference: Some("200 users of the first 100,000, from which the model is learned; 25 users for batches"),
        },
        PaperData {
            set: MSNBC,
            paper: "Kosarak",
            difference: Some("500 users of another news site with 17 categories, few enough for batches"),
        },
    ],
    repeats: repeats(2),
    seconds: 150,
    measure: |session| {
        let mut table = Results::new();
        let metrics = [Metric::Mae, Metric::ErrorRate];
        let cut = |population| Cut { population: Some(population), length: None };
        if let Some(stream) = session.dataset(MSNBC, cut(session.size(500, 20)))? {
            add(&mut table, session, (MSNBC, &stream), &CLICKS, &[0.5, 1.0, 2.0, 3.0, 4.0], &metrics)?;
            // The larger ε, the more clusters a batch has, and the longer it takes.
            add(&mut table, session, (MSNBC, &stream), &[batch("batched, 2", 2)], &[0.5, 1.0, 2.0], &metrics)?;
        }
        if let Some(stream) = session.dataset(KOSARAK, cut(session.size(200, 5)))? {
            // In its robust mode crr at 2 is crr at 1: nothing new, and costly.
            let series: Vec<_> = CLICKS.into_iter().filter(|line| line.series != "crr_robust").collect();
            add(&mut table, session, (KOSARAK, &stream), &series, &[1.0, 2.0, 4.0], &metrics)?;
        }
        if let Some(stream) = session.dataset(KOSARAK, cut(session.size(25, 2)))? {
            add(&mut table, session, (KOSARAK_BATCHES, &stream), &KOSARAK_SERIES, &[0.5, 1.0], &metrics)?;
        }
        Ok(table)
    },
    panels: |table| {
        let mut panels = lines(table, MAE, &Axis::linear("ε"), &Axis::log("mean distance |x - y|"), |_| true);
        let wrong = lines(table, "error_rate", &Axis::linear("ε"), &Axis::linear("share of wrong answers"), |_| true);
        panels.extend(named(wrong, |panel| format!("{panel}, wrong answers")));
        panels
    },
    published: &[],
    claims: &[
        Claim {
            text: "ε-SIP can be better than 2ε-LDP, for some ε",
            place: "section VI-B",
            check: |table| {
                let mut tally = Tally::new();
                let compared = |panel: &&str| !table.along(panel, TWICE, MAE).is_empty();
                for panel in table.panels().into_iter().filter(compared) {
                    let wins: Vec<String> = table
                        .along(panel, "crr", MAE)
                        .into_iter()
                        .filter(|(at, error)| {
                            let twice = table.get(panel, TWICE, (*at).clone(), MAE);
                            twice.is_some_and(|twice| smaller(*error, twice) == Decision::Yes)
                        })
                        .map(|(at, _)| at.to_string())
                        .collect();
                    let answer = if wins.is_empty() { Decision::No } else { Decision::Yes };
                    tally.add(answer, format!("{panel}: crr below rr at 2ε where ε is {}", listed(&wins)));
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "ε-SIP is better than ε-LDP",
            place: "section VI-B",
            check: |table| all_below(table, MAE, &["crr"], &["rr", "oue"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "Larger batches are better: two symbols together than one by one (msnbc_spmf)",
            place: "section VI-B",
            check: |table| all_below(table, MAE, &["batched, 2"], &["crr"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "Larger batches are better: five pages together than one by one, and ten than five (kosarak)",
            place: "section VI-B",
            check: |table| {
                let mut tally = all_below(table, MAE, &["batched, 5"], &["crr, by distance"]);
                tally.append(all_below(table, MAE, &["batched, 10"], &["batched, 5"]));
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Unary encoding gains little over randomised response (less than a tenth)",
            place: "section VI-B",
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels() {
                    for (at, rr) in table.along(panel, "rr", MAE) {
                        if let Some(oue) = table.get(panel, "oue", at.clone(), MAE) {
                            let what = format!("{panel} at {at}: oue {}, rr {}", short(oue), short(rr));
                            tally.add(not(smaller_than_times(oue, 0.9, rr)), what);
                        }
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "ε/2-SIP, which is ε-LDP, can be better than randomised response at small ε (msnbc_spmf, up to ε = \
                   2)",
            place: "section VII",
            check: |table| {
                let small = |_: &str, at: &At| matches!(at, At::Number(at) if *at < 2.5);
                all_below_where(table, MAE, &["crr_robust"], &["rr"], small).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Mechanisms without a model are better than constant, the page in the middle",
            place: ASKED_HERE,
            check: |table| all_below(table, MAE, &["rr", "oue"], &["constant"]).judge(Demand::Everywhere),
        },
    ],
    notes: &[
        "Numbers of pages mean nothing, so neither does their distance; it is what the paper measures.",
        "Batches are measured up to ε = 2 only, for they take long. Of Kosarak's batches, the 512 likeliest are told \
         apart, and of the others the middle page: two clicks are 1.7 billion sequences. They are measured on fewer \
         users. What crr has right there is mostly what the model knew: the likeliest page.",
    ],
};

fn listed(items: &[String]) -> String {
    if items.is_empty() { "never".to_owned() } else { items.join(", ") }
}
