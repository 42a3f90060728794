//! `laplace`: noise on each reading. `clamped`: the same, clamped to the domain.
//!
//! Source: Dwork, McSherry, Nissim and Smith: Calibrating Noise to Sensitivity in Private Data Analysis, TCC 2006,
//! doi:10.1007/11681878_14, the Laplace mechanism.

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
    /// The Laplace mechanism of Dwork et al. 2006, [in full above](self).
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
