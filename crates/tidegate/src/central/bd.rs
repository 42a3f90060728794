//! `bd`: budget distribution.
//!
//! Half of the budget measures, `epsilon / (2w)` at each timestamp, how far the stream has moved from the last release.
//! Of the other half, a publication takes half of what the window has left.

use crate::central::adaptive::Adaptive;
use crate::central::{CentralError, Settings};
use crate::policy::Policy;

/// The mechanism, before its first timestamp.
pub(super) fn new(settings: &Settings) -> Result<Adaptive, CentralError> {
    let pool = settings.epsilon.units() / 2;
    Ok(Adaptive::new(settings, settings.share(2)?, Policy::distribution(pool, settings.window.get())))
}
