//! Post-processing of published statistics. It costs no budget, because it uses published numbers only.
//!
//! Unbiased estimates may be negative, fail to sum to one, and contradict each other in a tree. Three methods use what
//! is known about all frequencies:
//!
//! | method | result | variances afterwards |
//! | --- | --- | --- |
//! | [`PostProcessing::Clip`] | between zero and one | unchanged, upper bounds of the expected squared error |
//! | [`PostProcessing::Consistency`] | sums to one, as do the children of each node; unbiased | exact, smaller |
//! | [`PostProcessing::NormSub`] | sums to one and is not negative | with the square of the shift, see there |
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
mod refinement;
mod sound;

use serde::{Deserialize, Serialize};

use crate::release::{Counts, Histogram, Statistic};
use crate::tree::Tree;

pub use norm_sub::norm_sub;
pub use refinement::{AlreadyRefined, Refinement, Repair};
pub(crate) use sound::check;
pub use sound::{LARGEST, Unsound};

/// A post-processing method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PostProcessing {
    /// Clamps every frequency to between zero and one.
    ///
    /// No error grows, so variances remain upper bounds of the expected squared errors. Estimates become biased, and
    /// sums over many rare values too large.
    Clip,
    /// Weighted least squares: the nearest frequencies that sum to one, and in a tree agree with the sums of their
    /// children. Squared differences are divided by their variances. A node of variance zero keeps its value; the root
    /// is one.
    ///
    /// Unbiased if the input is. With uncorrelated errors it is the best linear unbiased estimate, and its variances
    /// are exact. Errors of disjoint nodes of a consistent tree are never positively correlated. So the variance of a
    /// sum of such nodes is at most the sum of their variances. Takes time linear in the nodes.
    Consistency,
    /// Projects onto the simplex: see [`norm_sub`](norm_sub()). A tree is made consistent first; then, from the root
    /// down, the children of each node are projected to sum to it.
    ///
    /// The shift of a frequency that stays above zero is a bias, so its square is added to the variance before the
    /// projection (for a tree, after consistency). A frequency that becomes zero keeps its variance: it has moved
    /// towards the truth.
    NormSub,
}

impl PostProcessing {
    /// Returns the processed statistic, of the same shape. Fails on input that no mechanism publishes.
    ///
    /// Counts are processed as shares of their [estimated population](Counts::population), and converted back.
    pub fn apply(self, statistic: &Statistic) -> Result<Statistic, PostProcessingError> {
        check(statistic)?;
        Ok(match statistic {
            Statistic::Histogram(histogram) => Statistic::Histogram(match self {
                Self::Clip => {
                    Histogram { frequencies: clip(&histogram.frequencies), variances: histogram.variances.clone() }
                }
                Self::Consistency => consistency::consistent_histogram(histogram)?,
                Self::NormSub => {
                    let frequencies = norm_sub(&histogram.frequencies, 1.0)?;
                    let variances = norm_sub::with_shift(&histogram.frequencies, &frequencies, &histogram.variances);
                    Histogram { frequencies, variances }
                }
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

/// Creates a tree of the same shape.
fn rebuild(tree: &Tree, frequencies: Vec<f64>, variances: Vec<f64>) -> Result<Tree, PostProcessingError> {
    Tree::new(*tree.shape(), frequencies, variances).ok_or(PostProcessingError::Unsound(Unsound::Shape))
}

/// Error of post-processing.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PostProcessingError {
    /// Statistic that no mechanism publishes.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    #[error("post-processing takes frequencies, not a number or a symbol")]
    NotFrequencies,
    #[error("node {node} of level {level} is exactly {known}, but its children sum exactly to {sum}")]
    Contradiction { level: u32, node: u32, known: f64, sum: f64 },
    #[error("frequencies that are not negative cannot sum to {total}; a total is a number from zero to {LARGEST:e}")]
    Total { total: f64 },
}
