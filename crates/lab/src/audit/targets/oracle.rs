//! Frequency oracles: one report of one user.

use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::{Epsilon, Ledger, SeededRandom, Window};

use crate::audit::{AuditSettings, Input, Pair, Target, TargetFamily, Transcript, exact};
use crate::experiment::RunError;

/// One report through an oracle.
#[derive(Clone, Copy, Debug)]
pub struct OracleTarget {
    /// Which oracle.
    pub kind: OracleKind,
    /// What a report spends.
    pub epsilon: Epsilon,
    /// The number of values.
    pub domain: u32,
}

/// All oracles, and that of means.
pub(super) fn targets(settings: &AuditSettings) -> Vec<Box<dyn Target>> {
    let AuditSettings { epsilon, domain, .. } = *settings;
    let target = |kind| Box::new(OracleTarget { kind, epsilon, domain }) as Box<dyn Target>;
    OracleKind::ALL.into_iter().chain([OracleKind::Piecewise]).map(target).collect()
}

impl Target for OracleTarget {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn family(&self) -> TargetFamily {
        TargetFamily::Oracle
    }

    fn guarantee(&self) -> String {
        "LDP of a report".to_owned()
    }

    fn claimed(&self) -> f64 {
        self.epsilon.as_f64()
    }

    fn neighbours(&self) -> Vec<Pair> {
        let pair = |other: u32| Pair {
            name: format!("0 or {other}"),
            one: Input::Values(vec![0]),
            other: Input::Values(vec![other]),
        };
        let mut pairs = vec![pair(1)];
        pairs.extend((self.domain > 2).then(|| pair(self.domain - 1)));
        pairs
    }

    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError> {
        let Input::Values(values) = input else { return Err(super::other_input(self)) };
        let oracle = Oracle::new(self.kind, self.domain, self.epsilon).map_err(RunError::unsupported)?;
        let mut transcript = Vec::with_capacity(values.len());
        for value in values {
            let permit = Ledger::new(self.epsilon, Window::EVENT).spend(0, self.epsilon).map_err(RunError::failed)?;
            let report = oracle.perturb(permit, *value, random).map_err(RunError::failed)?;
            transcript.push(supported(&oracle, report.as_bytes(), |value| value, self.domain)?);
        }
        Ok(transcript)
    }

    fn exact(&self) -> Result<Option<f64>, RunError> {
        let oracle = Oracle::new(self.kind, self.domain, self.epsilon).map_err(RunError::unsupported)?;
        Ok(exact::oracle::laws(&oracle)?.map(|laws| exact::largest_difference(&laws)))
    }
}

/// Which values of a domain a report supports, as the bits of a number: all that it tells about its sender's value,
/// since each oracle's reports are as likely under two values that they both support, or both do not.
///
/// Of a mean, the output, as the bit of a number.
///
/// `cell_of` says which of the oracle's values stands for a value of the domain.
pub(super) fn supported(
    oracle: &Oracle,
    report: &[u8],
    cell_of: impl Fn(u32) -> u32,
    domain: u32,
) -> Result<f64, RunError> {
    let mut aggregate = oracle.aggregate();
    aggregate.add(report).map_err(RunError::failed)?;
    let supports = aggregate.supports();
    if oracle.kind() == OracleKind::Piecewise {
        let output = supports.iter().position(|support| *support > 0).and_then(|output| i32::try_from(output).ok());
        return Ok(2.0_f64.powi(output.unwrap_or(0)));
    }
    let supports = |value: u32| supports.get(cell_of(value) as usize).is_some_and(|support| *support > 0);
    Ok((0..domain).filter(|value| supports(*value)).map(|value| f64::from(value).exp2()).sum())
}
