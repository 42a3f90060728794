//! `lpd`: population distribution.
//!
//! As [`lbd`](crate::local::lbd), but what is divided is the population: each user who is asked spends the whole
//! budget, and is not asked again within the window.

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::{LocalError, Settings};
use crate::policy::Policy;

/// The mechanism, before its first timestamp.
pub(super) fn new(settings: &Settings) -> Result<Adaptive, LocalError> {
    let division = Division::of_population(settings, 2)?;
    let share = division.share(settings, 2)?;
    let policy = Policy::distribution(division.total() / 2, settings.window.get());
    Ok(Adaptive::new(division, share, policy, settings))
}
