//! When a series of queries first crosses a threshold.

use std::collections::BTreeSet;

use super::{Noised, PrimitiveError, SealedQuery, check_account, plain};
use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::noise::{Geometric, NoiseScale};
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, Provenance, Randomness};
use crate::sealed::Sealed;
use crate::step::RandomisedStep;

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
/// All answers together lose at most the permit's epsilon for each timestamp that any query reads
/// ([proof](crate::proofs::above_threshold)), however many answers there are. Queries may be chosen in the light of
/// earlier answers, and one timestamp's data may take part in all of them. Each [`SealedQuery`] knows how far one
/// timestamp's data can move it and which timestamps it reads: one that is too sensitive for the test is refused, and
/// so is one that reads a timestamp nobody has paid for. The permit that opens the test pays for its own timestamp,
/// newcomers are paid for with the [question](Self::ask) that first reads them.
///
/// [`ThresholdNoise`] tells how strong the noise is. Both the threshold's and the queries' is one-sided, with a mean
/// close to its scale; whoever wants a test that is centred adds the difference of the two to the public threshold.
///
/// A test lives in memory only. It is neither cloned nor saved: its noisy threshold is a secret, and a copy would
/// answer again what was paid for once. After a restart open a new one, with a new permit.
///
/// ```
/// use tidegate_kernel::primitives::{AboveThreshold, PrimitiveError, Protects, SealedQuery, Side};
/// use tidegate_kernel::{Epsilon, Grid, Ledger, SystemRandom, Window};
///
/// let one: Epsilon = "1".parse()?;
/// let mut ledger = Ledger::new(one, Window::EVENT);
/// let (account, random) = (ledger.account(), &mut SystemRandom::new()?);
/// let grid = Grid::new(0.0, 10.0, 1.0)?;
/// let mut readings = vec![grid.seal(account, 0, 3.0)?];
/// // Does the group still scatter by less than 5,000? Its deviation has a sensitivity of at most twice the width.
/// let mut test = AboveThreshold::open(ledger.spend(0, one)?, 5_000, 2 * grid.width(), random)?;
/// readings.push(grid.seal(account, 1, 4.0)?);
/// let query = SealedQuery::deviation(&readings, grid.range(), Protects::Reading)?;
/// assert_eq!(test.ask([], &query, random).err(), Some(PrimitiveError::Unpaid { timestamp: 1 }));
/// let newcomer = ledger.spend(1, one)?;
/// assert_eq!(*test.ask([newcomer], &query, random)?.value(), Side::Below); // but for a chance of 10^-33
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AboveThreshold {
    /// Gone once the test is closed.
    noisy_threshold: Option<Sealed<i128>>,
    query_noise: Geometric,
    sensitivity: u64,
    account: Account,
    epsilon: Epsilon,
    /// The timestamps that have been paid for.
    admitted: BTreeSet<u64>,
    opened_with: Provenance,
    #[cfg(feature = "simulation")]
    course: Course,
}

/// The law of the noisy threshold, and the queries that were found below it: from these follow the likelihoods of the
/// next answer.
#[cfg(feature = "simulation")]
pub(crate) struct Course {
    pub(crate) threshold: i64,
    pub(crate) threshold_noise: Geometric,
    pub(crate) below: Sealed<Vec<i128>>,
}

#[cfg(feature = "simulation")]
impl std::fmt::Debug for Course {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Course(..)")
    }
}

/// Whether a query with noise lies below a noisy threshold that is kept secret.
pub(crate) struct LatentTest<'a> {
    pub(crate) secret: i128,
    pub(crate) query_noise: &'a Geometric,
    noisy_threshold: &'a Sealed<i128>,
    #[cfg(feature = "simulation")]
    pub(crate) course: &'a Course,
}

impl RandomisedStep for LatentTest<'_> {
    type Output = bool;

    fn draw(&mut self, random: &mut impl Randomness) -> bool {
        self.secret.saturating_add(self.query_noise.sample(random)) < *self.noisy_threshold.content()
    }
}

/// The scales of the [one-sided noise](Geometric) of an [`AboveThreshold`] test, each with the variance
/// [`geometric_variance`](NoiseScale::geometric_variance).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThresholdNoise {
    /// Of the threshold, drawn once: `sensitivity / e1`, where `e1 = epsilon / (1 + 2^(2/3))`, which makes the sum of
    /// the two variances the least.
    pub threshold: NoiseScale,
    /// Of each query: `2·sensitivity / e2`, where `e2 = epsilon - e1`.
    pub query: NoiseScale,
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
            threshold: NoiseScale::calibrated(sensitivity, for_threshold)?,
            query: NoiseScale::calibrated(sensitivity.saturating_mul(2), for_queries)?,
        })
    }
}

impl AboveThreshold {
    /// Opens a test of queries whose [sensitivity](SealedQuery::sensitivity) is at most `sensitivity`. The permit's timestamp
    /// is the first that they may read.
    ///
    /// # Errors
    /// As [`ThresholdNoise::calibrated`], and [`PrimitiveError::ClassPermit`].
    pub fn open(
        permit: Permit,
        threshold: i64,
        sensitivity: u64,
        random: &mut impl Randomness,
    ) -> Result<Self, PrimitiveError> {
        let epsilon = plain(&permit)?;
        let scales = ThresholdNoise::calibrated(sensitivity, epsilon)?;
        let random = &mut FreshRandom::new(random)?;
        let threshold_noise = Geometric::new(scales.threshold);
        let noise = threshold_noise.sample(random);
        Ok(Self {
            noisy_threshold: Some(Sealed::at(
                permit.account(),
                permit.timestamp(),
                i128::from(threshold).saturating_add(noise),
            )),
            query_noise: Geometric::new(scales.query),
            sensitivity,
            account: permit.account(),
            epsilon,
            admitted: BTreeSet::from([permit.timestamp()]),
            opened_with: random.provenance(),
            #[cfg(feature = "simulation")]
            course: Course {
                threshold,
                threshold_noise,
                below: Sealed::at(permit.account(), permit.timestamp(), Vec::new()),
            },
        })
    }

    /// On which side of the threshold the query lies, each having noise of its own. [`Side::Above`] closes the test
    /// for good.
    ///
    /// The answer's epsilon is that of the whole test, not one to be added up.
    ///
    /// `newcomers` are the permits for those timestamps that the query reads and no earlier one did, one for each. From
    /// now on they are paid for, whatever the answer.
    ///
    /// # Errors
    /// [`PrimitiveError::Closed`] after an "above", [`PrimitiveError::TooSensitive`] for a query that one timestamp's
    /// data can move farther than the test was opened for, [`PrimitiveError::Account`] for a query of another account
    /// than the test. For the permits: [`PrimitiveError::Account`], [`PrimitiveError::UnequalPermits`] where
    /// one is not of the amount that opened the test, [`PrimitiveError::ClassPermit`], [`PrimitiveError::PaidTwice`],
    /// [`PrimitiveError::Unread`] for a timestamp that the query does not read, [`PrimitiveError::Unpaid`] where one
    /// is missing. After an error nobody new has been admitted, and the permits are gone.
    pub fn ask(
        &mut self,
        newcomers: impl IntoIterator<Item = Permit>,
        query: &SealedQuery,
        random: &mut impl Randomness,
    ) -> Result<Noised<Side>, PrimitiveError> {
        let noisy_threshold = self.noisy_threshold.as_ref().ok_or(PrimitiveError::Closed)?;
        if query.sensitivity() > self.sensitivity {
            return Err(PrimitiveError::TooSensitive { query: query.sensitivity(), test: self.sensitivity });
        }
        if !self.account.pays_for(query.account()) {
            return Err(PrimitiveError::Account);
        }
        let random = &mut FreshRandom::new(random)?;
        let paid = self.newly_paid(newcomers, query)?;
        self.admitted.extend(paid);
        let test = LatentTest {
            secret: query.value(),
            query_noise: &self.query_noise,
            noisy_threshold,
            #[cfg(feature = "simulation")]
            course: &self.course,
        };
        let side = if random.publish(test) { Side::Below } else { Side::Above };
        #[cfg(feature = "simulation")]
        self.course.below.content_mut().push(query.value());
        if side == Side::Above {
            self.noisy_threshold = None;
        }
        let mut answer = Noised::new(side, self.epsilon, random);
        if self.opened_with == Provenance::Seeded {
            answer.provenance = Provenance::Seeded;
        }
        Ok(answer)
    }

    /// The timestamps that the newcomers' permits pay for, together with which all that the query reads are paid for.
    fn newly_paid(
        &self,
        newcomers: impl IntoIterator<Item = Permit>,
        query: &SealedQuery,
    ) -> Result<BTreeSet<u64>, PrimitiveError> {
        let mut paid = BTreeSet::new();
        for permit in newcomers {
            check_account(&permit, self.account)?;
            let (epsilon, timestamp) = (plain(&permit)?, permit.timestamp());
            if epsilon != self.epsilon {
                return Err(PrimitiveError::UnequalPermits { first: self.epsilon, other: epsilon });
            }
            if query.timestamps().binary_search(&timestamp).is_err() {
                return Err(PrimitiveError::Unread { timestamp });
            }
            if self.admitted.contains(&timestamp) || !paid.insert(timestamp) {
                return Err(PrimitiveError::PaidTwice { timestamp });
            }
        }
        let is_unpaid = |timestamp: &&u64| !self.admitted.contains(timestamp) && !paid.contains(timestamp);
        match query.timestamps().iter().find(is_unpaid) {
            Some(&timestamp) => Err(PrimitiveError::Unpaid { timestamp }),
            None => Ok(paid),
        }
    }

    /// Whether the test has answered "above".
    pub const fn is_closed(&self) -> bool {
        self.noisy_threshold.is_none()
    }
}
