//! `lsp`: sampling.
//!
//! At one timestamp of each window everyone reports with the whole budget; until the next one the release is repeated,
//! with the drift from one sample to the next in its variances.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;

use crate::local::division::Division;
use crate::local::uniform::Uniform;
use crate::local::{LocalError, LocalSettings, Step};
use crate::release::{Release, Statistic};
use crate::sampling::Samples;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lsp {
    uniform: Uniform,
    samples: Samples,
}

impl Lsp {
    pub(super) fn new(settings: &LocalSettings) -> Result<Self, LocalError> {
        let division = Division::of_budget(settings);
        let whole = division.total();
        Ok(Self { uniform: Uniform::new(division, whole, settings), samples: Samples::None })
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        self.uniform.account()
    }

    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        self.uniform.fits(settings) && self.samples.fits(settings.domain)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        if self.samples.last().is_some_and(|last| timestamp.saturating_sub(last) < settings.window.get()) {
            return Ok(self.drifted(self.uniform.repeat(timestamp)));
        }
        let step = self.uniform.open(timestamp, settings)?;
        self.samples.sampled(timestamp);
        Ok(step)
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let before = self.uniform.last().clone();
        let step = self.uniform.answer(answers, settings)?;
        if !answers.first().is_some_and(Option::is_some) {
            return Ok(self.drifted(step));
        }
        // Before the first answer there is nothing to compare with.
        if before.frequencies.iter().any(|frequency| *frequency != 0.0) {
            let after = self.uniform.last();
            let before = (before.frequencies.as_slice(), before.variances.as_slice());
            self.samples.note_change(before, (&after.frequencies, &after.variances));
        }
        Ok(step)
    }

    /// A repeated release, with the drift since the last sample. A frequency is between zero and one.
    fn drifted(&self, mut step: Step) -> Step {
        if let Step::Done(Release { statistic: Statistic::Histogram(histogram), .. }) = &mut step {
            self.samples.add_drift(&mut histogram.variances, 1.0);
        }
        step
    }
}
