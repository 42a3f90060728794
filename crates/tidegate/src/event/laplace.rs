//! `laplace`: noise on each reading. `clamped`: the same, moved into the domain.

use std::ops::RangeInclusive;

use tidegate_kernel::{Permit, Randomness, Sealed};

use super::EventError;
use super::output::Output;
use super::points::Points;
use super::settings::{Settings, Shares};
use crate::release::Release;

#[derive(Debug)]
pub(super) struct Laplace {
    points: Points,
}

impl Laplace {
    pub(super) fn new(settings: &Settings, shares: &Shares, range: RangeInclusive<i64>) -> Result<Self, EventError> {
        Ok(Self { points: Points::new(settings, shares, range)? })
    }

    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn push(
        &self,
        permit: Permit,
        reading: &Sealed<i64>,
        sampled: bool,
        output: &Output,
        random: &mut impl Randomness,
    ) -> Result<Release, EventError> {
        let (noisy, variance) = self.points.publish(permit, reading, sampled, random)?;
        Ok(output.release(reading.timestamp(), noisy as f64, variance))
    }
}
