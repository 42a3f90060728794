//! Test subjects, and the outcome of one run.

use std::error::Error;

use tidegate::mechanisms::Mechanism;
use tidegate::release::Histogram;
use tidegate::tree::Tree;
use tidegate_kernel::SeededRandom;

use super::{Setting, TrialSettings};
use crate::metrics::NotComparable;
use crate::queries::Incomparable;
use crate::stream::{CountStream, NumberStream, StreamKind, SymbolStream};
use crate::subjects::Misfit;

/// What a mechanism made of a stream of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CountOutcome {
    /// The released frequencies: a row for each timestamp, with a column for each value.
    pub frequencies: Vec<Vec<f64>>,
    /// Whether counts were released, of which the frequencies are what part of the users they are that there really
    /// were.
    pub of_counts: bool,
    /// The variances that were stated with them, in the same order; empty where none were.
    pub variances: Vec<Vec<f64>>,
    /// The trees whose leaves those frequencies are, one for each timestamp; empty where histograms were released.
    pub trees: Vec<Tree>,
    /// How many reports users sent, over all timestamps and questions; 0 where a curator sees the data.
    pub reports: u64,
}

impl CountOutcome {
    /// Adds what was released for the next timestamp.
    pub(crate) fn push(&mut self, released: Histogram) {
        self.frequencies.push(released.frequencies);
        self.variances.push(released.variances);
    }
}

/// What a mechanism made of a stream of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberOutcome {
    /// The released numbers, one for each timestamp: when they were released does not matter here.
    pub values: Vec<f64>,
}

/// What a mechanism made of a stream of symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOutcome {
    /// The released sequences, one for each user, as long as the true ones.
    pub sequences: Vec<Vec<u32>>,
}

/// Why a run did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The mechanism cannot work with these settings or this stream: ask for something else.
    #[error("it cannot work with this: {0}")]
    Unsupported(Box<dyn Error + Send + Sync>),
    /// It failed along the way.
    #[error("it failed: {0}")]
    Failed(Box<dyn Error + Send + Sync>),
    /// It takes streams of another kind.
    #[error(transparent)]
    Misfit(#[from] Box<Misfit>),
    /// What it released does not fit the stream.
    #[error("its releases do not fit the stream: {0}")]
    Outcome(#[from] NotComparable),
}

impl RunError {
    /// The mechanism cannot work with these settings or this stream, for this reason.
    pub fn unsupported(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unsupported(error.into())
    }

    /// It failed along the way, for this reason.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Incomparable> for RunError {
    fn from(error: Incomparable) -> Self {
        match error {
            Incomparable::Outcome(error) => Self::Outcome(error),
            Incomparable::Query(error) => Self::Failed(Box::new(error)),
        }
    }
}

/// Something to try on a stream: a mechanism with the simulated users that answer it, or a baseline.
///
/// It takes streams of the kinds for which it says how it runs, mostly one:
///
/// ```
/// use tidegate_kernel::{Grid, SeededRandom};
/// use tidegate_lab::NumberStream;
/// use tidegate_lab::experiment::{NumberOutcome, OnNumbers, RunError, Setting, Subject, TrialSettings};
///
/// struct Zero;
///
/// impl Subject for Zero {
///     fn name(&self) -> &'static str {
///         "zero"
///     }
///
///     fn summary(&self) -> String {
///         "baseline: zero, always".to_owned()
///     }
///
///     fn uses(&self) -> &'static [Setting] {
///         &[] // whatever is set, it is zero
///     }
///
///     fn on_numbers(&self) -> Option<&dyn OnNumbers> {
///         Some(self)
///     }
/// }
///
/// impl OnNumbers for Zero {
///     fn run(
///         &self,
///         stream: &NumberStream,
///         _: &TrialSettings,
///         _: &mut SeededRandom,
///     ) -> Result<NumberOutcome, RunError> {
///         Ok(NumberOutcome { values: vec![0.0; stream.values().len()] })
///     }
/// }
/// ```
pub trait Subject: Send + Sync {
    /// The name that users write, as [the list of mechanisms](tidegate::mechanisms) has it.
    fn name(&self) -> &'static str;

    /// Its entry in the list of mechanisms; `None` for what no spec can name, such as algorithms as printed.
    fn mechanism(&self) -> Option<&'static Mechanism> {
        None
    }

    /// What it does, in one line.
    fn summary(&self) -> String;

    /// Which settings, besides epsilon, change what it does.
    fn uses(&self) -> &'static [Setting];

    /// How it runs on streams of counts; `None` where it takes none.
    fn on_counts(&self) -> Option<&dyn OnCounts> {
        None
    }

    /// How it runs on streams of numbers; `None` where it takes none.
    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        None
    }

    /// How it runs on streams of symbols; `None` where it takes none.
    fn on_symbols(&self) -> Option<&dyn OnSymbols> {
        None
    }

    /// Whether it takes streams of a kind.
    fn takes(&self, kind: StreamKind) -> bool {
        match kind {
            StreamKind::Counts => self.on_counts().is_some(),
            StreamKind::Numbers => self.on_numbers().is_some(),
            StreamKind::Symbols => self.on_symbols().is_some(),
        }
    }
}

/// Runs on streams of counts.
pub trait OnCounts {
    /// Runs from the stream's first timestamp to its last. The outcome is a function of the arguments alone: all
    /// randomness comes from `random`.
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError>;
}

/// Runs on streams of numbers.
pub trait OnNumbers {
    /// As [`OnCounts::run`].
    fn run(
        &self,
        stream: &NumberStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<NumberOutcome, RunError>;
}

/// Runs on streams of symbols.
pub trait OnSymbols {
    /// As [`OnCounts::run`], for each user anew.
    fn run(
        &self,
        stream: &SymbolStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<SymbolOutcome, RunError>;
}
