//! `track`: publishes histograms when they are worth their budget, and filters all of them.
//!
//! `PublicationScheduler` decides when, and forecasts in between.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{histogram_noise, noisy_distance};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Sealed};

use crate::central::scheduler::{
    MeasuredDistance, PublicationScheduler, Published, Publisher, SpendPlan, detection_share,
};
use crate::central::uniform::publish;
use crate::central::{CentralError, CentralSettings, release, rounded};
use crate::estimate::noise::ObservationNoise;
use crate::release::{Counts, Release, Spent};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Track {
    /// Version of the saved form.
    version: u16,
    ledger: Ledger,
    scheduler: Option<PublicationScheduler>,
    last: Option<Counts>,
}

const VERSION: u16 = 8;

impl Track {
    pub(super) fn new(settings: &CentralSettings) -> Result<Self, CentralError> {
        settings.share(1)?;
        Ok(Self { version: VERSION, ledger: settings.ledger(), scheduler: None, last: None })
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn last(&self) -> Option<&Counts> {
        self.last.as_ref()
    }

    /// Whether the state is valid for these settings, after a push at `last_pushed`.
    pub(super) fn fits(&self, settings: &CentralSettings, last_pushed: Option<u64>) -> bool {
        let Self { version, ledger: _, scheduler, last } = self;
        let (domain, window) = (settings.domain as usize, settings.window.get());
        *version == VERSION
            && settings.share(1).is_ok()
            && scheduler.as_ref().is_none_or(|scheduler| scheduler.fits(domain, window, last_pushed))
            && scheduler.is_some() == last_pushed.is_some()
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
        let (spent, freshness) = PublicationScheduler::advance(&mut self.scheduler, &mut publisher)?;
        let counts = match &self.scheduler {
            Some(scheduler) => scheduler.estimate(timestamp),
            // No budget for a first histogram; no sequence of calls leads here.
            None => Counts { counts: vec![0.0; histogram.cells()], variances: vec![f64::MAX; histogram.cells()] },
        };
        self.last = Some(counts.clone());
        // A single class: everyone.
        Ok(release(timestamp, counts, freshness, Spent::by_everyone(Spent::by_class(spent).most())))
    }
}

/// Publishes at one timestamp.
struct OfTimestamp<'a, R> {
    ledger: &'a mut Ledger,
    histogram: &'a Sealed<Vec<u64>>,
    settings: &'a CentralSettings,
    random: &'a mut R,
}

impl<R> OfTimestamp<'_, R> {
    /// Variance of a count published with a share.
    fn variance_of(&self, share: Epsilon) -> f64 {
        let noise = histogram_noise(self.settings.neighbours, NonZeroU64::MIN, share);
        noise.map_or(f64::INFINITY, |noise| noise.laplace_variance())
    }
}

impl<R: Randomness> Publisher for OfTimestamp<'_, R> {
    fn publish(&mut self, plan: SpendPlan) -> Result<Option<Published>, CentralError> {
        let share = plan.affordable(self.ledger, self.histogram.timestamp());
        let worth = |share: &Epsilon| plan.is_worth(self.variance_of(*share), self.noise_at(1).variance());
        let Some(share) = share.filter(worth) else { return Ok(None) };
        let Counts { counts, variances } = publish(self.ledger, share, self.histogram, self.settings, self.random)?;
        Ok(Some(Published { spent: vec![(0, share)], counts, noise: ObservationNoise::laplace(variances[0]) }))
    }

    fn measure(&mut self, expected: &[f64], parts: u64) -> Result<Option<MeasuredDistance>, CentralError> {
        let CentralSettings { epsilon, window, neighbours, .. } = *self.settings;
        let timestamp = self.histogram.timestamp();
        let left = self.ledger.remaining(timestamp);
        let Some(share) =
            left.and_then(|left| detection_share(epsilon, window.get(), parts).filter(|share| *share <= left))
        else {
            return Ok(None);
        };
        let permit = self.ledger.spend(timestamp, share)?;
        let expected = rounded(expected);
        let noisy = noisy_distance(permit, self.histogram, &expected, neighbours, NonZeroU64::MIN, self.random)?;
        #[allow(clippy::cast_precision_loss)] // a number of users
        let distance = noisy.into_value() as f64;
        Ok(Some(MeasuredDistance { spent: vec![(0, share)], distance, scale: self.distance_scale(parts) }))
    }

    fn distance_scale(&self, parts: u64) -> f64 {
        let share = detection_share(self.settings.epsilon, self.window(), parts);
        share.map_or(f64::INFINITY, |share| (self.variance_of(share) / 2.0).sqrt())
    }

    fn noise_at(&self, period: u64) -> ObservationNoise {
        let share = self.settings.epsilon.divided_by(self.window().div_ceil(period));
        ObservationNoise::laplace(share.map_or(f64::INFINITY, |share| self.variance_of(share)))
    }

    fn timestamp(&self) -> u64 {
        self.histogram.timestamp()
    }

    fn window(&self) -> u64 {
        self.settings.window.get()
    }
}
