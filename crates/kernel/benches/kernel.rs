//! Throughput of the kernel on one core: the noise sampler, and each frequency oracle on the device and on the server,
//! at d = 128 and d = 1024, epsilon = 1. A final table compares each oracle with the fastest Python library.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use std::fs;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use tidegate_kernel::noise::{DiscreteLaplace, Geometric, NoiseScale};
use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::{Epsilon, FreshRandom, Ledger, Permit, Randomness, SeededRandom, SystemRandom, Window};

const DOMAINS: [u32; 2] = [128, 1024];
const USERS: usize = 4096;
const OUTPUT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/criterion");

/// Users per second of the faster of pure-LDP 1.2 and multi-freq-ldpy 0.2.5 on one such core: device and server, d =
/// 128 and 1024.
const PEERS: [(OracleKind, [[f64; 2]; 2]); 5] = [
    (OracleKind::Grr, [[2.1e6, 7.1e6], [1.7e6, 7.2e6]]),
    (OracleKind::Oue, [[248e3, 2.2e6], [46e3, 704e3]]),
    (OracleKind::Olh, [[300e3, 14e3], [227e3, 1.7e3]]),
    (OracleKind::Hadamard, [[149e3, 1.6e6], [133e3, 5.6e6]]),
    (OracleKind::Subset, [[302e3, 132e3], [52e3, 14.5e3]]),
];

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .output_directory(Path::new(OUTPUT))
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(20);
    noise(&mut criterion);
    entropy(&mut criterion);
    ledger(&mut criterion);
    oracles(&mut criterion);
    criterion.final_summary();
    table();
}

fn one() -> Epsilon {
    "1".parse().unwrap()
}

fn noise(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("noise");
    group.throughput(Throughput::Elements(USERS as u64));
    let scale = NoiseScale::new(NonZeroU64::new(10).unwrap(), NonZeroU64::MIN);
    let mut random = SystemRandom::new().unwrap();
    let laplace = DiscreteLaplace::new(scale);
    group.bench_function("discrete_laplace", |bencher| {
        bencher.iter(|| (0..USERS).map(|_| laplace.sample(&mut random)).sum::<i128>());
    });
    let geometric = Geometric::new(scale);
    group.bench_function("geometric", |bencher| {
        bencher.iter(|| (0..USERS).map(|_| geometric.sample(&mut random)).sum::<i128>());
    });
    group.finish();
}

/// New entropy and the first words after it: the overhead of each primitive and report.
fn entropy(criterion: &mut Criterion) {
    let mut random = SystemRandom::new().unwrap();
    criterion.bench_function("entropy/fresh", |bencher| {
        bencher.iter(|| FreshRandom::new(&mut random).unwrap().next_word());
    });
}

fn ledger(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ledger");
    group.throughput(Throughput::Elements(USERS as u64));
    let share = one().divided_by(20).unwrap();
    group.bench_function("spend_w20", |bencher| {
        let mut ledger = Ledger::new(one(), Window::of(20).unwrap());
        let mut clock = 0;
        bencher.iter(|| {
            for _ in 0..USERS {
                let _permit = black_box(ledger.spend(clock, share).unwrap());
                clock += 1;
            }
        });
    });
    group.finish();
}

fn oracles(criterion: &mut Criterion) {
    for domain in DOMAINS {
        for kind in OracleKind::ALL {
            let oracle = Oracle::new(kind, domain, one()).unwrap();
            let mut random = SystemRandom::new().unwrap();
            let mut ledger = Ledger::new(one(), Window::EVENT);
            let mut clock = 0;
            let length = oracle.report_length();
            let mut batch = vec![0; USERS * length];
            let values: Vec<u32> = {
                let mut random = SeededRandom::new(1);
                let below = tidegate_kernel::noise::Below::new(NonZeroU64::new(u64::from(domain)).unwrap());
                (0..USERS).map(|_| below.sample(&mut random) as u32).collect()
            };
            let mut group = criterion.benchmark_group(kind.name());
            group.throughput(Throughput::Elements(USERS as u64));
            // Perturbation and encoding. The benchmark `ledger` measures the permit.
            group.bench_function(BenchmarkId::new("device", domain), |bencher| {
                let mut permit = || {
                    clock += 1;
                    ledger.spend(clock, oracle.epsilon()).unwrap()
                };
                bencher.iter_batched(
                    || (0..USERS).map(|_| permit()).collect::<Vec<Permit>>(),
                    |permits| {
                        let random = &mut FreshRandom::new(&mut random).unwrap();
                        for ((report, value), permit) in batch.chunks_exact_mut(length).zip(&values).zip(permits) {
                            oracle.perturb_into(permit, *value, random, report).unwrap();
                        }
                    },
                    BatchSize::PerIteration, // more permits at a time would no longer lie in the cache
                );
            });
            group.bench_function(BenchmarkId::new("server", domain), |bencher| {
                let mut aggregate = oracle.aggregate();
                bencher.iter(|| aggregate.add_batch(black_box(&batch)).unwrap());
            });
            group.bench_function(BenchmarkId::new("estimate", domain), |bencher| {
                let mut aggregate = oracle.aggregate();
                aggregate.add_batch(&batch).unwrap();
                bencher.iter(|| aggregate.estimate().unwrap());
            });
            group.finish();
        }
    }
}

/// Nanoseconds per iteration of a benchmark, if it has been run.
fn measured(benchmark: &str) -> Option<f64> {
    let path = Path::new(OUTPUT).join(benchmark).join("new/estimates.json");
    let estimates: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}

fn per_second(benchmark: &str) -> Option<f64> {
    measured(benchmark).map(|nanoseconds| USERS as f64 / nanoseconds * 1e9)
}

fn millions(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.2} M/s", rate / 1e6))
}

fn table() {
    println!("\n{:<18} {:>14}", "sampler", "per second");
    for sampler in ["noise/discrete_laplace", "noise/geometric", "ledger/spend_w20"] {
        println!("{sampler:<18} {:>14}", millions(per_second(sampler)));
    }
    println!(
        "\n{:<9} {:>5} {:>14} {:>8} {:>14} {:>8} {:>12}",
        "oracle", "d", "device", "x peer", "server", "x peer", "estimate"
    );
    for kind in OracleKind::ALL {
        for (column, domain) in DOMAINS.into_iter().enumerate() {
            let peer = PEERS.iter().find(|(peer, _)| *peer == kind).map(|(_, rates)| rates[column]);
            let rate = |side: &str| per_second(&format!("{kind}/{side}/{domain}"));
            let ratio = |rate: Option<f64>, side: usize| match (rate, peer) {
                (Some(rate), Some(peer)) => format!("{:.0}", rate / peer[side]),
                _ => "-".to_owned(),
            };
            let (device, server) = (rate("device"), rate("server"));
            let estimate = measured(&format!("{kind}/estimate/{domain}"));
            println!(
                "{kind:<9} {domain:>5} {:>14} {:>8} {:>14} {:>8} {:>12}",
                millions(device),
                ratio(device, 0),
                millions(server),
                ratio(server, 1),
                estimate.map_or_else(|| "-".to_owned(), |time| format!("{:.1} us", time / 1e3)),
            );
        }
    }
}
