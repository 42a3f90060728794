//! [`Refinement`]: the post-processing that a stream or a query asks for.

use serde::{Deserialize, Serialize};

use super::PostProcessing;
use crate::estimate::release_filter::ReleaseFilter;
use crate::mechanisms::Output;
use crate::release::{Release, Statistic};
use crate::tree::Tree;

/// A repair of releases, as specs and queries name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Releases stay as the mechanism made them.
    None,
    /// [`PostProcessing::Consistency`].
    Consistent,
    /// [`PostProcessing::NormSub`].
    NormSub,
}

impl Repair {
    /// All repairs.
    pub const ALL: [Self; 3] = [Self::None, Self::Consistent, Self::NormSub];

    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Consistent => "consistent",
            Self::NormSub => "norm_sub",
        }
    }

    /// The default for a kind of output: trees are made consistent, which is unbiased and lowers the error of every
    /// range. Other releases stay as they are. `docs/results-repair.md` has the measurements.
    pub const fn default_of(output: Output) -> Self {
        match output {
            Output::Tree => Self::Consistent,
            Output::Frequencies | Output::Counts | Output::Number | Output::Symbol => Self::None,
        }
    }

    const fn method(self) -> Option<PostProcessing> {
        match self {
            Self::None => None,
            Self::Consistent => Some(PostProcessing::Consistency),
            Self::NormSub => Some(PostProcessing::NormSub),
        }
    }
}

/// Returns the first statistic with the larger variance of both at each position.
fn with_larger_variances(repaired: Statistic, published: &Statistic) -> Statistic {
    let larger = |one: &mut [f64], other: &[f64]| one.iter_mut().zip(other).for_each(|(a, b)| *a = a.max(*b));
    match (repaired, published) {
        (Statistic::Histogram(mut histogram), Statistic::Histogram(before)) => {
            larger(&mut histogram.variances, &before.variances);
            Statistic::Histogram(histogram)
        }
        (Statistic::Counts(mut counts), Statistic::Counts(before)) => {
            larger(&mut counts.variances, &before.variances);
            Statistic::Counts(counts)
        }
        (Statistic::Tree(tree), Statistic::Tree(before)) => {
            let ((frequencies, after), (_, before)) = (tree.nodes(), before.nodes());
            let node = |position: usize| (frequencies[position], after[position].max(before[position]));
            Statistic::Tree(Tree::from_positions(*tree.shape(), node))
        }
        (other, _) => other,
    }
}

/// The reason why releases are not refined a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum AlreadyRefined {
    #[error("repair: the stream's releases are repaired already, by {0:?}; leave it out")]
    Repaired(&'static str),
    #[error("smooth: the stream's releases are smoothed already; leave it out")]
    Smoothed,
}

/// Post-processing of a stream's releases, in their order. It costs no budget.
///
/// No variance falls. Least squares would lower it for uncorrelated errors only, but frequencies of one answer may sum
/// to one already.
///
/// Smoothing comes first, because its filter takes the mechanism's unbiased releases; the repair follows.
///
/// ```
/// use tidegate::post_processing::{Refinement, Repair};
/// use tidegate::release::{Freshness, Histogram, Release, Spent};
///
/// let mut refinement = Refinement::new(Repair::NormSub, false);
/// let published = Histogram { frequencies: vec![0.7, 0.5, -0.1], variances: vec![0.01; 3] };
/// let (statistic, spent) = (published.into(), Spent::Nothing);
/// let freshness = Freshness::Fresh;
/// let (timestamp, reports, seeded, why) = (0, 9, false, None);
/// let release = refinement.push(Release { timestamp, statistic, freshness, spent, reports, seeded, why });
/// let (frequencies, variances) = release.statistic.leaves();
/// assert!((frequencies[0] - 0.6).abs() < 1e-12 && frequencies[2] == 0.0);
/// assert!((variances[0] - 0.02).abs() < 1e-12); // the shift of 0.1 counts as an error
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Refinement {
    repair: Repair,
    filter: Option<ReleaseFilter>,
    unstated: bool,
}

impl Refinement {
    /// Creates the post-processing of a stream at its beginning.
    pub fn new(repair: Repair, smooth: bool) -> Self {
        Self { repair, filter: smooth.then(ReleaseFilter::new), unstated: false }
    }

    /// Releases without a statement about errors, for mechanisms that do not know theirs. The filter still reads what
    /// they say about their noise.
    #[must_use]
    pub fn without_errors(self) -> Self {
        Self { unstated: true, ..self }
    }

    /// The repair.
    pub const fn repair(&self) -> Repair {
        self.repair
    }

    /// Creates the post-processing that a reader applies to the releases of a stream with its own.
    ///
    /// # Errors
    /// The stream repairs its releases already. Their errors are correlated, and a second repair would state too small
    /// variances.
    pub fn of_query(stream: &Self, repair: Repair, smooth: bool) -> Result<Self, AlreadyRefined> {
        if repair != Repair::None && stream.repair != Repair::None {
            return Err(AlreadyRefined::Repaired(stream.repair.name()));
        }
        if smooth && stream.filter.is_some() {
            return Err(AlreadyRefined::Smoothed);
        }
        Ok(Self::new(repair, smooth))
    }

    /// Returns the refined release. Numbers and symbols are not repaired. A statistic that no mechanism publishes stays
    /// as it is.
    #[must_use]
    pub fn push(&mut self, release: Release) -> Release {
        let release = match &mut self.filter {
            Some(filter) => filter.push(release),
            None => release,
        };
        let release = if self.unstated { release.unstated() } else { release };
        let repaired = self.repair.method().and_then(|method| method.apply(&release.statistic).ok());
        match repaired {
            Some(statistic) => Release { statistic: with_larger_variances(statistic, &release.statistic), ..release },
            None => release,
        }
    }

    /// State of the filter, to be saved; `None` without smoothing.
    pub const fn filter(&self) -> Option<&ReleaseFilter> {
        self.filter.as_ref()
    }

    /// Continues with a saved filter, if the refinement smooths.
    pub(crate) fn resume(&mut self, saved: ReleaseFilter) {
        if let Some(filter) = &mut self.filter {
            *filter = saved;
        }
    }
}
