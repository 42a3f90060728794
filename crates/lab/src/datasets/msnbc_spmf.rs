//! `msnbc_spmf`: visits to categories of pages of msnbc.com, one day of 1999.
//!
//! The folder holds `msnbc_sequences.txt.gz`, after the SPMF library's excerpt of the UCI data: a line for each of
//! 31,790 users, with 9 to 100 categories, 1 to 17, in the order of the visits. Where it holds the UCI data themselves,
//! `msnbc990928.seq` or `.seq.gz` (989,818 users; a few lines about the categories end in `% Sequences:`), those are
//! used.
//!
//! The categories are names; as with `kosarak`, they lie on a line, so that distances are those of their numbers.

use std::path::Path;

use super::files::first_of;
use super::{DatasetError, sessions};
use crate::stream::SymbolStream;

pub(super) const STANDS_IN_FOR: &str = "the sequence-privacy paper's Kosarak stream: 17 categories of pages of \
                                        another site, an excerpt unless the folder holds all";

pub(super) fn load(folder: &Path) -> Result<SymbolStream, DatasetError> {
    let expected = "a category: 1 to 17";
    let stream = match first_of(folder, &["msnbc990928.seq", "msnbc990928.seq.gz"]) {
        Some(whole) => sessions::read_after("% Sequences:", "msnbc_spmf", &whole, 17, expected)?,
        None => sessions::read("msnbc_spmf", &folder.join("msnbc_sequences.txt.gz"), 17, expected)?,
    };
    Ok(stream.standing_in_for(STANDS_IN_FOR))
}
