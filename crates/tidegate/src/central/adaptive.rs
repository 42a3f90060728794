//! Common part of `bd` and `ba`: measure the change of the stream, then publish or repeat.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::noisy_distance;
use tidegate_kernel::{Epsilon, Ledger, Randomness, Sealed};

use crate::central::uniform::publish;
use crate::central::{CentralError, CentralSettings, drifted, release, rounded};
use crate::policy::{Policy, Proposal};
use crate::release::why::{Measure, Paid, Purpose, Reason, Why};
use crate::release::{Counts, Freshness, Release, Spent};

/// At each timestamp, a fixed share measures the mean absolute distance to the last release. The histogram is published
/// if the distance exceeds the mean absolute error of publishing with the proposed amount.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Adaptive {
    ledger: Ledger,
    /// Spend on measuring the distance.
    share: Epsilon,
    policy: Policy,
    last: Option<Counts>,
}

impl Adaptive {
    pub(super) fn new(settings: &CentralSettings, share: Epsilon, policy: Policy) -> Self {
        Self { ledger: settings.ledger(), share, policy, last: None }
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) const fn last(&self) -> Option<&Counts> {
        self.last.as_ref()
    }

    /// Limits an amount to the remaining budget; `None` if that is zero.
    fn affordable(&self, timestamp: u64, units: u64) -> Option<Epsilon> {
        let left = self.ledger.remaining(timestamp)?;
        Epsilon::from_units(units.min(left.units())).ok()
    }

    pub(super) fn push(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &CentralSettings,
        random: &mut impl Randomness,
    ) -> Result<Release, CentralError> {
        let timestamp = histogram.timestamp();
        let distance = self.distance(histogram, settings, random)?;
        let (proposed, skipped, reason) = match self.policy.propose(timestamp) {
            Proposal::Spend(units) => (units, Freshness::Approximated, Reason::Unchanged),
            Proposal::Nullify => (0, Freshness::Nullified, Reason::Absorbed),
        };
        let amount = self.affordable(timestamp, proposed);
        let measured = distance.map(|(distance, _)| distance);
        let spent = distance.map(|(_, spent)| spent);
        // The mean absolute error of Laplace noise is its scale.
        let error = amount.map(|amount| sensitivity(settings) / amount.as_f64());
        let mut asked: Vec<Paid> = spent.iter().map(|spent| Paid::by_curator(Purpose::Measure, *spent)).collect();
        if let Some(last) = &self.last {
            let worth_it = error.zip(measured).is_some_and(|(error, distance)| distance > error);
            if !worth_it {
                let counts = drifted(last, measured);
                let reason = match reason {
                    Reason::Unchanged if amount.is_none() || measured.is_none() => Reason::NoBudget,
                    reason => reason,
                };
                let why = Why::new(reason).asked(asked).compared(Measure::MeanDistance, measured, error);
                return Ok(release(timestamp, counts, skipped, Spent::by_everyone(spent)).because(why));
            }
        }
        // The first timestamp has nothing to repeat, and always some budget.
        let reason = if self.last.is_none() { Reason::First } else { Reason::Changed };
        let amount = amount.unwrap_or(self.share);
        asked.push(Paid::by_curator(Purpose::Publish, amount));
        let why = Why::new(reason).asked(asked).compared(Measure::MeanDistance, measured, error);
        let counts = publish(&mut self.ledger, amount, histogram, settings, random)?;
        self.policy.note_spend(timestamp, amount.units());
        self.last = Some(counts.clone());
        let spent = spent.map_or(Some(amount), |first| first.checked_add(amount));
        Ok(release(timestamp, counts, Freshness::Fresh, Spent::by_everyone(spent)).because(why))
    }

    /// Noisy mean absolute distance to the last release, and its spend.
    #[allow(clippy::cast_precision_loss)]
    fn distance(
        &mut self,
        histogram: &Sealed<Vec<u64>>,
        settings: &CentralSettings,
        random: &mut impl Randomness,
    ) -> Result<Option<(f64, Epsilon)>, CentralError> {
        let timestamp = histogram.timestamp();
        let amount = self.affordable(timestamp, self.share.units());
        let (Some(last), Some(amount)) = (&self.last, amount) else { return Ok(None) };
        let permit = self.ledger.spend(timestamp, amount)?;
        let reference = rounded(&last.counts);
        let once = NonZeroU64::MIN;
        let noisy = noisy_distance(permit, histogram, &reference, settings.neighbours, once, random)?;
        Ok(Some((noisy.into_value() as f64 / f64::from(settings.domain), amount)))
    }
}

/// Sensitivity of a histogram to one user.
#[allow(clippy::cast_precision_loss)] // one or two
fn sensitivity(settings: &CentralSettings) -> f64 {
    settings.neighbours.histogram_sensitivity(NonZeroU64::MIN) as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod tests {
    use tidegate_kernel::{SeededRandom, UNITS_PER_EPSILON};

    use super::*;

    const WINDOW: u64 = 50;

    fn settings() -> CentralSettings {
        CentralSettings::new(Epsilon::from_units(UNITS_PER_EPSILON).unwrap(), NonZeroU64::new(WINDOW).unwrap(), 4)
    }

    /// Largest spend of any window.
    fn fullest_window(spends: &[u64]) -> u64 {
        spends.windows(WINDOW as usize).map(|window| window.iter().sum()).max().unwrap_or(0)
    }

    /// Absorption that forgets its last publication: its state afterwards is that of before.
    fn forgetful(mechanism: &mut Adaptive, step: impl FnOnce(&mut Adaptive) -> u64) -> u64 {
        let before = serde_json::to_string(&mechanism.policy).unwrap();
        let spent = step(mechanism);
        mechanism.policy = serde_json::from_str(&before).unwrap();
        spent
    }

    /// Without a ledger, the mutant spends epsilon / 2 at every timestamp after the first window.
    #[test]
    fn absorption_that_forgets_its_last_publication_would_spend_25_budgets_in_a_window() {
        let mut mechanism = crate::central::ba::new(&settings()).unwrap();
        let propose = |mechanism: &mut Adaptive, timestamp| match mechanism.policy.propose(timestamp) {
            Proposal::Spend(amount) => {
                mechanism.policy.note_spend(timestamp, amount);
                amount
            }
            Proposal::Nullify => 0,
        };
        // The first proposal fixes the start of the stream, which even the mutant remembers.
        let _ = mechanism.policy.propose(0);
        let mutant: Vec<u64> =
            (0..300).map(|timestamp| forgetful(&mut mechanism, |inner| propose(inner, timestamp))).collect();
        let budget = settings().epsilon.units();
        assert_eq!(fullest_window(&mutant), 25 * budget);

        let mut honest = crate::central::ba::new(&settings()).unwrap();
        let honest: Vec<u64> = (0..300).map(|timestamp| propose(&mut honest, timestamp)).collect();
        assert!(fullest_window(&honest) <= budget / 2);
    }

    /// With a ledger, the mutant cannot exceed the budget.
    #[test]
    fn the_ledger_stops_absorption_that_forgets_its_last_publication() {
        let mut mechanism = crate::central::ba::new(&settings()).unwrap();
        let (mut random, settings) = (SeededRandom::new(1), settings());
        let spends: Vec<u64> = (0..300)
            .map(|timestamp| {
                let count = if timestamp % 2 == 0 { 0 } else { 1_000_000 };
                let counts = Sealed::at(mechanism.ledger().account(), timestamp, vec![count; 4]);
                forgetful(&mut mechanism, |inner| {
                    let release = inner.push(&counts, &settings, &mut random).unwrap();
                    release.spent.most().map_or(0, Epsilon::units)
                })
            })
            .collect();
        let fullest = fullest_window(&spends);
        assert!(fullest <= settings.epsilon.units(), "{fullest}");
        // It takes everything, so that soon too little is left to measure.
        assert!(fullest > settings.epsilon.units() - 100 && spends.contains(&0), "{fullest}");
    }
}
