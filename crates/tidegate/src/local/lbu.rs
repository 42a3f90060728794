//! `lbu`: uniform budget division.
//!
//! At every timestamp everyone reports with `epsilon / w`. The yardstick for the others.

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, Settings};

/// The mechanism, before its first timestamp.
pub(super) fn new(settings: &Settings) -> Result<Uniform, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 1)?;
    Ok(Uniform::new(division, share, settings))
}
