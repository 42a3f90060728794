//! Data sets by name, and tables of one's own.
//!
//! A synthetic stream is generated. A real one is read from a folder of its name inside a data directory, which is not
//! part of the project; each loader says what it expects there, how it makes a stream of it, and how that differs from the
//! stream in the paper that used the data. Anything else is the path of a CSV file, with a count for each value ([`wide`]) or
//! with one number a timestamp ([`scalar`]).

mod covid19_death;
mod error;
mod eye_irf_lookatpoint;
mod foodmart;
mod foursquare_lbsn2vec;
mod foursquare_nyc_stan;
mod kosarak;
mod last_known;
mod msnbc_spmf;
mod nyc_taxi_ge;
mod outpatient_ilinet;
pub mod scalar;
mod sessions;
mod table;
mod tdrive_counts;
mod unemployment;
pub mod wide;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::DataError;
pub use table::open;

use crate::experiment::dataset_random;
use crate::generate::{Chain, NumberProcess, Process};
use crate::names::UnknownName;
use crate::stream::{CountStream, NumberStream, Stream, StreamKind, SymbolStream};
use scalar::{Domain, Readings};
use table::Table;

/// What can be chosen about a data set besides its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Where the folders of the real data sets are.
    pub data_dir: Option<PathBuf>,
    /// The number of users at each timestamp. A synthetic stream of counts has 200,000 unless told, one of symbols has 1; a
    /// real one has its own, and
    /// otherwise is scaled or sampled: [`Stream::with_population`].
    pub population: Option<u64>,
    /// The number of timestamps. A synthetic stream has 800 unless told, one of symbols 10,000; a real one is used whole, or
    /// cut.
    pub length: Option<usize>,
    /// The domain of a scalar stream that is read from a file; whatever has a name declares its own.
    pub domain: Option<Domain>,
    /// The seed of the synthetic streams that are random, and of the choice of users.
    pub seed: u64,
}

/// The population of a synthetic stream, unless told.
pub const DEFAULT_POPULATION: u64 = 200_000;
/// The length of a synthetic stream, unless told.
pub const DEFAULT_LENGTH: usize = 800;
/// The length of a synthetic sequence of symbols, unless told.
pub const DEFAULT_SYMBOLS: usize = 10_000;

/// A data set that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Dataset {
    /// The name.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// What it is, in one line.
    pub summary: &'static str,
    /// What to know before comparing results with a paper's, in one line.
    pub note: Option<&'static str>,
    /// Where it is in the data directory, if it is real.
    folder: &'static str,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Process(Process),
    NumberProcess(NumberProcess),
    Chain(Chain<2>),
    /// Loaders of a folder.
    Counts(fn(&Path) -> Result<CountStream, DataError>),
    Numbers(fn(&Path) -> Result<NumberStream, DataError>),
    Symbols(fn(&Path) -> Result<SymbolStream, DataError>),
}

/// A data set whose folder, where it has one, is called like it.
const fn dataset(name: &'static str, source: Source, summary: &'static str) -> Dataset {
    Dataset { name, alias: None, summary, note: None, folder: name, source }
}

/// All data sets that have a name.
pub static ALL: &[Dataset] = &[
    dataset("lns", Source::Process(Process::LNS), "synthetic: the share of ones is a random walk"),
    dataset("sin", Source::Process(Process::SIN), "synthetic: the share of ones is a sine curve"),
    dataset("log", Source::Process(Process::LOG), "synthetic: the share of ones is a logistic curve"),
    dataset(
        "tdrive_counts",
        Source::Counts(tdrive_counts::load),
        "taxis of Beijing, by cell of an 8 x 8 grid, every five minutes",
    ),
    dataset(
        "nyc_taxi_ge",
        Source::Counts(nyc_taxi_ge::load),
        "taxi trips of New York, by fare in whole dollars, daily",
    ),
    Dataset {
        alias: Some("foursquare"),
        ..dataset(
            "foursquare_lbsn2vec",
            Source::Counts(foursquare_lbsn2vec::load),
            "users of Foursquare in four cities, by category of the last check-in, daily",
        )
    },
    dataset(
        "foursquare_nyc_stan",
        Source::Counts(foursquare_nyc_stan::load),
        "users of Foursquare in New York, by cell of the last check-in, daily",
    ),
    dataset(
        "seasonal",
        Source::NumberProcess(NumberProcess::SEASONAL),
        "synthetic: seasons around a line that rises, within 0..1000",
    ),
    dataset(
        "bursts",
        Source::NumberProcess(NumberProcess::BURSTS),
        "synthetic: a low level with bursts that die down, within 0..1000",
    ),
    dataset("walk", Source::NumberProcess(NumberProcess::WALK), "synthetic: a random walk, within 0..1000"),
    Dataset {
        note: Some(
            "in the authors' order, in which every autumn follows the next summer; all 216 weeks, of which the authors' \
             program drops 2",
        ),
        ..dataset(
            "covid19_death",
            Source::Numbers(covid19_death::load),
            "deaths with COVID-19 in the United States, weekly, within 0..25974",
        )
    },
    Dataset {
        folder: "covid19_death",
        ..dataset(
            "covid19_death_chronological",
            Source::Numbers(covid19_death::load_chronological),
            "the same 216 weeks in the order of time",
        )
    },
    Dataset {
        note: Some("all 622 months, of which the authors' program drops the first"),
        ..dataset(
            "unemployment",
            Source::Numbers(unemployment::load),
            "unemployed Black Americans of 16 to 19 years, in thousands, monthly, within 0..612",
        )
    },
    Dataset {
        note: Some("the authors' file: the same 1212 weeks four times over"),
        ..dataset(
            "outpatient_ilinet",
            Source::Numbers(outpatient_ilinet::load),
            "outpatients seen by a network of providers in the United States, weekly, within 0..2260794",
        )
    },
    Dataset {
        folder: "outpatient_ilinet",
        ..dataset("outpatient_ilinet_once", Source::Numbers(outpatient_ilinet::load_once), "the same 1212 weeks, once")
    },
    Dataset {
        folder: "outpatient_ilinet",
        note: Some("the paper's domain is too narrow for it; weeks without reports are 0"),
        ..dataset(
            "outpatient_ilinet_cdc",
            Source::Numbers(outpatient_ilinet::load_cdc),
            "the same as the CDC gives them out today, to 2025, within 0..3000000",
        )
    },
    Dataset {
        note: Some("the numbers are names of items, not amounts"),
        ..dataset(
            "foodmart",
            Source::Numbers(foodmart::load),
            "items bought at supermarkets, by number, one after another, within 0..1559",
        )
    },
    Dataset {
        note: Some("a fair coin: its tosses are independent, though the paper calls them correlated"),
        ..dataset(
            "markov_50",
            Source::Chain(Chain::EVEN),
            "synthetic: a chain of two symbols that stays with probability 0.5",
        )
    },
    dataset(
        "markov_90",
        Source::Chain(Chain::STICKY),
        "synthetic: a chain of two symbols that stays with probability 0.9",
    ),
    Dataset {
        note: Some("the paper releases 1000 users at random: a population of 1000"),
        ..dataset("kosarak", Source::Symbols(kosarak::load), "clicks of readers of a news portal, by page, 1 to 41270")
    },
    dataset(
        "msnbc_spmf",
        Source::Symbols(msnbc_spmf::load),
        "visits to a news portal, by category of the page, 1 to 17",
    ),
    dataset(
        "eye_irf_lookatpoint",
        Source::Symbols(eye_irf_lookatpoint::load),
        "where six people look, by cell of a 100 x 100 grid, 50 times a second",
    ),
];

impl Dataset {
    /// Whether it is read from the data directory, rather than generated.
    pub const fn is_real(&self) -> bool {
        matches!(self.source, Source::Counts(_) | Source::Numbers(_) | Source::Symbols(_))
    }

    /// The folder of the data directory in which it is, if it is real.
    pub const fn folder_name(&self) -> &'static str {
        self.folder
    }

    /// What it holds.
    pub const fn kind(&self) -> StreamKind {
        match self.source {
            Source::Process(_) | Source::Counts(_) => StreamKind::Counts,
            Source::NumberProcess(_) | Source::Numbers(_) => StreamKind::Numbers,
            Source::Chain(_) | Source::Symbols(_) => StreamKind::Symbols,
        }
    }

    fn load(&self, options: &Options) -> Result<Stream, DataError> {
        if options.domain.is_some() {
            return Err(DataError::OwnDomain { name: self.name.to_owned() });
        }
        let random = &mut dataset_random(options.seed);
        match self.source {
            Source::Process(process) => {
                let population = options.population.unwrap_or(DEFAULT_POPULATION);
                let length = options.length.unwrap_or(DEFAULT_LENGTH);
                Ok(process.generate(population, length, random)?.into())
            }
            Source::NumberProcess(process) => {
                let length = options.length.unwrap_or(DEFAULT_LENGTH);
                let stream = process.generate(NumberProcess::domain()?, length, random)?;
                adjusted(stream.into(), options)
            }
            Source::Chain(chain) => {
                let users = usize::try_from(options.population.unwrap_or(1)).unwrap_or(usize::MAX);
                let length = options.length.unwrap_or(DEFAULT_SYMBOLS);
                Ok(chain.generate(users, length, random)?.into())
            }
            Source::Counts(load) => adjusted(load(&self.folder(options)?)?.into(), options),
            Source::Numbers(load) => adjusted(load(&self.folder(options)?)?.into(), options),
            Source::Symbols(load) => adjusted(load(&self.folder(options)?)?.into(), options),
        }
    }

    fn folder(&self, options: &Options) -> Result<PathBuf, DataError> {
        let directory = options.data_dir.as_ref();
        let directory = directory.ok_or_else(|| DataError::NoDirectory { dataset: self.name.to_owned() })?;
        Ok(directory.join(self.folder))
    }
}

/// The data set of a name, or the CSV file of a path: whatever ends in `.csv` or `.csv.gz`, or contains a `/`.
///
/// ```
/// use tidegate_lab::Stream;
/// use tidegate_lab::datasets::{Options, load};
///
/// let stream = load("sin", &Options { population: Some(1_000), length: Some(10), ..Options::default() })?;
/// let Stream::Counts(counts) = stream else { panic!("sin is a stream of counts") };
/// assert_eq!(counts.counts()[0], [925, 75]);
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub fn load(name: &str, options: &Options) -> Result<Stream, DataError> {
    if let Some(dataset) = by_name(name) {
        return dataset.load(options);
    }
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".csv") || lower.ends_with(".csv.gz") || name.contains('/') {
        return load_from(name, open(Path::new(name))?, options);
    }
    let valid = ALL.iter().flat_map(|dataset| std::iter::once(dataset.name).chain(dataset.alias));
    Err(UnknownName::new("data set", name, valid).into())
}

/// The data set of a name or an alias.
pub fn by_name(name: &str) -> Option<&'static Dataset> {
    ALL.iter().find(|dataset| dataset.name == name || dataset.alias == Some(name))
}

/// A table from a source that is not a file, such as standard input: in the form that its first line tells.
pub fn load_from(name: &str, source: impl Read, options: &Options) -> Result<Stream, DataError> {
    let table = Table::new(name, source)?;
    let stream: Stream = if *table.header() == ["t", "value"][..] {
        let domain = options.domain.as_ref().ok_or_else(|| DataError::NoDomain { file: name.to_owned() })?;
        scalar::stream(name, Readings::of(table), domain)?.into()
    } else {
        let stream = wide::stream(name, table)?;
        if options.domain.is_some() {
            return Err(DataError::OwnDomain { name: name.to_owned() });
        }
        stream.into()
    };
    adjusted(stream, options)
}

fn adjusted(stream: Stream, options: &Options) -> Result<Stream, DataError> {
    let stream = match options.length {
        Some(length) => stream.shortened(length)?,
        None => stream,
    };
    match options.population {
        Some(population) => Ok(stream.with_population(population, &mut dataset_random(options.seed))?),
        None => Ok(stream),
    }
}
