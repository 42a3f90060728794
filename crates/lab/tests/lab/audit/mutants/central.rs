//! Broken central mechanisms: counts that a curator publishes.

use std::num::NonZeroU64;

use tidegate::central::{Central, CentralKind};
use tidegate_kernel::primitives::Neighbours;
use tidegate_kernel::{Sealed, SeededRandom};
use tidegate_lab::audit::targets::central::CentralTarget;
use tidegate_lab::audit::{AuditSettings, Input, Pair, Target};

use super::{Form, Variant, caught, coin, laplace, of_readings, readings};

fn settings(epsilon: &str) -> AuditSettings {
    AuditSettings::small(epsilon.parse().unwrap())
}

#[test]
fn half_the_noise_is_caught() {
    for kind in [CentralKind::Sample, CentralKind::Uniform] {
        caught(&format!("`{kind}`, half the noise"), 40_000, |form| {
            let claims = CentralTarget::new(kind, &settings("1"), Neighbours::AddRemove);
            let doubled = CentralTarget::new(kind, &settings("2"), Neighbours::AddRemove);
            Variant::claiming_to_be(&claims, form.choose(doubled, claims))
        });
    }
}

#[test]
fn a_window_that_is_one_too_short_is_caught() {
    caught("`sample`, window off by one", 20_000, |form| {
        let claims = CentralTarget::new(CentralKind::Sample, &settings("1"), Neighbours::AddRemove);
        let shorter = AuditSettings { window: NonZeroU64::new(2).unwrap(), ..settings("1") };
        let shorter = CentralTarget::new(CentralKind::Sample, &shorter, Neighbours::AddRemove);
        Variant::claiming_to_be(&claims, form.choose(shorter, claims))
    });
}

/// Whoever moves from one cell to another changes two counts.
#[test]
fn a_sensitivity_of_one_instead_of_two_is_caught() {
    caught("`sample`, sensitivity 1 instead of 2", 20_000, |form| {
        let claims = CentralTarget::new(CentralKind::Sample, &settings("1"), Neighbours::Replace);
        let wrong = CentralTarget::new(CentralKind::Sample, &settings("1"), Neighbours::AddRemove);
        Variant::claiming_to_be(&claims, form.choose(wrong, claims))
    });
}

#[test]
fn a_budget_that_is_whole_again_after_a_restart_is_caught() {
    caught("`sample`, budget reset on restart", 20_000, |form| {
        let claims = CentralTarget::new(CentralKind::Sample, &settings("1"), Neighbours::AddRemove);
        Variant::new(claims.claimed(), claims.neighbours(), move |input, random| {
            let Input::Counts(stream) = input else { panic!("{input:?}") };
            let begin = || Central::new(CentralKind::Sample, claims.settings).unwrap();
            let mut mechanism = begin();
            let mut seen = Vec::new();
            for (timestamp, counts) in (0..).zip(stream) {
                if form == Form::Broken && timestamp == 1 {
                    mechanism = begin();
                }
                let releases = mechanism
                    .push(&Sealed::at(mechanism.ledger().account(), timestamp, counts.clone()), random)
                    .unwrap();
                seen.extend(releases.iter().flat_map(|release| release.statistic.leaves().0));
            }
            seen
        })
    });
}

/// Absorption with noise of a curator: after two timestamps that are skipped, all shares are spent, and then one at
/// each.
#[test]
fn absorption_without_nullification_is_caught() {
    let epsilon = 3.0;
    caught("`ba` without nullification", 150_000, |form| {
        let shares = form.choose([3.0, 1.0, 1.0], [3.0, 0.0, 0.0]);
        let pair = of_readings("one user more", vec![0.0; 3], vec![1.0; 3]);
        Variant::new(epsilon, vec![pair], move |input, random| {
            let share = epsilon / 6.0;
            let mut seen = Vec::new();
            for (count, shares) in readings(input).iter().zip(shares) {
                seen.push(count + laplace(1.0 / share, random));
                seen.push(if shares > 0.0 { count + laplace(1.0 / (shares * share), random) } else { 0.0 });
            }
            seen
        })
    });
}

/// Streams in which one user is in the first cell of two, or in the second.
fn moves() -> Vec<Pair> {
    vec![of_readings("moves", vec![1.0, 0.0], vec![0.0, 1.0])]
}

/// The mean distance to the last release, whose cells are 0 and 1: moving changes it by one, which is 2/d.
#[test]
fn a_dissimilarity_with_the_sensitivity_of_presence_is_caught() {
    caught("dissimilarity, sensitivity 1/d instead of 2/d", 20_000, |form| {
        Variant::new(1.0, moves(), move |input, random| {
            let distance = ((readings(input)[0] - 0.0).abs() + (readings(input)[1] - 1.0).abs()) / 2.0;
            vec![distance + laplace(form.choose(0.5, 1.0), random)]
        })
    });
}

/// Sampling users whose budget of 1 is below the threshold of 2, as published for users who come and go, where users
/// move.
#[test]
fn sampling_with_the_constants_of_presence_is_caught() {
    caught("`pbd` sampling, presence's constants for moves", 200_000, |form| {
        let (budget, threshold) = (1_f64, 2_f64);
        let for_presence = budget.exp_m1() / threshold.exp_m1();
        let half = threshold / 2.0;
        let for_moves = budget.exp_m1() / (half.exp_m1() + budget.exp() * (1.0 - (-half).exp()));
        let (probability, scale) = form.choose((for_presence, 1.0 / threshold), (for_moves, 2.0 / threshold));
        Variant::new(budget, moves(), move |input, random| {
            let is_sampled = f64::from(u8::from(coin(probability, random)));
            readings(input).iter().map(|count| is_sampled * count + laplace(scale, random)).collect()
        })
    });
}

/// A user is sampled with probability 1/2 and then counts twice, so that the count is unbiased; the noise must be for
/// that, not for one.
#[test]
fn noise_that_forgets_the_weight_of_a_sample_is_caught() {
    caught("sampled users count 1/p, noise for 1", 40_000, |form| {
        let (epsilon, probability) = (1_f64, 0.5);
        // Where half of the likelihood moves by 2/b, the loss is epsilon for b = 2 / ln(1 + 2 (e - 1)).
        let enough = 2.0 / (epsilon.exp_m1() / probability).ln_1p();
        let scale = form.choose(1.0 / epsilon, enough);
        let pair = of_readings("one user more", vec![0.0], vec![1.0]);
        Variant::new(epsilon, vec![pair], move |input, random| {
            let weight = if coin(probability, random) { 1.0 / probability } else { 0.0 };
            vec![weight * readings(input)[0] + laplace(scale, random)]
        })
    });
}

/// One sample of the users for both questions of a timestamp, each of which has half of the user's budget of 1.
#[test]
fn a_sample_that_is_used_twice_is_caught() {
    caught("`pbd` sampling, one draw for two questions", 200_000, |form| {
        let probability = 0.5_f64.exp_m1() / 1_f64.exp_m1();
        let pair = of_readings("one user more", vec![0.0], vec![1.0]);
        Variant::new(1.0, vec![pair], move |input, random| {
            let count = readings(input)[0];
            let (first, second) = (coin(probability, random), coin(probability, random));
            let second = form.choose(first, second);
            let noisy = |is_sampled: bool, random: &mut SeededRandom| {
                count * f64::from(u8::from(is_sampled)) + laplace(1.0, random)
            };
            vec![noisy(first, random), noisy(second, random)]
        })
    });
}

/// The threshold is chosen from the budgets of those present, four of 0.4 and one that comes and goes: so the noise
/// tells who is there.
#[test]
fn a_threshold_chosen_from_those_present_is_caught() {
    caught("`pbd` threshold from those present", 10_000, |form| {
        let pair = of_readings("one user more", vec![4.0], vec![5.0]);
        Variant::new(0.4, vec![pair], move |input, random| {
            let present = readings(input)[0];
            let threshold = form.choose(if present < 5.0 { 0.8 } else { 0.4 }, 0.4);
            let scale: f64 = 1.0 / threshold;
            vec![present + laplace(scale, random), 2.0 * scale * scale]
        })
    });
}
