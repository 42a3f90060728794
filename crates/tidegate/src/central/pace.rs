//! [`Pace`]: what is believed of what was published, and when to publish again.
//!
//! Noise falls with the square of what is spent at once, so rare and exact histograms tell more of a stream that stands still than frequent and noisy ones;
//! of a stream that moves they tell little about the time in between. How fast it moves, and how often it jumps, is learned from what was published. So that no jump is missed
//! for long, a small part of the budget goes into histograms in between, which are taken in only where there has been one or little is known.

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
    /// When the first histogram was published, when the last, and when the last that was taken in; those in between that only watch are mostly not.
    first: u64,
    last: u64,
    taken_in: u64,
    publications: u64,
    period: u64,
    /// Whether there are histograms in between, and whether one of them has told of a jump since the last publication.
    watches: bool,
    alarmed: bool,
    /// By how much the squared errors of forecasts were more than models allow, as a mean over the counts, and what was left of that after alarms, in sum; and over how many timestamps. Both
    /// are forgotten slowly.
    jumps: f64,
    watched: f64,
}

/// Publishes histograms of a timestamp.
pub(super) trait Publisher {
    /// Publishes one, if it can be paid for and is [worth it](Turn::is_worth).
    fn publish(&mut self, purpose: Purpose, turn: Turn) -> Result<Option<Published>, CentralError>;

    /// The variance of a count if a histogram is published every so many timestamps, with all of the budget.
    fn variance_at(&self, period: u64) -> f64;

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

/// What a histogram is published for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To tell what the counts are.
    Tell,
    /// To tell whether they have jumped.
    Watch,
}

/// How it stands at a timestamp with the histograms that are paid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// How long ago the first one was.
    since_first: Option<u64>,
    period: u64,
    /// Whether there are some in between.
    watches: bool,
}

/// Into how many parts the window's budget is divided of which the first histogram has one, so that there is something to start from.
const PARTS_AT_FIRST: u64 = 4;

/// Into how many parts the budget is divided of which one is for watching.
const PARTS_TO_WATCH: u64 = 8;

/// How likely a histogram tells of a jump where there is none. One that watches is then believed until there is a better one, so it must be rare.
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
            && let Some(told) = publisher.publish(Purpose::Tell, turn)?
        {
            Self::observe(pace, &told, publisher);
            return Ok((most(told.spent), Freshness::Fresh));
        }
        let Some(watching) = pace.as_mut().filter(|pace| pace.watches) else {
            return Ok((None, Freshness::Approximated));
        };
        let Some(mut seen) = publisher.publish(Purpose::Watch, turn)? else {
            return Ok((None, Freshness::Approximated));
        };
        if watching.watch(timestamp, &seen)
            && let Some(told) = publisher.publish(Purpose::Tell, turn)?
        {
            Self::observe(pace, &told, publisher);
            seen.spent.extend(told.spent);
            return Ok((most(seen.spent), Freshness::Fresh));
        }
        watching.make_do(timestamp, &seen);
        Ok((most(seen.spent), Freshness::Approximated))
    }

    /// Takes in a histogram that tells what the counts are, and decides when the next is due.
    fn observe(pace: &mut Option<Self>, told: &Published, publisher: &impl Publisher) {
        let (timestamp, window) = (publisher.timestamp(), publisher.window());
        let Published { counts, variance, .. } = told;
        let begin = || Self::begin(timestamp, Follower::new(counts, *variance, publisher.variance_at(1)));
        let pace = pace.get_or_insert_with(begin);
        pace.forget(timestamp - pace.last, window);
        if pace.publications > 0 && !pace.alarmed {
            // A larger one would have been seen at any other timestamp, too.
            let largest =
                if pace.watches { watched_jump(counts.len(), publisher.variance_at(1)) } else { f64::INFINITY };
            pace.jumps += pace.jumped(timestamp, told, largest);
        }
        pace.take_in(timestamp, told);
        pace.last = timestamp;
        pace.publications = pace.publications.saturating_add(1);
        pace.alarmed = false;
        if pace.decides() {
            pace.decide(window, |period| publisher.variance_at(period));
        }
    }

    /// Before anything is taken in.
    const fn begin(timestamp: u64, follower: Follower) -> Self {
        Self {
            follower,
            first: timestamp,
            last: timestamp,
            taken_in: timestamp,
            publications: 0,
            period: 1,
            watches: false,
            alarmed: false,
            jumps: 0.0,
            watched: 0.0,
        }
    }

    /// Whether the counts are to be told again.
    const fn is_due(&self, timestamp: u64) -> bool {
        self.alarmed || timestamp - self.last >= self.period
    }

    /// Whether a histogram that watches tells of a jump, or one before it since the counts were told did.
    fn watch(&mut self, timestamp: u64, seen: &Published) -> bool {
        self.alarmed |= self.jumped(timestamp, seen, f64::INFINITY) > 0.0;
        self.alarmed
    }

    /// Takes in a histogram that watches, if there has been a jump or nothing is known that is better.
    fn make_do(&mut self, timestamp: u64, seen: &Published) {
        let mean = |Estimates { variances, .. }: Estimates| variances.iter().sum::<f64>() / variances.len() as f64;
        if self.alarmed {
            self.take_in(timestamp, seen);
            // The error that is left, as if it came in steps, one with every timestamp of the period.
            let steps = (self.period - 1).max(1) as f64 / 2.0;
            self.jumps += mean(self.follower.estimate(0)) / steps;
        } else if mean(self.follower.estimate(timestamp - self.taken_in)) > seen.variance {
            self.take_in(timestamp, seen);
        }
    }

    /// Takes in a histogram of either kind.
    fn take_in(&mut self, timestamp: u64, published: &Published) {
        self.follower.observe(timestamp - self.taken_in, &published.counts, published.variance);
        self.taken_in = timestamp;
    }

    /// The mean over the counts of the squares of how far they have jumped from what was expected, of which none is more than the largest.
    fn jumped(&self, timestamp: u64, published: &Published, largest: f64) -> f64 {
        let Published { counts, variance, .. } = published;
        let far = far_off(counts.len());
        let Estimates { means, variances } = self.follower.estimate(timestamp - self.taken_in);
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

    /// Decides after how many timestamps to publish again, up to a window, where counts that are published every so many timestamps, with all of the budget, have a variance.
    fn decide(&mut self, window: u64, variance: impl Fn(u64) -> f64) {
        let jumps = self.jumps / self.watched.max(1.0);
        // Jumps that are as large as counts are must be seen, or it is not worth watching for them.
        let parts = PARTS_TO_WATCH as f64;
        let counts = self.follower.estimate(0).means;
        let squares = counts.iter().map(|count| count * count).sum::<f64>() / counts.len() as f64;
        let can_watch = squares > watched_jump(counts.len(), variance(1));
        let excess = if can_watch { (parts / (parts - 1.0)).powi(2) } else { 1.0 };
        let error = |period: u64| {
            let excess = if period > 1 { excess } else { 1.0 };
            self.follower.expected_error(period, excess * variance(period)) + jumps * (period - 1) as f64 / 2.0
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
        let Estimates { means, variances } = self.follower.estimate(timestamp - self.taken_in);
        Counts { counts: means, variances }
    }

    /// Whether a state that was loaded can be one of so many counts, with periods up to a window, after a push at this timestamp or before any.
    pub(super) fn fits(&self, domain: usize, window: u64, last_pushed: Option<u64>) -> bool {
        let Self { follower, first, last, taken_in, publications, period, watches, alarmed, jumps, watched } = self;
        let amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        follower.fits(domain)
            && first <= last
            && last <= taken_in
            && Some(*taken_in) <= last_pushed
            && *publications > 0
            && (*watches || !*alarmed && taken_in == last)
            && (1..=window).contains(period)
            && amount(jumps)
            && amount(watched)
    }
}

impl Turn {
    /// What is known of a timestamp.
    const fn of(pace: Option<&Pace>, timestamp: u64) -> Self {
        match pace {
            Some(Pace { first, period, watches, .. }) => {
                Self { since_first: Some(timestamp - *first), period: *period, watches: *watches && *period > 1 }
            }
            None => Self { since_first: None, period: 1, watches: false },
        }
    }

    /// Whether to publish a histogram of a variance, where it would be another with an even part of the budget.
    pub(super) fn is_worth(&self, purpose: Purpose, variance: f64, even: f64) -> bool {
        variance.is_finite() && (purpose == Purpose::Watch || self.since_first.is_none() || variance < WORTHLESS * even)
    }

    /// What a histogram can have, of a window's budget of which so much is left.
    ///
    /// The first one has a large part. As long as that one is in the window, the others share what is left; later, each has its regular part, or what is left
    /// where that is not much less. What watches has its part at every timestamp that has no other.
    pub(super) fn affordable(&self, purpose: Purpose, budget: Epsilon, window: u64, left: Epsilon) -> Option<Epsilon> {
        let Self { since_first, period, watches } = *self;
        let to_watch = budget.divided_by(PARTS_TO_WATCH.saturating_mul(window));
        if purpose == Purpose::Watch {
            return to_watch.filter(|amount| *amount <= left);
        }
        // An even part of an amount, for so many timestamps.
        let even = |whole: Epsilon, timestamps: u64| {
            let parts = timestamps.div_ceil(period);
            let others = to_watch.filter(|_| watches).and_then(|amount| amount.checked_mul(timestamps - parts));
            others.map_or(Some(whole), |others| whole.checked_sub(others))?.divided_by(parts)
        };
        let part = even(budget, window)?;
        match since_first {
            None => Some(budget.divided_by(PARTS_AT_FIRST).map_or(part, |large| large.max(part)).min(left)),
            Some(since) if since < window => even(left, window - since).map(|even| even.min(part)),
            // A share that is much smaller than meant is not worth a timestamp; the next ones have more.
            Some(_) => (left.units() >= part.units() / 2).then(|| part.min(left)),
        }
    }
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

/// The square of a jump that is seen by watching, of one of so many counts, which have a variance with an even part of the budget.
#[allow(clippy::cast_precision_loss)] // a number of parts
fn watched_jump(counts: usize, even: f64) -> f64 {
    (far_off(counts) * PARTS_TO_WATCH as f64).powi(2) * even
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
