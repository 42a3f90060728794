//! Figures 5 and 6: errors over the delay and over the size of buckets.

use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::Axis;
use tidegate_lab::scalar::published;
use tidegate_lab::stream::as_float;

use super::{
    MAE, Moves, OUTPATIENT, PRINTED, SETTING, TWO, UNEMPLOYMENT, add, below, data_of, for_both, is_printed,
    like_the_paper, mae_panels, played_by, width,
};
use crate::compare::metric_of;
use crate::verdict::{Decision, Demand, Judgement, Tally, falls, short, smaller};
use crate::{ASKED_HERE, At, Claim, Cut, Experiment, ReproduceError, Results, Session, lines, repeats};

const DELAYS: [u64; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
const GROUP_AND_ORDER: &[&str] = &["laplace", "discontin", "comporder", "bucorder_sums", "clamped", "constant"];

pub(super) const FIGURE_5: Experiment = Experiment {
    name: "delay-allowed-fig5",
    place: "Figure 5",
    title: "groups and orders by delay",
    caption: "Mean absolute error over the delay, at ε = 0.5: tidegate's mechanisms, and the paper's as printed.",
    data: &TWO,
    repeats: repeats(20),
    seconds: 2,
    measure: |session| {
        let mut table = Results::new();
        for data in &TWO {
            let Some(stream) = session.dataset(data.set, Cut::default())? else { continue };
            let settings: Vec<_> =
                DELAYS.into_iter().map(|delay| like_the_paper(&stream, 0.5, delay)).collect::<Result<_, _>>()?;
            let place = |settings: &TrialSettings| At::Number(as_float(settings.delay));
            let printed: Vec<_> = GROUP_AND_ORDER.iter().map(|name| played_by(PRINTED, name)).collect();
            add(&mut table, session, (data, data.set), GROUP_AND_ORDER, &settings, place)?;
            add(&mut table, session, (data, &format!("{}{PRINTED}", data.set)), &printed, &settings, place)?;
        }
        Ok(table)
    },
    panels: |table| mae_panels(table, "delay"),
    published: &[],
    claims: &[
        Claim {
            text: "The discontinuous approach improves as the delay grows",
            place: "section VII-B",
            check: |table| {
                for_both(|printed| {
                    let mut tally = Tally::new();
                    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
                        tally.append(falls(table, MAE, &[played_by(panel, "discontin")], |other| other == panel));
                    }
                    tally.judge(Demand::Everywhere)
                })
            },
        },
        Claim {
            text: "The order-based approaches show no clear pattern: their errors neither only rise nor only fall with \
                   the delay",
            place: "section VII-B",
            check: |table| for_both(|printed| no_pattern(table, printed)),
        },
        Claim {
            text: "When the delay is short, order-based approaches are better than group-based ones",
            place: "section VII-B",
            check: |table| {
                for_both(|printed| {
                    below(table, printed, &["comporder", "bucorder_sums"], &["discontin"], |_, at| at < 15.0)
                        .judge(Demand::Everywhere)
                })
            },
        },
        Claim {
            text: "With a delay of 90, discontinuous grouping is better than constant",
            place: ASKED_HERE,
            check: |table| {
                for_both(|printed| {
                    below(table, printed, &["discontin"], &["constant"], |_, at| at > 85.0).judge(Demand::Everywhere)
                })
            },
        },
    ],
    notes: &[SETTING],
};

fn no_pattern(table: &Results, printed: bool) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
        for method in ["comporder", "bucorder_sums"] {
            let name = played_by(panel, method);
            let errors: Vec<Summary> = table.along(panel, name, MAE).into_iter().map(|(_, error)| error).collect();
            if errors.is_empty() {
                continue;
            }
            let moves = Moves::of(&errors);
            let answer = match moves {
                _ if errors.iter().any(|error| error.standard_error.is_none()) => Decision::Unclear,
                Moves::Both | Moves::Neither => Decision::Yes,
                Moves::Rises | Moves::Falls => Decision::No,
            };
            tally.add(answer, format!("{}, {name} {}", data_of(panel), moves.words()));
        }
    }
    tally.judge(Demand::Everywhere)
}

const THREE: [f64; 3] = [0.4, 0.6, 0.8];

/// The sizes of buckets for a stream: the paper's.
fn sizes(set: &str) -> [f64; 10] {
    let step = if set == OUTPATIENT.set { 10_000.0 } else { 10.0 };
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0].map(|times| times * step)
}

pub(super) fn of_epsilon(epsilon: f64) -> String {
    format!("ε = {epsilon}")
}

pub(super) const FIGURE_6: Experiment = Experiment {
    name: "delay-allowed-fig6",
    place: "Figure 6",
    title: "BucOrder by size of bucket",
    caption: "Mean absolute error of BucOrder over the size of its buckets, at a delay of 100, for three budgets: \
              tidegate's bucorder_sums, and the paper's as printed.",
    data: &TWO,
    repeats: repeats(20),
    seconds: 1,
    measure: figure_6,
    panels: |table| {
        lines(table, MAE, &Axis::linear("size of a bucket"), &Axis::linear("mean absolute error"), |_| true)
    },
    published: &[],
    claims: &[
        Claim {
            text: "On Unemployment, where ε is small (0.4 and 0.6), buckets that are too small (10) cost accuracy",
            place: "section VII-B",
            check: |table| for_both(|printed| small_buckets(table, printed, smaller).judge(Demand::Everywhere)),
        },
        Claim {
            text: "A size that is not the best does not cost much: with the sizes of figures 2 and 3, BucOrder remains \
                   better than the other methods",
            place: "section VII-B",
            check: |table| for_both(|printed| remains_better(table, printed)),
        },
        Claim {
            text: "With the best size, BucOrder is better than constant",
            place: ASKED_HERE,
            check: |table| {
                for_both(|printed| {
                    let mut tally = Tally::new();
                    each_budget(table, printed, |data, series, errors| {
                        let least = errors.iter().copied().min_by(|a, b| a.mean.total_cmp(&b.mean));
                        let constant = table.get(data, "constant", sizes(data)[0], MAE);
                        if let Some((least, constant)) = least.zip(constant) {
                            let what =
                                format!("{data}, {series}: {} at best, constant {}", short(least), short(constant));
                            tally.add(smaller(least, constant), what);
                        }
                    });
                    tally.judge(Demand::Everywhere)
                })
            },
        },
    ],
    notes: &[
        "The best of ten measured means is a little lower than the true best: by chance it is the one that came out \
         low.",
    ],
};

/// Errors of the other methods of figure 3, which are not drawn here.
const OTHERS: &str = "mae_of_another_method";

/// BucOrder, with buckets of the size of figures 2 and 3, below each other method.
fn remains_better(table: &Results, printed: bool) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
        for epsilon in THREE {
            let size = size_of_figure_3(data_of(panel));
            let Some(ours) = table.get(panel, &of_epsilon(epsilon), size, MAE) else { continue };
            for (method, other) in table.along(panel, &of_epsilon(epsilon), OTHERS) {
                let what = format!("{} at {epsilon}: {}, {method} {}", data_of(panel), short(ours), short(other));
                tally.add(smaller(ours, other), what);
            }
        }
    }
    tally.judge(Demand::Everywhere)
}

/// The size of buckets in figures 2 and 3, which is among the [`sizes`] too.
fn size_of_figure_3(set: &str) -> f64 {
    if set == OUTPATIENT.set { 10_000.0 } else { 100.0 }
}

/// Each budget's errors by size, in the panels of one kind.
fn each_budget(table: &Results, printed: bool, mut visit: impl FnMut(&str, &str, &[Summary])) {
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
        for epsilon in THREE {
            let series = of_epsilon(epsilon);
            let errors: Vec<Summary> = table.along(panel, &series, MAE).into_iter().map(|(_, error)| error).collect();
            visit(data_of(panel), &series, &errors);
        }
    }
}

fn small_buckets(table: &Results, printed: bool, compare: impl Fn(Summary, Summary) -> Decision) -> Tally {
    let mut tally = Tally::new();
    each_budget(table, printed, |data, series, errors| {
        let asked = data == UNEMPLOYMENT.set && series != of_epsilon(0.8);
        let least = errors.iter().copied().min_by(|a, b| a.mean.total_cmp(&b.mean));
        if let Some((least, first)) = least.zip(errors.first().copied()).filter(|_| asked) {
            let what = format!("{series}: {} with buckets of 10, {} at best", short(first), short(least));
            tally.add(compare(least, first), what);
        }
    });
    tally
}

/// What BucOrder is compared with in figures 2 and 3.
const OTHER_METHODS: &[&str] =
    &["laplace", "pegasus", "pegasus_delay", "contin", "discontin_points", "discontin", "comporder"];

fn figure_6(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    for data in &TWO {
        let Some(stream) = session.dataset(data.set, Cut::default())? else { continue };
        for (suffix, mechanism) in [("", "bucorder_sums"), (PRINTED, "paper_bucorder")] {
            let panel = format!("{}{suffix}", data.set);
            for epsilon in THREE {
                for size in sizes(data.set) {
                    let buckets = Some(published::parts(width(&stream), size));
                    let settings = TrialSettings { buckets, ..like_the_paper(&stream, epsilon, 100)? };
                    for finding in session.sweep(&stream, &[mechanism], &[settings])? {
                        if let Some(error) = metric_of(&finding, Metric::Mae) {
                            table.push(&panel, &of_epsilon(epsilon), size, MAE, error);
                        }
                    }
                }
            }
            let others: Vec<_> = OTHER_METHODS.iter().map(|name| played_by(&panel, name)).collect();
            for epsilon in THREE {
                let settings = like_the_paper(&stream, epsilon, 100)?;
                for finding in session.sweep(&stream, &others, &[settings])? {
                    if let Some(error) = metric_of(&finding, Metric::Mae) {
                        table.push(&panel, &of_epsilon(epsilon), finding.mechanism, OTHERS, error);
                    }
                }
            }
            for finding in session.sweep(&stream, &["constant"], &[like_the_paper(&stream, 0.4, 100)?])? {
                if let Some(error) = metric_of(&finding, Metric::Mae) {
                    sizes(data.set).into_iter().for_each(|size| table.push(&panel, "constant", size, MAE, error));
                }
            }
        }
    }
    Ok(table)
}
