//! [`Grid`]: the public fixed-point grid on which readings are sealed.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::decimal::{Decimal, Spelled, divided};
use crate::sealed::Sealed;

/// A public domain of readings, `low..=high`, divided into equal steps.
///
/// Noise added to floating-point numbers leaks the input through its low bits (Mironov 2012). So a reading is rounded
/// to a grid point *before* sealing, and is an integer from then on. The domain and the step are public; never derive
/// them from the data.
///
/// Low, high and step are exact [decimals](Decimal). [`seal_text`](Self::seal_text) takes decimal text and rounds it by
/// integer arithmetic. [`seal`](Self::seal) takes a float, and needs a grid that is [coarse enough for
/// floats](Self::check_floats).
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
/// let _always = grid.seal_text(ledger.account(), 1, "40.01", 0); // as 40
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct Grid {
    /// Power of ten in which the next three are counted; half a step is an integer in it.
    unit: i16,
    low: i128,
    high: i128,
    step: i128,
    width: u64,
    /// Nearest floats of low, high and step.
    floats: Floats,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Floats {
    low: f64,
    high: f64,
    step: f64,
    /// Whether readings may be floats.
    can_be_read: bool,
}

impl Floats {
    fn of(low: Decimal, high: Decimal, step: Decimal) -> Self {
        let (low, high, step) = (low.to_f64(), high.to_f64(), step.to_f64());
        let mut floats = Self { low, high, step, can_be_read: false };
        floats.can_be_read = step.is_normal() && step >= f64::from(Grid::FLOAT_FACTOR) * floats.spacing();
        floats
    }

    /// The end of the domain with the larger magnitude.
    const fn end(&self) -> f64 {
        if self.low.abs() > self.high.abs() { self.low } else { self.high }
    }

    /// The spacing of floats at that end.
    const fn spacing(&self) -> f64 {
        self.end().abs().next_up() - self.end().abs()
    }
}

/// Why a grid or a reading was rejected. Messages never contain a reading.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum GridError {
    /// The domain is empty, or not finite.
    #[error("a domain must be two finite numbers in ascending order, but {low}..={high} was given")]
    Domain { low: f64, high: f64 },
    /// The step is not a number, or gives no steps or too many.
    #[error(
        "a step must divide {low}..={high} into 1 to {limit} steps, but {step} was given",
        limit = Grid::MAX_WIDTH
    )]
    Step { low: f64, high: f64, step: f64 },
    /// The ends of the domain and the step need too many digits in a common unit.
    #[error("the ends of a domain and its step must be written with {limit} digits in all", limit = Grid::MAX_DIGITS)]
    Digits,
    /// The spacing of floats at the larger end of the domain is too close to the step.
    #[error(
        "floats near {end} lie {spacing} apart, and a step must be at least {factor} times that, but is {step}: \
         give readings as decimal text",
        factor = Grid::FLOAT_FACTOR
    )]
    Floats { end: f64, spacing: f64, step: f64 },
    /// The reading is NaN, infinite or outside the domain.
    #[error("the reading is not a number within {low}..={high}")]
    Reading { low: f64, high: f64 },
    /// A negative distance.
    #[error("a reading moves by a distance that is not negative, but {given} was given")]
    Distance { given: Decimal },
}

/// The saved form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    low: Decimal,
    high: Decimal,
    step: Decimal,
}

impl TryFrom<Saved> for Grid {
    type Error = GridError;

    fn try_from(Saved { low, high, step }: Saved) -> Result<Self, GridError> {
        Self::exact(low, high, step)
    }
}

impl From<Grid> for Saved {
    fn from(grid: Grid) -> Self {
        let [low, high, step] = grid.decimals();
        Self { low, high, step }
    }
}

impl Grid {
    /// The largest number of steps.
    pub const MAX_WIDTH: u64 = 1 << 32;

    /// Maximum digits of the domain's ends and half a step in a common unit.
    pub const MAX_DIGITS: u32 = 36;

    /// Minimum ratio of the step to the spacing of floats, for readings that are floats.
    pub const FLOAT_FACTOR: u32 = 1 << 10;

    /// Creates the grid `low`, `low + step`, `low + 2·step`, ... up to the point nearest to `high`, for readings that
    /// are floats. Each argument is read as the shortest [decimal](Decimal) that parses back to it.
    ///
    /// # Errors
    /// As [`exact`](Self::exact) and [`check_floats`](Self::check_floats).
    pub fn new(low: f64, high: f64, step: f64) -> Result<Self, GridError> {
        let (Ok(exact_low), Ok(exact_high)) = (low.try_into(), high.try_into()) else {
            return Err(GridError::Domain { low, high });
        };
        let Ok(exact_step) = step.try_into() else {
            return Err(GridError::Step { low, high, step });
        };
        let grid = Self::exact(exact_low, exact_high, exact_step)?;
        grid.check_floats()?;
        Ok(grid)
    }

    /// Creates a grid from exact decimals, for readings that are decimal text.
    ///
    /// # Errors
    /// [`GridError::Domain`] unless `low < high` and both are near a float. [`GridError::Step`] unless the step is
    /// positive and gives 1 to [`Grid::MAX_WIDTH`] steps. [`GridError::Digits`] if the magnitudes of the three differ
    /// too much.
    pub fn exact(low: Decimal, high: Decimal, step: Decimal) -> Result<Self, GridError> {
        let floats = Floats::of(low, high, step);
        let wrong_domain = GridError::Domain { low: floats.low, high: floats.high };
        let wrong_step = GridError::Step { low: floats.low, high: floats.high, step: floats.step };
        if low >= high || !(floats.high - floats.low).is_finite() {
            return Err(wrong_domain);
        }
        // A step that is far too small needs no exact check.
        #[allow(clippy::cast_precision_loss)] // a power of two
        let most = 2.0 * Self::MAX_WIDTH as f64;
        if step <= Decimal::ZERO || floats.step == 0.0 || (floats.high - floats.low) / floats.step > most {
            return Err(wrong_step);
        }
        // One power of ten below all of them, so that half a step is an integer.
        let unit = [low, high, step].iter().map(Decimal::exponent).min().unwrap_or_default() - 1;
        let counted = |number: Decimal| {
            let units = number.spelled().floor(unit);
            (units.unsigned_abs() < LIMIT).then_some(units)
        };
        let (Some(low), Some(high)) = (counted(low), counted(high)) else { return Err(GridError::Digits) };
        let step = counted(step).ok_or(wrong_step)?;
        let mut grid = Self { unit, low, high, step, width: 0, floats };
        grid.width = u64::try_from(grid.rounded(high)).unwrap_or(u64::MAX);
        if (1..=Self::MAX_WIDTH).contains(&grid.width) { Ok(grid) } else { Err(wrong_step) }
    }

    /// Steps from `low` to the grid point nearest to a number of units that is not below it. Ties go up.
    #[inline]
    fn rounded(&self, units: i128) -> u128 {
        divided((units - self.low + self.step / 2).unsigned_abs(), self.step.unsigned_abs()).0
    }

    /// Steps from `low` to the grid point nearest to a number clamped to the domain.
    ///
    /// Every boundary between two grid points is an integer number of units, so rounding down to units changes nothing.
    #[inline]
    fn steps_to(&self, number: &Spelled) -> u64 {
        let units = number.floor(self.unit).clamp(self.low, self.high);
        u64::try_from(self.rounded(units)).unwrap_or(self.width).min(self.width)
    }

    /// The lower end of the domain, as the nearest float.
    pub const fn low(&self) -> f64 {
        self.floats.low
    }

    /// The upper end of the domain, as the nearest float.
    pub const fn high(&self) -> f64 {
        self.floats.high
    }

    /// The distance of two grid points, as the nearest float.
    pub const fn step(&self) -> f64 {
        self.floats.step
    }

    /// Low, high and step.
    pub fn decimals(&self) -> [Decimal; 3] {
        // They were decimals of this range when the grid was made.
        [self.low, self.high, self.step].map(|units| Decimal::of(units, self.unit.into()).unwrap_or_default())
    }

    /// The number of steps across the domain. Every sealed reading lies in `0..=width`.
    pub const fn width(&self) -> u64 {
        self.width
    }

    /// The whole domain in grid units, `0..=width`. Clamping to it changes no reading.
    #[allow(clippy::cast_possible_wrap)] // at most 2^32
    pub const fn range(&self) -> RangeInclusive<i64> {
        0..=self.width as i64
    }

    /// Checks that readings may be floats: a step is at least [`FLOAT_FACTOR`](Self::FLOAT_FACTOR) times the spacing of
    /// floats at the end of the domain with the larger magnitude. On a finer grid, rounding to floats could move
    /// neighbouring readings farther apart than [`sensitivity`](Self::sensitivity) says.
    ///
    /// # Errors
    /// [`GridError::Floats`], independently of the readings.
    #[inline]
    pub fn check_floats(&self) -> Result<(), GridError> {
        let (end, spacing, step) = (self.floats.end(), self.floats.spacing(), self.floats.step);
        if self.floats.can_be_read { Ok(()) } else { Err(GridError::Floats { end, spacing, step }) }
    }

    /// Steps from [`low`](Self::low) to the grid point nearest to a *public* value, such as a threshold: `0..=width`.
    /// The float is read as the shortest [decimal](Decimal) that parses back to it, and is rounded exactly.
    ///
    /// # Errors
    /// Those of [`check_floats`](Self::check_floats); [`GridError::Reading`] if the value is NaN, infinite or outside
    /// the domain.
    #[inline]
    pub fn steps(&self, value: f64) -> Result<u64, GridError> {
        self.check_floats()?;
        let Floats { low, high, step, .. } = self.floats;
        if !(low..=high).contains(&value) {
            return Err(GridError::Reading { low, high });
        }
        let quotient = (value - low) / step;
        // The error is below this bound, so only values near the middle of two grid points need exact rounding.
        if ((quotient - quotient.floor()) - 0.5).abs() < FLOAT_SLACK {
            return Decimal::try_from(value)
                .map(|value| self.steps_to(&value.spelled()))
                .map_err(|_| GridError::Reading { low, high });
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in 0..=width, but for rounding
        Ok((quotient.round() as u64).min(self.width))
    }

    /// Steps to the grid point nearest to a *public* decimal, rounded as in [`seal_text`](Self::seal_text).
    ///
    /// # Errors
    /// [`GridError::Reading`] if the value is outside the domain.
    pub fn steps_of(&self, value: Decimal) -> Result<u64, GridError> {
        let spelled = value.spelled();
        // Round down to compare with the lower end, and up to compare with the upper end.
        let (floor, ceiling) = (spelled.floor(self.unit), ceiling(value, self.unit));
        if floor < self.low || ceiling > self.high {
            return Err(GridError::Reading { low: self.floats.low, high: self.floats.high });
        }
        Ok(self.steps_to(&spelled))
    }

    /// Sensitivity in grid units of a sealed reading that changes by at most `distance`: `ceil(distance / step) + 1`,
    /// at most the [`width`](Self::width).
    ///
    /// The extra step allows for readings that the caller rounded to floats ([proof](crate::proofs::noisy_scalar)).
    /// Other readings need one step less: [`exact_sensitivity`](Self::exact_sensitivity).
    ///
    /// # Errors
    /// [`GridError::Distance`] for a negative distance.
    ///
    /// ```
    /// # use tidegate_kernel::{Grid, GridError};
    /// let grid = Grid::new(0.0, 50.0, 0.5)?;
    /// assert_eq!(grid.sensitivity(2_u64.into())?, 5);
    /// assert_eq!(grid.sensitivity(1_000_u64.into())?, grid.width());
    /// # Ok::<(), GridError>(())
    /// ```
    pub fn sensitivity(&self, distance: Decimal) -> Result<u64, GridError> {
        Ok(self.exact_sensitivity(distance)?.saturating_add(1).min(self.width))
    }

    /// Sensitivity in grid units of a sealed decimal that changes by at most `distance`: `ceil(distance / step)`, at
    /// most the [`width`](Self::width) ([proof](crate::proofs::noisy_scalar)).
    ///
    /// # Errors
    /// [`GridError::Distance`] for a negative distance.
    pub fn exact_sensitivity(&self, distance: Decimal) -> Result<u64, GridError> {
        if distance.is_negative() {
            return Err(GridError::Distance { given: distance });
        }
        let units = ceiling(distance, self.unit).unsigned_abs();
        Ok(u64::try_from(units.div_ceil(self.step.unsigned_abs())).unwrap_or(u64::MAX).min(self.width))
    }

    /// Seals a reading given as decimal text of any length: the number of steps from [`low`](Self::low) to the nearest
    /// grid point. Ties go up.
    ///
    /// Sealing always succeeds, so that neither releases nor their timing reveal an invalid reading. A number outside
    /// the domain becomes the nearest end. Text that is not a number becomes the public grid point `missing`, at most
    /// the [`width`](Self::width).
    ///
    /// ```
    /// # use tidegate_kernel::{Grid, Ledger, Window};
    /// let account = Ledger::new("1".parse()?, Window::EVENT).account();
    /// let grid = Grid::exact("1700000000000000000".parse()?, "1700000000000001000".parse()?, "1".parse()?)?;
    /// let missing = grid.steps_of("1700000000000000500".parse()?)?;
    /// for reading in ["1700000000000000128", "-1e400", "NaN"] {
    ///     let _sealed = grid.seal_text(account, 0, reading, missing);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn seal_text(&self, account: Account, timestamp: u64, reading: &str, missing: u64) -> Sealed<i64> {
        let steps = Spelled::read(reading).map_or(missing.min(self.width), |number| self.steps_to(&number));
        #[allow(clippy::cast_possible_wrap)] // at most 2^32
        Sealed::at(account, timestamp, steps as i64)
    }

    /// Seals the reading of a timestamp for an account: the number of steps from [`low`](Self::low) to the nearest grid
    /// point, in `0..=width`.
    ///
    /// This error depends on the reading. A caller that skips the timestamp reveals, outside the budget, that the
    /// reading was out of range. [`seal_clamped`](Self::seal_clamped) avoids that.
    ///
    /// # Errors
    /// Those of [`check_floats`](Self::check_floats), for every reading or none; [`GridError::Reading`] if the reading
    /// is NaN, infinite or outside the domain.
    #[inline]
    pub fn seal(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        #[allow(clippy::cast_possible_wrap)] // at most 2^32
        Ok(Sealed::at(account, timestamp, self.steps(reading)? as i64))
    }

    /// Seals a reading as [`seal`](Self::seal) does, and clamps it to the domain, infinities included. So neither
    /// releases nor their timing depend on whether the reading was in the domain.
    ///
    /// # Errors
    /// Those of [`check_floats`](Self::check_floats); [`GridError::Reading`] if the reading is NaN, which has no
    /// nearest end. Choose a public replacement for missing readings.
    pub fn seal_clamped(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        self.seal(account, timestamp, reading.clamp(self.floats.low, self.floats.high))
    }

    /// The number at the given steps from [`low`](Self::low). After noise it may lie outside the domain.
    #[allow(clippy::cast_precision_loss)] // published already
    pub fn value_of(&self, steps: i64) -> f64 {
        self.floats.low + steps as f64 * self.floats.step
    }

    /// The number at the given steps, clamped to the domain. Clamping is free post-processing that reduces the error
    /// but adds bias.
    pub fn value_within(&self, steps: i64) -> f64 {
        self.value_of(steps).clamp(self.floats.low, self.floats.high)
    }
}

/// Bound on the error of a float quotient, with a factor of two to spare.
const FLOAT_SLACK: f64 = 1.0 / 128.0;

/// Low, high and step are below this number of units, so that their sums fit into 128 bits.
const LIMIT: u128 = 10_u128.pow(Grid::MAX_DIGITS);

/// A number in units of `10^unit`, rounded up.
fn ceiling(number: Decimal, unit: i16) -> i128 {
    number.negated().spelled().floor(unit).checked_neg().unwrap_or(i128::MAX)
}
