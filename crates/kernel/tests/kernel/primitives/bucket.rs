use tidegate_kernel::primitives::{PrimitiveError, bucket_probabilities, randomised_bucket};
use tidegate_kernel::{Epsilon, ResponseError, Sealed, SeededRandom};

use super::DRAWS;
use crate::support::{assert_fits, assert_rejects, epsilon, permit, tally};

#[test]
fn the_truth_and_each_other_bucket_have_their_probability() {
    for (index, (buckets, bucket)) in [(2, 0), (5, 0), (5, 2), (5, 4), (40, 17)].into_iter().enumerate() {
        let amount = epsilon("1.5");
        let sealed = Sealed::new(bucket);
        let mut random = SeededRandom::new(140 + index as u64);
        let drawn = tally(DRAWS / 2, buckets as usize, || {
            randomised_bucket(permit(amount), &sealed, buckets, &mut random).unwrap().into_value() as usize
        });
        let weights = |epsilon: f64| -> Vec<f64> {
            (0..buckets).map(|answer| if answer == bucket { epsilon.exp() } else { 1.0 }).collect()
        };
        assert_fits(&drawn, &weights(1.5));
        assert_rejects(&drawn, &weights(1.1 * 1.5));
        assert_rejects(&drawn, &weights(0.9 * 1.5));
        let stated = bucket_probabilities(buckets, amount).unwrap();
        assert!((stated.truth + f64::from(buckets - 1) * stated.other - 1.0).abs() < 1e-12);
        assert!((stated.truth - 1.5_f64.exp() / (1.5_f64.exp() + f64::from(buckets - 1))).abs() < 1e-9);
    }
}

#[test]
fn the_loss_is_epsilon_to_within_a_billionth_and_never_above() {
    for text in ["0.000000001", "0.1", "1", "5", "20"] {
        for buckets in [2, 6, 1_000] {
            let amount = epsilon(text);
            let stated = bucket_probabilities(buckets, amount).unwrap();
            let attained = (stated.truth / stated.other).ln();
            assert!((attained - amount.as_f64()).abs() < 1e-9 + 1e-14, "{text} {buckets} {attained}");
            assert!(attained < amount.as_f64() + 1e-14, "{text} {buckets} {attained}");
        }
    }
}

#[test]
fn a_bucket_that_is_none_is_refused_without_being_named() {
    let random = &mut SeededRandom::new(1);
    let error = randomised_bucket(permit(epsilon("1")), &Sealed::new(77_777), 6, random).unwrap_err();
    assert_eq!(error.to_string(), "the sealed bucket is not one of 0..6");
    assert_eq!(randomised_bucket(permit(epsilon("1")), &Sealed::new(6), 6, random), Err(error));
    let one = randomised_bucket(permit(epsilon("1")), &Sealed::new(0), 1, random);
    assert_eq!(one, Err(PrimitiveError::Response(ResponseError::Domain { given: 1 })));
    assert!(bucket_probabilities(6, Epsilon::MAX).is_err());
}
