//! `comporder`: noise on each reading, corrected by noisy comparisons with the readings before it.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use tidegate_kernel::primitives::Comparisons;
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::output::Output;
use super::points::Points;
use super::settings::{Settings, Shares};
use super::{EventError, split};
use crate::release::Release;

#[derive(Debug)]
pub(super) struct Comporder {
    points: Points,
    /// `None` where there is no delay, and so no window to compare within.
    pub(super) window: Option<Comparisons>,
    /// What was released for the readings of the window, but the newest.
    pub(super) released: VecDeque<f64>,
}

impl Comporder {
    pub(super) fn new(settings: &Settings, shares: &Shares, range: RangeInclusive<i64>) -> Result<Self, EventError> {
        let points = Points::new(settings, shares, range)?;
        // As many as there are earlier ones, and as many later ones.
        let window = match (shares.grouping, NonZeroU64::new(2 * u64::from(settings.delay))) {
            (Some(grouping), Some(times)) => Some(Comparisons::new(grouping, times)?),
            _ => None,
        };
        Ok(Self { points, window, released: VecDeque::new() })
    }

    /// Clamps to another range from now on. Comparisons need none.
    pub(super) fn set_points(&mut self, points: Points) {
        self.points = points;
    }

    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn push(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        sampled: bool,
        settings: &Settings,
        shares: &Shares,
        output: &Output,
        random: &mut impl Randomness,
    ) -> Result<Release, EventError> {
        let timestamp = reading.timestamp();
        let Some(window) = &mut self.window else {
            let (noisy, variance) = self.points.publish(permit, reading, sampled, random)?;
            return Ok(output.release(timestamp, noisy as f64, variance));
        };
        let (for_order, for_point) = split(permit, shares.grouping)?;
        window.forget_before(timestamp.saturating_sub(u64::from(settings.delay)));
        let earlier = window.members().len();
        while self.released.len() > earlier {
            self.released.pop_front();
        }
        window.admit(for_order, reading)?;
        let (mut least, mut most) = output.domain();
        for (index, released) in self.released.iter().enumerate() {
            if window.compare(index, earlier, random)?.into_value() {
                least = least.max(*released);
            } else {
                most = most.min(*released);
            }
        }
        let (noisy, variance) = self.points.publish(for_point, reading, sampled, random)?;
        let noisy = output.value_of(noisy as f64);
        // Bounds that contradict each other say nothing.
        let corrected =
            if least <= most && !(least..=most).contains(&noisy) { f64::midpoint(least, most) } else { noisy };
        self.released.push_back(corrected);
        Ok(output.of_value(timestamp, corrected, variance * output.step() * output.step()))
    }
}
