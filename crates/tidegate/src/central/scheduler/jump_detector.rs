//! [`JumpDetector`]: detects jumps of the counts between publications.

use serde::{Deserialize, Serialize};

use crate::estimate::model_bank::Estimates;

/// CUSUM test (Page 1954) on the noisy L1 distance between counts and forecast.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JumpDetector {
    /// CUSUM statistic since the last publication, in scales of the noise.
    cusum: f64,
    /// Timestamps during which the statistic was positive without an alarm, or an alarm could not be paid for.
    waited: u64,
    /// Mean surplus of distances without a jump, and the number of measurements behind it.
    offset: f64,
    measurements: u64,
    /// Mean squared jump of a count since the last publication, once detected.
    alarm: Option<f64>,
}

/// Maximum and initial number of measurements in the running mean of the surplus.
const MAX_OFFSET_MEASUREMENTS: u64 = 32;
const PRIOR_MEASUREMENTS: u64 = 4;

/// Drift of the CUSUM statistic, in scales of the noise per timestamp.
const CUSUM_DRIFT: f64 = 1.0;

/// Expected number of windows until a false alarm.
const WINDOWS_TO_FALSE_ALARM: f64 = 10.0;

/// The mean run length to a false alarm at threshold `a` is `8.9 exp(0.715 a)` timestamps. The exponent solves `exp(-x)
/// = 1 - x²`; the factor was simulated.
const RUN_LENGTH_FACTOR: f64 = 8.9;
const RUN_EXPONENT: f64 = 0.715;
const MIN_ALARM_THRESHOLD: f64 = 2.0;

/// Share of jumps per unit of log-size. Even if all jumps so far were large, smaller ones may be detected late.
const SIZE_DENSITY: f64 = 0.1;

/// Alarm threshold of the CUSUM statistic.
#[allow(clippy::cast_precision_loss)] // a number of timestamps
fn alarm_threshold(window: u64) -> f64 {
    ((WINDOWS_TO_FALSE_ALARM * window as f64 / RUN_LENGTH_FACTOR).ln() / RUN_EXPONENT).max(MIN_ALARM_THRESHOLD)
}

/// Smallest jump that is detected immediately, in scales of the noise.
pub(super) fn immediate_threshold(window: u64) -> f64 {
    CUSUM_DRIFT + alarm_threshold(window)
}

/// Expected cost of a jump of unknown size before its detection, if counts are published after `waits` timestamps at
/// the latest: the sum of squared distances, in scales of the noise.
pub(super) fn late_detection_cost(window: u64, waits: f64) -> f64 {
    const STEPS: u32 = 90;
    let largest = immediate_threshold(window);
    let width = largest / f64::from(STEPS);
    let cost = |step: u32| {
        let size = (f64::from(step) + 0.5) * width;
        let until_seen = if size > CUSUM_DRIFT { (largest - size) / (size - CUSUM_DRIFT) } else { f64::INFINITY };
        size * until_seen.min(waits) * width
    };
    SIZE_DENSITY * (0..STEPS).map(cost).sum::<f64>()
}

/// Mean squared distance of a jump of unknown size, up to `largest`.
pub(super) fn unknown_jump_square(largest: f64) -> f64 {
    SIZE_DENSITY * largest * largest / 2.0
}

#[allow(clippy::cast_precision_loss)] // a number of distances or of counts
impl JumpDetector {
    /// Creates the detector before any measurement.
    pub(super) const fn new() -> Self {
        Self { cusum: 0.0, waited: 0, offset: 0.0, measurements: PRIOR_MEASUREMENTS, alarm: None }
    }

    /// Whether the state is valid.
    pub(super) fn fits(&self) -> bool {
        let Self { cusum, waited: _, offset, measurements, alarm } = self;
        let amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        amount(cusum)
            && amount(offset)
            && (PRIOR_MEASUREMENTS..=MAX_OFFSET_MEASUREMENTS).contains(measurements)
            && alarm.as_ref().is_none_or(amount)
    }

    /// Mean squared jump of a count, once detected.
    pub(super) const fn alarm(&self) -> Option<f64> {
        self.alarm
    }

    /// Updates with a noisy distance from the forecast. `published_variance` is that of a published count.
    pub(super) fn measure(
        &mut self,
        distance: f64,
        scale: f64,
        expected: &Estimates,
        published_variance: f64,
        window: u64,
    ) {
        // Expected distance from normal errors and rounding. Large forecast variances are limited, as a publication
        // would be better.
        let error = |variance: &f64| {
            (std::f64::consts::FRAC_2_PI * (variance.min(4.0 * published_variance) + 1.0 / 12.0)).sqrt()
        };
        let surplus = distance - expected.variances.iter().map(error).sum::<f64>();
        let deviation = (surplus - self.offset) / scale;
        let threshold = alarm_threshold(window);
        self.cusum = (self.cusum + deviation - CUSUM_DRIFT).max(0.0);
        if self.cusum <= 0.0 || deviation > CUSUM_DRIFT + threshold {
            self.waited = 0;
        } else if self.cusum <= threshold {
            self.wait();
        }
        if self.cusum > threshold {
            let of_count = scale * deviation.max(1.0) / expected.means.len() as f64;
            self.alarm = Some(of_count * of_count);
        } else {
            self.measurements = (self.measurements + 1).min(MAX_OFFSET_MEASUREMENTS);
            self.offset = (self.offset + scale * deviation.max(-threshold) / self.measurements as f64).max(0.0);
        }
    }

    /// Counts a timestamp before a jump is known.
    pub(super) const fn wait(&mut self) {
        self.waited = self.waited.saturating_add(1);
    }

    /// Resets after a publication. If there was an alarm, returns for how long the jump was unknown.
    pub(super) const fn reset(&mut self) -> Option<u64> {
        let waited = std::mem::replace(&mut self.waited, 0);
        self.cusum = 0.0;
        if self.alarm.take().is_some() { Some(waited) } else { None }
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss)]
mod tests {
    use tidegate_kernel::{Randomness, SeededRandom};

    use super::*;

    const SCALE: f64 = 10.0;

    /// Forecast of four counts without error.
    fn expected() -> Estimates {
        Estimates { means: vec![100.0; 4], variances: vec![0.0; 4] }
    }

    /// Expected distance from rounding alone.
    fn rounding() -> f64 {
        4.0 * (std::f64::consts::FRAC_2_PI / 12.0).sqrt()
    }

    fn laplace(random: &mut SeededRandom) -> f64 {
        let uniform = (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
        -SCALE * uniform.signum() * (1.0 - 2.0 * uniform.abs()).max(1e-12).ln()
    }

    /// Counts the alarms of distances with the given deviation.
    fn alarms(distances: u64, deviation: f64, window: u64) -> u64 {
        let (mut detector, mut random) = (JumpDetector::new(), SeededRandom::new(1));
        let mut alarm = |_: &u64| {
            detector.offset = 0.0; // known
            detector.measure(rounding() + deviation + laplace(&mut random), SCALE, &expected(), 1.0, window);
            detector.reset_if_alarmed()
        };
        (0..distances).filter(|distance| alarm(distance)).count() as u64
    }

    impl JumpDetector {
        fn reset_if_alarmed(&mut self) -> bool {
            self.alarm.is_some() && self.reset().is_some()
        }
    }

    #[test]
    fn noise_alone_alarms_about_once_in_ten_windows() {
        for window in [10, 50, 200] {
            let windows = 4_000;
            // About 400 alarms at nearly independent times: five standard deviations are a quarter of that, and the
            // formula may be off by a few per cent. False-failure probability: below 1e-5.
            let alarms = alarms(windows * window, 0.0, window);
            assert!((290..=520).contains(&alarms), "{alarms} in {windows} windows of {window}");
        }
    }

    #[test]
    fn a_large_jump_is_known_at_once_and_a_small_one_after_it_has_added_up() {
        let window = 50;
        let mut detector = JumpDetector::new();
        detector.measure(1.1 * SCALE * immediate_threshold(window), SCALE, &expected(), 1.0, window);
        assert_eq!(detector.reset(), Some(0));
        let (mut detector, mut timestamps) = (JumpDetector::new(), 0);
        while detector.alarm().is_none() {
            detector.offset = 0.0;
            detector.measure(rounding() + 3.0 * SCALE, SCALE, &expected(), 1.0, window);
            timestamps += 1;
        }
        // Each adds two scales; the threshold is 5.6.
        assert_eq!(timestamps, 3);
        assert_eq!(detector.reset(), Some(timestamps - 1));
        assert_eq!(detector.reset(), None);
    }

    #[test]
    fn a_jump_of_unknown_size_costs_what_all_sizes_do_that_are_never_seen() {
        let (largest, steps) = (50.0, 1_000);
        let width = largest / f64::from(steps);
        let of_sizes: f64 = (0..steps)
            .map(|step| (f64::from(step) + 0.5) * width)
            .map(|size| SIZE_DENSITY / size * size * size * width)
            .sum();
        assert!((unknown_jump_square(largest) / of_sizes - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_seen_late_costs_more_the_longer_counts_are_not_told() {
        let costs = [0.0, 0.5, 2.0, 10.0, 25.0].map(|waits| late_detection_cost(50, waits));
        assert!(costs[0] == 0.0 && costs.is_sorted_by(|less, more| less < more), "{costs:?}");
        // Jumps above the drift are detected in the end; only smaller ones keep costing.
        let forever = [1e3, 2e3].map(|waits| late_detection_cost(50, waits));
        assert!(
            (forever[1] - forever[0] - 1e3 * SIZE_DENSITY * CUSUM_DRIFT * CUSUM_DRIFT / 2.0).abs() < 5.0,
            "{forever:?}"
        );
    }
}
