//! The privacy unit of readings, and the public range to which they are clamped.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::PrimitiveError;
use crate::sealed::Sealed;

/// The neighbouring relation of readings at a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protects {
    /// The whole reading: neighbours are any two readings. After clamping they differ by at most the width of the
    /// range, so nothing depends on the caller's claims.
    Reading,
    /// One contributor to the reading, as in a count of people: neighbours differ by at most this many grid units. The
    /// kernel cannot check the caller's claim that no contributor changes more.
    /// [`Grid::sensitivity`](crate::Grid::sensitivity) converts a distance into grid units. Clamping never increases a
    /// difference.
    Contribution(NonZeroU64),
}

impl Protects {
    /// Sensitivity of a reading clamped to `range`, in grid units: the width, or a contributor's change if less.
    ///
    /// # Errors
    /// [`PrimitiveError::Range`] for a range of fewer than two points.
    pub fn sensitivity(self, range: &RangeInclusive<i64>) -> Result<u64, PrimitiveError> {
        Ok(self.within(&Clamp::new(range)?))
    }

    pub(super) fn within(self, clamp: &Clamp) -> u64 {
        match self {
            Self::Reading => clamp.width(),
            Self::Contribution(most) => most.get().min(clamp.width()),
        }
    }
}

/// A public range of at least two grid points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clamp {
    low: i64,
    high: i64,
}

impl Clamp {
    pub(super) fn new(range: &RangeInclusive<i64>) -> Result<Self, PrimitiveError> {
        let (low, high) = (*range.start(), *range.end());
        if low < high { Ok(Self { low, high }) } else { Err(PrimitiveError::Range { low, high }) }
    }

    pub(super) const fn low(self) -> i64 {
        self.low
    }

    pub(super) const fn high(self) -> i64 {
        self.high
    }

    pub(super) const fn width(self) -> u64 {
        self.high.abs_diff(self.low)
    }

    /// Clamps a reading to the range.
    #[inline]
    pub(super) fn apply(self, reading: &Sealed<i64>) -> i64 {
        (*reading.content()).clamp(self.low, self.high)
    }

    /// Offset of the clamped reading from the lower end: `0..=width`.
    #[inline]
    pub(super) fn above_low(self, reading: &Sealed<i64>) -> u64 {
        self.apply(reading).abs_diff(self.low)
    }
}
