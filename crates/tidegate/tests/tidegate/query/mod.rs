//! Queries over released streams, and monitors.

mod history;
mod monitor;
mod properties;
mod saved;

use tidegate::kernel::Window;
use tidegate::query::History;
use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};

fn window(length: u64) -> Window {
    Window::of(length).unwrap()
}

fn release(timestamp: u64, frequencies: &[f64], variance: f64, freshness: Freshness) -> Release {
    let (frequencies, variances) = (frequencies.to_vec(), vec![variance; frequencies.len()]);
    let statistic = Statistic::Histogram(Histogram { frequencies, variances });
    Release { timestamp, statistic, freshness, spent: Spent::Nothing, reports: 100, seeded: false, why: None }
}

fn history(releases: impl IntoIterator<Item = Release>) -> History {
    let mut history = History::new(window(3), 100).unwrap();
    releases.into_iter().for_each(|release| history.push(release, None).unwrap());
    history
}

/// A stream of one number, given with its variance and whether it is fresh.
fn stream(numbers: &[(f64, f64, Freshness)]) -> History {
    let releases = numbers.iter().zip(0..);
    history(releases.map(|(&(frequency, variance, freshness), timestamp)| {
        release(timestamp, &[frequency, 1.0 - frequency], variance, freshness)
    }))
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} instead of {expected}");
}
