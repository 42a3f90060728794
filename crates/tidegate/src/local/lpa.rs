//! `lpa`: population absorption (Ren et al. 2022).
//!
//! As [`lba`](crate::local::lba), but divides the population: each user who is asked spends the whole budget, and is
//! not asked again within the window.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, Algorithm 4 (LPA).

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, LocalSettings};
use crate::policy::Policy;

/// Algorithm 4 (LPA) of Ren et al. 2022, [in full above](self).
pub(super) fn new(settings: &LocalSettings) -> Result<Adaptive, LocalError> {
    let division = Division::of_population(settings, 2)?;
    let share = division.share(settings, 2)?;
    let policy = Policy::absorption(share, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
