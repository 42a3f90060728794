//! `tidegate model`: learns Markov models of sequences, and compares batch lengths.

use std::num::NonZeroU64;

use clap::{Args, Subcommand};
use serde_json::json;
use tidegate::kernel::Epsilon;
use tidegate::sequence::batched::CLUSTER_LIMIT;
use tidegate::sequence::distance::Distance;
use tidegate::sequence::model::Model;
use tidegate::spec::{InputSpec, ValuesSpec};
use tidegate_release::channel::Batch;
use tidegate_release::fit;
use tidegate_release::model_file::ModelFile;
use tidegate_table::Format;
use tidegate_table::long::LongReader;

use crate::arguments::at_least_one;
use crate::channel::{DistanceName, channel_epsilon};
use crate::columns::TableOptions;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::{Output, keep_apart};
use crate::table::{layout, short};

/// Learn the model of a sequence stream, or compare batch lengths under one.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate model fit --input visits.csv --domain home,work,away --output \
                  visits.model.json\n  \
                  tidegate model fit --input visits.csv --domain home,work,away --epsilon 1 --contribution 20 \
                  --output visits.model.json\n  \
                  tidegate model lengths --model visits.model.json --epsilon 0.5"
)]
pub(crate) struct ModelCommand {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Fit(Box<Fit>),
    Lengths(Lengths),
}

impl ModelCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.task {
            Task::Fit(fit) => fit.run(),
            Task::Lengths(lengths) => lengths.run(),
        }
    }
}

/// Learn prior and transitions from a table of users' symbols.
///
/// The table has the fields t, user and value. Each user's symbols, in their order, are one sequence.
/// Without --epsilon the model is exact and reveals the table: use public data. With --epsilon it is
/// private at user level: it hardly depends on any one user, whatever the user's symbols. Each user
/// then counts with the first --contribution transitions, and noise is added to their number.
/// A spec names the file: model = "visits.model.json".
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate model fit --input visits.csv --domain 3 --order 2 --epsilon 2 \
                  --contribution 50 > m.json"
)]
struct Fit {
    /// The table (CSV, or NDJSON where its name ends in .ndjson), or - for standard input
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    input: String,

    /// The symbols: how many, or their names, separated by commas
    #[arg(long, value_name = "D|NAME,..", value_parser = symbols)]
    domain: ValuesSpec,

    /// How many symbols of the past the next one depends on
    #[arg(long, value_name = "1|2", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=2))]
    order: u8,

    /// The privacy loss of any user; without it, the table must be public
    #[arg(long, requires = "contribution")]
    epsilon: Option<Epsilon>,

    /// How many transitions of a user count at most, with --epsilon
    #[arg(long, value_name = "N", requires = "epsilon", value_parser = at_least_one::<NonZeroU64>)]
    contribution: Option<NonZeroU64>,

    /// Pseudo-observations of each row, so that nothing is impossible
    #[arg(long, value_name = "S", default_value = "1")]
    pseudo_count: f64,

    /// Repeat a run with --epsilon exactly; its model is not private
    #[arg(long, requires = "epsilon")]
    seed: Option<u64>,

    /// Where to write the model, as JSON
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: String,

    #[command(flatten)]
    table: TableOptions,
}

fn symbols(text: &str) -> Result<ValuesSpec, String> {
    let spec = match text.parse() {
        Ok(number) => ValuesSpec::Number(number),
        Err(_) => ValuesSpec::Names(text.split(',').map(|name| name.trim().to_owned()).collect()),
    };
    spec.values().map(|_| spec).map_err(|error| error.to_string())
}

impl Fit {
    fn run(&self) -> Result<(), Failure> {
        keep_apart([self.output.as_str()], [self.input.as_str()])?;
        if self.table.series().is_some() {
            return Err(Failure::input("--series is for release: keep the lines of one series in the table"));
        }
        let mut input = InputSpec::default();
        self.table.apply(&mut input);
        let fit = fit::Fit {
            domain: self.domain.clone(),
            order: self.order,
            epsilon: self.epsilon,
            contribution: self.contribution,
            pseudo_count: self.pseudo_count,
            seed: self.seed,
            input,
        };
        fit.values()?;
        let format = if self.input.ends_with(".ndjson") { Format::Ndjson } else { Format::Csv };
        let Input { name, source } = Input::open(&self.input)?;
        let table = LongReader::open(&name, source, format, fit.reading()?).map_err(Failure::input)?;
        let file = fit.learn(table)?;
        if let Some(seed) = self.seed {
            complain("warning", format_args!("this run is seeded with {seed}: its model is not private"));
        }
        match self.epsilon {
            Some(epsilon) => {
                complain("note", format_args!("each user has lost {epsilon}; another fit of the same table adds to it"))
            }
            None => {
                complain("note", "the model reveals the table that it was learned from; with --epsilon it does not");
            }
        }
        let mut output = Output::create(&self.output)?;
        output.write(&(file.to_json()? + "\n"))?;
        output.finish()
    }
}

/// Compare batch lengths at the same guarantee.
///
/// A batch of L symbols spends L times epsilon, as L single symbols do. The cost is the expected
/// distance of an answer from its symbol, in the first batch: the fewer, the better.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate model lengths --model visits.model.json --epsilon 0.5 --distance absolute"
)]
struct Lengths {
    /// The model, as `tidegate model fit` writes it
    #[arg(long, value_name = "FILE")]
    model: String,

    /// The loss of each symbol; that of the longest batch is at most 10
    #[arg(long, value_parser = channel_epsilon)]
    epsilon: Epsilon,

    /// How far an answer is from a symbol: hamming, absolute or squared
    #[arg(long, value_enum, default_value = "hamming")]
    distance: DistanceName,

    /// The longest batch
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=14))]
    longest: u32,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Lengths {
    fn run(&self) -> Result<(), Failure> {
        let model = warned(ModelFile::read(&self.model)?, &self.model);
        let distance = Distance::from(self.distance);
        let mut rows = vec![["LENGTH", "EPSILON", "SEQUENCES", "COST"].map(str::to_owned).to_vec()];
        let mut found = Vec::new();
        for length in 1..=self.longest {
            let sequences = u64::from(model.domain()).saturating_pow(length);
            let epsilon = self.epsilon.checked_mul(u64::from(length));
            let epsilon = epsilon.filter(|epsilon| channel_epsilon(&epsilon.to_string()).is_ok());
            let (Some(epsilon), true) = (epsilon, sequences <= CLUSTER_LIMIT) else { break };
            let batch = Batch::new(&model, length, epsilon, &distance)?;
            let cost = batch.cost(&distance)? / f64::from(length);
            rows.push(vec![length.to_string(), epsilon.to_string(), sequences.to_string(), short(cost)]);
            found.push(json!({ "length": length, "epsilon": epsilon.as_f64(), "sequences": sequences, "cost": cost }));
        }
        let mut output = Output::create("-")?;
        let text = serde_json::to_string(&found).map_err(Failure::run)? + "\n";
        output.write(&if self.json { text } else { layout(&rows) })?;
        output.finish()
    }
}

/// The model of a file, after a warning where it is not private.
pub(crate) fn warned(file: ModelFile, path: &str) -> Model {
    if file.seeded {
        complain("warning", ModelFile::seeded_note(path));
    }
    file.model
}
