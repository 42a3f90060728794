//! Delayed readings with their permits.

use super::{PrimitiveError, paid};
use crate::epsilon::Epsilon;
use crate::permit::Permit;
use crate::random::NoEntropy;
use crate::sealed::Sealed;
use crate::vault::{Locked, UnlockError, Vault, signed};

/// A queue of readings that a mechanism delays, each with its permit.
///
/// The readings stay sealed, also on disk: [`lock`](Self::lock) is the only way to save them. Each reading is paid for
/// once, provided that a locked form is unlocked at most once, and never while its original is in use.
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
    /// Appends a reading and its permit.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit
    /// does not match the reading; [`PrimitiveError::OutOfOrder`] unless the timestamp is after the last one.
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

    /// The number of readings.
    pub fn len(&self) -> usize {
        self.readings.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// The timestamps of the readings, in order.
    #[inline]
    pub fn timestamps(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.readings.iter().map(|(_, reading)| reading.timestamp())
    }

    /// The amounts of the permits, in order.
    pub fn amounts(&self) -> impl ExactSizeIterator<Item = Epsilon> + '_ {
        self.readings.iter().map(|(permit, _)| permit.epsilon())
    }

    /// Removes and returns all readings with their permits, in order.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = (Permit, Sealed<i64>)> + '_ {
        self.readings.drain(..)
    }

    /// Encrypts the readings and their permits, to be saved with the vault's ledger. They stay in use; unlock the form
    /// only after a restart.
    ///
    /// # Errors
    /// [`NoEntropy`] if the operating system provides no randomness.
    pub fn lock(&self, vault: &Vault<'_>) -> Result<Locked, NoEntropy> {
        let words = self
            .readings
            .iter()
            .flat_map(|(permit, reading)| [reading.timestamp(), permit.epsilon().units(), signed(*reading.content())]);
        vault.lock(PURPOSE, &zeroize::Zeroizing::new(words.collect::<Vec<u64>>()))
    }

    /// Decrypts a locked queue.
    ///
    /// # Errors
    /// [`UnlockError`] if the vault differs, the content was changed, or the vault's ledger cannot have granted a
    /// permit.
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
