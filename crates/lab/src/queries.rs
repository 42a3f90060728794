//! Accuracy of queries on releases; every mechanism and repeat answers the same random queries.
//!
//! A query asks for the share of users with a value in a range, over the last `delta` timestamps: MTSP-LDP's
//! `Q([a, b], delta) / Σ n`. It is asked at each timestamp with enough past.

use std::num::NonZeroU64;

use tidegate::query::{History, Query, QueryError};
use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};
use tidegate_kernel::noise::Below;
use tidegate_kernel::{Randomness, Window};

use crate::experiment::CountOutcome;
use crate::metrics::{Metric, Metrics, NotComparable, RocPoint, SMALLEST_FREQUENCY, area, mean, roc};
use crate::stream::{CountStream, as_float};

/// Number of counting queries and of range queries, as in the MTSP-LDP paper.
pub const QUERIES: usize = 50;

/// Rises that differ by no more than this are the same, and differ by rounding.
const ROUNDING: f64 = 1e-12;

/// Queries on the releases of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuerySet {
    /// Queries on one value.
    pub counting: Vec<Query>,
    /// Queries on a range of values, but not on the whole domain.
    pub range: Vec<Query>,
}

impl QuerySet {
    /// [`QUERIES`] of each kind: values are equally likely, and so are widths of ranges (then the places where they
    /// fit) and periods, from one timestamp to the window, or the stream's length where that is less.
    ///
    /// With the same randomness, another window changes the periods only.
    pub fn draw(stream: &CountStream, window: NonZeroU64, random: &mut impl Randomness) -> Self {
        let mut below = |bound: u64| Below::new(NonZeroU64::new(bound).unwrap_or(NonZeroU64::MIN)).sample(random);
        let domain = stream.domain() as u64;
        // The mechanisms number values with 32 bits; where there are more, they refuse the stream.
        let value = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut counting: Vec<_> = (0..QUERIES).map(|_| Query::counting(value(below(domain)), 1)).collect();
        let mut range_query = || {
            let width = 1 + below(domain - 1);
            let first = below(domain - width + 1);
            Query::range(value(first), value(first + width - 1), 1)
        };
        let mut range: Vec<_> = (0..QUERIES).map(|_| range_query()).collect();
        let longest = window.get().min(stream.length() as u64);
        counting.iter_mut().chain(&mut range).for_each(|query| query.delta = 1 + below(longest));
        Self { counting, range }
    }
}

/// Queries with their true answers.
#[derive(Clone, Debug)]
pub struct QueryTruth {
    counting: Vec<Asked>,
    range: Vec<Asked>,
    /// Number of users at each timestamp.
    populations: Vec<f64>,
    domain: usize,
}

/// A query with its true answers.
#[derive(Clone, Debug)]
struct Asked {
    query: Query,
    delta: usize,
    /// At each timestamp from `delta - 1` on.
    shares: Vec<f64>,
    /// Whether the share has risen by more than it mostly does; at each timestamp from `2 delta - 1` on.
    events: Vec<bool>,
}

impl QueryTruth {
    /// The true answers of a stream. A query about values or periods that the stream does not have is an error.
    pub fn of(stream: &CountStream, queries: &QuerySet) -> Result<Self, QueryError> {
        let populations: Vec<u64> = (0..stream.length()).map(|timestamp| stream.population(timestamp)).collect();
        let ask = |queries: &[Query]| queries.iter().map(|query| Asked::new(stream, &populations, *query)).collect();
        let (counting, range): (Result<_, _>, Result<_, _>) = (ask(&queries.counting), ask(&queries.range));
        let populations = populations.into_iter().map(as_float).collect();
        Ok(Self { counting: counting?, range: range?, populations, domain: stream.domain() })
    }

    /// Answers the queries from releases and compares them with the truth.
    ///
    /// - `counting_mse`, `range_mse`: the squared error of a share, mean over the timestamps and then the queries;
    /// - `counting_mae`, `range_mae`: the absolute error, likewise;
    /// - `counting_mre`, `range_mre`: the error relative to the true share, or to [`SMALLEST_FREQUENCY`] where that is
    ///   larger;
    /// - `monitor_auc`: how well rises are detected. The score at a timestamp is the share of a range in the last
    ///   `delta` timestamps, less that in the `delta` before. Where the true one is above its median over the stream,
    ///   there is an event. The area under the ROC curve, mean over the range queries that have events and other
    ///   timestamps; absent where none has.
    pub fn compare(&self, outcome: CountOutcome) -> Result<Metrics, Incomparable> {
        Ok(self.compare_with_curves(outcome)?.0)
    }

    /// The same, and the ROC curves of which `monitor_auc` is the mean area: one for each range query that has events
    /// and other timestamps.
    pub fn compare_with_curves(&self, outcome: CountOutcome) -> Result<(Metrics, Vec<Vec<RocPoint>>), Incomparable> {
        let places = || self.counting.iter().chain(&self.range);
        let mut released: Vec<Vec<f64>> = places().map(|_| Vec::with_capacity(self.populations.len())).collect();
        let mut history = History::new(Window::EVENT, 1)?;
        for (timestamp, statistic) in (0..).zip(self.statistics(outcome)?) {
            history.push(
                Release {
                    timestamp,
                    statistic,
                    freshness: Freshness::Fresh,
                    spent: Spent::Nothing,
                    reports: 0,
                    seeded: false,
                    why: None,
                },
                None,
            )?;
            for (asked, shares) in places().zip(&mut released) {
                shares.push(history.answer(&Query::range(asked.query.first, asked.query.last, 1))?.value);
            }
        }
        let answers = places().zip(&released).map(|(asked, shares)| asked.answers(shares, &self.populations));
        let answers: Vec<Vec<f64>> = answers.collect();
        let (counting, range) = answers.split_at(self.counting.len());
        let mean_error = |asked: &[Asked], answers: &[Vec<f64>], error: fn(f64, f64) -> f64| {
            mean(asked.iter().zip(answers).map(|(asked, answers)| {
                mean(answers.iter().zip(&asked.shares).map(|(released, truth)| error(*released, *truth)))
            }))
        };
        let squared = |released: f64, truth: f64| (released - truth).powi(2);
        let absolute = |released: f64, truth: f64| (released - truth).abs();
        let relative = |released: f64, truth: f64| (released - truth).abs() / truth.max(SMALLEST_FREQUENCY);
        let mut metrics = Metrics::new();
        for (asked, answers, [mse, mae, mre]) in [
            (&self.counting, counting, [Metric::CountingMse, Metric::CountingMae, Metric::CountingMre]),
            (&self.range, range, [Metric::RangeMse, Metric::RangeMae, Metric::RangeMre]),
        ] {
            if !asked.is_empty() {
                metrics.insert(mse, mean_error(asked, answers, squared));
                metrics.insert(mae, mean_error(asked, answers, absolute));
                metrics.insert(mre, mean_error(asked, answers, relative));
            }
        }
        let curve = |(asked, answers): (&Asked, &Vec<f64>)| roc(&rises(answers, asked.delta), &asked.events);
        let curves: Vec<Vec<RocPoint>> = self.range.iter().zip(range).filter_map(curve).collect();
        if !curves.is_empty() {
            metrics.insert(Metric::MonitorAuc, mean(curves.iter().map(|curve| area(curve))));
        }
        Ok((metrics, curves))
    }

    /// What was released at each timestamp: trees where there are some.
    fn statistics(&self, outcome: CountOutcome) -> Result<Vec<Statistic>, NotComparable> {
        let as_histogram = |frequencies: Vec<f64>| {
            let variances = vec![0.0; frequencies.len()];
            Statistic::Histogram(Histogram { frequencies, variances })
        };
        let statistics: Vec<Statistic> = if outcome.trees.is_empty() {
            outcome.frequencies.into_iter().map(as_histogram).collect()
        } else {
            outcome.trees.into_iter().map(Statistic::Tree).collect()
        };
        if statistics.len() != self.populations.len() {
            return Err(NotComparable::Length { given: statistics.len(), expected: self.populations.len() });
        }
        let misfit = statistics.iter().enumerate().find(|(_, statistic)| statistic.domain() != self.domain);
        match misfit {
            Some((timestamp, statistic)) => {
                Err(NotComparable::Width { timestamp, given: statistic.domain(), expected: self.domain })
            }
            None => Ok(statistics),
        }
    }
}

/// An outcome that cannot answer the queries.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Incomparable {
    /// It does not fit the stream.
    #[error(transparent)]
    Outcome(#[from] NotComparable),
    /// A query was refused.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl Asked {
    fn new(stream: &CountStream, populations: &[u64], query: Query) -> Result<Self, QueryError> {
        let Query { first, last, delta, .. } = query;
        if first > last {
            return Err(QueryError::ReversedRange { first, last });
        }
        let domain = u32::try_from(stream.domain()).unwrap_or(u32::MAX);
        if last >= domain {
            return Err(QueryError::UnknownValue { value: last, domain });
        }
        let (asked, kept) = (delta, stream.length() as u64);
        let delta = match usize::try_from(delta) {
            Ok(0) => return Err(QueryError::ZeroDelta),
            Ok(delta) if delta <= stream.length() => delta,
            _ => return Err(QueryError::BeyondKept { asked, kept, until: kept - 1 }),
        };
        let holders: Vec<u64> =
            stream.counts().iter().map(|row| row[first as usize..=last as usize].iter().sum()).collect();
        let total = |users: &[u64]| users.iter().map(|users| u128::from(*users)).sum::<u128>();
        #[allow(clippy::cast_precision_loss)] // exact below 2⁵³, and otherwise as near as a float comes
        let share = |(holders, users)| total(holders) as f64 / total(users) as f64;
        let shares: Vec<f64> = holders.windows(delta).zip(populations.windows(delta)).map(share).collect();
        let rises = rises(&shares, delta);
        let threshold = median(&rises);
        let events = rises.iter().map(|rise| threshold.is_some_and(|threshold| rise - threshold > ROUNDING)).collect();
        Ok(Self { query, delta, shares, events })
    }

    /// The shares over periods, from those at each timestamp.
    fn answers(&self, released: &[f64], populations: &[f64]) -> Vec<f64> {
        let periods = released.windows(self.delta).zip(populations.windows(self.delta));
        let share = |(released, populations): (&[f64], &[f64])| {
            // Measured from the first, so that releases that repeat it have a mean of exactly that.
            let origin = released[0];
            let deviation: f64 = released.iter().zip(populations).map(|(share, users)| users * (share - origin)).sum();
            origin + deviation / populations.iter().sum::<f64>()
        };
        periods.map(share).collect()
    }
}

/// How much each answer exceeds that of the period before.
fn rises(answers: &[f64], delta: usize) -> Vec<f64> {
    answers.iter().skip(delta).zip(answers).map(|(later, earlier)| later - earlier).collect()
}

/// The number in the middle, or the lower of the two; `None` where there are none.
fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}
