//! [`Answer`]: an estimate with all that is needed to judge it.

use serde::{Deserialize, Serialize};

use super::error::QueryError;
use super::normal::upper_quantile;

/// What an answer is measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Shares of the users, summed over the timestamps: a period of ten timestamps holds ten.
    #[default]
    Frequencies,
    /// Users, summed over the timestamps: each frequency times the number of users at its timestamp, which must be
    /// known.
    Counts,
}

/// What lies between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a number lies in the interval, ends included.
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// Each end moved to the nearest number of `bounds`. Where the two do not meet, the result is a single number, an
    /// end of the bounds.
    pub fn clipped_to(&self, bounds: Self) -> Self {
        let clip = |end: f64| end.max(bounds.low).min(bounds.high);
        Self { low: clip(self.low), high: clip(self.high) }
    }
}

/// The answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The estimate. It may lie outside of what is possible, because unbiased estimates do.
    pub value: f64,
    /// An upper bound of the expected squared error, as far as the releases tell: what is assumed is said in
    /// [the module](crate::query).
    pub variance: f64,
    /// What the value is measured in; the variance in its square.
    pub unit: Unit,
    /// The values that the truth can have.
    pub possible: Interval,
    /// The first timestamp that the answer rests on.
    pub first: u64,
    /// The last timestamp that the answer rests on.
    pub last: u64,
    /// Whether those timestamps lie in more than one window of the guarantee. Each window is protected as promised;
    /// what is told about a user over all of them adds up over the windows.
    pub spans_more_than_one_window: bool,
}

impl Answer {
    /// The interval that holds the truth with at least the given confidence, if errors are about normal.
    ///
    /// It is not clipped: see [`Interval::clipped_to`] and [`Answer::possible`].
    ///
    /// ```
    /// # use tidegate::query::{History, Query};
    /// # use tidegate::kernel::Window;
    /// # use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};
    /// # let mut history = History::new(Window::EVENT, 1)?;
    /// # let statistic = Statistic::Histogram(Histogram { frequencies: vec![0.01, 0.99], variances: vec![0.0001; 2] });
    /// # let (freshness, spent) = (Freshness::Fresh, Spent::Nothing);
    /// # history.push(Release { timestamp: 0, statistic, freshness, spent, reports: 0, seeded: false }, None)?;
    /// let answer = history.answer(&Query::counting(0, 1))?;
    /// assert_eq!((answer.value, answer.variance), (0.01, 0.0001));
    /// let interval = answer.interval(0.95)?;
    /// assert!((interval.low + 0.0096).abs() < 1e-6 && (interval.high - 0.0296).abs() < 1e-6);
    /// assert_eq!(interval.clipped_to(answer.possible).low, 0.0);
    /// # Ok::<(), tidegate::query::QueryError>(())
    /// ```
    pub fn interval(&self, confidence: f64) -> Result<Interval, QueryError> {
        let reach = quantile(confidence)? * self.variance.sqrt();
        Ok(Interval { low: self.value - reach, high: self.value + reach })
    }
}

/// How many standard deviations an interval of the confidence reaches to each side.
pub(super) fn quantile(confidence: f64) -> Result<f64, QueryError> {
    if confidence > 0.0 && confidence < 1.0 {
        Ok(upper_quantile((1.0 - confidence) / 2.0))
    } else {
        Err(QueryError::BadConfidence { given: confidence })
    }
}
