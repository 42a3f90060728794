//! The sparse vector technique: when a series of queries first crosses a threshold.

use std::collections::BTreeSet;

use super::{Noised, PrimitiveError, SealedQuery, check_account, plain};
use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::noise::{Geometric, NoiseScale};
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, Provenance, Randomness};
use crate::sealed::Sealed;
use crate::step::RandomisedStep;

/// The answer of a threshold test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Below the threshold: the test stays open.
    Below,
    /// At or above the threshold: the test closes.
    Above,
}

/// The sparse vector technique (Dwork et al. 2009): any number of "below" answers at no further cost, until the first
/// "above" closes the test.
///
/// # Guarantee
/// All answers together lose at most the permit's epsilon for each timestamp that any query reads, for any number of
/// answers ([proof](crate::proofs::above_threshold)). Queries may depend on earlier answers, and one timestamp's data
/// may take part in all of them. Each [`SealedQuery`] knows its sensitivity and the timestamps that it reads. The test
/// rejects a query that is too sensitive, or that reads an unpaid timestamp. The permit that opens the test pays for
/// its own timestamp; permits for new timestamps come with the [query](Self::ask) that first reads them.
///
/// [`ThresholdNoise`] gives the scales of the noise. The noise of the threshold and of the queries is one-sided, with a
/// mean close to its scale. For a centred test, add the difference of the two scales to the public threshold.
///
/// A test cannot be cloned or saved: its noisy threshold is secret, and a copy would answer twice what was paid for
/// once. After a restart, open a new test with a new permit.
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
/// assert_eq!(*test.ask([newcomer], &query, random)?.value(), Side::Below); // except with probability 10^-33
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AboveThreshold {
    /// `None` once the test is closed.
    noisy_threshold: Option<Sealed<i128>>,
    query_noise: Geometric,
    sensitivity: u64,
    account: Account,
    epsilon: Epsilon,
    /// The paid timestamps.
    admitted: BTreeSet<u64>,
    opened_with: Provenance,
    #[cfg(feature = "simulation")]
    course: Course,
}

/// The distribution of the noisy threshold and the queries found below it. They determine the likelihood of the next
/// answer.
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

/// Whether a noisy query lies below a secret noisy threshold.
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
    /// Scale of the threshold's noise, drawn once: `sensitivity / e1`, where `e1 = epsilon / (1 + 2^(2/3))` minimises
    /// the sum of the two variances.
    pub threshold: NoiseScale,
    /// Scale of each query's noise: `2·sensitivity / e2`, where `e2 = epsilon - e1`.
    pub query: NoiseScale,
}

impl ThresholdNoise {
    /// 1/(1 + 2^(2/3)), in billionths.
    const THRESHOLD_SHARE: u64 = 386_488_209;

    /// The noise at a loss of `epsilon` for queries of the given sensitivity.
    ///
    /// # Errors
    /// [`PrimitiveError::TooSmallToShare`] for an epsilon below three units; [`PrimitiveError::Scale`] if twice the
    /// sensitivity is out of range.
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
    /// Opens a test for queries of at most the given [sensitivity](SealedQuery::sensitivity). They may read the
    /// permit's timestamp.
    ///
    /// # Errors
    /// Those of [`ThresholdNoise::calibrated`], and [`PrimitiveError::ClassPermit`].
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

    /// Compares the noisy query with the noisy threshold. [`Side::Above`] closes the test permanently.
    ///
    /// The answer's epsilon is that of the whole test; do not add it up.
    ///
    /// `newcomers` has one permit for each timestamp that no earlier query read. These timestamps are paid for from now
    /// on, whatever the answer.
    ///
    /// # Errors
    /// [`PrimitiveError::Closed`] after an "above"; [`PrimitiveError::TooSensitive`] for a query above the test's
    /// sensitivity; [`PrimitiveError::Account`] for a query of another account.
    ///
    /// For the permits: [`PrimitiveError::Account`]; [`PrimitiveError::UnequalPermits`] if the amount differs from the
    /// opening permit's; [`PrimitiveError::ClassPermit`]; [`PrimitiveError::PaidTwice`]; [`PrimitiveError::Unread`] for
    /// a timestamp that the query does not read; [`PrimitiveError::Unpaid`] if one is missing. After an error no
    /// timestamp was added, and the permits are lost.
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

    /// Checks that every timestamp of the query is paid for, and returns those that the new permits pay for.
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
