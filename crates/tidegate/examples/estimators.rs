//! How personalised mechanisms compare with each other and with those that give everyone the strictest guarantee: the
//! mean squared error of a count, on streams whose users are spread over classes of budgets 0.6, 0.8, 1.0 and windows
//! 40, 80, 120.
//!
//! `cargo run --release -p tidegate --example estimators`
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::num::NonZeroU64;

use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::{Central, CentralKind, CentralSettings, Estimator, Personal, PersonalKind, PersonalSettings};
use tidegate::kernel::primitives::ClassHistograms;
use tidegate::kernel::simulation::multinomial;
use tidegate::kernel::{Sealed, SeededRandom};
use tidegate::release::Release;

const TIMESTAMPS: u64 = 400;

/// The weights of the values at a timestamp.
fn weights(stream: &str, timestamp: u64) -> Vec<f64> {
    let (t, cells) = (timestamp as f64, if stream.ends_with("100") { 100 } else { 2 });
    if cells == 2 {
        let share = if stream == "log" { 0.25 / (1.0 + (-0.01 * t).exp()) } else { 0.05 * (0.01 * t).sin() + 0.075 };
        return vec![1.0 - share, share];
    }
    // A city that wanders: a heavy region over a hundred cells moves slowly, or jumps every fifty timestamps.
    let centre = if stream == "jump100" { (timestamp / 50 * 37 % 100) as f64 } else { 50.0 + 40.0 * (0.01 * t).sin() };
    (0..cells).map(|cell| 0.2 + 8.0 * (-((f64::from(cell) - centre) / 8.0).powi(2)).exp()).collect()
}

fn squared_error(release: &Release, truth: &[u64]) -> f64 {
    let counts = release.statistic.leaves().0;
    counts.iter().zip(truth).map(|(count, truth)| (count - *truth as f64).powi(2)).sum::<f64>() / truth.len() as f64
}

/// The mean squared error of each mechanism on one stream.
fn run(stream: &str, users: u64, correlated: bool, seed: u64) -> Vec<(String, f64)> {
    let window = |length| NonZeroU64::new(length).unwrap();
    let requirements: Vec<Requirement> = ["0.6", "0.8", "1"]
        .iter()
        .flat_map(|epsilon| [40, 80, 120].map(|w| Requirement { epsilon: epsilon.parse().unwrap(), window: window(w) }))
        .collect();
    let classes = Classes::numbered(&requirements).unwrap();
    let domain = weights(stream, 0).len() as u32;
    let members = vec![users / 9; 9];
    let mut random = SeededRandom::new(seed);

    let strictest = CentralSettings::new("0.6".parse().unwrap(), window(120), domain);
    let mut central: Vec<Central> = CentralKind::ALL.map(|kind| Central::new(kind, strictest).unwrap()).into();
    let mut personal = Vec::new();
    for kind in PersonalKind::ALL {
        for estimator in [Estimator::Sampling, Estimator::Stratified] {
            let settings = PersonalSettings { estimator, ..PersonalSettings::new(domain) };
            personal.push(Personal::new(kind, classes.clone(), settings).unwrap());
        }
    }
    let mut errors = vec![0.0; central.len() + personal.len()];
    for timestamp in 0..TIMESTAMPS {
        let mut counts = Vec::new();
        for class in 0..9 {
            let mut weights = weights(stream, timestamp);
            if correlated && class < 3 {
                // The most careful third of the users prefers the last value.
                weights[domain as usize - 1] += 0.1 * weights.iter().sum::<f64>();
            }
            counts.extend(multinomial(users / 9, &weights, &mut random).unwrap());
        }
        let cells = domain as usize;
        let truth: Vec<u64> = (0..cells).map(|cell| counts.iter().skip(cell).step_by(cells).sum()).collect();
        let numbers: Vec<u32> = (0..9).collect();
        let mut releases: Vec<Release> = Vec::new();
        for mechanism in &mut central {
            let whole = Sealed::at(mechanism.ledger().account(), timestamp, truth.clone());
            releases.extend(mechanism.push(&whole, &mut random).unwrap());
        }
        for mechanism in &mut personal {
            let account = mechanism.ledgers().account();
            let by_class = ClassHistograms::seal(account, timestamp, &numbers, counts.clone()).unwrap();
            releases.extend(mechanism.push(&by_class, &members, &mut random).unwrap());
        }
        for (error, release) in errors.iter_mut().zip(&releases) {
            *error += squared_error(release, &truth) / TIMESTAMPS as f64;
        }
    }
    let names = central.iter().map(|mechanism| mechanism.kind().to_string());
    let personal = personal.iter().map(|m| format!("{} {:?}", m.kind(), m.settings().estimator).to_lowercase());
    names.chain(personal).zip(errors).collect()
}

fn main() {
    let repeats = 10;
    for correlated in [false, true] {
        for stream in ["sin", "wander100", "jump100"] {
            for users in [9_000, 180_000] {
                println!("{stream}, {users} users{}", if correlated { ", careful ones differ" } else { "" });
                let runs: Vec<_> = (0..repeats).map(|seed| run(stream, users, correlated, seed)).collect();
                for (index, (name, _)) in runs[0].iter().enumerate() {
                    let mean = runs.iter().map(|run| run[index].1).sum::<f64>() / f64::from(repeats as u32);
                    println!("  {name:16} {mean:12.1}");
                }
            }
        }
    }
}
