//! Histograms and a distance for classes of users with different budgets, without sampling.

use std::num::NonZeroU64;

use zeroize::Zeroizing;

use super::distance::distance;
use super::sampled_histogram::PaidClasses;
use super::{ClassHistograms, Neighbours, Noised, PrimitiveError, histogram_noise};
use crate::epsilon::{Epsilon, UNITS_PER_EPSILON};
use crate::noise::{DiscreteLaplace, NoiseScale, greatest_common_divisor};
use crate::permit::Permit;
use crate::random::{FreshRandom, Randomness};
use crate::sealed::Sealed;

/// Publishes one histogram for each group of classes, with [discrete Laplace](DiscreteLaplace) noise. Each user is
/// weighted by the epsilon of the user's class. A group is the list of its classes' permits. A class without a permit
/// is left out, and the output reveals nothing about its members.
///
/// The weight of a class is an integer: its epsilon in units of the group's [`common_unit`]. If all classes of a group
/// spend the same, every weight is one, and the histogram counts users.
///
/// # Guarantee
/// A user of class `i` counts once. The user's contribution to the timestamp is protected as `neighbours` says, at a
/// loss of exactly the class's epsilon ([proof](crate::proofs::grouped_histograms)). Class membership is public. Each
/// weighted count is unbiased, with the [`laplace_variance`](NoiseScale::laplace_variance) of [`histogram_noise`] at
/// the group's common unit and a contribution of one. Sums saturate at `i64`, which is post-processing. The histograms
/// are in the order of the groups.
///
/// # Errors
/// [`PrimitiveError::Nothing`] for no group or an empty one, [`PrimitiveError::Timestamp`],
/// [`PrimitiveError::WithoutClass`], [`PrimitiveError::NoSuchClass`] and [`PrimitiveError::ClassPaidTwice`] as for
/// [`sampled_histogram`](super::sampled_histogram).
///
/// ```
/// use tidegate_kernel::primitives::{Neighbours, grouped_histograms, seal_class_histograms};
/// use tidegate_kernel::{ClassLedgers, Epsilon, Ledger, SystemRandom, Window};
///
/// let (careful, relaxed): (Epsilon, Epsilon) = ("0.5".parse()?, "1".parse()?);
/// let mut ledgers = ClassLedgers::default();
/// ledgers.register(7, Ledger::new(careful, Window::EVENT));
/// ledgers.register(9, Ledger::new(relaxed, Window::EVENT));
/// let users = [(7, 2), (7, 2), (7, 1), (9, 2), (9, 0)]; // class, value
/// let histograms = seal_class_histograms(ledgers.account(), 0, users, &[7, 9], 3)?;
/// let groups = [vec![ledgers.spend(7, 0, careful)?], vec![ledgers.spend(9, 0, relaxed)?]];
/// let noisy = grouped_histograms(groups, &histograms, Neighbours::AddRemove, &mut SystemRandom::new()?)?;
/// assert_eq!(noisy.value().len(), 2); // two histograms of three counts
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn grouped_histograms(
    groups: impl IntoIterator<Item = Vec<Permit>>,
    histograms: &Sealed<ClassHistograms>,
    neighbours: Neighbours,
    random: &mut impl Randomness,
) -> Result<Noised<Vec<Vec<i64>>>, PrimitiveError> {
    let mut paid = PaidClasses::new(histograms);
    let mut sums = Vec::new();
    for group in groups {
        let unit = common_unit(group.iter().map(Permit::epsilon));
        let unit = unit.ok_or(PrimitiveError::Nothing { expected: "permit in each group" })?;
        let mut sum = Zeroizing::new(vec![0_i128; histograms.domain()]);
        for permit in &group {
            paid.add(permit)?;
            let weight = i128::from(permit.epsilon().units() / unit.units());
            let counts = permit.class().map_or(&[][..], |class| histograms.content().of(class));
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += weight * i128::from(*count));
        }
        sums.push((DiscreteLaplace::new(histogram_noise(neighbours, NonZeroU64::MIN, unit)?), sum));
    }
    let spent = paid.most()?;
    let random = &mut FreshRandom::new(random)?;
    let noised = sums.iter().map(|(noise, sum)| sum.iter().map(|count| noise.add_to(*count, random)).collect());
    let noised = noised.collect();
    Ok(Noised::new(noised, spent, random))
}

/// The greatest common divisor of the amounts; `None` for no amounts.
///
/// ```
/// use tidegate_kernel::primitives::common_unit;
///
/// assert_eq!(common_unit(["0.4".parse()?, "0.6".parse()?]), Some("0.2".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn common_unit(amounts: impl IntoIterator<Item = Epsilon>) -> Option<Epsilon> {
    let units = amounts.into_iter().map(Epsilon::units).reduce(greatest_common_divisor)?;
    Epsilon::from_units(units).ok()
}

/// The distance of the classes' histograms from public ones, weighted by the classes' epsilons: the sum over the cells
/// of `|sum_i ε_i·(c_i - r_i)|`, where `c_i` and `r_i` are the counts and the reference of class `i`. It has one
/// [discrete Laplace](DiscreteLaplace) noise of scale 1 (2 for [`Neighbours::Replace`]).
///
/// The result is in billionths, like epsilons. Divide it by a billion and by the users' mean ε: if all classes have
/// changed alike, that is the distance of the whole histogram from the sum of the references. Its noise is that of a
/// [`noisy_distance`](super::noisy_distance) at the mean ε, which is less than with any sampling.
///
/// `references` has the reference counts of each class with a permit, in any order; others are ignored.
///
/// # Guarantee
/// A user of class `i` counts once, and loses at most the class's epsilon ([proof](crate::proofs::grouped_histograms)).
/// The result is unbiased for the weighted distance, with variance 2·10¹⁸ (four times that for
/// [`Neighbours::Replace`]), and may be negative. It saturates at `i64`, which is post-processing.
///
/// # Errors
/// [`PrimitiveError::Length`] if a reference is missing or has the wrong number of cells, and those of
/// [`grouped_histograms`] about permits.
pub fn weighted_distance(
    permits: impl IntoIterator<Item = Permit>,
    histograms: &Sealed<ClassHistograms>,
    references: &[(u32, &[i64])],
    neighbours: Neighbours,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    let mut paid = PaidClasses::new(histograms);
    permits.into_iter().try_for_each(|permit| paid.add(&permit))?;
    let spent = paid.most()?;
    let mut sums = Zeroizing::new(vec![0_i128; histograms.domain()]);
    for (class, amount) in paid.amounts {
        let reference = references.iter().find(|(other, _)| *other == class).map_or(&[][..], |(_, counts)| *counts);
        super::distance::check_length(reference, histograms.domain())?;
        for ((sum, count), reference) in sums.iter_mut().zip(histograms.content().of(class)).zip(reference) {
            *sum += i128::from(amount.units()) * (i128::from(*count) - i128::from(*reference));
        }
    }
    let zero = vec![0; histograms.domain()];
    let noise = DiscreteLaplace::new(NoiseScale::new(weighted_scale(neighbours), NonZeroU64::MIN));
    let random = &mut FreshRandom::new(random)?;
    Ok(Noised::new(noise.add_to(distance(sums.iter().copied(), &zero), random), spent, random))
}

/// The scale at which a user of weight ε, in billionths, loses ε.
const fn weighted_scale(neighbours: Neighbours) -> NonZeroU64 {
    let units = match NonZeroU64::new(UNITS_PER_EPSILON) {
        Some(units) => units,
        None => NonZeroU64::MIN, // not reached: a billion
    };
    match NonZeroU64::new(neighbours.histogram_sensitivity(units)) {
        Some(scale) => scale,
        None => units, // not reached: one or two billions
    }
}
