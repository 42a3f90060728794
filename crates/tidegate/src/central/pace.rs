//! [`Pace`]: what is believed of what was published, and when to publish again.
//!
//! Noise falls with the square of what is spent at once, so rare and exact histograms tell more of a stream that stands still than frequent and noisy ones;
//! of a stream that moves they tell little about the time in between. How fast it moves, and how often it jumps, is learned from what was published. So that no jump is missed,
//! a small part of the budget goes into measuring, in between, how far the counts are from what is believed: a single number, whose noise is small beside all counts. Some of the rest is kept back,
//! to tell the counts again when there has been a jump.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::central::CentralError;
use crate::estimate::bank::Estimates;
use crate::estimate::follower::Follower;
use crate::release::{Counts, Freshness};

/// What is believed of the histograms that were published, and after how many timestamps another is due.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pace {
    follower: Follower,
    /// When the first histogram was published, and when the last.
    first: u64,
    last: u64,
    publications: u64,
    period: u64,
    /// Whether distances can be measured in between.
    watches: bool,
    /// What distances were off by beyond what is expected of them and of noise, summed up since the last publication, in scales of their noise.
    excess: f64,
    /// By how much distances are more than expected where nothing has jumped, and from how many of them that is known.
    offset: f64,
    measured: u64,
    /// The mean square of a jump, seen since the last publication.
    alarm: Option<f64>,
    /// By how much the squared errors of forecasts were more than models allow, as a mean over the counts, and what was left of that after alarms, in sum; and over how many timestamps. Both
    /// are forgotten slowly.
    jumps: f64,
    watched: f64,
}

/// Publishes something of a timestamp.
pub(super) trait Publisher {
    /// Publishes the histogram, if it can be paid for and is [worth it](Turn::is_worth).
    fn tell(&mut self, turn: Turn) -> Result<Option<Published>, CentralError>;

    /// Measures how far the counts are from what is expected of them, if that can be paid for.
    fn measure(&mut self, expected: &[f64]) -> Result<Option<Measured>, CentralError>;

    /// The variance of a count if a histogram is published every so many timestamps, with all of the budget.
    fn variance_at(&self, period: u64) -> f64;

    /// The scale of the noise of a distance, if it can be paid for.
    fn distance_scale(&self) -> f64;

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
    /// The variance of its counts.
    pub(super) variance: f64,
}

/// A distance that was measured.
pub(super) struct Measured {
    /// What was spent on it, by class.
    pub(super) spent: Vec<(u32, Epsilon)>,
    /// The sum over the counts of how far each is from what was expected, with noise of a scale.
    pub(super) distance: f64,
    pub(super) scale: f64,
}

/// How it stands at a timestamp with what is paid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// How long ago the first histogram was.
    since_first: Option<u64>,
    period: u64,
    /// Whether distances are measured in between.
    watches: bool,
    /// The mean square of a jump that has been seen.
    alarm: Option<f64>,
}

/// Into how many parts the window's budget is divided of which the first histogram has one, so that there is something to start from.
const PARTS_AT_FIRST: u64 = 4;

/// Into how many parts the budget is divided of which one is for measuring distances.
const PARTS_TO_WATCH: u64 = 8;

/// How many scales of its noise a distance may be off at each timestamp, and by how many all of them together may be off beyond that, before there has been a jump. Noise alone takes more than a thousand
/// timestamps to that.
const ALLOWED: f64 = 1.0;
const ALARMING: f64 = 8.0;

/// How many distances are remembered for what to expect of them.
const OFFSET_OF: u64 = 32;
const MEASURED_AT_FIRST: u64 = 4;

/// How likely one of the counts that are told is taken for a jump where there is none.
const FALSE_ALARM: f64 = 1e-6;

/// After how many windows about a third of the jumps is still remembered.
const REMEMBERED: f64 = 32.0;

/// A histogram whose variance is by this factor more than it is with an even part of the budget tells too little: it is better to wait.
const WORTHLESS: f64 = 16.0;

#[allow(clippy::cast_precision_loss)] // a number of timestamps or of counts
impl Pace {
    /// Publishes what is due at a timestamp, and takes it in. What was spent, and whether the counts are told afresh.
    pub(super) fn advance(
        pace: &mut Option<Self>,
        publisher: &mut impl Publisher,
    ) -> Result<(Option<Epsilon>, Freshness), CentralError> {
        let timestamp = publisher.timestamp();
        let turn = Turn::of(pace.as_ref(), timestamp);
        if pace.as_ref().is_none_or(|pace| pace.is_due(timestamp))
            && let Some(told) = publisher.tell(turn)?
        {
            Self::observe(pace, &told, publisher);
            return Ok((most(told.spent), Freshness::Fresh));
        }
        let Some(watching) = pace.as_mut().filter(|pace| pace.watches && pace.alarm.is_none()) else {
            return Ok((None, Freshness::Approximated));
        };
        let expected = watching.follower.estimate(timestamp - watching.last);
        let Some(Measured { mut spent, distance, scale }) = publisher.measure(&expected.means)? else {
            return Ok((None, Freshness::Approximated));
        };
        watching.watch(distance, scale, &expected, publisher.variance_at(watching.period));
        if watching.alarm.is_some()
            && let Some(told) = publisher.tell(Turn { alarm: watching.alarm, ..turn })?
        {
            Self::observe(pace, &told, publisher);
            spent.extend(told.spent);
            return Ok((most(spent), Freshness::Fresh));
        }
        Ok((most(spent), Freshness::Approximated))
    }

    /// Takes in a histogram, and decides when the next is due.
    fn observe(pace: &mut Option<Self>, told: &Published, publisher: &impl Publisher) {
        let (timestamp, window) = (publisher.timestamp(), publisher.window());
        let Published { counts, variance, .. } = told;
        let begin = || Self::begin(timestamp, Follower::new(counts, *variance, publisher.variance_at(1)));
        let pace = pace.get_or_insert_with(begin);
        pace.forget(timestamp - pace.last, window);
        let mut jumped = pace.alarm.is_some();
        if pace.publications > 0 && pace.alarm.is_none() {
            // A larger one would have been seen at any other timestamp, too.
            let seen = SEEN_AT_ONCE * publisher.distance_scale();
            let largest = if pace.watches { seen * seen } else { f64::INFINITY };
            let jumps = pace.jumped(timestamp, told, largest);
            pace.jumps += jumps;
            jumped = jumps > 0.0;
        }
        pace.follower.observe(timestamp - pace.last, counts, *variance);
        if pace.alarm.take().is_some() {
            // The error that is left, as if it came in steps, one with every timestamp of the period.
            let steps = (pace.period - 1).max(1) as f64 / 2.0;
            pace.jumps += mean(&pace.follower.estimate(0).variances) / steps;
        }
        pace.excess = 0.0;
        pace.last = timestamp;
        pace.publications = pace.publications.saturating_add(1);
        if pace.decides() || jumped {
            pace.decide(window, publisher.distance_scale(), |period| publisher.variance_at(period));
        }
    }

    /// Before anything is taken in.
    const fn begin(timestamp: u64, follower: Follower) -> Self {
        Self {
            follower,
            first: timestamp,
            last: timestamp,
            publications: 0,
            period: 1,
            watches: false,
            excess: 0.0,
            offset: 0.0,
            measured: MEASURED_AT_FIRST,
            alarm: None,
            jumps: 0.0,
            watched: 0.0,
        }
    }

    /// Whether the counts are to be told again.
    const fn is_due(&self, timestamp: u64) -> bool {
        self.alarm.is_some() || timestamp - self.last >= self.period
    }

    /// Looks whether a distance from what was expected, the noise of which has a scale, tells of a jump, alone or with those before it, where counts that are told have a variance.
    fn watch(&mut self, distance: f64, scale: f64, expected: &Estimates, told: f64) {
        // What normal errors come to, and those of rounding. Where little is known, what is told would be better than that.
        let error = |variance: &f64| (std::f64::consts::FRAC_2_PI * (variance.min(4.0 * told) + 1.0 / 12.0)).sqrt();
        let more = distance - expected.variances.iter().map(error).sum::<f64>();
        let off = (more - self.offset) / scale;
        self.excess = (self.excess + off - ALLOWED).max(0.0);
        self.measured = (self.measured + 1).min(OFFSET_OF);
        self.offset = (self.offset + scale * off.clamp(-ALARMING, ALARMING) / self.measured as f64).max(0.0);
        if self.excess > ALARMING {
            let of_count = scale * off.max(1.0) / expected.means.len() as f64;
            self.alarm = Some(of_count * of_count);
        }
    }

    /// The mean over the counts of the squares of how far they have jumped from what was expected, of which none is more than the largest.
    fn jumped(&self, timestamp: u64, published: &Published, largest: f64) -> f64 {
        let Published { counts, variance, .. } = published;
        let far = far_off(counts.len());
        let Estimates { means, variances } = self.follower.estimate(timestamp - self.last);
        let expected = means.iter().zip(&variances).map(|(mean, uncertain)| (mean, uncertain + variance));
        let jump = |(count, (mean, allowed)): (&f64, (&f64, f64))| {
            let square = (count - mean).powi(2);
            if square > far * far * allowed { (square - allowed).min(largest) } else { 0.0 }
        };
        counts.iter().zip(expected).map(jump).sum::<f64>() / counts.len() as f64
    }

    /// Forgets jumps, over some timestamps.
    fn forget(&mut self, timestamps: u64, window: u64) {
        let remembered = REMEMBERED * window as f64;
        let kept = (-(timestamps as f64) / remembered).exp();
        self.jumps *= kept;
        self.watched = kept * self.watched + (1.0 - kept) * remembered;
    }

    /// Whether it is time to decide how often to publish: soon at first, then after every eighth histogram. Until then they are published at every timestamp.
    const fn decides(&self) -> bool {
        let seen = self.publications;
        seen == 2 || seen.is_multiple_of(if seen < 16 { 4 } else { 8 })
    }

    /// Decides after how many timestamps to publish again, up to a window, where counts that are published every so many timestamps, with all of the budget, have a variance, and distances
    /// noise of a scale.
    fn decide(&mut self, window: u64, scale: f64, variance: impl Fn(u64) -> f64) {
        let jumps = self.jumps / self.watched.max(1.0);
        // Where a quarter of the users change their value, which adds half their number to the distance, that must be seen at once, or it is not worth watching.
        let users: f64 = self.follower.estimate(0).means.iter().sum();
        let can_watch = users / 2.0 > SEEN_AT_ONCE * scale;
        let error = |period: u64| {
            let less = if can_watch && period > 1 { regular_part(window.div_ceil(period)) } else { 1.0 };
            self.follower.expected_error(period, variance(period) / (less * less)) + jumps * (period - 1) as f64 / 2.0
        };
        let mut best = (1, error(1));
        for period in periods(window) {
            let error = error(period);
            if error < best.1 {
                best = (period, error);
            }
        }
        self.period = best.0;
        self.watches = can_watch;
    }

    /// What is believed at a timestamp.
    pub(super) fn believed(&self, timestamp: u64) -> Counts {
        let Estimates { means, mut variances } = self.follower.estimate(timestamp - self.last);
        if let Some(jump) = self.alarm {
            variances.iter_mut().for_each(|variance| *variance += jump);
        }
        Counts { counts: means, variances }
    }

    /// Whether a state that was loaded can be one of so many counts, with periods up to a window, after a push at this timestamp or before any.
    pub(super) fn fits(&self, domain: usize, window: u64, last_pushed: Option<u64>) -> bool {
        let Self {
            follower,
            first,
            last,
            publications,
            period,
            watches,
            excess,
            offset,
            measured,
            alarm,
            jumps,
            watched,
        } = self;
        let amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        follower.fits(domain)
            && first <= last
            && Some(*last) <= last_pushed
            && *publications > 0
            && (*watches || alarm.is_none())
            && (1..=window).contains(period)
            && amount(excess)
            && offset.is_finite()
            && *measured <= OFFSET_OF
            && alarm.as_ref().is_none_or(amount)
            && amount(jumps)
            && amount(watched)
    }
}

impl Turn {
    /// What is known of a timestamp.
    const fn of(pace: Option<&Pace>, timestamp: u64) -> Self {
        match pace {
            Some(Pace { first, period, watches, alarm, .. }) => Self {
                since_first: Some(timestamp - *first),
                period: *period,
                watches: *watches && *period > 1,
                alarm: *alarm,
            },
            None => Self { since_first: None, period: 1, watches: false, alarm: None },
        }
    }

    /// Whether to publish a histogram of a variance, where it would be another with an even part of the budget.
    pub(super) fn is_worth(&self, variance: f64, even: f64) -> bool {
        let most = (WORTHLESS * even).max(self.alarm.unwrap_or(0.0));
        variance.is_finite() && (self.since_first.is_none() || variance < most)
    }

    /// What a histogram can have, of a window's budget of which so much is left.
    ///
    /// The first one has a large part. As long as that one is in the window, the others share what is left; later, each has its regular part, or what is left
    /// where that is not much less. Where there can be an alarm, [`SPENT`] of what is left at a time is spent.
    pub(super) fn affordable(&self, budget: Epsilon, window: u64, left: Epsilon) -> Option<Epsilon> {
        let Self { since_first, period, watches, alarm } = *self;
        // The regular part of an amount, for so many timestamps.
        let regular = |whole: Epsilon, timestamps: u64| {
            let parts = timestamps.div_ceil(period);
            if !watches {
                return whole.divided_by(parts);
            }
            let distances = to_watch(budget, window).and_then(|amount| amount.checked_mul(timestamps - parts));
            let whole = distances.map_or(Some(whole), |distances| whole.checked_sub(distances))?;
            whole.checked_mul(SPENT.0)?.divided_by(SPENT.0 * parts + SPENT.1 - SPENT.0)
        };
        let part = regular(budget, window)?;
        // So that something is left for an alarm.
        let some = |left: Epsilon| left.checked_mul(SPENT.0)?.divided_by(SPENT.1).map(|some| some.min(part));
        if alarm.is_some() {
            // What comes after it is to be seen, too.
            let distances = to_watch(budget, window).filter(|_| watches);
            let distances = distances.and_then(|amount| amount.checked_mul(window.div_ceil(2)));
            return distances.map_or(Some(left), |distances| left.checked_sub(distances)).and_then(some);
        }
        match since_first {
            None => Some(budget.divided_by(PARTS_AT_FIRST).map_or(part, |large| large.max(part)).min(left)),
            Some(since) if since < window => regular(left, window - since).map(|even| even.min(part)),
            // A share that is much smaller than meant is not worth a timestamp; the next ones have more.
            Some(_) => {
                let share = if watches { some(left)? } else { part.min(left) };
                (share.units() >= part.units() / 2).then_some(share)
            }
        }
    }
}

/// What a distance costs, of a window's budget.
pub(super) fn to_watch(budget: Epsilon, window: u64) -> Option<Epsilon> {
    budget.divided_by(PARTS_TO_WATCH.saturating_mul(window))
}

/// How much of what is left for histograms one of them has where there can be an alarm, so that something is left for that.
const SPENT: (u64, u64) = (1, 2);

/// A jump of the distance by so many scales of its noise is seen at once.
const SEEN_AT_ONCE: f64 = ALLOWED + ALARMING;

/// What a regular histogram has where there can be an alarm, as a part of what it has otherwise, if there are so many in a window.
#[allow(clippy::cast_precision_loss)] // a number of histograms
fn regular_part(parts: u64) -> f64 {
    let (of, whole) = (SPENT.0 as f64, SPENT.1 as f64);
    let parts = parts as f64;
    (1.0 - 1.0 / PARTS_TO_WATCH as f64) * of * parts / (of * parts + whole - of)
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The most that any class has spent.
fn most(spends: Vec<(u32, Epsilon)>) -> Option<Epsilon> {
    let mut by_class = BTreeMap::new();
    for (class, amount) in spends {
        let spent = by_class.entry(class).or_insert(0_u64);
        *spent = spent.saturating_add(amount.units());
    }
    by_class.into_values().max().and_then(|units| Epsilon::from_units(units).ok())
}

/// By how many standard deviations one of so many counts must be off to have jumped: noise that has a Laplace distribution hardly ever is.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn far_off(counts: usize) -> f64 {
    (counts as f64 / FALSE_ALARM).ln() / std::f64::consts::SQRT_2
}

/// The periods worth trying: the shortest ones with which a window has room for some number of publications, each number about a fifth less than the one before.
fn periods(window: u64) -> impl Iterator<Item = u64> {
    let fewer = |publications: &u64| (*publications > 1).then(|| (*publications * 4 / 5).max(1));
    std::iter::successors(Some(window), fewer).map(move |publications| window.div_ceil(publications))
}
