//! Noisy histogram.

use std::num::NonZeroU64;

use zeroize::Zeroizing;

use super::{HistogramError, Neighbours, Noised, PrimitiveError, paid};
use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::noise::{DiscreteLaplace, NoiseScale, ScaleError};
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::randomised_response::MAX_DOMAIN;
use crate::sealed::Sealed;

/// Seals the histogram of users' values at a timestamp, over the domain `0..domain`.
///
/// # Errors
/// [`HistogramError::Value`] for a value outside the domain (with its position, not the value);
/// [`HistogramError::Cells`] for a domain outside `1..=`[`MAX_DOMAIN`].
pub fn seal_histogram(
    account: Account,
    timestamp: u64,
    values: impl IntoIterator<Item = u32>,
    domain: u32,
) -> Result<Sealed<Vec<u64>>, HistogramError> {
    if !(1..=MAX_DOMAIN).contains(&domain) {
        return Err(HistogramError::Cells { cells: u64::from(domain) });
    }
    let mut counts = Zeroizing::new(vec![0_u64; domain as usize]);
    for (position, value) in values.into_iter().enumerate() {
        let count = counts.get_mut(value as usize).ok_or(HistogramError::Value { position, domain })?;
        // There are fewer than 2^64 values.
        *count = count.wrapping_add(1);
    }
    Ok(Sealed::at(account, timestamp, std::mem::take(&mut *counts)))
}

/// The noise scale of [`noisy_histogram`] and [`noisy_distance`](super::noisy_distance); its
/// [`laplace_variance`](NoiseScale::laplace_variance) is their variance.
pub fn histogram_noise(
    neighbours: Neighbours,
    contribution: NonZeroU64,
    epsilon: Epsilon,
) -> Result<NoiseScale, ScaleError> {
    NoiseScale::calibrated(neighbours.histogram_sensitivity(contribution), epsilon)
}

/// The counts of a histogram, each with independent [discrete Laplace](DiscreteLaplace) noise.
///
/// # Guarantee
/// One user's contribution to the timestamp, at most `contribution` counts, is protected as `neighbours` says, at a
/// loss of exactly the permit's epsilon ([proof](crate::proofs::noisy_histogram)). Each count is unbiased, with the
/// [`laplace_variance`](NoiseScale::laplace_variance) of [`histogram_noise`]. Counts saturate at `i64`, which is
/// post-processing.
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit does
/// not match the counts; [`PrimitiveError::Scale`] if the contribution is out of range.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate_kernel::primitives::{Neighbours, histogram_noise, noisy_histogram, seal_histogram};
/// use tidegate_kernel::{Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let counts = seal_histogram(ledger.account(), 0, [2, 0, 2, 2, 1], 4)?;
/// let permit = ledger.spend(0, "1".parse()?)?;
/// let (neighbours, once) = (Neighbours::AddRemove, NonZeroU64::MIN);
/// let noisy = noisy_histogram(permit, &counts, neighbours, once, &mut SystemRandom::new()?)?;
/// assert_eq!(noisy.value().len(), 4);
/// assert!(noisy.provenance().is_private());
/// let variance = histogram_noise(neighbours, once, noisy.epsilon())?.laplace_variance();
/// assert!((variance - 1.8414).abs() < 1e-4); // in each cell
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_histogram(
    permit: Permit,
    counts: &Sealed<Vec<u64>>,
    neighbours: Neighbours,
    contribution: NonZeroU64,
    random: &mut impl Randomness,
) -> Result<Noised<Vec<i64>>, PrimitiveError> {
    let epsilon = paid(&permit, counts)?;
    let noise = DiscreteLaplace::new(histogram_noise(neighbours, contribution, epsilon)?);
    let random = &mut FreshRandom::new(random)?;
    let noised = counts.content().iter().map(|count| noise.add_to(i128::from(*count), random)).collect();
    Ok(Noised::new(noised, epsilon, random))
}
