//! Optimal budget selection: the threshold with the lowest error of the sampling mechanism.
//!
//! Classes that spend less than the threshold are sampled: that adds variance and bias, but lowers the noise. The
//! threshold depends on registered members only, never on who is present, because it is public.
//!
//! Source: Du, Cheng, Chen, Shen, Lin and Xi: Infinite Stream Estimation under Personalized w-Event Privacy, PVLDB
//! 18(6), 2025, doi:10.14778/3725688.3725715, Algorithm 1 (OBS).

use std::num::NonZeroU64;

use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::{Neighbours, sampling_probability};

/// A threshold and its consequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Spend of classes that are not sampled.
    pub threshold: Epsilon,
    /// Expected squared error of a count at most, averaged over the cells.
    pub error: f64,
    /// Sampling probability of each class; zero for classes that spend nothing.
    pub kept: Vec<f64>,
}

/// Bound on the expected squared error of a count, averaged over the cells of a domain, if classes with `budgets` and
/// `members` are sampled at a threshold:
///
/// ```text
/// sum n_i p_i (1-p_i) / d  +  (sum n_i (1-p_i))² / d  +  2 (S/threshold)²
/// ```
///
/// with `S` the sensitivity, 1 or 2. The second term bounds the mean squared bias of the cells: their biases sum to
/// `sum n_i (1-p_i)`, and the mean of their squares is largest where one cell has all of it. So it depends on the
/// registration only. The bound is ours; the paper states the total count, `domain = 1`. A budget of `None` is zero.
pub fn sampling_error(
    budgets: &[Option<Epsilon>],
    members: &[u64],
    threshold: Epsilon,
    domain: u32,
    neighbours: Neighbours,
) -> Selection {
    let probability = |budget: &Option<Epsilon>| {
        // A budget too small to keep anybody counts as none.
        budget.and_then(|budget| sampling_probability(neighbours, budget.min(threshold), threshold).ok()).unwrap_or(0.0)
    };
    let kept: Vec<f64> = budgets.iter().map(probability).collect();
    let (mut variance, mut bias) = (0.0, 0.0);
    #[allow(clippy::cast_precision_loss)]
    for (p, members) in kept.iter().zip(members) {
        variance += *members as f64 * p * (1.0 - p);
        bias += *members as f64 * (1.0 - p);
    }
    #[allow(clippy::cast_precision_loss)] // one or two
    let scale = neighbours.histogram_sensitivity(NonZeroU64::MIN) as f64 / threshold.as_f64();
    let cells = f64::from(domain.max(1));
    let error = variance / cells + bias * bias / cells + 2.0 * scale * scale;
    Selection { threshold, error, kept }
}

/// Returns the best threshold among the budgets of classes with members; ties go to the smallest. `None` if nobody can
/// spend.
///
/// ```
/// use tidegate::central::budget_selection::select;
/// use tidegate::kernel::primitives::Neighbours;
///
/// let budgets = [Some("0.1".parse()?), Some("0.4".parse()?), Some("0.8".parse()?)];
/// let best = select(&budgets, &[2, 5, 3], 1, Neighbours::AddRemove).ok_or("there are budgets")?;
/// assert_eq!(best.threshold, "0.4".parse()?);
/// assert!((best.error - 15.31).abs() < 0.005);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn select(budgets: &[Option<Epsilon>], members: &[u64], domain: u32, neighbours: Neighbours) -> Option<Selection> {
    let with_members = budgets.iter().zip(members).filter(|(_, members)| **members > 0);
    let mut candidates: Vec<Epsilon> = with_members.filter_map(|(budget, _)| *budget).collect();
    candidates.sort_unstable();
    candidates.dedup();
    let selections = candidates.into_iter().map(|th| sampling_error(budgets, members, th, domain, neighbours));
    selections.reduce(|best, other| if other.error < best.error { other } else { best })
}
