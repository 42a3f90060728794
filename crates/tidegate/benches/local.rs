//! What a local mechanism itself costs at a timestamp: opening it and digesting the answers, at d = 1,000. Making the
//! answers, which is the oracle's work, is not counted.
#![allow(missing_docs, clippy::unwrap_used)]

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::kernel::SeededRandom;
use tidegate::kernel::oracle::OracleKind;
use tidegate::kernel::simulation::estimate_of;
use tidegate::local::{Local, LocalKind, LocalSettings, Step};

const DOMAIN: u32 = 1_000;

fn mechanisms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("release_at_d_1000");
    for kind in LocalKind::ALL {
        group.bench_function(kind.name(), |bencher| {
            let (window, users) = (NonZeroU64::new(20).unwrap(), NonZeroU64::new(1_000_000).unwrap());
            let settings = LocalSettings::new("1".parse().unwrap(), window, DOMAIN, users);
            let settings = LocalSettings { oracle: Some(OracleKind::Oue), ..settings };
            let mut mechanism = Local::new(kind, settings).unwrap();
            let mut random = SeededRandom::new(1);
            let mut timestamp = 0;
            bencher.iter_custom(|timestamps| {
                let mut spent = Duration::ZERO;
                for _ in 0..timestamps {
                    let begin = Instant::now();
                    let mut step = mechanism.open(timestamp).unwrap();
                    spent += begin.elapsed();
                    while let Step::Ask(questions) = step {
                        let answers: Vec<_> = questions
                            .iter()
                            .map(|question| {
                                // The stream jumps now and then, so that something is published.
                                let heavy = if timestamp / 30 % 2 == 0 { 1 } else { 2 };
                                let cells = u64::from(question.cells());
                                let counts: Vec<u64> =
                                    (0..cells).map(|cell| if cell % 2 == 0 { heavy * 500 } else { 500 }).collect();
                                estimate_of(&question.oracle().unwrap(), &counts, &mut random).ok()
                            })
                            .collect();
                        let begin = Instant::now();
                        step = mechanism.answer(&questions, &answers).unwrap();
                        spent += begin.elapsed();
                    }
                    timestamp += 1;
                }
                spent
            });
        });
    }
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
