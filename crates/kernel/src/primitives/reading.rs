//! What all primitives on readings share: the public range to which readings are clamped, and what is protected.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::PrimitiveError;
use crate::sealed::Sealed;

/// What about a reading must be hard to tell: how far two neighbours' readings of a timestamp can be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protects {
    /// The reading itself, whatever it is: neighbours are any two readings. Clamped, they differ by the width of the
    /// range at most, and nothing is left for the caller to vouch for.
    Reading,
    /// One contributor to the reading, as in a count of people: neighbours are two readings that differ by what one
    /// contributor can change, at most so many grid units. That no contributor can change more is the caller's claim
    /// about the data, which the kernel cannot check; [`Grid::sensitivity`](crate::Grid::sensitivity) turns a
    /// distance into grid units. Clamping never increases a difference.
    Contribution(NonZeroU64),
}

impl Protects {
    /// How far, in grid units, neighbours' readings can be apart once they are clamped to `range`: its width, or what
    /// a contributor can change if that is less.
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

    /// The reading, moved to the nearest end of the range where it lies outside.
    #[inline]
    pub(super) fn apply(self, reading: &Sealed<i64>) -> i64 {
        (*reading.content()).clamp(self.low, self.high)
    }

    /// How far the clamped reading lies above the lower end: `0..=width`.
    #[inline]
    pub(super) fn above_low(self, reading: &Sealed<i64>) -> u64 {
        self.apply(reading).abs_diff(self.low)
    }
}
