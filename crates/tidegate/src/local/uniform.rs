//! Common part of the mechanisms that ask one question with a fixed share.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use crate::local::adaptive::{done, histogram_of};
use crate::local::division::{Answer, Division};
use crate::local::{LocalError, LocalSettings, Step};
use crate::release::why::{Paid, Purpose, Reason, Why};
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
        Self { division, share, last: settings.unknown(), asked: None }
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        self.last.fits(settings.estimates()) && self.division.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        let question = self.division.ask(timestamp, 0, self.share, settings)?;
        self.asked = Some(Asked { timestamp, cohort: question.cohort, spent: question.epsilon });
        Ok(Step::Ask(vec![question]))
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let Asked { timestamp, cohort, spent } = self.asked.take().ok_or(LocalError::Unasked)?;
        let why = |schedule: Why, reports| {
            let oracle = settings.oracle_for(settings.domain, spent);
            schedule.asked(vec![Paid::of_devices(Purpose::Publish, cohort, spent, oracle, reports)])
        };
        let every = self.every(settings);
        let Some(estimate) = answers.first().and_then(Option::as_ref) else {
            let why = why(Why { every: Some(every), ..Why::new(Reason::NoReports) }, 0);
            return Ok(done(timestamp, self.last.unstated(), Freshness::Approximated, spent, 0, why));
        };
        let answer = Answer::new(estimate, cohort.share());
        self.last = histogram_of(&answer, None);
        let why = why(Why::schedule(true, every), answer.reports);
        Ok(done(timestamp, self.last.clone(), Freshness::Fresh, spent, answer.reports, why))
    }

    /// Once in how many timestamps it asks: in each, or once in a window with all that there is.
    fn every(&self, settings: &LocalSettings) -> u64 {
        if self.share == self.division.total() { settings.window.get() } else { 1 }
    }

    /// Repeats the last release. Nobody is asked how far the stream has moved since, so the error is not known.
    pub(super) fn repeat(&self, timestamp: u64, settings: &LocalSettings) -> Step {
        let statistic = Statistic::Histogram(self.last.unstated());
        let freshness = Freshness::Approximated;
        let why = Some(Box::new(Why::schedule(false, self.every(settings))));
        Step::Done(Release { timestamp, statistic, freshness, spent: Spent::Nothing, reports: 0, seeded: false, why })
    }
}
