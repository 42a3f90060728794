//! [`Release`]: a published statistic, with its variance and cost.

mod readable;
mod spent;
pub(crate) mod stated;
pub mod why;

use serde::{Deserialize, Serialize};

use crate::tree::Tree;
pub use readable::readable;
pub(crate) use readable::readable_variance;
pub use spent::{ClassSpend, Spent};
pub use why::Why;

/// The variance of a number whose error is not known: infinite. Such a number has no interval. Tables leave the
/// variance empty, and JSON has null in its place.
pub const UNSTATED: f64 = f64::INFINITY;

/// A published statistic, with all that is needed to judge it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Release {
    /// The timestamp that it stands for.
    pub timestamp: u64,
    /// The statistic.
    pub statistic: Statistic,
    /// Where the numbers come from.
    pub freshness: Freshness,
    /// Who spent how much on this timestamp.
    pub spent: Spent,
    /// How many reports were received for this timestamp, over all its questions.
    pub reports: u64,
    /// Whether randomness that it may depend on came from a seed, so that it is not private. A mechanism remembers
    /// that, but does not save it. Where devices draw the randomness a collector cannot know: the mechanism says
    /// `false`, and a simulation of devices sets it.
    #[serde(default)]
    pub seeded: bool,
    /// Why it is as it is, if its mechanism says so. It is public, since it follows from what was paid for: see
    /// [`why`].
    #[serde(default, deserialize_with = "why::read")]
    pub why: Option<Box<Why>>,
}

/// Where the numbers of a release come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// Published from reports of this timestamp.
    Fresh,
    /// The numbers of an earlier timestamp, or what they lead one to expect, because little seems to have changed or
    /// only that is known of what has.
    Approximated,
    /// The numbers of an earlier timestamp, because the budget of this one was spent in advance.
    Nullified,
}

impl Freshness {
    /// The name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Approximated => "approximated",
            Self::Nullified => "nullified",
        }
    }
}

/// A published statistic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The frequency of each value of a domain.
    Histogram(Histogram),
    /// The frequency of each node of a hierarchy over the domain.
    Tree(Tree),
    /// How many users hold each value of a domain.
    Counts(Counts),
    /// A number.
    Number(Number),
    /// An answer about one user's symbol.
    Symbol(Symbol),
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

impl From<Counts> for Statistic {
    fn from(counts: Counts) -> Self {
        Self::Counts(counts)
    }
}

impl From<Number> for Statistic {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<Symbol> for Statistic {
    fn from(symbol: Symbol) -> Self {
        Self::Symbol(symbol)
    }
}

impl Statistic {
    /// The number of values of the domain; zero for a number, which is about no domain of values.
    pub fn domain(&self) -> usize {
        match self {
            Self::Histogram(histogram) => histogram.frequencies.len(),
            Self::Tree(tree) => tree.domain(),
            Self::Counts(counts) => counts.counts.len(),
            Self::Number(_) => 0,
            Self::Symbol(symbol) => symbol.domain as usize,
        }
    }

    /// The frequency of each value and its variance: the histogram itself, or the leaves of the tree. For counts, the
    /// count of each value and its variance; [`Counts::histogram`] turns them into frequencies. A number and a symbol
    /// have none.
    pub fn leaves(&self) -> (&[f64], &[f64]) {
        match self {
            Self::Histogram(histogram) => (&histogram.frequencies, &histogram.variances),
            Self::Tree(tree) => tree.leaves(),
            Self::Counts(counts) => (&counts.counts, &counts.variances),
            Self::Number(_) | Self::Symbol(_) => (&[], &[]),
        }
    }

    /// The number, where one is published.
    pub const fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Histogram(_) | Self::Tree(_) | Self::Counts(_) | Self::Symbol(_) => None,
        }
    }
}

/// An estimate of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The estimate, in the unit of the stream. It need not lie in the domain.
    pub value: f64,
    /// The expected squared error, as far as the mechanism can tell: that of the noise. What it cannot tell is how far
    /// the readings of a group really are from each other, or how far readings were cut off. A [`Stream`] releases such
    /// numbers with an [`UNSTATED`] variance: [`Scalar::states_error`].
    ///
    /// [`Stream`]: crate::stream::Stream
    /// [`Scalar::states_error`]: crate::scalar::Scalar::states_error
    #[serde(with = "stated::one")]
    pub variance: f64,
}

/// An answer in place of one user's symbol: no frequency, and no variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// The answer.
    pub symbol: u32,
    /// How many symbols there are.
    pub domain: u32,
}

/// Estimated counts with their variances, where a curator knows how many users there are or keeps it secret. They may
/// be negative, and need not be whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// The estimated number of users that hold each value.
    pub counts: Vec<f64>,
    /// The expected squared error of each count, as far as the mechanism can tell: exact for a fresh release, with the
    /// estimated drift on top for an approximated one, and [`UNSTATED`] where the drift is not known.
    #[serde(with = "stated::each")]
    pub variances: Vec<f64>,
}

impl Counts {
    /// How many users there seem to be: the sum of the counts, rounded, at least one. It is computed from what is
    /// public already.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least one; beyond the range, its end
    pub fn population(&self) -> u64 {
        self.counts.iter().sum::<f64>().round().max(1.0) as u64
    }

    /// The same counts, with errors that are not known.
    pub(crate) fn unstated(&self) -> Self {
        Self { counts: self.counts.clone(), variances: vec![UNSTATED; self.variances.len()] }
    }

    /// The counts as shares of `population` users, where their number is public, and of [those that there seem to
    /// be](Self::population) otherwise. A population of zero is taken as one.
    ///
    /// The variances are those of the counts divided by the square of the population: where it is estimated, they leave
    /// out that its error is shared by all frequencies.
    #[allow(clippy::cast_precision_loss)]
    pub fn histogram(&self, population: Option<u64>) -> Histogram {
        let users = population.unwrap_or_else(|| self.population()).max(1) as f64;
        Histogram {
            frequencies: self.counts.iter().map(|count| count / users).collect(),
            variances: self.variances.iter().map(|variance| variance / (users * users)).collect(),
        }
    }
}

impl Release {
    /// The same release, without a statement about its error.
    #[must_use]
    pub fn unstated(self) -> Self {
        let statistic = match self.statistic {
            Statistic::Histogram(histogram) => histogram.unstated().into(),
            Statistic::Tree(tree) => {
                let (frequencies, _) = tree.nodes();
                Tree::from_positions(*tree.shape(), |position| (frequencies[position], UNSTATED)).into()
            }
            Statistic::Counts(counts) => counts.unstated().into(),
            Statistic::Number(number) => Number { variance: UNSTATED, ..number }.into(),
            symbol @ Statistic::Symbol(_) => symbol,
        };
        Self { statistic, ..self }
    }

    /// The release with counts turned into frequencies, and the number of users that these are shares of. Other
    /// releases and a population that is known stay as they are.
    pub(crate) fn in_frequencies(self, population: Option<u64>) -> (Self, Option<u64>) {
        let Statistic::Counts(counts) = &self.statistic else { return (self, population) };
        let population = population.unwrap_or_else(|| counts.population()).max(1);
        let statistic = counts.histogram(Some(population)).into();
        (Self { statistic, ..self }, Some(population))
    }
}

/// Estimated frequencies with their variances. They need not lie between zero and one, nor sum to one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The estimated share of users that hold each value.
    pub frequencies: Vec<f64>,
    /// The expected squared error of each frequency, as far as the mechanism can tell: exact for a fresh release, with
    /// the estimated drift on top for an approximated one, and [`UNSTATED`] where the drift is not known.
    #[serde(with = "stated::each")]
    pub variances: Vec<f64>,
}

impl Histogram {
    /// By how much the frequencies seem to have moved since, given an estimate of the mean squared difference between
    /// them and these, of which part is the error that these have had from the start.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn drift(&self, dissimilarity: f64) -> f64 {
        let own = self.variances.iter().sum::<f64>() / self.variances.len() as f64;
        (dissimilarity - own).max(0.0)
    }

    /// The same frequencies, with errors that are not known.
    pub(crate) fn unstated(&self) -> Self {
        Self { frequencies: self.frequencies.clone(), variances: vec![UNSTATED; self.variances.len()] }
    }

    /// Whether it is over a domain of so many values.
    pub(crate) fn fits(&self, domain: u32) -> bool {
        self.frequencies.len() == domain as usize && self.variances.len() == domain as usize
    }
}
