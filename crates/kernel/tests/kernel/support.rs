//! Goodness-of-fit checks shared by the statistical tests.
//!
//! Seeds are fixed, so a test always passes or always fails. The false-alarm probability is the chance that a random
//! seed fails on correct code.

use std::num::NonZeroU64;
use std::sync::OnceLock;

use proptest::test_runner::{Config, RngSeed};
use statrs::distribution::{ChiSquared, ContinuousCDF};
use tidegate_kernel::{Account, ClassLedgers, Epsilon, Ledger, Permit, Sealed, Window};
use zeroize::Zeroize;

/// Settings of a property test: a number of cases from a fixed seed, without a file of failures.
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

/// The two-sample chi-square p-value.
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
pub fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

/// A permit for an amount at timestamp 0, from a new ledger.
pub fn permit(amount: Epsilon) -> Permit {
    permit_at(0, amount)
}

/// The account of all tests.
pub fn account() -> Account {
    static ACCOUNT: OnceLock<Account> = OnceLock::new();
    *ACCOUNT.get_or_init(|| Ledger::new(Epsilon::MAX, Window::EVENT).account())
}

/// A new ledger with the [account] of all tests.
pub fn ledger() -> Ledger {
    Ledger::forged(account(), Epsilon::MAX, Window::EVENT)
}

/// Seals data for the account that [`permit_at`] charges.
pub fn sealed_at<T: Zeroize>(timestamp: u64, value: T) -> Sealed<T> {
    Sealed::at(account(), timestamp, value)
}

/// A permit for an amount, from a new ledger.
pub fn permit_at(timestamp: u64, amount: Epsilon) -> Permit {
    ledger().spend(timestamp, amount).unwrap()
}

/// New class ledgers with the [account] of all tests.
pub fn class_ledgers(classes: impl IntoIterator<Item = u32>) -> ClassLedgers {
    let mut ledgers = ClassLedgers::forged(account());
    for class in classes {
        ledgers.register(class, Ledger::new(Epsilon::MAX, Window::EVENT));
    }
    ledgers
}

/// A permit for the data of a class at timestamp 0.
pub fn class_permit(class: u32, amount: Epsilon) -> Permit {
    class_ledgers([class]).spend(class, 0, amount).unwrap()
}

/// A non-zero integer.
pub fn nonzero(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

/// Weights of a two-sided geometric distribution on -reach..=reach; the ends include the tails.
pub fn laplace_weights(scale: f64, reach: i64) -> Vec<f64> {
    let q = (-1.0 / scale).exp();
    let tail = q.powi(reach as i32) / (1.0 + q);
    (-reach..=reach)
        .map(|z| if z.abs() == reach { tail } else { (1.0 - q) / (1.0 + q) * q.powi(z.unsigned_abs() as i32) })
        .collect()
}

/// The index of a number in -reach..=reach, clamped to the ends.
pub fn fold(z: i64, reach: i64) -> usize {
    (z.clamp(-reach, reach) + reach) as usize
}

/// The probability of `z` under two-sided geometric noise.
pub fn laplace_probability(scale: f64, z: i64) -> f64 {
    let q = (-1.0 / scale).exp();
    (1.0 - q) / (1.0 + q) * (-(z.abs() as f64) / scale).exp()
}

/// The probability that one-sided geometric noise is `x` or more.
pub fn geometric_tail(scale: f64, x: i64) -> f64 {
    (-(x.max(0) as f64) / scale).exp()
}

/// The largest log-likelihood ratio, in either direction, of two distributions over the same outcomes.
#[track_caller]
pub fn loss(first: &[f64], second: &[f64]) -> f64 {
    assert_eq!(first.len(), second.len());
    assert!(first.iter().chain(second).all(|p| *p > 0.0), "every outcome must be possible under both");
    first.iter().zip(second).map(|(a, b)| (a / b).ln().abs()).fold(0.0, f64::max)
}

/// All vectors of the given length over the given values.
pub fn all_vectors(values: &[i64], length: usize) -> Vec<Vec<i64>> {
    (0..length).fold(vec![Vec::new()], |shorter, _| {
        let longer = |prefix: Vec<i64>| values.iter().map(move |value| [prefix.as_slice(), &[*value]].concat());
        shorter.into_iter().flat_map(longer).collect()
    })
}

/// The probabilities of 0..=trials successes.
pub fn binomial_weights(trials: u64, p: f64) -> Vec<f64> {
    (0..trials).fold(vec![1.0], |fewer, _| {
        let failed = fewer.iter().map(|weight| (1.0 - p) * weight).chain([0.0]);
        let succeeded = std::iter::once(0.0).chain(fewer.iter().map(|weight| p * weight));
        failed.zip(succeeded).map(|(failed, succeeded)| failed + succeeded).collect()
    })
}
