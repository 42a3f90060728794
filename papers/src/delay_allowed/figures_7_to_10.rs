//! Figures 7 to 10: errors over the threshold.

use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::Summary;
use tidegate_lab::plot::Axis;
use tidegate_lab::scalar::published::THRESHOLD;

use super::{MAE, PRINTED, TWO, add, data_of, drawn, for_both, is_printed, like_the_paper, width};
use crate::verdict::{Decision, Demand, Judgement, Tally, short, smaller, smaller_than_times};
use crate::{ASKED_HERE, At, Claim, Cut, Experiment, ReproduceError, Results, lines, repeats};

/// Thresholds: the paper's, then so many domains.
const DOMAINS: [f64; 8] = [0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

const GROUPS: &[&str] = &["contin", "discontin", "contin_points", "discontin_points"];

const GROUPS_AS_PRINTED: &[&str] =
    &["paper_contin_not_private", "paper_discontin", "paper_contin_points_not_private", "paper_discontin_points"];

pub(super) const FIGURES_7_TO_10: Experiment = Experiment {
    name: "delay-allowed-fig7",
    place: "Figures 7 to 10",
    title: "grouping by threshold",
    caption: "Mean absolute error over the threshold of groups, at ε = 0.4 and a delay of 100: continuous (figures 7 \
              and 9) and discontinuous groups (8 and 10), with noise on sums (7 and 8) and on each number (9 and 10).",
    data: &TWO,
    repeats: repeats(20),
    seconds: 2,
    measure: |session| {
        let mut table = Results::new();
        for data in &TWO {
            let Some(stream) = session.dataset(data.set, Cut::default())? else { continue };
            let width = width(&stream);
            let thresholds = std::iter::once(THRESHOLD).chain(DOMAINS.map(|domains| domains * width));
            let with = |threshold| -> Result<TrialSettings, ReproduceError> {
                Ok(TrialSettings { threshold: Some(threshold), ..like_the_paper(&stream, 0.4, 100)? })
            };
            let settings: Vec<_> = thresholds.map(with).collect::<Result<_, _>>()?;
            let place = |settings: &TrialSettings| At::Number(settings.threshold.unwrap_or_default() / width);
            let all = |names: &[&'static str]| [names, &["constant"]].concat();
            add(&mut table, session, (data, data.set), &all(GROUPS), &settings, place)?;
            let printed = format!("{}{PRINTED}", data.set);
            add(&mut table, session, (data, &printed), &all(GROUPS_AS_PRINTED), &settings, place)?;
        }
        Ok(table)
    },
    panels: |table| {
        drawn(lines(
            table,
            MAE,
            &Axis::log("threshold, in widths of the domain"),
            &Axis::log("mean absolute error"),
            |_| true,
        ))
    },
    published: &[],
    claims: &[
        Claim {
            text: "The error does not change monotonically with the threshold",
            place: "section VII-B",
            check: |table| for_both(|printed| not_monotonic(table, printed)),
        },
        Claim {
            text: "The paper's threshold of 3 is as good as any: at most a tenth above the best",
            place: ASKED_HERE,
            check: |table| {
                for_both(|printed| {
                    let mut tally = Tally::new();
                    each_group(table, printed, |what, errors| {
                        let least = errors.iter().copied().min_by(|a, b| a.mean.total_cmp(&b.mean));
                        if let Some((first, least)) = errors.first().copied().zip(least) {
                            tally.add(
                                smaller_than_times(first, 1.1, least),
                                format!("{what}: {} with 3, {} at best", short(first), short(least)),
                            );
                        }
                    });
                    tally.judge(Demand::Everywhere)
                })
            },
        },
    ],
    notes: &[
        "The noise of a test is many times as wide as the domain. A threshold of 3, or of any part of the domain, \
         drowns in it: groups are then decided by coins, and the error does not depend on the threshold.",
    ],
};

fn each_group(table: &Results, printed: bool, mut visit: impl FnMut(&str, &[Summary])) {
    for panel in table.panels().into_iter().filter(|panel| is_printed(panel) == printed) {
        for name in table.series(panel).into_iter().filter(|name| *name != "constant") {
            let errors: Vec<Summary> = table.along(panel, name, MAE).into_iter().map(|(_, error)| error).collect();
            visit(&format!("{}, {name}", data_of(panel)), &errors);
        }
    }
}

/// Not monotonic: somewhere it rises and somewhere it falls, both beyond the noise.
fn not_monotonic(table: &Results, printed: bool) -> Judgement {
    let mut tally = Tally::new();
    each_group(table, printed, |what, errors| {
        let moves = |up: bool| {
            errors.iter().enumerate().any(|(index, before)| {
                errors[index + 1..].iter().any(|after| {
                    let (low, high) = if up { (*before, *after) } else { (*after, *before) };
                    smaller(low, high) == Decision::Yes
                })
            })
        };
        let (rises, falls) = (moves(true), moves(false));
        let (answer, word) = match (rises, falls) {
            (true, true) => (Decision::Yes, "falls and rises"),
            (true, false) => (Decision::No, "only rises"),
            (false, true) => (Decision::No, "only falls"),
            (false, false) => (Decision::Unclear, "does not change"),
        };
        tally.add(answer, format!("{what} {word}"));
    });
    tally.judge(Demand::Mostly)
}
