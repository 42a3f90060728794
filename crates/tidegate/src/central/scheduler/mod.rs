//! [`PublicationScheduler`]: what is believed of what was published, and when to publish again.
//!
//! ObservationNoise falls with the square of what is spent at once, so rare and exact histograms tell more of a stream that stands
//! still than frequent and noisy ones; of a stream that moves they tell little about the time in between. How fast it
//! moves, and how often it jumps, is learned from what was published. So that no jump is missed where that would cost
//! much, a small part of the budget goes into measuring, in between, how far the counts are from what is believed
//! ([`JumpDetector`]): a single number, whose noise is small beside all counts. Some of the rest is kept back ([`SpendPlan`]), to
//! tell the counts again when there has been a jump.

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

/// What is believed of the histograms that were published, and after how many timestamps another is due.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublicationScheduler {
    filter: HistogramFilter,
    /// When the last histogram was published.
    last: u64,
    publications: u64,
    period: u64,
    /// Whether distances are measured in between, and into how many parts the budget is divided of which one is for
    /// that.
    detecting: bool,
    parts: u64,
    detector: JumpDetector,
    jumps: JumpHistory,
}

/// What is known of jumps, over some timestamps; forgotten slowly.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JumpHistory {
    timestamps: f64,
    /// How many there were that were seen at once or later, and one divided by how many counts jumped then, in sum.
    seen: f64,
    concentration: f64,
    /// The mean squares over the counts of those that were not, in sum; and of those that were seen late, as much as
    /// makes them cost what they did.
    undetected_squares: f64,
}

/// Publishes something of a timestamp.
pub(super) trait Publisher {
    /// Publishes the histogram, if it can be paid for and is [worth it](SpendPlan::is_worth).
    fn publish(&mut self, plan: SpendPlan) -> Result<Option<Published>, CentralError>;

    /// Measures how far the counts are from what is expected of them, with one of so many parts of the budget, if that
    /// can be paid for.
    fn measure(&mut self, expected: &[f64], parts: u64) -> Result<Option<MeasuredDistance>, CentralError>;

    /// The noise of a count if a histogram is published every so many timestamps, with all of the budget.
    fn noise_at(&self, period: u64) -> ObservationNoise;

    /// The scale of the noise of a distance with one of so many parts of the budget, if it can be paid for.
    fn distance_scale(&self, parts: u64) -> f64;

    /// The timestamp.
    fn timestamp(&self) -> u64;

    /// The window, or the longest if there are several.
    fn window(&self) -> u64;
}

/// A histogram that was published.
pub(super) struct Published {
    /// What was spent on it, by class.
    pub(super) spent: Vec<(u32, Epsilon)>,
    pub(super) counts: Vec<f64>,
    /// The noise of its counts.
    pub(super) noise: ObservationNoise,
}

/// A distance that was measured.
pub(super) struct MeasuredDistance {
    /// What was spent on it, by class.
    pub(super) spent: Vec<(u32, Epsilon)>,
    /// The sum over the counts of how far each is from what was expected, with noise of a scale.
    pub(super) distance: f64,
    pub(super) scale: f64,
}

/// How often to publish a histogram, and into how many parts the budget is divided of which one is for distances in
/// between, if any are measured.
#[derive(Clone, Copy)]
struct Schedule {
    period: u64,
    detection_parts: Option<u64>,
}

/// How far counts have jumped.
#[derive(Default)]
struct Jump {
    /// The mean of the squares.
    square: f64,
    /// The sum of the distances.
    distance: f64,
}

/// Into how many parts the budget is divided of which one is for measuring distances: if no jump has been seen, and
/// where it is worth it because there are some.
const DETECTION_PARTS: u64 = 8;
const ALERT_DETECTION_PARTS: u64 = 4;

/// How likely one of the counts that are published is taken for a jump where there is none.
const FALSE_JUMP_PROBABILITY: f64 = 1e-6;

/// By how many times the root of their number the squares of all counts joint may be more than expected: of Laplace
/// noise, nine standard deviations.
const JOINT_DEVIATIONS: f64 = 20.0;

/// After how many windows about a third of the jumps is still remembered; and of how much of one it is as if there had
/// been none, which is after seven times as many.
const MEMORY_WINDOWS: f64 = 32.0;
const MIN_REMEMBERED: f64 = 1e-3;

/// A whole histogram is kept back for a jump where one in so many windows has been seen, this part of one having been
/// seen before the first; otherwise as much of it as the root of how many fewer there are.
const FULL_RESERVE_WINDOWS: f64 = 12.0;
const PRIOR_JUMPS: f64 = 0.25;

/// What jumps at more than this part of the timestamps, and some, is restless.
const RESTLESS_RATE: f64 = 0.25;
const PRIOR_TIMESTAMPS: f64 = 4.0;

#[allow(clippy::cast_precision_loss)] // a number of timestamps or of counts
impl PublicationScheduler {
    /// Publishes what is due at a timestamp, and takes it in. Returns what each class spent, in any
    /// order and more than once, and whether the counts are published afresh.
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

    /// How it stands with what is paid for.
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

    /// Takes in a histogram, and is_decision_due when the next is due.
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
        // Such a one would have been seen at any other timestamp, too, if distances had been measured.
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

    /// Before anything is taken in.
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

    /// Whether the counts are to be published again.
    const fn is_due(&self, timestamp: u64) -> bool {
        self.detector.alarm().is_some() || timestamp - self.last >= self.period
    }

    /// How far the counts that are published have jumped from what was expected.
    fn jump(&self, gap: u64, published: &Published) -> Jump {
        let Published { counts, noise, .. } = published;
        let Estimates { means, variances } = self.filter.estimate(gap);
        // The square of how far each is off, and what that may be.
        let off = || {
            let allowed = variances.iter().map(|uncertain| uncertain + noise.variance());
            counts.iter().zip(&means).map(|(count, mean)| (count - mean).powi(2)).zip(allowed)
        };
        let domain = counts.len() as f64;
        let far = jump_threshold(counts.len()).powi(2);
        // Many may have jumped joint, by less each.
        let joint = off().map(|(square, allowed)| square / allowed).sum::<f64>();
        let far = if joint > domain + far + JOINT_DEVIATIONS * domain.sqrt() { 1.0 } else { far };
        let jumps = off().filter(|(square, allowed)| *square > far * allowed).map(|(square, allowed)| square - allowed);
        let (square, distance) =
            jumps.fold((0.0, 0.0), |(squares, sum), square| (squares + square, sum + square.sqrt()));
        Jump { square: square / domain, distance }
    }

    /// Whether it is time to decide how often to publish: soon at first, then after every eighth histogram. Until then
    /// they are published at every timestamp.
    const fn is_decision_due(&self) -> bool {
        let seen = self.publications;
        seen == 2 || seen.is_multiple_of(if seen < 16 { 4 } else { 8 })
    }

    /// Decides after how many timestamps to publish again, up to a window and to as many as there have been, and
    /// whether to measure distances in between and how much to spend on them: so that the smallest squared error is to
    /// be expected.
    fn decide(&mut self, publisher: &impl Publisher) {
        let window = publisher.window();
        let detection_parts = self.can_detect(publisher).then_some(DETECTION_PARTS);
        // Where it would tell nothing, it is not missed.
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
            // Between jumps, errors that are left after the first histogram fall with the number of histograms.
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
        // What is known to jump is detectable.
        let choices = if self.jumps.is_empty() { vec![detection_parts, None] } else { vec![detection_parts] };
        // Nothing is observed_long_enough for longer than it is since the first histogram.
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

    /// Whether distances would tell anything: where a quarter of the users change their value, which adds half their
    /// number to the distance, that must be seen at once.
    fn can_detect(&self, publisher: &impl Publisher) -> bool {
        self.users() / 2.0 > immediate_threshold(publisher.window()) * publisher.distance_scale(DETECTION_PARTS)
    }

    /// How many users there seem to be.
    fn users(&self) -> f64 {
        self.filter.estimate(0).means.iter().sum()
    }

    /// What jumps add to the squared error of a count at each timestamp until counts are published, where none has been seen
    /// and none would be: they are as likely as they are taken to be before the first, two counts change places, and at
    /// most a quarter of the users have another value afterwards.
    fn undetected_cost(&self, window: u64) -> f64 {
        let square = unknown_jump_square(self.users() / 2.0) / 2.0;
        self.jumps.rate(PRIOR_JUMPS, window) * square / self.filter.numbers() as f64
    }

    /// What jumps that are seen late add to the squared error of a count, where they are known after `waits` timestamps
    /// at the latest and distances have one of so many parts of the budget.
    fn late_detection_cost(&self, publisher: &impl Publisher, waits: f64, parts: u64) -> f64 {
        if self.jumps.concentration <= 0.0 || waits <= 0.0 {
            return 0.0;
        }
        let (window, scale) = (publisher.window(), publisher.distance_scale(parts));
        let concentration = self.jumps.rate(self.jumps.concentration, window) / self.filter.numbers() as f64;
        concentration * scale * scale * late_detection_cost(window, waits)
    }

    /// What is believed at a timestamp.
    pub(super) fn estimate(&self, timestamp: u64) -> Counts {
        let Estimates { means, mut variances } = self.filter.estimate(timestamp - self.last);
        if let Some(jump) = self.detector.alarm() {
            variances.iter_mut().for_each(|variance| *variance += jump);
        }
        Counts { counts: means, variances }
    }

    /// Whether a state that was loaded can be one of so many counts, with periods up to a window, after a push at this
    /// timestamp or before any.
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
    /// Takes in one that was seen, after some timestamps, where so many counts are published with a period.
    fn record(&mut self, jump: &Jump, counts: usize, waited: u64, period: u64) {
        self.seen += 1.0;
        self.concentration += jump.square * counts as f64 / (jump.distance * jump.distance);
        self.undetected_squares += 2.0 * jump.square * waited as f64 / (period.max(2) - 1) as f64;
    }

    /// How much of something there is at a timestamp. Of little that is known, it is less.
    fn rate(&self, sum: f64, window: u64) -> f64 {
        sum / (self.timestamps + window as f64)
    }

    /// How much to keep back for a jump that nobody expects, in parts of what a histogram has: all of it where one in
    /// some windows was seen, and the less the rarer they are, but three eighths at least, because no more than some
    /// windows are remembered.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most all of it
    fn reserve(&self, window: u64) -> u64 {
        let of_window = (self.seen + PRIOR_JUMPS) / (self.timestamps / window as f64 + 1.0);
        let part = (FULL_RESERVE_WINDOWS * of_window).sqrt().min(1.0);
        (RESERVE_PARTS as f64 * part).ceil() as u64
    }

    /// Whether none is remembered.
    fn is_empty(&self) -> bool {
        self.seen < MIN_REMEMBERED
    }

    /// Whether there are so many that it is not worth waiting for them.
    fn is_restless(&self) -> bool {
        self.seen > RESTLESS_RATE * (self.timestamps + PRIOR_TIMESTAMPS)
    }

    /// Forgets, over some timestamps.
    fn forget(&mut self, timestamps: u64, window: u64) {
        let remembered = MEMORY_WINDOWS * window as f64;
        let kept = (-(timestamps as f64) / remembered).exp();
        [&mut self.seen, &mut self.concentration, &mut self.undetected_squares]
            .into_iter()
            .for_each(|sum| *sum *= kept);
        self.timestamps = kept * self.timestamps + (1.0 - kept) * remembered;
    }

    /// Whether a state that was loaded can be one.
    fn fits(&self) -> bool {
        let Self { timestamps, seen, concentration, undetected_squares } = self;
        [timestamps, seen, concentration, undetected_squares]
            .into_iter()
            .all(|amount| amount.is_finite() && *amount >= 0.0)
            && *seen <= 1.1 * timestamps + 2.0
            && *concentration <= 1.1 * seen
    }
}

/// By how many standard deviations one of so many counts must be off to have jumped: noise that has a Laplace
/// distribution hardly ever is.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn jump_threshold(counts: usize) -> f64 {
    (counts as f64 / FALSE_JUMP_PROBABILITY).ln() / std::f64::consts::SQRT_2
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 20;

    /// After so many windows, with so many jumps in the last of them.
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
