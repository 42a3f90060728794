//! Readings and sums of readings on a public grid.

use std::ops::RangeInclusive;

use super::reading::Clamp;
use super::{Noised, PrimitiveError, Protects, paid, paid_exactly, paid_members};
use crate::epsilon::Epsilon;
use crate::noise::{DiscreteLaplace, NoiseScale};
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::sealed::Sealed;

/// A reading, in grid units, clamped to a public range, with [discrete Laplace](DiscreteLaplace) noise.
///
/// # Guarantee
/// What `protects` says is protected at a loss of exactly the permit's epsilon ([proof](crate::proofs::noisy_scalar)):
/// any change of the reading, or a change by one contributor. The sensitivity follows from that and from the width of
/// the range ([`Protects::sensitivity`]); for a reading on a grid whose whole domain matters the range is
/// [`Grid::range`](crate::Grid::range). The result is an unbiased estimate of the clamped reading, with the
/// [`laplace_variance`](NoiseScale::laplace_variance) of [`NoiseScale::calibrated`]`(sensitivity, epsilon)` in squared grid
/// units. Sums beyond `i64` are returned as its ends, which is post-processing.
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] for a permit that is
/// not the reading's, [`PrimitiveError::Range`] for a range of fewer than two points, [`PrimitiveError::Scale`] for a
/// sensitivity above [`NoiseScale::MAX_SENSITIVITY`].
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

/// The sum of several readings, in grid units, each clamped to a public range, with one
/// [discrete Laplace](DiscreteLaplace) noise.
///
/// Each reading comes with the permit that pays for it, granted for the reading's own timestamp: a sum over a group of
/// timestamps tells something about each of them, so each of them is charged.
///
/// # Guarantee
/// If some of the readings change as `protects` says, the loss is at most the sum of the permits of those that changed
/// ([proof](crate::proofs::noisy_scalar)). So one reading's loss is its own permit's epsilon, however many others are
/// in the sum (parallel composition), and whatever window the ledger guards, its account is right. Which readings are
/// in the sum must be public. The result is an unbiased estimate of the sum of the clamped readings, with the variance
/// of [`noisy_scalar`]. Sums beyond `i64` are returned as its ends, which is post-processing.
///
/// # Errors
/// [`PrimitiveError::UnequalPermits`] where the permits are not of one amount, [`PrimitiveError::Nothing`] for no
/// readings, and the errors of [`noisy_scalar`].
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

/// [`noisy_scalar`] and [`noisy_sum`], set up once for many readings.
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
    /// Sums of readings clamped to a range, for permits of `epsilon`.
    ///
    /// # Errors
    /// [`PrimitiveError::Range`] and [`PrimitiveError::Scale`], as [`noisy_scalar`].
    pub fn new(range: RangeInclusive<i64>, protects: Protects, epsilon: Epsilon) -> Result<Self, PrimitiveError> {
        let clamp = Clamp::new(&range)?;
        let scale = NoiseScale::calibrated(protects.within(&clamp), epsilon)?;
        Ok(Self { clamp, epsilon, scale, noise: DiscreteLaplace::new(scale) })
    }

    /// The scale of the noise of one sum.
    pub const fn scale(&self) -> NoiseScale {
        self.scale
    }

    /// The sum of the readings, with noise.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`], [`PrimitiveError::ClassPermit`] and
    /// [`PrimitiveError::UnequalPermits`] for a permit that is not its reading's or not of the epsilon,
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

    /// The noisy sum of readings that have been paid for.
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
