//! `lba`: budget absorption (Ren et al. 2022).
//!
//! Half of the budget measures the change, with `epsilon / (2w)` at each timestamp. Of the other half, each timestamp
//! owns a share of `epsilon / (2w)`. A publication takes the shares of skipped timestamps, and as many timestamps after
//! it are skipped.

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, LocalSettings};
use crate::policy::Policy;

pub(super) fn new(settings: &LocalSettings) -> Result<Adaptive, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 2)?;
    let policy = Policy::absorption(share, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
