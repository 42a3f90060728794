//! The nearest frequencies that are nowhere negative and have a given sum.

use crate::tree::Tree;

use super::sound::{LARGEST, check_frequencies};
use super::{PostProcessingError, rebuild};

/// The frequencies nearest to the given ones that sum to `total` and of which none is negative.
///
/// There is one number to subtract from all of them such that, once what is negative then is moved to zero, they sum to
/// `total`. That is what "norm-sub" does, and it is also the Euclidean projection onto the simplex: for the point `x`
/// of the simplex nearest to `f`, the optimality conditions say `x[v] = f[v] - shift` where `x[v] > 0` and
/// `f[v] - shift <= 0` where `x[v] = 0`. So there is one function for both.
///
/// Where the truth is such a point, the sum of the squared errors does not grow. Exact up to rounding; takes
/// O(d log d) for d frequencies.
///
/// ```
/// let repaired = tidegate::post_processing::norm_sub(&[0.5, 0.75, -0.5], 1.0)?;
/// assert_eq!(repaired, [0.375, 0.625, 0.0]);
/// # Ok::<(), tidegate::post_processing::PostProcessingError>(())
/// ```
pub fn norm_sub(frequencies: &[f64], total: f64) -> Result<Vec<f64>, PostProcessingError> {
    check_frequencies(frequencies)?;
    let possible = if frequencies.is_empty() { 0.0..=0.0 } else { 0.0..=LARGEST };
    if !possible.contains(&total) {
        return Err(PostProcessingError::Total { total });
    }
    let mut sorted = frequencies.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut kept) = (0.0, 0.0);
    // With a total of zero nothing is kept.
    let mut shift = f64::INFINITY;
    for frequency in sorted {
        sum += frequency;
        kept += 1.0;
        let candidate = (sum - total) / kept;
        if frequency <= candidate {
            break;
        }
        shift = candidate;
    }
    Ok(frequencies.iter().map(|frequency| (frequency - shift).max(0.0)).collect())
}

/// From the root down, makes the children of each node non-negative and sum to it.
pub(super) fn non_negative(tree: &Tree) -> Result<Tree, PostProcessingError> {
    let shape = tree.shape();
    let (frequencies, variances) = tree.nodes();
    let mut repaired = frequencies.to_vec();
    repaired[0] = repaired[0].max(0.0);
    for level in 0..shape.height() {
        let (parents, children) = (shape.offset(level), shape.offset(level + 1));
        for node in 0..shape.nodes(level) as usize {
            let (total, left) = (repaired[parents + node], children + 2 * node);
            if 2 * node + 1 < shape.nodes(level + 1) as usize {
                // The projection of two numbers onto those that sum to the total.
                let first = (total + repaired[left] - repaired[left + 1]) / 2.0;
                repaired[left] = first.clamp(0.0, total);
                repaired[left + 1] = total - repaired[left];
            } else {
                repaired[left] = total;
            }
        }
    }
    rebuild(tree, repaired, variances.to_vec())
}
