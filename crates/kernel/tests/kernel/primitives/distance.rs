use tidegate_kernel::primitives::{Neighbours, PrimitiveError, noisy_distance};
use tidegate_kernel::{Epsilon, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    all_vectors, assert_fits, assert_rejects, epsilon, fold, laplace_probability, laplace_weights, loss, nonzero,
    permit, sealed_at, tally,
};

#[test]
fn the_distance_has_noise_of_the_calibrated_scale() {
    let amount = epsilon("0.8");
    let counts = sealed_at(0, vec![4, 0, 9]);
    let reference = [6, -2, 9]; // at a distance of 2 + 2 + 0
    for (seed, neighbours, sensitivity) in [(110, Neighbours::AddRemove, 1.0), (111, Neighbours::Replace, 2.0)] {
        let mut random = SeededRandom::new(seed);
        let scale = sensitivity / amount.as_f64();
        let reach = (10.0 * scale) as i64;
        let drawn = tally(DRAWS, 2 * reach as usize + 1, || {
            let noisy = noisy_distance(permit(amount), &counts, &reference, neighbours, nonzero(1), &mut random);
            fold(noisy.unwrap().into_value() - 4, reach)
        });
        assert_fits(&drawn, &laplace_weights(scale, reach));
        assert_rejects(&drawn, &laplace_weights(1.1 * scale, reach));
        assert_rejects(&drawn, &laplace_weights(0.9 * scale, reach));
    }
}

#[test]
fn the_largest_loss_is_epsilon() {
    let amount = 0.9;
    let reference = [1, 3];
    let outputs = |counts: &[i64], scale: f64| -> Vec<f64> {
        let distance: i64 = counts.iter().zip(reference).map(|(count, reference)| (count - reference).abs()).sum();
        (-30..=30).map(|output| laplace_probability(scale, output - distance)).collect()
    };
    let (mut added, mut replaced) = (0.0_f64, 0.0_f64);
    for counts in all_vectors(&[0, 1, 2, 3, 4, 5], 2) {
        let up = |cell: usize| (0..2).map(|k| counts[k] + i64::from(k == cell)).collect::<Vec<_>>();
        for cell in 0..2 {
            added = added.max(loss(&outputs(&counts, 1.0 / amount), &outputs(&up(cell), 1.0 / amount)));
        }
        replaced = replaced.max(loss(&outputs(&up(0), 2.0 / amount), &outputs(&up(1), 2.0 / amount)));
    }
    assert!((added - amount).abs() < ROUNDING, "{added}");
    assert!((replaced - amount).abs() < ROUNDING, "{replaced}");
}

#[test]
fn rejects_histograms_of_different_lengths() {
    let random = &mut SeededRandom::new(1);
    let counts = sealed_at(0, vec![4, 0, 9]);
    let result = noisy_distance(permit(epsilon("1")), &counts, &[1, 2], Neighbours::AddRemove, nonzero(1), random);
    assert_eq!(result, Err(PrimitiveError::Length { what: "reference counts", given: 2, expected: 3 }));
    assert_eq!(result.unwrap_err().to_string(), "2 reference counts were given, but 3 are needed");
}

#[test]
fn the_largest_distances_do_not_overflow() {
    let random = &mut SeededRandom::new(1);
    let counts = sealed_at(0, vec![u64::MAX; 3]);
    let far = [i64::MIN; 3];
    let noisy = noisy_distance(permit(Epsilon::MAX), &counts, &far, Neighbours::AddRemove, nonzero(1), random);
    assert_eq!(noisy.unwrap().into_value(), i64::MAX);
}
