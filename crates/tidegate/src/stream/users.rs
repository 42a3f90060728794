//! [`Users`]: users by name, numbered in the order in which they came, and [`Present`]: those of one timestamp.
//!
//! A user is found by a keyed 128-bit hash of the name, with one look at memory. The key is drawn for each set. Two
//! of a million names share a hash with probability 1e-27; then a valid line is refused, and nothing is leaked.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The hash of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NameHash([u64; 2]);

impl Hash for NameHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// Hashes a [`NameHash`] to itself.
#[derive(Clone, Copy, Default)]
struct FirstWord(u64);

impl Hasher for FirstWord {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

type ByHash = BuildHasherDefault<FirstWord>;

/// The key of the hashes.
#[derive(Clone, Copy)]
struct HashKey(SipHasher13);

impl Default for HashKey {
    fn default() -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&RandomState::new().hash_one(0_u8).to_le_bytes());
        key[8..].copy_from_slice(&RandomState::new().hash_one(1_u8).to_le_bytes());
        Self(SipHasher13::new_with_key(&key))
    }
}

impl HashKey {
    fn hash(self, name: &str) -> NameHash {
        let mut hasher = self.0;
        hasher.write(name.as_bytes());
        let hash = hasher.finish128();
        NameHash([hash.h1, hash.h2])
    }
}

/// Users of the open timestamp.
#[derive(Default)]
pub(super) struct Present {
    key: HashKey,
    users: HashSet<NameHash, ByHash>,
}

impl Present {
    /// Adds a user; whether the user was absent.
    pub(super) fn insert(&mut self, name: &str) -> bool {
        self.users.insert(self.key.hash(name))
    }

    pub(super) fn clear(&mut self) {
        self.users.clear();
    }
}

/// A record for each user of a stream.
pub(super) struct Users<T> {
    key: HashKey,
    numbers: HashMap<NameHash, usize, ByHash>,
    /// All names, one after the other, and where each ends.
    names: String,
    ends: Vec<usize>,
    all: Vec<T>,
}

impl<T> Default for Users<T> {
    fn default() -> Self {
        let (key, numbers) = (HashKey::default(), HashMap::default());
        Self { key, numbers, names: String::new(), ends: Vec::new(), all: Vec::new() }
    }
}

impl<T> Users<T> {
    /// The users of a saved state.
    pub(super) fn of(saved: Vec<(String, T)>) -> Self {
        let mut users = Self::default();
        for (name, kept) in saved {
            users.add(&name, kept);
        }
        users
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(&self.key.hash(name)).copied()
    }

    pub(super) fn add(&mut self, name: &str, kept: T) -> usize {
        let number = self.all.len();
        self.numbers.insert(self.key.hash(name), number);
        self.names.push_str(name);
        self.ends.push(self.names.len());
        self.all.push(kept);
        number
    }

    pub(super) fn get(&self, number: usize) -> &T {
        &self.all[number]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.all[number]
    }

    pub(super) fn name(&self, number: usize) -> &str {
        let first = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.names[first..self.ends[number]]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.all.iter().enumerate().map(|(number, kept)| (self.name(number), kept))
    }

    /// The form that is saved.
    pub(super) fn saving(&self) -> Vec<(&str, &T)> {
        self.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_keep_their_number_and_name() {
        let mut users = Users::default();
        let names: Vec<String> = (0..5_000).map(|user| format!("{}-{user}", "x".repeat(user % 40))).collect();
        for (number, name) in names.iter().enumerate() {
            assert_eq!((users.find(name), users.add(name, number)), (None, number));
        }
        for (number, name) in names.iter().enumerate() {
            assert_eq!(
                (users.find(name), users.name(number), users.get(number)),
                (Some(number), name.as_str(), &number)
            );
        }
        assert!(users.saving().into_iter().map(|(name, _)| name).eq(names.iter().map(String::as_str)));
    }

    #[test]
    fn a_user_is_present_once() {
        let mut present = Present::default();
        assert!(present.insert("ann") && present.insert("bob") && present.insert("") && !present.insert("ann"));
        present.clear();
        assert!(present.insert("ann"));
    }
}
