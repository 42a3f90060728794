//! `sample`: spends the whole budget at one timestamp of each window, and repeats that release.
//!
//! Source: Kellaris, Papadopoulos, Xiao and Papadias: Differentially Private Event Sequences over Infinite Streams,
//! PVLDB 7(12), 2014, doi:10.14778/2732977.2732989, Sample.

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Ledger, Randomness, Sealed};

use crate::central::uniform::Uniform;
use crate::central::{CentralError, CentralSettings, release};
use crate::release::why::Why;
use crate::release::{Counts, Freshness, Release, Spent};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sample {
    publisher: Uniform,
    last_sampled: Option<u64>,
}

impl Sample {
    /// Sample of Kellaris et al. 2014, [in full above](self).
    pub(super) fn new(settings: &CentralSettings) -> Self {
        Self { publisher: Uniform::with_share(settings, settings.epsilon), last_sampled: None }
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        self.publisher.ledger()
    }

    pub(super) const fn last(&self) -> Option<&Counts> {
        self.publisher.last()
    }

    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &CentralSettings,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histogram.timestamp();
        let within = |last: u64| timestamp.saturating_sub(last) < settings.window.get();
        if let (Some(last), Some(counts)) = (self.last_sampled, self.last())
            && within(last)
        {
            // Nothing measures how far the stream has moved since.
            let repeated = release(timestamp, counts.unstated(), Freshness::Approximated, Spent::Nothing);
            return Ok(repeated.because(Why::schedule(false, settings.window.get())));
        }
        let published = self.publisher.push(histogram, settings, random)?;
        self.last_sampled = Some(timestamp);
        Ok(published)
    }
}
