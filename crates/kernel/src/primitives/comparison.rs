//! Noisy comparison of two readings.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use zeroize::Zeroizing;

use super::{Noised, PrimitiveError, paid_exactly, paid_members};
use crate::epsilon::Epsilon;
use crate::permit::Permit;
use crate::random::{FreshRandom, NoEntropy, Randomness};
use crate::randomised_response::RandomisedResponse;
use crate::sealed::Sealed;
use crate::vault::{Locked, UnlockError, Vault, signed};

/// Publishes whether `left` is less than `right`, by randomised response on one bit.
///
/// Each reading comes with a permit for its own timestamp.
///
/// # Guarantee
/// If one or both readings change by any amount, the loss is at most the permits' common epsilon, to within a billionth
/// ([proof](crate::proofs::noisy_comparison)). No sensitivity enters. The answer is right with probability `1 / (1 +
/// e^-epsilon)`, independently of the distance of the readings. Equal readings are "not less".
///
/// # Errors
/// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if a permit does not
/// match its reading; [`PrimitiveError::UnequalPermits`] if the amounts differ; [`PrimitiveError::Response`] for an
/// epsilon above [`MAX_RESPONSE_EPSILON`](crate::MAX_RESPONSE_EPSILON).
///
/// ```
/// use tidegate_kernel::primitives::noisy_comparison;
/// use tidegate_kernel::{Grid, Ledger, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let grid = Grid::new(0.0, 50.0, 0.5)?;
/// let yesterday = (ledger.spend(0, "1".parse()?)?, &grid.seal(ledger.account(), 0, 21.0)?);
/// let today = (ledger.spend(1, "1".parse()?)?, &grid.seal(ledger.account(), 1, 21.5)?);
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
    let random = &mut FreshRandom::new(random)?;
    Ok(Noised::new(response.sample(u32::from(is_less), random) == 1, epsilon, random))
}

/// [Noisy comparisons](noisy_comparison) in a sliding window of readings, with a limit for each reading.
///
/// One permit per reading pays for all its comparisons in equal parts. A comparison is refused if either reading has
/// none left.
///
/// # Guarantee
/// If a reading changes by any amount, all comparisons together lose at most its permit's epsilon
/// ([proof](crate::proofs::noisy_comparison)). If several change, the losses add up. A locked window must not be
/// unlocked twice, nor continue in two places: each copy would have all remaining comparisons.
///
/// ```
/// use tidegate_kernel::primitives::{Comparisons, PrimitiveError};
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
/// # use std::num::NonZeroU64;
///
/// let epsilon: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(epsilon, Window::EVENT);
/// let grid = Grid::new(0.0, 50.0, 0.5)?;
/// let mut comparisons = Comparisons::new(epsilon, NonZeroU64::MIN)?;
/// for (timestamp, reading) in [(0, 21.0), (1, 21.5), (2, 20.0)] {
///     comparisons.admit(ledger.spend(timestamp, epsilon)?, &grid.seal(ledger.account(), timestamp, reading)?)?;
/// }
/// let random = &mut SystemRandom::new()?;
/// let is_less = comparisons.compare(0, 2, random)?;
/// println!("false with probability 0.73: {}", is_less.value());
/// assert_eq!(comparisons.compare(1, 2, random), Err(PrimitiveError::UsedUp { timestamp: 2 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Comparisons {
    epsilon: Epsilon,
    each: Epsilon,
    times: u64,
    response: RandomisedResponse,
    /// Oldest first.
    members: VecDeque<Member>,
}

#[derive(Debug)]
struct Member {
    reading: Sealed<i64>,
    left: u64,
}

const PURPOSE: &str = "comparisons 1";

impl Comparisons {
    /// Creates an empty window for permits of `epsilon`, each of which pays for `times` comparisons.
    ///
    /// # Errors
    /// [`PrimitiveError::Response`] if the share of one comparison is above
    /// [`MAX_RESPONSE_EPSILON`](crate::MAX_RESPONSE_EPSILON); [`PrimitiveError::TooSmallToDivide`] if it is zero.
    pub fn new(epsilon: Epsilon, times: NonZeroU64) -> Result<Self, PrimitiveError> {
        let times = times.get();
        let each = epsilon.divided_by(times).ok_or(PrimitiveError::TooSmallToDivide { given: epsilon, times })?;
        let response = RandomisedResponse::new(2, each)?;
        Ok(Self { epsilon, each, times, response, members: VecDeque::new() })
    }

    /// The loss of one comparison.
    pub const fn each(&self) -> Epsilon {
        self.each
    }

    /// Appends a reading to the window.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`], [`PrimitiveError::ClassPermit`] and
    /// [`PrimitiveError::UnequalPermits`] if the permit does not match the reading or the epsilon;
    /// [`PrimitiveError::OutOfOrder`] unless the timestamp is after the last one.
    pub fn admit(&mut self, permit: Permit, reading: &Sealed<i64>) -> Result<(), PrimitiveError> {
        paid_exactly(&permit, reading, self.epsilon)?;
        let timestamp = reading.timestamp();
        if let Some(latest) = self.members.back().map(|member| member.reading.timestamp())
            && timestamp <= latest
        {
            return Err(PrimitiveError::OutOfOrder { timestamp, latest });
        }
        self.members.push_back(Member {
            reading: Sealed::at(reading.account(), timestamp, *reading.content()),
            left: self.times,
        });
        Ok(())
    }

    /// The timestamps of the readings, oldest first, with the number of comparisons left.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.members.iter().map(|member| (member.reading.timestamp(), member.left))
    }

    /// Publishes whether the reading at index `left`, from the oldest, is less than the one at index `right`.
    ///
    /// # Errors
    /// [`PrimitiveError::NoSuchMember`] for an invalid index; [`PrimitiveError::UsedUp`] if a reading has no comparison
    /// left. Nothing is charged then.
    #[inline]
    pub fn compare(
        &mut self,
        left: usize,
        right: usize,
        random: &mut impl Randomness,
    ) -> Result<Noised<bool>, PrimitiveError> {
        let random = &mut FreshRandom::new(random)?;
        let members = self.members.len();
        let member = |index| self.members.get(index).ok_or(PrimitiveError::NoSuchMember { index, members });
        let (first, second) = (member(left)?, member(right)?);
        let is_less = first.reading.content() < second.reading.content();
        if let Some(empty) = [first, second].into_iter().find(|member| member.left == 0) {
            return Err(PrimitiveError::UsedUp { timestamp: empty.reading.timestamp() });
        }
        for index in [left, right] {
            if let Some(member) = self.members.get_mut(index) {
                // Both have one left, unless they are the same reading; the answer is then independent of the data.
                member.left = member.left.saturating_sub(1);
            }
        }
        Ok(Noised::new(self.response.sample(u32::from(is_less), random) == 1, self.each, random))
    }

    /// Drops the readings before a timestamp.
    pub fn forget_before(&mut self, timestamp: u64) {
        while self.members.pop_front_if(|member| member.reading.timestamp() < timestamp).is_some() {}
    }

    /// Encrypts the readings and their remaining comparisons, to be saved with the vault's ledger. The window stays in
    /// use; unlock the form only after a restart.
    ///
    /// # Errors
    /// [`NoEntropy`] if the operating system provides no randomness.
    pub fn lock(&self, vault: &Vault<'_>) -> Result<Locked, NoEntropy> {
        let mut words = Zeroizing::new(vec![self.epsilon.units(), self.times]);
        for Member { reading, left } in &self.members {
            words.extend([reading.timestamp(), signed(*reading.content()), *left]);
        }
        vault.lock(PURPOSE, &words)
    }

    /// Replaces the window by a locked one of the same epsilon and number of comparisons.
    ///
    /// # Errors
    /// [`UnlockError`] if the vault or the parameters differ, the content was changed, or the vault's ledger cannot
    /// have granted the permits. Nothing changes then.
    pub fn unlock(&mut self, locked: &Locked, vault: &Vault<'_>) -> Result<(), UnlockError> {
        let mut words = vault.unlock(PURPOSE, locked)?;
        words.expect(self.epsilon.units())?;
        words.expect(self.times)?;
        let mut members: VecDeque<Member> = VecDeque::new();
        while words.left() > 0 {
            let reading = Sealed::at(vault.account(), words.next()?, words.next_signed()?);
            let left = words.next()?;
            vault.granted(reading.timestamp(), self.epsilon)?;
            let in_order = members.back().is_none_or(|last| last.reading.timestamp() < reading.timestamp());
            if left > self.times || !in_order {
                return Err(UnlockError::Content);
            }
            members.push_back(Member { reading, left });
        }
        self.members = members;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Ledger, SeededRandom, VaultKey, Window};

    #[test]
    fn equal_readings_are_not_less() {
        // At an epsilon of 20 a comparison is wrong with probability 2e-9.
        let amount = Epsilon::whole::<20>();
        let mut comparisons = Comparisons::new(amount, NonZeroU64::MIN).unwrap();
        let mut ledger = Ledger::new(amount, Window::EVENT);
        for timestamp in 0..2 {
            let reading = Sealed::at(ledger.account(), timestamp, 7);
            comparisons.admit(ledger.spend(timestamp, amount).unwrap(), &reading).unwrap();
        }
        assert!(!comparisons.compare(0, 1, &mut SeededRandom::new(1)).unwrap().into_value());
    }

    #[test]
    fn unlocking_rejects_disordered_or_overpaid_readings() {
        let (one, key) = (Epsilon::whole::<1>(), VaultKey::from_bytes([5; 32]));
        let ledger = Ledger::fully_spent(one, Window::EVENT, 9);
        let vault = key.vault(&ledger, "");
        let unlock = |members: &[[u64; 3]]| {
            let mut comparisons = Comparisons::new(one, NonZeroU64::new(4).unwrap()).unwrap();
            let words = [&[one.units(), 4][..], members.as_flattened()].concat();
            comparisons.unlock(&vault.lock(PURPOSE, &words).unwrap(), &vault)
        };
        assert_eq!(unlock(&[[3, 7, 4], [5, 7, 0], [9, 7, 4]]), Ok(()));
        assert_eq!(unlock(&[[3, 7, 5]]), Err(UnlockError::Content));
        assert_eq!(unlock(&[[3, 7, 1], [3, 7, 1]]), Err(UnlockError::Content));
        assert_eq!(unlock(&[[5, 7, 1], [3, 7, 1]]), Err(UnlockError::Content));
        assert_eq!(unlock(&[[10, 7, 1]]), Err(UnlockError::NotGranted { timestamp: 10, amount: one }));
    }
}
