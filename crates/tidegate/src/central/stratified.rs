//! The stratified estimator: every class is published with its own budget, and no user is sampled.
//!
//! Each group of classes has a histogram with noise for what the group spends. A careful group's is noisy, but members of different
//! groups hold much the same values: so each is shrunk towards its size times the composition of all groups taken together, the
//! more the noisier it is and the less groups have been seen to differ. That is post-processing and costs nothing.
//!
//! With `n_g` members, histogram `H_g`, noise of variance `V_g`, and `D_g` the expected squared difference between a count of
//! the group and its expectation from the common composition `pi`:
//!
//! ```text
//! pi  = sum n_g H_g/(V_g+D_g) / sum n_g²/(V_g+D_g)
//! c_g = n_g pi + D_g/(V_g+D_g) · (H_g - n_g pi)
//! D_g = n_g m + n_g² delta_g
//! ```
//!
//! `m`, the mean of `pi (1-pi)`, is the spread of independent members; `delta_g` is what groups differ by beyond that, estimated
//! from the publications themselves. Given `D`, no other linear estimate of the sum that is unbiased for a common composition has a
//! lower expected squared error; with a single group it is that group's histogram.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::{Neighbours, histogram_noise};

/// Some classes that spend the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which classes, by their positions.
    pub classes: Vec<usize>,
    /// How many members they have.
    pub members: f64,
    /// What each spends; nothing for those that take no part.
    pub amount: Option<Epsilon>,
    /// The variance of the noise of a count.
    noise: f64,
    /// The expected squared difference of a count from the common composition.
    difference: f64,
}

impl Group {
    /// The expected squared distance of a noisy count from the common composition. It is a divisor, and so never zero.
    fn scatter(&self) -> f64 {
        (self.noise + self.difference).max(f64::MIN_POSITIVE.sqrt())
    }

    /// How much of the group's own deviation from the common composition is believed.
    fn trust(&self) -> f64 {
        if self.noise.is_infinite() { 0.0 } else { 1.0 - self.noise / self.scatter() }
    }
}

/// What is known about the differences between classes, from what has been published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differences {
    /// The mean of `pi (1 - pi)`.
    spread: f64,
    /// For each class the estimated mean squared difference of its composition from the common one, beyond the spread of
    /// independent members, and the weight of what it rests on.
    of_class: Vec<(f64, f64)>,
}

/// How fast what was seen earlier is forgotten.
const MEMORY: f64 = 0.9;

impl Differences {
    /// Before anything was published: values that are as spread as can be, and classes that do not differ.
    pub fn unknown(classes: usize, domain: u32) -> Self {
        Self { spread: largest_spread(domain), of_class: vec![(0.0, 0.0); classes] }
    }

    /// Whether they are of so many classes.
    pub(super) fn fits(&self, classes: usize) -> bool {
        let finite = |(estimate, weight): &(f64, f64)| estimate.is_finite() && weight.is_finite() && *weight >= 0.0;
        self.of_class.len() == classes && self.of_class.iter().all(finite) && (0.0..=0.25).contains(&self.spread)
    }

    /// The expected squared difference of a count of so many members of these classes. What the classes have in common is not known;
    /// their differences are taken to add up.
    #[allow(clippy::cast_precision_loss)]
    fn of(&self, classes: &[usize], members: f64) -> f64 {
        let beyond = classes.iter().map(|class| self.of_class[*class].0.max(0.0)).sum::<f64>() / classes.len() as f64;
        members * self.spread + members * members * beyond
    }
}

fn largest_spread(domain: u32) -> f64 {
    let cells = f64::from(domain.max(1));
    (1.0 - 1.0 / cells) / cells
}

fn noise_variance(amount: Option<Epsilon>, neighbours: Neighbours) -> f64 {
    let scale = amount.and_then(|amount| histogram_noise(neighbours, NonZeroU64::MIN, amount).ok());
    scale.map_or(f64::INFINITY, |scale| scale.laplace_variance())
}

/// How classes with these budgets and members are best grouped. Classes without members are in no group. Classes without a
/// budget are a group that takes no part.
///
/// Beginning with each class by itself, those two groups next to each other in the order of their budgets are merged that lower
/// the expected error most, as long as one does. The members of a merged group spend the smaller of the two budgets.
#[allow(clippy::cast_precision_loss)]
pub fn group(
    budgets: &[Option<Epsilon>],
    members: &[u64],
    differences: &Differences,
    neighbours: Neighbours,
) -> Vec<Group> {
    let one = |(class, (amount, members)): (usize, (&Option<Epsilon>, &u64))| {
        let members = *members as f64;
        let difference = differences.of(&[class], members);
        Group { classes: vec![class], members, amount: *amount, noise: noise_variance(*amount, neighbours), difference }
    };
    let with_members = budgets.iter().zip(members).enumerate().filter(|(_, (_, members))| **members > 0);
    let mut groups: Vec<Group> = with_members.map(one).collect();
    groups.sort_by_key(|group| group.amount);
    let mut error = expected_error(&groups);
    loop {
        // Those that take no part come first, and stay among themselves.
        let alike = |right: &usize| groups[right - 1].amount.is_some() == groups[*right].amount.is_some();
        let merged = (1..groups.len()).filter(alike).map(|right| {
            let merged = merge(&groups, right, differences);
            (expected_error(&merged), merged)
        });
        match merged.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
            // Where it makes no difference, fewer groups are simpler.
            Some((lower, merged)) if lower <= error => (error, groups) = (lower, merged),
            _ => return groups,
        }
    }
}

/// The groups, of which that at `right` has joined the one before it.
fn merge(groups: &[Group], right: usize, differences: &Differences) -> Vec<Group> {
    let mut merged = groups.to_vec();
    let joining = merged.remove(right);
    let group = &mut merged[right - 1];
    group.classes.extend(joining.classes);
    group.members += joining.members;
    group.difference = differences.of(&group.classes, group.members);
    merged
}

/// What the estimate of the sum makes of each group's histogram: `sum g_g H_g`.
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

/// The expected squared error of a count of all users, on average over the cells; infinite where no group takes part.
pub fn expected_error(groups: &[Group]) -> f64 {
    if groups.iter().all(|group| group.amount.is_none()) {
        return f64::INFINITY;
    }
    let of_group = |(group, coefficient): (&Group, f64)| {
        let noise = if group.noise.is_finite() { coefficient * coefficient * group.noise } else { 0.0 };
        noise + (coefficient - 1.0) * (coefficient - 1.0) * group.difference
    };
    groups.iter().zip(coefficients(groups)).map(of_group).sum()
}

/// The estimated counts of each group, from the noisy histograms of the groups that take part, in their order; and what is now
/// known about the differences between classes.
pub fn estimate(groups: &mut [Group], histograms: &[Vec<i64>], differences: &mut Differences) -> Vec<Vec<f64>> {
    let cells = histograms.first().map_or(0, Vec::len);
    let mut next = histograms.iter();
    #[allow(clippy::cast_precision_loss)]
    let histograms: Vec<Option<Vec<f64>>> = groups
        .iter()
        .map(|group| group.amount.and_then(|_| next.next()).map(|counts| counts.iter().map(|c| *c as f64).collect()))
        .collect();
    learn(groups, &histograms, differences);
    for group in groups.iter_mut() {
        group.difference = differences.of(&group.classes, group.members);
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

/// The composition of all groups but one, and the variance of its error in a cell; `None` where no group takes part.
fn composition(
    groups: &[Group],
    histograms: &[Option<Vec<f64>>],
    without: Option<usize>,
    cells: usize,
) -> Option<(Vec<f64>, f64)> {
    let (mut sum, mut precision) = (vec![0.0; cells], 0.0);
    for (index, (group, histogram)) in groups.iter().zip(histograms).enumerate() {
        let (Some(histogram), false) = (histogram, without == Some(index)) else { continue };
        let weight = group.members / group.scatter();
        precision += weight * group.members;
        sum.iter_mut().zip(histogram).for_each(|(sum, count)| *sum += weight * count);
    }
    (precision > 0.0).then(|| (sum.iter().map(|sum| sum / precision).collect(), 1.0 / precision))
}

/// Learns from noisy histograms how far groups differ.
fn learn(groups: &[Group], histograms: &[Option<Vec<f64>>], differences: &mut Differences) {
    let Some(cells) = histograms.iter().flatten().map(Vec::len).next() else { return };
    #[allow(clippy::cast_precision_loss)]
    let number = cells as f64;
    if let Some((common, variance)) = composition(groups, histograms, None, cells) {
        let squares = common.iter().map(|pi| pi * pi).sum::<f64>() - number * variance;
        differences.spread = ((1.0 - squares) / number).clamp(0.0, (1.0 - 1.0 / number) / number);
    }
    for (index, (group, histogram)) in groups.iter().zip(histograms).enumerate() {
        let (Some(histogram), Some((others, error))) = (histogram, composition(groups, histograms, Some(index), cells))
        else {
            continue;
        };
        let squares = histogram.iter().zip(&others).map(|(count, pi)| (count - group.members * pi).powi(2));
        let square = group.members * group.members;
        let explained = group.noise + group.members * differences.spread + square * error;
        let seen = (squares.sum::<f64>() / number - explained) / square;
        // The mean of so many squares has about this variance.
        let weight = (number / (2.0 * (explained / square).powi(2))).min(1e100);
        for class in &group.classes {
            let (estimate, earlier) = &mut differences.of_class[*class];
            let kept = MEMORY * *earlier;
            *estimate = (kept * *estimate + weight * seen) / (kept + weight).max(f64::MIN_POSITIVE);
            *earlier = kept + weight;
        }
    }
}
