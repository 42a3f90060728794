//! What several subjects need.

use proptest::test_runner::{Config, RngSeed};
use tidegate::kernel::{Randomness, SeededRandom};

/// The settings of a property test: so many cases from a fixed seed, and no file that remembers failures.
pub fn repeatable(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(0x7_1de9), ..Config::default() }
}

/// A number between zero and one.
pub fn unit(random: &mut SeededRandom) -> f64 {
    (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number of mean zero and of the given variance, uniformly distributed.
pub fn error(random: &mut SeededRandom, variance: f64) -> f64 {
    (unit(random) - 0.5) * (12.0 * variance).sqrt()
}
