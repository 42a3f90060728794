//! `ba`: budget absorption (Kellaris et al. 2014).
//!
//! Half of the budget measures the distance to the last release, with `epsilon / (2w)` at each timestamp. Of the other
//! half, each timestamp owns a share of `epsilon / (2w)`. A publication takes the shares of skipped timestamps, and as
//! many timestamps after it are skipped.
//!
//! Source: Kellaris, Papadopoulos, Xiao and Papadias: Differentially Private Event Sequences over Infinite Streams,
//! PVLDB 7(12), 2014, doi:10.14778/2732977.2732989, Budget Absorption.

use crate::central::adaptive::Adaptive;
use crate::central::{CentralError, CentralSettings};
use crate::policy::Policy;

/// Budget Absorption of Kellaris et al. 2014, [in full above](self).
pub(super) fn new(settings: &CentralSettings) -> Result<Adaptive, CentralError> {
    let share = settings.share(2)?;
    Ok(Adaptive::new(settings, share, Policy::absorption(share.units(), settings.window.get())))
}
