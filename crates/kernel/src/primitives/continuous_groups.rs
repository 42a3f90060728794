//! Grouping of consecutive similar readings.

use std::ops::RangeInclusive;

use zeroize::Zeroizing;

use super::deviation;
use super::reading::Clamp;
use super::{Noised, PrimitiveError, Protects, ThresholdNoise, paid_exactly};
use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::noise::Geometric;
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, NoEntropy, Provenance, Randomness};
use crate::sealed::Sealed;
use crate::step::RandomisedStep;
use crate::vault::{Locked, UnlockError, Vault, signed, wipe};

/// The group that a reading was assigned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It opened a new group, without a test.
    Opens,
    /// It joined the open group.
    Joins,
    /// It closed the open group, and is a closed group of its own.
    Alone,
}

/// Divides a stream into groups of consecutive similar readings. Each group is one [sparse vector
/// test](super::AboveThreshold) of the [deviation](super::SealedQuery::deviation).
///
/// A reading opens a group. Each further reading joins if the noisy deviation of the group with it is below the noisy
/// threshold ([`ThresholdNoise`]). The first one that does not join closes the group and stays alone.
/// [`close`](Self::close) ends a group at any time.
///
/// # Guarantee
/// If a reading changes as `protects` says, the assignments of all readings lose at most its permit's epsilon
/// ([proof](crate::proofs::continuous_groups)). The reading is tested in one group only, and a group is one sparse
/// vector test of queries with twice the [`Protects::sensitivity`]. If several readings change, the losses add up.
/// Readings are clamped to the range first.
///
/// Calls of [`close`](Self::close) may depend on public information only. A locked group must not be unlocked twice,
/// nor continue in two places: its readings would be tested more often than their permits pay for.
///
/// Memory is proportional to the open group.
///
/// ```
/// use tidegate_kernel::primitives::{ContinuousGroups, Placed, Protects};
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
///
/// let epsilon: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(epsilon, Window::EVENT);
/// let grid = Grid::new(0.0, 10.0, 1.0)?;
/// let random = &mut SystemRandom::new()?;
/// let mut groups = ContinuousGroups::new(grid.range(), Protects::Reading, epsilon, 5_000)?;
/// let first = groups.offer(ledger.spend(0, epsilon)?, &grid.seal(ledger.account(), 0, 3.0)?, random)?;
/// assert_eq!(*first.value(), Placed::Opens);
/// let second = groups.offer(ledger.spend(1, epsilon)?, &grid.seal(ledger.account(), 1, 4.0)?, random)?;
/// assert_eq!(*second.value(), Placed::Joins); // except with probability 10^-33
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ContinuousGroups {
    clamp: Clamp,
    protects: Protects,
    epsilon: Epsilon,
    threshold: i64,
    scales: ThresholdNoise,
    threshold_noise: Geometric,
    query_noise: Geometric,
    /// Offset of each reading of the open group from the lower end of the range.
    open: Sealed<Vec<u64>>,
    /// Timestamp of the last reading.
    latest: u64,
    /// Secret, like the readings: with it, the answers would reveal more. Drawn at the first test of the group.
    noisy_threshold: Option<Sealed<i128>>,
    tests: u64,
    provenance: Provenance,
}

const PURPOSE: &str = "continuous group 1";

/// Whether the last reading of a group joins the others.
pub(crate) struct GroupTest<'a> {
    pub(crate) group: &'a [u64],
    pub(crate) width: u64,
    account: Account,
    pub(crate) timestamp: u64,
    pub(crate) threshold: i64,
    pub(crate) threshold_noise: &'a Geometric,
    pub(crate) query_noise: &'a Geometric,
    noisy_threshold: &'a mut Option<Sealed<i128>>,
}

impl GroupTest<'_> {
    /// The deviation of the first `count` readings, in whole grid units.
    pub(crate) fn deviation(&self, count: usize) -> i128 {
        deviation::times_count(&self.group[..count], self.width) / (count as i128).max(1)
    }
}

impl RandomisedStep for GroupTest<'_> {
    type Output = bool;

    #[inline]
    fn draw(&mut self, random: &mut impl Randomness) -> bool {
        let deviation = self.deviation(self.group.len());
        let (threshold, noise) = (i128::from(self.threshold), self.threshold_noise);
        let (account, timestamp) = (self.account, self.timestamp);
        let noisy_threshold = self
            .noisy_threshold
            .get_or_insert_with(|| Sealed::at(account, timestamp, threshold.saturating_add(noise.sample(random))));
        deviation.saturating_add(self.query_noise.sample(random)) < *noisy_threshold.content()
    }
}

impl ContinuousGroups {
    /// Creates groups of readings clamped to a range, for permits of `epsilon`. The threshold is in grid units.
    ///
    /// # Errors
    /// [`PrimitiveError::Range`], and those of [`ThresholdNoise::calibrated`] for twice the sensitivity.
    pub fn new(
        range: RangeInclusive<i64>,
        protects: Protects,
        epsilon: Epsilon,
        threshold: i64,
    ) -> Result<Self, PrimitiveError> {
        let clamp = Clamp::new(&range)?;
        let scales = Self::noise(range, protects, epsilon)?;
        Ok(Self {
            clamp,
            protects,
            epsilon,
            threshold,
            scales,
            threshold_noise: Geometric::new(scales.threshold),
            query_noise: Geometric::new(scales.query),
            open: Sealed::at(Account::NOBODY, 0, Vec::new()),
            latest: 0,
            noisy_threshold: None,
            tests: 0,
            provenance: Provenance::System,
        })
    }

    /// The scales of the one-sided noise. For a centred test, add the query's scale minus the threshold's to the
    /// threshold.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn noise(
        range: RangeInclusive<i64>,
        protects: Protects,
        epsilon: Epsilon,
    ) -> Result<ThresholdNoise, PrimitiveError> {
        ThresholdNoise::calibrated(protects.sensitivity(&range)?.saturating_mul(2), epsilon)
    }

    /// The scales of the noise.
    pub const fn scales(&self) -> ThresholdNoise {
        self.scales
    }

    /// The number of readings in the open group; zero without one.
    pub fn members(&self) -> usize {
        self.open.content().len()
    }

    /// The number of tests of the open group: one for each reading but the first.
    pub const fn tests(&self) -> u64 {
        self.tests
    }

    /// Assigns a reading to a group.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`], [`PrimitiveError::ClassPermit`] and
    /// [`PrimitiveError::UnequalPermits`] if the permit does not match the reading or the epsilon;
    /// [`PrimitiveError::OutOfOrder`] unless the timestamp is after that of the group's last reading.
    #[inline]
    pub fn offer(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<Noised<Placed>, PrimitiveError> {
        paid_exactly(&permit, reading, self.epsilon)?;
        let random = &mut FreshRandom::new(random)?;
        let (timestamp, is_first) = (reading.timestamp(), self.members() == 0);
        if !is_first && timestamp <= self.latest {
            return Err(PrimitiveError::OutOfOrder { timestamp, latest: self.latest });
        }
        self.latest = timestamp;
        if random.provenance() == Provenance::Seeded {
            self.provenance = Provenance::Seeded;
        }
        let group = self.open.content_mut();
        group.push(self.clamp.above_low(reading));
        let placed = if is_first {
            Placed::Opens
        } else {
            self.tests += 1;
            let test = GroupTest {
                group,
                width: self.clamp.width(),
                account: reading.account(),
                timestamp,
                threshold: self.threshold,
                threshold_noise: &self.threshold_noise,
                query_noise: &self.query_noise,
                noisy_threshold: &mut self.noisy_threshold,
            };
            if random.publish(test) { Placed::Joins } else { Placed::Alone }
        };
        let mut answer = Noised::new(placed, self.epsilon, random);
        answer.provenance = self.provenance;
        if placed == Placed::Alone {
            self.close();
        }
        Ok(answer)
    }

    /// Closes the open group, if any. The next reading opens another.
    pub fn close(&mut self) {
        wipe(self.open.content_mut());
        self.noisy_threshold = None;
        self.tests = 0;
        self.provenance = Provenance::System;
    }

    fn parameters(&self) -> [u64; 5] {
        let protects = match self.protects {
            Protects::Reading => 0,
            Protects::Contribution(most) => most.get(),
        };
        let [low, high, threshold] = [self.clamp.low(), self.clamp.high(), self.threshold].map(signed);
        [self.epsilon.units(), low, high, protects, threshold]
    }

    /// Encrypts the open group and its noisy threshold, to be saved with the vault's ledger. The group stays open;
    /// unlock the form only after a restart.
    ///
    /// # Errors
    /// [`NoEntropy`] if the operating system provides no randomness.
    pub fn lock(&self, vault: &Vault<'_>) -> Result<Locked, NoEntropy> {
        let mut words = Zeroizing::new(self.parameters().to_vec());
        words.extend([self.latest, self.tests, u64::from(self.provenance == Provenance::Seeded)]);
        let (is_drawn, drawn) = match &self.noisy_threshold {
            Some(drawn) => (1, *drawn.content()),
            None => (0, 0),
        };
        let halves = drawn.to_le_bytes();
        words.push(is_drawn);
        words.extend(halves.as_chunks().0.iter().map(|half| u64::from_le_bytes(*half)));
        words.extend(self.open.content().iter());
        vault.lock(PURPOSE, &words)
    }

    /// Replaces the open group by a locked one of the same range, epsilon and threshold.
    ///
    /// # Errors
    /// [`UnlockError`] if the vault or the parameters differ, the content was changed, or the vault's ledger cannot
    /// have granted the permits. The open group does not change then.
    pub fn unlock(&mut self, locked: &Locked, vault: &Vault<'_>) -> Result<(), UnlockError> {
        let mut words = vault.unlock(PURPOSE, locked)?;
        for parameter in self.parameters() {
            words.expect(parameter)?;
        }
        let (latest, tests, seeded, is_drawn) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let drawn = i128::from(words.next()?) | (i128::from(words.next()?) << 64);
        let mut open = Zeroizing::new(Vec::with_capacity(words.left()));
        while words.left() > 0 {
            open.push(words.next()?);
        }
        if open.iter().any(|value| *value > self.clamp.width()) {
            return Err(UnlockError::Content);
        }
        if !open.is_empty() {
            vault.granted(latest, self.epsilon)?;
        }
        self.close();
        self.open.content_mut().extend_from_slice(&open);
        (self.latest, self.tests) = (latest, tests);
        self.noisy_threshold = (is_drawn == 1).then(|| Sealed::at(vault.account(), latest, drawn));
        self.provenance = if seeded == 0 { Provenance::System } else { Provenance::Seeded };
        Ok(())
    }
}
