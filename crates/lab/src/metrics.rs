//! How good releases are: errors of frequencies, detection of events, communication, and means over repeated runs.

use std::collections::BTreeMap;
use std::fmt;

use crate::stream::{CountStream, as_float};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Mean squared error of a frequency: [`Comparison::mse`].
    Mse,
    /// Mean absolute error of a frequency: [`Comparison::mae`].
    Mae,
    /// Mean relative error of a frequency: [`Comparison::mre`].
    Mre,
    /// Average mean "relative" error of a count, as the personalised w-event paper has it: [`Comparison::amre`].
    Amre,
    /// Average Jensen-Shannon divergence: [`Comparison::ajsd`].
    Ajsd,
    /// Reports per user and timestamp (communication frequency per user).
    Cfpu,
    /// Area under the curve of detected events: [`Comparison::auc`].
    Auc,
    /// Mean squared error of counting queries: [`QueryTruth::compare`](crate::queries::QueryTruth::compare), as those that follow.
    CountingMse,
    /// Mean relative error of counting queries.
    CountingMre,
    /// Mean squared error of range queries.
    RangeMse,
    /// Mean relative error of range queries.
    RangeMre,
    /// Area under the curve of detected rises of range queries.
    MonitorAuc,
}

impl Metric {
    /// All metrics, in the order in which they are shown.
    pub const ALL: [Self; 12] = [
        Self::Mse,
        Self::Mae,
        Self::Mre,
        Self::Amre,
        Self::Ajsd,
        Self::Cfpu,
        Self::Auc,
        Self::CountingMse,
        Self::CountingMre,
        Self::RangeMse,
        Self::RangeMre,
        Self::MonitorAuc,
    ];

    /// The name that tables and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mse => "mse",
            Self::Mae => "mae",
            Self::Mre => "mre",
            Self::Amre => "amre",
            Self::Ajsd => "ajsd",
            Self::Cfpu => "cfpu",
            Self::Auc => "auc",
            Self::CountingMse => "counting_mse",
            Self::CountingMre => "counting_mre",
            Self::RangeMse => "range_mse",
            Self::RangeMre => "range_mre",
            Self::MonitorAuc => "monitor_auc",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The metrics of one run; those that do not apply are absent.
pub type Metrics = BTreeMap<Metric, f64>;

/// Below this true frequency, a relative error is taken relative to this one: the common convention, without which a value
/// that nobody holds would make the mean infinite.
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

    /// Which timestamps are events, as LDP-IDS monitors them: those at which the mean of the users' values (values being
    /// numbered from zero; on a binary stream, the share of ones) lies in the top quarter of its range over the stream.
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
        Ok(Comparison { truth: self, released })
    }
}

/// How far up the range of the monitored number events begin.
const EVENT_HEIGHT: f64 = 0.75;

/// Why releases cannot be compared with a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotComparable {
    /// Not a release for each timestamp.
    #[error("{given} timestamps were released, but the stream has {expected}")]
    Length {
        /// How many were released.
        given: usize,
        /// How many the stream has.
        expected: usize,
    },
    /// Not a frequency for each value.
    #[error("{given} frequencies were released at timestamp {timestamp}, but the domain has {expected} values")]
    Width {
        /// The timestamp.
        timestamp: usize,
        /// How many were released.
        given: usize,
        /// The size of the domain.
        expected: usize,
    },
    /// NaN or an infinity.
    #[error("a frequency released at timestamp {timestamp} is not a finite number")]
    NotFinite {
        /// The timestamp.
        timestamp: usize,
    },
}

/// Released frequencies beside the true ones: as many timestamps and values on both sides.
///
/// `r` is a released frequency, `c` the true one, at timestamp `t` for value `k`.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    truth: &'a Truth,
    released: &'a [Vec<f64>],
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

    /// The mean over `t` and `k` of `(N r - N c)²`, where `N` is the number of users at `t`. The personalised w-event paper
    /// calls it the average mean relative error, though by its formula it is the mean squared error of the *counts*.
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

    /// The area under the ROC curve of detecting [`Truth::events`] by the mean of the users' values as released; `None` where
    /// the stream has no event, or nothing else.
    pub fn auc(&self) -> Option<f64> {
        let scores: Vec<_> = self.released.iter().map(|row| mean_value(row)).collect();
        roc(&scores, &self.truth.events).map(|curve| area(&curve))
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

pub(crate) fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = as_float(numbers.len() as u64);
    numbers.sum::<f64>() / count
}

/// A point of an ROC curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// The share of non-events that are taken for events.
    pub false_positive_rate: f64,
    /// The share of events that are detected.
    pub true_positive_rate: f64,
}

/// The ROC curve of calling an event whatever scores at least a threshold, from the strictest threshold, at (0, 0), to the
/// laxest, at (1, 1); one point for each distinct score, so that ties lie on a straight line. `None` where there are not
/// as many scores as truths, a score is NaN, or events or non-events are missing.
pub fn roc(scores: &[f64], events: &[bool]) -> Option<Vec<RocPoint>> {
    let total_events = events.iter().filter(|event| **event).count();
    let total_others = events.len() - total_events;
    if scores.len() != events.len()
        || total_events == 0
        || total_others == 0
        || scores.iter().any(|score| score.is_nan())
    {
        return None;
    }
    let mut ranked: Vec<(f64, bool)> = scores.iter().copied().zip(events.iter().copied()).collect();
    ranked.sort_by(|(first, _), (second, _)| second.total_cmp(first));
    let share = |part: usize, whole: usize| as_float(part as u64) / as_float(whole as u64);
    let mut curve = vec![RocPoint { false_positive_rate: 0.0, true_positive_rate: 0.0 }];
    let (mut detected, mut false_alarms) = (0, 0);
    // Zero and minus zero are the same score, so ties are found by comparison and not by bits.
    #[allow(clippy::float_cmp)]
    for tied in ranked.chunk_by(|(first, _), (second, _)| first == second) {
        let tied_events = tied.iter().filter(|(_, event)| *event).count();
        detected += tied_events;
        false_alarms += tied.len() - tied_events;
        curve.push(RocPoint {
            false_positive_rate: share(false_alarms, total_others),
            true_positive_rate: share(detected, total_events),
        });
    }
    Some(curve)
}

/// The area under an ROC curve: the probability that an event scores higher than a non-event, a tie counting half.
///
/// ```
/// use tidegate_lab::metrics::{area, roc};
///
/// let curve = roc(&[0.9, 0.8, 0.3, 0.1], &[true, false, true, false]);
/// assert_eq!(curve.map(|curve| area(&curve)), Some(0.75));
/// ```
pub fn area(curve: &[RocPoint]) -> f64 {
    let trapezium = |pair: &[RocPoint]| {
        (pair[1].false_positive_rate - pair[0].false_positive_rate)
            * f64::midpoint(pair[0].true_positive_rate, pair[1].true_positive_rate)
    };
    curve.windows(2).map(trapezium).sum()
}

/// Communication frequency per user: reports per user and timestamp.
pub fn cfpu(stream: &CountStream, reports: u64) -> f64 {
    let users: f64 = (0..stream.length()).map(|timestamp| as_float(stream.population(timestamp))).sum();
    as_float(reports) / users
}

/// A metric over repeated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean, `s / √n` with the sample's standard deviation `s`; `None` for a single run, which
    /// says nothing about the spread.
    pub standard_error: Option<f64>,
}

impl Summary {
    /// The summary of the values of all runs; `None` where there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        // Measured from the first value, so that runs that agree have a mean of exactly that and no spread.
        let origin = *values.first()?;
        let count = as_float(values.len() as u64);
        let centre = origin + mean(values.iter().map(|value| value - origin));
        let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
        let standard_error = (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
        Some(Self { mean: centre, standard_error })
    }
}
