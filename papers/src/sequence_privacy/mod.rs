//! Online context-aware streaming data release with sequence information privacy: a user's symbols, with a model of
//! what comes next.

use std::num::NonZeroUsize;

use tidegate::sequence::hamming;
use tidegate::sequence::leakage::exact;
use tidegate::sequence::model::Model;

use crate::compare::{epsilon_of, exactly, metric_of, not};
use crate::verdict::{Decision, Demand, Judgement, NOISE, Tally, all_below, all_below_where, digits, short, smaller};
use crate::verdict::{Verdict, smaller_than_times};
use crate::{ASKED_HERE, curves, lines, named, repeats, settings};
use crate::{At, Claim, Cut, Experiment, Omitted, Paper, PaperData, PreparedStream, ReproduceError, Results, Session};
use tidegate_lab::experiment::{RunError, Settings};
use tidegate_lab::generate::Chain;
use tidegate_lab::metrics::{Metric, Summary};
use tidegate_lab::plot::{Axis, Panel, Point, Series};
use tidegate_lab::sequence::noise::{Answers, Noise, TwoSteps};
use tidegate_lab::sequence::{SymbolDistance, paper_crr_not_private};
use tidegate_lab::stream::{Stream, as_float};
use tidegate_lab::subjects;

pub(super) static PAPER: Paper = Paper {
    name: "sequence-privacy",
    title: "Online context-aware streaming data release with sequence information privacy",
    reference: "Jiang, Li and Tandon, IEEE Transactions on Information Forensics and Security 19, 2024",
    differences: &[
        "The mechanism for single symbols, as published, gives away more than epsilon wherever a symbol is believed in less than 1/(e^ε + 1), without \
         bound as the belief falls. crr is the best channel that keeps epsilon; paper_crr_not_private is the published one.",
        "The paper's algorithm for batches stops where it begins, and its rows do not add up to one. batched makes a channel for batches from clusters \
         of sequences.",
        "As in the paper, ε is spent on each symbol, and means sequence information privacy for crr and batched, local differential privacy for rr \
         and oue. The first is only 2ε in the sense of the second: so crr is to be seen between rr at ε and rr at 2ε. crr_robust, at half of \
         ε, is ε-LDP whatever the model.",
        "Models are learned from the very sequences that are released, as in the paper. That is right for measuring errors, and wrong in earnest.",
        "constant always answers with the symbol in the middle, and spends nothing.",
    ],
    experiments: &[FIGURES_3_AND_4, FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_9, FIGURE_10],
    omitted: &[
        Omitted {
            what: "Least leakage at a bounded noise (figures 3 and 4, last panel)",
            why: "The bound is not given, nor is the derivation, which is in a supplement. What both steps give away is shown instead.",
        },
        Omitted {
            what: "ToPS in figures 5 and 6, Temporal LDP in figures 7 to 10",
            why: "Mechanisms of other papers, which are not built here. Randomised response and unary encoding stand for mechanisms without a model.",
        },
        Omitted {
            what: "Figure 6(b), adaptive division of the budget",
            why: "Neither the window, nor its budget, nor how the distance to the last release is measured privately are given. What it says about unary \
                  encoding is checked in figure 6(a).",
        },
        Omitted {
            what: "Figure 8, how often a neural network recognises a person",
            why: "The data are not public, and neither the network nor its training is described well enough to be built.",
        },
        Omitted {
            what: "Figures 7 and 9 with batches and with a model of order 2",
            why: "A grid of 10,000 cells has 100 million pairs: more than can be enumerated. The paper's algorithm for batches of 5 and 10 would have 10^20 \
                  and 10^40 sequences to go through.",
        },
        Omitted {
            what: "Table I",
            why: "It compares notions of privacy and measures nothing. The cost of a step, O(d) there, is O(d²) with a dense model.",
        },
    ],
};

const PAPER_FORM: &str = "paper_crr_not_private";
const TWICE: &str = "rr at 2ε";

const HALF: &str = "first symbol even (figure 3)";
const SKEWED: &str = "first symbol 1 with probability 0.95 (figure 4)";
const PRIORS: [(&str, f64); 2] = [(HALF, 0.5), (SKEWED, 0.95)];
const PRINTED: &str = "as printed";
const UNRELATED: &str = "as printed, first answer ignored";
const FORMS: [(&str, Answers); 3] =
    [(PRINTED, Answers::Published), (UNRELATED, Answers::PublishedUnrelated), ("crr", Answers::Crr)];
const CORRELATION: &str = "noise_correlation";
const INFORMATION: &str = "noise_information";
const SECOND: &str = "second_noise";
const LEAKAGE: &str = "leakage";
/// A metric's name, what its axis says, and where it is.
type NoiseMetric = (&'static str, &'static str, fn(&Noise) -> f64);
const NOISE_METRICS: [NoiseMetric; 4] = [
    (CORRELATION, "correlation of the noise", |noise| noise.correlation),
    (INFORMATION, "information of one noise on the other, nats", |noise| noise.information),
    (SECOND, "share of wrong second answers", |noise| noise.second),
    (LEAKAGE, "leakage of both steps", |noise| noise.leakage),
];

const FIGURES_3_AND_4: Experiment = Experiment {
    name: "sequence-privacy-fig3",
    place: "Figures 3 and 4",
    title: "how the noise of two steps hangs together",
    caption: "Two symbols, the second of which is another than the first with some probability; both are answered at ε = 1, and the noise of a step is \
              1 where the answer is wrong. Over the correlation of the symbols: that of the noise, what one noise tells about the other, how often the \
              second answer is wrong, and what both give away together, of which 2 is allowed. All exact.",
    data: &[],
    repeats: repeats(1),
    seconds: 0,
    measure: |_| {
        let mut table = Results::new();
        let epsilon = epsilon_of(1.0)?;
        for (panel, first) in PRIORS {
            for (series, answers) in FORMS {
                // From the strongest negative correlation to the strongest positive.
                for step in (0..=40_u32).rev() {
                    let chain = TwoSteps { first, flip: f64::from(step) / 40.0 };
                    let noise = chain.noise(epsilon, answers).map_err(other)?;
                    for (metric, _, value) in NOISE_METRICS {
                        table.push_exact(panel, series, noise.symbols_correlation, metric, value(&noise));
                    }
                }
            }
        }
        Ok(table)
    },
    panels: |table| {
        let panels = NOISE_METRICS.into_iter().flat_map(|(metric, label, _)| {
            let panels =
                curves(table, metric, &Axis::linear("correlation of the symbols"), &Axis::linear(label), |_| true);
            panels.into_iter().map(|panel| Panel {
                title: if panel.title == HALF { "Figure 3" } else { "Figure 4" }.to_owned(),
                ..panel
            })
        });
        panels.collect()
    },
    published: &[],
    claims: &[
        Claim {
            text: "The noise is the less correlated the less the symbols are",
            place: "section IV-C",
            check: |table| towards_zero(table, &[PRINTED], CORRELATION, |nearer, farther| nearer <= farther + 1e-12),
        },
        Claim {
            text: "Where the symbols are independent, so is the noise",
            place: "section IV-C",
            check: |table| {
                let mut tally = Tally::new();
                for (panel, _) in PRIORS {
                    for (series, _) in FORMS {
                        for (at, value) in table.along(panel, series, INFORMATION) {
                            if matches!(at, At::Number(at) if at.abs() < 1e-9) {
                                let answer = if value.mean < 1e-9 { Decision::Yes } else { Decision::No };
                                tally.add(answer, format!("{panel}, {series}: {} nats", digits(value.mean, 2)));
                            }
                        }
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "The more correlated the symbols, the less noise is needed for the second",
            place: "section IV-C",
            check: |table| towards_zero(table, &[PRINTED], SECOND, |nearer, farther| nearer >= farther - 1e-12),
        },
        Claim {
            text: "With crr, which keeps epsilon, too, less noise is needed the more correlated the symbols are",
            place: ASKED_HERE,
            check: |table| towards_zero(table, &["crr"], SECOND, |nearer, farther| nearer >= farther - 1e-12),
        },
        Claim {
            text: "A skewed first symbol makes the noise more correlated than an even one",
            place: "section IV-C",
            check: |table| {
                let mut tally = Tally::new();
                for end in [-1.0, 1.0] {
                    let at_end = |panel: &str| {
                        table.along(panel, PRINTED, CORRELATION).into_iter().find_map(|(at, value)| {
                            matches!(at, At::Number(at) if (at - end).abs() < 1e-9).then_some(value)
                        })
                    };
                    if let Some((even, skewed)) = at_end(HALF).zip(at_end(SKEWED)) {
                        let what = format!("at {end}: {} (even), {} (skewed)", short(even), short(skewed));
                        tally.add(smaller(exactly(even.mean.abs()), exactly(skewed.mean.abs())), what);
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Both steps together give away at most 2ε, as published",
            place: "theorems 1 and 4",
            check: |table| at_most(table, PRINTED, LEAKAGE, 2.0),
        },
        Claim {
            text: "Both steps of crr together give away at most 2ε",
            place: ASKED_HERE,
            check: |table| at_most(table, "crr", LEAKAGE, 2.0),
        },
    ],
    notes: &["The paper does not give the ε of its figures; here it is 1 for each step."],
};

fn other(error: RunError) -> ReproduceError {
    ReproduceError::Other(error.to_string())
}

/// Compares each pair of neighbouring places on one side of zero, the one that is nearer to it first, by absolute
/// values.
fn towards_zero(table: &Results, series: &[&str], metric: &str, as_claimed: fn(f64, f64) -> bool) -> Judgement {
    let mut tally = Tally::new();
    for (panel, _) in PRIORS {
        for name in series {
            for pair in table.along(panel, name, metric).windows(2) {
                let ((At::Number(a), of_a), (At::Number(b), of_b)) = (&pair[0], &pair[1]) else { continue };
                if a * b < 0.0 {
                    continue;
                }
                let (nearer, farther) = if a.abs() < b.abs() { ((a, of_a), (b, of_b)) } else { ((b, of_b), (a, of_a)) };
                let answer =
                    if as_claimed(nearer.1.mean.abs(), farther.1.mean.abs()) { Decision::Yes } else { Decision::No };
                let what = format!(
                    "{panel}, {name} from {} to {}: {} to {}",
                    digits(*farther.0, 2),
                    digits(*nearer.0, 2),
                    digits(farther.1.mean, 3),
                    digits(nearer.1.mean, 3)
                );
                tally.add(answer, what);
            }
        }
    }
    tally.judge(Demand::Everywhere)
}

/// No number of a series above a bound, beyond rounding and noise. It is for guarantees: one that is not kept
/// everywhere is none.
fn at_most(table: &Results, series: &str, metric: &str, bound: f64) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for (at, value) in table.along(panel, series, metric) {
            let noise = NOISE * value.standard_error.unwrap_or_default();
            let answer = if value.mean <= bound + noise + 1e-6 { Decision::Yes } else { Decision::No };
            let place = if let At::Number(at) = at { digits(*at, 2) } else { at.to_string() };
            tally.add(answer, format!("{panel} at {place}: {}", short(value)));
        }
    }
    let judgement = tally.judge(Demand::Everywhere);
    let (_, broken, _) = tally.counts();
    Judgement { verdict: if broken > 0 { Verdict::DoesNotHold } else { judgement.verdict }, ..judgement }
}

/// A series of a figure: a mechanism with what distinguishes it from the others.
#[derive(Clone, Copy)]
struct Line {
    series: &'static str,
    mechanism: &'static str,
    /// Its epsilon, in multiples of that of the place where it is shown.
    times: f64,
    batch: usize,
    distance: SymbolDistance,
}

const fn plain(mechanism: &'static str) -> Line {
    Line { series: mechanism, mechanism, times: 1.0, batch: 2, distance: SymbolDistance::Hamming }
}

const fn batch(series: &'static str, batch: usize) -> Line {
    Line { series, batch, ..plain("batched") }
}

const fn by_distance(series: &'static str, mechanism: &'static str) -> Line {
    Line { series, distance: SymbolDistance::Absolute, ..plain(mechanism) }
}

const RR_TWICE: Line = Line { series: TWICE, times: 2.0, ..plain("rr") };

/// Runs the series at each epsilon and adds the metrics.
fn add(
    table: &mut Results,
    session: &Session<'_>,
    (panel, stream): (&str, &PreparedStream),
    series: &[Line],
    epsilons: &[f64],
    metrics: &[Metric],
) -> Result<(), ReproduceError> {
    for line in series {
        let with = |epsilon: f64| -> Result<Settings, ReproduceError> {
            let batch = NonZeroUsize::new(line.batch).unwrap_or(NonZeroUsize::MIN);
            Ok(Settings { batch, distance: line.distance, ..settings(line.times * epsilon, 1)? })
        };
        let settings: Vec<_> = epsilons.iter().map(|epsilon| with(*epsilon)).collect::<Result<_, _>>()?;
        for (epsilon, finding) in epsilons.iter().zip(session.sweep(stream, &[line.mechanism], &settings)?) {
            for metric in metrics {
                if let Some(value) = metric_of(&finding, *metric) {
                    table.push(panel, line.series, *epsilon, metric.name(), value);
                }
            }
        }
    }
    Ok(())
}

const CHAIN_EPSILONS: [f64; 6] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.0];
const CHAINS: [(&str, Chain); 2] = [("markov_50", Chain::EVEN), ("markov_90", Chain::STICKY)];
const CHAIN_SERIES: [Line; 10] = [
    plain("rr"),
    RR_TWICE,
    plain("oue"),
    plain("crr"),
    plain("crr_robust"),
    batch("batched, 2", 2),
    batch("batched, 3", 3),
    batch("batched, 4", 4),
    plain(PAPER_FORM),
    plain("constant"),
];
const STEP_LEAKAGE: &str = "step_leakage_over_epsilon";
const MAE: &str = "mae";

const FIGURE_5: Experiment = Experiment {
    name: "sequence-privacy-fig5",
    place: "Figure 5",
    title: "two chains of two symbols",
    caption: "Share of wrong symbols over ε, of 10,000 symbols of a fair coin (markov_50) and of a chain that stays with probability 0.9 \
              (markov_90). Below, exactly and for six symbols, what the worst step gives away, in multiples of ε: 1 is allowed.",
    data: &[
        PaperData {
            set: "markov_50",
            paper: "case 1, \"weak correlation\": stays with probability 0.5",
            difference: None,
        },
        PaperData {
            set: "markov_90",
            paper: "case 2, strong correlation: stays with probability 0.9",
            difference: None,
        },
    ],
    repeats: repeats(20),
    seconds: 25,
    measure: figure_5,
    panels: |table| {
        let mut panels = lines(table, MAE, &Axis::linear("ε"), &Axis::log("share of wrong symbols"), |_| true);
        let leakage =
            lines(table, STEP_LEAKAGE, &Axis::linear("ε"), &Axis::linear("leakage of the worst step / ε"), |_| true);
        panels.extend(named(leakage, |panel| format!("{panel}, leakage")));
        panels
    },
    published: &[],
    claims: &[
        Claim {
            text: "A step gives away at most ε, as published",
            place: "theorem 4",
            check: |table| at_most(table, PAPER_FORM, STEP_LEAKAGE, 1.0),
        },
        Claim {
            text: "A step of crr gives away at most ε",
            place: ASKED_HERE,
            check: |table| at_most(table, "crr", STEP_LEAKAGE, 1.0),
        },
        Claim {
            text: "The error of ε-SIP lies between those of randomised response at ε and at 2ε",
            place: "section VI-A",
            check: |table| between(table, "crr").judge(Demand::Mostly),
        },
        Claim {
            text: "The error of the published form lies between those two",
            place: "section VI-A",
            check: |table| between(table, PAPER_FORM).judge(Demand::Mostly),
        },
        Claim {
            text: "With two symbols its error is at most 1/(2e^ε), which is below that of randomised response",
            place: "proposition 2",
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels() {
                    for (at, value) in table.along(panel, "crr", MAE) {
                        let At::Number(epsilon) = at else { continue };
                        let bound = 0.5 * (-epsilon).exp();
                        let noise = NOISE * value.standard_error.unwrap_or_default();
                        let answer = if value.mean <= bound + noise { Decision::Yes } else { Decision::No };
                        tally.add(answer, format!("{panel} at {at}: {}, bound {}", short(value), digits(bound, 3)));
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "The stronger the correlation, the greater the advantage of mechanisms with a model",
            place: "section VI-A",
            check: |table| {
                let mut tally = Tally::new();
                for series in ["crr", "batched, 2", "batched, 3", "batched, 4"] {
                    for (at, weak) in table.along("markov_50", series, MAE) {
                        if let Some(strong) = table.get("markov_90", series, at.clone(), MAE) {
                            let what = format!("{series} at {at}: {} and {}", short(weak), short(strong));
                            tally.add(smaller(strong, weak), what);
                        }
                    }
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Batches are always better than single symbols, and longer ones better still",
            place: "section VI-A",
            check: |table| {
                let mut tally = Tally::new();
                for pair in ["crr", "batched, 2", "batched, 3", "batched, 4"].windows(2) {
                    tally.append(all_below(table, MAE, &[pair[1]], &[pair[0]]));
                }
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "At the same local privacy a model helps: crr_robust is better than rr",
            place: ASKED_HERE,
            check: |table| all_below(table, MAE, &["crr_robust"], &["rr"]).judge(Demand::Everywhere),
        },
    ],
    notes: &[
        "The paper calls the first chain more correlated; it is a fair coin, whose symbols are independent.",
        "batched makes channels by clusters, which is fast and misses some of the optimum. By linear programme (--effort thorough) batches of 2 and 3 \
         were better than single symbols in every case measured: see docs/evaluation-sequences.md.",
    ],
};

fn between(table: &Results, series: &str) -> Tally {
    let mut tally = all_below(table, MAE, &[series], &["rr"]);
    tally.append(all_below(table, MAE, &[TWICE], &[series]));
    tally
}

fn figure_5(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    for (name, chain) in CHAINS {
        let Some(stream) = session.dataset(name, Cut::default())? else { continue };
        add(&mut table, session, (name, &stream), &CHAIN_SERIES, &CHAIN_EPSILONS, &[Metric::Mae])?;
        let failed = |error: String| ReproduceError::Other(error);
        let model = Model::dense(chain.initial().to_vec(), chain.transitions().to_vec())
            .map_err(|error| failed(error.to_string()))?;
        for epsilon in CHAIN_EPSILONS {
            let budget = epsilon_of(epsilon)?;
            for series in ["rr", "crr", PAPER_FORM] {
                let leakage = exact(&model, 1, 6, |_, belief| -> Result<Vec<Vec<f64>>, String> {
                    match series {
                        "rr" => {
                            let right = 1.0 / (1.0 + (-epsilon).exp());
                            Ok(vec![vec![right, 1.0 - right], vec![1.0 - right, right]])
                        }
                        "crr" => hamming::channel(belief, budget)
                            .map(|channel| channel.dense())
                            .map_err(|error| error.to_string()),
                        _ => Ok(paper_crr_not_private(belief, epsilon)),
                    }
                });
                let leakage = leakage.map_err(|error| failed(error.to_string()))?;
                let worst = leakage.steps.iter().copied().fold(0.0, f64::max);
                table.push_exact(name, series, epsilon, STEP_LEAKAGE, worst / epsilon);
            }
        }
    }
    Ok(table)
}

const KOSARAK: &str = "kosarak";
const MSNBC: &str = "msnbc_spmf";
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

const FIGURE_6: Experiment = Experiment {
    name: "sequence-privacy-fig6",
    place: "Figure 6(a)",
    title: "clicks",
    caption: "Mean distance |x - y| of the answered page from the true one over ε. \"By distance\" is the channel that makes this small; the others make \
              the number of wrong answers small.",
    data: &[
        PaperData {
            set: KOSARAK,
            paper: "Kosarak: 1,000 of 990,002 users, 41,270 pages",
            difference: Some("200 users of the first 100,000, from which the model is learned"),
        },
        PaperData {
            set: MSNBC,
            paper: "Kosarak",
            difference: Some("500 users of another news site with 17 categories, few enough for batches"),
        },
    ],
    repeats: repeats(2),
    seconds: 40,
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
                for panel in table.panels() {
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
            text: "ε/2-SIP, which is ε-LDP, can be better than randomised response at small ε (msnbc_spmf, up to ε = 2)",
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
        "Batches are measured up to ε = 2 only, for they take long. Those of Kosarak's pages are refused: two clicks are 1.7 billion sequences. What crr has right there is mostly what the model knew: the \
         likeliest page.",
    ],
};

fn listed(items: &[String]) -> String {
    if items.is_empty() { "never".to_owned() } else { items.join(", ") }
}

const GAZE: PaperData = PaperData {
    set: "eye_irf_lookatpoint",
    paper: "Mojo: ten people, some five hours each, 50 positions a second, a grid of 100 x 100",
    difference: Some("one of six people for 12 seconds; the model is learned from 81 seconds of each of the six"),
};

fn gaze(session: &Session<'_>) -> Result<Option<PreparedStream>, ReproduceError> {
    session.dataset(GAZE.set, Cut { population: Some(1), length: Some(session.size(600, 20)) })
}

const TRUE_PATH: &str = "the true path";
const PATHS: [Line; 3] = [plain("rr"), by_distance("crr, by distance", "crr"), plain(PAPER_FORM)];

const FIGURE_7: Experiment = Experiment {
    name: "sequence-privacy-fig7",
    place: "Figure 7",
    title: "a path of gazes",
    caption: "Where one person looked for 12 seconds, and what is released of it at ε = 0.2 for each position, 10 a second.",
    data: &[GAZE],
    repeats: repeats(1),
    seconds: 4,
    measure: |session| {
        let mut table = Results::new();
        let Some(prepared) = gaze(session)? else { return Ok(table) };
        let Stream::Symbols(stream) = prepared.stream() else { return Ok(table) };
        let space = stream.space();
        let mut push = |panel: &str, sequence: &[u32]| {
            for symbol in sequence {
                let (column, row) = space.place(*symbol);
                table.push_exact(panel, "gaze", f64::from(column), "row", f64::from(row));
            }
        };
        stream.sequences().iter().for_each(|sequence| push(TRUE_PATH, sequence));
        for line in PATHS {
            let settings = Settings { distance: line.distance, ..settings(0.2, 1)? };
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
        "How far each is from the true path is measured in figure 9. The paper says nothing of this picture that could be checked.",
    ],
};

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

const FIGURE_9: Experiment = Experiment {
    name: "sequence-privacy-fig9",
    place: "Figure 9(a)",
    title: "gazes",
    caption: "Mean Euclidean distance in cells of the answered position from the true one over ε, with a model of order 1. \"By distance\" is the channel that \
              makes this small; the others make the number of wrong cells small.",
    data: &[GAZE],
    repeats: repeats(3),
    seconds: 60,
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
            text: "Single symbols are better than LDP at 2ε, with the channel made for the distance (rr stands in for Temporal LDP)",
            place: "section VI-B",
            check: |table| all_below(table, EUCLIDEAN, &["crr, by distance"], &[TWICE]).judge(Demand::Everywhere),
        },
        Claim {
            text: "So they are with the channel for the fewest wrong cells",
            place: "section VI-B",
            check: |table| all_below(table, EUCLIDEAN, &["crr"], &[TWICE]).judge(Demand::Everywhere),
        },
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

const SECONDS: &str = "seconds";

const FIGURE_10: Experiment = Experiment {
    name: "sequence-privacy-fig10",
    place: "Figure 10",
    title: "running time by length",
    caption: "Seconds to answer a sequence at ε = 1 over its length, on one thread, learning the model included.",
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
                    let settings = Settings { batch, distance: line.distance, ..settings(1.0, 1)? };
                    for finding in session.sweep(&stream, &[line.mechanism], &[settings])? {
                        let seconds = finding.time.as_secs_f64() / as_float(session.repeats().get());
                        let seconds = Summary { mean: seconds, standard_error: None };
                        table.push(name, line.series, as_float(length as u64), SECONDS, seconds);
                    }
                }
            }
        }
        Ok(table)
    },
    panels: |table| lines(table, SECONDS, &Axis::log("length"), &Axis::log("seconds"), |_| true),
    published: &[],
    claims: &[Claim {
        text: "The time of single symbols and of batches is linear in the length: at most 2.5 times as long for twice the length, at the end",
        place: "section VI-B",
        check: |table| {
            let mut tally = Tally::new();
            for panel in table.panels() {
                for series in table.series(panel) {
                    let times = table.along(panel, series, SECONDS);
                    if let [.., (_, half), (_, whole)] = times.as_slice() {
                        let growth = whole.mean / half.mean.max(f64::MIN_POSITIVE);
                        let answer = if growth <= 2.5 { Decision::Yes } else { Decision::No };
                        tally.add(answer, format!("{panel}, {series}: {} times as long", digits(growth, 2)));
                    }
                }
            }
            tally.judge(Demand::Everywhere)
        },
    }],
    notes: &[
        "Times are those of this machine and of whatever else it was doing: unlike all other numbers they are not the same in each run.",
    ],
};
