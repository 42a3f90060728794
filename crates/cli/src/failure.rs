//! How the command fails, and what it tells people.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why the command ends without a result.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// What was given is wrong: the caller can mend it.
    pub(crate) fn input(error: impl Display) -> Self {
        Self { message: error.to_string(), code: 2 }
    }

    /// Something went wrong along the way.
    pub(crate) fn run(error: impl Display) -> Self {
        Self { message: error.to_string(), code: 1 }
    }

    /// Says so on standard error; the code to exit with.
    pub(crate) fn complain(&self) -> u8 {
        complain("error", &self.message);
        self.code
    }

    /// The same, for `main`.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.complain())
    }
}

/// Why, without anything around it.
impl Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Writes a paragraph to standard error; if that is closed, there is nobody to tell.
pub(crate) fn complain(kind: &str, message: impl Display) {
    let _ = writeln!(io::stderr(), "{kind}: {message}");
}
