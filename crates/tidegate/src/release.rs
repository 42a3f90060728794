//! What a mechanism publishes at a timestamp.

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::tree::Tree;

/// A published statistic, with all that is needed to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// The timestamp that it stands for.
    pub timestamp: u64,
    /// What is published.
    pub statistic: Statistic,
    /// Where the numbers come from.
    pub freshness: Freshness,
    /// The most that any one user has spent on this timestamp; `None` where nobody was asked.
    pub spent: Option<Epsilon>,
    /// How many reports were received for this timestamp, over all its questions.
    pub reports: u64,
}

/// Where the numbers of a release come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// Published from reports of this timestamp.
    Fresh,
    /// The numbers of an earlier timestamp, because little seems to have changed.
    Approximated,
    /// The numbers of an earlier timestamp, because the budget of this one was spent in advance.
    Nullified,
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The frequency of each value of a domain.
    Histogram(Histogram),
    /// The frequency of each node of a hierarchy over the domain.
    Tree(Tree),
    /// What one user's stream may have held.
    Symbol(Symbol),
}

/// An answer in place of one user's symbol: no frequency, and no variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// The answer.
    pub symbol: u32,
    /// How many symbols there are.
    pub domain: u32,
}

impl From<Histogram> for Statistic {
    fn from(histogram: Histogram) -> Self {
        Self::Histogram(histogram)
    }
}

impl From<Tree> for Statistic {
    fn from(tree: Tree) -> Self {
        Self::Tree(tree)
    }
}

impl From<Symbol> for Statistic {
    fn from(symbol: Symbol) -> Self {
        Self::Symbol(symbol)
    }
}

impl Statistic {
    /// The number of values of the domain.
    pub fn domain(&self) -> usize {
        match self {
            Self::Histogram(histogram) => histogram.frequencies.len(),
            Self::Tree(tree) => tree.domain(),
            Self::Symbol(symbol) => symbol.domain as usize,
        }
    }

    /// The frequency of each value and its variance: the histogram itself, or the leaves of the tree. None for a symbol, which
    /// is no estimate of frequencies.
    pub fn leaves(&self) -> (&[f64], &[f64]) {
        match self {
            Self::Histogram(histogram) => (&histogram.frequencies, &histogram.variances),
            Self::Tree(tree) => tree.leaves(),
            Self::Symbol(_) => (&[], &[]),
        }
    }
}

/// Estimated frequencies with their variances. They need not lie between zero and one, nor sum to one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The estimated share of users that hold each value.
    pub frequencies: Vec<f64>,
    /// The expected squared error of each frequency, as far as the mechanism can tell: exact for a fresh release, with
    /// the estimated drift on top for an approximated one.
    pub variances: Vec<f64>,
}

impl Histogram {
    /// By how much the frequencies seem to have moved since, given an estimate of the mean squared difference between them
    /// and these, of which part is the error that these have had from the start.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn drift(&self, dissimilarity: f64) -> f64 {
        let own = self.variances.iter().sum::<f64>() / self.variances.len() as f64;
        (dissimilarity - own).max(0.0)
    }

    /// Whether it is over a domain of so many values.
    pub(crate) fn fits(&self, domain: u32) -> bool {
        self.frequencies.len() == domain as usize && self.variances.len() == domain as usize
    }
}
