//! Noisy readings and sums of readings.

use std::ops::RangeInclusive;

use super::reading::Clamp;
use super::{Noised, PrimitiveError, Protects, paid, paid_exactly, paid_members};
use crate::epsilon::Epsilon;
use crate::noise::{DiscreteLaplace, NoiseScale};
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::sealed::Sealed;

/// A reading in grid units, clamped to a public range, with [discrete Laplace](DiscreteLaplace) noise.
///
/// # Guarantee
/// Changes as `protects` says (any change of the reading, or that of one contributor) are protected at a loss of
/// exactly the permit's epsilon ([proof](crate::proofs::noisy_scalar)). The sensitivity is [`Protects::sensitivity`] of
/// the range; for the whole domain of a grid, the range is [`Grid::range`](crate::Grid::range). The result is an
/// unbiased estimate of the clamped reading, with the [`laplace_variance`](NoiseScale::laplace_variance) of
/// [`NoiseScale::calibrated`]`(sensitivity, epsilon)` in squared grid units. It saturates at `i64`, which is
/// post-processing.
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit does
/// not match the reading; [`PrimitiveError::Range`] for a range of fewer than two points; [`PrimitiveError::Scale`] for
/// a sensitivity above [`NoiseScale::MAX_SENSITIVITY`].
///
/// ```
/// use tidegate_kernel::primitives::{Protects, noisy_scalar};
/// use tidegate_kernel::{Grid, Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let grid = Grid::new(0.0, 50.0, 0.5)?;
/// let reading = grid.seal(ledger.account(), 0, 21.3)?;
/// let permit = ledger.spend(0, "1".parse()?)?;
/// let noisy = noisy_scalar(permit, &reading, grid.range(), Protects::Reading, &mut SystemRandom::new()?)?;
/// println!("about 21.5, give or take 50: {}", grid.value_of(*noisy.value()));
/// assert!((0.0..=50.0).contains(&grid.value_within(*noisy.value())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_scalar(
    permit: Permit,
    reading: &Sealed<i64>,
    range: RangeInclusive<i64>,
    protects: Protects,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    let epsilon = paid(&permit, reading)?;
    Summing::new(range, protects, epsilon)?.publish([(permit, reading)], random)
}

/// The sum of several readings in grid units, each clamped to a public range, with one [discrete
/// Laplace](DiscreteLaplace) noise.
///
/// Each reading comes with a permit for its own timestamp: the sum reveals something about each timestamp, so each is
/// charged.
///
/// # Guarantee
/// If some readings change as `protects` says, the loss is at most the sum of their permits
/// ([proof](crate::proofs::noisy_scalar)). So the loss of one reading is its own permit's epsilon, for any number of
/// readings (parallel composition), and the ledger's account is correct for any window. The choice of readings must be
/// public. The result is an unbiased estimate of the sum of the clamped readings, with the variance of
/// [`noisy_scalar`]. It saturates at `i64`, which is post-processing.
///
/// # Errors
/// [`PrimitiveError::UnequalPermits`] if the permits' amounts differ; [`PrimitiveError::Nothing`] for no readings; and
/// those of [`noisy_scalar`].
///
/// ```
/// use tidegate_kernel::primitives::{Protects, noisy_sum};
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
///
/// let epsilon: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(epsilon, Window::EVENT);
/// let grid = Grid::new(0.0, 10.0, 1.0)?;
/// let seal = |timestamp, reading| grid.seal(ledger.account(), timestamp, reading);
/// let readings = [seal(0, 4.0)?, seal(1, 5.0)?, seal(2, 4.0)?];
/// let permits = [ledger.spend(0, epsilon)?, ledger.spend(1, epsilon)?, ledger.spend(2, epsilon)?];
/// let members = permits.into_iter().zip(&readings);
/// let noisy = noisy_sum(members, grid.range(), Protects::Reading, &mut SystemRandom::new()?)?;
/// println!("about 13, namely {}", noisy.value());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noisy_sum<'a>(
    members: impl IntoIterator<Item = (Permit, &'a Sealed<i64>)>,
    range: RangeInclusive<i64>,
    protects: Protects,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    let (epsilon, readings) = paid_members(members)?;
    Summing::new(range, protects, epsilon)?.add_up(readings.into_iter(), random)
}

/// A [`noisy_sum`] prepared for many readings.
///
/// # Guarantee
/// That of [`noisy_sum`], for each [publication](Self::publish).
#[derive(Clone, Copy, Debug)]
pub struct Summing {
    clamp: Clamp,
    epsilon: Epsilon,
    scale: NoiseScale,
    noise: DiscreteLaplace,
}

impl Summing {
    /// Creates sums of readings clamped to a range, for permits of `epsilon`.
    ///
    /// # Errors
    /// [`PrimitiveError::Range`] and [`PrimitiveError::Scale`], as for [`noisy_scalar`].
    pub fn new(range: RangeInclusive<i64>, protects: Protects, epsilon: Epsilon) -> Result<Self, PrimitiveError> {
        let clamp = Clamp::new(&range)?;
        let scale = NoiseScale::calibrated(protects.within(&clamp), epsilon)?;
        Ok(Self { clamp, epsilon, scale, noise: DiscreteLaplace::new(scale) })
    }

    /// The noise scale of one sum.
    pub const fn scale(&self) -> NoiseScale {
        self.scale
    }

    /// Publishes the noisy sum of readings.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`], [`PrimitiveError::ClassPermit`] and
    /// [`PrimitiveError::UnequalPermits`] if a permit does not match its reading or the epsilon;
    /// [`PrimitiveError::Nothing`] for no readings.
    #[inline]
    pub fn publish<'a>(
        &self,
        members: impl IntoIterator<Item = (Permit, &'a Sealed<i64>)>,
        random: &mut impl Randomness,
    ) -> Result<Noised<i64>, PrimitiveError> {
        let (mut sum, mut count) = (0_i128, 0_usize);
        for (permit, reading) in members {
            paid_exactly(&permit, reading, self.epsilon)?;
            sum += i128::from(self.clamp.apply(reading));
            count += 1;
        }
        if count == 0 {
            return Err(PrimitiveError::Nothing { expected: "reading" });
        }
        let random = &mut FreshRandom::new(random)?;
        Ok(Noised::new(self.noise.add_to(sum, random), self.epsilon, random))
    }

    /// Publishes the noisy sum of paid readings.
    fn add_up<'a>(
        &self,
        readings: impl Iterator<Item = &'a Sealed<i64>>,
        random: &mut impl Randomness,
    ) -> Result<Noised<i64>, PrimitiveError> {
        let random = &mut FreshRandom::new(random)?;
        let sum = readings.map(|reading| i128::from(self.clamp.apply(reading))).sum();
        Ok(Noised::new(self.noise.add_to(sum, random), self.epsilon, random))
    }
}
