use tidegate_kernel::primitives::{
    ClassHistograms, HistogramError, Neighbours, PrimitiveError, sampled_distance, sampled_histogram,
    sampling_probability, seal_class_histograms,
};
use tidegate_kernel::{Epsilon, Permit, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    account, assert_fits, assert_rejects, binomial_weights, class_ledgers, class_permit, epsilon, laplace_probability,
    loss, permit, tally,
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

/// The probability that noise plus a binomial sample of `users` with probability `p` is `output`.
fn sampled_count(users: u64, p: f64, scale: f64, output: i64) -> f64 {
    let kept = binomial_weights(users, p);
    kept.iter().zip(0_i64..).map(|(weight, kept)| weight * laplace_probability(scale, output - kept)).sum()
}

#[test]
fn users_are_sampled_with_the_stated_probability() {
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
    // Two cells: 12 and 5 careful users, 3 and 0 users who are not sampled, and a class without a permit.
    for (seed, kind) in [(170, Neighbours::AddRemove), (171, Neighbours::Replace)] {
        let sealed = ClassHistograms::seal(account(), 0, &[30, 10, 20], vec![12, 5, 3, 0, 1_000, 1_000]).unwrap();
        let mut random = SeededRandom::new(seed);
        let (low, high) = (-8, 18);
        let side = (high - low + 1) as usize;
        let cell = |output: i64| (output.clamp(low, high) - low) as usize;
        let drawn = tally(DRAWS / 5, side * side, || {
            let permits = [class_permit(10, threshold), class_permit(30, careful)];
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

/// The probability of every pair of outputs, for other users and one user in a cell (or absent).
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
fn a_user_loses_exactly_the_epsilon_of_the_class() {
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

/// So `Replace` needs its own constants.
#[test]
fn add_remove_constants_do_not_protect_replacement() {
    let p = sampling_probability(Neighbours::AddRemove, epsilon("0.3"), epsilon("1.1")).unwrap();
    let scale = noise_scale(Neighbours::AddRemove, 1.1);
    let attained = loss(&outputs([3, 2], Some(0), p, scale), &outputs([3, 2], Some(1), p, scale));
    assert!(attained > 0.4, "{attained}");
}

#[test]
fn every_call_draws_a_new_sample() {
    let random = &mut SeededRandom::new(172);
    let sealed = ClassHistograms::seal(account(), 0, &[0], vec![1_000_000]).unwrap();
    // At a threshold of 40 the noise is zero, except with probability e^-40; only the samples differ.
    let mut draw = || {
        let permits = [class_permit(0, epsilon("39"))];
        sampled_histogram(permits, &sealed, epsilon("40"), Neighbours::AddRemove, random).unwrap().into_value()
    };
    assert_ne!(draw(), draw());
}

#[test]
fn users_are_sealed_by_class_and_value() {
    let sealed = seal_class_histograms(account(), 0, [(8, 2), (5, 0), (5, 2), (8, 2)], &[8, 5], 3).unwrap();
    let random = &mut SeededRandom::new(1);
    let mut of_classes = |classes: &[u32]| {
        let permits = classes.iter().map(|class| class_permit(*class, Epsilon::MAX));
        sampled_histogram(permits, &sealed, Epsilon::MAX, Neighbours::Replace, random).unwrap().into_value()
    };
    assert_eq!(of_classes(&[8]), [0, 0, 2]);
    assert_eq!(of_classes(&[5]), [1, 0, 1]);
    assert_eq!(of_classes(&[5, 8]), [1, 0, 3]);
}

#[test]
fn errors_name_the_position_not_the_content() {
    let error = |users: [(u32, u32); 2]| seal_class_histograms(account(), 0, users, &[0, 1], 3).unwrap_err();
    assert_eq!(error([(0, 0), (0, 3)]), HistogramError::Value { position: 1, domain: 3 });
    assert_eq!(error([(2, 0), (0, 0)]), HistogramError::Class { position: 0, classes: 2 });
    assert_eq!(error([(2, 0), (0, 0)]).to_string(), "the class at position 0 is none of the 2 classes");
    assert!(matches!(seal_class_histograms(account(), 0, [], &[1, 2], u32::MAX), Err(HistogramError::Cells { .. })));
    assert!(matches!(seal_class_histograms(account(), 0, [], &[], 5), Err(HistogramError::Cells { cells: 0 })));
    let twice = seal_class_histograms(account(), 0, [], &[1, 2, 1], 5).unwrap_err();
    assert_eq!(twice.to_string(), "class 1 is named twice");
    let error = |classes: &[u32], counts: Vec<u64>| ClassHistograms::seal(account(), 0, classes, counts).unwrap_err();
    assert_eq!(error(&[0, 1], vec![1, 2, 3]), HistogramError::Uneven { counts: 3, classes: 2 });
    let message = "3 counts cannot be divided evenly among 0 classes";
    assert_eq!(error(&[], vec![1, 2, 3]).to_string(), message);
    assert_eq!(error(&[1], Vec::new()), HistogramError::Cells { cells: 0 });
    assert_eq!(error(&[4, 4], vec![1, 2]), HistogramError::RepeatedClass { class: 4 });
}

/// The sampling time grows with the counts, so counts are limited.
#[test]
fn rejects_a_count_too_large_to_sample() {
    let most = ClassHistograms::MAX_COUNT;
    assert!(ClassHistograms::seal(account(), 0, &[1], vec![0, most]).is_ok());
    let error = ClassHistograms::seal(account(), 0, &[1], vec![0, most + 1]).unwrap_err();
    assert_eq!(error, HistogramError::Count { position: 1 });
    assert_eq!(error.to_string(), "the count at position 1 is above 1099511627776, the most that is sampled from");
}

/// The errors of both primitives for permits of classes 1 and 2 at timestamp 0.
fn refusal(permits: impl Fn() -> Vec<Permit>, threshold: Epsilon) -> PrimitiveError {
    let random = &mut SeededRandom::new(1);
    let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![1, 2]).unwrap();
    let kind = Neighbours::AddRemove;
    let of_histogram = sampled_histogram(permits(), &sealed, threshold, kind, random).unwrap_err();
    let of_distance = sampled_distance(permits(), &sealed, &[0], threshold, kind, random).unwrap_err();
    assert_eq!(of_histogram, of_distance);
    of_histogram
}

#[test]
fn rejects_spends_above_or_far_below_the_threshold() {
    let (one, two) = (epsilon("1"), epsilon("2"));
    let above = refusal(|| vec![class_permit(1, one), class_permit(2, two)], one);
    assert_eq!(above, PrimitiveError::AboveSamplingThreshold { epsilon: two, threshold: one });
    assert_eq!(above.to_string(), "a class spends 2, more than the threshold of 1; spend no more than that");
    let tiny = refusal(|| vec![class_permit(1, one)], Epsilon::MAX);
    assert_eq!(tiny, PrimitiveError::NobodySampled { epsilon: one, threshold: Epsilon::MAX });
    assert_eq!(refusal(Vec::new, one), PrimitiveError::Nothing { expected: "class permit" });
}

#[test]
fn rejects_permits_of_other_classes() {
    let one = epsilon("1");
    let without = refusal(|| vec![class_permit(1, one), permit(one)], one);
    assert_eq!(without, PrimitiveError::WithoutClass);
    assert_eq!(without.to_string(), "the permit is not for a class of users, but the data are");
    let absent = refusal(|| vec![class_permit(3, one)], one);
    assert_eq!(absent.to_string(), "the permit is for class 3, of which there is no histogram");
    let twice = refusal(|| vec![class_permit(1, one), class_permit(1, one)], one);
    assert_eq!(twice.to_string(), "two permits were given for class 1; spend the sum at once");
    let later = || vec![class_ledgers([1]).spend(1, 6, one).unwrap()];
    assert_eq!(refusal(later, one), PrimitiveError::Timestamp { permit: 6, data: 0 });
    let random = &mut SeededRandom::new(1);
    let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![1, 2]).unwrap();
    let short = sampled_distance([class_permit(1, one)], &sealed, &[1, 2], one, Neighbours::Replace, random);
    assert_eq!(short, Err(PrimitiveError::Length { what: "reference counts", given: 2, expected: 1 }));
}

/// If permits were matched by position, swapping two would make careful users lose the epsilon of relaxed ones.
#[test]
fn the_order_of_the_permits_makes_no_difference() {
    let (careful, relaxed) = (epsilon("0.001"), epsilon("30"));
    let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![1_000_000, 7]).unwrap();
    for swapped in [false, true] {
        let mut permits = vec![class_permit(1, careful), class_permit(2, relaxed)];
        if swapped {
            permits.reverse();
        }
        let random = &mut SeededRandom::new(173);
        // At this threshold no careful user is sampled, except with probability 10^-9, and there is no noise.
        let noisy = sampled_histogram(permits, &sealed, relaxed, Neighbours::AddRemove, random).unwrap();
        assert_eq!(noisy.into_value(), [7]);
    }
}

/// The probability of each distance of the sample from the reference, noise included: users of one class in two cells.
fn distances(users: [u64; 2], reference: [i64; 2], p: f64, scale: f64) -> Vec<f64> {
    let kept = users.map(|users| binomial_weights(users, p));
    let mut outputs = vec![0.0; 61];
    for (first, of_first) in (0_i64..).zip(&kept[0]) {
        for (second, of_second) in (0_i64..).zip(&kept[1]) {
            let distance = (first - reference[0]).abs() + (second - reference[1]).abs();
            for (output, probability) in (-30..=30).zip(&mut outputs) {
                *probability += of_first * of_second * laplace_probability(scale, output - distance);
            }
        }
    }
    outputs
}

#[test]
fn sampled_distances_have_noise_of_the_threshold() {
    let (careful, threshold) = (epsilon("0.5"), epsilon("1.5"));
    for (seed, kind) in [(174, Neighbours::AddRemove), (175, Neighbours::Replace)] {
        let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![12, 5, 1_000, 1_000]).unwrap();
        let mut random = SeededRandom::new(seed);
        let drawn = tally(DRAWS, 61, || {
            let permits = [class_permit(1, careful)];
            let noisy = sampled_distance(permits, &sealed, &[9, 0], threshold, kind, &mut random).unwrap();
            (noisy.into_value().clamp(-30, 30) + 30) as usize
        });
        let (p, scale) = (formula(kind, 0.5, 1.5), noise_scale(kind, 1.5));
        let weights = |p: f64, scale: f64| distances([12, 5], [9, 0], p, scale);
        assert_fits(&drawn, &weights(p, scale));
        assert_rejects(&drawn, &weights(p, 1.1 * scale));
        assert_rejects(&drawn, &weights(p, 0.9 * scale));
        assert_rejects(&drawn, &weights(1.1 * p, scale));
        assert_rejects(&drawn, &weights(0.9 * p, scale));
    }
}

#[test]
fn distances_lose_exactly_the_epsilon_of_the_class() {
    for (small, threshold) in [("0.3", "1.1"), ("1", "2"), ("0.05", "4"), ("0.8", "0.8")] {
        let budget: f64 = small.parse().unwrap();
        for kind in KINDS {
            let p = sampling_probability(kind, epsilon(small), epsilon(threshold)).unwrap();
            let scale = noise_scale(kind, threshold.parse().unwrap());
            let mut worst = 0.0_f64;
            for reference in [[-1, -1], [-1, 9], [9, -1], [9, 9], [1, 2]] {
                let of = |users| distances(users, reference, p, scale);
                worst = worst.max(match kind {
                    Neighbours::AddRemove => loss(&of([3, 2]), &of([2, 2])).max(loss(&of([3, 2]), &of([3, 1]))),
                    Neighbours::Replace => loss(&of([3, 2]), &of([2, 3])),
                });
            }
            assert!((worst - budget).abs() < ROUNDING, "{kind:?} {small} {threshold}: {worst}");
        }
    }
}
