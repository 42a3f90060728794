//! Figures 12 and 13: errors over the share of users with a lax requirement.

use std::num::NonZeroU64;

use tidegate_lab::experiment::{RequirementClass, TrialSettings};

use super::{
    AMRE, BUDGET, DATA, FAST, OFTEN, RUNS, SAMPLING, SELDOM, SOMETIMES, STRATIFIED, TENTHS, WINDOW, add, amre_panels,
};
use crate::compare::epsilon_of;
use crate::verdict::{Demand, Judgement, Tally, short, smaller_in_pairs};
use crate::{ASKED_HERE, At, Claim, Experiment, Measurement, ReproduceError, Results, Session, settings};

/// A class for a share of so many tenths of the users, and one for the rest.
fn two_classes(lax: (f64, u64), tenths: u64) -> Result<TrialSettings, ReproduceError> {
    let class = |epsilon: f64, window: u64, weight: u64| -> Result<RequirementClass, ReproduceError> {
        let [window, weight] = [window, weight].map(|number| NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN));
        Ok(RequirementClass { epsilon: epsilon_of(epsilon)?, window, weight })
    };
    let (epsilon, window) = lax;
    let classes = vec![class(epsilon, window, tenths)?, class(BUDGET, WINDOW, 10 - tenths)?];
    Ok(TrialSettings { classes, ..settings(BUDGET, WINDOW)? })
}

fn over_shares(session: &Session<'_>, lax: (f64, u64)) -> Result<Results, ReproduceError> {
    let settings: Vec<_> = TENTHS.into_iter().map(|tenths| two_classes(lax, tenths)).collect::<Result<_, _>>()?;
    let share = |settings: &TrialSettings| {
        settings.classes.first().map_or(0.0, |class| tidegate_lab::stream::as_float(class.weight.get()) / 10.0)
    };
    let groups: &[(&[&str], NonZeroU64)] =
        &[(FAST, OFTEN), (SAMPLING, SELDOM), (STRATIFIED, SOMETIMES), (&["constant"], SELDOM)];
    let mut table = Results::new();
    for data in &DATA {
        add(&mut table, session, data, groups, &settings, share)?;
    }
    Ok(table)
}

/// Stable up to 0.7: no two of these differ by more than a quarter.
fn stable(table: &Results, series: &[&str]) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for name in series {
            let at = |at: f64| table.measurement(panel, name, at, AMRE);
            let values: Vec<&Measurement> = [0.1, 0.3, 0.5, 0.7].into_iter().filter_map(at).collect();
            let least = values.iter().min_by(|a, b| a.value.mean.total_cmp(&b.value.mean));
            let most = values.iter().max_by(|a, b| a.value.mean.total_cmp(&b.value.mean));
            if let Some((least, most)) = least.zip(most) {
                let what = format!("{panel}, {name}: between {} and {}", short(least.value), short(most.value));
                tally.add(smaller_in_pairs(most, 1.25, least), what);
            }
        }
    }
    tally.judge(Demand::Mostly)
}

/// From 0.7 to 0.9, by a fifth and more.
fn falls_at_the_end(table: &Results, series: &[&str]) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for name in series {
            let [before, after] = [0.7, 0.9].map(|at| table.measurement(panel, name, at, AMRE));
            if let Some((before, after)) = before.zip(after) {
                let what =
                    format!("{panel}, {name} from 0.7 to 0.9: {} to {}", short(before.value), short(after.value));
                tally.add(smaller_in_pairs(after, 0.8, before), what);
            }
        }
    }
    tally.judge(Demand::Mostly)
}

/// Falls from each share to the next.
fn falls_steadily(table: &Results, series: &[&str]) -> Judgement {
    let mut tally = Tally::new();
    for panel in table.panels() {
        for name in series {
            let places = table.along(panel, name, AMRE);
            for pair in places.windows(2) {
                let [from, to] = [pair[0].0, pair[1].0];
                let at = |at: &At| table.measurement(panel, name, at.clone(), AMRE);
                if let Some((before, after)) = at(from).zip(at(to)) {
                    let [earlier, later] = [before, after].map(|one| short(one.value));
                    let what = format!("{panel}, {name} from {from} to {to}: {earlier} to {later}");
                    tally.add(smaller_in_pairs(after, 1.0, before), what);
                }
            }
        }
    }
    tally.judge(Demand::Mostly)
}

const SHARE_CLAIMS: &[Claim] = &[
    Claim {
        text: "As the share of laxer users grows to 0.7, the error remains about the same",
        place: "section 5.5",
        check: |table| stable(table, SAMPLING),
    },
    Claim {
        text: "When the share exceeds 0.8, the error of PBD and PBA falls significantly",
        place: "section 5.5",
        check: |table| falls_at_the_end(table, SAMPLING),
    },
    Claim {
        text: "With tidegate's estimator, the error falls steadily with the share of laxer users",
        place: ASKED_HERE,
        check: |table| falls_steadily(table, STRATIFIED),
    },
];

pub(super) const FIGURE_12: Experiment = Experiment {
    name: "personalized-w-event-fig12",
    place: "Figure 12",
    title: "error by the share of users with a larger budget",
    caption: "Mean squared error of a count where a share of the users has a budget of 1 and the others one of 0.6; \
              all windows have 120 timestamps.",
    data: &DATA,
    repeats: OFTEN,
    seconds: 45,
    measure: |session| over_shares(session, (1.0, WINDOW)),
    panels: |table| amre_panels(table, "share of users with ε = 1"),
    published: &[],
    claims: SHARE_CLAIMS,
    notes: &[SHARES, RUNS],
};

pub(super) const FIGURE_13: Experiment = Experiment {
    name: "personalized-w-event-fig13",
    place: "Figure 13",
    title: "error by the share of users with a shorter window",
    caption: "Mean squared error of a count where a share of the users has a window of 40 timestamps and the others \
              one of 120; all budgets are 0.6.",
    data: &DATA,
    repeats: OFTEN,
    seconds: 45,
    measure: |session| over_shares(session, (BUDGET, 40)),
    panels: |table| amre_panels(table, "share of users with w = 40"),
    published: &[],
    claims: SHARE_CLAIMS,
    notes: &[SHARES, RUNS],
};

const SHARES: &str = "With many users the bias of leaving anybody out outweighs all noise: the best threshold is then \
                      always the smallest budget, and sampling is the same whatever laxer users there are. bd and ba \
                      do not depend on the share. Errors at two shares are compared in pairs of runs with the same \
                      seed.";
