//! Savings of both figures in one table.

use tidegate_lab::metrics::Summary;
use tidegate_lab::plot::Axis;

use super::{BELOW, DATA, OFTEN, is_real, over_budgets, over_windows, saves};
use crate::compare::mean;
use crate::verdict::Judgement;
use crate::{ASKED_HERE, Claim, Experiment, Place, PublishedNumber, Results, bars};

pub(super) const fn percent(
    panel: &'static str,
    series: &'static str,
    sweep: &'static str,
    value: f64,
) -> PublishedNumber {
    PublishedNumber { panel, series, at: Place::Name(sweep), metric: BELOW, value }
}

const MEAN: &str = "mean of both figures";

pub(super) const SUMMARY: Experiment = Experiment {
    name: "personalized-w-event-summary",
    place: "Abstract and section 5.4",
    title: "what personal budgets save",
    caption: "By how many per cent the error of a personalised mechanism lies below that of its counterpart with one \
              guarantee for all, on average over the settings of figures 10 and 11.",
    data: &DATA,
    repeats: OFTEN,
    // On top of figures 10 and 11, which it is computed from.
    seconds: 1,
    measure: |session| {
        let mut table = Results::new();
        let (budgets, windows) = (over_budgets(session)?, over_windows(session)?);
        for (real, panel, ours) in
            [(true, "real data", ["pbd_sampling", "pbd"]), (false, "synthetic data", ["pba_sampling", "pba"])]
        {
            for series in ours {
                let mut all = Vec::new();
                for data in DATA.iter().filter(|data| is_real(data.set) == real) {
                    let both = [
                        budgets.get(data.set, series, "over ε", BELOW),
                        windows.get(data.set, series, "over w", BELOW),
                    ];
                    let both: Vec<Summary> = both.into_iter().flatten().collect();
                    if let Some(saved) = mean(&both) {
                        table.push(panel, series, data.set, BELOW, saved);
                        all.push(saved);
                    }
                }
                if let Some(saved) = mean(&all) {
                    table.push(panel, series, MEAN, BELOW, saved);
                }
            }
        }
        Ok(table)
    },
    panels: |table| bars(table, BELOW, &Axis::linear("per cent below"), |_| true),
    published: &[
        percent("real data", "pbd_sampling", MEAN, 68.0),
        percent("synthetic data", "pba_sampling", MEAN, 24.9),
    ],
    claims: &[
        Claim {
            text: "On real data PBD's error is 68 % below BD's on average",
            place: "abstract",
            check: |table| summary_saves(table, "real data", "pbd_sampling", 68.0),
        },
        Claim {
            text: "With tidegate's estimator, pbd saves as much over bd as the paper claims for PBD over BD",
            place: ASKED_HERE,
            check: |table| summary_saves(table, "real data", "pbd", 68.0),
        },
        Claim {
            text: "On synthetic data PBA's error is 24.9 % below BA's on average",
            place: "abstract",
            check: |table| summary_saves(table, "synthetic data", "pba_sampling", 24.9),
        },
        Claim {
            text: "With tidegate's estimator, pba saves as much over ba as the paper claims for PBA over BA",
            place: ASKED_HERE,
            check: |table| summary_saves(table, "synthetic data", "pba", 24.9),
        },
    ],
    notes: &[
        "Alone, it takes as long as figures 10 and 11 together. An error that is above its counterpart's counts as a \
         negative saving, as in the paper's averages.",
    ],
};

fn summary_saves(table: &Results, panel: &str, series: &str, claimed: f64) -> Judgement {
    saves(table, MEAN, series, &[(panel, claimed)])
}
