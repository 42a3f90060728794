//! What a timestamp costs a curator: 1,000,000 users in 25 classes, 100 values. Counting the users' values into sealed histograms is
//! part of it. Beside it a straightforward loop that goes through all users for each step, as the paper writes its algorithms.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::central::classes::{Classes, Registry, Requirement};
use tidegate::central::{Central, CentralKind, Estimator, Personal, PersonalKind, PersonalSettings, Settings};
use tidegate::kernel::primitives::{Neighbours, sampling_probability, seal_histogram};
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

/// The value of a user at a timestamp: the stream moves now and then, so that something is published.
fn value(user: u32, timestamp: u64) -> u32 {
    let hashed = user.wrapping_mul(0x9e37_79b1) >> 8;
    (hashed % DOMAIN + (timestamp / 4) as u32 * (hashed >> 12 & 1)) % DOMAIN
}

fn mechanisms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timestamp_of_1000000_users");
    for kind in CentralKind::ALL {
        group.bench_function(kind.name(), |bencher| {
            let settings = Settings::new("1".parse().unwrap(), NonZeroU64::new(40).unwrap(), DOMAIN);
            let mut mechanism = Central::new(kind, settings).unwrap();
            let (mut random, mut timestamp) = (SeededRandom::new(1), 0);
            bencher.iter(|| {
                let values = (0..USERS).map(|user| value(user, timestamp));
                let sealed = seal_histogram(timestamp, values, DOMAIN).unwrap();
                timestamp += 1;
                mechanism.push(&sealed, &mut random).unwrap()
            });
        });
    }
    for kind in PersonalKind::ALL {
        for estimator in [Estimator::Sampling, Estimator::Stratified] {
            group.bench_function(format!("{kind}_{estimator:?}").to_lowercase(), |bencher| {
                let settings = PersonalSettings { estimator, ..PersonalSettings::new(DOMAIN) };
                let mut mechanism = Personal::new(kind, classes(), settings).unwrap();
                let mut registry = Registry::new(classes());
                (0..USERS).for_each(|user| drop(registry.join((user % 25) as u16).unwrap()));
                let (mut random, mut timestamp) = (SeededRandom::new(1), 0);
                bencher.iter(|| {
                    registry.begin(timestamp).unwrap();
                    let values = (0..USERS).map(|user| (user, value(user, timestamp)));
                    let sealed = registry.seal(timestamp, values, DOMAIN).unwrap();
                    timestamp += 1;
                    mechanism.push(&sealed, registry.members(), &mut random).unwrap()
                });
            });
        }
    }
    group.bench_function("reference_loop", |bencher| {
        // Each user with a budget; a sample for the distance and one for the publication, user by user.
        let classes = classes();
        let budget = |user: u32| classes.all()[user as usize % 25].requirement.epsilon.divided_by(80).unwrap();
        let budgets: Vec<Epsilon> = (0..USERS).map(budget).collect();
        let threshold = *budgets.iter().max().unwrap();
        let (mut random, mut timestamp) = (SeededRandom::new(1), 0);
        bencher.iter(|| {
            let mut steps = [[0_u64; DOMAIN as usize]; 2];
            for step in &mut steps {
                for user in 0..USERS {
                    let share = sampling_probability(Neighbours::AddRemove, budgets[user as usize], threshold).unwrap();
                    #[allow(clippy::cast_precision_loss)]
                    if ((random.next_word() >> 11) as f64) < share * (1_u64 << 53) as f64 {
                        step[value(user, timestamp) as usize] += 1;
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
