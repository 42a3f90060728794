//! `track`: as `lpu`, with a filter over the reports of all timestamps.
//!
//! At every timestamp another `1/w` of the population reports with the whole budget. An [`Estimator`] follows the
//! frequencies from these observations. A release stays within seven deviations of what was just reported.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use crate::estimate::simplex::project;
use crate::estimate::{Estimator, Noise, Periods, Prior};
use crate::local::adaptive::done;
use crate::local::division::{Answer, Division};
use crate::local::{LocalError, LocalSettings, Step};
use crate::release::why::{Paid, Purpose, Reason, Why};
use crate::release::{Freshness, Histogram};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Track {
    /// Version of the saved form.
    version: u16,
    division: Division,
    share: u64,
    periods: Periods,
    /// Estimator of the frequencies, from the first answer on.
    estimator: Option<Estimator>,
    /// Greatest change of a released frequency in a timestamp, and the last answer's timestamp and release.
    fastest: f64,
    last: Option<(u64, Vec<f64>)>,
    asked: Option<Asked>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    timestamp: u64,
    cohort: Cohort,
    spent: Epsilon,
}

const VERSION: u16 = 8;

/// Greatest distance of a released frequency from the reported one, in standard deviations, before both are projected
/// onto the simplex. Derived: normal noise is farther out with a probability of 1e-12.
const ENVELOPE: f64 = 7.0;

impl Track {
    pub(super) fn new(settings: &LocalSettings) -> Result<Self, LocalError> {
        let division = Division::of_population(settings, 1)?;
        let share = division.share(settings, 1)?;
        Ok(Self {
            version: VERSION,
            division,
            share,
            periods: settings.periods,
            estimator: None,
            fastest: 0.0,
            last: None,
            asked: None,
        })
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    pub(super) const fn periods(&self) -> Periods {
        self.periods
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        let Self { version, division, share: _, periods, estimator, fastest, last, asked: _ } = self;
        let domain = settings.domain as usize;
        let released = |(_, frequencies): &(u64, Vec<f64>)| {
            frequencies.len() == domain && frequencies.iter().all(|frequency| (0.0..=1.0).contains(frequency))
        };
        *version == VERSION
            && estimator.as_ref().is_none_or(|estimator| estimator.fits(domain, periods.as_slice()))
            && estimator.is_some() == last.is_some()
            && (0.0..=1.0).contains(fastest)
            && last.as_ref().is_none_or(released)
            && division.fits(settings)
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
        let answer = answers.first().and_then(Option::as_ref).map(|estimate| Answer::new(estimate, cohort.share()));
        if let Some(estimator) = &mut self.estimator {
            estimator.advance(timestamp);
        }
        let (histogram, freshness, reports) = match &answer {
            Some(answer) => (self.observe(timestamp, answer), Freshness::Fresh, answer.reports),
            None => (self.forecast(timestamp, settings), Freshness::Approximated, 0),
        };
        let schedule = if answer.is_some() { Why::schedule(true, 1) } else { Why::new(Reason::Forecast) };
        let oracle = settings.oracle_for(settings.domain, spent);
        let why = schedule.asked(vec![Paid::of_devices(Purpose::Publish, cohort, spent, oracle, reports)]);
        Ok(done(timestamp, histogram, freshness, spent, reports, why))
    }

    /// Takes in an answer, and estimates the frequencies.
    #[allow(clippy::cast_precision_loss)] // the size of a domain, or a number of timestamps
    fn observe(&mut self, timestamp: u64, answer: &Answer<'_>) -> Histogram {
        let domain = answer.frequencies.len();
        let even = (domain as f64).recip();
        // Frequencies sum to one, so observations are shifted to do so.
        let shift = even - answer.frequencies.iter().sum::<f64>() * even;
        let observed: Vec<f64> = answer.frequencies.iter().map(|frequency| frequency + shift).collect();
        let variance = self.variance(answer);
        let periods = self.periods;
        let estimator = self.estimator.get_or_insert_with(|| {
            // Squares of frequencies sum to one at most.
            let wide = even * (1.0 - even);
            let prior = Prior { mean: even, variance: wide, largest_step: wide };
            let mut estimator = Estimator::new(domain, variance / 2.0, prior, periods.as_slice());
            estimator.advance(timestamp);
            estimator
        });
        estimator.observe(&observed, Noise::Normal { variance });
        let (mut means, mut variances) = estimator.stated();
        let most = ENVELOPE * variance.sqrt();
        for ((mean, variance), observed) in means.iter_mut().zip(&mut variances).zip(&observed) {
            let within = mean.clamp(observed - most, observed + most);
            *variance += (within - *mean).powi(2);
            *mean = within;
        }
        project(&mut means, &variances, 1.0);
        if let Some((at, last)) = &self.last {
            let change = means.iter().zip(last).map(|(mean, last)| (mean - last).abs()).fold(0.0, f64::max);
            self.fastest = self.fastest.max(change / timestamp.saturating_sub(*at).max(1) as f64).min(1.0);
        }
        self.last = Some((timestamp, means.iter().map(|mean| mean.min(1.0)).collect()));
        Histogram { frequencies: means, variances }
    }

    /// Variance of a reported frequency, averaged over the values. Frequencies are those of the last release, so that
    /// noise does not choose its own weight; before it, they are equal.
    #[allow(clippy::cast_precision_loss)] // the size of a domain
    fn variance(&self, answer: &Answer<'_>) -> f64 {
        let domain = answer.frequencies.len() as f64;
        match &self.last {
            Some((_, last)) => last.iter().map(|frequency| answer.variance_at(*frequency)).sum::<f64>() / domain,
            None => answer.variance_at(domain.recip()),
        }
    }

    /// Histogram without an answer: the forecast, less certain by the fastest change ever seen.
    #[allow(clippy::cast_precision_loss)] // a number of timestamps
    fn forecast(&self, timestamp: u64, settings: &LocalSettings) -> Histogram {
        let even = f64::from(settings.domain).recip();
        let (Some(estimator), Some((last, _))) = (&self.estimator, &self.last) else {
            // Nothing is known: equal frequencies, with the largest possible variance.
            let domain = settings.domain as usize;
            return Histogram { frequencies: vec![even; domain], variances: vec![even * (1.0 - even); domain] };
        };
        let (mut means, mut variances) = estimator.stated();
        let moved = self.fastest * timestamp.saturating_sub(*last) as f64;
        // A frequency has no larger variance than a half.
        variances.iter_mut().for_each(|variance| *variance = (*variance + moved * moved).min(0.25));
        project(&mut means, &variances, 1.0);
        Histogram { frequencies: means, variances }
    }
}
