//! `pegasus`: noise on each reading, averaged with earlier noisy readings of its group, without delay.
//!
//! Source: Chen, Machanavajjhala, Hay and Miklau: PeGaSus: Data-Adaptive Differentially Private Stream Processing,
//! CCS 2017, doi:10.1145/3133956.3134102, the perturber, the grouper and the smoother.

use std::ops::RangeInclusive;

use tidegate_kernel::Randomness;
use tidegate_kernel::primitives::{ContinuousGroups, Placed};

use super::points::Points;
use super::settings::{ScalarSettings, Shares};
use super::smoothing::Smoothing;
use super::{Arrival, Frame, ScalarError, contin, split};
use crate::release::Release;

/// Maximum size of a group, which limits memory.
pub(super) const LONGEST_GROUP: usize = 1_000;

#[derive(Debug)]
pub(super) struct Pegasus {
    pub(super) group: OpenGroup,
}

/// The open group: its readings, and the average of its noisy points.
#[derive(Debug)]
pub(super) struct OpenGroup {
    pub(super) groups: ContinuousGroups,
    pub(super) points: Points,
    pub(super) smoothing: Smoothing,
}

impl OpenGroup {
    /// The perturber, the grouper and the smoother of Chen et al. 2017, [in full above](self).
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        let points = Points::new(settings, shares, range.clone())?;
        let threshold = settings.threshold.map_or(5.0 * points.scale(), |given| given / settings.grid.step());
        let grouping = shares.grouping.unwrap_or(shares.publication);
        let groups = contin::groups(range, settings.protects, grouping, threshold)?;
        Ok(Self { groups, points, smoothing: Smoothing::new(settings.smoother) })
    }

    /// Adds noise to a reading and groups it. A point that stays alone is returned with its variance.
    pub(super) fn offer(
        &mut self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
    ) -> Result<(Placed, i64, f64), ScalarError> {
        let Arrival { permit, reading, sampled } = arrival;
        let (for_group, for_point) = split(permit, frame.shares.grouping)?;
        let placed = self.groups.offer(for_group, reading, random)?.into_value();
        let (point, variance) = self.points.publish(Arrival { permit: for_point, reading, sampled }, random)?;
        match placed {
            Placed::Opens => {
                self.smoothing.clear();
                self.smoothing.add(point, variance);
            }
            Placed::Joins => self.smoothing.add(point, variance),
            Placed::Alone => {}
        }
        Ok((placed, point, variance))
    }
}

impl Pegasus {
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        Ok(Self { group: OpenGroup::new(settings, shares, range)? })
    }

    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn push(
        &mut self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        let timestamp = arrival.reading.timestamp();
        let (placed, point, variance) = self.group.offer(arrival, frame, random)?;
        let (average, variance) = match placed {
            Placed::Alone => (point as f64, variance),
            Placed::Opens | Placed::Joins => self.group.smoothing.average(),
        };
        if self.group.groups.members() >= LONGEST_GROUP {
            self.group.groups.close();
        }
        Ok(frame.output.release(timestamp, average, variance))
    }
}
