//! Goodness-of-fit checks shared by the statistical tests.
//!
//! Seeds are fixed, so a test either always passes or always fails; the false-alarm probability below is the chance
//! that a seed chosen blindly would have failed on correct code.

use proptest::test_runner::{Config, RngSeed};
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The settings of a property test: so many cases from a fixed seed, and no file that remembers failures.
pub fn repeatable(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(0x7_1de9), ..Config::default() }
}

/// The false-alarm probability of one goodness-of-fit check.
pub const ALPHA: f64 = 1e-6;

/// The chi-square p-value of observed counts against a distribution given as weights (any positive total). Cells
/// expected fewer than ten times are pooled; an observation where the weight is zero gives zero.
pub fn chi_square_p(observed: &[u64], weights: &[f64]) -> f64 {
    assert_eq!(observed.len(), weights.len());
    let total: u64 = observed.iter().sum();
    let weight: f64 = weights.iter().sum();
    let mut statistic = 0.0;
    let mut cells = 0_u32;
    let mut pool = (0.0, 0.0);
    let mut add = |seen: f64, expected: f64| {
        statistic += (seen - expected).powi(2) / expected;
        cells += 1;
    };
    for (&seen, &cell) in observed.iter().zip(weights) {
        let expected = cell / weight * total as f64;
        if cell == 0.0 && seen > 0 {
            return 0.0;
        }
        if expected >= 10.0 {
            add(seen as f64, expected);
        } else {
            pool = (pool.0 + seen as f64, pool.1 + expected);
        }
    }
    if pool.1 >= 10.0 {
        add(pool.0, pool.1);
    }
    assert!(cells >= 2, "too few observations to test anything");
    1.0 - ChiSquared::new(f64::from(cells - 1)).unwrap().cdf(statistic)
}

/// The chi-square p-value for two samples having the same distribution.
pub fn two_sample_p(first: &[u64], second: &[u64]) -> f64 {
    let (n, m): (u64, u64) = (first.iter().sum(), second.iter().sum());
    let (n, m) = (n as f64, m as f64);
    let mut statistic = 0.0;
    let mut cells = 0_u32;
    let mut pool = (0.0, 0.0);
    let mut add = |a: f64, b: f64| {
        statistic += (a * (m / n).sqrt() - b * (n / m).sqrt()).powi(2) / (a + b);
        cells += 1;
    };
    for (&a, &b) in first.iter().zip(second) {
        if a + b >= 20 {
            add(a as f64, b as f64);
        } else {
            pool = (pool.0 + a as f64, pool.1 + b as f64);
        }
    }
    if pool.0 + pool.1 >= 20.0 {
        add(pool.0, pool.1);
    }
    assert!(cells >= 2, "too few observations to test anything");
    1.0 - ChiSquared::new(f64::from(cells - 1)).unwrap().cdf(statistic)
}

/// Asserts that the counts fit the distribution, at a false-alarm probability of [`ALPHA`].
#[track_caller]
pub fn assert_fits(observed: &[u64], weights: &[f64]) {
    let p = chi_square_p(observed, weights);
    assert!(p > ALPHA, "the sample does not fit: p = {p:e}");
}

/// Asserts that the same check would have caught the given wrong distribution.
#[track_caller]
pub fn assert_rejects(observed: &[u64], wrong_weights: &[f64]) {
    let p = chi_square_p(observed, wrong_weights);
    assert!(p < ALPHA, "the check has no teeth: a wrong distribution passes with p = {p:e}");
}

/// Counts draws into cells; `cell` maps a draw to its cell.
pub fn tally(draws: usize, cells: usize, mut draw: impl FnMut() -> usize) -> Vec<u64> {
    let mut counts = vec![0; cells];
    for _ in 0..draws {
        counts[draw()] += 1;
    }
    counts
}

/// An epsilon from its decimal.
pub fn epsilon(text: &str) -> tidegate_kernel::Epsilon {
    text.parse().unwrap()
}
