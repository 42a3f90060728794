//! Stratified estimator: every class counts with its own budget, and no user is sampled.
//!
//! Classes are counted in groups. A group's histogram weighs each member by the spend of its class, and gets noise for
//! that. Divided by the mean spend, it estimates the group's counts. It leans towards members who spend more, which is
//! correct if they hold the same values as the others.
//!
//! Members of different groups hold similar values. So each noisy histogram is shrunk towards the group's size times
//! the common composition: the more, the noisier it is and the less groups have been seen to differ. That is
//! post-processing.
//!
//! Class `i` has `n_i` members who spend `e_i`. Group `g` has `n_g` members with mean spend `e_g` and histogram `H_g`.
//! `S` is the sensitivity, 1 or 2:
//!
//! ```text
//! V_g = 2 (S/e_g)² + sum n_i m (e_i/e_g - 1)² + delta_high (sum n_i |e_i/e_g - 1|)²    noise, uneven weights, lean
//! D_g = n_g m + n_g² delta_low                              how far a group's counts are from n_g pi
//! pi  = sum n_g H_g/(V_g+D_g) / sum n_g²/(V_g+D_g)          the common composition
//! c_g = n_g pi + D_g/(V_g+D_g) · (H_g - n_g pi)             the estimate
//! ```
//!
//! `m`, the mean of `pi (1-pi)`, is the spread of independent members. `delta` is what the compositions of classes
//! differ by beyond that, estimated from the publications themselves, group against group: `delta_low` is the most that
//! any class has been seen to differ by, less a standard error, and `delta_high` the mean of all, and a standard error
//! more. Where nothing has been seen, that is as much as two compositions can differ: a group does not lean before its
//! classes have been seen to be alike, unless it is so small that it does not matter. Given `D` and `V`, no other
//! linear estimate of the sum that is unbiased for a common composition has a lower expected squared error; with a
//! single group it is that group's histogram.
//!
//! Classes are grouped, and spends limited, to minimise the expected error. Occasionally at least two groups are kept,
//! to compare them. All of that depends on public numbers only: budgets, members and publications.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;
use tidegate_kernel::noise::NoiseScale;
use tidegate_kernel::primitives::{Neighbours, common_unit, histogram_noise};

/// Classes that are counted together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Indices of the classes.
    pub classes: Vec<usize>,
    /// Number of members.
    pub members: f64,
    /// Spend of each class, in the same order; empty if the group takes no part.
    pub amounts: Vec<Epsilon>,
    /// Mean spend of a member.
    mean: f64,
    /// Noise variance of a count.
    noise: f64,
    /// Variance added by unequal weights of independent members.
    uneven: f64,
    /// Squared bias added if members with larger weights hold other values.
    lean: f64,
    /// Expected squared difference of a count from the common composition.
    difference: f64,
}

impl Group {
    /// Variance of the group's histogram around its members' counts.
    fn variance(&self) -> f64 {
        self.noise + self.uneven + self.lean
    }

    /// Expected squared distance of a noisy count from the common composition; positive, as it is a divisor.
    fn scatter(&self) -> f64 {
        (self.variance() + self.difference).max(f64::MIN_POSITIVE.sqrt())
    }

    /// Shrinkage factor of the group's deviation from the common composition.
    fn trust(&self) -> f64 {
        if self.noise.is_infinite() { 0.0 } else { 1.0 - self.variance() / self.scatter() }
    }

    const fn takes_part(&self) -> bool {
        !self.amounts.is_empty()
    }

    /// Converts published weighted counts to counts of members.
    #[allow(clippy::cast_precision_loss)]
    fn counts(&self, published: &[i64]) -> Vec<f64> {
        let unit = common_unit(self.amounts.iter().copied()).map_or(1.0, Epsilon::as_f64);
        published.iter().map(|count| *count as f64 * unit / self.mean).collect()
    }
}

/// Differences between classes, as learned from publications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differences {
    /// Mean of `pi (1 - pi)`.
    spread: f64,
    /// For each class, the estimated mean squared difference of its composition from the common one, beyond sampling
    /// variation; and its weight.
    of_class: Vec<(f64, f64)>,
}

/// Forgetting factor.
const MEMORY: f64 = 0.9;

impl Differences {
    /// State before any publication: maximal variation, and no differences.
    pub fn unknown(classes: usize, domain: u32) -> Self {
        Self { spread: largest_spread(domain), of_class: vec![(0.0, 0.0); classes] }
    }

    /// Whether the state is for so many classes.
    pub(super) fn fits(&self, classes: usize) -> bool {
        let finite = |(estimate, weight): &(f64, f64)| estimate.is_finite() && weight.is_finite() && *weight >= 0.0;
        self.of_class.len() == classes && self.of_class.iter().all(finite) && (0.0..=0.25).contains(&self.spread)
    }

    /// Expected squared difference of a count from the common composition. All classes count as different as any one is
    /// known to be, less a standard error.
    fn of(&self, members: f64) -> f64 {
        let surely = |(estimate, weight): &(f64, f64)| estimate - weight.max(f64::MIN_POSITIVE).sqrt().recip();
        let beyond = self.of_class.iter().map(surely).fold(0.0, f64::max);
        members * self.spread + members * members * beyond
    }

    /// Upper estimate of the differences: their mean plus a standard error. The maximum possible if nothing is known.
    fn at_most(&self, cells: f64) -> f64 {
        let (sum, known) =
            (self.of_class.iter().map(|(estimate, weight)| estimate * weight).sum::<f64>(), self.known());
        let possibly = if known > 0.0 { (sum / known).max(0.0) + known.sqrt().recip() } else { f64::INFINITY };
        possibly.min(largest_difference(cells))
    }

    /// Total weight.
    fn known(&self) -> f64 {
        self.of_class.iter().map(|(_, weight)| *weight).sum()
    }

    /// Variance and squared bias added to a count if members of a class count `amount / mean`.
    fn of_weights<'a>(&self, classes: impl Iterator<Item = (f64, &'a Epsilon)>, mean: f64, cells: f64) -> (f64, f64) {
        let (mut uneven, mut shift) = (0.0, 0.0);
        for (members, amount) in classes {
            let off = (amount.as_f64() / mean - 1.0).abs();
            uneven += members * self.spread * off * off;
            shift += members * off;
        }
        (uneven, self.at_most(cells) * shift * shift)
    }
}

/// Largest mean squared difference of two compositions.
fn largest_difference(cells: f64) -> f64 {
    2.0 / cells
}

fn largest_spread(domain: u32) -> f64 {
    let cells = f64::from(domain.max(1));
    (1.0 - 1.0 / cells) / cells
}

/// Budgets of classes, and what is known about them.
#[derive(Clone, Copy, Debug)]
pub struct Offers<'a> {
    /// Budget of each class; `None` for zero.
    pub budgets: &'a [Option<Epsilon>],
    /// Number of members of each class.
    pub members: &'a [u64],
    /// Number of values.
    pub domain: u32,
    /// Neighbouring relation.
    pub neighbours: Neighbours,
}

impl Offers<'_> {
    #[allow(clippy::cast_precision_loss)]
    fn members_of(&self, class: usize) -> f64 {
        self.members[class] as f64
    }

    /// Members of these classes.
    fn members_of_all(&self, classes: &[usize]) -> f64 {
        classes.iter().map(|class| self.members_of(*class)).sum()
    }

    /// Members of each class, with their spend.
    fn weights<'a>(
        &'a self,
        classes: &'a [usize],
        amounts: &'a [Epsilon],
    ) -> impl Iterator<Item = (f64, &'a Epsilon)> + 'a {
        classes.iter().map(|class| self.members_of(*class)).zip(amounts)
    }

    /// Mean spend of a member.
    fn mean(&self, classes: &[usize], amounts: &[Epsilon]) -> f64 {
        let all: f64 = self.weights(classes, amounts).map(|(members, amount)| members * amount.as_f64()).sum();
        all / self.members_of_all(classes)
    }

    /// Creates a group of classes, sorted by budget. Spends are limited to minimise the variance.
    fn group(&self, classes: Vec<usize>, differences: &Differences) -> Group {
        let members = self.members_of_all(&classes);
        let difference = differences.of(members);
        let budgets: Vec<Epsilon> = classes.iter().filter_map(|class| self.budgets[*class]).collect();
        let noise = f64::INFINITY;
        let mut best =
            Group { classes, members, amounts: Vec::new(), mean: 0.0, noise, uneven: 0.0, lean: 0.0, difference };
        for limit in &budgets {
            let amounts: Vec<Epsilon> = budgets.iter().map(|budget| *budget.min(limit)).collect();
            let mean = self.mean(&best.classes, &amounts);
            let noise = self.noise(&amounts, mean);
            let weights = self.weights(&best.classes, &amounts);
            let (uneven, lean) = differences.of_weights(weights, mean, f64::from(self.domain));
            if noise + uneven + lean < best.variance() {
                best = Group { amounts, mean, noise, uneven, lean, ..best };
            }
        }
        best
    }

    /// Noise variance of a count. Exact for equal spends; otherwise weights are large integers, and noise is treated as
    /// continuous.
    fn noise(&self, amounts: &[Epsilon], mean: f64) -> f64 {
        let same = amounts.first().filter(|first| amounts.iter().all(|amount| amount == *first));
        let scale = same.and_then(|amount| histogram_noise(self.neighbours, NonZeroU64::MIN, *amount).ok());
        scale.map_or_else(|| 2.0 * (self.sensitivity() / mean).powi(2), NoiseScale::laplace_variance)
    }

    #[allow(clippy::cast_precision_loss)] // one or two
    fn sensitivity(&self) -> f64 {
        self.neighbours.histogram_sensitivity(NonZeroU64::MIN) as f64
    }

    /// Spends of classes on a weighted distance, limited to minimise noise and bias.
    pub(super) fn for_distance(&self, differences: &Differences) -> Vec<Option<Epsilon>> {
        let with = |class: &usize| self.budgets[*class].is_some() && self.members[*class] > 0;
        let classes: Vec<usize> = (0..self.budgets.len()).filter(with).collect();
        let budgets: Vec<Epsilon> = classes.iter().filter_map(|class| self.budgets[*class]).collect();
        let cells = f64::from(self.domain);
        let error = |limit: &Epsilon| {
            let amounts: Vec<Epsilon> = budgets.iter().map(|budget| *budget.min(limit)).collect();
            let mean = self.mean(&classes, &amounts);
            let (uneven, lean) = differences.of_weights(self.weights(&classes, &amounts), mean, cells);
            2.0 * (self.sensitivity() / mean / cells).powi(2) + uneven + lean
        };
        let best = budgets.iter().map(|limit| (error(limit), limit)).min_by(|(a, _), (b, _)| a.total_cmp(b));
        let Some((_, limit)) = best else { return vec![None; self.budgets.len()] };
        let cut =
            |class: usize| self.budgets[class].filter(|_| self.members[class] > 0).map(|budget| budget.min(*limit));
        (0..self.budgets.len()).map(cut).collect()
    }
}

/// Groups the classes. Classes without members are in no group; classes without a budget form a group that takes no
/// part.
///
/// Starts with single classes. Merges the neighbours, by budget, that lower the expected error most, until none does.
/// At least two groups remain while comparing them would teach twice as much as is known.
pub fn group(offers: &Offers<'_>, differences: &Differences) -> Vec<Group> {
    let mut classes: Vec<usize> = (0..offers.budgets.len()).filter(|class| offers.members[*class] > 0).collect();
    classes.sort_by_key(|class| offers.budgets[*class]);
    let mut groups: Vec<Group> = classes.into_iter().map(|class| offers.group(vec![class], differences)).collect();
    let mut error = expected_error(&groups);
    loop {
        // Groups that take no part come first, and merge among themselves.
        let alike = |right: &usize| groups[right - 1].takes_part() == groups[*right].takes_part();
        let merged = (1..groups.len()).filter(alike).map(|right| {
            let merged = merge(&groups, right, offers, differences);
            (expected_error(&merged), merged)
        });
        match merged.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
            // On a tie, prefer fewer groups.
            Some((lower, merged)) if lower <= error => {
                let last = merged.iter().filter(|group| group.takes_part()).count() == 1;
                let same = groups.iter().all(|group| group.amounts.first() == groups[0].amounts.first());
                if last && !same && teaches(&groups, offers, differences) > 2.0 * differences.known() {
                    return groups;
                }
                (error, groups) = (lower, merged);
            }
            _ => return groups,
        }
    }
}

/// Merges the group at `right` with the one before it.
fn merge(groups: &[Group], right: usize, offers: &Offers<'_>, differences: &Differences) -> Vec<Group> {
    let mut merged = groups.to_vec();
    let joining = merged.remove(right);
    let classes = [merged[right - 1].classes.as_slice(), &joining.classes].concat();
    merged[right - 1] = offers.group(classes, differences);
    merged
}

/// Weight of what comparing these groups would teach.
fn teaches(groups: &[Group], offers: &Offers<'_>, differences: &Differences) -> f64 {
    let cells = f64::from(offers.domain);
    let of_group = |index: usize| {
        let other = precision(groups, Some(index)).recip();
        lesson(&groups[index], differences, cells, other).map_or(0.0, |lesson| lesson.weight)
    };
    (0..groups.len()).filter(|index| groups[*index].takes_part()).map(of_group).sum()
}

/// Information in a group's difference from the others.
struct Lesson {
    /// Expected squared difference of a count if classes do not differ.
    explained: f64,
    /// Inverse variance.
    weight: f64,
}

/// `None` if noise exceeds the largest possible difference. `others` is the variance of the composition to compare
/// with.
fn lesson(group: &Group, differences: &Differences, cells: f64, others: f64) -> Option<Lesson> {
    let square = group.members * group.members;
    let explained = group.noise + group.uneven + group.members * differences.spread + square * others;
    // Approximate variance of a mean of squares.
    let weight = (cells / (2.0 * (explained / square).powi(2))).min(1e100);
    (explained / square <= largest_difference(cells)).then_some(Lesson { explained, weight })
}

/// Coefficients of the groups' histograms in the estimated sum: `sum g_g H_g`.
fn coefficients(groups: &[Group]) -> Vec<f64> {
    let (mut believed, mut precision, mut all) = (0.0, 0.0, 0.0);
    for group in groups {
        all += group.members;
        precision += group.members * group.members / group.scatter();
        believed += group.members * group.trust();
    }
    let missing = if precision > 0.0 { (all - believed) / precision } else { 0.0 };
    groups.iter().map(|group| group.trust() + missing * group.members / group.scatter()).collect()
}

/// Expected squared error of a total count, averaged over the cells; infinite if no group takes part.
pub fn expected_error(groups: &[Group]) -> f64 {
    if !groups.iter().any(Group::takes_part) {
        return f64::INFINITY;
    }
    let of_group = |(group, coefficient): (&Group, f64)| {
        let noise = if group.takes_part() { coefficient * coefficient * group.variance() } else { 0.0 };
        noise + (coefficient - 1.0) * (coefficient - 1.0) * group.difference
    };
    groups.iter().zip(coefficients(groups)).map(of_group).sum()
}

/// Estimates the counts of each group from the noisy histograms of those that take part. Also returns the updated
/// differences.
pub fn estimate(
    groups: &mut [Group],
    histograms: &[Vec<i64>],
    offers: &Offers<'_>,
    differences: &mut Differences,
) -> Vec<Vec<f64>> {
    let cells = histograms.first().map_or(0, Vec::len);
    let mut next = histograms.iter();
    let counts = |group: &Group| if group.takes_part() { next.next().map(|counts| group.counts(counts)) } else { None };
    let histograms: Vec<Option<Vec<f64>>> = groups.iter().map(counts).collect();
    learn(groups, &histograms, differences);
    for group in groups.iter_mut() {
        let weights = offers.weights(&group.classes, &group.amounts);
        (group.uneven, group.lean) = differences.of_weights(weights, group.mean, f64::from(offers.domain));
        group.difference = differences.of(group.members);
    }
    let common = composition(groups, &histograms, None, cells).map_or_else(|| vec![0.0; cells], |(common, _)| common);
    let of_group = |(group, histogram): (&Group, &Option<Vec<f64>>)| {
        let own = group.trust();
        let shrunk = |(cell, pi): (usize, &f64)| {
            let target = group.members * pi;
            histogram.as_ref().map_or(target, |histogram| target + own * (histogram[cell] - target))
        };
        common.iter().enumerate().map(shrunk).collect()
    };
    groups.iter().zip(&histograms).map(of_group).collect()
}

/// Inverse variance of the composition of all groups but one.
fn precision(groups: &[Group], without: Option<usize>) -> f64 {
    let others = groups.iter().enumerate().filter(|(index, group)| group.takes_part() && without != Some(*index));
    others.map(|(_, group)| group.members * group.members / group.scatter()).sum()
}

/// Composition of all groups but one, and its error variance; `None` if no group takes part.
fn composition(
    groups: &[Group],
    histograms: &[Option<Vec<f64>>],
    without: Option<usize>,
    cells: usize,
) -> Option<(Vec<f64>, f64)> {
    let precision = precision(groups, without);
    let mut sum = vec![0.0; cells];
    for (index, (group, histogram)) in groups.iter().zip(histograms).enumerate() {
        let (Some(histogram), false) = (histogram, without == Some(index)) else { continue };
        let weight = group.members / group.scatter();
        sum.iter_mut().zip(histogram).for_each(|(sum, count)| *sum += weight * count);
    }
    (precision > 0.0).then(|| (sum.iter().map(|sum| sum / precision).collect(), 1.0 / precision))
}

/// Updates the differences, with exponential forgetting.
fn learn(groups: &[Group], histograms: &[Option<Vec<f64>>], differences: &mut Differences) {
    let Some(cells) = histograms.iter().flatten().map(Vec::len).next() else { return };
    #[allow(clippy::cast_precision_loss)]
    let number = cells as f64;
    if let Some((common, variance)) = composition(groups, histograms, None, cells) {
        let squares = common.iter().map(|pi| pi * pi).sum::<f64>() - number * variance;
        differences.spread = ((1.0 - squares) / number).clamp(0.0, (1.0 - 1.0 / number) / number);
    }
    differences.of_class.iter_mut().for_each(|(_, weight)| *weight *= MEMORY);
    for (index, (group, histogram)) in groups.iter().zip(histograms).enumerate() {
        let (Some(histogram), Some((others, error))) = (histogram, composition(groups, histograms, Some(index), cells))
        else {
            continue;
        };
        let Some(Lesson { explained, weight }) = lesson(group, differences, number, error) else { continue };
        let squares = histogram.iter().zip(&others).map(|(count, pi)| (count - group.members * pi).powi(2));
        let seen = (squares.sum::<f64>() / number - explained) / (group.members * group.members);
        let seen = seen.min(largest_difference(number));
        // One observation, shared by all classes of the group.
        #[allow(clippy::cast_precision_loss)]
        let weight = weight / group.classes.len() as f64;
        for class in &group.classes {
            let (estimate, earlier) = &mut differences.of_class[*class];
            *estimate = (*earlier * *estimate + weight * seen) / (*earlier + weight).max(f64::MIN_POSITIVE);
            *earlier += weight;
        }
    }
}
