//! Readings that wait.

use super::{PrimitiveError, paid};
use crate::epsilon::Epsilon;
use crate::permit::Permit;
use crate::random::NoEntropy;
use crate::sealed::Sealed;
use crate::vault::{Locked, UnlockError, Vault, signed};

/// Readings that a mechanism holds back, each with the permit that will pay for what is published of it.
///
/// They stay sealed while they wait, also on disk: [`lock`](Self::lock) is the only way to save them. What is paid for
/// when a reading arrives, and published later, is paid for once, as long as each locked form is unlocked once at most,
/// and not while the readings that it was locked from are still in use.
///
/// ```
/// use tidegate_kernel::primitives::Held;
/// use tidegate_kernel::{Grid, Ledger, VaultKey, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT);
/// let grid = Grid::new(0.0, 50.0, 0.5)?;
/// let mut held = Held::default();
/// held.push(ledger.spend(0, "1".parse()?)?, grid.seal(ledger.account(), 0, 21.3)?)?;
/// let key = VaultKey::new()?;
/// let vault = key.vault(&ledger, "the stream of the boiler room");
/// let saved = held.lock(&vault)?;
/// let loaded = Held::unlock(&saved, &vault)?;
/// assert_eq!(loaded.timestamps().collect::<Vec<_>>(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Held {
    readings: Vec<(Permit, Sealed<i64>)>,
}

const PURPOSE: &str = "held readings 1";

impl Held {
    /// Keeps a reading and its permit, after all that are kept already.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] for a permit that
    /// is not the reading's, [`PrimitiveError::OutOfOrder`] for a timestamp that is not after the last one.
    #[inline]
    pub fn push(&mut self, permit: Permit, reading: Sealed<i64>) -> Result<(), PrimitiveError> {
        paid(&permit, &reading)?;
        let timestamp = reading.timestamp();
        if let Some(latest) = self.timestamps().next_back()
            && timestamp <= latest
        {
            return Err(PrimitiveError::OutOfOrder { timestamp, latest });
        }
        self.readings.push((permit, reading));
        Ok(())
    }

    /// How many readings are kept.
    pub fn len(&self) -> usize {
        self.readings.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// The timestamps of the readings, in order.
    #[inline]
    pub fn timestamps(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.readings.iter().map(|(_, reading)| reading.timestamp())
    }

    /// What is left to be spent on each reading, in order.
    pub fn amounts(&self) -> impl ExactSizeIterator<Item = Epsilon> + '_ {
        self.readings.iter().map(|(permit, _)| permit.epsilon())
    }

    /// Hands the readings out with their permits, in order, and keeps none.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = (Permit, Sealed<i64>)> + '_ {
        self.readings.drain(..)
    }

    /// The readings and their permits in a form that can be saved, together with the vault's ledger. They stay in use;
    /// unlock the form only where they are not, after a restart.
    ///
    /// # Errors
    /// [`NoEntropy`] where the operating system gives no randomness.
    pub fn lock(&self, vault: &Vault<'_>) -> Result<Locked, NoEntropy> {
        let words = self
            .readings
            .iter()
            .flat_map(|(permit, reading)| [reading.timestamp(), permit.epsilon().units(), signed(*reading.content())]);
        vault.lock(PURPOSE, &zeroize::Zeroizing::new(words.collect::<Vec<u64>>()))
    }

    /// What was locked.
    ///
    /// # Errors
    /// [`UnlockError`] where the vault is another, the content was changed, or the vault's ledger cannot have granted
    /// one of the permits.
    pub fn unlock(locked: &Locked, vault: &Vault<'_>) -> Result<Self, UnlockError> {
        let mut words = vault.unlock(PURPOSE, locked)?;
        let (mut held, account) = (Self::default(), vault.account());
        while words.left() > 0 {
            let (timestamp, units, value) = (words.next()?, words.next()?, words.next_signed()?);
            let epsilon = Epsilon::from_units(units).map_err(|_| UnlockError::Content)?;
            vault.granted(timestamp, epsilon)?;
            let (permit, reading) = (Permit::new(account, timestamp, epsilon), Sealed::at(account, timestamp, value));
            held.push(permit, reading).map_err(|_| UnlockError::Content)?;
        }
        Ok(held)
    }
}
