//! [`History`]: the last releases of a stream, indexed for queries.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Window};

use crate::release::{Freshness, Release, Spent, Statistic, UNSTATED};

use super::answer::{Answer, Unit};
use super::domain::{Domain, Place};
use super::error::QueryError;
use super::sum::{Correlation, Periods, Sample};

const VERSION: u16 = 1;

/// Frequency of a range of values over a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// First value of the range.
    pub first: u32,
    /// Last value of the range, included.
    pub last: u32,
    /// Length of the period, in timestamps.
    pub delta: u64,
    /// Unit of the answer.
    pub unit: Unit,
}

impl Query {
    /// `Q(v, delta)`: frequency of a value in the last `delta` timestamps.
    pub const fn counting(value: u32, delta: u64) -> Self {
        Self::range(value, value, delta)
    }

    /// `Q([first, last], delta)`: frequency of the values from `first` to `last` in the last `delta` timestamps.
    pub const fn range(first: u32, last: u32, delta: u64) -> Self {
        Self { first, last, delta, unit: Unit::Frequencies }
    }

    /// Mean of users' numbers, averaged over the last `delta` timestamps.
    pub const fn mean(delta: u64) -> Self {
        Self { unit: Unit::Mean, ..Self::counting(0, delta) }
    }

    /// Asks for counts instead.
    pub const fn in_counts(self) -> Self {
        Self { unit: Unit::Counts, ..self }
    }
}

/// A value among the most frequent ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Value.
    pub value: u32,
    /// Its estimate.
    pub answer: Answer,
}

/// Last releases of one stream, with prefix sums for fast queries.
///
/// A query on a range costs O(1) for each timestamp on histograms, and O(log d) on trees of d values. Memory is O(d)
/// for each release kept.
///
/// ```
/// use tidegate::kernel::Window;
/// use tidegate::query::{History, Query};
/// use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};
///
/// let mut history = History::new(Window::of(2).ok_or("a window has a length")?, 100)?;
/// for (timestamp, freshness) in [(0, Freshness::Fresh), (1, Freshness::Approximated), (2, Freshness::Fresh)] {
///     let histogram = Histogram { frequencies: vec![0.5, 0.3, 0.2], variances: vec![0.0001; 3] };
///     let statistic = Statistic::Histogram(histogram);
///     let spent = Spent::Nothing;
///     let release = Release { timestamp, statistic, freshness, spent, reports: 1000, seeded: false, why: None };
///     history.push(release, Some(1000))?;
/// }
/// // How often was value 1 or 2 reported in the last three timestamps?
/// let answer = history.answer(&Query::range(1, 2, 3).in_counts())?;
/// assert_eq!(answer.value, 1500.0);
/// // The second release repeats the error of the first, which so counts twice: 1000² · 2 · 0.0001 · (2² + 1).
/// assert!((answer.variance - 1000.0).abs() < 1e-6);
/// assert!(answer.spans_more_than_one_window);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct History {
    window: Window,
    capacity: usize,
    correlation: Correlation,
    domain: Option<Domain>,
    kept: VecDeque<Kept>,
    /// Start timestamps of runs: fresh releases, and the oldest release.
    runs: VecDeque<u64>,
}

/// A release, its number of users and, for a histogram, prefix sums of frequencies and variances.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    release: Release,
    population: Option<u64>,
    sums: Vec<(f64, f64)>,
}

impl Kept {
    fn new(release: Release, population: Option<u64>) -> Self {
        let sums = match &release.statistic {
            Statistic::Histogram(histogram) => {
                let mut sum = (0.0, 0.0);
                let values = histogram.frequencies.iter().zip(&histogram.variances);
                let sums = values.map(|(frequency, variance)| {
                    sum = (sum.0 + frequency, sum.1 + variance);
                    sum
                });
                std::iter::once((0.0, 0.0)).chain(sums).collect()
            }
            Statistic::Tree(_) | Statistic::Counts(_) | Statistic::Number(_) | Statistic::Symbol(_) => Vec::new(),
        };
        Self { release, population, sums }
    }

    fn is_fresh(&self) -> bool {
        self.release.freshness == Freshness::Fresh
    }

    /// Frequency and variance of a range of values.
    fn read(&self, place: &Place) -> (f64, f64) {
        match place {
            Place::Values(range) if range.len() > 1 => {
                let ((below, variance_below), (sum, variance)) = (self.sums[range.start], self.sums[range.end]);
                if variance == UNSTATED {
                    // One of these, or one before them.
                    let variances = self.release.statistic.leaves().1.get(range.clone());
                    return (sum - below, variances.map_or(UNSTATED, |variances| variances.iter().sum()));
                }
                // Prefix sums of variances decrease by rounding only.
                (sum - below, (variance - variance_below).max(0.0))
            }
            _ => place.read(&self.release.statistic),
        }
    }
}

impl History {
    /// Creates a history of the last `capacity` releases. `window` is that of the stream's guarantee.
    pub fn new(window: Window, capacity: usize) -> Result<Self, QueryError> {
        if capacity == 0 {
            return Err(QueryError::ZeroCapacity);
        }
        let correlation = Correlation::default();
        Ok(Self { window, capacity, correlation, domain: None, kept: VecDeque::new(), runs: VecDeque::new() })
    }

    /// Declares how errors of different releases are correlated.
    #[must_use]
    pub fn with_correlation(self, correlation: Correlation) -> Self {
        Self { correlation, ..self }
    }

    /// Adds a release, with the public number of users if known. Drops the oldest release when full.
    ///
    /// Counts are kept as frequencies. Without a number of users they are shares of the [estimated
    /// population](crate::release::Counts::population); answers in counts do not depend on it.
    ///
    /// Fails without any change if the release is not later than all before, or of another domain.
    pub fn push(&mut self, release: Release, population: Option<u64>) -> Result<(), QueryError> {
        let given = Domain::of(&release)?;
        let (release, population) = release.in_frequencies(population);
        if let Some(expected) = self.domain
            && expected != given
        {
            return Err(QueryError::OtherDomain { given, expected });
        }
        if let Some(latest) = self.latest()
            && release.timestamp <= latest
        {
            return Err(QueryError::OutOfOrder { timestamp: release.timestamp, latest });
        }
        self.domain = Some(given);
        if self.kept.len() == self.capacity {
            self.kept.pop_front();
            self.runs.pop_front_if(|_| self.kept.front().is_none_or(Kept::is_fresh));
            if let (Some(run), Some(oldest)) = (self.runs.front_mut(), self.kept.front()) {
                *run = oldest.release.timestamp;
            }
        }
        let kept = Kept::new(SavedRelease::from(release).into(), population);
        if kept.is_fresh() || self.kept.is_empty() {
            self.runs.push_back(kept.release.timestamp);
        }
        self.kept.push_back(kept);
        Ok(())
    }

    /// Window of the stream's guarantee.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Maximum number of releases.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of releases kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is no release yet.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Domain of the stream; `None` before the first release.
    pub const fn domain(&self) -> Option<Domain> {
        self.domain
    }

    /// Timestamp of the latest release.
    pub fn latest(&self) -> Option<u64> {
        self.kept.back().map(|kept| kept.release.timestamp)
    }

    /// Releases kept, oldest first, with the number of users. They state the largest spend, but neither its class nor
    /// whether the randomness was seeded.
    pub fn releases(&self) -> impl ExactSizeIterator<Item = (&Release, Option<u64>)> + '_ {
        self.kept.iter().map(|kept| (&kept.release, kept.population))
    }

    /// Answers a query about the period up to the latest timestamp.
    pub fn answer(&self, query: &Query) -> Result<Answer, QueryError> {
        self.answer_at(query, self.latest().ok_or(QueryError::NothingReleased)?)
    }

    /// Answers a query about the period up to a timestamp.
    pub fn answer_at(&self, query: &Query, timestamp: u64) -> Result<Answer, QueryError> {
        self.ask(query, None, timestamp)
    }

    /// Returns the change of an answer: that of the period up to the timestamp, less that of the period `shift`
    /// timestamps earlier.
    ///
    /// With a shift of `delta` the periods are adjacent. With a smaller one they overlap, and common errors cancel.
    pub fn change(&self, query: &Query, shift: u64, timestamp: u64) -> Result<Answer, QueryError> {
        self.ask(query, Some(shift), timestamp)
    }

    /// Frequency or count of one value at a timestamp.
    pub fn point(&self, value: u32, timestamp: u64, unit: Unit) -> Result<Answer, QueryError> {
        self.answer_at(&Query { unit, ..Query::counting(value, 1) }, timestamp)
    }

    /// Frequency or count of every value at a timestamp.
    pub fn histogram(&self, timestamp: u64, unit: Unit) -> Result<Vec<Answer>, QueryError> {
        let (domain, _) = self.locate(timestamp)?;
        (0..domain.size()).map(|value| self.point(value, timestamp, unit)).collect()
    }

    /// The `k` largest estimates at a timestamp, in descending order; ties by ascending value.
    ///
    /// Each interval is for its value alone and ignores the selection: the largest estimates are too large on average.
    pub fn top(&self, k: usize, timestamp: u64, unit: Unit) -> Result<Vec<Ranked>, QueryError> {
        let (domain, position) = self.locate(timestamp)?;
        if k == 0 || k > domain.size() as usize {
            return Err(QueryError::BadTop { k, domain: domain.size() });
        }
        let (frequencies, _) = self.kept[position].release.statistic.leaves();
        let larger =
            |a: &u32, b: &u32| frequencies[*b as usize].total_cmp(&frequencies[*a as usize]).then_with(|| a.cmp(b));
        let mut values: Vec<u32> = (0..domain.size()).collect();
        if k < values.len() {
            values.select_nth_unstable_by(k, larger);
            values.truncate(k);
        }
        values.sort_unstable_by(larger);
        let ranked = |value| Ok(Ranked { value, answer: self.point(value, timestamp, unit)? });
        values.into_iter().map(ranked).collect()
    }

    /// Domain, and index of a timestamp's release.
    fn locate(&self, timestamp: u64) -> Result<(Domain, usize), QueryError> {
        let (Some(domain), Some(oldest), Some(last)) = (self.domain, self.kept.front(), self.latest()) else {
            return Err(QueryError::NothingReleased);
        };
        let position = self.kept.binary_search_by_key(&timestamp, |kept| kept.release.timestamp);
        let first = oldest.release.timestamp;
        Ok((domain, position.map_err(|_| QueryError::UnknownTimestamp { timestamp, first, last })?))
    }

    fn ask(&self, query: &Query, shift: Option<u64>, timestamp: u64) -> Result<Answer, QueryError> {
        let (domain, position) = self.locate(timestamp)?;
        let place = domain.find(query.first, query.last, query.unit)?;
        let periods = Periods::find(position, query.delta, shift, |position| self.kept[position].release.timestamp)?;
        periods.sum(query.unit, self.window, self.correlation, |position| self.sample(position, &place))
    }

    fn sample(&self, position: usize, place: &Place) -> Sample {
        let kept = &self.kept[position];
        let Release { timestamp, freshness, .. } = kept.release;
        let (frequency, variance) = kept.read(place);
        let shared = if kept.is_fresh() {
            variance
        } else {
            // The last run that started before the release.
            let run = self.runs.partition_point(|run| *run <= timestamp).saturating_sub(1);
            let begin = self.kept.partition_point(|kept| kept.release.timestamp < self.runs[run]);
            self.kept[begin].read(place).1
        };
        Sample { timestamp, frequency, variance, shared, population: kept.population, freshness }
    }
}

/// Saved form. Loading pushes the releases one by one, which validates them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    window: Window,
    capacity: usize,
    correlation: Correlation,
    releases: Vec<(SavedRelease, Option<u64>)>,
}

/// Saved release, without its class spends and randomness.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRelease {
    timestamp: u64,
    statistic: Statistic,
    freshness: Freshness,
    /// Largest spend of any user.
    spent: Option<Epsilon>,
    reports: u64,
}

impl From<Release> for SavedRelease {
    fn from(release: Release) -> Self {
        let Release { timestamp, statistic, freshness, spent, reports, seeded: _, why: _ } = release;
        Self { timestamp, statistic, freshness, spent: spent.most(), reports }
    }
}

impl From<SavedRelease> for Release {
    fn from(saved: SavedRelease) -> Self {
        let SavedRelease { timestamp, statistic, freshness, spent, reports } = saved;
        Self { timestamp, statistic, freshness, spent: Spent::by_everyone(spent), reports, seeded: false, why: None }
    }
}

impl From<History> for Saved {
    fn from(history: History) -> Self {
        let History { window, capacity, correlation, kept, .. } = history;
        let releases = kept.into_iter().map(|kept| (kept.release.into(), kept.population)).collect();
        Self { version: VERSION, window, capacity, correlation, releases }
    }
}

impl TryFrom<Saved> for History {
    type Error = QueryError;

    fn try_from(saved: Saved) -> Result<Self, QueryError> {
        if saved.version != VERSION {
            return Err(QueryError::UnknownVersion { found: saved.version, known: VERSION });
        }
        if saved.releases.len() > saved.capacity {
            let allowed = saved.capacity as u64;
            return Err(QueryError::Overfull { found: saved.releases.len(), allowed });
        }
        let mut history = Self::new(saved.window, saved.capacity)?.with_correlation(saved.correlation);
        for (release, population) in saved.releases {
            history.push(release.into(), population)?;
        }
        Ok(history)
    }
}
