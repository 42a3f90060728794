//! [`Grid`]: the public fixed-point grid on which readings are sealed.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::sealed::Sealed;

/// A public domain of readings, `low..=high`, cut into steps.
///
/// Noise on floating-point numbers is not private, whatever its scale: the last bits of the sum tell what was added
/// to. So a reading is rounded to a grid point *before* it is sealed, and from then on it is an integer. The domain
/// and the step are public knowledge, never taken from the data.
///
/// ```
/// use tidegate_kernel::{Grid, Ledger, Window};
///
/// let ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let grid = Grid::new(-10.0, 40.0, 0.1)?;
/// assert_eq!(grid.width(), 500);
/// let _reading = grid.seal(ledger.account(), 0, 21.34)?; // as 21.3
/// assert_eq!(grid.steps(21.34)?, 313);
/// assert_eq!(grid.value_of(510), 41.0);
/// assert_eq!(grid.value_within(510), 40.0);
/// let outside = grid.seal(ledger.account(), 1, 40.01).unwrap_err();
/// assert_eq!(outside.to_string(), "the reading is not a number within -10..=40");
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
    /// A distance by which nothing can move.
    #[error("a reading moves by a finite distance that is not negative, but {given} was given")]
    Distance {
        /// The distance.
        given: f64,
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

    /// The whole domain in grid units, `0..=width`: the range to which a primitive that takes one clamps nothing.
    #[allow(clippy::cast_possible_wrap)] // at most 2^32
    pub fn range(&self) -> RangeInclusive<i64> {
        0..=self.width() as i64
    }

    /// The number of steps from [`low`](Self::low) to the grid point nearest to a *public* value, such as a threshold
    /// or the end of a range: `0..=width`, rounded as [`seal`](Self::seal) rounds.
    ///
    /// # Errors
    /// [`GridError::Reading`] where the value is NaN, infinite or outside the domain.
    pub fn steps(&self, value: f64) -> Result<u64, GridError> {
        if !(self.low..=self.high).contains(&value) {
            return Err(GridError::Reading { low: self.low, high: self.high });
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in 0..=width
        Ok(self.steps_to(value) as u64)
    }

    /// How far, in grid units, a sealed reading can move when the reading itself moves by at most `distance`:
    /// `ceil(distance / step) + 1`, and no more than the [`width`](Self::width).
    ///
    /// The one more is for rounding: two readings a hair apart may lie on either side of the middle between two grid
    /// points. It covers the rounding of floats as well ([proof](crate::proofs::noisy_scalar)).
    ///
    /// # Errors
    /// [`GridError::Distance`] where the distance is negative or not finite.
    ///
    /// ```
    /// # use tidegate_kernel::{Grid, GridError};
    /// let grid = Grid::new(0.0, 50.0, 0.5)?;
    /// assert_eq!(grid.sensitivity(2.0)?, 5);
    /// assert_eq!(grid.sensitivity(1e9)?, grid.width());
    /// # Ok::<(), GridError>(())
    /// ```
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative; large ones saturate
    pub fn sensitivity(&self, distance: f64) -> Result<u64, GridError> {
        if !(distance >= 0.0 && distance.is_finite()) {
            return Err(GridError::Distance { given: distance });
        }
        Ok(((distance / self.step).ceil() as u64).saturating_add(1).min(self.width()))
    }

    /// Seals the reading of a timestamp for an account, as the number of steps from [`low`](Self::low) to the grid point nearest to
    /// it: `0..=width`.
    ///
    /// The error depends on the reading. Whoever skips the timestamp because of it tells the world that the reading
    /// was out of range, for free; use [`seal_clamped`](Self::seal_clamped) where that can happen.
    ///
    /// # Errors
    /// [`GridError::Reading`] where the reading is NaN, infinite or outside the domain.
    pub fn seal(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        #[allow(clippy::cast_possible_wrap)] // at most 2^32
        Ok(Sealed::at(account, timestamp, self.steps(reading)? as i64))
    }

    /// As [`seal`](Self::seal), with a reading outside the domain, infinite ones included, moved to the nearest end of
    /// it: so that what is published, and when, does not depend on whether a reading was in the domain.
    ///
    /// # Errors
    /// [`GridError::Reading`] where the reading is NaN: it has no nearest end. Decide on a public stand-in for a
    /// missing reading, rather than being silent.
    pub fn seal_clamped(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        self.seal(account, timestamp, reading.clamp(self.low, self.high))
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
