//! `ba`: budget absorption.
//!
//! Half of the budget measures, `epsilon / (2w)` at each timestamp, how far the stream has moved from the last release;
//! of the other half, each timestamp owns a share of `epsilon / (2w)`. A publication takes the shares of the timestamps
//! skipped before it, and as many timestamps after it are skipped to pay them back.

use crate::central::adaptive::Adaptive;
use crate::central::{CentralError, Settings};
use crate::policy::Policy;

/// The mechanism, before its first timestamp.
pub(super) fn new(settings: &Settings) -> Result<Adaptive, CentralError> {
    let share = settings.share(2)?;
    Ok(Adaptive::new(settings, share, Policy::absorption(share.units(), settings.window.get())))
}
