//! [`Grid`]: the public fixed-point grid on which readings are sealed.

use serde::{Deserialize, Serialize};

use crate::sealed::Sealed;

/// A public domain of readings, `low..=high`, cut into steps.
///
/// Noise on floating-point numbers is not private, whatever its scale: the last bits of the sum tell what was added
/// to. So a reading is rounded to a grid point *before* it is sealed, and from then on it is an integer. The domain
/// and the step are public knowledge, never taken from the data.
///
/// ```
/// use tidegate_kernel::Grid;
///
/// let grid = Grid::new(-10.0, 40.0, 0.1)?;
/// assert_eq!(grid.width(), 500);
/// let _reading = grid.seal(21.34)?; // as 21.3
/// assert_eq!(grid.value_of(510), 41.0);
/// assert_eq!(grid.value_within(510), 40.0);
/// assert_eq!(grid.seal(40.01).unwrap_err().to_string(), "the reading is not a number within -10..=40");
/// # Ok::<(), tidegate_kernel::GridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Grid {
    low: f64,
    high: f64,
    step: f64,
}

/// Why a grid cannot be laid, or a reading not be put on it. A reading itself is never told.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// The domain is empty, or not finite.
    #[error("a domain must be two finite numbers in ascending order, but {low}..={high} was given")]
    Domain {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// The step cuts the domain into no steps, or too many, or is not a number.
    #[error(
        "a step must cut {low}..={high} into 1 to {limit} steps, but {step} was given",
        limit = Grid::MAX_WIDTH
    )]
    Step {
        /// The lower end of the domain.
        low: f64,
        /// The upper end of the domain.
        high: f64,
        /// The step.
        step: f64,
    },
    /// The reading is NaN, infinite or outside the domain.
    #[error("the reading is not a number within {low}..={high}")]
    Reading {
        /// The lower end of the domain.
        low: f64,
        /// The upper end of the domain.
        high: f64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    low: f64,
    high: f64,
    step: f64,
}

impl TryFrom<Saved> for Grid {
    type Error = GridError;

    fn try_from(Saved { low, high, step }: Saved) -> Result<Self, GridError> {
        Self::new(low, high, step)
    }
}

impl Grid {
    /// The largest number of steps.
    pub const MAX_WIDTH: u64 = 1 << 32;

    /// The grid points `low`, `low + step`, `low + 2·step`, ... up to the one nearest to `high`.
    ///
    /// # Errors
    /// [`GridError::Domain`] unless `low < high` and both, and their distance, are finite; [`GridError::Step`] unless
    /// the step is positive and makes 1 to [`Grid::MAX_WIDTH`] steps.
    pub fn new(low: f64, high: f64, step: f64) -> Result<Self, GridError> {
        if !(low < high && (high - low).is_finite()) {
            return Err(GridError::Domain { low, high });
        }
        let grid = Self { low, high, step };
        #[allow(clippy::cast_precision_loss)] // a power of two
        if !(step > 0.0 && (1.0..=Self::MAX_WIDTH as f64).contains(&grid.steps_to(high))) {
            return Err(GridError::Step { low, high, step });
        }
        Ok(grid)
    }

    /// The number of steps from `low` to the grid point nearest to `value`.
    fn steps_to(&self, value: f64) -> f64 {
        ((value - self.low) / self.step).round()
    }

    /// The lower end of the domain.
    pub const fn low(&self) -> f64 {
        self.low
    }

    /// The upper end of the domain.
    pub const fn high(&self) -> f64 {
        self.high
    }

    /// The distance of two grid points.
    pub const fn step(&self) -> f64 {
        self.step
    }

    /// The number of steps across the domain: how far, in grid units, a reading can move.
    ///
    /// Differences, quotients and roundings of floats never reverse an order, so every sealed reading lies in
    /// `0..=width`, to the last bit.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 2^32, checked when the grid was made
    pub fn width(&self) -> u64 {
        self.steps_to(self.high) as u64
    }

    /// Seals a reading as the number of steps from [`low`](Self::low) to the grid point nearest to it: `0..=width`.
    ///
    /// # Errors
    /// [`GridError::Reading`] where the reading is NaN, infinite or outside the domain.
    pub fn seal(&self, reading: f64) -> Result<Sealed<i64>, GridError> {
        if !(self.low..=self.high).contains(&reading) {
            return Err(GridError::Reading { low: self.low, high: self.high });
        }
        #[allow(clippy::cast_possible_truncation)] // at most the width
        Ok(Sealed::new(self.steps_to(reading) as i64))
    }

    /// The number that so many steps from [`low`](Self::low) stand for; after noise that may well lie outside the
    /// domain.
    #[allow(clippy::cast_precision_loss)] // published already
    pub fn value_of(&self, steps: i64) -> f64 {
        self.low + steps as f64 * self.step
    }

    /// The same, moved to the nearest end of the domain where it lies outside: post-processing, which costs nothing
    /// and makes the error smaller, but the result is no longer unbiased.
    pub fn value_within(&self, steps: i64) -> f64 {
        self.value_of(steps).clamp(self.low, self.high)
    }
}
