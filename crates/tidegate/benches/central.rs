//! What a timestamp costs a curator: 1,000,000 users in 25 classes, 100 values. Counting the users' values into sealed
//! histograms is part of it. Beside it a straightforward loop that goes through all users for each step, as the paper
//! writes its algorithms.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::central::classes::{Classes, Registry, Requirement};
use tidegate::central::{Central, CentralKind, CentralSettings, Estimator, Personal, PersonalKind, PersonalSettings};
use tidegate::kernel::primitives::seal_histogram;
use tidegate::kernel::{Epsilon, Randomness, SeededRandom};

const USERS: u32 = 1_000_000;
const DOMAIN: u32 = 100;

fn classes() -> Classes {
    let requirement = |class: u64| Requirement {
        epsilon: Epsilon::from_units((1 + class / 5) * 200_000_000).unwrap(),
        window: NonZeroU64::new(40 * (1 + class % 5)).unwrap(),
    };
    Classes::numbered(&(0..25).map(requirement).collect::<Vec<_>>()).unwrap()
}

/// The values of all users in two states of the stream, which moves between them now and then, so that something is
/// published.
fn values() -> [Vec<u32>; 2] {
    let value = |user: u32, moved: u32| {
        let hashed = user.wrapping_mul(0x9e37_79b1) >> 8;
        (hashed % DOMAIN + moved * (hashed >> 12 & 1)) % DOMAIN
    };
    [0, 1].map(|moved| (0..USERS).map(|user| value(user, moved)).collect())
}

fn mechanisms(criterion: &mut Criterion) {
    let values = values();
    let at = |timestamp: u64| &values[(timestamp / 4 % 2) as usize];
    let mut group = criterion.benchmark_group("timestamp_of_1000000_users");
    for kind in CentralKind::ALL {
        let settings = CentralSettings::new("1".parse().unwrap(), NonZeroU64::new(40).unwrap(), DOMAIN);
        let mut mechanism = Central::new(kind, settings).unwrap();
        let (mut random, mut timestamp) = (SeededRandom::new(1), 0);
        group.bench_function(kind.name(), |bencher| {
            bencher.iter(|| {
                let sealed =
                    seal_histogram(mechanism.ledger().account(), timestamp, at(timestamp).iter().copied(), DOMAIN)
                        .unwrap();
                timestamp += 1;
                mechanism.push(&sealed, &mut random).unwrap()
            });
        });
    }
    for kind in PersonalKind::ALL {
        for estimator in [Estimator::Sampling, Estimator::Stratified] {
            let settings = PersonalSettings { estimator, ..PersonalSettings::new(DOMAIN) };
            let mut mechanism = Personal::new(kind, classes(), settings).unwrap();
            let mut registry = Registry::new(classes());
            for user in 0..USERS {
                registry.join((user % 25) as u16).unwrap();
            }
            registry.begin(0).unwrap();
            let (mut random, mut timestamp) = (SeededRandom::new(1), 0);
            group.bench_function(format!("{kind}_{estimator:?}").to_lowercase(), |bencher| {
                bencher.iter(|| {
                    timestamp += 1;
                    registry.begin(timestamp).unwrap();
                    let values = (0..).zip(at(timestamp).iter().copied());
                    let sealed = registry.seal(mechanism.ledgers().account(), timestamp, values, DOMAIN).unwrap();
                    mechanism.push(&sealed, registry.members(), &mut random).unwrap()
                });
            });
        }
    }
    // Each user with a budget of one's own; a sample for the distance and one for the publication, user by user.
    let classes = classes();
    let budget = |user: u32| classes.all()[user as usize % 25].requirement.epsilon.as_f64() / 80.0;
    let budgets: Vec<f64> = (0..USERS).map(budget).collect();
    let threshold = budgets.iter().copied().fold(0.0, f64::max);
    let (mut random, mut timestamp) = (SeededRandom::new(1), 0);
    group.bench_function("reference_loop", |bencher| {
        bencher.iter(|| {
            let mut steps = [[0_u64; DOMAIN as usize]; 2];
            for step in &mut steps {
                for (budget, value) in budgets.iter().zip(at(timestamp)) {
                    let share = budget.exp_m1() / threshold.exp_m1();
                    #[allow(clippy::cast_precision_loss)]
                    if ((random.next_word() >> 11) as f64) < share * (1_u64 << 53) as f64 {
                        step[*value as usize] += 1;
                    }
                }
            }
            timestamp += 1;
            black_box(steps)
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10);
    targets = mechanisms
}
criterion_main!(benches);
