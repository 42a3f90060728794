//! Errors of advice.

use tidegate::spec::SpecError;
use tidegate_kernel::{EpsilonError, MAX_DOMAIN};
use tidegate_release::Error;
use tidegate_table::TableError;

use super::metrics_of;
use crate::datasets::DatasetError;
use crate::experiment::TrialError;
use crate::generate::{GenerateError, MAX_LENGTH};
use crate::metrics::Metric;
use crate::stream::{DataStreamError, MAX_POPULATION, StreamKind};

/// The reason for giving no advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum AdviseError {
    /// Fewer than two values.
    #[error("a domain needs at least two values, but {given} was given")]
    Domain { given: u32 },
    /// More values than a domain can have.
    #[error("a domain has at most {MAX_DOMAIN} values, but {given} were given")]
    WideDomain { given: u32 },
    /// A typical stream that does not fit in memory.
    #[error(
        "a stream of {length} timestamps with {columns} numbers each is too long: at most {MAX_LENGTH} numbers fit"
    )]
    Long { length: usize, columns: usize },
    /// More users than can be counted.
    #[error("the population must be between 1 and {MAX_POPULATION}, but {given} was given")]
    Population { given: u64 },
    /// A curator for a single user's symbols.
    #[error("a sequence of symbols is one user's, who trusts nobody: a curator counts users, so ask about counts")]
    CuratorOfSymbols,
    /// An error that this kind of stream does not have.
    #[error("streams of {kind} are not judged by {metric}; there are: {}", names(.kind))]
    Metric { metric: Metric, kind: StreamKind },
    /// A mechanism that does not fit.
    #[error("{mechanism} does not apply to {kind} with trust {trust}; there are: {}", .fitting.join(", "))]
    Mechanism { mechanism: String, kind: StreamKind, trust: &'static str, fitting: Vec<&'static str> },
    /// A sample over another domain.
    #[error("{file} has {given} values a timestamp, but the domain has {expected}")]
    SampleWidth { file: String, given: usize, expected: usize },
    /// A local stream of numbers.
    #[error("advice on local streams is for frequencies: compare means with `tidegate evaluate --mean`")]
    Means,
    /// A target that is no error.
    #[error("a target must be a number above 0, but {given} was given")]
    Target { given: f64 },
    /// A population was asked for where there is none.
    #[error("a stream of {kind} has no population that could be solved for; solve for epsilon")]
    NoPopulation { kind: StreamKind },
    /// A spec without a population.
    #[error("--population is needed with this spec: the number of users")]
    MissingPopulation,
    /// A population of a stream without users.
    #[error("--population is for counts: a stream of {kind} has none")]
    NoUsers { kind: StreamKind },
    /// A spec with neither epsilon and window nor classes.
    #[error("the spec has no guarantee: give epsilon and window, or [[classes]]")]
    NoGuarantee,
    /// Sizes of other classes than those of the spec.
    #[error("--class-sizes has {given} sizes, but the spec {classes} classes")]
    ClassSizes { given: usize, classes: usize },
    /// Options that do not go together.
    #[error(transparent)]
    Options(Box<Error>),
    /// A family without advice.
    #[error("there is no advice for the family {family}")]
    Family { family: &'static str },
    /// A data set that cannot be read.
    #[error(transparent)]
    Data(#[from] DatasetError),
    /// A budget that is none.
    #[error(transparent)]
    Epsilon(#[from] EpsilonError),
    /// A spec that no release accepts.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A sample that cannot be read.
    #[error(transparent)]
    Sample(#[from] TableError),
    /// A stream that cannot be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A stream that cannot be made.
    #[error(transparent)]
    Stream(#[from] DataStreamError),
    /// A mechanism failed.
    #[error(transparent)]
    Run(#[from] TrialError),
}

/// Bad input, unless a mechanism failed.
impl From<AdviseError> for Error {
    fn from(error: AdviseError) -> Self {
        match error {
            AdviseError::Run(error) => Self::run(error),
            AdviseError::Sample(error) => error.into(),
            AdviseError::Options(error) => *error,
            other => Self::Spec(other.to_string()),
        }
    }
}

fn names(kind: &StreamKind) -> String {
    metrics_of(*kind).iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
}
