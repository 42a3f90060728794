//! [`Division`]: divides the budget of everyone, or the population at full budget, among the timestamps of a window.

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{Estimate, MeanError, OracleKind, Variance, mean_variance};
use tidegate_kernel::{Cohort, Epsilon, Ledger, Question, SLOTS, Window};

use crate::local::slots::Slots;
use crate::local::{LocalError, LocalSettings};
use crate::release::Spent;
use crate::release::why::{Paid, Purpose};

/// Account that pays for questions, in units of epsilon or in slots.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Division {
    Budget(Ledger),
    Population(Slots),
}

impl Division {
    pub(super) fn of_budget(settings: &LocalSettings) -> Self {
        Self::Budget(Ledger::new(settings.epsilon, Window::Timestamps(settings.window)))
    }

    /// Fails if a part `1 / (parts · window)` of the slots is less than one.
    pub(super) fn of_population(settings: &LocalSettings, parts: u64) -> Result<Self, LocalError> {
        let limit = u64::from(SLOTS) / parts;
        if settings.window.get() > limit {
            return Err(LocalError::Window { given: settings.window.get(), limit });
        }
        Ok(Self::Population(Slots::new(settings.window)))
    }

    /// Whether the account matches the budget and window of these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        match self {
            Self::Budget(ledger) => {
                ledger.budget() == settings.epsilon && ledger.window() == Window::Timestamps(settings.window)
            }
            Self::Population(slots) => slots.window() == settings.window,
        }
    }

    /// Total of a window.
    pub(super) fn total(&self) -> u64 {
        match self {
            Self::Budget(ledger) => ledger.budget().units(),
            Self::Population(_) => u64::from(SLOTS),
        }
    }

    /// Amount left at a timestamp, which never decreases.
    pub(super) fn left(&self, timestamp: u64) -> u64 {
        match self {
            Self::Budget(ledger) => ledger.remaining(timestamp).map_or(0, Epsilon::units),
            Self::Population(slots) => u64::from(slots.left(timestamp)),
        }
    }

    /// The most that any one user has been asked for in the window that ends with a timestamp. `epsilon` is what each
    /// user of a slot spends.
    pub(super) fn most_spent(&self, timestamp: u64, epsilon: Epsilon) -> Option<Epsilon> {
        match self {
            Self::Budget(_) => Epsilon::from_units(self.total() - self.left(timestamp)).ok(),
            Self::Population(_) => (self.left(timestamp) < self.total()).then_some(epsilon),
        }
    }

    /// The same share of a window for each of its timestamps, `1 / (parts · window)` of the total, rounded down.
    pub(super) fn share(&self, settings: &LocalSettings, parts: u64) -> Result<u64, LocalError> {
        let share = self.total() / settings.window.get().saturating_mul(parts);
        let error = LocalError::Epsilon { epsilon: settings.epsilon, window: settings.window.get() };
        if share == 0 { Err(error) } else { Ok(share) }
    }

    /// Pays a positive amount. Returns the cohort to ask, and the spend of each member.
    pub(super) fn pay(
        &mut self,
        timestamp: u64,
        amount: u64,
        settings: &LocalSettings,
    ) -> Result<(Cohort, Epsilon), LocalError> {
        let beyond = || LocalError::Epsilon { epsilon: settings.epsilon, window: settings.window.get() };
        match self {
            Self::Budget(ledger) => {
                let epsilon = Epsilon::from_units(amount).map_err(|_| beyond())?;
                let _asked = ledger.spend(timestamp, epsilon)?;
                Ok((Cohort::Everyone, epsilon))
            }
            Self::Population(slots) => {
                let count = u32::try_from(amount).map_err(|_| beyond())?;
                Ok((slots.hand_out(timestamp, count).ok_or_else(beyond)?, settings.epsilon))
            }
        }
    }

    /// Cohort that was asked at the latest timestamp.
    pub(super) fn spent_at(&self, timestamp: u64, epsilon: Epsilon) -> Spent {
        match self {
            Self::Budget(_) => Spent::Everyone(epsilon),
            Self::Population(slots) => match slots.handed_out_at(timestamp) {
                Some(Cohort::Slots { first, count }) => Spent::Slots { first, count, epsilon },
                Some(Cohort::Everyone) => Spent::Everyone(epsilon),
                None => Spent::Nothing,
            },
        }
    }

    /// Asks about the values, for a positive amount.
    pub(super) fn ask(
        &mut self,
        timestamp: u64,
        phase: u16,
        amount: u64,
        settings: &LocalSettings,
    ) -> Result<Question, LocalError> {
        let (cohort, epsilon) = self.pay(timestamp, amount, settings)?;
        let oracle = settings.oracle_for(settings.domain, epsilon);
        Ok(Question { timestamp, phase, cohort, epsilon, oracle, domain: settings.domain, view: settings.view() })
    }

    /// A question about the values that was paid with `amount`, for an explanation.
    pub(super) fn asked(&self, purpose: Purpose, amount: u64, reports: u64, settings: &LocalSettings) -> Paid {
        let (cohort, epsilon) = match self {
            Self::Budget(_) => (Cohort::Everyone, Epsilon::from_units(amount).unwrap_or(settings.epsilon)),
            Self::Population(_) => {
                (Cohort::Slots { first: 0, count: u32::try_from(amount).unwrap_or(SLOTS) }, settings.epsilon)
            }
        };
        Paid::of_devices(purpose, cohort, epsilon, settings.oracle_for(settings.domain, epsilon), reports)
    }

    /// Largest spend of a user after two questions: budget division asks everyone twice, population division asks
    /// different users.
    pub(super) fn spent_on_both(&self, first: Epsilon, second: Epsilon, settings: &LocalSettings) -> Epsilon {
        match self {
            Self::Budget(_) => first.checked_add(second).unwrap_or(settings.epsilon),
            Self::Population(_) => settings.epsilon,
        }
    }

    /// Expected mean variance over the cells of a question paid with `amount`: noise of the oracle and sampling of a
    /// cohort.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn expected_error(&self, amount: u64, prospect: &Prospect, settings: &LocalSettings) -> f64 {
        let epsilon = match self {
            Self::Budget(_) => Epsilon::from_units(amount).ok(),
            Self::Population(_) => Some(settings.epsilon),
        };
        let Some(epsilon) = epsilon else { return f64::INFINITY };
        self.expected_error_with(settings.oracle_for(prospect.cells, epsilon), amount as f64, prospect, settings)
    }

    /// As [`Division::expected_error`], with a given oracle and fractional slots.
    pub(super) fn expected_error_with(
        &self,
        oracle: OracleKind,
        amount: f64,
        prospect: &Prospect,
        settings: &LocalSettings,
    ) -> f64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the units of an epsilon
        let (epsilon, share) = match self {
            Self::Budget(_) => (Epsilon::from_units(amount as u64).ok(), 1.0),
            Self::Population(_) => (Some(settings.epsilon), amount / f64::from(SLOTS)),
        };
        let Some(epsilon) = epsilon else { return f64::INFINITY };
        let Prospect { cells, part, users, scatter, mean } = *prospect;
        let reports = users * share * part;
        if let Some(mean) = mean {
            return mean_variance(cells, epsilon, mean, scatter) / reports;
        }
        let one = oracle.variance(cells, epsilon, 1).at(1.0 / f64::from(cells));
        one / reports + scatter * sampling_factor(reports, users)
    }
}

/// A question whose error is to be predicted.
pub(super) struct Prospect {
    /// Number of cells, or of points of a grid.
    pub(super) cells: u32,
    /// Share of the paid users who are asked.
    pub(super) part: f64,
    /// Number of users.
    pub(super) users: f64,
    /// Mean of `f (1 - f)` over the cells; of numbers, their variance.
    pub(super) scatter: f64,
    /// Mean of the numbers, as a share of their range.
    pub(super) mean: Option<f64>,
}

/// Factor of the variance `f (1 - f)` for `reports` drawn from `users` without replacement.
pub(super) fn sampling_factor(reports: f64, users: f64) -> f64 {
    if users <= reports || users <= 1.0 { 0.0 } else { (users - reports) / (reports * (users - 1.0)) }
}

/// An answer as an estimate for all users, if those who reported are a sample.
pub(super) struct Answer<'a> {
    pub(super) frequencies: &'a [f64],
    variance: Variance,
    /// Error of a mean, which includes that of sampling.
    mean_error: Option<MeanError>,
    /// Sampling factor; zero for a mean.
    sampling: f64,
    /// Estimated number of users.
    pub(super) users: f64,
    pub(super) reports: u64,
}

impl<'a> Answer<'a> {
    /// Reads an estimate from a cohort with the given share of the population.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn new(estimate: &'a Estimate, share: f64) -> Self {
        let reports = estimate.reports();
        let users = reports as f64 / share;
        let mean_error = estimate.mean_error().copied();
        let sampling = if mean_error.is_some() { 0.0 } else { sampling_factor(reports as f64, users) };
        Self {
            frequencies: estimate.frequencies(),
            variance: estimate.variance(),
            mean_error,
            sampling,
            users,
            reports,
        }
    }

    /// Variance around the frequency among all users, with that frequency clamped to between zero and one.
    pub(super) fn variance_at(&self, frequency: f64) -> f64 {
        let frequency = frequency.clamp(0.0, 1.0);
        self.variance.at(frequency) + self.sampling * frequency * (1.0 - frequency)
    }

    /// Unbiased estimate of that variance; `None` for a single report of many.
    fn unbiased_variance(&self, estimated: f64) -> Option<f64> {
        if let Some(error) = &self.mean_error {
            return error.unbiased;
        }
        let Variance { constant, slope } = self.variance;
        let left = 1.0 - self.sampling;
        (left > 0.0)
            .then(|| (constant + (slope + self.sampling) * estimated - self.sampling * estimated * estimated) / left)
    }

    /// Unbiased estimate of the mean squared difference between the frequencies among all users and an earlier release.
    /// For static values and population division it is too high by `2 mean f(1-f) / (users - 1)`, because the users
    /// behind the earlier release are not asked again.
    ///
    /// Of a mean, the squared difference to the earlier one, as shares of the range. It is unbiased for the mean of the
    /// distribution that users' numbers are drawn from, and too low by their variance over their number for the mean of
    /// a fixed population ([proof](tidegate_kernel::proofs::piecewise)).
    pub(super) fn dissimilarity(&self, earlier: &[f64]) -> Option<f64> {
        let mut sum = 0.0;
        for (&now, &then) in self.frequencies.iter().zip(earlier) {
            sum += (now - then) * (now - then) - self.unbiased_variance(now)?;
        }
        #[allow(clippy::cast_precision_loss)]
        Some(sum / earlier.len() as f64)
    }

    /// Whether there are enough reports to measure a dissimilarity.
    pub(super) fn can_measure(&self) -> bool {
        self.sampling < 1.0
    }

    /// A quarter of the standard deviation of a [dissimilarity](Self::dissimilarity). With normal errors of variance
    /// `v` and a mean squared difference `d`, the dissimilarity of `k` values has the variance `(2 v² + 4 v d) / k`.
    ///
    /// A release is repeated where the measured dissimilarity is small, so that is mostly too small there. This margin
    /// is added to the drift that a repeated release states. A quarter suffices for a coverage of 90 % on streams
    /// without any order in time, for which repeating is worst.
    pub(super) fn dissimilarity_margin(&self, dissimilarity: f64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let values = self.frequencies.len() as f64;
        let variance = self.frequencies.iter().map(|frequency| self.variance_at(*frequency)).sum::<f64>() / values;
        ((2.0 * variance * variance + 4.0 * variance * dissimilarity.max(0.0)) / values).sqrt() / 4.0
    }

    /// Estimated mean of numbers, as a share of their range.
    pub(super) fn mean(&self) -> Option<f64> {
        self.mean_error.and(self.frequencies.first().copied())
    }

    /// Unbiased estimate of the mean of `f (1 - f)`, clamped to its range; of numbers, their variance as far as reports
    /// tell it.
    pub(super) fn scatter(&self) -> f64 {
        if let Some(error) = &self.mean_error {
            return error.scatter;
        }
        #[allow(clippy::cast_precision_loss)]
        let values = self.frequencies.len() as f64;
        let square = |f: &f64| f * f - self.unbiased_variance(*f).unwrap_or(0.0);
        let squares: f64 = self.frequencies.iter().map(square).sum();
        ((1.0 - squares) / values).clamp(0.0, (1.0 - 1.0 / values) / values)
    }
}
