//! `track`: as `lpu`, with a filter over the reports of all timestamps.
//!
//! At every timestamp another `1/w` of the population reports with the whole budget. A [`DeviationFilter`] estimates
//! the frequencies from these observations.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use crate::estimate::deviation_filter::DeviationFilter;
use crate::estimate::model_bank::{ConstantPrior, Estimates};
use crate::estimate::simplex::shift_and_project;
use crate::local::adaptive::done;
use crate::local::division::{Answer, Division};
use crate::local::{LocalError, LocalSettings, Step};
use crate::release::{Freshness, Histogram};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Track {
    /// Version of the saved form.
    version: u16,
    division: Division,
    share: u64,
    /// Filter of the deviations from equal frequencies; none until the first answer.
    filter: Option<DeviationFilter>,
    /// Timestamp of the last answer.
    observed: Option<u64>,
    asked: Option<Asked>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    timestamp: u64,
    cohort: Cohort,
    spent: Epsilon,
}

const VERSION: u16 = 6;

impl Track {
    pub(super) fn new(settings: &LocalSettings) -> Result<Self, LocalError> {
        let division = Division::of_population(settings, 1)?;
        let share = division.share(settings, 1)?;
        Ok(Self { version: VERSION, division, share, filter: None, observed: None, asked: None })
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        let profile_fits = self.filter.as_ref().is_none_or(|filter| filter.fits(settings.domain as usize));
        self.version == VERSION
            && profile_fits
            && self.filter.is_some() == self.observed.is_some()
            && self.division.fits(settings)
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
        let gap = self.observed.map_or(0, |observed| timestamp - observed);
        let answer = answers.first().and_then(Option::as_ref).map(|estimate| Answer::new(estimate, cohort.share()));
        let (gap, freshness, reports) = match &answer {
            Some(answer) => {
                self.observe(gap, answer);
                self.observed = Some(timestamp);
                (0, Freshness::Fresh, answer.reports)
            }
            None => (gap, Freshness::Approximated, 0),
        };
        Ok(done(timestamp, self.histogram(gap, settings), freshness, spent, reports))
    }

    #[allow(clippy::cast_precision_loss)] // the size of a domain
    fn observe(&mut self, gap: u64, answer: &Answer<'_>) {
        let frequencies = answer.frequencies;
        let values = frequencies.len() as f64;
        // Frequencies sum to one, so observations are shifted to do so.
        let mean = frequencies.iter().sum::<f64>() / values;
        let deviations: Vec<f64> = frequencies.iter().map(|frequency| frequency - mean).collect();
        let variance = frequencies.iter().map(|frequency| answer.variance_at(*frequency)).sum::<f64>() / values;
        // Squared frequencies sum to at most one.
        let begin = || DeviationFilter::new(deviations.len(), variance, 1.0, ConstantPrior::Possible);
        let filter = self.filter.get_or_insert_with(begin);
        filter.observe(gap, &deviations, variance);
    }

    /// Histogram `gap` timestamps after the last answer.
    fn histogram(&self, gap: u64, settings: &LocalSettings) -> Histogram {
        let even = f64::from(settings.domain).recip();
        let Some(filter) = &self.filter else {
            // Nothing is known: equal frequencies, with the largest possible variance.
            let domain = settings.domain as usize;
            return Histogram { frequencies: vec![even; domain], variances: vec![even * (1.0 - even); domain] };
        };
        let Estimates { mut means, variances } = filter.estimate(gap);
        means.iter_mut().for_each(|mean| *mean += even);
        shift_and_project(&mut means, &variances, 1.0);
        Histogram { frequencies: means, variances }
    }
}
