//! [`recommend`]: the answer to a [`Question`], with the spec of the best mechanism.

use tidegate::mechanisms::Mechanism;
use tidegate::spec::StreamSpec;
use tidegate_kernel::SeededRandom;

use super::candidate::SpecSubject;
use super::predict::streams;
use super::spec_text::spec_text;
use super::{Advice, AdviseError, Data, Prediction, Question, Request, Sample, Simulation, Unpredicted, advise};
use crate::experiment::Subject;
use crate::sequence::drawn;
use crate::stream::{DataStream, Space, SymbolStream};

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Recommendation {
    /// The ranking, with its explanation.
    pub advice: Advice,
    /// The streams on which errors were predicted.
    pub streams: Vec<DataStream>,
    /// The mechanisms that were compared; [`Prediction::place`] is a place in this list.
    pub candidates: Vec<SpecSubject>,
    /// The best mechanism whose spec is complete; `None` if there is none.
    pub chosen: Option<Chosen>,
}

/// A mechanism with its spec.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The mechanism.
    pub mechanism: &'static Mechanism,
    /// Its predicted error.
    pub error: f64,
    /// Its spec.
    pub spec: StreamSpec,
    /// The spec in TOML, with comments.
    pub text: String,
}

/// Answers a question: ranks the mechanisms that apply, and writes the spec of the best.
///
/// The same arguments give the same answer, on any number of threads.
///
/// ```
/// use std::num::{NonZeroU64, NonZeroUsize};
/// use tidegate_lab::advise::{Data, Question, Request, Simulation, Trust, metrics_of, recommend};
///
/// let data = Data::Counts { domain: 4, population: NonZeroU64::MIN.saturating_add(4_999) };
/// let question = Question::new(Request {
///     data,
///     trust: Trust::Curator,
///     epsilon: "1".parse()?,
///     window: NonZeroU64::MIN.saturating_add(6),
///     delay: 0,
///     metric: metrics_of(data.kind())[0],
/// });
/// let simulation = Simulation { length: NonZeroUsize::new(30), ..Simulation::quick(1, NonZeroUsize::MIN) };
/// let chosen = recommend(&question, None, &simulation)?.chosen.ok_or("one of them is best")?;
/// assert!(chosen.text.contains(&format!("mechanism = \"{}\"", chosen.mechanism)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A question that makes no sense, or a failure of a mechanism.
pub fn recommend(
    question: &Question,
    sample: Option<&Sample>,
    simulation: &Simulation,
) -> Result<Recommendation, AdviseError> {
    recommend_among(question, &[], sample, simulation)
}

/// Answers a question as [`recommend`] does, among the mechanisms of these names; all if there are no names.
///
/// # Errors
/// As for [`recommend`], and a name that does not apply.
pub fn recommend_among(
    question: &Question,
    names: &[String],
    sample: Option<&Sample>,
    simulation: &Simulation,
) -> Result<Recommendation, AdviseError> {
    let streams = streams_of(question, sample, simulation)?;
    let (candidates, mut unpredicted) = question.candidates_named(names)?;
    let subjects: Vec<&dyn Subject> = candidates.iter().map(|candidate| candidate as &dyn Subject).collect();
    let mut advice = advise(question.request(), &subjects, &streams, simulation)?;
    unpredicted.append(&mut advice.unpredicted);
    advice.unpredicted = unpredicted;
    exclude_talkative(&mut advice, question);
    let complete = |prediction: &&Prediction| {
        prediction.place.and_then(|place| candidates.get(place)).is_some_and(SpecSubject::is_complete)
    };
    let best = advice.ranking.iter().find(complete);
    let chosen = best.and_then(|best| {
        let candidate = candidates.get(best.place?)?;
        let text = spec_text(candidate, best, &advice, question);
        Some(Chosen { mechanism: candidate.mechanism()?, error: best.error, spec: candidate.spec().clone(), text })
    });
    Ok(Recommendation { advice, streams, candidates, chosen })
}

/// Removes mechanisms whose users send more than they may.
fn exclude_talkative(advice: &mut Advice, question: &Question) {
    let Some(most) = question.most_bytes() else { return };
    let too_much = |prediction: &Prediction| prediction.bytes.is_some_and(|bytes| bytes > most);
    let excluded = advice.ranking.iter().filter(|prediction| too_much(prediction));
    advice.unpredicted.extend(excluded.map(|prediction| Unpredicted {
        mechanism: prediction.mechanism,
        why: format!("a user sends {:.3} bytes in a timestamp, more than {most}", prediction.bytes.unwrap_or_default()),
    }));
    advice.ranking.retain(|prediction| !too_much(prediction));
}

/// Returns the streams to predict errors on: drawn from a sample or from the spec's model, or typical.
///
/// # Errors
/// A question that makes no sense.
pub fn streams_of(
    question: &Question,
    sample: Option<&Sample>,
    simulation: &Simulation,
) -> Result<Vec<DataStream>, AdviseError> {
    let request = question.request();
    let mut found = streams(request, sample, simulation)?;
    if let (None, Some(model), Data::Symbols { domain }) = (sample, question.model(), request.data) {
        let length = found.first().map_or(1, length_of);
        found = vec![of_model(domain, &model, length, simulation.seed)?.into()];
    }
    if matches!(request.data, Data::Symbols { .. }) {
        let shortened = found.into_iter().map(|stream| whole_batches(stream, request));
        found = shortened.collect::<Result<_, _>>()?;
    }
    Ok(found)
}

fn length_of(stream: &DataStream) -> usize {
    match stream {
        DataStream::Counts(stream) => stream.length(),
        DataStream::Numbers(stream) => stream.values().len(),
        DataStream::Symbols(stream) => stream.sequences().iter().map(Vec::len).max().unwrap_or(0),
    }
}

/// Cuts a stream after its last whole batch.
fn whole_batches(stream: DataStream, request: &Request) -> Result<DataStream, AdviseError> {
    let batch = usize::try_from(request.delay.saturating_add(1)).unwrap_or(usize::MAX);
    let length = length_of(&stream);
    if length < batch {
        return Ok(stream);
    }
    Ok(stream.shortened(length - length % batch)?)
}

/// Draws a sequence of symbols from a public model.
fn of_model(
    domain: u32,
    (prior, transitions): &(Vec<f64>, Vec<Vec<f64>>),
    length: usize,
    seed: u64,
) -> Result<SymbolStream, AdviseError> {
    let random = &mut SeededRandom::with_stream(seed, 1 << 33);
    let mut sequence: Vec<u32> = Vec::with_capacity(length);
    for _ in 0..length {
        let row = sequence.last().and_then(|last| transitions.get(*last as usize)).unwrap_or(prior);
        sequence.push(drawn(row, random));
    }
    Ok(SymbolStream::new("model", Space::Line { symbols: domain }, vec![sequence])?)
}
