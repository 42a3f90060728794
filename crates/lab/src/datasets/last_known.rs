//! Streams of users who are seen now and then: each holds the value at which it was last seen.

use std::collections::HashMap;

/// A user was seen at a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    /// The timestamp.
    pub(super) slot: u32,
    /// What tells the sightings of a timestamp apart: the later one counts.
    pub(super) moment: u32,
    pub(super) user: u32,
    pub(super) value: u32,
}

/// The label of value zero, which a user holds until it is first seen.
pub(super) const NOT_SEEN: &str = "not seen yet";

/// How many users hold each value at the end of each timestamp, from the first at which anybody was seen to the last,
/// and at most `length` of them. The users are all who are ever seen. Value zero must not be anybody's: it stands for
/// [`NOT_SEEN`].
pub(super) fn counts(mut sightings: Vec<Sighting>, domain: usize, length: usize) -> Vec<Vec<u64>> {
    // Stable: where two are of the same moment, the later line counts.
    sightings.sort_by_key(|sighting| (sighting.slot, sighting.moment));
    let mut held: HashMap<u32, u32> = sightings.iter().map(|sighting| (sighting.user, 0)).collect();
    let mut row = vec![0_u64; domain];
    row[0] = held.len() as u64;
    let mut rows: Vec<Vec<u64>> = Vec::new();
    let Some(first) = sightings.first().map(|sighting| sighting.slot) else {
        return rows;
    };
    let mut seen = sightings.into_iter().peekable();
    let mut slot = first;
    while rows.len() < length && seen.peek().is_some() {
        while let Some(sighting) = seen.next_if(|sighting| sighting.slot == slot) {
            let before = held.insert(sighting.user, sighting.value).unwrap_or_default();
            row[before as usize] -= 1;
            row[sighting.value as usize] += 1;
        }
        rows.push(row.clone());
        slot += 1;
    }
    rows
}
