//! [`Grid`]: the public fixed-point grid on which readings are sealed.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::decimal::{Decimal, Spelled, divided};
use crate::sealed::Sealed;

/// A public domain of readings, `low..=high`, cut into steps.
///
/// Noise on floating-point numbers is not private, whatever its scale: the last bits of the sum tell what was added
/// to. So a reading is rounded to a grid point *before* it is sealed, and from then on it is an integer. The domain
/// and the step are public knowledge, never taken from the data.
///
/// Low, high and step are exact [decimals](Decimal). A reading comes as decimal text
/// ([`seal_text`](Self::seal_text)) and is rounded by integer arithmetic, whatever its size. A reading that is a
/// float already ([`seal`](Self::seal)) needs a grid that is [coarse enough for floats](Self::check_floats).
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
    /// The power of ten in which the next three are counted: half a step is a whole number of it.
    unit: i16,
    low: i128,
    high: i128,
    step: i128,
    width: u64,
    /// The floats nearest to low, high and step.
    floats: Floats,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Floats {
    low: f64,
    high: f64,
    step: f64,
    /// Whether readings may be floats too.
    can_be_read: bool,
}

impl Floats {
    fn of(low: Decimal, high: Decimal, step: Decimal) -> Self {
        let (low, high, step) = (low.to_f64(), high.to_f64(), step.to_f64());
        let mut floats = Self { low, high, step, can_be_read: false };
        floats.can_be_read = step.is_normal() && step >= f64::from(Grid::FLOAT_FACTOR) * floats.spacing();
        floats
    }

    /// The end of the domain that is farther from zero.
    const fn end(&self) -> f64 {
        if self.low.abs() > self.high.abs() { self.low } else { self.high }
    }

    /// How far apart floats lie at that end.
    const fn spacing(&self) -> f64 {
        self.end().abs().next_up() - self.end().abs()
    }
}

/// Why a grid cannot be laid, or a reading not be put on it. A reading itself is never told.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum GridError {
    /// The domain is empty, or not finite.
    #[error("a domain must be two finite numbers in ascending order, but {low}..={high} was given")]
    Domain { low: f64, high: f64 },
    /// The step cuts the domain into no steps, or too many, or is not a number.
    #[error(
        "a step must cut {low}..={high} into 1 to {limit} steps, but {step} was given",
        limit = Grid::MAX_WIDTH
    )]
    Step { low: f64, high: f64, step: f64 },
    /// The ends of the domain and the step cannot be counted in one power of ten.
    #[error("the ends of a domain and its step must be written with {limit} digits in all", limit = Grid::MAX_DIGITS)]
    Digits,
    /// Floats at the larger end of the domain lie too close to a step apart.
    #[error(
        "floats near {end} lie {spacing} apart, and a step must be at least {factor} times that, but is {step}: \
         give readings as decimal text",
        factor = Grid::FLOAT_FACTOR
    )]
    Floats { end: f64, spacing: f64, step: f64 },
    /// The reading is NaN, infinite or outside the domain.
    #[error("the reading is not a number within {low}..={high}")]
    Reading { low: f64, high: f64 },
    /// A distance by which nothing can move.
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

    /// The most digits with which the ends of the domain and half a step can be written in one power of ten.
    pub const MAX_DIGITS: u32 = 36;

    /// A step must be at least so many times the spacing of floats, where readings are floats.
    pub const FLOAT_FACTOR: u32 = 1 << 10;

    /// The grid points `low`, `low + step`, `low + 2·step`, ... up to the one nearest to `high`, for readings that are
    /// floats. Each number stands for the shortest [decimal](Decimal) that reads back as it.
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

    /// The same of exact decimals, for readings that are decimal text.
    ///
    /// # Errors
    /// [`GridError::Domain`] unless `low < high` and floats come near both; [`GridError::Step`] unless the step is
    /// positive and makes 1 to [`Grid::MAX_WIDTH`] steps; [`GridError::Digits`] where the three are too far apart.
    pub fn exact(low: Decimal, high: Decimal, step: Decimal) -> Result<Self, GridError> {
        let floats = Floats::of(low, high, step);
        let wrong_domain = GridError::Domain { low: floats.low, high: floats.high };
        let wrong_step = GridError::Step { low: floats.low, high: floats.high, step: floats.step };
        if low >= high || !(floats.high - floats.low).is_finite() {
            return Err(wrong_domain);
        }
        // Far too small a step is not counted in digits. It needs no exact look.
        #[allow(clippy::cast_precision_loss)] // a power of two
        let most = 2.0 * Self::MAX_WIDTH as f64;
        if step <= Decimal::ZERO || floats.step == 0.0 || (floats.high - floats.low) / floats.step > most {
            return Err(wrong_step);
        }
        // One power of ten less than all of them have, so that half a step is a whole number.
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

    /// The number of steps from `low` to the grid point nearest to a number of units that is not below it; to the upper
    /// one of two.
    #[inline]
    fn rounded(&self, units: i128) -> u128 {
        divided((units - self.low + self.step / 2).unsigned_abs(), self.step.unsigned_abs()).0
    }

    /// The number of steps from `low` to the grid point nearest to a number that is clamped to the domain.
    ///
    /// Every boundary between two grid points is a whole number of units. So rounding down to units changes nothing.
    #[inline]
    fn steps_to(&self, number: &Spelled) -> u64 {
        let units = number.floor(self.unit).clamp(self.low, self.high);
        u64::try_from(self.rounded(units)).unwrap_or(self.width).min(self.width)
    }

    /// The lower end of the domain, as the float nearest to it.
    pub const fn low(&self) -> f64 {
        self.floats.low
    }

    /// The upper end of the domain, as the float nearest to it.
    pub const fn high(&self) -> f64 {
        self.floats.high
    }

    /// The distance of two grid points, as the float nearest to it.
    pub const fn step(&self) -> f64 {
        self.floats.step
    }

    /// Low, high and step.
    pub fn decimals(&self) -> [Decimal; 3] {
        // They were decimals of this range before.
        [self.low, self.high, self.step].map(|units| Decimal::of(units, self.unit.into()).unwrap_or_default())
    }

    /// The number of steps across the domain: how far, in grid units, a reading can move. Every sealed reading lies in
    /// `0..=width`.
    pub const fn width(&self) -> u64 {
        self.width
    }

    /// The whole domain in grid units, `0..=width`: the range to which a primitive that takes one clamps nothing.
    #[allow(clippy::cast_possible_wrap)] // at most 2^32
    pub const fn range(&self) -> RangeInclusive<i64> {
        0..=self.width as i64
    }

    /// That readings may be floats: a step is at least [`FLOAT_FACTOR`](Self::FLOAT_FACTOR) times the spacing of floats
    /// at the end of the domain that is farther from zero. Where it is less, floats are too coarse to tell grid points
    /// apart, and neighbouring readings would be sealed farther apart than
    /// [`sensitivity`](Self::sensitivity) says.
    ///
    /// # Errors
    /// [`GridError::Floats`], whatever the readings are.
    #[inline]
    pub fn check_floats(&self) -> Result<(), GridError> {
        let (end, spacing, step) = (self.floats.end(), self.floats.spacing(), self.floats.step);
        if self.floats.can_be_read { Ok(()) } else { Err(GridError::Floats { end, spacing, step }) }
    }

    /// The number of steps from [`low`](Self::low) to the grid point nearest to a *public* value, such as a threshold
    /// or the end of a range: `0..=width`. The float stands for the shortest [decimal](Decimal) that reads back as it,
    /// and that is rounded exactly.
    ///
    /// # Errors
    /// As [`check_floats`](Self::check_floats); [`GridError::Reading`] where the value is NaN, infinite or outside the
    /// domain.
    #[inline]
    pub fn steps(&self, value: f64) -> Result<u64, GridError> {
        self.check_floats()?;
        let Floats { low, high, step, .. } = self.floats;
        if !(low..=high).contains(&value) {
            return Err(GridError::Reading { low, high });
        }
        let quotient = (value - low) / step;
        // Off by less than that: only near the middle between two grid points can it be the wrong side of it.
        if ((quotient - quotient.floor()) - 0.5).abs() < FLOAT_SLACK {
            return Decimal::try_from(value)
                .map(|value| self.steps_to(&value.spelled()))
                .map_err(|_| GridError::Reading { low, high });
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in 0..=width, but for rounding
        Ok((quotient.round() as u64).min(self.width))
    }

    /// The number of steps to the grid point nearest to a *public* decimal, rounded as [`seal_text`](Self::seal_text)
    /// rounds.
    ///
    /// # Errors
    /// [`GridError::Reading`] where the value is outside the domain.
    pub fn steps_of(&self, value: Decimal) -> Result<u64, GridError> {
        let spelled = value.spelled();
        // Below the lower end if rounded down to units, and above the upper end if rounded up.
        let (floor, ceiling) = (spelled.floor(self.unit), ceiling(value, self.unit));
        if floor < self.low || ceiling > self.high {
            return Err(GridError::Reading { low: self.floats.low, high: self.floats.high });
        }
        Ok(self.steps_to(&spelled))
    }

    /// How far, in grid units, a sealed reading can move when the reading itself moves by at most `distance`:
    /// `ceil(distance / step) + 1`, and no more than the [`width`](Self::width).
    ///
    /// The one more is for readings that were rounded to floats by the caller
    /// ([proof](crate::proofs::noisy_scalar)). Others move by one less: [`exact_sensitivity`](Self::exact_sensitivity).
    ///
    /// # Errors
    /// [`GridError::Distance`] where the distance is negative.
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

    /// How far, in grid units, a sealed reading can move when the decimal that was sealed moves by at most `distance`:
    /// `ceil(distance / step)`, and no more than the [`width`](Self::width) ([proof](crate::proofs::noisy_scalar)).
    ///
    /// # Errors
    /// [`GridError::Distance`] where the distance is negative.
    pub fn exact_sensitivity(&self, distance: Decimal) -> Result<u64, GridError> {
        if distance.is_negative() {
            return Err(GridError::Distance { given: distance });
        }
        let units = ceiling(distance, self.unit).unsigned_abs();
        Ok(u64::try_from(units.div_ceil(self.step.unsigned_abs())).unwrap_or(u64::MAX).min(self.width))
    }

    /// Seals a reading that is decimal text, as [`Decimal`] reads it but of any length: as the number of steps from
    /// [`low`](Self::low) to the grid point nearest to it, the upper one of two.
    ///
    /// It always succeeds, so that nothing that is published, or when, tells which of these it was: a number outside
    /// the domain is taken for the nearest end of it, and a text that is not a number for the grid point `missing`
    /// (public, and no more than the [`width`](Self::width)).
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

    /// Seals the reading of a timestamp for an account, as the number of steps from [`low`](Self::low) to the grid
    /// point nearest to it: `0..=width`.
    ///
    /// An error of the reading depends on the reading. A caller who skips the timestamp because of it tells that the
    /// reading was out of range, at no cost to the budget; [`seal_clamped`](Self::seal_clamped) avoids that.
    ///
    /// # Errors
    /// As [`check_floats`](Self::check_floats), for every reading or none; [`GridError::Reading`] where the reading is
    /// NaN, infinite or outside the domain.
    #[inline]
    pub fn seal(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        #[allow(clippy::cast_possible_wrap)] // at most 2^32
        Ok(Sealed::at(account, timestamp, self.steps(reading)? as i64))
    }

    /// As [`seal`](Self::seal), with a reading outside the domain, infinite ones included, moved to the nearest end of
    /// it: so that what is published, and when, does not depend on whether a reading was in the domain.
    ///
    /// # Errors
    /// As [`check_floats`](Self::check_floats); [`GridError::Reading`] where the reading is NaN, which has no nearest
    /// end. Decide on a public stand-in for a missing reading.
    pub fn seal_clamped(&self, account: Account, timestamp: u64, reading: f64) -> Result<Sealed<i64>, GridError> {
        self.seal(account, timestamp, reading.clamp(self.floats.low, self.floats.high))
    }

    /// The number that so many steps from [`low`](Self::low) stand for; after noise that may well lie outside the
    /// domain.
    #[allow(clippy::cast_precision_loss)] // published already
    pub fn value_of(&self, steps: i64) -> f64 {
        self.floats.low + steps as f64 * self.floats.step
    }

    /// The same, moved to the nearest end of the domain where it lies outside: post-processing, which costs nothing
    /// and makes the error smaller, but the result is no longer unbiased.
    pub fn value_within(&self, steps: i64) -> f64 {
        self.value_of(steps).clamp(self.floats.low, self.floats.high)
    }
}

/// How far a quotient of floats can be off, with a factor of two to spare.
const FLOAT_SLACK: f64 = 1.0 / 128.0;

/// Low, high and step are below this number of units, so that no sum of them leaves 128 bits.
const LIMIT: u128 = 10_u128.pow(Grid::MAX_DIGITS);

/// A number in units of `10^unit`, rounded up.
fn ceiling(number: Decimal, unit: i16) -> i128 {
    number.negated().spelled().floor(unit).checked_neg().unwrap_or(i128::MAX)
}
