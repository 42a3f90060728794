//! MTSP-LDP: multi-task streaming data publication under w-event local differential privacy.

mod figure_8;
mod wide;

use tidegate_kernel::oracle::OracleKind;

use crate::verdict::{Decision, Demand, Judgement, Tally, all_below, falls, ratio, rises, short, smaller};
use crate::{
    ASKED_HERE, At, Claim, Cut, Experiment, Omitted, Paper, PaperData, Place, PreparedStream, PublishedNumber,
    ReproduceError, Results, Session, bars, lines, named, repeats, settings,
};
use figure_8::FIGURE_8;
use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::{Axis, Panel, Scale};
use wide::WIDE;

pub(super) static PAPER: Paper = Paper {
    name: "mtsp-ldp",
    title: "MTSP-LDP: multi-task streaming data publication",
    reference: "Liu and Zhao: MTSP-LDP. A Framework for Multi-Task Streaming Data Publication under Local \
                Differential Privacy. Proc. ACM Manag. Data 4(1), article 55, 2026.",
    differences: &[
        "No warm-up: as printed, the first windows may cost up to (1.5 - 1/(2w)) ε.",
        "Variances are those of the users who serve a level of the tree, with the part that grows with the frequency \
         and that of sampling; the paper's are too small by a factor of 9.6 in a typical tree.",
        "A timestamp is published only where that is expected to lower the error; only publications enter a group, \
         each weighted by its variance; a subtree is pruned by what is known of it, not by one noisy estimate.",
        "mtsp_population is ours: the same trees, with users divided instead of the budget. The paper does not have \
         it, so claims are judged by mtsp.",
        "All methods use optimised unary encoding, as in the paper. Releases are taken as estimated: nothing makes \
         parents the sums of their children.",
    ],
    experiments: &[TABLE_1, FIGURE_6, FIGURE_7, FIGURE_8, WIDE],
    omitted: &[
        Omitted {
            what: "Cosmetics in table 1 and figures 6 to 8",
            why: "The shop's 1,654,771 users are not to be had without an account of the site that gives them out.",
        },
        Omitted {
            what: "Loan in table 1 and figures 6 to 8",
            why: "What is to be had of it is 31,766 loans of one year and 3000 of the others: a month then has some 26 \
                  loans for 1719 values, of which no method can tell anything.",
        },
        Omitted { what: "Figures 1 to 5", why: "They illustrate trees and algorithms; nothing in them was measured." },
    ],
};

/// The paper's, in its order.
const OTHERS: &[&str] = &["lba", "lbd", "lsp", "lbu"];
const METHODS: &[&str] = &["mtsp", "lba", "lbd", "lsp", "lbu"];
/// With our form of it and the baseline.
const ALL: &[&str] = &["mtsp", "lba", "lbd", "lsp", "lbu", "mtsp_population", "constant"];

const TAXI: PaperData = PaperData {
    set: "nyc_taxi_ge",
    paper: "Taxi: 139,713 trips a day of New York in 2024 by fare, 275 days, 150 values",
    difference: Some(
        "Trips of 2019, of which 10,000 a month were sampled: 275 days, 150 values, some 330 trips a day. Here: \
         frequencies kept among 139,713 users, so that the noise of so small a sample is scaled with them and looks \
         like change.",
    ),
};
const FOURSQUARE: PaperData = PaperData {
    set: "foursquare_lbsn2vec",
    paper: "Foursquare: 266,909 users, 447 days, 415 cities",
    difference: Some(
        "Check-ins of 20,159 users in four cities by the same collector: 447 days, 522 categories of the last \
         check-in. Here: frequencies kept among 266,909 users.",
    ),
};
const STREAMS: [(PaperData, u64); 2] = [(TAXI, 139_713), (FOURSQUARE, 266_909)];
const DATA: [PaperData; 2] = [TAXI, FOURSQUARE];

fn stream(session: &Session<'_>, set: &str, users: u64) -> Result<Option<PreparedStream>, ReproduceError> {
    session.dataset(set, Cut { population: Some(users), length: None })
}

fn title(set: &str) -> &'static str {
    match set {
        "nyc_taxi_ge" => "Taxi (stand-in)",
        _ => "Foursquare (stand-in)",
    }
}

const LENGTH: &str = "timestamps";
const DOMAIN: &str = "values";
const USERS: &str = "users";

const TABLE_1: Experiment = Experiment {
    name: "mtsp-ldp-table1",
    place: "Table 1",
    title: "the data sets",
    caption: "How long the streams are, how many values they have, and how many users: the paper's beside those here.",
    data: &DATA,
    repeats: repeats(1),
    seconds: 2,
    measure: |session| {
        let mut table = Results::new();
        for (data, users) in &STREAMS {
            let Some(prepared) = stream(session, data.set, *users)? else { continue };
            let Some(counts) = prepared.counts() else { continue };
            let most = (0..counts.length()).map(|timestamp| counts.population(timestamp)).max().unwrap_or_default();
            let sizes = [(LENGTH, counts.length() as u64), (DOMAIN, counts.domain() as u64), (USERS, most)];
            for (metric, size) in sizes {
                table.push_exact(metric, "here", data.set, "size", tidegate_lab::stream::as_float(size));
            }
        }
        for number in TABLE_1_PUBLISHED {
            let at = At::from(number.at);
            if table.get(number.panel, "here", at.clone(), "size").is_some() {
                table.push_exact(number.panel, "paper", at, "size", number.value);
            }
        }
        Ok(table)
    },
    panels: |table| {
        let mut panels = bars(table, "size", &Axis::linear(""), |_| true);
        for panel in &mut panels {
            if let Scale::Names(names) = &mut panel.x.scale {
                names.iter_mut().for_each(|name| *name = title(name).replace(" (stand-in)", ""));
            }
        }
        panels
    },
    published: TABLE_1_PUBLISHED,
    claims: &[],
    notes: &[
        "The number of users is not that of the data here, but what frequencies were scaled to, as the notes on the \
         data say.",
    ],
};

const fn size(panel: &'static str, set: &'static str, value: f64) -> PublishedNumber {
    PublishedNumber { panel, series: "here", at: Place::Name(set), metric: "size", value }
}

static TABLE_1_PUBLISHED: &[PublishedNumber] = &[
    size(LENGTH, "nyc_taxi_ge", 275.0),
    size(DOMAIN, "nyc_taxi_ge", 150.0),
    size(USERS, "nyc_taxi_ge", 139_713.0),
    size(LENGTH, "foursquare_lbsn2vec", 447.0),
    size(DOMAIN, "foursquare_lbsn2vec", 415.0),
    size(USERS, "foursquare_lbsn2vec", 266_909.0),
];

const BUDGETS: [f64; 5] = [0.5, 1.0, 2.0, 3.0, 5.0];
const WINDOWS: [u32; 5] = [10, 20, 30, 40, 50];
const BY_EPSILON: &str = " by ε";
const BY_WINDOW: &str = " by w";

/// Errors of histograms and of queries, by ε at w = 20 and by w at ε = 1. Both figures have all of it, so that it is
/// run once.
fn measure(session: &Session<'_>, metrics: &[Metric]) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    for (data, users) in &STREAMS {
        let Some(prepared) = stream(session, data.set, *users)? else { continue };
        let mut choices: Vec<(&str, At, TrialSettings)> = Vec::new();
        for epsilon in BUDGETS {
            choices.push((BY_EPSILON, At::from(epsilon), with_oracle(settings(epsilon, 20)?)));
        }
        for window in WINDOWS {
            choices.push((BY_WINDOW, At::from(f64::from(window)), with_oracle(settings(1.0, u64::from(window))?)));
        }
        // By ε and by w meet in one choice of settings, which is run once.
        let mut distinct: Vec<TrialSettings> = Vec::new();
        for (_, _, settings) in &choices {
            if !distinct.contains(settings) {
                distinct.push(settings.clone());
            }
        }
        let findings = session.sweep_with_queries(&prepared, ALL, &distinct)?;
        for (by, at, settings) in &choices {
            for finding in findings.iter().filter(|finding| finding.settings == *settings) {
                for (metric, summary) in finding.metrics.iter().filter(|(metric, _)| metrics.contains(metric)) {
                    table.push(&format!("{}{by}", data.set), finding.mechanism, at.clone(), metric.name(), *summary);
                }
            }
        }
    }
    Ok(table)
}

fn with_oracle(settings: TrialSettings) -> TrialSettings {
    TrialSettings { oracle: Some(OracleKind::Oue), ..settings }
}

/// Absolute and relative errors, by ε and by w.
fn error_panels(table: &Results, absolute: &str, relative: &str) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (metric, label) in [(absolute, "mean absolute error"), (relative, "mean relative error")] {
        for (by, x) in [(BY_EPSILON, "ε"), (BY_WINDOW, "w")] {
            panels.extend(lines(table, metric, &Axis::linear(x), &Axis::log(label), |panel| panel.ends_with(by)));
        }
    }
    named(panels, |panel| {
        panel.split_once(' ').map_or_else(|| panel.to_owned(), |(set, by)| format!("{} {by}", title(set)))
    })
}

/// Answers to the same claim about two metrics.
fn both(metrics: [&str; 2], tally: impl Fn(&str) -> Tally, demand: Demand) -> Judgement {
    let mut all = Tally::new();
    for metric in metrics {
        all.extend(tally(metric), metric);
    }
    all.judge(demand)
}

/// MTSP below the best of the others, wherever that is: to be better than the worst is no merit.
fn lowest(table: &Results, metric: &str) -> Tally {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for at in table.places(panel) {
            let mtsp = table.get(panel, "mtsp", at.clone(), metric);
            if let Some((mtsp, (name, best))) = mtsp.zip(best_other(table, panel, at, metric)) {
                let what = format!("{panel} at {at}: mtsp {}, {name} {}", short(mtsp), short(best));
                tally.add(smaller(mtsp, best), what);
            }
        }
    }
    tally
}

fn best_other(table: &Results, panel: &str, at: &At, metric: &str) -> Option<(&'static str, Summary)> {
    let others = OTHERS.iter().filter_map(|other| Some((*other, table.get(panel, other, at.clone(), metric)?)));
    others.min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))
}

/// How many times MTSP's error the smallest one of the others is.
fn lead(table: &Results, panel: &str, at: &At, metric: &str) -> Option<Summary> {
    let mtsp = table.get(panel, "mtsp", at.clone(), metric)?;
    let (_, best) = best_other(table, panel, at, metric)?;
    Some(ratio(best, mtsp))
}

const FIGURE_6: Experiment = Experiment {
    name: "mtsp-ldp-fig6",
    place: "Figure 6",
    title: "counting queries",
    caption: "Errors of the share of users that hold a value at a timestamp, mean over values and timestamps: by ε at \
              w = 20, and by w at ε = 1. The paper does not say which ε and w it keeps.",
    data: &DATA,
    repeats: repeats(10),
    seconds: 60,
    measure: |session| measure(session, &[Metric::Mae, Metric::Mre]),
    panels: |table| error_panels(table, "mae", "mre"),
    published: &[],
    claims: &[
        Claim {
            text: "The errors of all methods decrease as ε goes from 0.5 to 5.",
            place: "section 5.3.1",
            check: |table| {
                let falling = |metric: &str| falls(table, metric, METHODS, |panel| panel.ends_with(BY_EPSILON));
                both(["mae", "mre"], falling, Demand::Everywhere)
            },
        },
        Claim {
            text: "The errors of all methods increase as w goes from 10 to 50.",
            place: "section 5.3.1",
            check: |table| {
                let rising = |metric: &str| rises(table, metric, METHODS, |panel| panel.ends_with(BY_WINDOW));
                both(["mae", "mre"], rising, Demand::Everywhere)
            },
        },
        Claim {
            text: "MTSP-LDP is consistently more accurate than LBA, LBD, LSP and LBU.",
            place: "section 5.3.1",
            check: |table| {
                both(["mae", "mre"], |metric| all_below(table, metric, &["mtsp"], OTHERS), Demand::Everywhere)
            },
        },
        Claim {
            text: "Its advantage is largest where the budget is small.",
            place: "section 5.3.1",
            check: |table| both(["mae", "mre"], |metric| advantage_at_small_budgets(table, metric), Demand::Everywhere),
        },
        Claim {
            text: "It tells something: its errors are below those of publishing the uniform distribution.",
            place: ASKED_HERE,
            check: |table| {
                both(["mae", "mre"], |metric| all_below(table, metric, &["mtsp"], &["constant"]), Demand::Everywhere)
            },
        },
    ],
    notes: &["Relative errors are relative to the true share, or to 0.001 where that is larger."],
};

/// Whether the one lead is larger than the other, and a lead at all.
fn larger_advantage(lead: Summary, other: Summary) -> Decision {
    let none = Summary { mean: 1.0, standard_error: Some(0.0) };
    match (smaller(none, lead), smaller(other, lead)) {
        (Decision::Yes, Decision::Yes) => Decision::Yes,
        (Decision::No, _) | (_, Decision::No) => Decision::No,
        _ => Decision::Unclear,
    }
}

/// The lead over the best of the others at ε = 0.5 is larger than that at ε = 5.
fn advantage_at_small_budgets(table: &Results, metric: &str) -> Tally {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| panel.ends_with(BY_EPSILON)) {
        let at = |epsilon: f64| lead(table, panel, &At::Number(epsilon), metric);
        if let Some((small, large)) = at(0.5).zip(at(5.0)) {
            let what = format!("{panel}: best other / mtsp {} at 0.5, {} at 5", short(small), short(large));
            tally.add(larger_advantage(small, large), what);
        }
    }
    tally
}

const FIGURE_7: Experiment = Experiment {
    name: "mtsp-ldp-fig7",
    place: "Figure 7",
    title: "range queries",
    caption: "Errors of the share of users that held a value of a range over a period, mean over 50 random ranges and \
              periods of 1 to w timestamps: by ε at w = 20, and by w at ε = 1.",
    data: &DATA,
    repeats: repeats(10),
    seconds: 1,
    measure: |session| measure(session, &[Metric::RangeMae, Metric::RangeMre]),
    panels: |table| error_panels(table, "range_mae", "range_mre"),
    published: &[],
    claims: &[
        Claim {
            text: "MTSP-LDP consistently has the lowest errors, at all settings.",
            place: "section 5.3.2",
            check: |table| both(["range_mae", "range_mre"], |metric| lowest(table, metric), Demand::Everywhere),
        },
        Claim {
            text: "Its improvement is particularly pronounced in the relative error.",
            place: "section 5.3.2",
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels() {
                    for at in table.places(panel) {
                        let lead = |metric: &str| lead(table, panel, at, metric);
                        if let Some((absolute, relative)) = lead("range_mae").zip(lead("range_mre")) {
                            let what = format!(
                                "{panel} at {at}: best other / mtsp {} absolute, {} relative",
                                short(absolute),
                                short(relative)
                            );
                            tally.add(larger_advantage(relative, absolute), what);
                        }
                    }
                }
                tally.judge(Demand::Mostly)
            },
        },
        Claim {
            text: "It tells something: its errors are below those of publishing the uniform distribution.",
            place: ASKED_HERE,
            check: |table| {
                let below = |metric: &str| all_below(table, metric, &["mtsp"], &["constant"]);
                both(["range_mae", "range_mre"], below, Demand::Everywhere)
            },
        },
    ],
    notes: &[
        "The paper's baselines sum shares over a period where MTSP-LDP takes their mean, as printed; here all take \
         the mean.",
        "The whole domain is not among the ranges: its share is one, and known to be. Periods longer than w, which \
         the paper has, are left out.",
        "Runs are those of figure 6.",
    ],
};
