use tidegate_kernel::noise::{NoiseScale, ScaleError};
use tidegate_kernel::primitives::{PrimitiveError, Protects, noisy_scalar, noisy_sum};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    assert_fits, assert_rejects, epsilon, fold, laplace_probability, laplace_weights, loss, nonzero, permit, permit_at,
    sealed_at, tally,
};

#[test]
fn a_reading_has_noise_of_the_calibrated_scale() {
    let contribution = |most: u64| Protects::Contribution(nonzero(most));
    for (seed, range, protects, sensitivity, text) in [
        (120, -43..=-40, Protects::Reading, 3, "1.2"),
        (121, -1_000..=1_000, contribution(1), 1, "2"),
        (122, -1_000..=1_000, contribution(10), 10, "0.5"),
        (124, -45..=-35, contribution(1_000), 10, "0.5"),
    ] {
        let amount = epsilon(text);
        let reading = sealed_at(0, -41);
        let mut random = SeededRandom::new(seed);
        assert_eq!(protects.sensitivity(&range).unwrap(), sensitivity);
        let scale = sensitivity as f64 / amount.as_f64();
        let reach = 3 + (10.0 * scale) as i64;
        let drawn = tally(DRAWS, 2 * reach as usize + 1, || {
            let noisy = noisy_scalar(permit(amount), &reading, range.clone(), protects, &mut random).unwrap();
            fold(noisy.into_value() + 41, reach)
        });
        assert_fits(&drawn, &laplace_weights(scale, reach));
        assert_rejects(&drawn, &laplace_weights(1.1 * scale, reach));
        assert_rejects(&drawn, &laplace_weights(0.9 * scale, reach));
    }
}

#[test]
fn the_noise_of_a_sum_does_not_grow() {
    let amount = epsilon("0.5");
    let readings = [sealed_at(5, 4), sealed_at(6, -9), sealed_at(7, 30), sealed_at(8, 0)];
    let mut random = SeededRandom::new(123);
    let (scale, reach) = (4.0, 40);
    let drawn = tally(DRAWS, 2 * reach as usize + 1, || {
        let members = readings.iter().map(|reading| (permit_at(reading.timestamp(), amount), reading));
        let protects = Protects::Contribution(nonzero(2));
        fold(noisy_sum(members, -50..=50, protects, &mut random).unwrap().into_value() - 25, reach)
    });
    assert_fits(&drawn, &laplace_weights(scale, reach));
    assert_rejects(&drawn, &laplace_weights(1.1 * scale, reach));
    assert_rejects(&drawn, &laplace_weights(0.9 * scale, reach));
}

#[test]
fn the_loss_is_the_sum_of_changed_permits() {
    let (amount, sensitivity) = (0.6, 4);
    let outputs = |sum: i64| -> Vec<f64> {
        (-100..=100).map(|output| laplace_probability(f64::from(sensitivity) / amount, output - sum)).collect()
    };
    for changed in 1..=3 {
        let attained = loss(&outputs(5), &outputs(5 + i64::from(changed * sensitivity)));
        assert!((attained - f64::from(changed) * amount).abs() < ROUNDING, "{changed}: {attained}");
    }
    assert!(loss(&outputs(5), &outputs(5 + i64::from(sensitivity) - 1)) < amount);
}

#[test]
fn rejects_permits_of_different_amounts() {
    let random = &mut SeededRandom::new(1);
    let reading = sealed_at(0, 1);
    let members = [(permit(epsilon("0.5")), &reading), (permit(epsilon("0.4")), &reading)];
    let result = noisy_sum(members, 0..=9, Protects::Reading, random);
    assert_eq!(result, Err(PrimitiveError::UnequalPermits { first: epsilon("0.5"), other: epsilon("0.4") }));
    let message = "all permits for one value must be of the same amount, but they are of 0.5 and 0.4";
    assert_eq!(result.unwrap_err().to_string(), message);
    let nothing = noisy_sum([], 0..=9, Protects::Reading, random);
    assert_eq!(nothing.unwrap_err().to_string(), "nothing to publish: at least one reading is needed");
}

#[test]
fn rejects_a_range_of_one_point() {
    let random = &mut SeededRandom::new(1);
    let mut publish = |low: i64, high: i64, protects: Protects| {
        noisy_scalar(permit(epsilon("1")), &sealed_at(0, 1), low..=high, protects, random)
    };
    for (low, high) in [(3, 3), (3, 2), (i64::MAX, i64::MIN)] {
        let refused = PrimitiveError::Range { low, high };
        assert_eq!(publish(low, high, Protects::Reading), Err(refused));
        assert_eq!(publish(low, high, Protects::Contribution(nonzero(1))), Err(refused));
    }
    let refused = PrimitiveError::Range { low: 3, high: 2 };
    assert_eq!(refused.to_string(), "a range needs two points or more, in ascending order, but 3..=2 was given");
    let result = publish(i64::MIN, i64::MAX, Protects::Reading);
    assert_eq!(result, Err(PrimitiveError::Scale(ScaleError { sensitivity: u64::MAX })));
    assert!(publish(i64::MIN, i64::MAX, Protects::Contribution(nonzero(1))).is_ok());
}

/// With noise scaled to a bound of 100 and no clamping, a reading of 10,000 would lose a hundred times the permit.
#[test]
fn readings_beyond_the_range_are_clamped_to_it() {
    let random = &mut SeededRandom::new(1);
    // At the largest epsilon the noise of scale 1/10 or less is zero, except with probability e^-10.
    let mut publish = |readings: &[i64]| {
        let readings: Vec<Sealed<i64>> = readings.iter().map(|reading| sealed_at(0, *reading)).collect();
        let members = readings.iter().map(|reading| (permit(Epsilon::MAX), reading));
        let sum = noisy_sum(members, 0..=100, Protects::Reading, random).unwrap().into_value();
        let (first, paid) = (&readings[0], permit(Epsilon::MAX));
        (noisy_scalar(paid, first, 0..=100, Protects::Reading, random).unwrap().into_value(), sum)
    };
    assert_eq!(publish(&[10_000, 100, 50]), (100, 250));
    assert_eq!(publish(&[i64::MIN, i64::MAX, 50]), (0, 150));
}

/// With the largest scale, noise often exceeds the output range. If the noise alone were saturated, the sum would be
/// the secret plus a constant.
#[test]
fn a_saturated_result_reveals_nothing() {
    let publish = |reading: i64, seed: u64| {
        let random = &mut SeededRandom::new(seed);
        let sealed = sealed_at(0, reading);
        let range = -1..=NoiseScale::MAX_SENSITIVITY as i64 - 1;
        noisy_scalar(permit(Epsilon::MIN), &sealed, range, Protects::Reading, random).unwrap().into_value()
    };
    let (mut lowest, mut highest) = (0, 0);
    for seed in 0..500 {
        let (zero, thousand) = (publish(0, seed), publish(1_000, seed));
        assert!(thousand == zero.saturating_add(1_000) || zero == i64::MIN, "{zero} {thousand}");
        lowest += u32::from(zero == i64::MIN && thousand == i64::MIN);
        highest += u32::from(zero == i64::MAX && thousand == i64::MAX);
    }
    assert!(lowest > 10 && highest > 10, "{lowest} {highest}");
}
