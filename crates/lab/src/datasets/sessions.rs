//! Sequences of clicks: a line for each user, with numbers from 1 on, separated by blanks.

use std::path::Path;

use super::DataError;
use super::table::{Table, open};
use crate::stream::{Space, SymbolStream};

/// Reads the sequences of a file; number 1 is symbol 0.
pub(super) fn read(name: &str, path: &Path, symbols: u32, expected: &'static str) -> Result<SymbolStream, DataError> {
    let file = path.display().to_string();
    let mut table = Table::of_words(&file, open(path)?);
    let mut sequences = Vec::new();
    while let Some(line) = table.next_line()? {
        // Some copies end their lines with a blank.
        let fields = if line.text(line.fields() - 1).is_empty() { line.fields() - 1 } else { line.fields() };
        let symbol = |field| Ok(line.between(field, 1, symbols, expected)? - 1);
        sequences.push((0..fields).map(symbol).collect::<Result<Vec<_>, DataError>>()?);
    }
    let stream = SymbolStream::new(name, Space::Line { symbols }, sequences);
    stream.map_err(|source| DataError::Stream { file, source })
}
