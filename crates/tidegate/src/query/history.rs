//! [`History`]: the last releases of a stream, ready to be asked.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate_kernel::{Epsilon, Window};

use crate::release::{Freshness, Release, Spent, Statistic};

use super::answer::{Answer, Unit};
use super::domain::{Domain, Place};
use super::error::QueryError;
use super::sum::{Correlation, Periods, Sample};

const VERSION: u16 = 1;

/// How often users reported a value of a range over a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The first value of the range.
    pub first: u32,
    /// The last value of the range, which belongs to it.
    pub last: u32,
    /// How many timestamps the period has.
    pub delta: u64,
    /// What the answer is measured in.
    pub unit: Unit,
}

impl Query {
    /// `Q(v, delta)`: how often users reported the value in the last `delta` timestamps, in frequencies.
    pub const fn counting(value: u32, delta: u64) -> Self {
        Self::range(value, value, delta)
    }

    /// `Q([first, last], delta)`: how often users reported a value from `first` to `last`, both included, in the last
    /// `delta` timestamps, in frequencies.
    pub const fn range(first: u32, last: u32, delta: u64) -> Self {
        Self { first, last, delta, unit: Unit::Frequencies }
    }

    /// The same query, answered in counts.
    pub const fn in_counts(self) -> Self {
        Self { unit: Unit::Counts, ..self }
    }
}

/// A value with its place among the most frequent ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The value.
    pub value: u32,
    /// How frequent it is.
    pub answer: Answer,
}

/// The last releases of one stream, so many at most, with what makes questions about them cheap.
///
/// A question about a range costs O(1) for each timestamp of its period on histograms, by sums over values that are
/// kept with each release, and O(log d) on trees of d values, by the fewest nodes that cover the range. Memory is
/// O(d) for each release kept, however long the stream lasts.
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
///     let release = Release { timestamp, statistic, freshness, spent: Spent::Nothing, reports: 1000, seeded: false };
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
    /// The timestamps at which runs begin: of the fresh releases, and of the oldest release if it is none.
    runs: VecDeque<u64>,
}

/// A release with the number of users and, for a histogram, the sums of the frequencies and variances of the first
/// 0, 1, 2, ... values.
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

    /// The frequency of the values at a place, and its variance.
    fn read(&self, place: &Place) -> (f64, f64) {
        match place {
            Place::Values(range) if range.len() > 1 => {
                let ((below, variance_below), (sum, variance)) = (self.sums[range.start], self.sums[range.end]);
                // Sums of variances only grow, but for rounding.
                (sum - below, (variance - variance_below).max(0.0))
            }
            _ => place.read(&self.release.statistic),
        }
    }
}

impl History {
    /// A history that keeps the last `capacity` releases of a stream whose guarantee holds for this window.
    pub fn new(window: Window, capacity: usize) -> Result<Self, QueryError> {
        if capacity == 0 {
            return Err(QueryError::ZeroCapacity);
        }
        let correlation = Correlation::default();
        Ok(Self { window, capacity, correlation, domain: None, kept: VecDeque::new(), runs: VecDeque::new() })
    }

    /// The same history, of a stream whose releases share errors in this way.
    #[must_use]
    pub fn with_correlation(self, correlation: Correlation) -> Self {
        Self { correlation, ..self }
    }

    /// Takes in a release, with the number of users at its timestamp where that is known (it is public, and may
    /// change). The oldest release is forgotten when there are too many.
    ///
    /// A release of counts is kept as frequencies. Where the number of users is not given they are shares of [as many
    /// as there seem to be](crate::release::Counts::population); answers in counts do not depend on it.
    ///
    /// Fails, and changes nothing, if the release is not later than all before, or not of the same domain.
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

    /// The window of the stream's guarantee.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// How many releases are kept at most.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many releases are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing was released yet.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What the stream publishes; `None` before the first release.
    pub const fn domain(&self) -> Option<Domain> {
        self.domain
    }

    /// The timestamp of the latest release.
    pub fn latest(&self) -> Option<u64> {
        self.kept.back().map(|kept| kept.release.timestamp)
    }

    /// The releases that are kept, oldest first, each with the number of users. They say what was spent at most, and
    /// neither by whom nor whether the randomness came from a seed.
    pub fn releases(&self) -> impl ExactSizeIterator<Item = (&Release, Option<u64>)> + '_ {
        self.kept.iter().map(|kept| (&kept.release, kept.population))
    }

    /// The answer to a query about the period that ends at the latest timestamp.
    pub fn answer(&self, query: &Query) -> Result<Answer, QueryError> {
        self.answer_at(query, self.latest().ok_or(QueryError::NothingReleased)?)
    }

    /// The answer to a query about the period that ends at a timestamp.
    pub fn answer_at(&self, query: &Query, timestamp: u64) -> Result<Answer, QueryError> {
        self.ask(query, None, timestamp)
    }

    /// How much the answer to a query has changed: that for the period that ends at the timestamp, less that for the
    /// period that ends `shift` timestamps before.
    ///
    /// With a shift of `delta` the two periods follow each other; with a smaller one they overlap, and what they have
    /// in common cancels, errors included.
    pub fn change(&self, query: &Query, shift: u64, timestamp: u64) -> Result<Answer, QueryError> {
        self.ask(query, Some(shift), timestamp)
    }

    /// The frequency or count of one value at a timestamp.
    pub fn point(&self, value: u32, timestamp: u64, unit: Unit) -> Result<Answer, QueryError> {
        self.answer_at(&Query { unit, ..Query::counting(value, 1) }, timestamp)
    }

    /// The frequency or count of each value at a timestamp, in the order of the values.
    pub fn histogram(&self, timestamp: u64, unit: Unit) -> Result<Vec<Answer>, QueryError> {
        let (domain, _) = self.locate(timestamp)?;
        (0..domain.size()).map(|value| self.point(value, timestamp, unit)).collect()
    }

    /// The `k` values with the largest estimates at a timestamp, the largest first; of equal ones the smaller value
    /// first.
    ///
    /// The intervals are those of each value by itself. That the `k` values were chosen for their large estimates is
    /// not in them: on average the estimates at the top are too large.
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

    /// The domain, and the position of the release of a timestamp.
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
        let place = domain.find(query.first, query.last)?;
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
            // The run that the release belongs to is the last that began before it; there is always one.
            let run = self.runs.partition_point(|run| *run <= timestamp).saturating_sub(1);
            let begin = self.kept.partition_point(|kept| kept.release.timestamp < self.runs[run]);
            self.kept[begin].read(place).1
        };
        Sample { timestamp, frequency, variance, shared, population: kept.population, freshness }
    }
}

/// The saved form. Loading takes in the releases one by one, so that only what `push` accepts is loaded.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    window: Window,
    capacity: usize,
    correlation: Correlation,
    releases: Vec<(SavedRelease, Option<u64>)>,
}

/// A release as histories of version 1 keep it: answers need to know neither who paid for it nor its randomness.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRelease {
    timestamp: u64,
    statistic: Statistic,
    freshness: Freshness,
    /// The most that any one user spent.
    spent: Option<Epsilon>,
    reports: u64,
}

impl From<Release> for SavedRelease {
    fn from(release: Release) -> Self {
        let Release { timestamp, statistic, freshness, spent, reports, seeded: _ } = release;
        Self { timestamp, statistic, freshness, spent: spent.most(), reports }
    }
}

impl From<SavedRelease> for Release {
    fn from(saved: SavedRelease) -> Self {
        let SavedRelease { timestamp, statistic, freshness, spent, reports } = saved;
        Self { timestamp, statistic, freshness, spent: Spent::by_everyone(spent), reports, seeded: false }
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
