//! `lbd`: budget distribution.
//!
//! Half of the budget measures, `epsilon / (2w)` at each timestamp, how much has changed; of the other half, each
//! publication takes half of what the window has left. So publications that follow each other closely get less and
//! less.

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, Settings};
use crate::policy::Policy;

/// The mechanism, before its first timestamp.
pub(super) fn new(settings: &Settings) -> Result<Adaptive, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 2)?;
    let policy = Policy::distribution(division.total() / 2, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
