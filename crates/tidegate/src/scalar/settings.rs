//! Settings of the scalar mechanisms.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::Protects;
use tidegate_kernel::{Epsilon, Grid};

use super::{ScalarError, ScalarKind};
use crate::estimate::Periods;

/// Settings of a scalar mechanism.
///
/// [`ScalarSettings::new`] takes what has no default; the rest is changed by struct update.
///
/// ```
/// use tidegate::scalar::{Publication, ScalarSettings};
/// use tidegate::kernel::Grid;
///
/// let settings = ScalarSettings::new("1".parse()?, Grid::new(0.0, 612.0, 1.0)?, 10);
/// let on_points = ScalarSettings { publication: Some(Publication::Points), ..settings };
/// assert_eq!(on_points.delay, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalarSettings {
    /// The budget of each timestamp.
    pub epsilon: Epsilon,
    /// The public domain, and the grid on which readings are rounded.
    pub grid: Grid,
    /// How many timestamps a release may be held back: the value of timestamp `t` is released no later than when that
    /// of `t + delay` is pushed. For `discontin`, at most
    /// [`DeviationTests::MAX_BATCH`](tidegate_kernel::primitives::DeviationTests::MAX_BATCH) less one.
    pub delay: u32,
    /// The privacy unit: the reading, whatever it is, or one contributor to a count.
    #[serde(default = "reading")]
    pub protects: Protects,
    /// The part of epsilon for grouping: by default a fifth, and half
    /// for `bucorder`. Nothing to mechanisms that do not group, nor to `bucorder` on labels.
    #[serde(default)]
    pub grouping: Option<Epsilon>,
    /// How much a group may scatter, as the sum of distances from its mean, in the unit of the stream; five times the
    /// scale of one publication's noise where nothing is said. For `pegasus`, `pegasus_delay`, `contin` and
    /// `discontin`.
    #[serde(default)]
    pub threshold: Option<f64>,
    /// To what noise is added; the mechanism's own choice where nothing is said.
    #[serde(default)]
    pub publication: Option<Publication>,
    /// How noisy points of a group are averaged.
    #[serde(default)]
    pub smoother: Smoother,
    /// Into how many parts `bucorder` divides the domain. Where nothing is said: on labels, as many as make the
    /// expected squared error least for values that are spread evenly; otherwise six.
    #[serde(default)]
    pub buckets: Option<u32>,
    /// Whether what is released is moved into the domain where it lies outside: free of budget, and never farther from
    /// the truth, but no longer unbiased. `clamped` does so in any case.
    #[serde(default)]
    pub within_domain: bool,
    /// Whether readings are cut off at a bound that is chosen from the data, privately, so that less noise is needed.
    /// Nothing to `constant`, which adds none, and `track`, which chooses its ranges from its answers.
    #[serde(default)]
    pub truncation: Option<Truncation>,
    /// Seasonal periods that `track` looks for, which saves them itself.
    #[serde(skip)]
    pub periods: Periods,
}

const fn reading() -> Protects {
    Protects::Reading
}

/// To what noise is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publication {
    /// To the sum of each group, once: `contin` and `discontin` by default, `bucorder` if asked.
    Sums,
    /// As [`Sums`](Self::Sums), after each reading was moved into the bucket that was published for it, so that the
    /// noise is that of a bucket instead of the domain: `bucorder` only.
    ClippedSums,
    /// To each reading, and what comes out is averaged within its group: `contin` and `discontin`.
    Points,
    /// To nothing: the randomised bucket is all that is published, shrunk to the middle of the domain. `bucorder` by
    /// default.
    Labels,
}

impl Publication {
    /// All ways of publishing.
    pub const ALL: [Self; 4] = [Self::Sums, Self::ClippedSums, Self::Points, Self::Labels];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sums => "sums",
            Self::ClippedSums => "clipped_sums",
            Self::Points => "points",
            Self::Labels => "labels",
        }
    }
}

/// How noisy points of a group are averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Smoother {
    /// By their mean.
    #[default]
    Mean,
    /// By their median.
    Median,
}

/// Cutting readings off at a private bound.
///
/// Time is divided into batches of `delay + 1` timestamps. In the first one, and then in every `every`-th, a sample of
/// the readings pays for choosing the bound that is used from the next batch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncation {
    /// After how many batches the bound is chosen again.
    pub every: NonZeroU32,
    /// How many of a hundred readings of such a batch are sampled: 1 to 99.
    pub percent: u8,
}

impl Default for Truncation {
    fn default() -> Self {
        Self { every: NonZeroU32::MIN.saturating_add(9), percent: 20 }
    }
}

/// How epsilon is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// For finding out what belongs together; `None` where nothing is grouped.
    pub(super) grouping: Option<Epsilon>,
    /// For what is published.
    pub(super) publication: Epsilon,
    /// The share that a sampled reading pays for the choice of a bound, where it is itself published.
    pub(super) bound: Option<Epsilon>,
}

impl Shares {
    /// The rest for the publication of a sampled reading.
    pub(super) fn reduced(&self) -> Option<Epsilon> {
        self.publication.checked_sub(self.bound?)
    }
}

impl ScalarSettings {
    /// The given, with the reading protected and the defaults of each mechanism.
    pub const fn new(epsilon: Epsilon, grid: Grid, delay: u32) -> Self {
        Self {
            epsilon,
            grid,
            delay,
            protects: Protects::Reading,
            grouping: None,
            threshold: None,
            publication: None,
            smoother: Smoother::Mean,
            buckets: None,
            within_domain: false,
            truncation: None,
            periods: Periods::USUAL,
        }
    }

    /// The number of timestamps of a batch.
    pub(super) const fn batch(&self) -> usize {
        self.delay as usize + 1
    }

    /// To what the mechanism adds noise.
    pub(super) fn publication_of(&self, kind: ScalarKind) -> Result<Publication, ScalarError> {
        let possible: &[Publication] = match kind {
            ScalarKind::Contin | ScalarKind::Discontin => &[Publication::Sums, Publication::Points],
            ScalarKind::Bucorder => &[Publication::Labels, Publication::Sums, Publication::ClippedSums],
            _ => &[Publication::Points],
        };
        match self.publication {
            None => Ok(possible[0]),
            Some(given) if possible.contains(&given) => Ok(given),
            Some(given) => Err(ScalarError::Publication { kind, given: given.name() }),
        }
    }

    /// How the mechanism divides epsilon.
    pub(super) fn shares(&self, kind: ScalarKind) -> Result<Shares, ScalarError> {
        let groups = match kind {
            ScalarKind::Pegasus | ScalarKind::PegasusDelay | ScalarKind::Contin | ScalarKind::Discontin => Some(5),
            ScalarKind::Comporder if self.delay > 0 => Some(5),
            ScalarKind::Bucorder if self.publication_of(kind)? != Publication::Labels => Some(2),
            _ => None,
        };
        let error = ScalarError::Grouping { given: self.grouping.unwrap_or(self.epsilon), epsilon: self.epsilon };
        let (grouping, publication) = match groups {
            None => (None, self.epsilon),
            Some(parts) => {
                let grouping = self.grouping.or_else(|| self.epsilon.divided_by(parts)).ok_or(error.clone())?;
                (Some(grouping), self.epsilon.checked_sub(grouping).ok_or(error.clone())?)
            }
        };
        let bound = match self.truncation {
            Some(_) => Some(publication.divided_by(2).ok_or(error)?),
            None => None,
        };
        Ok(Shares { grouping, publication, bound })
    }

    /// All of them as text, to which what is saved is bound.
    pub(super) fn context(&self) -> String {
        let Self {
            epsilon,
            grid,
            delay,
            protects,
            grouping,
            threshold,
            publication,
            smoother,
            buckets,
            within_domain,
            truncation,
            periods,
        } = self;
        let amount = |given: Option<u64>| given.map_or_else(|| "none".to_owned(), |given| given.to_string());
        // Seven digits where there are no more, as states of earlier versions have them.
        let [low, high, step] = grid.decimals().map(|number| {
            let short = format!("{:.6e}", number.to_f64());
            if short.parse() == Ok(number) { short } else { number.to_string() }
        });
        let threshold = threshold.map_or_else(|| "none".to_owned(), |given| format!("{given:.6e}"));
        let contribution = match protects {
            Protects::Reading => None,
            Protects::Contribution(most) => Some(most.get()),
        };
        let (contribution, grouping) = (amount(contribution), amount(grouping.map(Epsilon::units)));
        let publication = publication.map_or("none", Publication::name);
        let is_median = *smoother == Smoother::Median;
        let buckets = amount(buckets.map(u64::from));
        let every = amount(truncation.map(|truncation| truncation.every.get().into()));
        let percent = amount(truncation.map(|truncation| truncation.percent.into()));
        // Nothing where there is nothing to say, as in states of earlier versions.
        let periods = if periods.is_usual() { String::new() } else { format!(" periods {:?}", periods.as_slice()) };
        format!(
            "epsilon {} grid {:?} {low} {high} {step} delay {delay} contribution {contribution} grouping {grouping} \
             threshold {threshold} publication {publication} median {is_median} buckets {buckets} \
             within {within_domain} every {every} percent {percent}{periods}",
            epsilon.units(),
            grid.range(),
        )
    }

    /// Checks the settings that do not depend on the mechanism.
    pub(super) fn check(&self) -> Result<(), ScalarError> {
        if let Some(given) = self.threshold
            && !(given.is_finite() && given >= 0.0)
        {
            return Err(ScalarError::Threshold { given });
        }
        if let Some(Truncation { percent, .. }) = self.truncation {
            if !(1..=99).contains(&percent) {
                return Err(ScalarError::Percent { given: percent });
            }
            if self.protects != Protects::Reading {
                return Err(ScalarError::TruncatedContribution);
            }
        }
        Ok(())
    }
}
