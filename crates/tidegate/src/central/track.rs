//! `track`: histograms as often as is worth it, and an estimate from all of them.
//!
//! Noise falls with the square of what is spent at once, so rare and exact histograms tell more of a stream that stands still than frequent and noisy ones;
//! of a stream that moves they tell little about the time in between. How fast it moves is learned from what was published.

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Sealed};

use crate::central::uniform::publish;
use crate::central::{CentralError, Settings, release};
use crate::estimate::bank::Estimates;
use crate::estimate::follower::Follower;
use crate::release::{Counts, Freshness, Release};

/// The mechanism.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Track {
    /// Of the form in which it is saved.
    version: u16,
    ledger: Ledger,
    follower: Option<Follower>,
    /// When the first histogram was published.
    first: Option<u64>,
    /// When the last histogram was published, and how many timestamps later the next one is due.
    published: Option<(u64, u64)>,
    last: Option<Counts>,
}

const VERSION: u16 = 5;

/// Whether it is time to decide how often to publish: soon at first, then after every eighth histogram. Until then they are published at every timestamp.
pub(super) const fn decides(follower: &Follower) -> bool {
    let seen = follower.seen();
    seen == 2 || seen.is_multiple_of(if seen < 16 { 4 } else { 8 })
}

/// Into how many parts the window's budget is divided of which the first histogram has one, so that there is something to start from.
const PARTS_AT_FIRST: u64 = 4;

/// What a histogram can have if there is one every so many timestamps, of a window's budget of which so much is left.
///
/// The first one has a large part. As long as that one is in the window, the others share what is left; later, each has its regular part, or what is left
/// where that is not much less.
pub(super) fn affordable(
    budget: Epsilon,
    window: u64,
    period: u64,
    since_first: Option<u64>,
    left: Epsilon,
) -> Option<Epsilon> {
    let part = budget.divided_by(window.div_ceil(period.min(window)))?;
    match since_first {
        None => budget.divided_by(PARTS_AT_FIRST).map(|large| large.max(part).min(left)),
        Some(since) if since < window => left.divided_by((window - since).div_ceil(period)).map(|even| even.min(part)),
        // A share that is much smaller than meant is not worth a timestamp; the next ones have more.
        Some(_) => (left.units() >= part.units() / 2).then(|| part.min(left)),
    }
}

/// After how many timestamps to publish again, where counts that are published every so many timestamps have a variance.
pub(super) fn best_period(
    follower: &Follower,
    periods: impl Iterator<Item = u64>,
    variance: impl Fn(u64) -> f64,
) -> u64 {
    let error = |period: u64| follower.expected_error(period, variance(period));
    let mut best = (1, error(1));
    for period in periods {
        let error = error(period);
        if error < best.1 {
            best = (period, error);
        }
    }
    best.0
}

/// What is believed so many timestamps after the last publication.
pub(super) fn counts_after(follower: &Follower, gap: u64) -> Counts {
    let Estimates { means, variances } = follower.estimate(gap);
    Counts { counts: means, variances }
}

/// The periods worth trying: the shortest ones with which a window has room for some number of publications, each number about a fifth less than the one before.
pub(super) fn periods(window: u64) -> impl Iterator<Item = u64> {
    let fewer = |publications: &u64| (*publications > 1).then(|| (*publications * 4 / 5).max(1));
    std::iter::successors(Some(window), fewer).map(move |publications| window.div_ceil(publications))
}

impl Track {
    pub(super) fn new(settings: &Settings) -> Result<Self, CentralError> {
        settings.share(1)?;
        Ok(Self {
            version: VERSION,
            ledger: settings.ledger(),
            follower: None,
            first: None,
            published: None,
            last: None,
        })
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn last(&self) -> Option<&Counts> {
        let fits = |counts: &&Counts| {
            self.published.is_some()
                && self.follower.as_ref().is_some_and(|follower| follower.fits(counts.counts.len()))
        };
        self.last.as_ref().filter(fits)
    }

    /// Whether a state that was loaded can be one of these settings, after a push at this timestamp or before any.
    pub(super) fn fits(&self, settings: &Settings, last_pushed: Option<u64>) -> bool {
        let Self { version, ledger: _, follower, first, published, last } = self;
        let in_time = published.is_none_or(|(timestamp, period)| {
            Some(timestamp) <= last_pushed && (1..=settings.window.get()).contains(&period)
        });
        *version == VERSION
            && follower.is_some() == published.is_some()
            && first.is_some() == published.is_some()
            && *first <= published.map(|(timestamp, _)| timestamp)
            && last.is_some() == last_pushed.is_some()
            && follower.as_ref().is_none_or(|follower| follower.fits(settings.domain as usize))
            && in_time
    }

    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &Settings,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histogram.timestamp();
        let window = settings.window.get();
        let (gap, period) = self.published.map_or((0, 1), |(last, period)| (timestamp - last, period));
        let since_first = self.first.map(|first| timestamp - first);
        let left = self.ledger.remaining(timestamp);
        let share = left.and_then(|left| affordable(settings.epsilon, window, period, since_first, left));
        let due = gap >= period || self.follower.is_none();
        let (gap, freshness, spent) = match share.filter(|_| due) {
            Some(share) => {
                let noisy = publish(&mut self.ledger, share, histogram, settings, random)?;
                let variance = noisy.variances[0];
                // What an even share would have had, to which the models' amounts are relative.
                let even = |share: Epsilon, parts: u64| variance * square_of_ratio(share, settings.epsilon, parts);
                let start = || Follower::new(&noisy.counts, variance, even(share, window));
                let follower = self.follower.get_or_insert_with(start);
                self.first.get_or_insert(timestamp);
                follower.observe(gap, &noisy.counts, variance);
                let variance_at = |period: u64| even(share, window.div_ceil(period));
                let period =
                    if decides(follower) { best_period(follower, periods(window), variance_at) } else { period };
                self.published = Some((timestamp, period));
                (0, Freshness::Fresh, Some(share))
            }
            None => (gap, Freshness::Approximated, None),
        };
        let counts = match &self.follower {
            Some(follower) => counts_after(follower, gap),
            // The ledger has nothing left for a first histogram, which no sequence of calls can bring about.
            None => Counts { counts: vec![0.0; histogram.cells()], variances: vec![f64::MAX; histogram.cells()] },
        };
        self.last = Some(counts.clone());
        Ok(release(timestamp, counts, freshness, spent))
    }
}

/// By how much the variance of noise grows from a share to a part of an amount.
#[allow(clippy::cast_precision_loss)] // as many digits as a float has
fn square_of_ratio(share: Epsilon, whole: Epsilon, parts: u64) -> f64 {
    (share.as_f64() * parts as f64 / whole.as_f64()).powi(2)
}
