//! `outpatient_ilinet`, `outpatient_ilinet_once` and `outpatient_ilinet_cdc`: patients seen by the providers of the
//! Outpatient Influenza-like Illness Surveillance Network in the United States, weekly from October 1997 (CDC).
//!
//! The folder holds `ILINet.csv`, the file that the authors of the delayed-release paper publish: 4848 lines, which are
//! the same 1212 weeks four times over, to October 2022. `outpatient_ilinet` is that file, `outpatient_ilinet_once` its
//! first 1212 weeks. Weeks without reports (summers before 2002) are absent. The domain is 0..2260794, as in the paper.
//!
//! `outpatient_ilinet_cdc` is `ILINet_cdc_1997_2025.csv`, the file as the CDC gives it: to April 2025, in part revised,
//! with 0 for weeks without reports. Where there is no file of that name, `ILINet.csv` is read, for so the CDC calls
//! it. Numbers have grown beyond the paper's domain, so it has one of its own: 0..3000000.

use std::path::Path;

use tidegate_kernel::Grid;

use tidegate_table::TableReader;

use super::DatasetError;
use super::files::{first_of, later, open_data, reading, week};
use crate::stream::NumberStream;

const FIELDS: [&str; 15] = [
    "REGION TYPE",
    "REGION",
    "YEAR",
    "WEEK",
    "% WEIGHTED ILI",
    "%UNWEIGHTED ILI",
    "AGE 0-4",
    "AGE 25-49",
    "AGE 25-64",
    "AGE 5-24",
    "AGE 50-64",
    "AGE 65",
    "ILITOTAL",
    "NUM. OF PROVIDERS",
    "TOTAL PATIENTS",
];
const YEAR: usize = 2;
const WEEK: usize = 3;
const PATIENTS: usize = 14;
const HIGHEST: f64 = 2_260_794.0;
const HIGHEST_CDC: f64 = 3_000_000.0;

/// What is done where the weeks begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    Kept,
    Dropped,
    Refused,
}

pub(super) fn load(folder: &Path) -> Result<NumberStream, DatasetError> {
    read("outpatient_ilinet", &folder.join("ILINet.csv"), HIGHEST, Repeats::Kept)
}

pub(super) fn load_once(folder: &Path) -> Result<NumberStream, DatasetError> {
    read("outpatient_ilinet_once", &folder.join("ILINet.csv"), HIGHEST, Repeats::Dropped)
}

pub(super) fn load_cdc(folder: &Path) -> Result<NumberStream, DatasetError> {
    let named = first_of(folder, &["ILINet_cdc_1997_2025.csv", "ILINet.csv"]);
    let path = named.unwrap_or_else(|| folder.join("ILINet_cdc_1997_2025.csv"));
    read("outpatient_ilinet_cdc", &path, HIGHEST_CDC, Repeats::Refused)
}

fn read(name: &str, path: &Path, highest: f64, repeats: Repeats) -> Result<NumberStream, DatasetError> {
    let file = path.display().to_string();
    // A title stands above the header.
    let mut table = TableReader::csv_after(1, &file, open_data(path)?)?;
    table.expect_header(&FIELDS)?;
    let grid = Grid::new(0.0, highest, 1.0)?;
    let (mut values, mut last) = (Vec::new(), None);
    // How many lines there were since the weeks began again.
    let mut repeated: Option<usize> = None;
    while let Some(line) = table.next_line()? {
        let week = week(&line, YEAR, WEEK)?;
        if !later(&mut last, week) {
            if repeats == Repeats::Refused {
                return Err(line.bad_field(WEEK, "a week that is later than the last").into());
            }
            repeated = repeated.or(Some(0));
        }
        let patients = reading(&line, PATIENTS, &grid)?;
        match &mut repeated {
            Some(lines) if repeats == Repeats::Dropped => {
                let before: f64 = values[*lines % values.len()];
                if (before - patients).abs() > 0.0 {
                    return Err(line.bad_field(PATIENTS, "what the same week had before").into());
                }
                *lines += 1;
            }
            _ => values.push(patients),
        }
    }
    NumberStream::new(name, grid, values).map_err(|source| DatasetError::Stream { file, source })
}
