//! Fuzz targets on seeds and their mutations.

use tidegate_device::simulation::{Broken, SimulatedDisk};
use tidegate_device::wire::{Batch, BatchText, BatchWriter, ReportId, StreamTag, TokenProof};
use tidegate_kernel::{Randomness, SeededRandom};

#[allow(unreachable_pub)] // the fuzz targets have it, too
#[path = "../fuzz_bodies/mod.rs"]
mod fuzz_bodies;

/// Runs a body on a seed, on all its prefixes, and on many mutations.
fn try_around(seed: &[u8], body: fn(&[u8])) {
    (0..=seed.len()).for_each(|length| body(&seed[..length]));
    let mut random = SeededRandom::new(1);
    #[allow(clippy::cast_possible_truncation)] // below a length
    let mut below = |limit: usize| (random.next_word() % limit as u64) as usize;
    for _ in 0..4_000 {
        let mut changed = seed.to_vec();
        for _ in 0..1 + below(3) {
            let position = below(changed.len());
            match below(4) {
                0 => changed[position] ^= 1 << below(8),
                1 => changed[position] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
                2 => drop(changed.remove(position)),
                _ => changed.insert(position, u8::try_from(below(256)).unwrap()),
            }
        }
        body(&changed);
    }
}

fn seed_batch(token: Option<TokenProof>) -> Vec<u8> {
    let stream = StreamTag::of("visits");
    let mut writer = BatchWriter::new(stream, 7, 3, 2);
    (0..3).for_each(|device| {
        writer.push_with(ReportId::of(&[device; 16], stream, 7, 3), token, &[device; 2]).unwrap();
    });
    writer.write().unwrap()
}

#[test]
fn every_parsed_batch_is_valid() {
    for token in [None, Some(TokenProof::from([9; 32]))] {
        try_around(&seed_batch(token), fuzz_bodies::batch);
        let text = BatchText::of(&Batch::parse(&seed_batch(token)).unwrap(), "visits").unwrap();
        try_around(&serde_json::to_vec(&text).unwrap(), fuzz_bodies::batch_text);
    }
}

#[test]
fn every_draw_and_token_is_genuine() {
    let text = serde_json::to_vec(&fuzz_bodies::draw().request(&fuzz_bodies::credential())).unwrap();
    try_around(&text, fuzz_bodies::draw_request);
    // Each costs some milliseconds where the form is right.
    let text = serde_json::to_vec(&fuzz_bodies::answer()).unwrap();
    (0..=text.len()).for_each(|length| fuzz_bodies::draw_answer(&text[..length]));
    for position in (0..text.len()).step_by(97) {
        let mut changed = text.clone();
        changed[position] ^= 1;
        fuzz_bodies::draw_answer(&changed);
    }
    (0..200).for_each(|length: u8| fuzz_bodies::token_proof(&vec![length; length.into()]));
}

#[test]
fn every_loaded_state_keeps_its_window() {
    let disk = SimulatedDisk::new(Broken::default(), 1);
    let mut agent = fuzz_bodies::open(&disk, 996).unwrap();
    let half = 500_000_000;
    assert_eq!([998, 999].map(|now| fuzz_bodies::ask(&mut agent, now, 0, half)), [0, half]);
    drop(agent);
    let saved = disk.contents(fuzz_bodies::FILE).unwrap();
    // After the header of `disk::replace`: magic, checksum and file identity.
    let contents = [&[0], &saved[16 + 32 + 8..]].concat();
    try_around(&contents, fuzz_bodies::agent_state);
    try_around(&[&[1], saved.as_slice()].concat(), fuzz_bodies::agent_state);
}
