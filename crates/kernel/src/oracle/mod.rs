//! Frequency oracles: devices report values under local differential privacy, and a collector estimates frequencies.
//!
//! All oracles are *pure* (Wang et al. 2017): each report supports a set of values, the true one with probability `p`
//! and any other with probability `q`. So all share one interface. [`Oracle::perturb`] runs on the device;
//! [`Aggregate::add`] counts reports; [`Aggregate::merge`] joins partial aggregates; [`Aggregate::estimate`] gives
//! frequencies with their exact variance.
//!
//! | name | report | constant part of the variance, times n |
//! | --- | --- | --- |
//! | [`Grr`](OracleKind::Grr) | a value | `(d-2+u)/(u-1)²` |
//! | [`Sue`](OracleKind::Sue) | d bits | `√u/(√u-1)²` |
//! | [`Oue`](OracleKind::Oue) | d bits | `4u/(u-1)²` |
//! | [`Blh`](OracleKind::Blh) | a hash function and one of 2 buckets | `(u+1)²/(u-1)²` |
//! | [`Olh`](OracleKind::Olh) | a hash function and one of g buckets | `4u/(u-1)²` at `g = u+1` |
//! | [`Hadamard`](OracleKind::Hadamard) | an index below `2d+2` | `(u+1)²/(u-1)²` |
//! | [`Subset`](OracleKind::Subset) | d bits, k of them set | about `4u/(u-1)²` |
//!
//! Here `u = e^epsilon`. [`Oracle::auto`] picks the best oracle for a domain and an epsilon.
//!
//! [`Piecewise`](OracleKind::Piecewise) is no frequency oracle. Its domain is a grid of numbers, and it estimates their
//! mean. Reports and aggregates have the same interface.

mod aggregate;
mod choice;
mod estimate;
mod grr;
mod hadamard;
mod index_codec;
mod local_hash;
mod piecewise;
mod positional_count;
mod subset;
mod unary;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use aggregate::{Aggregate, AggregateError};
pub use choice::{AUTO_CELLS, AUTO_COST, AUTO_TOLERANCE};
pub use estimate::{Estimate, MeanError, Variance};
pub use piecewise::mean_variance;

use crate::epsilon::Epsilon;
use crate::permit::Permit;
use crate::primitives::Noised;
use crate::random::{Closed, FreshRandom, NoEntropy, Provenance, Randomness};
use crate::randomised_response::ResponseError;
use crate::sealed::Sealed;
use crate::step::RandomisedStep;
use grr::Grr;
use hadamard::Hadamard;
use index_codec::IndexCodec;
use local_hash::LocalHash;
pub(crate) use piecewise::Piecewise;
use subset::Subset;
use unary::Unary;

/// The kinds of frequency oracles, and the oracle of means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OracleKind {
    /// Generalised randomised response: the value or another one.
    Grr,
    /// Symmetric unary encoding (basic RAPPOR, Erlingsson et al. 2014): one bit per value, each flipped with equal
    /// probability.
    Sue,
    /// Optimised unary encoding (Wang et al. 2017): one bit per value; a set bit is kept with probability 1/2.
    Oue,
    /// Binary local hashing (Bassily and Smith 2015): randomised response on one hashed bit.
    Blh,
    /// Optimised local hashing (Wang et al. 2017): randomised response on a hash with about `e^epsilon + 1` buckets.
    Olh,
    /// Hadamard response (Acharya et al. 2019): a column that likely agrees with the value's row of a Hadamard matrix.
    Hadamard,
    /// Subset selection (Ye and Barg 2018): a random set of values that likely contains the true one.
    Subset,
    /// Discrete piecewise mechanism: the mean of numbers on a grid, by random rounding and a window of likely outputs.
    Piecewise,
}

impl OracleKind {
    /// All frequency oracles.
    pub const ALL: [Self; 7] = [Self::Grr, Self::Sue, Self::Oue, Self::Blh, Self::Olh, Self::Hadamard, Self::Subset];

    /// The name in specs and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grr => "grr",
            Self::Sue => "sue",
            Self::Oue => "oue",
            Self::Blh => "blh",
            Self::Olh => "olh",
            Self::Hadamard => "hadamard",
            Self::Subset => "subset",
            Self::Piecewise => "piecewise",
        }
    }
}

impl fmt::Display for OracleKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// An unknown oracle name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no frequency oracle {given:?}; there are grr, sue, oue, blh, olh, hadamard and subset")]
pub struct UnknownOracle {
    given: String,
}

impl FromStr for OracleKind {
    type Err = UnknownOracle;

    fn from_str(name: &str) -> Result<Self, UnknownOracle> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownOracle { given: name.chars().take(40).collect() })
    }
}

/// Why an oracle could not be created, or a value not perturbed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum OracleError {
    /// The operating system provides no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The domain or the epsilon is out of the oracle's range.
    #[error(transparent)]
    Parameters(#[from] ResponseError),
    /// The value is outside the domain. The message does not contain it.
    #[error("the value is outside the domain 0..{domain}")]
    Value { domain: u32 },
    /// The permit's amount is not the oracle's epsilon.
    #[error("the permit is for epsilon {permit}, but the oracle spends {oracle}")]
    PermitMismatch { permit: Epsilon, oracle: Epsilon },
    /// The permit's timestamp is not the sealed value's.
    #[error("the permit is for timestamp {permit}, but the value is of timestamp {value}")]
    Timestamp { permit: u64, value: u64 },
    /// The permit's account is not the sealed value's.
    #[error("the permit is of another account than the value: seal values with the account of the ledger that pays")]
    Account,
    /// The permit pays for one class, but the value belongs to none.
    #[error("the permit is for class {class}, but the value belongs to no class")]
    ClassPermit { class: u32 },
    /// The buffer's length is not that of a report.
    #[error("a report has {expected} bytes, but the buffer has {given}")]
    Buffer { given: usize, expected: usize },
}

/// Why bytes are not a valid report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum MalformedReport {
    /// The wrong number of bytes.
    #[error("a report has {expected} bytes, but {given} were given")]
    Length { given: usize, expected: usize },
    /// An index out of range.
    #[error("index {given} is outside 0..{bound}")]
    Index { given: u32, bound: u32 },
    /// Bits set beyond the end of the domain.
    #[error("bits are set beyond the {domain} of the domain")]
    Padding { domain: u32 },
    /// A subset of the wrong size.
    #[error("{given} bits are set where every report has {expected}")]
    Ones { given: u32, expected: u32 },
}

/// Why a report has no likelihood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LikelihoodError {
    /// The value is outside the domain.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The report is not valid for the oracle.
    #[error(transparent)]
    Malformed(#[from] MalformedReport),
}

/// A perturbed value in its wire format: fixed-width, little-endian bytes.
///
/// A device saves it, to send the identical report again. Loading does not check that an oracle drew the report: it
/// grants nothing, and a collector checks the bytes of every sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    bytes: Box<[u8]>,
    provenance: Provenance,
}

impl Report {
    /// The report of an answer below `domain`, as a [channel](crate::primitives::SymbolChannel) drew it. It is written
    /// like one of [`OracleKind::Grr`]. `None` for an answer outside the domain.
    pub fn of_answer(answer: Noised<u32>, domain: u32) -> Option<Self> {
        Self::of_index(*answer.value(), domain, answer.provenance())
    }

    /// The report of an answer below `domain` that follows from public knowledge alone and costs nothing: that of a
    /// channel with one output. Nothing is drawn; the report says which generator the sender uses. `None` for an answer
    /// outside the domain.
    ///
    /// The caller vouches that no secret data decided the answer.
    pub fn of_constant(answer: u32, domain: u32, random: &impl Randomness) -> Option<Self> {
        Self::of_index(answer, domain, random.provenance())
    }

    fn of_index(answer: u32, domain: u32, provenance: Provenance) -> Option<Self> {
        let codec = IndexCodec::new(domain);
        let mut bytes = vec![0; codec.length()].into_boxed_slice();
        codec.write(answer, &mut bytes);
        (answer < domain).then_some(Self { bytes, provenance })
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes to send.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_vec()
    }

    /// The source of the randomness. A seeded report is **not private**. The bytes do not show it.
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Method {
    Grr(Grr),
    Unary(Unary),
    LocalHash(LocalHash),
    Hadamard(Hadamard),
    Subset(Subset),
    Piecewise(Piecewise),
}

/// A frequency oracle for a domain `0..domain` at a fixed epsilon.
///
/// # Guarantee
/// A report satisfies epsilon-local differential privacy: for any two values and any report, the probabilities of that
/// report differ by a factor of at most e^epsilon. The bound is exact, because [integer weights are rounded towards
/// more privacy](crate::proofs::oracles). The privacy unit is one value at one timestamp; neighbours are any two
/// values.
///
/// ```
/// use tidegate_kernel::oracle::{Oracle, OracleKind};
/// use tidegate_kernel::{Ledger, SystemRandom, Window};
///
/// let oracle = Oracle::new(OracleKind::Oue, 4, "1".parse()?)?;
/// let mut ledger = Ledger::new("1".parse()?, Window::EVENT); // on the device
/// let mut random = SystemRandom::new()?;
/// let report = oracle.perturb(ledger.spend(0, oracle.epsilon())?, 2, &mut random)?;
///
/// let mut aggregate = oracle.aggregate(); // on the server
/// aggregate.add(report.as_bytes())?;
/// assert_eq!(aggregate.estimate()?.frequencies().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Oracle {
    kind: OracleKind,
    domain: u32,
    epsilon: Epsilon,
    pub(crate) method: Method,
    support: Support,
}

/// Probabilities that a report supports the sender's value, and another value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Support {
    pub(crate) own: f64,
    pub(crate) other: f64,
}

impl Oracle {
    /// Creates an oracle of the given kind.
    pub fn new(kind: OracleKind, domain: u32, epsilon: Epsilon) -> Result<Self, OracleError> {
        let method = match kind {
            OracleKind::Grr => Method::Grr(Grr::new(domain, epsilon)?),
            OracleKind::Sue => Method::Unary(Unary::symmetric(domain, epsilon)?),
            OracleKind::Oue => Method::Unary(Unary::optimised(domain, epsilon)?),
            OracleKind::Blh => Method::LocalHash(LocalHash::binary(domain, epsilon)?),
            OracleKind::Olh => Method::LocalHash(LocalHash::optimised(domain, epsilon)?),
            OracleKind::Hadamard => Method::Hadamard(Hadamard::new(domain, epsilon)?),
            OracleKind::Subset => Method::Subset(Subset::new(domain, epsilon)?),
            OracleKind::Piecewise => Method::Piecewise(Piecewise::new(domain, epsilon)?),
        };
        let support = match &method {
            Method::Grr(grr) => grr.support(),
            Method::Unary(unary) => unary.support(),
            Method::LocalHash(hash) => hash.support(),
            Method::Hadamard(hadamard) => hadamard.support(),
            Method::Subset(subset) => subset.support(),
            Method::Piecewise(piecewise) => piecewise.support(),
        };
        Ok(Self { kind, domain, epsilon, method, support })
    }

    /// Creates the [best](OracleKind::best) oracle for the domain and the epsilon.
    pub fn auto(domain: u32, epsilon: Epsilon) -> Result<Self, OracleError> {
        Self::new(OracleKind::best(domain, epsilon), domain, epsilon)
    }

    /// The kind of oracle.
    pub const fn kind(&self) -> OracleKind {
        self.kind
    }

    /// The number of values.
    pub const fn domain(&self) -> u32 {
        self.domain
    }

    /// The loss of a report.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// The length of every report, in bytes.
    pub fn report_length(&self) -> usize {
        match &self.method {
            Method::Grr(grr) => grr.codec().length(),
            Method::Unary(unary) => unary.codec().length(),
            Method::LocalHash(hash) => hash.report_length(),
            Method::Hadamard(hadamard) => hadamard.codec().length(),
            Method::Subset(subset) => subset.codec().length(),
            Method::Piecewise(piecewise) => piecewise.codec().length(),
        }
    }

    /// The probability that a report supports the sender's value. For means, that of one output in the window.
    pub const fn support_of_own(&self) -> f64 {
        self.support.own
    }

    /// The probability that a report supports any one other value. For means, that of one output outside the window.
    pub const fn support_of_other(&self) -> f64 {
        self.support.other
    }

    /// The variance of a frequency estimated from the given number of reports, as a function of the true frequency. For
    /// means, the largest variance that reports of one number can have; [`mean_variance`] is more exact.
    pub fn variance(&self, reports: u64) -> Variance {
        match &self.method {
            Method::Piecewise(piecewise) => piecewise.variance(reports),
            _ => Variance::of(self.support, reports),
        }
    }

    /// The unbiased estimate from the number of reports that support each value.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn estimate(&self, supports: &[u64], reports: u64) -> Estimate {
        if let Method::Piecewise(piecewise) = &self.method {
            return piecewise.estimate(supports, reports);
        }
        let Support { own, other } = self.support;
        let frequency = |support: &u64| (*support as f64 / reports as f64 - other) / (own - other);
        Estimate::new(supports.iter().map(frequency).collect(), reports, self.variance(reports))
    }

    /// Perturbs a value, consuming a permit for exactly [`Oracle::epsilon`].
    pub fn perturb(&self, permit: Permit, value: u32, random: &mut impl Randomness) -> Result<Report, OracleError> {
        let mut bytes = vec![0; self.report_length()].into_boxed_slice();
        let provenance = self.perturb_into(permit, value, random, &mut bytes)?;
        Ok(Report { bytes, provenance })
    }

    /// Perturbs a sealed value, as in [`Oracle::perturb`].
    ///
    /// # Errors
    /// [`OracleError::Account`], [`OracleError::Timestamp`] and [`OracleError::ClassPermit`] if the permit does not
    /// match the value. A value outside the domain is read as the last one, because an error would reveal it.
    pub fn perturb_sealed(
        &self,
        permit: Permit,
        value: &Sealed<u32>,
        random: &mut impl Randomness,
    ) -> Result<Report, OracleError> {
        if !permit.account().pays_for(value.account()) {
            return Err(OracleError::Account);
        }
        if permit.timestamp() != value.timestamp() {
            return Err(OracleError::Timestamp { permit: permit.timestamp(), value: value.timestamp() });
        }
        if let Some(class) = permit.class() {
            return Err(OracleError::ClassPermit { class });
        }
        self.perturb(permit, (*value.content()).min(self.domain - 1), random)
    }

    /// Perturbs a value into a buffer of [`Oracle::report_length`] bytes, and returns the source of the randomness. On
    /// an error the buffer is unchanged, and the permit is lost.
    #[inline]
    pub fn perturb_into(
        &self,
        permit: Permit,
        value: u32,
        random: &mut impl Randomness,
        report: &mut [u8],
    ) -> Result<Provenance, OracleError> {
        if permit.epsilon() != self.epsilon {
            return Err(OracleError::PermitMismatch { permit: permit.epsilon(), oracle: self.epsilon });
        }
        if value >= self.domain {
            return Err(OracleError::Value { domain: self.domain });
        }
        let expected = self.report_length();
        if report.len() != expected {
            return Err(OracleError::Buffer { given: report.len(), expected });
        }
        let random = &mut FreshRandom::new(random)?;
        random.publish(PerturbedValue { value, oracle: self, report });
        random.note_spend(self.epsilon);
        Ok(random.provenance())
    }

    /// Checks that bytes are a valid report.
    pub fn check(&self, report: &[u8]) -> Result<(), MalformedReport> {
        let expected = self.report_length();
        if report.len() != expected {
            return Err(MalformedReport::Length { given: report.len(), expected });
        }
        match &self.method {
            Method::Grr(grr) => grr.codec().read(report).map(drop),
            Method::Unary(unary) => unary.codec().check(report),
            Method::LocalHash(hash) => hash.check(report),
            Method::Hadamard(hadamard) => hadamard.codec().read(report).map(drop),
            Method::Subset(subset) => subset.codec().check(report),
            Method::Piecewise(piecewise) => piecewise.codec().read(report).map(drop),
        }
    }

    /// The natural log-probability that a device with `value` sends `report`, from the same integer weights that
    /// [`Oracle::perturb`] uses. For local hashing it is conditional on the hash function, which is independent of the
    /// value.
    ///
    /// For exact audits: the difference between two values is the privacy loss. Probabilities themselves would
    /// underflow for large domains.
    pub fn log_likelihood(&self, value: u32, report: &[u8]) -> Result<f64, LikelihoodError> {
        if value >= self.domain {
            return Err(OracleError::Value { domain: self.domain }.into());
        }
        self.check(report)?;
        Ok(match &self.method {
            Method::Grr(grr) => grr.log_likelihood(value, report),
            Method::Unary(unary) => unary.log_likelihood(value, report),
            Method::LocalHash(hash) => hash.log_likelihood(value, report),
            Method::Hadamard(hadamard) => hadamard.log_likelihood(value, report),
            Method::Subset(subset) => subset.log_likelihood(value, report),
            Method::Piecewise(piecewise) => piecewise.log_likelihood(value, report),
        })
    }

    /// Checks concatenated reports, each as in [`check`](Self::check).
    ///
    /// # Errors
    /// [`AggregateError::BatchLength`] if the length is not a multiple of the report length; [`AggregateError::Report`]
    /// with the position of a malformed report.
    pub fn check_batch(&self, batch: &[u8]) -> Result<(), AggregateError> {
        let length = self.report_length();
        if !batch.len().is_multiple_of(length) {
            return Err(AggregateError::BatchLength { given: batch.len(), expected: length });
        }
        let all_pass = match &self.method {
            Method::Grr(grr) => grr.codec().all_below_bound(batch),
            Method::Hadamard(hadamard) => hadamard.codec().all_below_bound(batch),
            Method::Piecewise(piecewise) => piecewise.codec().all_below_bound(batch),
            Method::Unary(unary) => unary.codec().accepts_anything(),
            Method::LocalHash(_) | Method::Subset(_) => false,
        };
        if all_pass {
            return Ok(());
        }
        for (index, report) in batch.chunks_exact(length).enumerate() {
            self.check(report).map_err(|problem| AggregateError::Report { index, problem })?;
        }
        Ok(())
    }

    /// Creates an empty aggregate for this oracle's reports.
    pub fn aggregate(&self) -> Aggregate {
        Aggregate::new(self.clone())
    }
}

/// One draw of a report into a buffer.
pub(crate) struct PerturbedValue<'a> {
    pub(crate) value: u32,
    pub(crate) oracle: &'a Oracle,
    pub(crate) report: &'a mut [u8],
}

impl RandomisedStep for PerturbedValue<'_> {
    type Output = ();

    #[inline]
    fn draw(&mut self, random: &mut impl Randomness) {
        match &self.oracle.method {
            Method::Grr(grr) => grr.perturb(self.value, random, self.report),
            Method::Unary(unary) => unary.perturb(self.value, random, self.report),
            Method::LocalHash(hash) => hash.perturb(self.value, random, self.report),
            Method::Hadamard(hadamard) => hadamard.perturb(self.value, random, self.report),
            Method::Subset(subset) => subset.perturb(self.value, random, self.report),
            Method::Piecewise(piecewise) => piecewise.perturb(self.value, random, self.report),
        }
    }
}
