//! Mechanisms that release a number at each timestamp.

mod accuracy;
mod privacy;
mod refusals;
mod saved;
mod streams;

use tidegate::kernel::{Epsilon, Grid, Randomness, SeededRandom, VaultKey};
use tidegate::release::{Number, Release};
use tidegate::scalar::{Publication, SavedScalar, Scalar, ScalarKind, ScalarSettings, Smoother};

use crate::support::unit;

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn settings(amount: &str, delay: u32) -> ScalarSettings {
    ScalarSettings::new(epsilon(amount), Grid::new(0.0, 100.0, 1.0).unwrap(), delay)
}

fn number(release: &Release) -> Number {
    release.statistic.number().unwrap()
}

/// Every mechanism in every form that it has.
fn forms() -> Vec<(ScalarKind, Option<Publication>, Smoother)> {
    let mut forms: Vec<_> = ScalarKind::ALL.into_iter().map(|kind| (kind, None, Smoother::Mean)).collect();
    for smoother in [Smoother::Mean, Smoother::Median] {
        forms.push((ScalarKind::Contin, Some(Publication::Points), smoother));
        forms.push((ScalarKind::Discontin, Some(Publication::Points), smoother));
    }
    forms.push((ScalarKind::Pegasus, None, Smoother::Median));
    forms.push((ScalarKind::PegasusDelay, None, Smoother::Median));
    forms.push((ScalarKind::Bucorder, Some(Publication::Sums), Smoother::Mean));
    forms.push((ScalarKind::Bucorder, Some(Publication::ClippedSums), Smoother::Mean));
    forms
}

/// A stream with gaps, of readings that stay alike for a while.
fn stream(seed: u64, length: usize, gaps: u64) -> Vec<(u64, f64)> {
    let mut random = SeededRandom::new(seed);
    let (mut timestamp, mut level) = (random.next_word() % 5, 50.0);
    (0..length)
        .map(|_| {
            timestamp += 1 + if gaps > 0 { random.next_word() % (gaps + 1) } else { 0 };
            if random.next_word().is_multiple_of(7) {
                level = unit(&mut random) * 100.0;
            }
            (timestamp, (level + unit(&mut random)).min(100.0))
        })
        .collect()
}

fn reloaded(mechanism: &Scalar, key: &VaultKey, as_json: bool) -> Scalar {
    let saved = mechanism.save(key).unwrap();
    let loaded: SavedScalar = if as_json {
        serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap()
    } else {
        postcard::from_bytes(&postcard::to_allocvec(&saved).unwrap()).unwrap()
    };
    Scalar::load(loaded, key).unwrap()
}
