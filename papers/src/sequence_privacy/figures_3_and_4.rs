//! Figures 3 and 4: the correlation of the noise of two answers.

use tidegate_lab::experiment::RunError;
use tidegate_lab::plot::{Axis, Panel};
use tidegate_lab::sequence::noise::{Answers, Noise, TwoSteps};

use crate::compare::{epsilon_of, exactly};
use crate::verdict::{Decision, Demand, Judgement, NOISE, Tally, Verdict, digits, short, smaller};
use crate::{ASKED_HERE, At, Claim, Experiment, ReproduceError, Results, curves, repeats};

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

pub(super) const FIGURES_3_AND_4: Experiment = Experiment {
    name: "sequence-privacy-fig3",
    place: "Figures 3 and 4",
    title: "how the noise of two steps hangs together",
    caption: "Two symbols, the second of which is another than the first with some probability; both are answered at \
              ε = 1, and the noise of a step is 1 where the answer is wrong. Over the correlation of the symbols: \
              that of the noise, what one noise tells about the other, how often the second answer is wrong, and what \
              both give away together, of which 2 is allowed. All exact.",
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

pub(super) fn other(error: RunError) -> ReproduceError {
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
pub(super) fn at_most(table: &Results, series: &str, metric: &str, bound: f64) -> Judgement {
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
