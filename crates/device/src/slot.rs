//! [`slot_of`]: the slot of a device in the population.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// The slot of a device: a keyed hash (SipHash-2-4) of its identity. Without the key, nobody can choose an identity for
/// its slot.
pub fn slot_of(key: &[u8; 16], identity: &[u8]) -> u16 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(identity);
    #[allow(clippy::cast_possible_truncation)] // the low 16 bits, on purpose
    let slot = hasher.finish() as u16;
    slot
}

#[cfg(test)]
mod tests {
    use super::slot_of;

    #[test]
    fn slots_spread_devices_evenly() {
        let key = *b"sixteen byte key";
        let mut counts = [0_u32; 16];
        for identity in 0..64_000_u32 {
            let slot = slot_of(&key, &identity.to_le_bytes());
            assert_eq!(slot, slot_of(&key, &identity.to_le_bytes()));
            counts[usize::from(slot >> 12)] += 1;
        }
        // Each count is binomial with mean 4000 and standard deviation 61. Six deviations are exceeded with probability
        // 3e-8.
        assert!(counts.iter().all(|count| count.abs_diff(4_000) < 6 * 61), "{counts:?}");
        assert_ne!(slot_of(b"another key 16 b", &[1]), slot_of(&key, &[1]));
    }
}
