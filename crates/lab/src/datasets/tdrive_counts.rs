//! `tdrive_counts`: taxis of Beijing in February 2008, from the T-Drive sample.
//!
//! The folder holds `td.csv`: a line with the sum of all counts, then a line for each of 1778 time slots with the
//! number of taxis in each cell of 0.1° x 0.1°, 64 in all. That fits the box 116..116.8° E, 39.5..40.3° N; slots seem
//! to be five minutes. Neither is documented where the file comes from.
//!
//! The stream is the file: a value is a cell, the users of a timestamp are the taxis counted then (3923 to 9662 of the
//! 10,357). The papers derive theirs from the trajectories themselves: LDP-IDS with 5 cells and 886 timestamps, the
//! personalised w-event paper with 100 cells and 8889. Here only counts exist, so which taxi moved where is unknown.

use std::path::Path;

use tidegate_table::{Format, TableReader};

use super::DatasetError;
use super::files::open_data;
use crate::stream::CountStream;

const CELLS: usize = 64;

pub(super) const STANDS_IN_FOR: &str = "the papers' T-Drive streams (LDP-IDS: 5 cells, 886 timestamps; personalised \
                                        w-event: 100 cells, 8889): taxis counted in 64 cells by others, without their \
                                        paths";

pub(super) fn load(folder: &Path) -> Result<CountStream, DatasetError> {
    let path = folder.join("td.csv");
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
    let total: Option<u64> = table.header().next().and_then(|field| field.parse().ok());
    let total = total.filter(|_| table.header().count() == CELLS && table.header().skip(1).all(str::is_empty));
    let total = total
        .ok_or_else(|| table.bad_header(format!("expected the sum of all counts and {} empty fields", CELLS - 1)))?;
    let mut counts: Vec<Vec<u64>> = Vec::new();
    while let Some(line) = table.next_line()? {
        counts.push((0..CELLS).map(|field| line.count(field)).collect::<Result<_, _>>()?);
    }
    let sum: u128 = counts.iter().flatten().map(|count| u128::from(*count)).sum();
    if sum != u128::from(total) {
        return Err(table
            .bad_content("the counts do not add up to the sum on the first line; lines may be missing")
            .into());
    }
    let labels = (0..CELLS).map(|cell| format!("cell {cell}")).collect();
    let stream = CountStream::new("tdrive_counts", labels, counts);
    Ok(stream.map_err(|source| DatasetError::Stream { file, source })?.standing_in_for(STANDS_IN_FOR))
}
