//! Weighted least squares on a histogram or a tree with a total of one.
//!
//! The two passes of Hay et al. (2010), generalised from equal to any variances.
//!
//! Up: `z` and `s` are the best estimate of a node from its own subtree, and its variance. For a leaf they are the
//! published ones. The children sum to `z1 + z2` with variance `s1 + s2`, independent of the node's own estimate. Both
//! are averaged by inverse variance.
//!
//! Down: given the final value `x` of a node with variance `p`, its residual `x - z1 - z2` is split among the children
//! in proportion to their variances: a child gets the share `a = s1 / (s1 + s2)`. Its variance is `s1 s2 / (s1 + s2) +
//! a² p`.
//!
//! Two children have the covariance `-s1 s2 / (s1 + s2) + a (1 - a) p`. It is not positive, because `p <= s1 + s2`;
//! their descendants inherit its sign. Hence the bound on sums over disjoint nodes.

use crate::release::Histogram;
use crate::tree::Tree;

use super::{PostProcessingError, rebuild};

/// Rounding tolerance between two exact numbers.
const TOLERANCE: f64 = 1e-9;

/// An estimate and its variance.
#[derive(Clone, Copy)]
struct Estimate {
    value: f64,
    variance: f64,
}

pub(super) fn consistent_histogram(histogram: &Histogram) -> Result<Histogram, PostProcessingError> {
    let sum: f64 = histogram.frequencies.iter().sum();
    let variance: f64 = histogram.variances.iter().sum();
    if is_zero(variance) {
        if (sum - 1.0).abs() > TOLERANCE {
            return Err(PostProcessingError::Contradiction { level: 0, node: 0, known: 1.0, sum });
        }
        return Ok(histogram.clone());
    }
    if !variance.is_finite() {
        // What is certain stays; the others share the difference, for want of a better rule.
        let unknown = histogram.variances.iter().map(|own| f64::from(u8::from(!own.is_finite())));
        let unknowns: f64 = unknown.clone().sum();
        let shifted = histogram.frequencies.iter().zip(unknown).map(|(f, share)| f + share / unknowns * (1.0 - sum));
        return Ok(Histogram { frequencies: shifted.collect(), variances: histogram.variances.clone() });
    }
    let values = histogram.frequencies.iter().zip(&histogram.variances);
    Ok(Histogram {
        frequencies: values.map(|(frequency, own)| frequency + own / variance * (1.0 - sum)).collect(),
        variances: histogram.variances.iter().map(|own| own * ((variance - own) / variance)).collect(),
    })
}

pub(super) fn consistent_tree(tree: &Tree) -> Result<Tree, PostProcessingError> {
    let shape = tree.shape();
    let (frequencies, variances) = tree.nodes();
    let nodes = frequencies.iter().zip(variances);
    let mut estimates: Vec<Estimate> = nodes.map(|(&value, &variance)| Estimate { value, variance }).collect();
    estimates[0] = Estimate { value: 1.0, variance: 0.0 };

    // Padding is exactly zero.
    let padding = Estimate { value: 0.0, variance: 0.0 };
    let has_right = |level: u32, node: u32| 2 * node + 1 < shape.nodes(level + 1);
    let position = |offset: usize, node: u32| offset + node as usize;

    for level in (0..shape.height()).rev() {
        let (parents, children) = (shape.offset(level), shape.offset(level + 1));
        for node in 0..shape.nodes(level) {
            let left_position = position(children, 2 * node);
            let left = estimates[left_position];
            let right = if has_right(level, node) { estimates[left_position + 1] } else { padding };
            let below = Estimate { value: left.value + right.value, variance: left.variance + right.variance };
            let own = &mut estimates[position(parents, node)];
            let both = own.variance + below.variance;
            if is_zero(both) {
                if (own.value - below.value).abs() > TOLERANCE {
                    let (known, sum) = (own.value, below.value);
                    return Err(PostProcessingError::Contradiction { level, node, known, sum });
                }
            } else {
                let weight = part(below.variance, own.variance);
                let variance = if own.variance.is_finite() { weight * own.variance } else { below.variance };
                *own = Estimate { value: weight * own.value + (1.0 - weight) * below.value, variance };
            }
        }
    }

    for level in 0..shape.height() {
        let (parents, children) = (shape.offset(level), shape.offset(level + 1));
        for node in 0..shape.nodes(level) {
            let parent = estimates[position(parents, node)];
            let left_position = position(children, 2 * node);
            let left = estimates[left_position];
            if !has_right(level, node) {
                estimates[left_position] = parent;
                continue;
            }
            let right = estimates[left_position + 1];
            let both = left.variance + right.variance;
            if is_zero(both) {
                continue;
            }
            let residual = parent.value - left.value - right.value;
            let share = part(left.variance, right.variance);
            let apart = if left.variance.is_finite() { (1.0 - share) * left.variance } else { share * right.variance };
            for (child, own, share) in [(left_position, left, share), (left_position + 1, right, 1.0 - share)] {
                let inherited = if share > 0.0 { share * share * parent.variance } else { 0.0 };
                estimates[child] = Estimate { value: own.value + share * residual, variance: apart + inherited };
            }
        }
    }
    let (values, variances) = estimates.into_iter().map(|estimate| (estimate.value, estimate.variance)).unzip();
    rebuild(tree, values, variances)
}

/// The share of the first of two variances in their sum, of which one may be infinite or both.
fn part(one: f64, other: f64) -> f64 {
    match (one.is_finite(), other.is_finite()) {
        (true, true) => one / (one + other),
        (true, false) => 0.0,
        (false, true) => 1.0,
        (false, false) => 0.5,
    }
}

/// Whether a variance, which is never negative, is zero.
fn is_zero(variance: f64) -> bool {
    variance <= 0.0
}
