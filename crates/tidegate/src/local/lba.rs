//! `lba`: budget absorption.
//!
//! Half of the budget measures, `epsilon / (2w)` at each timestamp, how much has changed; of the other half, each
//! timestamp owns a share of `epsilon / (2w)`. A publication takes the shares of the timestamps skipped before it, and as many
//! timestamps after it are skipped to pay them back.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::policy::Policy;
use crate::local::{LocalError, Settings, Step};

/// LDP budget absorption.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lba(Adaptive);

impl Lba {
    pub(super) fn new(settings: &Settings) -> Result<Self, LocalError> {
        let division = Division::of_budget(settings);
        let share = division.share(settings, 2)?;
        let policy = Policy::absorption(share, settings.window.get());
        Ok(Self(Adaptive::new(division, share, policy, settings)))
    }

    pub(super) fn fits(&self, settings: &Settings) -> bool {
        self.0.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &Settings) -> Result<Step, LocalError> {
        self.0.open(timestamp, settings)
    }

    pub(super) fn answer(&mut self, answers: &[Option<Estimate>], settings: &Settings) -> Result<Step, LocalError> {
        self.0.answer(answers, settings)
    }
}
