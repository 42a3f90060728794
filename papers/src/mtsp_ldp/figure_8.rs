//! Figure 8: event monitoring, of the whole domain as the paper has it, and of ranges.

use tidegate_lab::experiment::{CountOutcome, TrialSettings};
use tidegate_lab::metrics::{Metric, RocPoint, Summary, area, roc};
use tidegate_lab::plot::Axis;
use tidegate_lab::stream::{CountStream, as_float};

use super::{ALL, DATA, OTHERS, STREAMS, stream, title, with_oracle};
use crate::verdict::{Decision, Demand, Judgement, Tally, all_below_where, short, smaller};
use crate::{
    ASKED_HERE, At, Claim, Cut, Experiment, PreparedStream, ReproduceError, Results, Session, curves, named, repeats,
    settings, trials,
};

const WHOLE_CURVE: &str = "whole curve";
const HEIGHT: &str = "true_positive_rate";
const AREA: &str = "monitor_auc";
/// What panels of the paper's own task end with.
const WHOLE_DOMAIN: &str = ", whole domain";
const STEPS: u32 = 40;
const WINDOW: u64 = 20;

pub(super) const FIGURE_8: Experiment = Experiment {
    name: "mtsp-ldp-fig8",
    place: "Figure 8",
    title: "event monitoring",
    caption: "ROC curves at ε = 1 and w = 20. Whole domain, as in the paper: the number of users over w timestamps \
              rises by more than the middle of the domain from w - 1 timestamps before. Otherwise the share of a \
              range rises, from one period to the next, by more than it mostly does; mean over 50 random ranges. \
              Bands are one standard error.",
    data: &DATA,
    repeats: repeats(10),
    seconds: 20,
    measure: |session| {
        let mut table = Results::new();
        let settings = with_oracle(settings(1.0, WINDOW)?);
        for (data, users) in &STREAMS {
            if let Some(prepared) = session.dataset(data.set, Cut::default())? {
                whole_domain(session, &prepared, data.set, &settings, &mut table)?;
            }
            let Some(prepared) = stream(session, data.set, *users)? else { continue };
            for (mechanism, curve) in session.monitor_curves(&prepared, ALL, &settings, STEPS)? {
                curve.into_iter().for_each(|(rate, height)| table.push(data.set, mechanism, rate, HEIGHT, height));
            }
            for finding in session.sweep_with_queries(&prepared, ALL, std::slice::from_ref(&settings))? {
                for (_, area) in finding.metrics.iter().filter(|(metric, _)| *metric == Metric::MonitorAuc) {
                    table.push(data.set, finding.mechanism, WHOLE_CURVE, AREA, *area);
                }
            }
        }
        Ok(table)
    },
    panels: |table| {
        let axis = |label: &str| Axis { limits: Some((0.0, 1.0)), ..Axis::linear(label) };
        let (x, y) = (axis("false positive rate"), axis("true positive rate"));
        named(curves(table, HEIGHT, &x, &y, |_| true), |panel| match panel.strip_suffix(WHOLE_DOMAIN) {
            Some(set) => format!("{}{WHOLE_DOMAIN}", title(set)),
            None => format!("{}, ranges", title(panel)),
        })
    },
    published: &[],
    claims: &[
        Claim {
            text: "MTSP-LDP consistently detects better than the other methods.",
            place: "section 5.3.3",
            check: |table| {
                all_below_where(table, AREA, OTHERS, &["mtsp"], |panel, _| panel.ends_with(WHOLE_DOMAIN))
                    .judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Its true positive rate is nearly perfect throughout (here: 0.95 or more).",
            place: "section 5.3.3",
            check: nearly_perfect,
        },
        Claim {
            text: "At false positive rates below 0.1 it detects significantly more than the others.",
            place: "section 5.3.3",
            check: |table| {
                let early = |panel: &str, at: &At| {
                    panel.ends_with(WHOLE_DOMAIN) && matches!(at, At::Number(rate) if *rate > 0.0 && *rate < 0.1)
                };
                all_below_where(table, HEIGHT, OTHERS, &["mtsp"], early).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "The task tells mechanisms apart: mtsp detects rises of the whole domain better than constant, which \
                   asks nobody.",
            place: ASKED_HERE,
            check: |table| {
                all_below_where(table, AREA, &["constant"], &["mtsp"], |panel, _| panel.ends_with(WHOLE_DOMAIN))
                    .judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Rises of ranges whose share is not known are detected better by mtsp than by the others.",
            place: ASKED_HERE,
            check: |table| {
                all_below_where(table, AREA, OTHERS, &["mtsp"], |panel, _| !panel.ends_with(WHOLE_DOMAIN))
                    .judge(Demand::Everywhere)
            },
        },
    ],
    notes: &[
        "The count of the whole domain is the number of users, which is public. A tree whose root is known gives it \
         without error, and so does a constant; a sum of noisy frequencies does not. So the paper's task shows that \
         the root is known, and nothing else about a mechanism.",
        "For the whole domain the streams are as they are, so that their number of users varies. That of Foursquare \
         (stand-in) does not: there is no event to detect. The length of the period, which the paper does not give, \
         is w.",
    ],
};

/// Adds the curves of rises of the number of users: definition 2.7 of the paper, with the task of its section 5.3.3.
///
/// The score at a timestamp is the count of the whole domain over the last w timestamps, less that of w - 1 timestamps
/// before. Where the true one is above the middle of the domain, there is an event.
fn whole_domain(
    session: &Session<'_>,
    prepared: &PreparedStream,
    set: &str,
    settings: &TrialSettings,
    table: &mut Results,
) -> Result<(), ReproduceError> {
    let Some(stream) = prepared.counts() else { return Ok(()) };
    let period = usize::try_from(settings.window.get()).unwrap_or(usize::MAX);
    let middle = (as_float(stream.domain() as u64) - 1.0) / 2.0;
    let truth = rises(stream, period, |_| 1.0);
    let events: Vec<bool> = truth.iter().map(|rise| *rise > middle).collect();
    let curve = |outcome: CountOutcome| -> Option<Vec<RocPoint>> {
        let share = |timestamp: usize| match outcome.trees.get(timestamp) {
            Some(tree) => tree.node(0, 0).0,
            None => outcome.frequencies.get(timestamp).map_or(f64::NAN, |row| row.iter().sum()),
        };
        roc(&rises(stream, period, share), &events)
    };
    let trials = trials(ALL, std::slice::from_ref(settings))?;
    let found = session.map_counts(stream, &trials, |outcome| Ok(curve(outcome)))?;
    let runs: Vec<Vec<Vec<RocPoint>>> = found.into_iter().map(|curve| curve.into_iter().collect()).collect();
    let repeats = usize::try_from(session.repeats().get()).unwrap_or(usize::MAX);
    let panel = format!("{set}{WHOLE_DOMAIN}");
    for ((mechanism, curve), runs) in session.mean_curves(&trials, &runs, STEPS).into_iter().zip(runs.chunks(repeats)) {
        curve.into_iter().for_each(|(rate, height)| table.push(&panel, mechanism, rate, HEIGHT, height));
        let areas: Vec<f64> = runs.iter().flatten().map(|curve| area(curve)).collect();
        if let Some(area) = Summary::of(&areas) {
            table.push(&panel, mechanism, WHOLE_CURVE, AREA, area);
        }
    }
    Ok(())
}

/// How much the count of the whole domain over a period exceeds that of `period - 1` timestamps before, where a release
/// has a share of all users.
fn rises(stream: &CountStream, period: usize, share: impl Fn(usize) -> f64) -> Vec<f64> {
    let count = |timestamp: usize| share(timestamp) * as_float(stream.population(timestamp));
    let counts: Vec<f64> = (0..stream.length()).map(count).collect();
    let sums: Vec<f64> = counts.windows(period).map(|counts| counts.iter().sum()).collect();
    sums.iter().skip(period - 1).zip(&sums).map(|(later, earlier)| later - earlier).collect()
}

/// Whether the true positive rate of `mtsp` is 0.95 or more at each false positive rate above zero.
fn nearly_perfect(table: &Results) -> Judgement {
    let mut tally = Tally::new();
    let bound = Summary { mean: 0.95, standard_error: Some(0.0) };
    for panel in table.panels().into_iter().filter(|panel| panel.ends_with(WHOLE_DOMAIN)) {
        for (at, height) in table.along(panel, "mtsp", HEIGHT) {
            if matches!(at, At::Number(rate) if *rate > 0.0) {
                let answer = match smaller(height, bound) {
                    Decision::Yes => Decision::No,
                    _ if height.mean >= bound.mean => Decision::Yes,
                    _ => Decision::Unclear,
                };
                tally.add(answer, format!("{panel} at {at}: {}", short(height)));
            }
        }
    }
    tally.judge(Demand::Everywhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_rise_is_that_of_a_period_over_the_one_of_all_but_a_timestamp_before() {
        let labels = ["a", "b"].map(str::to_owned).to_vec();
        let counts = [1, 2, 4, 8, 16].map(|users| vec![users, users]).to_vec();
        let stream = CountStream::new("s", labels, counts).unwrap();
        // Periods of two: 2+4, 4+8, 8+16, 16+32, each compared with the one before.
        assert_eq!(rises(&stream, 2, |_| 1.0), [6.0, 12.0, 24.0]);
        assert_eq!(rises(&stream, 2, |_| 0.5), [3.0, 6.0, 12.0]);
        assert_eq!(rises(&stream, 3, |_| 1.0), [42.0]);
    }
}
