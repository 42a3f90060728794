//! `lsp`: sampling.
//!
//! At one timestamp of each window everyone reports with the whole budget; until the next one the release is repeated,
//! with an unknown error.
//!
//! Source: Ren, Shi, Yu, Yang, Zhao and Xu: LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD
//! 2022, doi:10.1145/3514221.3526190, section 5.2.2 (LSP).

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, LocalSettings, Step};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lsp {
    uniform: Uniform,
    last_sampled: Option<u64>,
}

impl Lsp {
    /// Section 5.2.2 (LSP) of Ren et al. 2022, [in full above](self).
    pub(super) fn new(settings: &LocalSettings) -> Result<Self, LocalError> {
        let division = Division::of_budget(settings);
        let whole = division.total();
        Ok(Self { uniform: Uniform::new(division, whole, settings), last_sampled: None })
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        self.uniform.account()
    }

    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        self.uniform.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        if self.last_sampled.is_some_and(|last| timestamp.saturating_sub(last) < settings.window.get()) {
            return Ok(self.uniform.repeat(timestamp, settings));
        }
        let step = self.uniform.open(timestamp, settings)?;
        self.last_sampled = Some(timestamp);
        Ok(step)
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        self.uniform.answer(answers, settings)
    }
}
