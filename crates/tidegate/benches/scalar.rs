//! How many values a second a scalar mechanism releases, on one core, at a delay of 100 and with randomness from
//! the operating system. The values walk up and down the domain, as a stream does.
//!
//! A run of ten million values for the two that are meant for long streams, fewer for the others; each is measured
//! once. The table shows values for each second that passed, and, where the system tells, for each second of processor
//! time: on a machine that others use as well, the latter is what one core does. Names given as arguments choose among
//! the mechanisms.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss)]

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{Grid, SystemRandom};
use tidegate::scalar::{Publication, Scalar, ScalarKind, ScalarSettings, Truncation};

const DELAY: u32 = 100;
const HIGH: f64 = 1_559.0;

/// Sealing is part of the way of a value, and so is counted; making up the value is not.
fn run(kind: ScalarKind, settings: ScalarSettings, values: u64) -> (u64, Duration) {
    let mut mechanism = Scalar::new(kind, settings).unwrap();
    let random = &mut SystemRandom::new().unwrap();
    let walk: Vec<f64> = (0..4096).map(|step| (f64::from(step) / 200.0).sin().abs() * HIGH).collect();
    let mut releases = Vec::new();
    let mut released = 0;
    let begin = Instant::now();
    for timestamp in 0..values {
        let reading = walk[usize::try_from(timestamp % 4096).unwrap()];
        mechanism.push_into(mechanism.seal(timestamp, reading).unwrap(), random, &mut releases).unwrap();
        released += releases.len() as u64;
        releases.clear();
    }
    released += mechanism.finish(random).unwrap().len() as u64;
    (released, begin.elapsed())
}

/// How long the process has been running on a processor, where Linux tells.
fn processor_time() -> Option<Duration> {
    let schedule = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    schedule.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let settings = ScalarSettings::new("1".parse().unwrap(), Grid::new(0.0, HIGH, 1.0).unwrap(), DELAY);
    let with = |publication| ScalarSettings { publication: Some(publication), ..settings };
    let truncated = ScalarSettings { truncation: Some(Truncation::default()), ..settings };
    let count = ScalarSettings { protects: Protects::Contribution(NonZeroU64::MIN), ..settings };
    let (many, some) = (10_000_000, 1_000_000);
    let runs = [
        ("bucorder", ScalarKind::Bucorder, settings, many),
        ("contin", ScalarKind::Contin, settings, many),
        ("constant", ScalarKind::Constant, settings, some),
        ("laplace", ScalarKind::Laplace, settings, some),
        ("clamped", ScalarKind::Clamped, settings, some),
        ("pegasus", ScalarKind::Pegasus, settings, some),
        ("pegasus_delay", ScalarKind::PegasusDelay, settings, some),
        ("contin on points", ScalarKind::Contin, with(Publication::Points), some),
        ("contin, truncated", ScalarKind::Contin, truncated, some),
        ("discontin", ScalarKind::Discontin, settings, some),
        ("comporder", ScalarKind::Comporder, settings, some),
        ("track", ScalarKind::Track, settings, some),
        ("track of a count", ScalarKind::Track, count, some),
        ("bucorder on sums", ScalarKind::Bucorder, with(Publication::Sums), some),
        ("bucorder, truncated", ScalarKind::Bucorder, truncated, some),
    ];
    println!("{:<20} {:>10} {:>12} {:>22}", "mechanism", "values", "M values/s", "M values/processor-s");
    for (name, kind, settings, values) in runs {
        if !chosen.is_empty() && !chosen.iter().any(|part| name.contains(part)) {
            continue;
        }
        let values = if is_test { 1_000 } else { values };
        let before = processor_time();
        let (released, elapsed) = run(kind, settings, values);
        assert_eq!(released, values);
        let rate = |time: Duration| format!("{:.2}", values as f64 / time.as_secs_f64() / 1e6);
        let processor = processor_time().zip(before).and_then(|(after, before)| after.checked_sub(before));
        let processor = processor.map_or_else(|| "-".to_owned(), rate);
        println!("{name:<20} {values:>10} {:>12} {processor:>22}", rate(elapsed));
    }
}
