//! [`Failure`]: the error of a command, and its exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The error of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Invalid input, which the caller can correct.
    pub(crate) fn input(error: impl Display) -> Self {
        Self { message: error.to_string(), code: 2 }
    }

    /// A failure while running.
    pub(crate) fn run(error: impl Display) -> Self {
        Self { message: error.to_string(), code: 1 }
    }

    /// Prints the error to standard error, and returns the exit code.
    pub(crate) fn complain(&self) -> u8 {
        complain("error", &self.message);
        self.code
    }

    /// Like [`Failure::complain`], for `main`.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.complain())
    }
}

impl From<tidegate_release::Error> for Failure {
    fn from(error: tidegate_release::Error) -> Self {
        if error.is_of_input() { Self::input(error) } else { Self::run(error) }
    }
}

/// A failure of an output, for a run to stop with.
impl From<Failure> for tidegate_release::Error {
    fn from(failure: Failure) -> Self {
        Self::Run(failure.message)
    }
}

/// The bare message.
impl Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Prints a message to standard error; ignores failures, as nobody could see them.
pub(crate) fn complain(kind: &str, message: impl Display) {
    let _ = writeln!(io::stderr(), "{kind}: {message}");
}
