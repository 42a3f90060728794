//! [`ReleaseFilter`]: a filter for the releases of any mechanism.

use serde::{Deserialize, Serialize};

use super::simplex::project;
use super::{Estimator, Noise, Periods, Prior};
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
///     why: None,
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
    estimator: Option<Estimator>,
}

const VERSION: u16 = 7;

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
    estimator: Option<Estimator>,
}

impl TryFrom<SavedReleaseFilter> for ReleaseFilter {
    type Error = String;

    fn try_from(saved: SavedReleaseFilter) -> Result<Self, String> {
        let SavedReleaseFilter { version, estimator } = saved;
        if version != VERSION {
            return Err(format!("filter state version {version} is not known; this program reads version {VERSION}"));
        }
        let fits = |estimator: &Estimator| estimator.fits(estimator.numbers().max(1), Periods::USUAL.as_slice());
        if estimator.as_ref().is_some_and(|estimator| !fits(estimator)) {
            return Err("the parts of the filter's state do not fit together".to_owned());
        }
        Ok(Self { version, estimator })
    }
}

impl ReleaseFilter {
    /// Creates a filter before its first release.
    pub const fn new() -> Self {
        Self { version: VERSION, estimator: None }
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
        let usable = variance.is_finite()
            && variance > f64::MIN_POSITIVE.sqrt()
            && observed.iter().all(|number| number.abs() < LARGEST)
            && release.freshness == Freshness::Fresh;
        if self.estimator.is_none() && usable {
            self.estimator = Some(Self::begin(observed.len(), variance, &release.statistic));
        }
        let Some(estimator) = &mut self.estimator else { return release };
        let in_order = estimator.timestamp().is_none_or(|last| last < release.timestamp);
        if !in_order || estimator.numbers() != observed.len() {
            return release;
        }
        estimator.advance(release.timestamp);
        if usable {
            estimator.observe(observed, Noise::Normal { variance });
        }
        let (means, variances) = estimator.stated();
        let statistic = match &release.statistic {
            Statistic::Counts(_) => {
                Counts { counts: means.into_iter().map(|count| count.max(0.0)).collect(), variances }.into()
            }
            Statistic::Number(_) => Number { value: means[0], variance: variances[0] }.into(),
            _ => {
                let mut frequencies = means;
                project(&mut frequencies, &variances, 1.0);
                Histogram { frequencies, variances }.into()
            }
        };
        Release { statistic, ..release }
    }

    /// Estimator before its first observation.
    #[allow(clippy::cast_precision_loss)] // the size of a domain
    fn begin(numbers: usize, variance: f64, statistic: &Statistic) -> Estimator {
        let prior = match statistic {
            Statistic::Histogram(_) => {
                let even = (numbers as f64).recip();
                let wide = (even * (1.0 - even)).max(variance);
                Prior { mean: even, variance: wide, largest_step: wide }
            }
            _ => Prior { mean: 0.0, variance: LARGEST * LARGEST, largest_step: LARGEST * LARGEST },
        };
        Estimator::new(numbers, variance / 2.0, prior, Periods::USUAL.as_slice())
    }
}

/// Largest number that is filtered.
const LARGEST: f64 = 1e30;
