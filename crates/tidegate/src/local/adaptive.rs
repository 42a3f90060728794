//! Common part of the four data-adaptive mechanisms: measure the change, then publish or repeat.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::{Cohort, Epsilon};

use crate::local::division::{Answer, Division, Prospect};
use crate::local::{LocalError, LocalSettings, Step};
use crate::policy::{Policy, Proposal};
use crate::release::why::{Measure, Paid, Purpose, Reason, Why};
use crate::release::{Freshness, Histogram, Release, Spent, Statistic, UNSTATED};

/// A first question with a fixed share measures the dissimilarity to the last release. If it exceeds the error of
/// publishing with the proposed amount, a second question publishes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Adaptive {
    division: Division,
    /// Spend of the dissimilarity question.
    share: u64,
    policy: Policy,
    /// Estimated number of users.
    users: f64,
    last: Histogram,
    phase: Phase,
}

#[derive(Debug, Serialize, Deserialize)]
enum Phase {
    Idle,
    Comparing {
        timestamp: u64,
        cohort: Cohort,
        spent: Epsilon,
    },
    Publishing {
        timestamp: u64,
        cohort: Cohort,
        spent: Epsilon,
        reports: u64,
        first_look: Histogram,
        drift: f64,
    },
    /// The same, with what was compared. Earlier versions saved it without.
    Decided {
        publishing: Box<Self>,
        dissimilarity: f64,
        error: f64,
    },
}

impl Phase {
    fn fits(&self, estimates: u32) -> bool {
        match self {
            Self::Idle | Self::Comparing { .. } => true,
            Self::Publishing { first_look, .. } => first_look.fits(estimates),
            Self::Decided { publishing, .. } => {
                matches!(**publishing, Self::Publishing { .. }) && publishing.fits(estimates)
            }
        }
    }
}

impl Adaptive {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn new(division: Division, share: u64, policy: Policy, settings: &LocalSettings) -> Self {
        let (users, last) = (settings.population.get() as f64, settings.unknown());
        Self { division, share, policy, users, last, phase: Phase::Idle }
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        self.last.fits(settings.estimates()) && self.phase.fits(settings.estimates()) && self.division.fits(settings)
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        let question = self.division.ask(timestamp, 0, self.share, settings)?;
        self.phase = Phase::Comparing { timestamp, cohort: question.cohort, spent: question.epsilon };
        Ok(Step::Ask(vec![question]))
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let estimate = answers.first().and_then(Option::as_ref);
        let (phase, compared) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Decided { publishing, dissimilarity, error } => (*publishing, Some((dissimilarity, error))),
            phase => (phase, None),
        };
        match phase {
            Phase::Idle | Phase::Decided { .. } => Err(LocalError::Unasked),
            Phase::Comparing { timestamp, cohort, spent } => {
                let answer = estimate.map(|estimate| Answer::new(estimate, cohort.share()));
                self.compare(timestamp, cohort, answer, spent, settings)
            }
            Phase::Publishing { timestamp, cohort, spent, reports, first_look, drift } => {
                let answer = estimate.map(|estimate| Answer::new(estimate, cohort.share()));
                let own_reports = answer.as_ref().map_or(0, |answer| answer.reports);
                let measured = self.division.asked(Purpose::Measure, self.share, reports, settings);
                // Budget division spends on both questions; population division asks others.
                let epsilon = match &self.division {
                    Division::Budget(_) => {
                        Epsilon::from_units(spent.units().saturating_sub(measured.epsilon.units())).unwrap_or(spent)
                    }
                    Division::Population(_) => spent,
                };
                let oracle = settings.oracle_for(settings.domain, epsilon);
                let published = Paid::of_devices(Purpose::Publish, cohort, epsilon, oracle, own_reports);
                let reason = if answer.is_some() { Reason::Changed } else { Reason::NoReports };
                let (dissimilarity, error) = compared.unzip();
                let why = Why::new(reason).asked(vec![measured, published]);
                let why = why.compared(Measure::MeanSquare, dissimilarity, error);
                let (histogram, freshness) = match answer {
                    None => (self.drifted(drift), Freshness::Approximated),
                    Some(answer) => {
                        self.users = answer.users;
                        self.last = histogram_of(&answer, settings.reuse.then_some(&first_look));
                        (self.last.clone(), Freshness::Fresh)
                    }
                };
                Ok(done(timestamp, histogram, freshness, spent, reports + own_reports, why))
            }
        }
    }

    /// Decides whether to publish, given the dissimilarity.
    fn compare(
        &mut self,
        timestamp: u64,
        cohort: Cohort,
        answer: Option<Answer<'_>>,
        spent: Epsilon,
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let reports = answer.as_ref().map_or(0, |answer| answer.reports);
        let dissimilarity = answer.as_ref().and_then(|answer| answer.dissimilarity(&self.last.frequencies));
        let drift = match (&answer, dissimilarity) {
            (Some(answer), Some(dissimilarity)) => {
                self.last.drift(dissimilarity) + answer.dissimilarity_margin(dissimilarity)
            }
            _ => UNSTATED,
        };
        let proposal = self.policy.propose(timestamp);
        let oracle = settings.oracle_for(settings.domain, spent);
        let asked = vec![Paid::of_devices(Purpose::Measure, cohort, spent, oracle, reports)];
        let why =
            |reason, error| Why::new(reason).asked(asked.clone()).compared(Measure::MeanSquare, dissimilarity, error);
        let (Proposal::Spend(amount), Some(answer), Some(dissimilarity)) = (proposal, answer, dissimilarity) else {
            let (freshness, reason) = match proposal {
                Proposal::Nullify => (Freshness::Nullified, Reason::Absorbed),
                Proposal::Spend(_) => (Freshness::Approximated, Reason::NoReports),
            };
            return Ok(done(timestamp, self.drifted(drift), freshness, spent, reports, why(reason, None)));
        };
        self.users = answer.users;
        let (mean, scatter) = (answer.mean(), answer.scatter());
        let prospect = Prospect { cells: settings.domain, part: 1.0, users: self.users, scatter, mean };
        let error = self.division.expected_error(amount, &prospect, settings);
        if amount == 0 || dissimilarity <= error {
            let reason = if amount == 0 { Reason::NoBudget } else { Reason::Unchanged };
            let why = why(reason, Some(error));
            return Ok(done(timestamp, self.drifted(drift), Freshness::Approximated, spent, reports, why));
        }
        let question = self.division.ask(timestamp, 1, amount, settings)?;
        self.policy.note_spend(timestamp, amount);
        let spent = self.division.spent_on_both(spent, question.epsilon, settings);
        let first_look = histogram_of(&answer, None);
        let cohort = question.cohort;
        let publishing = Box::new(Phase::Publishing { timestamp, cohort, spent, reports, first_look, drift });
        self.phase = Phase::Decided { publishing, dissimilarity, error };
        Ok(Step::Ask(vec![question]))
    }

    /// Last release, with its error increased by the change since.
    fn drifted(&self, drift: f64) -> Histogram {
        let variances = self.last.variances.iter().map(|variance| variance + drift).collect();
        Histogram { frequencies: self.last.frequencies.clone(), variances }
    }
}

/// Histogram of an answer, averaged by inverse variance with an independent one of the same timestamp.
pub(super) fn histogram_of(answer: &Answer<'_>, other: Option<&Histogram>) -> Histogram {
    let variances: Vec<f64> = answer.frequencies.iter().map(|frequency| answer.variance_at(*frequency)).collect();
    let Some(other) = other else {
        return Histogram { frequencies: answer.frequencies.to_vec(), variances };
    };
    // Weights are equal for all values: variances estimated from each frequency would bias the mean towards low ones.
    let (own, others): (f64, f64) = (variances.iter().sum(), other.variances.iter().sum());
    let weight = others / (own + others);
    let mix = |a: f64, b: f64| weight * a + (1.0 - weight) * b;
    let mix_variance = |a: f64, b: f64| weight * weight * a + (1.0 - weight) * (1.0 - weight) * b;
    Histogram {
        frequencies: answer.frequencies.iter().zip(&other.frequencies).map(|(a, b)| mix(*a, *b)).collect(),
        variances: variances.iter().zip(&other.variances).map(|(a, b)| mix_variance(*a, *b)).collect(),
    }
}

/// Ends a timestamp with a question; each user who was asked has spent `spent`.
pub(super) fn done(
    timestamp: u64,
    statistic: impl Into<Statistic>,
    freshness: Freshness,
    spent: Epsilon,
    reports: u64,
    why: Why,
) -> Step {
    let statistic = statistic.into();
    let spent = Spent::Everyone(spent);
    let why = Some(Box::new(why));
    Step::Done(Release { timestamp, statistic, freshness, spent, reports, seeded: false, why })
}
