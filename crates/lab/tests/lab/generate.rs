use tidegate_kernel::{Grid, SeededRandom};
use tidegate_lab::generate::{Chain, GenerateError, NumberProcess, Process};

use crate::support::assert_close;

fn shares(process: Process, length: usize) -> Vec<f64> {
    process.shares(length, &mut SeededRandom::new(7)).unwrap()
}

#[test]
fn sin_and_log_follow_their_formulas_from_timestamp_one() {
    let sin = shares(Process::SIN, 800);
    assert_close(sin[0], 0.05 * 0.01_f64.sin() + 0.075);
    assert_close(sin[799], 0.05 * 8.0_f64.sin() + 0.075);
    let log = shares(Process::LOG, 800);
    assert_close(log[0], 0.25 / (1.0 + (-0.01_f64).exp()));
    assert_close(log[799], 0.25 / (1.0 + (-8.0_f64).exp()));
}

#[test]
fn lns_takes_normal_steps_from_its_start() {
    // A long walk far from the borders, so that none of its steps is reflected.
    let walk = shares(Process::Lns { start: 0.5, deviation: 0.0002 }, 100_000);
    let steps: Vec<f64> = std::iter::once(0.5).chain(walk.iter().copied()).zip(&walk).map(|(a, b)| b - a).collect();
    let count = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / count;
    let deviation = (steps.iter().map(|step| step.powi(2)).sum::<f64>() / count).sqrt();
    // Five standard errors: a false alarm has a probability below 1e-6, and 10 % would be 45 of them.
    assert!(mean.abs() < 5.0 * 0.0002 / count.sqrt(), "{mean}");
    assert!((deviation / 0.0002 - 1.0).abs() < 5.0 / (2.0 * count).sqrt(), "{deviation}");
}

#[test]
fn lns_is_repeatable_and_stays_within_zero_and_one() {
    let wild = Process::Lns { start: 0.05, deviation: 0.3 };
    let walk = shares(wild, 10_000);
    assert!(walk.iter().all(|share| (0.0..=1.0).contains(share)));
    // Reflected and not clamped: it never rests on a border.
    assert!(walk.iter().all(|share| *share != 0.0 && *share != 1.0));
    assert_eq!(walk, shares(wild, 10_000));
    let other = wild.shares(10_000, &mut SeededRandom::new(8)).unwrap();
    assert_ne!(walk, other);
}

#[test]
fn exactly_the_share_of_users_holds_one() {
    let mut random = SeededRandom::new(7);
    for process in [Process::LNS, Process::SIN, Process::LOG] {
        let stream = process.generate(200_000, 50, &mut SeededRandom::new(7)).unwrap();
        assert_eq!((stream.name(), stream.domain(), stream.length()), (process.name(), 2, 50));
        for (row, share) in stream.counts().iter().zip(process.shares(50, &mut SeededRandom::new(7)).unwrap()) {
            assert_eq!(row[1], (share * 200_000.0).round() as u64);
            assert_eq!(row[0] + row[1], 200_000);
        }
    }
    let all = Process::Log { ceiling: 1.0, rate: 100.0 }.generate(3, 2, &mut random).unwrap();
    assert_eq!(all.counts(), [[0, 3], [0, 3]]);
}

#[test]
fn what_has_no_stream_is_refused() {
    let mut random = SeededRandom::new(1);
    let mut generate = |process: Process, population, length| process.generate(population, length, &mut random);
    assert_eq!(generate(Process::SIN, 0, 1), Err(GenerateError::Population { given: 0 }));
    assert_eq!(generate(Process::SIN, u64::MAX, 1), Err(GenerateError::Population { given: u64::MAX }));
    assert_eq!(generate(Process::SIN, 1, 0), Err(GenerateError::Length { given: 0 }));
    assert!(generate(Process::SIN, 1, usize::MAX).is_err());
    for (start, deviation) in [(-0.1, 0.1), (f64::NAN, 0.1), (0.5, -1.0), (0.5, f64::INFINITY)] {
        let walk = generate(Process::Lns { start, deviation }, 10, 10);
        assert!(matches!(walk, Err(GenerateError::Walk { .. })));
    }
    let beyond = generate(Process::Sin { amplitude: 1.0, rate: 1.0, level: 0.5 }, 10, 10);
    assert!(matches!(beyond, Err(GenerateError::Share { name: "sin", timestamp: 1, .. })));
    assert!(generate(Process::Log { ceiling: f64::NAN, rate: 1.0 }, 10, 10).is_err());
}

fn numbers(process: NumberProcess, length: usize) -> Vec<f64> {
    let domain = NumberProcess::domain().unwrap();
    process.generate(domain, length, &mut SeededRandom::new(8)).unwrap().values().to_vec()
}

/// The mean and the standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

#[test]
fn seasons_swing_around_a_line_that_rises() {
    let NumberProcess::Seasonal { level, slope, amplitude, period, deviation } = NumberProcess::SEASONAL else {
        panic!("it is seasonal")
    };
    let noise: Vec<f64> = (1..)
        .zip(numbers(NumberProcess::SEASONAL, 800))
        .map(|(time, value)| {
            let time = f64::from(time);
            value - level - slope * time - amplitude * (std::f64::consts::TAU * time / period).sin()
        })
        .collect();
    let (mean, spread) = moments(&noise);
    // Five standard errors, false alarms below 1e-6; rounding adds a twelfth to the variance, which is nothing.
    assert!(mean.abs() < 5.0 * deviation / f64::sqrt(800.0), "{mean}");
    assert!((spread / deviation - 1.0).abs() < 5.0 / f64::sqrt(1_600.0), "{spread}");
}

#[test]
fn bursts_begin_at_their_rate_and_die_down() {
    let quiet = NumberProcess::Bursts { level: 50.0, deviation: 0.0, rate: 0.02, height: 900.0, decay: 0.2 };
    // A domain so wide that nothing is reflected.
    let domain = Grid::new(0.0, 10_000.0, 1.0).unwrap();
    let stream = quiet.generate(domain, 20_000, &mut SeededRandom::new(8)).unwrap();
    let rises = stream.values().windows(2).map(|pair| pair[1] - 50.0 - 0.8 * (pair[0] - 50.0));
    // Without a burst, what is left of the others differs by rounding: by 0.5 and 0.4 at most.
    assert!(rises.clone().all(|rise| (-0.9..=900.9).contains(&rise)));
    let bursts: Vec<f64> = rises.filter(|rise| *rise > 0.9).collect();
    // 400 are expected, of which one in a thousand is too small to see, half of the height on average; five standard
    // deviations of a binomial number and of a mean of uniform ones.
    let (mean, _) = moments(&bursts);
    assert!((bursts.len() as f64 - 400.0).abs() < 5.0 * f64::sqrt(400.0), "{}", bursts.len());
    assert!((mean - 450.0).abs() < 5.0 * 900.0 / f64::sqrt(12.0 * 400.0), "{mean}");
}

#[test]
fn a_walk_stays_within_its_domain() {
    let walk = numbers(NumberProcess::WALK, 50_000);
    assert!(walk.iter().all(|value| (0.0..=1_000.0).contains(value) && value.fract() == 0.0));
    let near_the_border = |value: &f64| !(50.0..=950.0).contains(value);
    assert!(walk.iter().any(near_the_border), "it would have proved nothing");
    let inside = walk.windows(2).filter(|pair| !pair.iter().any(near_the_border)).map(|pair| pair[1] - pair[0]);
    let (_, spread) = moments(&inside.collect::<Vec<_>>());
    // Steps of 10, and the rounding of either end; 2 % is more than six standard errors.
    assert!((spread / f64::sqrt(100.0 + 2.0 / 12.0) - 1.0).abs() < 0.02, "{spread}");
    let fine = Grid::new(-1.0, 2.0, 0.01).unwrap();
    let process = NumberProcess::Walk { start: 0.0, deviation: 0.5 };
    let values = process.generate(fine, 1_000, &mut SeededRandom::new(9)).unwrap();
    assert!(values.values().iter().all(|value| (-1.0..=2.0).contains(value)));
}

#[test]
fn chains_have_the_transitions_that_they_say() {
    let stream = Chain::STICKY.generate(1, 100_000, &mut SeededRandom::new(10)).unwrap();
    let stays = stream.sequences()[0].windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
    // Five standard deviations of a binomial number, false alarms below 1e-6.
    assert!((stays - 90_000.0).abs() < 5.0 * f64::sqrt(9_000.0), "{stays}");
    let three = Chain {
        name: "three",
        initial: [0.2, 0.0, 0.8],
        transitions: [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.3, 0.7]],
    };
    let stream = three.generate(20_000, 3, &mut SeededRandom::new(11)).unwrap();
    let share = |wanted: &dyn Fn(&[u32]) -> bool| {
        stream.sequences().iter().filter(|sequence| wanted(sequence)).count() as f64 / 20_000.0
    };
    let near = |share: f64, expected: f64| (share - expected).abs() < 5.0 * f64::sqrt(expected / 20_000.0);
    assert!(near(share(&|sequence| sequence[0] == 2), 0.8));
    assert!(near(share(&|sequence| sequence[..2] == [2, 1]), 0.24));
    assert!(near(share(&|sequence| sequence[..3] == [0, 1, 0]), 0.1));
    assert_eq!(share(&|sequence| sequence[0] == 1 || sequence[..2] == [0, 2]), 0.0);
}

#[test]
fn numbers_and_chains_that_make_no_sense_are_refused() {
    let mut random = SeededRandom::new(1);
    let domain = NumberProcess::domain().unwrap();
    for process in [
        NumberProcess::Walk { start: f64::NAN, deviation: 1.0 },
        NumberProcess::Walk { start: 0.0, deviation: -1.0 },
        NumberProcess::Bursts { level: 0.0, deviation: 1.0, rate: 1.1, height: 1.0, decay: 0.5 },
        NumberProcess::Seasonal { level: 0.0, slope: 0.0, amplitude: 1.0, period: 0.0, deviation: 1.0 },
    ] {
        let refused = process.generate(domain, 10, &mut random);
        assert_eq!(refused, Err(GenerateError::Numbers { name: process.name() }));
    }
    assert_eq!(NumberProcess::WALK.generate(domain, 0, &mut random), Err(GenerateError::Length { given: 0 }));
    for initial in [[0.5, 0.6], [1.5, -0.5], [f64::NAN, 1.0]] {
        let chain = Chain { initial, ..Chain::EVEN };
        assert_eq!(chain.generate(1, 10, &mut random), Err(GenerateError::Chain { name: "markov_50" }));
    }
    for (users, length) in [(0, 1), (1, 0), (usize::MAX, 2)] {
        assert!(matches!(Chain::EVEN.generate(users, length, &mut random), Err(GenerateError::Length { .. })));
    }
}
