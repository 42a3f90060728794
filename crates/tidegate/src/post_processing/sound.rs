//! Validation of published statistics.

use std::slice;

use crate::release::{Statistic, UNSTATED};
use crate::tree::TreeShape;

/// Largest absolute frequency, and largest variance. Large enough for any estimate, small enough for finite sums over
/// any domain and time.
pub const LARGEST: f64 = 1e100;

/// Error of a statistic that no mechanism publishes.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsound {
    #[error("the domain of the statistic is empty; it has at least one value")]
    Empty,
    #[error("there are {frequencies} frequencies and {variances} variances; there is one variance to each frequency")]
    Lengths { frequencies: usize, variances: usize },
    #[error("the nodes of the tree do not fit the shape that its domain has")]
    Shape,
    #[error("frequency number {position} is {given}; a frequency is a number from -{LARGEST:e} to {LARGEST:e}")]
    Frequency { position: usize, given: f64 },
    #[error("variance number {position} is {given}; a variance is a number from zero to {LARGEST:e}, or unstated")]
    Variance { position: usize, given: f64 },
}

/// Rejects what no mechanism publishes.
pub(crate) fn check(statistic: &Statistic) -> Result<(), Unsound> {
    let (frequencies, variances) = match statistic {
        Statistic::Histogram(_) | Statistic::Counts(_) => statistic.leaves(),
        Statistic::Tree(tree) => {
            let (shape, (frequencies, variances)) = (tree.shape(), tree.nodes());
            // A loaded tree may claim any shape, so its size is checked before a shape is built.
            let holds = shape.domain() as usize <= frequencies.len() && shape.domain() <= 1 << 31;
            let fits = holds && {
                let expected = TreeShape::new(shape.domain());
                *shape == expected && frequencies.len() == expected.offset(expected.height() + 1)
            };
            if !fits {
                return Err(Unsound::Shape);
            }
            (frequencies, variances)
        }
        Statistic::Number(number) => (slice::from_ref(&number.value), slice::from_ref(&number.variance)),
        Statistic::Symbol(_) => return Ok(()),
    };
    if frequencies.is_empty() {
        return Err(Unsound::Empty);
    }
    if frequencies.len() != variances.len() {
        return Err(Unsound::Lengths { frequencies: frequencies.len(), variances: variances.len() });
    }
    check_frequencies(frequencies)?;
    let is_sound = |variance: &f64| (0.0..=LARGEST).contains(variance) || *variance == UNSTATED;
    match variances.iter().position(|variance| !is_sound(variance)) {
        Some(position) => Err(Unsound::Variance { position, given: variances[position] }),
        None => Ok(()),
    }
}

pub(super) fn check_frequencies(frequencies: &[f64]) -> Result<(), Unsound> {
    match frequencies.iter().position(|frequency| !(-LARGEST..=LARGEST).contains(frequency)) {
        Some(position) => Err(Unsound::Frequency { position, given: frequencies[position] }),
        None => Ok(()),
    }
}
