//! Local streams whose devices are elsewhere: questions out, aggregates in.

use pyo3::prelude::*;
use tidegate::kernel::Question;
use tidegate::kernel::oracle::Estimate;
use tidegate::local;
use tidegate::series::Series;
use tidegate::spec::StreamSpec;
use tidegate_release::gate::{Published, Sink};
use tidegate_release::{Error, reading};
use tidegate_table::releases::ReleaseLayout;

use crate::columns::TimeKind;
use crate::error::{BadData, Failure};
use crate::oracles::Aggregate;
use crate::releases::{Gathered, Releases};
use crate::stream::Stream;
use crate::work::Stop;

/// Questions in JSON, or a release.
type Step = (Vec<String>, Option<Releases>);

/// Begins a timestamp of a local stream.
#[pyfunction]
pub(crate) fn open_timestamp(py: Python<'_>, stream: &Stream, timestamp: u64) -> Result<Step, Failure> {
    py.detach(|| {
        stream.step(|spec, series, seeded| {
            let step = only(series)?.open(timestamp)?;
            shown(spec, series, step, *seeded, None)
        })
    })
}

/// Goes on with what came back for the open questions.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // as Python passes them
pub(crate) fn answer_questions(
    py: Python<'_>,
    stream: &Stream,
    questions: Vec<String>,
    aggregates: Vec<Option<PyRef<'_, Aggregate>>>,
    population: Option<u64>,
) -> Result<Step, Failure> {
    let questions = (0..).zip(&questions).map(|(row, question)| parse(row, question)).collect::<Result<Vec<_>, _>>()?;
    if aggregates.len() != questions.len() {
        let (given, expected) = (aggregates.len(), questions.len());
        let text = format!("aggregates: expected one for each of {expected} questions, or None, not {given}");
        return Err(Failure::Raised(BadData::new_err(text)));
    }
    let aggregates: Vec<Option<&Aggregate>> = aggregates.iter().map(Option::as_deref).collect();
    py.detach(|| {
        let mut of_seeds = false;
        let mut answers = Vec::with_capacity(questions.len());
        for ((row, question), aggregate) in (0..).zip(&questions).zip(aggregates) {
            let answer = aggregate.map(|aggregate| answer_of(row, question, aggregate)).transpose()?;
            of_seeds |= answer.as_ref().is_some_and(|(_, seeded)| *seeded);
            answers.push(answer.and_then(|(estimate, _)| estimate));
        }
        stream.step(|spec, series, seeded| {
            *seeded |= of_seeds;
            let step = only(series)?.answer(&questions, &answers)?;
            shown(spec, series, step, *seeded, population)
        })
    })
}

/// The questions that wait for answers.
#[pyfunction]
pub(crate) fn open_questions(py: Python<'_>, stream: &Stream) -> Result<Vec<String>, Failure> {
    py.detach(|| {
        let of = |series: &Series| series.streams().iter().flat_map(|stream| json(stream.open_questions())).collect();
        stream.look(of)?
    })
}

/// The stream of a single series.
fn only(series: &mut Series) -> Result<&mut tidegate::stream::Stream, Failure> {
    let is_single = series.streams().len() == 1;
    let stream = series.stream_mut(0).filter(|_| is_single);
    stream.ok_or_else(|| {
        let text = "several series have several collections of reports: make a stream for each of them";
        Error::Spec(text.to_owned()).into()
    })
}

fn parse(row: usize, question: &str) -> Result<Question, Failure> {
    serde_json::from_str(question).map_err(|error| {
        let text = format!("questions, row {row}: {error}");
        Failure::Raised(BadData::new_err((text, row)))
    })
}

fn json(questions: &[Question]) -> impl Iterator<Item = Result<String, Failure>> + '_ {
    questions.iter().map(|question| Ok(serde_json::to_string(question).map_err(Error::run)?))
}

/// The estimate from an aggregate, if there are reports, and whether one of them was seeded.
fn answer_of(row: usize, question: &Question, aggregate: &Aggregate) -> Result<(Option<Estimate>, bool), Failure> {
    let bad = |text: String| Failure::Raised(BadData::new_err((format!("aggregates, row {row}: {text}"), row)));
    let asked = question.oracle().map_err(|error| bad(error.to_string()))?;
    let name = |oracle: &tidegate::kernel::oracle::Oracle| {
        format!("{} over {} values at epsilon {}", oracle.kind(), oracle.domain(), oracle.epsilon())
    };
    aggregate.look(|aggregate, seeded| {
        let (given, expected) = (name(aggregate.oracle()), name(&asked));
        if given != expected {
            return Err(bad(format!("expected reports of {expected}, as the question asks, not of {given}")));
        }
        Ok((aggregate.estimate().ok(), seeded))
    })
}

fn shown(
    spec: &StreamSpec,
    series: &mut Series,
    step: local::Step,
    seeded: bool,
    population: Option<u64>,
) -> Result<Step, Failure> {
    let mut release = match step {
        local::Step::Ask(questions) => return Ok((json(&questions).collect::<Result<_, _>>()?, None)),
        local::Step::Done(release) => release,
    };
    release.seeded |= seeded;
    let release = release.readable();
    let clock = reading(spec)?.clock;
    let layout = ReleaseLayout::of(spec)?.with_clock(clock.clone());
    let stop = Stop::default();
    let mut gathered = Gathered::new(series, &stop);
    let said = only(series)?.answer_queries(&release, population)?;
    gathered.take(Published { series: 0, user: None, release, population, said })?;
    Ok((Vec::new(), Some(gathered.into_releases(layout, clock, TimeKind::Text, Vec::new()))))
}
