//! Histogram and deviation filters, and the projection onto the simplex.

use proptest::prelude::*;
use tidegate::estimate::deviation_filter::DeviationFilter;
use tidegate::estimate::histogram_filter::HistogramFilter;
use tidegate::estimate::model_bank::{ConstantPrior, Estimates};
use tidegate::estimate::simplex::{project, shift_and_project};
use tidegate::kernel::SeededRandom;
use tidegate::kernel::simulation::standard_normal;
use tidegate::post_processing::norm_sub;

use super::mean_of;
use crate::support::repeatable;

/// What twelve counts are expected to be.
fn expected_counts() -> impl Iterator<Item = f64> {
    (1..=12).map(|value| 100.0 * f64::from(value))
}

/// Twelve counts that are made anew at every timestamp by people who toss coins, or are the same at all of them, seen
/// with noise of a deviation: the mean squared error of what is believed, and how often intervals hold the truth, over
/// the last hundred of two hundred timestamps.
fn scattered(coins: bool, deviation: f64, random: &mut SeededRandom) -> (f64, f64) {
    let (expected, variance) = (expected_counts().collect::<Vec<f64>>(), deviation * deviation);
    let mut follower = HistogramFilter::new(&expected, variance, variance);
    let (mut squares, mut covered, mut count) = (0.0, 0.0, 0.0);
    for timestamp in 0..200_u64 {
        let own = |mean: &f64| if coins { mean.sqrt() } else { 0.0 };
        let truth: Vec<f64> = expected.iter().map(|mean| mean + own(mean) * standard_normal(random)).collect();
        let seen: Vec<f64> = truth.iter().map(|count| count + deviation * standard_normal(random)).collect();
        follower.observe(timestamp.min(1), &seen, variance);
        let Estimates { means, variances } = follower.estimate(0);
        for ((truth, mean), stated) in truth.iter().zip(means).zip(variances).filter(|_| timestamp >= 100) {
            squares += (mean - truth).powi(2);
            covered += f64::from(u8::from((mean - truth).abs() <= 1.96 * stated.sqrt()));
            count += 1.0;
        }
    }
    (squares / count, covered / count)
}

/// Who knew what counts are expected to be, and that they scatter, would have an error of `s·v/(s + v)` for each. What
/// is expected lies within the bounds by at least two standard errors of 24 runs, and five more are allowed for: a
/// false alarm has a probability below 1e-6 (Student's t). Where scatter is not known of, intervals hold the truth 85
/// times in 100 if it is about as large as the noise, and 62 times if it is a tenth.
#[test]
fn irregular_counts_have_correct_intervals() {
    for (coins, deviation, least) in [(true, 10.0, 0.92), (true, 30.0, 0.89), (true, 100.0, 0.82), (false, 30.0, 0.96)]
    {
        let runs: Vec<(f64, f64)> =
            (0..24).map(|seed| scattered(coins, deviation, &mut SeededRandom::new(seed))).collect();
        let (error, error_se) = mean_of(runs.iter().map(|run| run.0));
        let (covered, covered_se) = mean_of(runs.iter().map(|run| run.1));
        let variance: f64 = deviation * deviation;
        let best = expected_counts().map(|own| own * variance / (own + variance)).sum::<f64>() / 12.0;
        // Of counts that do not scatter, little is unknown after a hundred observations.
        let most = if coins { 1.2 * best } else { 0.01 * variance };
        assert!(error - 5.0 * error_se < most, "{coins}, {deviation}: {error} ± {error_se} where {best} is the best");
        assert!(covered + 5.0 * covered_se > least, "{coins}, {deviation}: {covered} ± {covered_se}");
    }
}

/// One of two counts jumps by a hundred standard deviations of the noise, once, and says so only by what is observed.
/// That is not taken for scatter, by which both would be moved by noise: three times what is expected of the squared
/// error from ten to fifty timestamps later, 0.048, is exceeded with a probability below 2e-6, even if the errors of a
/// run were all one. Where one number may count by any amount, it is 0.40.
#[test]
fn single_jump_is_not_irregular_variation() {
    let (mut squares, mut count) = (0.0, 0.0);
    for seed in 0..24 {
        let mut random = SeededRandom::new(seed);
        let mut follower = HistogramFilter::new(&[1e3, 2e3], 1.0, 1.0);
        for timestamp in 0..150_u64 {
            let truth = [1e3, if timestamp < 100 { 2e3 } else { 2.1e3 }];
            let seen = truth.map(|count| count + standard_normal(&mut random));
            follower.observe(timestamp.min(1), &seen, 1.0);
            if timestamp >= 110 {
                let errors =
                    follower.estimate(0).means.into_iter().zip(truth).map(|(mean, truth)| (mean - truth).powi(2));
                squares += errors.sum::<f64>();
                count += 2.0;
            }
        }
    }
    assert!(squares / count < 0.15, "{}", squares / count);
}

/// The mean squared errors of what is believed of 64 numbers after sixty observations, and of the means of these, over
/// several runs.
fn deviation_errors(truth: &[f64], random: &mut SeededRandom) -> (f64, f64) {
    let error = |means: &[f64]| means.iter().zip(truth).map(|(mean, truth)| (mean - truth).powi(2)).sum::<f64>();
    let (mut believed, mut observed) = (0.0, 0.0);
    for _ in 0..6 {
        let (mut profile, mut means) = (DeviationFilter::new(64, 1.0, 64.0, ConstantPrior::Possible), vec![0.0; 64]);
        for timestamp in 0..60_u64 {
            let seen: Vec<f64> = truth.iter().map(|number| number + standard_normal(random)).collect();
            let mean = seen.iter().sum::<f64>() / 64.0;
            let seen: Vec<f64> = seen.iter().map(|number| number - mean).collect();
            profile.observe(timestamp.min(1), &seen, 1.0 - 1.0 / 64.0);
            means.iter_mut().zip(&seen).for_each(|(mean, seen)| *mean += seen / 60.0);
        }
        believed += error(&profile.estimate(0).means);
        observed += error(&means);
    }
    (believed, observed)
}

/// Who knew how far all but four of the sparse numbers are from zero, a quarter, would have four fifths of the error of
/// the observations.
#[test]
fn deviation_filter_exploits_smooth_and_sparse_domains() {
    let mut random = SeededRandom::new(23);
    let smooth: Vec<f64> = (0..64).map(|number| 0.3 * (f64::from(number) / 10.0).sin()).collect();
    let mean = smooth.iter().sum::<f64>() / 64.0;
    let smooth: Vec<f64> = smooth.iter().map(|number| number - mean).collect();
    let (believed, observed) = deviation_errors(&smooth, &mut random);
    assert!(believed < 0.5 * observed, "{believed} {observed}");
    let sparse: Vec<f64> = (0..64).map(|number| if number % 21 == 0 { 3.75 } else { -0.25 }).collect();
    let (believed, observed) = deviation_errors(&sparse, &mut random);
    assert!(believed < 0.85 * observed, "{believed} {observed}");
}

/// Who took the largest spread that is possible for that of all numbers, 0.01, would believe `100 g² 0.5 / n` after n
/// observations, where `g = 0.01 n / (0.5 + 0.01 n)`: 0.234 after 30.
#[test]
fn pure_noise_shrinks_to_the_mean() {
    // Frequencies of 100 values, the squares of which sum to one at most, seen with a variance of one half.
    let mut random = SeededRandom::new(24);
    let mut profile = DeviationFilter::new(100, 0.5, 1.0, ConstantPrior::Possible);
    let mut squares = 0.0;
    for timestamp in 0..30_u32 {
        let seen: Vec<f64> = (0..100).map(|_| 0.5_f64.sqrt() * standard_normal(&mut random)).collect();
        let mean = seen.iter().sum::<f64>() / 100.0;
        profile.observe(timestamp.min(1).into(), &seen.iter().map(|number| number - mean).collect::<Vec<_>>(), 0.5);
        squares = profile.estimate(0).means.iter().map(|mean| mean * mean).sum();
        let of_means = 100.0 * 0.5 / f64::from(timestamp + 1);
        assert!(squares < 0.1 * of_means, "{timestamp}: {squares} where means have {of_means}");
    }
    assert!(squares < 0.234 / 2.0, "{squares}");
}

proptest! {
    #![proptest_config(repeatable(300))]

    #[test]
    fn a_projection_with_equal_variances_is_the_one_that_sorts(
        numbers in prop::collection::vec(-1.0..1.0_f64, 1..40),
        total in 0.0..3.0_f64,
        variance in 0.001..10.0_f64,
    ) {
        let expected = norm_sub(&numbers, total).unwrap();
        let mut projected = numbers.clone();
        project(&mut projected, &vec![variance; numbers.len()], total);
        for (projected, expected) in projected.iter().zip(expected) {
            prop_assert!((projected - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn a_projection_moves_what_is_uncertain(
        numbers in prop::collection::vec((0.2..1.0_f64, 0.001..1.0_f64), 2..20),
    ) {
        let (mut projected, variances): (Vec<f64>, Vec<f64>) = numbers.iter().copied().unzip();
        let total = projected.iter().sum::<f64>() + 1.0;
        project(&mut projected, &variances, total);
        prop_assert!((projected.iter().sum::<f64>() - total).abs() < 1e-9);
        let shift = 1.0 / variances.iter().sum::<f64>();
        for ((now, (then, _)), variance) in projected.iter().zip(&numbers).zip(&variances) {
            prop_assert!((now - then - shift * variance).abs() < 1e-9);
        }
    }

    #[test]
    fn projection_is_non_negative_for_any_variances(
        numbers in prop::collection::vec(
            (-1.0..1.0_f64, (-160.0..2.0_f64).prop_map(|power| 10_f64.powf(power))),
            1..40,
        ),
        total in prop_oneof![1 => Just(0.0), 9 => 0.01..3.0_f64],
    ) {
        let (mut settled, variances): (Vec<f64>, Vec<f64>) = numbers.iter().copied().unzip();
        shift_and_project(&mut settled, &variances, total);
        prop_assert!(settled.iter().all(|number| *number >= 0.0 && number.is_finite()));
    }

    #[test]
    fn similar_variances_project_to_the_exact_sum(
        numbers in prop::collection::vec((-1.0..1.0_f64, -4.0..0.0_f64), 1..40),
        scale in -140.0..2.0_f64,
        total in prop_oneof![1 => Just(0.0), 9 => 0.01..3.0_f64],
    ) {
        let variances: Vec<f64> = numbers.iter().map(|(_, power)| 10_f64.powf(power + scale)).collect();
        let mut settled: Vec<f64> = numbers.iter().map(|(number, _)| *number).collect();
        shift_and_project(&mut settled, &variances, total);
        prop_assert!(settled.iter().all(|number| *number >= 0.0));
        prop_assert!((settled.iter().sum::<f64>() - total).abs() < 1e-9, "{settled:?}");
    }
}

#[test]
fn projection_spares_frequent_values() {
    let (frequent, rare) = ([0.4, 0.2, 0.1], 0.3 / 97.0);
    let mut random = SeededRandom::new(3);
    let (mut of_settled, mut of_projected) = (0.0, 0.0);
    for _ in 0..20 {
        // The frequent ones are seen, and move; of the rare ones hardly more is known than that there are a hundred
        // values.
        let mut noise = |deviation: f64| deviation * standard_normal(&mut random);
        let mut settled: Vec<f64> = frequent.iter().map(|truth| truth + noise(0.01)).collect();
        settled.extend((0..97).map(|_| 0.01 + noise(0.004)));
        let mut projected = settled.clone();
        let variances: Vec<f64> = (0..100).map(|value| if value < 3 { 1e-4 } else { 1.6e-5 }).collect();
        shift_and_project(&mut settled, &variances, 1.0);
        project(&mut projected, &variances, 1.0);
        let truth = |value: usize| frequent.get(value).copied().unwrap_or(rare);
        let error = |numbers: &[f64]| numbers.iter().enumerate().map(|(k, x)| (x - truth(k)).powi(2)).sum::<f64>();
        of_settled += error(&settled);
        of_projected += error(&projected);
    }
    // Those that are frequent lose 0.007 or so, and 0.038 by their variances: a quarter of the squared error, give or
    // take four per cent of that by chance. False alarms: below 1e-9.
    assert!(of_settled < 0.4 * of_projected, "{of_settled} against {of_projected}");
}
