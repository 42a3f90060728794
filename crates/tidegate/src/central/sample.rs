//! `sample`: spends the whole budget at one timestamp of each window, and repeats that release, with the drift from one
//! sample to the next in its variances.

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Ledger, Randomness, Sealed};

use crate::central::uniform::Uniform;
use crate::central::{CentralError, CentralSettings, release};
use crate::release::{Counts, Freshness, Release, Spent};
use crate::sampling::Samples;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sample {
    publisher: Uniform,
    samples: Samples,
}

impl Sample {
    pub(super) fn new(settings: &CentralSettings) -> Self {
        Self { publisher: Uniform::with_share(settings, settings.epsilon), samples: Samples::None }
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        self.publisher.ledger()
    }

    pub(super) const fn last(&self) -> Option<&Counts> {
        self.publisher.last()
    }

    /// Whether a loaded state is about so many values.
    pub(super) fn fits(&self, domain: u32) -> bool {
        self.samples.fits(domain)
    }

    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &CentralSettings,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histogram.timestamp();
        let within = |last: u64| timestamp.saturating_sub(last) < settings.window.get();
        if let (Some(last), Some(counts)) = (self.samples.last(), self.last())
            && within(last)
        {
            let mut counts = counts.clone();
            // A count is at most the number of users.
            #[allow(clippy::cast_precision_loss)]
            let users = counts.population() as f64;
            self.samples.add_drift(&mut counts.variances, users * users);
            return Ok(release(timestamp, counts, Freshness::Approximated, Spent::Nothing));
        }
        let before = self.last().cloned();
        let published = self.publisher.push(histogram, settings, random)?;
        self.samples.sampled(timestamp);
        if let Some(before) = &before {
            self.samples.note_change((&before.counts, &before.variances), published.statistic.leaves());
        }
        Ok(published)
    }
}
