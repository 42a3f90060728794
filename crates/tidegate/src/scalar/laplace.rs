//! `laplace`: noise on each reading. `clamped`: the same, clamped to the domain.

use std::ops::RangeInclusive;

use tidegate_kernel::Randomness;

use super::points::Points;
use super::settings::{ScalarSettings, Shares};
use super::{Arrival, Frame, ScalarError};
use crate::release::Release;

#[derive(Debug)]
pub(super) struct Laplace {
    points: Points,
}

impl Laplace {
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        Ok(Self { points: Points::new(settings, shares, range)? })
    }

    pub(super) fn push(
        &self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        self.points.release(arrival, frame.output, random)
    }
}
