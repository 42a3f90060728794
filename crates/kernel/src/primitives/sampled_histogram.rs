//! Histogram and distance for classes of users with different budgets, by sampling.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use zeroize::{Zeroize, Zeroizing};

use super::distance::{check_length, distance};
use super::{HistogramError, Neighbours, Noised, PrimitiveError, check_stamp, histogram_noise};
use crate::account::Account;
use crate::epsilon::{Epsilon, UNITS_PER_EPSILON};
use crate::interval::Interval;
use crate::noise::{BiasedBits, DiscreteLaplace};
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, Randomness};
use crate::randomised_response::MAX_DOMAIN;
use crate::sealed::Sealed;
use crate::step::RandomisedStep;

/// A histogram for each class of users, over one domain. It exists only sealed.
pub struct ClassHistograms {
    /// First cell of each class.
    first_cells: BTreeMap<u32, usize>,
    /// The size of the domain, at least 1.
    domain: usize,
    /// Concatenated by class.
    counts: Vec<u64>,
}

impl ClassHistograms {
    /// Maximum count of a cell. The sampling time grows with the counts.
    pub const MAX_COUNT: u64 = 1 << 40;

    /// Seals the counts of a timestamp for an account, concatenated in the order of `classes`.
    ///
    /// # Errors
    /// [`HistogramError::Cells`] for no counts or more than [`MAX_DOMAIN`]; [`HistogramError::Uneven`] if the number of
    /// counts is not a multiple of that of classes; [`HistogramError::RepeatedClass`] for a repeated class;
    /// [`HistogramError::Count`] for a count above [`MAX_COUNT`](Self::MAX_COUNT).
    pub fn seal(
        account: Account,
        timestamp: u64,
        classes: &[u32],
        counts: Vec<u64>,
    ) -> Result<Sealed<Self>, HistogramError> {
        let counts = Zeroizing::new(counts);
        let cells = counts.len();
        if cells == 0 || cells > MAX_DOMAIN as usize {
            return Err(HistogramError::Cells { cells: cells as u64 });
        }
        match cells.checked_div(classes.len()) {
            Some(domain) if domain * classes.len() == cells => {
                Self::sealed(account, timestamp, first_cells(classes, domain)?, domain, counts)
            }
            _ => Err(HistogramError::Uneven { counts: cells, classes: classes.len() }),
        }
    }

    /// The counts of a class; empty for an unknown class.
    pub(super) fn of(&self, class: u32) -> &[u64] {
        let of_class = |first_cell: &usize| &self.counts[*first_cell..*first_cell + self.domain];
        self.first_cells.get(&class).map_or(&[], of_class)
    }

    fn sealed(
        account: Account,
        timestamp: u64,
        first_cells: BTreeMap<u32, usize>,
        domain: usize,
        mut counts: Zeroizing<Vec<u64>>,
    ) -> Result<Sealed<Self>, HistogramError> {
        if let Some(position) = counts.iter().position(|count| *count > Self::MAX_COUNT) {
            return Err(HistogramError::Count { position });
        }
        Ok(Sealed::at(account, timestamp, Self { first_cells, domain, counts: std::mem::take(&mut *counts) }))
    }
}

/// The first cell of each class, for concatenated classes.
fn first_cells(classes: &[u32], domain: usize) -> Result<BTreeMap<u32, usize>, HistogramError> {
    let mut first_cells = BTreeMap::new();
    for (index, &class) in classes.iter().enumerate() {
        if first_cells.insert(class, index * domain).is_some() {
            return Err(HistogramError::RepeatedClass { class });
        }
    }
    Ok(first_cells)
}

/// Public properties of sealed histograms.
impl Sealed<ClassHistograms> {
    /// The size of the domain.
    pub fn domain(&self) -> usize {
        self.content().domain
    }

    /// The classes with a histogram, ascending.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.content().first_cells.keys().copied()
    }
}

impl Zeroize for ClassHistograms {
    fn zeroize(&mut self) {
        self.counts.zeroize();
    }
}

impl fmt::Debug for ClassHistograms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClassHistograms(..)")
    }
}

/// Seals the histograms of a timestamp's users, given as pairs of class and value, for the given classes and the domain
/// `0..domain`. List every registered class, not only those present.
///
/// # Errors
/// [`HistogramError::Class`] and [`HistogramError::Value`] for a pair that is out of range (with its position, not its
/// content); [`HistogramError::Cells`] for no cells or more than [`MAX_DOMAIN`] over all classes;
/// [`HistogramError::RepeatedClass`] and [`HistogramError::Count`] as for [`ClassHistograms::seal`].
pub fn seal_class_histograms(
    account: Account,
    timestamp: u64,
    users: impl IntoIterator<Item = (u32, u32)>,
    classes: &[u32],
    domain: u32,
) -> Result<Sealed<ClassHistograms>, HistogramError> {
    let cells = classes.len() as u64 * u64::from(domain);
    if !(1..=u64::from(MAX_DOMAIN)).contains(&cells) {
        return Err(HistogramError::Cells { cells });
    }
    let first_cells = first_cells(classes, domain as usize)?;
    let lookup = Lookup::new(&first_cells);
    let mut counts = Zeroizing::new(vec![0; classes.len() * domain as usize]);
    for (position, (class, value)) in users.into_iter().enumerate() {
        let first_cell = lookup.find(class).ok_or(HistogramError::Class { position, classes: classes.len() })?;
        if value >= domain {
            return Err(HistogramError::Value { position, domain });
        }
        counts[first_cell + value as usize] += 1;
    }
    ClassHistograms::sealed(account, timestamp, first_cells, domain as usize, counts)
}

/// Looks up the first cell of a class, for each of millions of users. Uses a table if class numbers are small, as is
/// usual.
enum Lookup<'a> {
    Table(Vec<Option<usize>>),
    Map(&'a BTreeMap<u32, usize>),
}

impl<'a> Lookup<'a> {
    const LARGEST_TABLE: u32 = 1 << 16;

    fn new(first_cells: &'a BTreeMap<u32, usize>) -> Self {
        match first_cells.last_key_value() {
            Some((&largest, _)) if largest < Self::LARGEST_TABLE => {
                let mut table = vec![None; largest as usize + 1];
                first_cells.iter().for_each(|(class, first_cell)| table[*class as usize] = Some(*first_cell));
                Self::Table(table)
            }
            _ => Self::Map(first_cells),
        }
    }

    #[inline]
    fn find(&self, class: u32) -> Option<usize> {
        match self {
            Self::Table(table) => table.get(class as usize).copied().flatten(),
            Self::Map(first_cells) => first_cells.get(&class).copied(),
        }
    }
}

/// The paid classes and their amounts.
pub(super) struct PaidClasses<'a> {
    histograms: &'a Sealed<ClassHistograms>,
    pub(super) amounts: BTreeMap<u32, Epsilon>,
}

impl<'a> PaidClasses<'a> {
    pub(super) const fn new(histograms: &'a Sealed<ClassHistograms>) -> Self {
        Self { histograms, amounts: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, permit: &Permit) -> Result<(), PrimitiveError> {
        check_stamp(permit, self.histograms)?;
        let class = permit.class().ok_or(PrimitiveError::WithoutClass)?;
        if !self.histograms.content().first_cells.contains_key(&class) {
            return Err(PrimitiveError::NoSuchClass { class });
        }
        if self.amounts.insert(class, permit.epsilon()).is_some() {
            return Err(PrimitiveError::ClassPaidTwice { class });
        }
        Ok(())
    }

    /// The largest amount of a class.
    pub(super) fn most(&self) -> Result<Epsilon, PrimitiveError> {
        self.amounts.values().copied().max().ok_or(PrimitiveError::Nothing { expected: "class permit" })
    }
}

/// The sampling rate of a class.
pub(crate) enum Kept {
    All,
    /// Each user with this probability, over 2^64.
    Share(NonZeroU64),
}

impl Kept {
    /// The largest rate at which a user of the class loses at most `epsilon`, rounded down.
    fn new(neighbours: Neighbours, epsilon: Epsilon, threshold: Epsilon) -> Result<Self, PrimitiveError> {
        if epsilon > threshold {
            return Err(PrimitiveError::AboveSamplingThreshold { epsilon, threshold });
        }
        if epsilon == threshold {
            return Ok(Self::All);
        }
        let one = Interval::integer(1);
        let gain = epsilon.exp().sub(one);
        let whole = match neighbours {
            Neighbours::AddRemove => threshold.exp().sub(one),
            Neighbours::Replace => {
                let half = Interval::exp(threshold.units(), 2 * UNITS_PER_EPSILON);
                half.sub(one).add(epsilon.exp().mul(one.sub(one.div(half))))
            }
        };
        let share = gain.div(whole).probability_down().and_then(NonZeroU64::new);
        share.map(Self::Share).ok_or(PrimitiveError::NobodySampled { epsilon, threshold })
    }
}

/// The probability that [`sampled_histogram`] and [`sampled_distance`] sample a user who spends `epsilon`.
///
/// It is 1 if `epsilon` equals the threshold. Otherwise it depends on the neighbours:
/// - [`Neighbours::AddRemove`]: `(e^epsilon - 1) / (e^threshold - 1)`
/// - [`Neighbours::Replace`]:
///   `(e^epsilon - 1) / ((e^(threshold/2) - 1) + e^epsilon·(1 - e^(-threshold/2)))`
///
/// # Errors
/// [`PrimitiveError::AboveSamplingThreshold`] for an epsilon above the threshold; [`PrimitiveError::NobodySampled`]
/// for a probability below 2⁻⁶⁴.
///
/// ```
/// use tidegate_kernel::primitives::{Neighbours, sampling_probability};
///
/// assert_eq!(sampling_probability(Neighbours::Replace, "1".parse()?, "2".parse()?)?, 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sampling_probability(
    neighbours: Neighbours,
    epsilon: Epsilon,
    threshold: Epsilon,
) -> Result<f64, PrimitiveError> {
    #[allow(clippy::cast_precision_loss)] // for error formulas
    Ok(match Kept::new(neighbours, epsilon, threshold)? {
        Kept::All => 1.0,
        Kept::Share(share) => share.get() as f64 / 2_f64.powi(64),
    })
}

/// The histogram of a sample of the users, with [discrete Laplace](DiscreteLaplace) noise on each count (the sample
/// mechanism, Jorgensen et al. 2015). The [sampling probability](sampling_probability) of a user makes the loss equal
/// to the epsilon of the user's class.
///
/// Each permit is for the class whose ledger granted it; permits come in any order. A class whose permit equals the
/// threshold is not sampled. A class without a permit is left out, and the output reveals nothing about its members.
///
/// # Guarantee
/// A user of class `i` counts once. The user's contribution to the timestamp is protected as `neighbours` says, at a
/// loss of at most the class's epsilon, up to rounding ([proof](crate::proofs::sampled_histogram)). Class membership
/// and the threshold are public: choose the threshold from the registered budgets, never from the users present.
///
/// A count `c_i` of a class sampled with probability `p_i` contributes `p_i·c_i` on average, so the sum has a bias of
/// `-sum (1-p_i)·c_i`. Its variance is `sum p_i·(1-p_i)·c_i` plus the
/// [`laplace_variance`](crate::noise::NoiseScale::laplace_variance) of [`histogram_noise`] at the threshold and a
/// contribution of one.
///
/// Each call draws a new sample. Two releases about one timestamp need two calls with separate permits: two statistics
/// of *one* sample lose more than the sum of the two.
///
/// The cost is O(classes · domain + users/64), and a table for each sampled class.
///
/// # Errors
/// [`PrimitiveError::Account`] and [`PrimitiveError::Timestamp`] for a permit of another account or timestamp,
/// [`PrimitiveError::WithoutClass`] for one without a class; [`PrimitiveError::NoSuchClass`] for a class without a
/// histogram; [`PrimitiveError::ClassPaidTwice`] for a repeated class; [`PrimitiveError::Nothing`] for no permits;
/// [`PrimitiveError::AboveSamplingThreshold`] for a permit above the threshold (spend the threshold instead);
/// [`PrimitiveError::NobodySampled`] for one so small that nobody would be sampled.
///
/// ```
/// use tidegate_kernel::primitives::{Neighbours, sampled_histogram, seal_class_histograms};
/// use tidegate_kernel::{ClassLedgers, Epsilon, Ledger, SystemRandom, Window};
///
/// let (careful, relaxed): (Epsilon, Epsilon) = ("0.5".parse()?, "1".parse()?);
/// let mut ledgers = ClassLedgers::default();
/// ledgers.register(7, Ledger::new(careful, Window::EVENT));
/// ledgers.register(9, Ledger::new(relaxed, Window::EVENT));
/// let users = [(7, 2), (7, 2), (7, 1), (9, 2), (9, 0)]; // class, value
/// let histograms = seal_class_histograms(ledgers.account(), 0, users, &[7, 9], 3)?;
/// let permits = ledgers.spend_all(0, &[(7, careful), (9, relaxed)])?;
/// let random = &mut SystemRandom::new()?;
/// let noisy = sampled_histogram(permits, &histograms, relaxed, Neighbours::AddRemove, random)?;
/// assert_eq!(noisy.value().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sampled_histogram(
    permits: impl IntoIterator<Item = Permit>,
    histograms: &Sealed<ClassHistograms>,
    threshold: Epsilon,
    neighbours: Neighbours,
    random: &mut impl Randomness,
) -> Result<Noised<Vec<i64>>, PrimitiveError> {
    let random = &mut FreshRandom::new(random)?;
    let (sampling, spent) = Sampling::new(permits, histograms, threshold, neighbours)?;
    Ok(Noised::new(random.publish(SampledCounts(sampling)), spent, random))
}

/// The L1 distance of a sample's counts from public ones, with [discrete Laplace](DiscreteLaplace) noise: a
/// [`noisy_distance`](super::noisy_distance) for classes of users with different budgets.
///
/// Sample and permits follow the rules of [`sampled_histogram`]; each call draws a new sample. So compare with
/// something comparable, such as an earlier sampled histogram at the same amounts.
///
/// # Guarantee
/// As for [`sampled_histogram`], a user of class `i` counts once and loses at most the class's epsilon
/// ([proof](crate::proofs::sampled_histogram)). Given the sample, the result is unbiased, with the
/// [`laplace_variance`](crate::noise::NoiseScale::laplace_variance) of [`histogram_noise`] at the threshold and a
/// contribution of one, for any number of cells. It can be negative.
///
/// # Errors
/// Those of [`sampled_histogram`], and [`PrimitiveError::Length`] if the reference has the wrong number of cells.
pub fn sampled_distance(
    permits: impl IntoIterator<Item = Permit>,
    histograms: &Sealed<ClassHistograms>,
    reference: &[i64],
    threshold: Epsilon,
    neighbours: Neighbours,
    random: &mut impl Randomness,
) -> Result<Noised<i64>, PrimitiveError> {
    check_length(reference, histograms.content().domain)?;
    let random = &mut FreshRandom::new(random)?;
    let (sampling, spent) = Sampling::new(permits, histograms, threshold, neighbours)?;
    Ok(Noised::new(random.publish(SampledDistance { sampling, reference }), spent, random))
}

/// The sampling rates and counts of the classes, and the noise.
pub(crate) struct Sampling<'a> {
    /// Sampling rate and counts of each class.
    pub(crate) classes: Vec<(Kept, &'a [u64])>,
    pub(crate) domain: usize,
    pub(crate) noise: DiscreteLaplace,
}

impl<'a> Sampling<'a> {
    /// The largest epsilon of a class.
    fn new(
        permits: impl IntoIterator<Item = Permit>,
        histograms: &'a Sealed<ClassHistograms>,
        threshold: Epsilon,
        neighbours: Neighbours,
    ) -> Result<(Self, Epsilon), PrimitiveError> {
        let mut paid = PaidClasses::new(histograms);
        permits.into_iter().try_for_each(|permit| paid.add(&permit))?;
        let spent = paid.most()?;
        let mut classes = Vec::with_capacity(paid.amounts.len());
        for (class, amount) in paid.amounts {
            classes.push((Kept::new(neighbours, amount, threshold)?, histograms.content().of(class)));
        }
        let noise = DiscreteLaplace::new(histogram_noise(neighbours, NonZeroU64::MIN, threshold)?);
        Ok((Self { classes, domain: histograms.content().domain, noise }, spent))
    }

    /// Draws the counts of a sample.
    fn sample(&self, random: &mut impl Randomness) -> Zeroizing<Vec<i128>> {
        let mut sample = Zeroizing::new(vec![0_i128; self.domain]);
        for (kept, counts) in &self.classes {
            let coins = match kept {
                Kept::All => None,
                Kept::Share(share) => Some(BiasedBits::new(*share)),
            };
            for (kept, count) in sample.iter_mut().zip(*counts) {
                *kept += i128::from(coins.as_ref().map_or(*count, |coins| coins.count_ones(*count, random)));
            }
        }
        sample
    }
}

/// One draw of noisy counts of a sample.
pub(crate) struct SampledCounts<'a>(pub(crate) Sampling<'a>);

impl RandomisedStep for SampledCounts<'_> {
    type Output = Vec<i64>;

    fn draw(&mut self, random: &mut impl Randomness) -> Vec<i64> {
        let sample = self.0.sample(random);
        sample.iter().map(|kept| self.0.noise.add_to(*kept, random)).collect()
    }
}

/// One draw of the noisy distance of a sample's counts from public ones.
pub(crate) struct SampledDistance<'a> {
    pub(crate) sampling: Sampling<'a>,
    pub(crate) reference: &'a [i64],
}

impl RandomisedStep for SampledDistance<'_> {
    type Output = i64;

    fn draw(&mut self, random: &mut impl Randomness) -> i64 {
        let sample = self.sampling.sample(random);
        self.sampling.noise.add_to(distance(sample.iter().copied(), self.reference), random)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use dashu::rational::RBig;

    use super::*;
    use crate::exact::{exp_bounds, many_epsilons, power_of_two_times};

    /// `2^64 · gain / whole`, the largest private rate, from bounds of e^epsilon, e^threshold and its root.
    fn share(neighbours: Neighbours, power: &RBig, threshold: &RBig, root: &RBig) -> RBig {
        let one = RBig::ONE;
        let whole = match neighbours {
            Neighbours::AddRemove => threshold - &one,
            Neighbours::Replace => root - &one + power * (&one - &one / root),
        };
        power_of_two_times(1_u8, 64) * (power - &one) / whole
    }

    #[test]
    fn wiping_leaves_no_counts() {
        let mut histograms = ClassHistograms { first_cells: BTreeMap::from([(1, 0)]), domain: 2, counts: vec![3, 4] };
        histograms.zeroize();
        assert!(histograms.counts.iter().all(|count| *count == 0));
    }

    #[test]
    fn rejects_more_cells_than_the_largest_domain() {
        let cells = MAX_DOMAIN as usize + 1;
        let refused = ClassHistograms::seal(Account::new(), 0, &[1], vec![0; cells]).map(|_| ());
        assert_eq!(refused, Err(HistogramError::Cells { cells: cells as u64 }));
    }

    #[test]
    fn shares_lie_just_below_exact_bounds() {
        // The bounds of e^x are so narrow that the rates from either differ by less than 2^-400 of it.
        let narrow = RBig::ONE - power_of_two_times(1_u8, -400);
        let almost = RBig::from_parts(99_999_999.into(), 100_000_000_u64.into());
        for threshold in ["0.000000002", "0.1", "1", "2.5", "20", "40"] {
            let threshold: Epsilon = threshold.parse().unwrap();
            let (whole, _) = exp_bounds(threshold.units(), UNITS_PER_EPSILON);
            let (root, _) = exp_bounds(threshold.units(), 2 * UNITS_PER_EPSILON);
            for units in many_epsilons(threshold.units().max(3)).into_iter().filter(|units| *units < threshold.units())
            {
                let epsilon = Epsilon::from_units(units).unwrap();
                let (power, _) = exp_bounds(units, UNITS_PER_EPSILON);
                for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
                    let largest = share(neighbours, &power, &whole, &root);
                    let given = match Kept::new(neighbours, epsilon, threshold) {
                        Ok(Kept::Share(given)) => RBig::from(given.get()),
                        Ok(Kept::All) => unreachable!(),
                        Err(error) => {
                            assert_eq!(error, PrimitiveError::NobodySampled { epsilon, threshold });
                            RBig::ZERO
                        }
                    };
                    assert!(given <= &largest * &narrow, "{epsilon} of {threshold}: {given} exceeds {largest}");
                    assert!(given > &largest * &almost - RBig::ONE, "{epsilon} of {threshold}: {given}, {largest}");
                }
            }
        }
    }
}
