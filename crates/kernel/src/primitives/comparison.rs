//! Which of two readings is smaller.

use super::{Noised, PrimitiveError, paid_members};
use crate::permit::Permit;
use crate::random::Randomness;
use crate::randomised_response::RandomisedResponse;
use crate::sealed::Sealed;

/// Whether `left` is less than `right`, by randomised response on the one bit.
///
/// Each reading comes with the permit that pays for it, granted for the reading's own timestamp.
///
/// # Guarantee
/// If one of the readings changes, or both do, by any amount, the loss is at most the permits' common epsilon, and
/// almost all of it ([proof](crate::proofs::noisy_comparison)): no sensitivity enters. The answer is right with
/// probability `1 / (1 + e^-epsilon)`, however close or far apart the readings are. Equal readings are "not less".
///
/// # Errors
/// [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] for a permit that is not its reading's,
/// [`PrimitiveError::UnequalPermits`] where the permits are not of one amount, [`PrimitiveError::Response`] for an
/// epsilon above [`MAX_RESPONSE_EPSILON`](crate::MAX_RESPONSE_EPSILON).
///
/// ```
/// use tidegate_kernel::primitives::noisy_comparison;
/// use tidegate_kernel::{Grid, Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let grid = Grid::new(0.0, 50.0, 0.5)?;
/// let yesterday = (ledger.spend(0, "1".parse()?)?, &grid.seal(0, 21.0)?);
/// let today = (ledger.spend(1, "1".parse()?)?, &grid.seal(1, 21.5)?);
/// let warmer = noisy_comparison(yesterday, today, &mut SystemRandom::new()?)?;
/// println!("true with probability 0.73: {}", warmer.value());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_comparison(
    left: (Permit, &Sealed<i64>),
    right: (Permit, &Sealed<i64>),
    random: &mut impl Randomness,
) -> Result<Noised<bool>, PrimitiveError> {
    let is_less = left.1.content() < right.1.content();
    let (epsilon, _) = paid_members([left, right])?;
    let response = RandomisedResponse::new(2, epsilon)?;
    Ok(Noised::new(response.sample(u32::from(is_less), random) == 1, epsilon, random))
}
