//! Figures 10 and 11: errors over the budget and over the window.

use super::summary::percent;
use super::{
    AMRE, BETTER_THAN_EVENLY, BETTER_THAN_NOTHING, CLASSES, DATA, OFTEN, PBA_BEST_ON_SYNTHETIC, PBD_BEST_ON_REAL,
    PBD_BETTER_THAN_BD, PBD_BETTER_THAN_BD_HERE, PLBU_WORST, RUNS, amre_panels, falls_more_on_real_data, is_real,
    over_budgets, over_windows, saves,
};
use crate::verdict::{Demand, Judgement, Tally, all_below_where, digits, falls, rises, smaller_than_times};
use crate::{ASKED_HERE, Claim, Experiment, Results};

pub(super) const FIGURE_10: Experiment = Experiment {
    name: "personalized-w-event-fig10",
    place: "Figure 10",
    title: "error by static budget",
    caption: "Mean squared error of a count over the budget ε of the strictest user, whose window has 120 timestamps.",
    data: &DATA,
    repeats: OFTEN,
    seconds: 150,
    measure: over_budgets,
    panels: |table| amre_panels(table, "static budget ε"),
    published: &[
        percent("tdrive_counts", "pbd_sampling", "over ε", 70.8),
        percent("foursquare_lbsn2vec", "pbd_sampling", "over ε", 69.6),
        percent("tlns", "pba_sampling", "over ε", 36.9),
        percent("sin_coins", "pba_sampling", "over ε", 27.7),
        percent("log_coins", "pba_sampling", "over ε", 28.9),
    ],
    claims: &[
        Claim {
            text: "The error falls as ε grows, on all data",
            place: "section 5.4",
            check: |table| {
                falls(table, AMRE, &["bd", "ba", "pbd_sampling", "pba_sampling", "plbu"], |_| true)
                    .judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "It falls more on real data than on synthetic ones",
            place: "section 5.4",
            check: falls_more_on_real_data,
        },
        Claim {
            text: "On real data PBD's error is on average 70.8 % (Taxi) and 69.6 % (Foursquare) below BD's",
            place: "section 5.4",
            check: |table| {
                saves(table, "over ε", "pbd_sampling", &[("tdrive_counts", 70.8), ("foursquare_lbsn2vec", 69.6)])
            },
        },
        Claim {
            text: "With tidegate's estimator, pbd saves as much over bd as the paper claims for PBD over BD",
            place: ASKED_HERE,
            check: |table| saves(table, "over ε", "pbd", &[("tdrive_counts", 70.8), ("foursquare_lbsn2vec", 69.6)]),
        },
        PBD_BETTER_THAN_BD,
        PBD_BETTER_THAN_BD_HERE,
        PBD_BEST_ON_REAL,
        Claim {
            text: "On real data PBA is slightly worse than BA",
            place: "section 5.4",
            check: |table| {
                all_below_where(table, AMRE, &["ba"], &["pba_sampling"], |panel, _| is_real(panel))
                    .judge(Demand::Mostly)
            },
        },
        PBA_BEST_ON_SYNTHETIC,
        Claim {
            text: "On synthetic data PBA's error is on average 36.9 % (TLNS), 27.7 % (Sin) and 28.9 % (Log) below BA's",
            place: "section 5.4",
            check: |table| {
                saves(table, "over ε", "pba_sampling", &[("tlns", 36.9), ("sin_coins", 27.7), ("log_coins", 28.9)])
            },
        },
        Claim {
            text: "With tidegate's estimator, pba saves as much over ba as the paper claims for PBA over BA",
            place: ASKED_HERE,
            check: |table| saves(table, "over ε", "pba", &[("tlns", 36.9), ("sin_coins", 27.7), ("log_coins", 28.9)]),
        },
        PLBU_WORST,
        BETTER_THAN_EVENLY,
        BETTER_THAN_NOTHING,
    ],
    notes: &[CLASSES, RUNS],
};

pub(super) const FIGURE_11: Experiment = Experiment {
    name: "personalized-w-event-fig11",
    place: "Figure 11",
    title: "error by static window",
    caption: "Mean squared error of a count over the window w of the strictest user, whose budget is 0.6.",
    data: &DATA,
    repeats: OFTEN,
    seconds: 150,
    measure: over_windows,
    panels: |table| amre_panels(table, "static window w"),
    published: &[
        percent("tdrive_counts", "pbd_sampling", "over w", 63.1),
        percent("foursquare_lbsn2vec", "pbd_sampling", "over w", 68.4),
        percent("tlns", "pba_sampling", "over w", 35.1),
        percent("sin_coins", "pba_sampling", "over w", 4.2),
        percent("log_coins", "pba_sampling", "over w", 16.6),
    ],
    claims: &[
        Claim {
            text: "The error rises as w grows",
            place: "section 5.4",
            check: |table| {
                rises(table, AMRE, &["bd", "ba", "pbd_sampling", "pba_sampling", "plbu"], |_| true)
                    .judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "It rises gently: less than fivefold from a window of 40 to one of 200",
            place: "section 5.4",
            check: rises_gently,
        },
        Claim {
            text: "On real data PBD's error is on average 63.1 % (Taxi) and 68.4 % (Foursquare) below BD's",
            place: "section 5.4",
            check: |table| {
                saves(table, "over w", "pbd_sampling", &[("tdrive_counts", 63.1), ("foursquare_lbsn2vec", 68.4)])
            },
        },
        Claim {
            text: "With tidegate's estimator, pbd saves as much over bd as the paper claims for PBD over BD",
            place: ASKED_HERE,
            check: |table| saves(table, "over w", "pbd", &[("tdrive_counts", 63.1), ("foursquare_lbsn2vec", 68.4)]),
        },
        PBD_BETTER_THAN_BD,
        PBD_BETTER_THAN_BD_HERE,
        PBD_BEST_ON_REAL,
        PBA_BEST_ON_SYNTHETIC,
        Claim {
            text: "On synthetic data PBA's error is on average 35.1 % (TLNS), 4.2 % (Sin) and 16.6 % (Log) below BA's",
            place: "section 5.4",
            check: |table| {
                saves(table, "over w", "pba_sampling", &[("tlns", 35.1), ("sin_coins", 4.2), ("log_coins", 16.6)])
            },
        },
        Claim {
            text: "With tidegate's estimator, pba saves as much over ba as the paper claims for PBA over BA",
            place: ASKED_HERE,
            check: |table| saves(table, "over w", "pba", &[("tlns", 35.1), ("sin_coins", 4.2), ("log_coins", 16.6)]),
        },
        PLBU_WORST,
        BETTER_THAN_EVENLY,
    ],
    notes: &[CLASSES, RUNS],
};

fn rises_gently(table: &Results) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for series in ["bd", "ba", "pbd_sampling", "pba_sampling", "plbu"] {
            let [first, last] = [40.0, 200.0].map(|at| table.get(panel, series, at, AMRE));
            if let Some((first, last)) = first.zip(last) {
                let factor = digits(last.mean / first.mean, 2);
                tally.add(smaller_than_times(last, 5.0, first), format!("{panel}, {series}: by a factor of {factor}"));
            }
        }
    }
    tally.judge(Demand::Everywhere)
}
