//! `comporder`: noise on each reading, corrected by noisy comparisons with earlier readings.
//!
//! Source: Li, Qin, Ren, Gong, Feng, Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS
//! 2025, program doi:10.5281/zenodo.13643225, Algorithms 3 and 4.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use tidegate_kernel::Randomness;
use tidegate_kernel::primitives::Comparisons;

use super::points::Points;
use super::settings::{ScalarSettings, Shares};
use super::{Arrival, Frame, ScalarError, split};
use crate::release::Release;

#[derive(Debug)]
pub(super) struct Comporder {
    points: Points,
    /// `None` without a delay, which leaves no window for comparisons.
    pub(super) window: Option<Comparisons>,
    /// Releases of the readings of the window, except the newest.
    pub(super) released: VecDeque<f64>,
}

impl Comporder {
    /// Algorithms 3 and 4 of Li et al. 2025, [in full above](self).
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        let points = Points::new(settings, shares, range)?;
        // As many earlier readings as later ones.
        let window = match (shares.grouping, NonZeroU64::new(2 * u64::from(settings.delay))) {
            (Some(grouping), Some(times)) => Some(Comparisons::new(grouping, times)?),
            _ => None,
        };
        Ok(Self { points, window, released: VecDeque::new() })
    }

    /// Clamps to another range from now on; comparisons are unaffected.
    pub(super) fn set_points(&mut self, points: Points) {
        self.points = points;
    }

    #[allow(clippy::cast_precision_loss)] // published already
    pub(super) fn push(
        &mut self,
        arrival: Arrival<'_>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        let (timestamp, output) = (arrival.reading.timestamp(), frame.output);
        let Some(window) = &mut self.window else {
            return self.points.release(arrival, output, random);
        };
        let Arrival { permit, reading, sampled } = arrival;
        let (for_order, for_point) = split(permit, frame.shares.grouping)?;
        window.forget_before(timestamp.saturating_sub(u64::from(frame.settings.delay)));
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
        let (noisy, variance) = self.points.publish(Arrival { permit: for_point, reading, sampled }, random)?;
        let noisy = output.value_of(noisy as f64);
        // Contradictory bounds are ignored.
        let corrected =
            if least <= most && !(least..=most).contains(&noisy) { f64::midpoint(least, most) } else { noisy };
        self.released.push_back(corrected);
        Ok(output.of_value(timestamp, corrected, variance * output.step() * output.step()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {
    use tidegate_kernel::{Grid, Ledger, SeededRandom, Window};

    use super::*;
    use crate::scalar::ScalarKind;
    use crate::scalar::output::Output;

    /// A reading is compared with each of the `w` before and the `w` after it: `2w`, the divisor of its permit.
    #[test]
    fn a_reading_takes_part_in_exactly_as_many_comparisons_as_the_proof_says() {
        for delay in [1, 4, 9] {
            let grid = Grid::new(0.0, 100.0, 1.0).unwrap();
            let settings = ScalarSettings::new("1".parse().unwrap(), grid, delay);
            let shares = settings.shares(ScalarKind::Comporder).unwrap();
            let output = Output::new(&settings, false);
            let frame = Frame { settings: &settings, shares: &shares, output: &output };
            let mut comporder = Comporder::new(&settings, &shares, grid.range()).unwrap();
            let mut ledger = Ledger::new(settings.epsilon, Window::EVENT);
            let mut random = SeededRandom::new(1);
            let w = u64::from(delay);
            for timestamp in 0..6 * w {
                let reading = grid.seal(ledger.account(), timestamp, (timestamp * 31 % 101) as f64).unwrap();
                let permit = ledger.spend(timestamp, settings.epsilon).unwrap();
                comporder.push(Arrival { permit, reading: &reading, sampled: false }, frame, &mut random).unwrap();
                let window = comporder.window.as_ref().unwrap();
                for (member, left) in window.members() {
                    let expected = member.min(w) + (timestamp - member);
                    assert_eq!(2 * w - left, expected, "{member} at {timestamp}");
                }
                let oldest = window.members().next().unwrap();
                assert!(timestamp < 2 * w || oldest == (timestamp - w, 0), "all are used up when it leaves the window");
                let each = window.each().units() * 2 * w;
                assert!(each <= shares.grouping.unwrap().units());
            }
        }
    }
}
