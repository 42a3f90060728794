//! [`Domain`]: what a stream publishes, and where to read a range of values.

use std::fmt;
use std::ops::Range;
use std::slice;

use serde::{Deserialize, Serialize};

use crate::post_processing;
use crate::release::{Release, Statistic};
use crate::tree::TreeShape;

use super::answer::Unit;
use super::error::QueryError;

/// Published statistic of a stream, the same at all timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Histogram of so many values.
    Histogram(u32),
    /// Tree over so many values.
    Tree(u32),
    /// Mean of numbers, as the only value.
    Number,
}

impl Domain {
    /// Domain of a release. Rejects what no mechanism publishes.
    pub(super) fn of(release: &Release) -> Result<Self, QueryError> {
        let timestamp = release.timestamp;
        post_processing::check(&release.statistic).map_err(|reason| QueryError::BadRelease { timestamp, reason })?;
        let size = release.statistic.domain();
        let size = u32::try_from(size).map_err(|_| QueryError::DomainTooLarge { given: size })?;
        match release.statistic {
            Statistic::Histogram(_) | Statistic::Counts(_) => Ok(Self::Histogram(size)),
            Statistic::Tree(_) => Ok(Self::Tree(size)),
            Statistic::Number(_) => Ok(Self::Number),
            Statistic::Symbol(_) => Err(QueryError::NotFrequencies { timestamp }),
        }
    }

    /// Number of values.
    pub const fn size(self) -> u32 {
        match self {
            Self::Histogram(size) | Self::Tree(size) => size,
            Self::Number => 1,
        }
    }

    /// Finds the values `first..=last`, which are asked for in a unit.
    pub(super) fn find(self, first: u32, last: u32, unit: Unit) -> Result<Place, QueryError> {
        if (self == Self::Number) != (unit == Unit::Mean) {
            return Err(QueryError::OtherUnit { domain: self });
        }
        if first > last {
            return Err(QueryError::ReversedRange { first, last });
        }
        if last >= self.size() {
            let value = if first >= self.size() { first } else { last };
            return Err(QueryError::UnknownValue { value, domain: self.size() });
        }
        Ok(match self {
            Self::Histogram(_) | Self::Number => Place::Values(first as usize..last as usize + 1),
            Self::Tree(size) => {
                let shape = TreeShape::new(size);
                let nodes = shape.cover(first, last).into_iter();
                Place::Nodes(nodes.map(|(level, node)| shape.offset(level) + node as usize).collect())
            }
        })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Histogram(size) => write!(formatter, "histogram of {size} values"),
            Self::Tree(size) => write!(formatter, "tree over {size} values"),
            Self::Number => formatter.write_str("mean of numbers"),
        }
    }
}

/// Numbers of a statistic: the values of a histogram, or all nodes of a tree.
fn numbers(statistic: &Statistic) -> (&[f64], &[f64]) {
    match statistic {
        Statistic::Histogram(_) | Statistic::Counts(_) | Statistic::Symbol(_) => statistic.leaves(),
        Statistic::Number(number) => (slice::from_ref(&number.value), slice::from_ref(&number.variance)),
        Statistic::Tree(tree) => tree.nodes(),
    }
}

/// Where to read a range of values in every release of a stream.
pub(super) enum Place {
    /// Sum of values of a histogram.
    Values(Range<usize>),
    /// Sum of tree nodes at these indices.
    Nodes(Vec<usize>),
}

impl Place {
    /// Reads frequency and variance from a statistic of the same domain.
    ///
    /// Assumes uncorrelated errors of different values and of disjoint nodes.
    pub(super) fn read(&self, statistic: &Statistic) -> (f64, f64) {
        let (frequencies, variances) = numbers(statistic);
        let sum = |numbers: &[f64]| match self {
            Self::Values(range) => numbers[range.clone()].iter().sum(),
            Self::Nodes(positions) => positions.iter().map(|position| numbers[*position]).sum(),
        };
        (sum(frequencies), sum(variances))
    }
}
