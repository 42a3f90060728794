//! `bd`: budget distribution (Kellaris et al. 2014).
//!
//! Half of the budget measures the distance to the last release, with `epsilon / (2w)` at each timestamp. A publication
//! takes half of what the window has left of the other half.

use crate::central::adaptive::Adaptive;
use crate::central::{CentralError, CentralSettings};
use crate::policy::Policy;

pub(super) fn new(settings: &CentralSettings) -> Result<Adaptive, CentralError> {
    let pool = settings.epsilon.units() / 2;
    Ok(Adaptive::new(settings, settings.share(2)?, Policy::distribution(pool, settings.window.get())))
}
