//! `lpu`: uniform population division.
//!
//! At every timestamp another part of the population, `1/w` of it, reports with the whole budget.

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, LocalSettings};

pub(super) fn new(settings: &LocalSettings) -> Result<Uniform, LocalError> {
    let division = Division::of_population(settings, 1)?;
    let share = division.share(settings, 1)?;
    Ok(Uniform::new(division, share, settings))
}
