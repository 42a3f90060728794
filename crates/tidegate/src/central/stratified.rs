//! The stratified estimator: every class counts with its own budget, and no user is sampled.
//!
//! Classes are counted in groups. Each group has a histogram in which a member weighs what the member's class spends, with noise for
//! that; divided by what a member spends on average it estimates the group's counts. In a group whose members spend different
//! amounts it leans towards those who spend more, which is right as far as they hold the same values as the others.
//!
//! A careful group's histogram is noisy, but members of different groups hold much the same values: so each is shrunk towards its size
//! times the composition of all groups taken together, the more the noisier it is and the less groups have been seen to differ.
//! That is post-processing and costs nothing.
//!
//! With `n_i` members of class `i` spending `e_i`, and of a group `g` its members `n_g`, their mean spend `e_g`, its histogram `H_g`
//! and `S` the sensitivity, 1 or 2:
//!
//! ```text
//! V_g = 2 (S/e_g)² + sum D_i (e_i/e_g - 1)²                 noise, and lean
//! pi  = sum n_g H_g/(V_g+D_g) / sum n_g²/(V_g+D_g)          the common composition
//! c_g = n_g pi + D_g/(V_g+D_g) · (H_g - n_g pi)             the estimate
//! D_i = n_i m + n_i² delta_i
//! ```
//!
//! `D` is the expected squared difference between a count and its expectation from the common composition. `m`, the mean of
//! `pi (1-pi)`, is the spread of independent members; `delta` is what classes differ by beyond that, estimated from the
//! publications themselves, group against group. That is why a group leans only where there is another group: a single one would never show
//! that its classes differ. Given `D`, no other linear estimate of the sum that is unbiased for a common composition has a lower
//! expected squared error; with a single group it is that group's histogram.
//!
//! Which classes are grouped, and whether those who could spend more do, is what lowers the expected error most. It follows from
//! public numbers: budgets, members, and what has been published.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;
use tidegate_kernel::noise::Scale;
use tidegate_kernel::primitives::{Neighbours, common_unit, histogram_noise};

/// Some classes that are counted together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which classes, by their positions.
    pub classes: Vec<usize>,
    /// How many members they have.
    pub members: f64,
    /// What each class spends, in the same order; none for classes that take no part.
    pub amounts: Vec<Epsilon>,
    /// What a member spends on average.
    mean: f64,
    /// The variance of the noise of a count.
    noise: f64,
    /// What is added to it because members who spend more weigh more.
    lean: f64,
    /// The expected squared difference of a count from the common composition.
    difference: f64,
}

impl Group {
    /// The variance of the group's histogram around its members' counts.
    fn variance(&self) -> f64 {
        self.noise + self.lean
    }

    /// The expected squared distance of a noisy count from the common composition. It is a divisor, and so never zero.
    fn scatter(&self) -> f64 {
        (self.variance() + self.difference).max(f64::MIN_POSITIVE.sqrt())
    }

    /// How much of the group's own deviation from the common composition is believed.
    fn trust(&self) -> f64 {
        if self.noise.is_infinite() { 0.0 } else { 1.0 - self.variance() / self.scatter() }
    }

    const fn takes_part(&self) -> bool {
        !self.amounts.is_empty()
    }

    /// The published weighted counts as counts of the members.
    #[allow(clippy::cast_precision_loss)]
    fn counts(&self, published: &[i64]) -> Vec<f64> {
        let unit = common_unit(self.amounts.iter().copied()).map_or(1.0, Epsilon::as_f64);
        published.iter().map(|count| *count as f64 * unit / self.mean).collect()
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

/// What groups are made of.
#[derive(Clone, Copy)]
struct Offers<'a> {
    budgets: &'a [Option<Epsilon>],
    members: &'a [u64],
    differences: &'a Differences,
    neighbours: Neighbours,
}

impl Offers<'_> {
    #[allow(clippy::cast_precision_loss)]
    fn members_of(&self, class: usize) -> f64 {
        self.members[class] as f64
    }

    /// A group of these classes, in the order of their budgets. Its members spend their budget, but no more than a limit: that
    /// which has the lowest variance or, where the group must not lean, the smallest budget.
    fn group(&self, classes: Vec<usize>, may_lean: bool) -> Group {
        let members = classes.iter().map(|class| self.members_of(*class)).sum();
        let difference = self.differences.of(&classes, members);
        let budgets: Vec<Epsilon> = classes.iter().filter_map(|class| self.budgets[*class]).collect();
        let noise = f64::INFINITY;
        let mut best = Group { classes, members, amounts: Vec::new(), mean: 0.0, noise, lean: 0.0, difference };
        let limits = budgets.iter().take(if may_lean { budgets.len() } else { 1 });
        for limit in limits {
            let amounts: Vec<Epsilon> = budgets.iter().map(|budget| *budget.min(limit)).collect();
            let mean = self.mean(&best.classes, &amounts) / members;
            let noise = self.noise(&amounts, mean);
            let lean = lean(&best.classes, &amounts, mean, |class| (self.members_of(class), self.differences));
            if noise + lean < best.variance() {
                best = Group { amounts, mean, noise, lean, ..best };
            }
        }
        best
    }

    /// What all members spend together.
    fn mean(&self, classes: &[usize], amounts: &[Epsilon]) -> f64 {
        classes.iter().zip(amounts).map(|(class, amount)| self.members_of(*class) * amount.as_f64()).sum()
    }

    /// The variance of the noise of a count. Where all spend the same it is exact; otherwise weights are large numbers, and noise is
    /// as good as continuous.
    #[allow(clippy::cast_precision_loss)] // one or two
    fn noise(&self, amounts: &[Epsilon], mean: f64) -> f64 {
        let same = amounts.first().filter(|first| amounts.iter().all(|amount| amount == *first));
        let scale = same.and_then(|amount| histogram_noise(self.neighbours, NonZeroU64::MIN, *amount).ok());
        let continuous = || 2.0 * (self.neighbours.histogram_sensitivity(NonZeroU64::MIN) as f64 / mean).powi(2);
        scale.map_or_else(continuous, Scale::laplace_variance)
    }
}

/// The expected squared error of a count because a member of each class weighs more or less than one.
fn lean<'a>(classes: &[usize], amounts: &[Epsilon], mean: f64, of: impl Fn(usize) -> (f64, &'a Differences)) -> f64 {
    let of_class = |(class, amount): (&usize, &Epsilon)| {
        let (members, differences) = of(*class);
        (amount.as_f64() / mean - 1.0).powi(2) * differences.of(&[*class], members)
    };
    classes.iter().zip(amounts).map(of_class).sum()
}

/// How classes with these budgets and members are best grouped. Classes without members are in no group. Classes without a
/// budget are a group that takes no part.
///
/// Beginning with each class by itself, those two groups next to each other in the order of their budgets are merged that lower
/// the expected error most, as long as one does.
pub fn group(
    budgets: &[Option<Epsilon>],
    members: &[u64],
    differences: &Differences,
    neighbours: Neighbours,
) -> Vec<Group> {
    let offers = Offers { budgets, members, differences, neighbours };
    let mut classes: Vec<usize> = (0..budgets.len()).filter(|class| members[*class] > 0).collect();
    classes.sort_by_key(|class| budgets[*class]);
    let mut groups: Vec<Group> = classes.into_iter().map(|class| offers.group(vec![class], false)).collect();
    let mut error = expected_error(&groups);
    loop {
        // Those that take no part come first, and stay among themselves.
        let alike = |right: &usize| groups[right - 1].takes_part() == groups[*right].takes_part();
        let merged = (1..groups.len()).filter(alike).map(|right| {
            let merged = merge(&groups, right, &offers);
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
fn merge(groups: &[Group], right: usize, offers: &Offers<'_>) -> Vec<Group> {
    let mut merged = groups.to_vec();
    let joining = merged.remove(right);
    // A group that leans needs another by which it would be noticed that classes differ.
    let may_lean = merged.iter().filter(|group| group.takes_part()).count() > 1;
    let classes = [merged[right - 1].classes.as_slice(), &joining.classes].concat();
    merged[right - 1] = offers.group(classes, may_lean);
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
    if !groups.iter().any(Group::takes_part) {
        return f64::INFINITY;
    }
    let of_group = |(group, coefficient): (&Group, f64)| {
        let noise = if group.takes_part() { coefficient * coefficient * group.variance() } else { 0.0 };
        noise + (coefficient - 1.0) * (coefficient - 1.0) * group.difference
    };
    groups.iter().zip(coefficients(groups)).map(of_group).sum()
}

/// The estimated counts of each group, from the noisy histograms of the groups that take part, in their order, and the members of
/// each class; and what is now known about the differences between classes.
pub fn estimate(
    groups: &mut [Group],
    histograms: &[Vec<i64>],
    members: &[u64],
    differences: &mut Differences,
) -> Vec<Vec<f64>> {
    let cells = histograms.first().map_or(0, Vec::len);
    let mut next = histograms.iter();
    let counts = |group: &Group| if group.takes_part() { next.next().map(|counts| group.counts(counts)) } else { None };
    let histograms: Vec<Option<Vec<f64>>> = groups.iter().map(counts).collect();
    learn(groups, &histograms, differences);
    #[allow(clippy::cast_precision_loss)]
    let of = |class: usize| (members[class] as f64, &*differences);
    for group in groups.iter_mut() {
        group.difference = differences.of(&group.classes, group.members);
        group.lean = lean(&group.classes, &group.amounts, group.mean, of);
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
        let explained = group.variance() + group.members * differences.spread + square * error;
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
