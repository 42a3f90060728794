use tidegate_kernel::SeededRandom;
use tidegate_lab::generate::{GenerateError, Process};

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
