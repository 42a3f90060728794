//! `covid19_death` and `covid19_death_chronological`: deaths with COVID-19 in the United States, weekly, from October
//! 2019 to November 2023 (National Center for Health Statistics).
//!
//! The folder holds `COVID19_DEATH.csv`, the file that the authors of the delayed-release paper publish: 216 numbers,
//! one a line, without a header. It is sorted by season and then by week, 1 to 53; since a season begins in week 40,
//! every autumn comes after the following summer. Their program leaves out the first two numbers; here all are used.
//!
//! `nchs_weekly_chronological.csv` has the same weeks, with year and week, in the order of time, and earlier ones,
//! which are left out.
//!
//! The domain is 0..25974, as in the paper.

use std::path::Path;

use tidegate_kernel::Grid;

use tidegate_table::{Format, TableReader};

use super::DatasetError;
use super::files::{later, open_data, reading, week};
use crate::stream::NumberStream;

const HIGHEST: f64 = 25_974.0;
/// The week in which the authors' stream begins.
const FIRST: (u32, u32) = (2019, 40);

pub(super) fn load(folder: &Path) -> Result<NumberStream, DatasetError> {
    let path = folder.join("COVID19_DEATH.csv");
    let file = path.display().to_string();
    let mut table = TableReader::without_header(&file, open_data(&path)?, &["deaths"]);
    let grid = Grid::new(0.0, HIGHEST, 1.0)?;
    let mut values = Vec::new();
    while let Some(line) = table.next_line()? {
        values.push(reading(&line, 0, &grid)?);
    }
    NumberStream::new("covid19_death", grid, values).map_err(|source| DatasetError::Stream { file, source })
}

pub(super) fn load_chronological(folder: &Path) -> Result<NumberStream, DatasetError> {
    let path = folder.join("nchs_weekly_chronological.csv");
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
    table.expect_header(&[
        "mmwr_year",
        "mmwr_week",
        "season",
        "influenza_deaths",
        "pneumonia_deaths",
        "covid19_deaths",
        "total_deaths",
        "percent_complete",
    ])?;
    let grid = Grid::new(0.0, HIGHEST, 1.0)?;
    let (mut values, mut last) = (Vec::new(), None);
    while let Some(line) = table.next_line()? {
        let week = week(&line, 0, 1)?;
        if !later(&mut last, week) {
            return Err(line.bad_field(1, "a week that is later than the last").into());
        }
        let deaths = reading(&line, 5, &grid)?;
        if week >= FIRST {
            values.push(deaths);
        }
    }
    let stream = NumberStream::new("covid19_death_chronological", grid, values);
    stream.map_err(|source| DatasetError::Stream { file, source })
}
