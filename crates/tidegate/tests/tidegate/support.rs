//! What several subjects need.

use std::num::NonZeroU64;

use proptest::test_runner::{Config, RngSeed};
use tidegate::kernel::{Cohort, Question, Randomness, SLOTS, SeededRandom};
use tidegate::local::LocalSettings;

/// The settings of a property test: so many cases from a fixed seed, and no file that remembers failures.
pub fn repeatable(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(0x7_1de9), ..Config::default() }
}

/// A number between zero and one.
pub fn unit(random: &mut SeededRandom) -> f64 {
    (random.next_word() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number of mean zero and of the given variance, uniformly distributed.
pub fn error(random: &mut SeededRandom, variance: f64) -> f64 {
    (unit(random) - 0.5) * (12.0 * variance).sqrt()
}

/// The same mechanism, with the same account: what a ledger forbids, and a test needs for comparing two runs.
pub fn copy_of<T: serde::Serialize + serde::de::DeserializeOwned>(mechanism: &T) -> T {
    postcard::from_bytes(&postcard::to_allocvec(mechanism).unwrap()).unwrap()
}

/// What was asked of which slots, over time.
#[derive(Clone, Default)]
pub struct Asked {
    questions: Vec<(u64, Cohort, u64)>,
}

impl Asked {
    pub fn note(&mut self, question: &Question) {
        self.questions.push((question.timestamp, question.cohort, question.epsilon.units()));
    }

    /// The most that the users of any slot were asked to spend in any window, in units; that it is within the budget.
    /// At the whole budget, this says that no slot is asked twice within a window.
    pub fn check(&self, settings: &LocalSettings) -> u64 {
        // Users of two slots are asked differently only if a cohort begins between them.
        let mut slots: Vec<u16> = vec![0];
        for (_, cohort, _) in &self.questions {
            if let Cohort::Slots { first, count } = *cohort {
                assert!(count <= SLOTS);
                slots.extend([first, first.wrapping_add(count as u16)]);
            }
        }
        slots.sort_unstable();
        slots.dedup();
        let mut largest = 0;
        for slot in slots {
            let of_slot: Vec<_> = self.questions.iter().filter(|(_, cohort, _)| cohort.contains(slot)).collect();
            for (start, _, _) in &of_slot {
                let window = *start..*start + settings.window.get();
                let spent = of_slot.iter().filter(|(timestamp, _, _)| window.contains(timestamp)).map(|(_, _, e)| e);
                largest = largest.max(spent.sum());
            }
        }
        assert!(largest <= settings.epsilon.units(), "{largest} units in one window: {:?}", self.questions);
        largest
    }
}

/// LocalSettings with epsilon 1 and a million users.
pub fn settings(window: u64, domain: u32) -> LocalSettings {
    let (window, users) = (NonZeroU64::new(window).unwrap(), NonZeroU64::new(1_000_000).unwrap());
    LocalSettings::new("1".parse().unwrap(), window, domain, users)
}

/// A belief over so many symbols, some of them impossible: from even to very uneven.
pub fn random_belief(domain: usize, random: &mut SeededRandom) -> Vec<f64> {
    let uneven = [0.3, 1.0, 3.0][(random.next_word() % 3) as usize];
    let zeros = (random.next_word() % 2) as f64 * 0.3 * unit(random);
    let mut belief: Vec<f64> = (0..domain)
        .map(|_| if unit(random) < zeros { 0.0 } else { (-unit(random).max(1e-300).ln()).powf(uneven) })
        .collect();
    belief[(random.next_word() % domain as u64) as usize] += 1e-3;
    let sum: f64 = belief.iter().sum();
    belief.iter_mut().for_each(|weight| *weight /= sum);
    belief
}

/// A matrix of transitions, or a channel: so many rows that are beliefs.
pub fn random_rows(domain: usize, random: &mut SeededRandom) -> Vec<Vec<f64>> {
    (0..domain).map(|_| random_belief(domain, random)).collect()
}

/// Bytes as text, for golden files.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of such a text.
pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|index| u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap()).collect()
}
