//! Truncation of readings at a private bound.
//!
//! Source: Li, Qin, Ren, Gong, Feng, Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS
//! 2025, program doi:10.5281/zenodo.13643225, section VI.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{Bound, Held, noisy_bound};
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::ScalarError;
use super::settings::{ScalarSettings, Truncation};

/// Candidate bounds per halving.
const TO_A_HALVING: i32 = 4;

/// Halvings from the width to the lowest bound.
const HALVINGS: i32 = 8;

/// Candidate bounds: the upper end of the domain, and a logarithmic ladder below it.
pub(super) fn candidates(range: &RangeInclusive<i64>) -> Vec<i64> {
    #[allow(clippy::cast_precision_loss)] // public
    let width = range.end().abs_diff(*range.start()) as f64;
    let at = |rung: i32| {
        let height = (width * (-f64::from(rung) / f64::from(TO_A_HALVING)).exp2()).round().max(1.0);
        #[allow(clippy::cast_possible_truncation)] // no more than the width, at most 2^32
        let height = height as i64;
        range.start() + height
    };
    let mut bounds: Vec<i64> = (0..=HALVINGS * TO_A_HALVING).map(at).collect();
    bounds.dedup();
    bounds
}

/// Chooses a bound for a sample of readings, whose permits pay for nothing else.
///
/// The cost of a bound is what it cuts off plus the remaining noise: for each release, `error` times its height.
pub(super) fn choose_bound(
    sample: Vec<(Permit, &Sealed<i64>)>,
    error: f64,
    settings: &ScalarSettings,
    random: &mut impl Randomness,
) -> Result<Option<i64>, ScalarError> {
    if sample.is_empty() {
        return Ok(None);
    }
    let range = settings.grid.range();
    let bounds = candidates(&range);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // public; saturates
    let cost = |at: i64| (sample.len() as f64 * error * (at - range.start()) as f64) as i64;
    let candidates: Vec<Bound> = bounds.iter().map(|at| Bound { at: *at, cost: cost(*at) }).collect();
    let chosen = noisy_bound(sample, &candidates, range, settings.protects, random)?.into_value();
    Ok(bounds.get(chosen).copied())
}

/// Batches of a mechanism that releases without delay.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Number of batches begun.
    pub(super) begun: u64,
    /// First timestamp of the present batch.
    pub(super) first: Option<u64>,
    /// Whether a bound is still to be chosen, until a batch has a sample.
    pub(super) due: bool,
    /// Sampled readings of the present batch.
    pub(super) sample: Held,
}

/// Saved public part.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBatches {
    pub(super) begun: u64,
    pub(super) first: Option<u64>,
    pub(super) due: bool,
}

impl Batches {
    /// Whether the present batch is over at a timestamp.
    pub(super) fn is_over(&self, timestamp: u64, settings: &ScalarSettings) -> bool {
        self.first.is_none_or(|first| timestamp - first > u64::from(settings.delay))
    }

    pub(super) fn begin(&mut self, timestamp: u64, truncation: Truncation) {
        self.due |= self.begun.is_multiple_of(u64::from(truncation.every.get()));
        self.begun += 1;
        self.first = Some(timestamp);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests {
    use tidegate_kernel::primitives::{Protects, bound_noise};
    use tidegate_kernel::{Grid, Ledger, SeededRandom, Window};

    use super::*;

    /// One reading at the upper end: each bound wins as often as noise at the scale of a whole reading makes it.
    #[test]
    fn a_bound_is_chosen_with_the_noise_that_a_reading_needs() {
        let grid = Grid::new(0.0, 100_000.0, 1.0).unwrap();
        let (epsilon, range) = ("4".parse().unwrap(), grid.range());
        let settings = ScalarSettings::new(epsilon, grid, 9);
        let bounds = candidates(&range);
        let scored: Vec<Bound> = bounds.iter().map(|at| Bound { at: *at, cost: 0 }).collect();
        let scale = bound_noise(&scored, &range, Protects::Reading, epsilon).unwrap().as_f64();
        assert!((scale / 25_000.0 - 1.0).abs() < 0.01, "the width over epsilon: {scale}");
        // Scores in scales, and the probability that one noisy score exceeds all others.
        let scores: Vec<f64> = bounds.iter().map(|at| (*at - range.end()) as f64 / scale).collect();
        let wins = |index: usize, noise: f64| {
            let below = |other: &f64| 1.0 - (-(noise + scores[index] - other).max(0.0)).exp();
            let others = scores.iter().enumerate().filter(|(other, _)| *other != index);
            (-noise).exp() * others.map(|(_, other)| below(other)).product::<f64>()
        };
        let expected: f64 = (0..30_000).map(|step| wins(0, (f64::from(step) + 0.5) / 1_000.0) / 1_000.0).sum();
        let (mut random, runs, mut first) = (SeededRandom::new(3), 20_000_u32, 0_u32);
        let mut ledger = Ledger::new(epsilon, Window::EVENT);
        for timestamp in 0..u64::from(runs) {
            let reading = grid.seal(ledger.account(), timestamp, 100_000.0).unwrap();
            let sample = vec![(ledger.spend(timestamp, epsilon).unwrap(), &reading)];
            let chosen = choose_bound(sample, 0.0, &settings, &mut random).unwrap();
            first += u32::from(chosen == Some(*range.end()));
        }
        let attained = f64::from(first) / f64::from(runs);
        // Five standard deviations: false-failure probability below 1e-6.
        let deviation = (expected * (1.0 - expected) / f64::from(runs)).sqrt();
        assert!((attained - expected).abs() < 5.0 * deviation + 1e-4, "{attained} {expected}");
        assert!(expected < 0.9, "less noise would be seen: {expected}");
    }
}
