//! `kosarak`: clicks of readers of a Hungarian news portal, from the FIMI repository (F. Bodon).
//!
//! The folder holds `kosarak_first100000.txt.gz`, the first 100,000 of 990,002 sessions, or the whole download, `kosarak.dat`
//! or `kosarak.dat.gz`: a line for each user, with the numbers of the pages in the order of the clicks.
//!
//! The domain is the numbers 1 to 41,270, as in the sequence-privacy paper, which releases 1000 users chosen at random and
//! measures the absolute difference of the numbers, though they are names: so here the symbols lie on a line.

use std::path::Path;

use super::{DataError, sessions};
use crate::stream::SymbolStream;

pub(super) fn load(folder: &Path) -> Result<SymbolStream, DataError> {
    let excerpt = folder.join("kosarak_first100000.txt.gz");
    let whole = ["kosarak.dat", "kosarak.dat.gz"].map(|file| folder.join(file));
    let found = whole.into_iter().find(|path| path.is_file());
    let is_excerpt = found.is_none();
    let stream = sessions::read("kosarak", &found.unwrap_or(excerpt), 41_270, "the number of a page: 1 to 41270")?;
    if !is_excerpt {
        return Ok(stream);
    }
    Ok(stream.standing_in_for("the whole Kosarak log (990,002 users): the first 100,000 users"))
}
