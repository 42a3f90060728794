use tidegate_kernel::primitives::{PrimitiveError, bucket_probabilities, bucket_range, randomised_bucket};
use tidegate_kernel::{Epsilon, ResponseError, SeededRandom};

use super::DRAWS;
use crate::support::{assert_fits, assert_rejects, epsilon, permit, sealed_at, tally};

#[test]
fn each_bucket_has_its_probability() {
    for (index, (buckets, bucket)) in [(2, 0), (5, 0), (5, 2), (5, 4), (40, 17)].into_iter().enumerate() {
        let amount = epsilon("1.5");
        let (low, points) = (-1_000, 10 * i64::from(buckets));
        let range = low..=low + points - 1;
        let sealed = sealed_at(0, low + 10 * i64::from(bucket) + 7);
        let mut random = SeededRandom::new(140 + index as u64);
        let drawn = tally(DRAWS / 2, buckets as usize, || {
            let noisy = randomised_bucket(permit(amount), &sealed, range.clone(), buckets, &mut random);
            noisy.unwrap().into_value() as usize
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
fn the_loss_is_within_a_billionth_of_epsilon() {
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
fn every_point_lies_in_the_range_of_its_bucket() {
    let random = &mut SeededRandom::new(141);
    // At an epsilon of 20 the answer is true, except with probability 10^-7.
    let mut bucket_of = |reading: i64, range: &std::ops::RangeInclusive<i64>, buckets: u32| {
        let noisy = randomised_bucket(permit(epsilon("20")), &sealed_at(0, reading), range.clone(), buckets, random);
        noisy.unwrap().into_value()
    };
    for (range, buckets) in [(0..=9, 2), (-5..=6, 5), (100..=107, 8), (3..=100, 7), (0..=1, 2)] {
        let mut next = *range.start();
        for bucket in 0..buckets {
            let part = bucket_range(&range, buckets, bucket).unwrap();
            assert_eq!(*part.start(), next);
            assert!(part.clone().all(|reading| bucket_of(reading, &range, buckets) == bucket));
            next = part.end() + 1;
        }
        assert_eq!(next, range.end() + 1);
        assert_eq!(bucket_of(i64::MIN, &range, buckets), 0);
        assert_eq!(bucket_of(i64::MAX, &range, buckets), buckets - 1);
    }
    let everything = i64::MIN..=i64::MAX;
    assert_eq!(bucket_range(&everything, 2, 0).unwrap(), i64::MIN..=-1);
    assert_eq!(bucket_range(&everything, 2, 1).unwrap(), 0..=i64::MAX);
    assert_eq!(bucket_of(-1, &everything, 2), 0);
}

#[test]
fn rejects_invalid_buckets() {
    let random = &mut SeededRandom::new(1);
    let reading = sealed_at(0, 3);
    let mut refusal = |range: std::ops::RangeInclusive<i64>, buckets: u32| {
        randomised_bucket(permit(epsilon("1")), &reading, range, buckets, random).unwrap_err()
    };
    assert_eq!(refusal(0..=4, 6).to_string(), "a range of 5 points cannot be cut into 6 buckets");
    assert_eq!(refusal(4..=4, 2), PrimitiveError::Range { low: 4, high: 4 });
    assert_eq!(refusal(0..=9, 1), PrimitiveError::Response(ResponseError::Domain { given: 1 }));
    assert_eq!(bucket_range(&(0..=9), 5, 5).unwrap_err().to_string(), "bucket 5 is not one of 0..5");
    assert_eq!(bucket_range(&(0..=9), 0, 0), Err(PrimitiveError::NoSuchBucket { bucket: 0, buckets: 0 }));
    assert!(bucket_probabilities(6, Epsilon::MAX).is_err());
}

#[test]
fn buckets_of_the_largest_ranges_do_not_overflow() {
    // At an epsilon of 20 an answer is wrong with probability 4e-9 or less for each of its other buckets.
    let random = &mut SeededRandom::new(142);
    for (range, buckets) in [(i64::MIN..=i64::MAX, 5), (0..=i64::MAX, 3), (-7..=i64::MAX - 1, 4)] {
        for bucket in 0..buckets {
            let part = bucket_range(&range, buckets, bucket).unwrap();
            for reading in [*part.start(), *part.end()] {
                let sealed = sealed_at(0, reading);
                let noisy = randomised_bucket(permit(epsilon("20")), &sealed, range.clone(), buckets, random);
                assert_eq!(noisy.unwrap().into_value(), bucket, "{range:?}");
            }
        }
    }
}
