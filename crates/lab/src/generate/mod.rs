//! Synthetic streams of each kind.

mod counts;
mod flow;
mod levels;
mod numbers;
mod shapes;
mod symbols;

use std::ops::Range;

pub use counts::Process;
pub use flow::{Away, Flow, Places};
pub use levels::Levels;
pub use numbers::NumberProcess;
pub use shapes::Shape;
pub use symbols::{Chain, MAX_SYMBOLS};
use tidegate_kernel::{Grid, GridError};

use crate::stream::{DataStreamError, MAX_POPULATION};

/// Greatest length of a generated stream, which is held in memory.
pub const MAX_LENGTH: usize = 100_000_000;

/// A stream that cannot be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum GenerateError {
    /// A random walk that starts outside 0..=1, or whose steps have no standard deviation.
    #[error(
        "a walk must start between 0 and 1 with a finite standard deviation, not start at {start} with {deviation}"
    )]
    Walk { start: f64, deviation: f64 },
    /// The curve leaves 0..=1.
    #[error("{name} has a share of {share} at timestamp {timestamp}, which is not between 0 and 1")]
    Share { name: &'static str, timestamp: usize, share: f64 },
    /// Nobody, or more users than can be counted.
    #[error("the population must be between 1 and {MAX_POPULATION}, but {given} was given")]
    Population { given: u64 },
    /// No timestamps, or more than fit in memory.
    #[error("the length must be between 1 and {MAX_LENGTH}, but {given} was given")]
    Length { given: usize },
    /// A stream of numbers whose settings are not finite, or where a share is not between zero and one, or where a
    /// deviation or a period is negative.
    #[error(
        "the settings of {name} must be finite, deviations and the period not negative, rate and decay within 0..1"
    )]
    Numbers { name: &'static str },
    /// A flow of users whose settings are not finite, or where a share is not between zero and one, or the deviation
    /// negative, or with fewer than two places.
    #[error(
        "the settings of {name} must be finite, with at least 2 places, a period above 0, a deviation of 0 or more, \
         and rate and decay within 0..1"
    )]
    Flow { name: &'static str },
    /// Probabilities that do not sum to one.
    #[error("the probabilities of {name} must not be negative, and sum to 1 in each row, with a row for each symbol")]
    Chain { name: String },
    /// Fewer than two symbols, or more than a chain can have.
    #[error("a chain has between 2 and {MAX_SYMBOLS} symbols, but {given} were given")]
    Symbols { given: usize },
    /// A domain that is none.
    #[error(transparent)]
    Domain(#[from] GridError),
    /// What came out is not a stream.
    #[error(transparent)]
    Stream(#[from] DataStreamError),
}

/// How many timestamps an alternating stream stays at a level.
const ALTERNATION: usize = 50;
/// The length of an incident, in timestamps.
const INCIDENT: usize = 6;
/// How many times its first number a growing stream ends with.
const GROWTH: f64 = 25.0;

/// The timestamps of an incident, from zero: it begins in the middle of the stream.
fn incident(length: usize) -> Range<usize> {
    length / 2..length / 2 + INCIDENT
}

/// Rounds a number to the grid, and stays within the domain where rounding would lead just beyond it.
fn on_grid(grid: &Grid, number: f64) -> f64 {
    let steps = ((number - grid.low()) / grid.step()).round();
    (grid.low() + steps * grid.step()).clamp(grid.low(), grid.high())
}

/// Folds a number back into 0..=1, as often as needed.
fn reflect(position: f64) -> f64 {
    let folded = position.rem_euclid(2.0);
    if folded > 1.0 { 2.0 - folded } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_beyond_a_border_is_reflected() {
        for (given, expected) in [(0.25, 0.25), (-0.25, 0.25), (1.25, 0.75), (2.25, 0.25), (-1.25, 0.75), (1.0, 1.0)] {
            assert!((reflect(given) - expected).abs() < 1e-15, "{given}");
        }
    }
}
