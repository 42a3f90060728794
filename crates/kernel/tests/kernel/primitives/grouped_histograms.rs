use tidegate_kernel::primitives::{
    ClassHistograms, Neighbours, PrimitiveError, common_unit, grouped_histograms, seal_class_histograms,
    weighted_distance,
};
use tidegate_kernel::{Epsilon, Permit, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    account, assert_fits, assert_rejects, class_ledgers, class_permit, epsilon, fold, laplace_weights, loss, permit,
    sealed_at, tally,
};

const KINDS: [Neighbours; 2] = [Neighbours::AddRemove, Neighbours::Replace];

fn sensitivity(neighbours: Neighbours) -> f64 {
    neighbours.histogram_sensitivity(std::num::NonZeroU64::MIN) as f64
}

#[test]
fn each_group_has_its_sum_and_noise_scale() {
    for (seed, kind) in [(180, Neighbours::AddRemove), (181, Neighbours::Replace)] {
        // Class 3 takes no part.
        let sealed = ClassHistograms::seal(account(), 0, &[4, 1, 2, 3], vec![7, 1, 20, 2, 5, 0, 1_000, 1_000]).unwrap();
        let mut random = SeededRandom::new(seed);
        let reach = 12;
        let side = 2 * reach as usize + 1;
        let drawn = tally(DRAWS, side * side, || {
            let careful = vec![class_permit(2, epsilon("0.4")), class_permit(4, epsilon("0.4"))];
            let groups = [careful, vec![class_permit(1, epsilon("0.9"))]];
            let noisy = grouped_histograms(groups, &sealed, kind, &mut random).unwrap();
            assert_eq!(noisy.epsilon(), epsilon("0.9"));
            let noisy = noisy.into_value();
            fold(noisy[0][0] - 12, reach) * side + fold(noisy[1][1] - 2, reach)
        });
        let joint = |careful: f64, relaxed: f64| -> Vec<f64> {
            let (first, second) = (laplace_weights(careful, reach), laplace_weights(relaxed, reach));
            first.iter().flat_map(|a| second.iter().map(move |b| a * b)).collect()
        };
        let (careful, relaxed) = (sensitivity(kind) / 0.4, sensitivity(kind) / 0.9);
        assert_fits(&drawn, &joint(careful, relaxed));
        assert_rejects(&drawn, &joint(1.1 * careful, relaxed));
        assert_rejects(&drawn, &joint(0.9 * careful, relaxed));
        assert_rejects(&drawn, &joint(careful, 1.1 * relaxed));
        assert_rejects(&drawn, &joint(careful, 0.9 * relaxed));
    }
}

#[test]
fn classes_are_weighted_by_their_epsilon() {
    // Weights 2 and 3 of a common unit of 0.2; class 3 takes no part.
    let (careful, relaxed) = (epsilon("0.4"), epsilon("0.6"));
    assert_eq!(common_unit([careful, relaxed]), Some(epsilon("0.2")));
    assert_eq!((common_unit([careful]), common_unit([])), (Some(careful), None));
    for (seed, kind) in [(185, Neighbours::AddRemove), (186, Neighbours::Replace)] {
        let sealed = ClassHistograms::seal(account(), 0, &[1, 2, 3], vec![7, 1, 20, 2, 1_000, 1_000]).unwrap();
        let mut random = SeededRandom::new(seed);
        let (truth, reach) = ([2 * 7 + 3 * 20, 2 + 3 * 2], 20);
        let side = 2 * reach as usize + 1;
        let drawn = tally(DRAWS, side * side, || {
            let group = vec![class_permit(2, relaxed), class_permit(1, careful)];
            let noisy = grouped_histograms([group], &sealed, kind, &mut random).unwrap();
            assert_eq!(noisy.epsilon(), relaxed);
            let noisy = noisy.into_value();
            fold(noisy[0][0] - truth[0], reach) * side + fold(noisy[0][1] - truth[1], reach)
        });
        let joint = |scale: f64| -> Vec<f64> {
            let weights = laplace_weights(scale, reach);
            weights.iter().flat_map(|a| weights.iter().map(move |b| a * b)).collect()
        };
        let scale = sensitivity(kind) / 0.2;
        assert_fits(&drawn, &joint(scale));
        assert_rejects(&drawn, &joint(1.1 * scale));
        assert_rejects(&drawn, &joint(0.9 * scale));
        // The loss of each class: its weight times the unit, in one cell or in two.
        for (weight, budget) in [(2, 0.4), (3, 0.6)] {
            let outputs = |counts: [i64; 2]| -> Vec<f64> {
                let of =
                    |count: i64| (-30..=40).map(move |output: i64| (-((output - count).abs() as f64) / scale).exp());
                of(counts[0]).flat_map(|a| of(counts[1]).map(move |b| a * b)).collect()
            };
            let worst = match kind {
                Neighbours::AddRemove => loss(&outputs([4 + weight, 4]), &outputs([4, 4])),
                Neighbours::Replace => loss(&outputs([4 + weight, 4]), &outputs([4, 4 + weight])),
            };
            assert!((worst - budget).abs() < ROUNDING, "{kind:?} {budget}: {worst}");
        }
    }
}

#[test]
fn a_user_loses_nothing_through_another_group() {
    // The joint distribution of both cells of the user's group, for counts with and without the user.
    let outputs = |counts: [i64; 2], scale: f64| -> Vec<f64> {
        let of = |count: i64| (-15..=20).map(move |output: i64| (-((output - count).abs() as f64) / scale).exp());
        of(counts[0]).flat_map(|a| of(counts[1]).map(move |b| a * b)).collect()
    };
    for kind in KINDS {
        for budget in [0.1, 0.9, 2.5] {
            let scale = sensitivity(kind) / budget;
            let worst = match kind {
                Neighbours::AddRemove => loss(&outputs([3, 2], scale), &outputs([2, 2], scale)),
                Neighbours::Replace => loss(&outputs([3, 2], scale), &outputs([2, 3], scale)),
            };
            assert!((worst - budget).abs() < ROUNDING, "{kind:?} {budget}: {worst}");
        }
    }
    // For all data of class 2, the output for class 1 is the same, draw by draw.
    let published = |others: u64| {
        let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![5, others]).unwrap();
        let groups = [vec![class_permit(1, epsilon("0.3"))], vec![class_permit(2, epsilon("0.3"))]];
        let random = &mut SeededRandom::new(182);
        grouped_histograms(groups, &sealed, Neighbours::AddRemove, random).unwrap().into_value()[0].clone()
    };
    assert_eq!(published(0), published(1_000_000));
}

/// The probability that noise of a scale in billionths is below `x`.
fn below(scale: f64, x: f64) -> f64 {
    if x < 0.0 { 0.5 * (x / scale).exp() } else { 1.0 - 0.5 * (-x / scale).exp() }
}

#[test]
fn the_weighted_distance_has_noise_of_scale_one_billion() {
    for (seed, kind) in [(183, Neighbours::AddRemove), (184, Neighbours::Replace)] {
        let sealed = ClassHistograms::seal(account(), 0, &[1, 2, 3], vec![12, 5, 4, 9, 1_000, 1_000]).unwrap();
        let references: [(u32, &[i64]); 2] = [(2, &[10, 9]), (1, &[9, 0])];
        // |0.5·3 + 1.5·(-6)| + |0.5·5 + 0| in billionths.
        let distance = 10_000_000_000_i64;
        let mut random = SeededRandom::new(seed);
        let (cells, width) = (80, 200_000_000_i64);
        let drawn = tally(DRAWS, cells, || {
            let permits = [class_permit(1, epsilon("0.5")), class_permit(2, epsilon("1.5"))];
            let noisy = weighted_distance(permits, &sealed, &references, kind, &mut random).unwrap();
            ((noisy.into_value() - distance).div_euclid(width) + 40).clamp(0, cells as i64 - 1) as usize
        });
        let weights = |scale: f64| -> Vec<f64> {
            let edge = |cell: usize| match cell {
                0 => 0.0,
                _ if cell == cells => 1.0,
                _ => below(scale, (cell as f64 - 40.0) * width as f64),
            };
            (0..cells).map(|cell| edge(cell + 1) - edge(cell)).collect()
        };
        let scale = sensitivity(kind) * 1e9;
        assert_fits(&drawn, &weights(scale));
        assert_rejects(&drawn, &weights(1.1 * scale));
        assert_rejects(&drawn, &weights(0.9 * scale));
    }
}

#[test]
fn one_user_moves_the_distance_by_at_most_epsilon() {
    let weights = [3_i64, 7];
    let distance = |counts: [[i64; 2]; 2], references: [[i64; 2]; 2]| -> i64 {
        let cell = |k: usize| (0..2).map(|i| weights[i] * (counts[i][k] - references[i][k])).sum::<i64>().abs();
        cell(0) + cell(1)
    };
    let numbers = [0, 1, 2, 5];
    for class in 0..2 {
        let (mut added, mut replaced) = (0, 0);
        for code in 0..4_usize.pow(8) {
            let digit = |place: u32| numbers[code / 4_usize.pow(place) % 4];
            let counts = [[digit(0), digit(1)], [digit(2), digit(3)]];
            let references = [[digit(4), digit(5)], [digit(6), digit(7)]];
            let here = distance(counts, references);
            let mut more = counts;
            more[class][0] += 1;
            added = added.max((distance(more, references) - here).abs());
            more[class][1] -= 1;
            replaced = replaced.max((distance(more, references) - here).abs());
        }
        assert_eq!((added, replaced), (weights[class], 2 * weights[class]));
    }
}

#[test]
fn public_properties_of_sealed_histograms_are_readable() {
    let sealed = seal_class_histograms(account(), 0, [(70_000, 2), (5, 0)], &[70_000, 5], 3).unwrap();
    assert_eq!(sealed.domain(), 3);
    assert_eq!(sealed.classes().collect::<Vec<_>>(), [5, 70_000]);
    let random = &mut SeededRandom::new(1);
    let groups = [vec![class_permit(70_000, Epsilon::MAX)], vec![class_permit(5, Epsilon::MAX)]];
    let exact = grouped_histograms(groups, &sealed, Neighbours::AddRemove, random).unwrap().into_value();
    assert_eq!(exact, [[0, 0, 1], [1, 0, 0]]);
    assert_eq!(sealed_at(0, vec![1_u64, 2, 3]).cells(), 3);
}

/// The errors of both primitives for permits of classes 1 and 2 at timestamp 0.
fn refusal(permits: impl Fn() -> Vec<Permit>) -> PrimitiveError {
    let random = &mut SeededRandom::new(1);
    let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![1, 2]).unwrap();
    let groups = permits().into_iter().map(|permit| vec![permit]);
    let of_groups = grouped_histograms(groups, &sealed, Neighbours::Replace, random).unwrap_err();
    let references: [(u32, &[i64]); 2] = [(1, &[0]), (2, &[0])];
    let of_distance = weighted_distance(permits(), &sealed, &references, Neighbours::Replace, random).unwrap_err();
    assert_eq!(of_groups, of_distance);
    of_groups
}

#[test]
fn rejects_missing_and_repeated_class_permits() {
    let one = epsilon("1");
    assert_eq!(refusal(|| vec![class_permit(1, one), permit(one)]), PrimitiveError::WithoutClass);
    assert_eq!(refusal(|| vec![class_permit(3, one)]), PrimitiveError::NoSuchClass { class: 3 });
    let twice = || vec![class_permit(1, one), class_permit(1, one)];
    assert_eq!(refusal(twice), PrimitiveError::ClassPaidTwice { class: 1 });
    assert_eq!(refusal(Vec::new), PrimitiveError::Nothing { expected: "class permit" });
    let later = || vec![class_ledgers([1]).spend(1, 6, one).unwrap()];
    assert_eq!(refusal(later), PrimitiveError::Timestamp { permit: 6, data: 0 });
}

#[test]
fn rejects_empty_groups_and_missing_references() {
    let random = &mut SeededRandom::new(1);
    let sealed = ClassHistograms::seal(account(), 0, &[1, 2], vec![1, 2]).unwrap();
    let half = epsilon("0.5");
    let empty = [vec![class_permit(1, half)], Vec::new()];
    let error = grouped_histograms(empty, &sealed, Neighbours::AddRemove, random).unwrap_err();
    assert_eq!(error, PrimitiveError::Nothing { expected: "permit in each group" });
    for (reference, given) in [((2, &[0][..]), 0), ((1, &[0, 1][..]), 2)] {
        let permits = [class_permit(1, half)];
        let error = weighted_distance(permits, &sealed, &[reference], Neighbours::AddRemove, random).unwrap_err();
        assert_eq!(error, PrimitiveError::Length { what: "reference counts", given, expected: 1 });
    }
}
