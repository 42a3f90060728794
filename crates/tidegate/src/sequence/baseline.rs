//! Baselines that ignore the model: frequency oracles whose report is decoded to a symbol.
//!
//! `rr` is generalised randomised response, whose report is a symbol. `oue` reports a set of symbols; the answer is
//! drawn uniformly from it, or from the domain if it is empty. Decoding is post-processing. Each step is epsilon-LDP,
//! hence epsilon-SIP for any model.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_kernel::noise::Below;
use tidegate_kernel::oracle::{MalformedReport, Oracle, OracleError, OracleKind};
use tidegate_kernel::primitives::{SymbolError, seal_symbol};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Refusal, Sealed, Window};

use crate::release::{Freshness, Release, Spent, Symbol};

/// Kind of a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// Generalised randomised response.
    Rr,
    /// Optimised unary encoding, decoded to a symbol.
    Oue,
}

impl BaselineKind {
    /// All baselines.
    pub const ALL: [Self; 2] = [Self::Rr, Self::Oue];

    /// Name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rr => "rr",
            Self::Oue => "oue",
        }
    }

    const fn oracle(self) -> OracleKind {
        match self {
            Self::Rr => OracleKind::Grr,
            Self::Oue => OracleKind::Oue,
        }
    }
}

impl fmt::Display for BaselineKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Settings of a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineSettings {
    /// Number of symbols.
    pub domain: u32,
    /// Local differential privacy of each step.
    pub epsilon: Epsilon,
    /// Timestamps that share the budget.
    pub window: Window,
    /// Budget of any window.
    pub budget: Epsilon,
}

impl BaselineSettings {
    /// Settings with epsilon-LDP for each timestamp by itself.
    pub const fn new(domain: u32, epsilon: Epsilon) -> Self {
        Self { domain, epsilon, window: Window::EVENT, budget: epsilon }
    }
}

/// Error of a baseline.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// No oracle for the domain or the epsilon, or a permit for another symbol.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// Malformed report of the oracle itself, which does not happen.
    #[error(transparent)]
    Report(#[from] MalformedReport),
    /// The ledger refused the step.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A frequency oracle on one user's stream, decoded to symbols; see the [module](self).
///
/// # Guarantee
/// Each step is epsilon-LDP, and any window budget-LDP.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Baseline {
    kind: BaselineKind,
    settings: BaselineSettings,
    ledger: Ledger,
    oracle: Oracle,
}

const VERSION: u16 = 1;

impl Baseline {
    /// Creates the baseline.
    pub fn new(kind: BaselineKind, settings: BaselineSettings) -> Result<Self, BaselineError> {
        let oracle = Oracle::new(kind.oracle(), settings.domain, settings.epsilon)?;
        Ok(Self { kind, settings, ledger: Ledger::new(settings.budget, settings.window), oracle })
    }

    /// Kind.
    pub const fn kind(&self) -> BaselineKind {
        self.kind
    }

    /// Settings.
    pub const fn settings(&self) -> &BaselineSettings {
        &self.settings
    }

    /// Ledger.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Seals a symbol of the stream.
    pub fn seal(&self, timestamp: u64, symbol: u32) -> Result<Sealed<u32>, SymbolError> {
        seal_symbol(self.ledger.account(), timestamp, symbol, self.settings.domain)
    }

    /// Answers the symbol of a timestamp later than the last one.
    pub fn step(&mut self, symbol: &Sealed<u32>, random: &mut impl Randomness) -> Result<Release, BaselineError> {
        let timestamp = symbol.timestamp();
        let permit = self.ledger.spend(timestamp, self.settings.epsilon)?;
        self.ledger.close(timestamp)?;
        let report = self.oracle.perturb_sealed(permit, symbol, random)?;
        let mut aggregate = self.oracle.aggregate();
        aggregate.add(report.as_bytes())?;
        let named: Vec<u32> =
            (0..).zip(aggregate.supports()).filter(|(_, n)| *n > 0).map(|(symbol, _)| symbol).collect();
        let answer = match named.get(chosen(named.len(), random)) {
            Some(answer) => *answer,
            None => u32::try_from(chosen(self.settings.domain as usize, random)).unwrap_or(0),
        };
        let statistic = Symbol { symbol: answer, domain: self.settings.domain }.into();
        // Each answer depends on its own randomness only.
        let (spent, seeded) = (Spent::Everyone(self.settings.epsilon), !random.provenance().is_private());
        Ok(Release { timestamp, statistic, freshness: Freshness::Fresh, spent, reports: 1, seeded, why: None })
    }
}

/// Draws an index below `length` uniformly; zero if there is none.
#[allow(clippy::cast_possible_truncation)] // below a length
fn chosen(length: usize, random: &mut impl Randomness) -> usize {
    match std::num::NonZeroU64::new(length as u64) {
        Some(length) => Below::new(length).sample(random) as usize,
        None => 0,
    }
}

/// Saved form.
#[derive(Serialize)]
struct Saving<'a> {
    version: u16,
    kind: BaselineKind,
    settings: BaselineSettings,
    ledger: &'a Ledger,
}

impl Serialize for Baseline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, settings, ledger, oracle: _ } = self;
        Saving { version: VERSION, kind: *kind, settings: *settings, ledger }.serialize(serializer)
    }
}

/// Loaded form, before validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    kind: BaselineKind,
    settings: BaselineSettings,
    ledger: Ledger,
}

impl TryFrom<Saved> for Baseline {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, kind, settings, ledger } = saved;
        if version != VERSION {
            return Err(format!(
                "mechanism state version {version} is not known; this program reads version {VERSION}"
            ));
        }
        let fresh = Self::new(kind, settings).map_err(|error| error.to_string())?;
        if ledger.budget() != settings.budget || ledger.window() != settings.window {
            return Err("the mechanism's state does not fit its settings".to_owned());
        }
        Ok(Self { ledger, ..fresh })
    }
}
