//! [`TableError`]: a table that cannot be read.

use std::borrow::Cow;
use std::io;

/// A table that cannot be read.
///
/// The message names the file, the line and the field. It never contains the content of a field, which may be a user's
/// data. Lines are numbered from one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum TableError {
    /// The file is missing or not readable.
    #[error("{file} cannot be opened: {source}")]
    Open { file: String, source: io::Error },
    /// Reading failed after `line`, for example because the compressed data are damaged.
    #[error("{file}, after line {line}: it cannot be read on: {source}")]
    Read { file: String, line: u64, source: io::Error },
    /// The line is not UTF-8.
    #[error("{file}, line {line}: it is not valid UTF-8: save the file as UTF-8")]
    NotUtf8 { file: String, line: u64 },
    /// The line is not a JSON object.
    #[error("{file}, line {line}: it is not a JSON object")]
    NotJson { file: String, line: u64 },
    /// The first line does not name the expected fields.
    #[error("{file}, line 1: {expected}")]
    Header { file: String, expected: String },
    /// The line has too few or too many fields.
    #[error("{file}, line {line}: it has {given} fields, but {expected} are expected")]
    Width { file: String, line: u64, given: u64, expected: u64 },
    /// The field has the wrong type or value.
    #[error("{file}, line {line}, field {field:?}: expected {expected}")]
    Field { file: String, line: u64, field: String, expected: Cow<'static, str> },
    /// The table as a whole is invalid, though each line is valid.
    #[error("{file}: {problem}")]
    Content { file: String, problem: String },
}
