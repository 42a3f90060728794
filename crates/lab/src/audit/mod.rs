//! The audit: measures the privacy loss of mechanisms.
//!
//! | module | content |
//! | --- | --- |
//! | [`empirical`] | a lower bound of the loss, by a black-box attack with a stated confidence |
//! | [`exact`] | the largest loss of a whole mechanism at a small domain and window, by enumeration |
//! | [`transcript`] | the exact loss of the worst transcripts that a search finds |
//! | [`ledger`] | the spends of every window of a recorded run, from the record alone |
//! | [`targets`] | the audited mechanisms, with their neighbouring streams |
//! | [`Options`] | an audit as `tidegate audit` and the Python package run it |
//!
//! A [`Target`] is a mechanism with its claim. An audit runs it on two neighbouring streams, observes all that is
//! published, and tries to tell them apart. A [`Finding`] with a loss above the claim is a broken promise. A lower loss
//! proves nothing about events that were not tried.

pub mod empirical;
pub mod exact;
pub mod ledger;
mod options;
mod render;
mod report;
pub mod targets;
pub mod transcript;

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Instant;

use serde::Deserialize;
use tidegate_kernel::{Epsilon, SeededRandom};

use crate::experiment::RunError;
use empirical::{AttackError, Evidence, Plan, attack};
pub use options::{Options, broken};
pub use render::{as_json, as_markdown, as_text};
pub use report::report;
use tidegate::names::UnknownName;
use transcript::{Search, Worst, examine};

/// Settings of audited mechanisms. They are small, since short streams and small domains show losses best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The budget of a window, or of a timestamp for mechanisms without windows. Classes have half and all of it.
    pub epsilon: Epsilon,
    /// The length of the window, and of a batch for mechanisms that hold releases back.
    pub window: NonZeroU64,
    /// The number of values; for numbers, the points of the grid.
    pub domain: u32,
}

impl AuditSettings {
    /// The given budget, windows of 3 timestamps and 3 values.
    pub const fn small(epsilon: Epsilon) -> Self {
        Self { epsilon, window: NonZeroU64::MIN.saturating_add(2), domain: 3 }
    }
}

/// The family of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum TargetFamily {
    /// Frequency oracles: one report.
    Oracle,
    /// Mechanisms in which nobody but the device is trusted.
    Local,
    /// Mechanisms of a curator who counts users.
    Central,
    /// Mechanisms of a curator who has one number at each timestamp.
    Scalar,
    /// Mechanisms on one user's symbols.
    Sequence,
}

impl TargetFamily {
    /// All families, in the order of the audit.
    pub const ALL: [Self; 5] = [Self::Oracle, Self::Local, Self::Central, Self::Scalar, Self::Sequence];

    /// Returns the name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Local => "local",
            Self::Central => "central",
            Self::Scalar => "scalar",
            Self::Sequence => "sequence",
        }
    }
}

impl fmt::Display for TargetFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl TryFrom<String> for TargetFamily {
    type Error = UnknownName;

    fn try_from(name: String) -> Result<Self, UnknownName> {
        name.parse()
    }
}

impl FromStr for TargetFamily {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| UnknownName::new("family", name, Self::ALL.map(Self::name)))
    }
}

/// The input of a run: a whole short stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// One user's value at each timestamp; the target chooses those of others, the same in both streams.
    Values(Vec<u32>),
    /// The histogram of each timestamp; for mechanisms with classes, the histograms of the classes one after the other.
    Counts(Vec<Vec<u64>>),
    /// The number of each timestamp.
    Readings(Vec<f64>),
    /// The symbol of each timestamp.
    Symbols(Vec<u32>),
    /// This many symbols, drawn for each run from the mechanism's model. Compared with a fixed sequence, it measures
    /// sequence information privacy.
    Drawn(usize),
}

/// Two neighbouring streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The name, such as `step at 2`.
    pub name: String,
    /// One stream.
    pub one: Input,
    /// The other.
    pub other: Input,
}

/// All that one run publishes, as numbers: statistics, variances, freshness, spends, questions, reports and times.
///
/// All transcripts of a target have the same layout.
pub type Transcript = Vec<f64>;

/// A mechanism with a privacy claim, run as a black box.
pub trait Target: Send + Sync {
    /// Returns the mechanism's name. Several targets share it if the mechanism makes several promises.
    fn name(&self) -> &'static str;

    /// Returns the family.
    fn family(&self) -> TargetFamily;

    /// Describes the promise: its neighbouring relation and its scope.
    fn guarantee(&self) -> String;

    /// Returns the claimed loss: the largest log-likelihood ratio of any transcript under two neighbouring streams.
    fn claimed(&self) -> f64;

    /// Returns pairs of neighbouring streams, all within the promise, that are likely to show large losses.
    fn neighbours(&self) -> Vec<Pair>;

    /// Returns the pairs for the transcript audit; by default those of [`neighbours`](Self::neighbours).
    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        self.neighbours()
    }

    /// Runs once on a stream, and returns all that is published.
    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError>;

    /// Returns the streams of an input with their log-probabilities: one, unless it is [drawn](Input::Drawn).
    fn streams(&self, input: &Input) -> Vec<(f64, Input)> {
        vec![(0.0, input.clone())]
    }

    /// Returns the largest loss over all transcripts and neighbouring streams, if it can be enumerated.
    fn exact(&self) -> Result<Option<f64>, RunError> {
        Ok(None)
    }
}

/// The result of an audit.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Its family.
    pub family: TargetFamily,
    /// What is promised, in words.
    pub guarantee: String,
    /// The loss that is promised.
    pub claimed: f64,
    /// Lower bound of the loss from the black-box attack, valid with probability [`confidence`](Self::confidence).
    pub lower_bound: f64,
    /// Confidence over the attack's randomness.
    pub confidence: f64,
    /// The largest loss, where it was enumerated.
    pub exact: Option<f64>,
    /// The worst transcript that was found.
    pub transcript: Worst,
    /// The neighbouring streams that the attack distinguished best.
    pub pair: String,
    /// The event that distinguished them.
    pub event: String,
    /// Runs of the mechanism.
    pub runs: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Tolerance for floating-point rounding of exact losses.
pub const ROUNDING: f64 = 1e-9;

impl Finding {
    /// Whether a loss above the claim was found.
    pub fn is_broken(&self) -> bool {
        let is_above = |loss: f64| loss.is_nan() || loss > self.claimed + ROUNDING;
        self.lower_bound > self.claimed || self.exact.is_some_and(is_above) || is_above(self.transcript.loss)
    }

    /// Returns the largest loss found by any method.
    pub fn largest(&self) -> f64 {
        self.exact.unwrap_or(0.0).max(self.transcript.loss).max(self.lower_bound)
    }
}

/// Audits a target exactly if possible, by its worst transcripts, and as a black box; calls `progress`
/// [`steps`](empirical::steps) times.
///
/// # Errors
/// An invalid plan, and failed runs.
pub fn audit(
    target: &dyn Target,
    plan: &Plan,
    search: &Search,
    progress: &(dyn Fn() + Sync),
) -> Result<Finding, AttackError> {
    let start = Instant::now();
    let transcript = examine(target, search)?;
    let Evidence { lower_bound, pair, event, runs, .. } = attack(target, plan, progress)?;
    let exact = target.exact()?;
    Ok(Finding {
        mechanism: target.name(),
        family: target.family(),
        guarantee: target.guarantee(),
        claimed: target.claimed(),
        lower_bound,
        confidence: plan.confidence,
        exact,
        transcript,
        pair,
        event,
        runs,
        seconds: start.elapsed().as_secs_f64(),
    })
}
