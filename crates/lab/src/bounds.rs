//! Error bounds that the papers state, computed.
//!
//! They are for comparison with measured errors. What a bound takes for granted is said with it; [`buckets_always`] is
//! one that takes nothing for granted.

use crate::stream::as_float;

/// Bounds the sum of squared errors of a batch of groups: Theorem 4 of Li et al. 2025.
///
/// `beta` is the probability that a test wrongly lets a reading into a group. Takes for granted that each reading lies
/// within the threshold of its group's mean otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// The number of groups, which the data decide.
    pub groups: f64,
    /// The number of readings of a batch.
    pub batch: f64,
    /// The width of the domain.
    pub width: f64,
    /// The part of epsilon for groups, and that for publication.
    pub grouping: f64,
    /// The part of epsilon for publication.
    pub publication: f64,
    /// The threshold.
    pub threshold: f64,
}

impl Groups {
    /// The bound for a probability of wrong answers, between zero and one. The text's noise is in units of the width.
    pub fn bound(&self, beta: f64) -> f64 {
        let noise = self.groups * 2.0 * (self.width / self.publication).powi(2);
        let misled = self.threshold + 4.0 * (2.0 / (2.0 - beta)).ln() * self.width / self.grouping;
        noise + (1.0 - beta) * self.batch * self.threshold.powi(2) + beta * self.batch * misled * misled
    }
}

/// Bounds from below the probability that a release keeps its place between the two earlier releases that it belongs
/// between: Theorem 5 of Li et al. 2025. Zero where it says nothing.
///
/// Takes for granted that readings differ by `distance` or more. As its proof has it, noise of scale
/// `width / publication` keeps an order with a probability of `1 - 3/4 exp(-distance · publication / width)`; the
/// statement has the fraction upside down.
pub fn order_kept(distance: f64, width: f64, grouping: f64, publication: f64, delay: u32) -> f64 {
    let compared = 1.0 - 2.0 * (-grouping * distance / (16.0 * width)).exp();
    let ordered = 1.0 - 0.75 * (-distance * publication / width).exp();
    compared.max(0.0).powi(2) * ordered.powf(f64::from(delay))
}

/// The expected sum of squared errors of a batch of `BucOrder`: Theorem 6 of Li et al. 2025, with buckets of `size`.
///
/// Takes for granted that a reading in a wrong bucket is a third of the domain off. That is the mean distance of two
/// uniform numbers; readings near the ends of the domain are farther off, and their squares count more.
pub fn buckets(batch: f64, width: f64, size: f64, grouping: f64, publication: f64) -> f64 {
    let number = (width / size).ceil();
    let wrong = (number - 1.0) * width * width / 9.0;
    number * 2.0 * (width / publication).powi(2) + batch * (size * size + wrong) / (grouping.exp() + number - 1.0)
}

/// Bounds the expected squared error of a reading of `BucOrder`, for any data: its release lies within the bucket that
/// was published for it, which is its own with a probability of `e^g / (e^g + n - 1)`.
pub fn buckets_always(width: f64, size: f64, grouping: f64) -> f64 {
    let number = (width / size).ceil();
    let own = grouping.exp() / (grouping.exp() + number - 1.0);
    own * size * size + (1.0 - own) * width * width
}

/// Users by their budget: a budget and how many have it.
pub type Budgets<'a> = &'a [(f64, u64)];

fn extremes(budgets: Budgets<'_>) -> Option<(f64, f64, f64)> {
    let least = budgets.iter().map(|(budget, _)| *budget).reduce(f64::min)?;
    let (most, having) = budgets.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    let users: u64 = budgets.iter().map(|(_, users)| users).sum();
    let others = as_float(users.saturating_sub(having));
    Some((least, most, others * (others + 0.25)))
}

/// The lesser of the two ways that Lemma 4.1 compares, with noise of these squared scales.
fn either(least: f64, most: f64, left_out: f64) -> f64 {
    (2.0 * least).min(left_out + 2.0 * most)
}

/// Bounds the squared error of a query of this sensitivity where optimal budget selection chooses the threshold: Lemma
/// 4.1 of Du et al. 2025. `None` without users.
///
/// ```
/// use tidegate_lab::bounds::selection;
///
/// // Example 2 of the paper, which selects a budget of 0.4 with an error of 15.31.
/// let bound = selection(&[(0.1, 2), (0.4, 5), (0.8, 3)], 1.0).ok_or("there are users")?;
/// assert!(bound > 15.31 && (bound - 53.875).abs() < 1e-9);
/// # Ok::<(), &str>(())
/// ```
pub fn selection(budgets: Budgets<'_>, sensitivity: f64) -> Option<f64> {
    let (least, most, left_out) = extremes(budgets)?;
    let square = sensitivity * sensitivity;
    Some(either(square / (least * least), square / (most * most), left_out))
}

/// The part of Theorems 4.2 and 4.3 that measuring dissimilarities costs.
fn dissimilarity(least: f64, most: f64, left_out: f64, domain: u32) -> f64 {
    let square = f64::from(domain).powi(2);
    (8.0 / (square * least * least)).min(left_out + 8.0 / (square * most * most))
}

/// Bounds PBD's average squared error at a timestamp: Theorem 4.2 of Du et al. 2025. `shares` are budgets divided by
/// windows. `None` without users or publications.
///
/// Takes for granted that repeating a release costs no more than its own error, and that at most so many
/// `publications` occur in a window. Budgets are squared, as in the proof.
pub fn distribution(shares: Budgets<'_>, domain: u32, publications: u32) -> Option<f64> {
    let (least, most, left_out) = extremes(shares)?;
    let count = f64::from(publications);
    let factor = 32.0 * (4.0_f64.powf(count) - 1.0) / (3.0 * count);
    let published = (factor / (least * least)).min(left_out + factor / (most * most));
    (publications > 0).then_some(dissimilarity(least, most, left_out, domain) + published)
}

/// Bounds PBA's average squared error at a timestamp where `skipped` timestamps precede a publication: Theorem 4.3 of
/// Du et al. 2025. `window` is the smallest, and `nullified` the mean error of timestamps that are nullified, which
/// depends on the data. `None` without users.
pub fn absorption(shares: Budgets<'_>, domain: u32, window: u32, skipped: u32, nullified: f64) -> Option<f64> {
    let (least, most, left_out) = extremes(shares)?;
    let (least_square, most_square) = (least.powi(-2), most.powi(-2));
    let squares = |terms: u32| (1..=terms).map(|term| f64::from(term).powi(-2)).sum::<f64>();
    let rising = skipped.saturating_add(1).min(window);
    let harmonic = squares(rising);
    let rise = either(least_square * harmonic, most_square * harmonic, f64::from(rising) * left_out);
    let rest = f64::from((skipped + 1).saturating_sub(rising)) * either(least_square, most_square, left_out);
    let around = (rise + rest + f64::from(skipped) * nullified) / (2.0 * f64::from(skipped) + 1.0);
    Some(dissimilarity(least, most, left_out, domain) + around)
}
