//! Delay-allowed differentially private data stream release: one number at each timestamp, released some timestamps
//! later.
//!
//! Each figure is measured twice: with tidegate's mechanisms, which keep epsilon, at the paper's thresholds and bucket
//! sizes; and with the mechanisms [as printed](tidegate_lab::scalar::published), of which some do not.

mod figure_4;
mod figures_2_and_3;
mod figures_5_and_6;
mod figures_7_to_10;
mod tables;

use std::num::NonZeroU64;

use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::{Axis, Panel};
use tidegate_lab::scalar::published;
use tidegate_lab::scalar::published::THRESHOLD;
use tidegate_lab::stream::DataStream;

use crate::compare::{exactly, mean, metric_of, not};
use crate::verdict::{Decision, Demand, Judgement, Tally, all_below_where, digits, ratio, smaller};
use crate::{
    ASKED_HERE, At, Claim, Cut, Omitted, Paper, PaperData, PreparedStream, ReproduceError, Results, Session, lines,
    repeats, settings,
};
use figure_4::FIGURE_4;
use figures_2_and_3::{FIGURE_2, FIGURE_3};
use figures_5_and_6::{FIGURE_5, FIGURE_6};
use figures_7_to_10::FIGURES_7_TO_10;
use tables::{TABLE_1, TABLE_3};

pub(super) static PAPER: Paper = Paper {
    name: "delay-allowed",
    title: "Delay-allowed differentially private data stream release",
    reference: "Li, Qin, Ren, Gong, Feng, Hong and Wang, NDSS 2025",
    differences: &[
        "As published, the groups of PeGaSus and ContinGroup lose up to 1.075 times their share of epsilon in a group \
         of 100. tidegate's mechanisms have the noise that their guarantee needs, at the paper's threshold (3) and \
         sizes of buckets (100, and 10,000 for Outpatient).",
        "BucOrder draws a false bucket from the others, as the paper's text, its Theorem 3 and the authors' program \
         have it, which is private. Line 10 of Algorithm 5 as printed draws from all, and loses ln(1 + n·e^e/(n-1)) \
         instead of e: paper_bucorder_not_private, which tidegate evaluate can run.",
        "DiscontinGroup and CompOrder are private as published, with several times the noise that is needed; \
         tidegate's have less.",
        "The panels \"as printed\" have the paper's own constants, in floating point: they show what the paper \
         measured, not what may be used. Where it leaves something open, the authors' public program decides: a fifth \
         of ε goes to groups, a quarter to comparisons and to buckets; CompOrder's bounds begin at 0 and 1e9, and \
         only bounds that contradict each other are averaged.",
        "tidegate's comporder ignores bounds that contradict each other.",
        "The authors' program divides the noisy sum of a bucket by the bucket's size, the text by the number of its \
         members. Here, as in the text.",
        "constant publishes the middle of the domain and spends nothing; clamped is the naive method, moved into the \
         domain, which is free.",
        "What a contributor to a count loses is not looked at: as in the paper, the whole number of a timestamp is \
         protected, and noise is as wide as the domain.",
    ],
    experiments: &[TABLE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, FIGURES_7_TO_10, TABLE_3],
    omitted: &[
        Omitted {
            what: "DPI in Table III",
            why: "A mechanism for the distribution of a whole slot of readings, under another guarantee. The authors' \
                  program scales what it draws by the exact sum of 50 readings, which no epsilon covers, and their \
                  paper gives no adaptation to a single number that keeps one. What is printed for it is compared with \
                  what is measured here.",
        },
        Omitted {
            what: "Adapub in Table III, as measured by the authors",
            why: "In their program each group is closed at once, so that little is smoothed: 1.25 times the naive \
                  error is four fifths of ε. paper_adapub_not_private is Adapub by its own description, for tidegate \
                  evaluate; what is printed is compared with what is measured here.",
        },
        Omitted {
            what: "Table IV",
            why: "The running time of the authors' program. Table II lists methods and measures nothing.",
        },
    ],
};

const MAE: &str = "mae";
const RELATIVE: &str = "mae_over_naive";
const NAIVE: &str = "laplace";
const PRINTED: &str = ", as printed";

/// tidegate's mechanisms in the order of the paper's legend, then the baselines.
const OURS: &[&str] = &[
    "laplace",
    "pegasus",
    "pegasus_delay",
    "contin",
    "discontin_points",
    "discontin",
    "comporder",
    "bucorder_sums",
    "clamped",
    "constant",
];

/// The same as printed.
const AS_PRINTED: &[&str] = &[
    "laplace",
    "paper_pegasus_not_private",
    "paper_pegasus_delay_not_private",
    "paper_contin_not_private",
    "paper_discontin_points",
    "paper_discontin",
    "paper_comporder",
    "paper_bucorder",
    "clamped",
    "constant",
];

const COVID: PaperData = PaperData { set: "covid19_death", paper: "COVID19 DEATH, 0 to 25,974", difference: None };
const UNEMPLOYMENT: PaperData = PaperData { set: "unemployment", paper: "Unemployment, 72 to 612", difference: None };

const OUTPATIENT: PaperData =
    PaperData { set: "outpatient_ilinet", paper: "Outpatient, 27,263 to 2,260,794", difference: None };

const FOODMART: PaperData = PaperData { set: "foodmart", paper: "FoodMart, 1 to 1,559", difference: None };
const ALL_DATA: [PaperData; 4] = [COVID, UNEMPLOYMENT, OUTPATIENT, FOODMART];
const TWO: [PaperData; 2] = [UNEMPLOYMENT, OUTPATIENT];
const TENTHS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

const FILES: &str = "The authors' files, whole: the deaths are not in the order of time (each autumn stands after the \
                     following summer), and Outpatient has the same 1,212 weeks four times over. FoodMart's numbers \
                     are names of items, whose errors mean nothing. The authors' program drops the first one or two \
                     numbers of a file.";

const SETTING: &str = "As in the paper: 20 runs (5 of FoodMart, which is long), threshold 3, buckets of 100 (10,000 \
                       for Outpatient). A delay of w makes batches of w + 1 timestamps for tidegate's mechanisms, and \
                       of w as printed.";

/// Which of the series of a panel plays a method's part.
fn played_by(panel: &str, ours: &'static str) -> &'static str {
    let place = OURS.iter().position(|name| *name == ours);
    match place {
        Some(place) if panel.ends_with(PRINTED) => AS_PRINTED[place],
        _ => ours,
    }
}

fn data_of(panel: &str) -> &str {
    panel.strip_suffix(PRINTED).unwrap_or(panel)
}

fn is_printed(panel: &str) -> bool {
    panel.ends_with(PRINTED)
}

fn often(data: &PaperData) -> NonZeroU64 {
    if data.set == FOODMART.set { repeats(5) } else { repeats(20) }
}

/// The width of a stream's domain.
fn width(prepared: &PreparedStream) -> f64 {
    match prepared.stream() {
        DataStream::Numbers(stream) => stream.grid().high() - stream.grid().low(),
        DataStream::Counts(_) | DataStream::Symbols(_) => 0.0,
    }
}

/// The paper's settings for a stream.
fn like_the_paper(prepared: &PreparedStream, epsilon: f64, delay: u64) -> Result<TrialSettings, ReproduceError> {
    let buckets = Some(published::buckets(width(prepared)));
    Ok(TrialSettings { delay, threshold: Some(THRESHOLD), buckets, ..settings(epsilon, 1)? })
}

/// Runs mechanisms, and adds their errors to a panel: absolute, and relative to the naive method at the same place.
fn add(
    table: &mut Results,
    session: &Session<'_>,
    (data, panel): (&PaperData, &str),
    mechanisms: &[&str],
    settings: &[TrialSettings],
    place: impl Fn(&TrialSettings) -> At,
) -> Result<(), ReproduceError> {
    let Some(stream) = session.dataset(data.set, Cut::default())? else { return Ok(()) };
    for finding in session.sweep_repeated(often(data), &stream, mechanisms, settings)? {
        let at = place(&finding.settings);
        let Some(error) = metric_of(&finding, Metric::Mae) else { continue };
        table.push(panel, finding.mechanism, at.clone(), MAE, error);
        if let Some(naive) = table.get(panel, NAIVE, at.clone(), MAE) {
            let relative = if finding.mechanism == NAIVE { exactly(1.0) } else { ratio(error, naive) };
            table.push(panel, finding.mechanism, at, RELATIVE, relative);
        }
    }
    Ok(())
}

/// All methods over epsilon, ours and as printed.
fn over_epsilon(
    session: &Session<'_>,
    data: &[PaperData],
    epsilons: &[f64],
    delay: u64,
) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    for data in data {
        let Some(stream) = session.dataset(data.set, Cut::default())? else { continue };
        let settings: Vec<_> =
            epsilons.iter().map(|epsilon| like_the_paper(&stream, *epsilon, delay)).collect::<Result<_, _>>()?;
        let place = |settings: &TrialSettings| At::Number(settings.epsilon.as_f64());
        add(&mut table, session, (data, data.set), OURS, &settings, place)?;
        add(&mut table, session, (data, &format!("{}{PRINTED}", data.set)), AS_PRINTED, &settings, place)?;
    }
    Ok(table)
}

/// Comparisons of methods, named as ours, in the panels of one kind: each of `lower` below each of `upper`.
fn below(
    table: &Results,
    printed: bool,
    lower: &[&'static str],
    upper: &[&'static str],
    asked: impl Fn(&str, f64) -> bool,
) -> Tally {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
        let [lower, upper] =
            [lower, upper].map(|names| names.iter().map(|name| played_by(panel, name)).collect::<Vec<_>>());
        let asked = |other: &str, at: &At| other == panel && matches!(at, At::Number(at) if asked(data_of(panel), *at));
        tally.append(all_below_where(table, MAE, &lower, &upper, asked));
    }
    tally
}

/// A claim for both kinds of panels; the reason tells both, the verdict is that of what was printed where the two
/// differ in it.
fn for_both(check: impl Fn(bool) -> Judgement) -> Judgement {
    let (printed, ours) = (check(true), check(false));
    let because = format!(
        "As printed, it {}: {} With tidegate's mechanisms it {}: {}",
        printed.verdict, printed.because, ours.verdict, ours.because
    );
    Judgement { verdict: printed.verdict, because }
}

/// No significant improvement on the naive method: the paper does not say what is significant, so the scale is its own
/// figure. A method's error is nearer to the naive one than to that of discontinuous grouping, whose gain the paper
/// calls substantial.
fn no_better_than_naive(table: &Results, printed: bool, methods: &[&'static str]) -> Tally {
    let mut tally = Tally::new();
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
        for method in methods {
            for (at, naive) in table.along(panel, NAIVE, MAE) {
                let get = |ours: &'static str| table.get(panel, played_by(panel, ours), at.clone(), MAE);
                let Some((error, grouped)) = get(method).zip(get("discontin")) else { continue };
                let Some(between) = mean(&[naive, grouped]) else { continue };
                let [share, of_groups] = [error, grouped].map(|error| digits(error.mean / naive.mean, 2));
                let what = format!(
                    "{} at {at}: {} has {share} of the naive error, discontinuous grouping {of_groups}",
                    data_of(panel),
                    played_by(panel, method)
                );
                tally.add(not(smaller(error, between)), what);
            }
        }
    }
    tally
}

/// How errors move along an axis, beyond the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Rises,
    Falls,
    Both,
    Neither,
}

impl Moves {
    fn of(errors: &[Summary]) -> Self {
        let anywhere = |moved: fn(Summary, Summary) -> Decision| {
            errors
                .iter()
                .enumerate()
                .any(|(index, before)| errors[index + 1..].iter().any(|after| moved(*before, *after) == Decision::Yes))
        };
        match (anywhere(smaller), anywhere(|before, after| smaller(after, before))) {
            (true, true) => Self::Both,
            (true, false) => Self::Rises,
            (false, true) => Self::Falls,
            (false, false) => Self::Neither,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Rises => "only rises",
            Self::Falls => "only falls",
            Self::Both => "falls and rises",
            Self::Neither => "does not change beyond the noise",
        }
    }
}

/// Which of the paper's methods have a lower error than a baseline, and how often.
fn better_than(table: &Results, baseline: &'static str, printed: bool) -> Judgement {
    let mut tally = Tally::new();
    let mut parts = Vec::new();
    for method in OURS.iter().copied().filter(|name| !matches!(*name, "clamped" | "constant")) {
        let of_method = below(table, printed, &[method], &[baseline], |_, _| true);
        let (yes, no, unclear) = of_method.counts();
        if yes > 0 {
            parts.push(format!("{method} in {yes} of {}", yes + no + unclear));
        }
        tally.append(of_method);
    }
    let (yes, no, unclear) = tally.counts();
    let which = if parts.is_empty() { "none of the methods".to_owned() } else { parts.join(", ") };
    let because = format!("better beyond the noise in {yes} of {} cells, worse in {no}: {which}.", yes + no + unclear);
    Judgement { because, ..tally.judge(Demand::Everywhere) }
}

const BETTER_THAN_CONSTANT: Claim = Claim {
    text: "The methods are better than constant, the middle of the domain, which looks at nothing",
    place: ASKED_HERE,
    check: |table| for_both(|printed| better_than(table, "constant", printed)),
};

const BETTER_THAN_CLAMPED: Claim = Claim {
    text: "The methods are better than clamped, the naive method moved into the domain, which needs no delay",
    place: ASKED_HERE,
    check: |table| for_both(|printed| better_than(table, "clamped", printed)),
};

const DISCONTIN_MUCH_BETTER: Claim = Claim {
    text: "Discontinuous grouping is much more accurate than PeGaSus and continuous grouping, on all four data sets",
    place: "section VII-B",
    check: |table| {
        for_both(|printed| {
            below(table, printed, &["discontin"], &["pegasus", "pegasus_delay", "contin"], |_, _| true)
                .judge(Demand::Everywhere)
        })
    },
};

const PEGASUS_NO_BETTER: Claim = Claim {
    text: "PeGaSus is no improvement on the naive method (here: its error is nearer to the naive one than to that of \
           discontinuous grouping)",
    place: "section VII-B, claim C2",
    check: |table| for_both(|printed| no_better_than_naive(table, printed, &["pegasus"]).judge(Demand::Everywhere)),
};

const DELAYED_PEGASUS_NO_BETTER: Claim = Claim {
    text: "Neither a delay nor noise on sums improves PeGaSus significantly (here: their errors are nearer to the \
           naive one than to that of discontinuous grouping)",
    place: "section VII-B",
    check: |table| {
        for_both(|printed| no_better_than_naive(table, printed, &["pegasus_delay", "contin"]).judge(Demand::Everywhere))
    },
};

fn mae_panels(table: &Results, label: &str) -> Vec<Panel> {
    drawn(lines(table, MAE, &Axis::linear(label), &Axis::log("mean absolute error"), |_| true))
}

/// Methods under one name in all panels: the title says which are as printed.
fn drawn(mut panels: Vec<Panel>) -> Vec<Panel> {
    for series in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        let name = series.name.trim_start_matches("paper_").trim_end_matches("_not_private");
        series.name = if series.name == "paper_bucorder" { "bucorder_sums" } else { name }.to_owned();
    }
    panels
}
