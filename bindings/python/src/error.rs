//! Errors of Rust as exceptions of Python, which `tidegate/_errors.py` declares.

use pyo3::PyErr;
use pyo3::import_exception;
use tidegate::central::CentralError;
use tidegate::kernel::Refusal;
use tidegate::local::LocalError;
use tidegate::scalar::ScalarError;
use tidegate::sequence::baseline::BaselineError;
use tidegate::sequence::batched::BatchedError;
use tidegate::sequence::crr::CrrError;
use tidegate::spec::SpecError;
use tidegate::stream::StreamError;
use tidegate_release::Error;
use tidegate_table::TableError;

import_exception!(tidegate._errors, TidegateError);
import_exception!(tidegate._errors, BadSpec);
import_exception!(tidegate._errors, BadData);
import_exception!(tidegate._errors, BadState);
import_exception!(tidegate._errors, BudgetExceeded);
import_exception!(tidegate._errors, Refused);

/// The error of a call, before it becomes an exception.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of a run.
    Run(Error),
    /// An exception, raised as it is.
    Raised(PyErr),
    /// The caller's interrupt, which Python raises itself.
    Interrupted,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Run(error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        Self::Run(error.into())
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        Self::Run(error.into())
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        let key = error.key().map(|key| format!("key {key:?}: ")).unwrap_or_default();
        Self::Run(Error::Spec(format!("{key}{error}")))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let error = match failure {
            Failure::Run(error) => error,
            Failure::Raised(error) => return error,
            // `work::run` replaces it by what the signal's handler raised.
            Failure::Interrupted => return pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
        };
        let message = as_keywords(&error.to_string());
        match error {
            Error::Spec(_) => BadSpec::new_err(message),
            Error::State(_) => BadState::new_err(message),
            Error::Data(error) => of_table(&error),
            Error::Stream(error) if refusal(&error).is_some() => BudgetExceeded::new_err(message),
            Error::Stream(StreamError::State(_) | StreamError::NoKey) => BadState::new_err(message),
            Error::Stream(StreamError::Spec(_)) => BadSpec::new_err(message),
            _ => TidegateError::new_err(message),
        }
    }
}

/// The exception of a table, with row and column.
fn of_table(error: &TableError) -> PyErr {
    let message = |text: String| as_keywords(&text);
    match error {
        TableError::Field { file, line, field, expected } => {
            let text = format!("{file}, row {line}, column {field:?}: expected {expected}");
            BadData::new_err((message(text), *line, field.clone()))
        }
        TableError::Header { file, expected } => BadData::new_err(message(format!("{file}: {expected}"))),
        TableError::Read { file, source, .. } => BadData::new_err(message(format!("{file}: {source}"))),
        other => BadData::new_err(message(other.to_string())),
    }
}

/// The refusal of a ledger, if that is the error.
fn refusal(error: &StreamError) -> Option<Refusal> {
    match error {
        StreamError::Central(CentralError::Account(refusal))
        | StreamError::Scalar(ScalarError::Account(refusal))
        | StreamError::Local(LocalError::Account(refusal))
        | StreamError::Crr(CrrError::Refused(refusal))
        | StreamError::Batched(BatchedError::Step(CrrError::Refused(refusal)))
        | StreamError::Baseline(BaselineError::Refused(refusal)) => Some(*refusal),
        _ => None,
    }
}

/// Messages name the options of the command: `--skip-empty`, `--time NAME`. In Python these are keywords of the same
/// names: `skip_empty`, `time=NAME`.
pub(crate) fn as_keywords(message: &str) -> String {
    let mut text = String::new();
    for (number, part) in message.split("--").enumerate() {
        if number == 0 {
            text.push_str(part);
            continue;
        }
        let end = part.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(part.len());
        let (option, rest) = part.split_at(end);
        text.push_str(&option.replace('-', "_"));
        match rest.strip_prefix(' ').filter(|rest| is_argument(rest)) {
            Some(argument) => text.extend(["=", argument]),
            None => text.push_str(rest),
        }
    }
    text
}

/// Whether a text begins with the name of an argument, `NAME`, or with a literal one, `1d`.
fn is_argument(text: &str) -> bool {
    let word = text.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    word.starts_with(|letter: char| letter.is_ascii_digit())
        || (!word.is_empty() && word.bytes().all(|letter| letter.is_ascii_uppercase()))
}
