use tidegate_kernel::SeededRandom;
use tidegate_kernel::noise::{NoiseScale, ScaleError};
use tidegate_kernel::primitives::{PrimitiveError, Scores, noisy_max};

use super::{DRAWS, ROUNDING};
use crate::support::{
    all_vectors, assert_fits, assert_rejects, epsilon, geometric_tail, loss, nonzero, permit, sealed_at, tally,
};

/// The probability that each index wins, summed over its own noise.
pub fn winners(scores: &[i64], scale: f64) -> Vec<f64> {
    let reach = 20 + (40.0 * scale) as i64;
    let wins = |index: usize| -> f64 {
        let with_noise = |noise: i64| {
            let own = scores[index] + noise;
            // An earlier score must stay below, a later one may be equal.
            let loses = |(other, score): (usize, &i64)| match other.cmp(&index) {
                std::cmp::Ordering::Less => 1.0 - geometric_tail(scale, own - score),
                std::cmp::Ordering::Equal => 1.0,
                std::cmp::Ordering::Greater => 1.0 - geometric_tail(scale, own + 1 - score),
            };
            let own_noise = geometric_tail(scale, noise) - geometric_tail(scale, noise + 1);
            own_noise * scores.iter().enumerate().map(loses).product::<f64>()
        };
        (0..reach).map(with_noise).sum()
    };
    (0..scores.len()).map(wins).collect()
}

#[test]
fn each_index_wins_with_its_probability() {
    let cases = [
        (Scores::OneDirectional, 1, vec![3, 5, 4]),
        (Scores::AnyDirection, 1, vec![3, 5, 4]),
        (Scores::OneDirectional, 4, vec![0, 0, 0, 0]),
        (Scores::AnyDirection, 2, vec![-9, 1, 0, -3, 1]),
    ];
    for (index, (kind, sensitivity, scores)) in cases.into_iter().enumerate() {
        let amount = epsilon("0.8");
        let factor = if kind == Scores::AnyDirection { 2.0 } else { 1.0 };
        let scale = factor * sensitivity as f64 / 0.8;
        assert!((winners(&scores, scale).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let sealed = sealed_at(0, scores.clone());
        let mut random = SeededRandom::new(150 + index as u64);
        let drawn = tally(DRAWS, scores.len(), || {
            noisy_max(permit(amount), &sealed, sensitivity, kind, &mut random).unwrap().into_value()
        });
        assert_fits(&drawn, &winners(&scores, scale));
        // If all scores are equal, the winner depends on the scale only through ties.
        if scores.iter().any(|score| *score != scores[0]) {
            assert_rejects(&drawn, &winners(&scores, 1.1 * scale));
            assert_rejects(&drawn, &winners(&scores, 0.9 * scale));
        }
    }
}

fn worst_loss(moves: &[i64], scale: f64) -> f64 {
    let mut worst = 0.0_f64;
    for scores in all_vectors(&[0, 1, 2, 4], 3) {
        let before = winners(&scores, scale);
        for moved in all_vectors(moves, 3) {
            let neighbour: Vec<i64> = scores.iter().zip(moved).map(|(score, by)| score + by).collect();
            worst = worst.max(loss(&before, &winners(&neighbour, scale)));
        }
    }
    worst
}

#[test]
fn the_largest_loss_is_epsilon() {
    let amount = 0.9;
    let one_directional = worst_loss(&[0, 1, 2], 2.0 / amount);
    assert!((one_directional - amount).abs() < ROUNDING, "{one_directional}");
    let any_direction = worst_loss(&[-1, 0, 1], 2.0 / amount);
    assert!((any_direction - amount).abs() < ROUNDING, "{any_direction}");
    let mistaken = worst_loss(&[-1, 0, 1], 1.0 / amount);
    assert!(
        (mistaken - 2.0 * amount).abs() < ROUNDING,
        "the noise for one direction is not enough for any: {mistaken}"
    );
}

#[test]
fn scores_of_any_direction_need_twice_the_noise() {
    let scale = |scores: Scores| scores.noise(3, epsilon("0.5")).unwrap();
    assert_eq!(scale(Scores::OneDirectional), NoiseScale::new(nonzero(6), nonzero(1)));
    assert_eq!(scale(Scores::AnyDirection), NoiseScale::new(nonzero(12), nonzero(1)));
}

#[test]
fn rejects_no_scores() {
    let random = &mut SeededRandom::new(1);
    let none = noisy_max(permit(epsilon("1")), &sealed_at(0, Vec::new()), 1, Scores::AnyDirection, random);
    assert_eq!(none.unwrap_err().to_string(), "nothing to publish: at least one score is needed");
    let insensitive = noisy_max(permit(epsilon("1")), &sealed_at(0, vec![1]), 0, Scores::AnyDirection, random);
    assert_eq!(insensitive, Err(PrimitiveError::Scale(ScaleError { sensitivity: 0 })));
}
