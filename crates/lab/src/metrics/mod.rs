//! How good releases are: errors, detection of events, communication, and means over repeated runs.
//!
//! Which metrics apply depends on the kind of stream: [`Truth::compare`] has those of frequencies,
//! [`compare_numbers`] those of numbers, [`compare_symbols`] those of symbols.

mod counts;
mod numbers;
mod roc;
mod symbols;

use std::collections::BTreeMap;
use std::fmt;

pub use counts::{Comparison, SMALLEST_FREQUENCY, Truth, cfpu};
pub use numbers::{SMALLEST_SHARE_OF_DOMAIN, compare_numbers, coverage_of_numbers};
pub use roc::{RocPoint, area, mean_curve, roc, true_positive_rate};
pub use symbols::compare_symbols;

use crate::stream::as_float;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Mean squared error: of a frequency ([`Comparison::mse`]), of a number, or the squared distance of symbols.
    Mse,
    /// Mean absolute error: of a frequency ([`Comparison::mae`]), of a number, or of symbols on a line.
    Mae,
    /// Mean relative error: of a frequency ([`Comparison::mre`]), or of a number.
    Mre,
    /// Average mean "relative" error of a count, as the personalised w-event paper has it: [`Comparison::amre`].
    Amre,
    /// Average Jensen-Shannon divergence: [`Comparison::ajsd`].
    Ajsd,
    /// Reports per user and timestamp (communication frequency per user).
    Cfpu,
    /// Area under the curve of detected events: [`Comparison::auc`].
    Auc,
    /// Mean squared error of counting queries: [`QueryTruth::compare`](crate::queries::QueryTruth::compare), as those
    /// that follow.
    CountingMse,
    /// Mean absolute error of counting queries.
    CountingMae,
    /// Mean relative error of counting queries.
    CountingMre,
    /// Mean squared error of range queries.
    RangeMse,
    /// Mean absolute error of range queries.
    RangeMae,
    /// Mean relative error of range queries.
    RangeMre,
    /// Area under the curve of detected rises of range queries.
    MonitorAuc,
    /// Mean Euclidean distance of symbols on a grid, in cells: [`compare_symbols`], as those that follow.
    Euclidean,
    /// How often a released symbol is not the true one.
    ErrorRate,
    /// How far the released symbols are, as a histogram, from the true ones: their total variation distance.
    HistogramDistance,
    /// How often an interval of 1.96 standard deviations, as stated, to either side of a frequency or a number holds
    /// the true one: [`Comparison::coverage`], [`coverage_of_numbers`]. Where the variances are honest and errors
    /// normal, 0.95.
    Coverage,
    /// Bytes that a user sends in a timestamp, on average.
    Bytes,
}

impl Metric {
    /// All metrics, in the order in which they are shown.
    pub const ALL: [Self; 19] = [
        Self::Mse,
        Self::Mae,
        Self::Mre,
        Self::Amre,
        Self::Ajsd,
        Self::Cfpu,
        Self::Auc,
        Self::CountingMse,
        Self::CountingMae,
        Self::CountingMre,
        Self::RangeMse,
        Self::RangeMae,
        Self::RangeMre,
        Self::MonitorAuc,
        Self::Euclidean,
        Self::ErrorRate,
        Self::HistogramDistance,
        Self::Coverage,
        Self::Bytes,
    ];

    /// Whether it can be better or worse: all but the coverage, which is right or wrong.
    pub const fn can_be_better(self) -> bool {
        !matches!(self, Self::Coverage)
    }

    /// Whether more of it is better; of errors and of reports, less is.
    pub const fn is_better_when_higher(self) -> bool {
        matches!(self, Self::Auc | Self::MonitorAuc)
    }

    /// The name that tables and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mse => "mse",
            Self::Mae => "mae",
            Self::Mre => "mre",
            Self::Amre => "amre",
            Self::Ajsd => "ajsd",
            Self::Cfpu => "cfpu",
            Self::Bytes => "bytes",
            Self::Auc => "auc",
            Self::CountingMse => "counting_mse",
            Self::CountingMae => "counting_mae",
            Self::CountingMre => "counting_mre",
            Self::RangeMse => "range_mse",
            Self::RangeMae => "range_mae",
            Self::RangeMre => "range_mre",
            Self::MonitorAuc => "monitor_auc",
            Self::Euclidean => "euclidean",
            Self::ErrorRate => "error_rate",
            Self::HistogramDistance => "histogram_distance",
            Self::Coverage => "coverage",
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

/// Why releases cannot be compared with a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum NotComparable {
    /// Not a release for each timestamp.
    #[error("{given} timestamps were released, but the stream has {expected}")]
    Length { given: usize, expected: usize },
    /// Not a frequency for each value.
    #[error("{given} frequencies were released at timestamp {timestamp}, but the domain has {expected} values")]
    Width { timestamp: usize, given: usize, expected: usize },
    /// NaN or an infinity.
    #[error("what was released at timestamp {timestamp} is not a finite number")]
    NotFinite { timestamp: usize },
    /// Not a sequence for each user.
    #[error("sequences of {given} users were released, but the stream has {expected}")]
    Users { given: usize, expected: usize },
    /// Not a symbol for each of a user's.
    #[error("{given} symbols of user {user} were released, but the stream has {expected}")]
    Sequence { user: usize, given: usize, expected: usize },
    /// A symbol that the domain does not have.
    #[error("symbol {given} was released for user {user}, but the domain has {domain} symbols")]
    Symbol { user: usize, given: u32, domain: u32 },
}

/// How many standard deviations to either side hold a normal number 95 % of the time.
const NORMAL_95: f64 = 1.96;

/// Whether the interval of 95 % around a released number is stated, and holds the true one.
pub(crate) fn is_covered(released: f64, truth: f64, variance: f64) -> bool {
    variance.is_finite() && (released - truth).abs() <= NORMAL_95 * variance.sqrt()
}

/// How often the interval of 95 % around a released number holds the true one, where it is stated. Takes the released
/// number, the true one and the variance.
pub(crate) fn coverage(cells: impl Iterator<Item = (f64, f64, f64)>) -> Option<f64> {
    let (mut held, mut stated) = (0, 0);
    for (released, truth, variance) in cells.filter(|(_, _, variance)| variance.is_finite()) {
        stated += 1;
        held += u64::from(is_covered(released, truth, variance));
    }
    (stated > 0).then(|| as_float(held) / as_float(stated))
}

pub(crate) fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = as_float(numbers.len() as u64);
    numbers.sum::<f64>() / count
}

/// A metric over repeated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean, `s / √n` with the sample's standard deviation `s`; `None` for a single run,
    /// which says nothing about the spread.
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
