//! The audit: privacy that is measured, not believed.
//!
//! | module | what it tells |
//! | --- | --- |
//! | [`empirical`] | what the loss is at least: a black-box attack, with a stated confidence |
//! | [`exact`] | the largest loss of a whole mechanism at a small domain and window, by enumeration |
//! | [`transcript`] | the exact loss of the worst transcripts that a search finds |
//! | [`ledger`] | what every window of a recorded run has spent, from the record alone |
//! | [`targets`] | what there is to audit: every mechanism, as users run it, with its neighbouring streams |
//!
//! A [`Target`] is a mechanism with its claim. An audit runs it on two neighbouring streams, sees everything that is
//! published, and tries to tell them apart. What it finds is a [`Finding`]: a loss above the claim is a broken promise,
//! a loss below proves nothing about what was not tried.

pub mod empirical;
pub mod exact;
pub mod ledger;
mod report;
pub mod targets;
pub mod transcript;

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Instant;

use tidegate_kernel::{Epsilon, SeededRandom};

use crate::experiment::RunError;
use empirical::{AttackError, Evidence, Plan, attack};
pub use report::report;
use tidegate::names::UnknownName;
use transcript::{Search, Worst, examine};

/// What mechanisms are set to when they are audited. Small, because losses are found where streams are short and
/// domains small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The budget of a window, or of a timestamp for mechanisms without windows. Classes have half and all of it.
    pub epsilon: Epsilon,
    /// The length of the window; a batch of the mechanisms that hold back has as many timestamps.
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

/// The family that a target belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// All of them, in the order in which they are audited.
    pub const ALL: [Self; 5] = [Self::Oracle, Self::Local, Self::Central, Self::Scalar, Self::Sequence];

    /// The name that users write.
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

impl FromStr for TargetFamily {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| UnknownName::new("family", name, Self::ALL.map(Self::name)))
    }
}

/// What a mechanism is fed: the whole stream of a short run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The value of one user at each timestamp; what others hold is the target's affair, and the same in both streams.
    Values(Vec<u32>),
    /// The histogram of each timestamp; for mechanisms with classes, the histograms of the classes one after the other.
    Counts(Vec<Vec<u64>>),
    /// The number of each timestamp.
    Readings(Vec<f64>),
    /// The symbol of each timestamp.
    Symbols(Vec<u32>),
    /// So many symbols, drawn anew for each run from the model that the mechanism has. Against it, a sequence of
    /// symbols shows how much more likely what is published has made it: sequence information privacy.
    Drawn(usize),
}

/// Two streams that a mechanism promises to make hard to tell apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What is special about it, for people: `step at 2`, say.
    pub name: String,
    /// One stream.
    pub one: Input,
    /// The other.
    pub other: Input,
}

/// What one run has published: all of it, as numbers. An attacker sees statistics, variances, freshness, spends,
/// questions, reports and when each came. All transcripts of one target have the same length and the same layout.
pub type Transcript = Vec<f64>;

/// Something that promises privacy and can be run as a black box.
pub trait Target: Send + Sync {
    /// The mechanism's name, as users write it. Several targets may share it, where a mechanism makes several promises.
    fn name(&self) -> &'static str;

    /// Its family.
    fn family(&self) -> TargetFamily;

    /// What is promised, in words: of which neighbours, and over what.
    fn guarantee(&self) -> String;

    /// The largest loss that is promised: the logarithm of how much more likely any transcript may be under one of two
    /// streams.
    fn claimed(&self) -> f64;

    /// Pairs of neighbouring streams that are hard on it. Every pair is one that the promise covers.
    fn neighbours(&self) -> Vec<Pair>;

    /// The pairs whose transcripts are examined: those of [`neighbours`](Self::neighbours), unless more are affordable.
    fn pairs_for_transcripts(&self) -> Vec<Pair> {
        self.neighbours()
    }

    /// Everything that one run on a stream publishes, with randomness of that run's own.
    fn observe(&self, input: &Input, random: &mut SeededRandom) -> Result<Transcript, RunError>;

    /// The streams that an input stands for, each with the logarithm of its probability: one, unless it is
    /// [drawn](Input::Drawn).
    fn streams(&self, input: &Input) -> Vec<(f64, Input)> {
        vec![(0.0, input.clone())]
    }

    /// The largest loss over all transcripts and neighbouring streams, where it can be enumerated.
    fn exact(&self) -> Result<Option<f64>, RunError> {
        Ok(None)
    }
}

/// What was found about a target.
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
    /// What the loss is at least, with probability [`confidence`](Self::confidence): from the black-box attack.
    pub lower_bound: f64,
    /// How sure that is, over the attack's randomness.
    pub confidence: f64,
    /// The largest loss, where it was enumerated.
    pub exact: Option<f64>,
    /// The worst transcript that was found.
    pub transcript: Worst,
    /// The neighbouring streams that the attack told apart best.
    pub pair: String,
    /// What it told them apart by.
    pub event: String,
    /// How often the mechanism was run.
    pub runs: u64,
    /// How long it took.
    pub seconds: f64,
}

/// How far an exact loss may lie above the claim and still be taken for rounding of floating-point numbers.
pub const ROUNDING: f64 = 1e-9;

impl Finding {
    /// Whether the promise is broken: a loss above the claim is certain, or as good as.
    pub fn is_broken(&self) -> bool {
        let is_above = |loss: f64| loss.is_nan() || loss > self.claimed + ROUNDING;
        self.lower_bound > self.claimed || self.exact.is_some_and(is_above) || is_above(self.transcript.loss)
    }

    /// The largest loss that was found in any way.
    pub fn largest(&self) -> f64 {
        self.exact.unwrap_or(0.0).max(self.transcript.loss).max(self.lower_bound)
    }
}

/// Audits a target: exactly, where that is possible, by its worst transcripts, and as a black box. `progress` is called
/// [`steps`](empirical::steps) times.
///
/// # Errors
/// A plan that makes no sense, and runs that fail.
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
