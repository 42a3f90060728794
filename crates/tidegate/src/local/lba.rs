//! `lba`: budget absorption.
//!
//! Half of the budget measures, `epsilon / (2w)` at each timestamp, how much has changed; of the other half, each
//! timestamp owns a share of `epsilon / (2w)`. A publication takes the shares of the timestamps skipped before it, and
//! as many timestamps after it are skipped to pay them back.

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, Settings};
use crate::policy::Policy;

/// The mechanism, before its first timestamp.
pub(super) fn new(settings: &Settings) -> Result<Adaptive, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 2)?;
    let policy = Policy::absorption(share, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
