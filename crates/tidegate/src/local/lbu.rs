//! `lbu`: uniform budget division.
//!
//! At every timestamp everyone reports with `epsilon / w`. The yardstick for the others.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, Settings, Step};

/// LDP budget-uniform.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lbu(Uniform);

impl Lbu {
    pub(super) fn new(settings: &Settings) -> Result<Self, LocalError> {
        let division = Division::of_budget(settings);
        let share = division.share(settings, 1)?;
        Ok(Self(Uniform::new(division, share, settings)))
    }

    pub(super) fn fits(&self, settings: &Settings) -> bool {
        self.0.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &Settings) -> Result<Step, LocalError> {
        self.0.open(timestamp, settings)
    }

    pub(super) fn answer(&mut self, answers: &[Option<Estimate>], _settings: &Settings) -> Result<Step, LocalError> {
        self.0.answer(answers)
    }
}
