//! Readings and sums of readings on a public grid.

use super::{Noised, PrimitiveError, common_epsilon};
use crate::epsilon::Epsilon;
use crate::noise::{DiscreteLaplace, Scale};
use crate::permit::Permit;
use crate::random::Randomness;
use crate::sealed::Sealed;

/// A reading, in grid units, with [discrete Laplace](DiscreteLaplace) noise.
///
/// # Guarantee
/// A change of the reading by at most `sensitivity` grid units is protected at a loss of exactly the permit's epsilon
/// ([proof](crate::proofs::noisy_scalar)). Where the reading itself is the secret, the sensitivity is
/// [`Grid::width`](crate::Grid::width). The result is unbiased, with the [`laplace_variance`](Scale::laplace_variance)
/// of [`Scale::calibrated`]`(sensitivity, epsilon)` in squared grid units. Sums beyond `i64` are returned as its ends,
/// which is post-processing.
///
/// # Errors
/// [`PrimitiveError::Scale`] for a sensitivity of zero or above [`Scale::MAX_SENSITIVITY`].
///
/// ```
/// use tidegate_kernel::primitives::noisy_scalar;
/// use tidegate_kernel::{Grid, Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let grid = Grid::new(0.0, 50.0, 0.5)?;
/// let reading = grid.seal(21.3)?;
/// let permit = ledger.spend(0, "1".parse()?)?;
/// let noisy = noisy_scalar(permit, &reading, grid.width(), &mut SystemRandom::new()?)?;
/// println!("about 21.5, give or take 50: {}", grid.value_of(*noisy.value()));
/// assert!((0.0..=50.0).contains(&grid.value_within(*noisy.value())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_scalar(
    permit: Permit,
    reading: &Sealed<i64>,
    sensitivity: u64,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    publish(i128::from(*reading.content()), sensitivity, permit.epsilon(), random)
}

/// The sum of several readings, in grid units, with one [discrete Laplace](DiscreteLaplace) noise.
///
/// Each reading comes with the permit that pays for it, granted for the reading's own timestamp: a sum over a group of
/// timestamps tells something about each of them, so each of them is charged.
///
/// # Guarantee
/// If some of the readings change, each by at most `sensitivity` grid units, the loss is at most the sum of the
/// permits of those that changed ([proof](crate::proofs::noisy_scalar)). So one reading's loss is its own permit's
/// epsilon, however many others are in the sum (parallel composition), and whatever window the ledger guards, its
/// account is right. Which readings are in the sum must be public. The result is unbiased, with the variance of
/// [`noisy_scalar`]. Sums beyond `i64` are returned as its ends, which is post-processing.
///
/// # Errors
/// [`PrimitiveError::UnequalPermits`] where the permits are not of one amount, [`PrimitiveError::Nothing`] for no
/// readings, [`PrimitiveError::Scale`] as for [`noisy_scalar`].
///
/// ```
/// use tidegate_kernel::primitives::noisy_sum;
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
///
/// let epsilon: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(epsilon, Window::EVENT);
/// let grid = Grid::new(0.0, 10.0, 1.0)?;
/// let readings = [grid.seal(4.0)?, grid.seal(5.0)?, grid.seal(4.0)?];
/// let permits = [ledger.spend(0, epsilon)?, ledger.spend(1, epsilon)?, ledger.spend(2, epsilon)?];
/// let noisy = noisy_sum(permits.into_iter().zip(&readings), grid.width(), &mut SystemRandom::new()?)?;
/// println!("about 13, namely {}", noisy.value());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_sum<'a>(
    members: impl IntoIterator<Item = (Permit, &'a Sealed<i64>)>,
    sensitivity: u64,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    let (permits, readings): (Vec<Permit>, Vec<&Sealed<i64>>) = members.into_iter().unzip();
    if readings.is_empty() {
        return Err(PrimitiveError::Nothing { expected: "reading" });
    }
    let epsilon = common_epsilon(permits)?;
    publish(readings.iter().map(|reading| i128::from(*reading.content())).sum(), sensitivity, epsilon, random)
}

fn publish(
    value: i128,
    sensitivity: u64,
    epsilon: Epsilon,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    let noise = DiscreteLaplace::new(Scale::calibrated(sensitivity, epsilon)?);
    Ok(Noised::new(noise.add_to(value, random), epsilon, random))
}
