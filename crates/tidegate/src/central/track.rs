//! `track`: a histogram at every timestamp, exact ones as often as is worth it, and an estimate from all of them.
//!
//! The scheduler divides the budget, and estimates the counts.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::histogram_noise;
use tidegate_kernel::{Epsilon, Ledger, Randomness, Sealed};

use crate::central::scheduler::{Budget, Published, Publisher, Scheduler};
use crate::central::uniform::publish;
use crate::central::{CentralError, CentralSettings, release};
use crate::estimate::Periods;
use crate::release::{Counts, Freshness, Release, Spent};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Track {
    /// Version of the saved form.
    version: u16,
    ledger: Ledger,
    periods: Periods,
    scheduler: Option<Scheduler>,
    last: Option<Counts>,
}

const VERSION: u16 = 10;

impl Track {
    pub(super) fn new(settings: &CentralSettings) -> Result<Self, CentralError> {
        settings.share(1)?;
        Ok(Self { version: VERSION, ledger: settings.ledger(), periods: settings.periods, scheduler: None, last: None })
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) const fn periods(&self) -> Periods {
        self.periods
    }

    pub(super) fn last(&self) -> Option<&Counts> {
        self.last.as_ref()
    }

    /// Whether the state is valid for these settings, after a push at `last_pushed`.
    pub(super) fn fits(&self, settings: &CentralSettings, last_pushed: Option<u64>) -> bool {
        let Self { version, ledger: _, periods, scheduler, last } = self;
        let domain = settings.domain as usize;
        let valid = |scheduler: &Scheduler| scheduler.fits(domain, &[budget(settings)], *periods, last_pushed);
        *version == VERSION
            && settings.share(1).is_ok()
            && scheduler.as_ref().is_none_or(valid)
            && (scheduler.is_some() || last_pushed.is_none())
            && last.is_some() == last_pushed.is_some()
    }

    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &CentralSettings,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histogram.timestamp();
        let mut publisher = OfTimestamp { ledger: &mut self.ledger, histogram, settings, random };
        let (spent, counts, mut why) =
            Scheduler::advance(&mut self.scheduler, &[budget(settings)], self.periods, &mut publisher)?;
        let counts = counts.unwrap_or_else(|| Counts::unknown(settings.domain));
        self.last = Some(counts.clone());
        let freshness = if spent.is_empty() { Freshness::Approximated } else { Freshness::Fresh };
        // A single class: everyone.
        why.asked.iter_mut().for_each(|asked| asked.class = None);
        Ok(release(timestamp, counts, freshness, Spent::by_everyone(Spent::by_class(spent).most())).because(why))
    }
}

const fn budget(settings: &CentralSettings) -> Budget {
    Budget { epsilon: settings.epsilon, window: settings.window.get() }
}

/// Publishes at one timestamp.
struct OfTimestamp<'a, R> {
    ledger: &'a mut Ledger,
    histogram: &'a Sealed<Vec<u64>>,
    settings: &'a CentralSettings,
    random: &'a mut R,
}

impl<R: Randomness> Publisher for OfTimestamp<'_, R> {
    fn publish(&mut self, offers: &[Option<Epsilon>]) -> Result<Option<Published>, CentralError> {
        let Some(amount) = offers.first().copied().flatten() else { return Ok(None) };
        let Counts { counts, variances } = publish(self.ledger, amount, self.histogram, self.settings, self.random)?;
        Ok(Some(Published { spent: vec![(0, amount)], took_part: vec![true], counts, variance: variances[0] }))
    }

    fn variance(&self, offers: &[Option<Epsilon>]) -> f64 {
        let noise = |amount: Epsilon| histogram_noise(self.settings.neighbours, NonZeroU64::MIN, amount).ok();
        let noise = offers.first().copied().flatten().and_then(noise);
        noise.map_or(f64::INFINITY, |noise| noise.laplace_variance())
    }

    fn timestamp(&self) -> u64 {
        self.histogram.timestamp()
    }
}
