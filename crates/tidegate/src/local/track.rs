//! `track`: as `lpu`, with an estimate from the reports of all timestamps.
//!
//! At every timestamp another part of the population, `1/w` of it, reports with the whole budget. What comes back is an
//! observation of frequencies that move, with noise of known variance; a [`DeviationFilter`] follows them.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use crate::estimate::deviation_filter::DeviationFilter;
use crate::estimate::model_bank::{ConstantPrior, Estimates};
use crate::estimate::simplex::shift_and_project;
use crate::local::adaptive::done;
use crate::local::division::{Answer, Division};
use crate::local::{LocalError, Settings, Step};
use crate::release::{Freshness, Histogram};

/// The mechanism.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Track {
    /// Of the form in which it is saved.
    version: u16,
    division: Division,
    share: u64,
    /// Follows how far each frequency is from the even one; nothing until the first answer.
    profile: Option<DeviationFilter>,
    /// When the last answer came.
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
    pub(super) fn new(settings: &Settings) -> Result<Self, LocalError> {
        let division = Division::of_population(settings, 1)?;
        let share = division.share(settings, 1)?;
        Ok(Self { version: VERSION, division, share, profile: None, observed: None, asked: None })
    }

    /// What questions are paid from.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    /// Whether a state that was loaded is one of these settings.
    pub(super) fn fits(&self, settings: &Settings) -> bool {
        let profile_fits = self.profile.as_ref().is_none_or(|profile| profile.fits(settings.domain as usize));
        self.version == VERSION
            && profile_fits
            && self.profile.is_some() == self.observed.is_some()
            && self.division.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &Settings) -> Result<Step, LocalError> {
        let question = self.division.ask(timestamp, 0, self.share, settings)?;
        self.asked = Some(Asked { timestamp, cohort: question.cohort, spent: question.epsilon });
        Ok(Step::Ask(vec![question]))
    }

    pub(super) fn answer(&mut self, answers: &[Option<Estimate>], settings: &Settings) -> Result<Step, LocalError> {
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
        // They sum to one, which the observations are made to as well.
        let mean = frequencies.iter().sum::<f64>() / values;
        let deviations: Vec<f64> = frequencies.iter().map(|frequency| frequency - mean).collect();
        let variance = frequencies.iter().map(|frequency| answer.variance_at(*frequency)).sum::<f64>() / values;
        // The squares of frequencies sum to one at most.
        let begin = || DeviationFilter::new(deviations.len(), variance, 1.0, ConstantPrior::Possible);
        let profile = self.profile.get_or_insert_with(begin);
        profile.observe(gap, &deviations, variance);
    }

    /// What is believed so many timestamps after the last answer.
    fn histogram(&self, gap: u64, settings: &Settings) -> Histogram {
        let even = f64::from(settings.domain).recip();
        let Some(profile) = &self.profile else {
            // Nothing is known: the even frequencies, with the variance of those that are as uneven as can be.
            let domain = settings.domain as usize;
            return Histogram { frequencies: vec![even; domain], variances: vec![even * (1.0 - even); domain] };
        };
        let Estimates { mut means, variances } = profile.estimate(gap);
        means.iter_mut().for_each(|mean| *mean += even);
        shift_and_project(&mut means, &variances, 1.0);
        Histogram { frequencies: means, variances }
    }
}
