//! Sums up a grid: ratios and coverage, of all cells and by stream.

use serde::Serialize;

use super::grid::{Grid, MEAN_LIMIT};
use super::measure::Measured;
use crate::metrics::mean;

/// Ratios of some cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// The mean.
    pub mean: f64,
    /// The greatest.
    pub greatest: f64,
}

/// Coverage of some cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// The mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
}

/// The summary of a grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of cells.
    pub cells: usize,
    /// Number of cells with a ratio above their limit.
    pub above_limit: usize,
    /// Ratios of all cells.
    pub ratios: Ratios,
    /// Coverage of all cells.
    pub coverage: Option<Coverage>,
    /// Whether no cell is above its limit, and the mean ratio is at most 1.1.
    pub holds: bool,
}

impl Summary {
    /// Sums up a grid; `None` if it has no cells.
    pub fn of(grid: &Grid) -> Option<Self> {
        let ratios = Ratios::of(grid.cells.iter())?;
        let above_limit = grid.cells.iter().filter(|cell| cell.is_above_limit()).count();
        Some(Self {
            cells: grid.cells.len(),
            above_limit,
            ratios,
            coverage: Coverage::of(grid.cells.iter()),
            holds: above_limit == 0 && ratios.mean <= MEAN_LIMIT,
        })
    }
}

impl Ratios {
    /// Sums up the ratios of cells; `None` if there are none.
    pub fn of<'a>(cells: impl Iterator<Item = &'a Measured>) -> Option<Self> {
        let ratios: Vec<f64> = cells.map(|cell| cell.ratio).collect();
        let greatest = ratios.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { mean: mean(ratios.into_iter()), greatest })
    }
}

impl Coverage {
    /// Sums up the coverage of cells; `None` if none has one.
    pub fn of<'a>(cells: impl Iterator<Item = &'a Measured>) -> Option<Self> {
        let coverage: Vec<f64> = cells.filter_map(|cell| cell.coverage).collect();
        let least = coverage.iter().copied().min_by(f64::total_cmp)?;
        Some(Self { mean: mean(coverage.into_iter()), least })
    }
}

impl Grid {
    /// The streams, in the order of the cells.
    pub fn streams(&self) -> Vec<&'static str> {
        let mut streams: Vec<&'static str> = self.cells.iter().map(|cell| cell.cell.stream).collect();
        streams.dedup();
        streams
    }

    /// The sizes, from the least.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.cells.iter().map(|cell| cell.cell.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The cells of a stream.
    pub fn of_stream(&self, stream: &str) -> impl Iterator<Item = &Measured> {
        self.cells.iter().filter(move |cell| cell.cell.stream == stream)
    }

    /// The cells with the greatest ratios to their limits, the worst first.
    pub fn worst(&self, count: usize) -> Vec<&Measured> {
        let mut cells: Vec<&Measured> = self.cells.iter().collect();
        let key = |cell: &Measured| cell.ratio / cell.cell.limit;
        cells.sort_by(|a, b| key(b).total_cmp(&key(a)));
        cells.truncate(count);
        cells
    }
}
