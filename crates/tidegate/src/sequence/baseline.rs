//! What knows nothing of the model, for comparison: frequency oracles whose report is turned into a symbol.
//!
//! `rr` is generalised randomised response, whose report is a symbol. `oue` reports a set of symbols; the answer is one
//! of them, each equally likely, or any symbol if the set is empty. Choosing from a report costs no privacy. Each step
//! is epsilon-LDP, hence epsilon-SIP for any model.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_kernel::noise::Below;
use tidegate_kernel::oracle::{MalformedReport, Oracle, OracleError, OracleKind};
use tidegate_kernel::primitives::{SymbolError, seal_symbol};
use tidegate_kernel::{Epsilon, Ledger, Randomness, Refusal, Sealed, Window};

use crate::release::{Freshness, Release, Spent, Symbol};

/// Which baseline.
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

    /// The name that users write.
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

/// What a baseline is set to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineSettings {
    /// The number of symbols.
    pub domain: u32,
    /// What each step loses, in the sense of local differential privacy.
    pub epsilon: Epsilon,
    /// The timestamps that share the budget.
    pub window: Window,
    /// What the steps of any window may lose together.
    pub budget: Epsilon,
}

impl BaselineSettings {
    /// Local differential privacy of epsilon for each timestamp by itself.
    pub const fn new(domain: u32, epsilon: Epsilon) -> Self {
        Self { domain, epsilon, window: Window::EVENT, budget: epsilon }
    }
}

/// Why a baseline could not be made, or released nothing.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// No oracle for the domain or the epsilon, or a permit that is not the symbol's.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The oracle's own report is malformed, which does not happen.
    #[error(transparent)]
    Report(#[from] MalformedReport),
    /// The ledger did not grant the step.
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
    /// A baseline that has released nothing yet.
    pub fn new(kind: BaselineKind, settings: BaselineSettings) -> Result<Self, BaselineError> {
        let oracle = Oracle::new(kind.oracle(), settings.domain, settings.epsilon)?;
        Ok(Self { kind, settings, ledger: Ledger::new(settings.budget, settings.window), oracle })
    }

    /// Which baseline it is.
    pub const fn kind(&self) -> BaselineKind {
        self.kind
    }

    /// What it is set to.
    pub const fn settings(&self) -> &BaselineSettings {
        &self.settings
    }

    /// What has been spent.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Seals a symbol of the stream.
    pub fn seal(&self, timestamp: u64, symbol: u32) -> Result<Sealed<u32>, SymbolError> {
        seal_symbol(self.ledger.account(), timestamp, symbol, self.settings.domain)
    }

    /// Answers the symbol of a timestamp, which must lie after the last one.
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
        Ok(Release { timestamp, statistic, freshness: Freshness::Fresh, spent, reports: 1, seeded })
    }
}

/// One of the positions below `length`, each equally likely; zero where there is none.
#[allow(clippy::cast_possible_truncation)] // below a length
fn chosen(length: usize, random: &mut impl Randomness) -> usize {
    match std::num::NonZeroU64::new(length as u64) {
        Some(length) => Below::new(length).sample(random) as usize,
        None => 0,
    }
}

/// The form in which a baseline is saved.
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

/// A baseline as it is loaded, before its parts are checked against each other.
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
