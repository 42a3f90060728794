//! `tidegate channel`: the channel that answers a symbol, as a matrix.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tidegate::sequence::distance::{Distance, DistanceMatrix};
use tidegate_kernel::Epsilon;
use tidegate_release::channel::{check_epsilon, of_model, of_prior};
use tidegate_release::model_file::ModelFile;

use crate::failure::Failure;
use crate::model::warned;
use crate::output::Output;

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
#[command(group = clap::ArgGroup::new("source").required(true).args(["prior", "model"]))]
pub(crate) struct Channel {
    /// How likely each symbol is, separated by commas, or - to read that from standard input
    #[arg(long, value_name = "P1,P2,..|-")]
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
    check_epsilon(Epsilon::parse_budget(text).map_err(|error| error.to_string())?)
}

impl Channel {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let described = match &self.model {
            Some(path) => {
                let model = warned(ModelFile::read(path)?, path);
                of_model(&model, self.length, self.epsilon, &self.distance(model.domain() as usize)?)?
            }
            None => {
                let prior = self.prior()?;
                of_prior(&prior, self.epsilon, &self.distance(prior.len())?)?
            }
        };
        let text = match self.json {
            true => serde_json::to_string(&described).map_err(Failure::run)? + "\n",
            false => described.text,
        };
        let mut output = Output::create("-")?;
        output.write(&text)?;
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
        numbers(&text).map_err(|given| Failure::input(format_args!("--prior: {given:?} is not a number")))
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
