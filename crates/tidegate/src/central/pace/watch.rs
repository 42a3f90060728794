//! [`Watch`]: whether counts have jumped from what is believed of them, by the distances that are measured in between.

use serde::{Deserialize, Serialize};

use crate::estimate::bank::Estimates;

/// A CUSUM test on distances.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watch {
    /// What distances were off by beyond what is expected of them and of noise, summed up since the last publication,
    /// in scales of their noise.
    excess: f64,
    /// For how many timestamps that has been more than nothing without an alarm, or an alarm could not be paid for.
    waited: u64,
    /// By how much distances are more than expected where nothing has jumped, and from how many of them that is known.
    offset: f64,
    measured: u64,
    /// The square of how far counts have jumped on average, seen since the last publication.
    alarm: Option<f64>,
}

/// How many distances are remembered for what to expect of them.
const OFFSET_OF: u64 = 32;
const MEASURED_AT_FIRST: u64 = 4;

/// How many scales of its noise a distance may be off at each timestamp.
const ALLOWED: f64 = 1.0;

/// In how many windows noise alone raises an alarm once.
const WINDOWS_TO_FALSE_ALARM: f64 = 10.0;

/// By noise alone, distances exceed what is [allowed](ALLOWED) by `a` scales together once in `8.9 exp(0.715 a)`
/// timestamps: the exponent solves `exp(-x) = 1 - x²`, the factor was simulated.
const RUN_LENGTH: f64 = 8.9;
const RUN_EXPONENT: f64 = 0.715;
const LEAST_ALARMING: f64 = 2.0;

/// What part of all jumps is of a size, for each factor of e: they may be so small that they are seen late, whatever
/// those were that have been seen.
const OF_EACH_SIZE: f64 = 0.1;

/// By how many scales of their noise distances may be off together, beyond what is allowed of each, before there has
/// been a jump.
#[allow(clippy::cast_precision_loss)] // a number of timestamps
fn alarming(window: u64) -> f64 {
    ((WINDOWS_TO_FALSE_ALARM * window as f64 / RUN_LENGTH).ln() / RUN_EXPONENT).max(LEAST_ALARMING)
}

/// By how many scales of its noise a distance must be off for that to be seen at once.
pub(super) fn seen_at_once(window: u64) -> f64 {
    ALLOWED + alarming(window)
}

/// What a jump of unknown size costs before it is seen, where counts are told again after `waits` timestamps at the
/// latest: the sum of the squares of the distance, in scales of its noise.
pub(super) fn seen_late(window: u64, waits: f64) -> f64 {
    const STEPS: u32 = 90;
    let largest = seen_at_once(window);
    let width = largest / f64::from(STEPS);
    let cost = |step: u32| {
        let size = (f64::from(step) + 0.5) * width;
        let until_seen = if size > ALLOWED { (largest - size) / (size - ALLOWED) } else { f64::INFINITY };
        size * until_seen.min(waits) * width
    };
    OF_EACH_SIZE * (0..STEPS).map(cost).sum::<f64>()
}

/// The mean square of the distance of a jump of unknown size, which is at most so large.
pub(super) fn of_unknown_size(largest: f64) -> f64 {
    OF_EACH_SIZE * largest * largest / 2.0
}

#[allow(clippy::cast_precision_loss)] // a number of distances or of counts
impl Watch {
    /// Before any distance is measured.
    pub(super) const fn new() -> Self {
        Self { excess: 0.0, waited: 0, offset: 0.0, measured: MEASURED_AT_FIRST, alarm: None }
    }

    /// Whether a state that was loaded can be one.
    pub(super) fn fits(&self) -> bool {
        let Self { excess, waited: _, offset, measured, alarm } = self;
        let amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        amount(excess)
            && amount(offset)
            && (MEASURED_AT_FIRST..=OFFSET_OF).contains(measured)
            && alarm.as_ref().is_none_or(amount)
    }

    /// The square of how far counts have jumped on average, if that has been seen.
    pub(super) const fn alarm(&self) -> Option<f64> {
        self.alarm
    }

    /// Takes in a distance from what was expected, the noise of which has a scale, where counts that are told have a
    /// variance.
    pub(super) fn measure(&mut self, distance: f64, scale: f64, expected: &Estimates, told: f64, window: u64) {
        // What normal errors come to, and those of rounding. Where little is known, what is told would be better than
        // that.
        let error = |variance: &f64| (std::f64::consts::FRAC_2_PI * (variance.min(4.0 * told) + 1.0 / 12.0)).sqrt();
        let more = distance - expected.variances.iter().map(error).sum::<f64>();
        let off = (more - self.offset) / scale;
        let alarming = alarming(window);
        self.excess = (self.excess + off - ALLOWED).max(0.0);
        if self.excess <= 0.0 || off > ALLOWED + alarming {
            self.waited = 0;
        } else if self.excess <= alarming {
            self.wait();
        }
        if self.excess > alarming {
            let of_count = scale * off.max(1.0) / expected.means.len() as f64;
            self.alarm = Some(of_count * of_count);
        } else {
            self.measured = (self.measured + 1).min(OFFSET_OF);
            self.offset = (self.offset + scale * off.max(-alarming) / self.measured as f64).max(0.0);
        }
    }

    /// Another timestamp passes before a jump is known.
    pub(super) const fn wait(&mut self) {
        self.waited = self.waited.saturating_add(1);
    }

    /// Begins anew after counts have been told: for how many timestamps a jump was not known, if there is an alarm.
    pub(super) const fn told(&mut self) -> Option<u64> {
        let waited = std::mem::replace(&mut self.waited, 0);
        self.excess = 0.0;
        if self.alarm.take().is_some() { Some(waited) } else { None }
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss)]
mod tests {
    use tidegate_kernel::{Randomness, SeededRandom};

    use super::*;

    const SCALE: f64 = 10.0;

    /// What is expected of four counts, without any error.
    fn expected() -> Estimates {
        Estimates { means: vec![100.0; 4], variances: vec![0.0; 4] }
    }

    /// What a distance is expected to be by rounding alone.
    fn rounding() -> f64 {
        4.0 * (std::f64::consts::FRAC_2_PI / 12.0).sqrt()
    }

    fn laplace(random: &mut SeededRandom) -> f64 {
        let uniform = (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
        -SCALE * uniform.signum() * (1.0 - 2.0 * uniform.abs()).max(1e-12).ln()
    }

    /// Alarms of so many distances that are noise, or as far off as that.
    fn alarms(distances: u64, off: f64, window: u64) -> u64 {
        let (mut watch, mut random) = (Watch::new(), SeededRandom::new(1));
        let mut alarm = |_: &u64| {
            watch.offset = 0.0; // known
            watch.measure(rounding() + off + laplace(&mut random), SCALE, &expected(), 1.0, window);
            watch.told_if_alarmed()
        };
        (0..distances).filter(|distance| alarm(distance)).count() as u64
    }

    impl Watch {
        fn told_if_alarmed(&mut self) -> bool {
            self.alarm.is_some() && self.told().is_some()
        }
    }

    #[test]
    fn noise_alone_alarms_about_once_in_ten_windows() {
        for window in [10, 50, 200] {
            let windows = 4_000;
            // About 400 alarms, at times that are nearly independent: five standard deviations are a quarter of that,
            // and the formula may be off by some per cent. False alarms: below 1e-5.
            let alarms = alarms(windows * window, 0.0, window);
            assert!((290..=520).contains(&alarms), "{alarms} in {windows} windows of {window}");
        }
    }

    #[test]
    fn a_large_jump_is_known_at_once_and_a_small_one_after_it_has_added_up() {
        let window = 50;
        let mut watch = Watch::new();
        watch.measure(1.1 * SCALE * seen_at_once(window), SCALE, &expected(), 1.0, window);
        assert_eq!(watch.told(), Some(0));
        let (mut watch, mut timestamps) = (Watch::new(), 0);
        while watch.alarm().is_none() {
            watch.offset = 0.0;
            watch.measure(rounding() + 3.0 * SCALE, SCALE, &expected(), 1.0, window);
            timestamps += 1;
        }
        // Each adds two scales to an excess of which 5.6 is allowed.
        assert_eq!(timestamps, 3);
        assert_eq!(watch.told(), Some(timestamps - 1));
        assert_eq!(watch.told(), None);
    }

    #[test]
    fn a_jump_of_unknown_size_costs_what_all_sizes_do_that_are_never_seen() {
        let (largest, steps) = (50.0, 1_000);
        let width = largest / f64::from(steps);
        let of_sizes: f64 = (0..steps)
            .map(|step| (f64::from(step) + 0.5) * width)
            .map(|size| OF_EACH_SIZE / size * size * size * width)
            .sum();
        assert!((of_unknown_size(largest) / of_sizes - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_seen_late_costs_more_the_longer_counts_are_not_told() {
        let costs = [0.0, 0.5, 2.0, 10.0, 25.0].map(|waits| seen_late(50, waits));
        assert!(costs[0] == 0.0 && costs.is_sorted_by(|less, more| less < more), "{costs:?}");
        // Whatever adds up to an alarm does so in the end: only what is allowed costs more and more.
        let forever = [1e3, 2e3].map(|waits| seen_late(50, waits));
        assert!((forever[1] - forever[0] - 1e3 * OF_EACH_SIZE * ALLOWED * ALLOWED / 2.0).abs() < 5.0, "{forever:?}");
    }
}
