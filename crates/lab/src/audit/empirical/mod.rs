//! The black-box attack: run a mechanism often on two neighbouring streams, learn to tell them apart, and prove on
//! fresh runs how well that works.
//!
//! A mechanism that keeps a loss of ε makes no event more than e^ε times as likely on one of two neighbouring streams
//! as on the other. So any event whose two probabilities are known well enough bounds ε from below:
//!
//! 1. *Learning*, with half of the runs. All pairs of neighbouring streams are run a little; those in which the
//!    learners see more than in others are run more, until one pair is left. On it one event is chosen: a cut through a
//!    single number of the transcript, through a weighted sum, through the likelihood ratio of whole outcomes, of each
//!    number by itself, or through a logistic regression.
//! 2. *Testing*, with the other half, which nobody has looked at. How often the event happens on either stream bounds
//!    its probabilities by Clopper and Pearson, and the quotient of the lower bound of one and the upper bound of the
//!    other bounds e^ε.
//!
//! **What the confidence covers.** The pair, the event and the direction are fixed before the first fresh run, so only
//! one pair of bounds is ever computed, each of which is wrong with at most half of `1 - confidence`. Given any
//! learning runs, the true loss is below the lower bound with a probability of at most `1 - confidence`, over the
//! randomness of the testing runs alone; nothing is assumed about the mechanism but that runs are independent. It
//! covers one attack. Whoever attacks m mechanisms, or one m times, must expect up to `m (1 - confidence)` wrong
//! alarms, or ask for a higher confidence.
//!
//! **What it does not say.** A low bound is no proof of privacy: better events, other streams or more runs may show
//! more.

mod binomial;
mod learn;

use std::num::{NonZeroU64, NonZeroUsize};

use tidegate_kernel::SeededRandom;

use crate::audit::{Input, Pair, Target};
use crate::experiment::{RunError, in_parallel};
pub use binomial::clopper_pearson;
use learn::{Event, Sample, Trial, learn};

/// How an attack is carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How often each of two streams is run, at least: half of it for learning, over all pairs, and half for testing
    /// one.
    pub runs: NonZeroU64,
    /// How sure the bound is: the probability that the loss is not below it.
    pub confidence: f64,
    /// The seed. What comes of an attack depends on it and on the number of runs, and on nothing else.
    pub seed: u64,
    /// How many threads run at a time.
    pub threads: NonZeroUsize,
}

/// How sure a bound is, unless told.
pub const CONFIDENCE: f64 = 0.999;

/// What an attack has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The loss is at least this, with probability [`Plan::confidence`]; not below zero.
    pub lower_bound: f64,
    /// The pair of streams that was told apart, by its name.
    pub pair: String,
    /// The event that tells them apart, in words.
    pub event: String,
    /// How often it happened on the stream on which it is likelier, and on the other one.
    pub hits: [u64; 2],
    /// The testing runs on each of the two.
    pub tested: u64,
    /// All runs, of both streams of all pairs.
    pub runs: u64,
}

/// Why an attack could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttackError {
    /// A confidence that is none.
    #[error("a confidence of {given} was given; it lies between 0 and 1")]
    Confidence {
        /// What was given.
        given: f64,
    },
    /// A target without neighbouring streams: there is nothing to tell apart.
    #[error("{target} has no neighbouring streams")]
    NoPairs {
        /// The target.
        target: String,
    },
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs are taken in chunks, each with a generator of its own, so that results do not depend on the threads.
const CHUNK: u64 = 250;

/// In how many chunks of runs an attack on a target is carried out: how often it tells its progress, at most.
pub fn steps(target: &dyn Target, plan: &Plan) -> u64 {
    let schedule = schedule(target.neighbours().len(), plan);
    let learning: u64 = schedule.iter().map(|(pairs, runs)| *pairs as u64 * chunks(*runs)).sum();
    2 * (learning + chunks(tested(plan)))
}

const fn chunks(runs: u64) -> u64 {
    runs.div_ceil(CHUNK)
}

/// Learning takes no more runs than this: what more would teach is little, and all of them are kept.
const MOST_LEARNING: u64 = 50_000;

fn tested(plan: &Plan) -> u64 {
    let runs = plan.runs.get();
    runs - (runs / 2).min(MOST_LEARNING)
}

/// How many pairs are left in each round of learning, and how often each of their streams is run then: all of them
/// first, then always half as many, the last one with a share of its own.
fn schedule(pairs: usize, plan: &Plan) -> Vec<(usize, u64)> {
    let mut left = vec![pairs];
    while let Some(last) = left.last().copied().filter(|last| *last > 1) {
        left.push(last.div_ceil(2));
    }
    // The last pair is what the event is chosen on: it gets as much as all rounds before.
    let budget = plan.runs.get() - tested(plan);
    let rounds = left.len() as u64;
    let share = |pairs: usize| match pairs {
        1 if rounds == 1 => budget,
        1 => budget / 2,
        _ => budget / 2 / (rounds - 1) / pairs as u64,
    };
    left.iter().map(|pairs| (*pairs, share(*pairs).max(1))).collect()
}

/// Attacks a target; `progress` is called after each chunk of runs, at most [`steps`] times.
///
/// What comes of it is the same whatever the number of threads.
///
/// # Errors
/// A confidence outside 0 and 1, a target without neighbouring streams, and runs that fail.
pub fn attack(target: &dyn Target, plan: &Plan, progress: &(dyn Fn() + Sync)) -> Result<Evidence, AttackError> {
    if !(plan.confidence > 0.0 && plan.confidence < 1.0) {
        return Err(AttackError::Confidence { given: plan.confidence });
    }
    let pairs = target.neighbours();
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    let trial = Trial { runs: tested(plan) as f64, deviations: deviations(plan.confidence) };
    let mut left: Vec<Candidate<'_>> = (1..).zip(&pairs).map(|(number, pair)| Candidate::new(number, pair)).collect();
    let (mut runs, mut earlier) = (0, 0);
    for (keep, more) in schedule(pairs.len(), plan) {
        left.truncate(keep);
        let jobs: Vec<(usize, usize, u64)> = (0..left.len())
            .flat_map(|index| {
                [0, 1].into_iter().flat_map(move |side| (0..chunks(more)).map(move |chunk| (index, side, chunk)))
            })
            .collect();
        let transcripts = in_parallel(jobs.len(), plan.threads, |job| {
            let (index, side, chunk) = jobs[job];
            let candidate = &left[index];
            let random = &mut generator(plan, candidate.number, side, earlier + chunk);
            let seen = observe(target, candidate.input(side), chunk_of(chunk, more), random);
            progress();
            seen
        })?;
        for ((index, side, _), seen) in jobs.into_iter().zip(transcripts) {
            left[index].sample[side].extend(seen);
        }
        runs += 2 * more * left.len() as u64;
        earlier += chunks(more);
        let events =
            in_parallel(left.len(), plan.threads, |index| Ok::<_, RunError>(learn(&left[index].sample, trial)))?;
        left.iter_mut().zip(events).for_each(|(candidate, event)| candidate.event = event);
        left.sort_by(|a, b| b.promise().total_cmp(&a.promise()));
    }
    let Some(chosen) = left.into_iter().next() else {
        return Err(AttackError::NoPairs { target: target.name().to_owned() });
    };
    let Some(event) = &chosen.event else {
        let event = "none was found".to_owned();
        return Ok(Evidence { lower_bound: 0.0, pair: chosen.name(), event, hits: [0; 2], tested: 0, runs });
    };
    test(target, plan, &chosen, event, runs, progress)
}

/// How often the event happens on fresh runs, and what that shows.
fn test(
    target: &dyn Target,
    plan: &Plan,
    chosen: &Candidate<'_>,
    event: &Event,
    learned: u64,
    progress: &(dyn Fn() + Sync),
) -> Result<Evidence, AttackError> {
    let tested = tested(plan);
    let each = chunks(tested);
    let jobs = usize::try_from(2 * each).unwrap_or(usize::MAX);
    let counts = in_parallel(jobs, plan.threads, |job| {
        let (side, chunk) = (usize::from(job as u64 >= each), job as u64 % each);
        let random = &mut generator(plan, 0, side, chunk);
        let seen = observe(target, chosen.input(side), chunk_of(chunk, tested), random);
        progress();
        seen.map(|seen| seen.iter().filter(|transcript| event.happened(transcript)).count() as u64)
    })?;
    let (one, other) = counts.split_at(counts.len() / 2);
    let mut hits: [u64; 2] = [one.iter().sum(), other.iter().sum()];
    if event.likelier_on == 1 {
        hits.reverse();
    }
    let error_each = (1.0 - plan.confidence) / 2.0;
    let (low, _) = clopper_pearson(hits[0], tested, error_each);
    let (_, high) = clopper_pearson(hits[1], tested, error_each);
    Ok(Evidence {
        lower_bound: (low / high).ln().max(0.0),
        pair: chosen.name(),
        event: event.description(),
        hits,
        tested,
        runs: learned + 2 * tested,
    })
}

/// A pair with what is known of it.
struct Candidate<'a> {
    number: usize,
    pair: &'a Pair,
    sample: Sample,
    event: Option<Event>,
}

impl<'a> Candidate<'a> {
    fn new(number: usize, pair: &'a Pair) -> Self {
        Self { number, pair, sample: Sample::default(), event: None }
    }

    const fn input(&self, side: usize) -> &Input {
        if side == 0 { &self.pair.one } else { &self.pair.other }
    }

    fn name(&self) -> String {
        self.pair.name.clone()
    }

    fn promise(&self) -> f64 {
        self.event.as_ref().map_or(f64::NEG_INFINITY, |event| event.promise)
    }
}

/// How many runs a chunk has, of so many in all.
fn chunk_of(chunk: u64, runs: u64) -> u64 {
    CHUNK.min(runs - chunk * CHUNK)
}

fn observe(
    target: &dyn Target,
    input: &Input,
    runs: u64,
    random: &mut SeededRandom,
) -> Result<Vec<Vec<f64>>, RunError> {
    (0..runs).map(|_| target.observe(input, random)).collect()
}

/// The generator of a chunk of runs; no two have the same. Pairs are numbered from 1; 0 is the pair that is tested.
fn generator(plan: &Plan, pair: usize, side: usize, chunk: u64) -> SeededRandom {
    SeededRandom::with_stream(plan.seed, (pair as u64) << 40 | (side as u64) << 39 | chunk)
}

/// About how many standard deviations away the bounds of a confidence are: for choosing an event, not for the bound
/// itself.
fn deviations(confidence: f64) -> f64 {
    // Beyond z the normal distribution has less than exp(-z²/2)/2, and here half of what is left out.
    (-2.0 * (1.0 - confidence).ln()).sqrt()
}
