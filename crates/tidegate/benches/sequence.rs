//! What a step of a sequence mechanism costs: belief, channel, kernel's weights, answer, and the next belief.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::kernel::{Epsilon, Randomness, SeededRandom};
use tidegate::sequence::batched;
use tidegate::sequence::belief::Belief;
use tidegate::sequence::crr::{Crr, CrrSettings};
use tidegate::sequence::distance::Distance;
use tidegate::sequence::effort::{self, Effort};
use tidegate::sequence::model::{Background, Model, Order, Smoothing};

/// A random walk over so many symbols, in which each has few successors.
fn walk(domain: u32, length: usize, random: &mut SeededRandom) -> Vec<u32> {
    let mut at = 0;
    (0..length)
        .map(|_| {
            let successor = random.next_word() % 8;
            at = ((u64::from(at) * 31 + successor * successor * 17 + 1) % u64::from(domain)) as u32;
            at
        })
        .collect()
}

/// Constant answers cost next to nothing, and are not what is measured.
fn assert_spent(mechanism: &Crr, steps: u64) {
    let spent = mechanism.leakage().steps();
    assert!(10 * spent >= 9 * steps, "only {spent} of {steps} steps were not constant");
}

fn hamming(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hamming_step");
    for (domain, pseudo_count) in [(100, 50.0), (10_000, 1.0)] {
        let random = &mut SeededRandom::new(1);
        let training = walk(domain, 1_000_000, random);
        let smoothing = Smoothing { pseudo_count, background: Background::Frequencies };
        let model = Model::learn(domain, [training.as_slice()], Order::One, smoothing).unwrap();
        let symbols = walk(domain, 10_000, random);
        let mut mechanism = Crr::new(model, CrrSettings::new("1".parse().unwrap())).unwrap();
        let mut timestamp = 0_u64;
        group.bench_function(format!("d_{domain}"), |bencher| {
            bencher.iter(|| {
                let symbol = symbols[timestamp as usize % symbols.len()];
                let sealed = mechanism.seal(timestamp, symbol).unwrap();
                timestamp += 1;
                mechanism.step(&sealed, random).unwrap()
            });
        });
        assert_spent(&mechanism, timestamp);
    }
    // The worst for the belief: a full matrix.
    let random = &mut SeededRandom::new(2);
    let mut matrix: Vec<f64> = (0..10_000).map(|_| 1.0 + (random.next_word() >> 44) as f64).collect();
    for row in matrix.chunks_exact_mut(100) {
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|weight| *weight /= sum);
    }
    let model = Model::dense(vec![0.01; 100], matrix).unwrap();
    let mut mechanism = Crr::new(model, CrrSettings::new("1".parse().unwrap())).unwrap();
    let mut timestamp = 0_u64;
    group.bench_function("d_100_full_matrix", |bencher| {
        bencher.iter(|| {
            let sealed = mechanism.seal(timestamp, (timestamp % 100) as u32).unwrap();
            timestamp += 1;
            mechanism.step(&sealed, random).unwrap()
        });
    });
    assert_spent(&mechanism, timestamp);
    group.finish();
}

/// The channel alone, for a belief without any order in it.
fn other_distances(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("channel");
    let random = &mut SeededRandom::new(3);
    for domain in [100, 1000] {
        let weights: Vec<f64> = (0..domain).map(|_| 1.0 + (random.next_word() >> 44) as f64).collect();
        let sum: f64 = weights.iter().sum();
        let belief: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        for (name, distance) in [("absolute", Distance::Absolute), ("squared", Distance::Squared)] {
            let epsilon = "1".parse().unwrap();
            group.bench_function(format!("bins_{name}_d_{domain}"), |bencher| {
                bencher.iter(|| effort::channel(&belief, epsilon, &distance, Effort::Fast).unwrap());
            });
            group.bench_function(format!("programme_{name}_d_{domain}"), |bencher| {
                bencher.iter(|| effort::channel(&belief, epsilon, &distance, Effort::Thorough).unwrap());
            });
        }
    }
    let model = Model::dense(vec![0.7, 0.3], vec![0.9, 0.1, 0.2, 0.8]).unwrap();
    for length in [5, 6] {
        let sequences = Belief::new(&model).sequences(&model, length).unwrap();
        let epsilon = "0.5".parse::<Epsilon>().unwrap().checked_mul(length.into()).unwrap();
        for (name, effort) in [("clusters", Effort::Fast), ("programme", Effort::Thorough)] {
            group.bench_function(format!("batch_{name}_{}_sequences", sequences.len()), |bencher| {
                bencher.iter(|| batched::channel(&sequences, 2, length, epsilon, &Distance::Hamming, effort).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = hamming, other_distances
}
criterion_main!(benches);
