//! Every mechanism of every family, attacked.

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate::central::{CentralKind, Estimator, PersonalKind};
use tidegate::local::LocalKind;
use tidegate::scalar::{Publication, ScalarKind, ScalarSettings};
use tidegate_kernel::Grid;
use tidegate_kernel::primitives::Neighbours;
use tidegate_lab::audit::empirical::{CONFIDENCE, Plan, attack};
use tidegate_lab::audit::targets::central::{CentralTarget, PersonalTarget};
use tidegate_lab::audit::targets::local::LocalTarget;
use tidegate_lab::audit::targets::scalar::ScalarTarget;
use tidegate_lab::audit::{AuditSettings, Target, targets};

/// At 99.9 %, the confidence that the audit states. With another seed, a mechanism whose loss is exactly what it claims
/// would be wrongly accused with a probability of at most 0.001.
#[track_caller]
fn holds(target: &dyn Target) {
    // Drawing a sample of users takes long.
    let runs = if target.name().ends_with("_sampling") { 1_500 } else { 5_000 };
    let runs = NonZeroU64::new(runs).unwrap();
    let plan = Plan { runs, confidence: CONFIDENCE, seed: 1, threads: NonZeroUsize::MIN };
    let found = attack(target, &plan, &|| ()).unwrap();
    let (name, guarantee, claimed) = (target.name(), target.guarantee(), target.claimed());
    println!("| `{name}` | {guarantee} | {claimed:.2} | {:.2} | {}: {} |", found.lower_bound, found.pair, found.event);
    assert!(found.lower_bound <= claimed, "{name}, {guarantee}: {found:?}");
}

#[test]
fn no_mechanism_loses_more_than_it_claims() {
    for target in targets::all(&AuditSettings::small("1".parse().unwrap())).unwrap() {
        holds(target.as_ref());
    }
}

/// A threshold of zero, and nearly all of epsilon on what is tested: so that the tests tell more than the noise on what
/// is published.
#[test]
fn no_event_level_mechanism_loses_more_where_most_is_spent_on_grouping() {
    let grid = Grid::new(0.0, 1.0, 1.0).unwrap();
    let plain = ScalarSettings {
        grouping: Some("1.8".parse().unwrap()),
        threshold: Some(0.0),
        ..ScalarSettings::new("2".parse().unwrap(), grid, 3)
    };
    for (kind, publication) in [
        (ScalarKind::Pegasus, None),
        (ScalarKind::PegasusDelay, None),
        (ScalarKind::Contin, None),
        (ScalarKind::Contin, Some(Publication::Points)),
        (ScalarKind::Discontin, None),
        (ScalarKind::Discontin, Some(Publication::Points)),
        (ScalarKind::Comporder, None),
        (ScalarKind::Bucorder, Some(Publication::Sums)),
    ] {
        let buckets = (kind == ScalarKind::Bucorder).then_some(2);
        let settings = ScalarSettings { publication, buckets, ..plain };
        holds(&ScalarTarget { name: kind.name(), kind, settings });
    }
}

/// Windows of one timestamp and much to spend, so that decisions are seldom wrong.
#[test]
fn no_mechanism_loses_more_where_its_decisions_tell_much() {
    let settings = AuditSettings { epsilon: "4".parse().unwrap(), window: NonZeroU64::MIN, domain: 2 };
    for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
        for kind in CentralKind::ALL {
            holds(&CentralTarget::new(kind, &settings, neighbours));
        }
        for kind in PersonalKind::ALL {
            for estimator in [Estimator::Stratified, Estimator::Sampling] {
                let mut target = PersonalTarget::new(Some(kind), estimator, 0, &settings).unwrap();
                target.settings.neighbours = neighbours;
                holds(&target);
            }
        }
    }
    for kind in LocalKind::ALL {
        holds(&LocalTarget::new(kind, &settings));
    }
}
