//! `msnbc_spmf`: visits to categories of pages of msnbc.com, one day of 1999.
//!
//! The folder holds `msnbc_sequences.txt.gz`, after the SPMF library's excerpt of the UCI data: a line for each of 31,790 users,
//! with 9 to 100 categories, 1 to 17, in the order of the visits.
//!
//! The categories are names; as with `kosarak`, they lie on a line, so that distances are those of their numbers.

use std::path::Path;

use super::{DataError, sessions};
use crate::stream::SymbolStream;

pub(super) fn load(folder: &Path) -> Result<SymbolStream, DataError> {
    let path = folder.join("msnbc_sequences.txt.gz");
    let stream = sessions::read("msnbc_spmf", &path, 17, "a category: 1 to 17")?;
    Ok(stream.standing_in_for("the sequence-privacy paper's Kosarak stream: 17 categories of pages of another site"))
}
