//! `nyc_taxi_ge`: yellow-taxi trips of New York, from the Taxi & Limousine Commission's records.
//!
//! The folder holds `yellow_2018_2020_36x10000.csv.gz`: 10,000 trips of each month from 2018 to 2020, one a line. Of
//! its fields, the time of pick-up, the fare and the month of the file that the trip was found in are used.
//!
//! Where it holds files of single months as they are published, `yellow_tripdata_2019-01.csv` or
//! `yellow_tripdata_sample_2019-01.csv` (or `.csv.gz`), those of the first year that they have are used instead. Their
//! pick-up is called `tpep_pickup_datetime` or `pickup_datetime`, the fare `fare_amount`. (The commission itself now
//! gives out Parquet files; they must be turned into CSV.)
//!
//! The stream has 275 days, as MTSP-LDP's has: 2019-01-01 to 2019-10-02. The records name no passengers, so each trip
//! acts as a user of its day (162 to 422 a day). The value is the fare in whole dollars, rounded down: 0 to 149, for
//! the paper's domain has 150 values. Fares that are not positive (refunds, errors) or lie beyond the domain are left
//! out (220 of 90,642), where the paper leaves out those above the 99.9th percentile; so are trips whose pick-up is not
//! in the month of their file (2), for their clock was wrong. The paper has trips of 2024, and 139,713 users.

use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate_table::{Format, TableError, TableLine, TableReader};

use super::DatasetError;
use super::files::open_data;
use crate::stream::CountStream;

const PICKUP: [&str; 2] = ["tpep_pickup_datetime", "pickup_datetime"];
const FARE: [&str; 1] = ["fare_amount"];
const MONTH: [&str; 1] = ["file_month"];
const SAMPLED_YEAR: u32 = 2019;
const FARES: usize = 150;
const DAYS: usize = 275;

pub(super) const STANDS_IN_FOR: &str =
    "MTSP-LDP's taxi stream (trips of 2024, 139,713 users): a sample of trips of 2019, some 330 a day";

pub(super) fn load(folder: &Path) -> Result<CountStream, DatasetError> {
    let months = monthly_files(folder);
    let Some(year) = months.first().map(|month| month.year) else {
        let path = folder.join("yellow_2018_2020_36x10000.csv.gz");
        let file = path.display().to_string();
        let mut counts = vec![vec![0; FARES]; DAYS];
        let table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
        let month = table.field(&MONTH)?;
        add_trips(table, SAMPLED_YEAR, |line, date| line.text(month) == date.month_text(), &mut counts)?;
        return Ok(stream(file, counts)?.standing_in_for(STANDS_IN_FOR));
    };
    let mut counts = vec![vec![0; FARES]; DAYS];
    for month in months.iter().filter(|month| month.year == year) {
        let table = TableReader::new(month.path.display().to_string(), open_data(&month.path)?, Format::Csv)?;
        add_trips(table, year, |_, date| (date.year, date.month) == (month.year, month.month), &mut counts)?;
    }
    let stand_in =
        format!("MTSP-LDP's taxi stream (trips of 2024, 139,713 users): the trips of {year} that the folder holds");
    Ok(stream(folder.display().to_string(), counts)?.standing_in_for(stand_in))
}

fn stream(file: String, counts: Vec<Vec<u64>>) -> Result<CountStream, DatasetError> {
    let labels = (0..FARES).map(|dollars| format!("${dollars}")).collect();
    CountStream::new("nyc_taxi_ge", labels, counts).map_err(|source| DatasetError::Stream { file, source })
}

/// Counts the trips of a table, by day of the year and fare, that are within their month.
fn add_trips<R: Read>(
    mut table: TableReader<R>,
    year: u32,
    in_month: impl Fn(&TableLine<'_>, &Date) -> bool,
    counts: &mut [Vec<u64>],
) -> Result<(), DatasetError> {
    let (pickup, fare) = (table.field(&PICKUP)?, table.field(&FARE)?);
    while let Some(line) = table.next_line()? {
        let date = Date::of(&line, pickup)?;
        let dollars = line.finite(fare, "an amount of dollars")?;
        let Some(row) = date.day_of_year(year).and_then(|day| counts.get_mut(day)) else { continue };
        if !in_month(&line, &date) || dollars <= 0.0 {
            continue;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // positive; too large an amount is in no cell
        if let Some(count) = row.get_mut(dollars as usize) {
            *count += 1;
        }
    }
    Ok(())
}

struct MonthlyFile {
    year: u32,
    month: u32,
    path: PathBuf,
}

/// The files of single months, in the order of time.
fn monthly_files(folder: &Path) -> Vec<MonthlyFile> {
    // A folder that cannot be listed has none; opening what is looked for then tells why.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let month_of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("yellow_tripdata_")?;
        let name = name.strip_prefix("sample_").unwrap_or(name);
        let (year, month) = name.strip_suffix(".csv.gz").or_else(|| name.strip_suffix(".csv"))?.split_once('-')?;
        Some(MonthlyFile { year: year.parse().ok()?, month: month.parse().ok()?, path })
    };
    let mut files: Vec<MonthlyFile> = entries.filter_map(|entry| month_of(entry.path())).collect();
    files.sort_by(|one, other| (one.year, one.month, &one.path).cmp(&(other.year, other.month, &other.path)));
    // Where a month is there in two forms, its trips must not be counted twice.
    files.dedup_by_key(|file| (file.year, file.month));
    files
}

struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    fn of(line: &TableLine<'_>, pickup: usize) -> Result<Self, TableError> {
        let parse = |text: &str| -> Option<Self> {
            let mut parts = text.get(..10)?.splitn(3, '-').map(|part| part.parse().ok());
            let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
            ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(Self { year, month, day })
        };
        parse(line.text(pickup)).ok_or_else(|| line.bad_field(pickup, "a date and a time: 2019-01-31 23:59:59"))
    }

    fn month_text(&self) -> String {
        format!("{}-{:02}", self.year, self.month)
    }

    /// How many days of a year lie before this one; `None` where it is of another year.
    fn day_of_year(&self, year: u32) -> Option<usize> {
        const MONTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let before: u32 = MONTHS.iter().take(self.month as usize - 1).sum();
        let leap_day = u32::from(is_leap && self.month > 2);
        (self.year == year).then_some((before + leap_day + self.day - 1) as usize)
    }
}
