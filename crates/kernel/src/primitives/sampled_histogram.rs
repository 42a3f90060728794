//! One histogram of users who spend different amounts.

use std::fmt;
use std::num::NonZeroU64;

use zeroize::{Zeroize, Zeroizing};

use super::{HistogramError, Neighbours, Noised, PrimitiveError, histogram_noise};
use crate::epsilon::{Epsilon, UNITS_PER_EPSILON};
use crate::interval::Interval;
use crate::noise::{BiasedBits, DiscreteLaplace};
use crate::permit::Permit;
use crate::random::Randomness;
use crate::randomised_response::MAX_DOMAIN;
use crate::sealed::Sealed;

/// A histogram for each class of users, all over the same domain. It exists only sealed.
pub struct ClassHistograms {
    /// The size of the domain, at least 1.
    domain: usize,
    /// One class after the other.
    counts: Vec<u64>,
}

impl ClassHistograms {
    /// Seals counts: those of the first class, then those of the second, and so on.
    ///
    /// # Errors
    /// [`HistogramError::Cells`] for no counts or more than [`MAX_DOMAIN`]; [`HistogramError::Uneven`] where the
    /// counts cannot be shared out evenly among the classes.
    pub fn seal(classes: usize, counts: Vec<u64>) -> Result<Sealed<Self>, HistogramError> {
        let counts = Zeroizing::new(counts);
        let cells = counts.len();
        if cells == 0 || cells > MAX_DOMAIN as usize {
            return Err(HistogramError::Cells { cells: cells as u64 });
        }
        match cells.checked_div(classes) {
            Some(domain) if domain * classes == cells => Ok(Self::sealed(domain, counts)),
            _ => Err(HistogramError::Uneven { counts: cells, classes }),
        }
    }

    fn sealed(domain: usize, mut counts: Zeroizing<Vec<u64>>) -> Sealed<Self> {
        Sealed::new(Self { domain, counts: std::mem::take(&mut *counts) })
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

/// Seals the histograms of users given as pairs of class and value, for classes `0..classes` and the domain
/// `0..domain`.
///
/// # Errors
/// [`HistogramError::Class`] and [`HistogramError::Value`] name the position of what is out of range, not the thing
/// itself; [`HistogramError::Cells`] for no cells or more than [`MAX_DOMAIN`] over all classes.
pub fn seal_class_histograms(
    users: impl IntoIterator<Item = (u32, u32)>,
    classes: u32,
    domain: u32,
) -> Result<Sealed<ClassHistograms>, HistogramError> {
    let cells = u64::from(classes) * u64::from(domain);
    if !(1..=u64::from(MAX_DOMAIN)).contains(&cells) {
        return Err(HistogramError::Cells { cells });
    }
    let mut counts = Zeroizing::new(vec![0; classes as usize * domain as usize]);
    for (position, (class, value)) in users.into_iter().enumerate() {
        if class >= classes {
            return Err(HistogramError::Class { position, classes });
        }
        if value >= domain {
            return Err(HistogramError::Value { position, domain });
        }
        counts[class as usize * domain as usize + value as usize] += 1;
    }
    Ok(ClassHistograms::sealed(domain as usize, counts))
}

/// How many of a class are kept.
enum Kept {
    All,
    /// So many out of 2^64, by a coin for each.
    Share(NonZeroU64),
}

impl Kept {
    /// The largest share at which a user of the class loses no more than `epsilon`, rounded down.
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

/// The probability with which [`sampled_histogram`] keeps a user who spends `epsilon`: 1 where that is the threshold,
/// otherwise `(e^epsilon - 1) / (e^threshold - 1)` for [`Neighbours::AddRemove`] and `(e^epsilon - 1) /
/// ((e^(threshold/2) - 1) + e^epsilon·(1 - e^(-threshold/2)))` for [`Neighbours::Replace`].
///
/// # Errors
/// [`PrimitiveError::AboveSamplingThreshold`] for an epsilon above the threshold, [`PrimitiveError::NobodySampled`]
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

/// The histogram of a sample of the users, with [discrete Laplace](DiscreteLaplace) noise on each count. Each user is
/// kept with the [probability](sampling_probability) that makes the loss what the user's class spends.
///
/// `permits` has an entry for each class. A class whose permit equals the threshold is taken whole; one without a
/// permit is left out, and the output says nothing about its members.
///
/// # Guarantee
/// What a user of class `i`, who counts once, contributes to the timestamp is protected as `neighbours` says, at a
/// loss of at most the class's epsilon, and almost all of it ([proof](crate::proofs::sampled_histogram)). Which class
/// a user belongs to, and the threshold, are public: choose the threshold from the registered budgets, never from who
/// is present.
///
/// A count `c_i` of a class kept with probability `p_i` contributes `p_i·c_i` on average, so the sum is biased
/// downwards by `sum (1-p_i)·c_i`; its variance is `sum p_i·(1-p_i)·c_i` plus the
/// [`laplace_variance`](crate::noise::Scale::laplace_variance) of [`histogram_noise`] at the threshold and a
/// contribution of one.
///
/// Each call draws a sample of its own. Two releases about one timestamp need two calls with permits of their own:
/// publishing two statistics of *one* sample would lose more than the sum of the two.
///
/// The cost is O(classes · domain + users/64), and a table for each class that is sampled.
///
/// # Errors
/// [`PrimitiveError::Length`] where there are not as many entries as classes, [`PrimitiveError::Nothing`] where no
/// class has a permit, [`PrimitiveError::AboveSamplingThreshold`] for a permit above the threshold (spend the smaller
/// of the two instead), [`PrimitiveError::NobodySampled`] for one so small that it would buy nothing.
///
/// ```
/// use tidegate_kernel::primitives::{Neighbours, sampled_histogram, seal_class_histograms};
/// use tidegate_kernel::{ClassLedgers, Epsilon, Ledger, SystemRandom, Window};
///
/// let (careful, relaxed): (Epsilon, Epsilon) = ("0.5".parse()?, "1".parse()?);
/// let mut ledgers = ClassLedgers::default();
/// ledgers.register(0, Ledger::new(careful, Window::EVENT));
/// ledgers.register(1, Ledger::new(relaxed, Window::EVENT));
/// let users = [(0, 2), (0, 2), (0, 1), (1, 2), (1, 0)]; // class, value
/// let histograms = seal_class_histograms(users, 2, 3)?;
/// let permits = [Some(ledgers.spend(0, 0, careful)?), Some(ledgers.spend(1, 0, relaxed)?)];
/// let random = &mut SystemRandom::new()?;
/// let noisy = sampled_histogram(permits, &histograms, relaxed, Neighbours::AddRemove, random)?;
/// assert_eq!(noisy.value().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sampled_histogram(
    permits: impl IntoIterator<Item = Option<Permit>>,
    histograms: &Sealed<ClassHistograms>,
    threshold: Epsilon,
    neighbours: Neighbours,
    random: &mut impl Randomness,
) -> Result<Noised<Vec<i64>>, PrimitiveError> {
    let permits: Vec<Option<Permit>> = permits.into_iter().collect();
    let ClassHistograms { domain, counts } = histograms.content();
    let classes = counts.len() / domain;
    if permits.len() != classes {
        return Err(PrimitiveError::Length { what: "class permits", given: permits.len(), expected: classes });
    }
    let spent = permits.iter().flatten().map(Permit::epsilon).max();
    let spent = spent.ok_or(PrimitiveError::Nothing { expected: "class permit" })?;
    let noise = DiscreteLaplace::new(histogram_noise(neighbours, NonZeroU64::MIN, threshold)?);

    let mut sample = Zeroizing::new(vec![0_i128; *domain]);
    for (permit, class) in permits.into_iter().zip(counts.chunks(*domain)) {
        let Some(permit) = permit else { continue };
        let coins = match Kept::new(neighbours, permit.epsilon(), threshold)? {
            Kept::All => None,
            Kept::Share(share) => Some(BiasedBits::new(share)),
        };
        for (kept, count) in sample.iter_mut().zip(class) {
            *kept += i128::from(coins.as_ref().map_or(*count, |coins| coins.count_ones(*count, random)));
        }
    }
    let noised = sample.iter().map(|kept| noise.add_to(*kept, random)).collect();
    Ok(Noised::new(noised, spent, random))
}
