//! [`DataError`]: why a data set could not be loaded.

use std::borrow::Cow;
use std::io;

use tidegate_kernel::GridError;

use crate::generate::GenerateError;
use crate::stream::StreamError;
use tidegate::names::UnknownName;

/// Why a data set could not be loaded. Errors in a file name the line and the field, and never what stands there: it
/// may be somebody's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A name that is no data set's.
    #[error("{0}; or give the path of a .csv or .ndjson file")]
    Unknown(#[from] UnknownName),
    /// A real data set without a place to look for it.
    #[error("the data set {dataset} is read from a data directory, and none was given")]
    NoDirectory {
        /// The data set.
        dataset: String,
    },
    /// A file that is missing or may not be read.
    #[error("{file} cannot be opened: {source}")]
    Open {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file that breaks off, or whose compression is damaged.
    #[error("{file}, after line {line}: it cannot be read on: {source}")]
    Read {
        /// The file.
        file: String,
        /// The last line that could be read.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// Bytes that are no text.
    #[error("{file}, line {line}: it is not valid UTF-8")]
    NotUtf8 {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A line that is no object.
    #[error("{file}, line {line}: it is not a JSON object")]
    NotJson {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A chain whose symbols or probability cannot be read from its name.
    #[error("a chain is called markov:SYMBOLS:STAY, as in markov:10:0.9, not {given:?}")]
    ChainName {
        /// What was given, cut to 40 characters.
        given: String,
    },
    /// A first line that is not as it should be.
    #[error("{file}, line 1: {expected}")]
    Header {
        /// The file.
        file: String,
        /// What is expected there.
        expected: String,
    },
    /// A line with too few or too many fields.
    #[error("{file}, line {line}: it has {given} fields, but {expected} are expected")]
    Width {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// How many fields it has.
        given: u64,
        /// How many it should have.
        expected: u64,
    },
    /// A field that is not what it should be.
    #[error("{file}, line {line}, field {field:?}: expected {expected}")]
    Field {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The field's name.
        field: String,
        /// What is expected there.
        expected: Cow<'static, str>,
    },
    /// Lines that are right one by one, but not together.
    #[error("{file}: {problem}")]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A file whose counts are no stream.
    #[error("{file}: {source}")]
    Stream {
        /// The file.
        file: String,
        /// Why.
        source: StreamError,
    },
    /// A stream that cannot be cut or scaled as asked.
    #[error(transparent)]
    Adjusted(#[from] StreamError),
    /// A table that does not declare its domain, which was not said either.
    #[error("the domain of {file} was not given: it is never taken from the data")]
    NoDomain {
        /// The file.
        file: String,
    },
    /// A domain for what declares its own.
    #[error("{name} has a domain of its own: none can be given")]
    OwnDomain {
        /// The data set or file.
        name: String,
    },
    /// A domain that is none.
    #[error(transparent)]
    Domain(#[from] GridError),
    /// A stream that cannot be generated.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}
