//! `lbu`: uniform budget division, the baseline.
//!
//! At every timestamp everyone reports with `epsilon / w`.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, section 5.2.1 (LBU).

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, LocalSettings};

/// Section 5.2.1 (LBU) of Ren et al. 2022, [in full above](self).
pub(super) fn new(settings: &LocalSettings) -> Result<Uniform, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 1)?;
    Ok(Uniform::new(division, share, settings))
}
