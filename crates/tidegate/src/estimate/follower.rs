//! [`Follower`]: counts or frequencies of a domain; and [`Smoother`]: the releases of any mechanism.

use serde::{Deserialize, Serialize};

use super::bank::{Bank, Estimates};
use super::simplex::project;
use crate::release::{Counts, Freshness, Histogram, Number, Release, Statistic};

/// Follows numbers that are nowhere negative: their mean, which moves little, and how far each is from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follower {
    mean: Bank,
    deviations: Bank,
    seen: u64,
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl Follower {
    /// `variance`, which is positive, is about that with which the numbers are going to be seen.
    pub fn new(values: usize, variance: f64) -> Self {
        Self { mean: Bank::new(1, variance / values as f64), deviations: Bank::new(values, variance), seen: 0 }
    }

    /// Whether it can be that of so many numbers.
    pub fn fits(&self, values: usize) -> bool {
        self.mean.fits(1) && self.deviations.fits(values)
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.deviations.numbers()
    }

    /// How often they were seen.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes in numbers that were published so many timestamps after the last ones, with the variance that they have on average.
    pub fn observe(&mut self, gap: u64, numbers: &[f64], variance: f64) {
        let values = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / values;
        let deviations: Vec<f64> = numbers.iter().map(|number| number - mean).collect();
        self.mean.observe(gap, &[mean], variance / values);
        self.deviations.observe(gap, &deviations, variance * (1.0 - 1.0 / values));
        self.seen += 1;
    }

    /// What is believed so many timestamps after the last ones: nowhere negative.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let mean = self.mean.estimate(gap);
        let (mean, uncertain) = (mean.means[0].max(0.0), mean.variances[0]);
        let Estimates { mut means, mut variances } = self.deviations.estimate(gap);
        means.iter_mut().for_each(|number| *number += mean);
        let total = mean * means.len() as f64;
        project(&mut means, &variances, total);
        variances.iter_mut().for_each(|variance| *variance += uncertain);
        Estimates { means, variances }
    }

    /// The mean squared error to expect in the long run, of numbers that are published every `period` timestamps with a variance.
    pub fn expected_error(&self, period: u64, variance: f64) -> f64 {
        let values = self.numbers() as f64;
        self.mean.expected_error(period, variance / values)
            + self.deviations.expected_error(period, variance * (1.0 - 1.0 / values))
    }
}

/// Makes the releases of any mechanism better by those before them: free of budget, for it sees releases only.
///
/// Releases that were published afresh are observations with their stated variances; at other timestamps what is expected takes the place of the repeated release.
/// Trees and symbols are passed on as they are.
///
/// ```
/// use tidegate::estimate::follower::Smoother;
/// use tidegate::release::{Freshness, Number, Release};
///
/// let mut smoother = Smoother::new();
/// let release = |timestamp: u64, value| Release {
///     timestamp, statistic: Number { value, variance: 1.0 }.into(), freshness: Freshness::Fresh, spent: None, reports: 1,
/// };
/// let smoothed = [5.9, 3.8, 5.4, 4.9, 5.7, 4.2].into_iter().zip(0..).map(|(value, at)| smoother.push(release(at, value)));
/// let last = smoothed.last().and_then(|release| release.statistic.number()).ok_or("a number")?;
/// assert!((last.value - 5.0).abs() < 0.8 && last.variance < 1.0); // the last one alone is off by 0.8, with a variance of 1
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Smoother {
    state: Option<(u64, Followed)>,
}

#[derive(Clone, Debug)]
enum Followed {
    Number(Bank),
    Numbers(Follower),
}

impl Followed {
    fn numbers(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Numbers(follower) => follower.numbers(),
        }
    }

    fn observe(&mut self, gap: u64, observed: &[f64], variance: f64) {
        match self {
            Self::Number(bank) => bank.observe(gap, observed, variance),
            Self::Numbers(follower) => follower.observe(gap, observed, variance),
        }
    }

    fn estimate(&self, gap: u64) -> Estimates {
        match self {
            Self::Number(bank) => bank.estimate(gap),
            Self::Numbers(follower) => follower.estimate(gap),
        }
    }
}

impl Smoother {
    /// Nothing was released yet.
    pub const fn new() -> Self {
        Self { state: None }
    }

    /// The release, made better by those before it. Where no variance is stated, or the domain is another than before, it is passed on as it is.
    #[must_use]
    pub fn push(&mut self, release: Release) -> Release {
        let number;
        let (observed, variances): (&[f64], &[f64]) = match &release.statistic {
            Statistic::Histogram(_) | Statistic::Counts(_) => release.statistic.leaves(),
            Statistic::Number(Number { value, variance }) => {
                number = [*value, *variance];
                (&number[..1], &number[1..])
            }
            Statistic::Tree(_) | Statistic::Symbol(_) => return release,
        };
        #[allow(clippy::cast_precision_loss)] // the size of a domain
        let variance = variances.iter().sum::<f64>() / variances.len() as f64;
        let usable = variance.is_finite() && variance > 0.0 && observed.iter().all(|number| number.is_finite());
        if self.state.is_none() && usable && release.freshness == Freshness::Fresh {
            let followed = match &release.statistic {
                Statistic::Number(_) => Followed::Number(Bank::new(1, variance)),
                _ => Followed::Numbers(Follower::new(observed.len(), variance)),
            };
            self.state = Some((release.timestamp, followed));
        }
        let Some((last, followed)) = &mut self.state else { return release };
        let (Some(mut gap), true) =
            (release.timestamp.checked_sub(*last), followed.numbers() == release.statistic.domain())
        else {
            return release;
        };
        if usable && release.freshness == Freshness::Fresh {
            followed.observe(gap, observed, variance);
            *last = release.timestamp;
            gap = 0;
        }
        let Estimates { means, variances } = followed.estimate(gap);
        let statistic = match &release.statistic {
            Statistic::Counts(_) => Counts { counts: means, variances }.into(),
            Statistic::Number(_) => Number { value: means[0], variance: variances[0] }.into(),
            _ => Histogram { frequencies: means, variances }.into(),
        };
        Release { statistic, ..release }
    }
}
