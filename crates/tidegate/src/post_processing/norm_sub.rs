//! Euclidean projection of frequencies onto the simplex.

use crate::tree::Tree;

use super::sound::{LARGEST, check_frequencies};
use super::{PostProcessingError, rebuild};

/// Returns the nearest non-negative frequencies that sum to `total`.
///
/// Subtracts one number from all frequencies and clamps negative results to zero ("norm-sub"). This is the Euclidean
/// projection onto the simplex: its optimality conditions are `x[v] = f[v] - shift` where `x[v] > 0`, and `f[v] - shift
/// <= 0` where `x[v] = 0`.
///
/// The summed squared error never grows if the truth lies in the simplex. Exact up to rounding; takes O(d log d) for d
/// frequencies.
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
    // A total of zero keeps nothing.
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

/// Adds the squared shift of each frequency that the projection left above zero to its variance.
pub(super) fn with_shift(before: &[f64], after: &[f64], variances: &[f64]) -> Vec<f64> {
    let shifted = before.iter().zip(after).zip(variances);
    let add = |((before, after), variance): ((&f64, &f64), &f64)| match *after > 0.0 {
        true => variance + (after - before) * (after - before),
        false => *variance,
    };
    shifted.map(add).collect()
}

/// Projects the children of each node to sum to it, from the root down.
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
                // Projection of two numbers.
                let first = (total + repaired[left] - repaired[left + 1]) / 2.0;
                repaired[left] = first.clamp(0.0, total);
                repaired[left + 1] = total - repaired[left];
            } else {
                repaired[left] = total;
            }
        }
    }
    let variances = with_shift(frequencies, &repaired, variances);
    rebuild(tree, repaired, variances)
}
