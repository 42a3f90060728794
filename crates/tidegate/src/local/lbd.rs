//! `lbd`: budget distribution (Ren et al. 2022).
//!
//! Half of the budget measures the change, with `epsilon / (2w)` at each timestamp. Each publication takes half of what
//! the window has left of the other half, so publications in quick succession get less and less.

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, LocalSettings};
use crate::policy::Policy;

pub(super) fn new(settings: &LocalSettings) -> Result<Adaptive, LocalError> {
    let division = Division::of_budget(settings);
    let share = division.share(settings, 2)?;
    let policy = Policy::distribution(division.total() / 2, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
