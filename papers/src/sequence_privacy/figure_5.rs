//! Figure 5: errors on Markov chains.

use tidegate::sequence::hamming;
use tidegate::sequence::leakage::exact;
use tidegate::sequence::model::Model;
use tidegate_lab::generate::Chain;
use tidegate_lab::metrics::Metric;
use tidegate_lab::plot::Axis;
use tidegate_lab::sequence::paper_crr_not_private;

use super::figures_3_and_4::at_most;
use super::{Line, PAPER_FORM, RR_TWICE, TWICE, add, batch, plain};
use crate::compare::epsilon_of;
use crate::verdict::{Decision, Demand, NOISE, Tally, all_below, digits, short, smaller};
use crate::{
    ASKED_HERE, At, Claim, Cut, Experiment, PaperData, ReproduceError, Results, Session, lines, named, repeats,
};

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
pub(super) const MAE: &str = "mae";

pub(super) const FIGURE_5: Experiment = Experiment {
    name: "sequence-privacy-fig5",
    place: "Figure 5",
    title: "two chains of two symbols",
    caption: "Share of wrong symbols over ε, of 10,000 symbols of a fair coin (markov_50) and of a chain that stays \
              with probability 0.9 (markov_90). Below, exactly and for six symbols, what the worst step gives away, \
              in multiples of ε: 1 is allowed.",
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
        "batched makes channels by clusters, which is fast and misses some of the optimum. By linear programme \
         (--effort thorough) batches of 2 and 3 were better than single symbols in every case measured: see \
         docs/evaluation-sequences.md.",
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
