//! [`IdentitySet`]: open-addressing set of report identities in 64 shards; look-ups prefetch 32 slots ahead.
//!
//! The set is larger than any cache, so a look-up costs a wait for memory. A batch is looked up in two passes. The
//! first touches 32 slots, which the processor loads side by side; the second finds them in the cache. Shards grow one
//! at a time, so no batch waits for the whole set to move. The upper bits of a hash choose the slot, so growing goes
//! through memory in order.

use std::fmt;

use super::StoreError;

/// Identity (upper 96 bits, without the prefix) and half of a digest (lower 32 bits, of which the last is set).
///
/// The digest only tells a repeated report from a conflicting one; neither is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry(u128);

impl Entry {
    pub(super) fn new(id: &[u8; 12], digest: u64) -> Self {
        let id = id.iter().fold(0, |id, byte| id << 8 | u128::from(*byte));
        Self(id << 32 | u128::from(digest >> 32 | 1))
    }

    const fn id(self) -> u128 {
        self.0 >> 32
    }

    /// Whether it marks an empty slot.
    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Slots that are touched before the first is read.
const AHEAD: usize = 32;

/// Number of shards, as a power of two.
const SHARD_BITS: u32 = 6;

/// First number of slots of a shard, as a power of two.
const FIRST_BITS: u32 = 2;

/// Result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A new identity; it is in the set now.
    Nothing,
    /// The same identity with the same digest.
    Same,
    /// The same identity with another digest.
    Other,
}

/// Keys of a multilinear hash (Lemire and Kaser 2014). Without them, two chosen identities share their upper 32 bits
/// with probability 2^-32 at most.
struct Keys([u64; 4]);

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keys(..)")
    }
}

impl Keys {
    fn draw() -> Result<Self, StoreError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| StoreError::Failed(format!("no randomness: {error}")))?;
        let mut keys = [0; 4];
        for (key, bytes) in keys.iter_mut().zip(bytes.as_chunks().0) {
            *key = u64::from_le_bytes(*bytes);
        }
        Ok(Self(keys))
    }

    /// Hashes an identity. Only the upper half is used: for a shard and a slot.
    #[allow(clippy::cast_possible_truncation)] // the identity, word by word
    const fn hash(&self, entry: Entry) -> u64 {
        let Self([first, second, third, more]) = self;
        let [low, middle, high] =
            [(entry.0 >> 32) as u32 as u64, (entry.0 >> 64) as u32 as u64, (entry.0 >> 96) as u64];
        let sum = first.wrapping_mul(low).wrapping_add(second.wrapping_mul(middle));
        sum.wrapping_add(third.wrapping_mul(high)).wrapping_add(*more)
    }
}

/// A set of entries, one for each identity.
///
/// Honest identities are hashes already, but clients may choose others. So the set hashes them again, with keys of its
/// own.
#[derive(Debug)]
pub(super) struct IdentitySet {
    shards: Vec<Shard>,
    keys: Keys,
}

impl IdentitySet {
    /// Creates an empty set.
    ///
    /// # Errors
    /// No entropy.
    pub(super) fn new() -> Result<Self, StoreError> {
        Ok(Self { shards: (0..1 << SHARD_BITS).map(|_| Shard::new()).collect(), keys: Keys::draw()? })
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.taken).sum()
    }

    /// Reserves slots for a total number of entries.
    pub(super) fn reserve_total(&mut self, entries: usize) {
        // Shards differ by chance: four standard deviations.
        let each = entries.div_ceil(self.shards.len());
        let most = each + 4 * each.isqrt();
        self.shards
            .iter_mut()
            .filter(|shard| shard.taken < most)
            .for_each(|shard| shard.reserve_total(most, &self.keys));
    }

    /// Inserts entries in order, and passes the result of each to `found`. An entry that was there stays.
    pub(super) fn insert(&mut self, entries: &[Entry], mut found: impl FnMut(Found)) {
        let mut hashes = [0; AHEAD];
        for entries in entries.chunks(AHEAD) {
            let mut touched = 0;
            for (hash, entry) in hashes.iter_mut().zip(entries) {
                *hash = self.keys.hash(*entry);
                let shard = &self.shards[shard_of(*hash)];
                touched ^= shard.slots[shard.slot(*hash)].0;
            }
            // Keeps the compiler from removing the touches.
            std::hint::black_box(touched);
            for (hash, entry) in hashes.iter().zip(entries) {
                let shard = &mut self.shards[shard_of(*hash)];
                shard.reserve_total(shard.taken + 1, &self.keys);
                found(shard.insert(*hash, *entry));
            }
        }
    }
}

/// Returns the shard of a hash.
#[allow(clippy::cast_possible_truncation)] // a few bits
const fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARD_BITS)) as usize
}

#[derive(Debug)]
struct Shard {
    /// A power of two of slots, at most three quarters full. Linear probing: an entry is at its slot or after it, with
    /// no empty slot between.
    slots: Vec<Entry>,
    /// Shift of a hash to a slot.
    shift: u32,
    taken: usize,
}

impl Shard {
    fn new() -> Self {
        let slots = vec![Entry::default(); 1 << FIRST_BITS];
        Self { slots, shift: u64::BITS - FIRST_BITS, taken: 0 }
    }

    /// Returns the first slot of a hash.
    #[allow(clippy::cast_possible_truncation)] // less than the number of slots
    const fn slot(&self, hash: u64) -> usize {
        (hash << SHARD_BITS >> self.shift) as usize
    }

    fn insert(&mut self, hash: u64, entry: Entry) -> Found {
        let (mut slot, last) = (self.slot(hash), self.slots.len() - 1);
        loop {
            let there = &mut self.slots[slot & last];
            if *there == entry {
                return Found::Same;
            }
            if there.is_empty() {
                *there = entry;
                self.taken += 1;
                return Found::Nothing;
            }
            if there.id() == entry.id() {
                return Found::Other;
            }
            slot += 1;
        }
    }

    /// Reserves slots for a total number of entries.
    fn reserve_total(&mut self, entries: usize, keys: &Keys) {
        if entries <= self.slots.len() / 4 * 3 {
            return;
        }
        let slots = (entries * 4).div_ceil(3).next_power_of_two();
        let before = std::mem::replace(&mut self.slots, vec![Entry::default(); slots]);
        self.shift = u64::BITS - slots.trailing_zeros();
        self.taken = 0;
        for entry in before.into_iter().filter(|entry| !entry.is_empty()) {
            self.insert(keys.hash(entry), entry);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(id: u16, digest: u8) -> Entry {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&id.to_le_bytes());
        Entry::new(&bytes, u64::from(digest) << 32)
    }

    proptest! {
        #[test]
        fn finds_what_a_hash_map_finds(
            batches in prop::collection::vec(prop::collection::vec((0_u16..600, 0_u8..6), 0..200), 0..20)
        ) {
            let (mut set, mut map) = (IdentitySet::new().unwrap(), HashMap::new());
            for batch in batches {
                let entries: Vec<Entry> = batch.iter().map(|(id, digest)| entry(*id, *digest)).collect();
                let mut found = Vec::new();
                set.insert(&entries, |one| found.push(one));
                let expected = batch.iter().map(|(id, digest)| match map.get(id) {
                    Some(before) if *before == digest | 1 => Found::Same,
                    Some(_) => Found::Other,
                    None => {
                        map.insert(*id, digest | 1);
                        Found::Nothing
                    }
                });
                prop_assert_eq!(found, expected.collect::<Vec<_>>());
                prop_assert_eq!(set.len(), map.len());
            }
        }
    }

    #[test]
    fn stays_within_the_stated_memory() {
        let mut set = IdentitySet::new().unwrap();
        for thousand in 0..60_u16 {
            let entries: Vec<Entry> = (0..1_000).map(|number| entry(1_000 * thousand + number, 1)).collect();
            set.insert(&entries, |found| assert_eq!(found, Found::Nothing));
            let slots: usize = set.shards.iter().map(|shard| shard.slots.len()).sum();
            let bytes = slots * size_of::<Entry>();
            assert!(bytes <= 44 * set.len().max(1_000), "{bytes} bytes for {}", set.len());
        }
    }
}
