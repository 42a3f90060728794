//! Online context-aware streaming data release with sequence information privacy: a user's symbols, with a model of
//! what comes next.

mod figure_5;
mod figure_6;
mod figure_6b;
mod figure_8;
mod figures_3_and_4;
mod gaze;

use std::num::NonZeroUsize;

use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::Metric;
use tidegate_lab::sequence::SymbolDistance;

use crate::compare::metric_of;
use crate::{Omitted, Paper, PreparedStream, ReproduceError, Results, Session, settings};
use figure_5::FIGURE_5;
use figure_6::FIGURE_6;
use figure_6b::FIGURE_6B;
use figure_8::FIGURE_8;
use figures_3_and_4::FIGURES_3_AND_4;
use gaze::{FIGURE_7, FIGURE_9, FIGURE_9B, FIGURE_10};

pub(super) static PAPER: Paper = Paper {
    name: "sequence-privacy",
    title: "Online context-aware streaming data release with sequence information privacy",
    reference: "Jiang, Li and Tandon, IEEE Transactions on Information Forensics and Security 19, 2024",
    differences: &[
        "The mechanism for single symbols, as published, gives away more than epsilon wherever a symbol is believed \
         in less than 1/(e^ε + 1), without bound as the belief falls. crr is the best channel that keeps epsilon; \
         paper_crr_not_private is the published one.",
        "The paper's algorithm for batches stops where it begins, and its rows do not add up to one. batched makes a \
         channel for batches from clusters of sequences.",
        "The paper keeps tables of the batches that were observed. Where there are too many batches to tell apart, \
         batched tells the 512 likeliest apart, and of every other batch the middle symbol: so each batch that a user \
         may have is answered, and protected.",
        "The paper counts which observed batch follows which. Here a batch follows from the chain of symbols. Counts \
         of batches of the very data that are released know most of them by heart: long ones occur once.",
        "As in the paper, ε is spent on each symbol, and means sequence information privacy for crr and batched, \
         local differential privacy for rr and oue. The first is only 2ε in the sense of the second: so crr is to be \
         seen between rr at ε and rr at 2ε. crr_robust, at half of ε, is ε-LDP whatever the model.",
        "Models are learned from the very sequences that are released, as in the paper. That is right for measuring \
         errors, and wrong in earnest.",
        "constant always answers with the symbol in the middle, and spends nothing.",
    ],
    experiments: &[FIGURES_3_AND_4, FIGURE_5, FIGURE_6, FIGURE_6B, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_9B, FIGURE_10],
    omitted: &[
        Omitted {
            what: "Least leakage at a bounded noise (figures 3 and 4, last panel)",
            why: "The bound is not given, nor is the derivation, which is in a supplement. What both steps give away \
                  is shown instead.",
        },
        Omitted {
            what: "ToPS in figures 5 and 6, Temporal LDP in figures 7 to 10",
            why: "Mechanisms of other papers, which are not built here. Randomised response and unary encoding stand \
                  for mechanisms without a model.",
        },
        Omitted {
            what: "Figure 8 with a neural network",
            why: "Neither the network nor its training is described well enough to be built. An attacker who knows \
                  each person's chain, and takes the likeliest, is measured instead.",
        },
        Omitted {
            what: "Mutual information privacy (table I)",
            why: "The text defines the notion, and no mechanism: those that it cites learn a policy by reinforcement. \
                  No figure measures one.",
        },
        Omitted {
            what: "Table I",
            why: "It compares notions of privacy and measures nothing. The cost of a step, O(d) there, is O(d²) with \
                  a dense model.",
        },
    ],
};

const PAPER_FORM: &str = "paper_crr_not_private";
const TWICE: &str = "rr at 2ε";

/// A series of a figure: a mechanism with what distinguishes it from the others.
#[derive(Clone, Copy)]
struct Line {
    series: &'static str,
    mechanism: &'static str,
    /// Its epsilon, in multiples of that of the place where it is shown.
    times: f64,
    batch: usize,
    distance: SymbolDistance,
    /// The order of its model.
    order: u8,
}

const fn plain(mechanism: &'static str) -> Line {
    Line { series: mechanism, mechanism, times: 1.0, batch: 2, distance: SymbolDistance::Hamming, order: 1 }
}

const fn batch(series: &'static str, batch: usize) -> Line {
    Line { series, batch, ..plain("batched") }
}

const fn by_distance(series: &'static str, mechanism: &'static str) -> Line {
    Line { series, distance: SymbolDistance::Absolute, ..plain(mechanism) }
}

const fn batch_by_distance(series: &'static str, batch: usize) -> Line {
    Line { batch, ..by_distance(series, "batched") }
}

/// The same with a model of order 2.
const fn of_order_2(line: Line) -> Line {
    Line { order: 2, ..line }
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
        let with = |epsilon: f64| -> Result<TrialSettings, ReproduceError> {
            let batch = NonZeroUsize::new(line.batch).unwrap_or(NonZeroUsize::MIN);
            Ok(TrialSettings {
                batch,
                distance: line.distance,
                order: line.order,
                ..settings(line.times * epsilon, 1)?
            })
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
