//! The channel of a prior or of a model, as a matrix.

use std::fmt::Display;
use std::iter;

use serde::Serialize;
use tidegate::kernel::Epsilon;
use tidegate::kernel::primitives::MAX_CHANNEL_EPSILON;
use tidegate::sequence::batched::{self, CLUSTER_LIMIT};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::channel::{Channel, ChannelMatrixError};
use tidegate::sequence::distance::{Distance, DistanceMatrix};
use tidegate::sequence::effort::Effort;
use tidegate::sequence::model::Model;
use tidegate::sequence::programme;
use tidegate_table::layout::layout;

use crate::Error;

/// By how much the numbers of a prior may miss one in sum; they are divided by their sum.
const SUM_TOLERANCE: f64 = 1e-6;

/// The largest domain of which a whole matrix is computed.
const MAX_DOMAIN: usize = 1000;

/// A channel and what it tells.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// The probability of each symbol.
    pub prior: Vec<f64>,
    /// The epsilon that was asked for.
    pub epsilon: f64,
    /// The name of the distance.
    pub distance: &'static str,
    /// For each symbol, the probability of each answer.
    pub channel: Vec<Vec<f64>>,
    /// The probability of each answer.
    pub output: Vec<f64>,
    /// The epsilon that is really reached, against an observer who expects the prior.
    pub leakage: f64,
    /// The expected distance.
    pub cost: f64,
    /// The local differential privacy, whatever an observer expects.
    #[serde(skip)]
    pub loss: f64,
    /// The channel as plain text.
    #[serde(skip)]
    pub text: String,
}

/// An epsilon that a channel can have.
///
/// # Errors
/// What is wrong with it.
pub fn check_epsilon(epsilon: Epsilon) -> Result<Epsilon, String> {
    if epsilon > MAX_CHANNEL_EPSILON {
        return Err(format!("epsilon must be at most {MAX_CHANNEL_EPSILON}, but {epsilon} was given"));
    }
    Ok(epsilon)
}

/// Describes the channel of a prior.
///
/// # Errors
/// [`Error::Spec`] for what is no distribution, and for a matrix of another size.
pub fn of_prior(prior: &[f64], epsilon: Epsilon, distance: &Distance) -> Result<Described, Error> {
    let prior = checked(prior)?;
    check_size(distance, prior.len())?;
    let channel = programme::channel(&prior, epsilon, distance).map_err(Error::run)?;
    let between = |one, other| distance.between(one, other);
    describe(prior, epsilon, distance, &channel, between, |symbol| symbol.to_string())
}

/// Describes the channel of a model's first batch, whose symbols and answers are sequences. Epsilon is for the batch.
///
/// # Errors
/// [`Error::Spec`] for too many sequences, and for a matrix of another size.
pub fn of_model(model: &Model, length: u32, epsilon: Epsilon, distance: &Distance) -> Result<Described, Error> {
    check_size(distance, model.domain() as usize)?;
    let batch = Batch::new(model, length, epsilon, distance)?;
    if batch.belief.len() > MAX_DOMAIN {
        let given = batch.belief.len();
        return Err(refused(format_args!(
            "--length: a whole matrix is printed for at most {MAX_DOMAIN} sequences, but there are {given}"
        )));
    }
    let between = |one, other| batch.between(one, other, distance);
    let name = |sequence: usize| {
        let symbols = u32::try_from(sequence).into_iter().flat_map(|sequence| batch.symbols(sequence));
        symbols.map(|symbol| symbol.to_string()).collect::<Vec<_>>().join(" ")
    };
    describe(batch.belief.clone(), epsilon, distance, &batch.channel, between, name)
}

/// The distance of a matrix, with a row for each symbol and in it a distance for each answer.
///
/// # Errors
/// [`Error::Spec`] for what is no square, and for numbers that are no distances.
pub fn matrix(rows: Vec<Vec<f64>>) -> Result<Distance, Error> {
    DistanceMatrix::new(rows).map(Distance::Matrix).map_err(|error| refused(format_args!("--matrix: {error}")))
}

fn check_size(distance: &Distance, domain: usize) -> Result<(), Error> {
    match distance {
        Distance::Matrix(matrix) if matrix.domain() != domain => {
            let rows = matrix.domain();
            Err(refused(format_args!("--matrix: {rows} rows for the {domain} symbols of --prior")))
        }
        _ => Ok(()),
    }
}

/// The prior with a sum of one.
fn checked(prior: &[f64]) -> Result<Vec<f64>, Error> {
    let wrong = |problem: String| refused(format_args!("--prior: {problem}"));
    let count = |symbols: usize| if symbols == 1 { "1 was".to_owned() } else { format!("{symbols} were") };
    if prior.len() < 2 {
        return Err(wrong(format!("at least 2 symbols are needed, but {} given", count(prior.len()))));
    }
    if prior.len() > MAX_DOMAIN {
        let given = prior.len();
        let limit = format!("a whole matrix is printed for at most {MAX_DOMAIN} symbols, but {given} were given");
        return Err(wrong(format!("{limit}; the library keeps channels factored and has no such limit")));
    }
    for (symbol, weight) in prior.iter().enumerate() {
        if !weight.is_finite() || *weight < 0.0 {
            return Err(wrong(format!("{weight}, for symbol {symbol}, is not a probability")));
        }
    }
    let sum: f64 = prior.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(wrong(format!("the probabilities sum to {sum}, not to 1 (within {SUM_TOLERANCE})")));
    }
    Ok(prior.iter().map(|weight| weight / sum).collect())
}

fn describe(
    prior: Vec<f64>,
    epsilon: Epsilon,
    distance: &Distance,
    channel: &Channel,
    between: impl Fn(u32, u32) -> f64,
    name: impl Fn(usize) -> String,
) -> Result<Described, Error> {
    let describe = || -> Result<Described, ChannelMatrixError> {
        let mut output = vec![0.0; prior.len()];
        for ((symbol, _), q) in channel.outputs().iter().zip(channel.marginal(&prior)?) {
            output[*symbol as usize] = q;
        }
        Ok(Described {
            epsilon: epsilon.as_f64(),
            distance: match distance {
                Distance::Hamming => "hamming",
                Distance::Absolute => "absolute",
                Distance::Squared => "squared",
                _ => "matrix",
            },
            channel: channel.dense(),
            output,
            leakage: channel.leakage(&prior)?.largest(),
            cost: channel.expected_cost(&prior, between)?,
            loss: channel.ldp_loss(),
            text: String::new(),
            prior: prior.clone(),
        })
    };
    let mut described = describe().map_err(Error::run)?;
    described.text = as_text(&described, name);
    Ok(described)
}

/// The first batch of a model, and its channel.
#[derive(Debug)]
pub struct Batch {
    domain: u32,
    length: u32,
    /// Probability of each sequence.
    pub belief: Vec<f64>,
    /// Its channel.
    pub channel: Channel,
}

impl Batch {
    /// The batch of so many symbols; epsilon is for all of them.
    ///
    /// # Errors
    /// [`Error::Spec`] for a length of zero, or too many sequences.
    pub fn new(model: &Model, length: u32, epsilon: Epsilon, distance: &Distance) -> Result<Self, Error> {
        let domain = model.domain();
        let sequences = u64::from(domain).saturating_pow(length);
        if length == 0 {
            return Err(refused("--length: a batch has at least one symbol"));
        }
        if sequences > CLUSTER_LIMIT {
            return Err(refused(format_args!(
                "--length: {domain} symbols have {sequences} sequences of length {length}, more than the \
                 {CLUSTER_LIMIT} of a channel; take a shorter one"
            )));
        }
        let belief = Belief::new(model).sequences(model, length).map_err(Error::run)?;
        let channel = batched::channel(&belief, domain, length, epsilon, distance, Effort::Fast);
        Ok(Self { domain, length, belief, channel: channel.map_err(Error::run)? })
    }

    /// Symbols of a sequence, first to last.
    pub fn symbols(&self, sequence: u32) -> impl Iterator<Item = u32> + use<> {
        let domain = self.domain;
        (0..self.length).rev().map(move |place| sequence / domain.pow(place) % domain)
    }

    /// Distance of two sequences: the sum over their symbols.
    pub fn between(&self, one: u32, other: u32, distance: &Distance) -> f64 {
        self.symbols(one).zip(self.symbols(other)).map(|(one, other)| distance.between(one, other)).sum()
    }

    /// Expected distance of the answer from the sequence.
    ///
    /// # Errors
    /// None in practice.
    pub fn cost(&self, distance: &Distance) -> Result<f64, Error> {
        let between = |one, other| self.between(one, other, distance);
        self.channel.expected_cost(&self.belief, between).map_err(Error::run)
    }
}

/// A line for each symbol, a column for each answer that occurs.
fn as_text(printed: &Described, name: impl Fn(usize) -> String) -> String {
    let answers: Vec<usize> = (0..printed.output.len()).filter(|answer| printed.output[*answer] > 0.0).collect();
    let header = ["SYMBOL".to_owned(), "PRIOR".to_owned()].into_iter();
    let mut rows: Vec<Vec<String>> =
        vec![header.chain(answers.iter().map(|answer| format!("-> {}", name(*answer)))).collect()];
    for (symbol, (weight, row)) in printed.prior.iter().zip(&printed.channel).enumerate() {
        let probabilities = answers.iter().map(|answer| format!("{:.4}", row[*answer]));
        rows.push(iter::once(name(symbol)).chain(iter::once(format!("{weight:.4}"))).chain(probabilities).collect());
    }
    let total = answers.iter().map(|answer| format!("{:.4}", printed.output[*answer]));
    rows.push(["all".to_owned(), String::new()].into_iter().chain(total).collect());
    let Described { epsilon, distance, leakage, cost, loss, .. } = printed;
    format!(
        "{}\nexpected {distance} distance {cost:.6} at epsilon {epsilon}: leakage {leakage:.6}, local differential \
         privacy {loss:.6}\n",
        layout(&rows)
    )
}

fn refused(problem: impl Display) -> Error {
    Error::Spec(problem.to_string())
}
