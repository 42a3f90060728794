//! `pegasus_delay`: as `pegasus`, but a value waits for later members of its group, up to the delay.
//!
//! Source: Li, Qin, Ren, Gong, Feng, Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS
//! 2025, program doi:10.5281/zenodo.13643225, section VII-A (PeGaSus_Delay).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use tidegate_kernel::Randomness;
use tidegate_kernel::primitives::Placed;

use super::output::Output;
use super::pegasus::{LONGEST_GROUP, OpenGroup};
use super::settings::{ScalarSettings, Shares};
use super::{Arrival, Frame, ScalarError};
use crate::release::Release;

#[derive(Debug)]
pub(super) struct PegasusDelay {
    pub(super) group: OpenGroup,
    /// Timestamps of the open group that wait for release.
    pub(super) waiting: VecDeque<u64>,
    longest: usize,
}

impl PegasusDelay {
    /// Section VII-A (PeGaSus_Delay) of Li et al. 2025, [in full above](self).
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        let group = OpenGroup::new(settings, shares, range)?;
        Ok(Self { group, waiting: VecDeque::new(), longest: LONGEST_GROUP.max(settings.batch()) })
    }

    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn push(
        &mut self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let (timestamp, output) = (arrival.reading.timestamp(), frame.output);
        let (placed, point, variance) = self.group.offer(arrival, frame, random)?;
        if placed == Placed::Alone {
            self.release_all(output, releases);
            releases.push(output.release(timestamp, point as f64, variance));
            return Ok(());
        }
        self.waiting.push_back(timestamp);
        if self.group.groups.members() >= self.longest {
            self.close(output, releases);
        }
        let (average, variance) = self.group.smoothing.average();
        let due = |waiting: &mut u64| timestamp - *waiting >= u64::from(frame.settings.delay);
        while let Some(waiting) = self.waiting.pop_front_if(due) {
            releases.push(output.release(waiting, average, variance));
        }
        Ok(())
    }

    /// Closes the open group and releases its members.
    pub(super) fn close(&mut self, output: &Output, releases: &mut Vec<Release>) {
        self.release_all(output, releases);
        self.group.groups.close();
    }

    fn release_all(&mut self, output: &Output, releases: &mut Vec<Release>) {
        let (average, variance) = self.group.smoothing.average();
        releases.extend(self.waiting.drain(..).map(|waiting| output.release(waiting, average, variance)));
    }
}
