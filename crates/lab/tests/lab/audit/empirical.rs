//! The attack itself: its bounds, its confidence, and that it repeats itself.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};

use statrs::distribution::{Beta, ContinuousCDF};
use tidegate_kernel::oracle::OracleKind;
use tidegate_lab::audit::empirical::{AttackError, CONFIDENCE, Plan, attack, clopper_pearson, steps};
use tidegate_lab::audit::targets::oracle::OracleTarget;

fn plan(runs: u64, seed: u64) -> Plan {
    Plan { runs: NonZeroU64::new(runs).unwrap(), confidence: CONFIDENCE, seed, threads: NonZeroUsize::MIN }
}

fn grr() -> OracleTarget {
    OracleTarget { kind: OracleKind::Grr, epsilon: "1".parse().unwrap(), domain: 2 }
}

#[test]
fn bounds_are_the_quantiles_of_beta_distributions() {
    for (hits, trials) in [(1, 10), (9, 10), (50, 100), (3, 1000), (400, 1000), (12_345, 50_000)] {
        let (low, high) = clopper_pearson(hits, trials, 0.0005);
        let (hits, others) = (hits as f64, (trials - hits) as f64);
        let expected_low = Beta::new(hits, others + 1.0).unwrap().inverse_cdf(0.0005);
        let expected_high = Beta::new(hits + 1.0, others).unwrap().inverse_cdf(0.9995);
        assert!((low - expected_low).abs() < 1e-6 && (high - expected_high).abs() < 1e-6, "{hits}: {low} {high}");
    }
    assert_eq!(clopper_pearson(0, 100, 0.01).0, 0.0);
    assert_eq!(clopper_pearson(100, 100, 0.01).1, 1.0);
}

/// For every probability, the outcomes whose bounds miss it have no more than the error allowed.
#[test]
fn bounds_miss_no_probability_more_often_than_they_may() {
    let (trials, error) = (40_u64, 0.01);
    let bounds: Vec<(f64, f64)> = (0..=trials).map(|hits| clopper_pearson(hits, trials, error)).collect();
    for thousandths in 1..1000 {
        let p = f64::from(thousandths) / 1000.0;
        let choose = |hits: u64| (0..hits).map(|i| (trials - i) as f64 / (i + 1) as f64).product::<f64>();
        let weight = |hits: u64| choose(hits) * p.powi(hits as i32) * (1.0 - p).powi((trials - hits) as i32);
        let missed = |is_missed: &dyn Fn(&(f64, f64)) -> bool| -> f64 {
            (0..=trials).zip(&bounds).filter(|(_, bounds)| is_missed(bounds)).map(|(hits, _)| weight(hits)).sum()
        };
        assert!(missed(&|(low, _)| *low > p) <= error && missed(&|(_, high)| *high < p) <= error, "{p}");
    }
}

#[test]
fn what_an_attack_shows_does_not_depend_on_the_threads_and_progress_is_told_as_announced() {
    let target = grr();
    let one = plan(3_000, 7);
    let told = AtomicU64::new(0);
    let count = || {
        told.fetch_add(1, Ordering::Relaxed);
    };
    let alone = attack(&target, &one, &count).unwrap();
    assert_eq!(told.into_inner(), steps(&target, &one));
    let together = attack(&target, &Plan { threads: NonZeroUsize::new(3).unwrap(), ..one }, &|| ()).unwrap();
    assert_eq!(alone, together);
    assert_ne!(alone, attack(&target, &plan(3_000, 8), &|| ()).unwrap());
}

/// The loss is exactly 1 and the event is the best that there is, so the bound comes near it.
#[test]
fn the_loss_of_randomised_response_is_found_nearly() {
    let found = attack(&grr(), &plan(150_000, 1), &|| ()).unwrap();
    assert!(found.lower_bound > 0.95 && found.lower_bound <= 1.0, "{found:?}");
}

/// At a confidence of 0.8 one of five attacks may be wrong. Of 400, more than 125 would be with a probability below
/// 1e-6; a bound without any width would be wrong in about 200.
#[test]
fn the_confidence_is_kept() {
    let wrong = (0..400)
        .filter(|seed| {
            let plan = Plan { confidence: 0.8, ..plan(600, *seed) };
            attack(&grr(), &plan, &|| ()).unwrap().lower_bound > 1.0
        })
        .count();
    assert!(wrong <= 125, "{wrong}");
}

#[test]
fn a_confidence_that_is_none_is_refused() {
    for given in [0.0, 1.0, -1.0, f64::NAN] {
        let error = attack(&grr(), &Plan { confidence: given, ..plan(10, 1) }, &|| ()).unwrap_err();
        assert!(matches!(error, AttackError::Confidence { .. }), "{error}");
    }
}

/// So few runs that some rounds of learning have one.
#[test]
fn a_single_run_is_enough_not_to_fail() {
    for runs in 1..10 {
        assert_eq!(attack(&grr(), &plan(runs, 1), &|| ()).unwrap().lower_bound, 0.0);
    }
}
