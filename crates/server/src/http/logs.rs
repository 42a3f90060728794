//! Where logs go.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// What logs look like.
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

/// Why there are no logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogsError {
    /// A format that is none.
    #[error("logs are text or json")]
    Format,
    /// A filter that is none.
    #[error("{0:?} is no filter: try info, or warn,tidegate_server=debug")]
    Filter(String),
    /// They go elsewhere already.
    #[error("logs go elsewhere already")]
    Elsewhere,
}

/// Sends logs to standard error, from now on: what passes a filter such as `info`, or `warn,tidegate_server=debug`.
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
