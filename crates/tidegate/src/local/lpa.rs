//! `lpa`: population absorption.
//!
//! As [`lba`](crate::local::lba), but what is divided is the population: each user who is asked spends the whole budget,
//! and is not asked again within the window.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;

use crate::local::adaptive::Adaptive;
use crate::local::division::Division;
use crate::local::policy::Policy;
use crate::local::{LocalError, Settings, Step};

/// LDP population absorption.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lpa(Adaptive);

impl Lpa {
    pub(super) fn new(settings: &Settings) -> Result<Self, LocalError> {
        let division = Division::of_population(settings, 2)?;
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
