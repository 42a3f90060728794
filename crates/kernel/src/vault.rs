//! [`VaultKey`] and [`Locked`]: sealed data at rest.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::random::NoEntropy;

/// The key under which the kernel locks sealed data that must outlive the process.
///
/// A mechanism that holds readings back has to be saved with them. They leave the kernel only in a [`Locked`] form:
/// encrypted, and read again by the kernel alone. Whoever has both the key and the locked form has the data: keep the
/// key as the data would be kept, apart from what is saved.
///
/// The key is wiped when it is dropped.
pub struct VaultKey(Zeroizing<[u8; 32]>);

impl VaultKey {
    /// A new key from the operating system.
    ///
    /// # Errors
    /// [`NoEntropy`] where the operating system gives no randomness.
    pub fn new() -> Result<Self, NoEntropy> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut_slice())?;
        Ok(Self(key))
    }

    /// A key that was kept elsewhere. The bytes must come from a source of randomness, not from a password.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.0).into())
    }

    /// Locks words that only an [unlocking](Self::unlock) for the same purpose will read again.
    pub(crate) fn lock(&self, purpose: &'static str, words: &[u64]) -> Result<Locked, NoEntropy> {
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce)?;
        let plain: Zeroizing<Vec<u8>> = Zeroizing::new(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        let payload = Payload { msg: &plain, aad: purpose.as_bytes() };
        // Encryption fails only beyond 256 GiB, which no memory holds; an empty form then unlocks as damaged.
        let bytes = self.cipher().encrypt(&nonce.into(), payload).unwrap_or_default();
        Ok(Locked { nonce, bytes })
    }

    /// The words that were locked with this key for this purpose.
    pub(crate) fn unlock(&self, purpose: &'static str, locked: &Locked) -> Result<Words, UnlockError> {
        let payload = Payload { msg: &locked.bytes, aad: purpose.as_bytes() };
        let plain = self.cipher().decrypt(&locked.nonce.into(), payload).map_err(|_| UnlockError::Key)?;
        let plain = Zeroizing::new(plain);
        let (words, []) = plain.as_chunks() else { return Err(UnlockError::Content) };
        let words = Zeroizing::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect());
        Ok(Words { words, read: 0 })
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("VaultKey(..)")
    }
}

/// Sealed data, encrypted by XChaCha20-Poly1305 under a [`VaultKey`], to be saved wherever is convenient.
///
/// It can be saved and loaded, but read only by the kernel, which finds out if a single bit was changed. Its length
/// tells how many readings there are, which is public.
///
/// What it holds has been paid for and not yet published. Unlocking an old form again, after what it holds was
/// published, would publish it twice: the same rule as for a saved [`Ledger`](crate::Ledger), always the latest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    nonce: [u8; 24],
    bytes: Vec<u8>,
}

/// Why something locked was not unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// Another key, another kind of content, or damaged bytes.
    #[error("the locked data cannot be read: the key is another one, or the data were changed")]
    Key,
    /// The content is not what it should be.
    #[error("the locked data do not fit what they are unlocked for")]
    Content,
}

/// Unlocked words, read one after the other.
pub(crate) struct Words {
    words: Zeroizing<Vec<u64>>,
    read: usize,
}

impl Words {
    pub(crate) fn next(&mut self) -> Result<u64, UnlockError> {
        let word = self.words.get(self.read).copied().ok_or(UnlockError::Content)?;
        self.read += 1;
        Ok(word)
    }

    /// A number that was locked as [`signed`].
    pub(crate) fn next_signed(&mut self) -> Result<i64, UnlockError> {
        Ok(i64::from_le_bytes(self.next()?.to_le_bytes()))
    }

    /// That the next word is this one.
    pub(crate) fn expect(&mut self, expected: u64) -> Result<(), UnlockError> {
        if self.next()? == expected { Ok(()) } else { Err(UnlockError::Content) }
    }

    pub(crate) fn left(&self) -> usize {
        self.words.len() - self.read
    }
}

/// A signed number as a word.
pub(crate) const fn signed(number: i64) -> u64 {
    u64::from_le_bytes(number.to_le_bytes())
}

/// Wipes a vector's content and empties it, keeping its memory.
pub(crate) fn wipe<T: Zeroize>(values: &mut Vec<T>) {
    // `Vec::zeroize` wipes the whole capacity, which costs more than a group often has members.
    values.iter_mut().zeroize();
    values.clear();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_locked_is_unlocked_with_the_same_key_for_the_same_purpose_only() {
        let key = VaultKey::new().unwrap();
        let locked = key.lock("numbers", &[1, signed(-2)]).unwrap();
        let mut words = key.unlock("numbers", &locked).unwrap();
        assert_eq!((words.next(), words.next_signed(), words.left()), (Ok(1), Ok(-2), 0));
        assert_eq!(words.next(), Err(UnlockError::Content));
        assert_eq!(key.unlock("names", &locked).err(), Some(UnlockError::Key));
        assert_eq!(VaultKey::new().unwrap().unlock("numbers", &locked).err(), Some(UnlockError::Key));
        for position in 0..locked.bytes.len() {
            let mut damaged = locked.clone();
            damaged.bytes[position] ^= 1;
            assert_eq!(key.unlock("numbers", &damaged).err(), Some(UnlockError::Key));
        }
    }

    #[test]
    fn locking_twice_looks_different_and_a_key_is_not_printed() {
        let key = VaultKey::from_bytes([7; 32]);
        assert_ne!(key.lock("numbers", &[1]).unwrap(), key.lock("numbers", &[1]).unwrap());
        assert_eq!(format!("{key:?}"), "VaultKey(..)");
        assert!(!format!("{:?}", key.lock("numbers", &[0x0bad_cafe]).unwrap()).contains("195939070"));
    }
}
