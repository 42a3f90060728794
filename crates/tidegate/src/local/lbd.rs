//! `lbd`: budget distribution (Ren et al. 2022).
//!
//! Half of the budget measures the change, with `epsilon / (2w)` at each timestamp. Each publication takes half of what
//! the window has left of the other half, so publications in quick succession get less and less.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, Algorithm 1 (LBD).

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, LocalSettings};
use crate::policy::Policy;

/// Algorithm 1 (LBD) of Ren et al. 2022, [in full above](self).
pub(super) fn new(settings: &LocalSettings) -> Result<Adaptive, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 2)?;
    let policy = Policy::distribution(division.total() / 2, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
