//! Figures 7 to 10: errors over the threshold.

use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::Summary;
use tidegate_lab::plot::Axis;
use tidegate_lab::scalar::published::THRESHOLD;

use super::{MAE, Moves, PRINTED, TWO, add, data_of, drawn, for_both, is_printed, like_the_paper, width};
use crate::verdict::{Decision, Demand, Judgement, Tally, short, smaller_than_times};
use crate::{ASKED_HERE, At, Claim, Cut, Experiment, ReproduceError, Results, Session, lines, repeats};

/// Thresholds of the figures, from the authors' program.
const THRESHOLDS: [f64; 5] = [1.0, 5.0, 9.0, 13.0, 17.0];

/// Wider thresholds than the paper's, in widths of the domain.
const DOMAINS: [f64; 8] = [0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

/// Panels with the threshold of figures 2 to 5, and with wider ones.
const WIDE: &str = ", wide thresholds";

const GROUPS: &[&str] = &["contin", "discontin", "contin_points", "discontin_points"];

const GROUPS_AS_PRINTED: &[&str] =
    &["paper_contin_not_private", "paper_discontin", "paper_contin_points_not_private", "paper_discontin_points"];

pub(super) const FIGURES_7_TO_10: Experiment = Experiment {
    name: "delay-allowed-fig7",
    place: "Figures 7 to 10",
    title: "grouping by threshold",
    caption: "Mean absolute error over the threshold of groups, at ε = 0.4 and a delay of 100: continuous (figures 7 \
              and 9) and discontinuous groups (8 and 10), with noise on sums (7 and 8) and on each number (9 and 10). \
              The thresholds are those of the authors' program. Below, tidegate's mechanisms with thresholds in widths \
              of the domain, which the paper does not have.",
    data: &TWO,
    repeats: repeats(20),
    seconds: 2,
    measure,
    panels: |table| {
        let y = Axis::log("mean absolute error");
        let mut panels = lines(table, MAE, &Axis::linear("threshold"), &y, |panel| !panel.ends_with(WIDE));
        panels.extend(lines(table, MAE, &Axis::log("threshold, in widths of the domain"), &y, |panel| {
            panel.ends_with(WIDE)
        }));
        drawn(panels)
    },
    published: &[],
    claims: &[
        Claim {
            text: "The error does not change monotonically with the threshold",
            place: "section VII-B",
            check: |table| for_both(|printed| not_monotonic(table, printed)),
        },
        Claim {
            text: "The threshold of 3 of the other figures is as good for tidegate's mechanisms as any wider one: at \
                   most a tenth above the best",
            place: ASKED_HERE,
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels().into_iter().filter(|panel| panel.ends_with(WIDE)) {
                    each_group(table, panel, |what, errors| {
                        let least = errors.iter().copied().min_by(|a, b| a.mean.total_cmp(&b.mean));
                        if let Some((first, least)) = errors.first().copied().zip(least) {
                            tally.add(
                                smaller_than_times(first, 1.1, least),
                                format!("{what}: {} with 3, {} at best", short(first), short(least)),
                            );
                        }
                    });
                }
                tally.judge(Demand::Everywhere)
            },
        },
    ],
    notes: &[
        "The noise of a test is many times as wide as the domain. A threshold from 1 to 17, or of any part of the \
         domain, drowns in it: groups are then decided by coins, and how the error depends on the threshold cannot be \
         told in 20 runs.",
    ],
};

fn measure(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    for data in &TWO {
        let Some(stream) = session.dataset(data.set, Cut::default())? else { continue };
        let width = width(&stream);
        let with = |threshold: f64| -> Result<TrialSettings, ReproduceError> {
            Ok(TrialSettings { threshold: Some(threshold), ..like_the_paper(&stream, 0.4, 100)? })
        };
        let all = |names: &[&'static str]| [names, &["constant"]].concat();
        let printed: Vec<_> = THRESHOLDS.into_iter().map(with).collect::<Result<_, _>>()?;
        let place = |settings: &TrialSettings| At::Number(settings.threshold.unwrap_or_default());
        add(&mut table, session, (data, data.set), &all(GROUPS), &printed, place)?;
        let panel = format!("{}{PRINTED}", data.set);
        add(&mut table, session, (data, &panel), &all(GROUPS_AS_PRINTED), &printed, place)?;
        let thresholds = std::iter::once(THRESHOLD).chain(DOMAINS.map(|domains| domains * width));
        let wide: Vec<_> = thresholds.map(with).collect::<Result<_, _>>()?;
        let place = |settings: &TrialSettings| At::Number(settings.threshold.unwrap_or_default() / width);
        add(&mut table, session, (data, &format!("{}{WIDE}", data.set)), &all(GROUPS), &wide, place)?;
    }
    Ok(table)
}

/// Each method's errors by threshold, in a panel.
fn each_group(table: &Results, panel: &str, mut visit: impl FnMut(&str, &[Summary])) {
    for name in table.series(panel).into_iter().filter(|name| *name != "constant") {
        let errors: Vec<Summary> = table.along(panel, name, MAE).into_iter().map(|(_, error)| error).collect();
        visit(&format!("{}, {name}", data_of(panel)), &errors);
    }
}

/// Not monotonic: somewhere it rises and somewhere it falls, both beyond the noise.
fn not_monotonic(table: &Results, printed: bool) -> Judgement {
    let mut tally = Tally::new();
    let asked = |panel: &&str| is_printed(panel) == printed && !panel.ends_with(WIDE);
    for panel in table.panels().into_iter().filter(asked) {
        each_group(table, panel, |what, errors| {
            let moves = Moves::of(errors);
            let answer = match moves {
                Moves::Both => Decision::Yes,
                Moves::Rises | Moves::Falls => Decision::No,
                Moves::Neither => Decision::Unclear,
            };
            tally.add(answer, format!("{what} {}", moves.words()));
        });
    }
    tally.judge(Demand::Mostly)
}
