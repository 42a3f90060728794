//! `foursquare_nyc_stan`: check-ins of Foursquare users in New York, to the minute, as released with STAN.
//!
//! The folder holds `checkins.csv.gz` (user, place and minute of 147,938 check-ins by 1083 users in 319 days) and
//! `poi.csv` (latitude and longitude of each place).
//!
//! The stream has a timestamp a day. A user's value is the cell of the last check-in so far, or 0 before the first. The
//! cells are numbered 1 to 100, by rows from the south-west, in a grid of 10 x 10 over the box 40.55..41.00° N,
//! 74.28..73.68° W, which holds the city. The papers use the world-wide data of some 266,000 users.

use std::collections::HashMap;
use std::path::Path;

use tidegate_table::{Format, TableError, TableLine, TableReader};

use super::DatasetError;
use super::files::open_data;
use super::last_known::{NOT_SEEN, Sighting, counts};
use crate::stream::CountStream;

const SIDE: u32 = 10;
const SOUTH_NORTH: (f64, f64) = (40.55, 41.00);
const WEST_EAST: (f64, f64) = (-74.28, -73.68);
const MINUTES_A_DAY: u32 = 24 * 60;
/// A hundred years: beyond it a minute is a mistake, and would only make the stream too long to hold.
const MINUTES: u32 = 100 * 366 * MINUTES_A_DAY;

pub(super) const STANDS_IN_FOR: &str = "the papers' Foursquare stream (world-wide, 77 countries or 415 cities, some \
                                        266,000 users): New York only, 100 cells, 1083 users";

pub(super) fn load(folder: &Path) -> Result<CountStream, DatasetError> {
    let cells = cells_of_places(&folder.join("poi.csv"))?;
    let path = folder.join("checkins.csv.gz");
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
    table.expect_header(&["user", "poi", "minute"])?;
    let mut sightings = Vec::new();
    while let Some(line) = table.next_line()? {
        let user = line.number(0, "the number of a user")?;
        let place: u32 = line.number(1, "the number of a place")?;
        let minute = line.between(2, 0, MINUTES, "a minute, within a hundred years")?;
        let value = *cells.get(&place).ok_or_else(|| line.bad_field(1, "the number of a place that poi.csv has"))?;
        sightings.push(Sighting { slot: minute / MINUTES_A_DAY, moment: minute, user, value });
    }
    let cell = |number: u32| format!("cell {number}");
    let labels: Vec<_> = std::iter::once(NOT_SEEN.to_owned()).chain((1..=SIDE * SIDE).map(cell)).collect();
    let rows = counts(sightings, labels.len(), usize::MAX);
    let stream = CountStream::new("foursquare_nyc_stan", labels, rows);
    Ok(stream.map_err(|source| DatasetError::Stream { file, source })?.standing_in_for(STANDS_IN_FOR))
}

fn cells_of_places(path: &Path) -> Result<HashMap<u32, u32>, DatasetError> {
    let mut table = TableReader::new(path.display().to_string(), open_data(path)?, Format::Csv)?;
    table.expect_header(&["poi", "lat", "lon"])?;
    let mut cells = HashMap::new();
    while let Some(line) = table.next_line()? {
        let place = line.number(0, "the number of a place")?;
        let row = step(&line, 1, SOUTH_NORTH, "a latitude between 40.55 and 41.00")?;
        let column = step(&line, 2, WEST_EAST, "a longitude between -74.28 and -73.68")?;
        cells.insert(place, 1 + row * SIDE + column);
    }
    Ok(cells)
}

/// Which of the steps between two borders a coordinate lies in.
fn step(
    line: &TableLine<'_>,
    field: usize,
    (low, high): (f64, f64),
    expected: &'static str,
) -> Result<u32, TableError> {
    let coordinate: f64 = line.number(field, expected)?;
    if !(low..high).contains(&coordinate) {
        return Err(line.bad_field(field, expected));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and SIDE
    let step = ((coordinate - low) / (high - low) * f64::from(SIDE)) as u32;
    // Rounding may lift a coordinate just below the border onto it.
    Ok(step.min(SIDE - 1))
}
