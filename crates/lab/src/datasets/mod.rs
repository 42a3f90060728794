//! Data sets by name, and tables of one's own.
//!
//! A synthetic stream is generated. A real one is read from a folder of its name inside a data directory, which is not
//! part of the project; each loader says what it expects there, how it makes a stream of it, and how that differs from the
//! stream in the paper that used the data. Anything else is the path of a CSV file with a count for each value: see [`wide`].

mod error;
mod foursquare_lbsn2vec;
mod foursquare_nyc_stan;
mod last_known;
mod nyc_taxi_ge;
mod table;
mod tdrive_counts;
pub mod wide;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::DataError;

use crate::experiment::dataset_random;
use crate::generate::Process;
use crate::names::UnknownName;
use crate::stream::CountStream;

/// What can be chosen about a data set besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the folders of the real data sets are.
    pub data_dir: Option<PathBuf>,
    /// The number of users at each timestamp. A synthetic stream has 200,000 unless told; a real one has its own, and
    /// otherwise keeps its frequencies: [`CountStream::with_population`].
    pub population: Option<u64>,
    /// The number of timestamps. A synthetic stream has 800 unless told; a real one is used whole, or cut.
    pub length: Option<usize>,
    /// The seed of the synthetic streams that are random.
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
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Process(Process),
    Folder(fn(&Path) -> Result<CountStream, DataError>),
}

/// All data sets that have a name.
pub const ALL: [Dataset; 7] = [
    Dataset {
        name: "lns",
        alias: None,
        summary: "synthetic: the share of ones is a random walk",
        source: Source::Process(Process::LNS),
    },
    Dataset {
        name: "sin",
        alias: None,
        summary: "synthetic: the share of ones is a sine curve",
        source: Source::Process(Process::SIN),
    },
    Dataset {
        name: "log",
        alias: None,
        summary: "synthetic: the share of ones is a logistic curve",
        source: Source::Process(Process::LOG),
    },
    Dataset {
        name: "tdrive_counts",
        alias: None,
        summary: "taxis of Beijing, by cell of an 8 x 8 grid, every five minutes",
        source: Source::Folder(tdrive_counts::load),
    },
    Dataset {
        name: "nyc_taxi_ge",
        alias: None,
        summary: "taxi trips of New York, by fare in whole dollars, daily",
        source: Source::Folder(nyc_taxi_ge::load),
    },
    Dataset {
        name: "foursquare_lbsn2vec",
        alias: Some("foursquare"),
        summary: "users of Foursquare in four cities, by category of the last check-in, daily",
        source: Source::Folder(foursquare_lbsn2vec::load),
    },
    Dataset {
        name: "foursquare_nyc_stan",
        alias: None,
        summary: "users of Foursquare in New York, by cell of the last check-in, daily",
        source: Source::Folder(foursquare_nyc_stan::load),
    },
];

impl Dataset {
    /// Whether it is read from the data directory, rather than generated.
    pub const fn is_real(&self) -> bool {
        matches!(self.source, Source::Folder(_))
    }

    fn load(&self, options: &Options) -> Result<CountStream, DataError> {
        match self.source {
            Source::Process(process) => {
                let population = options.population.unwrap_or(DEFAULT_POPULATION);
                let length = options.length.unwrap_or(DEFAULT_LENGTH);
                Ok(process.generate(population, length, &mut dataset_random(options.seed))?)
            }
            Source::Folder(load) => {
                let directory =
                    options.data_dir.as_ref().ok_or(DataError::NoDirectory { dataset: self.name.to_owned() })?;
                adjusted(load(&directory.join(self.name))?, options)
            }
        }
    }
}

/// The data set of a name, or the CSV file of a path: whatever ends in `.csv` or `.csv.gz`, or contains a `/`.
///
/// ```
/// use tidegate_lab::datasets::{Options, load};
///
/// let stream = load("sin", &Options { population: Some(1_000), length: Some(10), ..Options::default() })?;
/// assert_eq!(stream.counts()[0], [925, 75]);
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub fn load(name: &str, options: &Options) -> Result<CountStream, DataError> {
    if let Some(dataset) = ALL.iter().find(|dataset| dataset.name == name || dataset.alias == Some(name)) {
        return dataset.load(options);
    }
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".csv") || lower.ends_with(".csv.gz") || name.contains('/') {
        let stream = wide::read(name, table::open(Path::new(name))?)?;
        return adjusted(stream, options);
    }
    let valid = ALL.iter().flat_map(|dataset| std::iter::once(dataset.name).chain(dataset.alias));
    Err(UnknownName::new("data set", name, valid).into())
}

/// A table in wide form from a source that is not a file, such as standard input.
pub fn load_from(name: &str, source: impl Read, options: &Options) -> Result<CountStream, DataError> {
    adjusted(wide::read(name, source)?, options)
}

fn adjusted(stream: CountStream, options: &Options) -> Result<CountStream, DataError> {
    let stream = match options.length {
        Some(length) => stream.shortened(length)?,
        None => stream,
    };
    match options.population {
        Some(population) => Ok(stream.with_population(population)?),
        None => Ok(stream),
    }
}
