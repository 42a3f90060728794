//! Aggregates of reports.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::epsilon::Epsilon;
use crate::oracle::positional_count::PositionalCount;
use crate::oracle::{Estimate, MalformedReport, Method, Oracle, OracleError, OracleKind};

/// The sum of all reports received: one count for each value (for Hadamard response, for each column; for means, for
/// each output).
///
/// Aggregates of one oracle form a commutative monoid under [`Aggregate::merge`]: the result does not depend on where,
/// in which order or in which groups reports are counted. Memory is O(domain).
#[derive(Clone, Debug)]
pub struct Aggregate {
    oracle: Oracle,
    reports: u64,
    /// Counts of index reports, and of everything merged or loaded.
    counts: Vec<u64>,
    /// Counts of bit-vector reports.
    bits: Option<Box<PositionalCount>>,
}

/// Maximum reports of a loaded or merged aggregate. Counting on from there takes centuries to overflow.
const MAX_REPORTS: u64 = 1 << 62;

/// Errors of an [`Aggregate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum AggregateError {
    /// A report in a batch is malformed; no report was added.
    #[error("report {index} of the batch: {problem}")]
    Report { index: usize, problem: MalformedReport },
    /// The batch's length is not a multiple of the report length; no report was added.
    #[error("a batch of {given} bytes is not a whole number of reports of {expected} bytes")]
    BatchLength { given: usize, expected: usize },
    /// The aggregates are of different oracles, domains or epsilons.
    #[error("an aggregate of {other} cannot be merged into one of {own}")]
    Different { own: String, other: String },
    /// The sum exceeds 2^62 reports.
    #[error("the merged aggregates have more than {MAX_REPORTS} reports")]
    Overflow,
    /// No report has been received.
    #[error("no report has been received, so nothing can be estimated")]
    NoReports,
}

impl Aggregate {
    pub(crate) fn new(oracle: Oracle) -> Self {
        let cells = cells(&oracle);
        let has_bits = matches!(oracle.method, Method::Unary(_) | Method::Subset(_));
        let bits = has_bits.then(|| Box::new(PositionalCount::new(cells)));
        Self { oracle, reports: 0, counts: vec![0; cells], bits }
    }

    /// The oracle of the reports.
    pub const fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// The number of reports.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// Counts a report.
    pub fn add(&mut self, report: &[u8]) -> Result<(), MalformedReport> {
        self.oracle.check(report)?;
        self.add_checked(report);
        self.reports += 1;
        Ok(())
    }

    /// Counts a batch of concatenated reports: all of them, or none if any is malformed.
    pub fn add_batch(&mut self, batch: &[u8]) -> Result<(), AggregateError> {
        let length = self.oracle.report_length();
        self.oracle.check_batch(batch)?;
        match (&self.oracle.method, &mut self.bits) {
            // The length is constant in each arm, so that reading an index is a single load.
            (Method::Grr(_) | Method::Hadamard(_) | Method::Piecewise(_), _) => match length {
                1 => count_indices::<1>(batch, &mut self.counts),
                2 => count_indices::<2>(batch, &mut self.counts),
                3 => count_indices::<3>(batch, &mut self.counts),
                _ => count_indices::<4>(batch, &mut self.counts),
            },
            (_, Some(bits)) => bits.add_batch(batch, length),
            _ => batch.chunks_exact(length).for_each(|report| self.add_checked(report)),
        }
        self.reports += (batch.len() / length) as u64;
        Ok(())
    }

    /// Counts a report that passed the oracle's check.
    #[inline]
    fn add_checked(&mut self, report: &[u8]) {
        match (&self.oracle.method, &mut self.bits) {
            (Method::LocalHash(hash), _) => hash.add_support(report, &mut self.counts),
            (_, Some(bits)) => bits.add(report),
            (_, None) => {
                let mut bytes = [0; 4];
                bytes[..report.len()].copy_from_slice(report);
                self.counts[u32::from_le_bytes(bytes) as usize] += 1;
            }
        }
    }

    /// All counts, including those in bit planes.
    fn totals(&self) -> Vec<u64> {
        match &self.bits {
            None => self.counts.clone(),
            Some(bits) => bits.counts().iter().zip(&self.counts).map(|(a, b)| a + b).collect(),
        }
    }

    /// Adds another aggregate of the same oracle. On an error nothing changes.
    pub fn merge(&mut self, other: &Self) -> Result<(), AggregateError> {
        let parameters = |oracle: &Oracle| (oracle.kind(), oracle.domain(), oracle.epsilon());
        if parameters(&self.oracle) != parameters(&other.oracle) {
            let name = |oracle: &Oracle| {
                format!("{} over {} values at epsilon {}", oracle.kind(), oracle.domain(), oracle.epsilon())
            };
            return Err(AggregateError::Different { own: name(&self.oracle), other: name(&other.oracle) });
        }
        // No count exceeds the number of reports, so checking that sum suffices.
        let reports = self.reports + other.reports;
        if reports > MAX_REPORTS {
            return Err(AggregateError::Overflow);
        }
        for (count, more) in self.counts.iter_mut().zip(other.totals()) {
            *count += more;
        }
        self.reports = reports;
        Ok(())
    }

    /// The number of reports that support each value; for means, the number of reports of each output.
    pub fn supports(&self) -> Vec<u64> {
        match &self.oracle.method {
            Method::Hadamard(hadamard) => hadamard.supports(&self.totals(), self.oracle.domain()),
            _ => self.totals(),
        }
    }

    /// The unbiased estimate of the frequencies among the reporting users, or of their numbers' mean.
    pub fn estimate(&self) -> Result<Estimate, AggregateError> {
        if self.reports == 0 {
            return Err(AggregateError::NoReports);
        }
        Ok(self.oracle.estimate(&self.supports(), self.reports))
    }
}

/// The number of counts of an oracle's aggregate.
fn cells(oracle: &Oracle) -> usize {
    match &oracle.method {
        Method::Hadamard(hadamard) => hadamard.codec().bound() as usize,
        Method::Piecewise(piecewise) => piecewise.codec().bound() as usize,
        _ => oracle.domain() as usize,
    }
}

/// Counts checked index reports of `LENGTH` bytes.
fn count_indices<const LENGTH: usize>(batch: &[u8], counts: &mut [u64]) {
    for report in batch.as_chunks::<LENGTH>().0 {
        let mut bytes = [0; 4];
        bytes[..LENGTH].copy_from_slice(report);
        let count = &mut counts[u32::from_le_bytes(bytes) as usize];
        // No count exceeds the number of reports, whose sum is checked.
        *count = count.wrapping_add(1);
    }
}

/// Equal if oracle, number of reports and counts are equal.
impl PartialEq for Aggregate {
    fn eq(&self, other: &Self) -> bool {
        Saved::of(self) == Saved::of(other)
    }
}

impl Eq for Aggregate {}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    oracle: OracleKind,
    domain: u32,
    epsilon: Epsilon,
    reports: u64,
    counts: Vec<u64>,
}

const VERSION: u16 = 1;

/// Why a saved aggregate was not loaded.
#[derive(Debug, thiserror::Error)]
enum Corrupt {
    #[error("aggregate version {0} is not known; this program reads version {VERSION}")]
    Version(u16),
    #[error(transparent)]
    Oracle(#[from] OracleError),
    #[error("aggregate has {given} counts where its oracle has {expected}")]
    Cells { given: usize, expected: usize },
    #[error("aggregate's counts cannot come from {reports} reports")]
    Counts { reports: u64 },
}

impl Saved {
    fn of(aggregate: &Aggregate) -> Self {
        let Aggregate { oracle, reports, .. } = aggregate;
        Self {
            version: VERSION,
            oracle: oracle.kind(),
            domain: oracle.domain(),
            epsilon: oracle.epsilon(),
            reports: *reports,
            counts: aggregate.totals(),
        }
    }

    fn load(self) -> Result<Aggregate, Corrupt> {
        if self.version != VERSION {
            return Err(Corrupt::Version(self.version));
        }
        let oracle = Oracle::new(self.oracle, self.domain, self.epsilon)?;
        let expected = cells(&oracle);
        if self.counts.len() != expected {
            return Err(Corrupt::Cells { given: self.counts.len(), expected });
        }
        // Index reports name one cell, subsets a fixed number, other reports any number.
        let per_report = match &oracle.method {
            Method::Grr(_) | Method::Hadamard(_) | Method::Piecewise(_) => Some(1),
            Method::Subset(subset) => subset.codec().ones().map(u128::from),
            Method::Unary(_) | Method::LocalHash(_) => None,
        };
        let sum: u128 = self.counts.iter().map(|count| u128::from(*count)).sum();
        let sum_fits = per_report.is_none_or(|ones| sum == ones * u128::from(self.reports));
        if self.reports > MAX_REPORTS || !sum_fits || self.counts.iter().any(|count| *count > self.reports) {
            return Err(Corrupt::Counts { reports: self.reports });
        }
        Ok(Aggregate { reports: self.reports, counts: self.counts, ..Aggregate::new(oracle) })
    }
}

impl Serialize for Aggregate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Saved::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Aggregate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Saved::deserialize(deserializer)?.load().map_err(D::Error::custom)
    }
}
