//! `uniform`: publishes every histogram with `epsilon / w`.
//!
//! Source: Kellaris, Papadopoulos, Xiao and Papadias: Differentially Private Event Sequences over Infinite Streams,
//! PVLDB 7(12), 2014, doi:10.14778/2732977.2732989, Uniform.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{PrimitiveError, histogram_noise, noisy_histogram};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Sealed};

use crate::central::{CentralError, CentralSettings, counts_of, release};
use crate::release::why::{Paid, Purpose, Why};
use crate::release::{Counts, Freshness, Release, Spent};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Uniform {
    ledger: Ledger,
    share: Epsilon,
    last: Option<Counts>,
}

impl Uniform {
    /// Uniform of Kellaris et al. 2014, [in full above](self).
    pub(super) fn new(settings: &CentralSettings) -> Result<Self, CentralError> {
        Ok(Self::with_share(settings, settings.share(1)?))
    }

    /// Creates the mechanism with another share.
    pub(super) fn with_share(settings: &CentralSettings, share: Epsilon) -> Self {
        Self { ledger: settings.ledger(), share, last: None }
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) const fn last(&self) -> Option<&Counts> {
        self.last.as_ref()
    }

    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &CentralSettings,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histogram.timestamp();
        let counts = publish(&mut self.ledger, self.share, histogram, settings, random)?;
        self.last = Some(counts.clone());
        let every = if self.share == settings.epsilon { settings.window.get() } else { 1 };
        let why = Why::schedule(true, every).asked(vec![Paid::by_curator(Purpose::Publish, self.share)]);
        Ok(release(timestamp, counts, Freshness::Fresh, Spent::Everyone(self.share)).because(why))
    }
}

/// Spends on a histogram and publishes it.
pub(super) fn publish(
    ledger: &mut Ledger,
    amount: Epsilon,
    histogram: &Sealed<Vec<u64>>,
    settings: &CentralSettings,
    random: &mut impl Randomness,
) -> Result<Counts, CentralError> {
    let permit = ledger.spend(histogram.timestamp(), amount)?;
    let noise = histogram_noise(settings.neighbours, NonZeroU64::MIN, amount).map_err(PrimitiveError::from)?;
    let noisy = noisy_histogram(permit, histogram, settings.neighbours, NonZeroU64::MIN, random)?;
    Ok(counts_of(noisy.value(), noise.laplace_variance()))
}
