//! Released frequencies beside the true ones: errors, detection of events, communication.

use super::{Metric, Metrics, NotComparable, RocPoint, area, coverage, mean, roc};
use crate::experiment::CountOutcome;
use crate::stream::{CountStream, as_float};

/// Below this true frequency, a relative error is taken relative to this one: the common convention, without which a
/// value that nobody holds would make the mean infinite.
pub const SMALLEST_FREQUENCY: f64 = 0.001;

/// The truth: a stream's frequencies, computed once for any number of comparisons.
#[derive(Clone, Debug)]
pub struct Truth {
    frequencies: Vec<Vec<f64>>,
    populations: Vec<f64>,
    events: Vec<bool>,
}

impl Truth {
    /// The truth of a stream.
    pub fn of(stream: &CountStream) -> Self {
        let frequencies: Vec<_> = (0..stream.length()).map(|timestamp| stream.frequencies(timestamp)).collect();
        let populations = (0..stream.length()).map(|timestamp| as_float(stream.population(timestamp))).collect();
        let monitored: Vec<_> = frequencies.iter().map(|row| mean_value(row)).collect();
        let lowest = monitored.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = monitored.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let threshold = EVENT_HEIGHT * (highest - lowest) + lowest;
        let events = monitored.iter().map(|value| *value > threshold).collect();
        Self { frequencies, populations, events }
    }

    /// Which timestamps are events, as LDP-IDS monitors them: those at which the mean of the users' values (values
    /// being numbered from zero; on a binary stream, the share of ones) lies in the top quarter of its range over the
    /// stream.
    pub fn events(&self) -> &[bool] {
        &self.events
    }

    /// Compares frequencies released for each timestamp with this truth.
    pub fn compare<'a>(&'a self, released: &'a [Vec<f64>]) -> Result<Comparison<'a>, NotComparable> {
        if released.len() != self.frequencies.len() {
            return Err(NotComparable::Length { given: released.len(), expected: self.frequencies.len() });
        }
        for (timestamp, (row, truth)) in released.iter().zip(&self.frequencies).enumerate() {
            if row.len() != truth.len() {
                return Err(NotComparable::Width { timestamp, given: row.len(), expected: truth.len() });
            }
            if row.iter().any(|frequency| !frequency.is_finite()) {
                return Err(NotComparable::NotFinite { timestamp });
            }
        }
        Ok(Comparison { truth: self, released, of_counts: false })
    }

    /// Compares what a mechanism released with this truth.
    pub fn compare_outcome<'a>(&'a self, outcome: &'a CountOutcome) -> Result<Comparison<'a>, NotComparable> {
        Ok(Comparison { of_counts: outcome.of_counts, ..self.compare(&outcome.frequencies)? })
    }
}

/// How far up the range of the monitored number events begin.
const EVENT_HEIGHT: f64 = 0.75;

/// Released frequencies beside the true ones: as many timestamps and values on both sides.
///
/// `r` is a released frequency, `c` the true one, at timestamp `t` for value `k`.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    truth: &'a Truth,
    released: &'a [Vec<f64>],
    /// Whether counts were released: [`CountOutcome::of_counts`].
    of_counts: bool,
}

impl Comparison<'_> {
    /// All metrics that follow from the frequencies alone.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::from([
            (Metric::Mse, self.mse()),
            (Metric::Mae, self.mae()),
            (Metric::Mre, self.mre()),
            (Metric::Amre, self.amre()),
            (Metric::Ajsd, self.ajsd()),
        ]);
        metrics.extend(self.auc().map(|area| (Metric::Auc, area)));
        metrics
    }

    /// The mean over `t` and `k` of `(r - c)²`.
    pub fn mse(&self) -> f64 {
        self.mean_over_cells(|r, c| (r - c).powi(2))
    }

    /// The mean over `t` and `k` of `|r - c|`.
    pub fn mae(&self) -> f64 {
        self.mean_over_cells(|r, c| (r - c).abs())
    }

    /// The mean over `t` and `k` of `|r - c| / max(c, 0.001)`, 0.001 being [`SMALLEST_FREQUENCY`].
    pub fn mre(&self) -> f64 {
        self.mean_over_cells(|r, c| (r - c).abs() / c.max(SMALLEST_FREQUENCY))
    }

    /// The mean over `t` and `k` of `(N r - N c)²`, where `N` is the number of users at `t`. The personalised w-event
    /// paper calls it the average mean relative error, though by its formula it is the mean squared error of the
    /// *counts*.
    pub fn amre(&self) -> f64 {
        let populations = self.truth.populations.iter();
        mean(self.rows().zip(populations).map(|((released, truth), population)| {
            mean(released.iter().zip(truth).map(|(r, c)| (population * (r - c)).powi(2)))
        }))
    }

    /// The mean over `t` of the Jensen-Shannon divergence of the released and the true distribution, in nats: between
    /// zero and ln 2. Since a divergence is between distributions, released frequencies below zero count as zero, and
    /// the rest is scaled to sum to one; where nothing is left, the uniform distribution takes its place.
    pub fn ajsd(&self) -> f64 {
        mean(self.rows().map(|(released, truth)| {
            let released = as_distribution(released);
            let divergence = released.iter().zip(truth).map(|(r, c)| {
                let middle = f64::midpoint(*r, *c);
                let term = |p: f64| if p > 0.0 { p * (p / middle).ln() } else { 0.0 };
                0.5 * (term(*r) + term(*c))
            });
            divergence.sum()
        }))
    }

    /// The ROC curve of detecting [`Truth::events`] by the mean of the users' values as released; `None` where the
    /// stream has no event, or nothing else.
    ///
    /// Where counts were released, that is their mean by the number of users that there [seem to
    /// be](tidegate::release::Counts::population), their sum: how many there really are is not released. (If it were
    /// known, counts that are always the same would detect the events of a stream at which fewer users are there.)
    pub fn roc(&self) -> Option<Vec<RocPoint>> {
        let score = |(row, population): (&Vec<f64>, &f64)| {
            let users =
                if self.of_counts { (population * row.iter().sum::<f64>()).round().max(1.0) / population } else { 1.0 };
            mean_value(row) / users
        };
        let scores: Vec<_> = self.released.iter().zip(&self.truth.populations).map(score).collect();
        roc(&scores, &self.truth.events)
    }

    /// The area under [`Comparison::roc`].
    pub fn auc(&self) -> Option<f64> {
        self.roc().map(|curve| area(&curve))
    }

    /// The share of `t` and `k` at which `|r - c| ≤ 1.96 √v`, where `v` is the variance that was stated with `r`;
    /// `None` where a release has none. Those that are [not stated](tidegate::release::UNSTATED) do not count; the
    /// coverage is that of the others, and `None` if there are none.
    pub fn coverage(&self, variances: &[Vec<f64>]) -> Option<f64> {
        let stated = variances.len() == self.released.len()
            && variances.iter().zip(self.released).all(|(variances, row)| variances.len() == row.len());
        let rows = self.rows().zip(variances);
        let cells = rows.flat_map(|((released, truth), variances)| released.iter().zip(truth).zip(variances));
        coverage(cells.map(|((released, truth), variance)| (*released, *truth, *variance))).filter(|_| stated)
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = (&Vec<f64>, &Vec<f64>)> {
        self.released.iter().zip(&self.truth.frequencies)
    }

    fn mean_over_cells(&self, error: impl Fn(f64, f64) -> f64) -> f64 {
        mean(self.rows().map(|(released, truth)| mean(released.iter().zip(truth).map(|(r, c)| error(*r, *c)))))
    }
}

/// The mean of the values `0, 1, ..` under a histogram.
fn mean_value(frequencies: &[f64]) -> f64 {
    (0_u32..).zip(frequencies).map(|(value, frequency)| f64::from(value) * frequency).sum()
}

fn as_distribution(frequencies: &[f64]) -> Vec<f64> {
    let total: f64 = frequencies.iter().map(|frequency| frequency.max(0.0)).sum();
    if total > 0.0 {
        frequencies.iter().map(|frequency| frequency.max(0.0) / total).collect()
    } else {
        vec![1.0 / as_float(frequencies.len() as u64); frequencies.len()]
    }
}

/// Communication frequency per user: reports per user and timestamp.
pub fn cfpu(stream: &CountStream, reports: u64) -> f64 {
    let users: f64 = (0..stream.length()).map(|timestamp| as_float(stream.population(timestamp))).sum();
    as_float(reports) / users
}
