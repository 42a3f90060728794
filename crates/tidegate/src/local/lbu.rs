//! `lbu`: uniform budget division, the baseline.
//!
//! At every timestamp everyone reports with `epsilon / w`.

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, LocalSettings};

pub(super) fn new(settings: &LocalSettings) -> Result<Uniform, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 1)?;
    Ok(Uniform::new(division, share, settings))
}
