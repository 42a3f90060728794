//! [`VaultKey`], [`Vault`] and [`Locked`]: encryption of sealed data at rest.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::ledger::{Ledger, Window};
use crate::random::NoEntropy;

/// The key that encrypts sealed data which outlive the process.
///
/// A mechanism that delays readings must save them with its state. They leave the kernel only in the encrypted
/// [`Locked`] form. Anyone with the key and a locked form can read it, and can unlock it repeatedly. So the operator
/// keeps the key, as carefully as the data and apart from the saved state; mechanisms never hold it.
///
/// The key is zeroised on drop.
///
/// ```
/// use tidegate_kernel::VaultKey;
///
/// let key = VaultKey::new()?;
/// let kept = key.to_bytes(); // for the operator's store of secrets
/// let again = VaultKey::from_bytes(*kept);
/// assert_eq!(again.to_bytes(), kept);
/// # Ok::<(), tidegate_kernel::NoEntropy>(())
/// ```
pub struct VaultKey(Zeroizing<[u8; 32]>);

impl VaultKey {
    /// Draws a new key from the operating system.
    ///
    /// # Errors
    /// [`NoEntropy`] if the operating system provides no randomness.
    pub fn new() -> Result<Self, NoEntropy> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut_slice())?;
        Ok(Self(key))
    }

    /// Loads a stored key. The bytes must come from a source of randomness, not from a password.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The key's bytes, to be stored. The copy is zeroised on drop.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        self.0.clone()
    }

    /// Binds the key to the present state of a ledger and to a public context.
    pub const fn vault<'a>(&'a self, ledger: &'a Ledger, context: &'a str) -> Vault<'a> {
        Vault { key: self, ledger, context }
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.0).into())
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("VaultKey(..)")
    }
}

/// A random name of a stream. Data locked for one stream do not unlock for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamId([u8; 16]);

impl StreamId {
    /// Draws a unique name.
    ///
    /// # Errors
    /// [`NoEntropy`] if the operating system provides no randomness.
    pub fn new() -> Result<Self, NoEntropy> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A [`VaultKey`] bound to the state of the ledger that granted the permits, and to a public context. The context
/// should identify the stream and the saved state.
///
/// Data unlock only with the same key, the same ledger state and the same context. Their permits must be ones that the
/// ledger can have granted: at most its budget, and not after its clock.
#[derive(Clone, Copy, Debug)]
pub struct Vault<'a> {
    key: &'a VaultKey,
    ledger: &'a Ledger,
    context: &'a str,
}

impl Vault<'_> {
    /// Associated data of the encryption. The lengths separate the parts unambiguously.
    fn associated(&self, purpose: &str) -> Vec<u8> {
        // A window's length is positive.
        let window = match self.ledger.window() {
            Window::Timestamps(length) => length.get(),
            Window::Unbounded => 0,
        };
        let clock = self.ledger.clock();
        let mut words = vec![purpose.len() as u64, self.context.len() as u64, self.ledger.budget().units(), window];
        words.extend([u64::from(clock.is_some()), clock.unwrap_or(0), u64::from(self.ledger.is_closed())]);
        words.extend(self.ledger.spends().flat_map(|(timestamp, amount)| [timestamp, amount.units()]));
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(purpose.bytes().chain(self.context.bytes()));
        bytes
    }

    /// The account of the ledger.
    pub(crate) const fn account(&self) -> Account {
        self.ledger.account()
    }

    /// Checks that the ledger can have granted a permit.
    pub(crate) fn granted(&self, timestamp: u64, amount: Epsilon) -> Result<(), UnlockError> {
        let is_granted = self.ledger.clock() >= Some(timestamp) && amount <= self.ledger.budget();
        if is_granted { Ok(()) } else { Err(UnlockError::NotGranted { timestamp, amount }) }
    }

    /// Locks words for a purpose; [`unlock`](Self::unlock) needs the same one.
    pub(crate) fn lock(&self, purpose: &'static str, words: &[u64]) -> Result<Locked, NoEntropy> {
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce)?;
        let plain: Zeroizing<Vec<u8>> = Zeroizing::new(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        let payload = Payload { msg: &plain, aad: &self.associated(purpose) };
        // Encryption fails only beyond 256 GiB; the empty form then unlocks as damaged.
        let bytes = self.key.cipher().encrypt(&nonce.into(), payload).unwrap_or_default();
        Ok(Locked { nonce, bytes })
    }

    /// Decrypts words that were locked in this vault for this purpose.
    pub(crate) fn unlock(&self, purpose: &'static str, locked: &Locked) -> Result<Words, UnlockError> {
        let payload = Payload { msg: &locked.bytes, aad: &self.associated(purpose) };
        let plain = self.key.cipher().decrypt(&locked.nonce.into(), payload).map_err(|_| UnlockError::Key)?;
        let plain = Zeroizing::new(plain);
        let (words, []) = plain.as_chunks() else { return Err(UnlockError::Content) };
        let words = Zeroizing::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect());
        Ok(Words { words, read: 0 })
    }
}

/// Sealed data, encrypted with XChaCha20-Poly1305 under a [`VaultKey`]. It may be stored anywhere.
///
/// It unlocks only for the state of the [`Vault`] that it was locked for, and only if it is unchanged. Its length
/// reveals the number of readings, which is public.
///
/// The content is paid for and not yet published. Anyone with the key could unlock it again after publication, and
/// publish it twice. So, as for a saved [`Ledger`](crate::Ledger), always load the latest form, together with the
/// ledger and the rest of the state. The kernel cannot detect that a whole state is an older one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    nonce: [u8; 24],
    bytes: Vec<u8>,
}

/// Why locked data were not unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum UnlockError {
    /// The key or the state is another one, or the bytes are damaged.
    #[error("the locked data cannot be read: the key is another one, or the data or their state were changed")]
    Key,
    /// The ledger cannot have granted the permit of a reading.
    #[error(
        "the ledger cannot have granted {amount} for timestamp {timestamp}: that is after its clock or above its budget"
    )]
    NotGranted { timestamp: u64, amount: Epsilon },
    /// The content does not fit the parameters.
    #[error("the locked data do not fit the parameters that they are unlocked for")]
    Content,
}

/// A reader of unlocked words.
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

    /// Reads a number that was locked as [`signed`].
    pub(crate) fn next_signed(&mut self) -> Result<i64, UnlockError> {
        Ok(i64::from_le_bytes(self.next()?.to_le_bytes()))
    }

    /// Checks the next word.
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

/// Zeroises and clears a vector, and keeps its capacity.
pub(crate) fn wipe<T: Zeroize>(values: &mut Vec<T>) {
    // `Vec::zeroize` also clears spare capacity, which often costs more than the content.
    values.iter_mut().zeroize();
    values.clear();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ledger(clock: u64) -> Ledger {
        Ledger::fully_spent("1".parse().unwrap(), Window::EVENT, clock)
    }

    #[test]
    fn unlocking_needs_the_same_key_purpose_ledger_and_context() {
        let (key, now) = (VaultKey::new().unwrap(), ledger(4));
        let vault = key.vault(&now, "stream");
        let locked = vault.lock("numbers", &[1, signed(-2)]).unwrap();
        let mut words = vault.unlock("numbers", &locked).unwrap();
        assert_eq!((words.next(), words.next_signed(), words.left()), (Ok(1), Ok(-2), 0));
        assert_eq!(words.next(), Err(UnlockError::Content));
        let refused =
            |vault: Vault<'_>, purpose| assert_eq!(vault.unlock(purpose, &locked).err(), Some(UnlockError::Key));
        refused(vault, "names");
        refused(VaultKey::new().unwrap().vault(&now, "stream"), "numbers");
        refused(key.vault(&now, "other"), "numbers");
        // The same bytes with another division into parts.
        refused(key.vault(&now, "sstream"), "number");
        let one = "1".parse().unwrap();
        let mut opened = Ledger::new(one, Window::EVENT);
        opened.open(4).unwrap();
        let others = [
            ledger(5),
            opened,
            Ledger::new(one, Window::EVENT),
            Ledger::fully_spent("2".parse().unwrap(), Window::EVENT, 4),
            Ledger::fully_spent(one, Window::Unbounded, 4),
        ];
        for other in &others {
            refused(key.vault(other, "stream"), "numbers");
        }
        for position in 0..locked.bytes.len() {
            let mut damaged = locked.clone();
            damaged.bytes[position] ^= 1;
            assert_eq!(vault.unlock("numbers", &damaged).err(), Some(UnlockError::Key));
        }
    }

    #[test]
    fn locked_data_belong_to_every_field_of_the_ledger() {
        let key = VaultKey::new().unwrap();
        let mut ledger = Ledger::new("1".parse().unwrap(), Window::of(3).unwrap());
        let _ = ledger.spend(5, "0.25".parse().unwrap()).unwrap();
        let _ = ledger.spend(6, "0.5".parse().unwrap()).unwrap();
        let locked = key.vault(&ledger, "").lock("numbers", &[1]).unwrap();
        let saved = serde_json::to_value(&ledger).unwrap();
        // Ledgers that differ in one field only.
        let unlock_with = |field: &str, value: serde_json::Value| {
            let mut changed = saved.clone();
            changed[field] = value;
            let ledger: Ledger = serde_json::from_value(changed).unwrap();
            key.vault(&ledger, "").unlock("numbers", &locked).map(|_| ()).err()
        };
        assert_eq!(unlock_with("clock", 6.into()), None);
        for (field, value) in [
            ("budget", serde_json::json!("2")),
            ("window", serde_json::json!({ "timestamps": 4 })),
            ("clock", serde_json::json!(7)),
            ("closed", serde_json::json!(true)),
            ("spends", serde_json::json!([])),
            ("spends", serde_json::json!([[5, "0.25"]])),
            ("spends", serde_json::json!([[6, "0.5"]])),
            ("spends", serde_json::json!([[5, "0.25"], [6, "0.500000001"]])),
            ("spends", serde_json::json!([[4, "0.25"], [6, "0.5"]])),
            ("spends", serde_json::json!([[5, "0.5"], [6, "0.25"]])),
        ] {
            assert_eq!(unlock_with(field, value.clone()), Some(UnlockError::Key), "{field} {value}");
        }
    }

    #[test]
    fn locked_forms_differ_and_keys_are_not_printed() {
        let (key, now) = (VaultKey::from_bytes([7; 32]), ledger(0));
        let vault = key.vault(&now, "");
        assert_ne!(vault.lock("numbers", &[1]).unwrap(), vault.lock("numbers", &[1]).unwrap());
        assert_eq!(format!("{key:?}"), "VaultKey(..)");
        assert_eq!(*key.to_bytes(), [7; 32]);
        assert!(format!("{vault:?}").contains("VaultKey(..)"));
        assert!(!format!("{:?}", vault.lock("numbers", &[0x0bad_cafe]).unwrap()).contains("195939070"));
        assert_ne!(StreamId::new().unwrap(), StreamId::new().unwrap());
    }
}
