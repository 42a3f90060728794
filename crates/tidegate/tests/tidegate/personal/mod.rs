//! Mechanisms with personal privacy requirements.

mod budget;
mod noise;
mod plbu;
mod saved;

use std::num::NonZeroU64;

use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::{Estimator, Personal, PersonalSettings};
use tidegate::kernel::primitives::ClassHistograms;
use tidegate::kernel::{Epsilon, Sealed, SeededRandom};
use tidegate::release::Release;

use crate::central::spent_at;

const ESTIMATORS: [Estimator; 2] = [Estimator::Sampling, Estimator::Stratified];

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

pub fn classes(requirements: &[(&str, u64)]) -> Classes {
    let requirement = |(budget, window): &(&str, u64)| Requirement {
        epsilon: epsilon(budget),
        window: NonZeroU64::new(*window).unwrap(),
    };
    Classes::numbered(&requirements.iter().map(requirement).collect::<Vec<_>>()).unwrap()
}

fn settings(domain: u32, estimator: Estimator) -> PersonalSettings {
    PersonalSettings { estimator, ..PersonalSettings::new(domain) }
}

fn seal(mechanism: &Personal, timestamp: u64, classes: usize, counts: Vec<u64>) -> Sealed<ClassHistograms> {
    let numbers: Vec<u32> = (0..classes as u32).collect();
    ClassHistograms::seal(mechanism.ledgers().account(), timestamp, &numbers, counts).unwrap()
}

fn push(
    mechanism: &mut Personal,
    timestamp: u64,
    members: &[u64],
    counts: Vec<u64>,
    random: &mut SeededRandom,
) -> Release {
    let sealed = seal(mechanism, timestamp, members.len(), counts);
    let mut releases = mechanism.push(&sealed, members, random).unwrap();
    assert_eq!(releases.len(), 1);
    releases.remove(0)
}

/// What each class has spent at a timestamp.
pub fn spends_at(mechanism: &Personal, timestamp: u64) -> Vec<u64> {
    mechanism.ledgers().iter().map(|(_, ledger)| spent_at(ledger, timestamp)).collect()
}

fn save(mechanism: &Personal) -> Vec<u8> {
    postcard::to_allocvec(mechanism).unwrap()
}

fn load(bytes: &[u8]) -> Personal {
    postcard::from_bytes(bytes).unwrap()
}
