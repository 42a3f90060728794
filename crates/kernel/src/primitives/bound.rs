//! Private choice of a clipping bound.

use std::ops::RangeInclusive;

use super::max::{Scores, index_of_largest};
use super::reading::Clamp;
use super::{Noised, PrimitiveError, Protects, paid_members};
use crate::epsilon::Epsilon;
use crate::noise::{Geometric, NoiseScale};
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::sealed::Sealed;

/// A candidate bound for clipping readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The bound, a grid index.
    pub at: i64,
    /// Public cost of the bound, in grid units over all readings: for instance, the error of the noise for readings up
    /// to the bound.
    pub cost: i64,
}

/// The scale of the [one-sided noise](Geometric) that [`noisy_bound`] adds to the score of each candidate.
///
/// # Errors
/// [`PrimitiveError::Nothing`] for no candidates; [`PrimitiveError::Range`] for a range of fewer than two points;
/// [`PrimitiveError::Scale`] if the sensitivity is out of range.
pub fn bound_noise(
    candidates: &[Bound],
    range: &RangeInclusive<i64>,
    protects: Protects,
    epsilon: Epsilon,
) -> Result<NoiseScale, PrimitiveError> {
    let sensitivity = protects.sensitivity(range)?;
    let lowest = candidates.iter().map(|candidate| candidate.at).min();
    let lowest = lowest.ok_or(PrimitiveError::Nothing { expected: "candidate" })?;
    // Only parts above the lowest bound are clipped. If there are none, the scores are public.
    let most_cut_off = range.end().abs_diff(lowest.clamp(*range.start(), *range.end()));
    Ok(Scores::OneDirectional.noise(sensitivity.min(most_cut_off).max(1), epsilon)?)
}

/// Selects the best of several public clipping bounds for a group of readings, by report noisy max. A bound's score is
/// the clipped amount, `sum max(0, reading - bound)`, plus its public cost, minus [one-sided](Geometric) noise. The
/// result is the index of the lowest score; ties go to the lowest index.
///
/// Each reading comes with its permit, as in [`noisy_sum`](super::noisy_sum), and is first clamped to a public range.
///
/// # Guarantee
/// If some readings change as `protects` says, the loss is at most the sum of their permits
/// ([proof](crate::proofs::noisy_bound)). Only the index is safe to publish. [`bound_noise`] gives the scale of the
/// noise. The sensitivity is [`Protects::sensitivity`], or the distance from the lowest bound to the upper end of the
/// range if less.
///
/// To use the bound, pass it as the end of the range of later primitives. They need their own permits.
///
/// # Errors
/// Those of [`bound_noise`] and [`noisy_sum`](super::noisy_sum).
///
/// ```
/// use tidegate_kernel::primitives::{Bound, Protects, noisy_bound};
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
///
/// let epsilon: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(epsilon, Window::EVENT);
/// let grid = Grid::new(0.0, 1_000.0, 1.0)?;
/// let mut members = Vec::new();
/// let readings = (0..1_000).map(|t| grid.seal(ledger.account(), t, 40.0)).collect::<Result<Vec<_>, _>>()?;
/// for reading in &readings {
///     members.push((ledger.spend(reading.timestamp(), epsilon)?, reading));
/// }
/// // A bound of 10 cuts off 30,000; one of 1,000 needs more noise.
/// let candidates = [10, 100, 1_000].map(|at| Bound { at, cost: 20 * at });
/// let random = &mut SystemRandom::new()?;
/// let chosen = noisy_bound(members, &candidates, grid.range(), Protects::Reading, random)?;
/// assert_eq!(candidates[*chosen.value()].at, 100); // except with probability 10^-7
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_bound<'a>(
    members: impl IntoIterator<Item = (Permit, &'a Sealed<i64>)>,
    candidates: &[Bound],
    range: RangeInclusive<i64>,
    protects: Protects,
    random: &mut impl Randomness,
) -> Result<Noised<usize>, PrimitiveError> {
    let (epsilon, readings) = paid_members(members)?;
    let noise = Geometric::new(bound_noise(candidates, &range, protects, epsilon)?);
    let clamp = Clamp::new(&range)?;
    let score = |candidate: &Bound| {
        let bound = i128::from(candidate.at);
        let cut_off = |reading: &&Sealed<i64>| (i128::from(clamp.apply(reading)) - bound).max(0);
        -readings.iter().map(cut_off).sum::<i128>() - i128::from(candidate.cost)
    };
    let random = &mut FreshRandom::new(random)?;
    let index = index_of_largest(candidates.iter().map(score), &noise, random);
    let index = index.ok_or(PrimitiveError::Nothing { expected: "candidate" })?;
    Ok(Noised::new(index, epsilon, random))
}
