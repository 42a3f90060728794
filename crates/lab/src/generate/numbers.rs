//! [`NumberProcess`]: streams of numbers.

use std::f64::consts::TAU;

use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Grid, SeededRandom};

use super::{GenerateError, MAX_LENGTH, on_grid, reflect};
use crate::draw::unit;
use crate::stream::{NumberStream, as_float};

/// A random process of numbers at the timestamps `t = 1, 2, ..`, reflected at the ends of the domain and rounded to its
/// grid.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NumberProcess {
    /// Seasons around a line that rises: `level + slope · t + amplitude · sin(2π t / period) + Normal(0, deviation²)`.
    Seasonal {
        /// Start of the line.
        level: f64,
        /// Rise in a timestamp.
        slope: f64,
        /// Amplitude of the seasons.
        amplitude: f64,
        /// The length of a year, in timestamps.
        period: f64,
        /// The standard deviation of the noise.
        deviation: f64,
    },
    /// A low level, `level + Normal(0, deviation²)`, with bursts on top: at each timestamp one begins with a
    /// probability of `rate`, as high as a number that is uniform in `0..height`, and each of them loses the share
    /// `decay` at every timestamp.
    Bursts {
        /// The low level.
        level: f64,
        /// The standard deviation of the noise.
        deviation: f64,
        /// Probability that a burst starts.
        rate: f64,
        /// Greatest height of a burst.
        height: f64,
        /// Share that a burst loses in a timestamp.
        decay: f64,
    },
    /// A random walk: steps of `Normal(0, deviation²)` from `start`.
    Walk {
        /// Start of the walk.
        start: f64,
        /// The standard deviation of a step.
        deviation: f64,
    },
}

impl NumberProcess {
    /// Weeks, of an amount that doubles in some sixteen years.
    pub const SEASONAL: Self =
        Self::Seasonal { level: 300.0, slope: 0.36, amplitude: 150.0, period: 52.0, deviation: 20.0 };
    /// A burst every fifty timestamps, of which half is gone after three.
    pub const BURSTS: Self = Self::Bursts { level: 50.0, deviation: 10.0, rate: 0.02, height: 900.0, decay: 0.2 };
    /// A walk that crosses the domain now and then.
    pub const WALK: Self = Self::Walk { start: 500.0, deviation: 10.0 };

    /// The name of the data set.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Seasonal { .. } => "seasonal",
            Self::Bursts { .. } => "bursts",
            Self::Walk { .. } => "walk",
        }
    }

    /// The domain that the constants are made for: the whole numbers from 0 to 1000.
    pub fn domain() -> Result<Grid, GenerateError> {
        Ok(Grid::new(0.0, 1_000.0, 1.0)?)
    }

    /// A stream of so many timestamps within a domain.
    ///
    /// ```
    /// use tidegate_kernel::SeededRandom;
    /// use tidegate_lab::generate::NumberProcess;
    ///
    /// let stream = NumberProcess::WALK.generate(NumberProcess::domain()?, 800, &mut SeededRandom::new(1))?;
    /// assert_eq!(stream.values().len(), 800);
    /// assert!(stream.values().iter().all(|value| value.fract() == 0.0));
    /// # Ok::<(), tidegate_lab::generate::GenerateError>(())
    /// ```
    pub fn generate(
        &self,
        grid: Grid,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<NumberStream, GenerateError> {
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(GenerateError::Length { given: length });
        }
        self.check()?;
        let width = grid.high() - grid.low();
        let within = |number: f64| grid.low() + width * reflect((number - grid.low()) / width);
        // The walk's position, or the height of all bursts together.
        let mut position = if let Self::Walk { start, .. } = self { *start } else { 0.0 };
        let mut values = Vec::with_capacity(length);
        for timestamp in 1..=length {
            let time = as_float(timestamp as u64);
            let number = match *self {
                Self::Seasonal { level, slope, amplitude, period, deviation } => {
                    let season = amplitude * (TAU * time / period).sin();
                    level + slope * time + season + deviation * standard_normal(random)
                }
                Self::Bursts { level, deviation, rate, height, decay } => {
                    position *= 1.0 - decay;
                    if unit(random) < rate {
                        position += height * unit(random);
                    }
                    level + position + deviation * standard_normal(random)
                }
                Self::Walk { deviation, .. } => {
                    position = within(position + deviation * standard_normal(random));
                    position
                }
            };
            values.push(on_grid(&grid, within(number)));
        }
        Ok(NumberStream::new(self.name(), grid, values)?)
    }

    fn check(&self) -> Result<(), GenerateError> {
        let (numbers, in_order) = match *self {
            Self::Seasonal { level, slope, amplitude, period, deviation } => {
                ([level, slope, amplitude, period, deviation], period > 0.0 && deviation >= 0.0)
            }
            Self::Bursts { level, deviation, rate, height, decay } => {
                let share = |number: f64| (0.0..=1.0).contains(&number);
                ([level, deviation, rate, height, decay], share(rate) && share(decay) && deviation >= 0.0)
            }
            Self::Walk { start, deviation } => ([start, deviation, 0.0, 0.0, 0.0], deviation >= 0.0),
        };
        if in_order && numbers.iter().all(|number| number.is_finite()) {
            return Ok(());
        }
        Err(GenerateError::Numbers { name: self.name() })
    }
}
