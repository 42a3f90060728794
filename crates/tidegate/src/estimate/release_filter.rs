//! [`ReleaseFilter`]: a filter for the releases of any mechanism.

use serde::{Deserialize, Serialize};

use super::histogram_filter::HistogramFilter;
use super::model_bank::{ConstantPrior, Estimates, ModelBank};
use crate::release::{Counts, Freshness, Histogram, Number, Release, Statistic};

/// Improves the releases of any mechanism with those before them. Post-processing: it costs no budget.
///
/// Fresh releases are observations with their stated variances. Other releases are replaced by forecasts. Trees and
/// symbols pass unchanged.
///
/// ```
/// use tidegate::estimate::release_filter::ReleaseFilter;
/// use tidegate::release::{Freshness, Number, Release, Spent};
///
/// let mut filter = ReleaseFilter::new();
/// let release = |timestamp: u64, value| Release {
///     timestamp,
///     statistic: Number { value, variance: 1.0 }.into(),
///     freshness: Freshness::Fresh,
///     spent: Spent::Nothing,
///     reports: 1,
///     seeded: false,
/// };
/// let values = [5.9, 3.8, 5.4, 4.9, 5.7, 4.2];
/// let filtered = values.into_iter().zip(0..).map(|(value, at)| filter.push(release(at, value)));
/// let last = filtered.last().and_then(|release| release.statistic.number()).ok_or("a number")?;
/// // The last value alone is off by 0.8, with a variance of 1.
/// assert!((last.value - 5.0).abs() < 0.8 && last.variance < 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedReleaseFilter")]
pub struct ReleaseFilter {
    version: u16,
    /// Timestamp of the last fresh release, and the filter.
    state: Option<(u64, Filter)>,
}

const VERSION: u16 = 5;

impl Default for ReleaseFilter {
    fn default() -> Self {
        Self::new()
    }
}

/// Saved form, validated when loaded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedReleaseFilter {
    version: u16,
    state: Option<(u64, Filter)>,
}

impl TryFrom<SavedReleaseFilter> for ReleaseFilter {
    type Error = String;

    fn try_from(saved: SavedReleaseFilter) -> Result<Self, String> {
        let SavedReleaseFilter { version, state } = saved;
        if version != VERSION {
            return Err(format!("filter state version {version} is not known; this program reads version {VERSION}"));
        }
        if state.as_ref().is_some_and(|(_, filter)| !filter.fits()) {
            return Err("the parts of the filter's state do not fit together".to_owned());
        }
        Ok(Self { version, state })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Filter {
    Number(Box<ModelBank>),
    Histogram(Box<HistogramFilter>),
}

impl Filter {
    fn numbers(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Histogram(filter) => filter.numbers(),
        }
    }

    fn fits(&self) -> bool {
        match self {
            Self::Number(bank) => bank.fits(&[1]),
            Self::Histogram(filter) => filter.numbers() > 0 && filter.fits(filter.numbers()),
        }
    }

    fn observe(&mut self, gap: u64, observed: &[f64], variance: f64) {
        match self {
            Self::Number(bank) => bank.observe(gap, observed, variance),
            Self::Histogram(filter) => filter.observe(gap, observed, variance),
        }
    }

    fn estimate(&self, gap: u64) -> Estimates {
        match self {
            Self::Number(bank) => bank.estimate(gap),
            Self::Histogram(filter) => filter.estimate(gap),
        }
    }
}

impl ReleaseFilter {
    /// Creates a filter before its first release.
    pub const fn new() -> Self {
        Self { version: VERSION, state: None }
    }

    /// Returns the filtered release. A release without a usable variance, or of another domain, passes unchanged.
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
            let filter = match &release.statistic {
                Statistic::Number(_) => Filter::Number(Box::new(ModelBank::new(1, variance, ConstantPrior::Possible))),
                _ => Filter::Histogram(Box::new(HistogramFilter::new(observed, variance, variance))),
            };
            self.state = Some((release.timestamp, filter));
        }
        let Some((last, filter)) = &mut self.state else { return release };
        let (Some(mut gap), true) =
            (release.timestamp.checked_sub(*last), filter.numbers() == release.statistic.domain())
        else {
            return release;
        };
        if usable && release.freshness == Freshness::Fresh {
            filter.observe(gap, observed, variance);
            *last = release.timestamp;
            gap = 0;
        }
        let Estimates { means, variances } = filter.estimate(gap);
        let statistic = match &release.statistic {
            Statistic::Counts(_) => Counts { counts: means, variances }.into(),
            Statistic::Number(_) => Number { value: means[0], variance: variances[0] }.into(),
            _ => Histogram { frequencies: means, variances }.into(),
        };
        Release { statistic, ..release }
    }
}
