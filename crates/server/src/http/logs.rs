//! Logs on standard error.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// Format of logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = LogsError;

    fn from_str(text: &str) -> Result<Self, LogsError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogsError::Format),
        }
    }
}

/// Error of [`log_to_stderr`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LogsError {
    #[error("expected text or json")]
    Format,
    #[error("{0:?} is no filter: try info, or warn,tidegate_server=debug")]
    Filter(String),
    #[error("logs are set up already")]
    Elsewhere,
}

/// Sends logs to standard error, through a filter such as `info` or `warn,tidegate_server=debug`.
///
/// # Errors
/// [`LogsError`].
pub fn log_to_stderr(format: LogFormat, filter: &str) -> Result<(), LogsError> {
    let filter = EnvFilter::try_new(filter).map_err(|_| LogsError::Filter(filter.chars().take(80).collect()))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let set = match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    set.map_err(|_| LogsError::Elsewhere)
}
