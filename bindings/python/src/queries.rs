//! Queries about releases, and monitors that run over them. The library answers, as it answers the command and the
//! service.

use pyo3::prelude::*;
use serde::Deserialize;
use tidegate::post_processing::{Refinement, Repair};
use tidegate::query::{Direction, Unit};
use tidegate::spec::{MonitorSpec, QuerySpec, ScoreSpec, SpecError, StandingQueries, StreamSpec, ValueSpec};
use tidegate::stream::StreamError;
use tidegate_release::Error;
use tidegate_release::gate::answer_line;

use crate::error::Failure;
use crate::records::keywords;
use crate::releases::{One, Releases};

/// A name that no caller sees.
const NAME: &str = "query";

/// Keywords of a query.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    value: Option<ValueSpec>,
    between: Option<(ValueSpec, ValueSpec)>,
    top: Option<usize>,
    last: Option<u64>,
    unit: Unit,
    confidence: f64,
    at: Option<u64>,
    series: Option<String>,
    repair: Repair,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            value: None,
            between: None,
            top: None,
            last: None,
            unit: Unit::default(),
            confidence: 0.95,
            at: None,
            series: None,
            repair: Repair::None,
        }
    }
}

/// Keywords of a monitor.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Watched {
    value: Option<ValueSpec>,
    between: Option<(ValueSpec, ValueSpec)>,
    above: Option<f64>,
    below: Option<f64>,
    until: Option<f64>,
    change: bool,
    shift: Option<u64>,
    last: Option<u64>,
    unit: Unit,
    confidence: Option<f64>,
    series: Option<String>,
    repair: Option<Repair>,
}

/// Answers a question about what was released, as a JSON object.
#[pyfunction]
pub(crate) fn query_releases(py: Python<'_>, releases: &Releases, options: &str) -> Result<String, Failure> {
    let Asked { value, between, top, last, unit, confidence, at, series, repair } = keywords(options)?;
    if [value.is_some(), between.is_some(), top.is_some()].into_iter().filter(|given| *given).count() != 1 {
        return Err(spec("ask about one of these: a value, the values between two, or the top few"));
    }
    if top.is_some() && last.is_some() {
        return Err(spec("top: it is about one timestamp; leave last out"));
    }
    let (first_value, last_value) = between.unzip();
    let period = period(last)?;
    let (name, delta) = (NAME.to_owned(), last);
    let asked = QuerySpec { name, value, first: first_value, last: last_value, top, delta, unit, confidence };
    let series = releases.series_of(series.as_deref())?;
    py.detach(|| {
        let mut run = Run::new(releases, vec![asked], Vec::new(), repair)?;
        let latest = || releases.of_series(series).next_back().map(|one| one.release.timestamp);
        let at = at.or_else(latest).ok_or_else(not_released)?;
        let mut answer = None;
        let period = at.saturating_sub(period - 1)..=at;
        for one in releases.of_series(series).filter(|one| period.contains(&one.release.timestamp)) {
            let said = run.push(releases, one)?.pop();
            answer = said.filter(|_| one.release.timestamp == at);
        }
        answer.ok_or_else(|| not_released().into())
    })
}

/// Runs a monitor over what was released: the beginnings and the ends of events, as JSON objects.
#[pyfunction]
pub(crate) fn watch_releases(py: Python<'_>, releases: &Releases, options: &str) -> Result<Vec<String>, Failure> {
    let watched: Watched = keywords(options)?;
    let Watched { value, between, above, below, until, change, shift, last, unit, confidence, series, repair } =
        watched;
    let (direction, start) = match (above, below) {
        (Some(start), None) => (Direction::Above, start),
        (None, Some(start)) => (Direction::Below, start),
        _ => return Err(spec("say beyond what an event starts: above a number, or below one")),
    };
    if value.is_some() == between.is_some() {
        return Err(spec("watch one of these: a value, or the values between two"));
    }
    if shift.is_some() && !change {
        return Err(spec("shift: it goes with change=True"));
    }
    period(last)?;
    let (first_value, last_value) = between.unzip();
    let monitor = MonitorSpec {
        name: NAME.to_owned(),
        value,
        first: first_value,
        last: last_value,
        delta: last,
        unit,
        score: if change { ScoreSpec::Change } else { ScoreSpec::Level },
        shift,
        direction,
        start,
        end: until,
        confidence,
    };
    let series = releases.series_of(series.as_deref())?;
    py.detach(|| {
        let mut run = Run::new(releases, Vec::new(), vec![monitor], repair.unwrap_or(Repair::None))?;
        let mut events = Vec::new();
        for one in releases.of_series(series) {
            events.extend(run.push(releases, one)?);
        }
        Ok(events)
    })
}

fn spec(problem: impl Into<String>) -> Failure {
    Error::Spec(problem.into()).into()
}

fn period(last: Option<u64>) -> Result<u64, Failure> {
    match last {
        Some(0) => Err(spec("last: expected the number of timestamps to sum, 1 or more")),
        last => Ok(last.unwrap_or(1)),
    }
}

fn not_released() -> Error {
    Error::Argument("the period was not released, or not all of it".to_owned())
}

/// A query or a monitor, as the only one of the spec of releases.
struct Run {
    queries: StandingQueries,
    refinement: Refinement,
}

impl Run {
    fn new(
        releases: &Releases,
        queries: Vec<QuerySpec>,
        monitors: Vec<MonitorSpec>,
        repair: Repair,
    ) -> Result<Self, Failure> {
        let mut of = releases.spec.clone();
        match &mut of {
            StreamSpec::Local(of) => (of.queries, of.monitors) = (queries, monitors),
            StreamSpec::Central(of) => (of.queries, of.monitors) = (queries, monitors),
            _ => {
                return Err(spec(
                    "queries are about how many users hold a value: this stream releases no such numbers",
                ));
            }
        }
        let queries = of.standing_queries().map_err(|error| match error {
            SpecError::StandingQuery { problem, .. } => spec(problem),
            other => other.into(),
        })?;
        let own = releases.spec.refinement()?;
        let refinement = Refinement::of_query(&own, repair, false).map_err(|error| spec(error.to_string()))?;
        let queries = queries.ok_or_else(|| spec("there is nothing to answer"))?;
        Ok(Self { queries, refinement })
    }

    /// Takes in the next release, and returns what there is to say about it.
    fn push(&mut self, releases: &Releases, one: &One) -> Result<Vec<String>, Failure> {
        let release = self.refinement.push(one.release.clone());
        let Some(values) = releases.spec.values()? else { return Ok(Vec::new()) };
        let said = self.queries.push(&release, one.population).map_err(StreamError::Query)?;
        said.iter().map(|said| Ok(answer_line(said, None, release.timestamp, &values)?)).collect()
    }
}
