//! Data sets by name, and tables of one's own.
//!
//! Synthetic streams are generated. Real ones are read from a folder in a data directory, which is not part of the
//! project. Each loader documents its files, and the difference to the stream of the paper that used them.
//! `markov:SYMBOLS:STAY` is a Markov [`Chain`]. Any other name is the path of a table in [wide](tidegate_table::wide),
//! [long](tidegate_table::long) or [scalar](tidegate_table::scalar) form.

mod covid19_death;
mod error;
mod eye_irf_lookatpoint;
mod files;
mod foodmart;
mod foursquare_lbsn2vec;
mod foursquare_nyc_stan;
mod kosarak;
mod last_known;
mod lending_club;
mod msnbc_spmf;
mod nyc_taxi_ge;
mod outpatient_ilinet;
mod sessions;
mod tables;
mod taobao_userbehavior;
mod tdrive_counts;
mod unemployment;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::DatasetError;
pub use tables::NumberDomain;
use tidegate::names::UnknownName;
use tidegate::spec::{InputSpec, ValuesSpec};
use tidegate_table::TableReader;

use crate::experiment::dataset_random;
use crate::generate::{Chain, Flow, Levels, NumberProcess, Process, Shape};
use crate::stream::{CountStream, DataStream, NumberStream, StreamKind, SymbolStream};

/// Options of [`load`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// Directory with the folders of the real data sets.
    pub data_dir: Option<PathBuf>,
    /// The number of users at each timestamp. A synthetic stream of counts has 200,000 unless told, one of symbols has
    /// 1; a real one has its own, and otherwise is scaled or sampled: [`DataStream::with_population`].
    pub population: Option<u64>,
    /// The number of timestamps. A synthetic stream has 800 unless told, one of symbols 10,000; a real one is used
    /// whole, or cut.
    pub length: Option<usize>,
    /// The domain of a scalar stream that is read from a file, or that is generated for any domain: `numbers_white`
    /// and the like, within 0..1000 unless told. Other named data sets declare their own.
    pub domain: Option<NumberDomain>,
    /// The values of a table in long form, in place of the whole numbers of `domain`.
    pub values: Option<ValuesSpec>,
    /// How a table is read.
    pub input: InputSpec,
    /// Whether a table in long form holds sequences of symbols, rather than values to count.
    pub symbols: bool,
    /// The seed of the synthetic streams that are random, and of the choice of users.
    pub seed: u64,
}

/// Default population of a synthetic stream.
pub const DEFAULT_POPULATION: u64 = 200_000;
/// Default length of a synthetic stream.
pub const DEFAULT_LENGTH: usize = 800;
/// Default length of a synthetic sequence of symbols.
pub const DEFAULT_SYMBOLS: usize = 10_000;

/// A named data set.
#[derive(Clone, Copy, Debug)]
pub struct Dataset {
    /// The name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Description in one line.
    pub summary: &'static str,
    /// How much of it there is unless told otherwise: timestamps, the domain, users. That of a real one is of the files
    /// that are listed in the book's page on data sets; where a folder holds a whole download instead, there is more.
    pub shape: &'static str,
    /// What it stands in for and how it differs, where it is not the data that a paper used.
    pub stands_in_for: Option<&'static str>,
    /// What else to know before comparing results with a paper's, in one line.
    pub note: Option<&'static str>,
    /// Its folder in the data directory.
    folder: &'static str,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A share of the users holds one.
    Process(Process),
    /// Each user tosses a coin.
    Coins(Process),
    Flow(Flow),
    Levels(Levels),
    NumberProcess(NumberProcess),
    Shape(Shape),
    Chain(&'static Chain),
    /// Loaders of a folder.
    Counts(fn(&Path) -> Result<CountStream, DatasetError>),
    Numbers(fn(&Path) -> Result<NumberStream, DatasetError>),
    Symbols(fn(&Path) -> Result<SymbolStream, DatasetError>),
}

static EVEN: Chain = Chain::EVEN;
static STICKY: Chain = Chain::STICKY;

/// A data set whose folder, where it has one, is called like it.
const fn dataset(name: &'static str, source: Source, summary: &'static str, shape: &'static str) -> Dataset {
    Dataset { name, aliases: &[], summary, shape, stands_in_for: None, note: None, folder: name, source }
}

/// A stream of counts with a simple shape.
const fn levels(levels: Levels, summary: &'static str) -> Dataset {
    let shape = match levels {
        Levels::Growth => "800 timestamps, 5 values, 8000 to 200000 users",
        // With the seed 0.
        Levels::Queue => "800 timestamps, 5 values, 6 to 518 users",
        _ => "800 timestamps, 5 values, 200000 users",
    };
    dataset(levels.name(), Source::Levels(levels), summary, shape)
}

/// A stream of numbers with a simple shape.
const fn shape(shape: Shape, summary: &'static str) -> Dataset {
    let within = "800 timestamps, a number within 0..1000 in steps of 1";
    dataset(shape.name(), Source::Shape(shape), summary, within)
}

/// All named data sets.
pub static ALL: &[Dataset] = &[
    dataset(
        "lns",
        Source::Process(Process::LNS),
        "synthetic: the share of ones is a random walk",
        "800 timestamps, 2 values, 200000 users",
    ),
    dataset(
        "sin",
        Source::Process(Process::SIN),
        "synthetic: the share of ones is a sine curve",
        "800 timestamps, 2 values, 200000 users",
    ),
    dataset(
        "log",
        Source::Process(Process::LOG),
        "synthetic: the share of ones is a logistic curve",
        "800 timestamps, 2 values, 200000 users",
    ),
    dataset(
        "tlns",
        Source::Coins(Process::TLNS),
        "synthetic: lns that ends at the border, each user tossing a coin, as in the personalised w-event paper",
        "800 timestamps, 2 values, 200000 users",
    ),
    dataset(
        "sin_coins",
        Source::Coins(Process::SIN),
        "synthetic: sin, each user tossing a coin, as in the personalised w-event paper",
        "800 timestamps, 2 values, 200000 users",
    ),
    dataset(
        "log_coins",
        Source::Coins(Process::LOG),
        "synthetic: log, each user tossing a coin, as in the personalised w-event paper",
        "800 timestamps, 2 values, 200000 users",
    ),
    dataset(
        "traffic",
        Source::Flow(Flow::TRAFFIC),
        "synthetic: users in twelve districts of a city or away, hourly, with days, weekends, a trend and bursts",
        "800 timestamps, 13 values, 200000 users",
    ),
    dataset(
        "seasonal_counts",
        Source::Flow(Flow::SEASONAL),
        "synthetic: users who move between ten values with the seasons, and on to the last",
        "800 timestamps, 10 values, 200000 users",
    ),
    dataset(
        "bursts_counts",
        Source::Flow(Flow::BURSTS),
        "synthetic: users of ten values, with bursts that die down",
        "800 timestamps, 10 values, 200000 users",
    ),
    levels(Levels::Constant, "synthetic: users of five values, always the same"),
    levels(Levels::Alternating, "synthetic: two histograms of five values in turn, for 50 timestamps each"),
    levels(Levels::White, "synthetic: shares of five values, drawn anew at each timestamp around fixed means"),
    levels(Levels::SingleJump, "synthetic: a histogram of five values that changes once, in the middle"),
    levels(Levels::Incident, "synthetic: half of the users move to one of five values for six timestamps"),
    levels(Levels::Growth, "synthetic: users of five values whose number grows to 25 times in ten timestamps"),
    levels(Levels::Queue, "synthetic: counts of 1 to 4, of which one jumps by 500 for six timestamps"),
    Dataset {
        aliases: &["tdrive"],
        stands_in_for: Some(tdrive_counts::STANDS_IN_FOR),
        ..dataset(
            "tdrive_counts",
            Source::Counts(tdrive_counts::load),
            "taxis of Beijing, by cell of an 8 x 8 grid, every five minutes",
            "1778 timestamps, 64 values, 3923 to 9662 users",
        )
    },
    Dataset {
        aliases: &["nyc_taxi"],
        stands_in_for: Some(nyc_taxi_ge::STANDS_IN_FOR),
        ..dataset(
            "nyc_taxi_ge",
            Source::Counts(nyc_taxi_ge::load),
            "taxi trips of New York, by fare in whole dollars, daily",
            "275 timestamps, 150 values, 162 to 422 users",
        )
    },
    Dataset {
        aliases: &["foursquare"],
        stands_in_for: Some(foursquare_lbsn2vec::STANDS_IN_FOR),
        ..dataset(
            "foursquare_lbsn2vec",
            Source::Counts(foursquare_lbsn2vec::load),
            "users of Foursquare in four cities, by category of the last check-in, daily",
            "447 timestamps, 522 values, 20159 users",
        )
    },
    Dataset {
        aliases: &["foursquare_nyc"],
        stands_in_for: Some(foursquare_nyc_stan::STANDS_IN_FOR),
        ..dataset(
            "foursquare_nyc_stan",
            Source::Counts(foursquare_nyc_stan::load),
            "users of Foursquare in New York, by cell of the last check-in, daily",
            "319 timestamps, 101 values, 1083 users",
        )
    },
    Dataset {
        aliases: &["loan"],
        note: Some("months without a loan are left out"),
        stands_in_for: Some(lending_club::STANDS_IN_FOR),
        ..dataset(
            "lending_club",
            Source::Counts(lending_club::load),
            "loans of Lending Club, by amount in steps of $25, monthly",
            "116 timestamps, 1601 values, 1 to 97 users",
        )
    },
    Dataset {
        folder: "lending_club",
        stands_in_for: Some(lending_club::YEAR_STANDS_IN_FOR),
        ..dataset(
            "lending_club_2018",
            Source::Counts(lending_club::load_2018),
            "the same of 2018, ten times as many",
            "12 timestamps, 1601 values, 674 to 4639 users",
        )
    },
    Dataset {
        aliases: &["taobao"],
        stands_in_for: Some(taobao_userbehavior::STANDS_IN_FOR),
        ..dataset(
            "taobao_userbehavior",
            Source::Counts(taobao_userbehavior::load),
            "users of the shop Taobao, by category of what they did last, every ten minutes",
            "432 timestamps, 118 values, 766 users",
        )
    },
    Dataset {
        aliases: &["taobao_minutes"],
        folder: "taobao_userbehavior",
        stands_in_for: Some(taobao_userbehavior::MINUTES_STAND_IN_FOR),
        ..dataset(
            "taobao_userbehavior_minutes",
            Source::Counts(taobao_userbehavior::load_minutes),
            "the same, of many more users, every minute",
            "131 timestamps, 118 values, 66454 users",
        )
    },
    dataset(
        "seasonal",
        Source::NumberProcess(NumberProcess::SEASONAL),
        "synthetic: seasons around a line that rises",
        "800 timestamps, a number within 0..1000 in steps of 1",
    ),
    dataset(
        "bursts",
        Source::NumberProcess(NumberProcess::BURSTS),
        "synthetic: a low level with bursts that die down",
        "800 timestamps, a number within 0..1000 in steps of 1",
    ),
    dataset(
        "walk",
        Source::NumberProcess(NumberProcess::WALK),
        "synthetic: a random walk",
        "800 timestamps, a number within 0..1000 in steps of 1",
    ),
    shape(Shape::Constant, "synthetic: a number that stays the same"),
    shape(Shape::White, "synthetic: numbers drawn anew at each timestamp around the middle of the domain"),
    shape(Shape::Walk, "synthetic: a random walk by a hundredth of the domain"),
    shape(Shape::Alternating, "synthetic: two numbers in turn, for 50 timestamps each"),
    shape(Shape::Bursts, "synthetic: a low level with bursts that die down"),
    shape(Shape::Daily, "synthetic: days of 24 timestamps"),
    shape(Shape::TwoEnds, "synthetic: one end of the domain or the other, by a coin at each timestamp"),
    shape(Shape::Spikes, "synthetic: a low level with spikes of one timestamp"),
    shape(Shape::SingleJump, "synthetic: a number that changes once, in the middle"),
    shape(Shape::Incident, "synthetic: a low level that is high for six timestamps"),
    shape(Shape::Growth, "synthetic: a line that rises to 25 times what it was"),
    Dataset {
        aliases: &["covid19"],
        note: Some(
            "in the authors' order, in which every autumn follows the next summer; all 216 weeks, of which the \
             authors' program drops 2",
        ),
        ..dataset(
            "covid19_death",
            Source::Numbers(covid19_death::load),
            "deaths with COVID-19 in the United States, weekly",
            "216 timestamps, a number within 0..25974 in steps of 1",
        )
    },
    Dataset {
        folder: "covid19_death",
        ..dataset(
            "covid19_death_chronological",
            Source::Numbers(covid19_death::load_chronological),
            "the same 216 weeks in the order of time",
            "216 timestamps, a number within 0..25974 in steps of 1",
        )
    },
    Dataset {
        note: Some("all 622 months, of which the authors' program drops the first"),
        ..dataset(
            "unemployment",
            Source::Numbers(unemployment::load),
            "unemployed Black Americans of 16 to 19 years, in thousands, monthly",
            "622 timestamps, a number within 0..612 in steps of 1",
        )
    },
    Dataset {
        aliases: &["outpatient"],
        note: Some("the authors' file: the same 1212 weeks four times over"),
        ..dataset(
            "outpatient_ilinet",
            Source::Numbers(outpatient_ilinet::load),
            "outpatients seen by a network of providers in the United States, weekly",
            "4848 timestamps, a number within 0..2260794 in steps of 1",
        )
    },
    Dataset {
        aliases: &["outpatient_once"],
        folder: "outpatient_ilinet",
        ..dataset(
            "outpatient_ilinet_once",
            Source::Numbers(outpatient_ilinet::load_once),
            "the same 1212 weeks, once",
            "1212 timestamps, a number within 0..2260794 in steps of 1",
        )
    },
    Dataset {
        aliases: &["outpatient_cdc"],
        note: Some("the paper's domain is too narrow for it; weeks without reports are 0"),
        folder: "outpatient_ilinet",
        ..dataset(
            "outpatient_ilinet_cdc",
            Source::Numbers(outpatient_ilinet::load_cdc),
            "the same as the CDC gives them out today, to 2025",
            "1436 timestamps, a number within 0..3000000 in steps of 1",
        )
    },
    Dataset {
        note: Some("the numbers are names of items, not amounts"),
        ..dataset(
            "foodmart",
            Source::Numbers(foodmart::load),
            "items bought at supermarkets, by number, one after another",
            "18319 timestamps, a number within 0..1559 in steps of 1",
        )
    },
    Dataset {
        note: Some("a fair coin: its tosses are independent, though the paper calls them correlated"),
        ..dataset(
            "markov_50",
            Source::Chain(&EVEN),
            "synthetic: a chain of two symbols that stays with probability 0.5",
            "1 user with 10000 timestamps, 2 symbols",
        )
    },
    dataset(
        "markov_90",
        Source::Chain(&STICKY),
        "synthetic: a chain of two symbols that stays with probability 0.9",
        "1 user with 10000 timestamps, 2 symbols",
    ),
    Dataset {
        note: Some("the paper releases 1000 users at random: a population of 1000"),
        stands_in_for: Some(kosarak::STANDS_IN_FOR),
        ..dataset(
            "kosarak",
            Source::Symbols(kosarak::load),
            "clicks of readers of a news portal, by page",
            "100000 users with 1 to 1136 timestamps, 41270 symbols",
        )
    },
    Dataset {
        aliases: &["msnbc"],
        stands_in_for: Some(msnbc_spmf::STANDS_IN_FOR),
        ..dataset(
            "msnbc_spmf",
            Source::Symbols(msnbc_spmf::load),
            "visits to a news portal, by category of the page",
            "31790 users with 9 to 100 timestamps, 17 symbols",
        )
    },
    Dataset {
        aliases: &["gaze"],
        stands_in_for: Some(eye_irf_lookatpoint::STANDS_IN_FOR),
        ..dataset(
            "eye_irf_lookatpoint",
            Source::Symbols(eye_irf_lookatpoint::load),
            "where six people look, by cell of a 100 x 100 grid, 50 times a second",
            "6 users with 3330 to 4051 timestamps, 10000 symbols",
        )
    },
];

/// How the name of a chain with any number of symbols begins: `markov:SYMBOLS:STAY`.
const CHAIN: &str = "markov:";

impl Dataset {
    /// Whether it is real, rather than generated.
    pub const fn is_real(&self) -> bool {
        matches!(self.source, Source::Counts(_) | Source::Numbers(_) | Source::Symbols(_))
    }

    /// Returns its folder in the data directory.
    pub const fn folder_name(&self) -> &'static str {
        self.folder
    }

    /// Returns the kind of stream.
    pub const fn kind(&self) -> StreamKind {
        match self.source {
            Source::Process(_) | Source::Coins(_) | Source::Flow(_) | Source::Levels(_) | Source::Counts(_) => {
                StreamKind::Counts
            }
            Source::NumberProcess(_) | Source::Shape(_) | Source::Numbers(_) => StreamKind::Numbers,
            Source::Chain(_) | Source::Symbols(_) => StreamKind::Symbols,
        }
    }

    fn load(&self, options: &LoadOptions) -> Result<DataStream, DatasetError> {
        let fixed = options.domain.is_some() && !matches!(self.source, Source::Shape(_));
        if fixed || options.values.is_some() {
            return Err(DatasetError::OwnDomain { name: self.name.to_owned() });
        }
        let random = &mut dataset_random(options.seed);
        let population = options.population.unwrap_or(DEFAULT_POPULATION);
        let length = options.length.unwrap_or(DEFAULT_LENGTH);
        match self.source {
            Source::Process(process) => Ok(process.generate(population, length, random)?.into()),
            Source::Coins(process) => Ok(process.toss(population, length, random)?.into()),
            Source::Flow(flow) => Ok(flow.generate(population, length, random)?.into()),
            Source::NumberProcess(process) => {
                let stream = process.generate(NumberProcess::domain()?, length, random)?;
                adjusted(stream.into(), options)
            }
            Source::Levels(Levels::Queue) => {
                adjusted(Levels::Queue.generate(population, length, random)?.into(), options)
            }
            Source::Levels(levels) => Ok(levels.generate(population, length, random)?.into()),
            Source::Shape(shape) => {
                let grid = options.domain.as_ref().map_or_else(
                    || NumberProcess::domain().map_err(DatasetError::from),
                    |domain| domain.grid().map_err(DatasetError::from),
                )?;
                adjusted(shape.generate(grid, length, random)?.into(), options)
            }
            Source::Chain(chain) => sequences(chain, options),
            Source::Counts(load) => adjusted(load(&self.folder(options)?)?.into(), options),
            Source::Numbers(load) => adjusted(load(&self.folder(options)?)?.into(), options),
            Source::Symbols(load) => adjusted(load(&self.folder(options)?)?.into(), options),
        }
    }

    fn folder(&self, options: &LoadOptions) -> Result<PathBuf, DatasetError> {
        let directory = options.data_dir.as_ref();
        let directory = directory.ok_or_else(|| DatasetError::NoDirectory { dataset: self.name.to_owned() })?;
        Ok(directory.join(self.folder))
    }
}

/// Sequences of a chain.
fn sequences(chain: &Chain, options: &LoadOptions) -> Result<DataStream, DatasetError> {
    let users = usize::try_from(options.population.unwrap_or(1)).unwrap_or(usize::MAX);
    let length = options.length.unwrap_or(DEFAULT_SYMBOLS);
    Ok(chain.generate(users, length, &mut dataset_random(options.seed))?.into())
}

/// The data set of a name, or the table of a path: whatever ends in `.csv`, `.ndjson` or `.jsonl`, or one of these and
/// `.gz`, or contains a `/`.
///
/// ```
/// use tidegate_lab::DataStream;
/// use tidegate_lab::datasets::{LoadOptions, load};
///
/// let stream = load("sin", &LoadOptions { population: Some(1_000), length: Some(10), ..LoadOptions::default() })?;
/// let DataStream::Counts(counts) = stream else { panic!("sin is a stream of counts") };
/// assert_eq!(counts.counts()[0], [925, 75]);
///
/// let stream = load("markov:10:0.9", &LoadOptions { length: Some(50), ..LoadOptions::default() })?;
/// assert_eq!(stream.to_string(), "markov:10:0.9: 1 user with 50 timestamps, 10 symbols");
/// # Ok::<(), tidegate_lab::datasets::DatasetError>(())
/// ```
pub fn load(name: &str, options: &LoadOptions) -> Result<DataStream, DatasetError> {
    if let Some(dataset) = by_name(name) {
        return dataset.load(options);
    }
    let lower = name.to_ascii_lowercase();
    let table = lower.strip_suffix(".gz").unwrap_or(&lower);
    if [".csv", ".ndjson", ".jsonl"].iter().any(|ending| table.ends_with(ending)) || name.contains('/') {
        return load_from(name, tidegate_table::open(Path::new(name))?, options);
    }
    if let Some(settings) = name.strip_prefix(CHAIN) {
        let settings = settings.split_once(':').and_then(|(symbols, stay)| {
            Some((symbols.parse().ok()?, stay.parse().ok().filter(|stay: &f64| stay.is_finite())?))
        });
        let unreadable = || DatasetError::ChainName { given: name.chars().take(40).collect() };
        let (symbols, stay) = settings.ok_or_else(unreadable)?;
        if options.domain.is_some() {
            return Err(DatasetError::OwnDomain { name: name.to_owned() });
        }
        return sequences(&Chain::staying(symbols, stay)?, options);
    }
    let valid = ALL.iter().flat_map(|dataset| std::iter::once(dataset.name).chain(dataset.aliases.iter().copied()));
    Err(UnknownName::new("data set", name, valid).into())
}

/// Returns the data set of a name or an alias.
pub fn by_name(name: &str) -> Option<&'static Dataset> {
    ALL.iter().find(|dataset| dataset.name == name || dataset.aliases.contains(&name))
}

/// Loads a table from a source such as standard input; its first line determines the form.
pub fn load_from(name: &str, source: impl Read, options: &LoadOptions) -> Result<DataStream, DatasetError> {
    adjusted(tables::read(name, source, options)?, options)
}

/// Loads an open table, such as one in memory; its columns determine the form.
pub fn load_table<R: Read>(
    name: &str,
    table: TableReader<R>,
    options: &LoadOptions,
) -> Result<DataStream, DatasetError> {
    adjusted(tables::of_table(name, table, options)?, options)
}

fn adjusted(stream: DataStream, options: &LoadOptions) -> Result<DataStream, DatasetError> {
    let stream = match options.length {
        Some(length) => stream.shortened(length)?,
        None => stream,
    };
    match options.population {
        Some(population) => Ok(stream.with_population(population, &mut dataset_random(options.seed))?),
        None => Ok(stream),
    }
}
