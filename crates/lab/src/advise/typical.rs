//! Typical streams, for advice without a sample.
//!
//! | name | counts | numbers | symbols |
//! | --- | --- | --- | --- |
//! | `still` | shares that never change | a level with little noise | stays with probability 0.95 |
//! | `walk` | shares whose logarithms walk by 2 % a timestamp | a walk by 1 % of the domain | moves to a neighbour |
//! | `seasonal` | shares with a period of 96 timestamps | the same period, and a rising trend | goes around |
//! | `bursts` | a value jumps at times, and decays | a low level with bursts | one symbol, at times others |
//!
//! Initial shares follow Zipf's law, `1, 1/2, 1/3, ..`: few values are frequent and many rare.

use std::f64::consts::TAU;

use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Grid, SeededRandom};

use crate::draw::unit;
use crate::generate::{GenerateError, NumberProcess};
use crate::stream::{CountStream, NumberStream, Space, SymbolStream, as_float};

/// How a stream moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// It does not.
    Still,
    /// At random, a little at a time.
    Walk,
    /// In a rhythm.
    Seasonal,
    /// All at once, and back.
    Bursts,
}

/// The length of a season, in timestamps: a day in quarters of an hour.
const PERIOD: f64 = 96.0;

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 4] = [Self::Still, Self::Walk, Self::Seasonal, Self::Bursts];

    /// The name that tables and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Still => "still",
            Self::Walk => "walk",
            Self::Seasonal => "seasonal",
            Self::Bursts => "bursts",
        }
    }

    /// A stream of counts among so many users at every timestamp.
    pub fn counts(
        self,
        domain: usize,
        population: u64,
        length: usize,
        random: &mut SeededRandom,
    ) -> Result<CountStream, GenerateError> {
        let base: Vec<f64> = (1..=domain).map(|rank| -as_float(rank as u64).ln()).collect();
        // What is added to the logarithm of each share.
        let mut extra = vec![0.0; domain];
        let mut rows = Vec::with_capacity(length);
        for timestamp in 0..length {
            let angle = TAU * as_float(timestamp as u64) / PERIOD;
            match self {
                Self::Still => {}
                Self::Walk => extra.iter_mut().for_each(|extra| *extra += 0.02 * standard_normal(random)),
                Self::Seasonal => extra.iter_mut().enumerate().for_each(|(value, extra)| {
                    *extra = 0.5 * (angle + TAU * as_float(value as u64) / as_float(domain as u64)).sin();
                }),
                Self::Bursts => {
                    extra.iter_mut().for_each(|extra| *extra *= 0.8);
                    if unit(random) < 0.02 {
                        let value = below(domain, random);
                        extra[value] += 0.5 + 2.0 * unit(random);
                    }
                }
            }
            rows.push(scaled(&base.iter().zip(&extra).map(|(base, extra)| (base + extra).exp()).collect::<Vec<_>>()));
        }
        let labels = (0..domain).map(|value| value.to_string()).collect();
        Ok(CountStream::new(self.name(), labels, rows)?.with_population(population)?)
    }

    /// A stream of numbers within a domain.
    pub fn numbers(self, grid: Grid, length: usize, random: &mut SeededRandom) -> Result<NumberStream, GenerateError> {
        let width = grid.high() - grid.low();
        let at = |share: f64| grid.low() + share * width;
        let process = match self {
            Self::Still => NumberProcess::Seasonal {
                level: at(0.4),
                slope: 0.0,
                amplitude: 0.0,
                period: PERIOD,
                deviation: 0.005 * width,
            },
            Self::Walk => NumberProcess::Walk { start: at(0.5), deviation: 0.01 * width },
            Self::Seasonal => NumberProcess::Seasonal {
                level: at(0.3),
                slope: 0.2 * width / as_float(length as u64),
                amplitude: 0.15 * width,
                period: PERIOD,
                deviation: 0.02 * width,
            },
            Self::Bursts => NumberProcess::Bursts {
                level: at(0.05),
                deviation: 0.01 * width,
                rate: 0.02,
                height: 0.9 * width,
                decay: 0.2,
            },
        };
        let stream = process.generate(grid, length, random)?;
        Ok(NumberStream::new(self.name(), grid, stream.values().to_vec())?)
    }

    /// A sequence of symbols on a line.
    pub fn symbols(self, domain: u32, length: usize, random: &mut SeededRandom) -> Result<SymbolStream, GenerateError> {
        let size = domain as usize;
        let mut symbol = 0;
        let mut sequence = Vec::with_capacity(length);
        for _ in 0..length {
            let chance = unit(random);
            symbol = match self {
                Self::Still if chance < 0.95 => symbol,
                Self::Still => below(size, random),
                Self::Walk if chance < 0.4 => symbol,
                Self::Walk if chance < 0.7 => (symbol + 1).min(size - 1),
                Self::Walk => symbol.saturating_sub(1),
                Self::Seasonal if chance < 0.9 => (symbol + 1) % size,
                Self::Seasonal => below(size, random),
                Self::Bursts if chance < 0.8 => 0,
                Self::Bursts => below(size, random),
            };
            sequence.push(u32::try_from(symbol).unwrap_or(u32::MAX));
        }
        Ok(SymbolStream::new(self.name(), Space::Line { symbols: domain }, vec![sequence])?)
    }
}

/// Shares as whole numbers, fine enough for any population to be divided by.
pub(crate) fn scaled(weights: &[f64]) -> Vec<u64> {
    const WHOLE: f64 = (1_u64 << 48) as f64;
    let total: f64 = weights.iter().sum();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shares of 2⁴⁸
    weights.iter().map(|weight| (weight / total * WHOLE).round() as u64).collect()
}

fn below(limit: usize, random: &mut SeededRandom) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    // a share of `limit`, which a float can tell apart
    let place = (unit(random) * limit as f64) as usize;
    place.min(limit.saturating_sub(1))
}
