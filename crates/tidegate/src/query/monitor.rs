//! [`Monitor`]: reports the start and end of events in a stream.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Window;

use crate::release::{Freshness, Release};

use super::answer::{Answer, quantile};
use super::domain::Domain;
use super::error::QueryError;
use super::history::Query;
use super::sum::{Correlation, Periods, Sample};

const VERSION: u16 = 1;

/// `alpha`: the monitored number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The answer.
    Level,
    /// The answer, less that `shift` timestamps earlier.
    ///
    /// A shift of `delta` compares adjacent periods. MTSP-LDP (definition 2.7) prints `w - 1`, for a window of `w`
    /// timestamps.
    Change {
        /// Timestamps between the ends of the two periods.
        shift: u64,
    },
}

impl Score {
    const fn shift(self) -> Option<u64> {
        match self {
            Self::Level => None,
            Self::Change { shift } => Some(shift),
        }
    }
}

/// Side of the threshold on which the score lies during an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Above: a high level, or a rise.
    Above,
    /// Below: a low level or, with thresholds below zero, a fall.
    Below,
}

impl Direction {
    pub(super) const fn opposite(self) -> Self {
        match self {
            Self::Above => Self::Below,
            Self::Below => Self::Above,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Above => "above",
            Self::Below => "below",
        })
    }
}

/// `alpha` and `beta`: the monitored number, and its thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Values, period and unit.
    pub query: Query,
    /// Score computed from the query.
    pub score: Score,
    /// Side of the threshold during an event.
    pub direction: Direction,
    /// An event starts when the score crosses this threshold.
    pub start: f64,
    /// An event ends when the score returns to this threshold. The further it lies from the start, the fewer events
    /// noise causes. If both are equal, there is an event exactly while the score is beyond.
    pub end: f64,
    /// If given, the whole interval of this confidence must cross a threshold. Fewer false events, but later detection.
    pub confidence: Option<f64>,
}

impl Rule {
    /// An event while the answer is above the threshold.
    pub const fn above(query: Query, threshold: f64) -> Self {
        let direction = Direction::Above;
        Self { query, score: Score::Level, direction, start: threshold, end: threshold, confidence: None }
    }

    /// An event while the answer is below the threshold.
    pub const fn below(query: Query, threshold: f64) -> Self {
        Self { direction: Direction::Below, ..Self::above(query, threshold) }
    }

    /// An event while the answer exceeds that of the previous period by more than the threshold.
    pub const fn rising(query: Query, by: f64) -> Self {
        Self { score: Score::Change { shift: query.delta }, ..Self::above(query, by) }
    }

    /// An event while the answer is below that of the previous period by more than the threshold.
    pub const fn falling(query: Query, by: f64) -> Self {
        Self { direction: Direction::Below, ..Self::rising(query, -by) }
    }

    /// Ends events at another threshold.
    #[must_use]
    pub const fn until(self, end: f64) -> Self {
        Self { end, ..self }
    }

    /// Compares periods that end this many timestamps apart.
    #[must_use]
    pub const fn with_shift(self, shift: u64) -> Self {
        Self { score: Score::Change { shift }, ..self }
    }

    /// Requires the interval of this confidence to exclude the threshold.
    #[must_use]
    pub const fn with_confidence(self, confidence: f64) -> Self {
        Self { confidence: Some(confidence), ..self }
    }

    fn check(&self) -> Result<(), QueryError> {
        let Self { query, direction, start, end, .. } = *self;
        if query.first > query.last {
            return Err(QueryError::ReversedRange { first: query.first, last: query.last });
        }
        if query.delta == 0 {
            return Err(QueryError::ZeroDelta);
        }
        if self.score.shift() == Some(0) {
            return Err(QueryError::ZeroShift);
        }
        if let Some(given) = [start, end].into_iter().find(|threshold| !threshold.is_finite()) {
            return Err(QueryError::BadThreshold { given });
        }
        let crossed = match direction {
            Direction::Above => end > start,
            Direction::Below => end < start,
        };
        if crossed {
            return Err(QueryError::CrossedThresholds { direction, start, end });
        }
        self.confidence.map_or(Ok(()), |confidence| quantile(confidence).map(|_| ()))
    }

    /// Timestamps that a score depends on.
    const fn span(&self) -> u64 {
        // Saturation is harmless: no stream is as long.
        self.query.delta.saturating_add(match self.score.shift() {
            None => 0,
            Some(shift) => shift,
        })
    }

    /// Whether an event continues after this score.
    fn is_event(&self, before: bool, score: &Answer) -> Result<bool, QueryError> {
        let (low, high) = match self.confidence {
            None => (score.value, score.value),
            Some(confidence) => {
                let interval = score.interval(confidence)?;
                (interval.low, interval.high)
            }
        };
        Ok(match (self.direction, before) {
            (Direction::Above, false) => low > self.start,
            (Direction::Above, true) => high > self.end,
            (Direction::Below, false) => high < self.start,
            (Direction::Below, true) => low < self.end,
        })
    }
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Start.
    Started,
    /// End.
    Ended,
}

impl EventKind {
    /// Name shown to users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ended => "ended",
        }
    }
}

/// Start or end of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Kind.
    pub kind: EventKind,
    /// Timestamp.
    pub timestamp: u64,
    /// Score with its variance and interval.
    pub score: Answer,
}

/// Result of a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Score `alpha`. `None` until all timestamps that it depends on are released.
    pub score: Option<Answer>,
    /// Event that started or ended.
    pub event: Option<Event>,
    /// Whether an event is active.
    pub active: bool,
}

/// Monitors one number of a stream for events.
///
/// Keeps a few numbers for each timestamp that its score depends on. Its state can be saved at any time.
///
/// ```
/// use tidegate::kernel::Window;
/// use tidegate::query::{EventKind, Monitor, Query, Rule};
/// use tidegate::release::{Freshness, Histogram, Release, Spent, Statistic};
///
/// // An event starts when the share of value 0 is above one half, and ends when it is down at 0.4.
/// let rule = Rule::above(Query::counting(0, 1), 0.5).until(0.4);
/// let mut monitor = Monitor::new(rule, Window::EVENT)?;
/// let mut events = Vec::new();
/// for (timestamp, share) in [(0, 0.2), (1, 0.6), (2, 0.45), (3, 0.55), (4, 0.3)] {
///     let histogram = Histogram { frequencies: vec![share, 1.0 - share], variances: vec![0.001; 2] };
///     let statistic = Statistic::Histogram(histogram);
///     let (freshness, spent) = (Freshness::Fresh, Spent::Nothing);
///     let release = Release { timestamp, statistic, freshness, spent, reports: 1000, seeded: false, why: None };
///     events.extend(monitor.push(&release, None)?.event);
/// }
/// let events: Vec<_> = events.iter().map(|event| (event.kind, event.timestamp)).collect();
/// assert_eq!(events, [(EventKind::Started, 1), (EventKind::Ended, 4)]);
/// # Ok::<(), tidegate::query::QueryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct Monitor {
    rule: Rule,
    window: Window,
    correlation: Correlation,
    domain: Option<Domain>,
    /// Timestamps that the next score may use, oldest first.
    samples: VecDeque<Sample>,
    active: bool,
}

impl Monitor {
    /// Creates a monitor. `window` is that of the stream's guarantee.
    pub fn new(rule: Rule, window: Window) -> Result<Self, QueryError> {
        rule.check()?;
        let correlation = Correlation::default();
        Ok(Self { rule, window, correlation, domain: None, samples: VecDeque::new(), active: false })
    }

    /// Declares how errors of different releases are correlated.
    #[must_use]
    pub fn with_correlation(self, correlation: Correlation) -> Self {
        Self { correlation, ..self }
    }

    /// Rule.
    pub const fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Whether an event is active.
    pub const fn is_active(&self) -> bool {
        self.active
    }

    /// Adds the next release, with the number of users if known.
    ///
    /// After a missing timestamp there is no score until the gap is past, and events neither start nor end. Fails
    /// without any change if the release is not later than all before, of another domain, lacks a needed number of
    /// users, or has too few values.
    pub fn push(&mut self, release: &Release, population: Option<u64>) -> Result<Observation, QueryError> {
        let domain = Domain::of(release)?;
        if let Some(expected) = self.domain
            && expected != domain
        {
            return Err(QueryError::OtherDomain { given: domain, expected });
        }
        let (release, population) = release.clone().in_frequencies(population);
        let Release { timestamp, freshness, ref statistic, .. } = release;
        if let Some(latest) = self.samples.back()
            && timestamp <= latest.timestamp
        {
            return Err(QueryError::OutOfOrder { timestamp, latest: latest.timestamp });
        }
        let Query { first, last, unit, .. } = self.rule.query;
        let (frequency, variance) = domain.find(first, last, unit)?.read(statistic);
        let repeated = self.samples.back().filter(|_| freshness != Freshness::Fresh);
        let shared = repeated.map_or(variance, |repeated| repeated.shared);
        let sample = Sample { timestamp, frequency, variance, shared, population, freshness };
        sample.scale(unit)?;

        self.domain = Some(domain);
        self.samples.push_back(sample);
        let span = self.rule.span();
        while self.samples.front().is_some_and(|oldest| timestamp - oldest.timestamp >= span) {
            self.samples.pop_front();
        }
        let score = self.score()?;
        let before = self.active;
        if let Some(score) = &score {
            self.active = self.rule.is_event(before, score)?;
        }
        let kind = if self.active { EventKind::Started } else { EventKind::Ended };
        let event = score.filter(|_| self.active != before).map(|score| Event { kind, timestamp, score });
        Ok(Observation { score, event, active: self.active })
    }

    /// Score at the latest timestamp, if available.
    fn score(&self) -> Result<Option<Answer>, QueryError> {
        if self.samples.len() as u64 != self.rule.span() {
            return Ok(None);
        }
        let Query { delta, unit, .. } = self.rule.query;
        let timestamp = |position: usize| self.samples[position].timestamp;
        let periods = Periods::find(self.samples.len() - 1, delta, self.rule.score.shift(), timestamp)?;
        periods.sum(unit, self.window, self.correlation, |position| self.samples[position]).map(Some)
    }
}

/// Saved form; loading validates it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    rule: Rule,
    window: Window,
    correlation: Correlation,
    domain: Option<Domain>,
    samples: Vec<Sample>,
    active: bool,
}

impl From<Monitor> for Saved {
    fn from(monitor: Monitor) -> Self {
        let Monitor { rule, window, correlation, domain, samples, active } = monitor;
        Self { version: VERSION, rule, window, correlation, domain, samples: samples.into(), active }
    }
}

impl TryFrom<Saved> for Monitor {
    type Error = QueryError;

    fn try_from(saved: Saved) -> Result<Self, QueryError> {
        let Saved { version, rule, window, correlation, domain, samples, active } = saved;
        if version != VERSION {
            return Err(QueryError::UnknownVersion { found: version, known: VERSION });
        }
        let monitor = Self::new(rule, window)?;
        if samples.is_empty() != domain.is_none() {
            return Err(QueryError::NothingReleased);
        }
        if let Some(domain) = domain {
            domain.find(rule.query.first, rule.query.last, rule.query.unit)?;
        }
        for pair in samples.windows(2) {
            let (latest, timestamp) = (pair[0].timestamp, pair[1].timestamp);
            if timestamp <= latest {
                return Err(QueryError::OutOfOrder { timestamp, latest });
            }
        }
        for sample in &samples {
            sample.check(rule.query.unit)?;
        }
        if let (Some(first), Some(last)) = (samples.first(), samples.last())
            && last.timestamp - first.timestamp >= rule.span()
        {
            return Err(QueryError::Overfull { found: samples.len(), allowed: rule.span() });
        }
        Ok(Self { domain, samples: samples.into(), correlation, active, ..monitor })
    }
}
