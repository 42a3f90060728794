//! Figure 6(b): clicks, with the budget of a window divided by need.

use std::num::NonZeroU32;

use tidegate::sequence::baseline::BaselineKind;
use tidegate::sequence::distance::Distance;
use tidegate_lab::experiment::repeat_random;
use tidegate_lab::metrics::{Metric, Summary, compare_symbols};
use tidegate_lab::plot::Axis;
use tidegate_lab::sequence::adaptive::{Answerer, answer};
use tidegate_lab::sequence::learn;
use tidegate_lab::stream::DataStream;

use super::figure_5::MAE;
use super::figure_6::{KOSARAK, MSNBC};
use super::{TWICE, add, plain};
use crate::compare::epsilon_of;
use crate::verdict::{Demand, all_below};
use crate::{ASKED_HERE, Claim, Cut, Experiment, PaperData, ReproduceError, Results, Session, lines, named, repeats};

/// Steps that share a budget.
const WINDOW: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
const EPSILONS: [f64; 3] = [0.5, 1.0, 2.0];
const SERIES: [&str; 4] = ["rr", TWICE, "oue", "crr"];
const UNIFORM: [(&str, &str); 2] = [("rr", "rr, uniform"), ("crr", "crr, uniform")];

pub(super) const FIGURE_6B: Experiment = Experiment {
    name: "sequence-privacy-fig6b",
    place: "Figure 6(b)",
    title: "clicks, budget by need",
    caption: "Mean distance |x - y| of the answered page from the true one over ε. Ten steps share ten times ε: each \
              asks whether the page is another than the last answer, and spends on an answer only then.",
    data: &[
        PaperData {
            set: KOSARAK,
            paper: "Kosarak: 1,000 of 990,002 users, 41,270 pages",
            difference: Some("60 users of the first 100,000, from which the model is learned; the window is ours"),
        },
        PaperData {
            set: MSNBC,
            paper: "Kosarak",
            difference: Some("500 users of another news site with 17 categories; the window is ours"),
        },
    ],
    repeats: repeats(3),
    seconds: 60,
    measure: figure_6b,
    panels: |table| {
        let mut panels = lines(table, MAE, &Axis::linear("ε"), &Axis::log("mean distance |x - y|"), |_| true);
        let wrong = lines(table, "error_rate", &Axis::linear("ε"), &Axis::linear("share of wrong answers"), |_| true);
        panels.extend(named(wrong, |panel| format!("{panel}, wrong answers")));
        panels
    },
    published: &[],
    claims: &[
        Claim {
            text: "Division by need is better than equal shares, for every mechanism",
            place: "section VI-B",
            check: |table| {
                let mut tally = all_below(table, MAE, &["rr"], &["rr, uniform"]);
                tally.append(all_below(table, MAE, &["crr"], &["crr, uniform"]));
                tally.judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "SIP is better than LDP at ε",
            place: "section VI-B",
            check: |table| all_below(table, MAE, &["crr"], &["rr", "oue"]).judge(Demand::Everywhere),
        },
        Claim {
            text: "The same in wrong answers",
            place: ASKED_HERE,
            check: |table| all_below(table, "error_rate", &["crr"], &["rr", "oue"]).judge(Demand::Everywhere),
        },
    ],
    notes: &[
        "The text gives neither the window nor how the difference from the last release is measured. Here the window \
         has ten steps, and the question is whether the page is another one, in half of the budget, as in LDP-IDS.",
    ],
};

fn figure_6b(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    for (name, users) in [(MSNBC, session.size(500, 10)), (KOSARAK, session.size(60, 2))] {
        let Some(prepared) = session.dataset(name, Cut { population: Some(users), length: None })? else { continue };
        let DataStream::Symbols(stream) = prepared.stream() else { continue };
        let other = |error: String| ReproduceError::Other(error);
        let model = learn(stream, 1).map_err(|error| other(error.to_string()))?;
        let (repeats, seed) = (usize::try_from(session.repeats().get()).unwrap_or(usize::MAX), session.options().seed);
        let epsilons = session.size(&EPSILONS[..], &EPSILONS[..1]);
        for series in SERIES {
            let (answerer, times) = match series {
                "crr" => (Answerer::Crr(&model, &Distance::Hamming), 1.0),
                "oue" => (Answerer::Baseline(BaselineKind::Oue, stream.domain()), 1.0),
                TWICE => (Answerer::Baseline(BaselineKind::Rr, stream.domain()), 2.0),
                _ => (Answerer::Baseline(BaselineKind::Rr, stream.domain()), 1.0),
            };
            for epsilon in epsilons {
                let budget = epsilon_of(times * epsilon * f64::from(WINDOW.get()))?;
                let runs = session.in_parallel(repeats, |repeat| {
                    let random = &mut repeat_random(seed, repeat as u64);
                    let of_user = |sequence: &Vec<u32>| answer(answerer, sequence, budget, WINDOW, random);
                    let answers: Result<Vec<_>, _> = stream.sequences().iter().map(of_user).collect();
                    let answers = answers.map_err(|error| error.to_string())?;
                    compare_symbols(stream, &answers).map_err(|error| error.to_string())
                });
                let runs = runs.map_err(other)?;
                for metric in [Metric::Mae, Metric::ErrorRate] {
                    let values: Vec<f64> = runs.iter().filter_map(|run| run.get(&metric).copied()).collect();
                    if let Some(found) = Summary::of(&values) {
                        table.push(name, series, *epsilon, metric.name(), found);
                    }
                }
            }
        }
        let metrics = [Metric::Mae, Metric::ErrorRate];
        let uniform = UNIFORM.map(|(mechanism, series)| super::Line { series, ..plain(mechanism) });
        add(&mut table, session, (name, &prepared), &uniform, epsilons, &metrics)?;
        add(&mut table, session, (name, &prepared), &[plain("constant")], epsilons, &metrics)?;
    }
    Ok(table)
}
