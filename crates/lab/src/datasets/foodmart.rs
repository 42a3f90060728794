//! `foodmart`: items bought at a chain of supermarkets, by number, one purchase after another.
//!
//! The folder holds `footmart.csv`, the file that the authors of the delayed-release paper publish: 18,319 numbers of
//! items, one a line, without a header. They are those of the SPMF library's 4141 transactions in their order; where
//! the folder holds only these, `foodmartFIM.txt` with the items of a transaction on each line, they are put in a row.
//!
//! The domain is 0..1559, as in the paper. The numbers are names, not amounts: what a mean of them says about the shop
//! is left open by the paper.

use std::path::Path;

use tidegate_kernel::Grid;

use tidegate_table::TableReader;

use super::DatasetError;
use super::files::{first_of, open_data, reading};
use crate::stream::NumberStream;

pub(super) fn load(folder: &Path) -> Result<NumberStream, DatasetError> {
    let items = folder.join("footmart.csv");
    let transactions = first_of(folder, &["foodmartFIM.txt"]).filter(|_| !items.is_file());
    let path = transactions.as_ref().unwrap_or(&items);
    let file = path.display().to_string();
    let mut table = match transactions {
        Some(_) => TableReader::of_words(&file, open_data(path)?),
        None => TableReader::without_header(&file, open_data(path)?, &["item"]),
    };
    let grid = Grid::new(0.0, 1_559.0, 1.0)?;
    let mut values = Vec::new();
    while let Some(line) = table.next_line()? {
        for field in 0..line.words() {
            values.push(reading(&line, field, &grid)?);
        }
    }
    NumberStream::new("foodmart", grid, values).map_err(|source| DatasetError::Stream { file, source })
}
