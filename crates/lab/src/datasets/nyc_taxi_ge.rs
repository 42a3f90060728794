//! `nyc_taxi_ge`: yellow-taxi trips of New York, sampled from the Taxi & Limousine Commission's records.
//!
//! The folder holds `yellow_2018_2020_36x10000.csv.gz`: 10,000 trips of each month from 2018 to 2020, one a line. Of its
//! fields, the time of pick-up, the fare and the month of the file that the trip was found in are used.
//!
//! The stream has 275 days, as MTSP-LDP's has: 2019-01-01 to 2019-10-02. The records name no passengers, so each trip acts
//! as a user of its day (162 to 422 a day). The value is the fare in whole dollars, rounded down: 0 to 149, for the paper's
//! domain has 150 values. Fares that are not positive (refunds, errors) or lie beyond the domain are left out (220 of 90,642),
//! where the paper leaves out those above the 99.9th percentile; so are trips whose pick-up is not in the month of their
//! file (2), for their clock was wrong. The paper has trips of 2024, and 139,713 users.

use std::path::Path;

use super::DataError;
use super::table::{Line, Table, open};
use crate::stream::CountStream;

const FIELDS: [&str; 12] = [
    "vendor_id",
    "pickup_datetime",
    "dropoff_datetime",
    "passenger_count",
    "trip_distance",
    "pickup_location_id",
    "dropoff_location_id",
    "payment_type",
    "fare_amount",
    "tip_amount",
    "total_amount",
    "file_month",
];
const PICKUP: usize = 1;
const FARE: usize = 8;
const MONTH: usize = 11;
const FARES: usize = 150;
const DAYS: usize = 275;

pub(super) fn load(folder: &Path) -> Result<CountStream, DataError> {
    let path = folder.join("yellow_2018_2020_36x10000.csv.gz");
    let file = path.display().to_string();
    let mut table = Table::new(&file, open(&path)?)?;
    table.expect_header(&FIELDS)?;
    let mut counts = vec![vec![0; FARES]; DAYS];
    while let Some(line) = table.next_line()? {
        let date = Date::of(&line)?;
        let fare: f64 = line.number(FARE, "an amount of dollars")?;
        if !fare.is_finite() {
            return Err(line.bad_field(FARE, "an amount of dollars"));
        }
        let Some(row) = date.day_of_2019().and_then(|day| counts.get_mut(day)) else { continue };
        if line.text(MONTH) != date.month_text() || fare <= 0.0 {
            continue;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // positive; too large an amount is in no cell
        if let Some(count) = row.get_mut(fare as usize) {
            *count += 1;
        }
    }
    let labels = (0..FARES).map(|dollars| format!("${dollars}")).collect();
    let stream = CountStream::new("nyc_taxi_ge", labels, counts);
    let stand_in = "MTSP-LDP's taxi stream (trips of 2024, 139,713 users): a sample of trips of 2019, some 330 a day";
    Ok(stream.map_err(|source| DataError::Stream { file, source })?.standing_in_for(stand_in))
}

struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    fn of(line: &Line<'_>) -> Result<Self, DataError> {
        let parse = |text: &str| -> Option<Self> {
            let mut parts = text.get(..10)?.splitn(3, '-').map(|part| part.parse().ok());
            let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
            ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(Self { year, month, day })
        };
        parse(line.text(PICKUP)).ok_or_else(|| line.bad_field(PICKUP, "a date and a time: 2019-01-31 23:59:59"))
    }

    fn month_text(&self) -> String {
        format!("{}-{:02}", self.year, self.month)
    }

    /// How many days of 2019 lie before this one.
    fn day_of_2019(&self) -> Option<usize> {
        const MONTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let before: u32 = MONTHS.iter().take(self.month as usize - 1).sum();
        (self.year == 2019).then_some((before + self.day - 1) as usize)
    }
}
