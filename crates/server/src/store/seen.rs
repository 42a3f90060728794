//! [`Seen`]: which identities have reported, and with what.
//!
//! Reports come by the thousand, and the set of those that came before is larger than any cache, so that what a look-up
//! costs is the wait for memory. A batch is therefore looked up in two passes: the first touches the places of some
//! dozens of identities, which the processor does all at once since none depends on another, and the second finds them
//! in the cache. The set is divided, so that it grows by a part at a time, in memory that another part has left, and
//! nobody waits for the whole to be moved. A place is found by the upper bits of a hash, so that growing goes through
//! memory in order.

use std::fmt;

use super::StoreError;

/// An identity without the prefix, which the phase says, and half of a digest: in the upper 96 bits and the lower 32,
/// of which the last is set.
///
/// The digest only tells a repetition from another report under the same identity, and neither is counted.
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

    /// That of a place that is not taken.
    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How many places are touched before the first is looked at.
const AHEAD: usize = 32;

/// How many parts there are, as a power of two.
const PART_BITS: u32 = 6;

/// How many places a part has at first, as a power of two.
const FIRST_BITS: u32 = 4;

/// What was found under an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing; it is there now.
    Nothing,
    /// The same report.
    Same,
    /// Another report.
    Other,
}

/// Keys of a multilinear hash: whoever does not know them cannot choose two identities that have the same upper 32 bits
/// with a probability above 2^-32.
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

    /// The upper half is what counts: a part and a place in it, of fewer bits together.
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
/// Honest identities are the output of a hash already, but nobody has to be honest: they are hashed again, with keys
/// that are drawn anew for each set.
#[derive(Debug)]
pub(super) struct Seen {
    parts: Vec<Part>,
    keys: Keys,
}

impl Seen {
    /// An empty set.
    ///
    /// # Errors
    /// If the operating system has no randomness.
    pub(super) fn new() -> Result<Self, StoreError> {
        Ok(Self { parts: (0..1 << PART_BITS).map(|_| Part::new()).collect(), keys: Keys::draw()? })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.taken).sum()
    }

    /// Makes room for so many in all.
    pub(super) fn make_room(&mut self, entries: usize) {
        // With what chance puts into one part more than into another.
        let each = entries.div_ceil(self.parts.len());
        let most = each + 4 * each.isqrt();
        self.parts.iter_mut().filter(|part| part.taken < most).for_each(|part| part.make_room(most, &self.keys));
    }

    /// Takes in entries, in their order, and says what was there under each one's identity. What was there stays.
    pub(super) fn insert(&mut self, entries: &[Entry], mut found: impl FnMut(Found)) {
        let mut hashes = [0; AHEAD];
        for entries in entries.chunks(AHEAD) {
            let mut touched = 0;
            for (hash, entry) in hashes.iter_mut().zip(entries) {
                *hash = self.keys.hash(*entry);
                let part = &self.parts[part_of(*hash)];
                touched ^= part.places[part.place(*hash)].0;
            }
            // Nobody needs it, which the compiler must not find out.
            std::hint::black_box(touched);
            for (hash, entry) in hashes.iter().zip(entries) {
                let part = &mut self.parts[part_of(*hash)];
                part.make_room(part.taken + 1, &self.keys);
                found(part.insert(*hash, *entry));
            }
        }
    }
}

/// Which part an entry with that hash is in.
#[allow(clippy::cast_possible_truncation)] // a few bits
const fn part_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PART_BITS)) as usize
}

#[derive(Debug)]
struct Part {
    /// A power of two of them, of which at most three in four are taken. An entry stands at its place or after it, with
    /// no empty place between.
    places: Vec<Entry>,
    /// How far a hash is shifted to be a place.
    shift: u32,
    taken: usize,
}

impl Part {
    fn new() -> Self {
        let places = vec![Entry::default(); 1 << FIRST_BITS];
        Self { places, shift: u64::BITS - FIRST_BITS, taken: 0 }
    }

    /// Where an entry with that hash stands if no other is in its way.
    #[allow(clippy::cast_possible_truncation)] // less than there are places
    const fn place(&self, hash: u64) -> usize {
        (hash << PART_BITS >> self.shift) as usize
    }

    fn insert(&mut self, hash: u64, entry: Entry) -> Found {
        let (mut place, last) = (self.place(hash), self.places.len() - 1);
        loop {
            let there = &mut self.places[place & last];
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
            place += 1;
        }
    }

    /// Makes room for so many in all.
    fn make_room(&mut self, entries: usize, keys: &Keys) {
        if entries <= self.places.len() / 4 * 3 {
            return;
        }
        let places = (entries * 4).div_ceil(3).next_power_of_two();
        let before = std::mem::replace(&mut self.places, vec![Entry::default(); places]);
        self.shift = u64::BITS - places.trailing_zeros();
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
        fn it_finds_what_a_map_finds(batches in prop::collection::vec(prop::collection::vec((0_u16..600, 0_u8..6), 0..200), 0..20)) {
            let (mut seen, mut map) = (Seen::new().unwrap(), HashMap::new());
            for batch in batches {
                let entries: Vec<Entry> = batch.iter().map(|(id, digest)| entry(*id, *digest)).collect();
                let mut found = Vec::new();
                seen.insert(&entries, |one| found.push(one));
                let expected = batch.iter().map(|(id, digest)| match map.get(id) {
                    Some(before) if *before == digest | 1 => Found::Same,
                    Some(_) => Found::Other,
                    None => {
                        map.insert(*id, digest | 1);
                        Found::Nothing
                    }
                });
                prop_assert_eq!(found, expected.collect::<Vec<_>>());
                prop_assert_eq!(seen.len(), map.len());
            }
        }
    }

    #[test]
    fn it_takes_the_room_that_is_stated() {
        let mut seen = Seen::new().unwrap();
        for thousand in 0..60_u16 {
            let entries: Vec<Entry> = (0..1_000).map(|number| entry(1_000 * thousand + number, 1)).collect();
            seen.insert(&entries, |found| assert_eq!(found, Found::Nothing));
            let places: usize = seen.parts.iter().map(|part| part.places.len()).sum();
            let bytes = places * size_of::<Entry>();
            assert!(bytes <= 44 * seen.len().max(1_000), "{bytes} bytes for {}", seen.len());
        }
    }
}
