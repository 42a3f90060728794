use tidegate_kernel::noise::{Scale, ScaleError};
use tidegate_kernel::primitives::{PrimitiveError, noisy_scalar, noisy_sum};
use tidegate_kernel::{Epsilon, Sealed, SeededRandom};

use super::{DRAWS, ROUNDING};
use crate::support::{
    assert_fits, assert_rejects, epsilon, fold, laplace_probability, laplace_weights, loss, permit, tally,
};

#[test]
fn a_reading_has_noise_of_the_calibrated_scale() {
    for (seed, sensitivity, text) in [(120, 3, "1.2"), (121, 1, "2"), (122, 10, "0.5")] {
        let amount = epsilon(text);
        let reading = Sealed::new(-41);
        let mut random = SeededRandom::new(seed);
        let scale = sensitivity as f64 / amount.as_f64();
        let reach = 3 + (10.0 * scale) as i64;
        let drawn = tally(DRAWS, 2 * reach as usize + 1, || {
            fold(noisy_scalar(permit(amount), &reading, sensitivity, &mut random).unwrap().into_value() + 41, reach)
        });
        assert_fits(&drawn, &laplace_weights(scale, reach));
        assert_rejects(&drawn, &laplace_weights(1.1 * scale, reach));
        assert_rejects(&drawn, &laplace_weights(0.9 * scale, reach));
    }
}

#[test]
fn a_sum_has_one_noise_however_many_readings_there_are() {
    let amount = epsilon("0.5");
    let readings = [Sealed::new(4), Sealed::new(-9), Sealed::new(30), Sealed::new(0)];
    let mut random = SeededRandom::new(123);
    let (scale, reach) = (4.0, 40);
    let drawn = tally(DRAWS, 2 * reach as usize + 1, || {
        let members = readings.iter().map(|reading| (permit(amount), reading));
        fold(noisy_sum(members, 2, &mut random).unwrap().into_value() - 25, reach)
    });
    assert_fits(&drawn, &laplace_weights(scale, reach));
    assert_rejects(&drawn, &laplace_weights(1.1 * scale, reach));
    assert_rejects(&drawn, &laplace_weights(0.9 * scale, reach));
}

#[test]
fn as_many_permits_are_lost_as_readings_change() {
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
fn every_reading_of_a_sum_pays_the_same() {
    let random = &mut SeededRandom::new(1);
    let reading = Sealed::new(1);
    let members = [(permit(epsilon("0.5")), &reading), (permit(epsilon("0.4")), &reading)];
    let result = noisy_sum(members, 1, random);
    assert_eq!(result, Err(PrimitiveError::UnequalPermits { first: epsilon("0.5"), other: epsilon("0.4") }));
    let message = "all permits for one value must be of the same amount, but they are of 0.5 and 0.4";
    assert_eq!(result.unwrap_err().to_string(), message);
    let nothing = noisy_sum([], 1, random);
    assert_eq!(nothing.unwrap_err().to_string(), "nothing to publish: at least one reading is needed");
}

#[test]
fn a_sensitivity_without_noise_is_refused() {
    let random = &mut SeededRandom::new(1);
    for sensitivity in [0, Scale::MAX_SENSITIVITY + 1] {
        let result = noisy_scalar(permit(epsilon("1")), &Sealed::new(1), sensitivity, random);
        assert_eq!(result, Err(PrimitiveError::Scale(ScaleError { sensitivity })));
    }
}

/// With the largest scale, noise passes the range of the output every few draws. If the noise alone were cut, the sum
/// would then be the secret plus a constant.
#[test]
fn a_result_that_is_cut_tells_nothing_of_the_reading() {
    let publish = |reading: i64, seed: u64| {
        let random = &mut SeededRandom::new(seed);
        let sealed = Sealed::new(reading);
        noisy_scalar(permit(Epsilon::MIN), &sealed, Scale::MAX_SENSITIVITY, random).unwrap().into_value()
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
