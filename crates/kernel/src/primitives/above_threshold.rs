//! When a series of queries first crosses a threshold.

use super::{Noised, PrimitiveError};
use crate::epsilon::Epsilon;
use crate::noise::{Geometric, Scale};
use crate::permit::Permit;
use crate::random::{Provenance, Randomness};
use crate::sealed::Sealed;

/// On which side of the threshold a query was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Below: the test stays open.
    Below,
    /// At or above: the test is over.
    Above,
}

/// The sparse vector technique: any number of queries is answered "below" at no further cost, and the first "above"
/// closes the test.
///
/// # Guarantee
/// If a neighbour moves each query by at most `sensitivity`, all answers together lose at most the permit's epsilon
/// ([proof](crate::proofs::above_threshold)), however many there are. Queries may be chosen in the light of earlier
/// answers, and one record may take part in all of them. A data set that spans several timestamps must be charged to
/// each of them: the first by the permit that opens the test, the others by [`admit`](Self::admit).
///
/// [`ThresholdNoise`] tells how strong the noise is. Both the threshold's and the queries' is one-sided, with a mean
/// close to its scale; whoever wants a test that is centred adds the difference of the two to the public threshold.
///
/// A test lives in memory only. It is neither cloned nor saved: its noisy threshold is a secret, and a copy would
/// answer again what was paid for once. After a restart open a new one, with a new permit.
///
/// ```
/// use tidegate_kernel::primitives::{AboveThreshold, PrimitiveError, Side};
/// use tidegate_kernel::{Ledger, Sealed, SystemRandom, Window};
///
/// let mut ledger = Ledger::new("1".parse()?, Window::Unbounded);
/// let random = &mut SystemRandom::new()?;
/// let permit = ledger.spend(0, "1".parse()?)?;
/// let mut test = AboveThreshold::open(permit, 500, 1, random)?;
/// assert_eq!(*test.ask(&Sealed::new(3), random)?.value(), Side::Below);
/// assert_eq!(*test.ask(&Sealed::new(9_000), random)?.value(), Side::Above);
/// assert_eq!(test.ask(&Sealed::new(3), random).err(), Some(PrimitiveError::Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AboveThreshold {
    /// Gone once the test is closed.
    noisy_threshold: Option<Sealed<i128>>,
    query_noise: Geometric,
    epsilon: Epsilon,
    opened_with: Provenance,
}

/// The scales of the [one-sided noise](Geometric) of an [`AboveThreshold`] test, each with the variance
/// [`geometric_variance`](Scale::geometric_variance).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThresholdNoise {
    /// Of the threshold, drawn once: `sensitivity / e1`, where `e1 = epsilon / (1 + 2^(2/3))`, which makes the sum of
    /// the two variances the least.
    pub threshold: Scale,
    /// Of each query: `2·sensitivity / e2`, where `e2 = epsilon - e1`.
    pub query: Scale,
}

impl ThresholdNoise {
    /// 1/(1 + 2^(2/3)), in billionths.
    const THRESHOLD_SHARE: u64 = 386_488_209;

    /// The noise at a loss of `epsilon` for queries that a neighbour moves by at most `sensitivity`.
    ///
    /// # Errors
    /// [`PrimitiveError::TooSmallToShare`] for an epsilon of less than three units, [`PrimitiveError::Scale`] where
    /// noise cannot be scaled to twice the sensitivity.
    pub fn calibrated(sensitivity: u64, epsilon: Epsilon) -> Result<Self, PrimitiveError> {
        let too_small = PrimitiveError::TooSmallToShare { given: epsilon };
        let for_threshold = epsilon.portion(Self::THRESHOLD_SHARE, 1_000_000_000).ok_or(too_small)?;
        let for_queries = epsilon.checked_sub(for_threshold).ok_or(too_small)?;
        Ok(Self {
            threshold: Scale::calibrated(sensitivity, for_threshold)?,
            query: Scale::calibrated(sensitivity.saturating_mul(2), for_queries)?,
        })
    }
}

impl AboveThreshold {
    /// Opens a test of queries that a neighbour can move by at most `sensitivity`.
    ///
    /// # Errors
    /// As [`ThresholdNoise::calibrated`].
    pub fn open(
        permit: Permit,
        threshold: i64,
        sensitivity: u64,
        random: &mut impl Randomness,
    ) -> Result<Self, PrimitiveError> {
        let scales = ThresholdNoise::calibrated(sensitivity, permit.epsilon())?;
        let noise = Geometric::new(scales.threshold).sample_wide(random);
        Ok(Self {
            noisy_threshold: Some(Sealed::new(i128::from(threshold).saturating_add(noise))),
            query_noise: Geometric::new(scales.query),
            epsilon: permit.epsilon(),
            opened_with: random.provenance(),
        })
    }

    /// Charges one more timestamp, whose data take part in the queries from now on.
    ///
    /// # Errors
    /// [`PrimitiveError::UnequalPermits`] where the permit is not of the amount that opened the test, and
    /// [`PrimitiveError::Closed`] after an "above".
    pub fn admit(&mut self, permit: Permit) -> Result<(), PrimitiveError> {
        if self.is_closed() {
            return Err(PrimitiveError::Closed);
        }
        if permit.epsilon() != self.epsilon {
            return Err(PrimitiveError::UnequalPermits { first: self.epsilon, other: permit.epsilon() });
        }
        Ok(())
    }

    /// On which side of the threshold the query lies, each having noise of its own. [`Side::Above`] closes the test
    /// for good.
    ///
    /// The answer's epsilon is that of the whole test, not one to be added up.
    ///
    /// # Errors
    /// [`PrimitiveError::Closed`] after an "above".
    pub fn ask(&mut self, query: &Sealed<i64>, random: &mut impl Randomness) -> Result<Noised<Side>, PrimitiveError> {
        let noisy_threshold = self.noisy_threshold.as_ref().ok_or(PrimitiveError::Closed)?;
        let noisy_query = i128::from(*query.content()).saturating_add(self.query_noise.sample_wide(random));
        let side = if noisy_query < *noisy_threshold.content() { Side::Below } else { Side::Above };
        if side == Side::Above {
            self.noisy_threshold = None;
        }
        let mut answer = Noised::new(side, self.epsilon, random);
        if self.opened_with == Provenance::Seeded {
            answer.provenance = Provenance::Seeded;
        }
        Ok(answer)
    }

    /// Whether the test has answered "above".
    pub const fn is_closed(&self) -> bool {
        self.noisy_threshold.is_none()
    }
}
