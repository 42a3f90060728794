use tidegate_kernel::noise::ScaleError;
use tidegate_kernel::primitives::{
    HistogramError, Neighbours, PrimitiveError, histogram_noise, noisy_histogram, seal_histogram,
};
use tidegate_kernel::{Epsilon, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    account, assert_fits, assert_rejects, epsilon, fold, laplace_probability, laplace_weights, loss, nonzero, permit,
    sealed_at, tally,
};

#[test]
fn cells_have_independent_calibrated_noise() {
    let amount = epsilon("1.2");
    let settings = [(Neighbours::AddRemove, 1, 1.0), (Neighbours::Replace, 1, 2.0), (Neighbours::AddRemove, 3, 3.0)];
    for (index, (neighbours, contribution, sensitivity)) in settings.into_iter().enumerate() {
        let counts = sealed_at(0, vec![7, 0]);
        let reach = (5.0 * sensitivity) as i64;
        let side = 2 * reach as usize + 1;
        let mut random = SeededRandom::new(100 + index as u64);
        let drawn = tally(DRAWS, side * side, || {
            let noisy = noisy_histogram(permit(amount), &counts, neighbours, nonzero(contribution), &mut random);
            let noisy = noisy.unwrap().into_value();
            fold(noisy[0] - 7, reach) * side + fold(noisy[1], reach)
        });
        let joint = |scale: f64| -> Vec<f64> {
            let weights = laplace_weights(scale, reach);
            weights.iter().flat_map(|first| weights.iter().map(move |second| first * second)).collect()
        };
        let scale = sensitivity / amount.as_f64();
        assert_fits(&drawn, &joint(scale));
        assert_rejects(&drawn, &joint(1.1 * scale));
        assert_rejects(&drawn, &joint(0.9 * scale));
        let stated = histogram_noise(neighbours, nonzero(contribution), amount).unwrap();
        assert!((stated.as_f64() - scale).abs() < 1e-12);
    }
}

#[test]
fn the_farthest_neighbours_lose_exactly_epsilon() {
    let amount = epsilon("0.7");
    let outputs = |counts: [i64; 2], scale: f64| -> Vec<f64> {
        let cell = move |count: i64| (-20..=20).map(move |output| laplace_probability(scale, output - count));
        cell(counts[0]).flat_map(|first| cell(counts[1]).map(move |second| first * second)).collect()
    };
    for (neighbours, contribution, other) in [
        (Neighbours::AddRemove, 1, [3, 2]),
        (Neighbours::AddRemove, 2, [3, 3]),
        (Neighbours::AddRemove, 2, [2, 4]),
        (Neighbours::Replace, 1, [3, 1]),
        (Neighbours::Replace, 2, [4, 0]),
    ] {
        let scale = histogram_noise(neighbours, nonzero(contribution), amount).unwrap().as_f64();
        let attained = loss(&outputs([2, 2], scale), &outputs(other, scale));
        assert!((attained - amount.as_f64()).abs() < ROUNDING, "{neighbours:?} {contribution}: {attained}");
    }
}

#[test]
fn sealing_a_histogram_counts_the_values() {
    let counts = seal_histogram(account(), 0, [2, 0, 2, 2, 1], 4).unwrap();
    // At the largest epsilon the noise is zero, except with probability e^-1000.
    let (once, random) = (nonzero(1), &mut SeededRandom::new(1));
    let revealed = noisy_histogram(permit(Epsilon::MAX), &counts, Neighbours::AddRemove, once, random).unwrap();
    assert_eq!(revealed.into_value(), [1, 1, 3, 0]);
}

#[test]
fn errors_name_the_position_not_the_value() {
    let error = seal_histogram(account(), 0, [1, 2, 77_777], 4).unwrap_err();
    assert_eq!(error, HistogramError::Value { position: 2, domain: 4 });
    assert_eq!(error.to_string(), "the value at position 2 is outside the domain 0..4");
    assert_eq!(
        seal_histogram(account(), 0, [], 0).unwrap_err().to_string(),
        "a histogram of 0 cells is outside 1..=16777216"
    );
    assert!(seal_histogram(account(), 0, [], u32::MAX).is_err());
}

#[test]
fn rejects_a_contribution_out_of_range() {
    let random = &mut SeededRandom::new(1);
    let counts = sealed_at(0, vec![1]);
    let result = noisy_histogram(permit(Epsilon::MAX), &counts, Neighbours::Replace, nonzero(u64::MAX), random);
    assert_eq!(result, Err(PrimitiveError::Scale(ScaleError { sensitivity: u64::MAX })));
}

#[test]
fn counts_saturate_after_the_noise() {
    let random = &mut SeededRandom::new(1);
    let counts = sealed_at(0, vec![u64::MAX, i64::MAX as u64 - 3]);
    let noisy = noisy_histogram(permit(Epsilon::MAX), &counts, Neighbours::AddRemove, nonzero(1), random).unwrap();
    assert_eq!(noisy.into_value(), [i64::MAX, i64::MAX - 3]);
}
