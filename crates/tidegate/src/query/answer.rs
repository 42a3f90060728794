//! [`Answer`]: an estimate with its variance and its range.

use serde::{Deserialize, Serialize};

use crate::release::stated;

use super::error::QueryError;
use super::normal::upper_quantile;

/// Unit of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Shares of the users, summed over the timestamps: ten timestamps total ten.
    #[default]
    Frequencies,
    /// Users, summed over the timestamps. The number of users at each timestamp must be known.
    Counts,
    /// Mean of users' numbers, in the unit of the stream, averaged over the timestamps. A history does not know the
    /// range of the numbers.
    Mean,
}

/// A closed interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval contains a number.
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// Clamps both ends to `bounds`. Disjoint intervals yield the nearer end of the bounds.
    pub fn clipped_to(&self, bounds: Self) -> Self {
        let clip = |end: f64| end.max(bounds.low).min(bounds.high);
        Self { low: clip(self.low), high: clip(self.high) }
    }
}

/// Answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Unbiased estimate, so it may lie outside the possible range.
    pub value: f64,
    /// Upper bound of the expected squared error, under the assumptions of [the module](crate::query).
    /// [`UNSTATED`](crate::release::UNSTATED) where a release that it uses does not state its error.
    #[serde(with = "stated::one")]
    pub variance: f64,
    /// Unit of the value.
    pub unit: Unit,
    /// Possible range of the truth.
    pub possible: Interval,
    /// First timestamp that the answer uses.
    pub first: u64,
    /// Last timestamp that the answer uses.
    pub last: u64,
    /// Whether these timestamps exceed one window. Each window keeps its guarantee; losses of several windows add up.
    pub spans_more_than_one_window: bool,
}

impl Answer {
    /// Returns the interval that contains the truth with at least the given confidence, for about normal errors.
    ///
    /// Not clamped: see [`Interval::clipped_to`] and [`Answer::possible`].
    ///
    /// ```
    /// # use tidegate::query::{History, Query};
    /// # use tidegate::kernel::Window;
    /// # use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};
    /// # let mut history = History::new(Window::EVENT, 1)?;
    /// # let statistic = Statistic::Histogram(Histogram { frequencies: vec![0.01, 0.99], variances: vec![0.0001; 2] });
    /// # let (freshness, spent) = (Freshness::Fresh, Spent::Nothing);
    /// # let (timestamp, reports, seeded, why) = (0, 0, false, None);
    /// # history.push(Release { timestamp, statistic, freshness, spent, reports, seeded, why }, None)?;
    /// let answer = history.answer(&Query::counting(0, 1))?;
    /// assert_eq!((answer.value, answer.variance), (0.01, 0.0001));
    /// let interval = answer.interval(0.95)?;
    /// assert!((interval.low + 0.0096).abs() < 1e-6 && (interval.high - 0.0296).abs() < 1e-6);
    /// assert_eq!(interval.clipped_to(answer.possible).low, 0.0);
    /// # Ok::<(), tidegate::query::QueryError>(())
    /// ```
    ///
    /// Without a [stated](Self::is_stated) error it reaches from minus infinity to infinity.
    pub fn interval(&self, confidence: f64) -> Result<Interval, QueryError> {
        let reach = quantile(confidence)? * self.variance.sqrt();
        Ok(Interval { low: self.value - reach, high: self.value + reach })
    }
}

impl Answer {
    /// Whether the error is known, so that there is an interval.
    pub const fn is_stated(&self) -> bool {
        self.variance.is_finite()
    }

    /// Returns the [interval](Self::interval) as far as the truth can lie in it; `None` where the error is not known.
    /// The value itself is not clamped, so it stays unbiased, and may lie outside.
    ///
    /// An upper end in counts stays where it is: the number of users may be an estimate.
    ///
    /// # Errors
    /// A confidence that is not between 0 and 1.
    pub fn possible_interval(&self, confidence: f64) -> Result<Option<Interval>, QueryError> {
        let greatest = match self.unit {
            Unit::Frequencies => self.possible.high,
            Unit::Counts | Unit::Mean => f64::INFINITY,
        };
        let interval = self.interval(confidence)?.clipped_to(Interval { low: self.possible.low, high: greatest });
        Ok(self.is_stated().then_some(interval))
    }
}

/// Half-width of an interval, in standard deviations.
pub(super) fn quantile(confidence: f64) -> Result<f64, QueryError> {
    if confidence > 0.0 && confidence < 1.0 {
        Ok(upper_quantile((1.0 - confidence) / 2.0))
    } else {
        Err(QueryError::BadConfidence { given: confidence })
    }
}
