//! `lpu`: uniform population division.
//!
//! At every timestamp another part of the population, `1/w` of it, reports with the whole budget.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, section 6.1 (LPU).

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, LocalSettings};

/// Section 6.1 (LPU) of Ren et al. 2022, [in full above](self).
pub(super) fn new(settings: &LocalSettings) -> Result<Uniform, LocalError> {
    let division = Division::of_population(settings, 1)?;
    let share = division.share(settings, 1)?;
    Ok(Uniform::new(division, share, settings))
}
