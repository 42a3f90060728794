//! The grid filter.

use tidegate::estimate::grid_filter::{
    GridFilter, GridModels, GridObservation, ObservationLikelihood, quantile, squared_deviation,
};
use tidegate::kernel::SeededRandom;

use crate::support::unit;

/// Asks whether a number lies above the middle of what is believed, by answers that are true three times out of four.
pub fn asked(
    models: &GridModels,
    density: &mut GridFilter,
    truth: f64,
    gap: u64,
    random: &mut SeededRandom,
) -> (ObservationLikelihood, Vec<f64>) {
    let expected = density.predict(models, gap).number(models);
    let cut = quantile(&expected, 0.5).round().clamp(1.0, 127.0);
    let above = (truth >= cut) == (unit(random) < 0.75);
    let likely = |cell: usize| if (cell as f64 >= cut) == above { 0.75 } else { 0.25 };
    let seen = models.likelihood(gap, GridObservation::One((0..128).map(likely).collect()));
    let believed = density.observe(models, &seen);
    (seen, believed)
}

#[test]
fn finds_a_constant_from_often_false_answers() {
    let (models, mut random) = (GridModels::new(128), SeededRandom::new(14));
    for truth in [3.5, 40.5, 90.5, 126.5] {
        let mut density = GridFilter::new(&models);
        let mut last = Vec::new();
        for timestamp in 0..400_u64 {
            last = asked(&models, &mut density, truth, timestamp.min(1), &mut random).1;
        }
        assert!((last.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let found = quantile(&last, 0.5);
        assert!((found - truth).abs() < 8.0, "{truth}: {found}");
        assert!(squared_deviation(&last, found).sqrt() < 20.0);
    }
}

#[test]
fn smoothing_improves_estimates() {
    let (models, mut random) = (GridModels::new(128), SeededRandom::new(15));
    let (mut at_once, mut later, mut covered, mut count) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..12 {
        let (mut density, mut truth) = (GridFilter::new(&models), 64.0);
        let (mut start, mut waiting) = (density.clone(), Vec::new());
        for timestamp in 0..300_u64 {
            truth = (truth + 2.0 * (unit(&mut random) - 0.5) * 2.0_f64).clamp(0.0, 127.9);
            let (seen, believed) = asked(&models, &mut density, truth, timestamp.min(1), &mut random);
            waiting.push((seen, truth, (quantile(&believed, 0.5) - truth).abs()));
            if waiting.len() == 30 {
                let believed = density.smooth(&models, &start, waiting.iter().map(|(seen, ..)| seen), 10);
                waiting[..10].iter().for_each(|(seen, ..)| start.observe_levels(&models, seen));
                for ((_, truth, then), believed) in waiting.drain(..10).zip(believed) {
                    let median = quantile(&believed, 0.5);
                    at_once += then;
                    later += (median - truth).abs();
                    let deviation = squared_deviation(&believed, median).sqrt();
                    covered += f64::from(u8::from((median - truth).abs() <= 1.96 * deviation));
                    count += 1.0;
                }
            }
        }
    }
    let (at_once, later, covered) = (at_once / count, later / count, covered / count);
    assert!(later < 0.98 * at_once, "{later} {at_once}");
    assert!(covered > 0.9, "{covered}");
}

/// Means of batches with noise find a level, whether numbers scatter around it or not, and tell a level from none at
/// all.
#[test]
fn means_detect_a_level() {
    let (models, mut random) = (GridModels::new(128), SeededRandom::new(17));
    let mut found = |truth: &mut dyn FnMut(&mut SeededRandom) -> f64| {
        let mut density = GridFilter::new(&models);
        let mut last = Vec::new();
        for batch in 0..60_u64 {
            let gap = if batch == 0 { 0 } else { 20 };
            let expected = density.predict(&models, gap).number(&models);
            let part = if batch % 2 == 0 { 0.25 } else { 0.35 };
            let (low, high) = (quantile(&expected, part), quantile(&expected, 1.0 - part));
            let sum: f64 = (0..20).map(|_| truth(&mut random).clamp(low, high)).sum();
            let scale = (high - low) / 20.0;
            let noise = scale * (unit(&mut random).ln() - unit(&mut random).ln());
            let answer = GridObservation::Mean { count: 20, low, high, mean: sum / 20.0 + noise, scale };
            last = density.observe(&models, &models.likelihood(gap, answer));
        }
        (
            quantile(&last, 0.5),
            squared_deviation(&last, quantile(&last, 0.5)).sqrt(),
            density.independence_probability(),
            density.typical_step(),
        )
    };
    // In the middle a mean alone does not tell a level from none.
    for truth in [6.0, 30.0, 110.0] {
        let (median, deviation, independence_probability, pace) = found(&mut |_| truth);
        assert!((median - truth).abs() < 5.0 && deviation < 15.0, "{truth}: {median} {deviation}");
        assert!(independence_probability < 0.01 && pace < 0.02, "{truth}: {independence_probability} {pace}");
        let (median, ..) = found(&mut |random| truth + 16.0 * (unit(random) - 0.5));
        assert!((median - truth).abs() < 8.0, "{truth}: {median}");
    }
    let (median, deviation, independence_probability, _) = found(&mut |random| 128.0 * unit(random));
    assert!((median - 64.0).abs() < 4.0 && deviation > 30.0, "{median} {deviation}");
    assert!(independence_probability > 0.9, "{independence_probability}");
}
