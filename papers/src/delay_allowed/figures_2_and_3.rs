//! Figures 2 and 3: all methods over the budget, with delays of 10 and 100.

use tidegate_lab::metrics::Summary;

use super::{
    ALL_DATA, BETTER_THAN_CLAMPED, BETTER_THAN_CONSTANT, COVID, DELAYED_PEGASUS_NO_BETTER, DISCONTIN_MUCH_BETTER,
    FILES, MAE, OUTPATIENT, PEGASUS_NO_BETTER, SETTING, TENTHS, UNEMPLOYMENT, below, data_of, for_both, is_printed,
    mae_panels, over_epsilon, played_by,
};
use crate::verdict::{Decision, Demand, Judgement, Tally, digits, short, smaller, smaller_than_times};
use crate::{Claim, Experiment, Results, repeats};

pub(super) const FIGURE_2: Experiment = Experiment {
    name: "delay-allowed-fig2",
    place: "Figure 2",
    title: "all methods with a delay of 10",
    caption: "Mean absolute error over ε with a delay of 10 timestamps: tidegate's mechanisms, and the paper's as \
              printed.",
    data: &ALL_DATA,
    repeats: repeats(20),
    seconds: 5,
    measure: |session| over_epsilon(session, &ALL_DATA, &TENTHS, 10),
    panels: |table| mae_panels(table, "ε"),
    published: &[],
    claims: &[
        Claim {
            text: "A delay of only 10 timestamps brings a substantial increase in accuracy over the naive method and \
                   PeGaSus",
            place: "section VII-B, claim C1",
            check: |table| {
                let delayed = ["contin", "discontin_points", "discontin", "comporder", "bucorder_sums"];
                for_both(|printed| {
                    below(table, printed, &delayed, &["laplace", "pegasus"], |_, _| true).judge(Demand::Everywhere)
                })
            },
        },
        Claim {
            text: "On Outpatient BucOrder is more than 32 times as accurate as the naive method and PeGaSus (at ε = \
                   0.1, where it gains most)",
            place: "section VII-B",
            check: |table| for_both(|printed| thirty_two_fold(table, printed)),
        },
        PEGASUS_NO_BETTER,
        DELAYED_PEGASUS_NO_BETTER,
        DISCONTIN_MUCH_BETTER,
        Claim {
            text: "For ε below 0.5, BucOrder and CompOrder have the highest accuracy on all data",
            place: "section VII-B",
            check: |table| {
                let others = ["laplace", "pegasus", "pegasus_delay", "contin", "discontin_points", "discontin"];
                for_both(|printed| {
                    let tally = below(table, printed, &["bucorder_sums", "comporder"], &others, |_, at| at < 0.45);
                    tally.judge(Demand::Everywhere)
                })
            },
        },
        BETTER_THAN_CLAMPED,
        BETTER_THAN_CONSTANT,
    ],
    notes: &[SETTING, FILES],
};

fn thirty_two_fold(table: &Results, printed: bool) -> Judgement {
    let mut tally = Tally::new();
    for panel in
        table.panels().into_iter().filter(|panel| is_printed(panel) == printed && data_of(panel) == OUTPATIENT.set)
    {
        let error = |name: &'static str| table.get(panel, played_by(panel, name), 0.1, MAE);
        for other in ["laplace", "pegasus"] {
            if let Some((ours, theirs)) = error("bucorder_sums").zip(error(other)) {
                let fold = digits(theirs.mean / ours.mean, 3);
                let what = format!("{} times as accurate as {}", fold, played_by(panel, other));
                tally.add(smaller_than_times(ours, 1.0 / 32.0, theirs), what);
            }
        }
        if let Some((constant, naive)) = error("constant").zip(error("laplace")) {
            let fold = digits(naive.mean / constant.mean, 3);
            return with_remark(tally.judge(Demand::Everywhere), &format!("The constant is {fold} times as accurate."));
        }
    }
    tally.judge(Demand::Everywhere)
}

fn with_remark(judgement: Judgement, remark: &str) -> Judgement {
    Judgement { because: format!("{} {remark}", judgement.because), ..judgement }
}

/// The error at a delay of 10, in the tables of figure 3.
const AT_TEN: &str = "mae_with_a_delay_of_10";

pub(super) const FIGURE_3: Experiment = Experiment {
    name: "delay-allowed-fig3",
    place: "Figure 3",
    title: "all methods with a delay of 100",
    caption: "Mean absolute error over ε with a delay of 100 timestamps: tidegate's mechanisms, and the paper's as \
              printed.",
    data: &ALL_DATA,
    repeats: repeats(20),
    seconds: 10,
    measure: |session| {
        let mut table = over_epsilon(session, &ALL_DATA, &TENTHS, 100)?;
        let at_ten = over_epsilon(session, &ALL_DATA, &TENTHS, 10)?;
        for entry in at_ten.entries().iter().filter(|entry| entry.metric == MAE) {
            table.push(&entry.panel, &entry.series, entry.at.clone(), AT_TEN, entry.value);
        }
        Ok(table)
    },
    panels: |table| mae_panels(table, "ε"),
    published: &[],
    claims: &[
        PEGASUS_NO_BETTER,
        DELAYED_PEGASUS_NO_BETTER,
        DISCONTIN_MUCH_BETTER,
        Claim {
            text: "From a delay of 10 to one of 100, CompOrder gets worse on COVID19 DEATH and Unemployment",
            place: "section VII-B",
            check: |table| {
                for_both(|printed| {
                    let asked = |data: &str| data == COVID.set || data == UNEMPLOYMENT.set;
                    by_delay(table, printed, "comporder", asked, smaller)
                })
            },
        },
        Claim {
            text: "BucOrder avoids that: with a delay of 100 its error is not larger than with one of 10",
            place: "section VII-B",
            check: |table| {
                for_both(|printed| {
                    // Errors that cannot be told apart are as claimed.
                    by_delay(
                        table,
                        printed,
                        "bucorder_sums",
                        |_| true,
                        |ten, hundred| match smaller(ten, hundred) {
                            Decision::Yes => Decision::No,
                            _ if hundred.standard_error.is_none() => Decision::Unclear,
                            _ => Decision::Yes,
                        },
                    )
                })
            },
        },
        Claim {
            text: "Discontinuous grouping gains by the longer delay",
            place: "sections VII-B and IV-A",
            check: |table| {
                for_both(|printed| {
                    by_delay(table, printed, "discontin", |_| true, |ten, hundred| smaller(hundred, ten))
                })
            },
        },
        BETTER_THAN_CLAMPED,
        BETTER_THAN_CONSTANT,
    ],
    notes: &[SETTING, FILES],
};

/// Compares a method's errors at delays of 10 and 100.
fn by_delay(
    table: &Results,
    printed: bool,
    method: &'static str,
    asked: impl Fn(&str) -> bool,
    compare: impl Fn(Summary, Summary) -> Decision,
) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed && asked(data_of(panel))) {
        let name = played_by(panel, method);
        for (at, hundred) in table.along(panel, name, MAE) {
            if let Some(ten) = table.get(panel, name, at.clone(), AT_TEN) {
                let what = format!("{} at {at}: {} and {}", data_of(panel), short(ten), short(hundred));
                tally.add(compare(ten, hundred), what);
            }
        }
    }
    tally.judge(Demand::Everywhere)
}
