//! `kosarak`: clicks of readers of a Hungarian news portal, from the FIMI repository (F. Bodon).
//!
//! The folder holds `kosarak_first100000.txt.gz`, the first 100,000 of 990,002 sessions, or the whole download,
//! `kosarak.dat` or `kosarak.dat.gz`: a line for each user, with the numbers of the pages in the order of the clicks.
//!
//! The domain is the numbers 1 to 41,270, as in the sequence-privacy paper, which releases 1000 users chosen at random
//! and measures the absolute difference of the numbers, though they are names: so here the symbols lie on a line.

use std::path::Path;

use super::files::first_of;
use super::{DatasetError, sessions};
use crate::stream::SymbolStream;

pub(super) const STANDS_IN_FOR: &str = "the whole Kosarak log (990,002 users): the first 100,000 users; the whole \
                                        download is used where the folder holds it";

pub(super) fn load(folder: &Path) -> Result<SymbolStream, DatasetError> {
    let read = |path: &Path| sessions::read("kosarak", path, 41_270, "the number of a page: 1 to 41270");
    if let Some(whole) = first_of(folder, &["kosarak.dat", "kosarak.dat.gz"]) {
        return read(&whole);
    }
    Ok(read(&folder.join("kosarak_first100000.txt.gz"))?.standing_in_for(STANDS_IN_FOR))
}
