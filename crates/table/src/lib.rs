//! Reading and writing of tables: the input of a stream and its releases.
//!
//! | module | content |
//! | --- | --- |
//! | [`long`] | input with one value of one user a line: `t,user,value` |
//! | [`wide`] | input with a count for each value a line: `t,<value>,<value>,..` |
//! | [`scalar`] | input with one number a line: `t,value` |
//! | [`releases`] | releases, as lines of text |
//! | [`released`] | the same lines, read back |
//! | [`Rows`] | tables in memory |
//! | [`time`] | times as timestamps |
//! | [`layout`] | figures and aligned columns, as plain text |
//! | [`json`] | JSON values as the text of a field |
//! | `parquet` | Parquet files as CSV text and back, with the feature `parquet` |
//!
//! A table is CSV or newline-delimited JSON ([`Format`]), which may be compressed with gzip, or in memory ([`Rows`]).
//! Each form has a reader that holds one line at a time, so it serves an endless pipe as well as a file. All use
//! [`TableReader`], which also reads tables of other forms.
//!
//! Errors ([`TableError`]) name the file, the line and the field. They never contain the content of a field, which may
//! be a user's data.
//!
//! ```
//! use tidegate_table::Format;
//! use tidegate_table::long::LongReader;
//!
//! let table = "t,user,value\n0,anna,home\n";
//! let mut reader = LongReader::new("evening", table.as_bytes(), Format::Csv)?;
//! let user = reader.next_checked(|row| Ok(row.user.to_string()))?;
//! assert_eq!(user.as_deref(), Some("anna"));
//! # Ok::<(), tidegate_table::TableError>(())
//! ```

mod error;
pub mod json;
mod json_lines;
pub mod layout;
pub mod long;
#[cfg(feature = "parquet")]
pub mod parquet;
mod reader;
mod reading;
pub mod released;
pub mod releases;
mod rows;
pub mod scalar;
mod source;
pub mod time;
mod users;
pub mod wide;

pub use error::TableError;
pub use reader::{TableLine, TableReader};
pub use reading::{Form, Reading};
pub use rows::{Cells, Rows};
pub use source::open;

/// The text format of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated fields; the first line names them.
    #[default]
    Csv,
    /// One JSON object a line, each with the same fields.
    Ndjson,
}
