//! Figures 7, 9 and 10: gazes, and running time.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::{Axis, Panel, Point, Series};
use tidegate_lab::stream::{DataStream, as_float};
use tidegate_lab::subjects;

use super::figures_3_and_4::other;
use super::{Line, PAPER_FORM, RR_TWICE, TWICE, add, batch, batch_by_distance, by_distance, of_order_2, plain};
use crate::verdict::{Demand, Tally, all_below, digits, smaller_than_times};
use crate::{
    ASKED_HERE, At, Claim, Cut, Experiment, PaperData, PreparedStream, ReproduceError, Results, Session, lines, named,
    repeats, settings,
};

pub(super) const GAZE: PaperData = PaperData {
    set: "eye_irf_lookatpoint",
    paper: "Mojo: ten people, some five hours each, 50 positions a second, a grid of 100 x 100",
    difference: Some("one of six people for 12 seconds; the model is learned from 81 seconds of each of the six"),
};

pub(super) fn gaze(session: &Session<'_>) -> Result<Option<PreparedStream>, ReproduceError> {
    session.dataset(GAZE.set, Cut { population: Some(1), length: Some(session.size(600, 20)) })
}

const TRUE_PATH: &str = "the true path";
const PATHS: [Line; 4] =
    [plain("rr"), by_distance("crr, by distance", "crr"), batch_by_distance("batched, 10", 10), plain(PAPER_FORM)];

pub(super) const FIGURE_7: Experiment = Experiment {
    name: "sequence-privacy-fig7",
    place: "Figure 7",
    title: "a path of gazes",
    caption: "Where one person looked for 12 seconds, and what is released of it at ε = 0.2 for each position, 10 a \
              second.",
    data: &[GAZE],
    repeats: repeats(1),
    seconds: 10,
    measure: |session| {
        let mut table = Results::new();
        let Some(prepared) = gaze(session)? else { return Ok(table) };
        let DataStream::Symbols(stream) = prepared.stream() else { return Ok(table) };
        let space = stream.space();
        let mut push = |panel: &str, sequence: &[u32]| {
            for symbol in sequence {
                let (column, row) = space.place(*symbol);
                table.push_exact(panel, "gaze", f64::from(column), "row", f64::from(row));
            }
        };
        stream.sequences().iter().for_each(|sequence| push(TRUE_PATH, sequence));
        for line in PATHS {
            let batch = NonZeroUsize::new(line.batch).unwrap_or(NonZeroUsize::MIN);
            let settings = TrialSettings { batch, distance: line.distance, ..settings(0.2, 1)? };
            let subject = subjects::by_name(line.mechanism)?;
            let Some(subject) = subject.on_symbols() else { continue };
            let outcome = subject.run(stream, &settings, &mut session.random(0)).map_err(other)?;
            outcome.sequences.iter().for_each(|sequence| push(line.series, sequence));
        }
        Ok(table)
    },
    panels: |table| {
        let axis = |label: &str| Axis { limits: Some((0.0, 100.0)), ..Axis::linear(label) };
        let panel = |panel: &&str| {
            let points = table.along(panel, "gaze", "row").into_iter().filter_map(|(at, row)| match at {
                At::Number(column) => Some(Point::new(*column, row.mean)),
                At::Name(_) => None,
            });
            Panel::curves(*panel, axis("column"), axis("row"), vec![Series::new("gaze", points.collect())])
        };
        table.panels().iter().map(panel).collect()
    },
    published: &[],
    claims: &[],
    notes: &[
        "How far each is from the true path is measured in figure 9. The paper says nothing of this picture that \
         could be checked.",
    ],
};

/// Batches at small ε, where the paper has them: ten symbols at 1 are worth what a channel can spend at most.
const BATCH_EPSILONS: [f64; 3] = [0.2, 0.5, 1.0];

const GAZE_BATCHES: [Line; 2] = [batch_by_distance("batched, 5", 5), batch_by_distance("batched, 10", 10)];

const GAZE_EPSILONS: [f64; 5] = [0.2, 0.5, 1.0, 2.0, 3.0];

const GAZE_SERIES: [Line; 8] = [
    plain("rr"),
    RR_TWICE,
    plain("oue"),
    plain("crr"),
    by_distance("crr, by distance", "crr"),
    by_distance("crr_robust, by distance", "crr_robust"),
    plain(PAPER_FORM),
    plain("constant"),
];

const EUCLIDEAN: &str = "euclidean";

pub(super) const FIGURE_9: Experiment = Experiment {
    name: "sequence-privacy-fig9",
    place: "Figure 9(a)",
    title: "gazes",
    caption: "Mean Euclidean distance in cells of the answered position from the true one over ε, with a model of \
              order 1. \"By distance\" is the channel that makes this small; the others make the number of wrong \
              cells small.",
    data: &[GAZE],
    repeats: repeats(3),
    seconds: 120,
    measure: |session| {
        let mut table = Results::new();
        if let Some(stream) = gaze(session)? {
            add(
                &mut table,
                session,
                (GAZE.set, &stream),
                &GAZE_SERIES,
                &GAZE_EPSILONS,
                &[Metric::Euclidean, Metric::ErrorRate],
            )?;
            let metrics = [Metric::Euclidean, Metric::ErrorRate];
            add(&mut table, session, (GAZE.set, &stream), &GAZE_BATCHES, &BATCH_EPSILONS, &metrics)?;
        }
        Ok(table)
    },
    panels: |table| {
        let mut panels = lines(table, EUCLIDEAN, &Axis::linear("ε"), &Axis::log("mean distance in cells"), |_| true);
        let wrong = lines(table, "error_rate", &Axis::linear("ε"), &Axis::linear("share of wrong cells"), |_| true);
        panels.extend(named(wrong, |panel| format!("{panel}, wrong cells")));
        panels
    },
    published: &[],
    claims: &[
        Claim {
            text: "Single symbols are better than LDP at 2ε, with the channel made for the distance (rr stands in for \
                   Temporal LDP)",
            place: "section VI-B",
            check: |table| all_below(table, EUCLIDEAN, &["crr, by distance"], &[TWICE]).judge(Demand::Everywhere),
        },
        Claim {
            text: "So they are with the channel for the fewest wrong cells",
            place: "section VI-B",
            check: |table| all_below(table, EUCLIDEAN, &["crr"], &[TWICE]).judge(Demand::Everywhere),
        },
        LARGER_BATCHES,
        BATCHES_WIN,
        Claim {
            text: "At the same local privacy a model helps: crr_robust by distance is better than rr",
            place: ASKED_HERE,
            check: |table| all_below(table, EUCLIDEAN, &["crr_robust, by distance"], &["rr"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "Whatever is released is better than constant, the middle of the grid",
            place: ASKED_HERE,
            check: |table| {
                let all = ["rr", "oue", "crr", "crr, by distance", "crr_robust, by distance"];
                all_below(table, EUCLIDEAN, &all, &["constant"]).judge(Demand::Everywhere)
            },
        },
    ],
    notes: &["Much of the gain is a model that has seen this very person."],
};

const LARGER_BATCHES: Claim = Claim {
    text: "Larger batches are better: ten symbols together than five",
    place: "section VI-B",
    check: |table| all_below(table, EUCLIDEAN, &["batched, 10"], &["batched, 5"]).judge(Demand::Everywhere),
};

const BATCHES_WIN: Claim = Claim {
    text: "Batches are better than all others: than single symbols, and than LDP at ε and 2ε",
    place: "section VI-B",
    check: |table| {
        let batches = ["batched, 5", "batched, 10"];
        all_below(table, EUCLIDEAN, &batches, &["crr, by distance", "rr", TWICE]).judge(Demand::Everywhere)
    },
};

const SECOND_ORDER: [Line; 5] = [
    plain("rr"),
    RR_TWICE,
    of_order_2(by_distance("crr, by distance", "crr")),
    of_order_2(batch_by_distance("batched, 5", 5)),
    of_order_2(batch_by_distance("batched, 10", 10)),
];

const FIRST_ORDER: &str = "crr, order 1";

pub(super) const FIGURE_9B: Experiment = Experiment {
    name: "sequence-privacy-fig9b",
    place: "Figure 9(b)",
    title: "gazes, with a model of order 2",
    caption: "Mean Euclidean distance in cells of the answered position from the true one over ε, with a model of \
              order 2. All channels make this distance small.",
    data: &[GAZE],
    repeats: repeats(3),
    seconds: 100,
    measure: |session| {
        let mut table = Results::new();
        if let Some(stream) = gaze(session)? {
            let metrics = [Metric::Euclidean];
            add(&mut table, session, (GAZE.set, &stream), &SECOND_ORDER, &BATCH_EPSILONS, &metrics)?;
            let first = [by_distance(FIRST_ORDER, "crr"), plain("constant")];
            add(&mut table, session, (GAZE.set, &stream), &first, &BATCH_EPSILONS, &metrics)?;
        }
        Ok(table)
    },
    panels: |table| lines(table, EUCLIDEAN, &Axis::linear("ε"), &Axis::log("mean distance in cells"), |_| true),
    published: &[],
    claims: &[
        Claim {
            text: "Single symbols are better than LDP at 2ε (rr stands in for Temporal LDP)",
            place: "section VI-B",
            check: |table| all_below(table, EUCLIDEAN, &["crr, by distance"], &[TWICE]).judge(Demand::Everywhere),
        },
        LARGER_BATCHES,
        BATCHES_WIN,
        Claim {
            text: "A model of order 2 is better than one of order 1, for single symbols",
            place: ASKED_HERE,
            check: |table| all_below(table, EUCLIDEAN, &["crr, by distance"], &[FIRST_ORDER]).judge(Demand::Everywhere),
        },
    ],
    notes: &["Much of the gain is a model that has seen this very person."],
};

const SECONDS: &str = "seconds";

pub(super) const FIGURE_10: Experiment = Experiment {
    name: "sequence-privacy-fig10",
    place: "Figure 10",
    title: "running time by length",
    caption: "Seconds of processor time to answer a sequence at ε = 1 over its length, on one thread, learning the \
              model included.",
    data: &[
        GAZE,
        PaperData {
            set: "markov_90",
            paper: "not in this figure",
            difference: Some("few symbols, so that there are batches"),
        },
    ],
    repeats: repeats(3),
    seconds: 25,
    measure: |session| {
        let mut table = Results::new();
        let gazes = [plain("rr"), plain("crr"), by_distance("crr, by distance", "crr"), plain(PAPER_FORM)];
        let chain = [plain("rr"), plain("crr"), batch("batched, 4", 4), plain(PAPER_FORM)];
        for (name, series, lengths) in [
            (GAZE.set, gazes.as_slice(), session.size([125, 250, 500, 1_000], [5, 10, 20, 40])),
            ("markov_90", chain.as_slice(), session.size([5_000, 10_000, 20_000, 40_000], [10, 20, 40, 80])),
        ] {
            for length in lengths {
                let Some(stream) = session.dataset(name, Cut { population: Some(1), length: Some(length) })? else {
                    continue;
                };
                for line in series {
                    let batch = NonZeroUsize::new(line.batch).unwrap_or(NonZeroUsize::MIN);
                    let settings = TrialSettings { batch, distance: line.distance, ..settings(1.0, 1)? };
                    for finding in session.sweep(&stream, &[line.mechanism], &[settings])? {
                        let times: Vec<f64> = finding.processor_times.iter().map(Duration::as_secs_f64).collect();
                        if let Some(seconds) = Summary::of(&times) {
                            table.push(name, line.series, as_float(length as u64), SECONDS, seconds);
                        }
                    }
                }
            }
        }
        Ok(table)
    },
    panels: |table| lines(table, SECONDS, &Axis::log("length"), &Axis::log("seconds"), |_| true),
    published: &[],
    claims: &[Claim {
        text: "The time of single symbols and of batches is linear in the length: at most 2.5 times as long for twice \
               the length, at the end",
        place: "section VI-B",
        check: |table| {
            let mut tally = Tally::new();
            for panel in table.panels() {
                for series in table.series(panel) {
                    let times = table.along(panel, series, SECONDS);
                    if let [.., (_, half), (_, whole)] = times.as_slice() {
                        let growth = digits(whole.mean / half.mean.max(f64::MIN_POSITIVE), 2);
                        let what = format!("{panel}, {series}: {growth} times as long");
                        tally.add(smaller_than_times(*whole, 2.5, *half), what);
                    }
                }
            }
            tally.judge(Demand::Everywhere)
        },
    }],
    notes: &[
        "Processor time, so that other programs of this machine count little. Unlike all other numbers, times are not \
         the same in each run. Where the system does not tell a thread's processor time, elapsed time.",
    ],
};
