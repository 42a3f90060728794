//! Sequences of clicks: a line for each user, with numbers from 1 on, separated by blanks.

use std::io::Read;
use std::path::Path;

use tidegate_table::TableReader;

use super::DatasetError;
use super::files::open_data;
use crate::stream::{Space, SymbolStream};

/// Reads the sequences of a file; number 1 is symbol 0.
pub(super) fn read(
    name: &str,
    path: &Path,
    symbols: u32,
    expected: &'static str,
) -> Result<SymbolStream, DatasetError> {
    let file = path.display().to_string();
    let table = TableReader::of_words(&file, open_data(path)?);
    sequences(name, file, table, symbols, expected)
}

/// The same, of a file with other content up to a line of its own.
pub(super) fn read_after(
    marker: &str,
    name: &str,
    path: &Path,
    symbols: u32,
    expected: &'static str,
) -> Result<SymbolStream, DatasetError> {
    let file = path.display().to_string();
    let mut table = TableReader::of_words(&file, open_data(path)?);
    loop {
        let Some(line) = table.next_line()? else {
            return Err(table
                .bad_content(format!("it has no line {marker:?}, after which the sequences begin"))
                .into());
        };
        let words: Vec<&str> = (0..line.fields()).map(|field| line.text(field)).collect();
        if words.join(" ").trim_end() == marker {
            return sequences(name, file, table, symbols, expected);
        }
    }
}

fn sequences<R: Read>(
    name: &str,
    file: String,
    mut table: TableReader<R>,
    symbols: u32,
    expected: &'static str,
) -> Result<SymbolStream, DatasetError> {
    let mut sequences = Vec::new();
    while let Some(line) = table.next_line()? {
        let symbol = |field| Ok(line.between(field, 1, symbols, expected)? - 1);
        sequences.push((0..line.words()).map(symbol).collect::<Result<Vec<_>, DatasetError>>()?);
    }
    let stream = SymbolStream::new(name, Space::Line { symbols }, sequences);
    stream.map_err(|source| DatasetError::Stream { file, source })
}
