//! `lpa`: population absorption (Ren et al. 2022).
//!
//! As [`lba`](crate::local::lba), but divides the population: each user who is asked spends the whole budget, and is
//! not asked again within the window.

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, LocalSettings};
use crate::policy::Policy;

pub(super) fn new(settings: &LocalSettings) -> Result<Adaptive, LocalError> {
    let division = Division::of_population(settings, 2)?;
    let share = division.share(settings, 2)?;
    let policy = Policy::absorption(share, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
