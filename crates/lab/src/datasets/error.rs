//! [`DatasetError`]: a data set that cannot be loaded.

use tidegate::names::UnknownName;
use tidegate_kernel::GridError;
use tidegate_table::TableError;

use crate::generate::GenerateError;
use crate::stream::DataStreamError;

/// A data set that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DatasetError {
    /// No data set has this name.
    #[error("{0}; or give the path of a .csv or .ndjson file")]
    Unknown(#[from] UnknownName),
    /// A real data set needs a data directory.
    #[error("the data set {dataset} is read from a data directory, and none was given")]
    NoDirectory { dataset: String },
    /// A file cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The name of a Markov chain has the wrong form; `given` is cut to 40 characters.
    #[error("a chain is called markov:SYMBOLS:STAY, as in markov:10:0.9, not {given:?}")]
    ChainName { given: String },
    /// The content of the file is not a stream.
    #[error("{file}: {source}")]
    Stream { file: String, source: DataStreamError },
    /// The stream cannot be cut or scaled.
    #[error(transparent)]
    Adjusted(#[from] DataStreamError),
    /// The table needs a domain.
    #[error("the domain of {file} was not given: it is never taken from the data")]
    NoDomain { file: String },
    /// The table needs its values.
    #[error("the values of {file} were not given: they are never taken from the data")]
    NoValues { file: String },
    /// The data set declares its own domain.
    #[error("{name} has a domain of its own: none can be given")]
    OwnDomain { name: String },
    /// The domain is invalid.
    #[error(transparent)]
    Domain(#[from] GridError),
    /// The stream cannot be generated.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}
