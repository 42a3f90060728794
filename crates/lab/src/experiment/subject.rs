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

/// The releases of a mechanism on a stream of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CountOutcome {
    /// Released frequencies: a row for each timestamp, a column for each value.
    pub frequencies: Vec<Vec<f64>>,
    /// Whether counts were released; the frequencies are then counts divided by the true number of users.
    pub of_counts: bool,
    /// Stated variances, in the same order; empty if there are none.
    pub variances: Vec<Vec<f64>>,
    /// Released trees, whose leaves are the frequencies; empty for histograms.
    pub trees: Vec<Tree>,
    /// Reports that users sent, over all timestamps and questions; 0 with a curator.
    pub reports: u64,
    /// Length of those reports, in bytes.
    pub bytes: u64,
}

impl CountOutcome {
    /// Appends the release of the next timestamp.
    pub(crate) fn push(&mut self, released: Histogram) {
        self.frequencies.push(released.frequencies);
        self.variances.push(released.variances);
    }
}

/// The releases of a mechanism on a stream of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberOutcome {
    /// Released numbers, one for each timestamp, regardless of the delay.
    pub values: Vec<f64>,
    /// Stated variances, in the same order; empty if there are none.
    pub variances: Vec<f64>,
}

/// The releases of a mechanism on a stream of symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOutcome {
    /// Released sequences, one for each user, as long as the true ones.
    pub sequences: Vec<Vec<u32>>,
}

/// A failed run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The mechanism rejects these settings or this stream.
    #[error("it cannot work with this: {0}")]
    Unsupported(Box<dyn Error + Send + Sync>),
    /// The mechanism failed while running.
    #[error("it failed: {0}")]
    Failed(Box<dyn Error + Send + Sync>),
    /// The mechanism takes another kind of stream.
    #[error(transparent)]
    Misfit(#[from] Box<Misfit>),
    /// The releases do not match the stream.
    #[error("its releases do not fit the stream: {0}")]
    Outcome(#[from] NotComparable),
    /// A [`Stop`](crate::stop::Stop) came first.
    #[error("it was stopped")]
    Stopped,
}

impl RunError {
    /// Returns [`RunError::Unsupported`] with this reason.
    pub fn unsupported(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unsupported(error.into())
    }

    /// Returns [`RunError::Failed`] with this reason.
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

/// A test subject: a mechanism with its simulated users, or a baseline.
///
/// It takes the kinds of streams for which it has a runner, usually one:
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
///         Ok(NumberOutcome { values: vec![0.0; stream.values().len()], variances: Vec::new() })
///     }
/// }
/// ```
pub trait Subject: Send + Sync {
    /// Returns the name that users write, as in [the list of mechanisms](tidegate::mechanisms).
    fn name(&self) -> &'static str;

    /// Returns its entry in the list of mechanisms; `None` if no spec can name it, as for algorithms as printed.
    fn mechanism(&self) -> Option<&'static Mechanism> {
        None
    }

    /// Describes it in one line.
    fn summary(&self) -> String;

    /// Returns the settings, besides epsilon, that it depends on.
    fn uses(&self) -> &'static [Setting];

    /// Returns the settings for which the [formulas](crate::advise::formula) tell its error in a trial with the given
    /// ones; `None` if they do not hold.
    fn in_formulas(&self, settings: &TrialSettings) -> Option<TrialSettings> {
        Some(settings.clone())
    }

    /// Returns its runner on counts; `None` if it takes none.
    fn on_counts(&self) -> Option<&dyn OnCounts> {
        None
    }

    /// Returns its runner on numbers; `None` if it takes none.
    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        None
    }

    /// Returns its runner on symbols; `None` if it takes none.
    fn on_symbols(&self) -> Option<&dyn OnSymbols> {
        None
    }

    /// Whether it takes a kind of stream.
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
    /// Runs over the whole stream. The outcome depends on the arguments alone; all randomness comes from `random`.
    fn run(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<CountOutcome, RunError>;

    /// The same for the mean of the values, which are taken as the numbers 0, 1, 2, and so on. A mechanism without
    /// means is [unsupported](RunError::Unsupported).
    fn run_mean(
        &self,
        stream: &CountStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<MeanOutcome, RunError> {
        let _ = (stream, settings, random);
        Err(RunError::unsupported("it releases no mean"))
    }
}

/// The released means of a stream of counts whose values are taken as numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanOutcome {
    /// The means.
    pub released: NumberOutcome,
    /// Reports that users sent, over all timestamps and questions.
    pub reports: u64,
    /// Length of those reports, in bytes.
    pub bytes: u64,
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
    /// Like [`OnCounts::run`], separately for each user.
    fn run(
        &self,
        stream: &SymbolStream,
        settings: &TrialSettings,
        random: &mut SeededRandom,
    ) -> Result<SymbolOutcome, RunError>;
}
