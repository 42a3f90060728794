//! [`Pace`]: what is believed of what was published, and when to publish again.
//!
//! Noise falls with the square of what is spent at once, so rare and exact histograms tell more of a stream that stands
//! still than frequent and noisy ones; of a stream that moves they tell little about the time in between. How fast it
//! moves, and how often it jumps, is learned from what was published. So that no jump is missed where that would cost
//! much, a small part of the budget goes into measuring, in between, how far the counts are from what is believed
//! ([`Watch`]): a single number, whose noise is small beside all counts. Some of the rest is kept back ([`Turn`]), to
//! tell the counts again when there has been a jump.

mod turn;
mod watch;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::central::CentralError;
use crate::estimate::bank::Estimates;
use crate::estimate::follower::Follower;
use crate::estimate::noise::Noise;
use crate::release::{Counts, Freshness};
use turn::{PARTS_KEPT_BACK, periods, regular_part};
pub(super) use turn::{Turn, to_watch};
use watch::{Watch, of_unknown_size, seen_at_once, seen_late};

/// What is believed of the histograms that were published, and after how many timestamps another is due.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pace {
    follower: Follower,
    /// When the last histogram was published.
    last: u64,
    publications: u64,
    period: u64,
    /// Whether distances are measured in between, and into how many parts the budget is divided of which one is for
    /// that.
    watches: bool,
    parts: u64,
    watch: Watch,
    jumps: Jumps,
}

/// What is known of jumps, over some timestamps; forgotten slowly.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Jumps {
    timestamps: f64,
    /// How many there were that were seen at once or later, and one divided by how many counts jumped then, in sum.
    seen: f64,
    narrow: f64,
    /// The mean squares over the counts of those that were not, in sum; and of those that were seen late, as much as
    /// makes them cost what they did.
    unseen: f64,
}

/// Publishes something of a timestamp.
pub(super) trait Publisher {
    /// Publishes the histogram, if it can be paid for and is [worth it](Turn::is_worth).
    fn tell(&mut self, turn: Turn) -> Result<Option<Published>, CentralError>;

    /// Measures how far the counts are from what is expected of them, with one of so many parts of the budget, if that
    /// can be paid for.
    fn measure(&mut self, expected: &[f64], parts: u64) -> Result<Option<Measured>, CentralError>;

    /// The noise of a count if a histogram is published every so many timestamps, with all of the budget.
    fn noise_at(&self, period: u64) -> Noise;

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
    pub(super) noise: Noise,
}

/// A distance that was measured.
pub(super) struct Measured {
    /// What was spent on it, by class.
    pub(super) spent: Vec<(u32, Epsilon)>,
    /// The sum over the counts of how far each is from what was expected, with noise of a scale.
    pub(super) distance: f64,
    pub(super) scale: f64,
}

/// How often to publish a histogram, and into how many parts the budget is divided of which one is for distances in
/// between, if any are measured.
#[derive(Clone, Copy)]
struct Way {
    period: u64,
    watching: Option<u64>,
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
const PARTS_TO_WATCH: u64 = 8;
const FEWER_PARTS_TO_WATCH: u64 = 4;

/// How likely one of the counts that are told is taken for a jump where there is none.
const FALSE_ALARM: f64 = 1e-6;

/// By how many times the root of their number the squares of all counts together may be more than expected: of Laplace
/// noise, nine standard deviations.
const TOGETHER: f64 = 20.0;

/// After how many windows about a third of the jumps is still remembered; and of how much of one it is as if there had
/// been none, which is after seven times as many.
const REMEMBERED: f64 = 32.0;
const LEAST_REMEMBERED: f64 = 1e-3;

/// A whole histogram is kept back for a jump where one in so many windows has been seen, this part of one having been
/// seen before the first; otherwise as much of it as the root of how many fewer there are.
const WINDOWS_TO_JUMP: f64 = 12.0;
const SEEN_AT_FIRST: f64 = 0.25;

/// What jumps at more than this part of the timestamps, and some, is restless.
const RESTLESS: f64 = 0.25;
const TIMESTAMPS_AT_FIRST: f64 = 4.0;

#[allow(clippy::cast_precision_loss)] // a number of timestamps or of counts
impl Pace {
    /// Publishes what is due at a timestamp, and takes it in. Returns what each class spent, in any
    /// order and more than once, and whether the counts are told afresh.
    pub(super) fn advance(
        pace: &mut Option<Self>,
        publisher: &mut impl Publisher,
    ) -> Result<(Vec<(u32, Epsilon)>, Freshness), CentralError> {
        let (timestamp, window) = (publisher.timestamp(), publisher.window());
        let turn = Self::turn(pace.as_ref(), window);
        if pace.as_ref().is_none_or(|pace| pace.is_due(timestamp))
            && let Some(told) = publisher.tell(turn)?
        {
            Self::observe(pace, &told, publisher);
            return Ok((told.spent, Freshness::Fresh));
        }
        let Some(watching) = pace.as_mut().filter(|pace| pace.watches) else {
            return Ok((Vec::new(), Freshness::Approximated));
        };
        if watching.watch.alarm().is_some() {
            watching.watch.wait();
            return Ok((Vec::new(), Freshness::Approximated));
        }
        let expected = watching.follower.estimate(timestamp - watching.last);
        let Some(Measured { mut spent, distance, scale }) = publisher.measure(&expected.means, watching.parts)? else {
            return Ok((Vec::new(), Freshness::Approximated));
        };
        let told = publisher.noise_at(watching.period).variance();
        watching.watch.measure(distance, scale, &expected, told, window);
        let alarm = watching.watch.alarm();
        if alarm.is_some()
            && let Some(told) = publisher.tell(Turn { alarm, ..turn })?
        {
            Self::observe(pace, &told, publisher);
            spent.extend(told.spent);
            return Ok((spent, Freshness::Fresh));
        }
        if let Some(pace) = pace.as_mut().filter(|_| alarm.is_some()) {
            pace.watch.wait();
        }
        Ok((spent, Freshness::Approximated))
    }

    /// How it stands with what is paid for.
    fn turn(pace: Option<&Self>, window: u64) -> Turn {
        let Some(pace) = pace else {
            return Turn {
                first: true,
                period: 1,
                watching: None,
                alarms: 0.0,
                kept_back: PARTS_KEPT_BACK,
                alarm: None,
            };
        };
        Turn {
            first: false,
            period: pace.period,
            watching: (pace.watches && pace.period > 1).then_some(pace.parts),
            alarms: pace.jumps.rate(pace.jumps.seen, window),
            kept_back: pace.jumps.kept_back(window),
            alarm: pace.watch.alarm(),
        }
    }

    /// Takes in a histogram, and decides when the next is due.
    fn observe(pace: &mut Option<Self>, told: &Published, publisher: &impl Publisher) {
        let (timestamp, window) = (publisher.timestamp(), publisher.window());
        let Published { counts, noise, .. } = told;
        let reference = || publisher.noise_at(1).variance();
        let begin = || Self::begin(timestamp, Follower::new(counts, noise.variance(), reference()));
        let pace = pace.get_or_insert_with(begin);
        let gap = timestamp - pace.last;
        pace.jumps.forget(gap, window);
        let waited = pace.watch.told();
        let jump = if pace.publications > 0 { pace.jump(gap, told) } else { Jump::default() };
        let jumped = jump.square > 0.0;
        // Such a one would have been seen at any other timestamp, too, if distances had been measured.
        let watched = || pace.watches || pace.can_watch(publisher);
        let large = || watched() && jump.distance > seen_at_once(window) * publisher.distance_scale(pace.parts);
        if jumped && (waited.is_some() || large()) {
            pace.jumps.see(&jump, counts.len(), waited.unwrap_or(0), pace.period);
            if pace.jumps.is_restless() {
                pace.follower.observe(gap, counts, *noise);
            } else {
                pace.follower.observe_jump(gap, counts, *noise);
            }
        } else {
            pace.jumps.unseen += jump.square;
            pace.follower.observe(gap, counts, *noise);
        }
        pace.last = timestamp;
        pace.publications = pace.publications.saturating_add(1);
        if pace.decides() || jumped || waited.is_some() {
            pace.decide(publisher);
        }
    }

    /// Before anything is taken in.
    fn begin(timestamp: u64, follower: Follower) -> Self {
        Self {
            follower,
            last: timestamp,
            publications: 0,
            period: 1,
            watches: false,
            parts: PARTS_TO_WATCH,
            watch: Watch::new(),
            jumps: Jumps::default(),
        }
    }

    /// Whether the counts are to be told again.
    const fn is_due(&self, timestamp: u64) -> bool {
        self.watch.alarm().is_some() || timestamp - self.last >= self.period
    }

    /// How far the counts that are told have jumped from what was expected.
    fn jump(&self, gap: u64, told: &Published) -> Jump {
        let Published { counts, noise, .. } = told;
        let Estimates { means, variances } = self.follower.estimate(gap);
        // The square of how far each is off, and what that may be.
        let off = || {
            let allowed = variances.iter().map(|uncertain| uncertain + noise.variance());
            counts.iter().zip(&means).map(|(count, mean)| (count - mean).powi(2)).zip(allowed)
        };
        let domain = counts.len() as f64;
        let far = far_off(counts.len()).powi(2);
        // Many may have jumped together, by less each.
        let together = off().map(|(square, allowed)| square / allowed).sum::<f64>();
        let far = if together > domain + far + TOGETHER * domain.sqrt() { 1.0 } else { far };
        let jumps = off().filter(|(square, allowed)| *square > far * allowed).map(|(square, allowed)| square - allowed);
        let (square, distance) =
            jumps.fold((0.0, 0.0), |(squares, sum), square| (squares + square, sum + square.sqrt()));
        Jump { square: square / domain, distance }
    }

    /// Whether it is time to decide how often to publish: soon at first, then after every eighth histogram. Until then
    /// they are published at every timestamp.
    const fn decides(&self) -> bool {
        let seen = self.publications;
        seen == 2 || seen.is_multiple_of(if seen < 16 { 4 } else { 8 })
    }

    /// Decides after how many timestamps to publish again, up to a window and to as many as there have been, and
    /// whether to measure distances in between and how much to spend on them: so that the smallest squared error is to
    /// be expected.
    fn decide(&mut self, publisher: &impl Publisher) {
        let window = publisher.window();
        let watching = self.can_watch(publisher).then_some(PARTS_TO_WATCH);
        // Where it would tell nothing, it is not missed.
        let unwatched = if watching.is_some() { self.unwatched(window) } else { 0.0 };
        let error = |way: Way| {
            let alarms = self.jumps.rate(self.jumps.seen, window);
            let part = match way.watching {
                Some(parts) if way.period > 1 => {
                    let due = window.div_ceil(way.period);
                    regular_part(due, alarms * window as f64, self.jumps.kept_back(window), parts)
                }
                _ => 1.0,
            };
            let noise = publisher.noise_at(way.period).with_variance_times(1.0 / (part * part));
            // Between jumps, errors that are left after the first histogram fall with the number of histograms.
            let publications = 1.0 + 1.0 / (alarms * way.period as f64);
            let anew = if alarms > 0.0 { noise.variance() * (1.0 + publications.ln()) / publications } else { 0.0 };
            let error = self.follower.expected_error(way.period, noise).max(anew);
            let waits = (way.period - 1) as f64 / 2.0;
            let of_jumps = match way.watching {
                Some(parts) => self.seen_late(publisher, waits, parts),
                None => waits * unwatched,
            };
            error + waits * self.jumps.unseen / self.jumps.timestamps.max(1.0) + of_jumps
        };
        let better = |best: (f64, Way), next: (f64, Way)| if next.0 < best.0 { next } else { best };
        let of_way = |way: Way| (error(way), way);
        // What is known to jump is watched.
        let choices = if self.jumps.are_unknown() { vec![watching, None] } else { vec![watching] };
        // Nothing is foretold for longer than it is since the first histogram.
        let foretold = |period: &u64| *period as f64 <= self.jumps.timestamps.round();
        let restless = self.jumps.is_restless();
        let longer = periods(window).filter(|period| *period > 1 && foretold(period) && !restless);
        let ways = longer.flat_map(|period| choices.iter().map(move |watching| Way { period, watching: *watching }));
        let (least, best) = ways.map(of_way).fold(of_way(Way { period: 1, watching }), better);
        let closely = Way { watching: Some(FEWER_PARTS_TO_WATCH), ..best };
        let fewer = best.period > 1 && best.watching.is_some() && self.jumps.narrow > 0.0 && error(closely) < least;
        let Way { period, watching } = if fewer { closely } else { best };
        (self.period, self.watches, self.parts) = (period, watching.is_some(), watching.unwrap_or(PARTS_TO_WATCH));
    }

    /// Whether distances would tell anything: where a quarter of the users change their value, which adds half their
    /// number to the distance, that must be seen at once.
    fn can_watch(&self, publisher: &impl Publisher) -> bool {
        self.users() / 2.0 > seen_at_once(publisher.window()) * publisher.distance_scale(PARTS_TO_WATCH)
    }

    /// How many users there seem to be.
    fn users(&self) -> f64 {
        self.follower.estimate(0).means.iter().sum()
    }

    /// What jumps add to the squared error of a count at each timestamp until counts are told, where none has been seen
    /// and none would be: they are as likely as they are taken to be before the first, two counts change places, and at
    /// most a quarter of the users have another value afterwards.
    fn unwatched(&self, window: u64) -> f64 {
        let square = of_unknown_size(self.users() / 2.0) / 2.0;
        self.jumps.rate(SEEN_AT_FIRST, window) * square / self.follower.numbers() as f64
    }

    /// What jumps that are seen late add to the squared error of a count, where they are known after `waits` timestamps
    /// at the latest and distances have one of so many parts of the budget.
    fn seen_late(&self, publisher: &impl Publisher, waits: f64, parts: u64) -> f64 {
        if self.jumps.narrow <= 0.0 || waits <= 0.0 {
            return 0.0;
        }
        let (window, scale) = (publisher.window(), publisher.distance_scale(parts));
        let narrow = self.jumps.rate(self.jumps.narrow, window) / self.follower.numbers() as f64;
        narrow * scale * scale * seen_late(window, waits)
    }

    /// What is believed at a timestamp.
    pub(super) fn believed(&self, timestamp: u64) -> Counts {
        let Estimates { means, mut variances } = self.follower.estimate(timestamp - self.last);
        if let Some(jump) = self.watch.alarm() {
            variances.iter_mut().for_each(|variance| *variance += jump);
        }
        Counts { counts: means, variances }
    }

    /// Whether a state that was loaded can be one of so many counts, with periods up to a window, after a push at this
    /// timestamp or before any.
    pub(super) fn fits(&self, domain: usize, window: u64, last_pushed: Option<u64>) -> bool {
        let Self { follower, last, publications, period, watches, parts, watch, jumps } = self;
        follower.fits(domain)
            && Some(*last) <= last_pushed
            && *publications > 0
            && (*watches || watch.alarm().is_none())
            && (1..=window).contains(period)
            && [PARTS_TO_WATCH, FEWER_PARTS_TO_WATCH].contains(parts)
            && watch.fits()
            && jumps.fits()
    }
}

#[allow(clippy::cast_precision_loss)] // a number of timestamps or of counts
impl Jumps {
    /// Takes in one that was seen, after some timestamps, where so many counts are told with a period.
    fn see(&mut self, jump: &Jump, counts: usize, waited: u64, period: u64) {
        self.seen += 1.0;
        self.narrow += jump.square * counts as f64 / (jump.distance * jump.distance);
        self.unseen += 2.0 * jump.square * waited as f64 / (period.max(2) - 1) as f64;
    }

    /// How much of something there is at a timestamp. Of little that is known, it is less.
    fn rate(&self, sum: f64, window: u64) -> f64 {
        sum / (self.timestamps + window as f64)
    }

    /// How much to keep back for a jump that nobody expects, in parts of what a histogram has: all of it where one in
    /// some windows was seen, and the less the rarer they are, but three eighths at least, because no more than some
    /// windows are remembered.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most all of it
    fn kept_back(&self, window: u64) -> u64 {
        let of_window = (self.seen + SEEN_AT_FIRST) / (self.timestamps / window as f64 + 1.0);
        let part = (WINDOWS_TO_JUMP * of_window).sqrt().min(1.0);
        (PARTS_KEPT_BACK as f64 * part).ceil() as u64
    }

    /// Whether none is remembered.
    fn are_unknown(&self) -> bool {
        self.seen < LEAST_REMEMBERED
    }

    /// Whether there are so many that it is not worth waiting for them.
    fn is_restless(&self) -> bool {
        self.seen > RESTLESS * (self.timestamps + TIMESTAMPS_AT_FIRST)
    }

    /// Forgets, over some timestamps.
    fn forget(&mut self, timestamps: u64, window: u64) {
        let remembered = REMEMBERED * window as f64;
        let kept = (-(timestamps as f64) / remembered).exp();
        [&mut self.seen, &mut self.narrow, &mut self.unseen].into_iter().for_each(|sum| *sum *= kept);
        self.timestamps = kept * self.timestamps + (1.0 - kept) * remembered;
    }

    /// Whether a state that was loaded can be one.
    fn fits(&self) -> bool {
        let Self { timestamps, seen, narrow, unseen } = self;
        [timestamps, seen, narrow, unseen].into_iter().all(|amount| amount.is_finite() && *amount >= 0.0)
            && *seen <= 1.1 * timestamps + 2.0
            && *narrow <= 1.1 * seen
    }
}

/// By how many standard deviations one of so many counts must be off to have jumped: noise that has a Laplace
/// distribution hardly ever is.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn far_off(counts: usize) -> f64 {
    (counts as f64 / FALSE_ALARM).ln() / std::f64::consts::SQRT_2
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 20;

    /// After so many windows, with so many jumps in the last of them.
    fn jumps(windows: u64, seen: u64) -> Jumps {
        let mut jumps = Jumps::default();
        (0..windows * WINDOW).for_each(|_| jumps.forget(1, WINDOW));
        let jump = Jump { square: 1.0, distance: 2.0 };
        (0..seen).for_each(|_| jumps.see(&jump, 4, 0, 5));
        jumps
    }

    #[test]
    fn the_rarer_jumps_are_the_less_is_kept_back_for_one() {
        let kept_back = |windows: u64, seen: u64| jumps(windows, seen).kept_back(WINDOW);
        assert_eq!((kept_back(0, 0), kept_back(2, 0)), (PARTS_KEPT_BACK, PARTS_KEPT_BACK));
        let quiet: Vec<u64> = [2, 5, 10, 20, 1_000].map(|windows| kept_back(windows, 0)).to_vec();
        assert!(quiet.is_sorted_by(|sooner, later| later <= sooner) && quiet[4] == 3, "{quiet:?}");
        assert_eq!((kept_back(1_000, 1), kept_back(1_000, 3)), (6, PARTS_KEPT_BACK));
    }
}
