//! Tables in wide form: one line a timestamp, with a count for each value of the domain.
//!
//! ```text
//! t,away,home
//! 0,3,1
//! 1,1,4
//! ```
//!
//! The first line names the field `t` and the values: so the domain is what the table declares, not what happens to occur
//! in it. Timestamps are whole numbers, each one more than the last. The file may be compressed with gzip.

use std::io::Read;

use super::DataError;
use super::table::Table;
use crate::stream::CountStream;

/// Reads a table; `name` is what errors and results call it.
///
/// ```
/// use tidegate_lab::datasets::wide;
///
/// let stream = wide::read("evenings", "t,away,home\n0,3,1\n1,1,4\n".as_bytes())?;
/// assert_eq!(stream.counts(), [[3, 1], [1, 4]]);
///
/// let error = wide::read("evenings", "t,away,home\n0,3,-1\n".as_bytes()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "evenings, line 2, field \"home\": expected a count: a whole number, zero or more"
/// );
/// # Ok::<(), tidegate_lab::datasets::DataError>(())
/// ```
pub fn read(name: &str, source: impl Read) -> Result<CountStream, DataError> {
    stream(name, Table::new(name, source)?)
}

pub(super) fn stream<R: Read>(name: &str, mut table: Table<R>) -> Result<CountStream, DataError> {
    let labels: Vec<String> = table.header().iter().skip(1).map(str::to_owned).collect();
    let fields: Vec<&str> = table.header().iter().collect();
    match fields.as_slice() {
        ["t", "user", "value"] | ["t", "value"] => {
            return Err(table.bad_header(
                "a table of single values cannot be read here; count the users of each value: t,<value>,<value>,..",
            ));
        }
        ["t", ..] => {}
        _ => return Err(table.bad_header("the fields must be t,<value>,<value>,.. with a count for each value")),
    }
    let mut counts = Vec::new();
    let mut expected_timestamp: Option<u64> = None;
    while let Some(line) = table.next_line()? {
        let timestamp: u64 = line.number(0, "a timestamp: a whole number, zero or more")?;
        if expected_timestamp.is_some_and(|expected| expected != timestamp) {
            return Err(line.bad_field(0, "a timestamp that is one more than the last"));
        }
        expected_timestamp = timestamp.checked_add(1);
        counts.push((1..line.fields()).map(|field| line.count(field)).collect::<Result<_, _>>()?);
    }
    CountStream::new(name, labels, counts).map_err(|source| DataError::Stream { file: name.to_owned(), source })
}
