//! LDP-IDS: local differential privacy for infinite data streams.

mod figure_6;
mod figures_4_and_5;
mod figures_7_and_8;
mod table_2;

use tidegate_kernel::oracle::OracleKind;
use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::Metric;
use tidegate_lab::stream::CountStream;

use crate::{At, Cut, Omitted, Paper, PaperData, PreparedStream, ReproduceError, Results, Session, settings};
use figure_6::FIGURE_6;
use figures_4_and_5::{FIGURE_4, FIGURE_5};
use figures_7_and_8::{FIGURE_7, FIGURE_8};
use table_2::TABLE_2;

pub(super) static PAPER: Paper = Paper {
    name: "ldp-ids",
    title: "LDP-IDS: local differential privacy for infinite data streams",
    reference: "Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS. Local Differential Privacy for Infinite Data Streams. \
                SIGMOD 2022.",
    differences: &[
        "The error that publishing would cost has the factor 1/d in its frequency term, which the paper lost, and the \
         variance of sampling users. Both decide when the adaptive methods publish.",
        "The dissimilarity question spends ε/(2w). The text's 2ε/w is a misprint: it would spend twice the budget.",
        "Groups of users are ranges of hashed slots rather than lists.",
        "The relative error of a frequency is taken relative to the true one, or to 0.001 where that is larger; the \
         paper does not say what it does where nobody holds a value.",
    ],
    experiments: &[FIGURE_4, FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8, TABLE_2],
    omitted: &[
        Omitted {
            what: "Taobao in figures 4, 5 and 7 and in table 2",
            why: "The 1,023,154 customers' clicks on advertisements are not to be had. What is, is another release of \
                  Taobao's, in slices of 815 users or of 130 minutes: too little for a stream of 432 timestamps over \
                  117 categories.",
        },
        Omitted {
            what: "FAST, PeGaSus and RescueDP over a divided population (remark 3)",
            why: "The remark is one sentence, and measures nothing. FAST and RescueDP filter noisy samples and choose \
                  when to take them: over a divided population that is what local.track does, which asks a share at \
                  each timestamp. PeGaSus groups by a test of raw data, and the paper does not say what takes its \
                  place where only devices have them.",
        },
        Omitted {
            what: "The mean of numeric values (footnote 2)",
            why: "The paper names it and measures nothing; tidegate evaluate --mean does.",
        },
        Omitted {
            what: "Figures 1 to 3 and table 1",
            why: "They illustrate the problem, the two ways of dividing and earlier work; nothing in them was \
                  measured.",
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
        "The same taxis, counted in 64 cells every five minutes by others. Here: every second timestamp (889), and \
         cells joined to 5 in the order of the file, because how the paper cut the city is not said. 3923 to 9662 \
         taxis at a time.",
    ),
};

const FOURSQUARE: PaperData = PaperData {
    set: "foursquare_lbsn2vec",
    paper: "Foursquare: 265,149 users, 447 timestamps, 77 countries",
    difference: Some(
        "Check-ins of 20,159 users in four cities by the same collector. Here: 447 days, the category of the last \
         check-in, categories joined to 77 in the order of their numbers, frequencies kept among 265,149 users. The \
         noise of a sample of 20,159 is scaled with them.",
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
fn with_oracle(settings: TrialSettings, stream: &PreparedStream) -> TrialSettings {
    let wide = stream.counts().is_some_and(|counts| counts.domain() > 2);
    let oracle = if wide { OracleKind::Oue } else { OracleKind::Grr };
    TrialSettings { oracle: Some(oracle), ..settings }
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
    choices: &[(At, TrialSettings)],
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

fn by_epsilon(budgets: &[f64], window: u64) -> Result<Vec<(At, TrialSettings)>, ReproduceError> {
    budgets.iter().map(|epsilon| Ok((At::from(*epsilon), settings(*epsilon, window)?))).collect()
}

fn by_window(epsilon: f64, windows: &[u32]) -> Result<Vec<(At, TrialSettings)>, ReproduceError> {
    let one = |window: &u32| Ok((At::from(f64::from(*window)), settings(epsilon, u64::from(*window))?));
    windows.iter().map(one).collect()
}

const BUDGETS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 2.5];
const WINDOWS: [u32; 5] = [10, 20, 30, 40, 50];
const STREAMS: [PaperData; 5] = [LNS, SIN, LOG, TAXI, FOURSQUARE];
