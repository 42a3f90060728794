//! Noisy L1 distance of a histogram from a public one.

use std::num::NonZeroU64;

use super::{Neighbours, Noised, PrimitiveError, histogram_noise, paid};
use crate::noise::DiscreteLaplace;
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::sealed::Sealed;

/// The L1 distance of the counts from a public histogram, usually the last one released, with [discrete
/// Laplace](DiscreteLaplace) noise.
///
/// # Guarantee
/// As for [`noisy_histogram`](super::noisy_histogram), one user's contribution to the timestamp is protected at a loss
/// of exactly the permit's epsilon ([proof](crate::proofs::noisy_distance)). The result is unbiased with the
/// [`laplace_variance`](crate::noise::NoiseScale::laplace_variance) of [`histogram_noise`], for any number of cells. It
/// can be negative.
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit does
/// not match the counts; [`PrimitiveError::Length`] if the numbers of cells differ; [`PrimitiveError::Scale`] if the
/// contribution is out of range.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate_kernel::primitives::{Neighbours, noisy_distance, seal_histogram};
/// use tidegate_kernel::{Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let counts = seal_histogram(ledger.account(), 0, [2, 0, 2, 2, 1], 4)?;
/// let permit = ledger.spend(0, "1".parse()?)?;
/// let last_release = [1, 3, 1, 0];
/// let random = &mut SystemRandom::new()?;
/// let noisy = noisy_distance(permit, &counts, &last_release, Neighbours::AddRemove, NonZeroU64::MIN, random)?;
/// println!("about 4, namely {}", noisy.value());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_distance(
    permit: Permit,
    counts: &Sealed<Vec<u64>>,
    reference: &[i64],
    neighbours: Neighbours,
    contribution: NonZeroU64,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    let epsilon = paid(&permit, counts)?;
    let counts = counts.content();
    check_length(reference, counts.len())?;
    let noise = DiscreteLaplace::new(histogram_noise(neighbours, contribution, epsilon)?);
    let distance = distance(counts.iter().map(|count| i128::from(*count)), reference);
    let random = &mut FreshRandom::new(random)?;
    Ok(Noised::new(noise.add_to(distance, random), epsilon, random))
}

pub(super) fn check_length(reference: &[i64], expected: usize) -> Result<(), PrimitiveError> {
    if reference.len() != expected {
        return Err(PrimitiveError::Length { what: "reference counts", given: reference.len(), expected });
    }
    Ok(())
}

/// The sum of the absolute differences.
pub(super) fn distance(counts: impl Iterator<Item = i128>, reference: &[i64]) -> i128 {
    counts.zip(reference).map(|(count, reference)| (count - i128::from(*reference)).abs()).sum()
}
