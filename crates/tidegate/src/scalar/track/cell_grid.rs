//! [`CellGrid`]: the points of a domain, grouped into the cells of a grid filter.

use std::ops::RangeInclusive;

use crate::estimate::grid_filter::MAX_CELLS;

/// Smallest range of a query, relative to the domain.
const MIN_RANGE: f64 = 0.02;

/// Points of the domain, in cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellGrid {
    pub(super) low: i64,
    pub(super) points: f64,
    pub(super) cells: usize,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // public, and at most 2^32 points
impl CellGrid {
    pub(super) fn new(range: &RangeInclusive<i64>) -> Self {
        let points = range.end().abs_diff(*range.start()).saturating_add(1);
        let cells = usize::try_from(points).map_or(MAX_CELLS, |points| points.min(MAX_CELLS));
        Self { low: *range.start(), points: points as f64, cells }
    }

    /// Points per cell; not always a whole number.
    pub(super) fn points_per_cell(&self) -> f64 {
        self.points / self.cells as f64
    }

    /// First point of the cell that starts nearest to a place, but never of the first cell.
    pub(super) fn first_point(&self, place: f64) -> i64 {
        let cell = place.round().clamp(1.0, self.cells as f64 - 1.0);
        self.low + (cell * self.points_per_cell()).ceil() as i64
    }

    /// Points between two places: at least two, and at least about the smallest range.
    pub(super) fn between(&self, low: f64, high: f64) -> RangeInclusive<i64> {
        let middle = f64::midpoint(low, high);
        let half = ((high - low) / 2.0).max(MIN_RANGE / 2.0 * self.cells as f64);
        let point = |place: f64| self.low + self.steps(place).round() as i64;
        let (low, high) = (point(middle - half), point(middle + half));
        let end = self.low + (self.points - 1.0) as i64;
        if low < high { low..=high } else { low.min(end - 1)..=low.min(end - 1) + 1 }
    }

    /// Position of a point, in cells.
    pub(super) fn place(&self, point: f64) -> f64 {
        (point - self.low as f64 + 0.5) / self.points_per_cell()
    }

    /// Points above the lowest, for a position in cells.
    pub(super) fn steps(&self, place: f64) -> f64 {
        (place * self.points_per_cell() - 0.5).clamp(0.0, self.points - 1.0)
    }
}
