//! [`Admission`]: admission control of the reports for an open question.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::kernel::Question;
use tidegate::kernel::oracle::{Oracle, OracleKind};
use tidegate::spec::StreamSpec;
use tidegate_device::wire::{Batch, WireError};

use super::ReportError;
use crate::store::OpenQuestion;
use crate::stream::Declaration;

/// Most reports for each declared device. The declaration is a guess, but memory and harm must be bounded.
const CROWD: f64 = 4.0;

/// An open question, with the checks that need no store.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) question: Question,
    pub(crate) report_length: usize,
    pub(crate) closes: u64,
    plausible_ones: Option<RangeInclusive<u32>>,
    most: u64,
    /// Reports that this process has accepted.
    accepted: AtomicU64,
}

/// The open questions of a stream.
pub(crate) type Admissions = Arc<[Arc<Admission>]>;

impl Admission {
    fn new(open: &OpenQuestion, declaration: &Declaration) -> Option<Self> {
        let oracle = open.question.oracle().ok()?;
        let (report_length, plausible_ones) = (oracle.report_length(), plausible_ones(&oracle));
        let (question, closes) = (open.question.clone(), open.closes);
        let most = most_devices(declaration, question.cohort.share())?;
        Some(Self { question, report_length, closes, plausible_ones, most, accepted: AtomicU64::new(0) })
    }

    /// Builds the open questions, and keeps the counts of those that were open before.
    pub(crate) fn all(open: &[OpenQuestion], before: &Admissions, declaration: &Declaration) -> Admissions {
        let known = |open: &OpenQuestion| before.iter().find(|before| before.question == open.question).cloned();
        let each = |open| known(open).or_else(|| Self::new(open, declaration).map(Arc::new));
        open.iter().filter_map(each).collect()
    }

    /// Checks a batch. Returns the ascending indices of reports that no honest device sends.
    pub(crate) fn admit(&self, batch: &Batch<'_>) -> Result<Vec<usize>, ReportError> {
        let (given, expected) = (batch.report_length(), self.report_length);
        if given != expected {
            return Err(WireError::Report { given, expected }.into());
        }
        if self.accepted.load(Ordering::Relaxed) >= self.most {
            return Err(ReportError::Crowded);
        }
        let Some(ones) = &self.plausible_ones else { return Ok(Vec::new()) };
        let count = |report: &[u8]| report.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let implausible = batch.iter().enumerate().filter(|(_, (_, report))| !ones.contains(&count(report)));
        Ok(implausible.map(|(index, _)| index).collect())
    }

    pub(crate) fn count_accepted(&self, reports: u64) {
        self.accepted.fetch_add(reports, Ordering::Relaxed);
    }
}

/// Returns the most devices that a share of the declared population may turn out to have; `None` for a curated stream.
pub(crate) fn most_devices(declaration: &Declaration, share: f64) -> Option<u64> {
    let population = match &declaration.spec {
        StreamSpec::Local(spec) => spec.population(),
        StreamSpec::Sequence(spec) => spec.population(),
        _ => return None,
    };
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a bound
    let most = (CROWD * share * population.unwrap_or(0) as f64) as u64;
    Some(most.saturating_add(1_000))
}

/// Returns how many ones an honest report has, except with probability 10^-12. `None` where an oracle fixes the number
/// or gives it no meaning.
///
/// In a unary report each bit but the device's own is one with the same probability, so Bernstein's inequality bounds
/// the sum for any domain and epsilon.
fn plausible_ones(oracle: &Oracle) -> Option<RangeInclusive<u32>> {
    if !matches!(oracle.kind(), OracleKind::Oue | OracleKind::Sue) {
        return None;
    }
    let (others, share) = (f64::from(oracle.domain() - 1), oracle.support_of_other());
    // Bernstein: beyond t lies at most exp(-t^2 / (2 v + 2 t / 3)) on either side; solved for t at 10^-12 / 2.
    let (variance, tail) = (others * share * (1.0 - share), (2e12_f64).ln());
    let reach = tail / 3.0 + (tail * tail / 9.0 + 2.0 * tail * variance).sqrt();
    let (least, most) = ((others * share - reach).floor().max(0.0), (others * share + reach).ceil() + 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least zero, at most the domain
    let bounds = (least as u32)..=(most.min(f64::from(oracle.domain())) as u32);
    Some(bounds)
}
