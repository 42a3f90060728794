//! Repairs of published statistics, which cost no budget: they use nothing but what was published.
//!
//! Estimates are unbiased, and so may be negative, fail to sum to one, and in a tree disagree with the sum of their
//! children. Three repairs use what is known about all frequencies:
//!
//! | repair | result | variances afterwards |
//! | --- | --- | --- |
//! | [`PostProcessing::Clip`] | between zero and one | as before, an upper bound of the expected squared error |
//! | [`PostProcessing::Consistency`] | sums to one, and each node is the sum of its children; unbiased | exact, smaller |
//! | [`PostProcessing::NormSub`] | sums to one and is nowhere negative | not exact, see there |
//!
//! ```
//! use tidegate::post_processing::PostProcessing;
//! use tidegate::release::{Histogram, Statistic};
//!
//! let published = Histogram { frequencies: vec![0.7, 0.5, -0.1], variances: vec![0.01; 3] };
//! let repaired = PostProcessing::NormSub.apply(&Statistic::Histogram(published))?;
//! let (frequencies, _) = repaired.leaves();
//! assert!((frequencies[0] - 0.6).abs() < 1e-12 && (frequencies[1] - 0.4).abs() < 1e-12);
//! assert!(frequencies[2] == 0.0);
//! # Ok::<(), tidegate::post_processing::PostProcessingError>(())
//! ```

mod consistency;
mod norm_sub;
mod sound;

use serde::{Deserialize, Serialize};

use crate::release::{Counts, Histogram, Statistic};
use crate::tree::Tree;

pub use norm_sub::norm_sub;
pub(crate) use sound::check;
pub use sound::{LARGEST, Unsound};

/// A repair of a published statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PostProcessing {
    /// Moves every frequency below zero to zero and every one above one to one.
    ///
    /// No frequency moves away from the truth, so the variances remain upper bounds of the expected squared errors.
    /// What was unbiased is biased afterwards, and sums over many rare values come out too large.
    Clip,
    /// The weighted least squares solution: of all frequencies that sum to one (and, in a tree, where each node is the
    /// sum of its children), those that lie nearest to the published ones, each squared difference divided by its
    /// variance. A node of variance zero stays as it is; the root is one, whatever was published for it.
    ///
    /// Unbiased if the input is. If the errors of the input are uncorrelated, no other unbiased linear estimate has
    /// smaller variances, and the variances given are exact. The errors of disjoint nodes of a consistent tree are
    /// never positively correlated, so the variance of a sum of such nodes is at most the sum of their variances. Takes
    /// time linear in the nodes.
    Consistency,
    /// Subtracts one number from all frequencies and moves what is negative then to zero, so that they sum to one: see
    /// [`norm_sub`](norm_sub()). A tree is made consistent first; then, from the root down, the same is done to the
    /// children of each node, so that they sum to that node.
    ///
    /// The variances are those before the step (for a tree, those of the consistent tree). For a histogram the sum of
    /// the expected squared errors is at most the sum of the variances; a single error can be larger than its variance
    /// says, and the estimates are biased.
    NormSub,
}

impl PostProcessing {
    /// The repaired statistic, of the same shape. Fails on input that no mechanism publishes.
    ///
    /// Counts are repaired as shares of [as many users as there seem to be](Counts::population), and are counts again
    /// afterwards.
    pub fn apply(self, statistic: &Statistic) -> Result<Statistic, PostProcessingError> {
        check(statistic)?;
        Ok(match statistic {
            Statistic::Histogram(histogram) => Statistic::Histogram(match self {
                Self::Clip => {
                    Histogram { frequencies: clip(&histogram.frequencies), variances: histogram.variances.clone() }
                }
                Self::Consistency => consistency::consistent_histogram(histogram)?,
                Self::NormSub => Histogram {
                    frequencies: norm_sub(&histogram.frequencies, 1.0)?,
                    variances: histogram.variances.clone(),
                },
            }),
            Statistic::Tree(tree) => Statistic::Tree(match self {
                Self::Clip => {
                    let (frequencies, variances) = tree.nodes();
                    rebuild(tree, clip(frequencies), variances.to_vec())?
                }
                Self::Consistency => consistency::consistent_tree(tree)?,
                Self::NormSub => norm_sub::non_negative(&consistency::consistent_tree(tree)?)?,
            }),
            Statistic::Counts(counts) => {
                #[allow(clippy::cast_precision_loss)]
                let users = counts.population() as f64;
                let repaired = self.apply(&Statistic::Histogram(counts.histogram(None)))?;
                let (frequencies, variances) = repaired.leaves();
                Statistic::Counts(Counts {
                    counts: frequencies.iter().map(|frequency| frequency * users).collect(),
                    variances: variances.iter().map(|variance| variance * users * users).collect(),
                })
            }
            Statistic::Number(_) | Statistic::Symbol(_) => return Err(PostProcessingError::NotFrequencies),
        })
    }
}

fn clip(frequencies: &[f64]) -> Vec<f64> {
    frequencies.iter().map(|frequency| frequency.clamp(0.0, 1.0)).collect()
}

/// A tree of the same shape.
fn rebuild(tree: &Tree, frequencies: Vec<f64>, variances: Vec<f64>) -> Result<Tree, PostProcessingError> {
    Tree::new(*tree.shape(), frequencies, variances).ok_or(PostProcessingError::Unsound(Unsound::Shape))
}

/// Why a statistic could not be repaired.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PostProcessingError {
    /// The statistic is not one that a mechanism publishes.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    #[error("a number or a symbol cannot be repaired; repairs are of frequencies")]
    NotFrequencies,
    #[error(
        "node {node} of level {level} is known to be {known}, but what it is made of, which is known as well, sums to {sum}"
    )]
    Contradiction { level: u32, node: u32, known: f64, sum: f64 },
    #[error("frequencies that are not negative cannot sum to {total}; a total is a number from zero to {LARGEST:e}")]
    Total { total: f64 },
}
