//! `tidegate data`: lists data sets and mechanisms.

use clap::Args;
use tidegate_lab::listing::{as_json, as_text};

use crate::failure::Failure;
use crate::output::Output;

/// List the data sets and the mechanisms that `tidegate evaluate` knows.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate data --json")]
pub(crate) struct Data {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Data {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut output = Output::create("-")?;
        output.write(&if self.json { as_json() } else { as_text() })?;
        output.finish()
    }
}
