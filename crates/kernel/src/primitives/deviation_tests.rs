//! Tests for similar readings at any positions.

use std::ops::RangeInclusive;

use super::deviation;
use super::reading::Clamp;
use super::{Noised, PrimitiveError, Protects, Side, paid_exactly};
use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::noise::{DiscreteLaplace, NoiseScale, ScaleError};
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, Randomness};
use crate::sealed::Sealed;
use crate::step::RandomisedStep;
use crate::vault::wipe;

/// Noisy threshold tests of the [deviation](super::SealedQuery::deviation) of arbitrary groups in a batch of readings.
/// Each test has its own noise and answers with the [`Side`] of a public threshold.
///
/// A permit pays for a total sensitivity of its reading, over all tests, that suffices in the *worst* case. The usage
/// of each reading is recorded, and a test that exceeds the total of one of its readings is refused. Usage and refusals
/// depend only on the tested groups, which are public.
///
/// # Guarantee
/// If a reading changes as `protects` says, all answers together lose at most its permit's epsilon
/// ([proof](crate::proofs::deviation_tests)). If several change, the losses add up. The choice of groups may depend on
/// earlier answers. Readings are clamped to the range first.
///
/// The total is `sum over n = 2..=batch of 2·s·(n-1)/n = 2·s·(batch - H)`, where `s` is [`Protects::sensitivity`] and
/// `H` the harmonic number of `batch`. It suffices if each reading of the batch is tested with groups of earlier ones
/// until it joins one. Each test has discrete Laplace noise of [this scale](Self::scale).
///
/// ```
/// use tidegate_kernel::primitives::{DeviationTests, PrimitiveError, Protects, Side};
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
///
/// let epsilon: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(epsilon, Window::EVENT);
/// let grid = Grid::new(0.0, 10.0, 1.0)?;
/// let random = &mut SystemRandom::new()?;
/// let mut tests = DeviationTests::new(grid.range(), Protects::Reading, epsilon, 1_000, 2)?;
/// for timestamp in 0..2 {
///     tests.admit(ledger.spend(timestamp, epsilon)?, &grid.seal(ledger.account(), timestamp, 4.0)?)?;
/// }
/// assert_eq!(tests.total_sensitivity(), 10.0); // a batch of two has one test to go through
/// assert_eq!(*tests.ask(&[0, 1], random)?.value(), Side::Below); // except with probability 10^-43
/// assert_eq!(tests.ask(&[0, 1], random), Err(PrimitiveError::UsedUp { timestamp: 0 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DeviationTests {
    clamp: Clamp,
    sensitivity: u64,
    epsilon: Epsilon,
    threshold: i128,
    /// Parts of a grid unit, to which deviations and sensitivities are rounded.
    fine: u64,
    /// Total sensitivity that a permit pays for, in those parts.
    total: u64,
    scale: NoiseScale,
    noise: DiscreteLaplace,
    members: Vec<Member>,
    /// The readings of the tested group.
    group: Sealed<Vec<u64>>,
}

#[derive(Debug)]
struct Member {
    /// Offset of the reading from the lower end of the range.
    above_low: Sealed<u64>,
    /// Used part of the total.
    used: u64,
    tests: u64,
}

/// Whether a noisy secret lies below a public threshold.
pub(crate) struct NoisyTest<'a> {
    pub(crate) secret: i128,
    pub(crate) threshold: i128,
    pub(crate) noise: &'a DiscreteLaplace,
}

impl RandomisedStep for NoisyTest<'_> {
    type Output = bool;

    #[inline]
    fn draw(&mut self, random: &mut impl Randomness) -> bool {
        self.secret.saturating_add(self.noise.sample(random)) < self.threshold
    }
}

impl DeviationTests {
    /// Maximum readings of a batch. Set-up time and noise grow in proportion to it.
    pub const MAX_BATCH: usize = 1 << 20;

    /// Maximum parts of a grid unit.
    const FINEST: u64 = 1 << 20;

    /// Creates tests of readings clamped to a range, for permits of `epsilon` and batches of `batch` readings. The
    /// threshold is in grid units.
    ///
    /// # Errors
    /// [`PrimitiveError::Range`] for a range of fewer than two points; [`PrimitiveError::Scale`] if the total is out of
    /// range: use a coarser grid or a smaller batch; [`PrimitiveError::Batch`] for a batch above
    /// [`MAX_BATCH`](Self::MAX_BATCH).
    pub fn new(
        range: RangeInclusive<i64>,
        protects: Protects,
        epsilon: Epsilon,
        threshold: i64,
        batch: usize,
    ) -> Result<Self, PrimitiveError> {
        if batch > Self::MAX_BATCH {
            return Err(PrimitiveError::Batch { given: batch, most: Self::MAX_BATCH });
        }
        let clamp = Clamp::new(&range)?;
        let sensitivity = protects.within(&clamp);
        let batch = batch as u64;
        // Below 2·s for each further reading.
        let bound = sensitivity.saturating_mul(2).saturating_mul(batch.max(1));
        let error = ScaleError { sensitivity: bound };
        // Finer parts lose less to rounding: take the largest power of two for which a scale exists.
        let room = NoiseScale::MAX_SENSITIVITY.checked_div(bound).filter(|room| *room > 0).ok_or(error)?;
        let fine = (1 << room.ilog2()).min(Self::FINEST);
        let total = (2..=batch).map(|count| deviation::sensitivity(count, sensitivity, fine)).sum::<u64>().max(1);
        let scale = NoiseScale::calibrated(total, epsilon)?;
        Ok(Self {
            clamp,
            sensitivity,
            epsilon,
            threshold: i128::from(threshold) * i128::from(fine),
            fine,
            total,
            scale,
            noise: DiscreteLaplace::new(scale),
            members: Vec::new(),
            group: Sealed::at(Account::NOBODY, 0, Vec::new()),
        })
    }

    /// Total sensitivity of the deviations to one reading, in grid units, over all its tests.
    #[allow(clippy::cast_precision_loss)]
    pub fn total_sensitivity(&self) -> f64 {
        self.total as f64 / self.fine as f64
    }

    /// The scale of the noise of each test, in grid units.
    #[allow(clippy::cast_precision_loss)]
    pub fn scale(&self) -> f64 {
        self.scale.as_f64() / self.fine as f64
    }

    /// Adds a reading to the batch and returns its index.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`], [`PrimitiveError::ClassPermit`] and
    /// [`PrimitiveError::UnequalPermits`] if the permit does not match the reading or the epsilon;
    /// [`PrimitiveError::OutOfOrder`] unless the timestamp is after the last one.
    #[inline]
    pub fn admit(&mut self, permit: Permit, reading: &Sealed<i64>) -> Result<usize, PrimitiveError> {
        paid_exactly(&permit, reading, self.epsilon)?;
        let timestamp = reading.timestamp();
        if let Some(latest) = self.members.last().map(|member| member.above_low.timestamp())
            && timestamp <= latest
        {
            return Err(PrimitiveError::OutOfOrder { timestamp, latest });
        }
        let above_low = Sealed::at(reading.account(), timestamp, self.clamp.above_low(reading));
        self.members.push(Member { above_low, used: 0, tests: 0 });
        Ok(self.members.len() - 1)
    }

    /// Tests the deviation of a group of readings, given by ascending indices.
    ///
    /// # Errors
    /// [`PrimitiveError::NoSuchMember`] for an invalid index; [`PrimitiveError::SameTimestamp`] if the indices are not
    /// strictly ascending; [`PrimitiveError::UsedUp`] if a reading has too little left. Nothing is charged then.
    #[inline]
    pub fn ask(&mut self, group: &[usize], random: &mut impl Randomness) -> Result<Noised<Side>, PrimitiveError> {
        let random = &mut FreshRandom::new(random)?;
        let moves = deviation::sensitivity(group.len() as u64, self.sensitivity, self.fine);
        let values = self.group.content_mut();
        wipe(values);
        let mut above = 0;
        for &index in group {
            let members = self.members.len();
            let member = self.members.get(index).ok_or(PrimitiveError::NoSuchMember { index, members })?;
            if index < above {
                return Err(PrimitiveError::SameTimestamp { timestamp: member.above_low.timestamp() });
            }
            if moves > self.total - member.used {
                return Err(PrimitiveError::UsedUp { timestamp: member.above_low.timestamp() });
            }
            above = index + 1;
            values.push(*member.above_low.content());
        }
        for &index in group {
            let member = &mut self.members[index];
            member.used += moves;
            member.tests += 1;
        }
        let count = (group.len() as i128).max(1);
        let deviation = deviation::times_count(values, self.clamp.width()).saturating_mul(i128::from(self.fine));
        let test = NoisyTest { secret: deviation / count, threshold: self.threshold, noise: &self.noise };
        let side = if random.publish(test) { Side::Below } else { Side::Above };
        Ok(Noised::new(side, self.epsilon, random))
    }

    /// For each reading, the number of its tests and the used sensitivity in grid units.
    #[allow(clippy::cast_precision_loss)]
    pub fn uses(&self) -> impl ExactSizeIterator<Item = (u64, f64)> + '_ {
        self.members.iter().map(|member| (member.tests, member.used as f64 / self.fine as f64))
    }

    /// Drops all readings and begins the next batch.
    pub fn clear(&mut self) {
        self.members.clear();
        wipe(self.group.content_mut());
    }
}
