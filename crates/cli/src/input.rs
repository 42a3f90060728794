//! [`Input`]: standard input or a file.

use std::io::{self, Read};
use std::path::Path;

use tidegate_release::spec::Spec;
use tidegate_release::toml_file::Text;

use crate::failure::Failure;

/// A source of data, with its name in errors.
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) source: Box<dyn Read>,
}

impl Input {
    /// Opens standard input for `-`, or else a file, which may be compressed with gzip.
    pub(crate) fn open(name: &str) -> Result<Self, Failure> {
        if name == "-" {
            return Ok(Self { name: "standard input".to_owned(), source: Box::new(io::stdin()) });
        }
        let source = tidegate_table::open(Path::new(name)).map_err(Failure::input)?;
        Ok(Self { name: name.to_owned(), source })
    }

    /// Reads a text.
    pub(crate) fn text(name: &str) -> Result<Text, Failure> {
        let Self { name, source } = Self::open(name)?;
        Ok(Text::read(name, source)?)
    }

    /// Reads the spec of a stream.
    pub(crate) fn spec(name: &str) -> Result<Spec, Failure> {
        Ok(Spec::of(Self::text(name)?.table()?)?)
    }

    /// Opens a Parquet file, whose rows are read as CSV.
    #[cfg(feature = "parquet")]
    pub(crate) fn open_parquet(name: &str) -> Result<Self, Failure> {
        if name == "-" {
            return Err(Failure::input("Parquet can be read from files only, not from standard input"));
        }
        let refused = |error: &dyn std::fmt::Display| Failure::input(format_args!("{name} cannot be opened: {error}"));
        let file = std::fs::File::open(name).map_err(|error| refused(&error))?;
        let rows = tidegate_table::parquet::ParquetReader::open(file).map_err(|error| refused(&error))?;
        Ok(Self { name: name.to_owned(), source: Box::new(rows) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tidegate_table::scalar::ScalarReader;

    use super::Input;

    #[test]
    fn reads_a_scalar_stream_line_by_line() {
        let path = std::env::temp_dir().join(format!("tidegate-input-{}.csv", std::process::id()));
        std::fs::write(&path, "t,value\n0,1.5\n1,x\n").unwrap();
        let Input { name, source } = Input::open(path.to_str().unwrap()).unwrap();
        let mut readings = ScalarReader::new(&name, source).unwrap();
        let first = readings.next().unwrap().unwrap();
        assert!((first.timestamp, first.value) == (0, 1.5));
        let error = readings.next().unwrap().unwrap_err().to_string();
        assert_eq!(error, format!("{name}, line 3, field \"value\": expected a number"));
        std::fs::remove_file(path).unwrap();
        assert!(Input::open("no/such/file").is_err());
    }
}
