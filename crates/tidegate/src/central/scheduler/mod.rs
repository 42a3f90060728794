//! [`PublicationScheduler`]: decides when to publish the next histogram, from a model of the published ones.
//!
//! Noise variance falls with the square of the budget, so rare and exact histograms suit a stream that stands still;
//! frequent ones suit a stream that moves. The scheduler learns speed and jumps from published histograms.
//!
//! To detect jumps, a small part of the budget measures the noisy L1 distance to the forecast between publications
//! ([`JumpDetector`]). Some of the rest is reserved to publish again after a jump ([`SpendPlan`]).

mod jump_detector;
mod spend_plan;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::central::CentralError;
use crate::estimate::histogram_filter::HistogramFilter;
use crate::estimate::model_bank::Estimates;
use crate::estimate::noise::ObservationNoise;
use crate::release::{Counts, Freshness};
use jump_detector::{JumpDetector, immediate_threshold, late_detection_cost, unknown_jump_square};
use spend_plan::{RESERVE_PARTS, periods, regular_fraction};
pub(super) use spend_plan::{SpendPlan, detection_share};

/// Filter of the published histograms, and when the next one is due.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublicationScheduler {
    filter: HistogramFilter,
    /// Timestamp of the last publication.
    last: u64,
    publications: u64,
    period: u64,
    /// Whether distances are measured between publications, with one of `parts` parts of the budget.
    detecting: bool,
    parts: u64,
    detector: JumpDetector,
    jumps: JumpHistory,
}

/// Jumps so far, with exponential forgetting.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JumpHistory {
    timestamps: f64,
    /// Number of detected jumps, and the sum of the reciprocals of how many counts jumped.
    seen: f64,
    concentration: f64,
    /// Sum of the mean squares of undetected jumps. Late detections add what they cost.
    undetected_squares: f64,
}

/// Publishes at one timestamp.
pub(super) trait Publisher {
    /// Publishes the histogram, if it is affordable and [worth it](SpendPlan::is_worth).
    fn publish(&mut self, plan: SpendPlan) -> Result<Option<Published>, CentralError>;

    /// Measures the distance from the forecast with one of `parts` parts of the budget, if affordable.
    fn measure(&mut self, expected: &[f64], parts: u64) -> Result<Option<MeasuredDistance>, CentralError>;

    /// Noise of a count if all of the budget goes to histograms every `period` timestamps.
    fn noise_at(&self, period: u64) -> ObservationNoise;

    /// Scale of the noise of a distance with one of `parts` parts of the budget.
    fn distance_scale(&self, parts: u64) -> f64;

    /// Timestamp.
    fn timestamp(&self) -> u64;

    /// Window, or the longest of several.
    fn window(&self) -> u64;
}

/// A published histogram.
pub(super) struct Published {
    /// Spends by class.
    pub(super) spent: Vec<(u32, Epsilon)>,
    pub(super) counts: Vec<f64>,
    /// Noise of the counts.
    pub(super) noise: ObservationNoise,
}

/// A measured distance.
pub(super) struct MeasuredDistance {
    /// Spends by class.
    pub(super) spent: Vec<(u32, Epsilon)>,
    /// Noisy L1 distance between counts and forecast, and the scale of its noise.
    pub(super) distance: f64,
    pub(super) scale: f64,
}

/// Publication period, and the part of the budget for detection, if any.
#[derive(Clone, Copy)]
struct Schedule {
    period: u64,
    detection_parts: Option<u64>,
}

/// Jump of the counts.
#[derive(Default)]
struct Jump {
    /// Mean square.
    square: f64,
    /// Sum of distances.
    distance: f64,
}

/// Detection gets one of so many parts of the budget: without known jumps, and where more detection pays.
const DETECTION_PARTS: u64 = 8;
const ALERT_DETECTION_PARTS: u64 = 4;

/// Probability that a count is mistaken for a jump.
const FALSE_JUMP_PROBABILITY: f64 = 1e-6;

/// Limit of the excess of summed squares, in roots of the number of counts: nine standard deviations of Laplace noise.
const JOINT_DEVIATIONS: f64 = 20.0;

/// Memory of jumps, in windows; and the remainder that counts as none, after seven times as long.
const MEMORY_WINDOWS: f64 = 32.0;
const MIN_REMEMBERED: f64 = 1e-3;

/// The reserve is a whole histogram if there was a jump in so many windows, counting a prior fraction of a jump. It
/// falls with the root of the rate of jumps.
const FULL_RESERVE_WINDOWS: f64 = 12.0;
const PRIOR_JUMPS: f64 = 0.25;

/// Streams that jump at a larger share of the timestamps are restless. Then the timestamps of the prior.
const RESTLESS_RATE: f64 = 0.25;
const PRIOR_TIMESTAMPS: f64 = 4.0;

#[allow(clippy::cast_precision_loss)] // a number of timestamps or of counts
impl PublicationScheduler {
    /// Publishes what is due, and updates the filter. Returns the spends by class, in any order, and the freshness.
    pub(super) fn advance(
        scheduler: &mut Option<Self>,
        publisher: &mut impl Publisher,
    ) -> Result<(Vec<(u32, Epsilon)>, Freshness), CentralError> {
        let (timestamp, window) = (publisher.timestamp(), publisher.window());
        let plan = Self::spend_plan(scheduler.as_ref(), window);
        if scheduler.as_ref().is_none_or(|scheduler| scheduler.is_due(timestamp))
            && let Some(published) = publisher.publish(plan)?
        {
            Self::observe(scheduler, &published, publisher);
            return Ok((published.spent, Freshness::Fresh));
        }
        let Some(detecting) = scheduler.as_mut().filter(|scheduler| scheduler.detecting) else {
            return Ok((Vec::new(), Freshness::Approximated));
        };
        if detecting.detector.alarm().is_some() {
            detecting.detector.wait();
            return Ok((Vec::new(), Freshness::Approximated));
        }
        let expected = detecting.filter.estimate(timestamp - detecting.last);
        let Some(MeasuredDistance { mut spent, distance, scale }) =
            publisher.measure(&expected.means, detecting.parts)?
        else {
            return Ok((Vec::new(), Freshness::Approximated));
        };
        let published_variance = publisher.noise_at(detecting.period).variance();
        detecting.detector.measure(distance, scale, &expected, published_variance, window);
        let alarm = detecting.detector.alarm();
        if alarm.is_some()
            && let Some(published) = publisher.publish(SpendPlan { alarm, ..plan })?
        {
            Self::observe(scheduler, &published, publisher);
            spent.extend(published.spent);
            return Ok((spent, Freshness::Fresh));
        }
        if let Some(scheduler) = scheduler.as_mut().filter(|_| alarm.is_some()) {
            scheduler.detector.wait();
        }
        Ok((spent, Freshness::Approximated))
    }

    /// Plan for the present state.
    fn spend_plan(scheduler: Option<&Self>, window: u64) -> SpendPlan {
        let Some(scheduler) = scheduler else {
            return SpendPlan {
                first: true,
                period: 1,
                detection_parts: None,
                alarms: 0.0,
                reserve: RESERVE_PARTS,
                alarm: None,
            };
        };
        SpendPlan {
            first: false,
            period: scheduler.period,
            detection_parts: (scheduler.detecting && scheduler.period > 1).then_some(scheduler.parts),
            alarms: scheduler.jumps.rate(scheduler.jumps.seen, window),
            reserve: scheduler.jumps.reserve(window),
            alarm: scheduler.detector.alarm(),
        }
    }

    /// Updates with a publication, and decides when the next is due.
    fn observe(scheduler: &mut Option<Self>, published: &Published, publisher: &impl Publisher) {
        let (timestamp, window) = (publisher.timestamp(), publisher.window());
        let Published { counts, noise, .. } = published;
        let reference = || publisher.noise_at(1).variance();
        let begin = || Self::begin(timestamp, HistogramFilter::new(counts, noise.variance(), reference()));
        let scheduler = scheduler.get_or_insert_with(begin);
        let gap = timestamp - scheduler.last;
        scheduler.jumps.forget(gap, window);
        let waited = scheduler.detector.reset();
        let jump = if scheduler.publications > 0 { scheduler.jump(gap, published) } else { Jump::default() };
        let jumped = jump.square > 0.0;
        // Such a jump would have been detected at any timestamp.
        let detectable = || scheduler.detecting || scheduler.can_detect(publisher);
        let large =
            || detectable() && jump.distance > immediate_threshold(window) * publisher.distance_scale(scheduler.parts);
        if jumped && (waited.is_some() || large()) {
            scheduler.jumps.record(&jump, counts.len(), waited.unwrap_or(0), scheduler.period);
            if scheduler.jumps.is_restless() {
                scheduler.filter.observe(gap, counts, *noise);
            } else {
                scheduler.filter.observe_jump(gap, counts, *noise);
            }
        } else {
            scheduler.jumps.undetected_squares += jump.square;
            scheduler.filter.observe(gap, counts, *noise);
        }
        scheduler.last = timestamp;
        scheduler.publications = scheduler.publications.saturating_add(1);
        if scheduler.is_decision_due() || jumped || waited.is_some() {
            scheduler.decide(publisher);
        }
    }

    /// Initial state.
    fn begin(timestamp: u64, filter: HistogramFilter) -> Self {
        Self {
            filter,
            last: timestamp,
            publications: 0,
            period: 1,
            detecting: false,
            parts: DETECTION_PARTS,
            detector: JumpDetector::new(),
            jumps: JumpHistory::default(),
        }
    }

    /// Whether a publication is due.
    const fn is_due(&self, timestamp: u64) -> bool {
        self.detector.alarm().is_some() || timestamp - self.last >= self.period
    }

    /// Estimates how far the published counts jumped from the forecast.
    fn jump(&self, gap: u64, published: &Published) -> Jump {
        let Published { counts, noise, .. } = published;
        let Estimates { means, variances } = self.filter.estimate(gap);
        // Squared residual of each count, and its expected value.
        let off = || {
            let allowed = variances.iter().map(|uncertain| uncertain + noise.variance());
            counts.iter().zip(&means).map(|(count, mean)| (count - mean).powi(2)).zip(allowed)
        };
        let domain = counts.len() as f64;
        let far = jump_threshold(counts.len()).powi(2);
        // Many counts may jump a little each.
        let joint = off().map(|(square, allowed)| square / allowed).sum::<f64>();
        let far = if joint > domain + far + JOINT_DEVIATIONS * domain.sqrt() { 1.0 } else { far };
        let jumps = off().filter(|(square, allowed)| *square > far * allowed).map(|(square, allowed)| square - allowed);
        let (square, distance) =
            jumps.fold((0.0, 0.0), |(squares, sum), square| (squares + square, sum + square.sqrt()));
        Jump { square: square / domain, distance }
    }

    /// Whether to decide on a schedule: soon at first, then after every eighth histogram.
    const fn is_decision_due(&self) -> bool {
        let seen = self.publications;
        seen == 2 || seen.is_multiple_of(if seen < 16 { 4 } else { 8 })
    }

    /// Chooses the schedule with the smallest expected squared error: period, detection, and its part of the budget.
    fn decide(&mut self, publisher: &impl Publisher) {
        let window = publisher.window();
        let detection_parts = self.can_detect(publisher).then_some(DETECTION_PARTS);
        // Without useful detection, nothing is lost.
        let undetected_cost = if detection_parts.is_some() { self.undetected_cost(window) } else { 0.0 };
        let error = |schedule: Schedule| {
            let alarms = self.jumps.rate(self.jumps.seen, window);
            let part = match schedule.detection_parts {
                Some(parts) if schedule.period > 1 => {
                    let due = window.div_ceil(schedule.period);
                    regular_fraction(due, alarms * window as f64, self.jumps.reserve(window), parts)
                }
                _ => 1.0,
            };
            let noise = publisher.noise_at(schedule.period).with_variance_times(1.0 / (part * part));
            // Between jumps, the error falls with the number of histograms.
            let publications = 1.0 + 1.0 / (alarms * schedule.period as f64);
            let anew = if alarms > 0.0 { noise.variance() * (1.0 + publications.ln()) / publications } else { 0.0 };
            let error = self.filter.expected_error(schedule.period, noise).max(anew);
            let waits = (schedule.period - 1) as f64 / 2.0;
            let of_jumps = match schedule.detection_parts {
                Some(parts) => self.late_detection_cost(publisher, waits, parts),
                None => waits * undetected_cost,
            };
            error + waits * self.jumps.undetected_squares / self.jumps.timestamps.max(1.0) + of_jumps
        };
        let better = |best: (f64, Schedule), next: (f64, Schedule)| if next.0 < best.0 { next } else { best };
        let with_error = |schedule: Schedule| (error(schedule), schedule);
        // Known jumps call for detection.
        let choices = if self.jumps.is_empty() { vec![detection_parts, None] } else { vec![detection_parts] };
        // No forecast is longer than the time since the first histogram.
        let observed_long_enough = |period: &u64| *period as f64 <= self.jumps.timestamps.round();
        let restless = self.jumps.is_restless();
        let longer = periods(window).filter(|period| *period > 1 && observed_long_enough(period) && !restless);
        let schedules = longer.flat_map(|period| {
            choices.iter().map(move |detection_parts| Schedule { period, detection_parts: *detection_parts })
        });
        let (least, best) = schedules.map(with_error).fold(with_error(Schedule { period: 1, detection_parts }), better);
        let alert = Schedule { detection_parts: Some(ALERT_DETECTION_PARTS), ..best };
        let fewer =
            best.period > 1 && best.detection_parts.is_some() && self.jumps.concentration > 0.0 && error(alert) < least;
        let Schedule { period, detection_parts } = if fewer { alert } else { best };
        (self.period, self.detecting, self.parts) =
            (period, detection_parts.is_some(), detection_parts.unwrap_or(DETECTION_PARTS));
    }

    /// Whether detection works: if a quarter of the users change their value, the detector must see it immediately.
    /// That adds half their number to the distance.
    fn can_detect(&self, publisher: &impl Publisher) -> bool {
        self.users() / 2.0 > immediate_threshold(publisher.window()) * publisher.distance_scale(DETECTION_PARTS)
    }

    /// Estimated number of users.
    fn users(&self) -> f64 {
        self.filter.estimate(0).means.iter().sum()
    }

    /// Expected addition to the squared error of a count, at each timestamp until a publication, from jumps that
    /// nothing detects. They have their prior rate and swap two counts, and at most a quarter of the users change their
    /// value.
    fn undetected_cost(&self, window: u64) -> f64 {
        let square = unknown_jump_square(self.users() / 2.0) / 2.0;
        self.jumps.rate(PRIOR_JUMPS, window) * square / self.filter.numbers() as f64
    }

    /// Expected addition to the squared error of a count from late detections. Jumps are known after `waits` timestamps
    /// at the latest; detection has one of `parts` parts of the budget.
    fn late_detection_cost(&self, publisher: &impl Publisher, waits: f64, parts: u64) -> f64 {
        if self.jumps.concentration <= 0.0 || waits <= 0.0 {
            return 0.0;
        }
        let (window, scale) = (publisher.window(), publisher.distance_scale(parts));
        let concentration = self.jumps.rate(self.jumps.concentration, window) / self.filter.numbers() as f64;
        concentration * scale * scale * late_detection_cost(window, waits)
    }

    /// Estimated counts at a timestamp.
    pub(super) fn estimate(&self, timestamp: u64) -> Counts {
        let Estimates { means, mut variances } = self.filter.estimate(timestamp - self.last);
        if let Some(jump) = self.detector.alarm() {
            variances.iter_mut().for_each(|variance| *variance += jump);
        }
        Counts { counts: means, variances }
    }

    /// Whether the state is valid, after a push at `last_pushed`.
    pub(super) fn fits(&self, domain: usize, window: u64, last_pushed: Option<u64>) -> bool {
        let Self { filter, last, publications, period, detecting, parts, detector, jumps } = self;
        filter.fits(domain)
            && Some(*last) <= last_pushed
            && *publications > 0
            && (*detecting || detector.alarm().is_none())
            && (1..=window).contains(period)
            && [DETECTION_PARTS, ALERT_DETECTION_PARTS].contains(parts)
            && detector.fits()
            && jumps.fits()
    }
}

#[allow(clippy::cast_precision_loss)] // a number of timestamps or of counts
impl JumpHistory {
    /// Records a detected jump.
    fn record(&mut self, jump: &Jump, counts: usize, waited: u64, period: u64) {
        self.seen += 1.0;
        self.concentration += jump.square * counts as f64 / (jump.distance * jump.distance);
        self.undetected_squares += 2.0 * jump.square * waited as f64 / (period.max(2) - 1) as f64;
    }

    /// Rate per timestamp, shrunk by a window.
    fn rate(&self, sum: f64, window: u64) -> f64 {
        sum / (self.timestamps + window as f64)
    }

    /// Budget reserved for an unexpected jump, in eighths of a regular release; at least three.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most all of it
    fn reserve(&self, window: u64) -> u64 {
        let of_window = (self.seen + PRIOR_JUMPS) / (self.timestamps / window as f64 + 1.0);
        let part = (FULL_RESERVE_WINDOWS * of_window).sqrt().min(1.0);
        (RESERVE_PARTS as f64 * part).ceil() as u64
    }

    /// Whether no jump is remembered.
    fn is_empty(&self) -> bool {
        self.seen < MIN_REMEMBERED
    }

    /// Whether jumps are too frequent to wait for.
    fn is_restless(&self) -> bool {
        self.seen > RESTLESS_RATE * (self.timestamps + PRIOR_TIMESTAMPS)
    }

    /// Forgets exponentially.
    fn forget(&mut self, timestamps: u64, window: u64) {
        let remembered = MEMORY_WINDOWS * window as f64;
        let kept = (-(timestamps as f64) / remembered).exp();
        [&mut self.seen, &mut self.concentration, &mut self.undetected_squares]
            .into_iter()
            .for_each(|sum| *sum *= kept);
        self.timestamps = kept * self.timestamps + (1.0 - kept) * remembered;
    }

    /// Whether the state is valid.
    fn fits(&self) -> bool {
        let Self { timestamps, seen, concentration, undetected_squares } = self;
        [timestamps, seen, concentration, undetected_squares]
            .into_iter()
            .all(|amount| amount.is_finite() && *amount >= 0.0)
            && *seen <= 1.1 * timestamps + 2.0
            && *concentration <= 1.1 * seen
    }
}

/// Residual at which one of the counts has jumped, in standard deviations of Laplace noise.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn jump_threshold(counts: usize) -> f64 {
    (counts as f64 / FALSE_JUMP_PROBABILITY).ln() / std::f64::consts::SQRT_2
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 20;

    /// Returns a history of quiet windows, then some jumps.
    fn jumps(windows: u64, seen: u64) -> JumpHistory {
        let mut jumps = JumpHistory::default();
        (0..windows * WINDOW).for_each(|_| jumps.forget(1, WINDOW));
        let jump = Jump { square: 1.0, distance: 2.0 };
        (0..seen).for_each(|_| jumps.record(&jump, 4, 0, 5));
        jumps
    }

    #[test]
    fn the_rarer_jumps_are_the_less_is_kept_back_for_one() {
        let reserve = |windows: u64, seen: u64| jumps(windows, seen).reserve(WINDOW);
        assert_eq!((reserve(0, 0), reserve(2, 0)), (RESERVE_PARTS, RESERVE_PARTS));
        let quiet: Vec<u64> = [2, 5, 10, 20, 1_000].map(|windows| reserve(windows, 0)).to_vec();
        assert!(quiet.is_sorted_by(|sooner, later| later <= sooner) && quiet[4] == 3, "{quiet:?}");
        assert_eq!((reserve(1_000, 1), reserve(1_000, 3)), (6, RESERVE_PARTS));
    }
}
