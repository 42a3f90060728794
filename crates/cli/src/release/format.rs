//! [`TableFormat`]: the format of a table, in and out.

use clap::ValueEnum;
use tidegate_table::Format;
use tidegate_table::releases::ReleaseLayout;

use crate::failure::Failure;
use crate::input::Input;
use crate::output::Output;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Fields separated by commas
    Csv,
    /// A JSON object a line
    Ndjson,
    /// Parquet files, where the command was built with the feature `parquet`
    Parquet,
}

impl TableFormat {
    /// Returns the format that the file name suggests.
    pub(crate) fn of(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let lower = lower.strip_suffix(".gz").unwrap_or(&lower);
        let ends = |end: &str| lower.ends_with(end);
        if ends(".ndjson") || ends(".jsonl") || ends(".json") {
            Self::Ndjson
        } else if ends(".parquet") {
            Self::Parquet
        } else {
            Self::Csv
        }
    }

    /// Returns the text format; Parquet rows are converted to and from CSV.
    pub(crate) const fn text(self) -> Format {
        match self {
            Self::Csv | Self::Parquet => Format::Csv,
            Self::Ndjson => Format::Ndjson,
        }
    }

    pub(crate) fn open(self, name: &str) -> Result<Input, Failure> {
        match self {
            Self::Csv | Self::Ndjson => Input::open(name),
            #[cfg(feature = "parquet")]
            Self::Parquet => Input::open_parquet(name),
            #[cfg(not(feature = "parquet"))]
            Self::Parquet => Err(no_parquet(name)),
        }
    }

    #[cfg_attr(not(feature = "parquet"), allow(unused_variables))]
    pub(super) fn create(self, name: &str, shape: &ReleaseLayout) -> Result<Output, Failure> {
        match self {
            Self::Csv | Self::Ndjson => Output::create(name),
            #[cfg(feature = "parquet")]
            Self::Parquet => Output::create_parquet(name, &shape.columns()),
            #[cfg(not(feature = "parquet"))]
            Self::Parquet => Err(no_parquet(name)),
        }
    }
}

#[cfg(not(feature = "parquet"))]
fn no_parquet(name: &str) -> Failure {
    Failure::input(format_args!(
        "{name}: for Parquet the command must be built with the feature parquet, and this was not"
    ))
}
