//! [`Follower`]: counts or frequencies of a domain; and [`Smoother`]: the releases of any mechanism.

use serde::{Deserialize, Serialize};

use super::bank::{Bank, Estimates, Stillness};
use super::noise::Noise;
use super::profile::Profile;
use super::scatter::Scatter;
use super::simplex::settle;
use crate::release::{Counts, Freshness, Histogram, Number, Release, Statistic};

/// Follows numbers that are nowhere negative: their mean, which moves little, how far each is from it, and by how much
/// they scatter around that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follower {
    mean: Bank,
    deviations: Profile,
    scatter: Scatter,
    seen: u64,
}

#[allow(clippy::cast_precision_loss)] // the size of a domain
impl Follower {
    /// Numbers that look about like these, which have a variance and are not taken in yet. `reference`, which is
    /// positive, is about the variance with which they are going to be seen mostly.
    pub fn new(numbers: &[f64], variance: f64, reference: f64) -> Self {
        let values = numbers.len() as f64;
        // Where none is negative, the squares sum to at most the square of the sum, of which this is a first idea.
        let squares = numbers.iter().sum::<f64>().powi(2).max(values * variance).max(f64::MIN_POSITIVE);
        Self {
            mean: Bank::new(1, reference / values, Stillness::Likely),
            deviations: Profile::new(numbers.len(), reference, squares, Stillness::Likely),
            scatter: Scatter::new(numbers.len(), reference),
            seen: 0,
        }
    }

    /// Whether it can be that of so many numbers.
    pub fn fits(&self, values: usize) -> bool {
        self.mean.fits(&[1]) && self.deviations.fits(values) && self.scatter.fits(values)
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.deviations.numbers()
    }

    /// How often they were seen.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes in numbers that were published so many timestamps after the last ones, with the noise that they have on
    /// average.
    pub fn observe(&mut self, gap: u64, numbers: &[f64], noise: impl Into<Noise>) {
        let noise = noise.into().beside(self.scatter.variance());
        let expected = (self.seen > 0).then(|| self.moving(gap));
        let (mean, deviations) = deviations(numbers);
        self.mean.observe(gap, &[mean], noise.of_mean(numbers.len()));
        self.deviations.observe(gap, &deviations, noise.of_deviations(numbers.len()));
        self.seen = self.seen.saturating_add(1);
        if let Some(expected) = expected {
            self.scatter.learn(&expected, numbers, noise.variance());
            self.scatter.take_in(&expected.variances, &self.moving(0).means, numbers, noise.variance());
        }
    }

    /// The same where it is known that many of them have jumped.
    pub fn observe_jump(&mut self, gap: u64, numbers: &[f64], noise: impl Into<Noise>) {
        let noise = noise.into().beside(self.scatter.variance());
        let (mean, deviations) = deviations(numbers);
        self.mean.observe_jump(gap, &[mean], noise.of_mean(numbers.len()));
        self.deviations.observe_jump(gap, &deviations, noise.of_deviations(numbers.len()));
        self.seen = self.seen.saturating_add(1);
        self.scatter.forget_own();
    }

    /// What is believed so many timestamps after the last ones: nowhere negative.
    pub fn estimate(&self, gap: u64) -> Estimates {
        let Estimates { mut means, mut variances } = self.moving(gap);
        let adds = self.scatter.adds(&means, gap == 0);
        variances.iter_mut().zip(adds).for_each(|(variance, adds)| *variance += adds);
        if gap == 0 {
            let total = means.iter().sum();
            means.iter_mut().zip(self.scatter.own()).for_each(|(mean, own)| *mean += own);
            settle(&mut means, &variances, total);
        }
        Estimates { means, variances }
    }

    /// What is believed of what moves, without the scatter.
    fn moving(&self, gap: u64) -> Estimates {
        let mean = self.mean.estimate(gap);
        let (mean, uncertain) = (mean.means[0].max(0.0), mean.variances[0]);
        let Estimates { mut means, mut variances } = self.deviations.estimate(gap);
        means.iter_mut().for_each(|number| *number += mean);
        let total = mean * means.len() as f64;
        settle(&mut means, &variances, total);
        variances.iter_mut().for_each(|variance| *variance += uncertain);
        Estimates { means, variances }
    }

    /// The mean squared error to expect in the long run, of numbers that are published every `period` timestamps with
    /// noise.
    pub fn expected_error(&self, period: u64, noise: impl Into<Noise>) -> f64 {
        let (noise, values) = (noise.into().beside(self.scatter.variance()), self.numbers());
        let error = self.mean.expected_error(period, noise.of_mean(values))
            + self.deviations.expected_error(period, noise.of_deviations(values));
        error + self.scatter.expected_error(period, noise.variance(), error)
    }
}

/// The mean of numbers, and how far each is from it.
#[allow(clippy::cast_precision_loss)] // the size of a domain
fn deviations(numbers: &[f64]) -> (f64, Vec<f64>) {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    (mean, numbers.iter().map(|number| number - mean).collect())
}

/// Makes the releases of any mechanism better by those before them: free of budget, for it sees releases only.
///
/// Releases that were published afresh are observations with their stated variances; at other timestamps what is
/// expected takes the place of the repeated release. Trees and symbols are passed on as they are.
///
/// ```
/// use tidegate::estimate::follower::Smoother;
/// use tidegate::release::{Freshness, Number, Release, Spent};
///
/// let mut smoother = Smoother::new();
/// let release = |timestamp: u64, value| Release {
///     timestamp,
///     statistic: Number { value, variance: 1.0 }.into(),
///     freshness: Freshness::Fresh,
///     spent: Spent::Nothing,
///     reports: 1,
///     seeded: false,
/// };
/// let smoothed = [5.9, 3.8, 5.4, 4.9, 5.7, 4.2].into_iter().zip(0..).map(|(value, at)| smoother.push(release(at, value)));
/// let last = smoothed.last().and_then(|release| release.statistic.number()).ok_or("a number")?;
/// assert!((last.value - 5.0).abs() < 0.8 && last.variance < 1.0); // the last one alone is off by 0.8, with a variance of 1
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedSmoother")]
pub struct Smoother {
    version: u16,
    /// When the last release was published afresh, and what is believed since.
    state: Option<(u64, Followed)>,
}

const VERSION: u16 = 5;

impl Default for Smoother {
    fn default() -> Self {
        Self::new()
    }
}

/// The saved form, which is believed only if its version is known and its parts fit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSmoother {
    version: u16,
    state: Option<(u64, Followed)>,
}

impl TryFrom<SavedSmoother> for Smoother {
    type Error = String;

    fn try_from(saved: SavedSmoother) -> Result<Self, String> {
        let SavedSmoother { version, state } = saved;
        if version != VERSION {
            return Err(format!("smoother state version {version} is not known; this program reads version {VERSION}"));
        }
        if state.as_ref().is_some_and(|(_, followed)| !followed.fits()) {
            return Err("the parts of the smoother's state do not fit together".to_owned());
        }
        Ok(Self { version, state })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Followed {
    Number(Box<Bank>),
    Numbers(Box<Follower>),
}

impl Followed {
    fn numbers(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Numbers(follower) => follower.numbers(),
        }
    }

    fn fits(&self) -> bool {
        match self {
            Self::Number(bank) => bank.fits(&[1]),
            Self::Numbers(follower) => follower.numbers() > 0 && follower.fits(follower.numbers()),
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
        Self { version: VERSION, state: None }
    }

    /// The release, made better by those before it. Where no variance is stated, or the domain is another than before,
    /// it is passed on as it is.
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
                Statistic::Number(_) => Followed::Number(Box::new(Bank::new(1, variance, Stillness::Possible))),
                _ => Followed::Numbers(Box::new(Follower::new(observed, variance, variance))),
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
