//! What sequences give away: the account, and the exact calculator against both.

use std::num::NonZeroU64;

use tidegate::kernel::{Epsilon, SeededRandom};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::hamming;
use tidegate::sequence::leakage::{ExactError, Leakage, exact};
use tidegate::sequence::model::Model;

use crate::support::{random_belief, random_rows, unit};

fn epsilon(amount: f64) -> Epsilon {
    Epsilon::budget(amount).unwrap()
}

fn chain(domain: usize, random: &mut SeededRandom) -> Model {
    let rows = random_rows(domain, random);
    Model::dense(random_belief(domain, random), rows.concat()).unwrap()
}

#[test]
fn the_exact_leakage_of_whole_sequences_is_within_the_claim() {
    let random = &mut SeededRandom::new(610);
    let mut largest: f64 = 0.0;
    for _ in 0..40 {
        let model = chain(3, random);
        let amount = epsilon(0.2 + 1.3 * unit(random));
        let eps = amount.as_f64();
        let leakage =
            exact(&model, 1, 3, |_, belief| hamming::channel(belief, amount).map(|channel| channel.dense())).unwrap();
        assert!(leakage.steps.iter().all(|step| *step <= eps + 1e-9), "{leakage:?} {eps}");
        assert!(leakage.sequence <= 3.0 * eps + 1e-9, "{leakage:?} {eps}");
        assert!(leakage.local <= 6.0 * eps + 1e-9, "{leakage:?} {eps}");
        assert!(leakage.sequence <= leakage.steps.iter().sum::<f64>() + 1e-9);
        largest = largest.max(leakage.sequence / (3.0 * eps));
    }
    assert!(largest > 0.9, "{largest}: the claim is not far from the truth");
}

/// A model that is not the stream's: more than epsilon, but never more than twice.
#[test]
fn a_wrong_model_costs_up_to_twice_as_much() {
    let ln3 = epsilon(3_f64.ln());
    let truth = Model::dense(vec![0.05, 0.95], vec![0.5; 4]).unwrap();
    let designed = hamming::channel(&[0.5, 0.5], ln3).unwrap().dense();
    let leakage = exact(&truth, 1, 1, |_, _| Ok::<_, String>(designed.clone())).unwrap();
    assert!((leakage.sequence - 1.5686).abs() < 5e-5, "{leakage:?}");

    let random = &mut SeededRandom::new(611);
    let mut largest: f64 = 0.0;
    for _ in 0..30 {
        let (truth, design) = (chain(3, random), chain(3, random));
        let leakage = exact(&truth, 1, 3, |history, _| {
            // The mechanism's own belief, from what was released.
            let mut belief = Belief::new(&design);
            for output in history {
                let channel = hamming::channel(belief.present(), epsilon(0.5)).map_err(|error| error.to_string())?;
                belief.release(&design, &channel, *output).map_err(|error| error.to_string())?;
            }
            hamming::channel(belief.present(), epsilon(0.5)).map(|channel| channel.dense()).map_err(|e| e.to_string())
        })
        .unwrap();
        assert!(leakage.sequence <= 3.0 + 1e-9 && leakage.local <= 3.0 + 1e-9, "{leakage:?}");
        largest = largest.max(leakage.sequence);
    }
    assert!(largest > 1.6, "{largest}: wrong models do cost more");
}

#[test]
fn batches_are_enumerated_by_the_same_definition() {
    let model = Model::dense(vec![0.7, 0.3], vec![0.9, 0.1, 0.2, 0.8]).unwrap();
    // A batch of two as a symbol of four; the belief in it is what the chain says.
    let mut first = None;
    let leakage = exact(&model, 2, 2, |history, belief| {
        if history.is_empty() {
            first = Some(belief.to_vec());
        }
        hamming::channel(belief, epsilon(0.8)).map(|channel| channel.dense())
    })
    .unwrap();
    let expected = [0.7 * 0.9, 0.7 * 0.1, 0.3 * 0.2, 0.3 * 0.8];
    assert!(first.unwrap().iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12));
    assert!(leakage.steps.iter().all(|step| *step <= 0.8 + 1e-9) && leakage.sequence <= 1.6 + 1e-9);
}

#[test]
fn what_reveals_a_symbol_leaks_without_bound() {
    let model = Model::dense(vec![0.5, 0.5, 0.0], vec![0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 1.0, 0.0, 0.0]).unwrap();
    let identity =
        |_: &[u32], _: &[f64]| Ok::<_, String>(vec![vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]]);
    let leakage = exact(&model, 1, 2, identity).unwrap();
    assert_eq!((leakage.sequence, leakage.local), (f64::INFINITY, f64::INFINITY));
    let constant = exact(&model, 1, 2, |_, _| Ok::<_, String>(vec![vec![1.0]; 3])).unwrap();
    assert_eq!((constant.sequence, constant.local), (0.0, 0.0));
}

#[test]
fn what_cannot_be_enumerated_is_refused_with_its_size() {
    let model = Model::uniform(10).unwrap();
    let identity = |_: &[u32], belief: &[f64]| Ok::<_, String>(vec![vec![1.0]; belief.len()]);
    let refusal = exact(&model, 1, 5, identity).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "5 steps of 1 symbols each over a domain of 10 have 10^10 pairs of sequences, \
         more than the 67108864 that are enumerated"
    );
    assert_eq!(exact(&model, 0, 1, identity).unwrap_err(), ExactError::Nothing);
    assert!(matches!(exact(&model, u32::MAX, u32::MAX, identity), Err(ExactError::TooLarge { .. })));
    let bad = exact(&model, 1, 1, |_, _| Ok::<_, String>(vec![vec![0.5]; 10])).unwrap_err();
    assert_eq!(bad.to_string(), "after 0 releases the mechanism gave no channel: row 0 is no probability distribution");
    let failing = exact(&model, 1, 1, |_, _| Err("no idea")).unwrap_err();
    assert_eq!(failing.to_string(), "after 0 releases the mechanism gave no channel: no idea");
    assert!(matches!(exact(&model, 1, 1, |_, _| Ok::<_, String>(vec![])), Err(ExactError::NoChannel { .. })));
}

#[test]
fn the_account_adds_up_and_periods_begin_anew() {
    let mut leakage = Leakage::new(NonZeroU64::new(10));
    for timestamp in [0, 3, 9] {
        leakage.note(timestamp, epsilon(0.5));
    }
    assert_eq!((leakage.steps(), leakage.total(), leakage.in_period(), leakage.local_bound()), (3, 1.5, 1.5, 3.0));
    leakage.note(10, epsilon(0.25));
    assert_eq!((leakage.total(), leakage.in_period()), (1.75, 0.25));
    leakage.note(35, epsilon(0.5));
    assert_eq!((leakage.total(), leakage.in_period(), leakage.last()), (2.25, 0.5, Some((35, epsilon(0.5)))));
    for bad in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(leakage.pointwise(bad).is_err());
    }
}

/// A fair bit released 1,000 times at epsilon 0.1.
#[test]
fn pointwise_bound_holds_for_fixed_sequences_only() {
    let mut leakage = Leakage::new(None);
    (0..1_000).for_each(|timestamp| leakage.note(timestamp, epsilon(0.1)));
    let bound = leakage.pointwise(1e-5).unwrap();
    assert!((bound.above - 21.719).abs() < 5e-4, "{bound:?}");
    let spread = (11.0 * (2.0 * 1e5_f64.ln() + 11.0_f64.ln())).sqrt();
    assert!((bound.below_true + spread).abs() < 1e-9);
    assert!((bound.below_any + spread + 15.0).abs() < 1e-9);
    assert!((leakage.total() - 100.0).abs() < 1e-9);

    // Whatever is released, the sequence equal to it has gained this much.
    let channel = hamming::channel(&[0.5, 0.5], epsilon(0.1)).unwrap();
    let gain = 1_000.0 * (channel.probability(0, 0) / 0.5).ln();
    assert!((gain - 90.90).abs() < 5e-3, "{gain}");

    // The channel that moves most: up by epsilon with probability u/(u+1), else down. Its exact tail, against delta.
    let up = 1.0 / (1.0 + (-0.1_f64).exp());
    let mut log_choose = 0.0_f64;
    let mut tail = 0.0;
    for ups in 0..=1_000_i32 {
        if 0.1 * f64::from(2 * ups - 1_000) > bound.above {
            tail += (log_choose + f64::from(ups) * up.ln() + f64::from(1_000 - ups) * (1.0 - up).ln()).exp();
        }
        log_choose += f64::from(1_000 - ups).ln() - f64::from(ups + 1).ln();
    }
    assert!((tail - 5.319e-8).abs() < 1e-10, "{tail:e}");
}

/// The probability that a bound is ever exceeded within 3,000 steps, exactly: of zeros, each believed at `theta` and
/// released at epsilon 0.1, which gain or lose epsilon with each answer. Whoever only guesses once it is exceeded
/// exceeds it in the end, too.
fn ever_exceeded(mut bound_after: impl FnMut(u32) -> f64) -> f64 {
    let theta = 1.0 / (1.0 + 0.1_f64.exp());
    let channel = hamming::channel(&[theta, 1.0 - theta], epsilon(0.1)).unwrap();
    let up = channel.probability(0, 0);
    assert!(((up / theta).ln() - 0.1).abs() < 1e-12 && (((1.0 - up) / (1.0 - theta)).ln() + 0.1).abs() < 1e-12);
    let (mut by_ups, mut exceeded) = (vec![1.0], 0.0);
    for steps in 1..=3_000_u32 {
        let bound = bound_after(steps);
        by_ups.push(0.0);
        for ups in (0..by_ups.len()).rev() {
            let from_below = if ups > 0 { by_ups[ups - 1] * up } else { 0.0 };
            let share = by_ups[ups] * (1.0 - up) + from_below;
            let gain = 0.1 * (2.0 * ups as f64 - f64::from(steps));
            let over = gain > bound + 1e-9;
            exceeded += if over { share } else { 0.0 };
            by_ups[ups] = if over || share < 1e-18 { 0.0 } else { share };
        }
    }
    exceeded
}

#[test]
fn pointwise_bound_holds_at_any_stopping_time() {
    for (delta, exact) in [(0.01, 0.002_507), (0.1, 0.031_31)] {
        let mut leakage = Leakage::new(None);
        let probability = ever_exceeded(|steps| {
            leakage.note(u64::from(steps), epsilon(0.1));
            leakage.pointwise(delta).unwrap().above
        });
        assert!(probability <= delta && (probability - exact).abs() < 1e-5, "{probability}");
    }
    // A bound for a number of steps that is fixed beforehand does not.
    let fixed = |steps| 0.1 * f64::from(steps) * 0.05_f64.tanh() + (0.02 * 100_f64.ln() * f64::from(steps)).sqrt();
    let probability = ever_exceeded(|steps| fixed(steps).min(0.1 * f64::from(steps)));
    assert!((probability - 0.025_71).abs() < 1e-5, "{probability}");
}

/// Pointwise bounds that the belief in "all zeros" breaks at some time, as (above, below_true, below_any), in runs of
/// fair bits, epsilon 0.1 and 10,000 steps, at `delta` 0.01.
fn broken_bounds(runs: u64, mut truth: impl FnMut(&mut SeededRandom) -> bool) -> [u32; 3] {
    const STEPS: u64 = 10_000;
    let channel = hamming::channel(&[0.5, 0.5], epsilon(0.1)).unwrap();
    let kept = channel.probability(0, 0);
    let (gain, fall) = ((kept / 0.5).ln(), ((1.0 - kept) / 0.5).ln());
    let mut leakage = Leakage::new(None);
    let bounds: Vec<_> = (0..STEPS)
        .map(|timestamp| {
            leakage.note(timestamp, epsilon(0.1));
            leakage.pointwise(0.01).unwrap()
        })
        .collect();
    let mut broken = [0; 3];
    for run in 0..runs {
        let random = &mut SeededRandom::with_stream(25, run);
        let (mut belief, mut breaks) = (0.0, [false; 3]);
        for bound in &bounds {
            let symbol = truth(random);
            let is_kept = unit(random) < kept;
            // The answer is a zero.
            belief += if symbol != is_kept { gain } else { fall };
            // Floating-point sums: 10,000 additions lose less than this.
            let (low, high) = (belief + 1e-9, belief - 1e-9);
            breaks[0] |= high > bound.above;
            breaks[1] |= low < bound.below_true;
            breaks[2] |= low < bound.below_any;
        }
        broken.iter_mut().zip(breaks).for_each(|(broken, breaks)| *broken += u32::from(breaks));
    }
    broken
}

/// A bound that holds with probability 0.99 is broken in more than 15 of 300 runs with probability below 2e-7.
#[test]
fn pointwise_bounds_hold_for_the_sequences_they_name() {
    const MOST: u32 = 15;
    let true_one = broken_bounds(300, |_| false);
    assert!(true_one.iter().all(|broken| *broken <= MOST), "{true_one:?}");

    let random_one = broken_bounds(300, |random| unit(random) < 0.5);
    assert!(random_one[0] <= MOST && random_one[2] <= MOST, "{random_one:?}");
    // The mean after 10,000 steps is 8 below the bound, and the standard deviation 9.5: expected in 240 runs and more.
    // Fewer than 180 have a probability below 1e-15.
    assert!(random_one[1] > 180, "the bound for the true sequence covers another one: {random_one:?}");

    let opposite = broken_bounds(300, |_| true);
    assert!(opposite[0] <= MOST && opposite[2] <= MOST, "{opposite:?}");
    assert_eq!(opposite[1], 300);
}

/// The least expected logarithm of a step over the extreme channels, against the bound of the proof.
#[test]
fn no_channel_falls_faster_than_below_any_allows() {
    for step in 1..=2_000 {
        let eps = 0.005 * f64::from(step);
        let (low, high) = ((-eps).exp(), eps.exp());
        let exact = -eps * (1.0 - 2.0 * low * low / (1.0 + low));
        assert!(exact >= -1.5 * eps * eps, "{eps}");
        let part = 1.0 / (1.0 + high);
        for portion in [0.2_f64, 0.5, 0.8, 1.0] {
            // `r*` is high on `part`; `r` is low there and on a share of the rest, and the same on what is left.
            let rest = (1.0 - part) * portion;
            let value = (1.0 - low * (1.0 - rest)) / rest;
            if value <= high {
                let mean = part * high * low.ln() + (1.0 - part - rest) * low * low.ln() + rest * low * value.ln();
                assert!(mean >= exact - 1e-9, "{eps} {portion}: {mean} {exact}");
            }
        }
    }
}
