//! Common part of the mechanisms that ask one question with a fixed share.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use crate::local::adaptive::{done, published};
use crate::local::division::{Answer, Division};
use crate::local::{LocalError, LocalSettings, Step};
use crate::release::{Freshness, Histogram, Release, Spent, Statistic};

/// Asks one question at a timestamp, and releases its answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Uniform {
    division: Division,
    share: u64,
    last: Histogram,
    asked: Option<Asked>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    timestamp: u64,
    cohort: Cohort,
    spent: Epsilon,
}

impl Uniform {
    pub(super) fn new(division: Division, share: u64, settings: &LocalSettings) -> Self {
        // Until something is known: zero, with the largest error.
        let domain = settings.domain as usize;
        let last = Histogram { frequencies: vec![0.0; domain], variances: vec![1.0; domain] };
        Self { division, share, last, asked: None }
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        self.last.fits(settings.domain) && self.division.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        let question = self.division.ask(timestamp, 0, self.share, settings)?;
        self.asked = Some(Asked { timestamp, cohort: question.cohort, spent: question.epsilon });
        Ok(Step::Ask(vec![question]))
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        _settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let Asked { timestamp, cohort, spent } = self.asked.take().ok_or(LocalError::Unasked)?;
        let Some(estimate) = answers.first().and_then(Option::as_ref) else {
            return Ok(done(timestamp, self.last.unstated(), Freshness::Approximated, spent, 0));
        };
        let answer = Answer::new(estimate, cohort.share());
        self.last = published(&answer, None);
        Ok(done(timestamp, self.last.clone(), Freshness::Fresh, spent, answer.reports))
    }

    /// Repeats the last release. Nobody is asked how far the stream has moved since, so the error is not known.
    pub(super) fn repeat(&self, timestamp: u64) -> Step {
        let statistic = Statistic::Histogram(self.last.unstated());
        let freshness = Freshness::Approximated;
        Step::Done(Release { timestamp, statistic, freshness, spent: Spent::Nothing, reports: 0, seeded: false })
    }
}
