//! Data sets by name, and tables of one's own.
//!
//! A synthetic stream is generated. A real one is read from a folder of its name inside a data directory, which is not
//! part of the project; each loader says what it expects there, how it makes a stream of it, and how that differs from the
//! stream in the paper that used the data. Anything else is the path of a CSV file, with a count for each value ([`wide`]) or
//! with one number a timestamp ([`scalar`]).

mod error;
mod foursquare_lbsn2vec;
mod foursquare_nyc_stan;
mod last_known;
mod nyc_taxi_ge;
pub mod scalar;
mod table;
mod tdrive_counts;
pub mod wide;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::DataError;

use crate::experiment::dataset_random;
use crate::generate::Process;
use crate::names::UnknownName;
use crate::stream::{CountStream, Stream, StreamKind};
use scalar::{Domain, Readings};
use table::Table;

/// What can be chosen about a data set besides its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Where the folders of the real data sets are.
    pub data_dir: Option<PathBuf>,
    /// The number of users at each timestamp. A synthetic stream has 200,000 unless told; a real one has its own, and
    /// otherwise is scaled or sampled: [`Stream::with_population`].
    pub population: Option<u64>,
    /// The number of timestamps. A synthetic stream has 800 unless told; a real one is used whole, or cut.
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

/// A data set that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Dataset {
    /// The name; for a real data set, also that of its folder.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// What it is, in one line.
    pub summary: &'static str,
    /// What to know before comparing results with a paper's, in one line.
    pub note: Option<&'static str>,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Process(Process),
    CountFolder(fn(&Path) -> Result<CountStream, DataError>),
}

/// All data sets that have a name.
pub const ALL: [Dataset; 7] = [
    Dataset {
        name: "lns",
        alias: None,
        summary: "synthetic: the share of ones is a random walk",
        note: None,
        source: Source::Process(Process::LNS),
    },
    Dataset {
        name: "sin",
        alias: None,
        summary: "synthetic: the share of ones is a sine curve",
        note: None,
        source: Source::Process(Process::SIN),
    },
    Dataset {
        name: "log",
        alias: None,
        summary: "synthetic: the share of ones is a logistic curve",
        note: None,
        source: Source::Process(Process::LOG),
    },
    Dataset {
        name: "tdrive_counts",
        alias: None,
        summary: "taxis of Beijing, by cell of an 8 x 8 grid, every five minutes",
        note: None,
        source: Source::CountFolder(tdrive_counts::load),
    },
    Dataset {
        name: "nyc_taxi_ge",
        alias: None,
        summary: "taxi trips of New York, by fare in whole dollars, daily",
        note: None,
        source: Source::CountFolder(nyc_taxi_ge::load),
    },
    Dataset {
        name: "foursquare_lbsn2vec",
        alias: Some("foursquare"),
        summary: "users of Foursquare in four cities, by category of the last check-in, daily",
        note: None,
        source: Source::CountFolder(foursquare_lbsn2vec::load),
    },
    Dataset {
        name: "foursquare_nyc_stan",
        alias: None,
        summary: "users of Foursquare in New York, by cell of the last check-in, daily",
        note: None,
        source: Source::CountFolder(foursquare_nyc_stan::load),
    },
];

impl Dataset {
    /// Whether it is read from the data directory, rather than generated.
    pub const fn is_real(&self) -> bool {
        matches!(self.source, Source::CountFolder(_))
    }

    /// What it holds.
    pub const fn kind(&self) -> StreamKind {
        match self.source {
            Source::Process(_) | Source::CountFolder(_) => StreamKind::Counts,
        }
    }

    fn load(&self, options: &Options) -> Result<Stream, DataError> {
        if options.domain.is_some() {
            return Err(DataError::OwnDomain { name: self.name.to_owned() });
        }
        let folder = || {
            let directory = options.data_dir.as_ref();
            let directory = directory.ok_or(DataError::NoDirectory { dataset: self.name.to_owned() })?;
            Ok::<_, DataError>(directory.join(self.name))
        };
        match self.source {
            Source::Process(process) => {
                let population = options.population.unwrap_or(DEFAULT_POPULATION);
                let length = options.length.unwrap_or(DEFAULT_LENGTH);
                Ok(process.generate(population, length, &mut dataset_random(options.seed))?.into())
            }
            Source::CountFolder(load) => adjusted(load(&folder()?)?.into(), options),
        }
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
    if let Some(dataset) = ALL.iter().find(|dataset| dataset.name == name || dataset.alias == Some(name)) {
        return dataset.load(options);
    }
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".csv") || lower.ends_with(".csv.gz") || name.contains('/') {
        return load_from(name, table::open(Path::new(name))?, options);
    }
    let valid = ALL.iter().flat_map(|dataset| std::iter::once(dataset.name).chain(dataset.alias));
    Err(UnknownName::new("data set", name, valid).into())
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
