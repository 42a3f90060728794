//! Broken scalar mechanisms: numbers, of which one differs.
//!
//! That continuous grouping with its published noise loses more than it claims is shown exactly, in the library's own
//! tests: the event that tells has a probability of a few millionths, out of reach for any number of runs.

use tidegate_kernel::SeededRandom;
use tidegate_lab::audit::{AuditSettings, Pair, Target, targets};

use super::{Form, Variant, caught, exponential, laplace, of_readings, randomised, readings};

/// One reading of several that are otherwise the same.
fn spike(place: usize, length: usize, others: f64) -> Pair {
    let with = |reading: f64| (0..length).map(|at| if at == place { reading } else { others }).collect();
    of_readings("spike", with(0.0), with(1.0))
}

#[test]
fn half_the_noise_is_caught() {
    for name in ["laplace", "bucorder"] {
        caught(&format!("`{name}`, half the noise"), 20_000, |form| {
            let target = |epsilon: &str| -> Box<dyn Target> {
                let settings = AuditSettings::small(epsilon.parse().unwrap());
                let all = targets::all(&settings).unwrap();
                all.into_iter().find(|target| target.name() == name).unwrap()
            };
            let (claims, does) = (target("1"), target(form.choose("2", "1")));
            let run = move |input: &_, random: &mut SeededRandom| does.observe(input, random).unwrap();
            Variant::new(claims.claimed(), claims.neighbours(), run)
        });
    }
}

/// As published: where another bucket is to be told, it is drawn from all of them.
#[test]
fn a_bucket_that_is_drawn_including_its_own_is_caught() {
    const BUCKETS: usize = 3;
    caught("`bucorder`, own bucket drawn too", 20_000, |form| {
        let pair = of_readings("spike", vec![0.0], vec![2.0]);
        Variant::new(1.0, vec![pair], move |input, random| {
            let own = readings(input)[0] as usize;
            let chosen = randomised(own, BUCKETS, 1.0, random);
            let is_other = chosen != own as f64;
            vec![if form == Form::Broken && is_other { randomised(own, BUCKETS, 0.0, random) } else { chosen }]
        })
    });
}

/// The sum of distances from the mean.
fn deviation(group: &[f64]) -> f64 {
    let mean = group.iter().sum::<f64>() / group.len() as f64;
    group.iter().map(|reading| (reading - mean).abs()).sum()
}

/// What becomes of each reading: it opens a group, is accepted into it, or is rejected and closes it.
fn groups(readings: &[f64], form: Form, random: &mut SeededRandom) -> Vec<f64> {
    let sensitivity = 2.0;
    let for_threshold = 1.0 / (1.0 + 4_f64.cbrt());
    let threshold = |random: &mut SeededRandom| exponential(sensitivity / for_threshold, random);
    let mut noisy_threshold = threshold(random);
    let mut group: Vec<f64> = Vec::new();
    let decide = |reading: &f64| {
        if group.is_empty() {
            if form == Form::Healthy {
                noisy_threshold = threshold(random);
            }
            group.push(*reading);
            return 0.0;
        }
        group.push(*reading);
        let noise = exponential(2.0 * sensitivity / (1.0 - for_threshold), random);
        if deviation(&group) + noise < noisy_threshold {
            return 1.0;
        }
        group.clear();
        2.0
    };
    readings.iter().map(decide).collect()
}

/// Twelve rejections tell that the threshold is low; then it is as good as known, and protects nothing.
#[test]
fn a_threshold_that_is_not_drawn_anew_is_caught() {
    caught("`contin`, threshold not drawn anew", 400_000, |form| {
        Variant::new(1.0, vec![spike(25, 26, 0.0)], move |input, random| groups(readings(input), form, random))
    });
}

/// Each reading takes part in a test of its own and in those of later ones; the noise must be for all of them together.
#[test]
fn noise_for_a_single_test_of_discontinuous_grouping_is_caught() {
    const BATCH: usize = 6;
    caught("`discontin`, noise for one test of many", 40_000, |form| {
        let harmonic: f64 = (1..=BATCH).map(|n| 1.0 / n as f64).sum();
        let scale = form.choose(2.0, 2.0 * (BATCH as f64 - harmonic));
        Variant::new(1.0, vec![spike(0, BATCH, 0.0), spike(BATCH - 1, BATCH, 0.0)], move |input, random| {
            let mut groups: Vec<Vec<f64>> = Vec::new();
            let mut label = |reading: &f64| {
                for (label, group) in groups.iter_mut().enumerate() {
                    group.push(*reading);
                    if deviation(group) + laplace(scale, random) < 0.0 {
                        return label as f64;
                    }
                    group.pop();
                }
                groups.push(vec![*reading]);
                (groups.len() - 1) as f64
            };
            readings(input).iter().map(&mut label).collect()
        })
    });
}

/// Each reading is compared with as many before it and after it; each comparison may spend its share.
#[test]
fn noise_for_a_single_comparison_is_caught() {
    const WINDOW: usize = 3;
    caught("`comporder`, noise for one comparison of many", 40_000, |form| {
        let each = form.choose(1.0, 1.0 / (2 * WINDOW) as f64);
        Variant::new(1.0, vec![spike(WINDOW, 2 * WINDOW + 1, 0.5)], move |input, random| {
            let all = readings(input);
            let pairs = (0..all.len()).flat_map(|at| (at.saturating_sub(WINDOW)..at).map(move |earlier| (earlier, at)));
            pairs.map(|(earlier, at)| randomised(usize::from(all[earlier] < all[at]), 2, each, random)).collect()
        })
    });
}

/// Noise for readings up to a bound of 100, on readings that are not cut off there.
#[test]
fn a_bound_at_which_nothing_is_cut_off_is_caught() {
    caught("truncation without cutting off", 10_000, |form| {
        let pair = of_readings("spike", vec![0.0], vec![10_000.0]);
        Variant::new(1.0, vec![pair], move |input, random| {
            let bound = 100.0;
            let reading = readings(input)[0];
            vec![form.choose(reading, reading.min(bound)) + laplace(bound, random)]
        })
    });
}

/// Scores that may move in opposite directions need twice the noise of those that do not.
#[test]
fn a_noisy_maximum_of_two_sided_scores_with_the_noise_of_one_sided_ones_is_caught() {
    caught("noisy maximum, sensitivity 1 instead of 2", 300_000, |form| {
        let pair = of_readings("opposite", vec![0.0, 6.0], vec![1.0, 5.0]);
        Variant::new(1.0, vec![pair], move |input, random| {
            let noisy = |score: &f64| score + laplace(form.choose(1.0, 2.0), random);
            let noisy: Vec<f64> = readings(input).iter().map(noisy).collect();
            vec![f64::from(u8::from(noisy[0] > noisy[1]))]
        })
    });
}

/// Floating-point noise: which numbers can come out depends on what it is added to. On a grid they do not.
#[test]
fn noise_in_floating_point_is_caught() {
    caught("Laplace noise in floating point", 20_000, |form| {
        Variant::new(1.0, vec![spike(0, 1, 0.0)], move |input, random| {
            let noise = match form {
                Form::Broken => exponential(1.0, random) - exponential(1.0, random),
                Form::Healthy => laplace(1.0, random),
            };
            vec![readings(input)[0] + noise]
        })
    });
}
