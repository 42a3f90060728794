use tidegate_kernel::primitives::{
    ClassHistograms, HistogramError, Neighbours, PrimitiveError, sampled_histogram, sampling_probability,
    seal_class_histograms,
};
use tidegate_kernel::{Epsilon, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    assert_fits, assert_rejects, binomial_weights, epsilon, laplace_probability, loss, permit, tally,
};

const KINDS: [Neighbours; 2] = [Neighbours::AddRemove, Neighbours::Replace];

fn formula(neighbours: Neighbours, epsilon: f64, threshold: f64) -> f64 {
    let half = threshold / 2.0;
    let whole = match neighbours {
        Neighbours::AddRemove => threshold.exp_m1(),
        Neighbours::Replace => half.exp_m1() - epsilon.exp() * (-half).exp_m1(),
    };
    epsilon.exp_m1() / whole
}

fn noise_scale(neighbours: Neighbours, threshold: f64) -> f64 {
    neighbours.histogram_sensitivity(std::num::NonZeroU64::MIN) as f64 / threshold
}

/// The probability that noise plus a binomial number of `users`, kept with probability `p`, is `output`.
fn sampled_count(users: u64, p: f64, scale: f64, output: i64) -> f64 {
    let kept = binomial_weights(users, p);
    kept.iter().zip(0_i64..).map(|(weight, kept)| weight * laplace_probability(scale, output - kept)).sum()
}

#[test]
fn users_are_kept_with_the_stated_probability() {
    let probability = |kind, epsilon: &str, threshold: &str| {
        sampling_probability(kind, epsilon.parse().unwrap(), threshold.parse().unwrap()).unwrap()
    };
    assert_eq!(probability(Neighbours::Replace, "1", "2"), 0.5);
    for kind in KINDS {
        assert_eq!(probability(kind, "0.7", "0.7"), 1.0);
        for (small, large) in [("0.1", "1"), ("0.5", "0.500000001"), ("0.000000001", "3"), ("5", "20"), ("30", "40")] {
            let expected = formula(kind, small.parse().unwrap(), large.parse().unwrap());
            let actual = probability(kind, small, large);
            assert!((actual / expected - 1.0).abs() < 1e-8, "{kind:?} {small} {large}: {actual} {expected}");
        }
    }
}

#[test]
fn the_counts_are_a_sample_of_each_class_plus_noise() {
    let (careful, threshold) = (epsilon("0.5"), epsilon("1.5"));
    // Two cells; 12 and 5 careful users, 3 and 0 who are taken whole, and a class that takes no part.
    for (seed, kind) in [(170, Neighbours::AddRemove), (171, Neighbours::Replace)] {
        let sealed = ClassHistograms::seal(3, vec![12, 5, 3, 0, 1_000, 1_000]).unwrap();
        let mut random = SeededRandom::new(seed);
        let (low, high) = (-8, 18);
        let side = (high - low + 1) as usize;
        let cell = |output: i64| (output.clamp(low, high) - low) as usize;
        let drawn = tally(DRAWS / 5, side * side, || {
            let permits = [Some(permit(careful)), Some(permit(threshold)), None];
            let noisy = sampled_histogram(permits, &sealed, threshold, kind, &mut random).unwrap().into_value();
            cell(noisy[0]) * side + cell(noisy[1])
        });
        let marginal = |users: u64, whole: i64, p: f64, scale: f64| -> Vec<f64> {
            let exact = |output: i64| sampled_count(users, p, scale, output - whole);
            let far = 200;
            let tail = |outputs: std::ops::RangeInclusive<i64>| outputs.map(exact).sum::<f64>();
            (low..=high)
                .map(|output| match output {
                    _ if output == low => tail(-far..=low),
                    _ if output == high => tail(high..=far),
                    _ => exact(output),
                })
                .collect()
        };
        let joint = |p: f64, scale: f64| -> Vec<f64> {
            let (first, second) = (marginal(12, 3, p, scale), marginal(5, 0, p, scale));
            first.iter().flat_map(|a| second.iter().map(move |b| a * b)).collect()
        };
        let (p, scale) = (formula(kind, 0.5, 1.5), noise_scale(kind, 1.5));
        assert_fits(&drawn, &joint(p, scale));
        assert_rejects(&drawn, &joint(p, 1.1 * scale));
        assert_rejects(&drawn, &joint(p, 0.9 * scale));
        assert_rejects(&drawn, &joint(1.1 * p, scale));
        assert_rejects(&drawn, &joint(0.9 * p, scale));
    }
}

/// The probability of every pair of outputs, for others who may be kept and one user in a cell (or absent).
fn outputs(others: [u64; 2], user: Option<usize>, p: f64, scale: f64) -> Vec<f64> {
    let alone = |cell: usize, shift: i64| -> Vec<f64> {
        (-12..=16).map(|output| sampled_count(others[cell], p, scale, output - shift)).collect()
    };
    let joint = |first: Vec<f64>, second: Vec<f64>| -> Vec<f64> {
        first.iter().flat_map(|a| second.iter().map(move |b| a * b)).collect()
    };
    let without = joint(alone(0, 0), alone(1, 0));
    let Some(cell) = user else { return without };
    let with = joint(alone(0, i64::from(cell == 0)), alone(1, i64::from(cell == 1)));
    with.iter().zip(&without).map(|(kept, left_out)| p * kept + (1.0 - p) * left_out).collect()
}

#[test]
fn a_user_loses_exactly_what_the_users_class_spends() {
    for (small, threshold) in [("0.3", "1.1"), ("1", "2"), ("0.05", "4"), ("0.8", "0.8")] {
        let budget: f64 = small.parse().unwrap();
        for kind in KINDS {
            let p = sampling_probability(kind, epsilon(small), epsilon(threshold)).unwrap();
            let scale = noise_scale(kind, threshold.parse().unwrap());
            let of = |user| outputs([3, 2], user, p, scale);
            let attained = match kind {
                Neighbours::AddRemove => loss(&of(Some(0)), &of(None)).max(loss(&of(Some(1)), &of(None))),
                Neighbours::Replace => loss(&of(Some(0)), &of(Some(1))),
            };
            assert!((attained - budget).abs() < ROUNDING, "{kind:?} {small} {threshold}: {attained}");
        }
    }
}

/// Why `Replace` has constants of its own.
#[test]
fn the_constants_for_adding_and_removing_do_not_protect_a_replacement() {
    let p = sampling_probability(Neighbours::AddRemove, epsilon("0.3"), epsilon("1.1")).unwrap();
    let scale = noise_scale(Neighbours::AddRemove, 1.1);
    let attained = loss(&outputs([3, 2], Some(0), p, scale), &outputs([3, 2], Some(1), p, scale));
    assert!(attained > 0.4, "{attained}");
}

#[test]
fn every_call_draws_a_sample_of_its_own() {
    let random = &mut SeededRandom::new(172);
    let sealed = ClassHistograms::seal(1, vec![1_000_000]).unwrap();
    // At a threshold of 40 the noise is zero, but for a chance of e^-40; what differs is the sample.
    let mut draw = || {
        let permits = [Some(permit(epsilon("39")))];
        sampled_histogram(permits, &sealed, epsilon("40"), Neighbours::AddRemove, random).unwrap().into_value()
    };
    assert_ne!(draw(), draw());
}

#[test]
fn users_are_sealed_by_class_and_value() {
    let sealed = seal_class_histograms([(0, 2), (1, 0), (1, 2), (0, 2)], 2, 3).unwrap();
    let random = &mut SeededRandom::new(1);
    let mut of_classes = |permits: [bool; 2]| {
        let permits = permits.map(|takes_part| takes_part.then(|| permit(Epsilon::MAX)));
        sampled_histogram(permits, &sealed, Epsilon::MAX, Neighbours::Replace, random).unwrap().into_value()
    };
    assert_eq!(of_classes([true, false]), [0, 0, 2]);
    assert_eq!(of_classes([false, true]), [1, 0, 1]);
    assert_eq!(of_classes([true, true]), [1, 0, 3]);
}

#[test]
fn what_cannot_be_sealed_is_named_by_its_position_only() {
    let error = |users: [(u32, u32); 2]| seal_class_histograms(users, 2, 3).unwrap_err();
    assert_eq!(error([(0, 0), (0, 3)]), HistogramError::Value { position: 1, domain: 3 });
    assert_eq!(error([(2, 0), (0, 0)]), HistogramError::Class { position: 0, classes: 2 });
    assert_eq!(error([(2, 0), (0, 0)]).to_string(), "the class at position 0 is outside 0..2");
    assert!(matches!(seal_class_histograms([], u32::MAX, u32::MAX), Err(HistogramError::Cells { .. })));
    assert!(matches!(seal_class_histograms([], 0, 5), Err(HistogramError::Cells { cells: 0 })));
    let uneven = |classes: usize| ClassHistograms::seal(classes, vec![1, 2, 3]).unwrap_err();
    assert_eq!(uneven(2), HistogramError::Uneven { counts: 3, classes: 2 });
    assert_eq!(uneven(0).to_string(), "3 counts cannot be shared out evenly among 0 classes");
    assert_eq!(ClassHistograms::seal(1, Vec::new()).unwrap_err(), HistogramError::Cells { cells: 0 });
}

#[test]
fn a_spend_that_buys_nothing_is_refused() {
    let random = &mut SeededRandom::new(1);
    let sealed = ClassHistograms::seal(2, vec![1, 2]).unwrap();
    let (one, two) = (epsilon("1"), epsilon("2"));
    let mut error = |permits: Vec<Option<Epsilon>>, threshold: Epsilon| {
        let permits = permits.into_iter().map(|amount| amount.map(permit));
        sampled_histogram(permits, &sealed, threshold, Neighbours::AddRemove, random).unwrap_err()
    };
    let above = error(vec![Some(one), Some(two)], one);
    assert_eq!(above, PrimitiveError::AboveSamplingThreshold { epsilon: two, threshold: one });
    assert_eq!(above.to_string(), "a class spends 2, more than the threshold of 1; spend no more than that");
    let tiny = error(vec![Some(one), None], Epsilon::MAX);
    assert_eq!(tiny, PrimitiveError::NobodySampled { epsilon: one, threshold: Epsilon::MAX });
    assert_eq!(error(vec![None, None], one), PrimitiveError::Nothing { expected: "class permit" });
    let missing = error(vec![Some(one)], one);
    assert_eq!(missing, PrimitiveError::Length { what: "class permits", given: 1, expected: 2 });
}
