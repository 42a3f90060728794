//! [`Allocation`]: how many timestamps of a window are worth publishing, and whether the newest is one of them.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// Dissimilarities of a window, ordered by time and by size.
///
/// An insertion costs O(log w), a decision O(k). Sizes are kept as integers, so that text formats preserve them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Allocation {
    window: u64,
    by_time: VecDeque<(u64, Ranked)>,
    /// On ties the newer one is larger: it can still be published.
    by_size: BTreeSet<(Ranked, u64)>,
}

/// A finite number as an integer of the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Ranked(u64);

const SIGN: u64 = 1 << 63;

impl Ranked {
    /// Positive numbers sort as their bits do, negative ones in reverse and below them.
    const fn of(number: f64) -> Self {
        let bits = number.to_bits();
        Self(if bits & SIGN == 0 { bits | SIGN } else { !bits })
    }

    const fn number(self) -> f64 {
        f64::from_bits(if self.0 & SIGN == 0 { !self.0 } else { self.0 ^ SIGN })
    }
}

/// Recommendation for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Number of timestamps to publish: those with the largest dissimilarities.
    pub(super) publications: u64,
    /// Whether the newest is one of them.
    pub(super) newest: bool,
}

impl Allocation {
    pub(super) const fn new(window: u64) -> Self {
        Self { window, by_time: VecDeque::new(), by_size: BTreeSet::new() }
    }

    /// Adds the finite dissimilarity of a later timestamp, and drops those outside its window.
    pub(super) fn note(&mut self, timestamp: u64, dissimilarity: f64) {
        while let Some(&(earliest, ranked)) = self.by_time.front()
            && timestamp.saturating_sub(earliest) >= self.window
        {
            self.by_time.pop_front();
            self.by_size.remove(&(ranked, earliest));
        }
        let ranked = Ranked::of(dissimilarity);
        self.by_time.push_back((timestamp, ranked));
        self.by_size.insert((ranked, timestamp));
    }

    /// Returns the smallest number of publications `k` that minimises the error of the window: `cost(k)`, plus each
    /// dissimilarity that is not among the `k` largest.
    ///
    /// `cost` must be convex with `cost(0) = 0`. Then the error is convex in `k`, so the search ends at the first
    /// increase. The sum of all dissimilarities is constant and left out.
    pub(super) fn best(&self, cost: impl Fn(u64) -> f64) -> Choice {
        let newest = self.by_time.back().map(|(timestamp, _)| *timestamp);
        let mut best = Choice { publications: 0, newest: false };
        let (mut lowest, mut before, mut gain, mut newest_seen) = (0.0, 0.0, 0.0, false);
        for (publications, (ranked, timestamp)) in (1..).zip(self.by_size.iter().rev()) {
            gain += ranked.number();
            newest_seen |= Some(*timestamp) == newest;
            let error = cost(publications) - gain;
            if error > before {
                break;
            }
            if error < lowest {
                lowest = error;
                best = Choice { publications, newest: newest_seen };
            }
            before = error;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_kernel::{Randomness as _, SeededRandom};

    #[test]
    fn ranks_sort_as_numbers_do_and_turn_back_into_them() {
        let numbers = [-1e300, -2.5, -1e-300, -0.0, 0.0, 1e-300, 0.1, 0.2, 7.0, 1e300];
        for pair in numbers.windows(2) {
            assert!(Ranked::of(pair[0]) < Ranked::of(pair[1]), "{pair:?}");
        }
        for number in numbers {
            assert_eq!(Ranked::of(number).number().to_bits(), number.to_bits());
        }
    }

    /// Lowest error over all `k`, by brute force.
    fn brute_force(window: &[(u64, f64)], cost: impl Fn(u64) -> f64) -> (f64, Vec<f64>) {
        let mut sorted: Vec<f64> = window.iter().map(|(_, dissimilarity)| *dissimilarity).collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let error = |k: usize| cost(k as u64) + sorted[k..].iter().sum::<f64>();
        let errors: Vec<f64> = (0..=sorted.len()).map(error).collect();
        (errors.iter().copied().fold(f64::INFINITY, f64::min), errors)
    }

    #[test]
    fn the_incremental_choice_is_the_optimum_of_every_window() {
        let mut random = SeededRandom::new(1);
        let mut draw = |bound: u64| random.next_word() % bound;
        let mut checked = 0;
        for window in [1, 2, 3, 7, 20, 64] {
            for scale in [1e-4, 1e-3, 1e-2, 1e-1] {
                let mut allocation = Allocation::new(window);
                let mut all: Vec<(u64, f64)> = Vec::new();
                let mut timestamp = 0;
                for _ in 0..200 {
                    timestamp += 1 + u64::from(draw(10) == 0) * draw(2 * window);
                    // From a coarse grid with ties; a third are negative.
                    #[allow(clippy::cast_precision_loss)]
                    let dissimilarity = (draw(30) as f64 - 10.0) / 100.0;
                    allocation.note(timestamp, dissimilarity);
                    all.push((timestamp, dissimilarity));
                    all.retain(|(earlier, _)| timestamp - earlier < window);
                    // `k` times the variance of optimised unary encoding at `1/k` of the budget.
                    #[allow(clippy::cast_precision_loss)]
                    let cost = |k: u64| {
                        let u = (1.0 / k as f64).exp();
                        if k == 0 { 0.0 } else { scale * k as f64 * 4.0 * u / ((u - 1.0) * (u - 1.0)) }
                    };
                    let choice = allocation.best(cost);
                    let (lowest, errors) = brute_force(&all, cost);
                    let chosen = usize::try_from(choice.publications).unwrap_or(usize::MAX);
                    assert!((errors[chosen] - lowest).abs() <= 1e-9 * (1.0 + lowest.abs()), "{all:?} {errors:?}");
                    // The newest wins ties, so it is in if fewer than `k` are strictly larger.
                    let larger = all.iter().filter(|(_, other)| *other > dissimilarity).count();
                    assert_eq!(choice.newest, larger < chosen, "{all:?}");
                    checked += 1;
                }
            }
        }
        assert!(checked >= 4_800);
    }
}
