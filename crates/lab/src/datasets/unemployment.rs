//! `unemployment`: unemployed Black or African American people of 16 to 19 years in the United States, in thousands,
//! monthly from January 1972 to October 2023, not seasonally adjusted (series LNU03000018 of the Bureau of Labor
//! Statistics).
//!
//! The folder holds `unemployment.csv` as it is downloaded from FRED, and as the authors of the delayed-release paper
//! publish it: `DATE,LNU03000018` (today FRED calls the first field `observation_date`), 622 months. Their program
//! leaves out the first; here all are used.
//!
//! The domain is 0..612, as in the paper.

use std::path::Path;

use tidegate_kernel::Grid;

use tidegate_table::{Format, TableReader};

use super::DatasetError;
use super::files::{later, open_data, reading};
use crate::stream::NumberStream;

pub(super) fn load(folder: &Path) -> Result<NumberStream, DatasetError> {
    let path = folder.join("unemployment.csv");
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
    if !table.header().eq(["observation_date", "LNU03000018"]) {
        table.expect_header(&["DATE", "LNU03000018"])?;
    }
    let grid = Grid::new(0.0, 612.0, 1.0)?;
    let (mut values, mut last) = (Vec::new(), None);
    while let Some(line) = table.next_line()? {
        let date = month(line.text(0)).ok_or_else(|| line.bad_field(0, "the first day of a month: 2019-01-01"))?;
        if !later(&mut last, date) {
            return Err(line.bad_field(0, "a month that is later than the last").into());
        }
        values.push(reading(&line, 1, &grid)?);
    }
    NumberStream::new("unemployment", grid, values).map_err(|source| DatasetError::Stream { file, source })
}

fn month(text: &str) -> Option<(u32, u32)> {
    let (year, month) = text.strip_suffix("-01")?.split_once('-')?;
    let (year, month) = (year.parse().ok()?, month.parse().ok()?);
    (1..=12).contains(&month).then_some((year, month))
}
