//! LDP-IDS: local differential privacy for infinite data streams.

use tidegate_kernel::oracle::OracleKind;

use crate::verdict::{
    Decision, Demand, Judgement, Tally, Verdict, all_below, all_below_where, digits, falls, near, ratio, rises, short,
    smaller, smaller_than_times,
};
use crate::{
    At, Claim, Cut, Experiment, Omitted, Paper, PaperData, Place, PreparedStream, PublishedNumber, ReproduceError,
    Results, Session, bars, curves, lines, named, repeats, settings,
};
use tidegate_lab::datasets::DEFAULT_LENGTH;
use tidegate_lab::experiment::Settings;
use tidegate_lab::generate::Process;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::{Axis, Panel};
use tidegate_lab::stream::CountStream;

pub(super) static PAPER: Paper = Paper {
    name: "ldp-ids",
    title: "LDP-IDS: local differential privacy for infinite data streams",
    reference: "Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS. Local Differential Privacy for Infinite Data Streams. SIGMOD 2022.",
    differences: &[
        "The error that publishing would cost has the factor 1/d in its frequency term, which the paper lost, and the \
         variance of sampling users. Both decide when the adaptive methods publish.",
        "The dissimilarity question spends ε/(2w). The text's 2ε/w is a misprint: it would spend twice the budget.",
        "Groups of users are ranges of hashed slots rather than lists.",
        "The relative error of a frequency is taken relative to the true one, or to 0.001 where that is larger; the paper does \
         not say what it does where nobody holds a value.",
    ],
    experiments: &[FIGURE_4, FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8, TABLE_2],
    omitted: &[
        Omitted {
            what: "Taobao in figures 4, 5 and 7 and in table 2",
            why: "The 1,023,154 customers' clicks on advertisements are not to be had. What is, is another release of Taobao's, \
                  in slices of 815 users or of 130 minutes: too little for a stream of 432 timestamps over 117 categories.",
        },
        Omitted {
            what: "Figures 1 to 3 and table 1",
            why: "They illustrate the problem, the two ways of dividing and earlier work; nothing in them was measured.",
        },
    ],
};

const BUDGET: &[&str] = &["lbu", "lbd", "lba"];
const POPULATION: &[&str] = &["lsp", "lpu", "lpd", "lpa"];
const MECHANISMS: &[&str] = &["lbu", "lbd", "lba", "lsp", "lpu", "lpd", "lpa"];
/// With the baseline at the end.
const ALL: &[&str] = &["lbu", "lbd", "lba", "lsp", "lpu", "lpd", "lpa", "constant"];

const LNS: PaperData =
    PaperData { set: "lns", paper: "LNS: 800 timestamps, 200,000 users, 2 values", difference: None };
const SIN: PaperData =
    PaperData { set: "sin", paper: "Sin: 800 timestamps, 200,000 users, 2 values", difference: None };
const LOG: PaperData =
    PaperData { set: "log", paper: "Log: 800 timestamps, 200,000 users, 2 values", difference: None };
const TAXI: PaperData = PaperData {
    set: "tdrive_counts",
    paper: "Taxi: 10,357 taxis of Beijing, 886 timestamps of ten minutes, 5 cells",
    difference: Some(
        "The same taxis, counted in 64 cells every five minutes by others. Here: every second timestamp (889), and cells joined \
         to 5 in the order of the file, because how the paper cut the city is not said. 3923 to 9662 taxis at a time.",
    ),
};
const FOURSQUARE: PaperData = PaperData {
    set: "foursquare_lbsn2vec",
    paper: "Foursquare: 265,149 users, 447 timestamps, 77 countries",
    difference: Some(
        "Check-ins of 20,159 users in four cities by the same collector. Here: 447 days, the category of the last check-in, \
         categories joined to 77 in the order of their numbers, frequencies kept among 265,149 users. The noise of a sample of \
         20,159 is scaled with them.",
    ),
};

const CELLS_OF_TAXI: usize = 5;
const COUNTRIES: usize = 77;
const USERS_OF_FOURSQUARE: u64 = 265_149;

/// The stream that stands for a data set, as its note says.
fn stream(session: &Session<'_>, data: &PaperData) -> Result<Option<PreparedStream>, ReproduceError> {
    let cut = match data.set {
        "foursquare_lbsn2vec" => Cut { population: Some(USERS_OF_FOURSQUARE), length: None },
        _ => Cut::default(),
    };
    let Some(loaded) = session.dataset(data.set, cut)? else { return Ok(None) };
    let (groups, stride) = match data.set {
        "tdrive_counts" => (CELLS_OF_TAXI, 2),
        "foursquare_lbsn2vec" => (COUNTRIES, 1),
        _ => return Ok(Some(loaded)),
    };
    let Some(counts) = loaded.counts() else { return Ok(None) };
    let joined = session.made(&format!("{} in {groups}", data.set), |_| Ok(joined(counts, groups, stride)?.into()))?;
    Ok(Some(joined))
}

/// Every `stride`-th timestamp, with the values joined to so many groups of neighbours.
fn joined(stream: &CountStream, groups: usize, stride: usize) -> Result<CountStream, ReproduceError> {
    let rows = stream.counts().iter().step_by(stride).map(|row| {
        let mut joined = vec![0; groups];
        row.iter().enumerate().for_each(|(value, count)| joined[value * groups / row.len()] += count);
        joined
    });
    let labels = (0..groups).map(|group| format!("group {group}")).collect();
    Ok(CountStream::new(stream.name(), labels, rows.collect())?)
}

/// The paper's analysis has generalised randomised response, which is best for two values. Over wider domains the
/// mechanisms use optimised unary encoding, which is nearly the best there, and quick to simulate.
fn with_oracle(settings: Settings, stream: &PreparedStream) -> Settings {
    let wide = stream.counts().is_some_and(|counts| counts.domain() > 2);
    let oracle = if wide { OracleKind::Oue } else { OracleKind::Grr };
    Settings { oracle: Some(oracle), ..settings }
}

/// What the panels call a data set.
fn title(panel: &str) -> String {
    match panel {
        "lns" => "LNS".to_owned(),
        "sin" => "Sin".to_owned(),
        "log" => "Log".to_owned(),
        "tdrive_counts" => "Taxi (stand-in)".to_owned(),
        "foursquare_lbsn2vec" => "Foursquare (stand-in)".to_owned(),
        other => other.to_owned(),
    }
}

/// Adds a metric of every mechanism with these settings, each at its place.
fn sweep(
    session: &Session<'_>,
    stream: &PreparedStream,
    choices: &[(At, Settings)],
    (panel, metric): (&str, Metric),
    table: &mut Results,
) -> Result<(), ReproduceError> {
    let settings: Vec<_> = choices.iter().map(|(_, settings)| with_oracle(settings.clone(), stream)).collect();
    let findings = session.sweep(stream, ALL, &settings)?;
    for (finding, (at, _)) in findings.iter().zip(choices.iter().cycle()) {
        let summary = finding.metrics.iter().find(|(other, _)| *other == metric);
        if let Some((_, summary)) = summary {
            table.push(panel, finding.mechanism, at.clone(), metric.name(), *summary);
        }
    }
    Ok(())
}

fn by_epsilon(budgets: &[f64], window: u64) -> Result<Vec<(At, Settings)>, ReproduceError> {
    budgets.iter().map(|epsilon| Ok((At::from(*epsilon), settings(*epsilon, window)?))).collect()
}

fn by_window(epsilon: f64, windows: &[u32]) -> Result<Vec<(At, Settings)>, ReproduceError> {
    let one = |window: &u32| Ok((At::from(f64::from(*window)), settings(epsilon, u64::from(*window))?));
    windows.iter().map(one).collect()
}

const BUDGETS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 2.5];
const WINDOWS: [u32; 5] = [10, 20, 30, 40, 50];
const STREAMS: [PaperData; 5] = [LNS, SIN, LOG, TAXI, FOURSQUARE];

const FIGURE_4: Experiment = Experiment {
    name: "ldp-ids-fig4",
    place: "Figure 4",
    title: "error by privacy budget",
    caption: "Mean relative error of the released histograms over the budget ε of any window of 20 timestamps. lbu, lbd and \
              lba divide the budget; lpu, lpd and lpa divide the users; lsp asks everyone once a window.",
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

const FIGURE_5: Experiment = Experiment {
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

const POPULATIONS: [u32; 5] = [25_000, 50_000, 100_000, 200_000, 400_000];
const DEVIATIONS: [f64; 5] = [0.001, 0.002, 0.004, 0.008, 0.016];
const RATES: [f64; 5] = [0.005, 0.01, 0.02, 0.05, 0.1];
const BY_USERS_LNS: &str = "LNS by users";
const BY_USERS_SIN: &str = "Sin by users";
const BY_DEVIATION: &str = "LNS by fluctuation";
const BY_RATE: &str = "Sin by rate";

/// A binary stream with parameters of its own.
fn process(session: &Session<'_>, process: Process, users: u64) -> Result<PreparedStream, ReproduceError> {
    let length = session.length(DEFAULT_LENGTH);
    session.made(&format!("{process:?} {users} {length}"), |random| Ok(process.generate(users, length, random)?.into()))
}

fn lns(deviation: f64) -> Process {
    Process::Lns { start: 0.05, deviation }
}

fn sin(rate: f64) -> Process {
    Process::Sin { amplitude: 0.05, rate, level: 0.075 }
}

const FIGURE_6: Experiment = Experiment {
    name: "ldp-ids-fig6",
    place: "Figure 6",
    title: "error by properties of the data",
    caption: "Mean relative error at ε = 1 and w = 30: by the number of users, by the standard deviation √Q of a step of LNS, \
              and by the rate b of Sin, in radians a timestamp.",
    data: &[LNS, SIN],
    repeats: repeats(16),
    seconds: 9,
    measure: figure_6,
    panels: |table| {
        let y = Axis::log("mean relative error");
        let axes = [(BY_USERS_LNS, "users"), (BY_USERS_SIN, "users"), (BY_DEVIATION, "√Q"), (BY_RATE, "b")];
        axes.into_iter()
            .flat_map(|(panel, x)| lines(table, "mre", &Axis::log(x), &y, move |other| other == panel))
            .collect()
    },
    published: &[],
    claims: &[
        Claim {
            text: "The error of all methods decreases with the number of users.",
            place: "section 7.3",
            check: |table| {
                falls(table, "mre", MECHANISMS, |panel| panel == BY_USERS_LNS || panel == BY_USERS_SIN)
                    .judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "On LNS, the error of all methods increases with Q.",
            place: "section 7.3",
            check: |table| rises(table, "mre", MECHANISMS, |panel| panel == BY_DEVIATION).judge(Demand::Everywhere),
        },
        Claim {
            text: "LBU, LBD and LBA have much larger errors than the methods that divide the population.",
            place: "section 7.3",
            check: |table| all_below(table, "mre", POPULATION, BUDGET).judge(Demand::Everywhere),
        },
        Claim {
            text: "LSP has the smallest error while √Q is small (0.001 and 0.002).",
            place: "section 7.3",
            check: |table| {
                let small = |panel: &str, at: &At| panel == BY_DEVIATION && at_most(at, 0.002);
                all_below_where(table, "mre", &["lsp"], MECHANISMS, small).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "With larger Q, LSP's error grows fast and exceeds that of LPD and LPA.",
            place: "section 7.3",
            check: |table| {
                let large = |panel: &str, at: &At| panel == BY_DEVIATION && !at_most(at, 0.008);
                all_below_where(table, "mre", &["lpd", "lpa"], &["lsp"], large).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Where Q is large, LPD and LPA are slightly worse than LPU.",
            place: "section 7.3",
            check: |table| {
                let large = |panel: &str, at: &At| panel == BY_DEVIATION && !at_most(at, 0.008);
                all_below_where(table, "mre", &["lpu"], &["lpd", "lpa"], large).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "On steady streams (small b), LPD and LPA improve on LPU.",
            place: "section 7.3",
            check: |table| {
                let steady = |panel: &str, at: &At| panel == BY_RATE && at_most(at, 0.01);
                all_below_where(table, "mre", &["lpd", "lpa"], &["lpu"], steady).judge(Demand::Everywhere)
            },
        },
    ],
    notes: &[
        "The paper's axes are pictures; of their values the text names only √Q = 0.001 and 0.002. The other values here were \
         chosen around the defaults. LNS is reflected at 0 and 1; at √Q = 0.016 that matters.",
        "LBU publishes afresh at every timestamp, however the stream moves, so that its error cannot depend on Q; its relative \
         error does only because another Q leads one and the same walk to larger or smaller shares. That is chance, and it \
         moves the other methods' relative errors as well.",
    ],
};

fn at_most(at: &At, bound: f64) -> bool {
    matches!(at, At::Number(number) if *number <= bound)
}

fn figure_6(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    let choice = settings(1.0, 30)?;
    let mut add = |panel: &str, at: f64, stream: &PreparedStream| {
        sweep(session, stream, &[(At::from(at), choice.clone())], (panel, Metric::Mre), &mut table)
    };
    for users in POPULATIONS {
        add(BY_USERS_LNS, f64::from(users), &process(session, Process::LNS, u64::from(users))?)?;
    }
    for users in POPULATIONS {
        add(BY_USERS_SIN, f64::from(users), &process(session, Process::SIN, u64::from(users))?)?;
    }
    for deviation in DEVIATIONS {
        add(BY_DEVIATION, deviation, &process(session, lns(deviation), 200_000)?)?;
    }
    for rate in RATES {
        add(BY_RATE, rate, &process(session, sin(rate), 200_000)?)?;
    }
    Ok(table)
}

/// Those that the paper's curves show, and the baseline.
const MONITORS: &[&str] = &["lba", "lsp", "lpu", "lpd", "lpa", "constant"];
const WHOLE_CURVE: &str = "whole curve";

const FIGURE_7: Experiment = Experiment {
    name: "ldp-ids-fig7",
    place: "Figure 7",
    title: "detecting events",
    caption: "ROC curves at ε = 1 and w = 50: how well timestamps are found at which the mean of the users' values lies in the \
              top quarter of its range. Values are numbered from zero; of two values the mean is the share of ones. Bands are one \
              standard error.",
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

const FIGURE_8: Experiment = Experiment {
    name: "ldp-ids-fig8",
    place: "Figure 8",
    title: "communication",
    caption: "Reports per user and timestamp (CFPU) on LNS: by the number of users, by the standard deviation √Q of a step, by ε, \
              and by w. What is not varied is 200,000 users, √Q = 0.0025, ε = 1 and w = 20.",
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

const TABLE_2_STREAMS: [PaperData; 4] = [SIN, LOG, TAXI, FOURSQUARE];
const SMALL_BUDGET: &str = "ε = 1, w = 20";
const LARGE_BUDGET: &str = "ε = 2, w = 20";
const LONG_WINDOW: &str = "ε = 2, w = 40";

const TABLE_2: Experiment = Experiment {
    name: "ldp-ids-table2",
    place: "Table 2",
    title: "communication on all data sets",
    caption: "Reports per user and timestamp (CFPU). The bars are ours; the table below has the paper's numbers beside them.",
    data: &TABLE_2_STREAMS,
    repeats: repeats(16),
    seconds: 3,
    measure: |session| {
        let mut table = Results::new();
        for (panel, epsilon, window) in [(SMALL_BUDGET, 1.0, 20), (LARGE_BUDGET, 2.0, 20), (LONG_WINDOW, 2.0, 40)] {
            for data in &TABLE_2_STREAMS {
                let Some(stream) = stream(session, data)? else { continue };
                let choice = (At::from(data.set), settings(epsilon, window)?);
                sweep(session, &stream, &[choice], (panel, Metric::Cfpu), &mut table)?;
            }
        }
        Ok(table)
    },
    panels: |table| {
        let y = Axis::log("reports per user and timestamp");
        let short_name = |name: &mut String| {
            *name = title(name).replace(" (stand-in)", "").replace("Foursquare", "Foursq.");
        };
        let mut panels = bars(table, "cfpu", &y, |_| true);
        for panel in &mut panels {
            if let tidegate_lab::plot::Scale::Names(names) = &mut panel.x.scale {
                names.iter_mut().for_each(short_name);
            }
            // It asks nobody: there is no bar to draw.
            panel.series.retain(|series| series.name != "constant");
        }
        panels
    },
    published: TABLE_2_PUBLISHED,
    claims: &[
        Claim {
            text: "The numbers themselves (here: within 5 %).",
            place: "table 2",
            check: |table| {
                let mut tally = Tally::new();
                for number in TABLE_2_PUBLISHED {
                    let at = At::from(number.at);
                    if let Some(ours) = table.get(number.panel, number.series, at.clone(), number.metric) {
                        let what = format!(
                            "{}, {} on {at}: {}, printed {}",
                            number.panel,
                            number.series,
                            short(ours),
                            digits(number.value, 4)
                        );
                        tally.add(near(ours, number.value, 0.05), what);
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Dividing the population takes much less communication than dividing the budget (here: less than a tenth).",
            place: "section 7.5",
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels() {
                    for at in table.places(panel) {
                        let get = |series: &str| table.get(panel, series, at.clone(), "cfpu");
                        for (population, budget) in
                            POPULATION.iter().flat_map(|one| BUDGET.iter().map(move |other| (one, other)))
                        {
                            if let Some((few, many)) = get(population).zip(get(budget)) {
                                let what =
                                    format!("{panel} on {at}: {population} {}, {budget} {}", short(few), short(many));
                                tally.add(smaller_than_times(few, 0.1, many), what);
                            }
                        }
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "LPD and LPA reduce it further.",
            place: "section 7.5",
            check: |table| all_below(table, "cfpu", &["lpd", "lpa"], &["lsp", "lpu"]).judge(Demand::Everywhere),
        },
    ],
    notes: &[
        "Taxi and Foursquare are stand-ins, so that the paper's numbers for them are not what should come out exactly.",
    ],
};

/// A row of table 2: a method on Sin, Log, Taxi and Foursquare.
macro_rules! row {
    ($panel:expr, $series:literal, $sin:literal, $log:literal, $taxi:literal, $foursquare:literal) => {
        [
            PublishedNumber { panel: $panel, series: $series, at: Place::Name("sin"), metric: "cfpu", value: $sin },
            PublishedNumber { panel: $panel, series: $series, at: Place::Name("log"), metric: "cfpu", value: $log },
            PublishedNumber {
                panel: $panel,
                series: $series,
                at: Place::Name("tdrive_counts"),
                metric: "cfpu",
                value: $taxi,
            },
            PublishedNumber {
                panel: $panel,
                series: $series,
                at: Place::Name("foursquare_lbsn2vec"),
                metric: "cfpu",
                value: $foursquare,
            },
        ]
    };
}

static TABLE_2_PUBLISHED: &[PublishedNumber] = [
    row!(SMALL_BUDGET, "lbu", 1.0, 1.0, 1.0, 1.0),
    row!(SMALL_BUDGET, "lbd", 1.2719, 1.2671, 1.2734, 1.2733),
    row!(SMALL_BUDGET, "lba", 1.1709, 1.1687, 1.1685, 1.1775),
    row!(SMALL_BUDGET, "lsp", 0.05, 0.05, 0.05, 0.05),
    row!(SMALL_BUDGET, "lpu", 0.05, 0.05, 0.05, 0.05),
    row!(SMALL_BUDGET, "lpd", 0.0457, 0.0457, 0.0461, 0.0458),
    row!(SMALL_BUDGET, "lpa", 0.0404, 0.0403, 0.0406, 0.0403),
    row!(LARGE_BUDGET, "lbu", 1.0, 1.0, 1.0, 1.0),
    row!(LARGE_BUDGET, "lbd", 1.28, 1.2823, 1.2762, 1.2692),
    row!(LARGE_BUDGET, "lba", 1.1731, 1.1737, 1.1682, 1.1704),
    row!(LARGE_BUDGET, "lsp", 0.05, 0.05, 0.05, 0.05),
    row!(LARGE_BUDGET, "lpu", 0.05, 0.05, 0.05, 0.05),
    row!(LARGE_BUDGET, "lpd", 0.0466, 0.0468, 0.0475, 0.0468),
    row!(LARGE_BUDGET, "lpa", 0.0414, 0.0413, 0.0425, 0.0412),
    row!(LONG_WINDOW, "lbu", 1.0, 1.0, 1.0, 1.0),
    row!(LONG_WINDOW, "lbd", 1.2643, 1.2575, 1.2641, 1.2487),
    row!(LONG_WINDOW, "lba", 1.1729, 1.1676, 1.1755, 1.1670),
    row!(LONG_WINDOW, "lsp", 0.025, 0.025, 0.025, 0.025),
    row!(LONG_WINDOW, "lpu", 0.025, 0.025, 0.025, 0.025),
    row!(LONG_WINDOW, "lpd", 0.0242, 0.0245, 0.0244, 0.0245),
    row!(LONG_WINDOW, "lpa", 0.0206, 0.0207, 0.0210, 0.0204),
]
.as_flattened();
