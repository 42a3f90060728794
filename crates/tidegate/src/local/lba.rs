//! `lba`: budget absorption (Ren et al. 2022).
//!
//! Half of the budget measures the change, with `epsilon / (2w)` at each timestamp. Of the other half, each timestamp
//! owns a share of `epsilon / (2w)`. A publication takes the shares of skipped timestamps, and as many timestamps after
//! it are skipped.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, Algorithm 2 (LBA).

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, LocalSettings};
use crate::policy::Policy;

/// Algorithm 2 (LBA) of Ren et al. 2022, [in full above](self).
pub(super) fn new(settings: &LocalSettings) -> Result<Adaptive, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 2)?;
    let policy = Policy::absorption(share, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
