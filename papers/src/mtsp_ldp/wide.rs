//! Range queries on narrow and on wide domains: where trees must win, and where they need not.

use tidegate::post_processing::Repair;
use tidegate_kernel::oracle::OracleKind;
use tidegate_lab::experiment::TrialSettings;
use tidegate_lab::metrics::Metric;
use tidegate_lab::plot::Axis;
use tidegate_lab::stream::{CountStream, DataStreamError, as_float};

use crate::compare::metric_of;
use crate::verdict::{Demand, Judgement, Tally, all_below_where, short, smaller_in_pairs};
use crate::{ASKED_HERE, At, Claim, Experiment, ReproduceError, Results, Session, lines, repeats, settings};

/// Sizes of the domain.
const DOMAINS: [u32; 4] = [16, 256, 4_096, 65_536];
/// From this size on, trees are to win.
const WIDE_FROM: f64 = 4_096.0;
const USERS: u64 = 1_000_000;
const LENGTH: usize = 40;
const WINDOW: u64 = 10;
const OTHERS: &[&str] = &["lba", "lsp", "lpu", "lpa"];
const TREES: &[&str] = &["mtsp", "mtsp_population"];
const ESTIMATED: &str = "as estimated";
const CONSISTENT: &str = "trees made consistent";

pub(super) const WIDE: Experiment = Experiment {
    name: "mtsp-ldp-domains",
    place: "Beyond the paper",
    title: "range queries by the size of the domain",
    caption: "Mean absolute error of the share of users that held a value of a range over a period, mean over 50 \
              random ranges and periods of 1 to w timestamps, at ε = 1 and w = 10, over 40 timestamps. A million users \
              hold the values of a hill that moves slowly.",
    data: &[],
    repeats: repeats(4),
    seconds: 45,
    measure,
    panels: |table| lines(table, "range_mae", &Axis::log("values"), &Axis::log("mean absolute error"), |_| true),
    published: &[],
    claims: &[
        Claim {
            text: "On wide domains (4,096 values and more) mtsp answers ranges better than any histogram.",
            place: ASKED_HERE,
            check: |table| {
                all_below_where(table, MAE, &["mtsp"], OTHERS, |_, at| is_wide(at)).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "On narrow domains (16 and 256 values) it does not: lsp is better.",
            place: ASKED_HERE,
            check: |table| {
                all_below_where(table, MAE, &["lsp"], &["mtsp"], |_, at| !is_wide(at)).judge(Demand::Everywhere)
            },
        },
        Claim {
            text: "Trees that are made consistent mostly answer ranges better than trees as they are estimated.",
            place: ASKED_HERE,
            check: consistent_is_better,
        },
    ],
    notes: &["All methods use optimised unary encoding. Trees are made consistent by default, but not in this report."],
};

const MAE: &str = "range_mae";

fn is_wide(at: &At) -> bool {
    matches!(at, At::Number(values) if *values >= WIDE_FROM)
}

fn measure(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    let domains: &[u32] = session.size(&DOMAINS, &DOMAINS[..2]);
    for domain in domains {
        let length = session.length(LENGTH);
        let prepared = session.made(&format!("hill of {domain}"), |_| Ok(hill(*domain, length)?.into()))?;
        for (panel, repair, mechanisms) in
            [(ESTIMATED, Repair::None, &[TREES, OTHERS].concat()[..]), (CONSISTENT, Repair::Consistent, TREES)]
        {
            let settings = TrialSettings { oracle: Some(OracleKind::Oue), repair, ..settings(1.0, WINDOW)? };
            for finding in session.sweep_with_queries(&prepared, mechanisms, &[settings])? {
                if let Some(error) = metric_of(&finding, Metric::RangeMae) {
                    let runs = finding.runs.iter().filter_map(|run| run.get(&Metric::RangeMae).copied()).collect();
                    table.push_runs(panel, finding.mechanism, f64::from(*domain), MAE, error, runs);
                }
            }
        }
    }
    Ok(table)
}

/// Users on a hill over a floor, which moves by a hundredth of the domain in five timestamps.
fn hill(domain: u32, length: usize) -> Result<CountStream, DataStreamError> {
    let row = |timestamp: usize| -> Vec<u64> {
        let centre = 0.3 + 0.002 * as_float(timestamp as u64);
        let height = |value: u32| {
            let place = (f64::from(value) + 0.5) / f64::from(domain);
            0.01 + (-(place - centre).powi(2) / 0.02).exp()
        };
        let total: f64 = (0..domain).map(height).sum();
        let (mut below, mut counted) = (0.0, 0);
        let count = |value: u32| {
            below += height(value);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the users
            let until = (as_float(USERS) * below / total).round() as u64;
            let count = until - counted;
            counted = until;
            count
        };
        (0..domain).map(count).collect()
    };
    let labels = (0..domain).map(|value| value.to_string()).collect();
    CountStream::new("hill", labels, (0..length).map(row).collect())
}

fn consistent_is_better(table: &Results) -> Judgement {
    let mut tally = Tally::new();
    for tree in TREES {
        for at in table.places(CONSISTENT) {
            let [estimated, consistent] =
                [ESTIMATED, CONSISTENT].map(|panel| table.measurement(panel, tree, at.clone(), MAE));
            if let Some((estimated, consistent)) = estimated.zip(consistent) {
                let what = format!("{tree} at {at}: {} and {}", short(estimated.value), short(consistent.value));
                tally.add(smaller_in_pairs(consistent, 1.0, estimated), what);
            }
        }
    }
    tally.judge(Demand::Mostly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn every_user_stands_on_the_hill() {
        let stream = hill(4_096, 3).unwrap();
        assert!((0..3).all(|timestamp| stream.population(timestamp) == USERS));
        let share = |timestamp: usize| stream.counts()[timestamp][..1_024].iter().sum::<u64>();
        assert!(share(0) > share(1) && share(1) > share(2));
    }
}
