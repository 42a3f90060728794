//! `tidegate channel`: the channel that answers a symbol, as a matrix.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use clap::{Args, ValueEnum};
use serde::Serialize;
use tidegate::sequence::channel::{Channel as Factored, ChannelMatrixError};
use tidegate::sequence::distance::{Distance, DistanceMatrix};
use tidegate::sequence::model::Model;
use tidegate::sequence::programme;
use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::MAX_CHANNEL_EPSILON;
use tidegate_release::model_file::ModelFile;

use crate::failure::Failure;
use crate::model::{Batch, warned};
use crate::output::Output;
use crate::table::layout;

/// By how much the numbers of a prior may miss one in sum; they are divided by their sum.
const SUM_TOLERANCE: f64 = 1e-6;

/// The largest domain of which a whole matrix is printed.
const MAX_DOMAIN: usize = 1000;

/// Print the channel that answers one symbol of a sequence.
///
/// A channel gives, for each symbol that may be true, the probability of each answer. The one that is
/// printed has the least expected distance between symbol and answer (Hamming: the exact optimum;
/// otherwise up to 128 symbols the optimum, beyond nearly so) among those under which an
/// observer who expects the symbol with the probabilities of --prior learns no more than epsilon
/// from the answer: no answer makes any symbol more than e^epsilon times as likely, or unlikely,
/// as it was. Whatever the observer expects, any two symbols give any answer with
/// probabilities that differ by a factor of at most e^(2 epsilon).
///
/// With --json: the prior, epsilon and distance as used; channel, whose row x has the
/// probability of each answer y for symbol x; output, the probability of each answer; leakage, the
/// epsilon that is really reached; and cost, the expected distance.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    allow_negative_numbers = true,
    after_help = "Example:\n  tidegate channel --prior 0.5,0.3,0.2 --epsilon 0.5 --distance hamming\n  \
                  echo 1 1 2 4 | awk '{for (i=1; i<=NF; i++) print $i/8}' | tidegate channel --prior - --epsilon 1 \
                  --json\n  \
                  tidegate channel --model visits.model.json --length 2 --epsilon 1"
)]
pub(crate) struct Channel {
    /// How likely each symbol is, separated by commas, or - to read that from standard input
    #[arg(long, value_name = "P1,P2,..|-", required_unless_present = "model", conflicts_with = "model")]
    prior: Option<String>,

    /// A model, as `tidegate model fit` writes it, instead of a prior: print the channel of the first batch
    #[arg(long, value_name = "FILE")]
    model: Option<String>,

    /// How many symbols the batch has, with --model; epsilon is for the whole batch
    #[arg(long, value_name = "N", requires = "model", default_value = "1", hide_default_value = true)]
    length: u32,

    /// How much an answer may tell, at most 10; rounded down to nine decimals
    #[arg(long, value_parser = channel_epsilon)]
    epsilon: Epsilon,

    /// How far an answer is from a symbol: hamming is 1 for a wrong one, absolute |x-y|, squared (x-y)^2
    #[arg(long, value_enum, default_value = "hamming", conflicts_with = "matrix")]
    distance: DistanceName,

    /// A file with a row for each symbol and in it a distance for each answer, separated by
    /// commas or spaces
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DistanceName {
    Hamming,
    Absolute,
    Squared,
}

impl From<DistanceName> for Distance {
    fn from(name: DistanceName) -> Self {
        match name {
            DistanceName::Hamming => Self::Hamming,
            DistanceName::Absolute => Self::Absolute,
            DistanceName::Squared => Self::Squared,
        }
    }
}

pub(crate) fn channel_epsilon(text: &str) -> Result<Epsilon, String> {
    let epsilon = Epsilon::parse_budget(text).map_err(|error| error.to_string())?;
    if epsilon > MAX_CHANNEL_EPSILON {
        return Err(format!("epsilon must be at most {MAX_CHANNEL_EPSILON}, but {epsilon} was given"));
    }
    Ok(epsilon)
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Printed {
    prior: Vec<f64>,
    epsilon: f64,
    distance: &'static str,
    channel: Vec<Vec<f64>>,
    output: Vec<f64>,
    leakage: f64,
    cost: f64,
}

impl Channel {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if let Some(path) = &self.model {
            return self.print_batch(&warned(ModelFile::read(path)?, path));
        }
        let prior = self.prior()?;
        let distance = self.distance(prior.len())?;
        let channel = programme::channel(&prior, self.epsilon, &distance).map_err(Failure::run)?;
        let between = |one, other| distance.between(one, other);
        let (printed, loss) = self.describe(prior, &distance, &channel, between).map_err(Failure::run)?;
        self.print(&printed, loss, |symbol| symbol.to_string())
    }

    /// Prints the channel of a batch: symbols and answers are sequences.
    fn print_batch(&self, model: &Model) -> Result<(), Failure> {
        let distance = self.distance(model.domain() as usize)?;
        let batch = Batch::new(model, self.length, self.epsilon, &distance)?;
        if batch.belief.len() > MAX_DOMAIN {
            let given = batch.belief.len();
            return Err(Failure::input(format_args!(
                "--length: a whole matrix is printed for at most {MAX_DOMAIN} sequences, but there are {given}"
            )));
        }
        let between = |one, other| batch.between(one, other, &distance);
        let described = self.describe(batch.belief.clone(), &distance, &batch.channel, between);
        let (printed, loss) = described.map_err(Failure::run)?;
        let name = |sequence: usize| {
            let symbols = u32::try_from(sequence).into_iter().flat_map(|sequence| batch.symbols(sequence));
            symbols.map(|symbol| symbol.to_string()).collect::<Vec<_>>().join(" ")
        };
        self.print(&printed, loss, name)
    }

    fn print(&self, printed: &Printed, loss: f64, name: impl Fn(usize) -> String) -> Result<(), Failure> {
        let text = if self.json {
            serde_json::to_string(printed).map(|text| text + "\n")
        } else {
            Ok(as_text(printed, loss, name))
        };
        let mut output = Output::create("-")?;
        output.write(&text.map_err(Failure::run)?)?;
        output.finish()
    }

    fn prior(&self) -> Result<Vec<f64>, Failure> {
        let given = self.prior.as_deref().unwrap_or_default();
        let text = if given == "-" {
            let mut text = String::new();
            let read = io::stdin().read_to_string(&mut text);
            read.map_err(|error| Failure::run(format!("standard input cannot be read: {error}")))?;
            text
        } else {
            given.to_owned()
        };
        let prior = numbers(&text).map_err(|given| wrong_prior(format!("{given:?} is not a number")))?;
        if prior.len() < 2 {
            return Err(wrong_prior(format!("at least 2 symbols are needed, but {} given", count(prior.len()))));
        }
        if prior.len() > MAX_DOMAIN {
            let given = prior.len();
            let limit = format!("a whole matrix is printed for at most {MAX_DOMAIN} symbols, but {given} were given");
            return Err(wrong_prior(format!("{limit}; the library keeps channels factored and has no such limit")));
        }
        for (symbol, weight) in prior.iter().enumerate() {
            if !weight.is_finite() || *weight < 0.0 {
                return Err(wrong_prior(format!("{weight}, for symbol {symbol}, is not a probability")));
            }
        }
        let sum: f64 = prior.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(wrong_prior(format!("the probabilities sum to {sum}, not to 1 (within {SUM_TOLERANCE})")));
        }
        Ok(prior.iter().map(|weight| weight / sum).collect())
    }

    fn distance(&self, domain: usize) -> Result<Distance, Failure> {
        let Some(path) = &self.matrix else {
            return Ok(self.distance.into());
        };
        let matrix =
            read_matrix(path).map_err(|error| Failure::input(format!("--matrix {}: {error}", path.display())))?;
        if matrix.domain() != domain {
            let (rows, path) = (matrix.domain(), path.display());
            return Err(Failure::input(format!("--matrix {path}: {rows} rows for the {domain} symbols of --prior")));
        }
        Ok(Distance::Matrix(matrix))
    }

    fn describe(
        &self,
        prior: Vec<f64>,
        distance: &Distance,
        channel: &Factored,
        between: impl Fn(u32, u32) -> f64,
    ) -> Result<(Printed, f64), ChannelMatrixError> {
        let mut output = vec![0.0; prior.len()];
        for ((symbol, _), q) in channel.outputs().iter().zip(channel.marginal(&prior)?) {
            output[*symbol as usize] = q;
        }
        let printed = Printed {
            epsilon: self.epsilon.as_f64(),
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
            prior,
        };
        Ok((printed, channel.ldp_loss()))
    }
}

fn wrong_prior(problem: String) -> Failure {
    Failure::input(format!("--prior: {problem}"))
}

fn count(symbols: usize) -> String {
    if symbols == 1 { "1 was".to_owned() } else { format!("{symbols} were") }
}

/// Numbers between commas or white space, or the text that is none.
fn numbers(text: &str) -> Result<Vec<f64>, String> {
    // Between two commas there must be something; around them there may be spaces.
    let fields = text.trim().split(',').flat_map(|field| {
        let field = field.trim();
        field.split_whitespace().chain(field.is_empty().then_some(""))
    });
    fields.map(|field| field.parse().map_err(|_| field.to_owned())).collect()
}

fn read_matrix(path: &Path) -> Result<DistanceMatrix, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let rows = lines.map(|line| numbers(line).map_err(|given| format!("{given:?} is not a number")));
    DistanceMatrix::new(rows.collect::<Result<_, _>>()?).map_err(|error| error.to_string())
}

/// A line for each symbol, a column for each answer that occurs.
fn as_text(printed: &Printed, loss: f64, name: impl Fn(usize) -> String) -> String {
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
    let Printed { epsilon, distance, leakage, cost, .. } = printed;
    format!(
        "{}\nexpected {distance} distance {cost:.6} at epsilon {epsilon}: leakage {leakage:.6}, local differential \
         privacy {loss:.6}\n",
        layout(&rows)
    )
}
