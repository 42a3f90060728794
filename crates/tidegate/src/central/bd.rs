//! `bd`: budget distribution (Kellaris et al. 2014).
//!
//! Half of the budget measures the distance to the last release, with `epsilon / (2w)` at each timestamp. A publication
//! takes half of what the window has left of the other half.
//!
//! Source: Kellaris, Papadopoulos, Xiao and Papadias: Differentially Private Event Sequences over Infinite Streams,
//! PVLDB 7(12), 2014, doi:10.14778/2732977.2732989, Budget Distribution.

use crate::central::adaptive::Adaptive;
use crate::central::{CentralError, CentralSettings};
use crate::policy::Policy;

/// Budget Distribution of Kellaris et al. 2014, [in full above](self).
pub(super) fn new(settings: &CentralSettings) -> Result<Adaptive, CentralError> {
    let pool = settings.epsilon.units() / 2;
    Ok(Adaptive::new(settings, settings.share(2)?, Policy::distribution(pool, settings.window.get())))
}
