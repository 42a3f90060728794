//! Queries and monitors of a spec, and [`StandingQueries`], which runs them.

use serde::{Deserialize, Serialize};
use tidegate_kernel::Window;

use super::{SpecError, ValueSpec, Values, check_confidence};
use crate::query::{
    Answer, Correlation, Direction, Event, History, Interval, Monitor, Query, QueryError, Rule, Score, Unit,
};
use crate::release::Release;

/// A question that is answered after each release: about one value, about a range of values, or about the most frequent
/// ones; of a stream of numbers, about their mean, with none of these keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuerySpec {
    /// Its name in answers.
    pub name: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueSpec>,
    /// The first value of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<ValueSpec>,
    /// The last value of a range, which belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ValueSpec>,
    /// How many of the most frequent values are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<usize>,
    /// Over how many timestamps is summed: one, unless said. Not with `top`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<u64>,
    /// The unit of the answer.
    #[serde(default)]
    pub unit: Unit,
    /// How sure it is that the interval of an answer holds the truth: .95 unless said.
    #[serde(default = "usual_confidence")]
    pub confidence: f64,
}

/// A monitor: a score, and the thresholds at which an event starts and ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorSpec {
    /// Its name in events.
    pub name: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueSpec>,
    /// The first value of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<ValueSpec>,
    /// The last value of a range, which belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ValueSpec>,
    /// Over how many timestamps is summed: one, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<u64>,
    /// The unit of the score.
    #[serde(default)]
    pub unit: Unit,
    /// Whether the number itself is watched, or its change.
    #[serde(default)]
    pub score: ScoreSpec,
    /// How many timestamps lie between what a change compares: `delta` unless said. Not for a level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<u64>,
    /// On which side of its threshold the number is during an event.
    pub direction: Direction,
    /// Beyond which number an event starts.
    pub start: f64,
    /// At which number it ends: where it starts, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<f64>,
    /// If given, events start and end only where the whole interval of this confidence is beyond the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// The score of a monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreSpec {
    /// The answer to its query.
    #[default]
    Level,
    /// By how much that differs from an earlier one.
    Change,
}

const fn usual_confidence() -> f64 {
    0.95
}

/// What a query or a monitor is about: values and a unit, or the mean of numbers.
fn query(
    values: &Values,
    [value, first, last]: [Option<&ValueSpec>; 3],
    delta: u64,
    unit: Unit,
) -> Result<Query, String> {
    if values.grid().is_some() {
        if value.or(first).or(last).is_some() || unit == Unit::Counts {
            return Err("a stream of numbers is asked for its mean: leave out value, first, last and unit".to_owned());
        }
        return Ok(Query::mean(delta));
    }
    if unit == Unit::Mean {
        return Err("the unit mean is for streams of numbers; here it is frequencies or counts".to_owned());
    }
    match (value, first, last) {
        (Some(value), None, None) => values.look_up(value).map(|value| Query { unit, ..Query::counting(value, delta) }),
        (None, Some(first), Some(last)) => {
            let (first, last) = (values.look_up(first)?, values.look_up(last)?);
            if first > last {
                return Err(QueryError::ReversedRange { first, last }.to_string());
            }
            Ok(Query { first, last, delta, unit })
        }
        _ => Err("it is about one value, or about those from first to last".to_owned()),
    }
}

impl QuerySpec {
    /// Its keys.
    pub const KEYS: &[&str] = &["name", "value", "first", "last", "top", "delta", "unit", "confidence"];

    fn ask(&self, values: &Values) -> Result<Asked, SpecError> {
        let error = |problem: String| SpecError::standing_query("queries", &self.name, problem);
        check_confidence(self.confidence).map_err(|problem| error(problem.to_string()))?;
        let Self { unit, confidence, .. } = *self;
        let name = self.name.clone();
        let (value, first, last) = (self.value.as_ref(), self.first.as_ref(), self.last.as_ref());
        let question = match self.top {
            Some(k) => {
                if values.grid().is_some() || unit == Unit::Mean {
                    return Err(error("top asks for the most frequent values, and numbers have none".to_owned()));
                }
                if value.or(first).or(last).is_some() || self.delta.is_some() {
                    return Err(error(
                        "top asks about all values of one timestamp, and takes neither values nor delta".to_owned(),
                    ));
                }
                if !(1..=values.count() as usize).contains(&k) {
                    return Err(error(QueryError::BadTop { k, domain: values.count() }.to_string()));
                }
                Question::Top { k, unit }
            }
            None => {
                let delta = self.delta.unwrap_or(1);
                if delta == 0 {
                    return Err(error(QueryError::ZeroDelta.to_string()));
                }
                Question::Sum(query(values, [value, first, last], delta, unit).map_err(error)?)
            }
        };
        Ok(Asked { name, question, confidence })
    }
}

impl MonitorSpec {
    /// Its keys.
    pub const KEYS: &[&str] = &[
        "name",
        "value",
        "first",
        "last",
        "delta",
        "unit",
        "score",
        "shift",
        "direction",
        "start",
        "end",
        "confidence",
    ];

    fn monitor(&self, values: &Values, window: Window, correlation: Correlation) -> Result<Monitor, SpecError> {
        let error = |problem: String| SpecError::standing_query("monitors", &self.name, problem);
        let delta = self.delta.unwrap_or(1);
        let about = [self.value.as_ref(), self.first.as_ref(), self.last.as_ref()];
        let query = query(values, about, delta, self.unit).map_err(error)?;
        let score = match (self.score, self.shift) {
            (ScoreSpec::Level, None) => Score::Level,
            (ScoreSpec::Level, Some(_)) => return Err(error("a level has no shift; a change has".to_owned())),
            (ScoreSpec::Change, shift) => Score::Change { shift: shift.unwrap_or(delta) },
        };
        let rule = Rule {
            query,
            score,
            direction: self.direction,
            start: self.start,
            end: self.end.unwrap_or(self.start),
            confidence: self.confidence,
        };
        let monitor = Monitor::new(rule, window).map_err(|problem| error(problem.to_string()))?;
        Ok(monitor.with_correlation(correlation))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Asked {
    name: String,
    question: Question,
    confidence: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Question {
    Sum(Query),
    Top { k: usize, unit: Unit },
}

/// An answer of a query, or an event of a monitor, after a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Said<'a> {
    /// The name of the query or the monitor.
    pub name: &'a str,
    /// The answer or the event.
    pub reply: Reply,
    /// Whether the latest release that it rests on is [seeded](Release::seeded).
    pub seeded: bool,
}

/// An answer or an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The answer to a query, with the interval of its confidence.
    Answer {
        /// The answer.
        answer: Answer,
        /// The interval; `None` where the error is not known.
        interval: Option<Interval>,
        /// How sure it is that the interval holds the truth.
        confidence: f64,
    },
    /// The most frequent values, each with its answer and interval.
    Top {
        /// The values, the most frequent first.
        ranked: Vec<(u32, Answer, Option<Interval>)>,
        /// How sure it is, for each by itself, that the interval holds the truth.
        confidence: f64,
    },
    /// The beginning or the end of an event.
    Event(Event),
}

/// Answers the queries and runs the monitors of a spec, over what is released and so for nothing. It keeps as many
/// releases as the longest period of a query has timestamps.
///
/// ```
/// use tidegate::spec::{Reply, StreamSpec};
/// use tidegate::release::{Counts, Freshness, Release, Spent};
///
/// let json = r#"{
///     "family": "central", "mechanism": "ba", "epsilon": 1, "window": 10, "domain": ["home", "away"],
///     "queries": [{ "name": "out", "value": "away", "delta": 2, "unit": "counts" }]
/// }"#;
/// let StreamSpec::Central(spec) = serde_json::from_str(json)? else { unreachable!("it says central") };
/// let mut queries = spec.standing_queries()?;
/// let release = |timestamp| Release {
///     timestamp,
///     statistic: Counts { counts: vec![60.0, 40.0], variances: vec![2.0, 2.0] }.into(),
///     freshness: Freshness::Fresh,
///     spent: Spent::Nothing,
///     reports: 0,
///     seeded: false,
///     why: None,
/// };
/// assert!(queries.push(&release(0), None)?.is_empty()); // the period has two timestamps
/// let said = queries.push(&release(1), None)?;
/// let Reply::Answer { answer, interval, .. } = &said[0].reply else { panic!("it is a sum") };
/// assert!((answer.value - 80.0).abs() < 1e-9 && interval.is_some_and(|interval| interval.contains(81.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StandingQueries {
    queries: Vec<Asked>,
    history: History,
    monitors: Vec<(String, Monitor)>,
}

/// State of [`StandingQueries`] between two releases.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedQueries {
    history: History,
    monitors: Vec<Monitor>,
}

impl StandingQueries {
    pub(super) fn new(
        queries: &[QuerySpec],
        monitors: &[MonitorSpec],
        values: &Values,
        window: Window,
        correlation: Correlation,
    ) -> Result<Self, SpecError> {
        unique("queries", queries.iter().map(|query| query.name.as_str()))?;
        unique("monitors", monitors.iter().map(|monitor| monitor.name.as_str()))?;
        let queries: Vec<Asked> = queries.iter().map(|query| query.ask(values)).collect::<Result<_, _>>()?;
        let period = |asked: &Asked| match asked.question {
            Question::Sum(query) => query.delta,
            Question::Top { .. } => 1,
        };
        let longest = queries.iter().map(period).max().unwrap_or(1);
        let capacity = usize::try_from(longest).unwrap_or(usize::MAX).max(1);
        let history =
            History::new(window, capacity).map_err(|error| SpecError::standing_query("queries", "", error))?;
        let monitor = |spec: &MonitorSpec| spec.monitor(values, window, correlation);
        let named = |spec: &MonitorSpec| monitor(spec).map(|monitor| (spec.name.clone(), monitor));
        let monitors = monitors.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Self { queries, history: history.with_correlation(correlation), monitors })
    }

    /// Whether there is nothing to answer or to watch.
    pub fn is_idle(&self) -> bool {
        self.queries.is_empty() && self.monitors.is_empty()
    }

    /// Whether there are queries.
    pub fn has_queries(&self) -> bool {
        !self.queries.is_empty()
    }

    /// Takes in the next release, with the number of users where that is public, and returns what there is to say about
    /// it. A query whose period was not released whole has no answer.
    ///
    /// # Errors
    /// A release that does not come after the last one, or is not one of the spec's.
    pub fn push(&mut self, release: &Release, population: Option<u64>) -> Result<Vec<Said<'_>>, QueryError> {
        let mut said = Vec::new();
        if !self.queries.is_empty() {
            self.history.push(release.clone(), population)?;
        }
        for asked in &self.queries {
            if let Some(reply) = answer(&self.history, asked, release.timestamp)? {
                said.push(Said { name: &asked.name, reply, seeded: release.seeded });
            }
        }
        for (name, monitor) in &mut self.monitors {
            if let Some(event) = monitor.push(release, population)?.event {
                said.push(Said { name, reply: Reply::Event(event), seeded: release.seeded });
            }
        }
        Ok(said)
    }

    /// The state to save; `None` where there is none.
    pub fn save(&self) -> Option<impl Serialize + '_> {
        let monitors = self.monitors.iter().map(|(_, monitor)| monitor.clone()).collect();
        (!self.is_idle()).then(|| SavedQueries { history: self.history.clone(), monitors })
    }

    /// Goes on from what was [saved](Self::save) of a watch of the same spec.
    ///
    /// # Errors
    /// A state that cannot be read, or is of other queries or monitors.
    pub fn load<'de, D: serde::Deserializer<'de>>(&mut self, saved: D) -> Result<(), D::Error> {
        use serde::de::Error;

        let SavedQueries { history, monitors } = SavedQueries::deserialize(saved)?;
        let same_monitors = monitors.len() == self.monitors.len()
            && monitors.iter().zip(&self.monitors).all(|(saved, (_, own))| saved.rule() == own.rule());
        let same_history = (history.window(), history.capacity()) == (self.history.window(), self.history.capacity());
        if !same_monitors || !same_history {
            return Err(D::Error::custom("what was saved is of other queries or monitors"));
        }
        self.history = history;
        for ((_, own), saved) in self.monitors.iter_mut().zip(monitors) {
            *own = saved;
        }
        Ok(())
    }
}

/// The longest name of a query or a monitor, in characters.
const LONGEST_NAME: usize = 200;

fn unique<'a>(key: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), SpecError> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(SpecError::standing_query(key, name, "it has no name"));
        }
        if name.chars().count() > LONGEST_NAME {
            return Err(SpecError::standing_query(key, "", "a name has at most 200 characters"));
        }
        if !seen.insert(name) {
            return Err(SpecError::standing_query(key, name, "two have this name"));
        }
    }
    Ok(())
}

fn answer(history: &History, asked: &Asked, timestamp: u64) -> Result<Option<Reply>, QueryError> {
    let confidence = asked.confidence;
    match asked.question {
        Question::Sum(query) => match history.answer_at(&query, timestamp) {
            Ok(answer) => {
                let interval = answer.possible_interval(confidence)?;
                Ok(Some(Reply::Answer { answer, interval, confidence }))
            }
            // Too early, or something was left out.
            Err(QueryError::BeyondKept { .. } | QueryError::Gap { .. } | QueryError::UnknownTimestamp { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        },
        Question::Top { k, unit } => {
            let ranked = history.top(k, timestamp, unit)?.into_iter();
            let ranked =
                ranked.map(|ranked| Ok((ranked.value, ranked.answer, ranked.answer.possible_interval(confidence)?)));
            Ok(Some(Reply::Top { ranked: ranked.collect::<Result<_, QueryError>>()?, confidence }))
        }
    }
}
