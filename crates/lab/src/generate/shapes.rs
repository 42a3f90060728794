//! [`Shape`]: numbers within any domain that stand still, jump, swing or scatter.

use std::f64::consts::TAU;

use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Grid, SeededRandom};

use super::{ALTERNATION, GROWTH, GenerateError, MAX_LENGTH, incident, on_grid, reflect};
use crate::draw::unit;
use crate::stream::{NumberStream, as_float};

/// Numbers with simple shapes, scaled to a domain: 0 is its lower end, 1 its upper end. They are reflected at the ends
/// and rounded to the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// 0.3 at all timestamps.
    Constant,
    /// `0.5 + Normal(0, 0.1²)`, anew at each timestamp.
    White,
    /// A random walk from 0.5 by steps of `Normal(0, 0.01²)`.
    Walk,
    /// 0.2 and 0.8 in turn, for 50 timestamps each.
    Alternating,
    /// `0.05 + Normal(0, 0.01²)` with bursts on top: one begins with a probability of 0.02, as high as a number that is
    /// uniform in `0..0.9`, and each loses a fifth at every timestamp.
    Bursts,
    /// A day of 24 timestamps: `0.5 + 0.3 sin(2π t / 24) + Normal(0, 0.02²)`.
    Daily,
    /// One end of the domain or the other, by a fair coin at each timestamp.
    TwoEnds,
    /// 0.1, and with a probability of 0.03 0.9 for one timestamp.
    Spikes,
    /// 0.2, and 0.7 from the middle of the stream on.
    SingleJump,
    /// 0.1, and 0.8 for six timestamps in the middle of the stream.
    Incident,
    /// A line from 0.04 at the first timestamp to 1 at the last.
    Growth,
}

impl Shape {
    /// Returns the name of the data set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "numbers_constant",
            Self::White => "numbers_white",
            Self::Walk => "numbers_walk",
            Self::Alternating => "numbers_alternating",
            Self::Bursts => "numbers_bursts",
            Self::Daily => "numbers_daily",
            Self::TwoEnds => "numbers_two_ends",
            Self::Spikes => "numbers_spikes",
            Self::SingleJump => "numbers_single_jump",
            Self::Incident => "numbers_incident",
            Self::Growth => "numbers_growth",
        }
    }

    /// Generates a stream within a domain.
    ///
    /// ```
    /// use tidegate_kernel::{Grid, SeededRandom};
    /// use tidegate_lab::generate::Shape;
    ///
    /// let stream = Shape::Alternating.generate(Grid::new(0.0, 1e6, 1.0)?, 100, &mut SeededRandom::new(1))?;
    /// assert_eq!((stream.values()[49], stream.values()[50]), (200_000.0, 800_000.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn generate(self, grid: Grid, length: usize, random: &mut SeededRandom) -> Result<NumberStream, GenerateError> {
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(GenerateError::Length { given: length });
        }
        let width = grid.high() - grid.low();
        // The walk's position, or the height of all bursts together.
        let mut position = if self == Self::Walk { 0.5 } else { 0.0 };
        let number = |timestamp| on_grid(&grid, grid.low() + width * self.at(timestamp, length, &mut position, random));
        Ok(NumberStream::new(self.name(), grid, (0..length).map(number).collect())?)
    }

    fn at(self, timestamp: usize, length: usize, position: &mut f64, random: &mut SeededRandom) -> f64 {
        let number = match self {
            Self::Constant => 0.3,
            Self::White => 0.5 + 0.1 * standard_normal(random),
            Self::Walk => {
                *position = reflect(*position + 0.01 * standard_normal(random));
                *position
            }
            Self::Alternating if (timestamp / ALTERNATION) % 2 == 1 => 0.8,
            Self::Alternating => 0.2,
            Self::Bursts => {
                *position *= 0.8;
                if unit(random) < 0.02 {
                    *position += 0.9 * unit(random);
                }
                0.05 + *position + 0.01 * standard_normal(random)
            }
            Self::Daily => 0.5 + 0.3 * (TAU * as_float(timestamp as u64) / 24.0).sin() + 0.02 * standard_normal(random),
            Self::TwoEnds if unit(random) < 0.5 => 0.0,
            Self::TwoEnds => 1.0,
            Self::Spikes if unit(random) < 0.03 => 0.9,
            Self::Spikes => 0.1,
            Self::SingleJump if timestamp >= length / 2 => 0.7,
            Self::SingleJump => 0.2,
            Self::Incident if incident(length).contains(&timestamp) => 0.8,
            Self::Incident => 0.1,
            Self::Growth => {
                let last = as_float(length.saturating_sub(1).max(1) as u64);
                1.0 / GROWTH + (1.0 - 1.0 / GROWTH) * as_float(timestamp as u64) / last
            }
        };
        reflect(number)
    }
}
