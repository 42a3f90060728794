//! The model bank: accuracy, coverage, jumps and periodic streams.

use tidegate::estimate::model_bank::{ConstantPrior, Estimates, ModelBank};
use tidegate::kernel::SeededRandom;
use tidegate::kernel::simulation::standard_normal;

use super::mean_of;

/// Walks seen with noise of variance one, over so many timestamps: the mean squared error of the estimates, and how
/// many of their 95 % intervals hold the truth.
fn follow(step: f64, random: &mut SeededRandom) -> (f64, f64) {
    let (mut truth, mut bank) = ([0.0, 0.0, 3.0], ModelBank::new(3, 1.0, ConstantPrior::Possible));
    let (mut squares, mut covered, mut count) = (0.0, 0.0, 0.0);
    for timestamp in 0..600_u64 {
        truth.iter_mut().for_each(|number| *number += step * standard_normal(random));
        let seen: Vec<f64> = truth.iter().map(|number| number + standard_normal(random)).collect();
        bank.observe(timestamp.min(1), &seen, 1.0);
        let estimate = bank.estimate(0);
        for ((truth, mean), variance) in truth.iter().zip(estimate.means).zip(estimate.variances) {
            squares += (mean - truth).powi(2);
            covered += f64::from(u8::from((mean - truth).abs() <= 1.96 * variance.sqrt()));
            count += 1.0;
        }
    }
    (squares / count, covered / count)
}

/// The best filter that knows the variance q of the steps has the error `(√(q² + 4q) - q) / 2`. What is expected lies
/// within the bounds by at least two standard errors of 24 runs, and five more are allowed for: a false alarm has a
/// probability below 1e-6 (Student's t).
#[test]
fn random_walks_have_near_optimal_error_and_coverage() {
    for step in [0.01, 0.1, 0.3, 1.0] {
        let runs: Vec<(f64, f64)> = (0..24).map(|seed| follow(step, &mut SeededRandom::new(seed))).collect();
        let (error, error_se) = mean_of(runs.iter().map(|run| run.0));
        let (covered, covered_se) = mean_of(runs.iter().map(|run| run.1));
        let q = step * step;
        let best = ((q * q + 4.0 * q).sqrt() - q) / 2.0;
        assert!(error - 5.0 * error_se < 1.25 * best + 0.01, "{step}: {error} ± {error_se} where {best} is the best");
        let (low, high) = (covered - 5.0 * covered_se, covered + 5.0 * covered_se);
        // A slow walk looks as if it stood still, for the first hundreds of observations.
        let least = if step < 0.2 { 0.88 } else { 0.93 };
        assert!(high > least && low < 0.97, "{step}: {covered} ± {covered_se}");
    }
}

/// Noise has a standard deviation of one, and what was learned of three hundred timestamps of rest is worth nothing
/// after the jump.
#[test]
fn constant_number_is_tracked_after_a_jump() {
    let mut squares = [0.0; 4];
    for seed in 0..24 {
        let (mut random, mut bank) = (SeededRandom::new(seed), ModelBank::new(1, 1.0, ConstantPrior::Possible));
        for timestamp in 0..304_u64 {
            let truth = if timestamp < 300 { 0.0 } else { 8.0 };
            bank.observe(timestamp.min(1), &[truth + standard_normal(&mut random)], 1.0);
            if timestamp >= 300 {
                squares[timestamp as usize - 300] += (bank.estimate(0).means[0] - truth).powi(2) / 24.0;
            }
        }
    }
    // The first observation alone has an error of one, the mean of four a quarter. Three times what is expected (1.0,
    // 0.8, 0.7, 0.7) is exceeded by the mean of 24 squares with a probability below 2e-6.
    assert!(squares.iter().zip([3.0, 2.4, 2.1, 2.1]).all(|(square, bound)| *square < bound), "{squares:?}");
}

/// The mean squared error over 24 runs of what is believed of a number that does as it is told, with noise of a
/// standard deviation of one, at the timestamps that are asked for.
fn mean_square(truth: impl Fn(u64) -> f64, counts: impl Fn(u64) -> bool, length: u64) -> f64 {
    let (mut squares, mut count) = (0.0, 0.0);
    for seed in 0..24 {
        let (mut random, mut bank) = (SeededRandom::new(seed), ModelBank::new(1, 1.0, ConstantPrior::Possible));
        for timestamp in 0..length {
            bank.observe(timestamp.min(1), &[truth(timestamp) + standard_normal(&mut random)], 1.0);
            if counts(timestamp) {
                squares += (bank.estimate(0).means[0] - truth(timestamp)).powi(2);
                count += 1.0;
            }
        }
    }
    squares / count
}

/// Who knew when the number jumped would have an error of 1/40. A third more is exceeded threefold by the mean of 24
/// squares with a probability below 2e-6.
#[test]
fn level_is_known_forty_observations_after_a_jump() {
    let error = mean_square(|timestamp| if timestamp < 300 { 0.0 } else { 8.0 }, |timestamp| timestamp == 340, 341);
    assert!(error < 0.1, "{error}");
}

/// A ramp with a slope of two standard deviations of the noise that falls by two hundred every hundred timestamps.
/// Where it is known that it fell, it rises on from there: over the five timestamps from the second and the third fall
/// on, the squared error is about that of the observations or less (0.82 in the mean over 24 runs; taken for a change
/// of how it moves, the fall has 3.1). The mean of some sixty independent squares is 1.9 times what is expected with a
/// probability below 2e-5.
#[test]
fn numbers_keep_moving_after_a_known_jump() {
    let truth = |timestamp: u64| 2.0 * (timestamp % 100) as f64;
    let error = |known: bool| {
        let (mut squares, mut count) = (0.0, 0.0);
        for seed in 0..24 {
            let (mut random, mut bank) = (SeededRandom::new(seed), ModelBank::new(1, 1.0, ConstantPrior::Possible));
            for timestamp in 0..305_u64 {
                let seen = [truth(timestamp) + standard_normal(&mut random)];
                if known && timestamp > 0 && timestamp % 100 == 0 {
                    bank.observe_jump(1, &seen, 1.0);
                } else {
                    bank.observe(timestamp.min(1), &seen, 1.0);
                }
                if timestamp >= 200 && timestamp % 100 < 5 {
                    squares += (bank.estimate(0).means[0] - truth(timestamp)).powi(2);
                    count += 1.0;
                }
            }
        }
        squares / count
    };
    let (known, unknown) = (error(true), error(false));
    assert!(known < 1.6 && known < 0.6 * unknown, "{known}, {unknown}");
}

/// A hundred observations of numbers that stand still, then all jump: that this is known leaves it as good an idea as
/// before to observe them rarely.
#[test]
fn known_jump_teaches_nothing_about_motion() {
    let expected = |known: bool| {
        let (mut random, mut bank) = (SeededRandom::new(30), ModelBank::new(20, 1.0, ConstantPrior::Possible));
        let mut seen = |level: f64| (0..20).map(|_| level + standard_normal(&mut random)).collect::<Vec<f64>>();
        for timestamp in 0..100_u64 {
            bank.observe(timestamp.min(1), &seen(0.0), 1.0);
        }
        if known {
            bank.observe_jump(1, &seen(100.0), 1.0);
        } else {
            bank.observe(1, &seen(100.0), 1.0);
        }
        let off = bank.estimate(0).means.iter().map(|mean| (mean - 100.0).powi(2)).sum::<f64>() / 20.0;
        assert!(off < 3.0, "{off}");
        bank.expected_error(50, 0.01)
    };
    let (known, unknown) = (expected(true), expected(false));
    // Of numbers that walk, it would be thousands.
    assert!(known < 2.0 && unknown > 1e3, "{known}, {unknown}");
}

/// Low for a hundred timestamps, then high for as many, four times: when it comes back, the low level is known from the
/// times before. Three times what is expected, 0.03, is exceeded with a probability below 2e-6, even if the errors of a
/// run were all one; where levels are moved while the number is elsewhere, it is 0.14.
#[test]
fn earlier_level_is_recognised_on_return() {
    let truth = |timestamp: u64| if timestamp % 200 >= 100 { 30.0 } else { 0.0 };
    let error = mean_square(truth, |timestamp| timestamp > 800, 840);
    assert!(error < 0.09, "{error}");
}

/// A wave as high as two standard deviations of the noise, whose period is that of a day in hours. Three times what is
/// expected, 0.0073, is exceeded with a probability below 2e-6, even if the errors of a run were all one; without
/// models of waves it is 0.42.
#[test]
fn daily_cycle_is_estimated() {
    let truth = |timestamp: u64| 50.0 + 2.0 * (timestamp as f64 * std::f64::consts::TAU / 24.0).sin();
    let error = mean_square(truth, |timestamp| timestamp >= 300, 600);
    assert!(error < 0.022, "{error}");
}

/// Days of a week that differ by up to six standard deviations of the noise, in a shape that no wave has. After fifty
/// weeks a day is known from those before it: three times what is expected, 0.0195, is exceeded with a probability
/// below 2e-6, even if the errors of a run were all one. Without seasons it is 0.86.
#[test]
fn weekly_season_is_estimated() {
    let truth = |timestamp: u64| 50.0 + [0.0, 0.0, 1.0, 0.0, 0.0, 6.0, 3.0][(timestamp % 7) as usize];
    let error = mean_square(truth, |timestamp| timestamp >= 350, 700);
    assert!(error < 0.06, "{error}");
}

/// Numbers that stand still, of which the first observation has a hundredth of the deviation of the later ones, by
/// which they are hardly moved: three times what is expected of 120 squares, 0.0078, is exceeded with a probability
/// below 2e-6 if those of a run are independent. Where stillness is only possible, it is 0.069.
#[test]
fn noise_does_not_move_a_known_constant() {
    let after_twenty = |stillness: ConstantPrior| {
        let mut square = 0.0;
        for seed in 0..24 {
            let (mut random, mut bank) = (SeededRandom::new(seed), ModelBank::new(5, 1.0, stillness));
            for timestamp in 0..20_u64 {
                let variance: f64 = if timestamp == 0 { 1e-4 } else { 1.0 };
                let seen: Vec<f64> = (0..5).map(|_| 40.0 + variance.sqrt() * standard_normal(&mut random)).collect();
                bank.observe(timestamp.min(1), &seen, variance);
            }
            square += bank.estimate(0).means.iter().map(|mean| (mean - 40.0).powi(2)).sum::<f64>() / (24.0 * 5.0);
        }
        square
    };
    let (likely, possible) = (after_twenty(ConstantPrior::Likely), after_twenty(ConstantPrior::Possible));
    assert!(likely < 0.0234 && likely < possible, "{likely}, {possible}");
}

/// Observed at some phases of a week or a day only, the seasonal model makes no forecast for the others. A level of
/// 1,000 stays within six standard deviations of an observation in between, and states no larger variance.
#[test]
fn season_forecasts_no_unobserved_phase() {
    for every in [2_u64, 6, 7, 12, 14, 24, 48] {
        let (mut random, mut bank) = (SeededRandom::new(every), ModelBank::new(1, 1.0, ConstantPrior::Possible));
        for observation in 0..40_u64 {
            bank.observe(if observation == 0 { 0 } else { every }, &[1e3 + standard_normal(&mut random)], 1.0);
        }
        for gap in 0..every {
            let Estimates { means, variances } = bank.estimate(gap);
            assert!((means[0] - 1e3).abs() < 6.0 && variances[0] < 1.0, "{gap} of {every}: {means:?}, {variances:?}");
        }
    }
}

/// One in fifty is off by thirty: where all are followed in proportion to how far they are off, means are off by 0.6
/// for that alone. What is expected, 0.06, is exceeded threefold with a probability below 2e-6, even if the errors of a
/// run were all one.
#[test]
fn outlier_does_not_move_a_level() {
    let spike = |timestamp: u64| timestamp % 50 == 49;
    let error = mean_square(|at| if spike(at) { 30.0 } else { 0.0 }, |at| at > 200 && !spike(at), 600);
    assert!(error < 0.18, "{error}");
}

/// Numbers can be far larger than the noise; the first observation of one is then all that is known of it. An error
/// above six deviations has a probability below 1e-8 in each of 24 runs.
#[test]
fn large_number_follows_its_first_observation() {
    for seed in 0..24_u32 {
        let size = 10_f64.powf(1.0 + 0.145 * f64::from(seed));
        let (mut random, mut bank) = (SeededRandom::new(seed.into()), ModelBank::new(1, 1.0, ConstantPrior::Possible));
        for timestamp in 0..4_u64 {
            bank.observe(timestamp.min(1), &[size + standard_normal(&mut random)], 1.0);
            let Estimates { means, variances } = bank.estimate(0);
            let error = (means[0] - size).abs();
            assert!(error < 6.0, "{size} at {timestamp}: {error}");
            // What is stated does not depend on how large the number is: about that of one observation, then less.
            assert!(variances[0] > 0.1 && variances[0] < 1.2, "{size} at {timestamp}: {variances:?}");
        }
    }
}

#[test]
fn constant_numbers_prefer_rare_exact_observations() {
    let learn = |step: f64| {
        let (mut random, mut bank, mut truth) =
            (SeededRandom::new(12), ModelBank::new(20, 1.0, ConstantPrior::Possible), vec![0.0; 20]);
        for timestamp in 0..200_u64 {
            truth.iter_mut().for_each(|number| *number += step * standard_normal(&mut random));
            let seen: Vec<f64> = truth.iter().map(|number| number + standard_normal(&mut random)).collect();
            bank.observe(timestamp.min(1), &seen, 1.0);
        }
        // Noise falls with the square of what is spent at once.
        (bank.expected_error(1, 1.0), bank.expected_error(5, 1.0 / 25.0))
    };
    let (often, rarely) = learn(0.05);
    assert!(rarely < often, "{rarely} {often}");
    let (often, rarely) = learn(3.0);
    assert!(often < rarely, "{rarely} {often}");
}

#[test]
fn noisy_numbers_shrink_to_the_common_mean() {
    let mut random = SeededRandom::new(13);
    let mut bank = ModelBank::new(200, 1.0, ConstantPrior::Possible);
    for timestamp in 0..50_u64 {
        let seen: Vec<f64> = (0..200).map(|_| standard_normal(&mut random)).collect();
        bank.observe(timestamp.min(1), &seen, 1.0);
    }
    let squares: f64 = bank.estimate(0).means.iter().map(|mean| mean * mean).sum();
    // The mean of fifty observations would have 200 / 50.
    assert!(squares < 1.5, "{squares}");
}
